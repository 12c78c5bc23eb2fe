//! Constants: the records of CONSTANTS blocks, of a module or of a function.
//!
//! Each record but SETTYPE defines a value. The operands of an unknown record are unknown, so that users must check
//! [`Constants::unknown`]. Operands are absolute numbers and may be forward. Source: LLVM, `LLVMBitCodes.h` (`ConstantsCodes`),
//! `parseConstants`. Flags of arithmetic and the range of a GEP are skipped.

use super::super::codes::constants as code;
use super::super::error::Result;
use super::super::module::MAX_NOTES;
use super::super::stream::Stream;
use super::record::{Record, short, signed};
use super::record::{TypeId, ValueId};

/// A constant with its type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Constant {
    pub ty: TypeId,
    pub kind: ConstantKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
#[rustfmt::skip]
pub enum ConstantKind {
    /// Zeros of any type, null pointers, the `none` token.
    Null,
    Undef,
    Poison,
    /// An integer of at most 64 bits, sign-extended.
    Integer(i64),
    /// The words of the number, the lowest one first.
    WideInteger(Box<[u64]>),
    /// The bits of the format, the lowest word first.
    Float(Box<[u64]>),
    /// Elements of a structure, array or vector.
    Aggregate(Box<[ValueId]>),
    /// Elements of 8 bits, with the terminating zero if it has one.
    String(Box<[u8]>),
    /// Elements of an array or vector of integers or floating-point numbers, as bits.
    Data(Box<[u64]>),
    /// The opcodes are those of instructions, [`super::instruction::binary`].
    Binary { opcode: u32, left: ValueId, right: ValueId },
    /// The opcodes are those of instructions, [`super::instruction::cast`].
    Cast { opcode: u32, operand: ValueId },
    GetElementPtr {
        /// The type that the indices walk; `None` if it is the pointer's own (typed pointers).
        source: Option<TypeId>,
        inbounds: bool,
        /// The base comes first and then the indices.
        operands: Box<[ValueId]>,
    },
    /// The address of a block of a function's body.
    BlockAddress { function: ValueId, block: u32 },
    DsoLocalEquivalent(ValueId),
    NoCfi(ValueId),
    InlineAsm {
        text: Box<[u8]>,
        /// Outputs, inputs and clobbers, separated by commas.
        constraints: Box<[u8]>,
    },
    /// An expression whose operands matter, but not its form: comparisons, selections, vectors, signed pointers.
    Other(Box<[ValueId]>),
    Unknown { code: u32 },
}

/// The constants of a module or a function, in the order of their value ids.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Constants {
    pub all: Vec<Constant>,
    /// Unknown records. Their values are still counted.
    pub unknown: Vec<String>,
}

impl Constant {
    /// Call `see` for every operand.
    pub fn each_operand(&self, mut see: impl FnMut(ValueId)) {
        match &self.kind {
            ConstantKind::Aggregate(all) | ConstantKind::Other(all) => all.iter().copied().for_each(see),
            ConstantKind::GetElementPtr { operands, .. } => operands.iter().copied().for_each(see),
            ConstantKind::Binary { left, right, .. } => [*left, *right].into_iter().for_each(see),
            ConstantKind::Cast { operand: id, .. }
            | ConstantKind::BlockAddress { function: id, .. }
            | ConstantKind::DsoLocalEquivalent(id)
            | ConstantKind::NoCfi(id) => see(*id),
            ConstantKind::Null
            | ConstantKind::Undef
            | ConstantKind::Poison
            | ConstantKind::Integer(_)
            | ConstantKind::WideInteger(_)
            | ConstantKind::Float(_)
            | ConstantKind::String(_)
            | ConstantKind::Data(_)
            | ConstantKind::InlineAsm { .. }
            | ConstantKind::Unknown { .. } => {}
        }
    }
}

impl Constants {
    /// Read the block that has just been entered, and append its constants.
    pub(super) fn read(&mut self, stream: &mut Stream<'_>) -> Result<()> {
        // LLVM's reader begins with `i32`; LLVM always writes a type first.
        let mut ty = None;
        stream.each_record(|stream, code| {
            let mut record = Record::new(stream.operands(), 0);
            if code == code::SETTYPE {
                ty = Some(record.ty().ok_or_else(|| short(stream, code))?);
                return Ok(());
            }
            let ty = ty.ok_or_else(|| short(stream, code))?;
            let kind = parse(record, code).ok_or_else(|| short(stream, code))?;
            if matches!(kind, ConstantKind::Unknown { .. }) && self.unknown.len() < MAX_NOTES {
                self.unknown.push(format!("constant record {code}"));
            }
            self.all.push(Constant { ty, kind });
            Ok(())
        })
    }
}

