//! Numbers of the x86-64 registers that value flow models, and sets of them.
//!
//! General registers have the numbers of their encoding (Intel's manual, volume 2, table 3-1); vector registers follow.

/// A register at the border of a function: 0 to 15 are the general registers by encoding (0 is rax, 4 is rsp), 16 to 47 the
/// vector registers xmm0 to xmm31 (with all of ymm and zmm).
pub type Register = u8;

pub const RAX: Register = 0;
pub const RCX: Register = 1;
pub const RDX: Register = 2;
pub const RBX: Register = 3;
pub const RSP: Register = 4;
pub const RBP: Register = 5;
pub const RSI: Register = 6;
pub const RDI: Register = 7;
pub const R8: Register = 8;
pub const R9: Register = 9;
pub const R10: Register = 10;
pub const R11: Register = 11;
pub const R12: Register = 12;
pub const R13: Register = 13;
pub const R14: Register = 14;
pub const R15: Register = 15;
/// The first of the vector registers.
pub const XMM0: Register = 16;
pub const XMM1: Register = 17;
pub const XMM2: Register = 18;
pub const XMM3: Register = 19;

/// The general registers in which the convention of C passes arguments, in order (psABI 3.2.3).
pub const ARGUMENTS: [Register; 6] = [RDI, RSI, RDX, RCX, R8, R9];

/// The vector registers in which it passes floating-point arguments.
pub const VECTOR_ARGUMENTS: [Register; 8] =
    [XMM0, XMM0 + 1, XMM0 + 2, XMM0 + 3, XMM0 + 4, XMM0 + 5, XMM0 + 6, XMM0 + 7];

/// All registers that summaries have: the general and the vector registers.
pub const ALL: u64 = (1 << 48) - 1;

/// rax, rdx and xmm0 to xmm3: they carry a result, or may keep their values across a call.
pub const PRESERVABLE: u64 = set(&[RAX, RDX, XMM0, XMM1, XMM2, XMM3]);

/// The callee-saved registers: rbx, rbp and r12 to r15 (psABI 3.2.1).
pub const SAVED: u64 = set(&[RBX, RBP, R12, R13, R14, R15]);

/// The argument registers of C and C++: rdi, rsi, rdx, rcx, r8, r9, r10 (the static chain) and xmm0 to xmm7.
pub const CONVENTIONAL: u64 = set(&ARGUMENTS) | set(&[R10]) | set(&VECTOR_ARGUMENTS);

/// The registers in which a summary may have parameters: [`CONVENTIONAL`] ones, and rax, which a function may preserve.
pub const PASSED: u64 = CONVENTIONAL | set(&[RAX]);

/// A set of registers, a bit for each.
pub const fn set(registers: &[Register]) -> u64 {
    let (mut bits, mut rest) = (0, registers);
    while let [register, others @ ..] = rest {
        bits |= 1 << *register;
        rest = others;
    }
    bits
}

/// Whether the register is in the set.
pub const fn has(set: u64, register: Register) -> bool {
    register < 64 && set & 1 << register != 0
}
