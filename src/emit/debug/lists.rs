//! Range lists and location lists with explicit addresses (DWARF 5, 2.6.2 and 2.17.3; DWARF 4, 2.6.2 and 2.17.3).
//!
//! Compilers write offsets from the start of a section, which are wrong once its functions are moved apart. Each list is written
//! again: in DWARF 5 as start and length, or as a base with offsets for several entries of one part; in DWARF 4 as pairs of
//! addresses. Dropped code has no entry. Bytes between the lists (headers, tables of offsets, views) are copied.
//!
//! `DW_LLE_GNU_view_pair` inside of location lists is an error, and so is a list that two units share with different bases.

use std::sync::Arc;

use gimli::constants as dw;
use rayon::prelude::*;
use summaries::AtomIdx;

use super::draft::{OffsetMap, SectionDraft};
use super::layout::Layout;
use super::view::{DebugSection, decode};
use crate::emit::cursor::{Cursor, uleb};
use crate::error::{Error, Result, Stage};

/// The attributes of a unit that its lists are read with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ListBase {
    pub(super) version: u16,
    /// `DW_AT_low_pc` of the unit, a made-up address or 0.
    pub(super) base: u64,
    /// Whether the same is 0 in the output.
    pub(super) new_base_is_zero: bool,
    /// The value of `DW_AT_addr_base`, an offset in `.debug_addr`.
    pub(super) addresses: Option<u64>,
}

/// A list that an attribute refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ListUse {
    pub(super) offset: u64,
    pub(super) of: ListBase,
    /// The atoms of the function that it describes.
    pub(super) within: Arc<[AtomIdx]>,
    /// It has a number of views for each entry (`DW_AT_GNU_locviews`).
    pub(super) has_views: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct ListEntry {
    /// Its first byte, from the start of the section.
    pub(super) start: u64,
    /// The range in made-up addresses; `None` for the default location.
    pub(super) range: Option<(u64, u64)>,
    /// The start and end of the expression with its length, in the section.
    pub(super) expression: (u64, u64),
    pub(super) base: EntryBase,
}

/// The base address of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryBase {
    /// The entry itself has the start address.
    Own,
    /// An earlier entry of the list has the base.
    List,
    /// The base is that of the unit.
    Unit,
}

fn early() -> Error {
    Error::new(Stage::Emit, "a list of ranges or locations ends early")
}

fn invalid(what: &str) -> Error {
    Error::new(Stage::Emit, format!("a list of ranges or locations {what}"))
}

/// The made-up address at an offset from `base`.
fn sum(base: u64, offset: u64) -> Result<u64> {
    match decode(base).is_some() && decode(offset).is_some() {
        true => Err(invalid("adds two addresses")),
        false => Ok(base.wrapping_add(offset)),
    }
}

/// The number of lists that one task writes. Unit tests use small tasks, to cover the boundaries between tasks.
const SHARE: usize = if cfg!(test) { 2 } else { 1 << 12 };

/// The new form of neighbouring lists of a section.
struct ListRun {
    /// Their start in the old section.
    start: u64,
    /// Their end in the old section.
    end: u64,
    draft: SectionDraft,
    map: OffsetMap,
}

/// The reader of a section of lists.
#[derive(Debug, Clone, Copy)]
pub(super) struct ListReader<'s, 'a> {
    pub(super) section: &'s DebugSection<'a>,
    pub(super) addresses: Option<&'s DebugSection<'a>>,
    /// The entries of location lists have expressions.
    pub(super) is_locations: bool,
    /// It has the form of DWARF 5: a header for each unit, and coded entries.
    pub(super) is_coded: bool,
}

