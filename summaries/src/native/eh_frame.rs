//! The reader of `.eh_frame` (LSB, "Exception Frames"): its records with their relocations, and the references of functions by them.
//!
//! A record is a length, a 4-byte id (0 for a CIE, else the distance back to the CIE) and a body. Each byte of the
//! section must belong to one record. The body is not read: its references are relocations.

use std::ops::Range;

use object::elf;
use object::endian::LittleEndian as LE;

use super::relocations::{self, Rela, symbol_of, type_of};
use super::sections::is_eh_frame;
use super::symbols::SectionAtoms;
use super::tables::{self, Tables, malformed, record};
use crate::ids::AtomIdx;
use crate::limit::{Limit, LimitRecord};
use crate::summary::{Atom, AtomKind, Definition, ModuleSummary, Reference, ReferenceKind, Symbol, Target};

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

/// An unwind section of an object.
pub(crate) struct UnwindSection<'a> {
    pub(crate) index: u32,
    data: &'a [u8],
    /// The relocations in the order of their places.
    pub(crate) relas: Vec<Rela>,
    pub(crate) records: Result<Vec<EhFrameRecord>, SplitError>,
}

/// Read the unwind sections of an object.
pub(crate) fn sections<'a>(tables: &Tables<'a>) -> tables::Result<Vec<UnwindSection<'a>>> {
    let is_unwind = |s: &tables::Section| s.ty != elf::SHT_RELA.0 && is_eh_frame(s.ty, tables.name(s.name));
    let mut found = Vec::new();
    for (index, _) in (0u32..).zip(&tables.sections).filter(|(_, s)| is_unwind(s)) {
        let mut relas: Vec<Rela> = Vec::new();
        for (i, table) in (0u32..).zip(&tables.sections) {
            if table.ty == elf::SHT_RELA.0 && table.info == index {
                let entries = relocations::entries(tables, i, table)?;
                relas.extend(entries.iter().filter(|rela| !relocations::is_left_over(rela)));
            }
        }
        // The file may have relocations in any order.
        relas.sort_by_key(|rela| rela.r_offset.get(LE));
        let places: Vec<u64> = relas.iter().map(|rela| rela.r_offset.get(LE)).collect();
        let data = tables.data(index)?;
        found.push(UnwindSection { index, data, relas, records: split(data, &places) });
    }
    Ok(found)
}

impl UnwindSection<'_> {
    /// The FDEs; none if the section is malformed.
    pub(crate) fn fdes(&self) -> impl Iterator<Item = &EhFrameRecord> {
        self.records.iter().flatten().filter(|r| matches!(r.kind, RecordKind::Fde { .. }))
    }

    pub(crate) fn relas_of(&self, record: &EhFrameRecord) -> &[Rela] {
        self.relas.get(record.relocations.clone()).unwrap_or(&[])
    }

    /// The first relocation of an FDE's `pc_begin`.
    pub(crate) fn begin(&self, fde: &EhFrameRecord) -> Option<&Rela> {
        self.relas_of(fde).iter().find(|rela| rela.r_offset.get(LE) == fde.pc_begin())
    }

    /// The length of an FDE's range. It has as many bytes as `pc_begin`.
    pub(crate) fn length(&self, fde: &EhFrameRecord, width: u64) -> Option<u64> {
        let start = fde.pc_begin().checked_add(width)?;
        let end = start.checked_add(width).filter(|end| *end <= fde.end())?;
        let bytes = self.data.get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)?;
        Some(bytes.iter().rev().fold(0, |n, b| (n << 8) | u64::from(*b)))
    }
}

/// The number of bytes of a `pc_begin` with this relocation, if it is an address or a distance.
pub(crate) fn width(begin: &Rela) -> Option<u64> {
    use relocations::types::{R_X86_64_32, R_X86_64_64, R_X86_64_PC32, R_X86_64_PC64};
    match type_of(begin) {
        R_X86_64_PC32 | R_X86_64_32 => Some(4),
        R_X86_64_64 | R_X86_64_PC64 => Some(8),
        _ => None,
    }
}

