//! Calls, jumps and returns: where control goes, and what goes with it.
//!
//! Addresses are passed and returned in registers and in memory as the psABI says (3.2.3), in vector registers where a program
//! keeps their bytes in numbers or vectors. Every register is said at a call, since compilers know what local functions do with registers,
//! and attributes change what is passed; who is called says which of them count. They survive calls as well: attributes
//! (`preserve_most`, `preserve_all`, `no_caller_saved_registers`) tell a caller what a callee leaves alone, and the summary of the callee says
//! whether rax, rdx, xmm0 and xmm1 come back as they were. Of the stack, a callee gets what was written since the last call
//! and what the function itself never reads.

use super::builder::{ConstraintBuilder, PendingCall, ValueKey};
use super::memory::Memory;
use super::state::{RegisterState, SlotValue};
use super::unit::{Destination, FlowResult, Op};
use super::walker::{BlockExit, BlockWalker, RESULTS};
use crate::ids::ValueIdx;
use crate::native::decode::Flow;
use crate::native::decode::effects::{RegisterId, SLOTS};
use crate::registers::{self, CONVENTIONAL, RAX, RBP, RCX, RDI, RDX, RSP};
use crate::relation::Callee;
use crate::summary::Target;

/// What is passed between modules and through pointers by any convention: all but rbp and the stacks.
const ANY_ARGUMENTS: u64 = registers::ALL & !registers::set(&[RSP, RBP]);
/// What may be passed by compilers that know the callee.
const LOCAL_ARGUMENTS: u64 = registers::ALL & !registers::set(&[RSP]);
/// The registers of a result of three elements, as clang returns vectors.
const OF_THREE: u64 = registers::set(&[RAX, RCX, RDX]);

/// What gcc jumps to in the place of a return (`-mfunction-return=thunk`).
const RETURN_THUNK: &[u8] = b"__x86_return_thunk";

/// The register through which a function of this name jumps, if it is a thunk of that kind: gcc's and clang's names for what
/// `-mindirect-branch=thunk` and `-mretpoline` put in the place of indirect calls and jumps.
fn thunk_register(name: &[u8]) -> Option<RegisterId> {
    const NAMES: [&[u8]; 16] = [
        b"rax", b"rcx", b"rdx", b"rbx", b"rsp", b"rbp", b"rsi", b"rdi", b"r8", b"r9", b"r10", b"r11", b"r12",
        b"r13", b"r14", b"r15",
    ];
    let prefixes: [&[u8]; 4] =
        [b"__x86_indirect_thunk_nt_", b"__x86_indirect_thunk_", b"__llvm_retpoline_", b"__llvm_lvi_thunk_"];
    let register = prefixes.iter().find_map(|p| name.strip_prefix(*p))?;
    let found = (0..).zip(NAMES).find(|(_, n)| *n == register)?;
    (found.0 != RSP).then_some(found.0)
}

impl BlockWalker<'_, '_, '_, '_> {
    pub(super) fn jump(&mut self, at: usize, op: &Op, state: &mut RegisterState) -> FlowResult<BlockExit> {
        let falls = op.flow != Flow::Jump;
        match self.unit.destination(self.module, op)? {
            Destination::Inner(to) => Ok(BlockExit::To(to, falls)),
            Destination::Outer(target, offset) => {
                if state.get(RSP) != SlotValue::Frame(0) {
                    self.builder.entered_in_frame.push((target, offset));
                    return Err(format!("a jump out of the frame at {:#x}", op.offset));
                }
                if self.module.name(target) == RETURN_THUNK {
                    return match (falls, self.ret(at, op, &mut state.clone())?) {
                        (false, leaves) => Ok(leaves),
                        (true, BlockExit::Ends) => Ok(BlockExit::Falls),
                        (true, _) => Err(format!("a return to elsewhere, or not, at {:#x}", op.offset)),
                    };
                }
                if let Some(register) = thunk_register(self.module.name(target)) {
                    self.uses(op, state, register, [SlotValue::None; 3])?;
                    self.tail(at, op, state, state.get(register))?;
                } else {
                    self.site(at, op, &mut state.clone(), Callee::Direct { target, offset }, false)?;
                }
                Ok(if falls { BlockExit::Falls } else { BlockExit::Ends })
            }
        }
    }