impl ListReader<'_, '_> {
    /// The entries of a list, and its end.
    ///
    /// # Errors
    /// The list is malformed, or uses an index outside of `.debug_addr`.
    pub(super) fn read(self, offset: u64, of: ListBase) -> Result<(Vec<ListEntry>, u64)> {
        let mut cursor = Cursor::new(&self.section.linked, offset);
        let mut entries = Vec::new();
        let (mut base, mut from) = (of.base, EntryBase::Unit);
        let expression = |cursor: &mut Cursor<'_>| {
            let start = cursor.at;
            if self.is_locations {
                let length = if self.is_coded { cursor.uleb()? } else { u64::from(cursor.u16()?) };
                cursor.bytes(length)?;
            }
            Ok::<_, Error>((start, cursor.at))
        };
        if !self.is_coded {
            loop {
                let start = cursor.at;
                let (begin, end) = (cursor.u64()?, cursor.u64()?);
                if (begin, end) == (0, 0) {
                    return Ok((entries, cursor.at));
                }
                if begin == u64::MAX {
                    (base, from) = (end, EntryBase::List);
                    continue;
                }
                let range = Some((sum(base, begin)?, sum(base, end)?));
                let expression = expression(&mut cursor)?;
                entries.push(ListEntry { start, range, expression, base: from });
            }
        }
        // Both kinds of lists have the same codes, except that DW_LLE_default_location shifts the next ones by one.
        loop {
            let start = cursor.at;
            let code = cursor.u8()?;
            let code = match self.is_locations {
                true if code == dw::DW_LLE_default_location.0 => {
                    let (expression, base) = (expression(&mut cursor)?, EntryBase::Own);
                    entries.push(ListEntry { start, range: None, expression, base });
                    continue;
                }
                true if code > dw::DW_LLE_start_length.0 => {
                    return Err(invalid("has an entry of an unknown kind"));
                }
                true if code > dw::DW_LLE_default_location.0 => code - 1,
                _ => code,
            };
            let range = match dw::DwRle(code) {
                dw::DW_RLE_end_of_list => return Ok((entries, cursor.at)),
                dw::DW_RLE_base_addressx => {
                    (base, from) = (self.indexed(of, cursor.uleb()?)?, EntryBase::List);
                    continue;
                }
                dw::DW_RLE_base_address => {
                    (base, from) = (cursor.u64()?, EntryBase::List);
                    continue;
                }
                dw::DW_RLE_startx_endx => {
                    (self.indexed(of, cursor.uleb()?)?, self.indexed(of, cursor.uleb()?)?)
                }
                dw::DW_RLE_startx_length => {
                    let start = self.indexed(of, cursor.uleb()?)?;
                    (start, start.wrapping_add(cursor.uleb()?))
                }
                dw::DW_RLE_offset_pair => (sum(base, cursor.uleb()?)?, sum(base, cursor.uleb()?)?),
                dw::DW_RLE_start_end => (cursor.u64()?, cursor.u64()?),
                dw::DW_RLE_start_length => {
                    let start = cursor.u64()?;
                    (start, start.wrapping_add(cursor.uleb()?))
                }
                _ => return Err(invalid("has an entry of an unknown kind")),
            };
            let base = if dw::DwRle(code) == dw::DW_RLE_offset_pair { from } else { EntryBase::Own };
            let expression = expression(&mut cursor)?;
            entries.push(ListEntry { start, range: Some(range), expression, base });
        }
    }

    fn indexed(self, of: ListBase, index: u64) -> Result<u64> {
        address_at(self.addresses, of.addresses, index)
    }

    /// Correct the lengths of contributions, and the offsets in their tables.
    ///
    /// # Errors
    /// A contribution is malformed, or no list begins at an offset of a table.
    pub(super) fn correct_headers(self, draft: &mut SectionDraft, map: &OffsetMap) -> Result<()> {
        let old = &self.section.linked;
        let mut at = 0;
        while at < old.len() as u64 {
            let mut cursor = Cursor::new(old, at);
            let length = cursor.u32()?;
            if length >= 0xffff_fff0 {
                return Err(invalid("is of the 64-bit format"));
            }
            let end = cursor.at + length;
            let moved =
                |old: u64| map.map(old).ok_or_else(|| invalid("has an offset at which no list begins"));
            let new_end = if end == old.len() as u64 { draft.len() } else { moved(end)? };
            let start = moved(at)?;
            draft.set_u32(start, new_end.wrapping_sub(start + 4))?;
            cursor.bytes(4)?;
            let count = cursor.u32()?;
            let table = cursor.at;
            let new_table = moved(table.saturating_sub(1))? + 1;
            for i in 0..count {
                let target = moved(table + cursor.u32()?)?;
                draft.set_u32(new_table + 4 * i, target.wrapping_sub(new_table))?;
            }
            if end <= at || cursor.at > end {
                return Err(early());
            }
            at = end;
        }
        Ok(())
    }
}

