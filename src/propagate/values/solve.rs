//! Solving the graph: differences are handed on until nothing changes.
//!
//! What escapes and what may be anything goes before everything else, and the builder is told of what follows from it before
//! any set is handed on: both cover much of the rest. A node that may be anything is handed no element that has escaped, and one
//! that besides lets all escape is handed none at all. The other nodes are worked off in an order that the last search for cycles gave: a node before
//! those that it flows to. Everything only adds, so the order decides the time and never the result: it is the least
//! fixpoint.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::graph::{
    CELL, Cause, ESCAPED, Event, Graph, Kind, LEAKS, MemoryCopy, NodeId, QUEUED, RangeCopy, SHARED, UNKNOWN,
    Use,
};
use super::sets::{Element, Set};

/// A node with more edges than this waits for the others.
const HUB: u16 = 8;

/// What is to be done.
#[derive(Default)]
pub(super) struct Work {
    /// Nodes that have become unknown.
    unknown: Vec<NodeId>,
    /// Objects of memory that have escaped.
    shared: Vec<u32>,
    /// Nodes with elements to hand on.
    queue: BinaryHeap<Reverse<(u32, NodeId)>>,
    /// By node: its place in the order.
    pub(super) rank: Vec<u32>,
    /// Edges since the last search for cycles.
    pub(super) new_edges: usize,
    pub(super) edges_searched: usize,
    /// Elements that were looked at since.
    pub(super) since_search: usize,
    /// Elements that were looked at.
    pub(super) steps: usize,
    /// Room for elements on their way; empty between uses.
    displaced: Vec<Element>,
    canonical: Vec<Element>,
    fresh: Vec<Element>,
}