    /// A jump through a register or memory.
    pub(super) fn jump_through(
        &mut self,
        at: usize,
        op: &Op,
        state: &RegisterState,
        value: SlotValue,
    ) -> FlowResult<BlockExit> {
        if value == SlotValue::Undefined {
            return Ok(BlockExit::Labels);
        }
        match state.get(RSP) {
            // Back to the caller (`-mlvi-cfi`).
            SlotValue::Frame(8) if self.is_return_address(value) => {
                self.results(op, state)?;
                return Ok(BlockExit::Ends);
            }
            SlotValue::Frame(o) if o > 0 => {
                return Err(format!("a jump without a return address at {:#x}", op.offset));
            }
            SlotValue::Frame(o) if o < 0 && self.module.has_loose_parts => {
                return Err(format!("a jump at {:#x} that may lead to code without a name", op.offset));
            }
            rsp => {
                self.builder.leaves_on(rsp);
                let before = self.builder.calls.len();
                self.tail(at, op, state, value)?;
                let is_in_frame = matches!(rsp, SlotValue::Frame(o) if o < 0);
                for call in self.builder.calls.get_mut(before..).unwrap_or(&mut []) {
                    call.in_frame = is_in_frame;
                }
            }
        }
        Ok(BlockExit::Labels)
    }

    fn is_return_address(&self, value: SlotValue) -> bool {
        let is_one = |node| self.builder.return_addresses.contains(&node);
        matches!(value, SlotValue::Node(node, 0) if is_one(node)) && !self.may_return_elsewhere()
    }

    /// A jump to wherever a value leads.
    pub(super) fn tail(
        &mut self,
        at: usize,
        op: &Op,
        state: &RegisterState,
        value: SlotValue,
    ) -> FlowResult<()> {
        let callee = match value {
            SlotValue::Saved => return self.refuse(op, true),
            SlotValue::Place(number, offset) => match self.builder.target(number) {
                Some(target) => Callee::Direct { target, offset },
                None => return Ok(()),
            },
            value => self.indirect(value)?,
        };
        self.site(at, op, &mut state.clone(), callee, false)
    }

    pub(super) fn ret(&mut self, at: usize, op: &Op, state: &mut RegisterState) -> FlowResult<BlockExit> {
        self.builder.leaves_on(state.get(RSP));
        let elsewhere = match state.get(RSP) {
            SlotValue::Frame(0) => self.may_return_elsewhere().then_some(Memory::Frame(0)),
            // A callee that takes its arguments off the stack (`swiftasynccall`) leaves it elsewhere than it was; and where more is left on it,
            // the callee returns to that.
            SlotValue::Frame(o)
                if self.builder.recording
                    && (!self.builder.put_in.contains(&o) || o > 0 || o < -8 && !self.unit.has_thunks) =>
            {
                return Err(format!("a return at {:#x} that is none to the caller", op.offset));
            }
            SlotValue::Frame(o) => Some(Memory::Frame(o)),
            // A switch of stacks: what is at the top of the other one is jumped to.
            SlotValue::Node(node, _) if self.builder.is_foreign(node) => {
                return Err(format!("a return on another stack at {:#x}", op.offset));
            }
            // Somewhere in the frame, which has one return address, unless something else was put there to go to.
            SlotValue::Node(node, o) => self.leads_elsewhere(node, o).then_some(Memory::At(node, Some(o))),
            _ => return Err(format!("a return without a stack at {:#x}", op.offset)),
        };
        if let Some(slot) = elsewhere {
            let value = self.load(ValueKey::ReturnedTo(at), slot, 8)?;
            let rsp = state.get(RSP);
            state.set(RSP, rsp.plus(8));
            self.tail(at, op, state, value)?;
            self.results(op, state)?;
            return Ok(BlockExit::Labels);
        }
        self.results(op, state)?;
        Ok(BlockExit::Ends)
    }