/// The section that is rewritten, and the layout of the code that its lists describe.
#[derive(Debug, Clone, Copy)]
pub(super) struct ListSection<'s, 'a> {
    pub(super) reader: ListReader<'s, 'a>,
    pub(super) layout: Layout<'s>,
    /// The skeleton units, each with the base of its range lists, sorted.
    pub(super) skeletons: &'s [(u64, ListBase)],
}

impl ListSection<'_, '_> {
    /// Write the section. `uses` are all its lists that attributes refer to, sorted by offset.
    pub(super) fn rewrite(self, uses: &[ListUse]) -> Result<(SectionDraft, OffsetMap)> {
        let alike = |a: &ListUse, b: &ListUse| a.offset == b.offset;
        if uses.array_windows().any(|[a, b]| alike(a, b) && a.of != b.of) {
            return Err(invalid("is of two units with different bases"));
        }
        let lists: Vec<&ListUse> = uses.chunk_by(alike).filter_map(|same| same.first()).collect();
        // The bytes between the lists of two tasks are copied here.
        let shares: Vec<Result<ListRun>> = lists.par_chunks(SHARE).map(|lists| self.share(lists)).collect();
        let (mut draft, mut map) = (SectionDraft::in_place_of(self.reader.section), OffsetMap::default());
        let mut at = 0;
        for share in shares {
            let share = share?;
            if at <= share.start {
                map.push(at, share.start, draft.len(), true);
                self.between(&mut draft, at, share.start)?;
            }
            map.append(share.map, draft.len());
            draft.append(share.draft);
            at = at.max(share.end);
        }
        let end = self.reader.section.raw.len() as u64;
        map.push(at, end, draft.len(), true);
        self.between(&mut draft, at, end)?;
        if self.reader.is_coded {
            self.reader.correct_headers(&mut draft, &map)?;
        }
        Ok((draft, map))
    }

    /// Write neighbouring lists, with the bytes between them.
    fn share(self, lists: &[&ListUse]) -> Result<ListRun> {
        let start = lists.first().map_or(0, |list| list.offset);
        let mut share = ListRun {
            start,
            end: start,
            draft: SectionDraft::new(self.reader.section.index),
            map: OffsetMap::default(),
        };
        let ListRun { end: at, draft, map, .. } = &mut share;
        for list in lists {
            if *at <= list.offset {
                map.push(*at, list.offset, draft.len(), true);
                self.between(draft, *at, list.offset)?;
            }
            // In gcc the ranges of an inner block may be the tail of those of an outer one. It gets a list of its own.
            let (entries, end) = self.reader.read(list.offset, list.of)?;
            let is_same = self.is_same(&entries);
            map.push(list.offset, end, draft.len(), is_same);
            match is_same {
                true => draft.copy(self.reader.section, list.offset, end)?,
                false => self.write(draft, list, &entries)?,
            }
            *at = (*at).max(end);
        }
        Ok(share)
    }

    /// Whether a coded list can be copied: all its sections are undivided, and no entry uses the base of the unit.
    fn is_same(self, entries: &[ListEntry]) -> bool {
        let is_same = |entry: &ListEntry| {
            entry.base != EntryBase::Unit && entry.range.is_none_or(|(begin, _)| self.layout.is_whole(begin))
        };
        self.reader.is_coded && entries.iter().all(is_same)
    }

