//! What each instruction does to the state, and the constraints that it makes.
//!
//! The walk runs twice over a function: first to a fixpoint of the states, when constraints are thrown away, then once
//! through every block to keep them. Values are made by key (instruction and place in it), so that both walks mean the
//! same. Whatever combines several addresses makes a value that holds each of them at an unknown offset.

use super::builder::{Builder, Call, Key};
use super::state::{State, Val};
use super::unit::{Destination, Meaning, Op, Refusal, Unit};
use crate::ids::ValueIdx;
use crate::native::decode::Flow;
use crate::native::decode::effects::{
    Address, Effect, FIRST_VECTOR, MASKS, Operand, RBP, RSP, SLOTS, Slot, Transfer, X87,
};
use crate::native::flow::Module;
use crate::relation::Callee;
use crate::summary::Target;

/// rax, rcx, rdx, rsi, rdi, r8 to r11: what a callee may clobber.
const CLOBBERED: u64 = 0b1111_1100_0111;
/// rcx, rdx, rsi, rdi, r8, r9 and r10 (the static chain).
const ARGUMENTS: u64 = 0b111_1100_0110;
/// Registers that carry a result.
pub(super) const RESULTS: [Slot; 4] = [0, 2, FIRST_VECTOR, FIRST_VECTOR + 1];
/// rsp, and what a callee saves.
const SAVED: [Slot; 6] = [3, 5, 12, 13, 14, 15];

/// What an operand in memory comes to.
#[derive(Debug, Clone, Copy)]
enum Memory {
    Frame(i64),
    /// A value, and the displacement if it is known.
    At(ValueIdx, Option<i64>),
    Tls,
    Got(Val),
    /// No address goes into it.
    Nowhere,
}

pub(super) struct Walk<'u, 'm, 'a, 't> {
    pub(super) unit: &'u Unit,
    pub(super) module: &'m Module<'a, 't>,
    pub(super) builder: &'u mut Builder,
    /// The function may write where its return address lies, or return to what it pushed.
    pub(super) returns_elsewhere: bool,
}

/// Where control goes from the end of a block, besides to the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leaves {
    /// To the next instruction only.
    Falls,
    /// To this instruction, and to the next one if that is said.
    To(usize, bool),
    /// To every label.
    Labels,
    /// Nowhere in the function.
    Ends,
}

/// The state in which a function is entered.
pub(super) fn at_entry(builder: &mut Builder) -> State {
    let mut state = State::unreached();
    state.stale = 0;
    for slot in 0..SLOTS as Slot {
        let value = match slot {
            RSP => Val::Frame(0),
            X87 | MASKS => Val::None,
            // rax and r11 pass nothing but the number of vector registers; xmm8 and on are scratch.
            0 | 11 | 24..X87 => Val::Saved,
            slot if SAVED.contains(&slot) => Val::Saved,
            slot => Val::Node(builder.value(Key::Parameter(slot)), 0),
        };
        state.set(slot, value);
    }
    state
}

