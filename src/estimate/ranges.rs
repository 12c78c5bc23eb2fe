//! The reference graph of a link before its code is decoded: the vertices are the ranges of sized symbols.
//!
//! Each atom has a vertex of its own. That vertex is live if a byte of the atom is live, and it has the references whose range is not known.
//! A section that may be divided also has a vertex for each of its functions or objects. A range ends where the next range begins, because
//! bytes without a name belong to the range before them (`summaries::native::split`). Edges come from relocations. A relocation against a section
//! symbol refers to the range at its addend, and to the range 4 bytes further, where a PC-relative field points. Reachability is a depth-first search,
//! from the roots and then from one module after the other, so that it needs no lattice.

use std::ops::Range;

use rayon::prelude::*;
use summaries::{
    Atom, AtomKind, Binding, Definition, Granularity, ModuleKind, ModuleSummary, Reference, ReferenceKind,
    SymbolIdx, SymbolKind, Target, atom_flags, native,
};

use crate::ids::{AtomId, Id, SymbolId};
use crate::index::{Index, LinkInputs};
use crate::resolve::Prevailing;

/// The number of no vertex of the graph.
const NO_NODE: u32 = u32::MAX;

/// The condition under which a range of an atom is live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RangeKind {
    /// It stands for the atom: any live range of it.
    Atom,
    /// Only a reference to the range makes it live.
    ByReference,
    /// Any live range of its section: a static function.
    WithSection,
}

/// A range of an atom. Positions are in bytes from the start of its section.
#[derive(Debug, Clone, Copy)]
struct SymbolRange {
    start: u64,
    size: u64,
    kind: RangeKind,
}

/// The ranges of the atoms of one module.
pub(super) struct ModuleRanges {
    /// By atom: its ranges, ascending; empty where it is not divided.
    of_atoms: Vec<Vec<SymbolRange>>,
}

#[derive(Debug)]
pub(super) struct RangeGraph {
    /// By atom: its first vertex, which is the atom's own; there is one entry more behind the last.
    first: Vec<u32>,
    ranges: Vec<SymbolRange>,
    /// Targets of vertex `v`: `targets[target_start[v]..target_start[v + 1]]`.
    target_start: Vec<u32>,
    targets: Vec<u32>,
    /// By symbol: the range in which its prevailing definition is.
    of_symbols: Vec<u32>,
}

/// The vertices that the program reaches, and then those that one module after the other reaches.
#[derive(Debug)]
pub(super) struct Reached<'g> {
    pub(super) graph: &'g RangeGraph,
    /// By vertex: [`BY_PROGRAM`], one more than the position of the first module that reaches it, or [`NO_NODE`].
    by: Vec<u32>,
}

/// The program reaches it from its roots.
pub(super) const BY_PROGRAM: u32 = 0;

impl<'g> Reached<'g> {
    pub(super) fn new(graph: &'g RangeGraph) -> Self {
        Reached { graph, by: vec![NO_NODE; graph.ranges.len()] }
    }

    /// Reach from these vertices all that nothing before reached.
    pub(super) fn add(&mut self, nodes: impl Iterator<Item = u32>, by: u32) {
        let mut work: Vec<u32> = nodes.collect();
        while let Some(node) = work.pop() {
            if self.by[node as usize] == NO_NODE {
                self.by[node as usize] = by;
                work.extend(self.graph.targets(node));
            }
        }
    }

    pub(super) fn is_live(&self, node: u32) -> bool {
        self.by[node as usize] == BY_PROGRAM
    }

    /// The position of the module that reaches a vertex that the program does not reach.
    pub(super) fn by_module(&self, node: u32) -> Option<usize> {
        Some(self.by[node as usize])
            .filter(|by| *by != NO_NODE)?
            .checked_sub(1)
            .map(|position| position as usize)
    }
}

