//! The pass index: the summaries of all loaded modules joined into one graph of atoms, then frozen.
//!
//! Later passes up to emit look at no name and no file. An edge goes to the atom that the linker takes for the reference. References that
//! leave the modules are kept apart, because the linker's errors and `DT_NEEDED` depend on them.

mod edge_effects;
mod edges;
mod mark_live;
mod roots;
#[cfg(test)]
pub(crate) mod tests;

use std::ops::Range;
use std::sync::OnceLock;

use rustc_hash::FxHashMap;
use summaries::{AtomIdx, Granularity, Group, Limit, LimitRecord, ModuleKind, ModuleSummary, Severity};

use crate::config::Config;
use crate::ids::{AtomId, Id, ModuleId, SymbolId};
use crate::inputs::Inputs;
use crate::resolve::{Resolution, link_limit};
use crate::summarize::cache::LinkCache;
pub use edge_effects::EdgeEffect;
pub(crate) use edge_effects::{FunctionTable, is_ordinary_data};
pub(crate) use edge_effects::{Region, Regions};
pub(crate) use edges::{edge_kind, is_exempt_from_start_stop_gc};
pub use roots::{RootReason, unmatched_keeps};

/// The reason why an atom keeps another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EdgeKind {
    Call,
    Address,
    Data,
    Got,
    Tls,
    /// The function's unwind record names it: its LSDA or its personality routine.
    Unwind,
    /// They are members of one section group.
    Group,
    /// The target is `SHF_LINK_ORDER` metadata of the source.
    LinkOrder,
    /// `__start_X` or `__stop_X`: means every section X.
    StartStop,
    /// The source defines a global symbol, and the target has the prevailing definition, a part of the same common symbol, or an
    /// attribute that the linker merges.
    SameName,
}

/// An edge of the reference graph: its target and its origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    pub target: AtomId,
    pub kind: EdgeKind,
    /// The effect on the target; for several references the strongest.
    pub effect: EdgeEffect,
    /// The number of edges that were joined to this one; 255 is that or more.
    pub count: u8,
    /// A set of the flags [`Edge::STRUCTURAL`], [`Edge::CALLS`], [`Edge::NOT_UNWIND`] and [`Edge::ADDRESS`].
    flags: u8,
    /// Index into the module's `references`; [`Edge::NO_REFERENCE`] for other edges.
    pub reference: u32,
}

impl Edge {
    pub const NO_REFERENCE: u32 = u32::MAX;
    /// One of its edges is not in the program's text but follows from the structure of the object (unwind table, group, order,
    /// name), so that it belongs to no source line.
    pub const STRUCTURAL: u8 = 1;
    /// One of its edges is a call.
    pub const CALLS: u8 = 2;
    /// One of its edges is neither of an unwind table nor of a group.
    pub const NOT_UNWIND: u8 = 4;
    /// One of its edges is a reference other than a direct call.
    pub const ADDRESS: u8 = 8;

    /// Whether it has one of these flags.
    pub fn has(&self, flags: u8) -> bool {
        self.flags & flags != 0
    }

    /// Whether it ties metadata to the code that it describes, not to the section that it is ordered after: a table of several
    /// functions (gcc's `__patchable_function_entries`), of which the linker sees only the first.
    pub(crate) fn is_described(&self) -> bool {
        self.kind == EdgeKind::LinkOrder && self.reference != Edge::NO_REFERENCE
    }

    pub(crate) fn new(target: AtomId, kind: EdgeKind, effect: EdgeEffect, reference: u32) -> Self {
        let is_structural =
            reference == Edge::NO_REFERENCE || matches!(kind, EdgeKind::Unwind | EdgeKind::LinkOrder);
        let structural = if is_structural { Edge::STRUCTURAL } else { 0 };
        let calls = if kind == EdgeKind::Call { Edge::CALLS } else { 0 };
        let other = match kind {
            EdgeKind::Unwind | EdgeKind::Group => 0,
            EdgeKind::Call | EdgeKind::LinkOrder | EdgeKind::SameName => Edge::NOT_UNWIND,
            _ => Edge::NOT_UNWIND | Edge::ADDRESS,
        };
        Edge { target, kind, effect, count: 1, flags: structural | calls | other, reference }
    }
}

