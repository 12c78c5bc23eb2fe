//! Inclusion edges and complex constraints of the graph: adding them, and finding those that are redundant.
//!
//! An edge is redundant, and is skipped, if the marks of its ends cover every element that it could propagate. An edge that may
//! exist already is looked up first; a duplicate costs time and changes nothing. The module `holding` propagates sets along the
//! edges.

use super::budget::GivenUp;
use super::graph::{
    ComplexConstraint, ConstraintGraph, ESCAPED, ESCAPES, NodeId, OVERDEFINED, OverdefinedReason,
    SuppressedEdge,
};

/// A node with more edges has them in a hash table; otherwise the list is searched.
const FEW_EDGES: u16 = 14;

impl ConstraintGraph {
    /// `to` includes `from`; the caller adds this edge only once.
    pub(super) fn assign(&mut self, from: NodeId, to: NodeId) {
        self.include(from, to, false);
    }

    /// `to` includes `from`; `again`: the edge may exist already.
    pub(super) fn include(&mut self, from: NodeId, to: NodeId, again: bool) {
        let (from, to) = (self.find(from), self.find(to));
        if from == to || self.given_up == GivenUp::Values {
            return;
        }
        if to == ESCAPED {
            return self.mark_escaping(from);
        }
        if from == ESCAPED {
            return self.add_unknown(to, OverdefinedReason::Memory);
        }
        if self.has(from, OVERDEFINED) {
            self.set_unknown(to);
        }
        if self.has(to, ESCAPES) {
            // The sets that wait at `from` escape, too.
            self.mark_escaping(from);
        }
        // Every element of `from` escapes, and `to` includes all that escaped. So the edge is redundant, also if `from` becomes
        // overdefined.
        let ends = self.has(from, ESCAPES) && self.has(to, OVERDEFINED);
        if ends && (self.has(from, OVERDEFINED) || self.has(to, ESCAPES)) {
            if self.explain && (!again || self.known_edges.insert((from, to))) {
                self.suppressed.push((from, SuppressedEdge::Edge(to)));
            }
            return;
        }
        if again && self.is_known(from, to) {
            return;
        }
        self.edge(from, to);
        self.work.new_edges += 1;
        self.propagate_set(self.set_of(from), to);
    }

    /// Whether there is an edge between two representatives. For a node with many edges, some edges from before the last collapse
    /// may be missing.
    fn is_known(&self, from: NodeId, to: NodeId) -> bool {
        let of = &self.nodes[from as usize];
        if of.degree > FEW_EDGES {
            return self.known_edges.contains(&(from, to));
        }
        let mut at = of.edges;
        while let Some((other, next)) = self.edges.get(at as usize).copied() {
            if self.find(other) == to {
                return true;
            }
            at = next;
        }
        false
    }

    fn edge(&mut self, from: NodeId, to: NodeId) {
        let of = &mut self.nodes[from as usize];
        of.degree = of.degree.saturating_add(1);
        let (degree, next) = (of.degree, std::mem::replace(&mut of.edges, self.edges.len() as u32));
        self.edges.push((to, next));
        if degree > FEW_EDGES {
            self.known_edges.insert((from, to));
        }
        if degree == FEW_EDGES + 1 {
            let mut at = next;
            while let Some((other, next)) = self.edges.get(at as usize).copied() {
                self.known_edges.insert((from, other));
                at = next;
            }
        }
    }

    fn used(&mut self, id: NodeId, what: ComplexConstraint) {
        let of = &mut self.nodes[id as usize];
        let next = std::mem::replace(&mut of.uses, self.uses.len() as u32);
        self.uses.push((what, next));
    }

    /// Add the redundant edges that were skipped, once the fixpoint is reached.
    pub(super) fn complete(&mut self) {
        for (id, what) in std::mem::take(&mut self.suppressed) {
            let id = self.find(id);
            match what {
                SuppressedEdge::Edge(to) => self.edge(id, to),
                SuppressedEdge::ComplexConstraint(what) => self.used(id, what),
            }
        }
    }

    /// Add a complex constraint to `node`, for its elements now and later.
    pub(super) fn add_use(&mut self, node: NodeId, what: ComplexConstraint) {
        if let ComplexConstraint::Displace { to, by: Some(0) } = what {
            return self.assign(node, to);
        }
        let id = self.find(node);
        if self.has(id, OVERDEFINED) {
            self.apply_unknown(what);
        }
        // Such a node will hold no element.
        if self.has(id, OVERDEFINED | ESCAPES) {
            self.suppressed.extend(self.explain.then_some((id, SuppressedEdge::ComplexConstraint(what))));
            return;
        }
        self.used(id, what);
        let set = self.set_of(id);
        if !set.is_empty() {
            self.apply(what, set);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::budget::{BUDGET, Budget, STEPS_OF_AN_EDGE};
    use super::*;

    /// The targets of the edges of a node, in order.
    fn ends(graph: &ConstraintGraph, node: NodeId) -> Vec<NodeId> {
        let mut ends = Vec::new();
        let mut at = graph.nodes[node as usize].edges;
        while let Some((to, next)) = graph.edges.get(at as usize).copied() {
            ends.push(to);
            at = next;
        }
        ends.sort_unstable();
        ends
    }

    #[test]
    fn what_is_said_again_is_no_second_edge() {
        let mut graph = ConstraintGraph::new(BUDGET);
        let from = graph.node();
        let others: Vec<NodeId> = (0..3 * u32::from(FEW_EDGES)).map(|_| graph.node()).collect();
        for (count, to) in others.iter().enumerate() {
            // Said once, the first of them.
            graph.include(from, *to, count >= 3);
            others[..=count].iter().for_each(|to| graph.include(from, *to, true));
            assert_eq!(ends(&graph, from), others[..=count]);
        }
        // A node with few edges also finds an edge to a node that was collapsed.
        let few = graph.node();
        graph.include(few, others[0], true);
        graph.merge(&others[..2]);
        graph.include(few, others[1], true);
        assert_eq!(ends(&graph, few), [others[0]]);
    }

    #[test]
    fn edges_are_work() {
        let most = [0; 3];
        let mut graph = ConstraintGraph::new(Budget { free: 10 * STEPS_OF_AN_EDGE, most, ..BUDGET });
        let from = graph.node();
        for count in 0..20 {
            assert_eq!(graph.is_over_work(), count > 10);
            let to = graph.node();
            graph.assign(from, to);
        }
    }

    #[test]
    fn what_is_covered_is_no_edge() {
        for explain in [false, true] {
            let mut graph = ConstraintGraph::new(BUDGET);
            graph.explain = explain;
            let (from, to) = (graph.node(), graph.node());
            for node in [from, to] {
                graph.assign(node, ESCAPED);
                graph.add_unknown(node, OverdefinedReason::FrontEnd);
            }
            (0..3).for_each(|_| graph.include(from, to, true));
            assert_eq!(ends(&graph, from), [0; 0]);
            assert_eq!(graph.suppressed.len(), usize::from(explain));
            graph.complete();
            assert_eq!(ends(&graph, from).len(), usize::from(explain));
        }
    }
}
