//! Which values anything depends on, and whether the function uses what its caller left in a register (taint analysis).
//!
//! What the caller left in a register that passes nothing is put into the frame and back into the same register, and that is
//! all. In conventions that pass more (`swiftcall`, `preserve_none`, `regcall`) it is used there, or in another place that it was moved to, or never comes
//! back: then the function is not understood. Where paths join that set the register and that don't, a use counts as well.
//! Left out: arithmetic in vector registers, rax and r11, and these two where they are pushed (so compilers align the stack) or put where the
//! stack pointer isn't known.

use rustc_hash::FxHashSet;

use super::builder::{ConstraintBuilder, Key, Raw};
use super::memory::Memory;
use super::saved::SOMEWHERE;
use super::state::{MADE_OF_LEFT, RegisterState, UNSET};
use super::unit::{Op, Refusal, Unit};
use super::walker::Walk;
use crate::cfl::components::Adjacency;
use crate::native::decode::effects::{
    FIRST_VECTOR, FLAGS, InstructionEffect, Operand, RSP, RegisterId, Transfer,
};
use crate::relation::{Callee, Constraint};

/// What is made of what these bits say.
pub(super) fn made_of(left: u64) -> u64 {
    match left {
        0 | UNSET => left,
        _ => MADE_OF_LEFT,
    }
}

/// What passes nothing but to `regcall`, a bit each.
const RAX_AND_R11: u64 = 1 << 11 | 1;

impl Walk<'_, '_, '_, '_> {
    /// In which registers the caller left what an operand may hold, a bit each, and [`MADE_OF_LEFT`].
    pub(super) fn left_in(
        &mut self,
        at: usize,
        op: &Op,
        state: &RegisterState,
        from: Operand,
    ) -> Result<u64, Refusal> {
        Ok(match from {
            Operand::Register(slot) => self.left_in_register(op, state, slot),
            Operand::Memory(address) => {
                let memory = self.address(at, op, state, &address)?;
                self.left_at(op, memory, address.size)
            }
            Operand::Immediate => 0,
        })
    }

    /// The same of a register. Where that is so on some paths only, the function may be one that doesn't set the register where it doesn't need it, as
    /// compilers do with what has no value there: a register that it has saved is its own then, and rax and r11 are free. But rax and r11 (`regcall`),
    /// and r13, which `swiftcall` passes and preserves, may be arguments: [`UNSET`].
    pub(super) fn left_in_register(&self, op: &Op, state: &RegisterState, slot: RegisterId) -> u64 {
        let is_own = || match slot {
            0 | 11 | FIRST_VECTOR.. => true,
            _ => self.builder.left.is_saved(self.function_at(op), slot),
        };
        match state.is_joined(slot) && is_own() {
            false => state.left_in(slot),
            true if matches!(slot, 0 | 11 | 13) => UNSET,
            true => 0,
        }
    }

    fn function_at(&self, op: &Op) -> usize {
        self.unit.function_at((op.atom, op.offset))
    }

    /// The same of a place in the frame; what is elsewhere the caller left nowhere.
    pub(super) fn left_at(&mut self, op: &Op, memory: Memory, size: u32) -> u64 {
        let function = self.function_at(op);
        self.in_frame(memory).map_or(0, |place| self.builder.left.held_at(function, place, size))
    }

    fn in_frame(&self, memory: Memory) -> Option<i64> {
        match memory {
            Memory::Frame(offset) => Some(offset),
            Memory::At(node, _) if self.builder.is_in_frame(node) => Some(SOMEWHERE),
            _ => None,
        }
    }

    /// What the caller left is moved to memory: into the frame, or it is used.
    pub(super) fn put_left(&mut self, op: &Op, memory: Memory, left: u64) -> Result<(), Refusal> {
        match self.in_frame(memory) {
            _ if left == 0 => Ok(()),
            // Beside much else that comes back from there: functions that preserve all registers, and arguments of `regcall`.
            Some(SOMEWHERE) if left & !RAX_AND_R11 == 0 => Ok(()),
            Some(place) => {
                let function = self.function_at(op);
                self.builder.left.put_into(function, place, left);
                Ok(())
            }
            None => self.refuse_left(op, left & !UNSET),
        }
    }

    /// A register is an address that is gone to, or at which something is: it may not be what the caller left in one. What has no value is no
    /// address either.
    pub(super) fn uses(&self, op: &Op, state: &RegisterState, slot: RegisterId) -> Result<(), Refusal> {
        let left = self.left_in_register(op, state, slot);
        let is_number = matches!(op.effect, InstructionEffect::Lea { .. });
        self.refuse_left(op, if is_number { left & !UNSET } else { left })
    }

    /// A register is given to somebody else: it may only hold what the caller left in that same one.
    pub(super) fn gives(&self, op: &Op, state: &RegisterState, slot: RegisterId) -> Result<(), Refusal> {
        self.refuse_left(op, state.left_in(slot) & !(1 << slot) & !UNSET)
    }

    pub(super) fn refuse_left(&self, op: &Op, left: u64) -> Result<(), Refusal> {
        let at = |refusal| format!("{refusal} at {:#x}", op.offset);
        if left == 0 { Ok(()) } else { self.builder.caller_register_used().map_err(at) }
    }

    /// A register is stored; the state is that before it.
    fn puts(&mut self, op: &Op, state: &RegisterState, memory: Memory, from: RegisterId) {
        if let Memory::Frame(offset) = memory
            && self.builder.recording
            && self.left_in_register(op, state, from) & !UNSET != 0
        {
            self.builder.left.put.insert((offset, from, (op.atom, op.offset)));
        }
    }

