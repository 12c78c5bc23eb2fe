//! The atoms of divided sections, and the tables of a summary that a division gives.
//!
//! Each part has the name, kind, flags and group of its section. Its alignment is the largest that its place in the
//! section guaranteed. [`super::split`] decides the division.

use super::split::Division;
use super::symbols::SectionAtoms;
use crate::ids::AtomIdx;
use crate::summary::{
    Atom, Definition, Group, OwnedRange, Reference, ReferenceKind, ResolvedReference, Retarget, Symbol,
    Target,
};

/// The tables of a summary about divided sections.
pub(crate) struct SplitTables {
    pub(crate) resolved: Vec<ResolvedReference>,
    pub(crate) owned: Vec<OwnedRange>,
    pub(crate) retargets: Vec<Retarget>,
}

/// Replace the atom of each divided section by its parts, and renumber the atoms.
pub(crate) fn divide(
    division: &Division,
    atoms: &mut Vec<Atom>,
    by_section: &mut SectionAtoms,
    symbols: &mut [Symbol],
    groups: &mut [Group],
) {
    let old = std::mem::take(atoms);
    // By old number, the first of the new atoms.
    let mut moved = Vec::with_capacity(old.len());
    for atom in old {
        moved.push(AtomIdx::new(atoms.len()));
        let parts = division.parts.binary_search_by_key(&atom.section, |(section, _)| *section);
        let Some((_, starts)) = parts.ok().and_then(|p| division.parts.get(p)) else {
            atoms.push(atom);
            continue;
        };
        let ends = starts.iter().skip(1).copied().chain([atom.size]);
        for (start, end) in starts.iter().zip(ends) {
            let align = if *start == 0 { atom.align } else { atom.align.min(1 << start.trailing_zeros()) };
            atoms.push(Atom { offset: *start, size: end.saturating_sub(*start), align, ..atom.clone() });
        }
    }
    let new = |atom: AtomIdx| moved.get(atom.index()).copied().unwrap_or(atom);
    for slot in by_section.0.iter_mut().flatten() {
        *slot = new(*slot);
    }
    for atom in atoms.iter_mut() {
        atom.link_order = atom.link_order.map(new);
    }
    for ((section, start), after) in &division.orders {
        let ordered = by_section.at(atoms, *section, *start);
        let after = by_section.at(atoms, after.0, after.1);
        if let Some(atom) = ordered.and_then(|ordered| atoms.get_mut(ordered.index())) {
            atom.link_order = after;
        }
    }
    for symbol in symbols {
        symbol.definition = match symbol.definition {
            Definition::Atom(atom) => {
                let first = new(atom);
                let section = atoms.get(first.index()).map_or(Atom::NO_SECTION, |a| a.section);
                Definition::Atom(by_section.at(atoms, section, symbol.value).unwrap_or(first))
            }
            Definition::Common(atom) => Definition::Common(new(atom)),
            other => other,
        };
    }
    for group in groups {
        for member in &mut group.members {
            *member = new(*member);
        }
    }
}

/// The tables of a division, by atom.
pub(crate) fn tables(division: &Division, atoms: &[Atom], by_section: &SectionAtoms) -> SplitTables {
    let at = |(section, offset)| by_section.at(atoms, section, offset);
    let resolved = division.resolved.iter().filter_map(|r| {
        let (from, target) = (at((r.section, r.field))?, at((r.section, r.target))?);
        Some(ResolvedReference { section: r.section, field: r.field, from, target })
    });
    let owned = division.owned.iter().filter_map(|o| {
        let (atom, owner) = (at((o.section, o.start))?, at(o.owner)?);
        Some(OwnedRange { atom, start: o.start, end: o.end, owner })
    });
    let retargets = division.retargets.iter().filter_map(|((section, offset), target)| {
        Some(Retarget { section: *section, offset: *offset, target: at(*target)? })
    });
    SplitTables { resolved: resolved.collect(), owned: owned.collect(), retargets: retargets.collect() }
}

/// Append a reference for each resolved one, with the addend of the `R_X86_64_PC32` that would replace the field,
/// against the start of the target.
pub(crate) fn refer(
    division: &Division,
    resolved: &[ResolvedReference],
    atoms: &[Atom],
    references: &mut Vec<Reference>,
) {
    for (planned, resolved) in division.resolved.iter().zip(resolved) {
        let start = atoms.get(resolved.target.index()).map_or(0, |a| a.offset);
        let into = planned.target.saturating_sub(start) as i64;
        let behind = planned.end.saturating_sub(planned.field) as i64;
        references.push(Reference {
            from: resolved.from,
            offset: resolved.field,
            kind: if planned.branch { ReferenceKind::Call } else { ReferenceKind::Address },
            target: Target::Atom(resolved.target),
            addend: into - behind,
        });
    }
}

/// Append the references of hubs to all other parts of their sections.
pub(crate) fn connect(
    division: &Division,
    atoms: &[Atom],
    by_section: &SectionAtoms,
    references: &mut Vec<Reference>,
) {
    for (section, start) in &division.hubs {
        let first = by_section.get(*section).map_or(0, AtomIdx::index);
        let Some(from) = by_section.at(atoms, *section, *start) else { continue };
        let parts = atoms.iter().enumerate().skip(first).take_while(|(_, a)| a.section == *section);
        let others = parts.map(|(i, _)| AtomIdx::new(i)).filter(|a| *a != from);
        references.extend(others.map(|target| Reference {
            from,
            offset: *start,
            kind: ReferenceKind::Data,
            target: Target::Atom(target),
            addend: 0,
        }));
    }
}
