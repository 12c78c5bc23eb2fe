//! Registers that a function puts into its frame: which were put where, and which come back.
//!
//! Both walks add to the same sets, and nothing is taken out of them. Left out: what follows for callers (`preserve`) and for
//! registers that pass more than the convention says (`needed`).

use rustc_hash::{FxHashMap, FxHashSet};

use super::state::cells;
use crate::ids::AtomIdx;
use crate::native::decode::effects::RegisterId;
use crate::relation::PRESERVABLE;

/// A place in the frame that isn't known any closer.
pub(super) const SOMEWHERE: i64 = i64::MIN;

/// Where registers were put, and what is not put back.
#[derive(Default)]
pub(super) struct Preserved {
    /// Where registers are saved, as (offset in the frame, register).
    pub(super) saved: rustc_hash::FxHashSet<(i64, RegisterId)>,
    /// The registers of `saved`, a bit each.
    pub(super) anywhere: u64,
    /// What is clobbered at some return; `None` if the function never does.
    pub(super) clobbered: Option<u64>,
}

impl Preserved {
    /// The registers that may be preserved, a bit each.
    pub(super) fn mask(&self) -> u64 {
        self.clobbered.map_or(0, |clobbered| PRESERVABLE & !clobbered)
    }

    pub(super) fn save(&mut self, place: i64, slot: RegisterId) {
        self.saved.insert((place, slot));
        self.anywhere |= 1 << slot;
    }

    pub(super) fn may_be_saved(&self, place: i64, slot: RegisterId) -> bool {
        match place {
            SOMEWHERE => self.anywhere & (1 << slot) != 0,
            place => self.saved.contains(&(place, slot)) || self.saved.contains(&(SOMEWHERE, slot)),
        }
    }
}

/// Registers that the caller left, and the frame.
#[derive(Default)]
pub(super) struct Left {
    /// By function and cell, or [`SOMEWHERE`]: in which registers the caller left what was put there, and [`MADE_OF_LEFT`](super::state::MADE_OF_LEFT).
    cells: FxHashMap<(usize, i64), u64>,
    /// The cells that were looked at.
    looked_at: FxHashSet<(usize, i64)>,
    /// By function and cell, or [`SOMEWHERE`]: the registers that are pushed there as the caller left them, a bit each.
    pushed: FxHashMap<(usize, i64), u64>,
    /// By function: the registers that it pops from where it pushed them: it has saved them.
    saved: FxHashMap<usize, u64>,
    /// By function: the registers that it writes, but to put them back, a bit each.
    written: FxHashMap<usize, u64>,
    /// The functions of which some path returns to the caller.
    pub(super) returns: FxHashSet<usize>,
    /// A cell that was looked at holds more than it did then: the states have to be found again.
    pub(super) grew: bool,
    /// (cell, register, where) of what was put there.
    pub(super) put: FxHashSet<(i64, RegisterId, (AtomIdx, u64))>,
    /// (cell, register, where) of what is loaded from there.
    pub(super) taken: FxHashSet<(i64, RegisterId, (AtomIdx, u64))>,
}

impl Left {
    pub(super) fn push(&mut self, function: usize, cell: i64, register: RegisterId) {
        *self.pushed.entry((function, cell)).or_default() |= 1 << register;
    }

    /// A register is popped, or loaded, from a cell.
    pub(super) fn pop(&mut self, function: usize, cell: i64, register: RegisterId) {
        if self.pushed.get(&(function, cell)).is_some_and(|all| all & 1 << register != 0) {
            *self.saved.entry(function).or_default() |= 1 << register;
        }
    }

    /// The function writes these registers, a bit each, somewhere in a block.
    pub(super) fn write(&mut self, function: usize, registers: u64) {
        *self.written.entry(function).or_default() |= registers;
    }

    /// Whether the function saves a register, so that it is its own from then on. One that never returns pops nothing, and saves what it writes.
    pub(super) fn is_saved(&self, function: usize, register: RegisterId) -> bool {
        let is_in = |all: Option<&u64>| all.is_some_and(|all| all & 1 << register != 0);
        let is_pushed = || self.pushed.iter().any(|((of, _), all)| *of == function && is_in(Some(all)));
        match self.returns.contains(&function) {
            true => is_in(self.saved.get(&function)),
            false => is_in(self.written.get(&function)) && is_pushed(),
        }
    }

    /// Whether a register is pushed that is not saved: it is an argument of a call. rax and r11 align the stack, and no convention passes anything in rbp.
    pub(super) fn is_argument(&self) -> bool {
        let unsaved = |(function, all): (usize, u64)| {
            (0..16).any(|r| all & 1 << r != 0 && !matches!(r, 0 | 5 | 11) && !self.is_saved(function, r))
        };
        self.pushed.iter().any(|((function, _), all)| unsaved((*function, *all)))
    }

    /// A function puts what the caller left in these registers into its frame.
    pub(super) fn put_into(&mut self, function: usize, place: i64, registers: u64) {
        for cell in around(place, 8) {
            let held = self.cells.entry((function, cell)).or_default();
            if *held | registers != *held {
                *held |= registers;
                self.grew |= cell == SOMEWHERE || self.looked_at.contains(&(function, cell));
            }
        }
    }

    /// In which registers the caller left what these bytes of the frame may hold.
    pub(super) fn held_at(&mut self, function: usize, place: i64, size: u32) -> u64 {
        let mut held = self.cells.get(&(function, SOMEWHERE)).copied().unwrap_or(0);
        for cell in around(place, size) {
            self.looked_at.insert((function, cell));
            held |= self.cells.get(&(function, cell)).copied().unwrap_or(0);
        }
        held
    }
}

/// The cells that `size` bytes at a place touch.
fn around(place: i64, size: u32) -> impl Iterator<Item = i64> {
    cells(place, if place == SOMEWHERE { 1 } else { size })
}
