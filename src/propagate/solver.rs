//! A sparse solver: facts about keys, joined to a fixpoint, changed keys only.
//!
//! A round gives every key that changed in the last round to the transfer function, in parallel. The results are joined in, and the
//! keys whose fact changed are the next round. A join is commutative, associative and idempotent. So the fixpoint depends neither
//! on the order in a round nor on the number of threads. It terminates because the lattice has finite height.
//! The solver knows nothing about the meaning of keys and facts; an unreached key has no fact.

use rayon::prelude::*;

/// A join semilattice of finite height.
pub trait Lattice: Clone + Send + Sync {
    /// Join `other` into `self`; true if `self` changed. Monotone.
    fn join(&mut self, other: &Self) -> bool;
}

/// A data-flow problem: keys, and a transfer function.
pub trait Problem: Sync {
    type Fact: Lattice;

    /// How many keys there are: they are the numbers from 0 to it.
    fn keys(&self) -> usize;

    /// The facts that `fact` at `key` implies for other keys. Must be monotone in `fact`.
    fn transfer(&self, key: u32, fact: &Self::Fact, implies: &mut dyn FnMut(u32, Self::Fact));
}

/// Rounds smaller than this run on one thread: waking others costs more.
const PARALLEL_ROUND: usize = 1024;

/// The least fixpoint above the initial facts, by key.
pub fn solve<P: Problem>(problem: &P, initial: Vec<(u32, P::Fact)>) -> Vec<Option<P::Fact>> {
    let mut facts: Vec<Option<P::Fact>> = vec![None; problem.keys()];
    let mut changed = Vec::new();
    let mut is_changed = vec![false; problem.keys()];
    join_all(&mut facts, initial, &mut changed, &mut is_changed);
    while !changed.is_empty() {
        // In key order, so that a round walks the tables forward.
        changed.sort_unstable();
        for key in &changed {
            is_changed[*key as usize] = false;
        }
        let implied: Vec<Vec<(u32, P::Fact)>> = if changed.len() < PARALLEL_ROUND {
            vec![transfer(problem, &facts, &changed)]
        } else {
            let size = changed.len().div_ceil(rayon::current_num_threads() * 4);
            changed.par_chunks(size).map(|chunk| transfer(problem, &facts, chunk)).collect()
        };
        changed.clear();
        for facts_of_chunk in implied {
            join_all(&mut facts, facts_of_chunk, &mut changed, &mut is_changed);
        }
    }
    facts
}

/// The facts that `keys` imply and that are not known yet.
fn transfer<P: Problem>(problem: &P, facts: &[Option<P::Fact>], keys: &[u32]) -> Vec<(u32, P::Fact)> {
    let mut implied = Vec::new();
    for &key in keys {
        let Some(fact) = &facts[key as usize] else { continue };
        problem.transfer(key, fact, &mut |target, new| {
            let news = match &facts[target as usize] {
                Some(old) => old.clone().join(&new),
                None => true,
            };
            if news {
                implied.push((target, new));
            }
        });
    }
    implied
}

fn join_all<F: Lattice>(
    facts: &mut [Option<F>],
    new: Vec<(u32, F)>,
    changed: &mut Vec<u32>,
    is_changed: &mut [bool],
) {
    for (key, fact) in new {
        let slot = &mut facts[key as usize];
        let is_new = match slot {
            Some(old) => old.join(&fact),
            None => {
                *slot = Some(fact);
                true
            }
        };
        if is_new && !std::mem::replace(&mut is_changed[key as usize], true) {
            changed.push(key);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Shortest distances by unit edges: a lattice where a later fact can improve an earlier one.
    #[derive(Clone, Debug, PartialEq)]
    struct Distance(u32);

    impl Lattice for Distance {
        fn join(&mut self, other: &Self) -> bool {
            let less = other.0 < self.0;
            self.0 = self.0.min(other.0);
            less
        }
    }

    struct WeightedGraph {
        keys: usize,
        /// The edges as (from, to, weight), in no order.
        edges: Vec<(u32, u32, u32)>,
    }

    impl Problem for WeightedGraph {
        type Fact = Distance;

        fn keys(&self) -> usize {
            self.keys
        }

        fn transfer(&self, key: u32, fact: &Distance, implies: &mut dyn FnMut(u32, Distance)) {
            for (_, to, weight) in self.edges.iter().filter(|e| e.0 == key) {
                implies(*to, Distance(fact.0 + weight));
            }
        }
    }

    /// Bellman and Ford, as an oracle that shares nothing with the solver.
    fn brute_force(graph: &WeightedGraph, roots: &[u32]) -> Vec<Option<Distance>> {
        let mut best: Vec<Option<u32>> = vec![None; graph.keys];
        roots.iter().for_each(|r| best[*r as usize] = Some(0));
        for _ in 0..graph.keys {
            for &(from, to, weight) in &graph.edges {
                if let Some(d) = best[from as usize] {
                    let old = best[to as usize];
                    best[to as usize] = Some(old.map_or(d + weight, |o| o.min(d + weight)));
                }
            }
        }
        best.into_iter().map(|d| d.map(Distance)).collect()
    }

    proptest! {
        #[test]
        fn equals_brute_force(
            edges in prop::collection::vec((0u32..40, 0u32..40, 1u32..9), 0..160),
            roots in prop::collection::vec(0u32..40, 0..4),
        ) {
            let graph = WeightedGraph { keys: 40, edges };
            let initial = roots.iter().map(|r| (*r, Distance(0))).collect();
            prop_assert_eq!(solve(&graph, initial), brute_force(&graph, &roots));
        }
    }

    #[test]
    fn threads_do_not_matter() {
        // Wide enough for parallel rounds: 3 levels of 5,000 keys, each key with edges to 7 of the next level.
        let edges: Vec<(u32, u32)> = (0..10_000u32)
            .flat_map(|k| (0..7).map(move |j| (k, k / 5000 * 5000 + 5000 + (k * 31 + j * 977) % 5000)))
            .collect();
        struct Wide(Vec<(u32, u32)>);
        impl Problem for Wide {
            type Fact = Distance;
            fn keys(&self) -> usize {
                15_000
            }
            fn transfer(&self, key: u32, fact: &Distance, implies: &mut dyn FnMut(u32, Distance)) {
                let start = self.0.partition_point(|e| e.0 < key);
                for (from, to) in &self.0[start..] {
                    if *from != key {
                        break;
                    }
                    implies(*to, Distance(fact.0 * 3 + key % 11));
                }
            }
        }
        let problem = Wide(edges);
        let run = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| solve(&problem, (0..5000).map(|k| (k, Distance(k % 3))).collect()))
        };
        let one = run(1);
        assert!(one.iter().all(Option::is_some));
        assert_eq!(one, run(2));
        assert_eq!(one, run(4));
    }
}
