//! The added `.debug_frame`. It has an FDE for each one that a kept function loses in `.eh_frame`, with its range and
//! instructions.

use super::super::elf::{Object, SymbolSection, by_target, entries, string};
use super::super::pair::{DEBUG_FRAME, Pair};
use super::{UnwindSection, begin, described, range, word};
use crate::error::Result;

/// An FDE: (section of the emitted object, place in it, range in bytes, instructions, CIE).
type Described<'a> = (usize, u64, u64, &'a [u8], CieContents<'a>);

/// The contents of a CIE, in either section.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct CieContents<'a> {
    /// The function is interrupted by a signal where its caller "called" it.
    is_signal: bool,
    is_augmented: bool,
    /// The alignment factors and the register of the return address.
    factors: &'a [u8],
    instructions: &'a [u8],
}

impl<'a> CieContents<'a> {
    fn read(record: &'a [u8]) -> Option<Self> {
        let augmentation = string(record, 9)?;
        let mut rest = record.get(9 + augmentation.len() + 1..)?;
        let factors = rest;
        let leb = |bytes: &'a [u8]| bytes.get(bytes.iter().position(|b| b & 0x80 == 0)? + 1..);
        rest = leb(leb(rest)?)?.get(1..)?;
        let factors = factors.get(..factors.len() - rest.len())?;
        let is_augmented = augmentation.first() == Some(&b'z');
        if is_augmented {
            let (length, data) = rest.split_first()?;
            rest = data.get(usize::from(*length)..)?;
        }
        let is_signal = augmentation.contains(&b'S');
        Some(CieContents { is_signal, is_augmented, factors, instructions: without_padding(rest) })
    }
}

pub(super) fn check(pair: &Pair<'_>, old_sections: &[usize]) -> Result<()> {
    let tables = by_target(&pair.old);
    let mut lost: Vec<Described<'_>> = Vec::new();
    for section in old_sections {
        let table = UnwindSection::read(&pair.old, &tables, *section)?;
        for record in table.records.iter().filter(|r| r.cie.is_some()) {
            let Some((_, section, place)) = described(pair, table.of(record), record.start) else { continue };
            if pair.is_dropped(section, place) || !pair.expected.removes_unwind_at(section, place) {
                continue;
            }
            let width = if begin(&table, record).is_some_and(|e| matches!(e.kind, 1 | 24)) { 8 } else { 4 };
            let cie = record.cie.and_then(|start| table.records.iter().find(|r| r.start == start));
            let Some(cie) = cie.and_then(|cie| CieContents::read(table.bytes(cie, 0))) else { continue };
            let mut instructions = table.bytes(record, 8 + 2 * width);
            if cie.is_augmented {
                // A length below 128, and the augmentation data.
                let length = instructions.first().copied().unwrap_or_default();
                instructions = instructions.get(1 + usize::from(length)..).unwrap_or(&[]);
            }
            let (new, place) = match pair.kept_at(section, place) {
                Some(part) => (part.new, place - part.start),
                None => (pair.new_of_old.get(section).copied().unwrap_or(0), place),
            };
            lost.push((
                new,
                place,
                range(&table, record).unwrap_or_default(),
                without_padding(instructions),
                CieContents { is_augmented: false, ..cie },
            ));
        }
    }
    let mut found = added(&pair.new)?;
    lost.sort_unstable();
    found.sort_unstable();
    match lost == found {
        true => Ok(()),
        false => {
            let message = format!("it has {} entries in place of {} of .eh_frame", found.len(), lost.len());
            Err(super::error(message).in_section(".debug_frame"))
        }
    }
}

/// The FDEs of the last section of that name, which is the one that was added.
fn added<'a>(object: &Object<'a>) -> Result<Vec<Described<'a>>> {
    let mut sections = 1..object.sections.len();
    let Some(index) = sections.rfind(|i| object.section_name(*i) == DEBUG_FRAME) else {
        return Ok(Vec::new());
    };
    let bytes = object.contents(index)?;
    let mut relocations = entries(object, &by_target(object), index)?;
    relocations.sort_by_key(|r| r.offset);
    let malformed = |at: usize| object.about(index, format!("the record at {at:#x} is malformed"));
    let mut found = Vec::new();
    let mut cies: Vec<(i64, CieContents<'_>)> = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let end = word(bytes, at).and_then(|length| (at + 4).checked_add(length as usize));
        let record = end.and_then(|end| bytes.get(at..end)).ok_or_else(|| malformed(at))?;
        if word(record, 4) == Some(u32::MAX) {
            let cie = CieContents::read(record).filter(|cie| !cie.is_augmented && record.get(8) == Some(&1));
            cies.push((at as i64, cie.ok_or_else(|| malformed(at))?));
        } else {
            let field = |offset: usize, kind: u32| {
                let place = (at + offset) as u64;
                let at = relocations.partition_point(|r| r.offset < place);
                relocations.get(at).filter(|r| r.offset == place && r.kind == kind)
            };
            let (Some(cie), Some(begin)) = (field(4, 10), field(8, 1)) else { return Err(malformed(at)) };
            // Relocated fields are 0.
            if record.get(4..16).is_none_or(|fields| fields.iter().any(|b| *b != 0)) {
                return Err(malformed(at));
            }
            let symbol = |index: usize| object.symbol(index).map(|s| (s.st_value, object.place(index, &s)));
            let is_here = matches!(symbol(cie.symbol), Some((0, SymbolSection::Section(s))) if s == index);
            let found_cie =
                cies.binary_search_by_key(&cie.addend, |(at, _)| *at).ok().and_then(|i| cies.get(i));
            let (Some((value, SymbolSection::Section(section))), true, Some((_, cie))) =
                (symbol(begin.symbol), is_here, found_cie)
            else {
                return Err(malformed(at));
            };
            let range = record.get(16..).and_then(|r| r.first_chunk::<8>()).map(|r| u64::from_le_bytes(*r));
            let place = value.wrapping_add_signed(begin.addend);
            let instructions = without_padding(record.get(24..).unwrap_or(&[]));
            found.push((section, place, range.unwrap_or_default(), instructions, *cie));
        }
        at += record.len();
    }
    Ok(found)
}

/// Bytes without the zeros at their end. These are padding or part of an operand.
fn without_padding(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|b| *b != 0).map_or(0, |last| last + 1);
    bytes.get(..end).unwrap_or(&[])
}
