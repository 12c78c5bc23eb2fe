//! Merging of pass-through values: what a function only passes on in vector registers becomes few values.
//!
//! Vector registers may carry addresses over calls: compilers know which of them a callee of the same unit leaves alone
//! (`-fipa-ra`), and conventions pass structures in them. Yet nearly all that they hold at a call was left there by a copy of memory, nobody
//! looks at it, and every call brings and takes it in eight registers. So, of values that come from nowhere but vector registers and do
//! nothing but stand in some:
//!
//! - what is copied from one to the other is one value;
//! - what is never in xmm0 is one value. In xmm0 are most of the numbers that a function returns or is passed, and that somebody does look at.
//!
//! A joined value holds more than each did, which is sound. Parameters are not joined with results, so that no caller finds the arguments of
//! another. General registers are not joined: that would mix up arguments.

use super::components::Adjacency;
use super::reduce::{defined, drop_dead, for_each_value};
use crate::ids::ValueIdx;
use crate::registers::Register;
use crate::registers::XMM0;
use crate::relation::{Callee, Constraint, FunctionSummary};

/// The same function with fewer values. One whose values are out of range stays as it is.
pub fn merge_passthrough(function: &mut FunctionSummary) {
    let values = function.values;
    let mut in_range = true;
    for_each_value(function, |v| in_range &= v.0 < values);
    if !in_range {
        return;
    }
    // A call that does not return brings nothing.
    drop_dead(function);
    let only = only_passed_on(function);
    let mut same = ValueEquivalence((0..values).collect());
    for constraint in &function.constraints {
        if let Constraint::Assign { from, to, offset: Some(0) } = constraint
            && only[from.index()]
            && only[to.index()]
        {
            same.join(*from, *to);
        }
    }
    same.rename(function);
    let mut is_first = vec![false; only.len()];
    borders(function).filter(|b| b.0 == XMM0).for_each(|(_, value)| is_first[value.index()] = true);
    let mut is_passed = vec![false; only.len()];
    function.parameters.iter().for_each(|(_, value)| is_passed[value.index()] = true);
    let others =
        (0..values).map(ValueIdx).filter(|v| only[v.index()] && same.of(*v) == *v && !is_first[v.index()]);
    let (passed, found): (Vec<ValueIdx>, Vec<ValueIdx>) = others.partition(|v| is_passed[v.index()]);
    for group in [passed, found] {
        group.windows(2).for_each(|pair| same.join(pair[0], pair[1]));
    }
    same.rename(function);
}

/// What registers hold at the entry, on return, at calls and behind them.
fn borders(function: &FunctionSummary) -> impl Iterator<Item = (Register, ValueIdx)> + '_ {
    let own = [&function.parameters, &function.results].into_iter();
    own.chain(function.call_sites.iter().flat_map(|s| [&s.actuals, &s.results])).flatten().copied()
}

/// By value: it comes from vector registers alone, at the entry or behind calls, and nothing is done with it but that it is in
/// vector registers on return and at calls.
fn only_passed_on(function: &FunctionSummary) -> Vec<bool> {
    let mut copies: Vec<(u32, u32)> = Vec::new();
    // What else is done with values, and what else is in them.
    let (mut used, mut made): (Vec<ValueIdx>, Vec<ValueIdx>) = (Vec::new(), Vec::new());
    for constraint in &function.constraints {
        match constraint {
            Constraint::Assign { from, to, offset: Some(0) } => {
                copies.push((from.0, to.0));
                continue;
            }
            Constraint::Assign { from, .. }
            | Constraint::Escape { from }
            | Constraint::EscapeCode { from } => used.push(*from),
            Constraint::Load { from, .. } => used.push(from.value),
            Constraint::Store { from, to, .. } => used.extend([*from, to.value]),
            Constraint::Copy { from, to, .. } => used.extend([from.value, to.value]),
            Constraint::Address { .. } | Constraint::Frame { .. } | Constraint::Unknown { .. } => {}
        }
        made.extend(defined(constraint));
    }
    let general = borders(function).filter(|(register, _)| *register < XMM0).map(|b| b.1);
    let stack =
        function.call_sites.iter().flat_map(|s| &s.stack).chain(&function.stack_parameters).map(|s| s.1);
    let callees = function.call_sites.iter().filter_map(|s| match s.callee {
        Callee::Indirect(value) => Some(value),
        Callee::Direct { .. } => None,
    });
    let others: Vec<ValueIdx> =
        general.chain(stack).chain(callees).chain(function.indirect_entry_values.iter().copied()).collect();
    used.extend(&others);
    let reached = |edges: &[(u32, u32)], from: Vec<ValueIdx>| {
        let from = from.into_iter().map(|v| v.0).collect();
        Adjacency::new(function.values as usize, edges).reached(from)
    };
    let turned: Vec<(u32, u32)> = copies.iter().map(|(from, to)| (*to, *from)).collect();
    let used = reached(&turned, used);
    // What is used is distinguished from what comes of it, too.
    made.extend(others);
    made.extend((0..function.values).map(ValueIdx).filter(|v| used[v.index()]));
    let made = reached(&copies, made);
    made.into_iter().map(|made| !made).collect()
}

/// Which values are one, each by a smaller one.
struct ValueEquivalence(Vec<u32>);

impl ValueEquivalence {
    fn of(&self, value: ValueIdx) -> ValueIdx {
        let mut at = value.0;
        while let Some(smaller) = self.0.get(at as usize).filter(|smaller| **smaller != at) {
            at = *smaller;
        }
        ValueIdx(at)
    }

    fn join(&mut self, one: ValueIdx, other: ValueIdx) {
        let (one, other) = (self.of(one).0, self.of(other).0);
        if let Some(slot) = self.0.get_mut(one.max(other) as usize) {
            *slot = one.min(other);
        }
    }

    /// Name the smallest of those that are one.
    fn rename(&self, function: &mut FunctionSummary) {
        for_each_value(function, |v| *v = self.of(*v));
        let says_nothing =
            |c: &Constraint| matches!(c, Constraint::Assign { from, to, offset: Some(0) } if from == to);
        function.constraints.retain(|c| !says_nothing(c));
    }
}
