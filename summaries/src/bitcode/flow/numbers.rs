//! Integer pointers: accesses to memory at an address that a function computes from integers only.
//!
//! A pointer is an integer if no constraint gives it an address, since every value that may hold an address has a constraint. Its pointee
//! is unknown: it may hold any escaped address, so a store through it escapes. Integers from memory or from other functions are not
//! covered, as in native code. An unused null pointer may count as an integer pointer, which keeps more.

use crate::ids::ValueIdx;
use crate::relation::{Callee, Constraint, FunctionSummary};

/// Make integer pointers hold any unknown address.
pub(super) fn mark(summary: &mut FunctionSummary) {
    let mut holds = vec![false; summary.values as usize];
    let mut open = Vec::new();
    let mut edges = Vec::new();
    let mut pointers = Vec::new();
    for constraint in &summary.constraints {
        match constraint {
            Constraint::Address { to, .. } | Constraint::Frame { to, .. } | Constraint::Unknown { to } => {
                open.push(*to);
            }
            Constraint::Load { from, to, .. } => {
                open.push(*to);
                pointers.push(from.value);
            }
            Constraint::Assign { from, to, .. } => edges.push((*from, *to)),
            Constraint::Store { to, .. } => pointers.push(to.value),
            Constraint::Copy { from, to, .. } => pointers.extend([from.value, to.value]),
            Constraint::Escape { .. } | Constraint::EscapeCode { .. } => {}
        }
    }
    open.extend(summary.parameters.iter().map(|(_, value)| *value));
    for site in &summary.call_sites {
        open.extend(site.results.iter().map(|(_, value)| *value));
        if let Callee::Indirect(value) = site.callee {
            pointers.push(value);
        }
    }
    edges.sort_unstable();
    while let Some(value) = open.pop() {
        let Some(slot) = holds.get_mut(value.0 as usize).filter(|held| !**held) else { continue };
        *slot = true;
        let first = edges.partition_point(|(from, _)| *from < value);
        let next = edges.iter().skip(first).take_while(|(from, _)| *from == value);
        open.extend(next.map(|(_, to)| *to));
    }
    let is_number = |value: &ValueIdx| holds.get(value.0 as usize) == Some(&false);
    let numbers = pointers.into_iter().filter(is_number);
    summary.constraints.extend(numbers.map(|to| Constraint::Unknown { to }));
}
