//! Loads and stores through large sets of addresses: one node for all that access the same places.
//!
//! Thousands of values may hold the same hundred addresses. What is loaded through one of them is loaded through all, so a node that stands
//! for (set, offset, size) gets the hundred edges, and each load one from there; stores likewise. The solution is the same, with as many
//! edges as there are sets and accesses, not their product.
//! Left out: copies, which have two sets, see `copies`.

use super::graph::{Access, ConstraintGraph, NodeId};
use super::sets::{Element, SetId};

impl ConstraintGraph {
    /// The node that stands for an access through all of a set; none for small ones.
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

    /// Load each of the elements into the node, or store it there.
    pub(super) fn access_each(&mut self, access: Access, node: NodeId, elements: &[Element]) {
        self.work.steps += elements.len();
        for element in elements {
            match access.store {
                true => self.store(node, *element, access.offset, access.size),
                false => self.load(*element, access.offset, access.size, node),
            }
        }
    }

    /// Access memory through what a node holds now.
    pub(super) fn access(&mut self, access: Access, node: NodeId, (set, elements): (SetId, &[Element])) {
        match self.group(access, set, elements) {
            Some(group) => self.access_through(group, access, node),
            None => self.access_each(access, node, elements),
        }
    }

    /// Access memory through a set, if there is a node that stands for that.
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