    /// Append the bytes between two lists. Behind the base of a skeleton unit they are lists of its `.dwo` file, which refers to
    /// them by offset. So each pair is rewritten in place, and that of dropped code becomes an empty range.
    fn between(self, draft: &mut SectionDraft, start: u64, end: u64) -> Result<()> {
        let first = self.skeletons.first().map_or(end, |(offset, _)| (*offset).clamp(start, end));
        draft.copy(self.reader.section, start, first)?;
        let mut cursor = Cursor::new(&self.reader.section.linked, first);
        let mut selected = None;
        while cursor.at < end {
            let at = cursor.at;
            let unit = self.skeletons.partition_point(|(offset, _)| *offset <= at).checked_sub(1);
            let unit = unit.and_then(|unit| self.skeletons.get(unit)).map_or(ListBase::default(), |u| u.1);
            let (begin, last) = (cursor.u64()?, cursor.u64()?);
            if (begin, last) == (0, 0) || begin == u64::MAX {
                selected = (begin == u64::MAX).then_some(last);
                let base = if begin == u64::MAX && decode(last).is_some() { 0 } else { last };
                draft.bytes.extend_from_slice(&begin.to_le_bytes());
                draft.bytes.extend_from_slice(&base.to_le_bytes());
                continue;
            }
            let base = selected.unwrap_or(unit.base);
            let (begin, last) = (sum(base, begin)?, sum(base, last)?);
            let kept = self.layout.kept_ranges(begin, last, &[])?;
            let is_whole = kept == [(begin, last)];
            if selected.is_none() && !unit.new_base_is_zero {
                if !is_whole {
                    return Err(invalid(
                        "is in a .dwo file, and its unit's address does not say where it is",
                    ));
                }
                draft.copy(self.reader.section, at, cursor.at)?;
            } else if kept.is_empty() || begin == last {
                draft.bytes.extend_from_slice(&1u64.to_le_bytes());
                draft.bytes.extend_from_slice(&1u64.to_le_bytes());
            } else if is_whole {
                draft.start(self.layout, begin, &[])?;
                draft.address(self.layout, last, self.layout.ended(last))?;
            } else {
                return Err(invalid("describes code that is partly dropped, in a .dwo file"));
            }
        }
        match cursor.at == end.max(first) {
            true => Ok(()),
            false => Err(early()),
        }
    }

    fn write(self, draft: &mut SectionDraft, list: &ListUse, entries: &[ListEntry]) -> Result<()> {
        let mut kept: Vec<ListEntry> = Vec::with_capacity(entries.len());
        let mut lost = false;
        for entry in entries {
            let Some((begin, end)) = entry.range else {
                kept.push(*entry);
                continue;
            };
            let of_entry = self.layout.kept_ranges(begin, end, &list.within)?;
            lost |= of_entry.len() != 1;
            kept.extend(of_entry.into_iter().map(|range| ListEntry { range: Some(range), ..*entry }));
        }
        if list.has_views && lost && !kept.is_empty() {
            return Err(invalid("has views, and is partly dropped"));
        }
        match self.reader.is_coded {
            true => self.write_coded(draft, list, &kept),
            false => self.write_pairs(draft, list, &kept),
        }
    }

    fn write_pairs(self, draft: &mut SectionDraft, list: &ListUse, kept: &[ListEntry]) -> Result<()> {
        if !list.of.new_base_is_zero && !kept.is_empty() {
            draft.bytes.extend_from_slice(&u64::MAX.to_le_bytes());
            draft.bytes.extend_from_slice(&[0; 8]);
        }
        for ListEntry { range, expression, .. } in kept {
            let Some((begin, end)) = range.filter(|range| *range != (0, 0)) else { continue };
            draft.start(self.layout, begin, &list.within)?;
            match begin == end {
                true => draft.start(self.layout, end, &list.within)?,
                false => draft.address(self.layout, end, self.layout.ended(end))?,
            }
            draft.copy(self.reader.section, expression.0, expression.1)?;
        }
        draft.bytes.extend_from_slice(&[0; 16]);
        Ok(())
    }

