//! Records of calls and of their operand bundles.
//!
//! A call without its function's type (before LLVM 3.7) is unknown, because its operands and its value follow from that type. A missing or
//! superfluous operand is an error. Source: LLVM, `LLVMBitCodes.h` (`CallMarkersFlags`), `parseFunctionBody`. Fast-math flags are skipped.

use super::super::codes::{instruction as code, numbers};
use super::attributes::AttributeList;
use super::instruction::{CallArgument, CallKind, InstructionKind, IrCall, OperandBundle};
use super::parse::{Context, ParsedRecord, blocks};
use super::record::Record;
use super::record::{TypeId, ValueId};
use super::types::Type;

/// Replaces a value in an operand bundle: metadata follows (LLVM 21, `OB_METADATA`).
const BUNDLE_METADATA: u64 = 0x8000_0000;

numbers! {
    /// Bits of the word of a call that has its calling convention.
    pub(super) mod marker: u64 {
        TAIL = 1 << 0, MUST_TAIL = 1 << 14, EXPLICIT_TYPE = 1 << 15, FAST_MATH = 1 << 17,
        /// The flag in the calling convention of an invoke.
        INVOKE_EXPLICIT_TYPE = 1 << 13,
    }
}

impl<F: Fn(ValueId) -> Option<TypeId>> Context<'_, F> {
    /// Operands for the call that follows: a tag, then values or metadata.
    pub(super) fn bundle(&self, r: &mut Record<'_>) -> Option<ParsedRecord> {
        let tag = r.small()?;
        let mut operands = Vec::with_capacity(r.left());
        while r.left() > 0 {
            if r.rest().first() == Some(&BUNDLE_METADATA) {
                r.take()?;
                operands.push(CallArgument::Metadata(r.value()?.0));
            } else {
                operands.push(CallArgument::Value(self.any(r)?));
            }
        }
        Some(ParsedRecord::Bundle(OperandBundle { tag, operands: operands.into_boxed_slice() }))
    }

    /// Any of the three calls, after its code.
    pub(super) fn call(
        &self,
        code: u32,
        r: &mut Record<'_>,
        bundles: Vec<OperandBundle>,
    ) -> Option<ParsedRecord> {
        let (attributes, word) = (AttributeList(r.small()?), r.take()?);
        let mut explicit = word & marker::EXPLICIT_TYPE != 0;
        let mut convention = word >> 1 & 0x3ff;
        let kind = match code {
            code::INVOKE => {
                explicit = word & marker::INVOKE_EXPLICIT_TYPE != 0;
                convention = word & 0x3ff;
                CallKind::Invoke { normal: r.small()?, unwind: r.small()? }
            }
            code::CALLBR => {
                let (normal, count) = (r.small()?, r.take()?);
                CallKind::CallBr { normal, others: blocks(r.take_many(count)?)? }
            }
            _ => {
                if word & marker::FAST_MATH != 0 {
                    r.take()?;
                }
                let tail = word & (marker::TAIL | marker::MUST_TAIL) != 0;
                CallKind::Call { tail, must_tail: word & marker::MUST_TAIL != 0 }
            }
        };
        if !explicit {
            return Some(ParsedRecord::Unknown);
        }
        let function_type = r.ty()?;
        let callee = self.any(r)?;
        let (result, parameters, vararg) = self.types.function(function_type)?;
        let mut arguments = Vec::with_capacity(r.left());
        for parameter in parameters {
            arguments.push(match self.types.get(*parameter) {
                Some(Type::Label) => CallArgument::Block(r.small()?),
                Some(Type::Metadata) => CallArgument::Metadata(r.value()?.0),
                _ => CallArgument::Value(r.value()?),
            });
        }
        while vararg && r.left() > 0 {
            arguments.push(CallArgument::Value(self.any(r)?));
        }
        if r.left() > 0 {
            return None;
        }
        let call = IrCall {
            kind,
            callee,
            function_type,
            calling_convention: convention as u32,
            attributes,
            arguments: arguments.into_boxed_slice(),
            bundles: bundles.into_boxed_slice(),
        };
        Some(ParsedRecord::Instruction(InstructionKind::Call(Box::new(call)), Some(result)))
    }
}