impl RangeGraph {
    /// The graph of a link with these ranges, which are in load order.
    pub(super) fn new(link: LinkInputs<'_>, index: &Index, modules: &[ModuleRanges]) -> Self {
        let LinkInputs { resolution, summaries, .. } = link;
        let mut graph = RangeGraph {
            first: Vec::with_capacity(index.atom_count() + 1),
            ranges: Vec::new(),
            target_start: vec![0],
            targets: Vec::new(),
            of_symbols: vec![NO_NODE; resolution.symbols.len()],
        };
        for (module, summary) in modules.iter().zip(summaries) {
            for (ranges, atom) in module.of_atoms.iter().zip(&summary.atoms) {
                graph.first.push(graph.ranges.len() as u32);
                let named: u64 = ranges.iter().map(|range| range.size).sum();
                let size = atom.size.saturating_sub(named);
                graph.ranges.push(SymbolRange { start: atom.offset, size, kind: RangeKind::Atom });
                graph.ranges.extend(ranges);
            }
        }
        graph.first.push(graph.ranges.len() as u32);
        let of_module = |position: usize| graph.definitions(link, index, position);
        let definitions: Vec<Vec<(SymbolId, u32)>> =
            (0..summaries.len()).into_par_iter().map(of_module).collect();
        for (symbol, node) in definitions.into_iter().flatten() {
            graph.of_symbols[symbol.index()] = node;
        }
        let of_module = |position: usize| graph.edges(link, index, position);
        let edges: Vec<(Vec<u32>, Vec<u32>)> = (0..summaries.len()).into_par_iter().map(of_module).collect();
        for (counts, targets) in edges {
            for count in counts {
                graph.target_start.push(graph.target_start.last().copied().unwrap_or(0) + count);
            }
            graph.targets.extend(targets);
        }
        graph
    }

    /// The range in which the prevailing definition of a symbol is, if it is in a native module.
    pub(super) fn range_of(&self, symbol: SymbolId) -> Option<u32> {
        Some(self.of_symbols[symbol.index()]).filter(|node| *node != NO_NODE)
    }

    pub(super) fn targets(&self, node: u32) -> &[u32] {
        let (start, end) = (self.target_start[node as usize], self.target_start[node as usize + 1]);
        &self.targets[start as usize..end as usize]
    }

    pub(super) fn kind(&self, node: u32) -> RangeKind {
        self.ranges[node as usize].kind
    }

    /// In bytes; of an atom's own vertex those that no other range of it has.
    pub(super) fn size(&self, node: u32) -> u64 {
        self.ranges[node as usize].size
    }

