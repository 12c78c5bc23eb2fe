//! The reference graph of a link before its code is decoded: the vertices are the ranges of sized symbols.
//! The reference graph of a link before its code is decoded: the vertices are the ranges of sized symbols.
//!
//! Each atom has its own vertex, which is live if a byte of the atom is live, and has the references whose range is unknown. A section that
//! may be divided also has a vertex for each of its functions or objects. A range ends where the next one begins, because bytes without a
//! name belong to the range before them (`summaries::native::split`). Edges come from relocations. One against a section symbol refers to the
//! range at its addend, and to the range 4 bytes further, where a PC-relative field points. Reachability is a depth-first search.

use std::ops::Range;

use summaries::{
    Atom, AtomKind, Binding, Definition, Granularity, ModuleKind, ModuleSummary, Reference, ReferenceKind,
    SymbolIdx, SymbolKind, Target, atom_flags, native,
};

use crate::ids::{AtomId, Id, SymbolId};
use crate::index::{Index, LinkInputs};
use crate::resolve::Prevailing;

/// The number that stands for no vertex.
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
pub(super) struct SymbolRange {
    start: u64,
    /// In bytes; for an atom's own vertex, of the bytes in no other range.
    pub(super) size: u64,
    pub(super) kind: RangeKind,
}

/// The vertices of one module or of a link, numbered by atom.
#[derive(Debug)]
pub(super) struct Ranges {
    /// By atom: its first vertex, which is the atom's own; there is one entry more behind the last.
    first: Vec<u32>,
    ranges: Vec<SymbolRange>,
}

/// The target of an edge, before the vertices of the link have numbers.
#[derive(Debug, Clone, Copy)]
enum EdgeTarget {
    /// A vertex of the same module.
    Own(u32),
    /// The prevailing definition of a symbol.
    Symbol(SymbolId),
}

/// The edges of one module, and the global symbols that it defines.
#[derive(Debug)]
pub(super) struct RangeEdges {
    /// The symbols with their prevailing definition here, each with its vertex.
    definitions: Vec<(SymbolId, u32)>,
    /// By vertex: the number of its edges.
    counts: Vec<u32>,
    targets: Vec<EdgeTarget>,
}

#[derive(Debug)]
pub(super) struct RangeGraph {
    pub(super) ranges: Ranges,
    /// Targets of vertex `v`: `targets[target_start[v]..target_start[v + 1]]`.
    target_start: Vec<u32>,
    targets: Vec<u32>,
    /// By symbol: the range in which its prevailing definition is.
    of_symbols: Vec<u32>,
}

/// The vertices that the program reaches, and then those that one module after the other reaches.
#[derive(Debug, Clone)]
pub(super) struct Reached<'g> {
    pub(super) graph: &'g RangeGraph,
    /// By vertex: [`BY_PROGRAM`], one more than the position of the first module that reaches it, or [`NO_NODE`].
    by: Vec<u32>,
}

/// The program reaches it from its roots.
pub(super) const BY_PROGRAM: u32 = 0;

