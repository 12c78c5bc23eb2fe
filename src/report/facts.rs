//! What a report is made of: the frozen results of all passes, borrowed, and the name of an atom for a person.
//!
//! Left out: the serialised form, see [`schema`](super::schema).

use summaries::{Definition, LimitRecord, ModuleSummary, SymbolIdx, SymbolKind};

use crate::config::Config;
use crate::error::lossy;
use crate::ids::{AtomId, ModuleId};
use crate::index::{Index, RemovedUnwind};
use crate::inputs::Inputs;
use crate::plan::Plan;
use crate::propagate::Liveness;
use crate::propagate::values::ValueFlow;
use crate::resolve::Resolution;
use crate::terminal::printable;

/// What the report is made of.
#[derive(Clone, Copy)]
pub struct Facts<'s> {
    pub config: &'s Config,
    pub inputs: &'s Inputs,
    pub resolution: &'s Resolution<'s>,
    /// The elements are in load order.
    pub summaries: &'s [&'s ModuleSummary],
    pub index: &'s Index,
    pub liveness: &'s Liveness,
    /// What value flow found beside it; empty below the level `pointers`.
    pub flow: &'s ValueFlow,
    /// The elements are those of [`crate::index::Index::plain_live`], by atom.
    pub linker_live: &'s [bool],
    pub plan: &'s Plan,
    pub limits: &'s [(Option<ModuleId>, LimitRecord)],
    /// The unwind entries that are removed, or could be.
    pub unwind: Option<&'s RemovedUnwind>,
}

/// The name of an atom for a person: its first function or object, else its section, with its module.
pub fn describe(facts: Facts<'_>, atom: AtomId) -> String {
    let (position, local) = facts.index.locate(atom);
    let summary = facts.summaries[position];
    let module = facts.inputs.module_name(facts.resolution.loaded[position]);
    let named = |(i, s): (usize, &summaries::Symbol)| {
        let here = matches!(s.definition, Definition::Atom(a) | Definition::Common(a) if a == local);
        let plain = !matches!(s.kind, SymbolKind::Section | SymbolKind::File) && s.name.len > 0;
        (here && plain).then(|| lossy(summary.symbol_name(SymbolIdx::new(i))))
    };
    let section = lossy(summary.name(summary.atoms[local.index()].name));
    match summary.symbols.iter().enumerate().find_map(named) {
        Some(symbol) => format!("{symbol} ({}:({section}))", printable(&module)),
        None => format!("{}:({section})", printable(&module)),
    }
}

/// Whether a module is one of the start and end files that compiler drivers add to each link.
pub(super) fn is_start_file(facts: Facts<'_>, module: ModuleId) -> bool {
    let module = &facts.inputs.modules[module];
    let name = facts.inputs.files[module.file].path.file_name().and_then(|name| name.to_str());
    module.archive.is_none() && name.is_some_and(is_start_file_name)
}

/// Whether a file without its folder has the name of one of these.
pub(crate) fn is_start_file_name(name: &str) -> bool {
    let stem = name.strip_suffix(".o").unwrap_or_default();
    let is_crt = ["crt1", "Scrt1", "gcrt1", "grcrt1", "Mcrt1", "rcrt1", "crti", "crtn"].contains(&stem);
    is_crt || stem.starts_with("crtbegin") || stem.starts_with("crtend") || stem.starts_with("crtfast")
}
