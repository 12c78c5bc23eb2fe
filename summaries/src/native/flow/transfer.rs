//! What each instruction does to the state, and the constraints that it makes.
//!
//! The walk runs twice over a function: first to a fixpoint of the states, when constraints are thrown away, then once
//! through every block to keep them. Values are made by key (instruction and place in it), so that both walks mean the
//! same. Whatever combines several addresses makes a value that holds each of them at an unknown offset.

use super::builder::ValueKey;
use super::memory::Memory;
use super::state::{RegisterState, SlotValue};
use super::taint::Taint;
use super::unit::{FlowResult, Op, RelocatedOperand};
use super::walker::{BlockExit, BlockWalker};
use crate::exposure::Exposure;
use crate::native::decode::effects::{FLAGS, InstructionEffect, Operand, RegisterId, Transfer, UNPASSED};
use crate::registers::{R11, RAX, RBP, RCX, RDI, RSI, RSP};
use crate::summary::Target;

impl BlockWalker<'_, '_, '_, '_> {
    /// Go through one instruction, and say where control leaves it to.
    pub(super) fn step(&mut self, at: usize, op: &Op, state: &mut RegisterState) -> FlowResult<BlockExit> {
        let strange = |what: &str| Err(format!("{what} at {:#x}", op.offset));
        if op.tls_call {
            state.set(RAX, SlotValue::Node(self.builder.unknown(), 0));
            return Ok(BlockExit::Falls);
        }
        // What a relocation puts in a constant is an address like any other.
        let by_relocation = op.immediate != RelocatedOperand::Absent;
        match &op.effect {
            InstructionEffect::Nothing | InstructionEffect::Compare { .. } => {
                // Compared or fetched: the address is met, and nothing comes of it.
                for operand in [op.displacement, op.immediate] {
                    match operand {
                        RelocatedOperand::Place(target, offset) => self.builder.place(target, offset),
                        RelocatedOperand::Got(symbol) => self.builder.place(Target::Symbol(symbol), 0),
                        RelocatedOperand::Tls | RelocatedOperand::Absent => SlotValue::None,
                    };
                }
                if let InstructionEffect::Compare { with } = &op.effect {
                    if op.exposure != Exposure::Nothing
                        && let Some(address) = with
                    {
                        let value = self.operand(at, op, state, Operand::Memory(*address))?;
                        self.builder.expose(value, op.exposure)?;
                    }
                    state.set(FLAGS, SlotValue::None);
                }
            }
            InstructionEffect::Keep if by_relocation => return strange("an address added to memory"),
            InstructionEffect::Padding | InstructionEffect::Keep => {}
            InstructionEffect::Add { to, .. } | InstructionEffect::Align { to } if by_relocation => {
                let values = [state.get(*to), self.immediate(op)];
                let joined = self.join(ValueKey::Op(at, *to), values)?;
                state.set(*to, joined);
            }
            InstructionEffect::Move { to, from } => {
                let value = self.operand(at, op, state, *from)?;
                self.builder.expose(value, op.exposure)?;
                let taint = self.moves(at, op, state, (*to, *from))?;
                let back = self.puts_back(at, op, state, (*to, *from))?;
                // In another register what the caller left is a taint and no more.
                let is_moved = value == SlotValue::Saved && matches!(to, Operand::Register(_)) && to != from;
                self.assign(at, op, state, *to, if is_moved { SlotValue::None } else { value })?;
                if let Operand::Register(slot) = *to
                    && to != from
                {
                    state.taint_with(slot, taint);
                }
                back.into_iter().for_each(|slot| state.restored(slot));
            }
            InstructionEffect::Lea { to, from } => {
                let taint = self.taint_of_any(op, state, from.base.into_iter().chain(from.index));
                let index = from.index.map_or(SlotValue::None, |index| state.get(index));
                self.builder.expose(index, op.exposure)?;
                let value = match self.address(at, op, state, from)? {
                    Memory::Frame(o) => SlotValue::Frame(o),
                    Memory::At(node, Some(o)) => SlotValue::Node(node, o),
                    Memory::At(node, None) => self.join(ValueKey::Op(at, 60), [SlotValue::Node(node, 0)])?,
                    Memory::Guard | Memory::Number | Memory::Nowhere | Memory::Tls => SlotValue::None,
                    Memory::Got(_) => return strange("the address of an entry of the offset table"),
                };
                state.set(*to, value);
                state.taint_with(*to, taint.derived());
            }
            InstructionEffect::Add { to, by } => {
                let taint = self.taint_of(op, state, *to).derived();
                let value = state.get(*to).plus(*by);
                state.set(*to, if value == SlotValue::Saved { SlotValue::None } else { value });
                state.taint_with(*to, taint);
            }
            InstructionEffect::Align { to } => {
                self.builder.expose(state.get(*to), op.exposure)?;
                let taint = self.taint_of(op, state, *to).derived();
                let value = match state.get(*to) {
                    SlotValue::Saved => SlotValue::None,
                    SlotValue::Frame(_) => SlotValue::Node(self.builder.somewhere_in_frame(), 0),
                    value => self.join(ValueKey::Op(at, *to), [value])?,
                };
                state.set(*to, value);
                state.taint_with(*to, taint);
                // Nobody asks for a bit of the stack pointer.
                if *to != RSP {
                    state.set(FLAGS, value);
                }
            }
            InstructionEffect::Zero { to } => state.set(*to, SlotValue::None),
            InstructionEffect::Push(from) => {
                let value = self.operand(at, op, state, *from)?;
                let taint = self.taint_from(at, op, state, *from)?;
                state.pushed |= value != SlotValue::Saved;
                self.pushes(state, *from);
                self.push(state, value)?;
                self.moves_onto_stack(op, state, *from, taint)?;
            }
            InstructionEffect::Pop(RSP) => {
                return Err(format!("the stack pointer is popped at {:#x}", op.offset));
            }
            InstructionEffect::Pop(to) => {
                let back = self.pops(state, *to);
                let taint = self.pops_off_stack(op, state, *to)?;
                let value = self.pop(at, state)?;
                let written = state.written;
                state.set(*to, value);
                state.taint_with(*to, taint);
                if taint == Taint::Register(*to) {
                    state.written = written;
                }
                if back {
                    state.restored(*to);
                }
            }
            InstructionEffect::Leave => {
                let rbp = state.get(RBP);
                state.set(RSP, rbp);
                let taint = self.pops_off_stack(op, state, RBP)?;
                let value = self.pop(at, state)?;
                state.set(RBP, value);
                state.taint_with(RBP, taint);
            }
            InstructionEffect::StringMove { size } => self.string_move(at, op, state, *size)?,
            InstructionEffect::StringStore { size } => self.string_store(at, op, state, *size)?,
            InstructionEffect::Other(transfer) => self.other(at, op, state, transfer)?,
            InstructionEffect::System => {
                for slot in (0..16).filter(|s| *s != RSP) {
                    let value = state.get(slot);
                    if value != SlotValue::Saved {
                        self.builder.escape(value)?;
                    }
                    self.gives(op, state, slot)?;
                }
                let unknown = self.builder.unknown();
                state.set(RAX, SlotValue::Node(unknown, 0));
                state.set(RCX, SlotValue::None);
                state.set(R11, SlotValue::None);
            }
            InstructionEffect::Unmodelled => return strange("an instruction that is not modelled"),
            InstructionEffect::Stop => return Ok(BlockExit::Ends),
            InstructionEffect::Jump => return self.jump(at, op, state),
            InstructionEffect::Call => return self.call(at, op, state),
            InstructionEffect::CallThrough(from) => {
                let value = self.target(at, op, state, *from)?;
                return self.call_through(at, op, state, value);
            }
            InstructionEffect::JumpThrough(from) => {
                let value = self.target(at, op, state, *from)?;
                return self.jump_through(at, op, state, value);
            }
            InstructionEffect::Return => return self.ret(at, op, state),
        }
        Ok(BlockExit::Falls)
    }

