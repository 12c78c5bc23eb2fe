//! The body of a stub in bitcode: inline assembly that traps, and the end of the block.
//!
//! The same bits for every stub of a module: all operands are relative to the instruction's own number. An intrinsic would need a declaration, and so
//! another number for everything behind it. Safe because the assembly has a side effect, which no pass takes out. Left out: stubs that say who they are.
//! Source: LLVM, `BitcodeReader::parseFunctionBody` and `parseConstants` (INLINEASM since LLVM 14).

use summaries::bitcode::codes::{block, constants, instruction as code, types as ty};

use super::bits::Bits;
use super::survey::Types;

/// Abbreviation ids of a stub's blocks, in bits.
pub(super) const WIDTH: u32 = 4;

/// Of a call: its function type stands in the record.
const EXPLICIT_TYPE: u64 = 1 << 15;
/// Of inline assembly.
const SIDE_EFFECT: u64 = 1;
const TEMPLATE: &[u8] = b"ud2";
const CONSTRAINTS: &[u8] = b"~{dirflag},~{fpsr},~{flags}";

/// The types that stubs name, and the records to add for those that a module hasn't.
#[derive(Debug)]
pub(super) struct StubTypes {
    void_function: u64,
    pointer: u64,
    /// Codes and operands, to stand behind all others.
    pub(super) added: Vec<(u32, Vec<u64>)>,
}

impl StubTypes {
    pub(super) fn of(types: &Types) -> Self {
        let mut added = Vec::new();
        let mut next = types.functions.len() as u64;
        let mut find = |found: Option<u64>, code: u32, ops: &[u64]| {
            found.unwrap_or_else(|| {
                added.push((code, ops.to_vec()));
                next += 1;
                next - 1
            })
        };
        let void_function = match types.void_function {
            Some(id) => id,
            None => {
                let void = find(types.void, ty::VOID, &[]);
                find(None, ty::FUNCTION, &[0, void])
            }
        };
        // All pointers of a module are typed, or none is.
        let pointer = match types.typed && types.opaque_pointer.is_none() {
            true => find(types.typed_pointer, ty::POINTER, &[void_function, 0]),
            false => find(types.opaque_pointer, ty::OPAQUE_POINTER, &[0]),
        };
        StubTypes { void_function, pointer, added }
    }

    /// What is in the FUNCTION block of a stub, with abbreviation ids of [`WIDTH`] bits.
    pub(super) fn write_body(&self, out: &mut Bits) -> bool {
        out.record(WIDTH, code::DECLARE_BLOCKS, &[1]);
        let block = out.enter(WIDTH, block::CONSTANTS, WIDTH);
        out.record(WIDTH, constants::SETTYPE, &[self.pointer]);
        let mut assembly = vec![self.void_function, SIDE_EFFECT];
        for text in [TEMPLATE, CONSTRAINTS] {
            assembly.push(text.len() as u64);
            assembly.extend(text.iter().map(|c| u64::from(*c)));
        }
        out.record(WIDTH, constants::INLINEASM, &assembly);
        let fits = out.leave(&block);
        // No attributes; the callee is the last value before the instruction.
        out.record(WIDTH, code::CALL, &[0, EXPLICIT_TYPE, self.void_function, 1]);
        out.record(WIDTH, code::UNREACHABLE, &[]);
        fits
    }
}
