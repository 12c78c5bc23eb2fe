//! The `.eh_frame` of an emitted object against that of its original.
//!
//! Each FDE of a kept function must be there, in order, with the same CIE, relocations and bytes except the distance
//! to its CIE. No other FDE may be there. The plan may also remove FDEs with an empty range, and those of kept
//! functions, which are then in `.debug_frame` ([`debug_frame`]). The LSDA of an FDE must be complete ([`lsda`]).

mod debug_frame;

use goblin::elf::reloc::R_X86_64_NONE;

use super::elf::{Object, RelocationEntry, SymbolSection, by_target, entries, error};
use super::lsda::{self, LsdaStart};
use super::pair::Pair;
use super::relocations::differs;
use super::symbols::SymbolMap;
use crate::error::Result;

/// A record, by its place in its section.
#[derive(Debug, Clone, Copy)]
struct CfiRecord {
    start: usize,
    end: usize,
    /// Start of the CIE of an FDE; `None` for a CIE or terminator.
    cie: Option<usize>,
    terminator: bool,
}

/// An unwind section: its bytes, records and relocations (by offset).
struct UnwindSection<'a> {
    index: usize,
    data: &'a [u8],
    records: Vec<CfiRecord>,
    relocations: Vec<RelocationEntry>,
}

impl<'a> UnwindSection<'a> {
    fn read(object: &Object<'a>, tables: &[(usize, usize)], index: usize) -> Result<Self> {
        let data = object.contents(index)?;
        let mut relocations = entries(object, tables, index)?;
        relocations.sort_by_key(|r| r.offset);
        let records = split(data).ok_or_else(|| object.about(index, "it can't be split into records"))?;
        Ok(UnwindSection { index, data, records, relocations })
    }

    fn of(&self, record: &CfiRecord) -> &[RelocationEntry] {
        let start = self.relocations.partition_point(|r| r.offset < record.start as u64);
        let end = self.relocations.partition_point(|r| r.offset < record.end as u64);
        self.relocations.get(start..end).unwrap_or(&[])
    }

    fn bytes(&self, record: &CfiRecord, from: usize) -> &'a [u8] {
        self.data.get((record.start + from).min(record.end)..record.end).unwrap_or(&[])
    }
}

fn word(data: &[u8], at: usize) -> Option<u32> {
    data.get(at..).and_then(|d| d.first_chunk::<4>()).map(|w| u32::from_le_bytes(*w))
}

fn split(data: &[u8]) -> Option<Vec<CfiRecord>> {
    let mut records = Vec::new();
    let mut at = 0;
    while at < data.len() {
        let length = word(data, at)? as usize;
        if length == 0 {
            records.push(CfiRecord { start: at, end: at + 4, cie: None, terminator: true });
            at += 4;
            continue;
        }
        let end = (at + 4).checked_add(length).filter(|end| *end <= data.len())?;
        let distance = word(data, at + 4)? as usize;
        let cie = if distance == 0 { None } else { Some((at + 4).checked_sub(distance)?) };
        records.push(CfiRecord { start: at, end, cie, terminator: false });
        at = end;
    }
    Some(records)
}