impl Walk<'_, '_, '_, '_> {
    /// Go through one instruction.
    pub(super) fn step(&mut self, at: usize, op: &Op, state: &mut State) -> Result<Leaves, Refusal> {
        let strange = |what: &str| Err(format!("{what} at {:#x}", op.offset));
        if op.tls_call {
            state.set(0, Val::Node(self.builder.unknown(), 0));
            return Ok(Leaves::Falls);
        }
        // What a relocation puts in a constant is an address like any other.
        let by_relocation = op.immediate != Meaning::Absent;
        match &op.effect {
            Effect::Nothing | Effect::Padding => {}
            Effect::Add { to, .. } | Effect::Align { to } if by_relocation => {
                let values = [state.get(*to), self.immediate(op)];
                let joined = self.join(Key::Op(at, *to), values)?;
                state.set(*to, joined);
            }
            Effect::Move { to, from } => {
                let value = self.operand(at, op, state, *from)?;
                self.assign(at, op, state, *to, value, *from)?;
            }
            Effect::Lea { to, from } => {
                let value = match self.address(at, op, state, from)? {
                    Memory::Frame(o) => Val::Frame(o),
                    Memory::At(node, Some(o)) => self.builder.as_value(node, o),
                    Memory::At(node, None) => self.join(Key::Op(at, 60), [Val::Node(node, 0)])?,
                    Memory::Nowhere | Memory::Tls => Val::None,
                    Memory::Got(_) => return strange("the address of an entry of the offset table"),
                };
                state.set(*to, value);
            }
            Effect::Add { to, by } => {
                // A compiler that computes with what it never set computes something dead.
                let value = state.get(*to).plus(*by);
                state.set(*to, if value == Val::Saved { Val::None } else { value });
            }
            Effect::Align { to } => {
                let value = match state.get(*to) {
                    Val::Saved => Val::None,
                    Val::Frame(_) => Val::Node(self.builder.somewhere_in_frame(), 0),
                    value => self.join(Key::Op(at, *to), [value])?,
                };
                state.set(*to, value);
            }
            Effect::Zero { to } => state.set(*to, Val::None),
            Effect::Push(from) => {
                let value = self.operand(at, op, state, *from)?;
                state.pushed |= value != Val::Saved;
                self.push(state, value)?;
            }
            Effect::Pop(to) => {
                let value = self.pop(at, state)?;
                if *to != RSP {
                    state.set(*to, value);
                }
            }
            Effect::Leave => {
                let rbp = state.get(RBP);
                state.set(RSP, rbp);
                let value = self.pop(at, state)?;
                state.set(RBP, value);
            }
            Effect::StringMove { size } => self.string_move(at, state, *size)?,
            Effect::Other(transfer) => self.other(at, op, state, transfer)?,
            Effect::System => {
                for slot in (0..16).filter(|s| *s != RSP) {
                    let value = state.get(slot);
                    if value != Val::Saved {
                        self.builder.escape(value)?;
                    }
                }
                let unknown = self.builder.unknown();
                state.set(0, Val::Node(unknown, 0));
                state.set(1, Val::None);
                state.set(11, Val::None);
            }
            Effect::Strange => return strange("an instruction that is not modelled"),
            Effect::Stop => return Ok(Leaves::Ends),
            Effect::Jump => return self.jump(at, op, state),
            Effect::Call => return self.call(at, op, state),
            Effect::CallThrough(from) => {
                let callee = match self.operand(at, op, state, *from)? {
                    Val::Place(target, offset) => match self.builder.target(target) {
                        Some((target, start)) => Callee::Direct { target, offset: start + offset },
                        None => return strange("a call of nothing"),
                    },
                    // Through what holds no address: nothing is ever called.
                    Val::None | Val::Undefined => return Ok(Leaves::Falls),
                    value => Callee::Indirect(self.builder.node(value)?),
                };
                self.site(at, op, state, callee, true)?;
            }
            Effect::JumpThrough(from) => {
                let value = self.operand(at, op, state, *from)?;
                // In a frame of its own a function can't be left by a jump: it is to a label.
                let leaves = !matches!(state.get(RSP), Val::Frame(o) if o != 0);
                if leaves && !matches!(value, Val::None | Val::Undefined) {
                    self.tail(at, op, state, value)?;
                }
                return Ok(Leaves::Labels);
            }
            Effect::Return => return self.ret(at, op, state),
        }
        Ok(Leaves::Falls)
    }

    fn immediate(&mut self, op: &Op) -> Val {
        match op.immediate {
            Meaning::Place(target, offset) => self.builder.place(target, offset),
            _ => Val::None,
        }
    }

