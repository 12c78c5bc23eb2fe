//! The commands of `audit`: each makes an answer of a model, or of two.

pub(crate) mod budget;
pub(crate) mod calls;
pub(crate) mod graph;
pub(crate) mod reach;
pub(crate) mod sizes;
pub(crate) mod stack;
pub(crate) mod why;
