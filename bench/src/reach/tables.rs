//! Jump tables of position-independent code: 32-bit entries in data, each the distance of a label from the table's base.
//!
//! The assembler writes `.long .L1-.Lbase` as a PC32 relocation whose addend holds the entry's own distance from the base
//! besides, so an entry means nothing without its base. A base is what a `lea` in code points at; entries follow it
//! every four bytes without a gap. They are then branches of the function with the `lea`, if one of them leads
//! to the inside of it; others may lead to its `.cold` part. A table without any such entry holds functions (clang's relative
//! lookup tables) and is data.

use std::collections::{BTreeMap, BTreeSet};

use super::disassembly::Listing;
use super::graph::{Graph, covering, relative};
use super::input::LoadedSection;

const PC32: u32 = 2;

/// Bases in each data section: section to base to functions.
fn bases(graph: &Graph<'_>, m: usize, listing: &Listing) -> BTreeMap<usize, BTreeMap<u64, Vec<usize>>> {
    let mut out: BTreeMap<usize, BTreeMap<u64, Vec<usize>>> = BTreeMap::new();
    let Some(module) = graph.module(m) else { return out };
    for (index, section) in module.sections.iter().filter(|(_, s)| s.code && !s.discarded) {
        let instructions = listing.get(index).map_or(&[][..], Vec::as_slice);
        for r in section.relocs.iter().filter(|r| relative(r.kind)) {
            let Some(i) = covering(instructions, r.offset).filter(|i| i.lea) else { continue };
            let Some(symbol) = module.symbols.get(&r.symbol) else { continue };
            let Some(target) = symbol.section else { continue };
            if module.sections.get(&target).is_none_or(|s| s.code) {
                continue;
            }
            let correction = (i.at + i.len - r.offset) as i64;
            let base = symbol.value.checked_add_signed(r.addend + correction);
            if let (Some(base), Some(function)) = (base, graph.at(m, *index, r.offset)) {
                out.entry(target).or_default().entry(base).or_default().push(function);
            }
        }
    }
    out
}

/// Tables of a section by their base: offset of each entry, and the piece and offset that it leads to.
type Runs = BTreeMap<u64, Vec<(u64, usize, u64)>>;

fn runs(graph: &Graph<'_>, m: usize, section: &LoadedSection, bases: &BTreeMap<u64, Vec<usize>>) -> Runs {
    let mut out = Runs::new();
    let Some(module) = graph.module(m) else { return out };
    // The base of the run that we are in, and where the run goes on.
    let mut run: Option<(u64, u64)> = None;
    for r in section.relocs.iter().filter(|r| r.kind == PC32) {
        if bases.contains_key(&r.offset) {
            run = Some((r.offset, r.offset));
        }
        let Some((base, _)) = run.filter(|(_, next)| *next == r.offset) else {
            run = None;
            continue;
        };
        run = Some((base, r.offset + 4));
        let Some(symbol) = module.symbols.get(&r.symbol) else { continue };
        let Some(code) = symbol.section.filter(|s| module.sections.get(s).is_some_and(|s| s.code)) else {
            continue;
        };
        let label = symbol.value.checked_add_signed(r.addend - (r.offset - base) as i64);
        if let Some(label) = label
            && let Some(target) = graph.at(m, code, label)
        {
            out.entry(base).or_default().push((r.offset, target, label));
        }
    }
    out
}

/// Give each table's branches to its functions; returns which relocations of data these were: (section, offset).
pub(super) fn claim(graph: &mut Graph<'_>, m: usize, listing: &Listing) -> BTreeSet<(usize, u64)> {
    let mut claimed = BTreeSet::new();
    let bases = bases(graph, m, listing);
    let Some(module) = graph.module(m) else { return claimed };
    for (index, section) in
        module.sections.iter().filter(|(_, s)| !s.code && !s.discarded && s.name != ".eh_frame")
    {
        let Some(bases) = bases.get(index) else { continue };
        for (base, entries) in runs(graph, m, section, bases) {
            let owners = bases.get(&base).cloned().unwrap_or_default();
            let inside = |(_, target, label): &(u64, usize, u64)| {
                owners.contains(target) && graph.nodes.get(*target).is_some_and(|n| n.start < *label)
            };
            if !entries.iter().any(inside) {
                continue;
            }
            for (offset, target, _) in entries {
                claimed.insert((*index, offset));
                for owner in &owners {
                    graph.edge(*owner, target);
                }
            }
        }
    }
    claimed
}
