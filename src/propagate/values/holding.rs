//! Points-to sets of nodes: the propagated set, the sets that wait, and the elements that the marks cover.
//!
//! An overdefined node holds no element that escaped. If its elements also escape, it holds no elements. A set is brought up to
//! date at its next use, if objects in it were joined or escaped since. The module `solve` propagates sets.

use super::graph::{
    ConstraintGraph, END, ESCAPED, ESCAPES, EscapedThrough, Event, MemoryClass, NodeId, OVERDEFINED,
    OverdefinedReason, QUEUED, SHARED,
};
use super::points_to::PointsToSet;
use super::sets::{Element, SetId};

/// A node with more edges than this is propagated after the other nodes.
const HUB: u16 = 8;

impl ConstraintGraph {
    /// The set that a representative node has propagated.
    pub(super) fn set_of(&self, id: NodeId) -> SetId {
        let held = self.nodes.get(id as usize).and_then(|n| self.held.get(n.held as usize));
        held.map_or(SetId::EMPTY, |h| h.set)
    }

    /// The elements that a node holds, in the set of its representative.
    pub(super) fn set(&self, node: NodeId) -> &[Element] {
        self.sets.elements(self.set_of(self.find(node)))
    }

    /// The points-to set of a representative, if it has one.
    fn held(&mut self, id: NodeId) -> Option<&mut PointsToSet> {
        self.held.get_mut(self.nodes[id as usize].held as usize)
    }

    /// The points-to set of a representative node, made on first use.
    pub(super) fn hold(&mut self, id: NodeId) -> &mut PointsToSet {
        let node = &mut self.nodes[id as usize];
        if node.held == END {
            node.held = self.held.len() as u32;
            self.held.push(PointsToSet::default());
        }
        &mut self.held[node.held as usize]
    }

    /// Take the points-to set of a representative from it.
    pub(super) fn take_held(&mut self, id: NodeId) -> PointsToSet {
        self.held(id).map(std::mem::take).unwrap_or_default()
    }

    /// Add an element to the node, and queue the node if it is new.
    pub(super) fn add(&mut self, node: NodeId, element: Element) {
        match OverdefinedReason::of(element) {
            Some(cause) => self.add_unknown(node, cause),
            None => {
                let set = self.sets.of([element]);
                self.propagate_set(set, node);
            }
        }
    }

    /// Add a set to those that wait at a node.
    pub(super) fn propagate_set(&mut self, set: SetId, to: NodeId) {
        if set.is_empty() {
            return;
        }
        let id = self.find(to);
        self.work.steps += 1;
        self.work.since_search += self.sets.elements(set).len();
        if self.has(id, ESCAPES) {
            self.escape_all(set, id);
            if self.has(id, OVERDEFINED) {
                return;
            }
        }
        let held = self.hold(id);
        if held.set == set && !held.again || held.first == set || held.more.last() == Some(&set) {
            return;
        }
        match held.first.is_empty() {
            true => held.first = set,
            false => held.more.push(set),
        }
        self.queue(id);
    }

    pub(super) fn queue(&mut self, id: NodeId) {
        if self.mark(id, QUEUED) {
            self.work.queue.push(id, self.nodes[id as usize].degree > HUB);
        }
    }

    /// The set of a representative including the sets that wait.
    pub(super) fn expected(&mut self, id: NodeId) -> SetId {
        let Some(held) = self.held.get(self.nodes[id as usize].held as usize) else { return SetId::EMPTY };
        let joined = match held.more.is_empty() {
            true => self.sets.union(held.set, held.first),
            false => self.sets.union_of(&[&[held.set, held.first], held.more.as_slice()].concat()),
        };
        self.current(joined, id)
    }

    /// Join the waiting sets of a node. The result is its set, unless that was propagated already. A set over the budget of objects
    /// is not joined, since the node is brought within the budget first.
    pub(super) fn receive(&mut self, id: NodeId) -> Option<SetId> {
        let new = self.expected(id);
        let is_over = self.distinguished_objects(new) > self.budget.objects;
        let held = self.held(id)?;
        if new != held.set && is_over {
            self.over_budget.push(id);
            self.queue(id);
            return None;
        }
        let is_new = std::mem::replace(&mut held.set, new) != new;
        held.first = SetId::EMPTY;
        held.more = Vec::new();
        let again = std::mem::take(&mut held.again);
        (is_new || again && !new.is_empty()).then_some(new)
    }

