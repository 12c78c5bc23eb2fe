//! The bitcode in a file: raw, in its wrapper, or in a section of an object.
//!
//! A fat object (`-ffat-lto-objects`) has it in `.llvm.lto`. Objects of rustc or `-fembed-bitcode` have it in `.llvmbc`, which linkers
//! ignore.

use std::ops::Range;

use super::stream::MAGIC;
use crate::native;

/// First bytes of the wrapper (`0x0B17C0DE`, little-endian).
const WRAPPER: &[u8] = b"\xde\xc0\x17\x0b";

/// Names of sections that hold bitcode.
const SECTIONS: [&[u8]; 2] = [b".llvm.lto", b".llvmbc"];

/// Whether a file begins as LLVM bitcode does, raw or wrapped.
pub fn is_bitcode(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC) || bytes.starts_with(WRAPPER)
}

/// The range of the bitstream in a file that [`is_bitcode`]; `None` if the wrapper points outside.
pub fn unwrap(bytes: &[u8]) -> Option<Range<usize>> {
    if !bytes.starts_with(WRAPPER) {
        return Some(0..bytes.len());
    }
    // Magic, version, offset, size, CPU type.
    let word = |at: usize| {
        let field: [u8; 4] = bytes.get(at..at + 4)?.try_into().ok()?;
        usize::try_from(u32::from_le_bytes(field)).ok()
    };
    let (offset, size) = (word(8)?, word(12)?);
    let end = offset.checked_add(size)?;
    bytes.get(offset..end).map(|_| offset..end)
}

/// The range of the bitcode that a linker takes instead of a fat object with `--fat-lto-objects`: the first section `.llvm.lto` of more than
/// one byte (`IRObjectFile::findBitcodeInObject`). It may not be bitcode.
pub fn fat(object: &[u8]) -> Option<Range<usize>> {
    native::find_section(object, SECTIONS[0]).filter(|range| range.len() > 1)
}

/// The range of the bitcode in an ELF object: the contents of the first section with such a name.
pub fn embedded(object: &[u8]) -> Option<Range<usize>> {
    let found = SECTIONS.iter().filter_map(|name| native::find_section(object, name));
    found.filter(|range| !range.is_empty()).min_by_key(|range| range.start)
}
