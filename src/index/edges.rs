//! The edges of the index: the target of each reference of each atom, given the prevailing definitions.
//!
//! A reference to a symbol goes to the prevailing atom, one by section symbol to its own. Members of a group keep each other, and
//! metadata is kept with the section that it is ordered after. A reference from a non-allocated atom is no edge, because such sections
//! are never loaded. A kept definition that does not prevail keeps the prevailing one: otherwise it would prevail itself, at
//! its own place and with its own visibility.

use rayon::prelude::*;
use rustc_hash::FxHashMap;
use summaries::{AtomIdx, AtomKind, Definition, ModuleKind, ReferenceKind, SymbolIdx, Target, atom_flags};

use super::edge_effects::{EdgeEffects, FunctionTable, Regions, leads};
use super::{Edge, EdgeEffect, EdgeKind, Index, LinkInputs, prevailing_atom};
use crate::ids::{AtomId, Id, ModuleId, SymbolId};
use crate::resolve::{Prevailing, start_stop_section};

/// The edges of one module, before those of all are joined.
#[derive(Default)]
struct ModuleEdges {
    /// Edges of each atom, in atom order.
    counts: Vec<u32>,
    edges: Vec<Edge>,
    external: Vec<(AtomId, SymbolId)>,
}

pub(super) fn build(sources: &LinkInputs<'_>, position_of: &FxHashMap<ModuleId, usize>, index: &mut Index) {
    let all_sections = identifier_sections(sources, index);
    for (id, symbol) in sources.resolution.symbols.enumerated() {
        if symbol.prevailing == Prevailing::Linker
            && let Some(atoms) = start_stop_section(symbol.name).and_then(|name| all_sections.get(name))
        {
            index.start_stop.extend(atoms.iter().map(|atom| (id, *atom)));
        }
    }
    let sections = kept_by_start_stop(sources, index, all_sections);
    let same_names = same_names(sources, position_of, index);
    let follows = sources.follows_values();
    let region = |s: &&summaries::ModuleSummary| if follows { Regions::new(s) } else { Regions::default() };
    index.functions = sources.summaries.iter().map(|s| FunctionTable::new(s)).collect();
    index.regions = sources.summaries.par_iter().map(region).collect();
    let index_so_far = &*index;
    let parts: Vec<ModuleEdges> = (0..index.modules.len())
        .into_par_iter()
        .map(|position| part(sources, position_of, &sections, &same_names, index_so_far, position))
        .collect();
    index.edge_start.push(0);
    let mut end = 0;
    for part in parts {
        for count in part.counts {
            end += count;
            index.edge_start.push(end);
        }
        index.edges.extend(part.edges);
        index.external.extend(part.external);
    }
}

/// The allocated sections of each name that is a C identifier.
fn identifier_sections<'s>(sources: &LinkInputs<'s>, index: &Index) -> FxHashMap<&'s [u8], Vec<AtomId>> {
    let mut sections: FxHashMap<&[u8], Vec<AtomId>> = FxHashMap::default();
    for (position, summary) in sources.summaries.iter().enumerate() {
        for (i, atom) in summary.atoms.iter().enumerate() {
            let id = AtomId::new(index.modules[position].first_atom as usize + i);
            let counts = atom.kind.is_alloc() && !index.discarded[id.index()];
            if atom.has(atom_flags::C_IDENTIFIER) && counts {
                sections.entry(summary.name(atom.name)).or_default().push(id);
            }
        }
    }
    sections
}

/// The sections that a reference to `__start_X` or `__stop_X` keeps, under the rules of the linker.
fn kept_by_start_stop<'s>(
    sources: &LinkInputs<'s>,
    index: &Index,
    mut sections: FxHashMap<&'s [u8], Vec<AtomId>>,
) -> FxHashMap<&'s [u8], Vec<AtomId>> {
    // GNU ld's option of that name still keeps at least the first section of the name.
    if sources.config.start_stop_gc.unwrap_or(true) && sources.config.rules().collects_start_stop {
        sections.retain(|name, _| is_exempt_from_start_stop_gc(name));
    }
    // Metadata is kept with the section that it is ordered after, even if code enumerates all of it.
    let is_ordered = |atom: &AtomId| {
        let (position, local) = index.locate(*atom);
        sources.summaries[position].atoms[local.index()].link_order.is_some()
    };
    sections.values_mut().for_each(|atoms| atoms.retain(|atom| !is_ordered(atom)));
    sections
}

