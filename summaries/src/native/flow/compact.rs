//! Throws away the constraints of a function whose result nothing depends on, and renumbers its values.
//!
//! A value counts if it is stored, passed to a call, called, returned, or lets something escape, or if one that counts is
//! made from it. What is only compared or computed with goes.

use crate::ids::ValueIdx;
use crate::relation::{Callee, Constraint, FunctionSummary};
use crate::summary::Target;

/// `addressed` are all targets of which the walk has met the address.
pub(super) fn compact(function: &mut FunctionSummary, addressed: Vec<Target>) {
    let needed = needed(function);
    let is_needed = |v: ValueIdx| needed.get(v.index()).copied().unwrap_or(false);
    function.constraints.retain(|c| match c {
        Constraint::Address { to, .. }
        | Constraint::Frame { to, .. }
        | Constraint::Assign { to, .. }
        | Constraint::Load { to, .. }
        | Constraint::Unknown { to } => is_needed(*to),
        Constraint::Store { .. } | Constraint::Copy { .. } | Constraint::Escape { .. } => true,
    });
    function.parameters.retain(|(_, v)| is_needed(*v));
    function.stack_parameters.retain(|(_, v)| is_needed(*v));
    function.at_labels.retain(|v| is_needed(*v));
    for site in &mut function.call_sites {
        site.results.retain(|(_, v)| is_needed(*v));
    }
    renumber(function);
    function.constraints.sort_unstable();
    function.constraints.dedup();
    function.call_sites.sort_by_key(|c| (c.section, c.offset));
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

/// By value: something depends on it.
fn needed(function: &FunctionSummary) -> Vec<bool> {
    let count = function.values as usize;
    let mut edges: Vec<(ValueIdx, ValueIdx)> = Vec::new();
    let mut work: Vec<ValueIdx> = Vec::new();
    for constraint in &function.constraints {
        match constraint {
            Constraint::Assign { from, to, .. } => edges.push((*to, *from)),
            Constraint::Load { from, to, .. } => edges.push((*to, from.value)),
            Constraint::Store { from, to, .. } => work.extend([*from, to.value]),
            Constraint::Copy { from, to, .. } => work.extend([from.value, to.value]),
            Constraint::Escape { from } => work.push(*from),
            Constraint::Address { .. } | Constraint::Frame { .. } | Constraint::Unknown { .. } => {}
        }
    }
    for site in &function.call_sites {
        if let Callee::Indirect(value) = site.callee {
            work.push(value);
        }
        work.extend(site.actuals.iter().map(|a| a.1));
        work.extend(site.stack.iter().map(|a| a.1));
    }
    work.extend(function.results.iter().map(|r| r.1));
    edges.sort_unstable();
    let mut needed = vec![false; count];
    while let Some(value) = work.pop() {
        match needed.get_mut(value.index()) {
            Some(slot) if !*slot => *slot = true,
            _ => continue,
        }
        let start = edges.partition_point(|e| e.0 < value);
        let own = edges.get(start..).unwrap_or(&[]).iter().take_while(|e| e.0 == value);
        work.extend(own.map(|e| e.1));
    }
    needed
}

/// Numbers in the order of first use.
fn renumber(function: &mut FunctionSummary) {
    let mut new: Vec<Option<ValueIdx>> = vec![None; function.values as usize];
    let mut next = 0u32;
    let mut map = |v: &mut ValueIdx| {
        if let Some(slot) = new.get_mut(v.index()) {
            *v = *slot.get_or_insert_with(|| {
                next += 1;
                ValueIdx(next - 1)
            });
        }
    };
    let tables = [&mut function.parameters, &mut function.results];
    tables.into_iter().flatten().for_each(|(_, v)| map(v));
    function.stack_parameters.iter_mut().for_each(|(_, v)| map(v));
    function.at_labels.iter_mut().for_each(&mut map);
    for constraint in &mut function.constraints {
        match constraint {
            Constraint::Address { to, .. } | Constraint::Frame { to, .. } | Constraint::Unknown { to } => {
                map(to)
            }
            Constraint::Assign { from, to, .. } => [from, to].into_iter().for_each(&mut map),
            Constraint::Load { from, to, .. } => [&mut from.value, to].into_iter().for_each(&mut map),
            Constraint::Store { from, to, .. } => [from, &mut to.value].into_iter().for_each(&mut map),
            Constraint::Copy { from, to, .. } => {
                [&mut from.value, &mut to.value].into_iter().for_each(&mut map)
            }
            Constraint::Escape { from } => map(from),
        }
    }
    for site in &mut function.call_sites {
        if let Callee::Indirect(value) = &mut site.callee {
            map(value);
        }
        site.actuals.iter_mut().chain(&mut site.results).for_each(|(_, v)| map(v));
        site.stack.iter_mut().for_each(|(_, v)| map(v));
    }
    function.values = next;
}