impl Graph {
    /// Propagate what escapes and what may be anything.
    pub(super) fn settle(&mut self) {
        loop {
            if let Some(object) = self.work.shared.pop() {
                self.share(object);
            } else if !self.work.unknown.is_empty() {
                // What lies together goes together.
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

    /// Propagate until nothing changes or the builder has something to do; that is the result.
    pub(super) fn solve(&mut self) -> Vec<Event> {
        loop {
            self.settle();
            if self.is_over_work() {
                self.give_up();
            } else if !self.events.is_empty() {
                break;
            } else if let Some(id) = self.over_budget.pop() {
                self.within_budget(id);
            } else if self.cycles_are_due() {
                self.collapse_cycles();
            } else if let Some(Reverse((_, id))) = self.work.queue.pop() {
                self.nodes[id as usize].marks &= !QUEUED;
                let unknown = self.has(id, UNKNOWN);
                let Some(held) = self.held(id) else { continue };
                let mut delta = std::mem::take(&mut held.delta);
                let all = std::mem::take(&mut held.all);
                if unknown {
                    // What escaped in the meantime.
                    delta.retain(|e| !self.has_escaped(*e));
                    self.drop_escaped(id);
                }
                if all {
                    let whole = self.whole_set(id);
                    self.work_off(id, whole.as_slice());
                } else {
                    delta.sort_unstable();
                    self.work_off(id, &delta);
                }
            } else {
                break;
            }
        }
        std::mem::take(&mut self.events)
    }

    /// Mark a representative as one that may be anything.
    pub(super) fn set_unknown(&mut self, id: NodeId) {
        if self.mark(id, UNKNOWN) {
            self.work.unknown.push(id);
        }
    }

    /// Let all that a representative holds escape.
    pub(super) fn leak(&mut self, id: NodeId) {
        if !self.mark(id, LEAKS) {
            return;
        }
        let unknown = self.has(id, UNKNOWN);
        let whole = self.whole_set(id);
        whole.as_slice().iter().for_each(|e| self.escape(*e));
        if unknown && let Some(held) = self.held(id) {
            *held = super::graph::Held::default();
        }
    }

    fn escape(&mut self, element: Element) {
        let object = self.object_of(element.object());
        let of = &mut self.objects[object as usize];
        if std::mem::replace(&mut of.escaped, true) {
            return;
        }
        if matches!(of.kind, Kind::Memory | Kind::Owned) {
            self.same[object as usize] = SHARED;
            self.work.shared.push(object);
        } else {
            self.events.push(Event::Escaped(element));
        }
    }

    /// Forget what the unknown covers.
    fn drop_escaped(&mut self, id: NodeId) {
        if let Some(held) = self.held(id) {
            let mut set = std::mem::take(&mut held.set);
            set.retain(|e| !self.has_escaped(e));
            self.hold(id).set = set;
        }
    }

    /// What follows from it that a node may be anything.
    fn spread(&mut self, id: NodeId) {
        let id = self.find(id);
        self.drop_escaped(id);
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

    /// Hand on what a node has got.
    fn work_off(&mut self, id: NodeId, delta: &[Element]) {
        if delta.is_empty() {
            return;
        }
        // What comes in the meantime goes before the first of each list, and has seen the whole set.
        let node = &self.nodes[id as usize];
        let (mut at, mut using) = (node.edges, node.uses);
        let whole = self.whole_set(id);
        while let Some((to, next)) = self.edges.get(at as usize).copied() {
            self.hand_on(delta, Some(&whole), to);
            at = next;
        }
        while let Some((what, next)) = self.uses.get(using as usize).copied() {
            self.apply(what, delta);
            using = next;
        }
    }

    /// Join sorted elements into a node, without those that its marks cover. `whole`: the set that they are from; the
    /// rest of it the node has.
    pub(super) fn hand_on(&mut self, elements: &[Element], whole: Option<&Set>, to: NodeId) {
        if elements.is_empty() {
            return;
        }
        let id = self.find(to);
        let (unknown, leaks) = (self.has(id, UNKNOWN), self.has(id, LEAKS));
        if !unknown
            && let (Some(whole), Some(held)) = (whole, self.held(id))
            && held.set.shares(whole)
        {
            return;
        }
        self.work.steps += elements.len();
        self.work.since_search += elements.len();
        if leaks {
            elements.iter().for_each(|e| self.escape(*e));
        }
        if unknown && leaks {
            return;
        }
        let plain = |e: &Element| {
            let object = e.object() as usize;
            self.same[object] == e.object() && !self.objects[object].joined
        };
        let mut buffer = std::mem::take(&mut self.work.canonical);
        let mut elements = elements;
        if unknown || !elements.iter().all(plain) {
            let canonical = elements.iter().map(|e| self.canonical(*e));
            buffer.extend(canonical.filter(|e| !(unknown && self.objects[e.object() as usize].escaped)));
            buffer.sort_unstable();
            elements = &buffer;
        }
        let mut fresh = std::mem::take(&mut self.work.fresh);
        let budget = self.budget.objects;
        if !elements.is_empty() {
            let same = buffer.is_empty();
            let held = self.hold(id);
            let before = held.delta.len();
            let was = held.set.as_slice().len();
            match whole {
                Some(whole) if same && was == 0 && whole.as_slice().len() == elements.len() => {
                    held.set = whole.clone();
                    held.all = true;
                }
                _ => held.set.join(elements, &mut held.delta, &mut fresh),
            }
            let new = held.all && was == 0 || held.delta.len() > before;
            if held.all {
                held.delta.clear();
            }
            if let Some(whole) = whole
                && same
                && held.set.as_slice() == whole.as_slice()
            {
                held.set = whole.clone();
            }
            if new {
                if held.set.as_slice().len() > (held.counted_at as usize).max(budget) {
                    held.counted_at = u32::MAX;
                    self.over_budget.push(id);
                }
                self.queue(id);
            }
        }
        fresh.clear();
        buffer.clear();
        (self.work.fresh, self.work.canonical) = (fresh, buffer);
    }

    pub(super) fn queue(&mut self, id: NodeId) {
        if self.mark(id, QUEUED) {
            let rank = self.work.rank.get(id as usize).copied().unwrap_or(0);
            // What many hold waits until the others have said all to it, and says it at once.
            let rank = if self.nodes[id as usize].degree > HUB { rank | 1 << 31 } else { rank };
            self.work.queue.push(Reverse((rank, id)));
        }
    }

    /// Whether the unknown stands for the element too.
    fn has_escaped(&self, element: Element) -> bool {
        self.objects[self.object_of(element.object()) as usize].escaped
    }

    /// A node that may be anything is used so.
    pub(super) fn apply_unknown(&mut self, what: Use) {
        match what {
            Use::Displace { to, .. } => {
                let to = self.find(to);
                self.set_unknown(to);
            }
            Use::Load { to, .. } => self.add_unknown(to, Cause::Memory),
            Use::Store { from, .. } => self.assign(from, ESCAPED),
            Use::CopyFrom(copy) => {
                let Some(MemoryCopy { to, size, .. }) = self.copies.get(copy as usize).copied() else {
                    return;
                };
                for to in self.set(to.0).to_vec() {
                    self.copy_memory((Element::new(SHARED, 0), None), (to, None), size);
                }
            }
            Use::CopyTo(copy) => {
                let Some(MemoryCopy { from, size, .. }) = self.copies.get(copy as usize).copied() else {
                    return;
                };
                for from in self.set(from.0).to_vec() {
                    self.copy_memory((from, None), (Element::new(SHARED, 0), None), size);
                }
            }
            // Only what is known is followed as bytes of text.
            Use::Code { .. } => {}
            Use::Call { site } => self.events.push(Event::Called { site, element: Element::UNKNOWN }),
        }
    }

    /// Elements of a node that is used so.
    pub(super) fn apply(&mut self, what: Use, elements: &[Element]) {
        self.work.steps += elements.len();
        match what {
            Use::Displace { to, by } => {
                let mut displaced = std::mem::take(&mut self.work.displaced);
                displaced.extend(elements.iter().map(|e| self.displaced(*e, by)));
                displaced.sort_unstable();
                displaced.dedup();
                self.hand_on(&displaced, None, to);
                displaced.clear();
                self.work.displaced = displaced;
            }
            Use::Load { to, offset, size } => {
                elements.iter().for_each(|e| self.load(*e, offset, size, to));
            }
            Use::Store { from, offset, size } => {
                elements.iter().for_each(|e| self.store(from, *e, offset, size));
            }
            Use::CopyFrom(copy) => {
                let Some(MemoryCopy { from, to, size }) = self.copies.get(copy as usize).copied() else {
                    return;
                };
                let mut others = self.set(to.0).to_vec();
                if self.has(self.find(to.0), UNKNOWN) {
                    others.push(Element::new(SHARED, 0));
                }
                for (element, other) in elements.iter().flat_map(|e| others.iter().map(move |o| (*e, *o))) {
                    self.copy_memory((element, from.1), (other, to.1), size);
                }
            }
            Use::CopyTo(copy) => {
                let Some(MemoryCopy { from, to, size }) = self.copies.get(copy as usize).copied() else {
                    return;
                };
                let mut others = self.set(from.0).to_vec();
                if self.has(self.find(from.0), UNKNOWN) {
                    others.push(Element::new(SHARED, 0));
                }
                for (element, other) in elements.iter().flat_map(|e| others.iter().map(move |o| (*e, *o))) {
                    self.copy_memory((other, from.1), (element, to.1), size);
                }
            }
            Use::Code { to } => {
                let opaque = |e: &&Element| self.objects[e.object() as usize].kind == Kind::Opaque;
                let mut code: Vec<Element> =
                    elements.iter().filter(opaque).map(|e| self.displaced(*e, None)).collect();
                code.sort_unstable();
                self.hand_on(&code, None, to);
            }
            Use::Call { site } => {
                self.events.extend(elements.iter().map(|e| Event::Called { site, element: *e }));
            }
        }
    }

    pub(super) fn load(&mut self, element: Element, offset: Option<i64>, size: u32, to: NodeId) {
        let element = self.canonical(element);
        let object = element.object();
        match self.objects[object as usize].kind {
            Kind::Foreign if object == SHARED => self.add_unknown(to, Cause::Memory),
            Kind::Foreign => self.add_unknown(to, Cause::Outside),
            Kind::Opaque => {}
            kind @ (Kind::Memory | Kind::Owned) => {
                if kind == Kind::Owned {
                    self.add(to, self.element(object, None));
                }
                let Some((mut cell, end)) = self.overlapped(element, offset, size) else {
                    let whole = self.whole(object);
                    return self.include(whole, to, true);
                };
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

    pub(super) fn store(&mut self, from: NodeId, element: Element, offset: Option<i64>, size: u32) {
        let element = self.canonical(element);
        let object = element.object();
        match self.objects[object as usize].kind {
            Kind::Foreign => self.include(from, ESCAPED, true),
            Kind::Opaque => {}
            Kind::Memory | Kind::Owned => {
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

    /// Memory at one address is copied to another one.
    pub(super) fn copy_memory(
        &mut self,
        (from, from_offset): (Element, Option<i64>),
        (to, to_offset): (Element, Option<i64>),
        size: u32,
    ) {
        let (from, to) = (self.canonical(from), self.canonical(to));
        let kind = |e: Element| self.objects[e.object() as usize].kind;
        let (source, target) = (from.object(), to.object());
        match (kind(from), kind(to)) {
            (Kind::Memory | Kind::Owned, Kind::Memory | Kind::Owned) => {}
            (Kind::Memory | Kind::Owned, Kind::Foreign) => {
                let whole = self.whole(source);
                return self.include(whole, ESCAPED, true);
            }
            (Kind::Foreign, Kind::Memory | Kind::Owned) => {
                let anywhere = self.anywhere(target);
                let cause = if source == SHARED { Cause::Memory } else { Cause::Outside };
                return self.add_unknown(anywhere, cause);
            }
            _ => return,
        }
        if kind(from) == Kind::Owned {
            let anywhere = self.anywhere(target);
            self.add(anywhere, self.element(source, None));
        }
        let places =
            self.offset(self.displaced(from, from_offset)).zip(self.offset(self.displaced(to, to_offset)));
        let congruent = places.filter(|(a, b)| (b - a) % CELL == 0 && (source != target || a == b));
        let Some((start, other)) = congruent else {
            let (whole, anywhere) = (self.whole(source), self.anywhere(target));
            return self.include(whole, anywhere, true);
        };
        let end = if size == 0 { i64::MAX } else { start.saturating_add(i64::from(size)) };
        let copy =
            RangeCopy { from: start.div_euclid(CELL) * CELL, end, object: target, shift: other - start };
        if source == target {
            return;
        }
        self.copy_range(source, copy);
        let (from_anywhere, to_anywhere) = (self.anywhere(source), self.anywhere(target));
        self.include(from_anywhere, to_anywhere, true);
        if let Some((start, above)) = self.objects[source as usize].above
            && end > start
        {
            self.include(above, to_anywhere, true);
        }
    }
}
