//! Divides per-function metadata (`SHF_LINK_ORDER`) with the functions that its records describe.
//!
//! Compilers put the records of a section's functions into one section that is ordered after it. Each record refers
//! to one function, and is kept or dropped with it. [`Format`] lists the formats of LLVM and gcc. Other metadata
//! keeps its section of code whole, and so does a record of anything except a function of that section.

use object::endian::LittleEndian as LE;

use super::division::{SectionPlace, SplitContext};
use super::references::RetargetedRelocation;
use super::text::Text;
use crate::native::relocations::types::{R_X86_64_64, R_X86_64_PC32, R_X86_64_PC64};
use crate::native::relocations::{self, Rela, symbol_of, type_of};
use crate::native::tables::{Result, llvm};
use crate::summary::{Atom, AtomKind, Binding, Definition, Target, atom_flags};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    /// An address or a distance, of this size.
    Address(u64),
    /// An address, and the size of the stack frame in ULEB128.
    StackSize,
    /// LLVM's map of basic blocks (`SHT_LLVM_BB_ADDR_MAP`), of version 1 or 2 and without features.
    BlockMap,
    /// A distance of 4 bytes to the function, and numbers in ULEB128.
    Sanitizer,
}

impl Format {
    fn of(name: &[u8], ty: u32) -> Option<Format> {
        match name {
            b"__patchable_function_entries" => Some(Format::Address(8)),
            b".kcfi_traps" => Some(Format::Address(4)),
            b".stack_sizes" => Some(Format::StackSize),
            b".llvm_bb_addr_map" if ty == llvm::BB_ADDR_MAP => Some(Format::BlockMap),
            _ if name.starts_with(b"sanmd_") => Some(Format::Sanitizer),
            _ => None,
        }
    }

    /// The offset of the address in a record.
    fn head(self) -> u64 {
        if self == Format::BlockMap { 2 } else { 0 }
    }

    /// Whether `bytes` are exactly one record of this format.
    fn is_record(self, bytes: &[u8]) -> bool {
        let numbers = |from: usize| bytes.get(from..).and_then(numbers);
        match self {
            Format::Address(size) => bytes.len() as u64 == size,
            Format::StackSize => numbers(8).is_some_and(|n| n.len() == 1),
            Format::Sanitizer => numbers(4).is_some(),
            Format::BlockMap => {
                let of_block = match bytes {
                    [1, 0, ..] => 3,
                    [2, 0, ..] => 4,
                    _ => return false,
                };
                let numbers = numbers(10).unwrap_or_default();
                let all = numbers.first().and_then(|blocks| blocks.checked_mul(of_block)?.checked_add(1));
                all == Some(numbers.len() as u64)
            }
        }
    }
}

/// The ULEB128 numbers of these bytes; `None` for other contents.
fn numbers(bytes: &[u8]) -> Option<Vec<u64>> {
    let mut all = Vec::new();
    let (mut value, mut shift) = (0u64, 0);
    for byte in bytes {
        if shift >= 63 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            all.push(value);
            (value, shift) = (0, 0);
        }
    }
    (shift == 0).then_some(all)
}

/// A record, which describes one function of a section of code.
#[derive(Debug, Clone, Copy)]
struct FunctionRecord {
    /// The offset of the record in its section.
    start: u64,
    /// The place of its relocation, in the same section.
    relocation: u64,
    /// The place in the code that the relocation means.
    place: u64,
}

/// A section with records of the functions of one section of code.
#[derive(Debug)]
pub(super) struct Metadata {
    pub(super) section: u32,
    /// Position of the text that it is ordered after.
    text: usize,
    /// Ascending; the first begins at 0.
    records: Vec<FunctionRecord>,
}

/// The understood sections of metadata, in ascending order.
pub(super) fn read(context: &SplitContext<'_, '_>) -> Result<Vec<Metadata>> {
    let mut all = Vec::new();
    for atom in context.atoms.iter().filter(|a| !a.has(atom_flags::GROUPED | atom_flags::MERGE)) {
        let Some(after) = atom.link_order.and_then(|a| context.atoms.get(a.index())) else { continue };
        // For a function with an exception table or jump table, clang orders stack sizes after this table.
        let text = match after.kind {
            AtomKind::Lsda | AtomKind::ReadOnlyData => {
                context.relas_of(atom.section).first().and_then(|(_, r)| text_of(context, r))
            }
            _ => context.text_of(after.section),
        };
        if let Some(text) = text {
            all.extend(read_section(context, atom, text)?);
        }
    }
    all.sort_unstable_by_key(|m: &Metadata| m.section);
    // A global symbol or a relocation may mean any place of the section.
    for (_, rela) in &context.relas {
        let symbol = context.symbols.get(symbol_of(rela).index());
        forget(context, &mut all, symbol.map(|s| s.definition));
    }
    for symbol in context.symbols.iter().filter(|s| s.binding != Binding::Local) {
        forget(context, &mut all, Some(symbol.definition));
    }
    Ok(all)
}

/// Remove the section of a definition.
fn forget(context: &SplitContext<'_, '_>, all: &mut Vec<Metadata>, definition: Option<Definition>) {
    let Some(Definition::Atom(atom)) = definition else { return };
    let section = context.section_of(atom).unwrap_or(u32::MAX);
    if let Ok(found) = all.binary_search_by_key(&section, |m| m.section) {
        all.remove(found);
    }
}

