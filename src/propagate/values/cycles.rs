//! Cycle elimination (Tarjan): strongly connected nodes are collapsed to one, and the others get a topological order.
//!
//! The search is repeated after new edges and propagated elements. Nodes that receive no elements are skipped. Collapsing keeps the
//! solution, because all nodes of a cycle have the same set.

use super::graph::{ConstraintGraph, END, ESCAPES, Node, NodeId, OVERDEFINED, QUEUED};

/// Fewer new edges than this are no reason to search.
const SEARCH_AFTER: usize = 1000;

impl ConstraintGraph {
    /// Whether a search for cycles is worth its time. A search costs as much for each edge as the propagation of a small set. It
    /// pays if sets are large. They are small if most values are unknown, and then few are propagated twice.
    pub(super) fn cycles_are_due(&self) -> bool {
        let work = &self.work;
        let are_sets_large = 2 * work.since_search > 3 * (work.steps - work.steps_searched);
        let is_much_new = work.new_edges > SEARCH_AFTER + work.edges_searched / 2;
        is_much_new && are_sets_large && work.since_search > self.nodes.len() / 2
    }

    /// Tarjan's search over the edges, with a stack of its own; each component becomes one node.
    pub(super) fn collapse_cycles(&mut self) {
        const UNSEEN: u32 = u32::MAX;
        let count = self.nodes.len();
        let mut number = vec![UNSEEN; count];
        let mut low = vec![0u32; count];
        let mut on_stack = vec![false; count];
        // The path has each node with the current edge and the next one.
        let (mut stack, mut path): (Vec<NodeId>, Vec<(NodeId, u32, u32)>) = (Vec::new(), Vec::new());
        let mut components: Vec<Vec<NodeId>> = Vec::new();
        let mut order = Vec::with_capacity(count);
        let mut next = 0;
        for root in 0..count as NodeId {
            if self.find(root) != root || number[root as usize] != UNSEEN || self.is_covered(root) {
                continue;
            }
            path.push((root, END, self.nodes[root as usize].edges));
            while let Some((node, followed, mut at)) = path.pop() {
                let i = node as usize;
                if number[i] == UNSEEN {
                    number[i] = next;
                    low[i] = next;
                    next += 1;
                    stack.push(node);
                    on_stack[i] = true;
                } else if let Some((before, _)) = self.edges.get(followed as usize) {
                    let before = self.find(*before) as usize;
                    if on_stack[before] {
                        low[i] = low[i].min(low[before]);
                    }
                }
                let mut descend = None;
                while let Some((successor, after)) = self.edges.get(at as usize).copied() {
                    let successor = self.find(successor);
                    let edge = std::mem::replace(&mut at, after);
                    if self.is_covered(successor) {
                        continue;
                    }
                    if number[successor as usize] == UNSEEN {
                        descend = Some((edge, successor));
                        break;
                    }
                    if on_stack[successor as usize] {
                        low[i] = low[i].min(number[successor as usize]);
                    }
                }
                if let Some((edge, successor)) = descend {
                    path.push((node, edge, at));
                    path.push((successor, END, self.nodes[successor as usize].edges));
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
        let waiting = self.work.queue.rank(order.into_iter().rev(), count);
        waiting.iter().for_each(|id| self.nodes[*id as usize].marks &= !QUEUED);
        for component in components {
            self.merge(&component);
        }
        for id in waiting {
            if self.find(id) == id {
                self.queue(id);
            }
        }
        self.work.edges_searched += self.work.new_edges;
        self.work.new_edges = 0;
        self.work.since_search = 0;
        self.work.steps_searched = self.work.steps;
    }

    /// Whether the node is overdefined and all its elements escape. Then its edges propagate no elements.
    fn is_covered(&self, node: NodeId) -> bool {
        self.has(node, OVERDEFINED | ESCAPES)
    }

    /// Make one node of these; the last one becomes their representative.
    pub(super) fn merge(&mut self, component: &[NodeId]) {
        let Some((keep, others)) = component.split_last() else { return };
        let mut held = self.take_held(*keep);
        let mut edges = self.edges_of(self.nodes[*keep as usize].edges);
        let Node { mut uses, mut marks, mut causes, .. } = self.nodes[*keep as usize];
        for member in others {
            held.absorb(self.take_held(*member));
            let of = &mut self.nodes[*member as usize];
            let node = *of;
            *of = Node { parent: *keep, edges: END, uses: END, held: END, ..node };
            marks |= node.marks;
            causes |= node.causes;
            edges.extend(self.edges_of(node.edges));
            uses = self.chained(node.uses, uses);
        }
        edges.iter_mut().for_each(|(_, to)| *to = self.find(*to));
        edges.sort_unstable_by_key(|e| (e.1, e.0));
        edges.dedup_by_key(|e| e.1);
        edges.retain(|e| e.1 != *keep);
        let mut first = END;
        for (at, to) in &edges {
            self.edges[*at as usize] = (*to, first);
            first = *at;
        }
        // Each member's edges have seen its own set and marks alone.
        held.again = true;
        let waits = !held.is_empty();
        *self.hold(*keep) = held;
        let node = &mut self.nodes[*keep as usize];
        (node.edges, node.uses) = (first, uses);
        node.degree = edges.len().try_into().unwrap_or(u16::MAX);
        node.causes = causes;
        node.marks = marks & !(OVERDEFINED | ESCAPES | QUEUED);
        if waits {
            self.queue(*keep);
        }
        if marks & OVERDEFINED != 0 {
            self.set_unknown(*keep);
        }
        if marks & ESCAPES != 0 {
            self.mark_escaping(*keep);
        }
    }

    /// The edges of a list: their numbers, and where they lead.
    fn edges_of(&self, mut at: u32) -> Vec<(u32, NodeId)> {
        let mut edges = Vec::new();
        while let Some((to, next)) = self.edges.get(at as usize).copied() {
            edges.push((at, to));
            at = next;
        }
        edges
    }

    /// Put one list of uses before another one; the first of both.
    fn chained(&mut self, first: u32, second: u32) -> u32 {
        let mut at = first;
        while let Some((_, next)) = self.uses.get_mut(at as usize) {
            if *next == END {
                *next = second;
                return first;
            }
            at = *next;
        }
        second
    }
}
