//! A call site of a live function: its arguments and results, and the callees found so far.

use std::borrow::Cow;
use std::collections::BTreeSet;

use rustc_hash::FxHashSet;
use summaries::ValueIdx;
use summaries::registers::{self, CONVENTIONAL, Register};
use summaries::relation::FormatArguments;

use super::graph::{NodeId, OverdefinedReason};
use super::sets::Element;
use crate::ids::{AtomId, SymbolId};

/// The arguments and results of a call at a site.
#[derive(Clone)]
pub(super) struct CallInterface<'s> {
    /// The node of value 0 of the caller. In a call by a model, values are nodes.
    pub(super) first: NodeId,
    pub(super) actuals: Cow<'s, [(Register, ValueIdx)]>,
    pub(super) stack: &'s [(i32, ValueIdx)],
    /// The caller's frame, and the offset in it at which the callee's stack begins.
    pub(super) in_frame: Option<(u32, Option<i64>)>,
    pub(super) results: Cow<'s, [(Register, ValueIdx)]>,
}

impl CallInterface<'_> {
    pub(super) fn actual(&self, register: Register) -> Option<NodeId> {
        find(&self.actuals, register).map(|v| self.first + v.0)
    }

    pub(super) fn result(&self, register: Register) -> Option<NodeId> {
        find(&self.results, register).map(|v| self.first + v.0)
    }

    /// The cells of the stack that the call passes.
    pub(super) fn stack(&self) -> impl Iterator<Item = (i32, NodeId)> {
        self.stack.iter().map(|(o, v)| (*o, self.first + v.0))
    }

    /// The arguments by the calling convention, which external code can read.
    pub(super) fn by_convention(&self) -> impl Iterator<Item = NodeId> {
        let passed = self.actuals.iter().filter(|(register, _)| registers::has(CONVENTIONAL, *register));
        passed.map(|a| self.first + a.1.0).chain(self.stack().map(|s| s.1))
    }

    /// All values passed, which code of the link can read.
    pub(super) fn all(&self) -> impl Iterator<Item = NodeId> {
        self.actuals.iter().map(|a| self.first + a.1.0).chain(self.stack().map(|s| s.1))
    }
}

/// The arguments that a call passes on the stack.
#[derive(Clone, Copy)]
pub(super) struct PendingStackArguments<'s> {
    /// The node of value 0 of the caller.
    first: NodeId,
    cells: &'s [(i32, ValueIdx)],
    pub(super) in_frame: Option<(u32, Option<i64>)>,
}

impl<'s> PendingStackArguments<'s> {
    /// The arguments on the stack that a call passes; `None` if it passes nothing there.
    pub(super) fn of(passed: &CallInterface<'s>) -> Option<Self> {
        let is_any = !passed.stack.is_empty() || passed.in_frame.is_some();
        is_any.then_some(PendingStackArguments {
            first: passed.first,
            cells: passed.stack,
            in_frame: passed.in_frame,
        })
    }

    /// The cells passed, by offset from the callee's stack pointer at entry.
    pub(super) fn cells(&self) -> impl Iterator<Item = (i64, NodeId)> {
        self.cells.iter().map(|(o, v)| (i64::from(*o), self.first + v.0))
    }
}

pub(super) struct Site<'s> {
    /// The number of the call in the summary; `None` is a call by a model.
    pub(super) number: Option<u32>,
    pub(super) function: u32,
    /// The atom that made the calling function live.
    pub(super) caller: AtomId,
    pub(super) indirect: bool,
    /// The node of the callee's address in an indirect call.
    pub(super) callee: Option<NodeId>,
    pub(super) jump: bool,
    /// The call passes no vector registers to a variadic callee.
    pub(super) no_vectors: bool,
    /// The registers with the address of a constant string, and the arguments of that string as a format.
    pub(super) formats: &'s [(Register, FormatArguments)],
    pub(super) passed: CallInterface<'s>,
    pub(super) seen: FxHashSet<Element>,
    pub(super) calls_unknown: bool,
    pub(super) causes: BTreeSet<OverdefinedReason>,
    /// The code atoms called, with the offset from the start of the section if it is known.
    pub(super) targets: BTreeSet<(AtomId, Option<i64>)>,
    pub(super) externals: BTreeSet<SymbolId>,
}

impl<'s> Site<'s> {
    pub(super) fn new(function: u32, caller: AtomId, passed: CallInterface<'s>) -> Self {
        Site {
            number: None,
            function,
            caller,
            indirect: false,
            callee: None,
            jump: false,
            no_vectors: false,
            formats: &[],
            passed,
            seen: FxHashSet::default(),
            calls_unknown: false,
            causes: BTreeSet::new(),
            targets: BTreeSet::new(),
            externals: BTreeSet::new(),
        }
    }
}

/// The entry of a register in a sorted list.
fn find(list: &[(Register, ValueIdx)], register: Register) -> Option<ValueIdx> {
    // The lists are short.
    list.iter().find(|a| a.0 >= register).filter(|a| a.0 == register).map(|a| a.1)
}

/// The pairs of values of the registers in both lists, without repeated pairs. A value that is passed on in all vector registers is
/// one pair.
pub(super) fn pairs<'l>(
    one: &'l [(Register, ValueIdx)],
    other: &'l [(Register, ValueIdx)],
) -> impl Iterator<Item = (ValueIdx, ValueIdx)> + 'l {
    let mut last = None;
    both(one, other)
        .map(|(_, one, other)| (one, other))
        .filter(move |pair| last.replace(*pair) != Some(*pair))
}

/// The registers in both lists with their values; both lists are sorted by register.
pub(super) fn both<'l>(
    one: &'l [(Register, ValueIdx)],
    other: &'l [(Register, ValueIdx)],
) -> impl Iterator<Item = (Register, ValueIdx, ValueIdx)> + 'l {
    let (mut one, mut other) = (one, other);
    std::iter::from_fn(move || {
        while let ([left, one_rest @ ..], [right, other_rest @ ..]) = (one, other) {
            if left.0 <= right.0 {
                one = one_rest;
            }
            if right.0 <= left.0 {
                other = other_rest;
            }
            if left.0 == right.0 {
                return Some((left.0, left.1, right.1));
            }
        }
        None
    })
}
