//! Calls in the report that control never comes to, each with the integer that is always the same and what the call needs of it.
//!
//! A form of what propagation found, in words; it decides nothing, so that nothing hangs on it. Left out: whatever else a call
//! needs.

use serde::Serialize;
use summaries::constant::{Comparison, PARAMETERS};

use super::{Facts, describe};
use crate::ids::Id;
use crate::propagate::values::{Integer, UnreachedCall};

/// A call of a live function that is never reached.
#[derive(Debug, Serialize)]
pub struct UnreachedReport {
    /// Position in `modules`.
    pub module: usize,
    /// Position in `atoms`.
    pub caller: usize,
    /// Of the instruction: ELF section index, and bytes from the start of the section, in the input object.
    pub section: u32,
    pub offset: u64,
    /// Position in `atoms`; null if the call is indirect, or of something outside of the modules.
    pub callee: Option<usize>,
    /// What is always the same, and what the call needs, in words.
    pub because: String,
}

/// The names of [`PARAMETERS`].
const NAMES: [&str; PARAMETERS.len()] = ["rdi", "rsi", "rdx", "rcx", "r8", "r9"];

pub(super) fn calls(facts: Facts<'_>) -> Vec<UnreachedReport> {
    let report = |call: &UnreachedCall| UnreachedReport {
        module: facts.index.locate(call.caller).0,
        caller: call.caller.index(),
        section: call.section,
        offset: call.offset,
        callee: call.callee.map(Id::index),
        because: because(facts, call),
    };
    facts.flow.unreached.iter().map(report).collect()
}

fn because(facts: Facts<'_>, call: &UnreachedCall) -> String {
    let integer = match call.integer {
        Integer::Parameter(register) => {
            let names = PARAMETERS.iter().zip(NAMES);
            let name = names.into_iter().find(|(r, _)| **r == register).map_or("", |(_, name)| name);
            format!("parameter {name}")
        }
        Integer::Memory(atom, offset) => format!("memory at {offset:#x} of {}", describe(facts, atom)),
    };
    let always = match call.always {
        Some(value) => format!("{integer} is always {value:#x}"),
        None => format!("nothing passes {integer}"),
    };
    let condition = call.condition;
    let comparison = match condition.comparison {
        Comparison::Equal => "equal to",
        Comparison::Below => "below",
        Comparison::BelowOrEqual => "below or equal to",
        Comparison::Less => "less than",
        Comparison::LessOrEqual => "less than or equal to",
        Comparison::Negative => "negative less",
    };
    let not = if call.needs { "" } else { "not " };
    let masked = match condition.quantity.mask {
        u64::MAX => String::new(),
        mask => format!(", masked with {mask:#x},"),
    };
    format!(
        "{always}; its lowest {} byte(s){masked} must be {not}{comparison} {:#x}",
        condition.quantity.bytes.min(condition.size),
        summaries::constant::cut(condition.with, condition.size)
    )
}