/// A root with the reason for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Root {
    pub atom: AtomId,
    pub reason: RootReason,
    /// The symbol that makes it a root, if any.
    pub symbol: Option<SymbolId>,
}

/// A loaded module in the index.
#[derive(Debug, Clone, Copy)]
pub struct IndexedModule {
    pub module: ModuleId,
    /// Its first atom; the rest follow in `AtomIdx` order.
    pub first_atom: u32,
    /// The whole module is kept, by a limit of severity `Module`.
    pub kept_whole: bool,
}

/// Unwind entries that are removed although their functions are kept ([`nounwind`](crate::propagate::nounwind)).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RemovedUnwind {
    /// By atom: its FDEs are removed.
    pub entries: Vec<bool>,
    /// By atom: it is an LSDA without a kept FDE.
    pub lsdas: Vec<bool>,
    /// The number of removed FDEs, and their bytes.
    pub count: usize,
    pub bytes: u64,
    /// Functions that keep theirs, ascending: the atom, and the first byte in its section.
    pub needed: Vec<(AtomId, u64)>,
    /// The reason why entries are kept, or if all are dropped, the consequence of that.
    pub kept: Option<String>,
    /// The reason why they must not be removed, even by option.
    pub refused: Option<String>,
}

/// The joined graph of the references of all modules. It is never changed; a graph with more roots is a new one.
#[derive(Debug, Clone, Default)]
pub struct Index {
    /// The modules that the link loads, in load order.
    pub modules: Vec<IndexedModule>,
    /// Edges of atom `a`: `edges[edge_start[a]..edge_start[a + 1]]`.
    pub edge_start: Vec<u32>,
    pub edges: Vec<Edge>,
    /// The roots, sorted by atom; an atom may have several reasons.
    pub roots: Vec<Root>,
    /// References to symbols that no loaded module defines, including `__start_X` symbols, sorted: (from, symbol).
    pub external: Vec<(AtomId, SymbolId)>,
    /// By atom: in a COMDAT group that another module's group replaces.
    pub discarded: Vec<bool>,
    /// By atom: it takes memory in the running program.
    pub alloc: Vec<bool>,
    pub limits: Vec<(Option<ModuleId>, LimitRecord)>,
    /// By position in `modules`: the function of each atom.
    pub(crate) functions: Vec<FunctionTable>,
    /// The allocated sections that `__start_X` or `__stop_X` mean, by symbol, sorted.
    pub(crate) start_stop: Vec<(SymbolId, AtomId)>,
    plain: OnceLock<Vec<bool>>,
    /// The unwind entries that the program does not need.
    pub removed_unwind: RemovedUnwind,
    /// By position: the memory regions of the module's data. Empty without value flow.
    pub(crate) regions: Vec<Regions>,
}

impl Index {
    /// The number of atoms of all modules together.
    pub fn atom_count(&self) -> usize {
        self.discarded.len()
    }

    /// Whether an edge of a live atom keeps its target: as [`Index::follows_in_plain`], but not for removed unwind entries.
    pub(crate) fn follows(&self, from: AtomId, edge: &Edge) -> bool {
        self.follows_in_plain(from, edge) && !self.is_removed_unwind(from, edge)
    }

    /// Whether an edge is only there for a removed unwind entry.
    pub(crate) fn is_removed_unwind(&self, from: AtomId, edge: &Edge) -> bool {
        let has = |set: &[bool], atom: AtomId| set.get(atom.index()) == Some(&true);
        !edge.has(Edge::NOT_UNWIND)
            && (has(&self.removed_unwind.lsdas, edge.target)
                || edge.kind == EdgeKind::Unwind && has(&self.removed_unwind.entries, from))
    }

    /// Whether the plain link's edge of a live atom keeps its target: a section that is not loaded keeps only its ordered metadata and
    /// its group.
    pub(crate) fn follows_in_plain(&self, from: AtomId, edge: &Edge) -> bool {
        let ties = matches!(edge.kind, EdgeKind::LinkOrder | EdgeKind::Group);
        (self.alloc[from.index()] || ties) && !self.discarded[edge.target.index()]
    }

