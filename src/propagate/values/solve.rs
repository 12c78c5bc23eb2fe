//! Solving the graph: differences are handed on until nothing changes, and nodes that hold each other's sets collapse.
//!
//! Nodes are worked off in an order that the last search for cycles gave: a node before those that it flows to. The search
//! is repeated when a quarter more edges have come. What escapes and the unknown go before everything else. Everything only adds, so the order decides the time and never the
//! result: it is the least fixpoint. An element that has escaped isn't handed to a set with the unknown in it, which
//! covers it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::graph::{CELL, Cause, ESCAPED, Event, Graph, Kind, Node, NodeId, RangeCopy, Use};
use super::sets::Element;

/// Nodes with something to hand on.
#[derive(Default)]
pub(super) struct Work {
    /// Nodes that hold something urgent.
    urgent: Vec<NodeId>,
    queue: BinaryHeap<Reverse<(u32, NodeId)>>,
    /// By node: its place in the order.
    rank: Vec<u32>,
    /// Edges since the last search for cycles.
    pub(super) new_edges: usize,
    edges_searched: usize,
}

impl Work {
    pub(super) fn push(&mut self, id: NodeId, node: &mut Node, urgent: bool) {
        if urgent {
            if !std::mem::replace(&mut node.urgent, true) {
                self.urgent.push(id);
            }
        } else if !std::mem::replace(&mut node.queued, true) {
            let rank = self.rank.get(id as usize).copied().unwrap_or(0);
            self.queue.push(Reverse((rank, id)));
        }
    }
}

/// Fewer new edges than this are no reason to search for cycles.
const SEARCH_AFTER: usize = 1000;

impl Graph {
    /// Propagate until nothing changes; the result is what the builder must know.
    pub(super) fn solve(&mut self) -> Vec<Event> {
        loop {
            if self.work.new_edges > SEARCH_AFTER + self.work.edges_searched / 4 {
                self.collapse_cycles();
            }
            if let Some(id) = self.over_budget.pop() {
                self.within_budget(id);
            } else if let Some(id) = self.work.urgent.pop() {
                let node = &mut self.nodes[id as usize];
                node.urgent = false;
                let all = std::mem::take(&mut node.delta);
                let first = |e: &Element| id == ESCAPED || e.is_unknown();
                let (urgent, rest): (Vec<Element>, Vec<Element>) = all.into_iter().partition(first);
                node.delta = rest;
                if !node.delta.is_empty() {
                    self.work.push(id, node, false);
                }
                self.work_off(id, &urgent);
            } else if let Some(Reverse((_, id))) = self.work.queue.pop() {
                let node = &mut self.nodes[id as usize];
                node.queued = false;
                let mut delta = std::mem::take(&mut node.delta);
                if node.set.has_unknown() {
                    // What escaped in the meantime.
                    delta.retain(|e| !self.has_escaped(*e));
                }
                self.work_off(id, &delta);
            } else {
                break;
            }
        }
        std::mem::take(&mut self.events)
    }

    /// Hand on what a node has got.
    fn work_off(&mut self, id: NodeId, delta: &[Element]) {
        if delta.is_empty() {
            return;
        }
        if id == ESCAPED {
            return delta.iter().for_each(|e| self.escaped(*e));
        }
        let successors = std::mem::take(&mut self.nodes[id as usize].successors);
        for successor in &successors {
            self.hand_on(delta, *successor);
        }
        // An edge may have come in the meantime; it has had the whole set.
        let node = &mut self.nodes[id as usize];
        let added = std::mem::replace(&mut node.successors, successors);
        node.successors.extend(added);
        // A use that comes in the meantime sees the whole set.
        for i in 0..self.nodes[id as usize].uses.len() {
            let Some(what) = self.nodes[id as usize].uses.get(i).copied() else { break };
            self.apply(what, delta);
        }
    }

    /// Join elements into a node, without those that its unknown covers.
    pub(super) fn hand_on(&mut self, elements: &[Element], to: NodeId) {
        let to = self.find(to);
        if self.nodes[to as usize].set.has_unknown() && to != ESCAPED {
            let left: Vec<Element> = elements.iter().copied().filter(|e| !self.has_escaped(*e)).collect();
            self.join(to, &left);
        } else {
            self.join(to, elements);
        }
    }

