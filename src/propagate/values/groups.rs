//! Group nodes: loads and stores through one large set of addresses share a node.
//!
//! Thousands of values may hold the same hundred addresses. Loads through any of these values read the same memory. So one group
//! node for (set, offset, size) gets the hundred edges, and each load gets one edge from it. Stores are grouped in the same way.
//! The solution is the same, and the edges number sets plus accesses, not their product. Copies have two sets and are not grouped,
//! see `copies`.

use super::graph::{Access, ConstraintGraph, NodeId};
use super::sets::{Element, SetId};

impl ConstraintGraph {
    /// The group node for an access through a set; `None` if the set is small.
    pub(super) fn group(&mut self, access: Access, set: SetId, elements: &[Element]) -> Option<NodeId> {
        if elements.len() < self.budget.alike {
            return None;
        }
        if let Some(known) = self.groups.get(&(set, access)) {
            return Some(*known);
        }
        let group = self.node();
        self.groups.insert((set, access), group);
        self.access_each(access, group, elements);
        Some(group)
    }

    /// Load from each of the elements into the node, or store the node there.
    pub(super) fn access_each(&mut self, access: Access, node: NodeId, elements: &[Element]) {
        self.work.steps += elements.len();
        for element in elements {
            match access.store {
                true => self.store(node, *element, access.offset, access.size),
                false => self.load(*element, access.offset, access.size, node),
            }
        }
    }

    /// Access memory through the current set of a node.
    pub(super) fn access(&mut self, access: Access, node: NodeId, (set, elements): (SetId, &[Element])) {
        match self.group(access, set, elements) {
            Some(group) => self.access_through(group, access, node),
            None => self.access_each(access, node, elements),
        }
    }

    /// Access memory through a set, if it has a group node already.
    pub(super) fn access_known(&mut self, access: Access, node: NodeId, set: SetId) -> bool {
        let known = self.groups.get(&(set, access)).copied();
        if let Some(group) = known {
            self.access_through(group, access, node);
        }
        known.is_some()
    }

    fn access_through(&mut self, group: NodeId, access: Access, node: NodeId) {
        let (from, to) = if access.store { (node, group) } else { (group, node) };
        self.include(from, to, true);
    }
}
