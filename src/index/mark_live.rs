//! Mark and sweep as the linker's own `--gc-sections` does it on the originals (lld/ELF/MarkLive.cpp).
//!
//! The linker keeps or removes whole input sections, so that marking an atom marks all atoms of its section. Unwind tables are roots: each
//! personality, and each LSDA that is not metadata of one section. A definition that does not prevail keeps nothing by its name. Roots by
//! our own options and limits, and names that the linker demands, do not count here. The pieces of merge sections, which refer to
//! nothing, are not modelled one by one.
//!
//! The result decides what the plain link reports and needs: undefined symbols, libraries, sections of `__start_X`.

use rayon::prelude::*;
use summaries::{Atom, AtomIdx, AtomKind, ModuleSummary, ReferenceKind, atom_flags};

use super::{Edge, EdgeKind, Index, RootReason};
use crate::ids::{AtomId, Id};
use crate::propagate::solver::{Lattice, Problem, solve};

/// By atom: whether the linker keeps it.
pub(super) fn mark(index: &Index, summaries: &[&ModuleSummary]) -> Vec<bool> {
    let joined = joined(index, summaries);
    let tables = tables(index, summaries);
    let atom = |id: AtomId| {
        let (position, local) = index.locate(id);
        summaries.get(position).and_then(|s| s.atoms.get(local.index()))
    };
    let of_linker = |reason| {
        !matches!(
            reason,
            RootReason::PruneKeep
                | RootReason::PruneLimit
                | RootReason::ModuleKept
                | RootReason::Ordered
                | RootReason::Declared
                | RootReason::Unique
                | RootReason::Empty
        )
    };
    let roots = index.roots.iter().filter(|r| of_linker(r.reason));
    let mut first: Vec<(u32, MarkBit)> = roots.map(|root| (root.atom.0, MarkBit)).collect();
    let metadata = atom_flags::EXEC | atom_flags::LINK_ORDER | atom_flags::GROUPED;
    let of_unwind = (0..index.atom_count()).into_par_iter().map(AtomId::new).flat_map_iter(|id| {
        let edges = if index.discarded[id.index()] { &[] } else { index.edges_of(id).1 };
        let targets = edges.iter().filter(|e| e.kind == EdgeKind::Unwind).map(|e| e.target);
        let is_root = |target: &AtomId| {
            !index.discarded[target.index()]
                && atom(*target).is_some_and(|a| a.kind != AtomKind::Lsda || !a.has(metadata))
        };
        targets.filter(is_root).map(|target| (target.0, MarkBit))
    });
    first.par_extend(of_unwind);
    solve(&MarkPhase { index, joined, tables }, first).into_iter().map(|mark| mark.is_some()).collect()
}

/// An atom is marked, or not.
#[derive(Debug, Clone, Copy)]
struct MarkBit;

impl Lattice for MarkBit {
    fn join(&mut self, _: &Self) -> bool {
        false
    }
}

struct MarkPhase<'i> {
    index: &'i Index,
    joined: Vec<bool>,
    tables: Vec<(AtomId, AtomId)>,
}

impl Problem for MarkPhase<'_> {
    type Fact = MarkBit;

    fn keys(&self) -> usize {
        self.index.atom_count()
    }

    fn transfer(&self, key: u32, _: &MarkBit, implies: &mut dyn FnMut(u32, MarkBit)) {
        let id = AtomId(key);
        let keeps = |edge: &&Edge| edge.kind != EdgeKind::SameName && !edge.is_described();
        let edges = self.index.edges_of(id).1.iter().filter(keeps);
        edges.filter(|e| self.index.follows_in_plain(id, e)).for_each(|e| implies(e.target.0, MarkBit));
        let first = self.tables.partition_point(|(from, _)| *from < id);
        let of_tables = self.tables.iter().skip(first).take_while(|(from, _)| *from == id);
        of_tables.for_each(|(_, to)| implies(to.0, MarkBit));
        // An input section is kept or removed as a whole.
        if self.joined[id.index()] {
            implies(key - 1, MarkBit);
        }
        if self.joined[id.index() + 1] {
            implies(key + 1, MarkBit);
        }
    }
}

/// Pairs of (data, code), sorted: the targets of jump tables in the data. In the index a table belongs to the function that jumps by
/// it; to the linker it belongs to its section.
fn tables(index: &Index, summaries: &[&ModuleSummary]) -> Vec<(AtomId, AtomId)> {
    let mut pairs = Vec::new();
    for (module, summary) in index.modules.iter().zip(summaries) {
        for table in &summary.owned {
            let entries = summary.references_of(table.owner).iter().filter(|r| r.kind == ReferenceKind::Data);
            for entry in entries.filter(|r| (table.start..table.end).contains(&r.offset)) {
                let target = summary.target_atom(entry.target);
                let global = |atom: AtomIdx| AtomId(module.first_atom + atom.0);
                pairs.extend(target.map(|target| (global(table.atom), global(target))));
            }
        }
    }
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

/// Whether each atom is of the same section as the one before it; there is one entry more behind the last.
fn joined(index: &Index, summaries: &[&ModuleSummary]) -> Vec<bool> {
    let mut joined = vec![false; index.atom_count() + 1];
    for (module, summary) in index.modules.iter().zip(summaries) {
        for (i, pair) in summary.atoms.array_windows::<2>().enumerate() {
            let same = pair[0].section == pair[1].section && pair[0].section != Atom::NO_SECTION;
            joined[module.first_atom as usize + i + 1] = same;
        }
    }
    joined
}
