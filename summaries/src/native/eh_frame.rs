//! The reader of `.eh_frame`: CIEs, FDEs and terminators, each with its relocations (LSB, "Exception Frames").
//!
//! A record is a length, a 4-byte id (0 for a CIE, else the distance back to the CIE) and a body. Each byte of the
//! section must belong to one record. The body is not read: its references are relocations.

use std::ops::Range;

use object::elf;

use super::sections::is_eh_frame;
use super::tables::Tables;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordKind {
    /// Common information entry; a relocation in it is the personality.
    Cie,
    /// Frame description entry of one function, with the index of its CIE in the list of records.
    Fde { cie: usize },
    /// A length of zero. Unwinders that read the section end here (crtend.o ends it so).
    Terminator,
}

/// A record of an `.eh_frame` section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EhFrameRecord {
    /// The place of the length field, in bytes from the start of the section.
    pub offset: u64,
    /// In bytes, the length field included.
    pub size: u64,
    /// The place of the CIE id or CIE pointer, in bytes from the start of the section: `offset` + 4, or + 12 with an
    /// extended length. For a terminator the end of the record.
    pub id: u64,
    pub kind: RecordKind,
    /// The relocations in the record, as indices in the list that [`split`] received.
    pub relocations: Range<usize>,
}

impl EhFrameRecord {
    /// The offset of an FDE's `pc_begin`.
    pub fn pc_begin(&self) -> u64 {
        self.id.saturating_add(4)
    }

    /// The first byte behind the record.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.size)
    }
}

/// The reason why a section can't be split.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SplitError {
    #[error("the record at {0:#x} ends outside the section")]
    Truncated(u64),
    #[error("the record at {0:#x} has no room for its fields")]
    TooShort(u64),
    #[error("the FDE at {0:#x} refers to no CIE before it")]
    NoCie(u64),
    #[error("the relocation at {0:#x} is outside every record, out of order, or in the head of a record")]
    Relocation(u64),
}

/// Split the contents of an `.eh_frame` section.
///
/// `relocations` are the offsets of its relocations in ascending order. The records are in section order and cover
/// the section. The time is linear, except a binary search for the CIE of each FDE.
pub fn split(data: &[u8], relocations: &[u64]) -> Result<Vec<EhFrameRecord>, SplitError> {
    let mut records: Vec<EhFrameRecord> = Vec::new();
    let mut at = 0usize;
    let mut next = 0usize;
    while at < data.len() {
        let offset = at as u64;
        let (head, length) = match word(data, at).ok_or(SplitError::Truncated(offset))? {
            u32::MAX => {
                let wide = data.get(at + 4..).and_then(|d| d.first_chunk::<8>());
                (12, u64::from_le_bytes(*wide.ok_or(SplitError::Truncated(offset))?))
            }
            length => (4, u64::from(length)),
        };
        let size = usize::try_from(length).ok().and_then(|l| l.checked_add(head));
        let size = size.filter(|s| *s <= data.len() - at).ok_or(SplitError::Truncated(offset))?;
        let end = at + size;
        let first = next;
        while relocations.get(next).is_some_and(|r| *r < end as u64) {
            next += 1;
        }
        let id = at + head;
        let kind = if length == 0 { RecordKind::Terminator } else { record_kind(data, id, end, &records)? };
        // The fields of the kind must be constants.
        let body = if length == 0 { end } else { id + 4 };
        if let Some(place) = relocations.get(first).filter(|r| first < next && **r < body as u64) {
            return Err(SplitError::Relocation(*place));
        }
        records.push(EhFrameRecord {
            offset,
            size: size as u64,
            id: id as u64,
            kind,
            relocations: first..next,
        });
        at = end;
    }
    match relocations.get(next) {
        Some(place) => Err(SplitError::Relocation(*place)),
        None => Ok(records),
    }
}

