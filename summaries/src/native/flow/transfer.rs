//! Transfer functions: the effect of each instruction on the state, and its constraints.
//!
//! The walk has two passes over a function. The first computes a fixpoint of the states and discards constraints; the second visits every
//! block once and keeps them. Values are created by key (instruction and operand), so that both passes create the same ones. An
//! instruction that combines several addresses makes a value that holds each of them at an unknown offset.

use super::builder::ValueKey;
use super::memory::Memory;
use super::state::{PathFacts, RepeatCount, SlotValue};
use super::unit::{CALLERS_RAX, CALLERS_REGISTER, FlowResult, Op, RelocatedOperand};
use super::walk::{BlockExit, Walk};
use crate::exposure::Exposure;
use crate::native::decode::effects::{Address, InstructionEffect, Operand, RegisterId, Transfer};
use crate::registers::{self, R11, RAX, RBP, RCX, RDI, RSI, RSP, SAVED, XMM0};
use crate::summary::Target;

/// Bytes that a string instruction writes; 0 is an unknown number. A function that sets the direction flag is not analysed.
fn moved_bytes(op: &Op, facts: &PathFacts, size: u32) -> u32 {
    match (op.element, facts.repeats) {
        (Some(element), RepeatCount::Known(count)) => {
            count.checked_mul(element).filter(|bytes| *bytes <= MAX_STRING).unwrap_or(0)
        }
        _ => size,
    }
}

/// The maximum number of bytes of a string instruction; a larger number counts as unknown. Each 8 of them are a cell of the frame.
const MAX_STRING: u32 = 4096;

impl Walk<'_, '_, '_, '_> {
    /// Interpret one instruction, and return where control continues.
    pub(super) fn step(&mut self, at: usize, op: &Op) -> FlowResult<BlockExit> {
        self.pushed_at_call = self.facts.pushed;
        let exit = self.step_effect(at, op)?;
        self.facts.may_pass_vectors &= !op.clears_al;
        if let Some(count) = op.sets_count {
            self.facts.repeats = RepeatCount::Known(count);
        } else if op.element.is_some() {
            self.facts.repeats = RepeatCount::Known(0);
        }
        Ok(exit)
    }

