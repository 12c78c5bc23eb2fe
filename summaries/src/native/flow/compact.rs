//! Makes the constraints of a function small, and says of what it has the address and no constraint speaks.
//!
//! What is only passed on is distinguished no longer than is of use ([`crate::cfl::merge_passthrough`]), values that always hold the same become one, and
//! what nothing depends on goes ([`crate::cfl::reduce`]): a link pays for
//! each constraint again, a summary once.

use std::collections::BTreeSet;

use crate::cfl::{merge_passthrough, reduce};
use crate::relation::FunctionSummary;
use crate::summary::Target;

/// `addressed` are all targets of which the walk has met the address.
pub(super) fn compact(function: &mut FunctionSummary, addressed: Vec<Target>) {
    merge_passthrough(function);
    *function = reduce(function);
    // Whoever asks whether the constraints speak of a reference must find where it led.
    let named: BTreeSet<Target> = function.named().collect();
    function.address_taken_only = addressed.into_iter().filter(|t| !named.contains(t)).collect();
    function.address_taken_only.sort_unstable();
    function.address_taken_only.dedup();
}
