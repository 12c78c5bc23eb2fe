//! The dominator tree, by Lengauer and Tarjan, and the retained size of each node.
//!
//! The simple form of the algorithm (path compression without balancing: m log n), without recursion, since chains of calls are long.
//! A node retains its own weight and that of every node that it dominates, which is not reached without it (T. Lengauer, R. E.
//! Tarjan, "A fast algorithm for finding dominators in a flowgraph", 1979).

use super::{Graph, NONE, ROOT};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dominators {
    /// By node: its immediate dominator; [`NONE`] for the root and for unreached nodes.
    pub(crate) immediate: Vec<u32>,
    /// The nodes that are reached, in an order in which each stands behind its immediate dominator.
    pub(crate) order: Vec<u32>,
}

/// Tables by number in depth-first order, from 0, the root.
struct DepthFirstNumbering {
    /// The elements are nodes, by their numbers.
    vertex: Vec<u32>,
    /// The elements are numbers of the parents, by number.
    parent: Vec<u32>,
    /// Number of each node, or [`NONE`].
    number: Vec<u32>,
}

fn depth_first(graph: &Graph) -> DepthFirstNumbering {
    let nodes = graph.nodes();
    let mut found = DepthFirstNumbering { vertex: Vec::new(), parent: Vec::new(), number: vec![NONE; nodes] };
    // A node may be pushed by several parents; the last one that pushed it before it is taken is its parent, as if by recursion.
    let mut work = vec![(ROOT, NONE)];
    while let Some((node, parent)) = work.pop() {
        if nodes == 0 || found.number[node as usize] != NONE {
            continue;
        }
        let number = found.vertex.len() as u32;
        found.number[node as usize] = number;
        found.vertex.push(node);
        found.parent.push(parent);
        work.extend(graph.out(node).filter(|e| found.number[e.0 as usize] == NONE).map(|e| (e.0, number)));
    }
    found
}

/// The forest of the algorithm: `ancestor` with compressed paths, `label` the node of least semidominator on them.
struct Forest {
    ancestor: Vec<u32>,
    label: Vec<u32>,
    semi: Vec<u32>,
    path: Vec<usize>,
}

impl Forest {
    fn new(count: usize) -> Self {
        let own: Vec<u32> = (0..count as u32).collect();
        Forest { ancestor: vec![NONE; count], label: own.clone(), semi: own, path: Vec::new() }
    }

    fn eval(&mut self, v: u32) -> u32 {
        let mut at = v as usize;
        if self.ancestor[at] == NONE {
            return self.label[at];
        }
        self.path.clear();
        while self.ancestor[self.ancestor[at] as usize] != NONE {
            self.path.push(at);
            at = self.ancestor[at] as usize;
        }
        while let Some(node) = self.path.pop() {
            let above = self.ancestor[node] as usize;
            let (label, best) = (self.label[node], self.label[above]);
            if self.semi[best as usize] < self.semi[label as usize] {
                self.label[node] = best;
            }
            self.ancestor[node] = self.ancestor[above];
        }
        self.label[v as usize]
    }
}

impl Dominators {
    /// The dominators of all nodes that the root reaches.
    pub(crate) fn new(graph: &Graph) -> Self {
        let found = depth_first(graph);
        let before = graph.reversed();
        let count = found.vertex.len();
        let mut forest = Forest::new(count);
        let mut immediate = vec![NONE; count];
        // Nodes of one semidominator, as linked lists.
        let (mut first, mut next) = (vec![NONE; count], vec![NONE; count]);
        for w in (1..count).rev() {
            for (source, _) in before.out(found.vertex[w]) {
                let v = found.number[source as usize];
                if v != NONE {
                    let u = forest.eval(v);
                    forest.semi[w] = forest.semi[w].min(forest.semi[u as usize]);
                }
            }
            let semi = forest.semi[w] as usize;
            next[w] = std::mem::replace(&mut first[semi], w as u32);
            let parent = found.parent[w];
            forest.ancestor[w] = parent;
            let mut v = std::mem::replace(&mut first[parent as usize], NONE);
            while v != NONE {
                let u = forest.eval(v);
                let nearer = forest.semi[u as usize] < forest.semi[v as usize];
                immediate[v as usize] = if nearer { u } else { parent };
                v = next[v as usize];
            }
        }
        for w in 1..count {
            if immediate[w] != forest.semi[w] {
                immediate[w] = immediate[immediate[w] as usize];
            }
        }
        let mut by_node = vec![NONE; graph.nodes()];
        for (w, node) in found.vertex.iter().enumerate().skip(1) {
            by_node[*node as usize] = found.vertex[immediate[w] as usize];
        }
        Dominators { immediate: by_node, order: found.vertex }
    }

    /// By node: its weight and that of all that it dominates.
    pub(crate) fn retained(&self, weight: &[u64]) -> Vec<u64> {
        let mut retained = vec![0; self.immediate.len()];
        self.order.iter().for_each(|node| retained[*node as usize] = weight[*node as usize]);
        for node in self.order.iter().skip(1).rev() {
            retained[self.immediate[*node as usize] as usize] += retained[*node as usize];
        }
        retained
    }
}
