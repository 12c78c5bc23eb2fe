//! Explanation of overdefined nodes: all causes for which a node may hold anything, found after the fixpoint.
//!
//! Causes are propagated along the edges of the solved graph. Memory that escaped has one cause only,
//! [`OverdefinedReason::Memory`]. The values that were stored before it escaped depend on the order of work.

use std::collections::VecDeque;

use super::budget::GivenUp;
use super::graph::{ComplexConstraint, ConstraintGraph, IS_SHARED, NodeId, OVERDEFINED, OverdefinedReason};

/// The nodes whose causes have not been propagated yet.
struct CauseQueue {
    nodes: VecDeque<NodeId>,
    /// By node: it is in the queue.
    waits: Vec<bool>,
}

/// The causes of each representative node, a bit for each cause.
pub(super) struct Causes(Vec<u8>);

impl Causes {
    pub(super) fn new(graph: &ConstraintGraph) -> Self {
        let mut causes = Causes(vec![0; graph.nodes.len()]);
        let mut work = CauseQueue { nodes: VecDeque::new(), waits: vec![false; graph.nodes.len()] };
        for (node, cause) in &graph.seeds {
            causes.reach(graph, *node, cause.bit(), &mut work);
        }
        while let Some(node) = work.nodes.pop_front() {
            work.waits[node as usize] = false;
            let bits = causes.0[node as usize];
            let of = &graph.nodes[node as usize];
            let mut at = of.edges;
            while let Some((to, next)) = graph.edges.get(at as usize).copied() {
                causes.reach(graph, to, bits, &mut work);
                at = next;
            }
            let mut at = of.uses;
            while let Some((what, next)) = graph.uses.get(at as usize).copied() {
                if let ComplexConstraint::Displace { to, .. } = what {
                    causes.reach(graph, to, bits, &mut work);
                }
                at = next;
            }
        }
        causes
    }

    fn reach(&mut self, graph: &ConstraintGraph, node: NodeId, bits: u8, work: &mut CauseQueue) {
        let node = graph.find(node);
        let bits = if graph.has(node, IS_SHARED) { OverdefinedReason::Memory.bit() } else { bits };
        let slot = &mut self.0[node as usize];
        if *slot | bits == *slot {
            return;
        }
        *slot |= bits;
        if !std::mem::replace(&mut work.waits[node as usize], true) {
            work.nodes.push_back(node);
        }
    }

    /// The causes for which a node may hold anything.
    pub(super) fn of(
        &self,
        graph: &ConstraintGraph,
        node: NodeId,
    ) -> impl Iterator<Item = OverdefinedReason> + '_ {
        let node = graph.find(node);
        let known = self.0.get(node as usize).copied().unwrap_or(0);
        let none = known == 0 && graph.has(node, OVERDEFINED);
        // Each overdefined node has a cause. If it is not found, the node must not count as resolved.
        let bits = if none { OverdefinedReason::Memory.bit() } else { known };
        let spent = graph.given_up == GivenUp::Values;
        let bits = if spent { OverdefinedReason::Budget.bit() } else { bits };
        OverdefinedReason::ALL.into_iter().filter(move |c| c.bit() & bits != 0)
    }
}
