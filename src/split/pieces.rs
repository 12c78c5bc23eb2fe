//! Which sections of an object are divided, into what, and under which names: a summary of the same object whose atoms are the
//! sections of the divided one.
//!
//! Functions are the atoms of sections of code. Those of sections of data are taken where every reference means one object of
//! them; a part that stands for the whole section (a *hub*, to which references lead that may mean any of its objects) needs the
//! others to stay where they are, which no linker would see. Jump tables are cut off ([`tables`](super::tables)).

use std::collections::BTreeMap;

use summaries::{
    Atom, AtomIdx, AtomKind, Binding, Definition, ModuleSummary, OwnedRange, ReferenceKind, Retarget, Symbol,
    SymbolKind, Target, atom_flags,
};

use super::relocations::BySection;
use super::tables::{Cut, cuts};
use super::{Options, names};

/// A summary whose atoms become sections, and their names.
pub(super) struct Pieces {
    pub(super) summary: ModuleSummary,
    /// By `AtomIdx`; `None` for what is of a section that stays whole.
    pub(super) names: Vec<Option<Box<[u8]>>>,
}

/// How the object is divided. Without `relocations` (those by section symbol, sorted by the section that they name) tables stay
/// where they are.
pub(super) fn choose(
    bytes: &[u8],
    summary: &ModuleSummary,
    relocations: Option<&[BySection]>,
    options: Options,
) -> Pieces {
    let cuts = relocations.map_or_else(Vec::new, |r| cuts(bytes, summary, r));
    let functions = labels(summary);
    let owners: BTreeMap<(u32, u64), Option<&Symbol>> = cuts
        .iter()
        .flat_map(|cut| cut.pieces.iter().map(move |p| (cut.section, p)))
        .map(|(section, p)| ((section, p.start), p.owner.and_then(|o| functions.get(o).copied().flatten())))
        .collect();
    let summary = divided(summary, &cuts);
    let labels = labels(&summary);
    let mut all = vec![None; summary.atoms.len()];
    let mut next = 0;
    for atoms in summary.atoms.chunk_by(|a, b| a.section == b.section) {
        let range = next..next + atoms.len();
        next = range.end;
        let Some(first) = atoms.first().filter(|a| a.section != Atom::NO_SECTION && atoms.len() > 1) else {
            continue;
        };
        let cut = cuts.binary_search_by_key(&first.section, |c| c.section).is_ok();
        let divides = match first.kind {
            AtomKind::Code => true,
            _ => cut || options.data && !has_hub(&summary, range.clone()),
        };
        if !divides || !may_be_divided(&summary, first) {
            continue;
        }
        for ((index, atom), name) in range.clone().zip(atoms).zip(all.iter_mut().skip(range.start)) {
            let label = match owners.get(&(atom.section, atom.offset)) {
                Some(owner) => *owner,
                None => labels.get(index).copied().flatten(),
            };
            let symbol = label.map_or(&[][..], |symbol| summary.name(symbol.name));
            *name = Some(names::of_part(summary.name(first.name), symbol).into_boxed_slice());
        }
    }
    Pieces { summary, names: all }
}

/// Whether the name of a section lets it be divided: a program may find others by theirs, and of `.gnu.linkonce.*` linkers take one
/// of each name.
pub(super) fn may_be_divided(summary: &ModuleSummary, atom: &Atom) -> bool {
    atom.has(atom_flags::STANDARD_FAMILY)
        && !atom.has(atom_flags::C_IDENTIFIER | atom_flags::RETAIN)
        && !summary.name(atom.name).starts_with(b".gnu.linkonce.")
}

/// Whether one of these atoms, all of a section, refers to all the others from its first byte, as a hub does.
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

/// By atom: the symbol after which it is named. A name that other modules see comes before one that they don't.
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

/// The summary with the atoms of cut sections replaced by their pieces. It keeps what emission reads.
fn divided(summary: &ModuleSummary, cuts: &[Cut]) -> ModuleSummary {
    if cuts.is_empty() {
        return summary.clone();
    }
    let cut_of =
        |section: u32| cuts.binary_search_by_key(&section, |c| c.section).ok().and_then(|i| cuts.get(i));
    let mut new = ModuleSummary { atoms: Vec::new(), retargets: Vec::new(), ..summary.clone() };
    // By old atom of sections that are not cut.
    let mut moved = vec![AtomIdx::new(0); summary.atoms.len()];
    let mut places: BTreeMap<(u32, u64), AtomIdx> = BTreeMap::new();
    let mut before = None;
    for (old, moved) in summary.atoms.iter().zip(&mut moved) {
        *moved = AtomIdx::new(new.atoms.len());
        let Some(cut) = cut_of(old.section) else {
            new.atoms.push(old.clone());
            continue;
        };
        if before.replace(old.section) == Some(old.section) {
            continue;
        }
        let of_section = summary.atoms.iter().filter(|a| a.section == old.section);
        let size = of_section.map(|a| a.offset.saturating_add(a.size)).max().unwrap_or(0);
        let ends = cut.pieces.iter().skip(1).map(|p| p.start).chain([size]);
        for (piece, end) in cut.pieces.iter().zip(ends) {
            let align = match piece.start {
                0 => old.align,
                start => old.align.min(1 << start.trailing_zeros()),
            };
            places.insert((old.section, piece.start), AtomIdx::new(new.atoms.len()));
            let size = end.saturating_sub(piece.start);
            new.atoms.push(Atom { offset: piece.start, size, align, ..old.clone() });
        }
    }
    let at = |section: u32, offset: u64| {
        places.range((section, 0)..=(section, offset)).next_back().map(|(_, atom)| *atom)
    };
    let of_atom = |atom: AtomIdx, offset: u64| {
        let section = summary.atoms.get(atom.index()).map_or(Atom::NO_SECTION, |a| a.section);
        let unmoved = moved.get(atom.index()).copied().unwrap_or(atom);
        at(section, offset).unwrap_or(unmoved)
    };
    for symbol in &mut new.symbols {
        symbol.definition = match symbol.definition {
            Definition::Atom(atom) => Definition::Atom(of_atom(atom, symbol.value)),
            Definition::Common(atom) => Definition::Common(of_atom(atom, 0)),
            other => other,
        };
    }
    for atom in &mut new.atoms {
        atom.link_order = atom.link_order.map(|a| of_atom(a, 0));
    }
    for member in new.groups.iter_mut().flat_map(|g| &mut g.members) {
        *member = of_atom(*member, 0);
    }
    for resolved in &mut new.resolved {
        resolved.from = of_atom(resolved.from, 0);
        resolved.target = of_atom(resolved.target, 0);
    }
    for owned in &mut new.owned {
        *owned =
            OwnedRange { atom: of_atom(owned.atom, owned.start), owner: of_atom(owned.owner, 0), ..*owned };
    }
    for reference in &mut new.references {
        reference.from = of_atom(reference.from, 0);
        if let Target::Atom(atom) = reference.target {
            reference.target = Target::Atom(of_atom(atom, 0));
        }
    }
    let is_cut =
        |r: &&Retarget| summary.atoms.get(r.target.index()).is_some_and(|a| cut_of(a.section).is_some());
    let kept = summary.retargets.iter().filter(|r| !is_cut(r));
    new.retargets = kept.map(|r| Retarget { target: of_atom(r.target, 0), ..*r }).collect();
    for cut in cuts {
        let meanings = cut.meanings.iter().filter_map(|((section, offset), start)| {
            Some(Retarget { section: *section, offset: *offset, target: at(cut.section, *start)? })
        });
        new.retargets.extend(meanings);
    }
    new.retargets.sort_unstable();
    new
}
