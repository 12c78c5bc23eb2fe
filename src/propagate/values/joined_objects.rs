//! Object merging: joins objects of memory when a points-to set exceeds its budget.
//!
//! Joining only adds to the solution. The joined object holds at each offset the contents of all its members. If their layouts
//! differ, it holds them at an unknown offset. The module `budget` has the thresholds.

use std::collections::BTreeMap;

use super::budget::GivenUp;
use super::graph::{ConstraintGraph, NodeId, RangeCopy};
use super::sets::Element;

/// The most places that are distinguished in a joined object.
const MAX_PLACES: usize = 128;

impl ConstraintGraph {
    /// The representative of this object, if it was joined.
    pub(super) fn object_of(&self, mut object: u32) -> u32 {
        while let Some(&same) = self.same.get(object as usize)
            && same != object
        {
            object = same;
        }
        object
    }

    /// The same address in the object's representative.
    pub(super) fn canonical(&self, element: Element) -> Element {
        let object = self.object_of(element.object());
        match self.objects.get(object as usize) {
            Some(of) if of.joined => Element::new(object, 0),
            // The objects of a join by place begin at the same offset, so that the offset codes agree.
            _ => Element::new(object, element.code()),
        }
    }

    /// Join objects until the set of a node is within the budget. Objects of one layout come first, such as the frames of clones: the
    /// places of all others stay distinguished.
    pub(super) fn within_budget(&mut self, node: NodeId) {
        loop {
            let node = self.find(node);
            let set = self.expected(node);
            let objects = self.memory_in(set);
            self.work.steps += objects.len();
            if objects.len() <= self.budget.objects {
                return;
            }
            let groups = self.groups_of_one_layout(&objects);
            if groups.iter().any(|group| self.join_by_place(group)) {
                continue;
            }
            if !self.join_by_place(&objects) {
                self.join_objects(&objects);
            }
            return;
        }
    }

    /// The groups of at least two objects that begin and end at the same offsets, the largest first.
    fn groups_of_one_layout(&self, objects: &[u32]) -> Vec<Vec<u32>> {
        let mut groups: BTreeMap<(i64, i64), Vec<u32>> = BTreeMap::new();
        for object in objects {
            let of = &self.objects[*object as usize];
            groups.entry((of.start, of.end)).or_default().push(*object);
        }
        let mut groups: Vec<Vec<u32>> = groups.into_values().filter(|group| group.len() > 1).collect();
        groups.sort_by_key(|group| std::cmp::Reverse(group.len()));
        groups
    }

    /// Join objects and keep their places distinguished, as for function tables of many classes. The result is false if their
    /// layouts differ too much, or places are no longer distinguished.
    fn join_by_place(&mut self, objects: &[u32]) -> bool {
        let Some((keep, others)) = objects.split_first() else { return false };
        let first = &self.objects[*keep as usize];
        let (start, division) = (first.start, first.above.map(|above| above.0));
        let alike = |o: &u32| {
            let of = &self.objects[*o as usize];
            of.start == start && !of.joined && of.above.map(|above| above.0) == division
        };
        if self.given_up != GivenUp::Nothing || !objects.iter().all(alike) {
            return false;
        }
        let mut cells: BTreeMap<i64, Vec<NodeId>> = BTreeMap::new();
        for object in objects {
            let of = &self.objects[*object as usize];
            of.cells.iter().for_each(|(offset, node)| cells.entry(*offset).or_default().push(*node));
            if cells.len() > MAX_PLACES {
                return false;
            }
        }
        self.epoch += 1;
        self.joined_objects += others.len();
        let (mut anywhere, mut whole, mut above, mut copied) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut end = self.objects[*keep as usize].end;
        for object in objects {
            self.ask_above(*object, i64::MAX);
            let of = &mut self.objects[*object as usize];
            end = end.max(of.end);
            above.extend(of.above.take().map(|above| above.1));
            anywhere.extend(of.anywhere.take());
            whole.extend(of.whole.take());
            copied.append(&mut of.copied);
            of.cells.clear();
            self.same[*object as usize] = *keep;
        }
        let cells = cells.into_iter().map(|(offset, nodes)| (offset, self.one_of(nodes))).collect();
        let (anywhere, whole) = (self.one_of_any(anywhere), self.one_of_any(whole));
        let above = division.zip(self.one_of_any(above));
        let of = &mut self.objects[*keep as usize];
        (of.end, of.cells, of.anywhere, of.whole, of.above) = (end, cells, anywhere, whole, above);
        if let Some(whole) = whole {
            self.parts(*keep).into_iter().for_each(|part| self.include(part, whole, true));
        }
        for copy in copied {
            let inside = self.object_of(copy.object) == *keep;
            // A copy within the joined object to another offset loses its places.
            let shift = copy.shift.filter(|shift| !inside || *shift == 0);
            if !inside || shift.is_none() {
                self.copy_range(*keep, RangeCopy { shift, ..copy });
            }
        }
        true
    }

    /// Merge nodes into one that holds all their elements.
    fn one_of(&mut self, mut nodes: Vec<NodeId>) -> NodeId {
        nodes.iter_mut().for_each(|n| *n = self.find(*n));
        nodes.sort_unstable();
        nodes.dedup();
        nodes.reverse();
        if nodes.len() > 1 {
            self.merge(&nodes);
        }
        nodes.last().copied().unwrap_or_else(|| self.node())
    }

    fn one_of_any(&mut self, nodes: Vec<NodeId>) -> Option<NodeId> {
        (!nodes.is_empty()).then(|| self.one_of(nodes))
    }

    /// Join objects into one whose places are not distinguished.
    pub(super) fn join_objects(&mut self, objects: &[u32]) {
        let Some(keep) = objects.first().copied() else { return };
        self.epoch += 1;
        let mut nodes = Vec::new();
        let mut copied = Vec::new();
        for object in objects {
            self.ask_above(*object, i64::MAX);
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
        let node = self.one_of(nodes);
        let of = &mut self.objects[keep as usize];
        (of.anywhere, of.whole) = (Some(node), Some(node));
        for copy in copied {
            self.assign(node, copy.unplaced);
        }
    }
}