    /// The global symbols that a module refers to, each with the range that does.
    pub(super) fn symbols_of<'g>(
        &'g self,
        link: LinkInputs<'g>,
        index: &'g Index,
        position: usize,
    ) -> impl Iterator<Item = (u32, SymbolId)> + 'g {
        let this = index.modules[position];
        let alloc = move |reference: &&Reference| {
            let id = (this.first_atom + reference.from.0) as usize;
            index.alloc[id] && !index.discarded[id]
        };
        link.summaries[position].references.iter().filter(alloc).filter_map(move |reference| {
            let Target::Symbol(symbol) = reference.target else { return None };
            let id = link.resolution.symbol_id(this.module, symbol)?;
            Some((self.source((this.first_atom + reference.from.0) as usize, reference), id))
        })
    }

    /// The range that a reference of an atom is in.
    fn source(&self, atom: usize, reference: &Reference) -> u32 {
        match reference.kind {
            ReferenceKind::Unwind => self.first[atom],
            _ => self.at(atom, reference.offset),
        }
    }

    /// The vertices of an atom, its own first.
    pub(super) fn ranges_of(&self, atom: usize) -> Range<u32> {
        self.first[atom]..self.first[atom + 1]
    }

    /// The ranges that live by themselves.
    pub(super) fn roots<'g>(
        &'g self,
        link: LinkInputs<'g>,
        index: &'g Index,
    ) -> impl Iterator<Item = u32> + 'g {
        let of_section = |atom: usize| {
            let (position, local) = index.locate(AtomId::new(atom));
            // Who refers to its start and end refers to all of it.
            link.summaries[position].atoms[local.index()].has(atom_flags::C_IDENTIFIER)
                && !index.discarded[atom]
        };
        let named = (0..index.atom_count()).filter(move |atom| of_section(*atom));
        let roots = index.roots.iter().flat_map(|root| match root.symbol {
            Some(symbol) => self.range_of(symbol).map_or(0..0, |node| node..node + 1),
            None => self.ranges_of(root.atom.index()),
        });
        roots.chain(named.flat_map(|atom| self.ranges_of(atom)))
    }

    /// The vertex of the range at `place` of an atom's section.
    fn at(&self, atom: usize, place: u64) -> u32 {
        let nodes = self.ranges_of(atom);
        let ranges = &self.ranges[nodes.start as usize + 1..nodes.end as usize];
        nodes.start + ranges.partition_point(|range| range.start <= place) as u32
    }

    /// The global symbols that have their prevailing definition in a module, with its range.
    fn definitions(&self, link: LinkInputs<'_>, index: &Index, position: usize) -> Vec<(SymbolId, u32)> {
        let this = index.modules[position];
        let summary = link.summaries[position];
        let of_symbol = |i: usize| {
            let symbol = SymbolIdx::new(i);
            let id = link.resolution.symbol_id(this.module, symbol)?;
            let prevailing = Prevailing::Module { module: this.module, symbol };
            let node = self.defined_at(summary, this.first_atom, symbol)?;
            (link.resolution.symbols[id].prevailing == prevailing).then_some((id, node))
        };
        (0..summary.symbols.len()).filter_map(of_symbol).collect()
    }

    /// The vertex of the range in which a symbol of a module is defined.
    fn defined_at(&self, summary: &ModuleSummary, first_atom: u32, symbol: SymbolIdx) -> Option<u32> {
        let symbol = summary.symbols.get(symbol.index())?;
        match symbol.definition {
            Definition::Atom(atom) => Some(self.at((first_atom + atom.0) as usize, symbol.value)),
            Definition::Common(atom) => Some(self.first[(first_atom + atom.0) as usize]),
            _ => None,
        }
    }

    /// The edges of a module: how many each of its vertices has, and their targets.
    fn edges(&self, link: LinkInputs<'_>, index: &Index, position: usize) -> (Vec<u32>, Vec<u32>) {
        let this = index.modules[position];
        let summary = link.summaries[position];
        let nodes = self.first[this.first_atom as usize]..self.first[index.atoms_of(position).end];
        let mut edges: Vec<(u32, u32)> = Vec::with_capacity(summary.references.len() + nodes.len());
        for (id, atom) in index.atoms_of(position).zip(&summary.atoms) {
            let ranges = self.ranges_of(id);
            for node in ranges.clone().skip(1) {
                edges.push((node, ranges.start));
                if self.kind(node) == RangeKind::WithSection {
                    edges.push((ranges.start, node));
                }
            }
            let first_of = |atom: u32| self.first[(this.first_atom + atom) as usize];
            edges.extend(atom.link_order.map(|after| (first_of(after.0), ranges.start)));
            let group = atom.group.and_then(|group| summary.groups.get(group.index()));
            let members = group.map_or(&[][..], |group| &group.members);
            edges.extend(members.iter().map(|member| (ranges.start, first_of(member.0))));
        }
        for reference in &summary.references {
            let id = (this.first_atom + reference.from.0) as usize;
            if index.discarded[id] || !index.alloc[id] {
                continue;
            }
            let from = self.source(id, reference);
            let is_local = |symbol| link.resolution.symbol_id(this.module, symbol).is_none();
            match reference.target {
                Target::Symbol(symbol) if !is_local(symbol) => {
                    let id = link.resolution.symbol_id(this.module, symbol);
                    edges.extend(id.and_then(|id| self.range_of(id)).map(|target| (from, target)));
                }
                Target::Symbol(symbol) => {
                    let target = self.defined_at(summary, this.first_atom, symbol);
                    edges.extend(target.map(|target| (from, target)));
                }
                Target::Atom(atom) => {
                    let id = (this.first_atom + atom.0) as usize;
                    for place in [reference.addend, reference.addend.wrapping_add(4)] {
                        edges.push((from, self.at(id, u64::try_from(place).unwrap_or(0))));
                    }
                }
            }
        }
        let mut counts = vec![0; nodes.len()];
        edges.iter().for_each(|(from, _)| counts[(from - nodes.start) as usize] += 1);
        let starts = counts.iter().scan(0, |end, count| Some(std::mem::replace(end, *end + count)));
        let mut next: Vec<u32> = starts.collect();
        let mut targets = vec![NO_NODE; edges.len()];
        for (from, target) in edges {
            let next = &mut next[(from - nodes.start) as usize];
            targets[*next as usize] = target;
            *next += 1;
        }
        (counts, targets)
    }
}

