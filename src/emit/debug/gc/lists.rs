//! Sweep phase for lists of ranges and locations (DWARF 5, 2.6.2 and 2.17.3). Lists of removed entries are removed. Kept location lists name
//! addresses by slots of `.debug_addr`.

use std::collections::BTreeMap;

use gimli::constants as dw;
use object::elf;

use super::entries::{EntryTable, HEADER, ListExtent, invalid};
use super::units::NewUnits;
use crate::emit::debug::draft::{OffsetMap, SectionDraft};
use crate::emit::debug::lists::{ListBase, ListEntry, ListReader};
use crate::emit::debug::view::{DebugSection, decode};
use crate::emit::input::{LE, Rela};
use crate::emit::write::relocation;
use crate::error::Result;

/// Write a section without the lists that only removed entries refer to. The result has the new places of the others; it is `None` if nothing
/// changes. `number` is that of the section in [`ListExtent::section`]. If there are `slots`, lists name addresses by them.
///
/// # Errors
/// A contribution that is malformed.
pub(super) fn lists(
    old: &DebugSection<'_>,
    number: u8,
    entries: &EntryTable,
    units: &NewUnits,
    addresses: Option<&DebugSection<'_>>,
    slots: Option<&mut AddressSlots>,
) -> Result<Option<(SectionDraft, OffsetMap)>> {
    let (mut kept, mut removed) = (Vec::new(), Vec::new());
    for (position, new) in units.offsets.iter().enumerate() {
        let of_section = entries.lists_of(position as u32).iter().filter(|list| list.section == number);
        if *new == u64::MAX { &mut removed } else { &mut kept }.extend(of_section.copied());
    }
    kept.sort_unstable();
    kept.dedup_by_key(|list| list.start);
    removed.sort_unstable();
    removed.dedup();
    // The furthest end of all kept lists that begin before a place.
    let mut reach = 0;
    let ends: Vec<(u64, u64)> = kept
        .iter()
        .map(|list| {
            reach = reach.max(list.end);
            (list.start, reach)
        })
        .collect();
    removed.retain(|list| {
        let before = ends.partition_point(|(start, _)| *start < list.end);
        before.checked_sub(1).and_then(|i| ends.get(i)).is_none_or(|(_, end)| *end <= list.start)
    });
    // A list that shares bytes with another one is kept as it is.
    let is_alone = |(at, list): &(usize, &ListExtent)| {
        let before = at.checked_sub(1).and_then(|i| ends.get(i)).is_none_or(|(_, end)| *end <= list.start);
        before && kept.get(at + 1).is_none_or(|next| next.start >= list.end)
    };
    let (is_locations, is_coded) = (number >= 2, number % 2 == 1);
    let mut changed: Vec<(ListExtent, NewList)> =
        removed.into_iter().map(|list| (list, NewList::Removed)).collect();
    let reader = ListReader { section: old, addresses, is_locations, is_coded };
    let mut slots = slots.filter(|_| is_coded);
    for (_, list) in kept.iter().enumerate().filter(is_alone) {
        let Some(unit) = entries.units.get(list.unit as usize) else { continue };
        let compact = match &mut slots {
            Some(slots) => CompactList::of(reader, list, unit.of, slots)?,
            None => None,
        };
        let removed = if is_locations { Vec::new() } else { removed_ranges(reader, list, unit.of)? };
        match compact {
            Some(compact) => changed.push((*list, NewList::Compact(compact))),
            None if list.start < list.list || !removed.is_empty() => {
                changed.push((*list, NewList::Without(removed)));
            }
            None => {}
        }
    }
    if changed.is_empty() {
        return Ok(None);
    }
    changed.sort_unstable_by_key(|(list, _)| *list);
    let (mut draft, mut map) = (SectionDraft::in_place_of(old), OffsetMap::default());
    // The number of offsets in the header of the first contribution.
    let has_table = is_coded && old.linked.get(8..12).is_some_and(|count| count != [0; 4]);
    let mut at = 0;
    for (list, new) in &changed {
        if at <= list.start {
            map.push(at, list.start, draft.len(), true);
            draft.copy(old, at, list.start)?;
        }
        // Nothing refers to its views any more.
        map.push(list.list, list.end, draft.len(), false);
        match new {
            // Readers look at all lists of a table of offsets.
            NewList::Removed if has_table => draft.bytes.push(dw::DW_RLE_end_of_list.0),
            NewList::Removed => {}
            NewList::Without(removed) => {
                let mut at = list.list;
                for (start, end) in removed {
                    draft.copy(old, at, *start)?;
                    at = *end;
                }
                draft.copy(old, at, list.end)?;
            }
            NewList::Compact(compact) => compact.write(reader, &mut draft)?,
        }
        at = at.max(list.end);
    }
    let end = old.raw.len() as u64;
    map.push(at, end, draft.len(), true);
    draft.copy(old, at, end)?;
    if is_coded {
        reader.correct_headers(&mut draft, &map)?;
    }
    Ok(Some((draft, map)))
}

