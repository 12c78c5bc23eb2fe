//! The symbol table that bitcode carries for linkers (LLVM's `irsymtab`): names as in the object, including those of module assembly.
//!
//! It is a table of fixed-width records in a blob, with names in the string table. Linkers of the same LLVM trust it; others make
//! it again from the module, with the same result. Versions 3 and 4 are known (LLVM 13 to 22). Fields for COFF are not read.

use super::codes::numbers;
use super::error::{BitcodeError, BitcodeErrorKind, Result};
use super::module::StrtabRange;
use crate::summary::Visibility;

numbers! {
    pub(super) mod flag: u32 {
        VISIBILITY = 3, HAS_UNCOMMON = 1 << 2, UNDEFINED = 1 << 3, WEAK = 1 << 4, COMMON = 1 << 5,
        TLS = 1 << 8, MAY_OMIT = 1 << 9, GLOBAL = 1 << 10, FORMAT_SPECIFIC = 1 << 11, UNNAMED_ADDR = 1 << 13,
    }
}

numbers! {
    /// Sizes of the records, in bytes.
    pub(super) mod size: usize {
        HEADER = 76, MODULE = 12, COMDAT = 12, SYMBOL = 24, STRING = 8,
    }
}

/// A COMDAT, by the name of its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SymtabComdat<'a> {
    pub name: &'a [u8],
    /// LLVM's `Comdat::SelectionKind`: 3 keeps every copy.
    pub selection: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SymtabSymbol<'a> {
    /// The name is as in the object file.
    pub name: &'a [u8],
    /// As in the module; empty for one of inline assembly.
    pub ir_name: &'a [u8],
    /// It is an index into [`BitcodeSymtab::comdats`].
    pub comdat: Option<u32>,
    pub visibility: Visibility,
    pub undefined: bool,
    pub weak: bool,
    /// Size and alignment of a tentative definition, in bytes.
    pub common: Option<(u64, u64)>,
    pub thread_local: bool,
    /// An inline function or constant whose address nothing compares (LLVM, `canBeOmittedFromSymbolTable`).
    pub omittable: bool,
    /// Its address means nothing in any module (`unnamed_addr`).
    pub unnamed_addr: bool,
    pub global: bool,
    /// No symbol to a linker: an intrinsic, a private value, metadata.
    pub format_specific: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BitcodeSymtab<'a> {
    /// By module: the range of its symbols.
    pub modules: Vec<(u32, u32)>,
    pub comdats: Vec<SymtabComdat<'a>>,
    pub symbols: Vec<SymtabSymbol<'a>>,
    /// Libraries that the module asks the linker for.
    pub dependent_libraries: Vec<&'a [u8]>,
}

/// Read a symbol table; `None` if its version is not known.
///
/// # Errors
/// If it points outside itself.
pub(super) fn read<'a>(blob: &'a [u8], strtab: &'a [u8]) -> Result<Option<BitcodeSymtab<'a>>> {
    table(blob, strtab).ok_or(BitcodeError { at: 0, kind: BitcodeErrorKind::Symtab })
}

#[expect(clippy::option_option, reason = "malformed, or of an unknown version")]
fn table<'a>(blob: &'a [u8], strtab: &'a [u8]) -> Option<Option<BitcodeSymtab<'a>>> {
    let version = word(blob, 0)?;
    // The size of a symbol's optional part: the size of a common one became 64-bit.
    let (uncommon_size, align_at) = match version {
        3 => (24, 4),
        4 => (28, 8),
        _ => return Some(None),
    };
    if blob.len() < size::HEADER {
        return None;
    }
    let string = |at: usize, within: &'a [u8]| {
        let range = StrtabRange {
            offset: u64::from(word(within, at)?),
            size: u64::from(word(within, at.checked_add(4)?)?),
        };
        range.of(strtab)
    };
    let records = |at: usize, size: usize| -> Option<std::slice::ChunksExact<'a, u8>> {
        let start = word(blob, at)? as usize;
        let length = (word(blob, at + 4)? as usize).checked_mul(size)?;
        Some(blob.get(start..start.checked_add(length)?)?.chunks_exact(size))
    };
    let mut uncommons = records(36, uncommon_size)?;
    let module = |r: &'a [u8]| Some((word(r, 0)?, word(r, 4)?));
    let comdat = |r: &'a [u8]| Some(SymtabComdat { name: string(0, r)?, selection: word(r, 8)? });
    let comdats: Vec<_> = records(20, size::COMDAT)?.map(comdat).collect::<Option<_>>()?;
    let mut symbols = Vec::new();
    for record in records(28, size::SYMBOL)? {
        let flags = word(record, 20)?;
        let has = |bit: u32| flags & bit != 0;
        let uncommon = if has(flag::HAS_UNCOMMON) { Some(uncommons.next()?) } else { None };
        let common = match uncommon {
            Some(r) if has(flag::COMMON) => {
                let high = if align_at == 8 { word(r, 4)? } else { 0 };
                let size = u64::from(high) << 32 | u64::from(word(r, 0)?);
                Some((size, u64::from(word(r, align_at)?).max(1)))
            }
            // LLVM writes the size of every common one.
            None if has(flag::COMMON) => return None,
            _ => None,
        };
        let comdat = Some(word(record, 16)?).filter(|c| *c != u32::MAX);
        if comdat.is_some_and(|c| c as usize >= comdats.len()) {
            return None;
        }
        symbols.push(SymtabSymbol {
            name: string(0, record)?,
            ir_name: string(8, record)?,
            comdat,
            visibility: match flags & flag::VISIBILITY {
                0 => Visibility::Default,
                1 => Visibility::Hidden,
                2 => Visibility::Protected,
                _ => return None,
            },
            undefined: has(flag::UNDEFINED),
            weak: has(flag::WEAK),
            common,
            thread_local: has(flag::TLS),
            omittable: has(flag::MAY_OMIT),
            unnamed_addr: has(flag::UNNAMED_ADDR),
            global: has(flag::GLOBAL),
            format_specific: has(flag::FORMAT_SPECIFIC),
        });
    }
    let modules: Vec<(u32, u32)> = records(12, size::MODULE)?.map(module).collect::<Option<_>>()?;
    let in_range = |(begin, end): &(u32, u32)| begin <= end && *end as usize <= symbols.len();
    if !modules.iter().all(in_range) {
        return None;
    }
    Some(Some(BitcodeSymtab {
        modules,
        comdats,
        symbols,
        dependent_libraries: records(68, size::STRING)?.map(|r| string(0, r)).collect::<Option<_>>()?,
    }))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let field: [u8; 4] = bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
    Some(u32::from_le_bytes(field))
}
