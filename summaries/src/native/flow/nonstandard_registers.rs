//! Live-in registers outside the calling convention: the functions that may take arguments in registers that the psABI does not use.
//!
//! An analysed function reads no such register before writing it, or the analysis refuses it
//! ([`CALLERS_REGISTER`](super::unit::CALLERS_REGISTER)). Code that is refused for another reason is scanned. A function that uses one of
//! r12 to r15 saves the caller's value first (psABI 3.2.1). A function that takes an argument there does not. Unknown code counts as
//! taking arguments. The registers rax, r11 and xmm8 to xmm15 are not checked. Any function may use them, and they are passed only after
//! other registers or by `regcall`.

use super::module::FlowModule;
use crate::ids::AtomIdx;
use crate::native::decode;
use crate::native::decode::effects::{Effects, InstructionEffect, Operand};
use crate::registers::{self, R12, R13, R14, R15};

const KEPT: u64 = registers::set(&[R12, R13, R14, R15]);

impl FlowModule<'_, '_> {
    /// Whether the atom reads a register that it doesn't save.
    pub(super) fn may_take_registers(&self, atom: AtomIdx, effects: &mut Effects) -> bool {
        let Some((_, _, bytes)) = self.code(atom) else { return true };
        let mut instructions = Vec::new();
        if decode::decode(bytes, 0, &mut instructions).is_err() {
            return true;
        }
        let (mut read, mut put) = (0, 0);
        for instruction in instructions {
            let at = instruction.offset as usize;
            let own = bytes.get(at..at + usize::from(instruction.len)).unwrap_or(&[]);
            let Some(registers) = effects.reads(own) else { return true };
            read |= registers;
            if let InstructionEffect::Push(Operand::Register(from))
            | InstructionEffect::Move { to: Operand::Memory(_), from: Operand::Register(from) } =
                effects.effect(own, 0)
            {
                put |= 1 << from;
            }
        }
        read & !put & KEPT != 0
    }
}
