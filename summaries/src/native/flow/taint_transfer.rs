//! Taint analysis: what each instruction does with what the caller left in registers (transfer functions).
//!
//! Each hands the taint of what it reads on to what it writes, in the frame too, or refuses the function where that is a use. What
//! taints are, and why that is sound, is told in `taint`; left out here: where paths join (`state`).

use super::builder::{ConstraintBuilder, ValueKey};
use super::memory::Memory;
use super::saved::SOMEWHERE;
use super::state::{RegisterState, SlotValue};
use super::taint::Taint;
use super::unit::{CALLERS_REGISTER, FlowResult, Op};
use super::walker::BlockWalker;
use crate::native::decode::effects::{FLAGS, InstructionEffect, Operand, RegisterId, Transfer};
use crate::registers::{R11, R13, RAX, RSP, XMM0};

impl BlockWalker<'_, '_, '_, '_> {
    pub(super) fn function_of(&self, op: &Op) -> usize {
        self.unit.function_at((op.atom, op.offset))
    }

    pub(super) fn taint_of(&self, op: &Op, state: &RegisterState, slot: RegisterId) -> Taint {
        let is_own = || match slot {
            RAX | R11 | XMM0.. => true,
            _ => self.builder.taints.is_saved(self.function_of(op), slot),
        };
        match state.taint(slot) {
            Taint::Joined if !is_own() => Taint::Register(slot),
            Taint::Joined if matches!(slot, RAX | R11 | R13) => Taint::Unset,
            Taint::Joined => Taint::None,
            taint => taint,
        }
    }

    /// The taint of an address, which is that of its registers.
    pub(super) fn taint_of_any(
        &self,
        op: &Op,
        state: &RegisterState,
        slots: impl IntoIterator<Item = RegisterId>,
    ) -> Taint {
        slots.into_iter().fold(Taint::None, |all, slot| all.join(self.taint_of(op, state, slot)))
    }

    /// The taint of what is in memory: what is elsewhere than in the frame the caller left nowhere.
    pub(super) fn taint_at(&mut self, op: &Op, memory: Memory, size: u32) -> Taint {
        let function = self.function_of(op);
        self.in_frame(memory).map_or(Taint::None, |place| self.builder.taints.held_at(function, place, size))
    }

    fn in_frame(&self, memory: Memory) -> Option<i64> {
        match memory {
            Memory::Frame(offset) => Some(offset),
            Memory::At(node, _) if self.builder.is_in_frame(node) => Some(SOMEWHERE),
            _ => None,
        }
    }

    /// A value with this taint is moved to memory: into the frame, or it is used.
    fn put(&mut self, op: &Op, memory: Memory, taint: Taint) -> FlowResult<()> {
        match (self.in_frame(memory), taint) {
            (_, Taint::None) | (Some(SOMEWHERE), Taint::Register(RAX | R11)) => Ok(()),
            (Some(place), _) => {
                self.builder.taints.put(self.function_of(op), place, taint);
                Ok(())
            }
            (None, _) => self.refuse(op, taint.is_certain()),
        }
    }

    /// A register is an address, or part of one that consists of these values. Beside a symbol it is an index, and in `lea` it may be a number.
    pub(super) fn uses(
        &self,
        op: &Op,
        state: &RegisterState,
        slot: RegisterId,
        parts: [SlotValue; 3],
    ) -> FlowResult<()> {
        let taint = self.taint_of(op, state, slot);
        let is_symbol = |v: &SlotValue| match *v {
            SlotValue::Place(..) => true,
            SlotValue::Node(node, _) => matches!(self.builder.key(node), Some(ValueKey::Place(..))),
            _ => false,
        };
        let is_beside = |v: &SlotValue| is_symbol(v) && *v != state.get(slot);
        let is_number = matches!(op.effect, InstructionEffect::Lea { .. }) || parts.iter().any(is_beside);
        self.refuse(op, taint.is_certain() || taint == Taint::Unset && !is_number)
    }

    /// A register is given to a callee, the caller or the system: it may only hold what the caller left in that same one.
    pub(super) fn gives(&self, op: &Op, state: &RegisterState, slot: RegisterId) -> FlowResult<()> {
        let taint = state.taint(slot);
        self.refuse(op, taint.is_certain() && taint != Taint::Joined && taint != Taint::Register(slot))
    }

    pub(super) fn refuse(&self, op: &Op, is_used: bool) -> FlowResult<()> {
        let at = |refusal| format!("{refusal} at {:#x}", op.offset);
        if is_used { self.builder.caller_register_used().map_err(at) } else { Ok(()) }
    }

    /// A register is stored; the state is that before it.
    fn moves_into(&mut self, op: &Op, state: &RegisterState, memory: Memory, from: RegisterId) {
        if let Memory::Frame(offset) = memory
            && self.builder.recording
            && self.taint_of(op, state, from).is_certain()
        {
            self.builder.taints.store((self.function_of(op), op.offset), offset, from);
        }
    }

