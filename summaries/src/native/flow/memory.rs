//! Memory operands: the places that they denote, and the constraints of their loads and stores.
//!
//! An address is exact if only constants are added to one value that holds an address. Otherwise it is at an unknown offset from each of
//! its operands. Thread-local storage is not analysed: addresses stored there escape. Memory at an integer address is not analysed
//! either.

use super::builder::{POPPED, ValueKey};
use super::state::{SlotValue, StackEvent, cells};
use super::unit::{CALLERS_REGISTER, FlowResult, Op, RelocatedOperand};
use super::walk::Walk;
use crate::ids::ValueIdx;
use crate::native::decode::effects::{Address, InstructionEffect, RegisterId, Segment};
use crate::registers::{self, R11, R13, RAX, RSP, SAVED};
use crate::summary::Target;

/// The memory that a memory operand denotes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Memory {
    Frame(i64),
    /// A value, and the displacement if it is known.
    At(ValueIdx, Option<i64>),
    Tls,
    Got(SlotValue),
    /// The stack guard, a number that is unchanged unless the frame was overwritten.
    Guard,
    /// Memory that never holds an address: the program mapped it at a chosen place, or the linker script placed it there.
    Number,
    /// It is not reached, or is the null page, or an offset of thread-local storage.
    Nowhere,
}

/// Bytes around 0 that are never mapped. Linux's default for `vm.mmap_min_addr` is at least this, and it never maps the last page.
const NULL_PAGE: i64 = 4096;
/// The offset of the stack guard from fs, as gcc and clang have it. The C library owns the memory after fs (glibc's `tcbhead_t`, musl's
/// `struct pthread`), and the program's variables precede it.
const STACK_GUARD: i64 = 0x28;

impl Walk<'_, '_, '_, '_> {
    /// The denotation of a memory operand: a place in the frame, in a symbol, or in the pointee of a value.
    pub(super) fn address(&mut self, at: usize, op: &Op, address: &Address) -> FlowResult<Memory> {
        let operand = if address.field { op.displacement } else { RelocatedOperand::Absent };
        if address.segment != Segment::None {
            let is_plain =
                address.base.is_none() && address.index.is_none() && operand == RelocatedOperand::Absent;
            let is_guard = address.segment == Segment::Fs && is_plain && address.displacement == STACK_GUARD;
            return Ok(if is_guard { Memory::Guard } else { Memory::Tls });
        }
        let mut parts: [SlotValue; 3] = [SlotValue::None; 3];
        match operand {
            RelocatedOperand::Got(symbol) => {
                return Ok(Memory::Got(self.builder.place(Target::Symbol(symbol), 0)));
            }
            RelocatedOperand::Tls if address.relative => return Ok(Memory::Nowhere),
            RelocatedOperand::Tls | RelocatedOperand::Absent => {}
            RelocatedOperand::Place(target, offset) => parts[0] = self.builder.place(target, offset),
        }
        if address.relative && operand == RelocatedOperand::Absent {
            let place = u64::try_from(address.displacement).ok();
            let Some((atom, offset)) = place.and_then(|p| self.module.place(op.section, p)) else {
                return Err(format!("an operand at {:#x} leads outside", op.offset));
            };
            parts[0] = self.builder.place(Target::Atom(atom), offset as i64);
        }
        if let Some(base) = address.base {
            parts[1] = self.used_in_at(op, base)?;
            self.is_set(op, base)?;
        }
        if let Some(index) = address.index {
            parts[2] = self.used_in_at(op, index)?;
        }
        let constant = match operand {
            RelocatedOperand::Absent if !address.relative => address.displacement,
            _ => 0,
        };
        let is_address = |v: &&SlotValue| !matches!(v, SlotValue::None | SlotValue::Undefined);
        let registers = usize::from(address.base.is_some()) + usize::from(address.index.is_some());
        let single = parts.iter().filter(is_address).count() == 1;
        let Some(first) = parts.iter().find(is_address).copied() else {
            let is_null = registers == 0 && (-NULL_PAGE..NULL_PAGE).contains(&constant);
            let is_nowhere =
                is_null || operand == RelocatedOperand::Tls || parts.contains(&SlotValue::Undefined);
            return Ok(if is_nowhere { Memory::Nowhere } else { Memory::Number });
        };
        // Exact if nothing is added but constants.
        let exact = address.index.is_none()
            && single
            && operand != RelocatedOperand::Tls
            && (registers == 0 || parts[0] == SlotValue::None);
        if exact {
            return Ok(match first.plus(constant) {
                SlotValue::Frame(o) => Memory::Frame(o),
                SlotValue::Node(node, o) => Memory::At(node, Some(o)),
                value => Memory::At(self.builder.node(value)?, Some(0)),
            });
        }
        if single {
            return Ok(Memory::At(self.builder.node(first)?, None));
        }
        match self.join(ValueKey::Op(at, 62 + u8::from(!address.field)), parts)? {
            SlotValue::Node(node, _) => Ok(Memory::At(node, None)),
            _ => Ok(Memory::Nowhere),
        }
    }

