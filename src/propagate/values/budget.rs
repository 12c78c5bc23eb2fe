//! The budget of a set: objects of memory that too many values point to together are joined into one.
//!
//! A set that points to very many objects says little, and every access through it costs as many steps as it has
//! elements. Beyond the budget the objects of the set become one, in which places are no longer told apart: what any of
//! them holds, all of them hold. That is sound (it only adds), keeps what is known of functions, and makes the rest of
//! the work near-linear, as unification does (Steensgaard). Which sets exceed the budget first depends on the order of
//! work, which is fixed: a link gives the same result every time. The report counts what was joined.

use super::graph::{Graph, Kind, NodeId};
use super::sets::{Element, Set};

/// Objects of memory that a set tells apart.
pub(super) const BUDGET: usize = 48;

impl Graph {
    /// The object that stands for this one.
    pub(super) fn object_of(&self, mut object: u32) -> u32 {
        while let Some(&same) = self.same.get(object as usize)
            && same != object
        {
            object = same;
        }
        object
    }

    /// The address in the object that stands for its own.
    pub(super) fn canonical(&self, element: Element) -> Element {
        let object = self.object_of(element.object());
        match self.objects.get(object as usize) {
            Some(of) if of.joined => Element::new(object, 0),
            _ => element,
        }
    }

    /// Bring the set of a node within the budget.
    pub(super) fn within_budget(&mut self, node: NodeId) {
        let node = self.find(node);
        self.shorten(node);
        // What escaped is one already.
        let is_memory = |o: &u32| self.objects.get(*o as usize).is_some_and(|o| o.kind == Kind::Memory);
        let mut objects: Vec<u32> = self.set(node).iter().map(|e| e.object()).filter(is_memory).collect();
        objects.dedup();
        let mut most = 1;
        if objects.len() > self.budget {
            self.join_objects(&objects);
        } else {
            most = most.max(objects.len());
        }
        let node = self.find(node);
        self.shorten(node);
        let left = self.budget - most.min(self.budget);
        let of = self.hold(node);
        of.counted_at = (of.set.as_slice().len() + left).min(u32::MAX as usize) as u32;
    }

    /// Replace elements of objects that were joined.
    fn shorten(&mut self, node: NodeId) {
        let mut elements: Vec<Element> = self.set(node).iter().map(|e| self.canonical(*e)).collect();
        elements.sort_unstable();
        elements.dedup();
        let of = self.hold(node);
        of.set = Set::default();
        // Whoever was told of one of the joined objects knows of all that they hold now.
        of.set.join(&elements, &mut Vec::new(), &mut Vec::new());
    }

    /// Make one object of these.
    fn join_objects(&mut self, objects: &[u32]) {
        let Some(keep) = objects.first().copied() else { return };
        let mut nodes = Vec::new();
        let mut copied = Vec::new();
        for object in objects {
            nodes.extend(self.parts(*object));
            let of = &mut self.objects[*object as usize];
            nodes.extend(of.whole.take());
            copied.append(&mut of.copied);
            of.cells.clear();
            (of.anywhere, of.above) = (None, None);
            self.joined_objects += usize::from(!of.joined);
            of.joined = true;
            self.same[*object as usize] = keep;
        }
        nodes.iter_mut().for_each(|n| *n = self.find(*n));
        nodes.sort_unstable();
        nodes.dedup();
        let node = nodes.first().copied().unwrap_or_else(|| self.node());
        nodes.reverse();
        if nodes.len() > 1 {
            self.merge(&nodes);
        }
        let of = &mut self.objects[keep as usize];
        (of.anywhere, of.whole) = (Some(node), Some(node));
        for copy in copied {
            let to = self.anywhere(copy.object);
            self.assign(node, to);
        }
    }
}
