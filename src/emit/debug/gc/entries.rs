//! The debugging information entries (DIEs) of an object as a flat table: parents, references, and whether their addresses are live.
//!
//! An entry is identified by its position in [`EntryTable::entries`], in the order of the file. The object is one that was emitted: an
//! address of removed code has no relocation any more, so that a relocation tells live code from removed code.

use std::ops::Range;

use gimli::constants as dw;
use gimli::{AttributeValue, Encoding, LittleEndian, Operation, Reader as _, UnitHeader};
use object::elf;

use crate::emit::debug::lists::{Cursor, ListBase, ListReader};
use crate::emit::debug::units::Slice;
use crate::emit::debug::view::{DebugSection, decode};
use crate::emit::input::LE;
use crate::error::{Error, Result, Stage};

pub(super) fn invalid(what: impl std::fmt::Display) -> Error {
    Error::new(Stage::Emit, format!("debug information: {what}"))
}

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
    /// The distance from the start of the unit, in so many bytes.
    Unit(u8),
    /// The same as a ULEB128 number of so many bytes, which may have leading zeros.
    UnitUleb(u8),
    /// An offset in the section, by a relocation.
    Section,
}

/// A reference of one entry to another one.
#[derive(Debug, Clone, Copy)]
pub(super) struct EntryReference {
    /// Where it is, in its own section.
    pub(super) at: u64,
    pub(super) form: ReferenceForm,
    /// The offset of the entry in `.debug_info`.
    pub(super) target: u64,
    /// The section of location lists that holds it, 0 or 1; `None`: `.debug_info`.
    pub(super) list: Option<u8>,
}

/// A string that is named by an index into `.debug_str_offsets`.
#[derive(Debug, Clone, Copy)]
pub(super) struct StringIndex {
    /// Where it is in `.debug_info`, and how many bytes it has.
    pub(super) at: u64,
    pub(super) width: u8,
    /// It is a ULEB128 number, with leading zeros if there is room.
    pub(super) is_uleb: bool,
    pub(super) index: u64,
}

/// What the addresses of an entry say.
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
    views: Option<u64>,
    /// The bytes of its attributes that are left out, or none.
    pub(super) left_out: [Range<u64>; 2],
    /// Where its references begin; they end where those of the next entry begin.
    pub(super) references: u32,
    /// Where its indices into `.debug_str_offsets` begin, likewise.
    pub(super) strings: u32,
    /// Where its lists of ranges and locations begin, likewise.
    pub(super) lists: u32,
}

/// The bytes of a list of ranges or locations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ListExtent {
    /// Ranges are 0 and 1, locations 2 and 3, of DWARF up to 4 and from 5 on.
    pub(super) section: u8,
    pub(super) start: u64,
    pub(super) end: u64,
    /// Where the list itself begins; `start` is that of its views, if it has some.
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
    /// What its lists need to be read.
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
        Ok(table)
    }

    /// The position of the entry at this offset of `.debug_info`.
    pub(super) fn position(&self, offset: u64) -> Option<u32> {
        let found = self.entries.binary_search_by_key(&offset, |entry| entry.offset);
        found.ok().map(|position| position as u32)
    }

    pub(super) fn references_of(&self, position: u32) -> &[EntryReference] {
        let start = self.entries.get(position as usize).map_or(0, |e| e.references as usize);
        let end =
            self.entries.get(position as usize + 1).map_or(self.references.len(), |e| e.references as usize);
        self.references.get(start..end).unwrap_or(&[])
    }

    pub(super) fn strings_of(&self, position: u32) -> &[StringIndex] {
        let start = self.entries.get(position as usize).map_or(0, |e| e.strings as usize);
        let end = self.entries.get(position as usize + 1).map_or(self.strings.len(), |e| e.strings as usize);
        self.strings.get(start..end).unwrap_or(&[])
    }

    pub(super) fn lists_of(&self, position: u32) -> &[ListExtent] {
        let start = self.entries.get(position as usize).map_or(0, |e| e.lists as usize);
        let end = self.entries.get(position as usize + 1).map_or(self.lists.len(), |e| e.lists as usize);
        self.lists.get(start..end).unwrap_or(&[])
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

/// Whether an attribute is left out of all entries. A sibling is redundant, and what it skips may be gone. Views of locations are read by no
/// debugger.
pub(super) fn is_left_out(name: gimli::DwAt) -> bool {
    name == dw::DW_AT_sibling || name == dw::DW_AT_GNU_locviews
}

struct Attribute<'r> {
    name: gimli::DwAt,
    form: gimli::DwForm,
    value: AttributeValue<Slice<'r>>,
    at: Range<u64>,
}

