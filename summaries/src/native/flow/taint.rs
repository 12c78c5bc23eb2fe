//! Taint analysis: whether a function uses what its caller left in a register that passes nothing. The lattice, and the frame.
//!
//! By the psABI (3.2.1) a function puts such a register into its frame and back, and that is all. A convention that passes more
//! (`swiftcall`, `preserve_none`, `regcall`, OCaml's) shows by a use: the register is looked into, called, stored, returned, passed on where
//! arguments are, or never taken back. Then the function is not understood, and everything that any caller has in such
//! registers may be looked at. That is sound because each instruction hands the taint on from what it reads to what it writes, in the frame too.
//!
//! Where paths join of which only some set the register, it holds either. Compilers leave a register unset where it has no value: in one
//! that the function saves, and in rax and r11, that is no use. No address is without a value, so that rax and r11 (`regcall`), and r13,
//! which `swiftcall` passes and preserves, may not be looked into even so ([`Taint::Unset`]).
//!
//! Left out: edges that are there for want of knowing better ([`Edge::Doubtful`](super::state::Edge)); what vector registers are computed of; and rax
//! and r11 where they are pushed, which aligns the stack, or put where the stack pointer isn't known.

use rustc_hash::{FxHashMap, FxHashSet};

use super::saved::{SOMEWHERE, cells};
use crate::native::decode::effects::RegisterId;
use crate::registers::{R11, RAX, RBP};

/// What a value may be of what the caller left in registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Taint {
    /// It is nothing of what the caller left.
    #[default]
    None,
    /// Only if the function uses a register where it has not set it.
    Unset,
    /// In a slot: on some of the paths that join, what the caller left in that slot.
    Joined,
    /// It is what the caller left in this register.
    Register(RegisterId),
    /// It is computed of such values, or may be any of several.
    Derived,
}

impl Taint {
    pub(super) fn join(self, other: Taint) -> Taint {
        match (self, other) {
            (Taint::None, one) | (one, Taint::None) | (Taint::Unset, one) | (one, Taint::Unset) => one,
            (a, b) if a == b => a,
            _ => Taint::Derived,
        }
    }

    /// The taint of what is computed of a value with this one.
    pub(super) fn derived(self) -> Taint {
        if self.is_certain() { Taint::Derived } else { self }
    }

    /// Whether it needs no use of a register that was not set.
    pub(super) fn is_certain(self) -> bool {
        !matches!(self, Taint::None | Taint::Unset)
    }
}

/// What of the caller's registers functions put into their frames, and take back. A unit may have several functions, each with a frame.
#[derive(Default)]
pub(super) struct FrameTaints {
    /// The taint of what was put into each cell, or [`SOMEWHERE`], of each function.
    cells: FxHashMap<(usize, i64), Taint>,
    /// The cells, by function, whose taint was asked for.
    looked_at: FxHashSet<(usize, i64)>,
    /// A cell got another taint after it was asked for: the states have to be found again.
    pub(super) grew: bool,
    /// The offset of the instruction that moved a register into a cell, by function, cell and register.
    moved: FxHashMap<(usize, i64, RegisterId), u64>,
    /// The offset of the instruction that pushed a register into a cell, by function, cell and register.
    pushed: FxHashMap<(usize, i64, RegisterId), u64>,
    /// Function, cell and register that was loaded from there.
    taken: FxHashSet<(usize, i64, RegisterId)>,
    functions: FxHashMap<usize, PushedRegisters>,
}

/// Registers of a function, a bit each.
#[derive(Default, Clone, Copy)]
struct PushedRegisters {
    pushed: u64,
    /// The registers that are loaded from where they were pushed.
    taken: u64,
    /// The registers that are written, but by such a load.
    written: u64,
    /// The registers that are not taken back on a path to a return.
    lost: u64,
}

impl PushedRegisters {
    /// The registers that are the function's own once it has pushed them: it takes them back, or writes them and never returns.
    fn saved(self) -> u64 {
        self.pushed & (self.taken | self.written) & !self.lost
    }
}

impl FrameTaints {
    pub(super) fn put(&mut self, function: usize, place: i64, taint: Taint) {
        for cell in around(place, 8) {
            let held = self.cells.entry((function, cell)).or_default();
            let joined = held.join(taint);
            if std::mem::replace(held, joined) != joined {
                self.grew |= cell == SOMEWHERE || self.looked_at.contains(&(function, cell));
            }
        }
    }

    pub(super) fn held_at(&mut self, function: usize, place: i64, size: u32) -> Taint {
        let mut held = self.cells.get(&(function, SOMEWHERE)).copied().unwrap_or_default();
        for cell in around(place, size).filter(|cell| *cell != SOMEWHERE) {
            self.looked_at.insert((function, cell));
            held = held.join(self.cells.get(&(function, cell)).copied().unwrap_or_default());
        }
        held
    }

    /// A register that may hold what the caller left is stored, by the instruction at this offset.
    pub(super) fn store(&mut self, (function, offset): (usize, u64), place: i64, register: RegisterId) {
        self.moved.entry((function, place, register)).or_insert(offset);
    }

    pub(super) fn push(&mut self, (function, offset): (usize, u64), place: i64, register: RegisterId) {
        self.pushed.entry((function, place, register)).or_insert(offset);
        self.functions.entry(function).or_default().pushed |= 1 << register;
    }

    /// A register is loaded from the frame. True if it was pushed there.
    pub(super) fn take(&mut self, function: usize, place: i64, register: RegisterId) -> bool {
        self.taken.insert((function, place, register));
        let is_pushed = self.pushed.contains_key(&(function, place, register));
        if is_pushed {
            self.functions.entry(function).or_default().taken |= 1 << register;
        }
        is_pushed
    }

    pub(super) fn write(&mut self, function: usize, registers: u64) {
        self.functions.entry(function).or_default().written |= registers;
    }

    /// The function returns, with these registers on the stack: they were no registers of its own, for which it is not understood.
    pub(super) fn leave(&mut self, function: usize, pushed: u64) {
        self.functions.entry(function).or_default().lost |= pushed;
    }

    pub(super) fn is_saved(&self, function: usize, register: RegisterId) -> bool {
        self.functions.get(&function).is_some_and(|f| f.saved() & 1 << register != 0)
    }

    /// The first instruction that puts a register into the frame, or on the stack for a callee, from where it never comes back.
    pub(super) fn never_taken_back(&self) -> Option<u64> {
        // In rax an argument comes back without optimisation, too (`regcall`); who saves it pushes it.
        let moved = self.moved.iter().filter(|(put, _)| put.2 == RAX || !self.taken.contains(put));
        // rax and r11 align the stack, and no convention passes anything in rbp.
        let is_argument = |(function, _, register): &(usize, i64, RegisterId)| {
            !matches!(*register, RAX | R11 | RBP) && !self.is_saved(*function, *register)
        };
        let pushed = self.pushed.iter().filter(|(put, _)| is_argument(put));
        moved.chain(pushed).map(|(_, offset)| *offset).min()
    }
}

/// The cells that `size` bytes at a place touch.
fn around(place: i64, size: u32) -> impl Iterator<Item = i64> {
    let known = (place != SOMEWHERE).then(|| cells(place, size));
    known.into_iter().flatten().chain((place == SOMEWHERE).then_some(SOMEWHERE))
}