    fn operand(&mut self, at: usize, op: &Op, state: &State, from: Operand) -> Result<Val, Refusal> {
        match from {
            Operand::Slot(slot) => Ok(state.get(slot)),
            Operand::Immediate => Ok(self.immediate(op)),
            Operand::Memory(address) => {
                let memory = self.address(at, op, state, &address)?;
                self.load(Key::Op(at, 61), memory, address.size)
            }
        }
    }

    fn assign(
        &mut self,
        at: usize,
        op: &Op,
        state: &mut State,
        to: Operand,
        value: Val,
        from: Operand,
    ) -> Result<(), Refusal> {
        match to {
            Operand::Slot(slot @ (X87 | MASKS)) => {
                let joined = self.join(Key::Op(at, slot), [state.get(slot), value])?;
                state.set(slot, joined);
            }
            Operand::Slot(slot) => {
                // A move of part of a register to a wider one is of its value; from a stale register it is a use.
                let _ = from;
                state.set(slot, value);
            }
            Operand::Memory(address) => {
                let memory = self.address(at, op, state, &address)?;
                self.store(state, memory, address.size, value)?;
            }
            Operand::Immediate => {}
        }
        Ok(())
    }

    /// What a memory operand means.
    fn address(&mut self, at: usize, op: &Op, state: &State, address: &Address) -> Result<Memory, Refusal> {
        if address.segment {
            return Ok(Memory::Tls);
        }
        let meaning = if address.field { op.displacement } else { Meaning::Absent };
        let mut parts: [Val; 3] = [Val::None; 3];
        match meaning {
            Meaning::Got(symbol) => {
                return Ok(Memory::Got(self.builder.place(Target::Symbol(symbol), 0)));
            }
            Meaning::Tls if address.relative => return Ok(Memory::Nowhere),
            Meaning::Tls | Meaning::Absent => {}
            Meaning::Place(target, offset) => parts[0] = self.builder.place(target, offset),
        }
        if address.relative && meaning == Meaning::Absent {
            let place = u64::try_from(address.displacement).ok();
            let Some((atom, offset)) = place.and_then(|p| self.module.place(op.section, p)) else {
                return Err(format!("an operand at {:#x} leads outside", op.offset));
            };
            parts[0] = self.builder.place(Target::Atom(atom), offset as i64);
        }
        if let Some(base) = address.base {
            parts[1] = state.get(base);
        }
        if let Some(index) = address.index {
            parts[2] = state.get(index);
        }
        if parts.contains(&Val::Saved) {
            return Err(format!("the caller's register is used at {:#x}", op.offset));
        }
        let constant = match meaning {
            Meaning::Absent if !address.relative => address.displacement,
            _ => 0,
        };
        let is_address = |v: &&Val| !matches!(v, Val::None | Val::Undefined);
        let registers = usize::from(address.base.is_some()) + usize::from(address.index.is_some());
        let single = parts.iter().filter(is_address).count() == 1;
        let Some(first) = parts.iter().find(is_address).copied() else { return Ok(Memory::Nowhere) };
        // Exact if nothing is added but constants.
        let exact = address.index.is_none()
            && single
            && meaning != Meaning::Tls
            && (registers == 0 || parts[0] == Val::None);
        if exact {
            return Ok(match first.plus(constant) {
                Val::Frame(o) => Memory::Frame(o),
                Val::Node(node, o) => Memory::At(node, Some(o)),
                value => Memory::At(self.builder.node(value)?, Some(0)),
            });
        }
        if single {
            return Ok(Memory::At(self.builder.node(first)?, None));
        }
        match self.join(Key::Op(at, 62 + u8::from(!address.field)), parts)? {
            Val::Node(node, _) => Ok(Memory::At(node, None)),
            _ => Ok(Memory::Nowhere),
        }
    }

    fn load(&mut self, key: Key, memory: Memory, size: u32) -> Result<Val, Refusal> {
        Ok(match memory {
            Memory::Frame(offset) => {
                let to = self.builder.value(key);
                self.builder.load_cell(offset, size, to);
                Val::Node(to, 0)
            }
            Memory::At(from, offset) => {
                let to = self.builder.value(key);
                self.builder.load(from, offset, size, to);
                Val::Node(to, 0)
            }
            Memory::Tls => Val::Node(self.builder.unknown(), 0),
            Memory::Got(value) => value,
            Memory::Nowhere => Val::None,
        })
    }

