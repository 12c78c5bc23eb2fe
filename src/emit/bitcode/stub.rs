//! The body of a stub in bitcode: inline assembly that traps, and `unreachable`.
//!
//! An intrinsic would need a declaration, and so change the value ids. The assembly has a side effect, so no pass
//! removes it, and no clobbers. It contains its entry of the table for `explain-trap`. A copy by an optimisation has
//! an entry of its own.

use summaries::bitcode::codes::{block, constants, instruction as code, types as ty};

use super::bits::Bits;
use super::survey::Types;

/// Abbreviation ids of a stub's blocks, in bits.
pub(super) const WIDTH: u32 = 4;

/// The flag of a call whose function type stands in the record.
const EXPLICIT_TYPE: u64 = 1 << 15;
/// A flag of inline assembly in constants.
const SIDE_EFFECT: u64 = 1;
const CONSTRAINTS: &[u8] = b"~{dirflag},~{fpsr},~{flags}";

/// The assembly of the stub of a function.
pub fn assembly(name: &[u8]) -> String {
    // The mark is no part of the name (LLVM, `GlobalValue::dropLLVMManglingEscape`).
    let name = name.strip_prefix(&[1]).unwrap_or(name);
    // The layout of emit::tables: place, size, name.
    let table = String::from_utf8_lossy(crate::emit::tables::STUBS);
    let entry = [name, &[0]].concat();
    format!("9: ud2\n.pushsection {table},\"\",@progbits\n.quad 9b\n.long 2\n{}\n.popsection", bytes(&entry))
}

fn bytes(of: &[u8]) -> String {
    let numbers: Vec<String> = of.iter().map(u8::to_string).collect();
    format!(".byte {}", numbers.join(","))
}

/// The types that stubs use, and the records of those that the module does not have.
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

    /// Write the FUNCTION block of a stub, with abbreviation ids of [`WIDTH`] bits.
    pub(super) fn write_body(&self, text: &str, out: &mut Bits) -> bool {
        out.record(WIDTH, code::DECLARE_BLOCKS, &[1]);
        let block = out.enter(WIDTH, block::CONSTANTS, WIDTH);
        out.record(WIDTH, constants::SETTYPE, &[self.pointer]);
        let mut assembly = vec![self.void_function, SIDE_EFFECT];
        for text in [text.as_bytes(), CONSTRAINTS] {
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

#[cfg(test)]
mod tests {
    use super::assembly;

    /// LLVM marks names that a source gave as they are in the object.
    #[test]
    fn the_mark_is_no_part_of_a_name() {
        assert_eq!(assembly(b"\x01odd $name"), assembly(b"odd $name"));
        // The characters of a name are in no text that LLVM or an assembler parses.
        assert!(!assembly(b"odd $name\"").contains("odd"));
    }
}
