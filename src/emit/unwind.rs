//! `.eh_frame` without the entries of dropped functions.
//!
//! An FDE goes if its function does, if the plan says that the program does not need it, or if its function becomes a stub (the relocation at its `pc_begin`; against the symbol of a section of which only a
//! part stays, the addend is the place of the function); a CIE goes if no FDE is left that uses
//! it, which also lets go of its personality routine. What stays is moved together, the CIE pointers being
//! recomputed. Where the plan says so, an FDE of no bytes goes too. Terminators stay where they are in the order. Safe because the unwinder finds entries only by
//! their `pc_begin`, and because a section from which nothing goes is left as it is, byte for byte.
//!
//! Left out: 64-bit records, which no linker takes. Source: LSB Core 5.0, "Exception Frames".

use object::elf;

use super::input::{Input, LE, Rela, Role};
use super::parts::{OffsetLocation, SplitSections};
use super::sections::SectionDisposition;
use super::symbols::{SymbolDisposition, Symbols};
use crate::error::Result;

/// The unwind sections of an object from which something goes.
#[derive(Debug, Default)]
pub(super) struct Unwind {
    /// The sections that change, ascending by section index of the input.
    changed: Vec<PrunedEhFrame>,
}

/// What one `.eh_frame` section is after pruning.
#[derive(Debug)]
pub(super) struct PrunedEhFrame {
    section: u32,
    pub(super) bytes: Vec<u8>,
    records: Vec<FrameRecord>,
    old_size: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FrameRecordKind {
    Terminator,
    Cie,
    /// An FDE, with the index of its CIE in the list of records.
    Fde(usize),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct FrameRecord {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) kind: FrameRecordKind,
    kept: bool,
    /// Where it starts in the output; for a dropped one, where the next that stays does.
    new_start: usize,
}

impl Unwind {
    /// Prune every `.eh_frame` that stays. An error is a section that must change and does not follow the LSB.
    pub(super) fn prune(
        input: &Input<'_>,
        dispositions: &SectionDisposition,
        symbols: &Symbols<'_>,
        parts: &SplitSections<'_>,
    ) -> Result<Self> {
        // (unwind section, relocation section); a relocation section may stand before its target.
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
            if let Some(changed) = prune_section(input, symbols, parts, section, relocations)? {
                unwind.changed.push(changed);
            }
        }
        Ok(unwind)
    }

    /// The section after pruning; `None` if it is as it was.
    pub(super) fn of(&self, section: u32) -> Option<&PrunedEhFrame> {
        self.changed.binary_search_by_key(&section, |c| c.section).ok().and_then(|i| self.changed.get(i))
    }

    /// Where offset `value` of `section` is after pruning.
    pub(super) fn moved(&self, section: u32, value: u64) -> u64 {
        self.of(section).map_or(value, |c| c.moved(value))
    }

    /// Whether no unwind section changes at all.
    pub(super) fn is_empty(&self) -> bool {
        self.changed.is_empty()
    }

    /// The old indices of sections of which nothing is left.
    pub(super) fn emptied(&self) -> impl Iterator<Item = usize> + '_ {
        self.changed.iter().filter(|c| c.bytes.is_empty()).map(|c| c.section as usize)
    }
}

impl PrunedEhFrame {
    fn record(&self, offset: u64) -> Option<&FrameRecord> {
        let offset = usize::try_from(offset).ok()?;
        let next = self.records.partition_point(|r| r.start <= offset);
        self.records.get(next.checked_sub(1)?).filter(|r| offset < r.end)
    }

    /// The new offset of a relocation at `offset`; `None` if its record goes.
    pub(super) fn relocated(&self, offset: u64) -> Option<u64> {
        let record = self.record(offset)?;
        record.kept.then(|| offset - record.start as u64 + record.new_start as u64)
    }

    fn moved(&self, value: u64) -> u64 {
        match self.record(value) {
            Some(r) if r.kept => value - r.start as u64 + r.new_start as u64,
            Some(r) => r.new_start as u64,
            None => value - value.min(self.old_size) + self.bytes.len() as u64,
        }
    }
}

/// Whether an FDE at `start` describes no byte. Its range, as wide as its `pc_begin`, is a difference that the assembler knew.
fn is_empty(data: &[u8], start: usize, wide: bool) -> bool {
    let range = start + if wide { 16 } else { 12 };
    data.get(range..range + if wide { 8 } else { 4 }).is_some_and(|bytes| bytes.iter().all(|b| *b == 0))
}

