//! Whether a summary agrees with the headers of its object: the sections, symbols and groups, which say what is a root.
//!
//! No instruction and no relocation is read, so that this takes a small part of the time of a summary.

use super::tables::{Result, Tables};
use super::{check_overlap, groups, section_atoms, symbols};
use crate::summary::{Atom, AtomKind, Definition, ModuleKind, ModuleSummary, Symbol, atom_flags};

/// The [`atom_flags`] that the front end reads from headers.
const OF_HEADERS: u32 = atom_flags::RETAIN
    | atom_flags::LINK_ORDER
    | atom_flags::C_IDENTIFIER
    | atom_flags::MERGE
    | atom_flags::STRINGS
    | atom_flags::WRITE
    | atom_flags::EXEC
    | atom_flags::GROUPED
    | atom_flags::STANDARD_FAMILY
    | atom_flags::EXCLUDED;

/// Whether the summary says of sections, symbols and groups what the object says.
pub(crate) fn agrees(bytes: &[u8], summary: &ModuleSummary) -> bool {
    summary.kind == ModuleKind::Native && headers(bytes).is_ok_and(|object| agree(&object, summary))
}

/// A summary at the granularity of sections, without its references.
fn headers(bytes: &[u8]) -> Result<ModuleSummary> {
    let mut tables = Tables::read(bytes)?;
    check_overlap(&tables)?;
    let mut limits = Vec::new();
    let (mut atoms, by_section) = section_atoms(&tables, &mut limits, &mut false)?;
    let sections_end = atoms.len();
    let symbols = symbols::read(&mut tables, &by_section, &mut atoms)?;
    let groups = groups::read(&tables, &by_section, &mut atoms)?;
    groups::read_link_order(&tables, &by_section, atoms.get_mut(..sections_end).unwrap_or(&mut []))?;
    Ok(ModuleSummary { names: tables.names, symbols, atoms, groups, limits, ..ModuleSummary::opaque() })
}

fn agree(object: &ModuleSummary, summary: &ModuleSummary) -> bool {
    let is_told = |limit| summary.limits.iter().any(|record| record.limit == limit);
    let groups = || object.groups.iter().zip(&summary.groups);
    let symbols = || object.symbols.iter().zip(&summary.symbols);
    // Names in one endless string are long, so the strings are compared once.
    object.names == summary.names
        && object.limits.iter().all(|record| is_told(record.limit))
        && object.groups.len() == summary.groups.len()
        && groups().all(|(a, b)| (a.section, a.signature, a.comdat) == (b.section, b.signature, b.comdat))
        && atoms_agree(object, summary)
        && object.symbols.len() == summary.symbols.len()
        && symbols().all(|(symbol, stated)| symbol_agrees(object, symbol, summary, stated))
}

/// Whether the parts of each section cover it and have its properties.
fn atoms_agree(object: &ModuleSummary, summary: &ModuleSummary) -> bool {
    let ordered_after = |of: &ModuleSummary, atom: &Atom| {
        atom.link_order.and_then(|to| of.atoms.get(to.index())).map(|to| to.section)
    };
    let mut parts = summary.atoms.iter().peekable();
    for whole in &object.atoms {
        let mut covered = 0;
        while let Some(part) = parts.next_if(|part| part.section == whole.section) {
            let is_part = part.kind == whole.kind
                && part.flags & OF_HEADERS == whole.flags & OF_HEADERS
                && part.group == whole.group
                && part.align <= whole.align
                && ordered_after(summary, part) == ordered_after(object, whole)
                && part.name == whole.name
                && part.offset == covered;
            let Some(end) = covered.checked_add(part.size).filter(|_| is_part) else { return false };
            covered = end;
            if whole.kind == AtomKind::Common {
                break;
            }
        }
        if covered != whole.size {
            return false;
        }
    }
    parts.next().is_none()
}

fn symbol_agrees(object: &ModuleSummary, symbol: &Symbol, summary: &ModuleSummary, stated: &Symbol) -> bool {
    let is_defined_so = match (symbol.definition, stated.definition) {
        (Definition::Atom(whole), Definition::Atom(part)) => {
            let section = object.atoms.get(whole.index()).map_or(Atom::NO_SECTION, |atom| atom.section);
            let place = (section, symbol.value);
            let behind = summary.atoms.partition_point(|atom| (atom.section, atom.offset) <= place);
            behind.checked_sub(1) == Some(part.index())
                && summary.atoms.get(part.index()).is_some_and(|atom| atom.section == section)
        }
        // Commons are the last atoms, and not divided.
        (Definition::Common(a), Definition::Common(b)) => {
            object.atoms.len().checked_sub(a.index()) == summary.atoms.len().checked_sub(b.index())
        }
        (a, b) => a == b,
    };
    is_defined_so
        && symbol.name == stated.name
        && (symbol.binding, symbol.visibility, symbol.kind, symbol.value, symbol.size)
            == (stated.binding, stated.visibility, stated.kind, stated.value, stated.size)
}
