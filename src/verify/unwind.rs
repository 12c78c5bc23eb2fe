//! The `.eh_frame` of an emitted object against that of its original.
//!
//! Each FDE of a kept function must be there, in order, with the same CIE, relocations and bytes except the distance
//! to its CIE. No other FDE may be there. The plan may also remove FDEs with an empty range, and those of kept
//! functions, which are then in `.debug_frame`. The LSDA of an FDE must be complete ([`lsda`]).

use goblin::elf::reloc::R_X86_64_NONE;

use super::elf::{Object, RelocationEntry, SymbolSection, by_target, entries, error, string};
use super::lsda::{self, LsdaStart};
use super::pair::{DEBUG_FRAME, Pair};
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
        check_debug_frame(pair, &old_sections)?;
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

/// Check the added `.debug_frame`. It has an FDE for each one that a kept function loses in `.eh_frame`, with its range and
/// instructions.
fn check_debug_frame(pair: &Pair<'_>, old_sections: &[usize]) -> Result<()> {
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
            Err(error(message).in_section(".debug_frame"))
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
