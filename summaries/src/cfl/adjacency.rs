//! Graphs over dense numbers as adjacency lists in one array, and reachability without recursion.

/// Pairs by their first half, a number below a bound: the edges of a graph, for example.
pub(crate) struct Adjacency {
    starts: Vec<u32>,
    targets: Vec<u32>,
}

impl Adjacency {
    /// `edges` (from, to) in any order; those of a node keep their order. Edges from nodes out of range are ignored.
    pub(crate) fn new(nodes: usize, edges: &[(u32, u32)]) -> Self {
        let inside = |e: &&(u32, u32)| (e.0 as usize) < nodes;
        let mut starts = vec![0u32; nodes + 1];
        for (from, _) in edges.iter().filter(inside) {
            starts[*from as usize + 1] += 1;
        }
        for i in 0..nodes {
            starts[i + 1] += starts[i];
        }
        let mut next = starts.clone();
        let mut targets = vec![0; starts[nodes] as usize];
        for (from, to) in edges.iter().filter(inside) {
            let at = &mut next[*from as usize];
            targets[*at as usize] = *to;
            *at += 1;
        }
        Adjacency { starts, targets }
    }

    /// The successors of a node, in the order of its edges.
    pub(crate) fn of(&self, node: u32) -> &[u32] {
        let bound = |at: usize| self.starts.get(at).map_or(0, |s| *s as usize);
        self.targets.get(bound(node as usize)..bound(node as usize + 1)).unwrap_or(&[])
    }

    /// By node: whether it is reachable from one of these nodes, or is one of them.
    pub(crate) fn reached(&self, from: Vec<u32>) -> Vec<bool> {
        let mut reached = vec![false; self.nodes()];
        let mut work = from;
        while let Some(node) = work.pop() {
            if let Some(slot) = reached.get_mut(node as usize)
                && !std::mem::replace(slot, true)
            {
                work.extend(self.of(node));
            }
        }
        reached
    }

    fn nodes(&self) -> usize {
        self.starts.len() - 1
    }
}
