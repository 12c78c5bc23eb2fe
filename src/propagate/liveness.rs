//! Liveness: LLVM's `computeDeadSymbols` over atoms, with a first witness for every live one.
//!
//! An atom is live if it is a root or a live atom has an edge to it. Its fact is the least pair (distance from the roots, edge).
//! This is a lattice, so that the witness depends on no order and no thread. The chain of witnesses is a shortest path.

use super::solver::{Lattice, Problem, solve};
use crate::ids::{AtomId, Id};
use crate::index::{Edge, Index, Root};

/// The root, edge or call that made an atom live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Witness {
    /// Number of the root in [`Index::roots`].
    Root(u32),
    /// Number of the edge in [`Index::edges`].
    Edge(u32),
    /// By value flow: a call or jump in `caller` may lead here.
    Called { caller: AtomId },
    /// By value flow: its address escaped. `mention` is an edge from a live atom that takes the address.
    Escaped { mention: Option<u32> },
    /// It belongs to the same function as this atom.
    Part(AtomId),
    /// This atom has the address of a label in the atom.
    Label(AtomId),
}

/// The live atoms, each with the reason.
#[derive(Debug, Clone, Default)]
pub struct Liveness {
    /// By atom: the reason why it is live; `None` if it is dead.
    pub witness: Vec<Option<Witness>>,
    /// By atom: its address is needed and its body is not. Empty if there are no stubs.
    pub stub: Vec<bool>,
}

impl Liveness {
    /// Whether the atom is kept, with all atoms that it refers to.
    pub fn is_live(&self, atom: AtomId) -> bool {
        self.witness[atom.index()].is_some() && !self.is_stub(atom)
    }

    /// All atoms live, each as a root that has no number.
    pub fn of_all(atoms: usize) -> Self {
        Liveness { witness: vec![Some(Witness::Root(u32::MAX)); atoms], stub: Vec::new() }
    }

    /// Whether each atom that is live in `other` is live here; both have the same atoms.
    pub fn covers(&self, other: &Liveness) -> bool {
        let both = self.witness.iter().zip(&other.witness);
        self.witness.len() == other.witness.len()
            && both.into_iter().all(|(own, other)| own.is_some() || other.is_none())
    }

    /// Whether only the address of the atom is needed.
    pub fn is_stub(&self, atom: AtomId) -> bool {
        self.stub.get(atom.index()).copied().unwrap_or(false)
    }
}

/// (distance from the roots, root or edge number): less is joined over more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct WitnessDistance {
    distance: u32,
    by: u32,
}

impl Lattice for WitnessDistance {
    fn join(&mut self, other: &Self) -> bool {
        let better = *other < *self;
        *self = (*self).min(*other);
        better
    }
}

struct Reachability<'a, F> {
    index: &'a Index,
    takes: &'a F,
}

impl<F: Fn(AtomId, &Edge) -> bool + Sync> Problem for Reachability<'_, F> {
    type Fact = WitnessDistance;

    fn keys(&self) -> usize {
        self.index.atom_count()
    }

    fn transfer(&self, key: u32, fact: &WitnessDistance, implies: &mut dyn FnMut(u32, WitnessDistance)) {
        let (first, edges) = self.index.edges_of(AtomId(key));
        for (number, edge) in (first..).zip(edges) {
            if self.index.follows(AtomId(key), edge) && (self.takes)(AtomId(key), edge) {
                implies(edge.target.0, WitnessDistance { distance: fact.distance + 1, by: number });
            }
        }
    }
}

/// The atoms that the roots reach by all edges.
pub fn live(index: &Index) -> Liveness {
    reach(index, &|_| true, &|_, _| true)
}

/// The atoms that the roots with `begins` reach by the edges with `takes`, which also gets the edge's source.
pub(crate) fn reach(
    index: &Index,
    begins: &dyn Fn(&Root) -> bool,
    takes: &(impl Fn(AtomId, &Edge) -> bool + Sync),
) -> Liveness {
    let roots = index.roots.iter().enumerate().filter(|(_, root)| begins(root));
    let initial =
        roots.map(|(i, root)| (root.atom.0, WitnessDistance { distance: 0, by: i as u32 })).collect();
    let facts = solve(&Reachability { index, takes }, initial);
    let witness = |fact: Option<WitnessDistance>| {
        fact.map(|f| if f.distance == 0 { Witness::Root(f.by) } else { Witness::Edge(f.by) })
    };
    Liveness { witness: facts.into_iter().map(witness).collect(), stub: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(live: [bool; 3]) -> Liveness {
        Liveness { witness: live.map(|live| live.then_some(Witness::Root(0))).to_vec(), stub: Vec::new() }
    }

    #[test]
    fn what_lives_elsewhere_is_covered_or_not() {
        let known = of([true, true, false]);
        assert!(known.covers(&of([true, false, false])) && known.covers(&known));
        assert!(!known.covers(&of([true, false, true])));
        assert!(!known.covers(&Liveness::of_all(2)) && Liveness::of_all(3).covers(&of([true; 3])));
    }
}
