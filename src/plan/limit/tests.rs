//! What goes under a limit, on random graphs: it grows with the limit, by one atom at a time where there is no circle.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use summaries::ModuleSummary;

use super::*;
use crate::index::tests::random_link;
use crate::inputs::Inputs;
use crate::propagate::live;

const COUNT: usize = 24;

/// What goes under each limit, from 0 on; dead atoms without a limit.
fn dropped(edges: &[(usize, usize)]) -> (Vec<Vec<usize>>, usize) {
    let link = random_link(edges, 4, COUNT / 4);
    let resolution = link.resolution();
    let summaries: Vec<&ModuleSummary> = link.summaries.iter().collect();
    let index = crate::index::build(link.inputs(&Inputs::default(), &resolution, &summaries));
    let run = |index: &Index| live(index);
    let order = referrers_first(&index, &run(&index));
    let mut all = Vec::new();
    for limit in 0..=order.len() {
        let liveness = run(&index.clone().keeping_for_limit(&order[limit..]));
        all.push((0..COUNT).filter(|a| !liveness.is_live(AtomId::new(*a))).collect());
    }
    (all, order.len())
}

proptest! {
    #[test]
    fn the_dropped_set_grows(edges in prop::collection::vec((0usize..COUNT, 0usize..COUNT), 0..60)) {
        let (all, count) = dropped(&edges);
        prop_assert!(all[0].is_empty());
        prop_assert_eq!(all[count].len(), count);
        for pair in all.windows(2) {
            prop_assert!(pair[0].iter().all(|a| pair[1].contains(a)), "{:?}", pair);
        }
    }

    #[test]
    fn without_circles_each_step_drops_one(edges in prop::collection::vec((0usize..COUNT, 0usize..COUNT), 0..60)) {
        // Edges that all lead to a greater remainder of a multiplication: no circle, and load order says nothing.
        let rank = |n: &usize| n * 7 % COUNT;
        let edges: Vec<(usize, usize)> =
            edges.iter().map(|(a, b)| if rank(a) < rank(b) { (*a, *b) } else { (*b, *a) }).filter(|(a, b)| a != b).collect();
        let (all, _) = dropped(&edges);
        for (limit, gone) in all.iter().enumerate() {
            prop_assert_eq!(gone.len(), limit, "{:?}", edges);
        }
    }
}