impl ModuleRanges {
    /// Whether no section may be divided.
    pub(super) fn is_whole(&self) -> bool {
        self.of_atoms.iter().all(Vec::is_empty)
    }

    pub(super) fn new(summary: &ModuleSummary) -> Self {
        let mut of_atoms = vec![Vec::new(); summary.atoms.len()];
        if summary.kind != ModuleKind::Native || summary.granularity != Granularity::Sections {
            return ModuleRanges { of_atoms };
        }
        for symbol in &summary.symbols {
            let Definition::Atom(atom) = symbol.definition else { continue };
            let is_named = matches!(symbol.kind, SymbolKind::Func | SymbolKind::Ifunc | SymbolKind::Object);
            let Some(of) = summary.atoms.get(atom.index()).filter(|of| may_be_divided(summary, of)) else {
                continue;
            };
            if !is_named || symbol.size == 0 {
                continue;
            }
            // Aliases share one range. It is live by reference if one of them is.
            let kind = match symbol.binding {
                Binding::Local if of.kind == AtomKind::Code && !is_cold(summary.name(symbol.name)) => {
                    RangeKind::WithSection
                }
                _ => RangeKind::ByReference,
            };
            of_atoms[atom.index()].push(SymbolRange { start: symbol.value, size: symbol.size, kind });
        }
        for ranges in &mut of_atoms {
            ranges.sort_unstable_by_key(|range| (range.start, range.kind != RangeKind::ByReference));
            ranges.dedup_by_key(|range| range.start);
            // One of these is the whole section.
            if ranges.len() == 1 {
                ranges.clear();
            }
            for i in 1..ranges.len() {
                let next = ranges[i].start;
                let range = &mut ranges[i - 1];
                range.size = range.size.min(next - range.start);
            }
        }
        ModuleRanges { of_atoms }
    }
}

/// Whether a section may come apart, as far as headers say.
fn may_be_divided(summary: &ModuleSummary, atom: &Atom) -> bool {
    let whole = atom_flags::MERGE | atom_flags::GROUPED | atom_flags::LINK_ORDER | atom_flags::RETAIN;
    let name = summary.name(atom.name);
    !atom.has(whole)
        && match atom.kind {
            AtomKind::Code => native::sections::CODE_OF_COMPILERS.contains(&name),
            AtomKind::ReadOnlyData | AtomKind::Data | AtomKind::Bss => {
                native::sections::DATA_OF_COMPILERS.contains(&name)
            }
            _ => false,
        }
}

/// Whether the function of this name is the part of another that is seldom run: nothing but that one jumps there.
fn is_cold(name: &[u8]) -> bool {
    name.windows(5).any(|part| part == b".cold")
}