/// Whether an FDE of an object may have an empty range. Only the relocation tells the width of the range, so it is
/// also true for a `pc_begin` of 64 bits that ends in zeros, and for an unreadable section.
pub fn may_have_empty_fdes(object: &[u8]) -> bool {
    let Ok(tables) = Tables::read(object) else { return true };
    let unwind = (0u32..).zip(&tables.sections);
    let mut unwind =
        unwind.filter(|(_, s)| is_eh_frame(s.ty, tables.name(s.name)) && s.ty != elf::SHT_RELA.0);
    unwind.any(|(index, _)| {
        let Ok(data) = tables.data(index) else { return true };
        let Ok(records) = split(data, &[]) else { return true };
        let range =
            |record: &EhFrameRecord| word(data, usize::try_from(record.pc_begin()).ok()?.checked_add(4)?);
        records.iter().any(|r| matches!(r.kind, RecordKind::Fde { .. }) && range(r) == Some(0))
    })
}

fn record_kind(
    data: &[u8],
    id: usize,
    end: usize,
    records: &[EhFrameRecord],
) -> Result<RecordKind, SplitError> {
    let offset = id as u64;
    // The record is in the section, so only room in the record may be missing.
    let pointer = word(data.get(..end).unwrap_or(&[]), id).ok_or(SplitError::TooShort(offset))?;
    if pointer == 0 {
        return Ok(RecordKind::Cie);
    }
    // pc_begin takes 4 bytes at least (DW_EH_PE_sdata2 exists, and no assembler writes it for code).
    if end < id + 8 {
        return Err(SplitError::TooShort(offset));
    }
    let target = offset.checked_sub(u64::from(pointer)).ok_or(SplitError::NoCie(offset))?;
    let cie = records.binary_search_by_key(&target, |r| r.offset).map_err(|_| SplitError::NoCie(offset))?;
    match records.get(cie).map(|r| r.kind) {
        Some(RecordKind::Cie) => Ok(RecordKind::Fde { cie }),
        _ => Err(SplitError::NoCie(offset)),
    }
}

fn word(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*data.get(at..)?.first_chunk::<4>()?))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn record(id: u32, body: usize) -> Vec<u8> {
        let mut bytes = (body as u32 + 4).to_le_bytes().to_vec();
        bytes.extend(id.to_le_bytes());
        bytes.resize(8 + body, 0xaa);
        bytes
    }

    #[test]
    fn records_cover_the_section() {
        let mut data = record(0, 8); // 0..16
        data.extend(record(20, 8)); // 16..32, CIE pointer at 20
        data.extend(u32::MAX.to_le_bytes()); // 32..56, extended length
        data.extend(12u64.to_le_bytes());
        data.extend(44u32.to_le_bytes());
        data.extend([0; 8]);
        data.extend([0; 4]); // 56..60
        let records = split(&data, &[12, 24, 28, 48]).unwrap();
        let kinds: Vec<_> =
            records.iter().map(|r| (r.offset, r.size, r.kind, r.relocations.clone())).collect();
        let fde = RecordKind::Fde { cie: 0 };
        assert_eq!(
            kinds,
            [
                (0, 16, RecordKind::Cie, 0..1),
                (16, 16, fde, 1..3),
                (32, 24, fde, 3..4),
                (56, 4, RecordKind::Terminator, 4..4)
            ]
        );
        assert_eq!(records[2].pc_begin(), 48);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let cie = record(0, 8);
        assert_eq!(split(&cie[..15], &[]), Err(SplitError::Truncated(0)));
        assert_eq!(split(&[2, 0, 0, 0, 0, 0], &[]), Err(SplitError::TooShort(4)));
        assert_eq!(split(&cie, &[16]), Err(SplitError::Relocation(16)));
        assert_eq!(split(&cie, &[4]), Err(SplitError::Relocation(4)));
        assert_eq!(split(&[0; 4], &[0]), Err(SplitError::Relocation(0)));
        let mut data = cie.clone();
        data.extend(record(19, 8));
        assert_eq!(split(&data, &[]), Err(SplitError::NoCie(20)));
        let mut to_fde = cie;
        to_fde.extend(record(20, 8));
        to_fde.extend(record(20, 8));
        assert_eq!(split(&to_fde, &[]), Err(SplitError::NoCie(36)));
        assert_eq!(split(&[0xff; 11], &[]), Err(SplitError::Truncated(0)));
        assert_eq!(split(&[0xff; 16], &[]), Err(SplitError::Truncated(0)));
    }

    #[test]
    fn an_empty_section_has_no_records() {
        assert_eq!(split(&[], &[]), Ok(Vec::new()));
        assert_eq!(split(&[], &[0]), Err(SplitError::Relocation(0)));
    }
}
