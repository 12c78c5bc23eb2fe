//! What registers hold at a point of a function, and how two such states join.
//!
//! A register holds at most one of a few simple things; where paths bring different ones together, a value of its own
//! stands for their union. Nothing here is ever a statement of what a register *does* hold, only of what it may hold, so
//! that joining with "no address" changes nothing. A register in which the caller passes nothing holds what was left there; joining with that
//! changes nothing either, since compilers leave a register unset where it has no value. That it is so on some path is known besides (`left`).

use crate::ids::ValueIdx;
use crate::native::decode::effects::{RegisterId, SLOTS};
use crate::registers::{self, RAX, RCX};

/// What a slot may hold at a point of the function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SlotValue {
    /// No path has come here yet.
    Undefined,
    /// The value that the caller left in this register, which passes nothing. It may be saved and restored, and no more.
    Saved(RegisterId),
    /// It is a number, and no address of anything.
    None,
    /// An address in the frame: bytes from the stack pointer at entry.
    Frame(i64),
    /// Interned target number, and bytes from it.
    Place(u32, i64),
    /// What a value holds, displaced by so many bytes.
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

    /// The join, or `None` if it takes a value of its own.
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

    /// The same address so many bytes further on.
    pub(super) fn plus(self, by: i64) -> SlotValue {
        match self {
            SlotValue::Frame(o) => SlotValue::Frame(o.wrapping_add(by)),
            SlotValue::Place(t, o) => SlotValue::Place(t, o.wrapping_add(by)),
            SlotValue::Node(n, o) => SlotValue::Node(n, o.wrapping_add(by)),
            other => other,
        }
    }
}

/// A set of which nobody needs to know the members where there are many.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BoundedSet<T> {
    /// The elements that are listed, sorted.
    pub(super) items: Vec<T>,
    /// They are too many to list: it may be any.
    pub(super) any: bool,
}

impl<T> Default for BoundedSet<T> {
    fn default() -> Self {
        BoundedSet { items: Vec::new(), any: false }
    }
}

impl<T: Copy + Ord> BoundedSet<T> {
    const MOST: usize = 64;

    pub(super) fn insert(&mut self, item: T) {
        if self.any {
            return;
        }
        if let Err(at) = self.items.binary_search(&item) {
            self.items.insert(at, item);
        }
        if self.items.len() > Self::MOST {
            self.any = true;
            self.items.clear();
        }
    }

    pub(super) fn contains(&self, item: T) -> bool {
        self.any || self.items.binary_search(&item).is_ok()
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.any && self.items.is_empty()
    }

    fn join(&mut self, other: &BoundedSet<T>) -> bool {
        let before = (self.any, self.items.len());
        if other.any {
            self.any = true;
            self.items.clear();
        }
        for item in &other.items {
            self.insert(*item);
        }
        before != (self.any, self.items.len())
    }
}

/// The cells that `size` bytes at an offset of a frame touch.
pub(super) fn cells(offset: i64, size: u32) -> impl Iterator<Item = i64> {
    let first = offset.div_euclid(8);
    let last = offset.saturating_add(i64::from(size.max(1)) - 1).div_euclid(8);
    (first..=last).map(|cell| cell * 8)
}

/// What was written since the last call: it may be on the stack for the next.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Pending {
    /// Offsets of cells of the frame, multiples of 8.
    pub(super) cells: BoundedSet<i64>,
    /// Through which values something was written, that were not the caller's.
    pub(super) through: BoundedSet<ValueIdx>,
}

/// The number in rcx: how often a string instruction is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RepeatCount {
    /// No path has come here yet.
    Unreached,
    Known(u32),
    Any,
}

/// What all slots hold at a point of the function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RegisterState {
    pub(super) slots: [SlotValue; SLOTS],
    /// Bits of slots that this function wrote to, on some path.
    pub(super) written: u64,
    pub(super) pending: Pending,
    /// Something other than what the caller saved was pushed since the last call.
    pub(super) pushed: bool,
    /// On some path al is not known to be zero. It says to callees with variable arguments how many vector registers they are passed.
    pub(super) may_pass_vectors: bool,
    pub(super) repeats: RepeatCount,
    /// Bits of slots that hold on some path what the caller left in a register that passes nothing.
    pub(super) left: u64,
}

impl RegisterState {
    pub(super) fn unreached() -> Self {
        RegisterState {
            slots: [SlotValue::Undefined; SLOTS],
            written: 0,
            pending: Pending::default(),
            pushed: false,
            may_pass_vectors: false,
            repeats: RepeatCount::Unreached,
            left: 0,
        }
    }

    pub(super) fn get(&self, slot: u8) -> SlotValue {
        self.slots.get(usize::from(slot)).copied().unwrap_or(SlotValue::None)
    }

    pub(super) fn set(&mut self, slot: u8, value: SlotValue) {
        if let Some(place) = self.slots.get_mut(usize::from(slot)) {
            *place = value;
            self.written |= 1 << slot;
            self.may_pass_vectors |= slot == RAX;
            if slot == RCX {
                self.repeats = RepeatCount::Any;
            }
            self.left &= !(1 << slot);
            self.left |= u64::from(matches!(value, SlotValue::Saved(_))) << slot;
        }
    }

    /// On some path rax holds what the caller left there.
    pub(super) fn keeps_rax(&self) -> bool {
        registers::has(self.left, RAX)
    }

    /// The state behind an edge that may never be taken: a call that may not return, a jump to any label, a landing pad. Only of rax it is
    /// still known that the caller left it.
    pub(super) fn behind_guess(mut self) -> Self {
        self.left &= registers::set(&[RAX]);
        self
    }

    /// Join what an edge brings. `own` gives the value that stands for the union in a slot here, which holds so much now. True if anything changed.
    pub(super) fn join(
        &mut self,
        other: &RegisterState,
        mut own: impl FnMut(u8, SlotValue) -> ValueIdx,
    ) -> bool {
        let mut changed = false;
        for (i, (mine, new)) in (0u8..).zip(self.slots.iter_mut().zip(&other.slots)) {
            // What already stands for a union takes in anything.
            let joined = mine.join(*new).unwrap_or_else(|| SlotValue::Node(own(i, *mine), 0));
            changed |= joined != *mine;
            *mine = joined;
        }
        changed |= other.written & !self.written != 0
            || other.pushed && !self.pushed
            || other.may_pass_vectors && !self.may_pass_vectors
            || other.left & !self.left != 0;
        self.written |= other.written;
        self.pushed |= other.pushed;
        self.may_pass_vectors |= other.may_pass_vectors;
        let repeats = match (self.repeats, other.repeats) {
            (RepeatCount::Unreached, repeats) | (repeats, RepeatCount::Unreached) => repeats,
            (one, other) if one == other => one,
            _ => RepeatCount::Any,
        };
        changed |= repeats != self.repeats;
        self.repeats = repeats;
        self.left |= other.left;
        changed |= self.pending.cells.join(&other.pending.cells);
        changed | self.pending.through.join(&other.pending.through)
    }
}
