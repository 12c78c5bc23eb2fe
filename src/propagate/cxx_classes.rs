//! Classes of C++ by their tables of virtual functions (Itanium C++ ABI, 2.5): those that do not say what they inherit from.

use summaries::{Atom, AtomIdx, AtomKind, Definition, ModuleSummary, ReferenceKind, Symbol};

/// The largest size of a table that does not say what its class inherits from, or 0.
pub(super) fn largest_untyped(summary: &ModuleSummary) -> u64 {
    let untyped = summary.symbols.iter().filter(|symbol| is_untyped_class(summary, symbol));
    untyped.map(|symbol| symbol.size).max().unwrap_or(0).max(unnamed_table(summary))
}

/// The size of the largest table of functions without a symbol, which may be a table of virtual functions in a stripped object.
fn unnamed_table(summary: &ModuleSummary) -> u64 {
    let mut named = vec![false; summary.atoms.len()];
    for symbol in summary.symbols.iter().filter(|symbol| !summary.name(symbol.name).is_empty()) {
        if let Definition::Atom(atom) = symbol.definition
            && let Some(named) = named.get_mut(atom.index())
        {
            *named = true;
        }
    }
    let is_table = |(at, atom): &(usize, &Atom)| {
        let is_data = atom.kind.is_alloc()
            && !matches!(atom.kind, AtomKind::Code | AtomKind::InitFini)
            && atom.kind != AtomKind::Lsda;
        let functions =
            || summary.references_of(AtomIdx::new(*at)).iter().filter(|r| r.kind == ReferenceKind::Data);
        !named[*at] && is_data && functions().count() > 1
    };
    let tables = summary.atoms.iter().enumerate().filter(is_table);
    tables.map(|(_, atom)| atom.size).max().unwrap_or(0)
}

/// Whether a symbol is a table of virtual functions without type information (`-fno-rtti`), so that it does not say what the class inherits from.
fn is_untyped_class(summary: &ModuleSummary, symbol: &Symbol) -> bool {
    let Definition::Atom(atom) = symbol.definition else { return false };
    let type_at = symbol.value.wrapping_add(8);
    summary.name(symbol.name).starts_with(b"_ZTV")
        && summary.references_of(atom).iter().all(|r| r.offset != type_at)
}
