//! A minimum cut of removable edges between the root and a node, and as many paths that share no removable edge.
//!
//! Both come from a maximum flow (Dinic) in which a removable edge has capacity 1 and any other edge is unlimited. By Menger's theorem
//! the two numbers are equal. The cut is the minimum cut nearest to the node.

use std::collections::VecDeque;

use super::{Graph, NONE, NumberedEdge, ROOT};

/// Edges that separate a node from the root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cut {
    /// The edges, in order of their source: (source, target, number).
    pub(crate) edges: Vec<NumberedEdge>,
    /// Paths from the root to the node, as many as edges; no removable edge is in two of them. Shortest first.
    pub(crate) paths: Vec<Vec<NumberedEdge>>,
}

/// An edge of the flow network, its reverse at the index with the last bit flipped.
struct Line {
    to: u32,
    free: u32,
    /// The edge of the graph; [`NONE`] for reverses.
    arc: u32,
}

const UNLIMITED: u32 = u32::MAX / 2;

struct Network {
    lines: Vec<Line>,
    /// By node: first of its lines in `next`.
    first: Vec<u32>,
    next: Vec<u32>,
    level: Vec<u32>,
    at: Vec<u32>,
}

impl Network {
    fn push(&mut self, from: u32, to: u32, capacity: u32, arc: u32) {
        for (a, b, free, arc) in [(from, to, capacity, arc), (to, from, 0, NONE)] {
            let at = self.lines.len() as u32;
            self.lines.push(Line { to: b, free, arc });
            self.next.push(std::mem::replace(&mut self.first[a as usize], at));
        }
    }

    /// The lines out of a node, by number.
    fn out(&self, node: u32) -> impl Iterator<Item = u32> + '_ {
        let next = |at: &u32| Some(self.next[*at as usize]).filter(|at| *at != NONE);
        std::iter::successors(Some(self.first[node as usize]).filter(|at| *at != NONE), next)
    }

    fn line(&self, at: u32) -> &Line {
        &self.lines[at as usize]
    }

    /// Distances from the root over free lines; whether `to` has one.
    fn levels(&mut self, to: u32) -> bool {
        self.at.clone_from(&self.first);
        let mut level = vec![NONE; self.first.len()];
        level[ROOT as usize] = 0;
        let mut work = VecDeque::from([ROOT]);
        while let Some(node) = work.pop_front() {
            let distance = level[node as usize] + 1;
            for line in self.out(node).map(|at| self.line(at)) {
                if line.free > 0 && level[line.to as usize] == NONE {
                    level[line.to as usize] = distance;
                    work.push_back(line.to);
                }
            }
        }
        self.level = level;
        self.level[to as usize] != NONE
    }

    /// One more path from the root to `to` along the levels; its capacity.
    fn augment(&mut self, to: u32) -> u32 {
        let mut path: Vec<u32> = Vec::new();
        let mut node = ROOT;
        while node != to {
            let at = self.at[node as usize];
            if at == NONE {
                // A dead end: back, and past the line that led here.
                let Some(last) = path.pop() else { return 0 };
                node = self.line(last ^ 1).to;
                self.at[node as usize] = self.next[last as usize];
                continue;
            }
            let Line { to: next, free, .. } = *self.line(at);
            if free > 0 && self.level[next as usize] == self.level[node as usize].saturating_add(1) {
                path.push(at);
                node = next;
            } else {
                self.at[node as usize] = self.next[at as usize];
            }
        }
        let capacity = path.iter().map(|at| self.line(*at).free).min().unwrap_or(0);
        for at in path {
            self.lines[at as usize].free -= capacity;
            let reverse = &mut self.lines[(at ^ 1) as usize].free;
            *reverse = reverse.saturating_add(capacity);
        }
        capacity
    }
}

/// The smallest cut between the root and `to`. `may_go` (source, target, number) says which edges may be in it; `None` if
/// every one needs an edge that may not.
pub(crate) fn cut(graph: &Graph, to: u32, may_go: impl Fn(u32, u32, u32) -> bool) -> Option<Cut> {
    if to == ROOT {
        return None;
    }
    let leads = graph.reversed().reached(to, |_, _, _| true);
    let leads = |node: u32| leads[node as usize];
    let nodes = graph.nodes();
    let mut network = Network {
        lines: Vec::new(),
        first: vec![NONE; nodes],
        next: Vec::new(),
        level: Vec::new(),
        at: Vec::new(),
    };
    let mut arcs: Vec<NumberedEdge> = Vec::new();
    for node in (0..nodes as u32).filter(|n| *n != to && leads(*n)) {
        for (target, number) in graph.out(node).filter(|e| leads(e.0)) {
            let capacity = if may_go(node, target, number) { 1 } else { UNLIMITED };
            network.push(node, target, capacity, arcs.len() as u32);
            arcs.push((node, target, number));
        }
    }
    let mut flow = 0u64;
    while network.levels(to) {
        loop {
            let more = network.augment(to);
            if more >= UNLIMITED / 2 {
                return None;
            }
            flow += u64::from(more);
            if more == 0 {
                break;
            }
        }
    }
    let behind = reaches(&network, to);
    let behind = |node: u32| behind[node as usize];
    let edges: Vec<NumberedEdge> = arcs.iter().filter(|a| !behind(a.0) && behind(a.1)).copied().collect();
    debug_assert_eq!(edges.len() as u64, flow);
    let mut paths = decompose(&mut network, &arcs, to, flow);
    paths.sort_by(|a, b| a.len().cmp(&b.len()).then_with(|| a.cmp(b)));
    Some(Cut { edges, paths })
}

/// By node: whether `to` is reached from it by free lines.
fn reaches(network: &Network, to: u32) -> Vec<bool> {
    let mut found = vec![false; network.first.len()];
    found[to as usize] = true;
    let mut work = vec![to];
    while let Some(node) = work.pop() {
        for at in network.out(node) {
            // The reverse of a line out of `node` leads to it.
            let from = network.line(at).to;
            if network.line(at ^ 1).free > 0 && !found[from as usize] {
                found[from as usize] = true;
                work.push(from);
            }
        }
    }
    found
}

/// The flow as paths. Cycles of the flow are removed.
fn decompose(network: &mut Network, arcs: &[NumberedEdge], to: u32, flow: u64) -> Vec<Vec<NumberedEdge>> {
    let mut paths = Vec::new();
    // A line without flow stays without: each node continues where it was.
    network.at.clone_from(&network.first);
    // By node: its place on the path.
    let mut places = vec![NONE; network.first.len()];
    for _ in 0..flow {
        let mut path: Vec<NumberedEdge> = Vec::new();
        let mut node = ROOT;
        while node != to {
            let at = network.at[node as usize];
            if at == NONE {
                return paths;
            }
            let Line { to: next, arc, .. } = *network.line(at);
            // The flow through a line is the free capacity of its reverse.
            let reverse = &mut network.lines[(at ^ 1) as usize].free;
            if arc == NONE || *reverse == 0 {
                network.at[node as usize] = network.next[at as usize];
                continue;
            }
            *reverse -= 1;
            places[node as usize] = path.len() as u32;
            path.push(arcs[arc as usize]);
            node = next;
            let seen = places[node as usize];
            if seen != NONE {
                path.drain(seen as usize..).for_each(|arc| places[arc.0 as usize] = NONE);
            }
        }
        path.iter().for_each(|arc| places[arc.0 as usize] = NONE);
        paths.push(path);
    }
    paths
}
