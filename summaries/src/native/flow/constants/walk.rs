//! What each instruction does to the integers at a point of a function.
//!
//! Whatever is not told apart leaves anything in what it writes. Addresses of the frame may be in the stack and frame pointers and
//! nowhere else, and an address from the global offset table may do nothing but be accessed: what is done with them otherwise is
//! *lost*, and then the frame has no homes, or the symbol may be accessed by anybody.

use rustc_hash::FxHashSet;

use super::Line;
use super::state::{Held, State, Value};
use crate::constant::{Cell, Comparison, Condition, Quantity, Source};
use crate::native::decode::effects::{Address, Effect, RBP, RSP, Segment, Slot};
use crate::native::decode::integers::{Act, From};
use crate::native::flow::Module;
use crate::native::flow::unit::{Meaning, Op};
use crate::summary::Target;

/// What a callee leaves as it was: rbx, rsp, rbp, r12 to r15.
const PRESERVED: u16 = 0b1111_0000_0011_1000;

/// What a comparison has left in the flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Flags {
    pub(super) quantity: Quantity,
    pub(super) bytes: u8,
    pub(super) with: u64,
}

impl Flags {
    pub(super) fn condition(self, comparison: Comparison) -> Condition {
        Condition { quantity: self.quantity, size: self.bytes, comparison, with: self.with }
    }
}

/// Where a memory operand leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Where {
    Frame(i64),
    Cell(Target, i64),
    /// The entry of the global offset table of this symbol.
    Table(Target),
    Elsewhere,
}

/// What is found out on the way, whatever the path.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The address of the frame goes elsewhere, or memory of it is accessed that is not told.
    pub(super) frame_is_lost: bool,
    /// The return address may be overwritten.
    pub(super) returns_elsewhere: bool,
    /// Symbols whose address goes elsewhere.
    pub(super) lost: FxHashSet<Target>,
    /// (instruction, offset, size) of stores to the frame.
    pub(super) stores: FxHashSet<(usize, i64, u32)>,
}

impl Found {
    pub(super) fn lose(&mut self, value: Value) {
        match value.held {
            Held::Frame(_) => self.frame_is_lost = true,
            Held::Address(target, _) => {
                self.lost.insert(target);
            }
            _ => {}
        }
    }
}

/// A store to memory that is not the frame.
pub(super) struct Stored {
    pub(super) cell: Cell,
    pub(super) value: Value,
}

pub(super) struct Walk<'w, 'm, 'a, 't> {
    pub(super) module: &'m Module<'a, 't>,
    /// By offset in the frame: where one instruction alone stores, and how much.
    pub(super) homes: &'w FxHashSet<(i64, u32)>,
    pub(super) found: &'w mut Found,
}

impl Walk<'_, '_, '_, '_> {
    /// Where a memory operand leads.
    pub(super) fn place(&self, op: &Op, state: &State, address: &Address) -> Where {
        if address.segment != Segment::None || address.index.is_some() {
            return Where::Elsewhere;
        }
        let meaning = if address.field { op.displacement } else { Meaning::Absent };
        match (meaning, address.base) {
            (Meaning::Place(target, offset), None) => Where::Cell(target, offset),
            (Meaning::Got(symbol), None) => Where::Table(Target::Symbol(symbol)),
            (Meaning::Absent, None) if address.relative => {
                let place = u64::try_from(address.displacement).ok();
                match place.and_then(|p| self.module.place(op.section, p)) {
                    Some((atom, offset)) => Where::Cell(Target::Atom(atom), offset as i64),
                    None => Where::Elsewhere,
                }
            }
            (Meaning::Absent, Some(base)) => match state.get(base).held {
                Held::Frame(offset) => Where::Frame(offset.wrapping_add(address.displacement)),
                Held::Address(target, offset) => {
                    Where::Cell(target, offset.wrapping_add(address.displacement))
                }
                _ => Where::Elsewhere,
            },
            _ => Where::Elsewhere,
        }
    }

    /// The value of an operand; only the lowest `bytes` of it count.
    pub(super) fn value(&self, op: &Op, state: &State, from: From, bytes: u8) -> Value {
        match from {
            From::Register(slot) => state.get(slot),
            From::Constant(_) if op.immediate != Meaning::Absent => Value::ANYTHING,
            From::Constant(value) => Value::all(Held::Constant(value)),
            From::Memory(address) => match self.place(op, state, &address) {
                Where::Frame(offset) => state.cell(offset, bytes),
                Where::Cell(target, offset) => {
                    Value::source(Source::Memory(Cell { target, offset, size: u32::from(bytes) }))
                }
                Where::Table(target) if bytes == 8 => Value::all(Held::Address(target, 0)),
                Where::Table(_) | Where::Elsewhere => Value::ANYTHING,
            },
        }
    }

