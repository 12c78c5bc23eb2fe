//! Which calls of live functions are never reached, and for each the first test that never goes the way that the call needs.
//!
//! A reading of the fixpoint for the report, which decides nothing; safe because it changes nothing. A call may need several tests
//! that never go its way: the others are left out, and so is what made the integer a constant, which the calls and stores of the
//! summaries say.

use summaries::constant::{Condition, Source};
use summaries::relation::{Callee, Register};

use super::constants::Fact;
use super::flow::Flow;
use super::places::Place;
use crate::ids::AtomId;

/// What is always the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Integer {
    /// A register at the entry of the caller.
    Parameter(Register),
    /// Memory: an atom, bytes from the start of its section.
    Memory(AtomId, i64),
}

/// A call that control never comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnreachedCall {
    pub caller: AtomId,
    /// Of the instruction.
    pub section: u32,
    pub offset: u64,
    /// `None` if it is indirect, or of something outside of the modules.
    pub callee: Option<AtomId>,
    pub integer: Integer,
    /// `None`: nothing passes any.
    pub always: Option<u64>,
    pub condition: Condition,
    /// Whether the call needs the condition to hold, or not to.
    pub needs: bool,
}

impl Flow<'_> {
    /// By caller, section and offset.
    pub(super) fn unreached_calls(&self) -> Vec<UnreachedCall> {
        let found = self.unreached().filter_map(|(function, number)| self.unreached_call(function, number));
        let mut calls: Vec<UnreachedCall> = found.collect();
        calls.sort_by_key(|c| (c.caller, c.section, c.offset));
        calls
    }

    fn unreached_call(&self, function: u32, number: u32) -> Option<UnreachedCall> {
        let summary = self.summary(function);
        let site = summary.call_sites.get(number as usize)?;
        let position = self.functions[function as usize].position;
        let place = |target, offset| match self.world.place(position, target, offset).0 {
            Place::Atom(atom, offset) => Some((atom, offset)),
            _ => None,
        };
        let (condition, needs, fact) = self.barrier(function, number)?;
        let integer = match condition.quantity.source {
            Source::Parameter(register) => Integer::Parameter(register),
            Source::Memory(cell) => {
                let (atom, offset) = place(cell.target, cell.offset)?;
                Integer::Memory(atom, offset)
            }
        };
        Some(UnreachedCall {
            caller: self.atom_of(function, summary.atom),
            section: site.section,
            offset: site.offset,
            callee: match site.callee {
                Callee::Direct { target, offset } => place(target, offset).map(|p| p.0),
                Callee::Indirect(_) => None,
            },
            integer,
            always: match fact {
                Fact::Constant(value) => Some(value),
                _ => None,
            },
            condition,
            needs,
        })
    }
}