fn word(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(data.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

/// Split a section into records; `None` if it doesn't follow the LSB.
pub(super) fn split(data: &[u8]) -> Option<Vec<FrameRecord>> {
    let mut records: Vec<FrameRecord> = Vec::new();
    let mut start = 0;
    while start < data.len() {
        let length = word(data, start)?;
        let (end, kind) = match length {
            0 => (start + 4, FrameRecordKind::Terminator),
            u32::MAX => return None,
            _ => {
                let id_at = start + 4;
                let end = id_at.checked_add(length as usize).filter(|e| *e <= data.len())?;
                let kind = match word(data, id_at)? {
                    0 => FrameRecordKind::Cie,
                    distance => {
                        let cie_start = id_at.checked_sub(distance as usize)?;
                        let cie = records.binary_search_by_key(&cie_start, |r| r.start).ok()?;
                        records.get(cie).filter(|r| r.kind == FrameRecordKind::Cie)?;
                        FrameRecordKind::Fde(cie)
                    }
                };
                (end, kind)
            }
        };
        records.push(FrameRecord { start, end, kind, kept: true, new_start: start });
        start = end;
    }
    Some(records)
}

/// Whether a relocation is what `ld.bfd -r` leaves of a record that it took out. It may be at the place of another one's function.
pub(super) fn is_left_over(entry: &Rela) -> bool {
    entry.r_type(LE, false) == elf::R_X86_64_NONE && entry.r_sym(LE, false) == 0
}

/// Whether a relocation refers to what is dropped.
fn is_gone(
    input: &Input<'_>,
    symbols: &Symbols<'_>,
    parts: &SplitSections<'_>,
    entry: &Rela,
) -> Result<bool> {
    let symbol = entry.r_sym(LE, false);
    let Some(divided) = parts.of_symbol(input, symbol)? else {
        let disposition = symbols.disposition(symbol)?;
        return Ok(matches!(disposition, SymbolDisposition::Gone | SymbolDisposition::Replaced)
            || symbols.is_stub(symbol));
    };
    let addend = entry.r_addend.get(LE);
    match u64::try_from(addend).map(|offset| divided.spot(offset)) {
        Ok(OffsetLocation::Run(_)) => Ok(false),
        Ok(OffsetLocation::Dropped | OffsetLocation::Stub(_)) => Ok(true),
        Ok(OffsetLocation::Nowhere) | Err(_) => Err(input.about(
            divided.section as usize,
            format!("an unwind table refers to {addend:#x}, which is no function"),
        )),
    }
}

fn prune_section(
    input: &Input<'_>,
    symbols: &Symbols<'_>,
    parts: &SplitSections<'_>,
    section: u32,
    relocation_sections: &[(u32, usize)],
) -> Result<Option<PrunedEhFrame>> {
    let index = section as usize;
    let data = input.data(index)?;
    // (offset, whether an FDE of its target goes, whether its field has 64 bits) of every relocation, by offset.
    let mut targets: Vec<(u64, bool, bool)> = Vec::new();
    let mut any_gone = false;
    for &(_, r) in relocation_sections {
        for entry in input.table::<Rela>(r)?.iter().filter(|entry| !is_left_over(entry)) {
            let gone = is_gone(input, symbols, parts, entry)? || parts.removes_unwind(input, entry)?;
            any_gone |= gone;
            let wide = matches!(entry.r_type(LE, false), elf::R_X86_64_64 | elf::R_X86_64_PC64);
            targets.push((entry.r_offset.get(LE), gone, wide));
        }
    }
    if !targets.is_sorted() {
        targets.sort_unstable();
    }
    let Some(mut records) = split(data) else {
        if any_gone {
            return Err(input.about(index, "must be pruned, but can't be split into records"));
        }
        return Ok(None);
    };
    let mut cie_used = vec![false; records.len()];
    for record in &mut records {
        let FrameRecordKind::Fde(cie) = record.kind else { continue };
        let pc_begin = record.start as u64 + 8;
        let at = targets.partition_point(|(offset, _, _)| *offset < pc_begin);
        if let Some((_, gone, wide)) = targets.get(at).filter(|(offset, _, _)| *offset == pc_begin) {
            let is_empty = symbols.drops_empty_fdes() && is_empty(data, record.start, *wide);
            record.kept = !gone && !is_empty;
        }
        if let (true, Some(used)) = (record.kept, cie_used.get_mut(cie)) {
            *used = true;
        }
    }
    for (record, used) in records.iter_mut().zip(cie_used) {
        record.kept &= record.kind != FrameRecordKind::Cie || used;
    }
    if records.iter().all(|r| r.kept) {
        return Ok(None);
    }
    if targets.last().is_some_and(|(offset, _, _)| *offset >= data.len() as u64) {
        return Err(input.about(index, "a relocation is outside of the section"));
    }
    Ok(Some(write(section, data, records)))
}

fn write(section: u32, data: &[u8], mut records: Vec<FrameRecord>) -> PrunedEhFrame {
    let mut bytes = Vec::with_capacity(data.len());
    for i in 0..records.len() {
        let Some(record) = records.get_mut(i) else { break };
        record.new_start = bytes.len();
        let record = *record;
        if !record.kept {
            continue;
        }
        bytes.extend_from_slice(data.get(record.start..record.end).unwrap_or(&[]));
        if let FrameRecordKind::Fde(cie) = record.kind {
            let id_at = record.new_start + 4;
            let cie_start = records.get(cie).map_or(0, |c| c.new_start);
            if let Some(id) = bytes.get_mut(id_at..id_at + 4) {
                id.copy_from_slice(&((id_at - cie_start) as u32).to_le_bytes());
            }
        }
    }
    PrunedEhFrame { section, bytes, records, old_size: data.len() as u64 }
}