pub(super) fn check(pair: &Pair<'_>, symbols: &SymbolMap) -> Result<()> {
    let unwind = |o: &Object<'_>| (1..o.sections.len()).filter(|i| o.is_unwind(*i)).collect::<Vec<_>>();
    let (old_sections, new_sections) = (unwind(&pair.old), unwind(&pair.new));
    if pair.expected.has_debug_frame {
        debug_frame::check(pair, &old_sections)?;
    }
    // If the bytes are the same, the records need not be well formed.
    if old_sections.len() == new_sections.len() && unchanged(pair, symbols, &old_sections, &new_sections)? {
        return Ok(());
    }
    let (old_tables, new_tables) = (by_target(&pair.old), by_target(&pair.new));
    let old = old_sections
        .iter()
        .map(|i| UnwindSection::read(&pair.old, &old_tables, *i))
        .collect::<Result<Vec<_>>>()?;
    let new = new_sections
        .iter()
        .map(|i| UnwindSection::read(&pair.new, &new_tables, *i))
        .collect::<Result<Vec<_>>>()?;
    let fdes = |tables: &'_ [UnwindSection<'_>]| -> Vec<(usize, usize)> {
        let of = |(t, table): (usize, &UnwindSection<'_>)| {
            let records = table.records.iter().enumerate();
            records.filter(|(_, r)| r.cie.is_some()).map(|(r, _)| (t, r)).collect::<Vec<_>>()
        };
        tables.iter().enumerate().flat_map(of).collect()
    };
    let mut shapes: Vec<_> = old_sections.iter().map(|i| shape(&pair.old, *i)).collect();
    shapes.sort_unstable();
    shapes.dedup();
    for &j in &new_sections {
        if !shapes.contains(&shape(&pair.new, j)) {
            return Err(pair.new.about(j, "has other flags or another alignment than before"));
        }
    }
    let (old_fdes, new_fdes) = (fdes(&old), fdes(&new));
    let starts = lsda_starts(pair, &old, &old_fdes);
    let mut rest = new_fdes.iter();
    for (t, r) in old_fdes {
        let Some((table, record)) = old.get(t).and_then(|t| Some((t, t.records.get(r)?))) else { continue };
        let is_empty = pair.expected.drops_empty_fdes && range(table, record) == Some(0);
        if is_empty || describes_dropped(pair, table.of(record), record.start) {
            continue;
        }
        let Some(found) = rest.next().and_then(|(t, r)| Some((new.get(*t)?, new.get(*t)?.records.get(*r)?)))
        else {
            return Err(pair.old.about(table.index, format!("the FDE at {:#x} is missing", record.start)));
        };
        same_fde(pair, symbols, (table, record), found)?;
        let mut lsdas = table.of(record).iter().filter_map(|entry| lsda::start(pair, entry));
        if let Some((_, start)) = lsdas.find(|start| !lsda::is_whole(pair, *start, &starts)) {
            let what = format!("the LSDA at {start:#x} of the FDE at {:#x} is not all there", record.start);
            return Err(pair.old.about(table.index, what));
        }
    }
    if rest.next().is_some() {
        return Err(error("an FDE of a dropped function is there").in_section(".eh_frame"));
    }
    let terminators = |tables: &[UnwindSection<'_>]| {
        tables.iter().flat_map(|t| &t.records).filter(|r| r.terminator).count()
    };
    if terminators(&old) != terminators(&new) {
        return Err(error("a terminator is missing or new").in_section(".eh_frame"));
    }
    Ok(())
}

/// The starts of the FDEs' LSDAs, sorted.
fn lsda_starts(pair: &Pair<'_>, tables: &[UnwindSection<'_>], fdes: &[(usize, usize)]) -> Vec<LsdaStart> {
    let records = fdes.iter().filter_map(|(t, r)| Some((tables.get(*t)?, tables.get(*t)?.records.get(*r)?)));
    let entries = records.flat_map(|(table, record)| table.of(record));
    let mut starts: Vec<LsdaStart> = entries.filter_map(|entry| lsda::start(pair, entry)).collect();
    starts.sort_unstable();
    starts.dedup();
    starts
}

/// Type, flags, alignment and entry size of a section.
fn shape(object: &Object<'_>, index: usize) -> Option<(u32, u64, u64, u64)> {
    let section = object.sections.get(index)?;
    Some((section.sh_type, section.sh_flags, section.sh_addralign, section.sh_entsize))
}

fn unchanged(pair: &Pair<'_>, symbols: &SymbolMap, old: &[usize], new: &[usize]) -> Result<bool> {
    let (old_tables, new_tables) = (by_target(&pair.old), by_target(&pair.new));
    for (i, j) in old.iter().zip(new) {
        if shape(&pair.old, *i) != shape(&pair.new, *j) || pair.old.contents(*i)? != pair.new.contents(*j)? {
            return Ok(false);
        }
        let (a, b) = (entries(&pair.old, &old_tables, *i)?, entries(&pair.new, &new_tables, *j)?);
        if a.len() != b.len() {
            return Ok(false);
        }
        for (a, b) in a.iter().zip(&b) {
            same_relocation(pair, symbols, *i, 0, a, 0, b)?;
        }
    }
    Ok(true)
}

/// Whether the function of an FDE is dropped or kept without it, by the relocation of its `pc_begin`.
fn describes_dropped(pair: &Pair<'_>, relocations: &[RelocationEntry], start: usize) -> bool {
    let Some((symbol, section, place)) = described(pair, relocations, start) else { return false };
    let is_dropped = match pair.parted_by_symbol(symbol) {
        Some(_) => pair.is_dropped(section, place),
        None => pair.old.symbol(symbol).is_some_and(|s| pair.is_dropped(section, s.st_value)),
    };
    is_dropped || pair.expected.removes_unwind_at(section, place)
}