fn parse(mut record: Record<'_>, code: u32) -> Option<ConstantKind> {
    use ConstantKind as Kind;
    Some(match code {
        code::NULL => Kind::Null,
        code::UNDEF => Kind::Undef,
        code::POISON => Kind::Poison,
        code::INTEGER => Kind::Integer(signed(record.take()?)),
        code::WIDE_INTEGER => Kind::WideInteger(record.rest().iter().map(|w| signed(*w) as u64).collect()),
        code::FLOAT => Kind::Float(record.rest().into()),
        code::AGGREGATE => Kind::Aggregate(values(record)?),
        code::STRING => Kind::String(record.rest().iter().map(|c| *c as u8).collect()),
        code::CSTRING => Kind::String(record.rest().iter().map(|c| *c as u8).chain([0]).collect()),
        code::DATA => Kind::Data(record.rest().into()),
        code::BINOP => {
            Kind::Binary { opcode: record.small()?, left: record.absolute()?, right: record.absolute()? }
        }
        code::CAST => {
            let (opcode, _) = (record.small()?, record.ty()?);
            Kind::Cast { opcode, operand: record.absolute()? }
        }
        code::UNOP => {
            let _opcode = record.take()?;
            Kind::Other([record.absolute()?].into())
        }
        code::GEP_OLD
        | code::INBOUNDS_GEP
        | code::GEP_WITH_INRANGE_INDEX
        | code::GEP_WITH_INRANGE
        | code::GEP => get_element_ptr(record, code)?,
        code::SELECT | code::SHUFFLEVEC => Kind::Other(values(record)?),
        // A type, then values.
        code::CMP | code::SHUFVEC_EX => {
            let _type = record.ty()?;
            let count = if code == code::CMP { 2 } else { 3 };
            Kind::Other(values(Record::new(record.take_many(count)?, 0))?)
        }
        // The vector's type, the vector, the index with its type if there are four.
        code::EXTRACTELT => {
            let typed = record.left() == 4;
            let (_type, vector) = (record.ty()?, record.absolute()?);
            typed.then(|| record.ty());
            Kind::Other([vector, record.absolute()?].into())
        }
        code::INSERTELT => {
            let typed = record.left() == 4;
            let (vector, element) = (record.absolute()?, record.absolute()?);
            typed.then(|| record.ty());
            Kind::Other([vector, element, record.absolute()?].into())
        }
        code::PTRAUTH | code::PTRAUTH2 => Kind::Other(values(record)?),
        code::BLOCKADDRESS => {
            let _type = record.ty()?;
            Kind::BlockAddress { function: record.absolute()?, block: record.small()? }
        }
        code::DSO_LOCAL_EQUIVALENT | code::NO_CFI => {
            let _type = record.ty()?;
            let function = record.absolute()?;
            if code == code::NO_CFI { Kind::NoCfi(function) } else { Kind::DsoLocalEquivalent(function) }
        }
        code::INLINEASM_OLD | code::INLINEASM_OLD2 | code::INLINEASM_OLD3 | code::INLINEASM => {
            let (text, constraints) = assembly(code, record.rest())?;
            let bytes = |text: &[u64]| text.iter().map(|c| *c as u8).collect();
            Kind::InlineAsm { text: bytes(text), constraints: bytes(constraints) }
        }
        code => Kind::Unknown { code },
    })
}

/// The text and the constraints of inline assembly, from the operands of its record, one character in each.
pub(in super::super) fn assembly(code: u32, operands: &[u64]) -> Option<(&[u64], &[u64])> {
    let before = match code {
        code::INLINEASM_OLD | code::INLINEASM_OLD2 | code::INLINEASM_OLD3 => 1,
        // Since LLVM 14 the function's type comes first.
        code::INLINEASM => 2,
        _ => return None,
    };
    let counted = |operands: &[u64]| -> Option<usize> { usize::try_from(*operands.first()?).ok() };
    let rest = operands.get(before..)?;
    let (text, rest) = rest.get(1..)?.split_at_checked(counted(rest)?)?;
    let constraints = rest.get(1..)?.get(..counted(rest)?)?;
    Some((text, constraints))
}

fn values(mut record: Record<'_>) -> Option<Box<[ValueId]>> {
    let mut all = Vec::with_capacity(record.left());
    while record.left() > 0 {
        all.push(record.absolute()?);
    }
    Some(all.into_boxed_slice())
}

/// The record is `[type?, flags?, range?, (type, value)...]`.
fn get_element_ptr(mut record: Record<'_>, code: u32) -> Option<ConstantKind> {
    let leads = matches!(code, code::GEP_WITH_INRANGE_INDEX | code::GEP_WITH_INRANGE | code::GEP);
    let source = if leads || record.left() % 2 == 1 { Some(record.ty()?) } else { None };
    let inbounds = if leads { record.take()? & 1 != 0 } else { code == code::INBOUNDS_GEP };
    if code == code::GEP_WITH_INRANGE {
        pass_range(&mut record)?;
    }
    let mut operands = Vec::with_capacity(record.left() / 2);
    while record.left() > 0 {
        let _type = record.ty()?;
        operands.push(record.absolute()?);
    }
    Some(ConstantKind::GetElementPtr { source, inbounds, operands: operands.into_boxed_slice() })
}

/// Skip a range of integers: the width, then two numbers, of several words each if the width is more than 64.
pub(super) fn pass_range(record: &mut Record<'_>) -> Option<()> {
    let width = record.take()?;
    pass_bounds(record, width)
}

/// Skip the two ends of a range.
pub(super) fn pass_bounds(record: &mut Record<'_>, width: u64) -> Option<()> {
    let words = if width > 64 {
        let active = record.take()?;
        (active & 0xffff_ffff) + (active >> 32)
    } else {
        2
    };
    record.take_many(words).map(|_| ())
}
