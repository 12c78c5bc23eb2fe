//! The instruction set of LLVM IR: operands by value id, in one form for all versions of LLVM.
//!
//! Operands may be forward. Types are those of records, or follow from operands without a search; otherwise they are `None`.
//! Source: LLVM, `LLVMBitCodes.h`. Flags of arithmetic, alignment, synchronisation scopes, weights and debug records are skipped.

use super::super::codes::numbers;
use super::attributes::AttributeList;
use super::record::{TypeId, ValueId};

/// The opcodes of casts, in instructions and constants.
pub mod cast {
    pub const TRUNC: u32 = 0;
    pub const ZEXT: u32 = 1;
    pub const SEXT: u32 = 2;
    pub const FPTOUI: u32 = 3;
    pub const FPTOSI: u32 = 4;
    pub const UITOFP: u32 = 5;
    pub const SITOFP: u32 = 6;
    pub const FPTRUNC: u32 = 7;
    pub const FPEXT: u32 = 8;
    pub const PTRTOINT: u32 = 9;
    pub const INTTOPTR: u32 = 10;
    pub const BITCAST: u32 = 11;
    pub const ADDRSPACECAST: u32 = 12;
    /// LLVM writes it from version 22 on.
    pub const PTRTOADDR: u32 = 13;

    /// Whether the cast keeps the number of an address, if it fits.
    pub fn keeps_addresses(opcode: u32) -> bool {
        matches!(opcode, ZEXT | PTRTOINT | INTTOPTR | BITCAST | ADDRSPACECAST | PTRTOADDR)
    }
}

