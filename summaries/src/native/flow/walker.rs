//! An abstract interpreter's state and results: what a function is entered with, and where control goes from an instruction.
//!
//! At entry the registers that the psABI passes nothing in hold what the caller left there, which is no value of the function's
//! (psABI 3.2.1 and 3.2.3); an MMX or mask register that is read before it is written holds anything that escaped (`transfer`).
//! Left out: what instructions do (`transfer`), and in which order blocks are visited (`walk`).

use super::builder::{ConstraintBuilder, ValueKey};
use super::module::FlowModule;
use super::state::{RegisterState, SlotValue};
use super::unit::Unit;
use crate::native::decode::effects::{FLAGS, RegisterId, SLOTS, UNPASSED};
use crate::registers::{
    R11, R12, R13, R14, R15, RAX, RBP, RBX, RCX, RDX, RSP, X87, XMM0, XMM1, XMM2, XMM3, XMM7,
};

/// Registers that carry a result (psABI 3.2.3): rax and rdx for the class INTEGER, xmm0 and xmm1 for SSE, and st0; rcx for the third
/// element of a vector, xmm2 and xmm3 for vectors that are larger than registers, as clang has it. An address comes in the latter when a program keeps its bytes in a vector or in a floating-point number.
pub(super) const RESULTS: [RegisterId; 8] = [RAX, RCX, RDX, XMM0, XMM1, XMM2, XMM3, X87];
/// The first register that vectors and floating-point numbers are not passed in: those before it are xmm0 to xmm7.
const FIRST_UNPASSED: RegisterId = XMM7 + 1;
/// rsp, and what a callee saves.
const SAVED: [RegisterId; 6] = [RBX, RBP, R12, R13, R14, R15];

pub(super) struct BlockWalker<'u, 'm, 'a, 't> {
    pub(super) unit: &'u Unit,
    pub(super) module: &'m FlowModule<'a, 't>,
    pub(super) builder: &'u mut ConstraintBuilder,
    /// The function may write where its return address lies, or return to what it pushed.
    pub(super) returns_elsewhere: bool,
}

/// Where control goes from the end of a block, besides to the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockExit {
    /// Control goes to the next instruction only.
    Falls,
    /// Control goes to this instruction, and to the next one if that is said.
    To(usize, bool),
    /// Control goes to a thunk in the function, which jumps to what returns behind the call.
    Through(usize),
    /// Control goes to any label of the function.
    Labels,
    /// Control goes nowhere in the function.
    Ends,
}

/// The state in which a function is entered.
pub(super) fn at_entry(builder: &mut ConstraintBuilder) -> RegisterState {
    let mut state = RegisterState::unreached();
    for slot in 0..SLOTS as RegisterId {
        let value = match slot {
            RSP => SlotValue::Frame(0),
            X87 | UNPASSED | FLAGS => SlotValue::None,
            // rax passes nothing but the number of vector registers, and r11 nothing.
            RAX | R11 | FIRST_UNPASSED..X87 => SlotValue::Saved,
            slot if SAVED.contains(&slot) => SlotValue::Saved,
            slot => SlotValue::Node(builder.value(ValueKey::Parameter(slot)), 0),
        };
        state.set(slot, value);
    }
    state.clobbered = 0;
    state.written = 0;
    state
}