    fn store(&mut self, state: &mut State, memory: Memory, size: u32, value: Val) -> Result<(), Refusal> {
        match memory {
            Memory::Frame(offset) => {
                self.returns_elsewhere |= size == 0 || offset < 8 && offset + i64::from(size) > 0;
                if !matches!(value, Val::None | Val::Undefined) {
                    for cell in cells(offset, size) {
                        state.pending.insert(cell);
                    }
                }
                self.builder.store_cell(offset, size, value)
            }
            Memory::At(to, offset) => self.builder.store(value, to, offset, size),
            Memory::Tls => self.builder.escape(value),
            Memory::Got(_) => Err("a store into the offset table".to_owned()),
            Memory::Nowhere => Ok(()),
        }
    }

    fn push(&mut self, state: &mut State, value: Val) -> Result<(), Refusal> {
        let rsp = state.get(RSP).plus(-8);
        state.set(RSP, rsp);
        let memory = self.stack(rsp)?;
        self.store(state, memory, 8, value)
    }

    fn pop(&mut self, at: usize, state: &mut State) -> Result<Val, Refusal> {
        let rsp = state.get(RSP);
        let memory = self.stack(rsp)?;
        state.set(RSP, rsp.plus(8));
        self.load(Key::Op(at, 63), memory, 8)
    }

    fn stack(&mut self, rsp: Val) -> Result<Memory, Refusal> {
        match rsp {
            Val::Frame(o) => Ok(Memory::Frame(o)),
            Val::Node(node, o) => Ok(Memory::At(node, Some(o))),
            _ => Err("the stack pointer is lost".to_owned()),
        }
    }

    fn string_move(&mut self, at: usize, state: &mut State, size: u32) -> Result<(), Refusal> {
        let (from, to) = (state.get(6), state.get(7));
        for (slot, value) in [(6, from), (7, to)] {
            let next = match value {
                Val::Frame(_) => Val::Node(self.builder.somewhere_in_frame(), 0),
                value => self.join(Key::Op(at, slot), [value])?,
            };
            state.set(slot, next);
        }
        self.builder.copy_to_frame |= !matches!(to, Val::Place(..));
        let is_address = |v: Val| !matches!(v, Val::None | Val::Undefined);
        if is_address(from) && is_address(to) {
            let (from, to) = (self.builder.node(from)?, self.builder.node(to)?);
            self.builder.copy(from, to, size);
        }
        Ok(())
    }

    /// An instruction that is not told apart: all that it writes may hold all that it reads.
    fn other(&mut self, at: usize, op: &Op, state: &mut State, t: &Transfer) -> Result<(), Refusal> {
        let mut parts: Vec<Val> = t.reads.iter().map(|slot| state.get(*slot)).collect();
        if t.immediate {
            parts.push(self.immediate(op));
        }
        for (i, address) in (70u8..).zip(&t.loads) {
            let memory = self.address(at, op, state, address)?;
            parts.push(self.load(Key::Op(at, i), memory, address.size)?);
        }
        // Registers of an address are no operands of the result; but telling them apart needs more than a list.
        let writes_rsp = t.writes.iter().any(|(slot, _)| *slot == RSP);
        parts.retain(|v| !matches!(v, Val::None | Val::Undefined | Val::Saved));
        let flows = !t.writes.is_empty() || !t.stores.is_empty();
        let offset = t.moves.then_some(0);
        let value = if flows { self.join_at(Key::Op(at, 80), parts, offset)? } else { Val::None };
        for address in &t.stores {
            let memory = self.address(at, op, state, address)?;
            if let Memory::Frame(_) = memory
                && address.size == 0
            {
                self.builder.copy_to_frame = true;
            }
            self.store(state, memory, address.size, value)?;
        }
        for (slot, whole) in &t.writes {
            let new = match whole {
                true => value,
                false => match state.get(*slot) {
                    Val::Saved | Val::None | Val::Undefined => value,
                    old => self.join_at(Key::Op(at, *slot), [old, value], offset)?,
                },
            };
            if *slot != RSP {
                state.set(*slot, new);
            }
        }
        if writes_rsp {
            // Dynamic allocation: wherever it points now, it is in the frame.
            let unknown = self.builder.somewhere_in_frame();
            state.set(RSP, Val::Node(unknown, 0));
        }
        Ok(())
    }