impl<'g> Reached<'g> {
    pub(super) fn new(graph: &'g RangeGraph) -> Self {
        Reached { graph, by: vec![NO_NODE; graph.ranges.count()] }
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

impl Ranges {
    fn new(atoms: usize) -> Self {
        Ranges { first: Vec::with_capacity(atoms + 1), ranges: Vec::new() }
    }

    /// The vertices of a module, atom by atom.
    pub(super) fn of_module(summary: &ModuleSummary) -> Self {
        let mut named = named_ranges(summary).into_iter().peekable();
        let mut all = Ranges::new(summary.atoms.len());
        for (id, atom) in summary.atoms.iter().enumerate() {
            let own = all.ranges.len();
            all.first.push(own as u32);
            all.ranges.push(SymbolRange { start: atom.offset, size: atom.size, kind: RangeKind::Atom });
            while let Some((_, range)) = named.next_if(|(of, _)| *of == id) {
                all.ranges[own].size = all.ranges[own].size.saturating_sub(range.size);
                all.ranges.push(range);
            }
        }
        all.first.push(all.ranges.len() as u32);
        all
    }

    /// Whether no section may be divided.
    pub(super) fn is_whole(&self) -> bool {
        self.ranges.len() + 1 == self.first.len()
    }

    /// The number of vertices in all.
    fn count(&self) -> usize {
        self.ranges.len()
    }

    /// The range of a vertex, by its number.
    pub(super) fn of(&self, node: u32) -> SymbolRange {
        self.ranges[node as usize]
    }

    /// The vertices of an atom, its own first.
    pub(super) fn of_atom(&self, atom: usize) -> Range<u32> {
        self.first[atom]..self.first[atom + 1]
    }

    /// The vertex of the range at `place` of an atom's section.
    fn at(&self, atom: usize, place: u64) -> u32 {
        let nodes = self.of_atom(atom);
        let ranges = &self.ranges[nodes.start as usize + 1..nodes.end as usize];
        nodes.start + ranges.partition_point(|range| range.start <= place) as u32
    }

    /// The range that contains a reference of an atom.
    fn source(&self, atom: usize, reference: &Reference) -> u32 {
        match reference.kind {
            ReferenceKind::Unwind => self.first[atom],
            _ => self.at(atom, reference.offset),
        }
    }

    /// The vertex of the range in which a symbol of a module is defined.
    fn defined_at(&self, summary: &ModuleSummary, symbol: SymbolIdx) -> Option<u32> {
        let symbol = summary.symbols.get(symbol.index())?;
        match symbol.definition {
            Definition::Atom(atom) => Some(self.at(atom.index(), symbol.value)),
            Definition::Common(atom) => Some(self.first[atom.index()]),
            _ => None,
        }
    }
}

impl RangeEdges {
    /// The edges of the module at a position, which has these vertices.
    pub(super) fn new(link: LinkInputs<'_>, index: &Index, position: usize, ranges: &Ranges) -> Self {
        let (this, summary) = (index.modules[position], link.summaries[position]);
        let definition = |i: usize| {
            let symbol = SymbolIdx::new(i);
            let id = link.resolution.symbol_id(this.module, symbol)?;
            let prevailing = Prevailing::Module { module: this.module, symbol };
            let node = ranges.defined_at(summary, symbol)?;
            (link.resolution.symbols[id].prevailing == prevailing).then_some((id, node))
        };
        let definitions = (0..summary.symbols.len()).filter_map(definition).collect();
        let own = EdgeTarget::Own;
        let mut edges: Vec<(u32, EdgeTarget)> = Vec::with_capacity(summary.references.len() + ranges.count());
        for (id, atom) in summary.atoms.iter().enumerate() {
            let of_atom = ranges.of_atom(id);
            for node in of_atom.clone().skip(1) {
                edges.push((node, own(of_atom.start)));
                if ranges.of(node).kind == RangeKind::WithSection {
                    edges.push((of_atom.start, own(node)));
                }
            }
            edges.extend(atom.link_order.map(|after| (ranges.first[after.index()], own(of_atom.start))));
            let group = atom.group.and_then(|group| summary.groups.get(group.index()));
            let members = group.map_or(&[][..], |group| &group.members);
            edges.extend(members.iter().map(|member| (of_atom.start, own(ranges.first[member.index()]))));
        }
        for reference in &summary.references {
            let id = this.first_atom as usize + reference.from.index();
            if index.discarded[id] || !index.alloc[id] {
                continue;
            }
            let from = ranges.source(reference.from.index(), reference);
            match reference.target {
                Target::Symbol(symbol) => {
                    let target = match link.resolution.symbol_id(this.module, symbol) {
                        Some(id) => Some(EdgeTarget::Symbol(id)),
                        None => ranges.defined_at(summary, symbol).map(own),
                    };
                    edges.extend(target.map(|target| (from, target)));
                }
                Target::Atom(atom) => {
                    for place in [reference.addend, reference.addend.wrapping_add(4)] {
                        let place = u64::try_from(place).unwrap_or(0);
                        edges.push((from, own(ranges.at(atom.index(), place))));
                    }
                }
            }
        }
        let mut counts = vec![0; ranges.count()];
        edges.iter().for_each(|(from, _)| counts[*from as usize] += 1);
        let starts = counts.iter().scan(0, |end, count| Some(std::mem::replace(end, *end + count)));
        let mut next: Vec<u32> = starts.collect();
        let mut targets = vec![own(NO_NODE); edges.len()];
        for (from, target) in edges {
            let next = &mut next[from as usize];
            targets[*next as usize] = target;
            *next += 1;
        }
        RangeEdges { definitions, counts, targets }
    }
}

impl RangeGraph {
    /// The graph of a link with the vertices and edges of its modules, which are in load order.
    pub(super) fn new(symbols: usize, modules: &[(&Ranges, &RangeEdges)]) -> Self {
        let mut ranges = Ranges::new(modules.iter().map(|(ranges, _)| ranges.first.len()).sum());
        let mut of_symbols = vec![NO_NODE; symbols];
        for (module, edges) in modules {
            let base = ranges.ranges.len() as u32;
            let (_, firsts) = module.first.split_last().unwrap_or((&0, &[]));
            ranges.first.extend(firsts.iter().map(|first| base + first));
            ranges.ranges.extend(&module.ranges);
            edges.definitions.iter().for_each(|(symbol, node)| of_symbols[symbol.index()] = base + node);
        }
        ranges.first.push(ranges.ranges.len() as u32);
        let mut target_start = Vec::with_capacity(ranges.count() + 1);
        let mut targets = Vec::with_capacity(modules.iter().map(|(_, edges)| edges.targets.len()).sum());
        let (mut base, mut end) = (0, 0);
        for (module, edges) in modules {
            // An edge to a symbol without a range is omitted.
            let mut own = edges.targets.iter();
            for count in &edges.counts {
                target_start.push(end);
                targets.extend(own.by_ref().take(*count as usize).filter_map(|target| match target {
                    EdgeTarget::Own(node) => Some(base + node),
                    EdgeTarget::Symbol(symbol) => {
                        Some(of_symbols[symbol.index()]).filter(|node| *node != NO_NODE)
                    }
                }));
                end = targets.len() as u32;
            }
            base += module.count() as u32;
        }
        target_start.push(end);
        RangeGraph { ranges, target_start, targets, of_symbols }
    }

    /// The range in which the prevailing definition of a symbol is, if it is in a native module.
    pub(super) fn range_of(&self, symbol: SymbolId) -> Option<u32> {
        Some(self.of_symbols[symbol.index()]).filter(|node| *node != NO_NODE)
    }

    pub(super) fn targets(&self, node: u32) -> &[u32] {
        let (start, end) = (self.target_start[node as usize], self.target_start[node as usize + 1]);
        &self.targets[start as usize..end as usize]
    }

    /// By vertex, whether one of these vertices is reachable from it.
    pub(super) fn referrers(&self, nodes: &[u32]) -> Vec<bool> {
        let mut reaches = vec![false; self.ranges.count()];
        let mut work = nodes.to_vec();
        let edges = |node: u32| self.targets(node).iter().map(move |target| (*target, node));
        let mut backwards: Vec<(u32, u32)> = match nodes {
            [] => Vec::new(),
            _ => (0..self.ranges.count() as u32).flat_map(edges).collect(),
        };
        backwards.sort_unstable();
        while let Some(node) = work.pop() {
            if !std::mem::replace(&mut reaches[node as usize], true) {
                let first = backwards.partition_point(|(target, _)| *target < node);
                let sources = backwards[first..].iter().take_while(|(target, _)| *target == node);
                work.extend(sources.map(|(_, source)| *source));
            }
        }
        reaches
    }

    /// The global symbols that a module refers to, each with the referring range.
    pub(super) fn symbols_of<'g>(
        &'g self,
        link: LinkInputs<'g>,
        index: &'g Index,
        position: usize,
    ) -> impl Iterator<Item = (u32, SymbolId)> + 'g {
        let this = index.modules[position];
        let atom = move |reference: &Reference| this.first_atom as usize + reference.from.index();
        let alloc = move |reference: &&Reference| {
            let id = atom(reference);
            index.alloc[id] && !index.discarded[id]
        };
        link.summaries[position].references.iter().filter(alloc).filter_map(move |reference| {
            let Target::Symbol(symbol) = reference.target else { return None };
            let id = link.resolution.symbol_id(this.module, symbol)?;
            Some((self.ranges.source(atom(reference), reference), id))
        })
    }

