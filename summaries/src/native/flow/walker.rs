//! An abstract interpreter's state and results: what a function is entered with, and where control goes from an instruction.
//!
//! At entry the registers that the psABI passes nothing in hold what the caller left there, which is no value of the function's
//! (psABI 3.2.1 and 3.2.3).
//! Left out: what instructions do (`transfer`), and in which order blocks are visited (`walk`).

use super::builder::{ConstraintBuilder, ValueKey};
use super::module::FlowModule;
use super::state::{RegisterState, SlotValue};
use super::unit::Unit;
use crate::native::decode::effects::{RegisterId, SLOTS};
use crate::registers::{self, CONVENTIONAL, R8, RAX, RCX, RDX, RSP, XMM0, XMM1, XMM2, XMM3};

/// Registers that carry a result (psABI 3.2.3): rax and rdx for the class INTEGER, xmm0 and xmm1 for SSE. clang returns vectors that are larger
/// than registers in rcx, xmm2 and xmm3 too, and by `swiftcall` four values in rax, rdx, rcx and r8. An address comes in vector registers when a program keeps its bytes in a vector or in a
/// floating-point number.
pub(super) const RESULTS: [RegisterId; 8] = [RAX, RCX, RDX, R8, XMM0, XMM1, XMM2, XMM3];

pub(super) struct BlockWalker<'u, 'm, 'a, 't> {
    pub(super) unit: &'u Unit,
    pub(super) module: &'m FlowModule<'a, 't>,
    pub(super) builder: &'u mut ConstraintBuilder,
}

/// Where control goes from the end of a block, besides to the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockExit {
    /// Control goes to the next instruction only.
    Falls,
    /// Control goes to this instruction, and to the next one if that is said.
    To(usize, bool),
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
            slot if registers::has(CONVENTIONAL, slot) => {
                SlotValue::Node(builder.value(ValueKey::Parameter(slot)), 0)
            }
            // rax passes nothing but the number of vector registers.
            slot => SlotValue::Saved(slot),
        };
        state.set(slot, value);
    }
    state.written = 0;
    state
}
