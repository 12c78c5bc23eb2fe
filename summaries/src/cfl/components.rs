//! Strongly connected components of a graph over dense numbers, with a stack of its own.
//!
//! Tarjan's algorithm (SIAM Journal on Computing, 1972). Functions with hundreds of thousands of constraints in a chain are
//! ordinary input, so nothing here recurses. Left out: which edges there are.

/// Pairs by their first half, a number below a bound: the edges of a graph, for example.
pub(crate) struct Adjacency {
    starts: Vec<u32>,
    targets: Vec<u32>,
}

impl Adjacency {
    /// `edges` (from, to) in any order; those of a node keep theirs. Those from no node are left out.
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

    /// Where the edges of a node lead.
    pub(crate) fn of(&self, node: u32) -> &[u32] {
        let bound = |at: usize| self.starts.get(at).map_or(0, |s| *s as usize);
        self.targets.get(bound(node as usize)..bound(node as usize + 1)).unwrap_or(&[])
    }

    /// By node: edges lead there from one of these, or it is one.
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

/// What a component is to each node.
pub(super) struct Components {
    /// The component of each node. Along an edge from one component to another the number falls.
    pub(super) of: Vec<u32>,
    pub(super) count: u32,
}

/// The components of a graph whose edges all lead to nodes.
pub(super) fn components(graph: &Adjacency) -> Components {
    const UNSEEN: u32 = u32::MAX;
    let nodes = graph.nodes();
    let mut number = vec![UNSEEN; nodes];
    let mut low = vec![0u32; nodes];
    let mut of = vec![UNSEEN; nodes];
    let (mut open, mut path): (Vec<u32>, Vec<(u32, u32)>) = (Vec::new(), Vec::new());
    let (mut next, mut count) = (0, 0);
    for root in 0..nodes as u32 {
        if number[root as usize] != UNSEEN {
            continue;
        }
        path.push((root, 0));
        while let Some((node, at)) = path.pop() {
            let i = node as usize;
            let targets = graph.of(node);
            if at == 0 {
                number[i] = next;
                low[i] = next;
                next += 1;
                open.push(node);
            } else if let Some(child) = targets.get(at as usize - 1) {
                low[i] = low[i].min(low[*child as usize]);
            }
            let mut at = at;
            let mut child = None;
            while let Some(target) = targets.get(at as usize) {
                at += 1;
                if number[*target as usize] == UNSEEN {
                    child = Some(*target);
                    break;
                }
                if of[*target as usize] == UNSEEN {
                    low[i] = low[i].min(number[*target as usize]);
                }
            }
            if let Some(child) = child {
                path.push((node, at));
                path.push((child, 0));
                continue;
            }
            if low[i] == number[i] {
                while let Some(member) = open.pop() {
                    of[member as usize] = count;
                    if member == node {
                        break;
                    }
                }
                count += 1;
            }
        }
    }
    Components { of, count }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_long_chain_is_no_deep_stack() {
        let edges: Vec<(u32, u32)> = (0..200_000).map(|i| (i, i + 1)).collect();
        let found = components(&Adjacency::new(200_001, &edges));
        assert_eq!(found.count, 200_001);
        assert!(found.of.is_sorted_by(|a, b| a > b));
    }

    proptest! {
        #[test]
        fn components_are_those_of_the_definition(
            edges in prop::collection::vec((0u32..12, 0u32..12), 0..30),
        ) {
            let mut reach: std::collections::BTreeSet<(u32, u32)> = edges.iter().copied().collect();
            reach.extend((0..12).map(|i| (i, i)));
            for k in 0..12 {
                let through: Vec<(u32, u32)> = (0..144)
                    .map(|n| (n / 12, n % 12))
                    .filter(|(i, j)| reach.contains(&(*i, k)) && reach.contains(&(k, *j)))
                    .collect();
                reach.extend(through);
            }
            let found = components(&Adjacency::new(12, &edges));
            for (i, j) in (0..144).map(|n| (n / 12, n % 12)) {
                let (there, back) = (reach.contains(&(i, j)), reach.contains(&(j, i)));
                let (a, b) = (found.of[i as usize], found.of[j as usize]);
                prop_assert_eq!(a == b, there && back);
                prop_assert!(!there || a >= b);
            }
        }
    }
}
