//! The sections that follow the entries: strings, line number programs, and tables with a contribution for each unit.

use super::entries::{EntryTable, invalid};
use super::units::NewUnits;
use crate::emit::cursor::Cursor;
use crate::emit::debug::draft::SectionDraft;
use crate::emit::debug::view::{DebugSection, decode};
use crate::emit::input::{Input, LE, Rela, SymbolPlace};
use crate::error::Result;

/// The place of section `index` that a relocation means.
fn place_in(input: &Input<'_>, index: usize, entry: &Rela) -> Result<Option<u64>> {
    let symbol = entry.r_sym(LE, false) as usize;
    if input.place(symbol)? != SymbolPlace::Section(index as u32) {
        return Ok(None);
    }
    let value = input.symbols.get(symbol).map_or(0, |s| s.st_value.get(LE));
    Ok(Some(value.wrapping_add_signed(entry.r_addend.get(LE))))
}

/// By place of a section: whether one of these relocations means it.
fn places_in<'r>(
    input: &Input<'_>,
    section: &DebugSection<'_>,
    all: impl Iterator<Item = &'r Rela>,
) -> Result<Vec<bool>> {
    let mut places = vec![false; section.raw.len()];
    for entry in all {
        if let Some(place) = place_in(input, section.index, entry)? {
            let slot = usize::try_from(place).ok().and_then(|place| places.get_mut(place));
            *slot.ok_or_else(|| invalid("a relocation leads out of a section"))? = true;
        }
    }
    Ok(places)
}

/// `.debug_str` with the strings that relocations name.
#[derive(Debug)]
pub(super) struct StringMap {
    /// By old place, the new place of each byte of a kept string.
    places: Vec<u32>,
    pub(super) bytes: Vec<u8>,
}

/// In [`StringMap::places`]: the string is removed.
const REMOVED: u32 = u32::MAX;

impl StringMap {
    pub(super) fn of<'r>(
        input: &Input<'_>,
        section: &DebugSection<'_>,
        references: impl Iterator<Item = &'r Rela>,
    ) -> Result<StringMap> {
        // Linkers refuse such a section, whether or not the string is used.
        if section.raw.last().is_some_and(|last| *last != 0) {
            return Err(invalid("a string has no end"));
        }
        let used = places_in(input, section, references)?;
        let mut map = StringMap { places: Vec::with_capacity(used.len()), bytes: Vec::new() };
        for string in section.raw.split_inclusive(|byte| *byte == 0) {
            let start = map.places.len();
            let is_used = used.get(start..start + string.len()).is_some_and(|used| used.contains(&true));
            if !is_used {
                map.places.extend(string.iter().map(|_| REMOVED));
                continue;
            }
            let new = u32::try_from(map.bytes.len()).map_err(|_| invalid("there are too many strings"))?;
            map.places.extend(new..new + string.len() as u32);
            map.bytes.extend_from_slice(string);
        }
        Ok(map)
    }

    pub(super) fn place(&self, old: u64) -> Option<u64> {
        let place = usize::try_from(old).ok().and_then(|old| self.places.get(old).copied());
        place.filter(|place| *place != REMOVED).map(u64::from)
    }
}

/// `.debug_str_offsets` with the slots that kept entries use (DWARF 5, 7.26).
#[derive(Debug)]
pub(super) struct StringSlots {
    pub(super) draft: SectionDraft,
    /// The old indices of the kept slots, ascending.
    kept: Vec<u64>,
}

impl StringSlots {
    /// The table of an object with the slots that kept entries name; `None` unless all units share one table.
    ///
    /// # Errors
    /// An entry names a slot that is not there.
    pub(super) fn of(
        section: &DebugSection<'_>,
        entries: &EntryTable,
        units: &NewUnits,
    ) -> Result<Option<StringSlots>> {
        let Some((length, rest)) = section.raw.split_first_chunk::<4>() else { return Ok(None) };
        let is_one = rest.len() == u32::from_le_bytes(*length) as usize && rest.starts_with(&[5, 0, 0, 0]);
        if !is_one || entries.units.iter().any(|unit| unit.string_offsets_base != Some(8)) {
            return Ok(None);
        }
        let is_kept =
            |position: &usize| units.offsets.get(*position).is_some_and(|offset| *offset != u64::MAX);
        let strings =
            (0..entries.entries.len()).filter(is_kept).flat_map(|entry| entries.strings_of(entry as u32));
        let mut kept: Vec<u64> = strings.map(|s| s.index).collect();
        kept.sort_unstable();
        kept.dedup();
        let mut draft = SectionDraft::in_place_of(section);
        draft.copy(section, 0, 8)?;
        for index in &kept {
            let at = index.checked_mul(4).and_then(|at| at.checked_add(8)).filter(|at| *at < u64::MAX - 4);
            let at = at.ok_or_else(|| invalid("an entry names a string that is not there"))?;
            draft.copy(section, at, at + 4)?;
        }
        let length = draft.len() - 4;
        draft.set_u32(0, length)?;
        Ok(Some(StringSlots { draft, kept }))
    }

