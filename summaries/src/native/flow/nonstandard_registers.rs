//! Live-in registers outside the calling convention: the functions that may take arguments in registers that the psABI does not use.
//!
//! An analysed function reads no such register before writing it, or the analysis refuses it
//! ([`CALLERS_REGISTER`](super::unit::CALLERS_REGISTER)). Code that is refused for another reason is scanned. A function that uses one of
//! r12 to r15 saves the caller's value first (psABI 3.2.1). A function that takes an argument there does not. Unknown code counts as
//! taking arguments. The registers rax, r11 and xmm8 to xmm15 are not checked. Any function may use them, and they are passed only after
//! other registers or by `regcall`. Code that stores rbx and r12 to r15 outside of its frame saves a context, as `setjmp` does, and takes no argument there.

use super::module::FlowModule;
use crate::ids::AtomIdx;
use crate::native::decode;
use crate::native::decode::effects::{Effects, InstructionEffect, Operand};
use crate::registers::{self, R12, R13, R14, R15, RBP, RBX, RSP};

/// The preserved registers that some conventions pass arguments in.
const KEPT: u64 = registers::set(&[R12, R13, R14, R15]);
/// The registers of a saved context.
const CONTEXT: u64 = KEPT | registers::set(&[RBX]);

impl FlowModule<'_, '_> {
    /// Whether the atom stores all registers of a context outside of its frame.
    pub(super) fn saves_context(&self, atom: AtomIdx, effects: &mut Effects) -> bool {
        let mut stored = 0;
        let is_decoded = self.each_effect(atom, effects, |_, effect| {
            if let InstructionEffect::Move { to: Operand::Memory(to), from: Operand::Register(from) } = effect
                && !matches!(to.base, Some(RSP | RBP))
            {
                stored |= 1 << from;
            }
        });
        is_decoded.is_some() && stored & CONTEXT == CONTEXT
    }

    /// Whether the atom reads a register that it doesn't save.
    pub(super) fn may_take_registers(&self, atom: AtomIdx, effects: &mut Effects) -> bool {
        let (mut read, mut saved) = (0, 0);
        let is_decoded = self.each_effect(atom, effects, |reads, effect| {
            read |= reads;
            if let InstructionEffect::Push(Operand::Register(from))
            | InstructionEffect::Move { to: Operand::Memory(_), from: Operand::Register(from) } = effect
            {
                saved |= 1 << from;
            }
        });
        is_decoded.is_none() || read & !saved & KEPT != 0
    }

    /// Visits the instructions of an atom, each with the registers that it reads, a bit each. `None` if they are not known.
    fn each_effect(
        &self,
        atom: AtomIdx,
        effects: &mut Effects,
        mut visit: impl FnMut(u64, InstructionEffect),
    ) -> Option<()> {
        let (_, _, bytes) = self.code(atom)?;
        let mut instructions = Vec::new();
        decode::decode(bytes, 0, &mut instructions).ok()?;
        for instruction in instructions {
            let at = instruction.offset as usize;
            let own = bytes.get(at..at + usize::from(instruction.len)).unwrap_or(&[]);
            visit(effects.reads(own)?, effects.effect(own, 0));
        }
        Some(())
    }
}