    /// A value that holds each of these at an unknown offset.
    fn join(&mut self, key: Key, parts: impl IntoIterator<Item = Val>) -> Result<Val, Refusal> {
        self.join_at(key, parts, None)
    }

    /// A value that holds each of these, displaced.
    fn join_at(
        &mut self,
        key: Key,
        parts: impl IntoIterator<Item = Val>,
        offset: Option<i64>,
    ) -> Result<Val, Refusal> {
        let mut result = Val::None;
        for part in parts {
            match part {
                Val::None | Val::Undefined => continue,
                Val::Saved => return Err("the caller's register is used".to_owned()),
                part => {
                    let to = self.builder.value(key);
                    self.builder.flow(part, to, offset)?;
                    result = Val::Node(to, 0);
                }
            }
        }
        Ok(result)
    }

    fn jump(&mut self, at: usize, op: &Op, state: &mut State) -> Result<Leaves, Refusal> {
        let falls = op.flow != Flow::Jump;
        match self.unit.destination(self.module, op)? {
            Destination::Inner(to) => Ok(Leaves::To(to, falls)),
            Destination::Outer(target, offset) => {
                if state.get(RSP) != Val::Frame(0) {
                    self.builder.entered_in_frame.push((target, offset));
                    return Err(format!("a jump out of the frame at {:#x}", op.offset));
                }
                self.site(at, op, &mut state.clone(), Callee::Direct { target, offset }, false)?;
                Ok(if falls { Leaves::Falls } else { Leaves::Ends })
            }
        }
    }

    /// A jump to wherever a value leads.
    fn tail(&mut self, at: usize, op: &Op, state: &State, value: Val) -> Result<(), Refusal> {
        let callee = match value {
            Val::Saved => return Err(format!("a jump to what the caller left at {:#x}", op.offset)),
            Val::Place(number, offset) => match self.builder.target(number) {
                Some((target, start)) => Callee::Direct { target, offset: start + offset },
                None => return Ok(()),
            },
            value => Callee::Indirect(self.builder.node(value)?),
        };
        self.site(at, op, &mut state.clone(), callee, false)
    }

    fn ret(&mut self, at: usize, op: &Op, state: &mut State) -> Result<Leaves, Refusal> {
        let elsewhere = match state.get(RSP) {
            Val::Frame(0) => self.returns_elsewhere.then_some(Memory::Frame(0)),
            Val::Frame(o) => Some(Memory::Frame(o)),
            _ => None,
        };
        if let Some(slot) = elsewhere {
            self.returns_elsewhere = true;
            let value = self.load(Key::Op(at, 63), slot, 8)?;
            let rsp = state.get(RSP);
            state.set(RSP, rsp.plus(8));
            self.tail(at, op, state, value)?;
            self.results(state)?;
            return Ok(Leaves::Labels);
        }
        self.results(state)?;
        Ok(Leaves::Ends)
    }

    fn results(&mut self, state: &State) -> Result<(), Refusal> {
        for slot in RESULTS {
            let value = state.get(slot);
            if value != Val::Saved && !state.is_stale(slot) {
                let to = self.builder.value(Key::Result(slot));
                self.builder.flow(value, to, Some(0))?;
            }
        }
        Ok(())
    }

