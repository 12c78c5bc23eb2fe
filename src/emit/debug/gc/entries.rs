//! The debugging information entries (DIEs) of an object as a flat table: parents, references, and whether their addresses are live.
//!
//! An entry is identified by its position in [`EntryTable::entries`], in the order of the file. The object is one that was emitted: an
//! address of removed code has no relocation any more, so that a relocation tells live code from removed code.

use std::ops::Range;

use gimli::{LittleEndian, UnitHeader};
use rayon::prelude::*;

use super::attributes::{Attribute, EntryReader, UnitBases};
use crate::emit::debug::lists::ListBase;
use crate::emit::debug::units::Slice;
use crate::emit::debug::view::DebugSection;
use crate::error::{Error, Result, Stage};

pub(super) fn invalid(what: impl std::fmt::Display) -> Error {
    Error::new(Stage::Emit, format!("debug information: {what}"))
}

/// The size of the header of `.debug_addr`, in bytes: the length, the version, and the sizes of an address and of a segment selector.
pub(super) const HEADER: u64 = 8;

/// The sections that entries refer to, by DWARF version up to 4 and from 5 on where there are two.
#[derive(Debug)]
pub(super) struct EntrySections<'t, 'a> {
    pub(super) info: &'t DebugSection<'a>,
    pub(super) abbreviations: &'t DebugSection<'a>,
    pub(super) addresses: Option<&'t DebugSection<'a>>,
    pub(super) ranges: [Option<&'t DebugSection<'a>>; 2],
    pub(super) locations: [Option<&'t DebugSection<'a>>; 2],
}

/// How a reference to an entry is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReferenceForm {
    /// The distance from the start of the unit, in this number of bytes.
    Unit(u8),
    /// The same as a ULEB128 number, padded to this number of bytes.
    UnitUleb(u8),
    /// An offset in the section, by a relocation.
    Section,
}

/// A reference of one entry to another one.
#[derive(Debug, Clone, Copy)]
pub(super) struct EntryReference {
    /// Its offset in its own section.
    pub(super) at: u64,
    pub(super) form: ReferenceForm,
    /// The offset of the entry in `.debug_info`.
    pub(super) target: u64,
    /// The position of that entry; `None`: none begins there.
    pub(super) entry: Option<u32>,
    /// The section of location lists that holds it, 0 or 1; `None`: `.debug_info`.
    pub(super) list: Option<u8>,
}

impl EntryReference {
    /// A reference whose entry is not looked up yet.
    pub(super) fn new(at: u64, form: ReferenceForm, target: u64, list: Option<u8>) -> Self {
        EntryReference { at, form, target, entry: None, list }
    }
}

/// A string that is named by an index into `.debug_str_offsets`.
#[derive(Debug, Clone, Copy)]
pub(super) struct StringIndex {
    /// Its offset in `.debug_info`, and its size in bytes.
    pub(super) at: u64,
    pub(super) width: u8,
    /// It is a ULEB128 number, with leading zeros if there is room.
    pub(super) is_uleb: bool,
    pub(super) index: u64,
}

/// The state of an entry's addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Addresses {
    /// It has no address of code or data.
    None,
    /// All its addresses are of removed code or data.
    Removed,
    Live,
}

#[derive(Debug, Clone)]
pub(super) struct DebugEntry {
    /// Offsets in `.debug_info`: the code of its abbreviation, its first attribute, and the byte behind the last.
    pub(super) offset: u64,
    pub(super) attributes: u64,
    pub(super) end: u64,
    /// The position of the parent; a unit's own entry is its own parent.
    pub(super) parent: u32,
    /// The position behind the last descendant.
    pub(super) next: u32,
    pub(super) unit: u32,
    pub(super) tag: gimli::DwTag,
    pub(super) code: u64,
    pub(super) addresses: Addresses,
    /// It has `DW_AT_inline`: the abstract instance of an inlined function.
    pub(super) is_abstract: bool,
    pub(super) has_constant: bool,
    /// The offset of the views of its location list (`DW_AT_GNU_locviews`), which stand before the list.
    pub(super) views: Option<u64>,
    /// The bytes of its attributes that are left out, or none.
    pub(super) left_out: [Range<u64>; 2],
    /// The index of its first reference. The last one is before the first one of the next entry.
    pub(super) references: u32,
    /// The index of its first [`StringIndex`], likewise.
    pub(super) strings: u32,
    /// The index of its first [`ListExtent`], likewise.
    pub(super) lists: u32,
}

