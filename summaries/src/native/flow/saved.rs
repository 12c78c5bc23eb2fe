//! Registers that a function puts into its frame: which were put where, and which come back.
//!
//! Both walks add to the same sets, and nothing is taken out of them. Left out: what follows for callers (`preserve`) and for
//! registers that pass more than the convention says (`taint`).

use crate::native::decode::effects::RegisterId;
use crate::registers::PRESERVABLE;

/// A place in the frame that isn't known any closer.
pub(super) const SOMEWHERE: i64 = i64::MIN;

/// Where registers were put, and what is not put back.
#[derive(Default)]
pub(super) struct SavedRegisters {
    /// Where registers are saved, as (offset in the frame, register).
    pub(super) saved: rustc_hash::FxHashSet<(i64, RegisterId)>,
    /// The registers of `saved`, a bit each.
    pub(super) anywhere: u64,
    /// What is clobbered at some return; `None` if the function never does.
    pub(super) clobbered: Option<u64>,
}

impl SavedRegisters {
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

/// The cells that `size` bytes at an offset touch.
pub(super) fn cells(offset: i64, size: u32) -> impl Iterator<Item = i64> {
    let first = offset.div_euclid(8);
    let last = offset.saturating_add(i64::from(size.max(1)) - 1).div_euclid(8);
    (first..=last).map(|cell| cell * 8)
}
