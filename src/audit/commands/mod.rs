//! The commands: each a function from a report, and what was asked, to an answer.

pub(super) mod budget;
pub(super) mod calls;
pub(super) mod diff;
pub(super) mod dominators;
pub(super) mod duplicates;
pub(super) mod garbage;
pub(super) mod graph;
pub(super) mod imports;
pub(super) mod limits;
pub(super) mod reach;
pub(super) mod stack;
pub(super) mod top;
pub(super) mod why;
