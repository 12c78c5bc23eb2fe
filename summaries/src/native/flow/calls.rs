//! Calls, jumps and returns: the control flow edges and the values that pass along them.
//!
//! Addresses are passed and returned in registers and in memory as the psABI says (3.2.3). They are in vector registers where a program
//! keeps their bytes in numbers or vectors. A call site lists every register, since some callees are not analysed; the callee's summary
//! says which of them count. After a call each register holds its old value or a returned one. Attributes let a callee preserve registers
//! that the psABI lets it clobber. On the stack, a callee gets the cells written since the last call and those that the function never
//! reads.

use super::builder::{POPPED, PendingCall, ValueKey};
use super::state::{SlotValue, StackEvent};
use super::unit::{CALLERS_REGISTER, Destination, FlowResult, Op, Refusal};
use super::walk::{BlockExit, RESULTS, Walk};
use crate::ids::ValueIdx;
use crate::native::decode::Flow;
use crate::native::decode::effects::{RegisterId, SLOTS};
use crate::registers::{self, PASSED, R8, R11, RAX, RCX, RDI, RDX, RSP, SAVED};
use crate::relation::Callee;
use crate::summary::Target;

/// The registers whose values a call site has. `regcall` and `preserve_none` also pass arguments in r11.
const AT_CALLS: u64 = PASSED | registers::set(&[R11]);

/// The refusal of a function with a return at this offset, if other code may choose its target.
pub(super) fn not_to_the_caller(offset: u64) -> Refusal {
    format!("a return at {offset:#x} that may be none to the caller")
}

/// The registers of a result of three elements, as clang returns vectors, and of one of four.
const OF_THREE: u64 = registers::set(&[RAX, RCX, RDX]);
const OF_FOUR: u64 = registers::set(&[RAX, RCX, RDX, R8]);

/// The target of gcc's jump that replaces a return (`-mfunction-return=thunk`).
const RETURN_THUNK: &[u8] = b"__x86_return_thunk";

/// The register through which the thunk of this name jumps, or `None` for other names. Such thunks replace indirect calls and jumps with
/// gcc's `-mindirect-branch=thunk` and clang's `-mretpoline`.
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

impl Walk<'_, '_, '_, '_> {
    pub(super) fn jump(&mut self, at: usize, op: &Op) -> FlowResult<BlockExit> {
        let falls = op.flow != Flow::Jump;
        match self.unit.destination(self.module, op)? {
            Destination::Inner(to) => Ok(BlockExit::To(to, falls)),
            Destination::Outer(target, offset) => {
                if self.get(RSP) != SlotValue::Frame(0) {
                    self.builder.entered_in_frame.push((target, offset));
                    return Err(format!("a jump out of the frame at {:#x}", op.offset));
                }
                if self.module.name(target) == RETURN_THUNK {
                    self.ret(op)?;
                    return Ok(if falls { BlockExit::Falls } else { BlockExit::Ends });
                }
                if let Some(register) = thunk_register(self.module.name(target)) {
                    let value = self.get(register);
                    let value = self.used(op, value)?;
                    self.tail(at, op, value)?;
                } else {
                    self.site(at, op, Callee::Direct { target, offset }, false)?;
                }
                Ok(if falls { BlockExit::Falls } else { BlockExit::Ends })
            }
        }
    }

    /// A jump through a register or memory.
    pub(super) fn jump_through(&mut self, at: usize, op: &Op, value: SlotValue) -> FlowResult<BlockExit> {
        if value == SlotValue::Undefined {
            return Ok(BlockExit::Labels);
        }
        match self.get(RSP) {
            SlotValue::Frame(o) if o > 0 => {
                return Err(format!("a jump without a return address at {:#x}", op.offset));
            }
            SlotValue::Frame(o) if o < 0 && self.module.has_loose_parts => {
                return Err(format!("a jump at {:#x} that may lead to code without a name", op.offset));
            }
            rsp => {
                self.builder.leaves_on(rsp);
                let before = self.builder.calls.len();
                self.tail(at, op, value)?;
                let is_in_frame = matches!(rsp, SlotValue::Frame(o) if o < 0);
                for call in self.builder.calls.get_mut(before..).unwrap_or(&mut []) {
                    call.in_frame = is_in_frame;
                }
            }
        }
        Ok(BlockExit::Labels)
    }

    /// A jump to the code whose address a value holds.
    pub(super) fn tail(&mut self, at: usize, op: &Op, value: SlotValue) -> FlowResult<()> {
        let callee = match value {
            SlotValue::Place(number, offset) => match self.builder.target(number) {
                Some(target) => Callee::Direct { target, offset },
                None => return Ok(()),
            },
            value => self.indirect(value)?,
        };
        self.site(at, op, callee, false)
    }

