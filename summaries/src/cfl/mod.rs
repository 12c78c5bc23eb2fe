//! External relations: the effects of a function on addresses, in terms of values that callers and callees see.
//!
//! A front end makes a graph of assignments and dereferences over all values of the function. [`reduce`] closes it by eliminating local
//! values. The result relates parameters, results, globals, memory, and the values that call sites pass and receive. A value is kept as a
//! hub if its elimination would add more relations than it removes. So a summary is never larger than the graph. The constraints of a
//! [`FunctionSummary`] are the only form in which relations are printed, cached and propagated. In the terms of LLVM's
//! `AliasAnalysisSummary`, a load is a relation from the first dereference level of its address. A store is a relation to that level.

pub(crate) mod adjacency;
mod eliminate;
mod rewrite;

use crate::relation::FunctionSummary;

/// An equivalent function with fewer values: for every caller, results, actuals, callees, addresses of accesses and escapes have the same
/// points-to sets. A function with values out of range is returned unchanged.
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
