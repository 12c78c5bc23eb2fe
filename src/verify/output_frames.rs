//! The functions of a linked file without an entry in `.eh_frame`. A file without a symbol table has no names to
//! check.

use goblin::elf::section_header as sh;

use super::OutputFacts;
use super::elf::{contents, headers, string, symbols};
use crate::error::Result;

/// The parts of a pointer encoding (LSB Core, "DWARF Exception Header Encoding") that linked files have.
const PC_RELATIVE: u8 = 0x10;

impl OutputFacts {
    /// The first of these functions (sorted) that the file defines without an unwind entry.
    ///
    /// # Errors
    /// The unwind tables or the symbols can't be read.
    pub fn without_unwind_entry<'n>(&self, names: &[&'n [u8]]) -> Result<Option<&'n [u8]>> {
        let (_, sections, section_names) = headers(&self.bytes)?;
        let data = |index: usize| sections.get(index).and_then(|s| contents(&self.bytes, s));
        let name_of = |offset: usize| string(data(section_names)?, offset);
        let Some(table) = sections.iter().find(|s| s.sh_type == sh::SHT_SYMTAB) else { return Ok(None) };
        let strings = data(table.sh_link as usize).unwrap_or(&[]);
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for section in sections.iter().filter(|s| name_of(s.sh_name) == Some(b".eh_frame")) {
            let Some(found) = contents(&self.bytes, section).and_then(|b| entries(b, section.sh_addr)) else {
                return Ok(None);
            };
            ranges.extend(found);
        }
        ranges.sort_unstable();
        let table = symbols(&self.bytes, table)?;
        for symbol in
            (1..table.len()).filter_map(|i| table.get(i)).filter(|s| s.st_shndx != 0 && s.is_function())
        {
            let Some(name) = string(strings, symbol.st_name) else { continue };
            let Ok(found) = names.binary_search(&name) else { continue };
            let next = ranges.partition_point(|(start, _)| *start <= symbol.st_value);
            let is_covered = next.checked_sub(1).and_then(|last| ranges.get(last));
            if !is_covered.is_some_and(|(start, end)| (*start..*end).contains(&symbol.st_value)) {
                return Ok(names.get(found).copied());
            }
        }
        Ok(None)
    }
}

/// The ranges of the FDEs of a linked `.eh_frame` at an address; `None` for an unknown form.
fn entries(bytes: &[u8], address: u64) -> Option<Vec<(u64, u64)>> {
    let word = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let long = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let length = word(at)? as usize;
        let id_at = at + 4;
        if length == 0 {
            at = id_at;
            continue;
        }
        let distance = word(id_at)? as usize;
        if distance != 0 {
            let encoding = encoding(bytes, id_at.checked_sub(distance)?)?;
            let begin_at = id_at + 4;
            let (value, width) = match encoding & 0xf {
                0x0 | 0x4 | 0xc => (long(begin_at)?, 8),
                0x3 => (u64::from(word(begin_at)?), 4),
                0xb => (i64::from(word(begin_at)? as i32) as u64, 4),
                _ => return None,
            };
            let base = match encoding & 0xf0 {
                0 => 0,
                PC_RELATIVE => address.wrapping_add(begin_at as u64),
                _ => return None,
            };
            let size = if width == 8 { long(begin_at + 8)? } else { u64::from(word(begin_at + 4)?) };
            let begin = base.wrapping_add(value);
            found.push((begin, begin.saturating_add(size)));
        }
        at = id_at.checked_add(length)?;
    }
    Some(found)
}

/// The address encoding of the FDEs of a CIE.
fn encoding(bytes: &[u8], cie: usize) -> Option<u8> {
    let augmentation = string(bytes, cie.checked_add(9)?)?;
    let mut rest = bytes.get(cie + 9 + augmentation.len() + 1..)?;
    let mut leb = || {
        let end = rest.iter().position(|b| b & 0x80 == 0)? + 1;
        rest = rest.get(end..)?;
        Some(())
    };
    if augmentation.first() != Some(&b'z') {
        return augmentation.is_empty().then_some(0);
    }
    // Skip code and data alignment, the return address register, and the length of the augmentation.
    (0..4).try_for_each(|_| leb())?;
    for letter in augmentation.get(1..)? {
        let (first, behind) = rest.split_first()?;
        match letter {
            b'R' => return Some(*first),
            b'L' => rest = behind,
            b'P' => rest = behind.get(if matches!(first & 0xf, 0 | 4 | 0xc) { 8 } else { 4 }..)?,
            b'S' => {}
            _ => return None,
        }
    }
    Some(0)
}
