//! Abstract state of the registers at a point of a function, and the join of two states.
//!
//! A register holds at most one simple value; where paths bring different ones, a new value stands for their union. A state says only
//! what a register may hold, so joining with "no address" changes nothing. A register in which the caller passes nothing holds the
//! caller's value. Joining with that changes nothing either, since compilers do not set a register that has no value there. `left`
//! records the registers for which this holds on some path.

use rustc_hash::FxHashSet;

use crate::ids::ValueIdx;
use crate::native::decode::effects::RegisterId;
use crate::registers::{self, CONVENTIONAL, RAX, RBP, RCX, RSP};

/// The possible content of a slot at a point of the function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SlotValue {
    /// No path has come here yet.
    Undefined,
    /// The caller's value of a register that passes nothing. The function may only save and restore it.
    Saved(RegisterId),
    /// It is a number, and not an address.
    None,
    /// An address in the frame: bytes from the stack pointer at entry.
    Frame(i64),
    /// A target by its interned number, and a displacement in bytes.
    Place(u32, i64),
    /// The content of a value, plus a displacement in bytes.
    Node(ValueIdx, i64),
}

impl SlotValue {
    fn rank(self) -> u8 {
        match self {
            SlotValue::Undefined => 0,
            SlotValue::Saved(_) => 1,
            SlotValue::None => 2,
            _ => 3,
        }
    }

    /// The join, or `None` if the join needs a new value.
    pub(super) fn join(self, other: SlotValue) -> Option<SlotValue> {
        if self == other || self.rank() > other.rank() {
            Some(self)
        } else if let (SlotValue::Saved(_), SlotValue::Saved(_)) = (self, other) {
            Some(self.max(other))
        } else if other.rank() > self.rank() {
            Some(other)
        } else {
            None
        }
    }

    /// The same address, displaced by a number of bytes.
    pub(super) fn plus(self, by: i64) -> SlotValue {
        match self {
            SlotValue::Frame(o) => SlotValue::Frame(o.wrapping_add(by)),
            SlotValue::Place(t, o) => SlotValue::Place(t, o.wrapping_add(by)),
            SlotValue::Node(n, o) => SlotValue::Node(n, o.wrapping_add(by)),
            other => other,
        }
    }
}

/// The cells that `size` bytes at an offset of a frame touch.
pub(super) fn cells(offset: i64, size: u32) -> impl Iterator<Item = i64> {
    let first = offset.div_euclid(8);
    let last = offset.saturating_add(i64::from(size.max(1)) - 1).div_euclid(8);
    (first..=last).map(|cell| cell * 8)
}

/// The number in rcx, which is the repeat count of a string instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RepeatCount {
    /// No path has come here yet.
    Unreached,
    Known(u32),
    Any,
}

/// The facts about all paths to a point of the function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PathFacts {
    /// The slots that this function wrote to on some path, a bit each.
    pub(super) written: u64,
    /// The slots that on some path hold the caller's value of a register that passes nothing, a bit each.
    pub(super) left: u64,
    /// A value other than a saved register was pushed since the last call.
    pub(super) pushed: bool,
    /// On some path al is not known to be zero. It tells callees with variable arguments how many vector registers are passed.
    pub(super) may_pass_vectors: bool,
    pub(super) repeats: RepeatCount,
}

impl PathFacts {
    pub(super) const UNREACHED: PathFacts = PathFacts {
        written: 0,
        left: 0,
        pushed: false,
        may_pass_vectors: false,
        repeats: RepeatCount::Unreached,
    };

    /// The facts at an entry for callers: each register that passes nothing holds the caller's value.
    pub(super) const ENTRY: PathFacts = PathFacts {
        left: registers::ALL & !CONVENTIONAL & !registers::set(&[RSP]),
        may_pass_vectors: true,
        repeats: RepeatCount::Any,
        ..PathFacts::UNREACHED
    };

    /// The facts at a label that control may enter from anywhere: all registers but rsp and rbp hold values.
    pub(super) const LABEL: PathFacts = PathFacts {
        written: registers::ALL & !registers::set(&[RSP, RBP]),
        may_pass_vectors: true,
        repeats: RepeatCount::Any,
        ..PathFacts::UNREACHED
    };

    /// A slot gets a value.
    pub(super) fn set(&mut self, slot: RegisterId, value: SlotValue) {
        self.written |= 1 << slot;
        self.may_pass_vectors |= slot == RAX;
        if slot == RCX {
            self.repeats = RepeatCount::Any;
        }
        self.left &= !(1 << slot);
        self.left |= u64::from(matches!(value, SlotValue::Saved(_))) << slot;
    }

    /// Whether rax holds the caller's value on some path.
    pub(super) fn keeps_rax(&self) -> bool {
        registers::has(self.left, RAX)
    }

    /// The facts after an edge that may never be taken: a call that may not return, a jump to any label, a landing pad. The caller's
    /// values are forgotten, except that of rax.
    pub(super) fn behind_guess(mut self) -> Self {
        self.left &= registers::set(&[RAX]);
        self
    }

    /// Joins the facts of another path; true if anything changed.
    pub(super) fn join(&mut self, other: &PathFacts) -> bool {
        let before = *self;
        self.written |= other.written;
        self.left |= other.left;
        self.pushed |= other.pushed;
        self.may_pass_vectors |= other.may_pass_vectors;
        self.repeats = match (self.repeats, other.repeats) {
            (RepeatCount::Unreached, repeats) | (repeats, RepeatCount::Unreached) => repeats,
            (one, other) if one == other => one,
            _ => RepeatCount::Any,
        };
        *self != before
    }
}

/// An event of a block that decides which cells are passed on the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StackEvent {
    /// It writes the cell at this offset of the frame.
    Cell(i64),
    /// It writes through this value, which is not the caller's.
    Through(ValueIdx),
    /// It calls; true if the arguments of the next call may be on the stack already.
    Call(bool),
}

/// The cells and pointers that were written on some path since the last call; they may be stack arguments of the next call.
#[derive(Debug, Default)]
pub(super) struct Pending {
    pub(super) cells: FxHashSet<i64>,
    pub(super) through: FxHashSet<ValueIdx>,
    /// There are too many paths, so any cell may be written.
    pub(super) any: bool,
}

impl Pending {
    pub(super) fn has_cell(&self, cell: i64) -> bool {
        self.any || self.cells.contains(&cell)
    }

    /// Whether anything was written through one of these values.
    pub(super) fn is_through(&self, values: &[bool]) -> bool {
        let is_one = |v: &ValueIdx| values.get(v.index()).copied().unwrap_or(false);
        self.any || self.through.iter().any(is_one)
    }
}