    fn call(&mut self, at: usize, op: &Op, state: &mut State) -> Result<Leaves, Refusal> {
        let (target, offset) = match self.unit.destination(self.module, op)? {
            Destination::Inner(to) => {
                // A call to get at the instruction pointer, or on the way to an indirect jump: it pushes a label.
                let label = self.builder.place(Target::Atom(op.atom), op.end as i64);
                self.push(state, label)?;
                return Ok(Leaves::To(to, true));
            }
            Destination::Outer(target, offset) => (target, offset),
        };
        if self.module.preserves_all(target) {
            return Ok(Leaves::Falls);
        }
        if self.module.is_tls_get_addr(target) {
            let unknown = self.builder.unknown();
            state.set(0, Val::Node(unknown, 0));
            return Ok(Leaves::Falls);
        }
        self.site(at, op, state, Callee::Direct { target, offset }, true)?;
        Ok(Leaves::Falls)
    }

    /// A call site; `returns`: the callee comes back here, else to this function's caller.
    fn site(
        &mut self,
        at: usize,
        op: &Op,
        state: &mut State,
        callee: Callee,
        returns: bool,
    ) -> Result<(), Refusal> {
        let local = matches!(callee, Callee::Direct { target, .. } if self.module.is_local(target));
        // Between modules, and through pointers, functions are called by the psABI.
        let by_convention = !local && (returns || matches!(callee, Callee::Direct { .. }));
        let mut actuals = Vec::new();
        for slot in (0..X87).filter(|s| *s != RSP) {
            let passes = match slot {
                0..16 if by_convention => ARGUMENTS & (1 << slot) != 0 && !state.is_stale(slot),
                0..16 => CLOBBERED & (1 << slot) != 0,
                slot if by_convention => slot < FIRST_VECTOR + 8 && !state.is_stale(slot),
                _ => true,
            };
            let value = state.get(slot);
            if passes && !matches!(value, Val::None | Val::Undefined | Val::Saved) {
                actuals.push((slot, self.builder.node(value)?));
            }
        }
        let rsp = match state.get(RSP) {
            Val::Frame(o) if returns => Some(o - 8),
            Val::Frame(o) => Some(o),
            _ => None,
        };
        let mut results = Vec::new();
        for slot in RESULTS {
            let to = self.builder.value(Key::Op(at, 90 + slot));
            results.push((slot, to));
            if !returns {
                let own = self.builder.value(Key::Result(slot));
                self.builder.flow(Val::Node(to, 0), own, Some(0))?;
            }
        }
        self.builder.call(Call {
            section: op.section,
            offset: op.offset,
            callee,
            jump: !returns && matches!(callee, Callee::Indirect(_)),
            tail: !returns,
            actuals,
            rsp,
            pending: state.pending.clone(),
            results: results.clone(),
        });
        if !returns {
            return Ok(());
        }
        for (slot, to) in results {
            // A callee of the same object that leaves the register alone may be known to.
            let before = state.get(slot);
            if local && before != Val::Saved {
                self.builder.flow(before, to, Some(0))?;
            }
            state.set(slot, Val::Node(to, 0));
        }
        if !local {
            let results = RESULTS.iter().fold(0u64, |mask, slot| mask | 1 << slot);
            let vectors = ((1u64 << 32) - 1) << FIRST_VECTOR;
            state.stale |= (CLOBBERED | vectors) & !results;
        }
        if !self.module.may_be_inside_arguments(callee) {
            state.pending = super::state::Pending::default();
            state.pushed = false;
        }
        Ok(())
    }
}

/// The cells that `size` bytes at an offset touch.
pub(super) fn cells(offset: i64, size: u32) -> impl Iterator<Item = i64> {
    let first = offset.div_euclid(8);
    let last = offset.saturating_add(i64::from(size.max(1)) - 1).div_euclid(8);
    (first..=last).map(|cell| cell * 8)
}