    /// By atom: whether the linker's own `--gc-sections` keeps it in the plain link; see [`mark_live`].
    pub fn plain_live(&self, summaries: &[&ModuleSummary]) -> &[bool] {
        self.plain.get_or_init(|| mark_live::mark(self, summaries))
    }

    /// The edges that go out of `atom`, with the index of the first.
    pub fn edges_of(&self, atom: AtomId) -> (u32, &[Edge]) {
        let (start, end) = (self.edge_start[atom.index()], self.edge_start[atom.index() + 1]);
        (start, &self.edges[start as usize..end as usize])
    }

    /// The atoms of the module at this position.
    pub fn atoms_of(&self, position: usize) -> Range<usize> {
        let first =
            |position: usize| self.modules.get(position).map_or(self.atom_count(), |m| m.first_atom as usize);
        first(position)..first(position + 1)
    }

    /// The same graph, without these unwind entries.
    #[must_use]
    pub fn without_unwind(self, removed_unwind: RemovedUnwind) -> Self {
        Index { removed_unwind, ..self }
    }

    /// The same graph, with all atoms of the modules at these positions as roots.
    #[must_use]
    pub fn keeping(mut self, positions: impl Iterator<Item = usize>) -> Self {
        let mut atoms = Vec::new();
        for position in positions {
            atoms.extend(self.atoms_of(position).map(AtomId::new));
            if let Some(this) = self.modules.get_mut(position) {
                this.kept_whole = true;
            }
        }
        self.with_roots(&atoms, RootReason::ModuleKept)
    }

    /// The same graph, with these dead atoms as the only roots of `--prune-limit`.
    #[must_use]
    pub fn keeping_for_limit(mut self, atoms: &[AtomId]) -> Self {
        self.roots.retain(|r| r.reason != RootReason::PruneLimit);
        self.with_roots(atoms, RootReason::PruneLimit)
    }

    /// The same graph, with these atoms as roots for one more reason.
    #[must_use]
    pub fn with_roots(mut self, atoms: &[AtomId], reason: RootReason) -> Self {
        self.roots.extend(atoms.iter().map(|&atom| Root { atom, reason, symbol: None }));
        self.roots.sort_unstable();
        self.roots.dedup_by_key(|r| (r.atom, r.reason));
        self
    }

    /// The source atom of edge number `edge`.
    pub fn edge_source(&self, edge: u32) -> AtomId {
        AtomId::new(self.edge_start.partition_point(|start| *start <= edge) - 1)
    }

    /// Position in `modules` of the module that holds `atom`, and the atom's file-local id.
    pub fn locate(&self, atom: AtomId) -> (usize, AtomIdx) {
        let position = self.modules.partition_point(|m| m.first_atom <= atom.0) - 1;
        (position, AtomIdx(atom.0 - self.modules[position].first_atom))
    }
}

/// The inputs of the link that later passes need next to the index.
#[derive(Clone, Copy)]
pub struct LinkInputs<'s> {
    pub config: &'s Config,
    pub inputs: &'s Inputs,
    pub resolution: &'s Resolution<'s>,
    /// The elements are in load order, one for each loaded module.
    pub summaries: &'s [&'s ModuleSummary],
    pub cached: LinkCache<'s>,
}

impl LinkInputs<'_> {
    /// Whether edges have effects for value flow.
    fn follows_values(&self) -> bool {
        self.summaries.iter().any(|summary| summary.granularity == Granularity::Pointers)
    }
}

/// Join the summaries of the loaded modules.
pub fn build(sources: LinkInputs<'_>) -> Index {
    let (mut index, position_of) = atoms_of_modules(&sources);
    linkonce(&sources, &mut index);
    edges::build(&sources, &position_of, &mut index);
    index.roots = roots::find(&sources, &position_of, &index);
    index
}

/// The atoms and the roots of the loaded modules, without an edge. An atom is a root once for each symbol that makes it one.
pub(crate) fn without_edges(sources: LinkInputs<'_>) -> Index {
    let (mut index, position_of) = atoms_of_modules(&sources);
    index.roots = roots::of_symbols_and_sections(&sources, &position_of, &index);
    index
}

