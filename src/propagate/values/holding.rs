//! Points-to sets: what has come to a node and waits, the union of what was propagated, and what its marks cover.
//!
//! A node that may be anything holds no element that has escaped, and one that besides lets all escape holds none at all. Sets that
//! speak of objects that were joined since, or of memory that has escaped, are brought up to date when they are next looked at.
//! Left out: what follows from a set, see `solve`.

use super::graph::{
    ConstraintGraph, END, ESCAPED, ESCAPES, EscapedThrough, Event, MemoryClass, NodeId, OVERDEFINED,
    OverdefinedReason, QUEUED, SHARED,
};
use super::points_to::PointsToSet;
use super::sets::{Element, SetId};

/// A node with more edges than this waits for the others.
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

    /// What a representative holds, if it ever held anything.
    fn held(&mut self, id: NodeId) -> Option<&mut PointsToSet> {
        self.held.get_mut(self.nodes[id as usize].held as usize)
    }

    /// The set of a representative node, made when it is first asked for.
    pub(super) fn hold(&mut self, id: NodeId) -> &mut PointsToSet {
        let node = &mut self.nodes[id as usize];
        if node.held == END {
            node.held = self.held.len() as u32;
            self.held.push(PointsToSet::default());
        }
        &mut self.held[node.held as usize]
    }

    /// Take all that a representative holds from it.
    pub(super) fn take_held(&mut self, id: NodeId) -> PointsToSet {
        self.held(id).map(std::mem::take).unwrap_or_default()
    }

    /// Let the node hold the element, and put it on the list if that is new.
    pub(super) fn add(&mut self, node: NodeId, element: Element) {
        match OverdefinedReason::of(element) {
            Some(cause) => self.add_unknown(node, cause),
            None => {
                let set = self.sets.of([element]);
                self.propagate_set(set, node);
            }
        }
    }

    /// A set is on its way to a node.
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

    /// What a representative holds when all that is on its way is there.
    pub(super) fn expected(&mut self, id: NodeId) -> SetId {
        let Some(held) = self.held.get(self.nodes[id as usize].held as usize) else { return SetId::EMPTY };
        let joined = match held.more.is_empty() {
            true => self.sets.union(held.set, held.first),
            false => self.sets.union_of(&[&[held.set, held.first], held.more.as_slice()].concat()),
        };
        self.current(joined, id)
    }

    /// Join what is on its way to a node: what it holds now, unless its edges and uses have seen that. Nothing changes if that is over the
    /// budget of objects, since the node is brought within the budget before it propagates anything.
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

    /// How many objects of memory a set distinguishes; of a small set the number of elements, which is no less.
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

    /// The objects of memory that a set points to; what escaped is one that is not counted.
    pub(super) fn memory_in(&self, set: SetId) -> Vec<u32> {
        let is_memory =
            |o: &u32| self.objects.get(*o as usize).is_some_and(|o| o.kind == MemoryClass::Memory);
        let elements = self.sets.elements(set).iter();
        let mut objects: Vec<u32> = elements.map(|e| e.object()).filter(is_memory).collect();
        objects.dedup();
        objects
    }

    /// A set as a representative holds it now.
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

    /// Bring a set that is held up to date.
    pub(super) fn renew(&mut self, id: NodeId) {
        let set = self.current(self.set_of(id), id);
        if let Some(held) = self.held(id) {
            held.set = set;
        }
    }

    /// Let all that a representative holds escape.
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

    /// All elements of a set that is at the node `by` escape.
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

    /// Forget the sets that nobody holds any more, if there are many.
    pub(super) fn collect_sets(&mut self) {
        if self.sets.is_large(self.budget.room) {
            self.displacements.clear();
            self.groups.clear();
            self.sets.collect(self.held.iter_mut().flat_map(PointsToSet::sets));
        }
    }
}
