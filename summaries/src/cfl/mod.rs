//! What one function does with values, as a graph of assignments and dereferences.
//!
//! [`reduce()`] makes a summary smaller without changing it for anybody, [`merge_passthrough()`] by telling less apart. [`may_alias`] asks the machine of Zheng and Rugina
//! (POPL 2008) about two values or accesses, and [`relations()`] closes the graph to what callers see. All work on the
//! constraints of a [`FunctionSummary`](crate::relation::FunctionSummary) and know nothing of symbols or instructions. Left out:
//! what other functions do, which is the solver's business.

pub(crate) mod components;
mod graph;
mod machine;
mod passthrough;
mod query;
mod reduce;
mod relations;

pub use graph::EnvironmentAssumption;
pub use passthrough::merge_passthrough;
pub use query::{Answer, MOST_FACTS, Query, may_alias};
pub use reduce::reduce;
pub use relations::{
    Attribute, ExternalRelation, InterfaceBase, InterfaceValue, MOST_LEVELS, Relations, relations,
};