    fn takes(&mut self, op: &Op, memory: Memory, to: RegisterId) {
        if let Memory::Frame(offset) = memory
            && self.builder.recording
        {
            self.builder.left.taken.insert((offset, to, (op.atom, op.offset)));
        }
    }

    /// One operand is moved to the other; the result is what [`left_in`](Self::left_in) says of that.
    pub(super) fn moves(
        &mut self,
        at: usize,
        op: &Op,
        state: &RegisterState,
        (to, from): (Operand, Operand),
    ) -> Result<u64, Refusal> {
        match (to, from) {
            (Operand::Memory(address), Operand::Register(from)) => {
                let memory = self.address(at, op, state, &address)?;
                self.puts(op, state, memory, from);
                self.put_left(op, memory, self.left_in_register(op, state, from))?;
                Ok(0)
            }
            (Operand::Register(to), Operand::Memory(address)) => {
                let memory = self.address(at, op, state, &address)?;
                self.takes(op, memory, to);
                if let Memory::Frame(offset) = memory {
                    self.builder.left.pop(self.function_at(op), offset, to);
                }
                Ok(self.left_at(op, memory, address.size))
            }
            (_, from) => self.left_in(at, op, state, from),
        }
    }

    /// The same of an instruction that is not told apart; the result is what each of the registers holds that it writes.
    pub(super) fn moves_all(
        &mut self,
        at: usize,
        op: &Op,
        state: &RegisterState,
        t: &Transfer,
    ) -> Result<Vec<u64>, Refusal> {
        // Of a register that is written alone a part is, or all of it by flags (`sbb %ebx, %ebx`).
        let general: Vec<RegisterId> =
            t.reads.iter().copied().filter(|s| *s < FIRST_VECTOR && *s != RSP).collect();
        let by_flags = t.reads.contains(&FLAGS) && t.loads.is_empty() && t.stores.is_empty();
        let is_set = |slot: RegisterId| {
            general == [slot] && t.writes.iter().any(|(to, whole)| *to == slot && (by_flags || !whole))
        };
        // What passes nothing but to `regcall` is computed with where it was never set, too.
        let own = |slot: RegisterId| if matches!(slot, 0 | 11) { 1 << slot } else { 0 };
        let read = general.iter().filter(|slot| !is_set(**slot));
        let read = read.fold(0, |all, slot| all | self.left_in_register(op, state, *slot) & !own(*slot));
        let made = made_of(read);
        for address in &t.stores {
            let memory = self.address(at, op, state, address)?;
            self.put_left(op, memory, made)?;
        }
        let stores = t.stores.iter().flat_map(|a| t.reads.iter().map(move |r| (*a, *r)));
        for (address, slot) in stores {
            let memory = self.address(at, op, state, &address)?;
            self.puts(op, state, memory, slot);
            if self.in_frame(memory).is_some() {
                self.put_left(op, memory, self.left_in_register(op, state, slot))?;
            }
        }
        let mut written = vec![made; t.writes.len()];
        for address in &t.loads {
            let memory = self.address(at, op, state, address)?;
            let left = self.left_at(op, memory, address.size);
            for ((slot, _), written) in t.writes.iter().zip(&mut written) {
                self.takes(op, memory, *slot);
                *written |= left;
            }
        }
        Ok(written)
    }
}

impl ConstraintBuilder {
    /// Where the function puts what its caller left in a register, if that never comes back into it.
    pub(super) fn keeps_what_was_left(&self, unit: &Unit) -> Option<u64> {
        // Functions that are not told apart have frames of their own.
        let taken = self.left.taken.iter().map(|(cell, slot, at)| (*cell, *slot, unit.function_at(*at)));
        let taken: FxHashSet<_> = taken.collect();
        // In rax an argument comes back without optimisation, too (`regcall`); who saves it pushes it.
        let comes_back = |cell, slot, at| slot != 0 && taken.contains(&(cell, slot, unit.function_at(at)));
        let kept = self.left.put.iter().filter(|(cell, slot, at)| !comes_back(*cell, *slot, *at));
        kept.map(|(.., at)| at.1).min()
    }

    /// By value: something depends on it.
    pub(super) fn needed(&self) -> Vec<bool> {
        let mut needed: Vec<u32> = Vec::new();
        let mut sources: Vec<(u32, u32)> = Vec::new();
        for raw in &self.raw {
            match raw {
                Raw::Plain(Constraint::Assign { from, to, .. }) => sources.push((to.0, from.0)),
                Raw::Plain(Constraint::Load { from, to, .. }) => sources.push((to.0, from.value.0)),
                Raw::Plain(Constraint::Store { from, to, .. }) => needed.extend([from.0, to.value.0]),
                Raw::Plain(Constraint::Copy { from, to, .. }) => needed.extend([from.value.0, to.value.0]),
                Raw::Plain(Constraint::Escape { from }) => needed.push(from.0),
                Raw::StoreCell { from, .. } => needed.push(from.0),
                _ => {}
            }
        }
        for call in &self.calls {
            if let Callee::Indirect(value) = call.callee {
                needed.push(value.0);
            }
            needed.extend(call.actuals.iter().map(|a| a.1.0));
        }
        let results = (0u32..).zip(&self.values).filter(|(_, key)| matches!(key, Key::Result(_)));
        needed.extend(results.map(|(value, _)| value));
        Adjacency::new(self.values.len(), &sources).reached(needed)
    }
}
