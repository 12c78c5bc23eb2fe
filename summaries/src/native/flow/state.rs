//! What registers hold at a point of a function, and how two such states join.
//!
//! A register holds at most one of a few simple things; where paths bring different ones together, a value of its own
//! stands for their union. Nothing here is ever a statement of what a register *does* hold, only of what it may hold, so
//! that joining with "no address" changes nothing. What the caller left in a register that passes nothing is remembered besides
//! (taint analysis): a function that uses it is passed it by a convention of its own.

use crate::ids::ValueIdx;
use crate::native::decode::effects::SLOTS;

/// What a slot may hold at a point of the function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Val {
    /// No path has come here yet.
    Undefined,
    /// What the caller left in a register that passes nothing: this function may save and restore it and no more.
    Saved,
    /// It is a number, and no address of anything.
    None,
    /// An address in the frame: bytes from the stack pointer at entry.
    Frame(i64),
    /// Interned target number, and bytes from it.
    Place(u32, i64),
    /// What a value holds, displaced by so many bytes.
    Node(ValueIdx, i64),
}

impl Val {
    fn rank(self) -> u8 {
        match self {
            Val::Undefined => 0,
            Val::Saved => 1,
            Val::None => 2,
            _ => 3,
        }
    }

    /// The join, or `None` if it takes a value of its own.
    pub(super) fn join(self, other: Val) -> Option<Val> {
        if self == other || self.rank() > other.rank() {
            Some(self)
        } else if other.rank() > self.rank() {
            Some(other)
        } else {
            None
        }
    }

    /// The same address so many bytes further on.
    pub(super) fn plus(self, by: i64) -> Val {
        match self {
            Val::Frame(o) => Val::Frame(o.wrapping_add(by)),
            Val::Place(t, o) => Val::Place(t, o.wrapping_add(by)),
            Val::Node(n, o) => Val::Node(n, o.wrapping_add(by)),
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

/// What was written since the last call: it may be on the stack for the next.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Pending {
    /// Offsets of cells of the frame, multiples of 8.
    pub(super) cells: BoundedSet<i64>,
    /// Through which values something was written, that were not the caller's.
    pub(super) through: BoundedSet<ValueIdx>,
}

/// Beside bits of registers: what is made of what the caller left in one, or in one of several.
pub(super) const MADE_OF_LEFT: u64 = 1 << 63;
/// Beside bits of registers: what may be such a thing only where a register of which a function makes what it likes was not set.
pub(super) const UNSET: u64 = 1 << 62;
/// The same beside numbers of registers.
const MADE: u8 = u8::MAX;
/// What is [`UNSET`] among bits, beside numbers of registers.
const WEAK: u8 = u8::MAX - 2;
/// What the caller left in this register, beside numbers of registers.
const JOINED: u8 = u8::MAX - 1;

fn join_left(left: &mut u8, slot: u8, other: u8) -> bool {
    let joined = match (*left, other) {
        (0, one) | (one, 0) | (WEAK, one) | (one, WEAK) => one,
        (a, b) if a == b => a,
        (JOINED, one) | (one, JOINED) if one == slot + 1 => one,
        _ => MADE,
    };
    std::mem::replace(left, joined) != joined
}

/// An edge of the control flow graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Edge {
    /// Control may go along it, as far as the code says.
    Taken,
    /// It is there for want of knowing better: from a jump through a register to every label, from every call to every landing pad, behind a
    /// call that may never come back. What such an edge brings is no word of what a register was left with.
    Doubtful,
}

/// What all slots hold at a point of the function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RegisterState {
    pub(super) slots: [Val; SLOTS],
    /// Bits of slots that this function wrote to and has not restored, on some path.
    pub(super) clobbered: u64,
    /// Where the caller may have left what a slot holds besides what is said of it: nowhere (0), in one register (its number and 1), in that same one
    /// on a path where nothing was done to it ([`JOINED`]), or it is made of such things ([`MADE`], [`WEAK`]).
    left: [u8; SLOTS],
    /// Bits of slots that this function wrote to, but to restore them, on some path.
    pub(super) written: u64,
    pub(super) pending: Pending,
    /// Something other than what the caller saved was pushed since the last call.
    pub(super) pushed: bool,
}