    /// Go through an instruction that control does not leave the block by. `put` is told of stores that are no cells of the frame.
    pub(super) fn step(
        &mut self,
        (at, op, line): (usize, &Op, &Line),
        state: &mut State,
        flags: &mut Option<Flags>,
        mut put: impl FnMut(Stored),
    ) {
        self.look_at_addresses(op, line, state);
        let (act, integers) = (line.integers.act, &line.integers);
        let mut flags_now = if integers.flags { None } else { *flags };
        let before = state.clone();
        match act {
            Act::Move { to, from, bytes, signed, whole } => {
                let value = self.value(op, &before, from, bytes);
                let part = value.part(bytes, signed);
                if whole < 8 || part == Value::ANYTHING || signed != 0 {
                    self.found.lose(value);
                }
                if whole < 8 {
                    self.found.lose(before.get(to));
                }
                let frame = matches!(part.held, Held::Frame(_)) && !matches!(to, RSP | RBP);
                if frame {
                    self.found.lose(part);
                }
                state.set(to, Value { held: part.held, bytes: part.bytes.min(whole) });
            }
            Act::Store { to, from, bytes } => {
                let value = self.value(op, &before, from, bytes);
                self.found.lose(value);
                self.store((at, op), state, (&to, u32::from(bytes)), value.part(bytes, 0), &mut put);
            }
            Act::Mask { to, mask, bytes } => {
                let value = before.get(to);
                self.found.lose(value);
                let mask = if op.immediate == Meaning::Absent {
                    Some(crate::constant::cut(mask, bytes))
                } else {
                    None
                };
                let whole = if bytes >= 4 { 8 } else { bytes };
                let masked = mask.map_or(Value::ANYTHING, |mask| value.part(bytes, 0).masked(mask));
                state.set(to, Value { held: masked.held, bytes: masked.bytes.min(whole) });
                flags_now = self.compared(masked, Value::all(Held::Constant(0)), bytes);
            }
            Act::Compare { left, mask, right, bytes } => {
                let with = self.value(op, &before, right, bytes);
                let value = self.value(op, &before, left, bytes);
                let is_placed = op.immediate != Meaning::Absent;
                let masked = if mask == u64::MAX { value } else { value.part(bytes, 0).masked(mask) };
                flags_now = if is_placed { None } else { self.compared(masked, with, bytes) };
                // That two addresses are compared gives nobody one.
            }
            Act::Displace { to, from, by } => {
                let value = before.get(from);
                let placed = [op.displacement, op.immediate].iter().any(|m| *m != Meaning::Absent);
                let displaced = match value.held {
                    Held::Frame(offset) if !placed && matches!(to, RSP | RBP) => {
                        Value::all(Held::Frame(offset.wrapping_add(by)))
                    }
                    _ => {
                        self.found.lose(value);
                        Value::ANYTHING
                    }
                };
                state.set(to, displaced);
            }
            Act::Push { from } => {
                let value = self.value(op, &before, from, 8);
                self.found.lose(value);
                self.push((at, op), state, value);
            }
            Act::Pop { to } => self.pop(state, to),
            Act::Leave => {
                let frame = before.get(RBP);
                state.set(RSP, frame);
                self.pop(state, RBP);
            }
            Act::Other => {
                let all = matches!(
                    op.effect,
                    Effect::System | Effect::StringMove { .. } | Effect::StringStore { .. } | Effect::Strange
                );
                for slot in 0..16 {
                    let is_read = integers.reads & 1 << slot != 0 || all && !matches!(slot, RSP | RBP);
                    if is_read {
                        self.found.lose(before.get(slot));
                    }
                    // The kernel's results are in none of the decoder's tables.
                    let may_be_written = op.effect == Effect::System && !matches!(slot, RSP | RBP);
                    if may_be_written || integers.writes & 1 << slot != 0 {
                        self.found.lose(before.get(slot));
                        state.set(slot, Value::ANYTHING);
                    }
                }
                for (address, _, writes) in integers.accesses.iter().filter(|a| a.1 || a.2) {
                    match writes {
                        true => {
                            self.store((at, op), state, (address, address.size), Value::ANYTHING, &mut put)
                        }
                        false => self.read(op, &before, address),
                    }
                }
            }
        }
        *flags = flags_now;
    }