fn read_section(context: &SplitContext<'_, '_>, atom: &Atom, text: usize) -> Result<Option<Metadata>> {
    let header = context.tables.sections.get(atom.section as usize);
    let Some(format) = header.and_then(|h| Format::of(context.tables.name(h.name), h.ty)) else {
        return Ok(None);
    };
    let bytes = context.tables.data(atom.section)?;
    let mut records = Vec::new();
    for (_, rela) in context.relas_of(atom.section) {
        let relocation = rela.r_offset.get(LE);
        let (Some(start), Some(place)) = (relocation.checked_sub(format.head()), place(context, rela, text))
        else {
            return Ok(None);
        };
        records.push(FunctionRecord { start, relocation, place });
    }
    let ends = records.iter().skip(1).map(|r| r.start).chain([bytes.len() as u64]);
    let is_record = |(record, end): (&FunctionRecord, u64)| {
        bytes.get(record.start as usize..end as usize).is_some_and(|record| format.is_record(record))
    };
    let is_known = records.first().is_some_and(|r| r.start == 0) && records.iter().zip(ends).all(is_record);
    Ok(is_known.then_some(Metadata { section: atom.section, text, records }))
}

/// The text of a relocation by section symbol.
fn text_of(context: &SplitContext<'_, '_>, rela: &Rela) -> Option<usize> {
    match relocations::target(context.symbols, symbol_of(rela)) {
        Ok(Some(Target::Atom(atom))) => context.text_of(context.section_of(atom)?),
        _ => None,
    }
}

/// The place in the text that a relocation means.
fn place(context: &SplitContext<'_, '_>, rela: &Rela, text: usize) -> Option<u64> {
    let is_exact = matches!(type_of(rela), R_X86_64_64 | R_X86_64_PC32 | R_X86_64_PC64);
    let is_place = is_exact && text_of(context, rela) == Some(text);
    u64::try_from(rela.r_addend.get(LE)).ok().filter(|_| is_place)
}

/// The places in code to which the records refer, as (text, offset), sorted.
pub(super) fn places(all: &[Metadata]) -> Vec<(usize, u64)> {
    let mut places: Vec<(usize, u64)> =
        all.iter().flat_map(|m| m.records.iter().map(|r| (m.text, r.place))).collect();
    places.sort_unstable();
    places
}

/// Extend functions to the patchable instructions before them that records name (`-fpatchable-function-entry=5,3`). A
/// record of bytes without a function refuses the text.
pub(super) fn extend(all: &[Metadata], texts: &mut [Text<'_>]) {
    for metadata in all {
        let Some(text) = texts.get_mut(metadata.text) else { continue };
        for record in &metadata.records {
            text.extend_to(record.place);
        }
    }
}

/// The targets of records' relocations: a place in the described function.
pub(super) fn retargets(all: &[Metadata], texts: &[Text<'_>]) -> Vec<RetargetedRelocation> {
    let mut found = Vec::new();
    for metadata in all {
        let Some(text) = texts.get(metadata.text) else { continue };
        found.extend(metadata.records.iter().filter_map(|record| {
            let function = text.functions.get(text.owner_at(record.place)?)?;
            let at = (metadata.section, record.relocation);
            Some(RetargetedRelocation { at, text: metadata.text, target: record.place.max(function.start) })
        }));
    }
    found
}

/// The parts of a section of metadata, one for neighbouring records of one part of the code: its start, and the place
/// in the code that it is ordered after.
pub(super) fn parts(metadata: &Metadata, texts: &[Text<'_>]) -> Option<Vec<(u64, SectionPlace)>> {
    let text = texts.get(metadata.text)?;
    let mut parts: Vec<(u64, SectionPlace)> = Vec::new();
    for record in &metadata.records {
        let part = text.part.get(text.owner_at(record.place)?).copied()?;
        let after = (text.section, text.part_start(part));
        if parts.last().is_none_or(|(_, last)| *last != after) {
            parts.push((record.start, after));
        }
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_each_format() {
        assert!(Format::Address(4).is_record(&[0; 4]) && !Format::Address(8).is_record(&[0; 4]));
        assert!(Format::StackSize.is_record(&[0, 0, 0, 0, 0, 0, 0, 0, 0x88, 1]));
        assert!(!Format::StackSize.is_record(&[0, 0, 0, 0, 0, 0, 0, 0, 0x88]));
        assert!(!Format::StackSize.is_record(&[0, 0, 0, 0, 0, 0, 0, 0, 8, 1]));
        assert!(Format::Sanitizer.is_record(&[0, 0, 0, 0, 12, 3]) && !Format::Sanitizer.is_record(&[0; 3]));
        let map = |head: &[u8], blocks: &[u8]| [head, &[0; 8], blocks].concat();
        assert!(Format::BlockMap.is_record(&map(&[2, 0], &[1, 0, 0, 12, 1])));
        assert!(Format::BlockMap.is_record(&map(&[1, 0], &[2, 0, 12, 1, 12, 4, 1])));
        assert!(!Format::BlockMap.is_record(&map(&[2, 0], &[2, 0, 0, 12, 1])));
        assert!(!Format::BlockMap.is_record(&map(&[2, 8], &[1, 0, 0, 12, 1])), "with features");
        assert!(!Format::BlockMap.is_record(&map(&[3, 0], &[1, 0, 0, 12, 1])), "of another version");
    }
}
