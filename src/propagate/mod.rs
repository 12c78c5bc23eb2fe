//! Pass 5, propagate: from the preserved roots to all that is live, one fixpoint.
//!
//! `solver` is generic; `liveness` is its client. Called values become its second client in the same fixpoint,
//! see docs/ARCHITECTURE.md.

mod liveness;
pub mod solver;

pub use liveness::{Liveness, Rules, Witness, live};
