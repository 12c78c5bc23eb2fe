//! The graph of one function: values and the memory that they point to, assignments between them, dereferences.
//!
//! A node is a value, the content of memory at a place (an access through a value, with its offset and size), or an address that the
//! function itself has: of a symbol or of its frame. An assignment edge says that what one node holds, displaced, the
//! other holds too; a load is one from the content of memory to a value, a store one the other way. These are the A and D
//! edges of Zheng and Rugina (POPL 2008), with offsets.
//!
//! All that escaped is one node, which points to itself: what is stored there can be loaded there. In [`EnvironmentAssumption::Any`] it
//! holds all that leaves the function and fills all that comes in, so that paths through it are those through code that isn't
//! seen. Left out: which paths mean that two nodes alias (`machine`).

use rustc_hash::FxHashMap;

use super::components::Adjacency;
use super::reduce::{inflows, passed};
use crate::ids::ValueIdx;
use crate::relation::{Constraint, FunctionSummary, Place};
use crate::summary::Target;

/// A node of the graph. The values come first, by number.
pub(super) type NodeId = u32;

/// What a node of the graph stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Node {
    Value(ValueIdx),
    /// The content of memory: what `base` points to, displaced; 0 bytes are an unknown number.
    Content {
        base: NodeId,
        offset: Option<i64>,
        size: u32,
    },
    /// The address of a symbol, or of a place in the module.
    Symbol(Target),
    /// The address of the frame: the stack pointer at entry.
    Frame,
    /// Whatever escaped, from this function or from others.
    Unknown,
}

/// What is assumed of the code around the function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnvironmentAssumption {
    /// Nothing: no caller passes anything, no callee does anything.
    Nothing,
    /// Code that may do anything with what it is given, and that has the address of every symbol.
    Any,
}

/// What one node holds, displaced, another one holds too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Assignment {
    pub(super) from: NodeId,
    pub(super) to: NodeId,
    pub(super) offset: Option<i64>,
}

/// The graph of a function: its values, and its assignments and dereferences as edges.
pub(super) struct Graph {
    pub(super) nodes: Vec<Node>,
    pub(super) assignments: Vec<Assignment>,
    /// By node: the numbers of the assignments that leave it.
    out: Adjacency,
    into: Adjacency,
    /// By node: what is read or written through it.
    contents: Adjacency,
    pub(super) unknown: NodeId,
}

struct GraphBuilder {
    nodes: Vec<Node>,
    numbers: FxHashMap<Node, NodeId>,
    assignments: Vec<Assignment>,
}

impl GraphBuilder {
    fn node(&mut self, node: Node) -> NodeId {
        let next = self.nodes.len() as NodeId;
        let number = *self.numbers.entry(node).or_insert(next);
        if number == next {
            self.nodes.push(node);
        }
        number
    }

    fn content(&mut self, place: Place, size: u32) -> NodeId {
        self.node(Node::Content { base: place.value.0, offset: place.offset, size })
    }

    fn assign(&mut self, from: NodeId, to: NodeId, offset: Option<i64>) {
        self.assignments.push(Assignment { from, to, offset });
    }

    /// Join the function to code that isn't seen.
    fn open(&mut self, function: &FunctionSummary, unknown: NodeId) {
        for (i, _) in inflows(function).into_iter().enumerate().filter(|(_, inflow)| *inflow) {
            self.assign(unknown, i as NodeId, None);
        }
        let results = function.results.iter().map(|r| r.1);
        for value in results.chain(function.call_sites.iter().flat_map(passed)) {
            self.assign(value.0, unknown, None);
        }
        let symbols: Vec<NodeId> =
            (0..).zip(&self.nodes).filter(|(_, n)| matches!(n, Node::Symbol(_))).map(|(i, _)| i).collect();
        symbols.into_iter().for_each(|symbol| self.assign(symbol, unknown, None));
        if function.frame {
            let frame = self.node(Node::Frame);
            // What callers leave on the stack; and what is passed there.
            let above = self.node(Node::Content { base: frame, offset: Some(8), size: UPWARDS });
            self.assign(unknown, above, None);
            if function.call_sites.iter().any(|s| s.stack_in_frame.is_some()) {
                self.assign(frame, unknown, None);
            }
        }
    }
}