/// What a unit's own entry says of its tables.
#[derive(Debug, Default)]
struct UnitBases {
    addresses: Option<u64>,
    ranges: Option<u64>,
    locations: Option<u64>,
    strings: Option<u64>,
    /// The same for readers of lists, with the base address of the unit.
    of: ListBase,
}

impl UnitBases {
    fn of(attributes: &[Attribute<'_>]) -> Result<UnitBases> {
        let mut bases = UnitBases::default();
        for attribute in attributes {
            match (attribute.name, attribute.value) {
                (dw::DW_AT_dwo_name | dw::DW_AT_GNU_dwo_name | dw::DW_AT_GNU_dwo_id, _) => {
                    return Err(invalid("a unit is in a file of its own (-gsplit-dwarf)"));
                }
                (_, AttributeValue::DebugAddrBase(base)) => bases.addresses = Some(base.0 as u64),
                (_, AttributeValue::DebugRngListsBase(base)) => bases.ranges = Some(base.0 as u64),
                (_, AttributeValue::DebugLocListsBase(base)) => bases.locations = Some(base.0 as u64),
                (_, AttributeValue::DebugStrOffsetsBase(base)) => bases.strings = Some(base.0 as u64),
                _ => {}
            }
        }
        Ok(bases)
    }
}

struct EntryReader<'t, 'a> {
    tables: &'t EntrySections<'t, 'a>,
    encoding: Encoding,
    start: u64,
    unit: u32,
    bases: UnitBases,
}

impl EntryReader<'_, '_> {
    fn attribute(
        &self,
        attribute: &Attribute<'_>,
        entry: &mut DebugEntry,
        table: &mut EntryTable,
    ) -> Result<()> {
        let at = attribute.at.clone();
        if is_left_out(attribute.name) {
            let free = entry.left_out.iter_mut().find(|bytes| bytes.is_empty());
            *free.ok_or_else(|| invalid("an entry has an attribute twice"))? = at.clone();
        }
        match attribute.name {
            dw::DW_AT_inline => entry.is_abstract = true,
            dw::DW_AT_const_value => entry.has_constant = true,
            _ => {}
        }
        match attribute.value {
            AttributeValue::UnitRef(_) if attribute.name == dw::DW_AT_sibling => {}
            AttributeValue::UnitRef(offset) => {
                let width = (at.end - at.start) as u8;
                let form = match attribute.form {
                    dw::DW_FORM_ref_udata | dw::DW_FORM_indirect => ReferenceForm::UnitUleb(width),
                    _ => ReferenceForm::Unit(width),
                };
                if attribute.form == dw::DW_FORM_indirect {
                    return Err(invalid("a reference of a form that is named in place"));
                }
                let target = self.start + offset.0 as u64;
                table.references.push(EntryReference { at: at.start, form, target, list: None });
            }
            AttributeValue::DebugInfoRef(offset) => {
                let form = ReferenceForm::Section;
                let target = offset.0 as u64;
                table.references.push(EntryReference { at: at.start, form, target, list: None });
            }
            AttributeValue::DebugInfoRefSup(_) | AttributeValue::DebugStrRefSup(_) => {
                return Err(invalid("it refers to another file"));
            }
            AttributeValue::DebugStrRef(_) => {
                table.has_unknown_strings |= !has_relocation(self.tables.info, &at);
            }
            AttributeValue::DebugStrOffsetsIndex(index) => {
                let width = (at.end - at.start) as u8;
                let is_uleb = ![dw::DW_FORM_strx1, dw::DW_FORM_strx2, dw::DW_FORM_strx3, dw::DW_FORM_strx4]
                    .contains(&attribute.form);
                table.strings.push(StringIndex { at: at.start, width, is_uleb, index: index.0 as u64 });
            }
            AttributeValue::Addr(_) => entry.note(has_relocation(self.tables.info, &at)),
            AttributeValue::DebugAddrIndex(index) => entry.note(self.is_live_index(index.0 as u64)?),
            AttributeValue::Exprloc(expression) => {
                let mut found = FoundInExpression::default();
                self.expression(expression.0.slice(), at.end - expression.0.len() as u64, None, &mut found)?;
                table.references.append(&mut found.references);
                if attribute.name == dw::DW_AT_location && found.has_address && !found.is_value {
                    let live = found.has_live_index
                        || has_relocation(self.tables.info, &(at.end - expression.0.len() as u64..at.end));
                    entry.note(live);
                }
            }
            AttributeValue::SecOffset(offset) if attribute.name == dw::DW_AT_GNU_locviews => {
                entry.views = Some(offset as u64);
            }
            AttributeValue::LocationListsRef(offset) => self.locations(offset.0 as u64, table)?,
            AttributeValue::DebugLocListsIndex(index) => {
                let offset = self.indexed(self.tables.locations[1], self.bases.locations, index.0 as u64)?;
                self.locations(offset, table)?;
            }
            AttributeValue::RangeListsRef(offset) => {
                let live = self.ranges(offset.0 as u64, table)?;
                entry.note(live);
            }
            AttributeValue::DebugRngListsIndex(index) => {
                let offset = self.indexed(self.tables.ranges[1], self.bases.ranges, index.0 as u64)?;
                let live = self.ranges(offset, table)?;
                entry.note(live);
            }
            _ => {}
        }
        Ok(())
    }