    /// The ranges that are roots.
    pub(super) fn roots<'g>(
        &'g self,
        link: LinkInputs<'g>,
        index: &'g Index,
    ) -> impl Iterator<Item = u32> + 'g {
        let of_section = |atom: usize| {
            let (position, local) = index.locate(AtomId::new(atom));
            // A reference to its start and end means all of it.
            link.summaries[position].atoms[local.index()].has(atom_flags::C_IDENTIFIER)
                && !index.discarded[atom]
        };
        let named = (0..index.atom_count()).filter(move |atom| of_section(*atom));
        let roots = index.roots.iter().flat_map(|root| match root.symbol {
            Some(symbol) => self.range_of(symbol).map_or(0..0, |node| node..node + 1),
            None => self.ranges.of_atom(root.atom.index()),
        });
        roots.chain(named.flat_map(|atom| self.ranges.of_atom(atom)))
    }
}

/// The ranges of sized symbols in sections that may be divided, each with the number of its atom; sorted, and without overlaps.
fn named_ranges(summary: &ModuleSummary) -> Vec<(usize, SymbolRange)> {
    if summary.kind != ModuleKind::Native || summary.granularity != Granularity::Sections {
        return Vec::new();
    }
    let mut named = Vec::new();
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
        named.push((atom.index(), SymbolRange { start: symbol.value, size: symbol.size, kind }));
    }
    named.sort_unstable_by_key(|(atom, range)| (*atom, range.start, range.kind != RangeKind::ByReference));
    named.dedup_by_key(|(atom, range)| (*atom, range.start));
    for i in 1..named.len() {
        let (atom, SymbolRange { start: next, .. }) = named[i];
        let (before, range) = &mut named[i - 1];
        if *before == atom {
            range.size = range.size.min(next - range.start);
        }
    }
    // A single range is the whole section.
    let of_atoms = named.chunk_by(|a, b| a.0 == b.0).filter(|of_atom| of_atom.len() > 1);
    of_atoms.flatten().copied().collect()
}

/// Whether a section may be divided, by its headers.
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

/// Whether the function of this name is the cold part of another one, which alone jumps there.
fn is_cold(name: &[u8]) -> bool {
    name.windows(5).any(|part| part == b".cold")
}