/// The bytes of a list of ranges or locations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ListExtent {
    /// Ranges are 0 and 1, locations 2 and 3, of DWARF up to 4 and from 5 on.
    pub(super) section: u8,
    pub(super) start: u64,
    pub(super) end: u64,
    /// The start of the list; `start` is that of its views, if it has views.
    pub(super) list: u64,
    pub(super) unit: u32,
}

#[derive(Debug)]
pub(super) struct CollectedUnit {
    /// Offsets in `.debug_info`: its header, and its first entry.
    pub(super) start: u64,
    pub(super) first: u64,
    pub(super) version: u16,
    /// The offset of its table of abbreviations.
    pub(super) abbreviations: u64,
    pub(super) entries: Range<u32>,
    pub(super) string_offsets_base: Option<u64>,
    /// The attributes that its lists are read with.
    pub(super) of: ListBase,
}

#[derive(Debug, Default)]
pub(super) struct EntryTable {
    pub(super) units: Vec<CollectedUnit>,
    pub(super) entries: Vec<DebugEntry>,
    pub(super) references: Vec<EntryReference>,
    pub(super) strings: Vec<StringIndex>,
    pub(super) lists: Vec<ListExtent>,
    /// A string is named without a relocation, so that the used strings are not known.
    pub(super) has_unknown_strings: bool,
}

impl EntryTable {
    /// Read all units of `.debug_info`.
    ///
    /// # Errors
    /// Malformed units, the 64-bit format, skeleton units, and forms that are not modelled.
    pub(super) fn read(tables: &EntrySections<'_, '_>) -> Result<EntryTable> {
        let mut table = EntryTable::default();
        let info = gimli::DebugInfo::new(&tables.info.linked, LittleEndian);
        let mut units = info.units();
        while let Some(header) = units.next().map_err(invalid)? {
            table.read_unit(tables, &header)?;
        }
        let offsets: Vec<u64> = table.entries.iter().map(|entry| entry.offset).collect();
        table.references.par_iter_mut().for_each(|reference| {
            let found = offsets.binary_search(&reference.target);
            reference.entry = found.ok().map(|position| position as u32);
        });
        Ok(table)
    }

    /// The position of the entry at this offset of `.debug_info`.
    pub(super) fn position(&self, offset: u64) -> Option<u32> {
        let found = self.entries.binary_search_by_key(&offset, |entry| entry.offset);
        found.ok().map(|position| position as u32)
    }

    pub(super) fn references_of(&self, position: u32) -> &[EntryReference] {
        self.items_of(position, &self.references, |e| e.references)
    }

    pub(super) fn strings_of(&self, position: u32) -> &[StringIndex] {
        self.items_of(position, &self.strings, |e| e.strings)
    }

    pub(super) fn lists_of(&self, position: u32) -> &[ListExtent] {
        self.items_of(position, &self.lists, |e| e.lists)
    }

