//! The inputs of a report, and the names of kinds, limits, outcomes and atoms in it.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use summaries::{
    AtomIdx, AtomKind, Binding, Definition, LimitRecord, ModuleKind, ModuleSummary, Severity, SymbolIdx,
    SymbolKind,
};

use crate::config::Config;
use crate::error::lossy;
use crate::ids::{AtomId, Id, ModuleId};
use crate::index::{EdgeKind, Index, RemovedUnwind};
use crate::inputs::Inputs;
use crate::plan::Plan;
use crate::propagate::Liveness;
use crate::propagate::values::{EscapeReason, GivenUp, OverdefinedReason, ValueFlow};
use crate::resolve::Resolution;
use crate::terminal::printable;

/// A word of a fixed list, owned if it was read.
pub type FixedWord = Cow<'static, str>;

/// The words of reports for the values of enums of other crates and passes.
macro_rules! words {
    ($($vis:vis $name:ident, $ty:ident { $($value:ident = $word:literal,)* })*) => {$(
        $vis fn $name(value: $ty) -> &'static str {
            match value { $($ty::$value => $word,)* }
        }
    )*};
}

words! {
    pub(super) severity_name, Severity {
        Function = "function", Section = "section", Values = "values", Module = "module", Link = "link",
    }
    pub edge_kind_name, EdgeKind {
        Call = "call", Address = "address", Data = "data", Got = "got", Tls = "tls", Unwind = "unwind", Group = "group",
        LinkOrder = "link-order", StartStop = "start-stop", SameName = "same-name",
    }
    pub(super) atom_kind_name, AtomKind {
        Code = "code", ReadOnlyData = "rodata", Data = "data", Bss = "bss", TlsData = "tls-data", TlsBss = "tls-bss",
        InitFini = "init-fini", Note = "note", Lsda = "lsda", Common = "common", Debug = "debug", NonAlloc = "non-alloc",
    }
    pub(super) module_kind_name, ModuleKind { Native = "native", Bitcode = "bitcode", Opaque = "opaque", }
    pub(super) symbol_kind_name, SymbolKind {
        NoType = "notype", Object = "object", Func = "function", Section = "section", File = "file", Common = "common",
        Tls = "tls", Ifunc = "ifunc", Other = "other",
    }
    pub(super) binding_name, Binding { Local = "local", Global = "global", Weak = "weak", Unique = "unique", }
    pub(super) cause_name, OverdefinedReason {
        FrontEnd = "not-modelled", Parameter = "parameter", Memory = "memory", Result = "result", Outside = "outside",
        Budget = "value-flow-budget",
    }
    pub(super) escape_name, EscapeReason {
        Unfollowed = "unfollowed", FrontEnd = "not-modelled", CalleeWithoutSummary = "unseen-callee",
        OverdefinedCallee = "unknown-callee", Stored = "stored", Returned = "returned", Library = "library",
    }
    pub(super) given_up_name, GivenUp {
        Nothing = "nothing", Objects = "objects", Memory = "memory", Values = "values",
    }
}

/// Names of the kinds, by the codes in [`GraphReport::kind`](super::graph::GraphReport::kind).
#[rustfmt::skip]
pub(super) const KINDS: [&str; 15] = [
    "call", "address", "data", "got", "tls", "unwind", "group", "link-order", "start-stop", "same-name", "called",
    "escaped", "part", "label", "unknown",
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

impl Facts<'_> {
    /// Whether the linker's own `--gc-sections` leaves an atom in the plain link.
    pub(super) fn is_linked(&self, atom: AtomId) -> bool {
        !self.config.gc_sections || self.linker_live[atom.index()]
    }
}

/// The names of the functions and objects of an atom.
pub(super) fn symbols_of(summary: &ModuleSummary, atom: AtomIdx) -> impl Iterator<Item = String> {
    summary.symbols.iter().enumerate().filter_map(move |(i, s)| {
        let here = matches!(s.definition, Definition::Atom(a) | Definition::Common(a) if a == atom);
        let plain = !matches!(s.kind, SymbolKind::Section | SymbolKind::File) && s.name.len > 0;
        (here && plain).then(|| lossy(summary.symbol_name(SymbolIdx::new(i))))
    })
}

/// The name of an atom for a person: its first function or object, else its section, with its module.
pub fn describe(facts: Facts<'_>, atom: AtomId) -> String {
    let (position, local) = facts.index.locate(atom);
    let summary = facts.summaries[position];
    let module = facts.inputs.module_name(facts.resolution.loaded[position]);
    let section = lossy(summary.name(summary.atoms[local.index()].name));
    match symbols_of(summary, local).next() {
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
