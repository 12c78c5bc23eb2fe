//! A function in one calling context; `cloning` chooses the contexts.

use super::graph::NodeId;

/// The longest chain of calls over which a clone may depend on its call site, in functions.
pub(super) const MAX_DEPTH: usize = 3;

/// A function with a summary: the copy that its callers share, or a clone.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FunctionClone {
    pub(super) position: usize,
    pub(super) local: usize,
    /// The node of its value 0, if its nodes were made.
    pub(super) values: Option<NodeId>,
    pub(super) frame: Option<u32>,
    pub(super) active: bool,
    pub(super) escaped: bool,
    /// A call leads to it, or control may come from external code.
    pub(super) runs: bool,
    /// Its dependence on the call, by the depth of callees that is considered; computed on demand.
    pub(super) depends: [Option<Dependence>; MAX_DEPTH + 1],
    /// The number of clones for calls that the function has.
    pub(super) others: usize,
    /// The number of calls in the chain of clones that leads to this one.
    pub(super) depth: usize,
    /// External code calls it, or another clone for external code does.
    pub(super) for_unseen: bool,
    /// The clone for external code, or the function itself; computed on demand.
    pub(super) unseen_clone: Option<u32>,
}

/// How a function depends on the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Dependence {
    Nothing,
    /// Only the result depends on the call.
    Result,
    /// It stores to, calls or passes on an argument, or a result that depends on the call.
    Effect,
}

impl FunctionClone {
    pub(super) fn new(position: usize, local: usize) -> Self {
        FunctionClone { position, local, ..FunctionClone::default() }
    }
}
