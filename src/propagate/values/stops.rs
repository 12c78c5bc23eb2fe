//! Explanation of escaped code addresses: for each, the nearest node at which code that is not analysed gets it, for the report.
//!
//! A breadth-first search backwards over the solved graph, from all nodes whose elements escape for a reason of their own. The
//! contents of escaped memory have the reason of that memory. The nearest reason may be one of many. The analysis does not use it.

use std::collections::VecDeque;

use rustc_hash::{FxHashMap, FxHashSet};

use super::flow::{Flow, ObjectKind};
use super::graph::{
    ComplexConstraint, ConstraintGraph, ESCAPED, EscapeReason, EscapedThrough, NodeEscape, NodeId, SHARED,
};
use crate::ids::AtomId;

/// The escape reason of each code atom whose address escaped, in order.
pub(super) fn stops(flow: &Flow<'_>) -> Vec<(AtomId, EscapeReason)> {
    let escapes = NearestEscapes::new(&flow.graph);
    let mut stops: Vec<(AtomId, EscapeReason)> = Vec::new();
    for (object, kind) in (0..).zip(&flow.object_kinds) {
        if let ObjectKind::Code(atom) = *kind
            && flow.escaped[atom.0 as usize]
        {
            stops.push((atom, escapes.of(&flow.graph, object)));
        }
    }
    stops.sort_unstable();
    stops
}

struct NearestEscapes {
    /// The nearest escape of each representative node, as an index in the graph's list.
    nearest: Vec<Option<u32>>,
    /// By representative of a cell of escaped memory: the object of the cell.
    cells: FxHashMap<NodeId, u32>,
}

impl NearestEscapes {
    fn new(graph: &ConstraintGraph) -> Self {
        let mut sources: Vec<(NodeId, NodeId)> = Vec::new();
        for (from, node) in (0..).zip(&graph.nodes).filter(|(id, node)| node.parent == *id) {
            let mut at = node.edges;
            while let Some((to, next)) = graph.edges.get(at as usize).copied() {
                sources.push((graph.find(to), from));
                at = next;
            }
            let mut at = node.uses;
            while let Some((what, next)) = graph.uses.get(at as usize).copied() {
                if let ComplexConstraint::Displace { to, .. } = what {
                    sources.push((graph.find(to), from));
                }
                at = next;
            }
        }
        sources.sort_unstable();
        let mut nearest: Vec<Option<u32>> = vec![None; graph.nodes.len()];
        let mut work: VecDeque<(NodeId, u32)> = VecDeque::new();
        work.extend((0..).zip(&graph.escapes).map(|(number, escape)| (graph.find(escape.0), number)));
        while let Some((node, escape)) = work.pop_front() {
            if nearest[node as usize].is_some() {
                continue;
            }
            nearest[node as usize] = Some(escape);
            let first = sources.partition_point(|s| s.0 < node);
            let own = sources.iter().skip(first).take_while(|s| s.0 == node);
            work.extend(own.map(|s| (s.1, escape)));
        }
        let mut cells = FxHashMap::default();
        for (number, object) in (0..).zip(&graph.objects).filter(|(_, object)| object.escaped) {
            let above = object.above.map(|a| a.1);
            let own = object.cells.values().copied().chain(object.anywhere).chain(object.whole).chain(above);
            for cell in own {
                cells.entry(graph.find(cell)).or_insert(number);
            }
        }
        NearestEscapes { nearest, cells }
    }

    /// The reason why the address of an object escaped.
    fn of(&self, graph: &ConstraintGraph, mut object: u32) -> EscapeReason {
        let mut seen = FxHashSet::default();
        while seen.insert(object) {
            let by = match graph.escaped_through.get(&object) {
                Some(EscapedThrough::Contents(of)) => {
                    object = *of;
                    continue;
                }
                Some(EscapedThrough::Node(node)) => graph.find(*node),
                None => break,
            };
            if by == ESCAPED {
                return EscapeReason::Unfollowed;
            }
            let escape = self.nearest.get(by as usize).copied().flatten();
            let escape = escape.and_then(|number| graph.escapes.get(number as usize)).map(|escape| escape.1);
            match (escape, self.cells.get(&by)) {
                (Some(NodeEscape::By(reason)), _) => return reason,
                (Some(NodeEscape::Into(into)), _) if into != SHARED => object = into,
                (_, Some(memory)) if *memory != SHARED => object = *memory,
                _ => break,
            }
        }
        EscapeReason::Stored
    }
}