    fn immediate(&mut self, op: &Op) -> SlotValue {
        match op.immediate {
            RelocatedOperand::Place(target, offset) => self.builder.place(target, offset),
            _ => SlotValue::None,
        }
    }

    /// Where an indirect call or jump leads.
    fn target(&mut self, at: usize, op: &Op, state: &RegisterState, from: Operand) -> FlowResult<SlotValue> {
        let value = self.operand(at, op, state, from)?;
        let taint = self.taint_from(at, op, state, from)?;
        self.refuse(op, taint != Taint::None)?;
        Ok(value)
    }

    fn taint_from(&mut self, at: usize, op: &Op, state: &RegisterState, from: Operand) -> FlowResult<Taint> {
        Ok(match from {
            Operand::Register(slot) => self.taint_of(op, state, slot),
            Operand::Memory(address) => {
                let memory = self.address(at, op, state, &address)?;
                self.taint_at(op, memory, address.size)
            }
            Operand::Immediate => Taint::None,
        })
    }

    fn operand(&mut self, at: usize, op: &Op, state: &RegisterState, from: Operand) -> FlowResult<SlotValue> {
        match from {
            Operand::Register(slot) => Ok(state.get(slot)),
            Operand::Immediate => Ok(self.immediate(op)),
            Operand::Memory(address) => {
                let memory = self.address(at, op, state, &address)?;
                self.load(ValueKey::Op(at, 61), memory, address.size)
            }
        }
    }

