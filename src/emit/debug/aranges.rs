//! `.debug_aranges` with an entry for each kept part (DWARF 5, 6.1.2).

use super::draft::SectionDraft;
use super::layout::Layout;
use super::view::DebugSection;
use crate::emit::cursor::Cursor;
use crate::error::{Error, Result, Stage};

/// The fixed part of a header in the 32-bit format, in bytes: length, version, unit, address size, segment size.
const HEADER: u64 = 12;

pub(super) fn rewrite(section: &DebugSection<'_>, layout: Layout<'_>) -> Result<SectionDraft> {
    let invalid = |what: &str| Error::new(Stage::Emit, format!("a table of address ranges {what}"));
    let mut draft = SectionDraft::in_place_of(section);
    let mut at = 0;
    while at < section.linked.len() as u64 {
        let mut cursor = Cursor::new(&section.linked, at);
        let length = cursor.u32()?;
        let end = cursor.at.checked_add(length).filter(|end| *end <= section.linked.len() as u64);
        let end = end.filter(|_| length < 0xffff_fff0).ok_or_else(|| invalid("ends early"))?;
        let (version, _unit) = (cursor.u16()?, cursor.u32()?);
        if (version, cursor.u8()?, cursor.u8()?) != (2, 8, 0) {
            return Err(invalid("is of an unknown form"));
        }
        let start = draft.len();
        draft.copy(section, at, at + HEADER)?;
        // Tuples are aligned to their size, counted from the header.
        let padding = HEADER.next_multiple_of(16) - HEADER;
        draft.bytes.resize(draft.bytes.len() + padding as usize, 0);
        cursor.at = at + HEADER + padding;
        while cursor.at < end {
            let (address, size) = (cursor.u64()?, cursor.u64()?);
            if (address, size) == (0, 0) {
                break;
            }
            for (begin, behind) in layout.kept_ranges(address, address.wrapping_add(size), &[])? {
                draft.start(layout, begin, &[])?;
                draft.bytes.extend_from_slice(&behind.wrapping_sub(begin).to_le_bytes());
            }
        }
        draft.bytes.extend_from_slice(&[0; 16]);
        let length = draft.len() - start - 4;
        draft.set_u32(start, length)?;
        at = end;
    }
    Ok(draft)
}
