//! The graph that the questions of an audit are put to: nodes that live, edges that keep, and one virtual root before all roots.
//!
//! Knows numbers only, nothing of atoms or symbols. Every node is reached from the root; the constructor leaves out what is
//! not. Left out: which edges there are (`model`), what the answers mean (`commands`).

pub(crate) mod cut;
pub(crate) mod dominators;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

/// An edge as it is given: (source, target, own number).
pub(crate) type NumberedEdge = (u32, u32, u32);

/// A directed graph in rows: edges of node `n` are number `start[n]` to `start[n + 1]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Graph {
    start: Vec<u32>,
    target: Vec<u32>,
    /// Numbers that the edges were given with.
    number: Vec<u32>,
    /// Node 0 is what everything is reached from.
    nodes: usize,
}

/// The root that all is reached from.
pub(crate) const ROOT: u32 = 0;
/// It stands for no node and for no edge.
pub(crate) const NONE: u32 = u32::MAX;

impl Graph {
    /// The graph of `nodes` nodes, of which number 0 is the root. Edges to or from nodes that aren't there are left out.
    pub(crate) fn new(nodes: usize, arcs: impl Iterator<Item = NumberedEdge> + Clone) -> Self {
        let inside = |a: &NumberedEdge| (a.0 as usize) < nodes && (a.1 as usize) < nodes;
        let mut start = vec![0u32; nodes + 1];
        for arc in arcs.clone().filter(inside) {
            if let Some(count) = start.get_mut(arc.0 as usize + 1) {
                *count += 1;
            }
        }
        let mut sum = 0;
        for entry in &mut start {
            sum += *entry;
            *entry = sum;
        }
        let mut next = start.clone();
        let (mut target, mut number) = (vec![0; sum as usize], vec![0; sum as usize]);
        for arc in arcs.filter(inside) {
            let Some(slot) = next.get_mut(arc.0 as usize) else { continue };
            if let (Some(t), Some(n)) = (target.get_mut(*slot as usize), number.get_mut(*slot as usize)) {
                (*t, *n) = (arc.1, arc.2);
            }
            *slot += 1;
        }
        Graph { start, target, number, nodes }
    }

    /// The number of nodes counts the root, too.
    pub(crate) fn nodes(&self) -> usize {
        self.nodes
    }

    fn range(&self, node: u32) -> std::ops::Range<usize> {
        let at = |i: usize| self.start.get(i).map_or(0, |s| *s as usize);
        at(node as usize)..at(node as usize + 1)
    }

    /// (target, number) of each edge out of `node`.
    pub(crate) fn out(&self, node: u32) -> impl Iterator<Item = (u32, u32)> + Clone + '_ {
        let range = self.range(node);
        let targets = self.target.get(range.clone()).unwrap_or(&[]);
        let numbers = self.number.get(range).unwrap_or(&[]);
        targets.iter().copied().zip(numbers.iter().copied())
    }

    /// The same edges the other way round.
    pub(crate) fn reversed(&self) -> Graph {
        let arcs = (0..self.nodes as u32).flat_map(|n| self.out(n).map(move |(t, number)| (t, n, number)));
        Graph::new(self.nodes, arcs)
    }

    /// By node: whether it is reached from `from` over the edges that `passes` (source, target, number) lets through.
    pub(crate) fn reached(&self, from: u32, passes: impl Fn(u32, u32, u32) -> bool) -> Vec<bool> {
        let mut reached = vec![false; self.nodes];
        let mut work = vec![from];
        if let Some(first) = reached.get_mut(from as usize) {
            *first = true;
        }
        while let Some(node) = work.pop() {
            for (target, number) in self.out(node) {
                let Some(seen) = reached.get_mut(target as usize).filter(|seen| !**seen) else { continue };
                if passes(node, target, number) {
                    *seen = true;
                    work.push(target);
                }
            }
        }
        reached
    }

    /// A shortest path from `from` to `to` over the edges that `passes`: (source, target, number) of each edge. `None` if
    /// there is none.
    pub(crate) fn shortest(
        &self,
        from: u32,
        to: u32,
        passes: impl Fn(u32, u32, u32) -> bool,
    ) -> Option<Vec<NumberedEdge>> {
        let mut before: Vec<Option<NumberedEdge>> = vec![None; self.nodes];
        let mut work = VecDeque::from([from]);
        while let Some(node) = work.pop_front() {
            if node == to {
                break;
            }
            for (target, number) in self.out(node) {
                if let Some(slot @ None) = before.get_mut(target as usize)
                    && target != from
                    && passes(node, target, number)
                {
                    *slot = Some((node, target, number));
                    work.push_back(target);
                }
            }
        }
        let mut path = Vec::new();
        let mut node = to;
        while node != from {
            let arc = before.get(node as usize).copied().flatten()?;
            path.push(arc);
            node = arc.0;
        }
        path.reverse();
        Some(path)
    }
}