    /// Whether the unknown stands for the element too.
    fn has_escaped(&self, element: Element) -> bool {
        if element.is_unknown() {
            return false;
        }
        self.objects[self.object_of(element.object()) as usize].escaped
    }

    fn escaped(&mut self, element: Element) {
        if !element.is_unknown() {
            self.escape_object(element.object());
            self.events.push(Event::Escaped(element));
        }
    }

    /// Elements of a node that is used so.
    pub(super) fn apply(&mut self, what: Use, elements: &[Element]) {
        match what {
            Use::Displace { to, by } => {
                let mut displaced: Vec<Element> = elements.iter().map(|e| self.displaced(*e, by)).collect();
                displaced.sort_unstable();
                displaced.dedup();
                self.hand_on(&displaced, to);
            }
            Use::Load { to, offset, size } => {
                elements.iter().for_each(|e| self.load(*e, offset, size, to));
            }
            Use::Store { from, offset, size } => {
                elements.iter().for_each(|e| self.store(from, *e, offset, size));
            }
            Use::CopyFrom { to, from_offset, to_offset, size } => {
                let others = self.set(to).to_vec();
                for (element, other) in elements.iter().flat_map(|e| others.iter().map(move |o| (*e, *o))) {
                    self.copy_memory((element, from_offset), (other, to_offset), size);
                }
            }
            Use::CopyTo { from, from_offset, to_offset, size } => {
                let others = self.set(from).to_vec();
                for (element, other) in elements.iter().flat_map(|e| others.iter().map(move |o| (*e, *o))) {
                    self.copy_memory((other, from_offset), (element, to_offset), size);
                }
            }
            Use::Code { to } => {
                let opaque = |e: &&Element| self.objects[e.object() as usize].kind == Kind::Opaque;
                let code: Vec<Element> =
                    elements.iter().filter(opaque).map(|e| self.displaced(*e, None)).collect();
                self.hand_on(&code, to);
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
            _ if element.is_unknown() => self.add(to, Cause::Memory.element()),
            Kind::Foreign => self.add_unknown(to, Cause::Outside),
            Kind::Opaque => {}
            kind @ (Kind::Memory | Kind::Owned) => {
                if kind == Kind::Owned {
                    self.add(to, self.element(object, None));
                }
                let Some((mut cell, end)) = self.overlapped(element, offset, size) else {
                    let whole = self.whole(object);
                    return self.assign(whole, to);
                };
                let anywhere = self.anywhere(object);
                self.assign(anywhere, to);
                if let Some((start, above)) = self.objects[object as usize].above
                    && end > start
                {
                    self.assign(above, to);
                }
                while cell < end {
                    let node = self.cell(object, cell);
                    self.assign(node, to);
                    cell += CELL;
                }
            }
        }
    }

    pub(super) fn store(&mut self, from: NodeId, element: Element, offset: Option<i64>, size: u32) {
        let element = self.canonical(element);
        let object = element.object();
        match self.objects[object as usize].kind {
            _ if element.is_unknown() => self.assign(from, ESCAPED),
            Kind::Foreign => self.assign(from, ESCAPED),
            Kind::Opaque => {}
            Kind::Memory | Kind::Owned => {
                let Some((mut cell, end)) = self.overlapped(element, offset, size) else {
                    let anywhere = self.anywhere(object);
                    return self.assign(from, anywhere);
                };
                while cell < end {
                    let node = self.cell(object, cell);
                    self.assign(from, node);
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
        let kind =
            |e: Element| if e.is_unknown() { Kind::Foreign } else { self.objects[e.object() as usize].kind };
        let (source, target) = (from.object(), to.object());
        match (kind(from), kind(to)) {
            (Kind::Memory | Kind::Owned, Kind::Memory | Kind::Owned) => {}
            (Kind::Memory | Kind::Owned, Kind::Foreign) => {
                let whole = self.whole(source);
                return self.assign(whole, ESCAPED);
            }
            (Kind::Foreign, Kind::Memory | Kind::Owned) => {
                let anywhere = self.anywhere(target);
                let cause = if from.is_unknown() { Cause::Memory } else { Cause::Outside };
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
            return self.assign(whole, anywhere);
        };
        let end = if size == 0 { i64::MAX } else { start.saturating_add(i64::from(size)) };
        let copy =
            RangeCopy { from: start.div_euclid(CELL) * CELL, end, object: target, shift: other - start };
        if source == target {
            return;
        }
        self.copy_range(source, copy);
        let (from_anywhere, to_anywhere) = (self.anywhere(source), self.anywhere(target));
        self.assign(from_anywhere, to_anywhere);
        if let Some((start, above)) = self.objects[source as usize].above
            && end > start
        {
            self.assign(above, to_anywhere);
        }
    }

    /// Tarjan's search over the edges, with a stack of its own; each component becomes one node.
    fn collapse_cycles(&mut self) {
        const UNSEEN: u32 = u32::MAX;
        let count = self.nodes.len();
        let mut number = vec![UNSEEN; count];
        let mut low = vec![0u32; count];
        let mut on_stack = vec![false; count];
        let (mut stack, mut path): (Vec<NodeId>, Vec<(NodeId, usize)>) = (Vec::new(), Vec::new());
        let mut components: Vec<Vec<NodeId>> = Vec::new();
        let mut order = Vec::with_capacity(count);
        let mut next = 0;
        for root in 0..count as NodeId {
            if self.parent[root as usize] != root || number[root as usize] != UNSEEN {
                continue;
            }
            path.push((root, 0));
            while let Some((node, at)) = path.pop() {
                let i = node as usize;
                if at == 0 {
                    number[i] = next;
                    low[i] = next;
                    next += 1;
                    stack.push(node);
                    on_stack[i] = true;
                } else if let Some(before) = self.nodes[i].successors.get(at - 1) {
                    let before = self.find(*before) as usize;
                    if on_stack[before] {
                        low[i] = low[i].min(low[before]);
                    }
                }
                let mut at = at;
                let mut descend = None;
                while let Some(successor) = self.nodes[i].successors.get(at) {
                    at += 1;
                    let successor = self.find(*successor);
                    if number[successor as usize] == UNSEEN {
                        descend = Some(successor);
                        break;
                    }
                    if on_stack[successor as usize] {
                        low[i] = low[i].min(number[successor as usize]);
                    }
                }
                if let Some(successor) = descend {
                    path.push((node, at));
                    path.push((successor, 0));
                    continue;
                }
                if low[i] == number[i] {
                    let mut component = Vec::new();
                    while let Some(member) = stack.pop() {
                        on_stack[member as usize] = false;
                        component.push(member);
                        if member == node {
                            break;
                        }
                    }
                    order.push(node);
                    if component.len() > 1 {
                        components.push(component);
                    }
                }
            }
        }
        self.work.rank = vec![0; count];
        for (rank, node) in order.iter().rev().enumerate() {
            self.work.rank[*node as usize] = rank as u32;
        }
        for component in components {
            self.merge(&component);
        }
        self.work.edges_searched += self.work.new_edges;
        self.work.new_edges = 0;
        // The queue has the ranks of before; only the time depends on that.
    }

    pub(super) fn merge(&mut self, component: &[NodeId]) {
        // The root of the component is its last member, and has the rank.
        let Some(keep) = component.last().copied() else { return };
        let mut merged = std::mem::take(&mut self.nodes[keep as usize]);
        let mut changed = false;
        for member in component.iter().copied().filter(|m| *m != keep) {
            let node = std::mem::take(&mut self.nodes[member as usize]);
            self.parent[member as usize] = keep;
            let mut news = Vec::new();
            merged.set.join(node.set.as_slice(), &mut news);
            changed = true;
            merged.leaks |= node.leaks;
            merged.counted_at = 0;
            merged.successors.extend(node.successors);
            merged.uses.extend(node.uses);
        }
        for successor in &mut merged.successors {
            *successor = self.find(*successor);
        }
        merged.successors.sort_unstable();
        merged.successors.dedup();
        merged.successors.retain(|s| *s != keep);
        let mut seen = rustc_hash::FxHashSet::default();
        merged.uses.retain(|u| seen.insert(*u));
        if changed {
            // Each member's edges have seen its own set alone.
            merged.delta = merged.set.as_slice().to_vec();
            merged.queued = false;
            merged.urgent = false;
        }
        let leaking = if merged.leaks { merged.set.as_slice().to_vec() } else { Vec::new() };
        self.nodes[keep as usize] = merged;
        let node = &mut self.nodes[keep as usize];
        if !node.delta.is_empty() {
            self.work.push(keep, node, true);
        }
        self.join(ESCAPED, &leaking);
    }
}
