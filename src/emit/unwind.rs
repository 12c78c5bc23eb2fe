//! `.eh_frame` without the entries of dropped functions (LSB Core 5.0, "Exception Frames").
//!
//! An FDE is dropped with its function, if the function becomes a stub, or if the plan removes it. The relocation of its `pc_begin`
//! says which function that is. A CIE without FDEs is dropped, so its personality routine is no longer referenced. Kept records
//! are moved together, and their CIE pointers are computed again. A section that loses nothing is copied.
//! 64-bit records, which no linker accepts, are an error if the section must change.

use object::elf;
use summaries::native::eh_frame::{self, EhFrameRecord, RecordKind};

use super::input::{Input, LE, Rela, Role};
use super::parts::{OffsetLocation, SplitSections};
use super::sections::SectionDisposition;
use super::symbols::{SymbolDisposition, Symbols};
use crate::error::Result;

/// The unwind sections of an object that change.
#[derive(Debug, Default)]
pub(super) struct Unwind {
    /// The sections are in the order of their old indices.
    changed: Vec<PrunedEhFrame>,
}

#[derive(Debug)]
pub(super) struct PrunedEhFrame {
    section: u32,
    pub(super) bytes: Vec<u8>,
    records: Vec<PlacedRecord>,
    old_size: u64,
}

/// A record, and its place in the output.
#[derive(Debug)]
struct PlacedRecord {
    record: EhFrameRecord,
    kept: bool,
    /// The new start; for a dropped record, that of the next kept one.
    new_start: u64,
}

impl Unwind {
    /// Prune every kept `.eh_frame`.
    ///
    /// # Errors
    /// A section must change and does not follow the LSB.
    pub(super) fn prune(
        input: &Input<'_>,
        dispositions: &SectionDisposition,
        symbols: &Symbols<'_>,
        split: &SplitSections<'_>,
    ) -> Result<Self> {
        // (unwind section, relocation section). A relocation section may come before its target.
        let mut pairs: Vec<(u32, usize)> = Vec::new();
        let mut sections: Vec<u32> = Vec::new();
        for (index, section) in input.sections.iter().enumerate().skip(1) {
            match input.role(index) {
                Role::Unwind if dispositions.keeps(index) => sections.push(index as u32),
                Role::Relocations if input.role(section.sh_info.get(LE) as usize) == Role::Unwind => {
                    pairs.push((section.sh_info.get(LE), index));
                }
                _ => {}
            }
        }
        pairs.sort_unstable();
        let mut unwind = Unwind::default();
        for section in sections {
            let start = pairs.partition_point(|(target, _)| *target < section);
            let end = pairs.partition_point(|(target, _)| *target <= section);
            let relocations = pairs.get(start..end).unwrap_or(&[]);
            if let Some(changed) = prune_section(input, symbols, split, section, relocations)? {
                unwind.changed.push(changed);
            }
        }
        Ok(unwind)
    }

    /// The section after pruning; `None` if it does not change.
    pub(super) fn of(&self, section: u32) -> Option<&PrunedEhFrame> {
        self.changed.binary_search_by_key(&section, |c| c.section).ok().and_then(|i| self.changed.get(i))
    }

    /// The new place of offset `value` of `section`.
    pub(super) fn moved(&self, section: u32, value: u64) -> u64 {
        self.of(section).map_or(value, |c| c.moved(value))
    }

    /// The old indices of sections that are empty now.
    pub(super) fn emptied(&self) -> impl Iterator<Item = usize> + '_ {
        self.changed.iter().filter(|c| c.bytes.is_empty()).map(|c| c.section as usize)
    }
}

impl PrunedEhFrame {
    fn record(&self, offset: u64) -> Option<&PlacedRecord> {
        let next = self.records.partition_point(|r| r.record.offset <= offset);
        self.records.get(next.checked_sub(1)?).filter(|r| offset < r.record.end())
    }

    /// The new offset of a relocation at `offset`; `None` if its record is dropped.
    pub(super) fn relocated(&self, offset: u64) -> Option<u64> {
        let record = self.record(offset)?;
        record.kept.then(|| offset - record.record.offset + record.new_start)
    }

    fn moved(&self, value: u64) -> u64 {
        match self.record(value) {
            Some(r) if r.kept => value - r.record.offset + r.new_start,
            Some(r) => r.new_start,
            None => value - value.min(self.old_size) + self.bytes.len() as u64,
        }
    }
}

/// Whether the range of an FDE is empty. It is behind `pc_begin`, and as wide.
fn is_empty(data: &[u8], fde: &EhFrameRecord, wide: bool) -> bool {
    let width = if wide { 8 } else { 4 };
    let start = usize::try_from(fde.pc_begin()).ok().and_then(|at| at.checked_add(width));
    let range = start.and_then(|start| data.get(start..start.checked_add(width)?));
    range.is_some_and(|bytes| bytes.iter().all(|b| *b == 0))
}