/// The places of the ranges of removed code in a list.
fn removed_ranges(reader: ListReader<'_, '_>, extent: &ListExtent, of: ListBase) -> Result<Vec<(u64, u64)>> {
    let (entries, _) = reader.read(extent.list, of)?;
    let is_removed = |entry: &&ListEntry| entry.range.is_some_and(|(begin, _)| decode(begin).is_none());
    Ok(entries.iter().filter(is_removed).map(|entry| (entry.start, entry.expression.1)).collect())
}

/// The new form of a list of ranges or locations.
#[derive(Debug)]
enum NewList {
    Removed,
    /// It keeps its entries except those at these bytes, and loses its views.
    Without(Vec<(u64, u64)>),
    Compact(CompactList),
}

/// A list whose addresses are slots.
#[derive(Debug, Default)]
struct CompactList {
    /// Entries in a row with the slot that they are counted from; `None`: one that holds everywhere else.
    runs: Vec<(Option<AddressSlot>, Vec<ListEntry>)>,
    /// The addresses of slots that are yet to be made, in the order of their indices.
    new: Vec<u64>,
}

impl CompactList {
    /// The list in this form, if it has addresses and is shorter so. The slots that it needs are made.
    fn of(
        reader: ListReader<'_, '_>,
        extent: &ListExtent,
        of: ListBase,
        slots: &mut AddressSlots,
    ) -> Result<Option<CompactList>> {
        let relocations = reader.section.relocations_in(extent.list, extent.end);
        if relocations.is_empty() {
            return Ok(None);
        }
        let (entries, _) = reader.read(extent.list, of)?;
        let section = |address: u64| decode(address).map(|(section, _)| section);
        let is_whole = |(begin, end): (u64, u64)| {
            begin <= end && section(begin).is_some() && section(begin) == section(end)
        };
        if !entries.iter().filter_map(|entry| entry.range).all(is_whole) {
            return Ok(None);
        }
        let candidates = [true, false].map(|shares| CompactList::with(&entries, slots, shares));
        let Some(list) = candidates.into_iter().min_by_key(CompactList::cost) else { return Ok(None) };
        if list.cost() >= extent.end - extent.list {
            return Ok(None);
        }
        // A relocation of the list against the same section names the symbol.
        let addresses = relocations.iter().filter(|entry| entry.r_type(LE, false) == elf::R_X86_64_64);
        let targets = addresses.filter_map(|entry| {
            let at = usize::try_from(entry.r_offset.get(LE)).ok()?;
            let (target, _) = reader.section.linked.get(at..)?.split_first_chunk::<8>()?;
            Some((entry, u64::from_le_bytes(*target)))
        });
        let of_slot = |new: &u64| targets.clone().find(|(_, target)| section(*target) == section(*new));
        let Some(found) = list.new.iter().map(of_slot).collect::<Option<Vec<_>>>() else { return Ok(None) };
        for (new, (entry, target)) in list.new.iter().zip(found) {
            slots.add(*new, entry, target)?;
        }
        Ok(Some(list))
    }

