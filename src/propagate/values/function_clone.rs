//! A function in one calling context; `cloning` chooses the contexts.

use super::graph::NodeId;

/// The number of functions that do for a clone what depends on the call.
pub(super) const MAX_DEPTH: usize = 3;

/// A function that has a summary, for all that enters it or for one call.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FunctionClone {
    pub(super) position: usize,
    pub(super) local: usize,
    /// The node of its value 0, once anything asks for it.
    pub(super) values: Option<NodeId>,
    pub(super) frame: Option<u32>,
    pub(super) active: bool,
    pub(super) escaped: bool,
    /// A call leads to it, or control may come from outside.
    pub(super) runs: bool,
    /// How it depends on the call, by the number of functions that may act for it; computed on demand.
    pub(super) depends: [Option<Dependence>; MAX_DEPTH + 1],
    /// How many clones for calls the function has.
    pub(super) others: usize,
    /// How many calls lead to this clone, from a function that is no clone for a call.
    pub(super) depth: usize,
    /// Unseen code calls it, or another such clone does.
    pub(super) for_unseen: bool,
    /// The clone for unseen code, or the function itself if unseen code enters that; computed on demand.
    pub(super) unseen_clone: Option<u32>,
}

/// How a function depends on the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Dependence {
    Nothing,
    /// The result depends on the call, and nothing else.
    Result,
    /// It stores to, calls or passes on an argument, or a result that depends on the call.
    Effect,
}

impl FunctionClone {
    pub(super) fn new(position: usize, local: usize) -> Self {
        FunctionClone { position, local, ..FunctionClone::default() }
    }
}
