//! Which tests every path to a block has passed, and how they went.
//!
//! The edges that one test decides in one way, of which compilers make several, are needed by the blocks that control reaches no
//! more without them: from the entries, by all other edges. They are taken out in turn, so that nothing but reachability has to
//! be right. A block that is entered in any other way is an entry. Left out: different tests of which one is needed
//! (`if (a || b)`).

use crate::constant::Condition;

/// What one function may cost: edges that tests decide, and edges times blocks.
const MOST_EDGES: usize = 512;
const MOST_WORK: usize = 1 << 22;

/// A way that control takes only if the condition holds, or only if not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Edge {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) condition: Condition,
    pub(super) holds: bool,
}

pub(super) struct Guards {
    /// By block.
    needs: Vec<Vec<(Condition, bool)>>,
    pub(super) given_up: bool,
}

impl Guards {
    /// `successors` and `entries` are all ways into blocks; `edges` are some of the former.
    pub(super) fn new(successors: &[Vec<usize>], entries: &[usize], edges: &[Edge]) -> Guards {
        let blocks = successors.len();
        let given_up = edges.len() > MOST_EDGES || edges.len().saturating_mul(blocks) > MOST_WORK;
        let mut guards = Guards { needs: vec![Vec::new(); blocks], given_up };
        if given_up || edges.is_empty() {
            return guards;
        }
        let all = reached(successors, entries, &[]);
        let mut edges = edges.to_vec();
        let test = |e: &Edge| (e.condition, e.holds);
        edges.sort_unstable_by_key(|e| (test(e), e.from, e.to));
        for same in edges.chunk_by(|a, b| test(a) == test(b)) {
            let without: Vec<(usize, usize)> = same.iter().map(|e| (e.from, e.to)).collect();
            let left = reached(successors, entries, &without);
            for (needs, (all, left)) in guards.needs.iter_mut().zip(all.iter().zip(&left)) {
                if *all && !*left {
                    needs.extend(same.first().map(test));
                }
            }
        }
        guards
    }

    /// What a block needs.
    pub(super) fn of(&self, block: usize) -> &[(Condition, bool)] {
        self.needs.get(block).map_or(&[], Vec::as_slice)
    }
}

/// The blocks that control reaches without these edges, which are sorted.
fn reached(successors: &[Vec<usize>], entries: &[usize], without: &[(usize, usize)]) -> Vec<bool> {
    let mut reached = vec![false; successors.len()];
    let mut stack: Vec<usize> = Vec::new();
    let mut come = |block: usize, stack: &mut Vec<usize>| {
        if let Some(slot) = reached.get_mut(block)
            && !std::mem::replace(slot, true)
        {
            stack.push(block);
        }
    };
    entries.iter().for_each(|entry| come(*entry, &mut stack));
    while let Some(block) = stack.pop() {
        for to in successors.get(block).into_iter().flatten() {
            if without.binary_search(&(block, *to)).is_err() {
                come(*to, &mut stack);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constant::{Comparison, Quantity, Source};

    fn condition(with: u64) -> Condition {
        let quantity = Quantity::of(Source::Parameter(7));
        Condition { quantity, size: 4, comparison: Comparison::Equal, with }
    }

    fn edge(from: usize, to: usize, with: u64, holds: bool) -> Edge {
        Edge { from, to, condition: condition(with), holds }
    }

    fn needs(guards: &Guards, block: usize) -> Vec<(u64, bool)> {
        guards.of(block).iter().map(|(c, h)| (c.with, *h)).collect()
    }

    #[test]
    fn what_is_behind_a_branch_needs_it() {
        // 0: if c0 goto 1 else 2; 1: if c1 goto 3 else 4; 2 -> 4; 3 -> 4.
        let successors = [vec![1, 2], vec![3, 4], vec![4], vec![4], vec![]];
        let edges = [edge(0, 1, 0, true), edge(0, 2, 0, false), edge(1, 3, 1, true), edge(1, 4, 1, false)];
        let guards = Guards::new(&successors, &[0], &edges);
        assert_eq!(needs(&guards, 1), [(0, true)]);
        assert_eq!(needs(&guards, 2), [(0, false)]);
        assert_eq!(needs(&guards, 3), [(0, true), (1, true)]);
        assert_eq!((needs(&guards, 0), needs(&guards, 4)), (vec![], vec![]));
        // Another way in takes the need away.
        let guards = Guards::new(&successors, &[0, 3], &edges);
        assert_eq!((needs(&guards, 3), needs(&guards, 1)), (vec![], vec![(0, true)]));
    }

    #[test]
    fn loops_and_joins() {
        // 0 -> 1; 1: if c goto 2 else 3; 2 -> 1: what is behind the loop needs the way out.
        let successors = [vec![1], vec![2, 3], vec![1], vec![]];
        let guards = Guards::new(&successors, &[0], &[edge(1, 2, 0, true), edge(1, 3, 0, false)]);
        assert_eq!(
            (needs(&guards, 2), needs(&guards, 3), needs(&guards, 1)),
            (vec![(0, true)], vec![(0, false)], vec![])
        );
        // The same test twice: either way in needs it.
        let successors = [vec![2, 1], vec![2, 3], vec![], vec![]];
        let guards = Guards::new(&successors, &[0], &[edge(0, 2, 0, true), edge(1, 2, 0, true)]);
        assert_eq!(needs(&guards, 2), vec![(0, true)]);
        // if (a || b): neither edge alone is needed.
        let successors = [vec![2, 1], vec![2, 3], vec![], vec![]];
        let guards = Guards::new(&successors, &[0], &[edge(0, 2, 0, true), edge(1, 2, 1, true)]);
        assert_eq!(needs(&guards, 2), vec![]);
    }

    #[test]
    fn too_much_is_given_up() {
        let successors = [vec![1, 2], vec![], vec![]];
        let edges = vec![edge(0, 1, 0, true); MOST_EDGES + 1];
        let guards = Guards::new(&successors, &[0], &edges);
        assert!(guards.given_up && guards.of(1).is_empty());
    }
}
