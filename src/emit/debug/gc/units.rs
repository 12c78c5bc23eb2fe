//! Sweep phase for `.debug_info` (DWARF 5, 7.5) and `.debug_abbrev` (7.5.3): the kept entries, and their abbreviations.
//!
//! Entries keep their order and bytes, but for codes of abbreviations, references to other entries, indices of strings, and attributes that
//! are left out ([`is_left_out`](super::attributes::is_left_out)). A unit may get `DW_AT_addr_base`. With `--prune-debug=shrink` a unit without
//! code is removed if only its own entry is left.

use std::collections::hash_map;

use gimli::constants as dw;
use object::elf;
use rustc_hash::FxHashMap;

use super::attributes::is_left_out;
use super::entries::{Addresses, CollectedUnit, DebugEntry, EntryTable, HEADER, ReferenceForm, invalid};
use super::mark::Marked;
use super::tables::StringSlots;
use crate::emit::cursor::{Cursor, sleb, uleb};
use crate::emit::debug::draft::SectionDraft;
use crate::emit::debug::view::DebugSection;
use crate::emit::input::{LE, Rela};
use crate::emit::write::relocation;
use crate::error::Result;
use crate::plan::DebugCollection;

/// The new `.debug_info`, and where the kept entries are in it.
#[derive(Debug)]
pub(super) struct NewUnits {
    /// The targets of its relocations are those of the input.
    pub(super) draft: SectionDraft,
    /// By entry: the new offset, `u64::MAX` for one that is removed.
    pub(super) offsets: Vec<u64>,
    /// By unit: the new start and end; `None` for one that is removed.
    pub(super) units: Vec<Option<(u64, u64)>>,
    /// By unit that is kept: the new offset of its table of abbreviations.
    pub(super) tables: Vec<u64>,
    pub(super) abbreviations: Vec<u8>,
}

/// Write the kept entries of all units. `table` is the symbol of a table of addresses that they refer to from now on.
///
/// # Errors
/// A table of abbreviations that can't be read, or a section that would not fit its format.
pub(super) fn write(
    info: &DebugSection<'_>,
    abbreviations: &DebugSection<'_>,
    table: &EntryTable,
    marked: &Marked,
    table_symbol: Option<u32>,
    collection: DebugCollection,
) -> Result<NewUnits> {
    let mut new = NewUnits {
        draft: SectionDraft::in_place_of(info),
        offsets: vec![u64::MAX; table.entries.len()],
        units: Vec::with_capacity(table.units.len()),
        tables: Vec::new(),
        abbreviations: Vec::new(),
    };
    let mut tables: FxHashMap<u64, AbbreviationTable> = FxHashMap::default();
    let mut order: Vec<u64> = Vec::new();
    for unit in &table.units {
        let own = match tables.entry(unit.abbreviations) {
            hash_map::Entry::Occupied(own) => own.into_mut(),
            hash_map::Entry::Vacant(free) => {
                order.push(unit.abbreviations);
                free.insert(AbbreviationTable::read(&abbreviations.linked, unit.abbreviations)?)
            }
        };
        new.unit(info, table, marked, unit, own, (table_symbol, collection))?;
    }
    let mut starts: FxHashMap<u64, u64> = FxHashMap::default();
    for offset in order {
        let Some(own) = tables.get(&offset).filter(|t| !t.bytes.is_empty()) else { continue };
        starts.insert(offset, new.abbreviations.len() as u64);
        new.abbreviations.extend_from_slice(&own.bytes);
        new.abbreviations.push(0);
    }
    new.tables = table.units.iter().map(|u| starts.get(&u.abbreviations).copied().unwrap_or(0)).collect();
    Ok(new)
}

impl NewUnits {
    fn unit(
        &mut self,
        info: &DebugSection<'_>,
        table: &EntryTable,
        marked: &Marked,
        unit: &CollectedUnit,
        abbreviations: &mut AbbreviationTable,
        (table_symbol, collection): (Option<u32>, DebugCollection),
    ) -> Result<()> {
        let of = |position: u32| table.entries.get(position as usize);
        let (own, has_child) = (of(unit.entries.start), marked.has_child.get(unit.entries.start as usize));
        let is_empty = has_child != Some(&true) && own.is_some_and(|e| e.addresses != Addresses::Live);
        if collection == DebugCollection::Unreferenced && is_empty {
            self.units.push(None);
            return Ok(());
        }
        let start = self.draft.len();
        self.draft.copy(info, unit.start, unit.first)?;
        let mut open: Vec<u32> = Vec::new();
        let mut position = unit.entries.start;
        loop {
            while open.last().is_some_and(|next| *next <= position) {
                open.pop();
                self.draft.bytes.push(0);
            }
            if position >= unit.entries.end {
                break;
            }
            let Some(entry) = of(position) else { break };
            if marked.kept.get(position as usize) != Some(&true) {
                position = entry.next;
                continue;
            }
            let has_child = marked.has_child.get(position as usize) == Some(&true);
            if let Some(slot) = self.offsets.get_mut(position as usize) {
                *slot = self.draft.len();
            }
            let table_symbol = table_symbol.filter(|_| position == unit.entries.start);
            let has_base = table_symbol.is_some();
            uleb(
                &mut self.draft.bytes,
                abbreviations.code(AbbreviationUse { code: entry.code, has_child, has_base })?,
            );
            let mut at = entry.attributes;
            for left_out in entry.left_out.iter().filter(|bytes| !bytes.is_empty()) {
                self.draft.copy(info, at, left_out.start)?;
                at = left_out.end;
            }
            self.draft.copy(info, at, entry.end)?;
            if let Some(symbol) = table_symbol {
                let base = relocation(self.draft.len(), elf::R_X86_64_32, symbol, HEADER as i64);
                self.draft.relocations.push(base);
                self.draft.bytes.extend_from_slice(&[0; 4]);
            }
            if has_child {
                open.push(entry.next);
            }
            position += 1;
        }
        let end = self.draft.len();
        self.draft.set_u32(start, end - start - 4)?;
        self.units.push(Some((start, end)));
        Ok(())
    }