    /// The number of objects of memory in a set. For a small set, the number of elements is an upper bound.
    fn distinguished_objects(&mut self, set: SetId) -> usize {
        let count = self.sets.elements(set).len();
        if count <= self.budget.objects {
            return count;
        }
        if let Some(known) = self.sets.facts(set).distinguished_objects {
            return known as usize;
        }
        let objects = self.memory_in(set);
        self.work.steps += count;
        self.sets.facts(set).distinguished_objects = Some(objects.len() as u32);
        objects.len()
    }

    /// The objects of memory that a set points to; memory that escaped is not counted.
    pub(super) fn memory_in(&self, set: SetId) -> Vec<u32> {
        let is_memory =
            |o: &u32| self.objects.get(*o as usize).is_some_and(|o| o.kind == MemoryClass::Memory);
        let elements = self.sets.elements(set).iter();
        let mut objects: Vec<u32> = elements.map(|e| e.object()).filter(is_memory).collect();
        objects.dedup();
        objects
    }

    /// A set with the current state of objects, for the marks of a representative.
    fn current(&mut self, set: SetId, id: NodeId) -> SetId {
        let unknown = self.has(id, OVERDEFINED);
        if set.is_empty() || self.epoch == 0 {
            return set;
        }
        let known = self.sets.facts(set);
        let known = if unknown { known.unescaped } else { known.canonical };
        if known.0 == self.epoch {
            return known.1;
        }
        let mut elements = self.sets.elements(set).to_vec();
        elements.iter_mut().for_each(|e| *e = self.canonical(*e));
        if unknown {
            elements.retain(|e| !self.objects[e.object() as usize].escaped);
        }
        let current = self.sets.of(elements);
        let known = (self.epoch, current);
        for set in [set, current] {
            let facts = self.sets.facts(set);
            match unknown {
                true => facts.unescaped = known,
                false => facts.canonical = known,
            }
        }
        current
    }

    /// Bring the propagated set of a representative up to date.
    pub(super) fn renew(&mut self, id: NodeId) {
        let set = self.current(self.set_of(id), id);
        if let Some(held) = self.held(id) {
            held.set = set;
        }
    }

    /// Let all elements of a representative escape, now and later.
    pub(super) fn mark_escaping(&mut self, id: NodeId) {
        if !self.mark(id, ESCAPES) {
            return;
        }
        let unknown = self.has(id, OVERDEFINED);
        let Some(held) = self.held(id) else { return };
        let sets: Vec<SetId> = std::iter::once(held.set).chain(held.coming()).collect();
        if unknown {
            *held = PointsToSet::default();
        }
        sets.into_iter().for_each(|set| self.escape_all(set, id));
    }

    /// All elements of a set escape at the node `by`.
    fn escape_all(&mut self, set: SetId, by: NodeId) {
        if set.is_empty() || std::mem::replace(&mut self.sets.facts(set).escaped, true) {
            return;
        }
        let elements = self.sets.elements(set).to_vec();
        self.work.steps += elements.len();
        elements.into_iter().for_each(|e| self.escape(e, by));
    }

    fn escape(&mut self, element: Element, by: NodeId) {
        let object = self.object_of(element.object());
        let of = &mut self.objects[object as usize];
        if std::mem::replace(&mut of.escaped, true) {
            return;
        }
        self.epoch += 1;
        if self.explain {
            let filled = self.filled.filter(|_| by == ESCAPED);
            self.escaped_through
                .insert(object, filled.map_or(EscapedThrough::Node(by), EscapedThrough::Contents));
        }
        if matches!(of.kind, MemoryClass::Memory | MemoryClass::Owned) {
            self.same[object as usize] = SHARED;
            self.work.shared.push(object);
        } else {
            self.events.push(Event::Escaped(element));
        }
    }

    /// Collect the sets that no node holds, if there are many.
    pub(super) fn collect_sets(&mut self) {
        if self.sets.is_large(self.budget.room) {
            self.displacements.clear();
            self.groups.clear();
            self.sets.collect(self.held.iter_mut().flat_map(PointsToSet::sets));
        }
    }
}