    /// The function returns to its caller, on the stack that it was entered on.
    pub(super) fn ret(&mut self, op: &Op) -> FlowResult<()> {
        if !self.builder.recording {
            return Ok(());
        }
        let rsp = self.get(RSP);
        self.builder.leaves_on(rsp);
        let is_own = match rsp {
            SlotValue::Frame(offset) => offset == 0,
            // An unknown place in the frame, after an alignment. After a switch of stacks, the return jumps to the address at the top of
            // the other one.
            SlotValue::Node(node, offset) => {
                !self.builder.is_foreign(node) && !self.builder.puts_at(node, offset)
            }
            _ => false,
        };
        if !is_own {
            return Err(not_to_the_caller(op.offset));
        }
        self.builder.return_at = Some(op.offset);
        self.leaves(op)?;
        self.builder.keeps_rax |= self.facts.keeps_rax();
        // A third element is returned only with two others, and a fourth only with three. Otherwise the register has an old value.
        let written = self.facts.written;
        let is_result = |slot: &RegisterId| match *slot {
            RCX => written & OF_THREE == OF_THREE,
            R8 => written & OF_FOUR == OF_FOUR,
            _ => true,
        };
        for slot in RESULTS.into_iter().filter(is_result) {
            if let Some(value) = self.given(op, slot)? {
                let to = self.builder.value(ValueKey::Result(slot));
                self.builder.flow(value, to, Some(0))?;
            }
        }
        Ok(())
    }

    /// The value of rax for a callee. It is still there after the call if the callee does not write rax.
    fn left_in_rax(&mut self, at: usize) -> FlowResult<SlotValue> {
        if !self.facts.keeps_rax() {
            return Ok(self.get(RAX));
        }
        let own = SlotValue::Node(self.builder.value(ValueKey::Parameter(RAX)), 0);
        match self.get(RAX) {
            SlotValue::Saved(_) => Ok(own),
            value => self.join_at(ValueKey::Op(at, 89), [value, own], Some(0)),
        }
    }

    /// Check the state at an exit: callee-saved registers hold the caller's values, or were saved.
    fn leaves(&mut self, op: &Op) -> FlowResult<()> {
        if !self.builder.recording {
            return Ok(());
        }
        let (unsure, given) = self.builder.kept(self.unit.function_at((op.atom, op.offset)));
        // A label may be entered with anything in its registers.
        let is_entered = self.unit.labels.iter().any(|label| label.1);
        let is_sure = !is_entered && self.get(RSP) == SlotValue::Frame(0);
        let mut is_lost = |slot: RegisterId| match self.get(slot) {
            SlotValue::Saved(register) if register == slot => given & 1 << slot != 0,
            _ => is_sure && unsure & 1 << slot == 0,
        };
        if (0..16).any(|slot| SAVED & 1 << slot != 0 && is_lost(slot)) {
            return Err(format!("{CALLERS_REGISTER} is not there at {:#x}", op.offset));
        }
        *self.builder.clobbered.get_or_insert(0) |= self.facts.written;
        Ok(())
    }

    pub(super) fn call(&mut self, at: usize, op: &Op) -> FlowResult<BlockExit> {
        let (target, offset) = match self.unit.destination(self.module, op)? {
            Destination::Inner(to) => {
                // A call of the next instruction reads the instruction pointer: it pushes a label.
                let label = self.builder.place(Target::Atom(op.atom), op.end as i64);
                self.push(op, label)?;
                return match to == at + 1 {
                    true => Ok(BlockExit::To(to, false)),
                    false => Err(format!("a call of a place in its own function at {:#x}", op.offset)),
                };
            }
            Destination::Outer(target, offset) => (target, offset),
        };
        if self.module.preserves_all(target) {
            return Ok(BlockExit::Falls);
        }
        if self.module.is_tls_get_addr(target) {
            let unknown = self.builder.unknown();
            self.set(RAX, SlotValue::Node(unknown, 0));
            return Ok(BlockExit::Falls);
        }
        if let Some(register) = thunk_register(self.module.name(target)) {
            let value = self.get(register);
            let value = self.used(op, value)?;
            return self.call_through(at, op, value);
        }
        self.site(at, op, Callee::Direct { target, offset }, true)?;
        Ok(BlockExit::Falls)
    }

    /// The callee of an indirect call or jump. Code at an integer address is unknown code.
    fn indirect(&mut self, value: SlotValue) -> FlowResult<Callee> {
        let value =
            if value == SlotValue::None { self.builder.unknown() } else { self.builder.node(value)? };
        Ok(Callee::Indirect(value))
    }