    /// The list with slots that are there, or with one of its own where a run begins.
    fn with(entries: &[ListEntry], slots: &AddressSlots, shares: bool) -> CompactList {
        let mut list = CompactList::default();
        for entry in entries {
            let slot = entry.range.map(|(begin, _)| {
                let current = list.runs.last().and_then(|(slot, _)| *slot).filter(|slot| slot.reaches(begin));
                let near = || slots.near(begin).filter(|slot| shares || slot.address == begin);
                current.or_else(near).unwrap_or_else(|| {
                    list.new.push(begin);
                    AddressSlot { index: slots.count() + list.new.len() as u64 - 1, address: begin }
                })
            });
            match list.runs.last_mut() {
                Some((of, run)) if *of == slot => run.push(*entry),
                _ => list.runs.push((slot, vec![*entry])),
            }
        }
        list
    }

    /// How many bytes it has, with a share of the slots that it needs: other lists use them too. Of 1, 3 and 8 bytes for a slot, 3 made the
    /// sections of sqlite3 and lua smallest.
    fn cost(&self) -> u64 {
        self.size() + 3 * self.new.len() as u64
    }

    /// How many bytes the list has in this form.
    fn size(&self) -> u64 {
        let expression = |entry: &ListEntry| entry.expression.1 - entry.expression.0;
        let of_run = |(slot, run): &(Option<AddressSlot>, Vec<ListEntry>)| match (slot, run.as_slice()) {
            (Some(AddressSlot { index, address: base }), [only])
                if only.range.is_some_and(|(begin, _)| begin == *base) =>
            {
                1 + width(*index) + width(length(only)) + expression(only)
            }
            (Some(AddressSlot { index, address: base }), run) => {
                let pair = |e: &ListEntry| {
                    let (begin, end) = e.range.unwrap_or_default();
                    1 + width(begin - base) + width(end - base) + expression(e)
                };
                1 + width(*index) + run.iter().map(pair).sum::<u64>()
            }
            (None, run) => run.iter().map(|e| 1 + expression(e)).sum(),
        };
        self.runs.iter().map(of_run).sum::<u64>() + 1
    }

    /// Append it to the new section.
    fn write(&self, reader: ListReader<'_, '_>, draft: &mut SectionDraft) -> Result<()> {
        let code = |of_ranges: dw::DwRle| match reader.is_locations {
            true if of_ranges.0 > dw::DW_RLE_offset_pair.0 => of_ranges.0 + 1,
            _ => of_ranges.0,
        };
        let copy = |draft: &mut SectionDraft, entry: &ListEntry| {
            draft.copy(reader.section, entry.expression.0, entry.expression.1)
        };
        for (slot, run) in &self.runs {
            match (slot, run.as_slice()) {
                (Some(AddressSlot { index, address: base }), [only])
                    if only.range.is_some_and(|(begin, _)| begin == *base) =>
                {
                    draft.bytes.push(code(dw::DW_RLE_startx_length));
                    draft.uleb(*index);
                    draft.uleb(length(only));
                    copy(draft, only)?;
                }
                (Some(AddressSlot { index, address: base }), run) => {
                    draft.bytes.push(code(dw::DW_RLE_base_addressx));
                    draft.uleb(*index);
                    for entry in run {
                        let (begin, end) = entry.range.unwrap_or_default();
                        draft.bytes.push(code(dw::DW_RLE_offset_pair));
                        draft.uleb(begin - base);
                        draft.uleb(end - base);
                        copy(draft, entry)?;
                    }
                }
                (None, run) => {
                    for entry in run {
                        draft.bytes.push(dw::DW_LLE_default_location.0);
                        copy(draft, entry)?;
                    }
                }
            }
        }
        draft.bytes.push(dw::DW_RLE_end_of_list.0);
        Ok(())
    }
}

fn length(entry: &ListEntry) -> u64 {
    entry.range.map_or(0, |(begin, end)| end - begin)
}

