//! Dead code elimination over the values of a function's summary, and the renumbering of the rest.
//!
//! A value is needed if it is stored, passed to a call, called, returned, or escapes. The address of a store or of a copy is needed too.
//! Every source of a needed value is needed. A comparison alone does not make a value needed.

use rustc_hash::FxHashSet;

use crate::cfl::adjacency::Adjacency;
use crate::ids::ValueIdx;
use crate::relation::{CallSite, Callee, Constraint, FunctionSummary};

/// The value that a constraint adds to.
pub(super) fn defined_mut(constraint: &mut Constraint) -> Option<&mut ValueIdx> {
    match constraint {
        Constraint::Address { to, .. }
        | Constraint::Frame { to, .. }
        | Constraint::Assign { to, .. }
        | Constraint::Load { to, .. }
        | Constraint::Unknown { to } => Some(to),
        Constraint::Store { .. }
        | Constraint::Copy { .. }
        | Constraint::Escape { .. }
        | Constraint::EscapeCode { .. } => None,
    }
}

fn defined(constraint: &Constraint) -> Option<ValueIdx> {
    defined_mut(&mut { *constraint }).copied()
}

/// Visits each use of a value, in a fixed order: parameters, results, labels, constraints, call sites.
pub(super) fn for_each_value(function: &mut FunctionSummary, mut visit: impl FnMut(&mut ValueIdx)) {
    let tables = [&mut function.parameters, &mut function.results];
    tables.into_iter().flatten().for_each(|(_, v)| visit(v));
    function.stack_parameters.iter_mut().for_each(|(_, v)| visit(v));
    function.indirect_entry_values.iter_mut().for_each(&mut visit);
    for constraint in &mut function.constraints {
        match constraint {
            Constraint::Address { to, .. } | Constraint::Frame { to, .. } | Constraint::Unknown { to } => {
                visit(to);
            }
            Constraint::Assign { from, to, .. } => [from, to].into_iter().for_each(&mut visit),
            Constraint::Load { from, to, .. } => [&mut from.value, to].into_iter().for_each(&mut visit),
            Constraint::Store { from, to, .. } => [from, &mut to.value].into_iter().for_each(&mut visit),
            Constraint::Copy { from, to, .. } => {
                [&mut from.value, &mut to.value].into_iter().for_each(&mut visit);
            }
            Constraint::Escape { from } | Constraint::EscapeCode { from } => visit(from),
        }
    }
    for site in &mut function.call_sites {
        if let Callee::Indirect(value) = &mut site.callee {
            visit(value);
        }
        site.actuals.iter_mut().chain(&mut site.results).for_each(|(_, v)| visit(v));
        site.stack.iter_mut().for_each(|(_, v)| visit(v));
    }
}

/// The values of the caller that a call site uses.
pub(super) fn passed(site: &CallSite) -> impl Iterator<Item = ValueIdx> + '_ {
    let callee = match site.callee {
        Callee::Indirect(value) => Some(value),
        Callee::Direct { .. } => None,
    };
    callee.into_iter().chain(site.actuals.iter().map(|a| a.1)).chain(site.stack.iter().map(|s| s.1))
}

/// By value: whether callers, callees or indirect entries define it.
pub(super) fn inflows(function: &FunctionSummary) -> Vec<bool> {
    let mut inflow = vec![false; function.values as usize];
    let parameters = function.parameters.iter().map(|p| p.1);
    let stack = function.stack_parameters.iter().map(|p| p.1);
    let results = function.call_sites.iter().flat_map(|s| s.results.iter().map(|r| r.1));
    for value in parameters.chain(stack).chain(results).chain(function.indirect_entry_values.iter().copied())
    {
        if let Some(slot) = inflow.get_mut(value.index()) {
            *slot = true;
        }
    }
    inflow
}

/// Removes the constraints that define dead values, which nothing needs.
pub(super) fn drop_dead(function: &mut FunctionSummary) {
    let needed = needed(function);
    let is_needed = |v: ValueIdx| needed.get(v.index()).copied().unwrap_or(false);
    let says_nothing =
        |c: &Constraint| matches!(c, Constraint::Assign { from, to, offset: Some(0) } if from == to);
    function.constraints.retain(|c| defined(c).is_none_or(is_needed) && !says_nothing(c));
    function.parameters.retain(|(_, v)| is_needed(*v));
    function.stack_parameters.retain(|(_, v)| is_needed(*v));
    function.indirect_entry_values.retain(|v| is_needed(*v));
    for site in &mut function.call_sites {
        site.results.retain(|(_, v)| is_needed(*v));
    }
}

/// By value: whether it is live, as in the module's description.
fn needed(function: &FunctionSummary) -> Vec<bool> {
    let mut made_from: Vec<(u32, u32)> = Vec::new();
    let mut work: Vec<u32> = Vec::new();
    for constraint in &function.constraints {
        match constraint {
            Constraint::Assign { from, to, .. } => made_from.push((to.0, from.0)),
            Constraint::Load { from, to, .. } => made_from.push((to.0, from.value.0)),
            Constraint::Store { from, to, .. } => work.extend([from.0, to.value.0]),
            Constraint::Copy { from, to, .. } => work.extend([from.value.0, to.value.0]),
            Constraint::Escape { from } | Constraint::EscapeCode { from } => work.push(from.0),
            Constraint::Address { .. } | Constraint::Frame { .. } | Constraint::Unknown { .. } => {}
        }
    }
    work.extend(function.call_sites.iter().flat_map(passed).map(|v| v.0));
    work.extend(function.results.iter().map(|r| r.1.0));
    Adjacency::new(function.values as usize, &made_from).reached(work)
}

/// Numbers the values in the order of their first use, and drops repeated constraints.
pub(super) fn renumber(function: &mut FunctionSummary) {
    let mut new: Vec<Option<ValueIdx>> = vec![None; function.values as usize];
    let mut next = 0;
    for_each_value(function, |v| {
        if let Some(slot) = new.get_mut(v.index()) {
            *v = *slot.get_or_insert_with(|| {
                next += 1;
                ValueIdx(next - 1)
            });
        }
    });
    function.values = next;
    function.indirect_entry_values.sort_unstable();
    function.indirect_entry_values.dedup();
    let mut seen = FxHashSet::with_capacity_and_hasher(function.constraints.len(), Default::default());
    function.constraints.retain(|constraint| seen.insert(*constraint));
    function.call_sites.sort_by_key(|c| (c.section, c.offset));
}