/// The symbol, section and offset of an FDE's function in the original, by the relocation of its `pc_begin`.
fn described(pair: &Pair<'_>, relocations: &[RelocationEntry], start: usize) -> Option<(usize, usize, u64)> {
    let at = start as u64 + 8;
    let entry = relocations.iter().find(|r| r.offset == at && !is_left_over(r))?;
    let symbol = pair.old.symbol(entry.symbol)?;
    let SymbolSection::Section(section) = pair.old.place(entry.symbol, &symbol) else { return None };
    Some((entry.symbol, section, symbol.st_value.wrapping_add_signed(entry.addend)))
}

fn same_fde(
    pair: &Pair<'_>,
    symbols: &SymbolMap,
    (old, record): (&UnwindSection<'_>, &CfiRecord),
    (new, found): (&UnwindSection<'_>, &CfiRecord),
) -> Result<()> {
    let changed = |what: &str| {
        Err(pair.old.about(old.index, format!("{what} of the FDE at {:#x} is not what it was", record.start)))
    };
    if word(old.data, record.start) != word(new.data, found.start)
        || old.bytes(record, 8) != new.bytes(found, 8)
    {
        return changed("the contents");
    }
    same_relocations(pair, symbols, (old, record), (new, found))?;
    if !is_in_one_part(pair, old, record) {
        return changed("the range");
    }
    let cie = |table: &UnwindSection<'_>, record: &CfiRecord| {
        let start = record.cie?;
        let at = table.records.binary_search_by_key(&start, |r| r.start).ok()?;
        table.records.get(at).copied().filter(|r| r.cie.is_none() && !r.terminator)
    };
    match (cie(old, record), cie(new, found)) {
        (Some(a), Some(b)) if old.bytes(&a, 0) == new.bytes(&b, 0) => {
            same_relocations(pair, symbols, (old, &a), (new, &b))
        }
        _ => changed("the CIE"),
    }
}

/// The relocation of an FDE's `pc_begin`.
fn begin<'t>(table: &'t UnwindSection<'_>, record: &CfiRecord) -> Option<&'t RelocationEntry> {
    let begin = record.start as u64 + 8;
    table.of(record).iter().find(|e| e.offset == begin && !is_left_over(e))
}

/// Whether a relocation is one that `ld.bfd -r` leaves of a dropped record. It may be at any place of another one.
fn is_left_over(entry: &RelocationEntry) -> bool {
    entry.kind == R_X86_64_NONE && entry.symbol == 0
}

/// The range of an FDE with a relocated `pc_begin`, in bytes. Both have the same width.
fn range(table: &UnwindSection<'_>, record: &CfiRecord) -> Option<u64> {
    match begin(table, record)?.kind {
        1 | 24 => table
            .data
            .get(record.start + 16..)
            .and_then(|d| d.first_chunk::<8>())
            .map(|d| u64::from_le_bytes(*d)),
        _ => word(table.data, record.start + 12).map(u64::from),
    }
}

/// Whether the function of an FDE is in one part of its section.
fn is_in_one_part(pair: &Pair<'_>, table: &UnwindSection<'_>, record: &CfiRecord) -> bool {
    let Some(entry) = begin(table, record) else { return true };
    let Some(section) = pair.parted_by_symbol(entry.symbol) else { return true };
    let range = range(table, record);
    let place = u64::try_from(entry.addend).ok();
    range.zip(place).is_some_and(|(range, place)| pair.holds(section, place, range))
}

fn same_relocations(
    pair: &Pair<'_>,
    symbols: &SymbolMap,
    (old, a): (&UnwindSection<'_>, &CfiRecord),
    (new, b): (&UnwindSection<'_>, &CfiRecord),
) -> Result<()> {
    let (before, after) = (old.of(a), new.of(b));
    if before.len() != after.len() {
        return Err(pair.old.about(old.index, format!("the record at {:#x} lost a relocation", a.start)));
    }
    for (x, y) in before.iter().zip(after) {
        same_relocation(pair, symbols, old.index, a.start, x, b.start, y)?;
    }
    Ok(())
}

fn same_relocation(
    pair: &Pair<'_>,
    symbols: &SymbolMap,
    section: usize,
    old_start: usize,
    old: &RelocationEntry,
    new_start: usize,
    new: &RelocationEntry,
) -> Result<()> {
    let place = |e: &RelocationEntry, start: usize| e.offset.wrapping_sub(start as u64);
    if place(old, old_start) == place(new, new_start) && pair.stands_for(symbols, section, old, new) {
        return Ok(());
    }
    Err(differs(pair, section, old))
}