/// Whether an FDE of an object may have an empty range. Only the relocation tells the width of the range, so it is also true for a
/// `pc_begin` of 64 bits that ends in zeros, and for an unreadable section.
pub fn may_have_empty_fdes(object: &[u8]) -> bool {
    let Ok(sections) = Tables::read(object).and_then(|tables| sections(&tables)) else { return true };
    sections.iter().any(|s| s.records.is_err() || s.fdes().any(|fde| s.length(fde, 4) == Some(0)))
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

/// Append the references of every unwind section. Each FDE belongs to the atom of its `pc_begin`. This atom refers, with kind
/// [`ReferenceKind::Unwind`], to the targets of the FDE (its LSDA) and of the CIE (its personality). So only live functions keep
/// these, while lld keeps every personality (ELF/MarkLive.cpp, `scanEhFrameSection`). `Err` is a malformed file. A new limit is an unwind section whose
/// references were not all read.
pub(crate) fn read(
    tables: &Tables<'_>,
    by_section: &SectionAtoms,
    atoms: &[Atom],
    symbols: &[Symbol],
    references: &mut Vec<Reference>,
    limits: &mut Vec<LimitRecord>,
) -> tables::Result<()> {
    for section in sections(tables)? {
        let scan = Scan { section: &section, by_section, atoms, symbols };
        let strange = section.relas.iter().find(|r| !is_of_unwind_table(relocations::type_of(r)));
        let outcome = match (&section.records, strange) {
            (Ok(_), Some(r)) => {
                Some(format!("a relocation of type {} at {:#x}", relocations::type_of(r), r.r_offset.get(LE)))
            }
            (Ok(records), None) => scan.records(records, references)?,
            (Err(e), _) => Some(e.to_string()),
        };
        if let Some(what) = outcome {
            let detail = format!("section {}: {what}", tables.describe(section.index));
            limits.push(record(Limit::MalformedUnwind, Some(section.index), detail));
        }
    }
    Ok(())
}

/// An FDE of a native object.
#[derive(Debug, Clone, Copy)]
pub struct FunctionEntry {
    pub atom: AtomIdx,
    /// The offset of the function in its section.
    pub begin: u64,
    /// The size of the FDE in bytes.
    pub size: u64,
}

/// The FDEs of the object `bytes` with this summary; empty if the object or a section of it is unreadable.
pub fn function_entries(bytes: &[u8], summary: &ModuleSummary) -> Vec<FunctionEntry> {
    let all = || -> tables::Result<Vec<FunctionEntry>> {
        let tables = Tables::read(bytes)?;
        let mut by_section = SectionAtoms(vec![None; tables.sections.len()]);
        for (i, atom) in summary.atoms.iter().enumerate().rev() {
            if let Some(first) = by_section.0.get_mut(atom.section as usize) {
                *first = Some(AtomIdx::new(i));
            }
        }
        let mut entries = Vec::new();
        for section in sections(&tables)? {
            section.records.as_ref().map_err(|e| malformed(e.to_string()))?;
            let (atoms, symbols) = (&summary.atoms, &summary.symbols);
            let scan = Scan { section: &section, by_section: &by_section, atoms, symbols };
            for fde in section.fdes() {
                if let FdeFunction::Atom(atom, begin) = scan.function(fde) {
                    entries.push(FunctionEntry { atom, begin, size: fde.size });
                }
            }
        }
        Ok(entries)
    };
    all().unwrap_or_default()
}

/// Whether a relocation of this type may be in an unwind table: an address or a distance. mold rejects other types,
/// but not in a dropped record.
fn is_of_unwind_table(ty: u32) -> bool {
    use elf::{R_X86_64_32, R_X86_64_32S, R_X86_64_64, R_X86_64_NONE, R_X86_64_PC32, R_X86_64_PC64};
    let types = [R_X86_64_NONE, R_X86_64_32, R_X86_64_32S, R_X86_64_64, R_X86_64_PC32, R_X86_64_PC64];
    types.iter().any(|t| t.0 == ty)
}

/// The function that an FDE describes.
enum FdeFunction {
    /// It begins at this place of its section.
    Atom(AtomIdx, u64),
    /// It is not in this object. The linker drops such an FDE, which `ld -r` leaves for a discarded function.
    Nothing,
    Unknown,
}

struct Scan<'s> {
    section: &'s UnwindSection<'s>,
    by_section: &'s SectionAtoms,
    atoms: &'s [Atom],
    symbols: &'s [Symbol],
}