/// The sections that lld keeps for a reference to their start or end, even with `-z start-stop-gc`: glibc's (lld's `MarkLive.cpp`).
pub(crate) fn is_exempt_from_start_stop_gc(section: &[u8]) -> bool {
    section.starts_with(b"__libc_")
}

/// Sorted pairs of atoms: if the first is live, so must be the second, by [`EdgeKind::SameName`].
fn same_names(
    sources: &LinkInputs<'_>,
    position_of: &FxHashMap<ModuleId, usize>,
    index: &Index,
) -> Vec<(AtomId, AtomId)> {
    let of_module = |(position, this): (usize, &super::IndexedModule)| {
        let summary = sources.summaries[position];
        let mut pairs = Vec::new();
        for (i, symbol) in summary.symbols.iter().enumerate() {
            let (atom, common) = match symbol.definition {
                Definition::Atom(atom) => (atom, false),
                Definition::Common(atom) => (atom, true),
                _ => continue,
            };
            let atom = AtomId(this.first_atom + atom.0);
            let Some(id) = sources.resolution.symbol_id(this.module, SymbolIdx::new(i)) else { continue };
            let Some(prevailing) = prevailing_atom(sources, &index.modules, position_of, id) else {
                continue;
            };
            if prevailing == atom || index.discarded[atom.index()] {
                continue;
            }
            pairs.push((atom, prevailing));
            let Prevailing::Module { module, symbol } = sources.resolution.symbols[id].prevailing else {
                continue;
            };
            let winner =
                position_of.get(&module).and_then(|p| sources.summaries[*p].symbols.get(symbol.index()));
            if sources.config.rules().hides_excluded && !sources.config.exclude_libs.is_empty() {
                pairs.push((prevailing, atom));
            }
            if sources.resolution.demanding.binary_search(&(this.module, SymbolIdx::new(i))).is_ok() {
                pairs.push((prevailing, atom));
            }
            if common && winner.is_some_and(|w| matches!(w.definition, Definition::Common(_))) {
                // Linkers give a common symbol the greatest size and alignment of all its definitions.
                pairs.push((prevailing, atom));
            }
        }
        pairs
    };
    let mut pairs: Vec<_> = index.modules.par_iter().enumerate().flat_map_iter(of_module).collect();
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

fn part(
    sources: &LinkInputs<'_>,
    position_of: &FxHashMap<ModuleId, usize>,
    sections: &FxHashMap<&[u8], Vec<AtomId>>,
    same_names: &[(AtomId, AtomId)],
    index: &Index,
    position: usize,
) -> ModuleEdges {
    let summary = sources.summaries[position];
    let this = index.modules[position];
    let global = |atom: AtomIdx| AtomId(this.first_atom + atom.0);
    let mut dependents: Vec<(AtomIdx, AtomIdx, u32)> = Vec::new();
    for (i, atom) in summary.atoms.iter().enumerate() {
        dependents.extend(atom.link_order.map(|target| (target, AtomIdx::new(i), Edge::NO_REFERENCE)));
    }
    for (number, reference) in (0u32..).zip(&summary.references) {
        let ordered_after = summary.atoms.get(reference.from.index()).and_then(|a| a.link_order);
        let described = summary.target_atom(reference.target);
        if let (Some(first), Some(atom)) = (ordered_after, described)
            && summary.atoms.get(atom.index()).is_some_and(|a| a.kind == AtomKind::Code)
            && atom != first
        {
            dependents.extend([(atom, reference.from, number), (reference.from, first, number)]);
        }
    }
    // The tie to the section that it is ordered after comes first, because the first one is kept.
    dependents.sort_unstable_by_key(|(atom, other, number)| (*atom, *other, number.wrapping_add(1)));
    dependents.dedup_by_key(|(atom, other, _)| (*atom, *other));

    let (functions, regions) = (&index.functions, &index.regions);
    let effects =
        EdgeEffects::new(summary, &functions[position], &regions[position], sources.follows_values());
    let mut out = ModuleEdges::default();
    let mut references = summary.references.iter().enumerate().peekable();
    for (i, atom) in summary.atoms.iter().enumerate() {
        let from = AtomIdx::new(i);
        let first = out.edges.len();
        while let Some((number, r)) = references.next_if(|(_, r)| r.from <= from) {
            let mut push = |target, kind, effect| {
                out.edges.push(Edge::new(target, kind, effect, number as u32));
            };
            let global_symbol = match r.target {
                Target::Atom(_) => None,
                Target::Symbol(symbol) => {
                    sources.resolution.symbol_id(this.module, symbol).map(|id| (symbol, id))
                }
            };
            let Some((symbol, id)) = global_symbol else {
                if let Some(place) = leads(summary, &functions[position], r.target, r.addend) {
                    push(global(place.atom), edge_kind(r.kind), effects.of(atom, r, Some(&place)));
                }
                continue;
            };
            if let Some(target) = prevailing_atom(sources, &index.modules, position_of, id) {
                let place = match sources.resolution.symbols[id].prevailing {
                    Prevailing::Module { module, symbol } => position_of.get(&module).and_then(|p| {
                        leads(sources.summaries[*p], &functions[*p], Target::Symbol(symbol), r.addend)
                    }),
                    _ => None,
                };
                push(target, edge_kind(r.kind), effects.of(atom, r, place.as_ref()));
                continue;
            }
            let name = sources.resolution.symbols[id].name;
            if let Some(atoms) = start_stop_section(name).and_then(|section| sections.get(section)) {
                atoms.iter().for_each(|target| push(*target, EdgeKind::StartStop, EdgeEffect::Escape));
            }
            // A weak reference needs no definition and no DSO, unless another reference is strong: for linkers the symbol
            // is strong then, even if the strong reference is in dead code.
            let strong = summary.symbols[symbol.index()].binding != summaries::Binding::Weak
                || sources.resolution.symbols[id].strong_reference;
            let outside = match sources.resolution.symbols[id].prevailing {
                Prevailing::Dso(_) | Prevailing::Undefined { weak: false } => true,
                Prevailing::Linker => start_stop_section(name).is_some(),
                _ => false,
            };
            // Only the linker knows which references of bitcode are left in the compiled code.
            let native = summary.kind != ModuleKind::Bitcode;
            if strong && outside && native && !index.discarded[global(from).index()] {
                out.external.push((global(from), id));
            }
        }
        let group = atom.group.and_then(|g| summary.groups.get(g.index()));
        let members = group.map_or(&[][..], |g| &g.members);
        let no_reference =
            |target: AtomIdx, kind| Edge::new(global(target), kind, EdgeEffect::Keep, Edge::NO_REFERENCE);
        out.edges.extend(members.iter().filter(|m| **m != from).map(|m| no_reference(*m, EdgeKind::Group)));
        let start = dependents.partition_point(|d| d.0 < from);
        let metadata = dependents[start..].iter().take_while(|d| d.0 == from);
        let tie =
            |d: &(AtomIdx, AtomIdx, u32)| Edge::new(global(d.1), EdgeKind::LinkOrder, EdgeEffect::Keep, d.2);
        out.edges.extend(metadata.map(tie));
        let start = same_names.partition_point(|p| p.0 < global(from));
        let same = same_names[start..].iter().take_while(|p| p.0 == global(from));
        out.edges
            .extend(same.map(|p| Edge::new(p.1, EdgeKind::SameName, EdgeEffect::Keep, Edge::NO_REFERENCE)));
        // One edge per target is enough: the first reference with the strongest effect is kept for all.
        let mine = &mut out.edges[first..];
        mine.sort_unstable_by_key(|e| (e.target, e.effect, e.reference));
        let mut kept = first;
        for k in first..out.edges.len() {
            if kept == first || out.edges[kept - 1].target != out.edges[k].target {
                out.edges[kept] = out.edges[k];
                kept += 1;
            } else {
                let merged = out.edges[k].flags;
                let stands = &mut out.edges[kept - 1];
                stands.count = stands.count.saturating_add(1);
                stands.flags |= merged;
            }
        }
        out.edges.truncate(kept);
        out.counts.push((kept - first) as u32);
    }
    out.external.sort_unstable();
    out.external.dedup();
    out
}

/// The kind of edge for a kind of reference.
pub(crate) fn edge_kind(kind: ReferenceKind) -> EdgeKind {
    match kind {
        ReferenceKind::Call => EdgeKind::Call,
        ReferenceKind::Address | ReferenceKind::Debug => EdgeKind::Address,
        ReferenceKind::Data => EdgeKind::Data,
        ReferenceKind::Got => EdgeKind::Got,
        ReferenceKind::Tls => EdgeKind::Tls,
        ReferenceKind::Unwind => EdgeKind::Unwind,
    }
}
