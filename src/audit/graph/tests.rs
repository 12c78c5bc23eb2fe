//! Dominators and cuts, compared with the removal of nodes and edges in all combinations.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::cut::cut;
use super::dominators::Dominators;
use super::{Graph, NONE, ROOT};

fn graph(nodes: usize, edges: &[(u32, u32)]) -> Graph {
    Graph::new(nodes, edges.iter().enumerate().map(|(i, e)| (e.0, e.1, i as u32)))
}

/// By hand: 0 to 1 and 2, which meet in 3; 3 holds 4, which holds 5 and itself; 6 is not reached.
const DIAMOND: &[(u32, u32)] = &[(0, 1), (0, 2), (1, 3), (2, 3), (3, 4), (4, 5), (4, 4), (6, 5)];

#[test]
fn dominators_by_hand() {
    let dominators = Dominators::new(&graph(7, DIAMOND));
    assert_eq!(dominators.immediate, [NONE, 0, 0, 0, 3, 4, NONE]);
    assert_eq!(dominators.retained(&[0, 1, 2, 4, 8, 16, 32]), [31, 1, 2, 28, 24, 16, 0]);
}

#[test]
fn cut_by_hand() {
    let graph = graph(7, DIAMOND);
    // The nearest of the cuts of one edge.
    let found = cut(&graph, 5, |_, _, _| true).unwrap();
    assert_eq!(found.edges, [(4, 5, 5)]);
    assert_eq!(found.paths.len(), 1);
    let found = cut(&graph, 3, |_, _, _| true).unwrap();
    assert_eq!(found.edges, [(1, 3, 2), (2, 3, 3)]);
    assert_eq!(found.paths, [vec![(0, 1, 0), (1, 3, 2)], vec![(0, 2, 1), (2, 3, 3)]]);
    // Edges that may not be cut move the cut, or leave none.
    let found = cut(&graph, 5, |_, to, _| to < 4).unwrap();
    assert_eq!(found.edges, [(1, 3, 2), (2, 3, 3)]);
    assert_eq!(cut(&graph, 5, |from, _, _| from > 5), None);
    assert_eq!(cut(&graph, ROOT, |_, _, _| true), None);
    // An unreached node needs no cut.
    assert_eq!(cut(&graph, 6, |_, _, _| true).unwrap().edges, []);
}

#[test]
fn long_chains_need_no_stack() {
    let edges: Vec<(u32, u32)> = (0..200_000).map(|i| (i, i + 1)).collect();
    let graph = graph(200_001, &edges);
    let dominators = Dominators::new(&graph);
    assert!(dominators.immediate.iter().skip(1).copied().eq(0..200_000));
    assert_eq!(cut(&graph, 200_000, |from, _, _| from == 7).unwrap().edges, [(7, 8, 7)]);
}

fn edges(nodes: u32, most: usize) -> impl Strategy<Value = Vec<(u32, u32)>> {
    prop::collection::vec((0..nodes, 0..nodes), 0..most)
}

fn is_reached_without(graph: &Graph, to: u32, gone: &[u32]) -> bool {
    graph.reached(ROOT, |_, _, number| !gone.contains(&number))[to as usize]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn what_a_node_retains_is_what_goes_without_it(edges in edges(9, 24)) {
        let graph = graph(9, &edges);
        let dominators = Dominators::new(&graph);
        let weight: Vec<u64> = (0..9).map(|i| 1 << i).collect();
        let retained = dominators.retained(&weight);
        let all = graph.reached(ROOT, |_, _, _| true);
        for node in 1..9u32 {
            let without = graph.reached(ROOT, |_, to, _| to != node);
            let goes = (0..9).filter(|n| all[*n] && !without[*n]).map(|n| weight[n]).sum::<u64>();
            prop_assert_eq!(retained[node as usize], goes, "node {}", node);
            let immediate = dominators.immediate[node as usize];
            prop_assert_eq!(immediate == NONE, !all[node as usize]);
        }
        let total = (0..9).filter(|n| all[*n]).map(|n| weight[n]).sum::<u64>();
        prop_assert_eq!(retained[0], total);
    }

    #[test]
    fn no_smaller_cut_exists(edges in edges(6, 11), fixed in any::<u16>(), to in 1..6u32) {
        let graph = graph(6, &edges);
        let may_go = |number: u32| fixed & (1 << number) == 0;
        let found = cut(&graph, to, |_, _, number| may_go(number));
        // Each set of edges that may go, as bits.
        let cuts = |set: &u32| {
            let gone: Vec<u32> = (0..edges.len() as u32).filter(|i| set & (1 << i) != 0).collect();
            gone.iter().all(|i| may_go(*i)) && !is_reached_without(&graph, to, &gone)
        };
        let least = (0..1u32 << edges.len()).filter(cuts).map(u32::count_ones).min();
        prop_assert_eq!(found.as_ref().map(|c| c.edges.len() as u32), least);
        let Some(found) = found else { return Ok(()) };
        let gone: Vec<u32> = found.edges.iter().map(|e| e.2).collect();
        prop_assert!(gone.iter().all(|i| may_go(*i)));
        prop_assert!(!is_reached_without(&graph, to, &gone));
        // Paths: as many, each from the root to the node, and no edge that may go in two.
        prop_assert_eq!(found.paths.len(), found.edges.len());
        let mut used: Vec<u32> = Vec::new();
        for path in &found.paths {
            prop_assert_eq!(path.first().unwrap().0, ROOT);
            prop_assert_eq!(path.last().unwrap().1, to);
            prop_assert!(path.windows(2).all(|w| w[0].1 == w[1].0));
            used.extend(path.iter().map(|e| e.2).filter(|i| may_go(*i)));
        }
        let count = used.len();
        used.sort_unstable();
        used.dedup();
        prop_assert_eq!(used.len(), count);
        // No other smallest cut keeps more nodes.
        let stays = |gone: &[u32]| graph.reached(ROOT, |_, _, n| !gone.contains(&n)).iter().filter(|r| **r).count();
        let ours = stays(&gone);
        for set in (0..1u32 << edges.len()).filter(|s| s.count_ones() == gone.len() as u32 && cuts(s)) {
            let other: Vec<u32> = (0..edges.len() as u32).filter(|i| set & (1 << i) != 0).collect();
            prop_assert!(stays(&other) <= ours);
        }
    }

    #[test]
    fn shortest_paths_are_paths(edges in edges(8, 20), from in 0..8u32, to in 0..8u32) {
        let graph = graph(8, &edges);
        let reached = graph.reached(from, |_, _, _| true)[to as usize];
        let path = graph.shortest(from, to, |_, _, _| true);
        prop_assert_eq!(path.is_some(), reached);
        let Some(path) = path else { return Ok(()) };
        prop_assert!(path.windows(2).all(|w| w[0].1 == w[1].0));
        prop_assert!(path.iter().all(|e| edges[e.2 as usize] == (e.0, e.1)));
        if from != to {
            prop_assert_eq!((path[0].0, path[path.len() - 1].1), (from, to));
        }
    }
}