    fn set(&mut self, at: u64, value: &[u8]) {
        let range = at as usize..at as usize + value.len();
        if let Some(field) = self.draft.bytes.get_mut(range) {
            field.copy_from_slice(value);
        }
    }

    /// The new offset of the entry that began at `old`.
    pub(super) fn place_of(&self, table: &EntryTable, old: u64) -> Option<u64> {
        self.offset_of(table.position(old)?)
    }

    /// The new offset of the entry at this position.
    fn offset_of(&self, position: u32) -> Option<u64> {
        self.offsets.get(position as usize).copied().filter(|offset| *offset != u64::MAX)
    }

    /// Write the references within units, in the units and in the location lists of kept entries; each list is a section's bytes.
    ///
    /// # Errors
    /// A reference that does not fit its field.
    pub(super) fn set_references(
        &mut self,
        table: &EntryTable,
        lists: &mut [Option<Vec<u8>>; 2],
    ) -> Result<()> {
        for (position, entry) in table.entries.iter().enumerate() {
            let new = self.offsets.get(position).copied().unwrap_or(u64::MAX);
            let unit = self.units.get(entry.unit as usize).copied().flatten();
            let (Some((start, _)), true) = (unit, new != u64::MAX) else { continue };
            for reference in table.references_of(position as u32) {
                let target = reference.entry.and_then(|entry| self.offset_of(entry));
                let target = target.ok_or_else(|| invalid("a reference is lost"))?;
                let within = target.checked_sub(start);
                let lost = || invalid("a reference within a unit leads out of it");
                let (fixed, padded);
                let value = match reference.form {
                    // Its relocation says it.
                    ReferenceForm::Section => continue,
                    ReferenceForm::Unit(width) => {
                        fixed = within.ok_or_else(lost)?.to_le_bytes();
                        let (field, rest) = fixed.split_at_checked(usize::from(width)).ok_or_else(lost)?;
                        if rest.iter().any(|byte| *byte != 0) {
                            return Err(lost());
                        }
                        field
                    }
                    ReferenceForm::UnitUleb(width) => {
                        padded = padded_uleb(within.ok_or_else(lost)?, width).ok_or_else(lost)?;
                        &padded[..]
                    }
                };
                match reference.list {
                    Some(section) => {
                        let bytes = lists.get_mut(usize::from(section)).and_then(Option::as_mut);
                        let range = reference.at as usize..reference.at as usize + value.len();
                        let field = bytes.and_then(|bytes| bytes.get_mut(range)).ok_or_else(lost)?;
                        field.copy_from_slice(value);
                    }
                    None => self.set(self.place(entry, new, reference.at), value),
                }
            }
        }
        Ok(())
    }

    /// Write the indices of strings in the kept entries.
    ///
    /// # Errors
    /// A string was not kept.
    pub(super) fn set_strings(&mut self, table: &EntryTable, slots: &StringSlots) -> Result<()> {
        for (position, entry) in table.entries.iter().enumerate() {
            let new = self.offsets.get(position).copied().unwrap_or(u64::MAX);
            if new == u64::MAX {
                continue;
            }
            for string in table.strings_of(position as u32) {
                let index = slots.index(string.index).ok_or_else(|| invalid("a string is lost"))?;
                let bytes = index.to_le_bytes();
                let value = match string.is_uleb {
                    true => padded_uleb(index, string.width),
                    false => bytes.get(..usize::from(string.width)).map(<[u8]>::to_vec),
                };
                let value = value.ok_or_else(|| invalid("an index of a string has too many bytes"))?;
                self.set(self.place(entry, new, string.at), &value);
            }
        }
        Ok(())
    }

    /// The new place of a byte of an attribute. It moved with its entry, which is at `new`; attributes before it may be left out.
    fn place(&self, entry: &DebugEntry, new: u64, old: u64) -> u64 {
        let before = entry.left_out.iter().filter(|bytes| bytes.end <= old);
        let skipped: u64 = before.map(|bytes| bytes.end - bytes.start).sum();
        new + self.code_length(new) + (old - entry.attributes) - skipped
    }

