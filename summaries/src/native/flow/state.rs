//! What registers hold at a point of a function, and how two such states join.
//!
//! A register holds at most one of a few simple things; where paths bring different ones together, a value of its own
//! stands for their union. Nothing here is ever a statement of what a register *does* hold, only of what it may hold, so
//! that joining with "no address" changes nothing. What the caller left in registers is remembered besides (`taint`).

use super::taint::Taint;
use crate::ids::ValueIdx;
use crate::native::decode::effects::SLOTS;

/// What a slot may hold at a point of the function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SlotValue {
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

impl SlotValue {
    fn rank(self) -> u8 {
        match self {
            SlotValue::Undefined => 0,
            SlotValue::Saved => 1,
            SlotValue::None => 2,
            _ => 3,
        }
    }

    /// The join, or `None` if it takes a value of its own.
    pub(super) fn join(self, other: SlotValue) -> Option<SlotValue> {
        if self == other || self.rank() > other.rank() {
            Some(self)
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

/// What was written since the last call: it may be on the stack for the next.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Pending {
    /// Offsets of cells of the frame, multiples of 8.
    pub(super) cells: BoundedSet<i64>,
    /// Through which values something was written, that were not the caller's.
    pub(super) through: BoundedSet<ValueIdx>,
}

/// An edge of the control flow graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Edge {
    /// Control may go along it, as far as the code says.
    Taken,
    /// It is there for want of knowing better: from a jump through a register to every label (unless all are in one table), from every call to every
    /// landing pad, behind a call that may never come back. What such an edge brings is no word of what a register was left with.
    Doubtful,
}

/// What all slots hold at a point of the function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RegisterState {
    pub(super) slots: [SlotValue; SLOTS],
    /// Bits of slots that this function wrote to and has not restored, on some path.
    pub(super) clobbered: u64,
    /// What each slot may hold of what the caller left in registers, besides what is said of it.
    taints: [Taint; SLOTS],
    /// Bits of slots that this function wrote to, but to restore them, on some path.
    pub(super) written: u64,
    /// Bits of slots that were pushed as the caller left them and not taken back, on some path.
    pub(super) on_stack: u64,
    pub(super) pending: Pending,
    /// Something other than what the caller saved was pushed since the last call.
    pub(super) pushed: bool,
}

impl RegisterState {
    pub(super) fn unreached() -> Self {
        RegisterState {
            slots: [SlotValue::Undefined; SLOTS],
            clobbered: 0,
            taints: [Taint::None; SLOTS],
            written: 0,
            on_stack: 0,
            pending: Pending::default(),
            pushed: false,
        }
    }

    pub(super) fn get(&self, slot: u8) -> SlotValue {
        self.slots.get(usize::from(slot)).copied().unwrap_or(SlotValue::None)
    }

    pub(super) fn set(&mut self, slot: u8, value: SlotValue) {
        if let Some(place) = self.slots.get_mut(usize::from(slot)) {
            *place = value;
            self.clobbered |= 1 << slot;
            self.written |= 1 << slot;
            self.taint_with(slot, Taint::None);
        }
    }

    /// What the slot may hold of what the caller left in registers.
    pub(super) fn taint(&self, slot: u8) -> Taint {
        let taint = self.taints.get(usize::from(slot)).copied().unwrap_or_default();
        if self.get(slot) == SlotValue::Saved { taint.join(Taint::Register(slot)) } else { taint }
    }

    /// Besides what the slot is set to, it holds something with this taint.
    pub(super) fn taint_with(&mut self, slot: u8, taint: Taint) {
        if let Some(place) = self.taints.get_mut(usize::from(slot)) {
            *place = taint;
        }
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
        let taints = self.taints.iter_mut().zip(&other.taints);
        let slots = self.slots.iter_mut().zip(&other.slots);
        for (i, ((mine, new), (taint, other_taint))) in (0u8..).zip(slots.zip(taints)) {
            // What already stands for a union takes in anything.
            let joined = mine.join(*new).unwrap_or_else(|| SlotValue::Node(own(i), 0));
            let before = *taint;
            let is_own = |taint: Taint| matches!(taint, Taint::Joined) || taint == Taint::Register(i);
            if edge == Edge::Taken || !is_own(*other_taint) {
                *taint = match (*taint, *other_taint) {
                    (Taint::Joined, strong) | (strong, Taint::Joined) if is_own(strong) => strong,
                    (mine, other) => mine.join(other),
                };
            }
            let is_left = *mine == SlotValue::Saved || *new == SlotValue::Saved;
            if joined != SlotValue::Saved && is_left && edge == Edge::Taken && !is_own(*taint) {
                *taint = taint.join(Taint::Joined);
            }
            changed |= *taint != before;
            changed |= joined != *mine;
            *mine = joined;
        }
        changed |= other.written & !self.written != 0
            || other.on_stack & !self.on_stack != 0
            || other.clobbered & !self.clobbered != 0
            || other.pushed && !self.pushed;
        self.clobbered |= other.clobbered;
        self.written |= other.written;
        self.on_stack |= other.on_stack;
        self.pushed |= other.pushed;
        changed |= self.pending.cells.join(&other.pending.cells);
        changed | self.pending.through.join(&other.pending.through)
    }
}
