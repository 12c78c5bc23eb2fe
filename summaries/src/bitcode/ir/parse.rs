//! The instruction decoder: from a record of a function's body to an instruction.
//!
//! `None` means a record that is shorter than any that LLVM writes. An unknown record is reported as such: it may define a value, so that
//! nothing after it can be trusted. Source: LLVM, `parseFunctionBody`. Source locations and debug records are skipped.

use super::super::codes::instruction as code;
use super::instruction::{InstructionKind as Kind, OperandBundle};
use super::record::Record;
use super::record::{TypeId, ValueId};
use super::types::{Type, Types};

pub(super) enum ParsedRecord {
    /// An instruction, with the type of its value where that is known.
    Instruction(Kind, Option<TypeId>),
    /// The bundle is one of the call that follows.
    Bundle(OperandBundle),
    /// The record is no instruction and has no value.
    Nothing,
    Unknown,
}

/// Bit of an alloca's alignment: the first operand is the allocated type, not a pointer to it.
const ALLOCA_EXPLICIT_TYPE: u64 = 1 << 6;

/// The binary logarithm of an alloca's alignment, from its flags (`AllocaPackedValues` in LLVM's BitcodeWriter): bits 0 to 4 and 8 to 10 hold
/// one more than that.
fn alloca_align(word: u64) -> u64 {
    (word & 31 | (word >> 8 & 7) << 5).saturating_sub(1)
}

/// The types that parsing needs of the values so far.
pub(super) struct Context<'m, F> {
    pub(super) types: &'m Types,
    /// The type of a value that is known.
    pub(super) type_of: F,
}

