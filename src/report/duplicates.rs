//! Atoms with the same contents: the same bytes, and references to the same things at the same places.
//!
//! Fields that the assembler resolved are not compared, since they hold the distance of their target. References to two local symbols
//! with the same bytes are equal, so atoms that differ two references away are duplicates here. An atom with a part of another atom
//! (a jump table) is not compared.

use rayon::prelude::*;
use summaries::{AtomIdx, AtomKind, Binding, Definition, ModuleSummary, Target};

use super::names::Facts;
use crate::hashing::hash;
use crate::ids::AtomId;

type Hash = [u8; 32];

/// Groups of two or more of the same contents, each ascending, by their first: positions in `atoms`. Atoms that a COMDAT
/// group of another module stands for are not in them.
pub(super) fn groups(facts: Facts<'_>) -> Vec<Vec<u32>> {
    let own: Vec<Vec<Option<Hash>>> =
        (0..facts.index.modules.len()).into_par_iter().map(|position| of_bytes(facts, position)).collect();
    let mut hashes: Vec<(Hash, u32)> = (0..facts.index.modules.len())
        .into_par_iter()
        .flat_map_iter(|position| {
            let first = facts.index.modules[position].first_atom;
            let count = facts.summaries[position].atoms.len() as u32;
            let own = &own;
            (0..count).filter_map(move |i| {
                let whole = with_references(facts, position, AtomIdx(i), own)?;
                Some((whole, first + i))
            })
        })
        .filter(|(_, atom)| !facts.index.discarded[*atom as usize])
        .collect();
    hashes.sort_unstable();
    let same = hashes.chunk_by(|a, b| a.0 == b.0).filter(|chunk| chunk.len() > 1);
    let mut groups: Vec<Vec<u32>> = same.map(|chunk| chunk.iter().map(|h| h.1).collect()).collect();
    groups.sort_unstable();
    groups
}

const COMPARED: [AtomKind; 5] =
    [AtomKind::Code, AtomKind::ReadOnlyData, AtomKind::Data, AtomKind::TlsData, AtomKind::Lsda];

/// The hash of the bytes of each atom of a module, without what references fill in.
fn of_bytes(facts: Facts<'_>, position: usize) -> Vec<Option<Hash>> {
    let summary = facts.summaries[position];
    let object = super::contents::sections(facts.inputs.module_bytes(facts.resolution.loaded[position]));
    let mut buffer = Vec::new();
    let of_atom = |atom: &summaries::Atom| {
        let bytes = object.get(atom.section as usize).copied().flatten()?;
        let (start, end) = (usize::try_from(atom.offset).ok()?, usize::try_from(atom.size).ok()?);
        let bytes = bytes.get(start..start.checked_add(end)?)?;
        if bytes.is_empty() || !COMPARED.contains(&atom.kind) {
            return None;
        }
        buffer.clear();
        buffer.push(atom.kind as u8);
        buffer.extend_from_slice(bytes);
        let first = summary.resolved.partition_point(|r| (r.section, r.field) < (atom.section, atom.offset));
        let inside = summary.resolved.iter().skip(first);
        for field in inside.take_while(|r| r.section == atom.section && r.field < atom.offset + atom.size) {
            let at = 1 + (field.field - atom.offset) as usize;
            if let Some(field) = buffer.get_mut(at..at + 4) {
                field.fill(0);
            }
        }
        Some(hash(&buffer))
    };
    let mut hashes: Vec<Option<Hash>> = summary.atoms.iter().map(of_atom).collect();
    for owned in &summary.owned {
        if let Some(hash) = hashes.get_mut(owned.atom.index()) {
            *hash = None;
        }
    }
    hashes
}

fn with_references(
    facts: Facts<'_>,
    position: usize,
    local: AtomIdx,
    own: &[Vec<Option<Hash>>],
) -> Option<Hash> {
    let summary = facts.summaries[position];
    let bytes = own.get(position)?.get(local.index()).copied().flatten()?;
    let offset = summary.atoms.get(local.index())?.offset;
    let first = facts.index.modules[position].first_atom;
    let mut text = bytes.to_vec();
    for r in summary.references_of(local) {
        text.extend_from_slice(&r.offset.wrapping_sub(offset).to_le_bytes());
        text.push(r.kind as u8);
        let (target, addend) = defined_here(summary, r.target, r.addend);
        let atom = match target {
            Target::Atom(atom) => atom,
            // A prevailing definition is identified by its name.
            Target::Symbol(symbol) => {
                text.push(1);
                text.extend_from_slice(&r.addend.to_le_bytes());
                text.extend_from_slice(summary.symbol_name(symbol));
                text.push(0);
                continue;
            }
        };
        text.extend_from_slice(&addend.to_le_bytes());
        match own.get(position)?.get(atom.index()).copied().flatten() {
            // To itself, from anywhere.
            _ if atom == local => text.push(2),
            Some(hash) => {
                text.push(3);
                text.extend_from_slice(&hash);
            }
            None => {
                text.push(4);
                text.extend_from_slice(&AtomId(first + atom.0).0.to_le_bytes());
            }
        }
    }
    Some(hash(&text))
}

/// The target as an atom of the module and a distance from its start, if its name is local.
fn defined_here(summary: &ModuleSummary, target: Target, addend: i64) -> (Target, i64) {
    let start = |atom: AtomIdx| summary.atoms.get(atom.index()).map_or(0, |a| a.offset as i64);
    match target {
        Target::Atom(atom) => (target, addend.wrapping_sub(start(atom))),
        Target::Symbol(symbol) => match summary.symbols.get(symbol.index()) {
            Some(s) if s.binding == Binding::Local => match s.definition {
                Definition::Atom(atom) => {
                    let distance = (s.value as i64).wrapping_add(addend).wrapping_sub(start(atom));
                    (Target::Atom(atom), distance)
                }
                _ => (target, addend),
            },
            _ => (target, addend),
        },
    }
}