    /// A call of the functions whose addresses a value holds.
    pub(super) fn call_through(&mut self, at: usize, op: &Op, value: SlotValue) -> FlowResult<BlockExit> {
        let callee = match value {
            SlotValue::Place(target, offset) => match self.builder.target(target) {
                Some(target) => Callee::Direct { target, offset },
                None => return Err(format!("a call of nothing at {:#x}", op.offset)),
            },
            // No path reaches this call, so nothing is called.
            SlotValue::Undefined => return Ok(BlockExit::Falls),
            value => self.indirect(value)?,
        };
        self.site(at, op, callee, true)?;
        Ok(BlockExit::Falls)
    }

    /// Whether a call may be an implicit `memcpy` or `memset` of a stack argument, under any name. Such a call passes a place in the frame
    /// where an argument may be, and a number of bytes.
    fn may_copy_arguments(&mut self) -> bool {
        // Another value is the number if the code compared it, or pushed and popped the number.
        let is_number = match self.get(RDX) {
            SlotValue::None => true,
            SlotValue::Node(node, 0) => {
                self.unit.compares_sizes || matches!(self.builder.key(node), Some(ValueKey::Op(_, POPPED)))
            }
            _ => false,
        };
        if !is_number {
            return false;
        }
        match (self.get(RDI), self.get(RSP)) {
            (SlotValue::Frame(to), SlotValue::Frame(rsp)) => to >= rsp,
            // An address that was kept in the frame, for example.
            (SlotValue::Node(to, _), _) => !self.builder.is_foreign(to),
            (to, _) => matches!(to, SlotValue::Frame(_)),
        }
    }

    /// The addresses that the registers hold at a call.
    fn actuals(&mut self, at: usize, op: &Op) -> FlowResult<Vec<(RegisterId, ValueIdx)>> {
        let mut actuals = Vec::new();
        for slot in (0..SLOTS as RegisterId).filter(|slot| registers::has(AT_CALLS, *slot)) {
            let value = match slot {
                RAX => self.left_in_rax(at)?,
                R11 => self.get(R11),
                slot => self.given(op, slot)?.unwrap_or(SlotValue::None),
            };
            if !matches!(value, SlotValue::None | SlotValue::Undefined | SlotValue::Saved(_)) {
                actuals.push((slot, self.builder.node(value)?));
            }
        }
        Ok(actuals)
    }

    /// A call site; `returns`: the callee returns here, not to this function's caller.
    pub(super) fn site(&mut self, at: usize, op: &Op, callee: Callee, returns: bool) -> FlowResult<()> {
        let local = matches!(callee, Callee::Direct { target, .. } if self.module.is_local(target));
        if self.module.is_outlined(callee) {
            return Err(format!("a call of what was taken out of functions at {:#x}", op.offset));
        }
        let inside = self.module.may_be_inside_arguments(callee) || self.may_copy_arguments();
        let to = if inside { self.get(RDI) } else { SlotValue::None };
        let results = RESULTS.map(|slot| (slot, self.builder.value(ValueKey::Op(at, 90 + slot))));
        if self.builder.recording {
            let actuals = self.actuals(at, op)?;
            if !returns && matches!(callee, Callee::Direct { .. }) {
                // A jump through a register may stay in the function.
                self.leaves(op)?;
            }
            let rsp = match self.get(RSP) {
                SlotValue::Frame(o) if returns => Some(o - 8),
                SlotValue::Frame(o) => Some(o),
                _ => None,
            };
            let call = PendingCall {
                section: op.section,
                offset: op.offset,
                callee,
                jump: !returns && matches!(callee, Callee::Indirect(_)),
                no_vectors: !self.facts.may_pass_vectors,
                formats: if local { Vec::new() } else { self.formats(callee) },
                in_frame: false,
                tail: !returns,
                actuals,
                rsp,
                event: (self.block, self.builder.events_of(self.block).len()),
                results: results.to_vec(),
            };
            self.builder.calls.push(call);
            self.builder.note(self.block, StackEvent::Call(inside));
        }
        if !returns {
            for (slot, to) in results {
                let own = self.builder.value(ValueKey::Result(slot));
                self.builder.flow(SlotValue::Node(to, 0), own, Some(0))?;
            }
            return Ok(());
        }
        // The callee's own summary has the registers that it writes or preserves.
        let (written, left) = (self.facts.written, self.facts.left);
        // A profiler's hook has no summary. For rcx and r8 a summary has only the returned values.
        let is_hook = self.module.is_hook(callee);
        for (slot, to) in results {
            if is_hook || matches!(slot, RCX | R8) {
                let before = self.get(slot);
                self.builder.flow(before, to, Some(0))?;
            }
            self.set(slot, SlotValue::Node(to, 0));
        }
        self.facts.written = written;
        if is_hook {
            self.facts.left = left;
        }
        if inside {
            self.writes_through(to)?;
        } else {
            self.facts.pushed = false;
        }
        Ok(())
    }
}
