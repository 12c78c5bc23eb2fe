//! Arguments in registers that the psABI's calling convention does not use: which functions take them, or may and are not understood.
//!
//! What is understood reads no such register as it found it, or is refused for it ([`CALLERS_REGISTER`](super::unit::CALLERS_REGISTER)).
//! Code that is refused for another reason is only looked at: by the psABI (3.2.1) a function that uses one of r12 to r15 puts
//! the caller's value away first, which functions that are passed something there don't. Code of which nothing is known counts.
//! Left out: rax, r11 and xmm8 to xmm15, which any function may use, and which are passed only behind others or by `regcall`.

use super::module::FlowModule;
use crate::ids::AtomIdx;
use crate::native::decode;
use crate::native::decode::effects::{Effects, InstructionEffect, Operand};
use crate::registers::{self, R12, R13, R14, R15};

const KEPT: u64 = registers::set(&[R12, R13, R14, R15]);

impl FlowModule<'_, '_> {
    /// Whether the atom reads a register that it doesn't put away.
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
