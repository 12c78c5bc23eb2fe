//! Constraint generation for one function: collects its constraints and turns them into its summary.
//!
//! Values are created by key, so that a second walk of the code creates the same ones. While the address of the frame does not escape,
//! the cells of the frame are values like registers, and their loads and stores are assignments. Otherwise the frame is an object in
//! memory. Dead values, which no store, call or result needs, are removed, and the others are renumbered.

use std::collections::BTreeSet;

use rustc_hash::{FxHashMap, FxHashSet};

use super::state::{Pending, SlotValue, StackEvent, cells};
use super::unit::FlowResult;
use crate::exposure::Exposure;
use crate::ids::{AtomIdx, ValueIdx};
use crate::native::decode::effects::{RegisterId, SLOTS};
use crate::registers::{self, PRESERVABLE, RAX, Register};
use crate::relation::{CallSite, Callee, Constraint, FormatArguments, FunctionSummary, Place};
use crate::summary::Target;

/// The maximum number of cells that a call passes by value. With more, the frame is an object, and the call passes the contents of that
/// object. In a large unoptimised function each call may pass nearly every cell, which takes calls times cells values.
const MAX_STACK_ARGUMENTS: usize = 64;

/// The number in [`ValueKey::Op`] of a value that was popped.
pub(super) const POPPED: u8 = 63;

/// The key of a value: the place in the function that defines it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum ValueKey {
    /// The content of a register at the function's entry.
    Parameter(u8),
    /// The content of a register at the function's return.
    Result(u8),
    /// The union of a register's different values at the start of a block.
    Join,
    /// Made by an instruction; the second number tells its values apart.
    Op(usize, u8),
    /// The address of a place in the frame, by its offset.
    Frame(i64),
    FrameSomewhere,
    Place(u32, i64),
    Displaced(ValueIdx, i64),
    Unknown,
    Cell(i64),
    /// The content, at a call, of a cell of a frame that is an object.
    CellForCallee(i64),
}

/// A call site before the frame is decided.
#[derive(Debug, Clone)]
pub(super) struct PendingCall {
    pub(super) section: u32,
    pub(super) offset: u64,
    pub(super) callee: Callee,
    pub(super) jump: bool,
    pub(super) no_vectors: bool,
    pub(super) formats: Vec<(Register, FormatArguments)>,
    /// It is a jump while the frame is there, to a label or out of the function.
    pub(super) in_frame: bool,
    /// The callee returns to this function's caller.
    pub(super) tail: bool,
    pub(super) actuals: Vec<(Register, ValueIdx)>,
    /// The callee's stack pointer at entry, from this function's.
    pub(super) rsp: Option<i64>,
    /// The block of the call, and its number among the events of the block.
    pub(super) event: (usize, usize),
    pub(super) results: Vec<(Register, ValueIdx)>,
}

