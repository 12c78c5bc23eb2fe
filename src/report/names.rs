//! Stable names of kinds, limits and outcomes, as reports have them; those of atoms are their symbols.

use summaries::{AtomKind, Binding, ModuleKind, SymbolKind};

use crate::config::Icf;

pub(super) fn flavor_name(flavor: crate::config::Flavor) -> &'static str {
    use crate::config::Flavor;
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

pub(super) fn level_name(level: crate::config::Level) -> &'static str {
    use crate::config::Level;
    match level {
        Level::Sections => "sections",
        Level::Functions => "functions",
        Level::Pointers => "pointers",
    }
}

pub(super) fn severity_name(severity: summaries::Severity) -> &'static str {
    match severity {
        summaries::Severity::Function => "function",
        summaries::Severity::Section => "section",
        summaries::Severity::Values => "values",
        summaries::Severity::Module => "module",
        summaries::Severity::Link => "link",
    }
}

/// Stable name of an edge's kind.
pub fn edge_kind_name(kind: crate::index::EdgeKind) -> &'static str {
    use crate::index::EdgeKind;
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
