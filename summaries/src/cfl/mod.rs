//! External relations: what one function does with addresses, in terms of values that its callers and callees see.
//!
//! A front end makes a graph of assignments and dereferences over all values of the function. [`reduce`] closes it: local values are
//! eliminated one by one, and what remains relates parameters, results, globals, memory, and what call sites pass and get. A value whose
//! elimination would add more relations than it removes stays as a hub, so that a summary is never larger than the graph.
//! The constraints of a [`FunctionSummary`] are the only form in which the relations are printed, cached and propagated. In the words of
//! LLVM's `AliasAnalysisSummary`, a load is a relation from the first level of dereference of its address, a store one to that level.

pub(crate) mod adjacency;
mod eliminate;
mod rewrite;

use crate::relation::FunctionSummary;

/// The same function with fewer values, for every caller: results, actuals, callees, addresses of accesses and escapes hold what they held.
/// One whose values are out of range is returned as it is.
pub fn reduce(function: &FunctionSummary) -> FunctionSummary {
    let mut reduced = function.clone();
    let mut in_range = true;
    rewrite::for_each_value(&mut reduced, |v| in_range &= v.0 < function.values);
    if !in_range {
        return reduced;
    }
    rewrite::drop_dead(&mut reduced);
    eliminate::eliminate(&mut reduced);
    rewrite::drop_dead(&mut reduced);
    rewrite::renumber(&mut reduced);
    reduced
}
