//! Wave propagation (Pereira and Berlin, "Wave propagation and deep propagation for pointer analysis", CGO 2009) to the least
//! fixpoint.
//!
//! The marks for escaping and overdefined nodes are propagated first, and their events are handled before any set is propagated.
//! The marks make many elements redundant: an overdefined node takes no element that escaped, and if its elements also escape, it
//! takes none. The other nodes are processed in rounds, in the topological order of the last search for cycles. All rules are
//! monotone, so the order affects only the time, and which sets exceed a budget ([`budget`](super::budget)).

use super::graph::{
    Access, CELL, ComplexConstraint, ConstraintGraph, EscapeReason, Event, MemoryClass, NodeEscape, NodeId,
    OVERDEFINED, OverdefinedReason, QUEUED, SHARED,
};
use super::sets::{Element, SetId};

impl ConstraintGraph {
    /// Propagate the marks of escaping memory and overdefined nodes.
    pub(super) fn settle(&mut self) {
        loop {
            if let Some(object) = self.work.shared.pop() {
                self.share(object);
            } else if !self.work.unknown.is_empty() {
                // In the order of node numbers, for locality of memory accesses.
                let mut unknown = std::mem::take(&mut self.work.unknown);
                unknown.sort_unstable();
                unknown.drain(..).for_each(|id| self.spread(id));
                if self.work.unknown.is_empty() {
                    self.work.unknown = unknown;
                }
            } else {
                return;
            }
        }
    }

    /// Propagate until nothing changes or the builder must handle events, which are the result.
    pub(super) fn solve(&mut self) -> Vec<Event> {
        loop {
            self.settle();
            self.collect_sets();
            if self.is_over_work() {
                self.give_up();
            } else if !self.events.is_empty() {
                break;
            } else if let Some(id) = self.over_budget.pop() {
                self.within_budget(id);
            } else if self.cycles_are_due() {
                self.collapse_cycles();
            } else if let Some(id) = self.work.queue.pop() {
                self.nodes[id as usize].marks &= !QUEUED;
                self.process_node(id);
            } else {
                break;
            }
        }
        std::mem::take(&mut self.events)
    }

    /// Mark a representative node as overdefined, and queue it.
    pub(super) fn set_unknown(&mut self, id: NodeId) {
        if self.mark(id, OVERDEFINED) {
            self.work.unknown.push(id);
        }
    }

    /// Propagate the overdefined mark of a node along its edges and constraints.
    fn spread(&mut self, id: NodeId) {
        let id = self.find(id);
        self.renew(id);
        let mut at = self.nodes[id as usize].edges;
        while let Some((to, next)) = self.edges.get(at as usize).copied() {
            self.work.steps += 1;
            let to = self.find(to);
            self.set_unknown(to);
            at = next;
        }
        let mut at = self.nodes[id as usize].uses;
        while let Some((what, next)) = self.uses.get(at as usize).copied() {
            self.work.steps += 1;
            self.apply_unknown(what);
            at = next;
        }
    }

    /// Propagate the whole set of a node. Finding the new elements would cost as much as it saves.
    fn process_node(&mut self, id: NodeId) {
        let Some(set) = self.receive(id) else { return };
        // Edges and constraints that are added meanwhile precede the first of each list, and have seen the whole set.
        let node = &self.nodes[id as usize];
        let (mut at, mut using) = (node.edges, node.uses);
        while let Some((to, next)) = self.edges.get(at as usize).copied() {
            self.propagate_set(set, to);
            at = next;
        }
        let mut elements = std::mem::take(&mut self.work.elements);
        while let Some((what, next)) = self.uses.get(using as usize).copied() {
            if !self.apply_whole(what, set) {
                if elements.is_empty() {
                    elements.extend_from_slice(self.sets.elements(set));
                }
                self.apply_each(what, set, &elements);
            }
            using = next;
        }
        elements.clear();
        self.work.elements = elements;
    }

    /// Apply a constraint to a set as a whole. The result is false if its elements are needed.
    fn apply_whole(&mut self, what: ComplexConstraint, set: SetId) -> bool {
        self.work.steps += 1;
        match what {
            ComplexConstraint::Displace { to, by } => {
                let displaced = self.displaced_set(set, by);
                self.propagate_set(displaced, to);
                true
            }
            ComplexConstraint::Code { to } => {
                let code = self.code_in(set);
                self.propagate_set(code, to);
                true
            }
            ComplexConstraint::Load { to, offset, size } => {
                self.access_known(Access { offset, size, store: false }, to, set)
            }
            ComplexConstraint::Store { from, offset, size } => {
                self.access_known(Access { offset, size, store: true }, from, set)
            }
            _ => false,
        }
    }

