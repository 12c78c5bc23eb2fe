//! The inputs of a report, and the names of kinds, limits, outcomes and atoms in it.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use summaries::{
    AtomKind, Binding, Definition, LimitRecord, ModuleKind, ModuleSummary, Severity, SymbolIdx, SymbolKind,
};

use crate::config::{Config, Flavor, Icf, Level};
use crate::error::lossy;
use crate::ids::{AtomId, ModuleId};
use crate::index::{EdgeKind, Index, RemovedUnwind};
use crate::inputs::Inputs;
use crate::plan::Plan;
use crate::propagate::Liveness;
use crate::propagate::values::ValueFlow;
use crate::resolve::Resolution;
use crate::terminal::printable;

/// A word of a fixed list, owned if it was read.
pub type FixedWord = Cow<'static, str>;

pub(crate) fn flavor_name(flavor: Flavor) -> &'static str {
    match flavor {
        Flavor::Lld => "lld",
        Flavor::Mold => "mold",
        Flavor::Bfd => "bfd",
        Flavor::Gold => "gold",
        Flavor::Wild => "wild",
    }
}

pub(super) fn icf_name(icf: Icf) -> &'static str {
    match icf {
        Icf::None => "none",
        Icf::Safe => "safe",
        Icf::All => "all",
    }
}

pub(super) fn level_name(level: Level) -> &'static str {
    match level {
        Level::Sections => "sections",
        Level::Functions => "functions",
        Level::Pointers => "pointers",
    }
}

pub(super) fn severity_name(severity: Severity) -> &'static str {
    match severity {
        Severity::Function => "function",
        Severity::Section => "section",
        Severity::Values => "values",
        Severity::Module => "module",
        Severity::Link => "link",
    }
}

/// Stable name of an edge's kind.
pub fn edge_kind_name(kind: EdgeKind) -> &'static str {
    match kind {
        EdgeKind::Call => "call",
        EdgeKind::Address => "address",
        EdgeKind::Data => "data",
        EdgeKind::Got => "got",
        EdgeKind::Tls => "tls",
        EdgeKind::Unwind => "unwind",
        EdgeKind::Group => "group",
        EdgeKind::LinkOrder => "link-order",
        EdgeKind::StartStop => "start-stop",
        EdgeKind::SameName => "same-name",
    }
}

pub(crate) fn atom_kind_name(kind: AtomKind) -> &'static str {
    match kind {
        AtomKind::Code => "code",
        AtomKind::ReadOnlyData => "rodata",
        AtomKind::Data => "data",
        AtomKind::Bss => "bss",
        AtomKind::TlsData => "tls-data",
        AtomKind::TlsBss => "tls-bss",
        AtomKind::InitFini => "init-fini",
        AtomKind::Note => "note",
        AtomKind::Lsda => "lsda",
        AtomKind::Common => "common",
        AtomKind::Debug => "debug",
        AtomKind::NonAlloc => "non-alloc",
    }
}

pub(super) fn module_kind_name(kind: ModuleKind) -> &'static str {
    match kind {
        ModuleKind::Native => "native",
        ModuleKind::Bitcode => "bitcode",
        ModuleKind::Opaque => "opaque",
    }
}

pub(super) fn symbol_kind_name(kind: SymbolKind) -> &'static str {
    match kind {
        SymbolKind::NoType => "notype",
        SymbolKind::Object => "object",
        SymbolKind::Func => "function",
        SymbolKind::Section => "section",
        SymbolKind::File => "file",
        SymbolKind::Common => "common",
        SymbolKind::Tls => "tls",
        SymbolKind::Ifunc => "ifunc",
        SymbolKind::Other => "other",
    }
}

pub(super) fn binding_name(binding: Binding) -> &'static str {
    match binding {
        Binding::Local => "local",
        Binding::Global => "global",
        Binding::Weak => "weak",
        Binding::Unique => "unique",
    }
}

/// Names of the kinds, by the codes in [`GraphReport::kind`](super::graph::GraphReport::kind).
pub(super) const KINDS: [&str; 15] = [
    "call",
    "address",
    "data",
    "got",
    "tls",
    "unwind",
    "group",
    "link-order",
    "start-stop",
    "same-name",
    "called",
    "escaped",
    "part",
    "label",
    "unknown",
];

/// Position of a name in [`KINDS`].
pub(super) fn code(name: &str) -> u8 {
    KINDS.iter().position(|k| *k == name).unwrap_or(KINDS.len() - 1) as u8
}

/// The results of all passes, as inputs of the report.
#[derive(Clone, Copy)]
pub struct Facts<'s> {
    pub config: &'s Config,
    pub inputs: &'s Inputs,
    pub resolution: &'s Resolution<'s>,
    /// The elements are in load order.
    pub summaries: &'s [&'s ModuleSummary],
    pub index: &'s Index,
    pub liveness: &'s Liveness,
    /// The results of value flow; empty below the level `pointers`.
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

/// Something that a link did not do: the reason, and an action that changes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotDone {
    pub reason: String,
    /// It is null if no action helps.
    pub action: Option<String>,
}

impl NotDone {
    pub(super) fn new(reason: impl Into<String>, action: &str) -> Self {
        NotDone { reason: reason.into(), action: Some(action.to_owned()) }
    }

    /// The reason and the action, in one line.
    pub fn sentence(&self) -> String {
        match &self.action {
            Some(action) => format!("{}; {action}", self.reason),
            None => self.reason.clone(),
        }
    }
}
