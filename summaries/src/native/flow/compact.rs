//! Makes the constraints of a function small, and says of what it has the address and no constraint speaks.
//!
//! Values that always hold the same become one, and what nothing depends on goes ([`crate::cfl::reduce`]): a link pays for
//! each constraint again, a summary once.

use crate::cfl::reduce;
use crate::relation::{Callee, Constraint, FunctionSummary};
use crate::summary::Target;

/// `addressed` are all targets of which the walk has met the address.
pub(super) fn compact(function: &mut FunctionSummary, addressed: Vec<Target>) {
    *function = reduce(function);
    // Whoever asks whether the constraints speak of a reference must find where it led.
    let named = named(function);
    function.unused = addressed.into_iter().filter(|t| named.binary_search(t).is_err()).collect();
    function.unused.sort_unstable();
    function.unused.dedup();
}

/// What constraints and calls have the address of, sorted.
fn named(function: &FunctionSummary) -> Vec<Target> {
    let addresses = function.constraints.iter().filter_map(|c| match c {
        Constraint::Address { target, .. } => Some(*target),
        _ => None,
    });
    let calls = function.call_sites.iter().filter_map(|s| match s.callee {
        Callee::Direct { target, .. } => Some(target),
        Callee::Indirect(_) => None,
    });
    let mut named: Vec<Target> = addresses.chain(calls).collect();
    named.sort_unstable();
    named.dedup();
    named
}
