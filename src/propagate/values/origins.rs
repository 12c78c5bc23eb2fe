//! Explanation of overdefined values: the nearest node at which the unknown began, for the report.
//!
//! A breadth-first search over the edges of the solved graph. It begins at all nodes that are overdefined for a cause of their own.
//! The nearest origin may be one of many. The analysis does not use it.

use std::collections::VecDeque;

use super::flow::{Flow, ObjectKind};
use super::graph::{ComplexConstraint, NodeId, OVERDEFINED, OverdefinedReason};
use super::site::Site;
use crate::ids::AtomId;

pub(super) struct Origins {
    /// By node: the nearest origin, as an index in the graph's list.
    nearest: Vec<Option<u32>>,
    /// The first node and the atom of each function and cell, sorted.
    owners: Vec<(NodeId, AtomId)>,
}

impl Origins {
    pub(super) fn new(flow: &Flow<'_>) -> Self {
        let graph = &flow.graph;
        let mut nearest: Vec<Option<u32>> = vec![None; graph.nodes.len()];
        let mut work = VecDeque::new();
        let mut reach = |node: NodeId, seed: u32, work: &mut VecDeque<(NodeId, u32)>| {
            let node = graph.find(node);
            let holds = graph.has(node, OVERDEFINED);
            if holds && nearest[node as usize].is_none() {
                nearest[node as usize] = Some(seed);
                work.push_back((node, seed));
            }
        };
        for (i, (node, _)) in graph.seeds.iter().enumerate() {
            reach(*node, i as u32, &mut work);
        }
        while let Some((node, seed)) = work.pop_front() {
            let node = &graph.nodes[node as usize];
            let mut at = node.edges;
            while let Some((to, next)) = graph.edges.get(at as usize).copied() {
                reach(to, seed, &mut work);
                at = next;
            }
            let mut at = node.uses;
            while let Some((what, next)) = graph.uses.get(at as usize).copied() {
                // Values loaded through an overdefined pointer are overdefined.
                if let ComplexConstraint::Displace { to, .. } | ComplexConstraint::Load { to, .. } = what {
                    reach(to, seed, &mut work);
                }
                at = next;
            }
        }
        Origins { nearest, owners: owners(flow) }
    }

    /// The origin for which the site may call anything.
    pub(super) fn of_site(
        &self,
        flow: &Flow<'_>,
        site: &Site<'_>,
    ) -> Option<(OverdefinedReason, Option<AtomId>)> {
        let node = flow.graph.find(site.callee?);
        let seed = self.nearest.get(node as usize).copied().flatten()?;
        let (node, cause) = flow.graph.seeds.get(seed as usize)?;
        Some((*cause, self.owner(*node)))
    }

    fn owner(&self, node: NodeId) -> Option<AtomId> {
        let at = self.owners.partition_point(|o| o.0 <= node).checked_sub(1)?;
        self.owners.get(at).map(|o| o.1)
    }
}

/// The atom for which each range of nodes was made.
fn owners(flow: &Flow<'_>) -> Vec<(NodeId, AtomId)> {
    let mut owners = Vec::new();
    for (i, function) in flow.functions.iter().enumerate() {
        let Some(first) = function.values else { continue };
        owners.push((first, flow.atom_of(i as u32, flow.summary(i as u32).atom)));
    }
    for (object, kind) in flow.graph.objects.iter().zip(&flow.object_kinds) {
        let atom = match kind {
            ObjectKind::Code(atom) | ObjectKind::Data(atom) => *atom,
            ObjectKind::Frame(function) => flow.atom_of(*function, flow.summary(*function).atom),
            ObjectKind::Heap(site) => match flow.sites.get(*site as usize) {
                Some(site) => site.caller,
                None => continue,
            },
            ObjectKind::Unknown | ObjectKind::External(_) | ObjectKind::Library => continue,
        };
        let above = object.above.map(|a| a.1);
        let cells = object.cells.values().copied().chain(object.anywhere).chain(object.whole).chain(above);
        owners.extend(cells.map(|node| (node, atom)));
    }
    owners.sort_unstable();
    owners
}