    fn step_effect(&mut self, at: usize, op: &Op) -> FlowResult<BlockExit> {
        let strange = |what: &str| Err(format!("{what} at {:#x}", op.offset));
        if op.tls_call {
            let unknown = self.builder.unknown();
            self.set(RAX, SlotValue::Node(unknown, 0));
            return Ok(BlockExit::Falls);
        }
        // A relocated constant is an address like any other.
        let by_relocation = op.immediate != RelocatedOperand::Absent;
        match &op.effect {
            InstructionEffect::Nothing | InstructionEffect::Compare { .. } => {
                // The instruction compares or prefetches: it uses the address without copying it.
                for operand in [op.displacement, op.immediate] {
                    match operand {
                        RelocatedOperand::Place(target, offset) => self.builder.place(target, offset),
                        RelocatedOperand::Got(symbol) => self.builder.place(Target::Symbol(symbol), 0),
                        RelocatedOperand::Tls | RelocatedOperand::Absent => SlotValue::None,
                    };
                }
                if let InstructionEffect::Compare { with: Some(address), .. } = &op.effect
                    && op.exposure != Exposure::Nothing
                {
                    let value = self.operand(at, op, Operand::Memory(*address))?;
                    self.builder.expose(value, op.exposure)?;
                }
            }
            InstructionEffect::Keep if by_relocation => return strange("an address added to memory"),
            InstructionEffect::Padding | InstructionEffect::Keep => {}
            InstructionEffect::Add { to, .. } | InstructionEffect::Align { to } if by_relocation => {
                let values = [self.get(*to), self.immediate(op)];
                let joined = self.join(ValueKey::Op(at, *to), values)?;
                self.set(*to, joined);
            }
            InstructionEffect::Move { to, from } => {
                let value = match (*to, *from) {
                    (Operand::Register(to), Operand::Memory(from)) => {
                        self.operand_in_memory(at, op, &from, Some(to))?
                    }
                    _ => self.operand(at, op, *from)?,
                };
                self.builder.expose(value, op.exposure)?;
                self.assign(at, op, *to, value)?;
            }
            InstructionEffect::Lea { to, from } => {
                let index = from.index.map_or(SlotValue::None, |index| self.get(index));
                self.builder.expose(index, op.exposure)?;
                let value = match self.address(at, op, from)? {
                    Memory::Frame(o) => SlotValue::Frame(o),
                    Memory::At(node, Some(o)) => SlotValue::Node(node, o),
                    Memory::At(node, None) => self.join(ValueKey::Op(at, 60), [SlotValue::Node(node, 0)])?,
                    Memory::Guard | Memory::Number | Memory::Nowhere | Memory::Tls => SlotValue::None,
                    Memory::Got(_) => return strange("the address of an entry of the offset table"),
                };
                self.set(*to, value);
            }
            InstructionEffect::Add { to, by } => {
                let value = self.computed_at(op, *to)?.plus(*by);
                self.set(*to, value);
            }
            InstructionEffect::Align { to } => {
                let value = self.get(*to);
                self.builder.expose(value, op.exposure)?;
                let value = match self.computed_at(op, *to)? {
                    SlotValue::Frame(_) => SlotValue::Node(self.builder.somewhere_in_frame(), 0),
                    value => self.join(ValueKey::Op(at, *to), [value])?,
                };
                self.set(*to, value);
            }
            InstructionEffect::Zero { to } => self.set(*to, SlotValue::None),
            InstructionEffect::Push(from) => {
                let value = self.operand(at, op, *from)?;
                self.facts.pushed |= !matches!(value, SlotValue::Saved(_));
                self.push(op, value)?;
            }
            InstructionEffect::Pop(RSP) => {
                return Err(format!("the stack pointer is popped at {:#x}", op.offset));
            }
            InstructionEffect::Pop(to) => {
                let value = self.pop(at, op, *to)?;
                self.set(*to, value);
            }
            InstructionEffect::Leave => {
                let rbp = self.get(RBP);
                self.set(RSP, rbp);
                let value = self.pop(at, op, RBP)?;
                self.set(RBP, value);
            }
            InstructionEffect::StringMove { size } => {
                let size = moved_bytes(op, &self.facts, *size);
                self.string_move(at, op, size)?;
            }
            InstructionEffect::StringStore { size } => {
                let size = moved_bytes(op, &self.facts, *size);
                self.string_store(at, op, size)?;
            }
            InstructionEffect::Other(transfer) => self.other(at, op, transfer)?,
            InstructionEffect::System => {
                for slot in (0..16).filter(|s| *s != RSP) {
                    if let Some(value) = self.given(op, slot)? {
                        self.builder.escape(value)?;
                    }
                }
                let unknown = self.builder.unknown();
                self.set(RAX, SlotValue::Node(unknown, 0));
                self.set(RCX, SlotValue::None);
                self.set(R11, SlotValue::None);
            }
            InstructionEffect::Unmodelled => return strange("an instruction that is not modelled"),
            InstructionEffect::Stop => return Ok(BlockExit::Ends),
            InstructionEffect::Jump => return self.jump(at, op),
            InstructionEffect::Call => return self.call(at, op),
            InstructionEffect::CallThrough(from) => {
                let value = self.target(at, op, *from)?;
                return self.call_through(at, op, value);
            }
            InstructionEffect::JumpThrough(from) => {
                let value = self.target(at, op, *from)?;
                return self.jump_through(at, op, value);
            }
            InstructionEffect::Return => return self.ret(op).map(|()| BlockExit::Ends),
        }
        Ok(BlockExit::Falls)
    }

    fn immediate(&mut self, op: &Op) -> SlotValue {
        match op.immediate {
            RelocatedOperand::Place(target, offset) => self.builder.place(target, offset),
            _ => SlotValue::None,
        }
    }

    /// The targets of an indirect call or jump.
    fn target(&mut self, at: usize, op: &Op, from: Operand) -> FlowResult<SlotValue> {
        if let Operand::Register(register) = from {
            self.is_set(op, register)?;
        }
        let value = self.operand(at, op, from)?;
        self.used(op, value)
    }

    /// A value that is dereferenced or called. A register that was never set holds no address.
    pub(super) fn used(&self, op: &Op, value: SlotValue) -> FlowResult<SlotValue> {
        match value {
            // Before the states are final this is no error: the path that sets the register may not have been walked.
            SlotValue::Saved(_) if !self.builder.recording => Ok(SlotValue::Undefined),
            SlotValue::Saved(RAX) => Err(format!("{CALLERS_RAX} is used at {:#x}", op.offset)),
            SlotValue::Saved(_) => Err(format!("{CALLERS_REGISTER} is used at {:#x}", op.offset)),
            value => Ok(value),
        }
    }

    /// An operand of a computation. Compilers never compute with a callee-saved register before setting it. With other registers they may
    /// compute values that are not used.
    pub(super) fn computed(&self, op: &Op, value: SlotValue) -> FlowResult<SlotValue> {
        match value {
            SlotValue::Saved(register) if registers::has(SAVED, register) => self.used(op, value),
            SlotValue::Saved(_) => Ok(SlotValue::None),
            value => Ok(value),
        }
    }