    /// Write the abbreviation-table offset into each unit header that has no relocation there.
    pub(super) fn set_table_offsets(
        &self,
        table: &EntryTable,
        relocations: &[Rela],
        bytes: &mut [u8],
    ) -> Result<()> {
        for ((unit, new), abbreviations) in table.units.iter().zip(&self.units).zip(&self.tables) {
            let Some((start, _)) = new else { continue };
            let at = start + if unit.version >= 5 { 8 } else { 6 };
            if relocations.binary_search_by_key(&at, |r| r.r_offset.get(LE)).is_ok() {
                continue;
            }
            let field =
                bytes.get_mut(at as usize..at as usize + 4).ok_or_else(|| invalid("a unit ends early"))?;
            field.copy_from_slice(&(*abbreviations as u32).to_le_bytes());
        }
        Ok(())
    }

    /// How many bytes the code of the abbreviation at this offset has.
    fn code_length(&self, offset: u64) -> u64 {
        let bytes = self.draft.bytes.get(offset as usize..).unwrap_or(&[]);
        bytes.iter().take_while(|byte| **byte & 0x80 != 0).count() as u64 + 1
    }
}

/// A number as a ULEB128 of exactly `width` bytes; `None` if it has too many bits.
fn padded_uleb(mut value: u64, width: u8) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(usize::from(width));
    for rest in (0..width).rev() {
        let more = if rest > 0 { 0x80 } else { 0 };
        bytes.push((value & 0x7f) as u8 | more);
        value >>= 7;
    }
    (value == 0 && width > 0).then_some(bytes)
}

/// A table of abbreviations, and those of it that are used.
#[derive(Debug)]
struct AbbreviationTable {
    /// By old code: the tag and the kept attribute specifications, without the zeros at the end.
    declarations: FxHashMap<u64, Vec<u8>>,
    /// New codes. Abbreviations that became alike have one.
    codes: FxHashMap<Vec<u8>, u64>,
    /// By what an entry says of it.
    used: FxHashMap<AbbreviationUse, u64>,
    /// The used ones with their codes, as bytes of the section.
    bytes: Vec<u8>,
}

/// How an entry uses an abbreviation: its old code, whether the entry has children, and whether it gets `DW_AT_addr_base`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct AbbreviationUse {
    code: u64,
    has_child: bool,
    has_base: bool,
}

impl AbbreviationTable {
    /// Read the table at `offset` of the section.
    ///
    /// # Errors
    /// It ends early.
    fn read(section: &[u8], offset: u64) -> Result<Self> {
        let mut declarations = FxHashMap::default();
        let mut cursor = Cursor::new(section, offset);
        loop {
            let code = cursor.uleb()?;
            if code == 0 {
                break;
            }
            let mut kept = Vec::new();
            uleb(&mut kept, cursor.uleb()?);
            cursor.u8()?;
            loop {
                let (name, form) = (cursor.uleb()?, cursor.uleb()?);
                let constant = match form == u64::from(dw::DW_FORM_implicit_const.0) {
                    true => Some(cursor.sleb()?),
                    false => None,
                };
                if (name, form) == (0, 0) {
                    break;
                }
                if u16::try_from(name).is_ok_and(|name| is_left_out(gimli::DwAt(name))) {
                    continue;
                }
                uleb(&mut kept, name);
                uleb(&mut kept, form);
                constant.into_iter().for_each(|constant| sleb(&mut kept, constant));
            }
            declarations.insert(code, kept);
        }
        let (codes, used) = Default::default();
        Ok(AbbreviationTable { declarations, codes, used, bytes: Vec::new() })
    }

    /// The new code of an abbreviation.
    ///
    /// # Errors
    /// The table has no such abbreviation.
    fn code(&mut self, of: AbbreviationUse) -> Result<u64> {
        if let Some(code) = self.used.get(&of) {
            return Ok(*code);
        }
        let declaration = self.declarations.get(&of.code);
        let declaration = declaration.ok_or_else(|| invalid("an entry has no abbreviation"))?;
        let mut cursor = Cursor::new(declaration, 0);
        let mut bytes = Vec::with_capacity(declaration.len() + 8);
        uleb(&mut bytes, cursor.uleb()?);
        bytes.push(u8::from(of.has_child));
        bytes.extend_from_slice(declaration.get(cursor.at as usize..).unwrap_or(&[]));
        if of.has_base {
            uleb(&mut bytes, dw::DW_AT_addr_base.0.into());
            uleb(&mut bytes, dw::DW_FORM_sec_offset.0.into());
        }
        bytes.extend_from_slice(&[0, 0]);
        let next = self.codes.len() as u64 + 1;
        let code = *self.codes.entry(bytes).or_insert_with_key(|bytes| {
            uleb(&mut self.bytes, next);
            self.bytes.extend_from_slice(bytes);
            next
        });
        self.used.insert(of, code);
        Ok(code)
    }
}