/// How many bytes a number has in LEB128.
fn width(value: u64) -> u64 {
    u64::from((64 - value.leading_zeros()).div_ceil(7).max(1))
}

/// A table that has no slots yet.
const EMPTY_TABLE: [u8; 8] = [4, 0, 0, 0, 5, 0, 8, 0];
/// A distance of fewer bytes is at most two bytes in LEB128.
const REACH: u64 = 1 << 14;

/// A slot, and its made-up address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AddressSlot {
    pub(super) index: u64,
    pub(super) address: u64,
}

impl AddressSlot {
    /// Whether `address` is behind it in the same section, and not far away.
    pub(super) fn reaches(self, address: u64) -> bool {
        let section = |address: u64| decode(address).map(|(section, _)| section);
        address.checked_sub(self.address).is_some_and(|far| far < REACH)
            && section(address) == section(self.address)
    }
}

/// The table of an object, to which slots are added.
#[derive(Debug)]
pub(super) struct AddressSlots {
    pub(super) bytes: Vec<u8>,
    pub(super) relocations: Vec<Rela>,
    /// Indices of slots, by made-up address.
    by_address: BTreeMap<u64, u64>,
    /// No unit refers to the table so far.
    pub(super) is_new: bool,
}

impl AddressSlots {
    /// The table of these units; `None` unless all of them share one table.
    pub(super) fn of(section: &DebugSection<'_>, entries: &EntryTable) -> Option<AddressSlots> {
        let is_empty = section.raw.is_empty();
        let bytes = if is_empty { EMPTY_TABLE.to_vec() } else { section.raw.to_vec() };
        let (length, rest) = bytes.split_first_chunk::<4>()?;
        let is_one = u32::from_le_bytes(*length) as usize == rest.len() && rest.get(..4)? == [5, 0, 8, 0];
        let bases = || entries.units.iter().map(|unit| unit.of.addresses);
        // readelf wants a table for each unit.
        let is_new = is_empty && entries.units.len() == 1 && bases().all(|base| base.is_none());
        let are_alike = entries.units.iter().all(|unit| unit.version == 5);
        if !is_one || !are_alike || !is_new && !bases().all(|base| base == Some(HEADER)) {
            return None;
        }
        let slots = section.linked.get(HEADER as usize..).unwrap_or(&[]).as_chunks::<8>().0;
        let slots = slots.iter().map(|slot| u64::from_le_bytes(*slot)).zip(0u64..);
        let by_address = slots.filter(|(address, _)| decode(*address).is_some()).collect();
        Some(AddressSlots { bytes, relocations: section.relocations.to_vec(), by_address, is_new })
    }

    /// The last slot at or before this address, if the distance is short.
    pub(super) fn near(&self, address: u64) -> Option<AddressSlot> {
        let (&at, &index) = self.by_address.range(..=address).next_back()?;
        Some(AddressSlot { index, address: at }).filter(|slot| slot.reaches(address))
    }

    /// Make a slot. `of` is a relocation against the section of the slot, for the address `target`.
    ///
    /// # Errors
    /// The table is too long.
    pub(super) fn add(&mut self, address: u64, of: &Rela, target: u64) -> Result<()> {
        let (at, symbol, kind) = (self.bytes.len() as u64, of.r_sym(LE, false), of.r_type(LE, false));
        let addend = of.r_addend.get(LE).wrapping_add(address.wrapping_sub(target) as i64);
        self.by_address.insert(address, self.count());
        self.relocations.push(relocation(at, kind, symbol, addend));
        self.bytes.extend_from_slice(&[0; 8]);
        let length =
            u32::try_from(self.bytes.len() - 4).map_err(|_| invalid("there are too many addresses"))?;
        if let Some(field) = self.bytes.first_chunk_mut::<4>() {
            *field = length.to_le_bytes();
        }
        Ok(())
    }

    /// How many slots there are, which is the index of the next one.
    pub(super) fn count(&self) -> u64 {
        (self.bytes.len() as u64).saturating_sub(HEADER) / 8
    }
}