impl<F: Fn(ValueId) -> Option<TypeId>> Context<'_, F> {
    /// A value with its type, which is in the record if the value is forward.
    fn typed(&self, record: &mut Record<'_>) -> Option<(ValueId, Option<TypeId>)> {
        let (value, ty) = record.typed_value()?;
        Some((value, ty.or_else(|| (self.type_of)(value))))
    }

    fn is_vector(&self, ty: TypeId) -> bool {
        matches!(self.types.get(ty), Some(Type::Vector { .. }))
    }

    pub(super) fn any(&self, record: &mut Record<'_>) -> Option<ValueId> {
        record.typed_value().map(|(value, _)| value)
    }

    fn any_left(&self, record: &mut Record<'_>) -> Option<Box<[ValueId]>> {
        let mut all = Vec::with_capacity(record.left());
        while record.left() > 0 {
            all.push(self.any(record)?);
        }
        Some(all.into_boxed_slice())
    }

    /// The instruction of a record, with `bundles` if it is a call.
    pub(super) fn parse(
        &self,
        code: u32,
        mut record: Record<'_>,
        bundles: &mut Vec<OperandBundle>,
    ) -> Option<ParsedRecord> {
        let r = &mut record;
        Some(match code {
            code::CALL | code::INVOKE | code::CALLBR => return self.call(code, r, std::mem::take(bundles)),
            code::OPERAND_BUNDLE => self.bundle(r)?,
            code::DEBUG_LOC
            | code::DEBUG_LOC_AGAIN
            | code::BLOCKADDR_USERS
            | code::DEBUG_RECORD_VALUE..=code::DEBUG_RECORD_DECLARE_VALUE => ParsedRecord::Nothing,
            code::RET..=code::SWITCH
            | code::UNREACHABLE
            | code::INDIRECTBR
            | code::RESUME
            | code::LANDINGPAD..=code::CATCHSWITCH => self.control(code, r)?,
            code::LOAD
            | code::LOADATOMIC
            | code::STORE_OLD
            | code::STORE
            | code::STOREATOMIC_OLD
            | code::STOREATOMIC
            | code::ALLOCA
            | code::FENCE
            | code::CMPXCHG_OLD
            | code::CMPXCHG
            | code::ATOMICRMW_OLD
            | code::ATOMICRMW
            | code::VAARG => self.memory(code, r)?,
            _ => self.operation(code, r)?,
        })
    }

    /// Instructions that compute a value from others.
    fn operation(&self, code: u32, r: &mut Record<'_>) -> Option<ParsedRecord> {
        let (kind, ty) = match code {
            code::UNOP => {
                let (operand, ty) = self.typed(r)?;
                (Kind::Unary { opcode: r.small()?, operand }, ty)
            }
            code::BINOP => {
                let ((left, ty), right) = (self.typed(r)?, r.value()?);
                (Kind::Binary { opcode: r.small()?, left, right }, ty)
            }
            code::CAST => {
                let (operand, to) = (self.any(r)?, r.ty()?);
                (Kind::Cast { opcode: r.small()?, operand, to }, Some(to))
            }
            code::FREEZE => {
                let (operand, ty) = self.typed(r)?;
                (Kind::Freeze(operand), ty)
            }
            code::GEP | code::GEP_OLD | code::INBOUNDS_GEP_OLD => {
                let inbounds = if code == code::GEP { r.take()? & 1 != 0 } else { code != code::GEP_OLD };
                let source = if code == code::GEP { Some(r.ty()?) } else { None };
                let (base, ty) = self.typed(r)?;
                let mut operands = vec![base];
                let mut lanes = None;
                while r.left() > 0 {
                    let (index, ty) = self.typed(r)?;
                    operands.push(index);
                    lanes = lanes.or(ty.filter(|t| self.is_vector(*t)));
                }
                // A GEP of a typed pointer has another type. A vector of indices makes a vector of pointers.
                let ty = ty.filter(|t| match self.types.get(*t) {
                    Some(Type::Pointer { pointee, .. }) => pointee.is_none(),
                    _ => self.types.pointer().is_some(),
                });
                let ty = match (ty, lanes) {
                    (Some(ty), Some(like)) if !self.is_vector(ty) => self.types.lanes(like, ty),
                    (ty, _) => ty,
                };
                let operands = operands.into_boxed_slice();
                (Kind::GetElementPtr { source, inbounds, operands }, ty)
            }
            code::SELECT => {
                let ((if_true, ty), if_false) = (self.typed(r)?, r.value()?);
                (Kind::Select { condition: r.value()?, if_true, if_false }, ty)
            }
            code::VSELECT => {
                let ((if_true, ty), if_false) = (self.typed(r)?, r.value()?);
                (Kind::Select { condition: self.any(r)?, if_true, if_false }, ty)
            }
            code::CMP | code::CMP2 => {
                let ((left, ty), right) = (self.typed(r)?, r.value()?);
                let ty = ty.zip(self.types.truth()).and_then(|(ty, truth)| self.types.lanes(ty, truth));
                (Kind::Compare { predicate: r.take()?, left, right }, ty)
            }
            code::EXTRACTVAL => {
                let (aggregate, ty) = self.typed(r)?;
                let ty = ty.and_then(|t| self.types.element(t, r.rest()));
                (Kind::ExtractValue { aggregate, indices: r.rest().into() }, ty)
            }
            code::INSERTVAL => {
                let ((aggregate, ty), element) = (self.typed(r)?, self.any(r)?);
                (Kind::InsertValue { aggregate, element, indices: r.rest().into() }, ty)
            }
            code::EXTRACTELT => {
                let ((vector, ty), index) = (self.typed(r)?, self.any(r)?);
                (Kind::ExtractElement { vector, index }, ty.and_then(|t| self.types.element(t, &[0])))
            }
            code::INSERTELT => {
                let ((vector, ty), element) = (self.typed(r)?, r.value()?);
                (Kind::InsertElement { vector, element, index: self.any(r)? }, ty)
            }
            code::SHUFFLEVEC => {
                let ((left, ty), right) = (self.typed(r)?, r.value()?);
                let (mask, like) = self.typed(r)?;
                let element = ty.and_then(|ty| self.types.element(ty, &[0]));
                let ty = like.zip(element).and_then(|(like, element)| self.types.lanes(like, element));
                (Kind::ShuffleVector { left, right, mask }, ty)
            }
            code::PHI => {
                let ty = r.ty()?;
                let mut incoming = Vec::with_capacity(r.left() / 2);
                // One more at the end is a word of flags.
                while r.left() > 1 {
                    incoming.push((r.signed_value()?, r.small()?));
                }
                (Kind::Phi { incoming: incoming.into_boxed_slice() }, Some(ty))
            }
            _ => return Some(ParsedRecord::Unknown),
        };
        Some(ParsedRecord::Instruction(kind, ty))
    }

    /// Instructions that read, write or allocate memory.
    fn memory(&self, code: u32, r: &mut Record<'_>) -> Option<ParsedRecord> {
        let (kind, ty) = match code {
            code::LOAD | code::LOADATOMIC => {
                let pointer = self.any(r)?;
                let atomic = code == code::LOADATOMIC;
                // Alignment, whether volatile, and for atomic ones the ordering and its scope.
                let ty = if r.left() > if atomic { 4 } else { 2 } { Some(r.ty()?) } else { None };
                let (_align, volatile) = (r.take()?, r.take()? != 0);
                let ordering = if atomic { r.take()? } else { 0 };
                (Kind::Load { pointer, volatile, ordering }, ty)
            }
            code::STORE | code::STOREATOMIC | code::STORE_OLD | code::STOREATOMIC_OLD => {
                let pointer = self.any(r)?;
                let old = matches!(code, code::STORE_OLD | code::STOREATOMIC_OLD);
                let (value, value_type) = if old { (r.value()?, None) } else { self.typed(r)? };
                let (_align, volatile) = (r.take()?, r.take()? != 0);
                let atomic = matches!(code, code::STOREATOMIC | code::STOREATOMIC_OLD);
                let ordering = if atomic { r.take()? } else { 0 };
                (Kind::Store { pointer, value, value_type, volatile, ordering }, None)
            }
            code::CMPXCHG | code::CMPXCHG_OLD => {
                let pointer = self.any(r)?;
                let (expected, ty) = if code == code::CMPXCHG { self.typed(r)? } else { (r.value()?, None) };
                // The old value, and whether it was the expected one.
                let ty = ty.zip(self.types.truth()).and_then(|(ty, truth)| self.types.pair(ty, truth));
                (Kind::CompareExchange { pointer, expected, new: r.value()? }, ty)
            }
            code::ATOMICRMW | code::ATOMICRMW_OLD => {
                let pointer = self.any(r)?;
                let (value, ty) = if code == code::ATOMICRMW { self.typed(r)? } else { (r.value()?, None) };
                (Kind::AtomicRmw { pointer, value, operation: r.take()? }, ty)
            }
            code::ALLOCA => {
                let (first, _size_type) = (r.ty()?, r.ty()?);
                let (count, word) = (r.absolute()?, r.take()?);
                let explicit = word & ALLOCA_EXPLICIT_TYPE != 0;
                let address_space = r.take().unwrap_or_default();
                let (allocated, ty) = match self.types.get(first) {
                    _ if explicit => (Some(first), self.types.pointer().filter(|_| address_space == 0)),
                    Some(Type::Pointer { pointee, .. }) => (*pointee, Some(first)),
                    _ => return None,
                };
                let align_log2 = alloca_align(word);
                (Kind::Alloca { allocated, count, align_log2 }, ty)
            }
            code::VAARG => {
                let (_list_type, list) = (r.ty()?, r.value()?);
                (Kind::VaArg { list }, Some(r.ty()?))
            }
            _ => (Kind::Fence, None),
        };
        Some(ParsedRecord::Instruction(kind, ty))
    }

    /// Terminators, and instructions that begin a landing block.
    fn control(&self, code: u32, r: &mut Record<'_>) -> Option<ParsedRecord> {
        let mut ty = None;
        let kind = match code {
            code::RET if r.left() == 0 => Kind::Return(None),
            code::RET => Kind::Return(Some(self.any(r)?)),
            code::BR if r.left() == 1 => Kind::Branch { target: r.small()? },
            code::BR => {
                let (if_true, if_false) = (r.small()?, r.small()?);
                Kind::ConditionalBranch { condition: r.value()?, if_true, if_false }
            }
            code::SWITCH => {
                let (_type, condition, default) = (r.ty()?, r.value()?, r.small()?);
                let mut cases = Vec::with_capacity(r.left() / 2);
                while r.left() > 0 {
                    cases.push((r.absolute()?, r.small()?));
                }
                Kind::Switch { condition, default, cases: cases.into_boxed_slice() }
            }
            code::INDIRECTBR => {
                let (_type, address) = (r.ty()?, r.value()?);
                Kind::IndirectBranch { address, targets: blocks(r.rest())? }
            }
            code::RESUME => Kind::Resume(self.any(r)?),
            code::UNREACHABLE => Kind::Unreachable,
            code::LANDINGPAD => {
                ty = Some(r.ty()?);
                let (cleanup, count) = (r.take()? != 0, r.take()?);
                let mut clauses = Vec::new();
                for _ in 0..count {
                    let _catch_or_filter = r.take()?;
                    clauses.push(self.any(r)?);
                }
                Kind::LandingPad { cleanup, clauses: clauses.into_boxed_slice() }
            }
            code::CATCHSWITCH => {
                let (parent, count) = (r.value()?, r.take()?);
                let handlers = blocks(r.take_many(count)?)?;
                Kind::CatchSwitch { parent, handlers, unwind: r.small() }
            }
            code::CATCHPAD | code::CLEANUPPAD => {
                let (parent, _count) = (r.value()?, r.take()?);
                let operands = self.any_left(r)?;
                if code == code::CATCHPAD {
                    Kind::CatchPad { parent, operands }
                } else {
                    Kind::CleanupPad { parent, operands }
                }
            }
            code::CATCHRET => Kind::CatchReturn { pad: r.value()?, target: r.small()? },
            code::CLEANUPRET => Kind::CleanupReturn { pad: r.value()?, unwind: r.small() },
            _ => return Some(ParsedRecord::Unknown),
        };
        Some(ParsedRecord::Instruction(kind, ty))
    }
}

pub(super) fn blocks(numbers: &[u64]) -> Option<Box<[u32]>> {
    numbers.iter().map(|n| u32::try_from(*n).ok()).collect()
}
