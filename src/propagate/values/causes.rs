//! Why a node may be anything: the causes of all from which it has that, found after the fixpoint.
//!
//! Causes are carried along the edges of the solved graph. Memory that escaped has one, whatever was stored there: which of
//! that came before it escaped is by chance.

use std::collections::VecDeque;

use super::budget::GivenUp;
use super::graph::{ComplexConstraint, ConstraintGraph, IS_SHARED, NodeId, OVERDEFINED, OverdefinedReason};

/// Nodes whose causes are to be carried on.
struct CauseQueue {
    nodes: VecDeque<NodeId>,
    /// By node: it is among them.
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
        // There is always one; should it be lost, the node is still no resolved one.
        let bits = if none { OverdefinedReason::Memory.bit() } else { known };
        let spent = graph.given_up == GivenUp::Values;
        let bits = if spent { OverdefinedReason::Budget.bit() } else { bits };
        OverdefinedReason::ALL.into_iter().filter(move |c| c.bit() & bits != 0)
    }
}