numbers! {
    /// `opcode` of an operation on two values; floating-point ones share those of integers (`fdiv` and `frem` the signed).
    pub mod binary: u32 {
        ADD = 0, SUB = 1, MUL = 2, UDIV = 3, SDIV = 4, UREM = 5, SREM = 6, SHL = 7, LSHR = 8, ASHR = 9,
        AND = 10, OR = 11, XOR = 12,
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IrInstruction {
    /// The basic block, from 0 in the order of the body.
    pub block: u32,
    /// Its number if it is of a type other than void.
    pub value: Option<ValueId>,
    /// The type of its value, if it is known.
    pub ty: Option<TypeId>,
    pub kind: InstructionKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallArgument {
    Value(ValueId),
    /// A basic block, of an `asm goto` before LLVM 15.
    Block(u32),
    /// Metadata by its number: it is no value and refers to none.
    Metadata(u32),
}

/// An operand bundle of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperandBundle {
    /// It is an index into [`super::IrModule::bundle_tags`].
    pub tag: u32,
    pub operands: Box<[CallArgument]>,
}

/// The successors of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallKind {
    Call {
        tail: bool,
        must_tail: bool,
    },
    Invoke {
        normal: u32,
        unwind: u32,
    },
    /// It is the instruction of `asm goto` in C.
    CallBr {
        normal: u32,
        others: Box<[u32]>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IrCall {
    pub kind: CallKind,
    pub callee: ValueId,
    /// The call's own function type; the callee's may differ.
    pub function_type: TypeId,
    /// LLVM's number; 0 is that of C.
    pub calling_convention: u32,
    pub attributes: AttributeList,
    /// One for each parameter of the type, and more if it is variadic.
    pub arguments: Box<[CallArgument]>,
    pub bundles: Box<[OperandBundle]>,
}

/// The ordering of a memory access: LLVM's number, 0 for one that is not atomic.
pub type Ordering = u64;

#[derive(Debug, Clone, PartialEq, Eq)]
#[rustfmt::skip]
pub enum InstructionKind {
    /// The only one is `fneg`.
    Unary { opcode: u32, operand: ValueId },
    /// The opcodes are those of [`binary`].
    Binary { opcode: u32, left: ValueId, right: ValueId },
    /// The opcodes are those of [`cast`].
    Cast { opcode: u32, operand: ValueId, to: TypeId },
    /// The base, then indices, which walk `source`; `None` if that is the pointer's own type.
    GetElementPtr { source: Option<TypeId>, inbounds: bool, operands: Box<[ValueId]> },
    Select { condition: ValueId, if_true: ValueId, if_false: ValueId },
    ExtractValue { aggregate: ValueId, indices: Box<[u64]> },
    InsertValue { aggregate: ValueId, element: ValueId, indices: Box<[u64]> },
    ExtractElement { vector: ValueId, index: ValueId },
    InsertElement { vector: ValueId, element: ValueId, index: ValueId },
    ShuffleVector { left: ValueId, right: ValueId, mask: ValueId },
    /// `predicate` is LLVM's: below 32 of floating-point numbers, from 32 (`eq`, `ne`, ...) of integers and pointers.
    Compare { predicate: u64, left: ValueId, right: ValueId },
    Load { pointer: ValueId, volatile: bool, ordering: Ordering },
    Store {
        pointer: ValueId,
        value: ValueId,
        value_type: Option<TypeId>,
        volatile: bool,
        ordering: Ordering,
    },
    CompareExchange { pointer: ValueId, expected: ValueId, new: ValueId },
    /// `operation` is LLVM's: 0 for an exchange.
    AtomicRmw { pointer: ValueId, value: ValueId, operation: u64 },
    Fence,
    /// Room for `count` of a type; `None` if the record has only the pointer's type.
    Alloca { allocated: Option<TypeId>, count: ValueId, align_log2: u64 },
    /// Values and the blocks that they come from.
    Phi { incoming: Box<[(ValueId, u32)]> },
    Call(Box<IrCall>),
    Return(Option<ValueId>),
    Branch { target: u32 },
    ConditionalBranch { condition: ValueId, if_true: u32, if_false: u32 },
    Switch { condition: ValueId, default: u32, cases: Box<[(ValueId, u32)]> },
    IndirectBranch { address: ValueId, targets: Box<[u32]> },
    Resume(ValueId),
    /// Type information of caught exceptions, or arrays of it for filters.
    LandingPad { cleanup: bool, clauses: Box<[ValueId]> },
    CatchSwitch { parent: ValueId, handlers: Box<[u32]>, unwind: Option<u32> },
    CatchPad { parent: ValueId, operands: Box<[ValueId]> },
    CleanupPad { parent: ValueId, operands: Box<[ValueId]> },
    CatchReturn { pad: ValueId, target: u32 },
    CleanupReturn { pad: ValueId, unwind: Option<u32> },
    VaArg { list: ValueId },
    Freeze(ValueId),
    Unreachable,
}

impl InstructionKind {
    /// Whether it ends its basic block.
    pub fn is_terminator(&self) -> bool {
        match self {
            InstructionKind::Call(call) => !matches!(call.kind, CallKind::Call { .. }),
            InstructionKind::Return(_)
            | InstructionKind::Branch { .. }
            | InstructionKind::ConditionalBranch { .. }
            | InstructionKind::Switch { .. }
            | InstructionKind::IndirectBranch { .. }
            | InstructionKind::Resume(_)
            | InstructionKind::CatchSwitch { .. }
            | InstructionKind::CatchReturn { .. }
            | InstructionKind::CleanupReturn { .. }
            | InstructionKind::Unreachable => true,
            _ => false,
        }
    }

    /// Call `see` for every operand, including the callee and operand bundles, but not for values in metadata.
    pub fn each_operand(&self, mut see: impl FnMut(ValueId)) {
        use InstructionKind as Kind;
        match self {
            Kind::Unary { operand: a, .. }
            | Kind::Cast { operand: a, .. }
            | Kind::ExtractValue { aggregate: a, .. }
            | Kind::Load { pointer: a, .. }
            | Kind::Alloca { count: a, .. }
            | Kind::ConditionalBranch { condition: a, .. }
            | Kind::IndirectBranch { address: a, .. }
            | Kind::Resume(a)
            | Kind::CatchSwitch { parent: a, .. }
            | Kind::CatchReturn { pad: a, .. }
            | Kind::CleanupReturn { pad: a, .. }
            | Kind::VaArg { list: a }
            | Kind::Freeze(a) => see(*a),
            Kind::Binary { left: a, right: b, .. }
            | Kind::Compare { left: a, right: b, .. }
            | Kind::InsertValue { aggregate: a, element: b, .. }
            | Kind::ExtractElement { vector: a, index: b }
            | Kind::Store { pointer: a, value: b, .. }
            | Kind::AtomicRmw { pointer: a, value: b, .. } => [*a, *b].into_iter().for_each(see),
            Kind::Select { condition: a, if_true: b, if_false: c }
            | Kind::InsertElement { vector: a, element: b, index: c }
            | Kind::ShuffleVector { left: a, right: b, mask: c }
            | Kind::CompareExchange { pointer: a, expected: b, new: c } => {
                [*a, *b, *c].into_iter().for_each(see);
            }
            Kind::GetElementPtr { operands: all, .. } | Kind::LandingPad { clauses: all, .. } => {
                all.iter().copied().for_each(see);
            }
            Kind::CatchPad { parent, operands } | Kind::CleanupPad { parent, operands } => {
                see(*parent);
                operands.iter().copied().for_each(see);
            }
            Kind::Phi { incoming } => incoming.iter().for_each(|(value, _)| see(*value)),
            Kind::Switch { condition, cases, .. } => {
                see(*condition);
                cases.iter().for_each(|(value, _)| see(*value));
            }
            Kind::Call(call) => call.each_operand(see),
            Kind::Return(value) => value.iter().copied().for_each(see),
            Kind::Fence | Kind::Branch { .. } | Kind::Unreachable => {}
        }
    }
}

impl IrCall {
    /// Call `see` for the callee, the arguments and the operands of bundles.
    pub fn each_operand(&self, mut see: impl FnMut(ValueId)) {
        see(self.callee);
        for argument in self.arguments.iter().chain(self.bundles.iter().flat_map(|b| &b.operands)) {
            if let CallArgument::Value(value) = argument {
                see(*value);
            }
        }
    }
}