    /// Apply a constraint of a node that becomes overdefined.
    pub(super) fn apply_unknown(&mut self, what: ComplexConstraint) {
        match what {
            ComplexConstraint::Displace { to, .. } => {
                let to = self.find(to);
                self.set_unknown(to);
            }
            ComplexConstraint::Load { to, .. } => self.add_unknown(to, OverdefinedReason::Memory),
            ComplexConstraint::Store { from, .. } => self.let_escape(from, EscapeReason::Stored),
            ComplexConstraint::CopyFrom(copy) => {
                let Some(copy) = self.pairwise(copy) else { return };
                for to in self.set(copy.to.0).to_vec() {
                    self.copy_memory((Element::new(SHARED, 0), None), (to, copy.to.1), copy.size);
                }
            }
            ComplexConstraint::CopyTo(copy) => {
                let Some(copy) = self.pairwise(copy) else { return };
                for from in self.set(copy.from.0).to_vec() {
                    self.copy_memory((from, copy.from.1), (Element::new(SHARED, 0), None), copy.size);
                }
            }
            // Overdefined values need no tracking as bytes of text.
            ComplexConstraint::Code { .. } => {}
            ComplexConstraint::Call { site } => {
                self.events.push(Event::Called { site, element: Element::OVERDEFINED })
            }
        }
    }

    /// Apply a constraint of a node to a set.
    pub(super) fn apply(&mut self, what: ComplexConstraint, set: SetId) {
        if !self.apply_whole(what, set) {
            let elements = self.sets.elements(set).to_vec();
            self.apply_each(what, set, &elements);
        }
    }

    /// Apply a constraint to the elements of a set one by one.
    fn apply_each(&mut self, what: ComplexConstraint, set: SetId, elements: &[Element]) {
        match what {
            // These were applied to the whole set.
            ComplexConstraint::Displace { .. } | ComplexConstraint::Code { .. } => {}
            ComplexConstraint::Load { to, offset, size } => {
                self.access(Access { offset, size, store: false }, to, (set, elements));
            }
            ComplexConstraint::Store { from, offset, size } => {
                self.access(Access { offset, size, store: true }, from, (set, elements));
            }
            ComplexConstraint::CopyFrom(number) => {
                let Some(copy) = self.pairwise(number) else { return };
                if self.is_large(&copy) {
                    return self.copy_at_once(number);
                }
                let others = self.places(copy.to.0);
                for (element, other) in elements.iter().flat_map(|e| others.iter().map(move |o| (*e, *o))) {
                    self.copy_memory((element, copy.from.1), (other, copy.to.1), copy.size);
                }
            }
            ComplexConstraint::CopyTo(number) => {
                let Some(copy) = self.pairwise(number) else { return };
                if self.is_large(&copy) {
                    return self.copy_at_once(number);
                }
                let others = self.places(copy.from.0);
                for (element, other) in elements.iter().flat_map(|e| others.iter().map(move |o| (*e, *o))) {
                    self.copy_memory((other, copy.from.1), (element, copy.to.1), copy.size);
                }
            }
            ComplexConstraint::Call { site } => {
                self.events.extend(elements.iter().map(|e| Event::Called { site, element: *e }));
            }
        }
    }

    pub(super) fn load(&mut self, element: Element, offset: Option<i64>, size: u32, to: NodeId) {
        let element = self.canonical(element);
        let object = element.object();
        self.touch(object);
        match self.objects[object as usize].kind {
            MemoryClass::Foreign if object == SHARED => self.add_unknown(to, OverdefinedReason::Memory),
            MemoryClass::Foreign | MemoryClass::Raw => self.add_unknown(to, OverdefinedReason::Outside),
            MemoryClass::Opaque => {}
            kind @ (MemoryClass::Memory | MemoryClass::Owned) => {
                if kind == MemoryClass::Owned {
                    self.add(to, self.element(object, None));
                }
                let Some((mut cell, end)) = self.overlapped(element, offset, size) else {
                    let whole = self.whole(object);
                    return self.include(whole, to, true);
                };
                self.ask_above(object, end);
                let anywhere = self.anywhere(object);
                self.include(anywhere, to, true);
                if let Some((start, above)) = self.objects[object as usize].above
                    && end > start
                {
                    self.include(above, to, true);
                }
                while cell < end {
                    let node = self.cell(object, cell);
                    self.include(node, to, true);
                    cell += CELL;
                }
            }
        }
    }

    /// Report that the bytes of an object are read or written, if it is code.
    pub(super) fn touch(&mut self, object: u32) {
        if let Some(of) = self.objects.get_mut(object as usize)
            && of.kind.is_code()
            && !std::mem::replace(&mut of.touched, true)
        {
            self.events.push(Event::Touched { object });
        }
    }

    pub(super) fn store(&mut self, from: NodeId, element: Element, offset: Option<i64>, size: u32) {
        let into = element.object();
        let element = self.canonical(element);
        let object = element.object();
        self.touch(object);
        match self.objects[object as usize].kind {
            MemoryClass::Foreign if into != SHARED => self.add_escape(from, NodeEscape::Into(into)),
            MemoryClass::Foreign | MemoryClass::Raw => self.let_escape(from, EscapeReason::Stored),
            MemoryClass::Opaque => {}
            MemoryClass::Memory | MemoryClass::Owned => {
                let Some((mut cell, end)) = self.overlapped(element, offset, size) else {
                    let anywhere = self.anywhere(object);
                    return self.include(from, anywhere, true);
                };
                while cell < end {
                    let node = self.cell(object, cell);
                    self.include(from, node, true);
                    cell += CELL;
                }
            }
        }
    }
}