/// Split a section into records; `None` if it does not follow the LSB, or has 64-bit records.
pub(super) fn records_of(data: &[u8]) -> Option<Vec<EhFrameRecord>> {
    let records = eh_frame::split(data, &[]).ok()?;
    records.iter().all(|r| r.kind == RecordKind::Terminator || r.id == r.offset + 4).then_some(records)
}

/// Whether a relocation is one that `ld.bfd -r` leaves of a dropped record. It may be at the `pc_begin` of another one.
pub(super) fn is_left_over(entry: &Rela) -> bool {
    entry.r_type(LE, false) == elf::R_X86_64_NONE && entry.r_sym(LE, false) == 0
}

/// Whether a relocation refers to a dropped atom or a stub.
fn is_gone(
    input: &Input<'_>,
    symbols: &Symbols<'_>,
    split: &SplitSections<'_>,
    entry: &Rela,
) -> Result<bool> {
    let symbol = entry.r_sym(LE, false);
    let Some(divided) = split.of_symbol(input, symbol)? else {
        let disposition = symbols.disposition(symbol)?;
        return Ok(matches!(disposition, SymbolDisposition::Gone | SymbolDisposition::Replaced)
            || symbols.is_stub(symbol));
    };
    let addend = entry.r_addend.get(LE);
    match u64::try_from(addend).map(|offset| divided.spot(offset)) {
        Ok(OffsetLocation::Part(..)) => Ok(false),
        Ok(OffsetLocation::Dropped | OffsetLocation::Stub(..)) => Ok(true),
        Ok(OffsetLocation::Nowhere) | Err(_) => Err(input.about(
            divided.section as usize,
            format!("an unwind table refers to {addend:#x}, which is in no function"),
        )),
    }
}

fn prune_section(
    input: &Input<'_>,
    symbols: &Symbols<'_>,
    split: &SplitSections<'_>,
    section: u32,
    relocation_sections: &[(u32, usize)],
) -> Result<Option<PrunedEhFrame>> {
    let index = section as usize;
    let data = input.data(index)?;
    // Of every relocation, by offset: whether the FDE of its target is dropped, and whether its field has 64 bits.
    let mut targets: Vec<(u64, bool, bool)> = Vec::new();
    let mut any_gone = false;
    for &(_, r) in relocation_sections {
        for entry in input.table::<Rela>(r)?.iter().filter(|entry| !is_left_over(entry)) {
            let gone = is_gone(input, symbols, split, entry)? || split.removes_unwind(input, entry)?;
            any_gone |= gone;
            let wide = matches!(entry.r_type(LE, false), elf::R_X86_64_64 | elf::R_X86_64_PC64);
            targets.push((entry.r_offset.get(LE), gone, wide));
        }
    }
    if !targets.is_sorted() {
        targets.sort_unstable();
    }
    let Some(records) = records_of(data) else {
        if any_gone {
            return Err(input.about(index, "must be pruned, but can't be split into records"));
        }
        return Ok(None);
    };
    let mut kept = vec![true; records.len()];
    let mut cie_used = vec![false; records.len()];
    for (record, kept) in records.iter().zip(&mut kept) {
        let RecordKind::Fde { cie } = record.kind else { continue };
        let pc_begin = record.pc_begin();
        let at = targets.partition_point(|(offset, _, _)| *offset < pc_begin);
        if let Some((_, gone, wide)) = targets.get(at).filter(|(offset, _, _)| *offset == pc_begin) {
            *kept = !(*gone || symbols.plan.drops_empty_fdes && is_empty(data, record, *wide));
        }
        if let (true, Some(used)) = (*kept, cie_used.get_mut(cie)) {
            *used = true;
        }
    }
    for ((record, kept), used) in records.iter().zip(&mut kept).zip(cie_used) {
        *kept &= record.kind != RecordKind::Cie || used;
    }
    if kept.iter().all(|kept| *kept) {
        return Ok(None);
    }
    if targets.last().is_some_and(|(offset, _, _)| *offset >= data.len() as u64) {
        return Err(input.about(index, "a relocation is outside of the section"));
    }
    let lost = || input.about(index, "a record is outside of the section");
    write(section, data, records, &kept).ok_or_else(lost).map(Some)
}

fn write(section: u32, data: &[u8], records: Vec<EhFrameRecord>, kept: &[bool]) -> Option<PrunedEhFrame> {
    let mut bytes = Vec::with_capacity(data.len());
    let mut placed: Vec<PlacedRecord> = Vec::with_capacity(records.len());
    for (record, kept) in records.into_iter().zip(kept.iter().copied()) {
        let new_start = bytes.len() as u64;
        if kept {
            let range = usize::try_from(record.offset).ok()?..usize::try_from(record.end()).ok()?;
            bytes.extend_from_slice(data.get(range)?);
            if let RecordKind::Fde { cie } = record.kind {
                let id = new_start as usize + 4;
                let distance = id as u64 - placed.get(cie)?.new_start;
                bytes.get_mut(id..id + 4)?.copy_from_slice(&u32::try_from(distance).ok()?.to_le_bytes());
            }
        }
        placed.push(PlacedRecord { record, kept, new_start });
    }
    Some(PrunedEhFrame { section, bytes, records: placed, old_size: data.len() as u64 })
}