    fn assign(
        &mut self,
        at: usize,
        op: &Op,
        state: &mut RegisterState,
        to: Operand,
        value: SlotValue,
    ) -> FlowResult<()> {
        match to {
            Operand::Register(slot) => state.set(slot, value),
            Operand::Memory(address) => {
                let memory = self.address(at, op, state, &address)?;
                self.store(state, memory, address.size, value)?;
            }
            Operand::Immediate => {}
        }
        Ok(())
    }

    fn string_move(&mut self, at: usize, op: &Op, state: &mut RegisterState, size: u32) -> FlowResult<()> {
        let (from, to) = (state.get(RSI), state.get(RDI));
        self.uses(op, state, RSI, [SlotValue::None; 3])?;
        self.uses(op, state, RDI, [SlotValue::None; 3])?;
        self.next_piece(at, state, RSI)?;
        self.next_piece(at, state, RDI)?;
        self.builder.copy_to_frame |= !matches!(to, SlotValue::Place(..));
        let is_address = |v: SlotValue| !matches!(v, SlotValue::None | SlotValue::Undefined);
        // Memory at a number, on one side.
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

    /// The address where the next piece goes, or comes from.
    fn next_piece(&mut self, at: usize, state: &mut RegisterState, slot: RegisterId) -> FlowResult<()> {
        let next = match state.get(slot) {
            SlotValue::Frame(_) => SlotValue::Node(self.builder.somewhere_in_frame(), 0),
            value => self.join(ValueKey::Op(at, slot), [value])?,
        };
        state.set(slot, next);
        Ok(())
    }

    fn string_store(&mut self, at: usize, op: &Op, state: &mut RegisterState, size: u32) -> FlowResult<()> {
        self.uses(op, state, RAX, [SlotValue::None; 3])?;
        self.uses(op, state, RDI, [SlotValue::None; 3])?;
        let (value, to) = (state.get(RAX), state.get(RDI));
        self.next_piece(at, state, RDI)?;
        let memory = match to {
            SlotValue::None | SlotValue::Undefined | SlotValue::Saved => Memory::Number,
            SlotValue::Frame(offset) => {
                // How often, nobody needs to know where it is no address.
                self.builder.copy_to_frame |=
                    size == 0 && !matches!(value, SlotValue::None | SlotValue::Undefined);
                Memory::Frame(offset)
            }
            to => Memory::At(self.builder.node(to)?, (size != 0).then_some(0)),
        };
        self.store(state, memory, size, value)
    }

    /// An instruction that is not modelled: all that it writes may hold all that it reads.
    fn other(&mut self, at: usize, op: &Op, state: &mut RegisterState, t: &Transfer) -> FlowResult<()> {
        let back = self.all_put_back(at, op, state, t)?;
        let taints = self.moves_all(at, op, state, t)?;
        let mut parts: Vec<SlotValue> = t.reads.iter().map(|slot| state.get(*slot)).collect();
        // The instruction that put a bit into the flags has exposed what the bit is of.
        for slot in t.reads.iter().filter(|slot| **slot != FLAGS) {
            self.builder.expose(state.get(*slot), op.exposure)?;
        }
        if t.immediate {
            let value = self.immediate(op);
            self.builder.expose(value, op.exposure)?;
            parts.push(value);
        }
        if t.reads.contains(&UNPASSED) && state.written & 1 << UNPASSED == 0 {
            // What another function left there, by assembly: all that was ever put there has escaped.
            parts.push(SlotValue::Node(self.builder.unknown(), 0));
        }
        for (i, address) in (70u8..).zip(&t.loads) {
            let memory = self.address(at, op, state, address)?;
            let value = self.load(ValueKey::Op(at, i), memory, address.size)?;
            self.builder.expose(value, op.exposure)?;
            parts.push(value);
        }
        // Registers of an address are no operands of the result; but telling them apart needs more than a list.
        let writes_rsp = t.writes.iter().any(|(slot, _)| *slot == RSP);
        parts.retain(|v| !matches!(v, SlotValue::None | SlotValue::Undefined | SlotValue::Saved));
        let flows = !t.writes.is_empty() || !t.stores.is_empty();
        let offset = t.moves.then_some(0);
        let value = if flows { self.join_at(ValueKey::Op(at, 80), parts, offset)? } else { SlotValue::None };
        for address in &t.stores {
            let memory = self.address(at, op, state, address)?;
            if let Memory::Frame(_) = memory
                && address.size == 0
            {
                self.builder.copy_to_frame = true;
            }
            self.store(state, memory, address.size, value)?;
        }
        // Who takes it from there in another function takes anything that escaped.
        if t.writes.iter().any(|(slot, _)| *slot == UNPASSED) {
            self.builder.escape(value)?;
        }
        for ((slot, whole), taint) in t.writes.iter().zip(taints) {
            let new = match whole {
                true => value,
                false => match state.get(*slot) {
                    SlotValue::Saved | SlotValue::None | SlotValue::Undefined => value,
                    old => self.join_at(ValueKey::Op(at, *slot), [old, value], offset)?,
                },
            };
            if *slot != RSP {
                state.set(*slot, new);
                state.taint_with(*slot, taint);
            }
        }
        state.clobbered &= !back;
        if writes_rsp && (t.writes.len() > 1 || !t.stores.is_empty()) {
            return Err(format!("the stack pointer is exchanged at {:#x}", op.offset));
        }
        if writes_rsp {
            // Dynamic allocation: wherever it points now, it is in the frame.
            let unknown = self.builder.somewhere_in_frame();
            state.set(RSP, SlotValue::Node(unknown, 0));
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
    fn join_at(
        &mut self,
        key: ValueKey,
        parts: impl IntoIterator<Item = SlotValue>,
        offset: Option<i64>,
    ) -> FlowResult<SlotValue> {
        let mut result = SlotValue::None;
        for part in parts {
            match part {
                SlotValue::None | SlotValue::Undefined => continue,
                SlotValue::Saved => self.builder.caller_register_used()?,
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