    /// The items of an entry, from its own first one to the first one of the next entry.
    fn items_of<'t, T>(&self, position: u32, all: &'t [T], first: impl Fn(&DebugEntry) -> u32) -> &'t [T] {
        let start = |i: usize| self.entries.get(i).map_or(all.len(), |e| first(e) as usize);
        all.get(start(position as usize)..start(position as usize + 1)).unwrap_or(&[])
    }

    fn read_unit(&mut self, tables: &EntrySections<'_, '_>, header: &UnitHeader<Slice<'_>>) -> Result<()> {
        if header.format() != gimli::Format::Dwarf32 || header.address_size() != 8 {
            return Err(invalid("a unit is not of the 32-bit format with 64-bit addresses"));
        }
        let start = header.debug_info_offset().map_or(0, |o| o.0 as u64);
        let abbreviations = gimli::DebugAbbrev::new(&tables.abbreviations.linked, LittleEndian);
        let abbreviations = header.abbreviations(&abbreviations).map_err(invalid)?;
        let mut raw = header.entries_raw(&abbreviations, None).map_err(invalid)?;
        let unit = self.units.len() as u32;
        let first = start + raw.next_offset().0 as u64;
        let first_entry = self.entries.len() as u32;
        let mut reader =
            EntryReader { tables, encoding: header.encoding(), start, unit, bases: UnitBases::default() };
        // The entries that are open, from the unit's own on.
        let mut open: Vec<u32> = Vec::new();
        let mut attributes = Vec::new();
        while !raw.is_empty() {
            let depth = raw.next_depth();
            let offset = start + raw.next_offset().0 as u64;
            let abbreviation = raw.read_abbreviation().map_err(invalid)?;
            let position = self.entries.len() as u32;
            let depth = usize::try_from(depth).map_err(|_| invalid("entries are closed twice"))?;
            while open.len() > depth {
                self.close(&mut open, position);
            }
            let Some(abbreviation) = abbreviation else { continue };
            if depth > open.len() || depth == 0 && position != first_entry {
                return Err(invalid("a unit is no tree of entries"));
            }
            let mut entry = DebugEntry {
                offset,
                attributes: start + raw.next_offset().0 as u64,
                end: 0,
                parent: open.last().copied().unwrap_or(position),
                next: 0,
                unit,
                tag: abbreviation.tag(),
                code: abbreviation.code(),
                addresses: Addresses::None,
                is_abstract: false,
                has_constant: false,
                views: None,
                left_out: [0..0, 0..0],
                references: self.references.len() as u32,
                strings: self.strings.len() as u32,
                lists: self.lists.len() as u32,
            };
            attributes.clear();
            for spec in abbreviation.attributes() {
                let at = start + raw.next_offset().0 as u64;
                let attribute = raw.read_attribute(*spec).map_err(invalid)?;
                let end = start + raw.next_offset().0 as u64;
                attributes.push(Attribute {
                    name: spec.name(),
                    form: spec.form(),
                    value: attribute.value(),
                    at: at..end,
                });
            }
            entry.end = start + raw.next_offset().0 as u64;
            if position == first_entry {
                reader.bases = UnitBases::of(&attributes)?;
                reader.bases.of = ListBase {
                    version: header.version(),
                    base: reader.base_address(&attributes)?,
                    new_base_is_zero: false,
                    addresses: reader.bases.addresses,
                };
            }
            for attribute in &attributes {
                reader.attribute(attribute, &mut entry, self)?;
            }
            if let (Some(views), Some([list])) = (entry.views, self.lists.get_mut(entry.lists as usize..)) {
                list.start = list.start.min(views);
            }
            self.entries.push(entry);
            open.push(position);
        }
        let last = self.entries.len() as u32;
        while !open.is_empty() {
            self.close(&mut open, last);
        }
        if first_entry == last {
            return Err(invalid("a unit has no entry"));
        }
        self.units.push(CollectedUnit {
            start,
            first,
            version: header.version(),
            abbreviations: header.debug_abbrev_offset().0 as u64,
            entries: first_entry..last,
            string_offsets_base: reader.bases.strings,
            of: reader.bases.of,
        });
        Ok(())
    }

    fn close(&mut self, open: &mut Vec<u32>, next: u32) {
        let closed = open.pop().and_then(|position| self.entries.get_mut(position as usize));
        if let Some(entry) = closed {
            entry.next = next;
        }
    }
}
