//! The pass propagate: from the preserved roots to all that is live, one fixpoint.
//!
//! `solver` is generic; `liveness` is its client, by references alone. `values` follows addresses besides, at the level
//! `pointers`; see docs/ARCHITECTURE.md.

mod mentioned_code;
mod liveness;
mod models;
pub mod nounwind;
mod propagator;
pub mod solver;
mod stub;
mod unwind_models;
pub mod values;

pub(crate) use liveness::reach;
pub use liveness::{Liveness, Witness, live};
pub use mentioned_code::{MentionedCode, is_followed};
pub(crate) use mentioned_code::{candidates, code_sizes};
pub use models::Models;
pub use propagator::{Propagator, remove_unwind};
pub use stub::can_stub;