/// The atoms of the loaded modules, and the position of each module in load order.
fn atoms_of_modules(sources: &LinkInputs<'_>) -> (Index, FxHashMap<ModuleId, usize>) {
    let LinkInputs { resolution, summaries, .. } = sources;
    let mut index = Index::default();
    let mut first_atom = 0;
    let mut position_of: FxHashMap<ModuleId, usize> = FxHashMap::default();
    for (position, (&module, summary)) in resolution.loaded.iter().zip(*summaries).enumerate() {
        position_of.insert(module, position);
        let kept_whole = summary.limits.iter().any(|l| l.limit.severity() >= Severity::Module)
            || matches_script_pattern(sources, module, &mut index.limits);
        index.modules.push(IndexedModule { module, first_atom, kept_whole });
        first_atom += summary.atoms.len() as u32;
        let mut gone = resolution.modules[module].as_ref().map_or(&[][..], |m| &m.discarded_groups);
        if summary.kind == ModuleKind::Bitcode && !kept_whole {
            // A copy that does not prevail may be inlined at a call, with all its references.
            gone = &[];
        }
        for atom in &summary.atoms {
            let group = atom.group.and_then(|g| summary.groups.get(g.index()));
            let is_gone = |g: &Group| gone.binary_search(&g.section).is_ok() && has_code_or_data(summary, g);
            index.discarded.push(group.is_some_and(is_gone));
            index.alloc.push(atom.kind.is_alloc());
        }
        index.limits.extend(summary.limits.iter().map(|l| (Some(module), l.clone())));
    }
    (index, position_of)
}

/// Whether a group has an allocated member. Other groups (type units, macro units) are left to the linker, which keeps one copy and may
/// point references to others at it.
pub(crate) fn has_code_or_data(summary: &ModuleSummary, group: &Group) -> bool {
    group.members.iter().any(|m| summary.atoms.get(m.index()).is_some_and(|a| a.kind.is_alloc()))
}

/// The prevailing definition of a global symbol, as an atom.
fn prevailing_atom(
    sources: &LinkInputs<'_>,
    index_modules: &[IndexedModule],
    position_of: &FxHashMap<ModuleId, usize>,
    symbol: SymbolId,
) -> Option<AtomId> {
    let crate::resolve::Prevailing::Module { module, symbol } = sources.resolution.symbols[symbol].prevailing
    else {
        return None;
    };
    let position = *position_of.get(&module)?;
    let atom = sources.summaries[position].defining_atom(symbol)?;
    Some(AtomId(index_modules[position].first_atom + atom.0))
}

/// Whether an input section description matches this file by a path that a pruned copy can't keep.
fn matches_script_pattern(
    sources: &LinkInputs<'_>,
    module: ModuleId,
    limits: &mut Vec<(Option<ModuleId>, LimitRecord)>,
) -> bool {
    // A pruned copy is in another folder but keeps `basename` and `archive:member`. So only a pattern that begins with `*` is sure to
    // match both.
    let anchored = |p: &&String| !p.starts_with('*');
    let Some(pattern) = sources.inputs.scripts.file_patterns.iter().find(anchored) else { return false };
    let detail = format!("the linker script has the file pattern {pattern}");
    limits.push((Some(module), link_limit(Limit::ScriptFilePattern, detail)));
    true
}

/// `.gnu.linkonce.*` sections of one name in two modules: linkers differ in whether they discard the second.
fn linkonce(sources: &LinkInputs<'_>, index: &mut Index) {
    let mut seen: FxHashMap<&[u8], usize> = FxHashMap::default();
    for (position, summary) in sources.summaries.iter().enumerate() {
        for atom in &summary.atoms {
            let name = summary.name(atom.name);
            if name.starts_with(b".gnu.linkonce.") && *seen.entry(name).or_insert(position) != position {
                let detail = format!("section {} in several modules", String::from_utf8_lossy(name));
                let limit = link_limit(Limit::AmbiguousResolution, detail);
                index.limits.push((Some(index.modules[position].module), limit));
                return;
            }
        }
    }
}
