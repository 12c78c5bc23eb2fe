//! A minimum edge cut between the root and a node, and as many edge-disjoint paths to it (Menger), by maximum flow.
//!
//! By maximum flow (Dinic) with capacity 1 for each edge that may go; by Menger's theorem the two numbers are equal, so
//! each proves the other. Of all smallest cuts it is the one nearest to the node, which takes the least along.

use std::collections::VecDeque;

use super::{Graph, NONE, NumberedEdge, ROOT};

/// What separates a node from the root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cut {
    /// The edges, in order of their source: (source, target, number).
    pub(crate) edges: Vec<NumberedEdge>,
    /// Paths from the root to the node, as many as edges; no edge that may go is in two of them. Shortest first.
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
    fn line(&self, at: u32) -> Option<&Line> {
        self.lines.get(at as usize)
    }

    fn head(list: &[u32], at: u32) -> u32 {
        list.get(at as usize).copied().unwrap_or(NONE)
    }

    fn push(&mut self, from: u32, to: u32, capacity: u32, arc: u32) {
        for (a, b, free, arc) in [(from, to, capacity, arc), (to, from, 0, NONE)] {
            let at = self.lines.len() as u32;
            self.lines.push(Line { to: b, free, arc });
            self.next.push(Self::head(&self.first, a));
            if let Some(first) = self.first.get_mut(a as usize) {
                *first = at;
            }
        }
    }

    /// Distances from the root in what is free; whether `to` has one.
    fn levels(&mut self, to: u32) -> bool {
        self.level.fill(NONE);
        self.at.clone_from(&self.first);
        if let Some(root) = self.level.get_mut(ROOT as usize) {
            *root = 0;
        }
        let mut work = VecDeque::from([ROOT]);
        while let Some(node) = work.pop_front() {
            let distance = Self::head(&self.level, node) + 1;
            let mut at = Self::head(&self.first, node);
            while let Some(line) = self.lines.get(at as usize) {
                if let Some(level) = self.level.get_mut(line.to as usize)
                    && line.free > 0
                    && *level == NONE
                {
                    *level = distance;
                    work.push_back(line.to);
                }
                at = Self::head(&self.next, at);
            }
        }
        Self::head(&self.level, to) != NONE
    }

    /// One more path from the root to `to` along the levels; its capacity.
    fn augment(&mut self, to: u32) -> u32 {
        let mut path: Vec<u32> = Vec::new();
        let mut node = ROOT;
        while node != to {
            let at = Self::head(&self.at, node);
            match self.line(at) {
                Some(line)
                    if line.free > 0
                        && Self::head(&self.level, line.to)
                            == Self::head(&self.level, node).saturating_add(1) =>
                {
                    path.push(at);
                    node = line.to;
                }
                Some(_) => {
                    let next = Self::head(&self.next, at);
                    if let Some(slot) = self.at.get_mut(node as usize) {
                        *slot = next;
                    }
                }
                // Nothing goes on from here: back, and past the line that led here.
                None => {
                    let Some(last) = path.pop() else { return 0 };
                    node = self.line(last ^ 1).map_or(ROOT, |l| l.to);
                    let next = Self::head(&self.next, last);
                    if let Some(slot) = self.at.get_mut(node as usize) {
                        *slot = next;
                    }
                }
            }
        }
        let capacity = path.iter().filter_map(|at| self.line(*at)).map(|l| l.free).min().unwrap_or(0);
        for at in path {
            for (at, adds) in [(at, false), (at ^ 1, true)] {
                if let Some(line) = self.lines.get_mut(at as usize) {
                    line.free = if adds { line.free.saturating_add(capacity) } else { line.free - capacity };
                }
            }
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
    let leads = |node: u32| leads.get(node as usize).copied().unwrap_or(false);
    let nodes = graph.nodes();
    let mut network = Network {
        lines: Vec::new(),
        first: vec![NONE; nodes],
        next: Vec::new(),
        level: vec![NONE; nodes],
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
    let behind = |node: u32| behind.get(node as usize).copied().unwrap_or(false);
    let edges: Vec<NumberedEdge> = arcs.iter().filter(|a| !behind(a.0) && behind(a.1)).copied().collect();
    debug_assert_eq!(edges.len() as u64, flow);
    let mut paths = decompose(&mut network, &arcs, to, flow);
    paths.sort_by(|a, b| a.len().cmp(&b.len()).then_with(|| a.cmp(b)));
    Some(Cut { edges, paths })
}

/// By node: whether `to` is reached from it by free lines.
fn reaches(network: &Network, to: u32) -> Vec<bool> {
    let mut found = vec![false; network.first.len()];
    if let Some(slot) = found.get_mut(to as usize) {
        *slot = true;
    }
    let mut work = vec![to];
    while let Some(node) = work.pop() {
        let mut at = Network::head(&network.first, node);
        while let Some(line) = network.line(at) {
            // The reverse of a line out of `node` leads to it.
            let free = network.line(at ^ 1).is_some_and(|l| l.free > 0);
            if let Some(slot @ false) = found.get_mut(line.to as usize)
                && free
            {
                *slot = true;
                work.push(line.to);
            }
            at = Network::head(&network.next, at);
        }
    }
    found
}

/// The flow as paths. Cycles that it goes around are cut out of them.
fn decompose(network: &mut Network, arcs: &[NumberedEdge], to: u32, flow: u64) -> Vec<Vec<NumberedEdge>> {
    let mut paths = Vec::new();
    // A line that carries nothing won't again: each node goes on from where it was.
    network.at.clone_from(&network.first);
    // By node: its place on the path.
    let mut places = vec![NONE; network.first.len()];
    let set = |list: &mut [u32], node: u32, value: u32| {
        if let Some(slot) = list.get_mut(node as usize) {
            *slot = value;
        }
    };
    for _ in 0..flow {
        let mut path: Vec<NumberedEdge> = Vec::new();
        let mut node = ROOT;
        while node != to {
            let at = Network::head(&network.at, node);
            let Some(line) = network.line(at) else { return paths };
            let (arc, next) = (line.arc, line.to);
            // What flows through a line is what is free in its reverse.
            let carried = network.lines.get_mut((at ^ 1) as usize).filter(|l| arc != NONE && l.free > 0);
            let Some(reverse) = carried else {
                let other = Network::head(&network.next, at);
                set(&mut network.at, node, other);
                continue;
            };
            reverse.free -= 1;
            set(&mut places, node, path.len() as u32);
            path.extend(arcs.get(arc as usize));
            node = next;
            let seen = Network::head(&places, node);
            if seen != NONE {
                for arc in path.drain(seen as usize..) {
                    set(&mut places, arc.0, NONE);
                }
            }
        }
        for arc in &path {
            set(&mut places, arc.0, NONE);
        }
        paths.push(path);
    }
    paths
}