    /// As [`Self::used`], of a register.
    pub(super) fn used_at(&mut self, op: &Op, slot: RegisterId) -> FlowResult<SlotValue> {
        let value = self.get(slot);
        self.used(op, value)
    }

    /// As [`Self::computed`], of a register.
    fn computed_at(&mut self, op: &Op, slot: RegisterId) -> FlowResult<SlotValue> {
        let value = self.get(slot);
        self.computed(op, value)
    }

    /// The value that a register passes to a callee, the caller or the system; `None` if the caller's value is still there.
    pub(super) fn given(&mut self, op: &Op, slot: RegisterId) -> FlowResult<Option<SlotValue>> {
        match self.get(slot) {
            SlotValue::Saved(register) if register == slot => Ok(None),
            value => self.used(op, value).map(Some),
        }
    }

    /// The value of a load from the frame: the saved register, if no other value was stored there.
    pub(super) fn taken_back(
        &mut self,
        op: &Op,
        memory: Memory,
        to: Option<RegisterId>,
        value: SlotValue,
    ) -> FlowResult<SlotValue> {
        let place = match memory {
            Memory::Frame(offset) => Some(offset),
            Memory::At(node, _) if self.builder.is_in_frame(node) => None,
            _ => return Ok(value),
        };
        if to == Some(RAX) {
            self.builder.rax_loaded.insert(place);
        }
        let Some(offset) = place else { return Ok(value) };
        let (saved, is_shared) = self.builder.saved_at((self.unit.function_at((op.atom, op.offset)), offset));
        let own = to.map_or(0, |to| saved & 1 << to);
        let register = if own == 0 { saved } else { own };
        let left = SlotValue::Saved(register.trailing_zeros() as RegisterId);
        match (saved, is_shared) {
            (0, _) => Ok(value),
            (_, false) => Ok(left),
            (_, true) if own != 0 => Ok(value),
            (_, true) => self.used(op, left).map(|_| value),
        }
    }

    fn operand(&mut self, at: usize, op: &Op, from: Operand) -> FlowResult<SlotValue> {
        match from {
            Operand::Register(slot) => Ok(self.get(slot)),
            Operand::Immediate => Ok(self.immediate(op)),
            Operand::Memory(address) => self.operand_in_memory(at, op, &address, None),
        }
    }

    /// The value of a load, into a register or for another use.
    fn operand_in_memory(
        &mut self,
        at: usize,
        op: &Op,
        address: &Address,
        to: Option<RegisterId>,
    ) -> FlowResult<SlotValue> {
        let memory = self.address(at, op, address)?;
        let value = self.load(ValueKey::Op(at, 61), memory, address.size)?;
        self.taken_back(op, memory, to, value)
    }

    fn assign(&mut self, at: usize, op: &Op, to: Operand, value: SlotValue) -> FlowResult<()> {
        match to {
            Operand::Register(slot) => self.set(slot, value),
            Operand::Memory(address) => {
                let memory = self.address(at, op, &address)?;
                self.store(op, memory, address.size, value)?;
            }
            Operand::Immediate => {}
        }
        Ok(())
    }

    fn string_move(&mut self, at: usize, op: &Op, size: u32) -> FlowResult<()> {
        let (from, to) = (self.used_at(op, RSI)?, self.used_at(op, RDI)?);
        self.next_piece(at, RSI)?;
        self.next_piece(at, RDI)?;
        self.builder.copy_to_frame |= !matches!(to, SlotValue::Place(..));
        let is_address = |v: SlotValue| !matches!(v, SlotValue::None | SlotValue::Undefined);
        // One side is memory at an integer address.
        match (from, to) {
            (SlotValue::None, _) if is_address(to) => {
                let (unknown, to) = (self.builder.unknown(), self.builder.node(to)?);
                self.builder.store(SlotValue::Node(unknown, 0), to, None, 0)?;
            }
            (_, SlotValue::None) => self.builder.escape(from)?,
            _ if is_address(from) && is_address(to) => {
                let (from, to) = (self.builder.node(from)?, self.builder.node(to)?);
                self.builder.copy(from, to, size);
            }
            _ => {}
        }
        Ok(())
    }

    /// Advance the source or destination address to the next piece.
    fn next_piece(&mut self, at: usize, slot: RegisterId) -> FlowResult<()> {
        let next = match self.get(slot) {
            SlotValue::Frame(_) => SlotValue::Node(self.builder.somewhere_in_frame(), 0),
            value => self.join(ValueKey::Op(at, slot), [value])?,
        };
        self.set(slot, next);
        Ok(())
    }