impl PendingCall {
    /// The frame's cells that are passed, by their offset from the callee's stack pointer at entry. They are those that the function
    /// writes and never reads, and those written since the last call. `None` if there are more than [`MAX_STACK_ARGUMENTS`].
    fn stack_arguments(
        &self,
        stored: &[i64],
        loaded: &[i64],
        pending: impl FnOnce() -> Pending,
    ) -> Option<Vec<(i32, i64)>> {
        let Some(rsp) = self.rsp else { return Some(Vec::new()) };
        let above = stored.get(stored.partition_point(|cell| *cell < rsp + 8)..).unwrap_or(&[]);
        let is_loaded = |cell: &i64| loaded.binary_search(cell).is_ok();
        let written = if above.iter().any(is_loaded) { pending() } else { Pending::default() };
        let above = above.iter().filter(|cell| !is_loaded(cell) || written.has_cell(**cell));
        let passed: Vec<_> =
            above.map(|cell| ((*cell - rsp) as i32, *cell)).take(MAX_STACK_ARGUMENTS + 1).collect();
        (passed.len() <= MAX_STACK_ARGUMENTS).then_some(passed)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum RawConstraint {
    Plain(Constraint),
    LoadCell { offset: i64, size: u32, to: ValueIdx },
    StoreCell { from: ValueIdx, offset: i64, size: u32 },
}

#[derive(Default)]
pub(super) struct ConstraintBuilder {
    keys: FxHashMap<ValueKey, ValueIdx>,
    /// The key of each value, by the number of the value.
    pub(super) values: Vec<ValueKey>,
    targets: Vec<Target>,
    target_numbers: FxHashMap<Target, u32>,
    pub(super) raw: Vec<RawConstraint>,
    pub(super) calls: Vec<PendingCall>,
    /// By block: the events that determine the stack arguments of calls.
    pub(super) events: Vec<Vec<StackEvent>>,
    /// A frame that is an object escapes.
    pub(super) frame_escapes: bool,
    /// The states are final, so that the constraints of the walk are kept.
    pub(super) recording: bool,
    /// An instruction other than a plain store copies memory to a place that may be in the frame.
    pub(super) copy_to_frame: bool,
    /// Values that were loaded from memory outside of the frame, where this is known.
    pub(super) loaded: FxHashSet<ValueIdx>,
    /// The return address may be overwritten, by this function or by another one that has its address.
    pub(super) moves_return: bool,
    /// The place of a return to the caller, by that address.
    pub(super) return_at: Option<u64>,
    /// Places at an unknown offset in the frame where an address may be stored; each is a value and a displacement.
    pub(super) put_at: FxHashSet<(ValueIdx, Option<i64>)>,
    /// The stack pointers at the function's exits that are not known exactly.
    pub(super) stacks: BTreeSet<ValueIdx>,
    /// The registers that are written at some return, a bit each; `None` if the function never returns.
    pub(super) clobbered: Option<u64>,
    /// At some return rax has not been written since entry.
    pub(super) keeps_rax: bool,
    /// Places of the frame: some hold the entry value of rax, and rax is loaded from others. `None` is any place.
    pub(super) rax_saved: BTreeSet<Option<i64>>,
    pub(super) rax_loaded: BTreeSet<Option<i64>>,
    /// Cells of frames, by the function that each is of, in which registers were saved: a bit for each of those.
    saved: FxHashMap<(usize, i64), u64>,
    /// The registers that each function saves at places that are not known exactly, and those that it writes.
    saved_somewhere: FxHashMap<usize, u64>,
    written: FxHashMap<usize, u64>,
    /// Cells in which a value other than a saved register was stored.
    shared: FxHashSet<(usize, i64)>,
    /// The cells with saved registers that the function loads from.
    taken: FxHashSet<(usize, i64)>,
    /// Such a cell became shared, so the states must be recomputed.
    pub(super) grew: bool,
    /// The targets of jumps that leave the frame in place.
    pub(super) entered_in_frame: Vec<(Target, i64)>,
}

impl ConstraintBuilder {
    pub(super) fn value(&mut self, key: ValueKey) -> ValueIdx {
        let next = ValueIdx::new(self.values.len());
        let value = *self.keys.entry(key).or_insert(next);
        if value == next {
            self.values.push(key);
        }
        value
    }

    /// A new value that stands for a union of others.
    pub(super) fn fresh(&mut self) -> ValueIdx {
        self.values.push(ValueKey::Join);
        ValueIdx::new(self.values.len() - 1)
    }

    /// The key of a value, if the value exists.
    pub(super) fn key(&self, value: ValueIdx) -> Option<ValueKey> {
        self.values.get(value.index()).copied()
    }

    /// Whether a value comes from outside: passed by the caller, or loaded from memory outside of the frame.
    pub(super) fn is_foreign(&self, value: ValueIdx) -> bool {
        match self.values.get(value.index()) {
            Some(ValueKey::Parameter(_) | ValueKey::Unknown | ValueKey::Place(..)) => true,
            Some(ValueKey::Displaced(of, _)) => self.is_foreign(*of),
            _ => self.loaded.contains(&value),
        }
    }

    pub(super) fn unknown(&mut self) -> ValueIdx {
        let to = self.value(ValueKey::Unknown);
        self.add(Constraint::Unknown { to });
        to
    }

    pub(super) fn somewhere_in_frame(&mut self) -> ValueIdx {
        let to = self.value(ValueKey::FrameSomewhere);
        self.add(Constraint::Frame { to, offset: None });
        to
    }

    /// An address; offsets of places in an atom are from the start of its section.
    pub(super) fn place(&mut self, target: Target, offset: i64) -> SlotValue {
        let next = self.targets.len() as u32;
        let number = *self.target_numbers.entry(target).or_insert(next);
        if number == next {
            self.targets.push(target);
        }
        SlotValue::Place(number, offset)
    }

    pub(super) fn target(&self, number: u32) -> Option<Target> {
        self.targets.get(number as usize).copied()
    }

    /// Take every target whose address was an operand; none is left.
    pub(super) fn take_addressed(&mut self) -> Vec<Target> {
        std::mem::take(&mut self.targets)
    }

    /// A graph node for a value, with exactly its content.
    pub(super) fn node(&mut self, value: SlotValue) -> FlowResult<ValueIdx> {
        Ok(match value {
            SlotValue::Node(node, 0) => node,
            SlotValue::Node(node, offset) => {
                let to = self.value(ValueKey::Displaced(node, offset));
                self.add(Constraint::Assign { from: node, to, offset: Some(offset) });
                to
            }
            SlotValue::Frame(offset) => {
                self.moves_return |= offset == 0;
                let to = self.value(ValueKey::Frame(offset));
                self.add(Constraint::Frame { to, offset: Some(offset) });
                to
            }
            SlotValue::Place(number, offset) => {
                let to = self.value(ValueKey::Place(number, offset));
                if let Some(target) = self.target(number) {
                    self.add(Constraint::Address { to, target, offset });
                }
                to
            }
            SlotValue::None | SlotValue::Undefined | SlotValue::Saved(_) => {
                return Err("no address".to_owned());
            }
        })
    }

    /// `to` holds the value too, displaced.
    pub(super) fn flow(&mut self, value: SlotValue, to: ValueIdx, offset: Option<i64>) -> FlowResult<()> {
        match (value, offset) {
            _ if !self.recording => {}
            (SlotValue::None | SlotValue::Undefined | SlotValue::Saved(_), _) => {}
            (SlotValue::Frame(o), _) => {
                let offset = offset.map(|d| o.wrapping_add(d));
                self.moves_return |= offset == Some(0);
                self.add(Constraint::Frame { to, offset });
            }
            (SlotValue::Place(number, o), Some(d)) => {
                if let Some(target) = self.target(number) {
                    self.add(Constraint::Address { to, target, offset: o.wrapping_add(d) });
                }
            }
            (value, None) => {
                let from = self.node(value)?;
                self.add(Constraint::Assign { from, to, offset: None });
            }
            (SlotValue::Node(from, o), Some(d)) if from != to || o.wrapping_add(d) != 0 => {
                self.add(Constraint::Assign { from, to, offset: Some(o.wrapping_add(d)) });
            }
            (SlotValue::Node(..), Some(_)) => {}
        }
        Ok(())
    }

    pub(super) fn load(&mut self, from: ValueIdx, offset: Option<i64>, size: u32, to: ValueIdx) {
        self.add(Constraint::Load { from: Place { value: from, offset }, to, size });
    }

    pub(super) fn store(
        &mut self,
        value: SlotValue,
        to: ValueIdx,
        offset: Option<i64>,
        size: u32,
    ) -> FlowResult<()> {
        match value {
            _ if !self.recording => Ok(()),
            SlotValue::None | SlotValue::Undefined => Ok(()),
            value => {
                let from = self.node(value)?;
                self.add(Constraint::Store { from, to: Place { value: to, offset }, size });
                Ok(())
            }
        }
    }

    pub(super) fn copy(&mut self, from: ValueIdx, to: ValueIdx, size: u32) {
        let place = |value| Place { value, offset: Some(0) };
        self.add(Constraint::Copy { from: place(from), to: place(to), size });
    }

    pub(super) fn escape(&mut self, value: SlotValue) -> FlowResult<()> {
        match value {
            _ if !self.recording => Ok(()),
            SlotValue::None | SlotValue::Undefined => Ok(()),
            value => {
                let from = self.node(value)?;
                self.add(Constraint::Escape { from });
                Ok(())
            }
        }
    }

    /// Record that an instruction exposes the value. Frames hold no code, nor do the caller's registers.
    pub(super) fn expose(&mut self, value: SlotValue, exposure: Exposure) -> FlowResult<()> {
        match (exposure, value) {
            _ if !self.recording => Ok(()),
            (Exposure::Nothing, _) | (_, SlotValue::None | SlotValue::Undefined | SlotValue::Saved(_)) => {
                Ok(())
            }
            (Exposure::Code, SlotValue::Frame(_)) => Ok(()),
            (Exposure::Everything, value) => self.escape(value),
            (Exposure::Code, value) => {
                let from = self.node(value)?;
                self.add(Constraint::EscapeCode { from });
                Ok(())
            }
        }
    }

    pub(super) fn load_cell(&mut self, offset: i64, size: u32, to: ValueIdx) {
        self.push(RawConstraint::LoadCell { offset, size, to });
    }

    pub(super) fn store_cell(&mut self, offset: i64, size: u32, value: SlotValue) -> FlowResult<()> {
        match value {
            _ if !self.recording => Ok(()),
            SlotValue::None | SlotValue::Undefined => Ok(()),
            value => {
                let from = self.node(value)?;
                self.push(RawConstraint::StoreCell { from, offset, size });
                Ok(())
            }
        }
    }

    /// A register is saved in a cell of the frame of a function.
    pub(super) fn save(&mut self, place: (usize, i64), register: RegisterId) {
        *self.saved.entry(place).or_default() |= 1 << register;
    }

    /// A function saves the register somewhere in its frame.
    pub(super) fn save_somewhere(&mut self, function: usize, register: RegisterId) {
        *self.saved_somewhere.entry(function).or_default() |= 1 << register;
    }

    /// A function writes these registers, a bit each.
    pub(super) fn write(&mut self, function: usize, registers: u64) {
        *self.written.entry(function).or_default() |= registers;
    }

    /// Two sets of registers: those that a function may have restored, and those that it saves for a callee.
    pub(super) fn kept(&self, function: usize) -> (u64, u64) {
        let mut unsure = self.saved_somewhere.get(&function).copied().unwrap_or_default();
        let written = self.written.get(&function).copied().unwrap_or_default();
        let mut given = 0;
        for (place, registers) in self.saved.iter().filter(|(place, _)| place.0 == function) {
            if self.shared.contains(place) {
                unsure |= registers;
            }
            if !self.taken.contains(place) {
                given |= registers & !written;
            }
        }
        (unsure, given)
    }

    /// Record a store to a cell of a value other than a saved register.
    pub(super) fn share_cell(&mut self, place: (usize, i64)) {
        self.grew |= self.shared.insert(place) && self.taken.contains(&place);
    }

    /// The registers that are saved in a cell, a bit each, and whether another value was stored there.
    pub(super) fn saved_at(&mut self, place: (usize, i64)) -> (u64, bool) {
        let saved = self.saved.get(&place).copied().unwrap_or_default();
        if saved != 0 {
            self.taken.insert(place);
        }
        (saved, self.shared.contains(&place))
    }

    /// Whether a store may be at this offset from a value that is an unknown place in the frame.
    pub(super) fn puts_at(&self, value: ValueIdx, offset: i64) -> bool {
        self.put_at.iter().any(|(to, at)| at.is_none() || *to == value && *at == Some(offset))
    }

    /// Whether a value is made from the address of the frame.
    pub(super) fn is_in_frame(&self, value: ValueIdx) -> bool {
        match self.key(value) {
            Some(ValueKey::Frame(_) | ValueKey::FrameSomewhere) => true,
            Some(ValueKey::Displaced(of, _)) => self.is_in_frame(of),
            _ => false,
        }
    }

    fn add(&mut self, constraint: Constraint) {
        self.push(RawConstraint::Plain(constraint));
    }

    fn push(&mut self, raw: RawConstraint) {
        if self.recording {
            self.raw.push(raw);
        }
    }

    /// The summary of the recorded constraints; the caller fills in atoms and entries.
    pub(super) fn finish(
        mut self,
        indirect_entry_values: &[ValueIdx],
        predecessors: &[Vec<u32>],
    ) -> FunctionSummary {
        self.leave_out_preserved();
        let needed = self.needed();
        let is_needed = |v: ValueIdx| needed.get(v.index()).copied().unwrap_or(false);
        let leaks = |raw: &RawConstraint| match raw {
            RawConstraint::Plain(Constraint::Frame { to, .. }) => is_needed(*to),
            // A store of an unknown number of bytes reaches over all that is above.
            RawConstraint::LoadCell { size, .. } | RawConstraint::StoreCell { size, .. } => *size == 0,
            _ => false,
        };
        // The target of a jump gets all stack arguments of this function.
        let is_left = |call: &PendingCall| match call.rsp {
            Some(rsp) => call.tail && rsp == 0,
            None => self.has_cells(),
        };
        let is_through = self.events.iter().flatten().any(|event| matches!(event, StackEvent::Through(_)));
        let in_frame_at = if is_through { self.may_be_in_frame() } else { Vec::new() };
        let stored = self.cells_of(true);
        let loaded = self.cells_of(false);
        let pending = |call: &PendingCall| self.pending(call.event, predecessors);
        let arguments: Vec<_> =
            self.calls.iter().map(|call| call.stack_arguments(&stored, &loaded, || pending(call))).collect();
        let frame = self.raw.iter().any(leaks)
            || self.calls.iter().any(is_left)
            || arguments.iter().any(Option::is_none);
        let mut constraints = Vec::with_capacity(self.raw.len() + self.raw.len() / 4);
        if frame && self.frame_escapes {
            let to = self.value(ValueKey::FrameSomewhere);
            constraints.extend([Constraint::Frame { to, offset: None }, Constraint::Escape { from: to }]);
        }
        let mut cell_pairs: FxHashSet<(i64, ValueIdx, bool)> = FxHashSet::default();
        for raw in std::mem::take(&mut self.raw) {
            // The return address, which no store of this function writes. A jump to it is a return, not a call.
            if let RawConstraint::LoadCell { offset, size, to } = raw
                && cells(offset, size).any(|cell| cell == 0)
            {
                constraints.push(Constraint::Unknown { to });
            }
            match raw {
                RawConstraint::Plain(constraint) => constraints.push(constraint),
                RawConstraint::LoadCell { offset, size, to } if frame => {
                    let (place, extra) = self.in_frame(offset);
                    constraints.extend([extra, Constraint::Load { from: place, to, size }]);
                }
                RawConstraint::StoreCell { from, offset, size } if frame => {
                    let (place, extra) = self.in_frame(offset);
                    constraints.extend([extra, Constraint::Store { from, to: place, size }]);
                }
                RawConstraint::LoadCell { offset, size, to } => {
                    let exact = offset % 8 == 0 && size == 8;
                    for cell in cells(offset, size) {
                        if cell_pairs.insert((cell, to, false)) {
                            let from = self.value(ValueKey::Cell(cell));
                            let offset = exact.then_some(0);
                            constraints.push(Constraint::Assign { from, to, offset });
                        }
                    }
                }
                RawConstraint::StoreCell { from, offset, size } => {
                    let exact = offset % 8 == 0 && size == 8;
                    for cell in cells(offset, size) {
                        if cell_pairs.insert((cell, from, true)) {
                            let to = self.value(ValueKey::Cell(cell));
                            let offset = exact.then_some(0);
                            constraints.push(Constraint::Assign { from, to, offset });
                        }
                    }
                }
            }
        }
        let mut call_sites = Vec::with_capacity(self.calls.len());
        for (call, arguments) in std::mem::take(&mut self.calls).into_iter().zip(arguments) {
            let in_memory = arguments.is_none();
            let by_value =
                frame && is_through && self.pending(call.event, predecessors).is_through(&in_frame_at);
            let mut stack = Vec::new();
            for (offset, cell) in arguments.into_iter().flatten() {
                let value = match frame {
                    false => self.value(ValueKey::Cell(cell)),
                    true => {
                        let to = self.value(ValueKey::CellForCallee(cell));
                        let (from, extra) = self.in_frame(cell);
                        constraints.extend([extra, Constraint::Load { from, to, size: 8 }]);
                        to
                    }
                };
                stack.push((offset, value));
            }
            stack.sort_unstable();
            let in_frame =
                frame && (in_memory || self.copy_to_frame || call.rsp.is_none() || call.tail || by_value);
            call_sites.push(CallSite {
                section: call.section,
                offset: call.offset,
                callee: call.callee,
                jump: call.jump,
                no_vectors: call.no_vectors,
                formats: call.formats,
                actuals: call.actuals,
                stack,
                stack_in_frame: in_frame.then_some(call.rsp),
                results: call.results,
            });
        }
        let pick = |key: ValueKey| self.keys.get(&key).copied();
        let slots = 0..SLOTS as RegisterId;
        let parameters = slots.clone().filter_map(|s| Some((s, pick(ValueKey::Parameter(s))?))).collect();
        let results = slots.filter_map(|s| Some((s, pick(ValueKey::Result(s))?))).collect();
        let mut own: Vec<(i32, ValueIdx)> = Vec::new();
        if !frame {
            for (i, key) in self.values.iter().enumerate() {
                if let ValueKey::Cell(cell @ 8..) = key {
                    own.push((*cell as i32, ValueIdx::new(i)));
                }
            }
            own.sort_unstable();
        }
        FunctionSummary {
            atom: AtomIdx(0),
            parts: Vec::new(),
            entries: Vec::new(),
            values: self.values.len() as u32,
            parameters,
            stack_parameters: own,
            frame,
            results,
            preserved: self.preserved(),
            indirect_entry_values: indirect_entry_values.to_vec(),
            address_taken_only: Vec::new(),
            constraints,
            call_sites,
            covered_references: Vec::new(),
        }
    }

    /// The registers that hold their entry value at every return. For rax some return of a path without calls is enough; after a call it has
    /// the value that the callee returned or left. A push that only aligns the stack may look like a saved rax.
    fn preserved(&self) -> u64 {
        let is_same =
            |saved: Option<i64>, loaded: Option<i64>| saved == loaded || saved.is_none() || loaded.is_none();
        let is_put_back = |saved: &Option<i64>| self.rax_loaded.iter().any(|loaded| is_same(*saved, *loaded));
        let keeps_rax = self.keeps_rax || self.rax_saved.iter().any(is_put_back);
        let others = self.clobbered.map_or(0, |clobbered| PRESERVABLE & !clobbered & !registers::set(&[RAX]));
        others | u64::from(keeps_rax) << RAX
    }

    /// Drop the assignment of a parameter to the result in the same register if the register is in `preserved`. Each caller keeps its own
    /// value there.
    fn leave_out_preserved(&mut self) {
        let preserved = self.preserved();
        let mut raw = std::mem::take(&mut self.raw);
        raw.retain(|raw| match raw {
            RawConstraint::Plain(Constraint::Assign { from, to, offset: Some(0) }) => {
                match (self.key(*from), self.key(*to)) {
                    (Some(ValueKey::Parameter(slot)), Some(ValueKey::Result(of))) => {
                        slot != of || !registers::has(preserved, slot)
                    }
                    _ => true,
                }
            }
            _ => true,
        });
        self.raw = raw;
    }

    fn has_cells(&self) -> bool {
        self.raw.iter().any(|r| matches!(r, RawConstraint::StoreCell { .. }))
    }

    /// A place in the frame that is an object, and the constraint that makes its base.
    fn in_frame(&mut self, offset: i64) -> (Place, Constraint) {
        let to = self.value(ValueKey::Frame(0));
        (Place { value: to, offset: Some(offset) }, Constraint::Frame { to, offset: Some(0) })
    }

    /// The cells that are stored to, or loaded from, ascending.
    fn cells_of(&self, stores: bool) -> Vec<i64> {
        let touched = self.raw.iter().filter_map(|raw| match raw {
            RawConstraint::LoadCell { offset, size, .. } if !stores => Some((*offset, *size)),
            RawConstraint::StoreCell { offset, size, .. } if stores => Some((*offset, *size)),
            _ => None,
        });
        let mut all: Vec<i64> = touched.flat_map(|(offset, size)| cells(offset, size)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}