    fn write_coded(self, draft: &mut SectionDraft, list: &ListUse, kept: &[ListEntry]) -> Result<()> {
        let code = |of_ranges: dw::DwRle| match self.reader.is_locations {
            true if of_ranges.0 > dw::DW_RLE_offset_pair.0 => of_ranges.0 + 1,
            _ => of_ranges.0,
        };
        let part = |range: &Option<(u64, u64)>| range.and_then(|(begin, _)| self.layout.part(begin));
        let mut rest = kept;
        while let Some(ListEntry { range, expression, .. }) = rest.first() {
            let Some((begin, end)) = range else {
                draft.bytes.push(dw::DW_LLE_default_location.0);
                draft.copy(self.reader.section, expression.0, expression.1)?;
                rest = rest.get(1..).unwrap_or(&[]);
                continue;
            };
            let here = part(range);
            let same = rest.iter().take_while(|entry| here.is_some() && part(&entry.range) == here);
            let count = same.count().max(1);
            let (group, behind) = rest.split_at_checked(count).unwrap_or((rest, &[]));
            rest = behind;
            if let [ListEntry { start, base: EntryBase::Own, .. }] = group
                && self.layout.is_whole(*begin)
            {
                draft.copy(self.reader.section, *start, expression.1)?;
                continue;
            }
            if group.len() == 1 {
                draft.bytes.push(code(dw::DW_RLE_start_length));
                draft.start(self.layout, *begin, &list.within)?;
                draft.uleb(end.wrapping_sub(*begin));
                draft.copy(self.reader.section, expression.0, expression.1)?;
                continue;
            }
            let base = group.iter().filter_map(|entry| Some(entry.range?.0)).min().unwrap_or(0);
            draft.bytes.push(code(dw::DW_RLE_base_address));
            draft.start(self.layout, base, &list.within)?;
            for ListEntry { range, expression, .. } in group {
                let Some((begin, end)) = range else { continue };
                draft.bytes.push(code(dw::DW_RLE_offset_pair));
                draft.uleb(begin - base);
                draft.uleb(end.wrapping_sub(base));
                draft.copy(self.reader.section, expression.0, expression.1)?;
            }
        }
        draft.bytes.push(dw::DW_RLE_end_of_list.0);
        Ok(())
    }
}

/// The address at an index of `.debug_addr`, made-up. `base` is the `DW_AT_addr_base` of the unit.
pub(super) fn address_at(table: Option<&DebugSection<'_>>, base: Option<u64>, index: u64) -> Result<u64> {
    let place = base.zip(index.checked_mul(8)).and_then(|(base, at)| base.checked_add(at));
    let missing = || Error::new(Stage::Emit, "debug information names an address that does not exist");
    let (table, place) = table.zip(place).ok_or_else(missing)?;
    Cursor::new(&table.linked, place).u64()
}

/// The offset of a list by its index, in a table of offsets that begins at `base`.
pub(super) fn list_at(table: Option<&DebugSection<'_>>, base: Option<u64>, index: u64) -> Result<u64> {
    let place = base.zip(index.checked_mul(4)).and_then(|(base, at)| Some((base, base.checked_add(at)?)));
    let missing = || Error::new(Stage::Emit, "debug information names a list that does not exist");
    let (table, (base, place)) = table.zip(place).ok_or_else(missing)?;
    base.checked_add(Cursor::new(&table.linked, place).u32()?).ok_or_else(missing)
}

/// Append lists of ranges to a section, in DWARF 5 as a contribution. Returns the place of each list.
pub(super) fn append_ranges(
    draft: &mut SectionDraft,
    layout: Layout<'_>,
    is_coded: bool,
    lists: &[&[(u64, u64)]],
) -> Result<Vec<u64>> {
    let start = draft.len();
    let mut places = Vec::with_capacity(lists.len());
    if is_coded && !lists.is_empty() {
        // unit_length, version, address_size, segment_selector_size, offset_entry_count
        draft.bytes.extend_from_slice(&[0, 0, 0, 0, 5, 0, 8, 0, 0, 0, 0, 0]);
    }
    for list in lists {
        places.push(draft.len());
        for (begin, end) in *list {
            if is_coded {
                draft.bytes.push(dw::DW_RLE_start_length.0);
            }
            draft.start(layout, *begin, &[])?;
            match is_coded {
                true => uleb(&mut draft.bytes, end - begin),
                false => draft.address(layout, *end, layout.ended(*end))?,
            }
        }
        match is_coded {
            true => draft.bytes.push(dw::DW_RLE_end_of_list.0),
            false => draft.bytes.extend_from_slice(&[0; 16]),
        }
    }
    if is_coded && !lists.is_empty() {
        let length = draft.len() - start - 4;
        draft.set_u32(start, length)?;
    }
    Ok(places)
}