    /// Whether somebody may have stored at the place of the return address.
    fn may_return_elsewhere(&self) -> bool {
        self.returns_elsewhere || self.builder.shows_return_address
    }

    /// Whether what is returned to may be other than the return address, where the stack pointer is not known exactly.
    fn leads_elsewhere(&self, node: ValueIdx, offset: i64) -> bool {
        self.unit.has_thunks || self.builder.puts_somewhere || self.builder.put_at.contains(&(node, offset))
    }

    /// The state behind a call that leads through a thunk of the function: what is called there comes back with these results.
    pub(super) fn behind_thunk(
        builder: &mut ConstraintBuilder,
        at: usize,
        state: &RegisterState,
    ) -> FlowResult<RegisterState> {
        let mut state = state.clone();
        state.set(RSP, state.get(RSP).plus(8));
        for slot in RESULTS {
            let to = builder.value(ValueKey::Op(at, 90 + slot));
            let own = builder.value(ValueKey::Result(slot));
            builder.flow(state.get(slot), to, Some(0))?;
            builder.flow(SlotValue::Node(own, 0), to, Some(0))?;
            state.set(slot, SlotValue::Node(to, 0));
        }
        state.pending = super::state::Pending::default();
        state.pushed = false;
        Ok(state)
    }

    fn results(&mut self, op: &Op, state: &RegisterState) -> FlowResult<()> {
        self.leaves(op, state);
        // A third element comes with two others; else it is what was left over.
        let is_third = state.written & OF_THREE == OF_THREE;
        for slot in RESULTS.into_iter().filter(|slot| *slot != RCX || is_third) {
            self.gives(op, state, slot)?;
            let value = state.get(slot);
            if value != SlotValue::Saved {
                let to = self.builder.value(ValueKey::Result(slot));
                self.builder.flow(value, to, Some(0))?;
            }
        }
        Ok(())
    }

    pub(super) fn call(&mut self, at: usize, op: &Op, state: &mut RegisterState) -> FlowResult<BlockExit> {
        let (target, offset) = match self.unit.destination(self.module, op)? {
            Destination::Inner(to) => {
                // A call to get at the instruction pointer, or on the way to an indirect jump: it pushes a label.
                let label = self.builder.place(Target::Atom(op.atom), op.end as i64);
                self.push(state, label)?;
                return match self.unit.is_thunk(self.module, to) {
                    _ if to == at + 1 => Ok(BlockExit::To(to, false)),
                    true => Ok(BlockExit::Through(to)),
                    false => Err(format!("a call of a place in its own function at {:#x}", op.offset)),
                };
            }
            Destination::Outer(target, offset) => (target, offset),
        };
        if self.module.preserves_all(target) {
            return Ok(BlockExit::Falls);
        }
        if self.module.name(target) == b"mcount" {
            self.profile(at, op, state, Callee::Direct { target, offset })?;
            return Ok(BlockExit::Falls);
        }
        if self.module.is_tls_get_addr(target) {
            let unknown = self.builder.unknown();
            state.set(RAX, SlotValue::Node(unknown, 0));
            return Ok(BlockExit::Falls);
        }
        if let Some(register) = thunk_register(self.module.name(target)) {
            self.uses(op, state, register, [SlotValue::None; 3])?;
            let value = state.get(register);
            return self.call_through(at, op, state, value);
        }
        self.site(at, op, state, Callee::Direct { target, offset }, true)?;
        Ok(BlockExit::Falls)
    }

    /// A call of the profiler's hook, which every register survives; but the name isn't reserved, so that it may be any function of the program.
    fn profile(&mut self, at: usize, op: &Op, state: &mut RegisterState, callee: Callee) -> FlowResult<()> {
        let mut behind = state.clone();
        self.site(at, op, &mut behind, callee, true)?;
        for slot in RESULTS {
            if state.get(slot) != SlotValue::Saved {
                let to = self.builder.value(ValueKey::Op(at, 120 + slot));
                self.builder.flow(behind.get(slot), to, Some(0))?;
                self.builder.flow(state.get(slot), to, Some(0))?;
                state.set(slot, SlotValue::Node(to, 0));
            }
        }
        Ok(())
    }

