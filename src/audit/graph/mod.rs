//! The liveness graph: live nodes, edges that keep them, and one virtual root before all roots.
//!
//! It has numbers only; `model` has the atoms and the edges.

pub(crate) mod cut;
pub(crate) mod dominators;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

/// An edge as it is given: (source, target, own number).
pub(crate) type NumberedEdge = (u32, u32, u32);

/// A directed graph in rows: edges of node `n` are number `start[n]` to `start[n + 1]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Graph {
    start: Vec<u32>,
    /// Target and own number of each edge.
    edges: Vec<(u32, u32)>,
}

/// The root node, which reaches all others.
pub(crate) const ROOT: u32 = 0;
/// It stands for no node and for no edge.
pub(crate) const NONE: u32 = u32::MAX;

impl Graph {
    /// The graph of `nodes` nodes. Edges to or from other nodes are left out.
    pub(crate) fn new(nodes: usize, arcs: impl Iterator<Item = NumberedEdge> + Clone) -> Self {
        let inside = |a: &NumberedEdge| (a.0 as usize) < nodes && (a.1 as usize) < nodes;
        let mut start = vec![0u32; nodes + 1];
        arcs.clone().filter(inside).for_each(|arc| start[arc.0 as usize + 1] += 1);
        let mut sum = 0;
        for entry in &mut start {
            sum += *entry;
            *entry = sum;
        }
        let mut next = start.clone();
        let mut edges = vec![(0, 0); sum as usize];
        for (from, to, number) in arcs.filter(inside) {
            let slot = &mut next[from as usize];
            edges[*slot as usize] = (to, number);
            *slot += 1;
        }
        Graph { start, edges }
    }

    /// The number of nodes counts the root, too.
    pub(crate) fn nodes(&self) -> usize {
        self.start.len() - 1
    }

    /// (target, number) of each edge out of `node`.
    pub(crate) fn out(&self, node: u32) -> impl Iterator<Item = (u32, u32)> + Clone + '_ {
        let at = |node: usize| self.start[node] as usize;
        self.edges[at(node as usize)..at(node as usize + 1)].iter().copied()
    }

    /// The same edges the other way round.
    pub(crate) fn reversed(&self) -> Graph {
        let arcs = (0..self.nodes() as u32).flat_map(|n| self.out(n).map(move |(t, number)| (t, n, number)));
        Graph::new(self.nodes(), arcs)
    }

    /// By node: whether it is reached from `from` over the edges that `passes` (source, target, number) lets through.
    pub(crate) fn reached(&self, from: u32, passes: impl Fn(u32, u32, u32) -> bool) -> Vec<bool> {
        let mut reached = vec![false; self.nodes()];
        reached[from as usize] = true;
        let mut work = vec![from];
        while let Some(node) = work.pop() {
            for (target, number) in self.out(node) {
                if !reached[target as usize] && passes(node, target, number) {
                    reached[target as usize] = true;
                    work.push(target);
                }
            }
        }
        reached
    }

    /// A shortest path from `from` to `to` over the edges that `passes`: (source, target, number) of each edge. `None` without a
    /// path.
    pub(crate) fn shortest(
        &self,
        from: u32,
        to: u32,
        passes: impl Fn(u32, u32, u32) -> bool,
    ) -> Option<Vec<NumberedEdge>> {
        let mut before: Vec<Option<NumberedEdge>> = vec![None; self.nodes()];
        let mut work = VecDeque::from([from]);
        while let Some(node) = work.pop_front() {
            if node == to {
                break;
            }
            for (target, number) in self.out(node) {
                let is_new = target != from && before[target as usize].is_none();
                if is_new && passes(node, target, number) {
                    before[target as usize] = Some((node, target, number));
                    work.push_back(target);
                }
            }
        }
        let mut path = Vec::new();
        let mut node = to;
        while node != from {
            let arc = before[node as usize]?;
            path.push(arc);
            node = arc.0;
        }
        path.reverse();
        Some(path)
    }
}
