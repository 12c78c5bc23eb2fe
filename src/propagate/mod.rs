//! Data-flow propagation from the roots to all live atoms, in one fixpoint.
//!
//! `solver` is generic; `liveness` uses it over references alone. `values` also analyses function addresses, at the level `pointers`; see
//! docs/ARCHITECTURE.md.

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
pub use mentioned_code::is_followed;
pub(crate) use mentioned_code::{bytes_of, candidates, code_sizes};
pub use models::Models;
pub use propagator::{Propagator, remove_unwind};
pub use stub::can_stub;
