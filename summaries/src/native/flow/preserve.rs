//! Which registers a function may hand back as it found them, among those that the psABI lets it clobber.
//!
//! Functions with an attribute (`preserve_most`, `preserve_all`, `no_caller_saved_registers`) leave them alone or put them back, and
//! their callers keep addresses there. A register counts as clobbered on a path once it is written, until it is written with what
//! may be what it held at entry: that value itself, or what is loaded from where it was put in the frame. Only a register that is
//! clobbered at some return is surely not preserved. What is called may preserve, too. Left out: registers that are put back from
//! memory outside of the frame.

use super::builder::{ConstraintBuilder, ValueKey};
use super::memory::Memory;
use super::saved::SOMEWHERE;
use super::state::{RegisterState, SlotValue};
use super::taint::Taint;
use super::unit::{FlowResult, Op};
use super::walker::BlockWalker;
use crate::native::decode::effects::{Address, Operand, RegisterId, SLOTS, Transfer};
use crate::registers::{PRESERVABLE, RBP, RSP};

impl BlockWalker<'_, '_, '_, '_> {
    /// The function returns in this state.
    pub(super) fn leaves(&mut self, op: &Op, state: &RegisterState) {
        // Elsewhere a return is a call by way of the stack.
        if state.get(RSP) == SlotValue::Frame(0) {
            self.builder.taints.leave(self.function_of(op), state.on_stack);
        }
        if self.builder.recording {
            *self.builder.preserved.clobbered.get_or_insert(0) |= state.clobbered;
        }
    }

    /// The instruction moves `from` to `to`; the state is that before it. The register that it may put back.
    pub(super) fn puts_back(
        &mut self,
        at: usize,
        op: &Op,
        state: &RegisterState,
        (to, from): (Operand, Operand),
    ) -> FlowResult<Option<RegisterId>> {
        Ok(match (to, from) {
            (Operand::Register(to), Operand::Register(from)) => {
                self.is_as_at_entry(state, to, from).then_some(to)
            }
            (Operand::Register(to), Operand::Memory(address)) if counts(to) => {
                let place = self.place_of(at, op, state, &address)?;
                place.filter(|p| self.builder.preserved.may_be_saved(*p, to)).map(|_| to)
            }
            (Operand::Memory(address), Operand::Register(from)) if self.is_as_at_entry(state, from, from) => {
                if let Some(place) = self.place_of(at, op, state, &address)? {
                    self.builder.preserved.save(place, from);
                }
                None
            }
            _ => None,
        })
    }

    /// The same of an instruction that is not modelled, for all that it loads, stores and writes.
    pub(super) fn all_put_back(
        &mut self,
        at: usize,
        op: &Op,
        state: &RegisterState,
        t: &Transfer,
    ) -> FlowResult<u64> {
        let mut back = 0;
        for (address, slot) in t.loads.iter().flat_map(|a| t.writes.iter().map(move |w| (*a, w.0))) {
            let moved = (Operand::Register(slot), Operand::Memory(address));
            back |= self.puts_back(at, op, state, moved)?.map_or(0, |slot| 1 << slot);
        }
        for (address, slot) in t.stores.iter().flat_map(|a| t.reads.iter().map(move |r| (*a, *r))) {
            self.puts_back(at, op, state, (Operand::Memory(address), Operand::Register(slot)))?;
        }
        Ok(back)
    }

    /// A register is pushed; the stack pointer is that before it.
    pub(super) fn pushes(&mut self, state: &RegisterState, from: Operand) {
        if let Operand::Register(slot) = from
            && self.is_as_at_entry(state, slot, slot)
        {
            let place = top(state.get(RSP).plus(-8));
            self.builder.preserved.save(place, slot);
        }
    }

    /// Whether a pop puts the register back; the stack pointer is that before it.
    pub(super) fn pops(&self, state: &RegisterState, slot: RegisterId) -> bool {
        counts(slot) && self.builder.preserved.may_be_saved(top(state.get(RSP)), slot)
    }

    /// Whether a register may hold what `slot` held at entry.
    fn is_as_at_entry(&self, state: &RegisterState, slot: RegisterId, register: RegisterId) -> bool {
        let own = || match state.get(register) {
            SlotValue::Node(node, 0) => self.builder.key(node) == Some(ValueKey::Parameter(slot)),
            _ => false,
        };
        let is_left = match state.taint(register) {
            Taint::Joined => register == slot,
            taint => taint == Taint::Register(slot),
        };
        counts(slot) && (is_left || own())
    }

    /// The place of an operand in the frame; `None` if it is elsewhere, or too small for a register.
    fn place_of(
        &mut self,
        at: usize,
        op: &Op,
        state: &RegisterState,
        address: &Address,
    ) -> FlowResult<Option<i64>> {
        let by_stack = matches!(address.base, Some(RSP | RBP));
        Ok(match self.address(at, op, state, address)? {
            _ if matches!(address.size, 1..8) => None,
            Memory::Frame(offset) => Some(offset),
            Memory::At(node, _) if by_stack || self.builder.is_in_frame(node) => Some(SOMEWHERE),
            _ => None,
        })
    }
}

impl ConstraintBuilder {
    /// Whether a value is made from the address of the frame.
    pub(super) fn is_in_frame(&self, value: crate::ids::ValueIdx) -> bool {
        match self.key(value) {
            Some(ValueKey::Frame(_) | ValueKey::FrameSomewhere) => true,
            Some(ValueKey::Displaced(of, _)) => self.is_in_frame(of),
            _ => false,
        }
    }
}

fn counts(slot: RegisterId) -> bool {
    usize::from(slot) < SLOTS && PRESERVABLE & (1 << slot) != 0
}

/// The place that a stack pointer points to.
fn top(rsp: SlotValue) -> i64 {
    match rsp {
        SlotValue::Frame(offset) => offset,
        _ => SOMEWHERE,
    }
}