impl Scan<'_> {
    /// Append the references of a section's records. The result describes an FDE without an atom.
    fn records(
        &self,
        records: &[EhFrameRecord],
        references: &mut Vec<Reference>,
    ) -> tables::Result<Option<String>> {
        // By record: the atom that last got a CIE's references. Functions of a section share their CIE.
        let mut last: Vec<Option<AtomIdx>> = vec![None; records.len()];
        let mut used = vec![false; records.len()];
        let mut problem = None;
        for fde in records {
            let RecordKind::Fde { cie } = fde.kind else { continue };
            let relas = self.section.relas_of(fde);
            let from = match self.function(fde) {
                FdeFunction::Atom(atom, _) => atom,
                FdeFunction::Nothing if relas.len() <= 1 => continue,
                FdeFunction::Nothing | FdeFunction::Unknown => {
                    problem.get_or_insert(format!(
                        "the FDE at {:#x} describes no section of this object",
                        fde.offset
                    ));
                    continue;
                }
            };
            let begin = fde.pc_begin();
            self.refer(from, relas.iter().filter(|r| r.r_offset.get(LE) != begin), references)?;
            let (Some(record), Some(seen), Some(mark)) =
                (records.get(cie), last.get_mut(cie), used.get_mut(cie))
            else {
                continue;
            };
            *mark = true;
            if seen.replace(from) != Some(from) {
                self.refer(from, self.section.relas_of(record).iter(), references)?;
            }
        }
        // Linkers write a CIE without FDEs too, and then its personality must be there.
        let unused = records.iter().zip(&used).find(|(r, used)| {
            r.kind == RecordKind::Cie
                && !**used
                && self.section.relas_of(r).iter().any(|rela| symbol_of(rela).0 != 0)
        });
        if let Some((cie, _)) = unused {
            problem.get_or_insert(format!("no function uses the CIE at {:#x}", cie.offset));
        }
        Ok(problem)
    }

    fn function(&self, fde: &EhFrameRecord) -> FdeFunction {
        let Some(rela) = self.section.begin(fde) else {
            let has_none = self.section.relas_of(fde).is_empty();
            return if has_none { FdeFunction::Nothing } else { FdeFunction::Unknown };
        };
        let symbol = symbol_of(rela);
        if symbol.0 == 0 {
            return FdeFunction::Nothing;
        }
        match self.symbols.get(symbol.index()).map(|s| s.definition) {
            Some(Definition::Atom(atom)) => {
                let Some(entry) = self.atoms.get(atom.index()).filter(|a| a.kind.is_alloc()) else {
                    return FdeFunction::Unknown;
                };
                // In a divided section, it is the part in which the function begins.
                let value = self.symbols.get(symbol.index()).map_or(0, |s| s.value);
                let begin = value.saturating_add_signed(rela.r_addend.get(LE));
                FdeFunction::Atom(self.by_section.at(self.atoms, entry.section, begin).unwrap_or(atom), begin)
            }
            _ => FdeFunction::Unknown,
        }
    }

    /// The part of a divided exception table that has the LSDA. An FDE refers to the first byte of its LSDA.
    fn lsda(&self, target: Target, addend: i64) -> Target {
        let Target::Atom(atom) = target else { return target };
        let table = self.atoms.get(atom.index()).filter(|a| a.kind == AtomKind::Lsda);
        let place = table.zip(u64::try_from(addend).ok());
        let part = place.and_then(|(table, place)| self.by_section.at(self.atoms, table.section, place));
        Target::Atom(part.unwrap_or(atom))
    }

    fn refer<'r>(
        &self,
        from: AtomIdx,
        relas: impl Iterator<Item = &'r Rela>,
        references: &mut Vec<Reference>,
    ) -> tables::Result<()> {
        for rela in relas {
            let target = relocations::target(self.symbols, symbol_of(rela))
                .map_err(|e| malformed(format!(".eh_frame: {}", e.detail)))?;
            if let Some(target) = target {
                let (offset, addend) = (rela.r_offset.get(LE), rela.r_addend.get(LE));
                let target = self.lsda(target, addend);
                references.push(Reference { from, offset, kind: ReferenceKind::Unwind, target, addend });
            }
        }
        Ok(())
    }
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
