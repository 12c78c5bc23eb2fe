//! The instruction set of LLVM IR, as it is read: operands by value id, whatever LLVM's version wrote them.
//!
//! Operands may be forward. Types are those that records give or that follow from the operands without a search: where `None` stands, an analysis has to do
//! without. Source: LLVM, `LLVMBitCodes.h`. Left out: flags of arithmetic, alignment, synchronisation scopes, weights, and debug records, which are no instructions.

use super::attributes::AttributeList;
use super::ids::{TypeId, ValueId};

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

    /// Whether an address is the same number behind it, if it fits.
    pub fn keeps_addresses(opcode: u32) -> bool {
        matches!(opcode, ZEXT | PTRTOINT | INTTOPTR | BITCAST | ADDRSPACECAST | PTRTOADDR)
    }
}

/// `opcode` of an operation on two values; floating-point ones share those of integers (`fdiv` and `frem` the signed).
pub mod binary {
    pub const ADD: u32 = 0;
    pub const SUB: u32 = 1;
    pub const MUL: u32 = 2;
    pub const UDIV: u32 = 3;
    pub const SDIV: u32 = 4;
    pub const UREM: u32 = 5;
    pub const SREM: u32 = 6;
    pub const SHL: u32 = 7;
    pub const LSHR: u32 = 8;
    pub const ASHR: u32 = 9;
    pub const AND: u32 = 10;
    pub const OR: u32 = 11;
    pub const XOR: u32 = 12;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IrInstruction {
    /// The basic block, from 0 in the order of the body.
    pub block: u32,
    /// Its number if it is of a type other than void.
    pub value: Option<ValueId>,
    /// The type of its value, where that is known.
    pub ty: Option<TypeId>,
    pub kind: InstructionKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallArgument {
    Value(ValueId),
    /// A basic block, of an `asm goto` before LLVM 15.
    Block(u32),
    /// Metadata by its number: no value, and no mention of one.
    Metadata(u32),
}

/// Operands that a call has beside its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperandBundle {
    /// It is an index into [`super::IrModule::bundle_tags`].
    pub tag: u32,
    pub operands: Box<[CallArgument]>,
}

/// Where control goes behind a call.
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
    /// As the call has it; the callee's own may be another.
    pub function_type: TypeId,
    /// LLVM's number; 0 is that of C.
    pub calling_convention: u32,
    pub attributes: AttributeList,
    /// As many as the type has parameters; more only if it is variadic.
    pub arguments: Box<[CallArgument]>,
    pub bundles: Box<[OperandBundle]>,
}

/// How an access of memory is ordered: LLVM's number, 0 for one that is not atomic.
pub type Ordering = u64;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InstructionKind {
    /// `fneg`, which is the only one.
    Unary {
        opcode: u32,
        operand: ValueId,
    },
    /// The opcodes are those of [`binary`].
    Binary {
        opcode: u32,
        left: ValueId,
        right: ValueId,
    },
    /// The opcodes are those of [`cast`].
    Cast {
        opcode: u32,
        operand: ValueId,
        to: TypeId,
    },
    /// The base, then indices, which walk `source`; `None` where the pointer's own type says it.
    GetElementPtr {
        source: Option<TypeId>,
        inbounds: bool,
        operands: Box<[ValueId]>,
    },
    Select {
        condition: ValueId,
        if_true: ValueId,
        if_false: ValueId,
    },
    ExtractValue {
        aggregate: ValueId,
        indices: Box<[u64]>,
    },
    InsertValue {
        aggregate: ValueId,
        element: ValueId,
        indices: Box<[u64]>,
    },
    ExtractElement {
        vector: ValueId,
        index: ValueId,
    },
    InsertElement {
        vector: ValueId,
        element: ValueId,
        index: ValueId,
    },
    ShuffleVector {
        left: ValueId,
        right: ValueId,
        mask: ValueId,
    },
    /// `predicate` is LLVM's: below 32 of floating-point numbers, from 32 (`eq`, `ne`, ...) of integers and pointers.
    Compare {
        predicate: u64,
        left: ValueId,
        right: ValueId,
    },
    Load {
        pointer: ValueId,
        volatile: bool,
        ordering: Ordering,
    },
    Store {
        pointer: ValueId,
        value: ValueId,
        value_type: Option<TypeId>,
        volatile: bool,
        ordering: Ordering,
    },
    CompareExchange {
        pointer: ValueId,
        expected: ValueId,
        new: ValueId,
    },
    /// `operation` is LLVM's: 0 for an exchange.
    AtomicRmw {
        pointer: ValueId,
        value: ValueId,
        operation: u64,
    },
    Fence,
    /// Room for `count` of a type; `None` where the record gives only the pointer's.
    Alloca {
        allocated: Option<TypeId>,
        count: ValueId,
    },
    /// Values and the blocks that they come from.
    Phi {
        incoming: Box<[(ValueId, u32)]>,
    },
    Call(Box<IrCall>),
    Return(Option<ValueId>),
    Branch {
        target: u32,
    },
    ConditionalBranch {
        condition: ValueId,
        if_true: u32,
        if_false: u32,
    },
    Switch {
        condition: ValueId,
        default: u32,
        cases: Box<[(ValueId, u32)]>,
    },
    IndirectBranch {
        address: ValueId,
        targets: Box<[u32]>,
    },
    Resume(ValueId),
    /// Type information of what is caught, or arrays of it for filters.
    LandingPad {
        cleanup: bool,
        clauses: Box<[ValueId]>,
    },
    CatchSwitch {
        parent: ValueId,
        handlers: Box<[u32]>,
        unwind: Option<u32>,
    },
    CatchPad {
        parent: ValueId,
        operands: Box<[ValueId]>,
    },
    CleanupPad {
        parent: ValueId,
        operands: Box<[ValueId]>,
    },
    CatchReturn {
        pad: ValueId,
        target: u32,
    },
    CleanupReturn {
        pad: ValueId,
        unwind: Option<u32>,
    },
    VaArg {
        list: ValueId,
    },
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

    /// Every value that it mentions, callee and operand bundles included; values of metadata are not among them.
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
    /// The callee, arguments and operands of bundles.
    pub fn each_operand(&self, mut see: impl FnMut(ValueId)) {
        see(self.callee);
        for argument in self.arguments.iter().chain(self.bundles.iter().flat_map(|b| &b.operands)) {
            if let CallArgument::Value(value) = argument {
                see(*value);
            }
        }
    }
}