    /// The new index of a slot that was kept. It is not above the old one, so that it fits into the same bytes.
    pub(super) fn index(&self, old: u64) -> Option<u64> {
        self.kept.binary_search(&old).ok().map(|new| new as u64)
    }
}

/// `.debug_line` with the programs that something refers to.
#[derive(Debug)]
pub(super) struct LineMap {
    /// The old start and the new start of each kept program, ascending.
    programs: Vec<(u64, u64)>,
    /// The targets of its relocations are those of the input.
    pub(super) draft: SectionDraft,
}

impl LineMap {
    pub(super) fn of<'r>(
        input: &Input<'_>,
        section: &DebugSection<'_>,
        references: impl Iterator<Item = &'r Rela>,
    ) -> Result<LineMap> {
        let mut map = LineMap { programs: Vec::new(), draft: SectionDraft::in_place_of(section) };
        let used = places_in(input, section, references)?;
        let mut at = 0;
        while at < section.raw.len() as u64 {
            let end = Cursor::new(&section.raw, at).u32()?.saturating_add(at + 4);
            if end > section.raw.len() as u64 {
                return Err(invalid("a line number program ends early"));
            }
            if used.get(at as usize) == Some(&true) {
                map.programs.push((at, map.draft.len()));
                map.draft.copy(section, at, end)?;
            }
            at = end;
        }
        Ok(map)
    }

    pub(super) fn place(&self, old: u64) -> Option<u64> {
        let found = self.programs.binary_search_by_key(&old, |(start, _)| *start).ok()?;
        self.programs.get(found).map(|(_, new)| *new)
    }
}

/// A table with a contribution for each unit (`.debug_aranges`, `.debug_pubnames` and the like): the contributions of kept units, and in
/// tables of names the names of kept entries. The targets of its relocations are those of the input.
///
/// # Errors
/// A table that is malformed.
pub(super) fn by_unit(
    input: &Input<'_>,
    section: &DebugSection<'_>,
    entries: &EntryTable,
    units: &NewUnits,
) -> Result<SectionDraft> {
    let name = input.section_name(section.index);
    // A name has an offset, with GNU's form a byte that describes it, and the string.
    let describing = match name {
        b".debug_aranges" => None,
        _ => Some(u64::from(name.starts_with(b".debug_gnu"))),
    };
    let early = || invalid("a table of names ends early");
    let mut draft = SectionDraft::in_place_of(section);
    let mut at = 0;
    while at < section.raw.len() as u64 {
        let mut cursor = Cursor::new(&section.linked, at);
        let end = cursor
            .u32()?
            .checked_add(at + 4)
            .filter(|end| *end <= section.raw.len() as u64)
            .ok_or_else(early)?;
        cursor.u16()?;
        let start = cursor.u32()?;
        let unit = entries.units.binary_search_by_key(&start, |unit| unit.start);
        let position = unit.map_err(|_| invalid("a table names a unit that is not there"))?;
        let Some((new_start, new_end)) = units.units.get(position).copied().flatten() else {
            at = end;
            continue;
        };
        let new = draft.len();
        let Some(describing) = describing else {
            live_ranges(section, at, end, &mut draft)?;
            at = end;
            continue;
        };
        draft.copy(section, at, cursor.at)?;
        cursor.u32()?;
        draft.bytes.extend_from_slice(&((new_end - new_start) as u32).to_le_bytes());
        loop {
            let offset = cursor.u32()?;
            if offset == 0 {
                draft.bytes.extend_from_slice(&[0; 4]);
                break;
            }
            let from = cursor.at;
            let text = section.raw.get((from + describing) as usize..end as usize).ok_or_else(early)?;
            let length = text.iter().position(|byte| *byte == 0).ok_or_else(early)? as u64;
            let to = from + describing + length + 1;
            if let Some(moved) = units.place_of(entries, start + offset) {
                draft.bytes.extend_from_slice(&((moved - new_start) as u32).to_le_bytes());
                draft.copy(section, from, to)?;
            }
            cursor.at = to;
        }
        let length = draft.len() - new - 4;
        draft.set_u32(new, length)?;
        // A table without its unit's relocation would name the first unit.
        if !draft.relocations.iter().any(|r: &Rela| r.r_offset.get(LE) == new + 6) {
            draft.set_u32(new + 6, new_start)?;
        }
        at = end;
    }
    Ok(draft)
}

/// Append the contribution of `.debug_aranges` from `start` to `end`, without the ranges of removed code (DWARF 5, 6.1.2).
fn live_ranges(section: &DebugSection<'_>, start: u64, end: u64, draft: &mut SectionDraft) -> Result<()> {
    /// The size of a header with its padding, and that of a range.
    const ROOM: u64 = 16;
    let new = draft.len();
    let mut at = start;
    while at < end {
        let behind = end.min(at + ROOM);
        let range = section.linked.get(at as usize..behind as usize).unwrap_or(&[]);
        let address = range.first_chunk::<8>().map_or(0, |address| u64::from_le_bytes(*address));
        let is_last = range.iter().all(|byte| *byte == 0);
        if at == start || behind - at < ROOM || is_last || decode(address).is_some() {
            draft.copy(section, at, behind)?;
        }
        at = behind;
    }
    draft.set_u32(new, draft.len() - new - 4)
}