    /// Check that no path leaves the caller's value in a dereferenced or called register in which `swiftcall` or `regcall` passes
    /// arguments. Compilers leave no used value in other registers.
    pub(super) fn is_set(&self, op: &Op, register: RegisterId) -> FlowResult<()> {
        let computes = matches!(op.effect, InstructionEffect::Lea { .. });
        let is_left = registers::has(self.facts.left & registers::set(&[RAX, R11, R13]), register);
        match self.builder.recording && !computes && is_left {
            true => Err(format!("{CALLERS_REGISTER} is used on some path at {:#x}", op.offset)),
            false => Ok(()),
        }
    }

    /// The value of a register in an address. `lea` may compute with values that are never used.
    fn used_in_at(&mut self, op: &Op, slot: RegisterId) -> FlowResult<SlotValue> {
        let value = self.get(slot);
        match op.effect {
            InstructionEffect::Lea { .. } => self.computed(op, value),
            _ => self.used(op, value),
        }
    }

    pub(super) fn load(&mut self, key: ValueKey, memory: Memory, size: u32) -> FlowResult<SlotValue> {
        Ok(match memory {
            Memory::Frame(offset) => {
                let to = self.builder.value(key);
                self.builder.load_cell(offset, size, to);
                SlotValue::Node(to, 0)
            }
            Memory::At(from, offset) => {
                let to = self.builder.value(key);
                self.builder.load(from, offset, size, to);
                if self.builder.is_foreign(from) {
                    self.builder.loaded.insert(to);
                }
                SlotValue::Node(to, 0)
            }
            Memory::Tls | Memory::Number => SlotValue::Node(self.builder.unknown(), 0),
            Memory::Got(value) => value,
            Memory::Guard | Memory::Nowhere => SlotValue::None,
        })
    }

    pub(super) fn store(&mut self, op: &Op, memory: Memory, size: u32, value: SlotValue) -> FlowResult<()> {
        match memory {
            Memory::Frame(offset) => {
                let place = (self.unit.function_at((op.atom, op.offset)), offset);
                let value = match value {
                    SlotValue::Saved(register) if registers::has(SAVED, register) => {
                        self.builder.save(place, register);
                        return Ok(());
                    }
                    // The push aligns the stack, or saves the register in order to restore it.
                    SlotValue::Saved(register) if matches!(op.effect, InstructionEffect::Push(_)) => {
                        if register == RAX {
                            self.builder.rax_saved.insert(Some(offset));
                        }
                        return Ok(());
                    }
                    value => self.used(op, value)?,
                };
                // A return never uses a value that is not an address.
                let covers = size == 0 || offset < 8 && offset.saturating_add(i64::from(size)) > 0;
                self.builder.moves_return |=
                    covers && !matches!(value, SlotValue::None | SlotValue::Undefined);
                for cell in cells(offset, size) {
                    self.builder.note(self.block, StackEvent::Cell(cell));
                    self.builder.share_cell((place.0, cell));
                }
                self.builder.store_cell(offset, size, value)
            }
            Memory::At(to, offset) => {
                let value = match value {
                    // The stack pointer is somewhere in the frame.
                    SlotValue::Saved(register) if self.builder.is_in_frame(to) => {
                        if register == RAX {
                            self.builder.rax_saved.insert(None);
                        }
                        self.builder.save_somewhere(self.unit.function_at((op.atom, op.offset)), register);
                        return Ok(());
                    }
                    value => self.used(op, value)?,
                };
                if !matches!(value, SlotValue::None | SlotValue::Undefined) && self.builder.is_in_frame(to) {
                    self.builder.put_at.insert((to, offset));
                }
                self.writes_through(SlotValue::Node(to, 0))?;
                self.builder.store(value, to, offset, size)
            }
            Memory::Tls | Memory::Guard | Memory::Number => {
                let value = self.used(op, value)?;
                self.builder.escape(value)
            }
            Memory::Got(_) => Err("a store into the offset table".to_owned()),
            Memory::Nowhere => Ok(()),
        }
    }

    pub(super) fn push(&mut self, op: &Op, value: SlotValue) -> FlowResult<()> {
        let rsp = self.get(RSP).plus(-8);
        self.set(RSP, rsp);
        let memory = self.stack(rsp)?;
        self.store(op, memory, 8, value)
    }

    pub(super) fn pop(&mut self, at: usize, op: &Op, to: RegisterId) -> FlowResult<SlotValue> {
        let rsp = self.get(RSP);
        let memory = self.stack(rsp)?;
        self.set(RSP, rsp.plus(8));
        let value = self.load(ValueKey::Op(at, POPPED), memory, 8)?;
        self.taken_back(op, memory, Some(to), value)
    }

    fn stack(&mut self, rsp: SlotValue) -> FlowResult<Memory> {
        match rsp {
            SlotValue::Frame(o) => Ok(Memory::Frame(o)),
            SlotValue::Node(node, o) => Ok(Memory::At(node, Some(o))),
            _ => Err("the stack pointer is lost".to_owned()),
        }
    }
}