    /// Registers of addresses that are not told, and entries of the offset table that are not loaded.
    pub(super) fn look_at_addresses(&mut self, op: &Op, line: &Line, state: &State) {
        for (address, _, _) in &line.integers.accesses {
            let place = self.place(op, state, address);
            if place == Where::Elsewhere {
                for slot in [address.base, address.index].into_iter().flatten() {
                    self.found.lose(state.get(slot));
                }
            }
            let is_load =
                matches!(line.integers.act, Act::Move { bytes: 8, signed: 0, from: From::Memory(_), .. });
            if let (Where::Table(target), false) = (place, is_load) {
                self.found.lost.insert(target);
            }
            if place != Where::Elsewhere && address.size == 0 {
                for slot in [address.base, address.index].into_iter().flatten() {
                    self.found.lose(state.get(slot));
                }
            }
        }
    }

    /// What a comparison with a constant leaves.
    fn compared(&self, left: Value, right: Value, bytes: u8) -> Option<Flags> {
        let Held::Constant(with) = right.part(bytes, 0).held else { return None };
        match left.part(bytes, 0).held {
            Held::Of(quantity) if matches!(bytes, 1 | 2 | 4 | 8) => Some(Flags { quantity, bytes, with }),
            _ => None,
        }
    }

    fn read(&mut self, op: &Op, state: &State, address: &Address) {
        if let Where::Frame(_) = self.place(op, state, address)
            && address.size == 0
        {
            self.found.frame_is_lost = true;
        }
    }

    fn store(
        &mut self,
        (at, op): (usize, &Op),
        state: &mut State,
        (address, size): (&Address, u32),
        value: Value,
        put: &mut impl FnMut(Stored),
    ) {
        match self.place(op, state, address) {
            Where::Frame(offset) => self.store_to_frame(at, state, (offset, size), value),
            Where::Cell(target, offset) if size > 0 => {
                put(Stored { cell: Cell { target, offset, size }, value })
            }
            Where::Cell(target, _) | Where::Table(target) => {
                self.found.lost.insert(target);
            }
            Where::Elsewhere => {}
        }
    }

    fn store_to_frame(&mut self, at: usize, state: &mut State, (offset, size): (i64, u32), value: Value) {
        if size == 0 {
            self.found.frame_is_lost = true;
            return;
        }
        self.found.returns_elsewhere |= offset < 8 && offset.saturating_add(i64::from(size)) > 0;
        self.found.stores.insert((at, offset, size));
        state.clear(offset, i64::from(size));
        if value.held != Held::Anything && !value.is_address() && self.homes.contains(&(offset, size)) {
            state.cells.insert(offset, (size.min(8) as u8, value));
        }
    }

    fn push(&mut self, (at, _): (usize, &Op), state: &mut State, value: Value) {
        let Some(stack) = state.stack() else {
            self.found.frame_is_lost = true;
            return;
        };
        let offset = stack.wrapping_sub(8);
        state.set(RSP, Value::all(Held::Frame(offset)));
        self.store_to_frame(at, state, (offset, 8), value);
    }

    fn pop(&mut self, state: &mut State, to: Slot) {
        let Some(stack) = state.stack() else {
            self.found.frame_is_lost = true;
            self.found.lose(state.get(to));
            return state.set(to, Value::ANYTHING);
        };
        let value = state.cell(stack, 8);
        state.set(RSP, Value::all(Held::Frame(stack.wrapping_add(8))));
        state.set(to, value);
    }

    /// A call: what it passes has been looked at.
    pub(super) fn call(&mut self, state: &mut State) {
        self.gives_away(state);
        for slot in (0..16).filter(|s| PRESERVED & 1 << s == 0) {
            state.set(slot, Value::ANYTHING);
        }
        match state.stack() {
            // The callee's frame is there.
            Some(stack) => state.cells.retain(|at, _| *at >= stack),
            None => self.found.frame_is_lost = true,
        }
    }

    /// Control goes to code that is not seen here, which may look into every register.
    pub(super) fn gives_away(&mut self, state: &State) {
        for slot in 0..16 {
            let value = state.get(slot);
            if !(matches!(value.held, Held::Frame(_)) && matches!(slot, RSP | RBP)) {
                self.found.lose(value);
            }
        }
    }
}
