//! Worklist of wave propagation: the order in which nodes propagate their sets.
//!
//! Nodes are processed in rounds, each in three parts. Nodes without a rank are first, by number, which is the order of functions.
//! The others follow in topological order, so that a node precedes its targets. Hubs are last, when all other nodes have propagated
//! to them. A node that is queued after its turn waits for the next round. Each part is a set of numbers, which is walked once in
//! each round. All rules are monotone, so the order affects only the time.

use super::graph::NodeId;

/// The rank of a node without a topological order; ranks begin with 1.
const UNRANKED: u32 = 0;

/// The three parts of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
enum RoundPart {
    #[default]
    Unranked,
    Ranked,
    Hubs,
}

#[derive(Default)]
pub(super) struct Queue {
    /// By node: its rank; nodes beyond the end are unranked.
    rank: Vec<u32>,
    /// By rank: the node, which may have been collapsed into another one.
    nodes: Vec<NodeId>,
    now: Round,
    later: Round,
    /// The part and rank of the last node taken in this round.
    done: (RoundPart, u32),
}

#[derive(Default)]
struct Round {
    unranked: NumberSet,
    /// The waiting nodes, by their rank in topological order.
    ranked: NumberSet,
    hubs: NumberSet,
}

impl Queue {
    /// Add a node that is not in the queue. A hub has many edges.
    pub(super) fn push(&mut self, id: NodeId, is_hub: bool) {
        let rank = self.rank.get(id as usize).copied().unwrap_or(UNRANKED);
        let part = match rank {
            UNRANKED => RoundPart::Unranked,
            _ if is_hub => RoundPart::Hubs,
            _ => RoundPart::Ranked,
        };
        let is_later = part == RoundPart::Unranked || (part, rank) <= self.done;
        let round = if is_later { &mut self.later } else { &mut self.now };
        match part {
            RoundPart::Unranked => round.unranked.insert(id),
            RoundPart::Ranked => round.ranked.insert(rank),
            RoundPart::Hubs => round.hubs.insert(rank),
        }
    }

    /// The next node; it may have been collapsed into another one since.
    pub(super) fn pop(&mut self) -> Option<NodeId> {
        self.pop_now().or_else(|| {
            std::mem::swap(&mut self.now, &mut self.later);
            self.done = (RoundPart::Unranked, UNRANKED);
            self.pop_now()
        })
    }

    fn pop_now(&mut self) -> Option<NodeId> {
        if let Some(id) = self.now.unranked.pop() {
            return Some(id);
        }
        let (part, rank) = match self.now.ranked.pop() {
            Some(rank) => (RoundPart::Ranked, rank),
            None => (RoundPart::Hubs, self.now.hubs.pop()?),
        };
        self.done = (part, rank);
        self.nodes.get(rank as usize).copied()
    }

    /// Set a new order. The result has all waiting nodes, which the caller must add again.
    pub(super) fn rank(&mut self, order: impl Iterator<Item = NodeId>, count: usize) -> Vec<NodeId> {
        let waiting: Vec<NodeId> = std::iter::from_fn(|| self.pop()).collect();
        self.nodes.clear();
        self.nodes.push(0);
        self.nodes.extend(order);
        self.rank.clear();
        self.rank.resize(count, UNRANKED);
        for (rank, id) in (0u32..).zip(&self.nodes).skip(1) {
            if let Some(slot) = self.rank.get_mut(*id as usize) {
                *slot = rank;
            }
        }
        self.done = (RoundPart::Unranked, UNRANKED);
        waiting
    }
}

/// A set of numbers that yields the lowest first.
#[derive(Default)]
struct NumberSet {
    words: Vec<u64>,
    /// Every word below this index is zero.
    low: usize,
    count: usize,
}

impl NumberSet {
    fn insert(&mut self, number: u32) {
        let (word, bit) = (number as usize / 64, number % 64);
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        if let Some(slot) = self.words.get_mut(word) {
            self.count += usize::from(*slot & 1 << bit == 0);
            *slot |= 1 << bit;
        }
        self.low = self.low.min(word);
    }

    fn pop(&mut self) -> Option<u32> {
        if self.count == 0 {
            return None;
        }
        while let Some(word) = self.words.get_mut(self.low) {
            if *word != 0 {
                let bit = word.trailing_zeros();
                *word &= *word - 1;
                self.count -= 1;
                return Some(self.low as u32 * 64 + bit);
            }
            self.low += 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(queue: &mut Queue) -> Vec<NodeId> {
        std::iter::from_fn(|| queue.pop()).collect()
    }

    #[test]
    fn by_rank_in_rounds() {
        let mut queue = Queue::default();
        assert_eq!(queue.pop(), None);
        [7, 900, 3].into_iter().for_each(|id| queue.push(id, false));
        assert_eq!(all(&mut queue), [3, 7, 900]);
        queue.push(5, true);
        // Nodes 0 to 299 in descending order.
        assert_eq!(queue.rank((0..300).rev(), 300), [5]);
        for (id, is_hub) in [(299, true), (1, true), (0, false), (200, false), (301, false), (310, true)] {
            queue.push(id, is_hub);
        }
        assert_eq!(queue.pop(), Some(200));
        // Nodes before the last one wait for the next round; later nodes are in this round, hubs last.
        [250, 100, 200].into_iter().for_each(|id| queue.push(id, false));
        assert_eq!(all(&mut queue), [100, 0, 299, 1, 301, 310, 250, 200]);
        assert_eq!(queue.pop(), None);
    }

    #[test]
    fn a_new_order_has_all_that_wait() {
        let mut queue = Queue::default();
        assert_eq!(queue.rank([4, 2].into_iter(), 5), [0u32; 0]);
        queue.push(4, false);
        queue.push(2, true);
        assert_eq!(queue.pop(), Some(4));
        [4, 3].into_iter().for_each(|id| queue.push(id, false));
        assert_eq!(queue.rank([3, 4].into_iter(), 5), [2, 3, 4]);
        [4, 3, 2].into_iter().for_each(|id| queue.push(id, false));
        assert_eq!(all(&mut queue), [3, 4, 2]);
    }
}
