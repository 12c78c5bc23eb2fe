//! The dominator tree, by Lengauer and Tarjan, and the retained size of each node.
//!
//! The simple form of the algorithm (path compression without balancing: m log n), without recursion, since
//! chains of calls are long. What a node retains is what would not be reached without it: its own weight and that of every node
//! that it dominates (T. Lengauer, R. E. Tarjan, "A fast algorithm for finding dominators in a flowgraph", 1979).

use super::{Graph, NONE, ROOT};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dominators {
    /// By node: the nearest other node that every path from the root to it goes through; [`NONE`] for the root and for what
    /// is not reached.
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

fn get(list: &[u32], at: u32) -> u32 {
    list.get(at as usize).copied().unwrap_or(NONE)
}

fn set(list: &mut [u32], at: u32, value: u32) {
    if let Some(slot) = list.get_mut(at as usize) {
        *slot = value;
    }
}

fn depth_first(graph: &Graph) -> DepthFirstNumbering {
    let nodes = graph.nodes();
    let mut found = DepthFirstNumbering { vertex: Vec::new(), parent: Vec::new(), number: vec![NONE; nodes] };
    // A node may be pushed by several parents; the last one that pushed it before it is taken is its parent, as if by recursion.
    let mut work = vec![(ROOT, NONE)];
    while let Some((node, parent)) = work.pop() {
        if nodes == 0 || get(&found.number, node) != NONE {
            continue;
        }
        let number = found.vertex.len() as u32;
        set(&mut found.number, node, number);
        found.vertex.push(node);
        found.parent.push(parent);
        work.extend(graph.out(node).filter(|e| get(&found.number, e.0) == NONE).map(|e| (e.0, number)));
    }
    found
}

/// The forest of the algorithm: `ancestor` with compressed paths, `label` the node of least semidominator on them.
struct Forest {
    ancestor: Vec<u32>,
    label: Vec<u32>,
    semi: Vec<u32>,
    path: Vec<u32>,
}

impl Forest {
    fn new(count: usize) -> Self {
        let own: Vec<u32> = (0..count as u32).collect();
        Forest { ancestor: vec![NONE; count], label: own.clone(), semi: own, path: Vec::new() }
    }

    fn eval(&mut self, v: u32) -> u32 {
        if get(&self.ancestor, v) == NONE {
            return get(&self.label, v);
        }
        let mut at = v;
        self.path.clear();
        while get(&self.ancestor, get(&self.ancestor, at)) != NONE {
            self.path.push(at);
            at = get(&self.ancestor, at);
        }
        while let Some(node) = self.path.pop() {
            let above = get(&self.ancestor, node);
            let (label, best) = (get(&self.label, node), get(&self.label, above));
            if get(&self.semi, best) < get(&self.semi, label) {
                set(&mut self.label, node, best);
            }
            let over = get(&self.ancestor, above);
            set(&mut self.ancestor, node, over);
        }
        get(&self.label, v)
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
        for w in (1..count as u32).rev() {
            for (source, _) in before.out(get(&found.vertex, w)) {
                let v = get(&found.number, source);
                if v == NONE {
                    continue;
                }
                let u = forest.eval(v);
                let semi = get(&forest.semi, u);
                if semi < get(&forest.semi, w) {
                    set(&mut forest.semi, w, semi);
                }
            }
            let semi = get(&forest.semi, w);
            set(&mut next, w, get(&first, semi));
            set(&mut first, semi, w);
            let parent = get(&found.parent, w);
            set(&mut forest.ancestor, w, parent);
            let mut v = std::mem::replace(first.get_mut(parent as usize).unwrap_or(&mut NONE.clone()), NONE);
            while v != NONE {
                let u = forest.eval(v);
                let nearer = get(&forest.semi, u) < get(&forest.semi, v);
                set(&mut immediate, v, if nearer { u } else { parent });
                v = get(&next, v);
            }
        }
        for w in 1..count as u32 {
            let dominator = get(&immediate, w);
            if dominator != get(&forest.semi, w) {
                let above = get(&immediate, dominator);
                set(&mut immediate, w, above);
            }
        }
        let mut by_node = vec![NONE; graph.nodes()];
        for (w, node) in found.vertex.iter().enumerate().skip(1) {
            set(&mut by_node, *node, get(&found.vertex, get(&immediate, w as u32)));
        }
        Dominators { immediate: by_node, order: found.vertex }
    }

    /// By node: its weight and that of all that it dominates.
    pub(crate) fn retained(&self, weight: &[u64]) -> Vec<u64> {
        let mut retained = vec![0; self.immediate.len()];
        for node in &self.order {
            if let (Some(sum), Some(own)) = (retained.get_mut(*node as usize), weight.get(*node as usize)) {
                *sum = *own;
            }
        }
        for node in self.order.iter().skip(1).rev() {
            let own = retained.get(*node as usize).copied().unwrap_or(0);
            if let Some(sum) = retained.get_mut(get(&self.immediate, *node) as usize) {
                *sum += own;
            }
        }
        retained
    }
}