impl Graph {
    /// The graph of a function, and the nodes of further places that somebody asks about, in their order. Values out of
    /// range have no place in it.
    pub(super) fn new(
        function: &FunctionSummary,
        surroundings: EnvironmentAssumption,
        asked: &[(Place, u32)],
    ) -> (Self, Vec<NodeId>) {
        let mut builder =
            GraphBuilder { nodes: Vec::new(), numbers: FxHashMap::default(), assignments: Vec::new() };
        for value in 0..function.values {
            builder.node(Node::Value(ValueIdx(value)));
        }
        let unknown = builder.node(Node::Unknown);
        let unseen = builder.node(Node::Content { base: unknown, offset: None, size: 0 });
        builder.assign(unknown, unseen, None);
        builder.assign(unseen, unknown, None);
        for constraint in &function.constraints {
            match *constraint {
                Constraint::Address { to, target, offset } => {
                    let from = builder.node(Node::Symbol(target));
                    builder.assign(from, to.0, Some(offset));
                }
                Constraint::Frame { to, offset } => {
                    let from = builder.node(Node::Frame);
                    builder.assign(from, to.0, offset);
                }
                Constraint::Assign { from, to, offset } => builder.assign(from.0, to.0, offset),
                Constraint::Load { from, to, size } => {
                    let from = builder.content(from, size);
                    builder.assign(from, to.0, Some(0));
                }
                Constraint::Store { from, to, size } => {
                    let to = builder.content(to, size);
                    builder.assign(from.0, to, Some(0));
                }
                Constraint::Copy { from, to, size } => {
                    let (from, to) = (builder.content(from, size), builder.content(to, size));
                    builder.assign(from, to, Some(0));
                }
                Constraint::Unknown { to } => builder.assign(unknown, to.0, None),
                Constraint::Escape { from } | Constraint::EscapeCode { from } => {
                    builder.assign(from.0, unknown, None)
                }
            }
        }
        if surroundings == EnvironmentAssumption::Any {
            builder.open(function, unknown);
        }
        let asked = asked.iter().map(|(place, size)| builder.content(*place, *size)).collect();
        let count = builder.nodes.len();
        builder.assignments.retain(|a| (a.from as usize) < count && (a.to as usize) < count);
        builder.assignments.sort_unstable();
        builder.assignments.dedup();
        let by = |end: fn(&Assignment) -> NodeId| {
            let pairs: Vec<(u32, u32)> = (0..).zip(&builder.assignments).map(|(i, a)| (end(a), i)).collect();
            Adjacency::new(count, &pairs)
        };
        let contents = (0..).zip(&builder.nodes).filter_map(|(i, node)| match node {
            Node::Content { base, .. } => Some((*base, i)),
            Node::Value(_) | Node::Symbol(_) | Node::Frame | Node::Unknown => None,
        });
        let contents = Adjacency::new(count, &contents.collect::<Vec<_>>());
        let (out, into) = (by(|a| a.from), by(|a| a.to));
        let GraphBuilder { nodes, assignments, .. } = builder;
        (Graph { nodes, assignments, out, into, contents, unknown }, asked)
    }

    /// Where what a node holds goes: (node, displacement).
    pub(super) fn assigned_to(&self, node: NodeId) -> impl Iterator<Item = (NodeId, Option<i64>)> + '_ {
        self.out.of(node).iter().filter_map(|i| self.assignments.get(*i as usize)).map(|a| (a.to, a.offset))
    }

    /// Where what a node holds comes from.
    pub(super) fn assigned_from(&self, node: NodeId) -> impl Iterator<Item = (NodeId, Option<i64>)> + '_ {
        self.into
            .of(node)
            .iter()
            .filter_map(|i| self.assignments.get(*i as usize))
            .map(|a| (a.from, a.offset))
    }

    /// What is read or written through a node.
    pub(super) fn contents(&self, node: NodeId) -> &[NodeId] {
        self.contents.of(node)
    }

    pub(super) fn node(&self, node: NodeId) -> Option<Node> {
        self.nodes.get(node as usize).copied()
    }

    /// Whether two contents may be of the same bytes, if the base of the second is that of the first displaced by
    /// `apart`. Memory is distinguished by cells of 8 bytes, so accesses less than 8 bytes apart may share one.
    pub(super) fn overlap(&self, a: NodeId, b: NodeId, apart: Option<i64>) -> bool {
        let (Some(Node::Content { offset: x, size: m, .. }), Some(Node::Content { offset: y, size: n, .. })) =
            (self.node(a), self.node(b))
        else {
            return false;
        };
        let second = y.zip(apart).and_then(|(y, apart)| y.checked_add(apart));
        let distance = second.zip(x).and_then(|(second, first)| second.checked_sub(first));
        match distance {
            None => true,
            Some(_) if m == 0 || n == 0 => true,
            // Its end is beyond everything.
            Some(d) if m == UPWARDS => -d < i64::from(n) + CELL,
            Some(d) if n == UPWARDS => d < i64::from(m) + CELL,
            Some(d) => d < i64::from(m) + CELL && -d < i64::from(n) + CELL,
        }
    }
}

/// The size of what has no end: everything from its place upwards.
const UPWARDS: u32 = u32::MAX;

/// Bytes of a cell, less one: the most by which the end of a cell lies behind an access.
const CELL: i64 = 7;