    /// The base address of the unit's lists; 0 if it has none, or one of removed code.
    fn base_address(&self, attributes: &[Attribute<'_>]) -> Result<u64> {
        let low = attributes.iter().find(|a| a.name == dw::DW_AT_low_pc);
        match low.map(|low| &low.value) {
            Some(AttributeValue::Addr(address)) => Ok(*address),
            Some(AttributeValue::DebugAddrIndex(index)) => {
                let place = self.bases.addresses.zip((index.0 as u64).checked_mul(8));
                let place = place.and_then(|(base, at)| base.checked_add(at));
                let (Some(table), Some(place)) = (self.tables.addresses, place) else {
                    return Err(invalid("an entry names an address that is not there"));
                };
                Cursor::new(&table.linked, place).u64()
            }
            _ => Ok(0),
        }
    }

    /// Whether the slot of `.debug_addr` with this index has a relocation.
    fn is_live_index(&self, index: u64) -> Result<bool> {
        let base = self.bases.addresses.zip(index.checked_mul(8)).and_then(|(base, at)| base.checked_add(at));
        let (Some(table), Some(at)) = (self.tables.addresses, base) else {
            return Err(invalid("an entry names an address that is not there"));
        };
        Ok(has_relocation(table, &(at..at.saturating_add(8))))
    }

    /// An offset from a table of lists.
    fn indexed(&self, table: Option<&DebugSection<'_>>, base: Option<u64>, index: u64) -> Result<u64> {
        let place = base.zip(index.checked_mul(4)).and_then(|(base, at)| base.checked_add(at));
        let missing = || invalid("an entry names a list that is not there");
        let (table, base, place) =
            (table.ok_or_else(missing)?, base.ok_or_else(missing)?, place.ok_or_else(missing)?);
        let bytes = usize::try_from(place).ok().and_then(|at| table.linked.get(at..at.checked_add(4)?));
        let bytes: [u8; 4] = bytes.and_then(|b| b.try_into().ok()).ok_or_else(missing)?;
        Ok(base + u64::from(u32::from_le_bytes(bytes)))
    }

    /// A section of lists and how it is read; 0 and 1 are ranges, 2 and 3 locations, of DWARF up to 4 and from 5 on.
    fn lists(&self, is_locations: bool) -> Result<(u8, ListReader<'_, '_>)> {
        let is_coded = self.encoding.version >= 5;
        let sections = if is_locations { self.tables.locations } else { self.tables.ranges };
        let section = sections[usize::from(is_coded)];
        let section = section.ok_or_else(|| invalid("an entry names a list that is not there"))?;
        let reader = ListReader { section, addresses: self.tables.addresses, is_locations, is_coded };
        Ok((u8::from(is_coded) + 2 * u8::from(is_locations), reader))
    }

    /// Note a list of ranges. Returns whether one of them is live.
    fn ranges(&self, offset: u64, table: &mut EntryTable) -> Result<bool> {
        let (section, reader) = self.lists(false)?;
        let (entries, end) = reader.read(offset, self.bases.of)?;
        table.lists.push(ListExtent { section, start: offset, end, list: offset, unit: self.unit });
        let is_live = |(begin, end): (u64, u64)| begin != end && decode(begin).is_some();
        Ok(entries.iter().filter_map(|entry| entry.range).any(is_live))
    }

    /// Note a location list, and the references to entries in its expressions.
    fn locations(&self, offset: u64, table: &mut EntryTable) -> Result<()> {
        let (section, reader) = self.lists(true)?;
        let (entries, end) = reader.read(offset, self.bases.of)?;
        table.lists.push(ListExtent { section, start: offset, end, list: offset, unit: self.unit });
        for entry in entries {
            let mut cursor = Cursor::new(&reader.section.linked, entry.expression.0);
            if reader.is_coded {
                cursor.uleb()?
            } else {
                u64::from(cursor.u16()?)
            };
            let range = cursor.at as usize..entry.expression.1 as usize;
            let bytes = reader.section.linked.get(range).unwrap_or(&[]);
            let mut found = FoundInExpression::default();
            self.expression(bytes, cursor.at, Some(u8::from(reader.is_coded)), &mut found)?;
            table.references.append(&mut found.references);
        }
        Ok(())
    }

    /// Note the references and addresses of an expression that begins at `at` of its section.
    fn expression(
        &self,
        bytes: &[u8],
        at: u64,
        list: Option<u8>,
        found: &mut FoundInExpression,
    ) -> Result<()> {
        let mut rest = Slice::new(bytes, LittleEndian);
        while !rest.is_empty() {
            let start = at + (bytes.len() - rest.len()) as u64;
            let opcode = rest.slice().first().copied().unwrap_or(0);
            let operation = Operation::parse(&mut rest, self.encoding).map_err(invalid)?;
            let end = at + (bytes.len() - rest.len()) as u64;
            let mut unit = |at: u64, form: ReferenceForm, offset: usize| {
                let target = self.start + offset as u64;
                found.references.push(EntryReference { at, form, target, list });
            };
            match operation {
                // Offset 0 is the generic type.
                Operation::Convert { base_type } | Operation::Reinterpret { base_type }
                    if base_type.0 != 0 =>
                {
                    unit(start + 1, ReferenceForm::UnitUleb((end - start - 1) as u8), base_type.0);
                }
                Operation::RegisterOffset { register, base_type, .. } if base_type.0 != 0 => {
                    let skipped = if register.0 < 0x80 { 2 } else { 3 };
                    unit(
                        start + skipped,
                        ReferenceForm::UnitUleb((end - start - skipped) as u8),
                        base_type.0,
                    );
                }
                Operation::Deref { base_type, .. } if base_type.0 != 0 => {
                    unit(start + 2, ReferenceForm::UnitUleb((end - start - 2) as u8), base_type.0);
                }
                Operation::TypedLiteral { base_type, value } if base_type.0 != 0 => {
                    let width = end - start - 2 - value.len() as u64;
                    unit(start + 1, ReferenceForm::UnitUleb(width as u8), base_type.0);
                }
                Operation::ParameterRef { offset } => unit(start + 1, ReferenceForm::Unit(4), offset.0),
                Operation::Call { offset: gimli::DieReference::UnitRef(offset) } => {
                    unit(start + 1, ReferenceForm::Unit((end - start - 1) as u8), offset.0);
                }
                Operation::Call { offset: gimli::DieReference::DebugInfoRef(offset) }
                | Operation::VariableValue { offset }
                | Operation::ImplicitPointer { value: offset, .. } => {
                    let (form, target) = (ReferenceForm::Section, offset.0 as u64);
                    found.references.push(EntryReference { at: start + 1, form, target, list });
                }
                Operation::EntryValue { expression } => {
                    let inner = expression.slice();
                    self.expression(inner, end - inner.len() as u64, list, found)?;
                }
                Operation::Address { .. } => found.has_address = true,
                Operation::AddressIndex { index } | Operation::ConstantIndex { index } => {
                    found.has_address = true;
                    found.has_live_index |= self.is_live_index(index.0 as u64)?;
                }
                Operation::TLS => found.has_address = true,
                Operation::StackValue | Operation::ImplicitValue { .. } | Operation::Piece { .. } => {
                    found.is_value = true;
                }
                _ if opcode == dw::DW_OP_GNU_encoded_addr.0 => {
                    return Err(invalid("an expression with an encoded address"));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

#[derive(Debug, Default)]
struct FoundInExpression {
    references: Vec<EntryReference>,
    /// It has an address of code or data.
    has_address: bool,
    /// It names a live address by index.
    has_live_index: bool,
    /// It says what the value is, not where the variable is.
    is_value: bool,
}

impl DebugEntry {
    /// Note an address of the entry. Of several, one that is live decides.
    fn note(&mut self, live: bool) {
        self.addresses = match (self.addresses, live) {
            (Addresses::Live, _) | (_, true) => Addresses::Live,
            (_, false) => Addresses::Removed,
        };
    }
}

/// Whether there is a relocation in these bytes of a section.
fn has_relocation(section: &DebugSection<'_>, bytes: &Range<u64>) -> bool {
    let next = section.relocations.partition_point(|r| r.r_offset.get(LE) < bytes.start);
    let found = section.relocations.get(next);
    found.is_some_and(|r| r.r_offset.get(LE) < bytes.end && r.r_type(LE, false) != elf::R_X86_64_NONE)
}
