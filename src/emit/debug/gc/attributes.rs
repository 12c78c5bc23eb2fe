//! Attributes of debugging information entries (DWARF 5, 2.2 and 2.5): the references, addresses, lists and strings that they name, those in
//! expressions of locations too.

use std::ops::Range;

use gimli::constants as dw;
use gimli::{AttributeValue, Encoding, LittleEndian, Operation, Reader as _};
use object::elf;

use super::entries::{
    Addresses, DebugEntry, EntryReference, EntrySections, EntryTable, ListExtent, ReferenceForm, StringIndex,
    invalid,
};
use crate::emit::cursor::Cursor;
use crate::emit::debug::lists::{ListBase, ListReader, address_at, list_at};
use crate::emit::debug::units::Slice;
use crate::emit::debug::view::{DebugSection, decode};
use crate::emit::input::LE;
use crate::error::Result;

/// The offset of views of locations, whose form up to DWARF 3 is that of a number.
fn views(value: &AttributeValue<Slice<'_>>) -> Option<u64> {
    match value {
        AttributeValue::SecOffset(offset) => Some(*offset as u64),
        AttributeValue::Data4(offset) => Some(u64::from(*offset)),
        AttributeValue::Udata(offset) => Some(*offset),
        _ => None,
    }
}

/// Whether an attribute is left out of all entries. A sibling is redundant, and its target may be removed. Debuggers
/// do not read views of locations.
pub(super) fn is_left_out(name: gimli::DwAt) -> bool {
    name == dw::DW_AT_sibling || name == dw::DW_AT_GNU_locviews
}

/// An attribute as it is read, with the bytes of its value in the section.
pub(super) struct Attribute<'r> {
    pub(super) name: gimli::DwAt,
    pub(super) form: gimli::DwForm,
    pub(super) value: AttributeValue<Slice<'r>>,
    pub(super) at: Range<u64>,
}

/// The places of a unit's tables.
#[derive(Debug, Default)]
pub(super) struct UnitBases {
    pub(super) addresses: Option<u64>,
    ranges: Option<u64>,
    locations: Option<u64>,
    pub(super) strings: Option<u64>,
    /// The same for readers of lists, with the base address of the unit.
    pub(super) of: ListBase,
}

impl UnitBases {
    pub(super) fn of(attributes: &[Attribute<'_>]) -> Result<UnitBases> {
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

/// The reader of a unit's attributes.
pub(super) struct EntryReader<'t, 'a> {
    pub(super) tables: &'t EntrySections<'t, 'a>,
    pub(super) encoding: Encoding,
    pub(super) start: u64,
    pub(super) unit: u32,
    pub(super) bases: UnitBases,
}

impl EntryReader<'_, '_> {
    pub(super) fn attribute(
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
            dw::DW_AT_inline => entry.is_abstract = entry.tag == dw::DW_TAG_subprogram,
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
                table.references.push(EntryReference::new(at.start, form, target, None));
            }
            AttributeValue::DebugInfoRef(offset) => {
                let form = ReferenceForm::Section;
                let target = offset.0 as u64;
                table.references.push(EntryReference::new(at.start, form, target, None));
            }
            AttributeValue::DebugInfoRefSup(_) | AttributeValue::DebugStrRefSup(_) => {
                return Err(invalid("it refers to another file"));
            }
            AttributeValue::DebugStrRef(_) => {
                table.has_unknown_strings |= !self.is_relocated(&at);
            }
            AttributeValue::DebugStrOffsetsIndex(index) => {
                let width = (at.end - at.start) as u8;
                let is_uleb = ![dw::DW_FORM_strx1, dw::DW_FORM_strx2, dw::DW_FORM_strx3, dw::DW_FORM_strx4]
                    .contains(&attribute.form);
                table.strings.push(StringIndex { at: at.start, width, is_uleb, index: index.0 as u64 });
            }
            // Other addresses of an entry may be those where the next function begins.
            AttributeValue::Addr(_) if attribute.name == dw::DW_AT_low_pc => {
                entry.note(self.is_relocated(&at));
            }
            AttributeValue::DebugAddrIndex(index) if attribute.name == dw::DW_AT_low_pc => {
                entry.note(self.is_live_index(index.0 as u64)?);
            }
            AttributeValue::Exprloc(expression) => {
                let mut found = FoundInExpression::default();
                self.expression(expression.0.slice(), at.end - expression.0.len() as u64, None, &mut found)?;
                table.references.append(&mut found.references);
                entry.has_constant |= attribute.name == dw::DW_AT_location && found.is_value;
                if attribute.name == dw::DW_AT_location && found.has_address && !found.is_value {
                    let live = found.has_live_index
                        || self.is_relocated(&(at.end - expression.0.len() as u64..at.end));
                    entry.note(live);
                }
            }
            _ if attribute.name == dw::DW_AT_GNU_locviews => entry.views = views(&attribute.value),
            AttributeValue::LocationListsRef(offset) => self.locations(offset.0 as u64, table)?,
            AttributeValue::DebugLocListsIndex(index) => {
                let offset = list_at(self.tables.locations[1], self.bases.locations, index.0 as u64)?;
                self.locations(offset, table)?;
            }
            AttributeValue::RangeListsRef(offset) => {
                let live = self.ranges(offset.0 as u64, table)?;
                entry.note(live);
            }
            AttributeValue::DebugRngListsIndex(index) => {
                let offset = list_at(self.tables.ranges[1], self.bases.ranges, index.0 as u64)?;
                let live = self.ranges(offset, table)?;
                entry.note(live);
            }
            _ => {}
        }
        Ok(())
    }

    fn is_relocated(&self, bytes: &Range<u64>) -> bool {
        has_relocation(self.tables.info, bytes)
    }

    /// The base address of the unit's lists; 0 for removed code, or without such an attribute.
    pub(super) fn base_address(&self, attributes: &[Attribute<'_>]) -> Result<u64> {
        let low = attributes.iter().find(|a| a.name == dw::DW_AT_low_pc);
        match low.map(|low| &low.value) {
            Some(AttributeValue::Addr(address)) => Ok(*address),
            Some(AttributeValue::DebugAddrIndex(index)) => {
                address_at(self.tables.addresses, self.bases.addresses, index.0 as u64)
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
                found.references.push(EntryReference::new(at, form, target, list));
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
                    found.references.push(EntryReference::new(start + 1, form, target, list));
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
    let found = section.relocations_in(bytes.start, bytes.end).first();
    found.is_some_and(|r| r.r_type(LE, false) != elf::R_X86_64_NONE)
}