    fn string_store(&mut self, at: usize, op: &Op, size: u32) -> FlowResult<()> {
        let (value, to) = (self.computed_at(op, RAX)?, self.used_at(op, RDI)?);
        self.next_piece(at, RDI)?;
        let memory = match to {
            SlotValue::None | SlotValue::Undefined | SlotValue::Saved(_) => Memory::Number,
            SlotValue::Frame(offset) => {
                // The count does not matter if the value is not an address.
                self.builder.copy_to_frame |=
                    size == 0 && !matches!(value, SlotValue::None | SlotValue::Undefined);
                Memory::Frame(offset)
            }
            to => Memory::At(self.builder.node(to)?, (size != 0).then_some(0)),
        };
        self.store(op, memory, size, value)
    }

    /// An instruction that is not modelled: each written operand may hold all read ones.
    fn other(&mut self, at: usize, op: &Op, t: &Transfer) -> FlowResult<()> {
        // An instruction may write only a part of a register, or all of it from flags (`sbb %ebx, %ebx`).
        let is_set = |slot: &RegisterId| {
            t.writes.iter().any(|(to, _)| to == slot) && t.loads.is_empty() && t.stores.is_empty()
        };
        let read: Vec<&RegisterId> = t.reads.iter().filter(|slot| **slot != RSP && **slot < XMM0).collect();
        let mut parts = Vec::with_capacity(t.reads.len());
        for slot in &t.reads {
            let value = match self.get(*slot) {
                SlotValue::Saved(_) if read.len() == 1 && is_set(slot) => SlotValue::None,
                value => self.computed(op, value)?,
            };
            self.builder.expose(value, op.exposure)?;
            parts.push(value);
        }
        if t.immediate {
            let value = self.immediate(op);
            self.builder.expose(value, op.exposure)?;
            parts.push(value);
        }
        for (i, address) in (70u8..).zip(&t.loads) {
            let memory = self.address(at, op, address)?;
            let value = self.load(ValueKey::Op(at, i), memory, address.size)?;
            let value = self.taken_back(op, memory, None, value)?;
            let value = self.computed(op, value)?;
            self.builder.expose(value, op.exposure)?;
            parts.push(value);
        }
        // The registers of an address are not operands of the result, but the lists do not separate the two.
        let writes_rsp = t.writes.iter().any(|(slot, _)| *slot == RSP);
        parts.retain(|v| !matches!(v, SlotValue::None | SlotValue::Undefined));
        let is_address = |a: &Address| a.size == 0 || a.size >= 8;
        if t.leaves {
            parts.clear();
            if !t.writes.is_empty() || t.stores.iter().any(is_address) {
                parts.push(SlotValue::Node(self.builder.unknown(), 0));
            }
        }
        let flows = !t.writes.is_empty() || !t.stores.is_empty();
        let offset = t.moves.then_some(0);
        let value = if flows { self.join_at(ValueKey::Op(at, 80), parts, offset)? } else { SlotValue::None };
        for address in &t.stores {
            let memory = self.address(at, op, address)?;
            if let Memory::Frame(_) = memory
                && address.size == 0
            {
                self.builder.copy_to_frame = true;
            }
            self.store(op, memory, address.size, value)?;
        }
        for (slot, whole) in &t.writes {
            let new = match whole {
                true => value,
                false => match self.get(*slot) {
                    SlotValue::Saved(_) | SlotValue::None | SlotValue::Undefined => value,
                    old => self.join_at(ValueKey::Op(at, *slot), [old, value], offset)?,
                },
            };
            if *slot != RSP {
                self.set(*slot, new);
            }
        }
        if writes_rsp && (t.writes.len() > 1 || !t.stores.is_empty()) {
            return Err(format!("the stack pointer is exchanged at {:#x}", op.offset));
        }
        if writes_rsp {
            // Dynamic allocation: the new stack pointer is at an unknown place in the frame.
            let unknown = self.builder.somewhere_in_frame();
            self.set(RSP, SlotValue::Node(unknown, 0));
        }
        Ok(())
    }

    /// A value that holds each of these at an unknown offset.
    pub(super) fn join(
        &mut self,
        key: ValueKey,
        parts: impl IntoIterator<Item = SlotValue>,
    ) -> FlowResult<SlotValue> {
        self.join_at(key, parts, None)
    }

    /// A value that holds each of these, displaced.
    pub(super) fn join_at(
        &mut self,
        key: ValueKey,
        parts: impl IntoIterator<Item = SlotValue>,
        offset: Option<i64>,
    ) -> FlowResult<SlotValue> {
        let mut result = SlotValue::None;
        for part in parts {
            match part {
                SlotValue::None | SlotValue::Undefined | SlotValue::Saved(_) => continue,
                part => {
                    let to = self.builder.value(key);
                    self.builder.flow(part, to, offset)?;
                    result = SlotValue::Node(to, 0);
                }
            }
        }
        Ok(result)
    }
}