    /// Code at a number is nobody's that is known.
    fn indirect(&mut self, value: SlotValue) -> FlowResult<Callee> {
        let value =
            if value == SlotValue::None { self.builder.unknown() } else { self.builder.node(value)? };
        Ok(Callee::Indirect(value))
    }

    /// A call of whatever a value holds.
    pub(super) fn call_through(
        &mut self,
        at: usize,
        op: &Op,
        state: &mut RegisterState,
        value: SlotValue,
    ) -> FlowResult<BlockExit> {
        let callee = match value {
            SlotValue::Place(target, offset) => match self.builder.target(target) {
                Some(target) => Callee::Direct { target, offset },
                None => return Err(format!("a call of nothing at {:#x}", op.offset)),
            },
            // What nothing leads to: nothing is ever called.
            SlotValue::Undefined => return Ok(BlockExit::Falls),
            value => self.indirect(value)?,
        };
        self.site(at, op, state, callee, true)?;
        Ok(BlockExit::Falls)
    }

    /// A call site; `returns`: the callee comes back here, else to this function's caller.
    pub(super) fn site(
        &mut self,
        at: usize,
        op: &Op,
        state: &mut RegisterState,
        callee: Callee,
        returns: bool,
    ) -> FlowResult<()> {
        let local = matches!(callee, Callee::Direct { target, .. } if self.module.is_local(target));
        if self.module.is_outlined(callee) {
            return Err(format!("a call of what was taken out of functions at {:#x}", op.offset));
        }
        let (inside, to) = (self.module.may_be_inside_arguments(callee), state.get(RDI));
        let mut actuals = Vec::new();
        // Thunks of indirect branches take any.
        let any = !local && (returns || matches!(callee, Callee::Direct { .. }));
        let passed = if any { ANY_ARGUMENTS } else { LOCAL_ARGUMENTS };
        for slot in (0..SLOTS as RegisterId).filter(|s| passed & 1 << s != 0) {
            // What takes arguments in other registers than these finds there all that anybody has.
            if CONVENTIONAL & 1 << slot != 0 {
                self.gives(op, state, slot)?;
            }
            let value = state.get(slot);
            if !matches!(value, SlotValue::None | SlotValue::Undefined | SlotValue::Saved) {
                actuals.push((slot, self.builder.node(value)?));
            }
        }
        if !returns && matches!(callee, Callee::Direct { .. }) {
            // What jumps through a register may well stay in the function.
            self.leaves(op, state);
        }
        let rsp = match state.get(RSP) {
            SlotValue::Frame(o) if returns => Some(o - 8),
            SlotValue::Frame(o) => Some(o),
            _ => None,
        };
        let mut results = Vec::new();
        for slot in RESULTS {
            let to = self.builder.value(ValueKey::Op(at, 90 + slot));
            results.push((slot, to));
            if !returns {
                let own = self.builder.value(ValueKey::Result(slot));
                self.builder.flow(SlotValue::Node(to, 0), own, Some(0))?;
            }
        }
        self.builder.call(PendingCall {
            section: op.section,
            offset: op.offset,
            callee,
            jump: !returns && matches!(callee, Callee::Indirect(_)),
            in_frame: false,
            tail: !returns,
            actuals,
            rsp,
            pending: state.pending.clone(),
            results: results.clone(),
        });
        if !returns {
            return Ok(());
        }
        let clobbered = state.clobbered;
        for (slot, to) in results {
            // A callee of the same object that leaves the register alone may be known to. What is left in rcx goes to later callees too.
            let (before, taint) = (state.get(slot), state.taint(slot));
            if (local || slot == RCX) && before != SlotValue::Saved {
                self.builder.flow(before, to, Some(0))?;
            }
            state.set(slot, SlotValue::Node(to, 0));
            if slot == RCX {
                state.taint_with(slot, taint);
            }
        }
        // By this function; the callee's summary says what the callee does.
        state.clobbered = clobbered;
        if inside {
            self.writes_through(state, to)?;
        } else {
            state.pending = super::state::Pending::default();
            state.pushed = false;
        }
        Ok(())
    }
}