impl RegisterState {
    pub(super) fn unreached() -> Self {
        RegisterState {
            slots: [Val::Undefined; SLOTS],
            clobbered: 0,
            left: [0; SLOTS],
            written: 0,
            pending: Pending::default(),
            pushed: false,
        }
    }

    pub(super) fn get(&self, slot: u8) -> Val {
        self.slots.get(usize::from(slot)).copied().unwrap_or(Val::None)
    }

    pub(super) fn set(&mut self, slot: u8, value: Val) {
        if let Some(place) = self.slots.get_mut(usize::from(slot)) {
            *place = value;
            self.clobbered |= 1 << slot;
            self.written |= 1 << slot;
            self.left_mut(slot).iter_mut().for_each(|left| **left = 0);
        }
    }

    fn left_mut(&mut self, slot: u8) -> Option<&mut u8> {
        self.left.get_mut(usize::from(slot))
    }

    /// In which registers the caller may have left what the slot holds, a bit each, and [`MADE_OF_LEFT`].
    pub(super) fn left_in(&self, slot: u8) -> u64 {
        let own = if self.get(slot) == Val::Saved { 1 << slot } else { 0 };
        own | match self.left.get(usize::from(slot)) {
            None | Some(0) => 0,
            Some(&MADE) => MADE_OF_LEFT,
            Some(&WEAK) => UNSET,
            Some(&JOINED) => 1 << slot,
            Some(register) => 1 << (register - 1),
        }
    }

    /// Whether the slot holds what the caller left there on some paths only, and nothing was done to it on those.
    pub(super) fn is_joined(&self, slot: u8) -> bool {
        self.left.get(usize::from(slot)) == Some(&JOINED)
    }

    /// The slot holds what the caller left in these registers, besides what it is set to.
    pub(super) fn hold(&mut self, slot: u8, left: u64) {
        let strong = left & !UNSET;
        let from = match strong.count_ones() {
            0 if left == UNSET => WEAK,
            0 => 0,
            1 if strong != MADE_OF_LEFT => strong.trailing_zeros() as u8 + 1,
            _ => MADE,
        };
        self.left_mut(slot).iter_mut().for_each(|left| **left = from);
    }

    /// The slot may hold again what it held at entry.
    pub(super) fn restored(&mut self, slot: u8) {
        self.clobbered &= !(1 << slot);
    }

    /// Join what an edge brings. `own` gives the value that stands for the union in a slot here. True if anything changed.
    pub(super) fn join(
        &mut self,
        other: &RegisterState,
        edge: Edge,
        mut own: impl FnMut(u8) -> ValueIdx,
    ) -> bool {
        let mut changed = false;
        let lefts = self.left.iter_mut().zip(&other.left);
        let slots = self.slots.iter_mut().zip(&other.slots);
        for (i, ((mine, new), (left, other_left))) in (0u8..).zip(slots.zip(lefts)) {
            // What already stands for a union takes in anything.
            let joined = mine.join(*new).unwrap_or_else(|| Val::Node(own(i), 0));
            let is_left = *mine == Val::Saved || *new == Val::Saved;
            if joined != Val::Saved && is_left && edge == Edge::Taken {
                changed |= join_left(left, i, JOINED);
            }
            if edge == Edge::Taken || *other_left != JOINED && *other_left != i + 1 {
                changed |= join_left(left, i, *other_left);
            }
            changed |= joined != *mine;
            *mine = joined;
        }
        changed |= other.written & !self.written != 0
            || other.clobbered & !self.clobbered != 0
            || other.pushed && !self.pushed;
        self.clobbered |= other.clobbered;
        self.written |= other.written;
        self.pushed |= other.pushed;
        changed |= self.pending.cells.join(&other.pending.cells);
        changed | self.pending.through.join(&other.pending.through)
    }
}

/// The cells that `size` bytes at an offset touch.
pub(super) fn cells(offset: i64, size: u32) -> impl Iterator<Item = i64> {
    let first = offset.div_euclid(8);
    let last = offset.saturating_add(i64::from(size.max(1)) - 1).div_euclid(8);
    (first..=last).map(|cell| cell * 8)
}
