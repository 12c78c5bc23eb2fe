//! The sections of an object that are divided, and their new names: each atom of the summary becomes a section.
//!
//! Functions are the atoms of sections of code. A section of data is divided if every reference means one object of
//! it. It is kept whole if an atom is a *hub*, which stands for references to any object of the section. A hub needs
//! all objects in their places. Jump tables that one function reads are cut off in both cases.

use std::collections::BTreeMap;

use summaries::{
    Atom, AtomKind, Binding, Definition, ModuleSummary, OwnedRange, ReferenceKind, Symbol, SymbolKind,
    Target, atom_flags,
};

use super::names;
use super::options::SplitOptions;

/// The largest padding before or behind a table, in bytes.
const MAX_PADDING: u64 = 7;

/// The names of the sections that atoms become, by `AtomIdx`; `None` for an atom of an undivided section.
pub(super) type Pieces = Vec<Option<Box<[u8]>>>;

/// Decide how an object is divided. Without `tables`, jump tables are not cut off.
pub(super) fn choose(summary: &ModuleSummary, tables: bool, options: SplitOptions) -> Pieces {
    let labels = labels(summary);
    let owners = if tables { owners(summary) } else { BTreeMap::new() };
    let mut all = vec![None; summary.atoms.len()];
    let mut next = 0;
    for atoms in summary.atoms.chunk_by(|a, b| a.section == b.section) {
        let range = next..next + atoms.len();
        next = range.end;
        let Some(first) = atoms.first().filter(|a| a.section != Atom::NO_SECTION && atoms.len() > 1) else {
            continue;
        };
        let divides = match first.kind {
            AtomKind::Code => true,
            _ => {
                range.clone().any(|i| owners.contains_key(&i))
                    || options.data && !has_hub(summary, range.clone())
            }
        };
        if !divides || !may_be_divided(summary, first) {
            continue;
        }
        for (index, name) in range.clone().zip(all.iter_mut().skip(range.start)) {
            // Without `--data`, the rest of a section with tables keeps its name.
            let label = match owners.get(&index) {
                Some(owner) => labels.get(*owner).copied().flatten(),
                None if first.kind != AtomKind::Code && !options.data => None,
                None => labels.get(index).copied().flatten(),
            };
            let symbol = label.map_or(&[][..], |symbol| summary.name(symbol.name));
            *name = Some(names::of_part(summary.name(first.name), symbol).into_boxed_slice());
        }
    }
    all
}

/// The atoms that are a jump table with its padding, with their owners.
fn owners(summary: &ModuleSummary) -> BTreeMap<usize, usize> {
    let is_whole = |owned: &&OwnedRange| {
        summary.atoms.get(owned.atom.index()).is_some_and(|atom| {
            let end = atom.offset.saturating_add(atom.size);
            owned.start.abs_diff(atom.offset) <= MAX_PADDING && end.abs_diff(owned.end) <= MAX_PADDING
        })
    };
    summary.owned.iter().filter(is_whole).map(|o| (o.atom.index(), o.owner.index())).collect()
}

/// Whether a section may be divided by its name: a program may find a section by its name, and linkers take one
/// `.gnu.linkonce.*` section of each name.
pub(super) fn may_be_divided(summary: &ModuleSummary, atom: &Atom) -> bool {
    atom.has(atom_flags::STANDARD_FAMILY)
        && !atom.has(atom_flags::C_IDENTIFIER | atom_flags::RETAIN)
        && !summary.name(atom.name).starts_with(b".gnu.linkonce.")
}

/// Whether one of these atoms of a section is a hub, which refers to all the others from its first byte.
pub(super) fn has_hub(summary: &ModuleSummary, atoms: std::ops::Range<usize>) -> bool {
    atoms.clone().any(|hub| {
        let Some(atom) = summary.atoms.get(hub) else { return false };
        let from = summary.references.partition_point(|r| r.from.index() < hub);
        let own = summary.references.get(from..).unwrap_or(&[]).iter();
        let own = own.take_while(|r| r.from.index() == hub && r.offset <= atom.offset);
        let mut others: Vec<usize> = own
            .filter(|r| (r.offset, r.kind, r.addend) == (atom.offset, ReferenceKind::Data, 0))
            .filter_map(|r| match r.target {
                Target::Atom(target) => Some(target.index()),
                Target::Symbol(_) => None,
            })
            .filter(|target| atoms.contains(target) && *target != hub)
            .collect();
        others.sort_unstable();
        others.dedup();
        others.len() + 1 == atoms.len()
    })
}

/// By atom: the symbol that gives its name. A name that other modules see is preferred.
fn labels(summary: &ModuleSummary) -> Vec<Option<&Symbol>> {
    let mut labels: Vec<Option<&Symbol>> = vec![None; summary.atoms.len()];
    let rank = |s: &Symbol| {
        let binding = match s.binding {
            Binding::Global | Binding::Unique => 0,
            Binding::Weak => 1,
            Binding::Local => 2,
        };
        (s.value, binding)
    };
    for symbol in &summary.symbols {
        let Definition::Atom(atom) = symbol.definition else { continue };
        let named = matches!(symbol.kind, SymbolKind::Func | SymbolKind::Ifunc | SymbolKind::Object);
        if let Some(label) = labels.get_mut(atom.index()).filter(|_| named && symbol.name.len > 0)
            && label.is_none_or(|other| rank(symbol) < rank(other))
        {
            *label = Some(symbol);
        }
    }
    labels
}