    fn takes(&mut self, op: &Op, state: &mut RegisterState, memory: Memory, to: RegisterId) {
        if let Memory::Frame(offset) = memory
            && self.builder.taints.take(self.function_of(op), offset, to)
        {
            state.on_stack &= !(1 << to);
        }
    }

    /// One operand is moved to the other; the result is the taint of what is moved into a register.
    pub(super) fn moves(
        &mut self,
        at: usize,
        op: &Op,
        state: &mut RegisterState,
        (to, from): (Operand, Operand),
    ) -> FlowResult<Taint> {
        match (to, from) {
            (Operand::Memory(address), Operand::Register(from)) => {
                let memory = self.address(at, op, state, &address)?;
                self.moves_into(op, state, memory, from);
                self.put(op, memory, self.taint_of(op, state, from))?;
                Ok(Taint::None)
            }
            (Operand::Register(to), Operand::Memory(address)) => {
                let memory = self.address(at, op, state, &address)?;
                self.takes(op, state, memory, to);
                Ok(self.taint_at(op, memory, address.size))
            }
            (Operand::Register(_), Operand::Register(from)) => Ok(self.taint_of(op, state, from)),
            _ => Ok(Taint::None),
        }
    }

    /// An operand was pushed, to be saved or as an argument; the state is that behind it.
    pub(super) fn moves_onto_stack(
        &mut self,
        op: &Op,
        state: &mut RegisterState,
        from: Operand,
        taint: Taint,
    ) -> FlowResult<()> {
        let own = match (from, taint) {
            (Operand::Register(slot), Taint::Register(of)) if slot == of => Some(slot),
            _ => None,
        };
        self.refuse(op, taint.is_certain() && own.is_none())?;
        // gcc pushes rbp where it has aligned the stack pointer, and pops it by another register.
        let SlotValue::Frame(place) = state.get(RSP) else { return Ok(()) };
        if let Some(slot) = own {
            self.builder.taints.push((self.function_of(op), op.offset), place, slot);
            state.on_stack |= 1 << slot;
        }
        match own {
            Some(RAX | R11) => Ok(()),
            _ => self.put(op, Memory::Frame(place), taint),
        }
    }

    /// The taint of what is on top of the stack, from where a register is popped.
    pub(super) fn pops_off_stack(
        &mut self,
        op: &Op,
        state: &mut RegisterState,
        to: RegisterId,
    ) -> FlowResult<Taint> {
        let memory = self.stack(state.get(RSP))?;
        self.takes(op, state, memory, to);
        Ok(self.taint_at(op, memory, 8))
    }

    /// The same as [`moves`](Self::moves) of an instruction that is not modelled; the result is the taint of each register that it writes.
    pub(super) fn moves_all(
        &mut self,
        at: usize,
        op: &Op,
        state: &mut RegisterState,
        t: &Transfer,
    ) -> FlowResult<Vec<Taint>> {
        // Of a register that is written alone a part is, or all of it by flags (`sbb %ebx, %ebx`).
        let general: Vec<RegisterId> = t.reads.iter().copied().filter(|s| *s < XMM0 && *s != RSP).collect();
        let by_flags = t.reads.contains(&FLAGS) && t.loads.is_empty() && t.stores.is_empty();
        let is_set = |slot: RegisterId| {
            general == [slot] && t.writes.iter().any(|(to, whole)| *to == slot && (by_flags || !whole))
        };
        // What passes nothing but to `regcall` is computed with where it was never set, too.
        let is_free = |slot: RegisterId| {
            matches!((slot, state.taint(slot)), (0, Taint::Register(0)) | (11, Taint::Register(11)))
        };
        let read = general.iter().copied().filter(|slot| !is_set(*slot) && !is_free(*slot));
        let computed = self.taint_of_any(op, state, read).derived();
        for address in &t.stores {
            let memory = self.address(at, op, state, address)?;
            self.put(op, memory, computed)?;
            for slot in &t.reads {
                self.moves_into(op, state, memory, *slot);
                if self.in_frame(memory).is_some() {
                    self.put(op, memory, self.taint_of(op, state, *slot))?;
                }
            }
        }
        let mut written = vec![computed; t.writes.len()];
        for address in &t.loads {
            let memory = self.address(at, op, state, address)?;
            let taint = self.taint_at(op, memory, address.size);
            for ((slot, _), written) in t.writes.iter().zip(&mut written) {
                self.takes(op, state, memory, *slot);
                *written = written.join(taint);
            }
        }
        Ok(written)
    }
}

impl ConstraintBuilder {
    /// What the caller left in a register is used. Before the states are final that says nothing: the path that sets the
    /// register may not have been walked.
    pub(super) fn caller_register_used(&self) -> FlowResult<()> {
        match self.recording {
            true => Err(format!("{} is used", CALLERS_REGISTER)),
            false => Ok(()),
        }
    }
}
