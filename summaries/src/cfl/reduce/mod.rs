//! An equivalent, smaller summary of a function: fewer values and constraints, the same solution for every caller.
//!
//! What an outsider sees stays: what parameters, memory, callees and labels bring comes in where it came in, and results,
//! actuals, callees, addresses of loads, stores and copies and what escapes hold exactly what they held. There are three steps:
//! values that always hold the same become one (`number`, `merge`), values that only pass on
//! what they hold go (`eliminate`), and so does what nothing depends on (`rewrite`). A second round finds next to nothing.
//! Each keeps the least solution, whatever the
//! surroundings; docs/SOUNDNESS.md names the test that says so.
//!
//! Left out: anything that depends on what the surroundings are, and on which bytes of memory are in an object, so cells of
//! frames stay memory.

mod eliminate;
mod merge;
mod number;
mod rewrite;

pub(super) use rewrite::{defined, drop_dead, for_each_value, inflows, passed};

use crate::relation::FunctionSummary;

/// The smaller summary. One whose values are out of range comes back as it is.
pub fn reduce(function: &FunctionSummary) -> FunctionSummary {
    let mut reduced = function.clone();
    let mut in_range = true;
    rewrite::for_each_value(&mut reduced, |v| in_range &= v.0 < function.values);
    if !in_range {
        return reduced;
    }
    rewrite::drop_dead(&mut reduced);
    rewrite::renumber(&mut reduced);
    merge::merge(&mut reduced);
    eliminate::eliminate(&mut reduced);
    rewrite::drop_dead(&mut reduced);
    rewrite::renumber(&mut reduced);
    reduced
}
