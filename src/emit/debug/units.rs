//! The addresses in the entries of units: lists, spans of units that become ranges, and the function of each address.
//!
//! Entries keep their size and place, so references to them stay right. A unit with `DW_AT_low_pc` and `DW_AT_high_pc`
//! gets `DW_AT_ranges` in the bytes of `DW_AT_high_pc`, by a changed copy of its table of abbreviations. A filler attribute
//! takes the bytes that are left.
//!
//! The entries of a skeleton unit are in a `.dwo` file, which is not rewritten. In DWARF 4 it refers to code by
//! indices of `.debug_addr` and offsets in `.debug_ranges`, which remain valid. In DWARF 5 it has offsets from other
//! functions: that is an error, and so are the 64-bit format and a `DW_AT_high_pc` in fewer bytes than an offset
//! needs.

use std::sync::Arc;

use gimli::constants as dw;
use gimli::{AttributeSpecification, AttributeValue, EndianSlice, LittleEndian};
use summaries::AtomIdx;

use super::layout::Layout;
use super::lists::{ListBase, ListUse, address_at, list_at};
use super::view::{DebugSection, decode};
use crate::emit::cursor::{Cursor, sleb, uleb};
use crate::emit::parts::Meant;
use crate::error::{Error, Result, Stage};

pub(super) type Slice<'r> = EndianSlice<'r, LittleEndian>;
type Value<'r> = AttributeValue<Slice<'r>>;

/// The debug sections that entries refer to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tables<'t, 'a> {
    pub(super) abbreviations: &'t DebugSection<'a>,
    pub(super) addresses: Option<&'t DebugSection<'a>>,
    /// The sections of ranges of DWARF up to 4, and of DWARF 5.
    pub(super) ranges: [Option<&'t DebugSection<'a>>; 2],
    pub(super) locations: [Option<&'t DebugSection<'a>>; 2],
    pub(super) layout: Layout<'t>,
}

/// A unit with a span that becomes ranges.
#[derive(Debug)]
pub(super) struct SpanUnit {
    pub(super) section: usize,
    pub(super) version: u16,
    /// The offset of the field of its header that refers to its abbreviations.
    pub(super) abbreviations_field: u64,
    /// The place of `DW_AT_high_pc`, and its size in bytes.
    pub(super) high_pc: (u64, u64),
    /// The kept parts of the span, in made-up addresses.
    pub(super) ranges: Vec<(u64, u64)>,
    /// Its abbreviations, with a changed one for the unit.
    pub(super) new_abbreviations: Vec<u8>,
}

/// The changes that the units of an object need.
#[derive(Debug, Default)]
pub(super) struct Needs {
    pub(super) spans: Vec<SpanUnit>,
    /// Addresses of units that become 0, by section and offset.
    pub(super) zeroed: Vec<(usize, u64)>,
    /// Lengths of dropped code, which become 0: section, offset, size in bytes and form.
    pub(super) lengths: Vec<(usize, u64, u64, gimli::DwForm)>,
    /// The used lists of `.debug_ranges` and of `.debug_rnglists`.
    pub(super) ranges: [Vec<ListUse>; 2],
    /// The used lists of `.debug_loc` and of `.debug_loclists`.
    pub(super) locations: [Vec<ListUse>; 2],
    /// The skeleton units, each with the start of its lists in `.debug_ranges`.
    pub(super) skeletons: Vec<(u64, ListBase)>,
    pub(super) meant: Vec<Meant>,
}

fn invalid(what: impl std::fmt::Display) -> Error {
    Error::new(Stage::Emit, format!("debug information: {what}"))
}

/// An attribute of the entry that is being read.
struct UnitAttribute<'r> {
    name: gimli::DwAt,
    form: gimli::DwForm,
    value: Value<'r>,
    /// Its start and end in the section.
    at: (u64, u64),
}

/// Read all units of a section.
pub(super) fn read(section: &DebugSection<'_>, tables: Tables<'_, '_>, needs: &mut Needs) -> Result<()> {
    let info = gimli::DebugInfo::new(&section.linked, LittleEndian);
    let mut units = info.units();
    while let Some(header) = units.next().map_err(invalid)? {
        let start = header.debug_info_offset().map_or(0, |o| o.0 as u64);
        UnitReader {
            section,
            tables,
            header,
            start,
            of: ListBase::default(),
            stack: Vec::new(),
            none: Arc::default(),
            is_skeleton: false,
            bases: Bases::default(),
        }
        .read(needs)?;
    }
    Ok(())
}

/// The places of a unit's tables of lists.
#[derive(Debug, Clone, Copy, Default)]
struct Bases {
    ranges: Option<u64>,
    locations: Option<u64>,
}

struct UnitReader<'r, 't, 'a> {
    section: &'r DebugSection<'a>,
    tables: Tables<'t, 'a>,
    header: gimli::UnitHeader<Slice<'r>>,
    /// The offset of the unit in its section.
    start: u64,
    of: ListBase,
    bases: Bases,
    /// The functions around the current entry, by depth, each with its atoms.
    stack: Vec<(isize, Arc<[AtomIdx]>)>,
    /// The atoms of an entry outside of functions.
    none: Arc<[AtomIdx]>,
    /// Its entries are in a `.dwo` file.
    is_skeleton: bool,
}

impl<'r> UnitReader<'r, '_, '_> {
    fn read(mut self, needs: &mut Needs) -> Result<()> {
        if self.header.format() != gimli::Format::Dwarf32 || self.header.address_size() != 8 {
            return Err(invalid("a unit is not of the 32-bit format with 64-bit addresses"));
        }
        self.of.version = self.header.version();
        let table = gimli::DebugAbbrev::new(&self.tables.abbreviations.linked, LittleEndian);
        let abbreviations = self.header.abbreviations(&table).map_err(invalid)?;
        let mut entries = self.header.entries_raw(&abbreviations, None).map_err(invalid)?;
        let mut attributes: Vec<UnitAttribute<'r>> = Vec::new();
        let mut is_root = true;
        while !entries.is_empty() {
            let depth = entries.next_depth();
            let Some(abbreviation) = entries.read_abbreviation().map_err(invalid)? else { continue };
            if !is_root && !abbreviation.attributes().iter().any(may_matter) {
                entries.skip_attributes(abbreviation.attributes()).map_err(invalid)?;
                continue;
            }
            attributes.clear();
            for spec in abbreviation.attributes() {
                let at = self.start + entries.next_offset().0 as u64;
                let attribute = entries.read_attribute(*spec).map_err(invalid)?;
                let end = self.start + entries.next_offset().0 as u64;
                attributes.push(UnitAttribute {
                    name: spec.name(),
                    form: spec.form(),
                    value: attribute.value(),
                    at: (at, end),
                });
            }
            if is_root {
                self.root(abbreviation, &attributes, needs)?;
                is_root = false;
                continue;
            }
            while self.stack.last().is_some_and(|(open, _)| *open >= depth) {
                self.stack.pop();
            }
            self.entry(abbreviation.tag(), depth, &attributes, needs)?;
        }
        Ok(())
    }

    /// Read the entry of the unit.
    fn root(
        &mut self,
        abbreviation: &gimli::Abbreviation,
        attributes: &[UnitAttribute<'r>],
        needs: &mut Needs,
    ) -> Result<()> {
        let (mut low, mut high, mut has_ranges) = (None, None, false);
        let (mut is_skeleton, mut list_base) = (false, None);
        for attribute in attributes {
            match (attribute.name, attribute.value) {
                (dw::DW_AT_GNU_dwo_name | dw::DW_AT_dwo_name | dw::DW_AT_GNU_dwo_id, _) => is_skeleton = true,
                (dw::DW_AT_GNU_ranges_base, AttributeValue::DebugRngListsBase(base)) => {
                    list_base = Some(base.0 as u64);
                }
                (dw::DW_AT_low_pc, _) => low = Some(attribute),
                (dw::DW_AT_high_pc, _) => high = Some(attribute),
                (dw::DW_AT_ranges, _) => has_ranges = true,
                (_, AttributeValue::DebugAddrBase(base)) => self.of.addresses = Some(base.0 as u64),
                (_, AttributeValue::DebugRngListsBase(base)) => self.bases.ranges = Some(base.0 as u64),
                (_, AttributeValue::DebugLocListsBase(base)) => self.bases.locations = Some(base.0 as u64),
                _ => {}
            }
        }
        let base = low.map(|low| self.address(&low.value)).transpose()?.flatten().unwrap_or(0);
        self.of.base = base;
        self.of.new_base_is_zero = decode(base).is_none();
        let layout = self.tables.layout;
        if let Some(low) = low.filter(|low| layout.is_changed(base) && low.form == dw::DW_FORM_addr) {
            needs.zeroed.push((self.section.index, low.at.0));
            self.of.new_base_is_zero = true;
        }
        if is_skeleton {
            if self.of.version >= 5 {
                return Err(invalid(
                    "a .dwo file of DWARF 5 gives addresses by their distance from other functions \
                     (-gsplit-dwarf); compile with -gdwarf-4",
                ));
            }
            needs.skeletons.extend(list_base.map(|offset| (offset, self.of)));
            self.is_skeleton = true;
            self.addresses_are_clear()?;
        }
        if let Some(high) = high.filter(|_| layout.is_changed(base)) {
            if has_ranges {
                return Err(invalid("a unit has a span and ranges"));
            }
            let end = match high.value {
                AttributeValue::Addr(end) => end,
                AttributeValue::Udata(length) => base.wrapping_add(length),
                _ => return Err(invalid("the span of a unit has an unknown form")),
            };
            if high.form == dw::DW_FORM_addr {
                needs.zeroed.push((self.section.index, high.at.0));
            }
            let room = high.at.1 - high.at.0;
            let fixed = [dw::DW_FORM_addr, dw::DW_FORM_data4, dw::DW_FORM_data8].contains(&high.form);
            if !fixed {
                return Err(invalid("the length of a unit's code is no number of a fixed size"));
            }
            let form = if self.of.version >= 4 { dw::DW_FORM_sec_offset } else { dw::DW_FORM_data4 };
            let at = self.header.debug_abbrev_offset().0 as u64;
            needs.spans.push(SpanUnit {
                section: self.section.index,
                version: self.of.version,
                abbreviations_field: self.start + if self.of.version >= 5 { 8 } else { 6 },
                high_pc: (high.at.0, room),
                ranges: layout.kept_ranges(base, end, &[])?,
                new_abbreviations: with_ranges(
                    &self.tables.abbreviations.linked,
                    at,
                    abbreviation.code(),
                    form,
                    room - 4,
                )?,
            });
        }
        for attribute in attributes {
            self.refer(attribute, needs, &self.none, false)?;
        }
        Ok(())
    }

    /// Check that no address that occurs twice in `.debug_addr` lies right behind a call. The entries that use it are in a `.dwo` file.
    ///
    /// # Errors
    /// The address may also be the return address of the function before it, and the two functions are moved apart.
    fn addresses_are_clear(&self) -> Result<()> {
        let Some((table, start)) = self.tables.addresses.zip(self.of.addresses) else { return Ok(()) };
        let mut cursor = Cursor::new(&table.linked, start);
        let mut addresses = Vec::new();
        while cursor.at.saturating_add(8) <= table.linked.len() as u64 {
            addresses.push(cursor.u64()?);
        }
        addresses.sort_unstable();
        // A function has one address at its start. A second one may be the return address of another function.
        let mut shared = addresses.array_windows().filter(|[a, b]| a == b);
        match shared.any(|[address, _]| self.tables.layout.is_behind_call(*address)) {
            true => Err(invalid(
                "a call ends a function, and the .dwo file may mean the return address or the next function",
            )),
            false => Ok(()),
        }
    }

    fn entry(
        &mut self,
        tag: gimli::DwTag,
        depth: isize,
        attributes: &[UnitAttribute<'r>],
        needs: &mut Needs,
    ) -> Result<()> {
        // Its lists would be rewritten, and the lists of the `.dwo` file between them would move.
        if self.is_skeleton {
            return Err(invalid("a unit with a .dwo file has entries itself (-fsplit-dwarf-inlining)"));
        }
        let layout = self.tables.layout;
        let is_function = tag == dw::DW_TAG_subprogram;
        let mut own = Vec::new();
        let mut low = None;
        for attribute in attributes.iter().filter(|a| a.name == dw::DW_AT_low_pc) {
            low = self.address(&attribute.value)?;
            if is_function && let Some((section, place)) = low.and_then(decode) {
                own.extend(layout.meant(section, place, &[], true));
            }
        }
        if is_function && let Some(list) = self.ranges_of(attributes)? {
            let read = self.begins(list)?;
            own.extend(read.into_iter().filter_map(|(s, place)| layout.meant(s, place, &[], true)));
        }
        let within: Arc<[AtomIdx]> = match is_function {
            true => own.into(),
            false => Arc::clone(self.stack.last().map_or(&self.none, |(_, atoms)| atoms)),
        };
        let has_views = attributes.iter().any(|a| a.name == dw::DW_AT_GNU_locviews);
        for attribute in attributes {
            match (attribute.name, attribute.value) {
                (dw::DW_AT_high_pc, AttributeValue::Addr(end)) => {
                    let meant = layout.ended(end);
                    let at = (self.section.index as u32, attribute.at.0);
                    needs.meant.extend(meant.map(|atom| (at, atom)));
                    self.is_of_one_part(low, end, &within)?;
                }
                (dw::DW_AT_high_pc, AttributeValue::Udata(length)) => {
                    let stays = self.is_of_one_part(low, low.unwrap_or(0).wrapping_add(length), &within)?;
                    if !stays && attribute.form != dw::DW_FORM_implicit_const {
                        let (at, end) = attribute.at;
                        needs.lengths.push((self.section.index, at, end - at, attribute.form));
                    }
                }
                (name, AttributeValue::Addr(_) | AttributeValue::DebugAddrIndex(_)) => {
                    let address = self.address(&attribute.value)?;
                    let at = match attribute.value {
                        AttributeValue::DebugAddrIndex(index) => self.place_of_address(index.0 as u64),
                        _ => Some((self.section.index as u32, attribute.at.0)),
                    };
                    if let (Some((section, place)), Some(at)) = (address.and_then(decode), at) {
                        let entry = is_function && name == dw::DW_AT_low_pc;
                        let meant = layout.meant(section, place, &within, entry);
                        needs.meant.extend(meant.map(|atom| (at, atom)));
                    }
                }
                _ => self.refer(attribute, needs, &within, has_views)?,
            }
        }
        if is_function {
            self.stack.push((depth, within));
        }
        Ok(())
    }

    /// Whether the range of an entry is kept. It must be kept or dropped as a whole, because its length is a number.
    fn is_of_one_part(&self, low: Option<u64>, end: u64, within: &[AtomIdx]) -> Result<bool> {
        let Some(low) = low.filter(|low| decode(*low).is_some()) else { return Ok(true) };
        let kept = self.tables.layout.kept_ranges(low, end, within)?;
        match kept.is_empty() || kept == [(low, end)] {
            true => Ok(!kept.is_empty()),
            false => Err(invalid("an entry describes code that is partly dropped")),
        }
    }

    /// The made-up address of an attribute; `None` if it is no address.
    fn address(&self, value: &Value<'_>) -> Result<Option<u64>> {
        match value {
            AttributeValue::Addr(address) => Ok(Some(*address)),
            AttributeValue::DebugAddrIndex(index) => {
                address_at(self.tables.addresses, self.of.addresses, index.0 as u64).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// The section and offset of the address with this index.
    fn place_of_address(&self, index: u64) -> Option<(u32, u64)> {
        let table = self.tables.addresses?;
        Some((table.index as u32, self.of.addresses?.checked_add(index.checked_mul(8)?)?))
    }

    /// The offset of the ranges of an entry.
    fn ranges_of(&self, attributes: &[UnitAttribute<'r>]) -> Result<Option<u64>> {
        let Some(attribute) = attributes.iter().find(|a| a.name == dw::DW_AT_ranges) else { return Ok(None) };
        match attribute.value {
            AttributeValue::RangeListsRef(offset) => Ok(Some(offset.0 as u64)),
            AttributeValue::DebugRngListsIndex(index) => {
                list_at(self.tables.ranges[1], self.bases.ranges, index.0 as u64).map(Some)
            }
            _ => Err(invalid("ranges of an unknown form")),
        }
    }

    /// The starts of the ranges of a list.
    fn begins(&self, offset: u64) -> Result<Vec<(u32, i64)>> {
        let Some(section) = self.tables.ranges[usize::from(self.of.version >= 5)] else {
            return Err(invalid("an entry names a list that does not exist"));
        };
        let lists = super::lists::ListReader {
            section,
            addresses: self.tables.addresses,
            is_locations: false,
            is_coded: self.of.version >= 5,
        };
        let ranges = lists.read(offset, self.of)?.0.into_iter().filter_map(|entry| entry.range);
        Ok(ranges.filter(|(b, e)| b < e).filter_map(|(begin, _)| decode(begin)).collect())
    }

    /// Note a list that an attribute refers to.
    fn refer(
        &self,
        attribute: &UnitAttribute<'r>,
        needs: &mut Needs,
        within: &Arc<[AtomIdx]>,
        has_views: bool,
    ) -> Result<()> {
        let coded = usize::from(self.of.version >= 5);
        let (lists, offset) = match attribute.value {
            AttributeValue::RangeListsRef(offset) => (&mut needs.ranges, offset.0 as u64),
            AttributeValue::DebugRngListsIndex(index) => {
                let offset = list_at(self.tables.ranges[1], self.bases.ranges, index.0 as u64)?;
                (&mut needs.ranges, offset)
            }
            AttributeValue::LocationListsRef(offset) => (&mut needs.locations, offset.0 as u64),
            AttributeValue::DebugLocListsIndex(index) => {
                let offset = list_at(self.tables.locations[1], self.bases.locations, index.0 as u64)?;
                (&mut needs.locations, offset)
            }
            _ => return Ok(()),
        };
        if let Some(lists) = lists.get_mut(coded) {
            let has_views = has_views && attribute.name == dw::DW_AT_location;
            lists.push(ListUse { offset, of: self.of, within: Arc::clone(within), has_views });
        }
        Ok(())
    }
}

/// Whether an attribute may hold an address or refer to a list.
fn may_matter(spec: &AttributeSpecification) -> bool {
    matches!(
        spec.form(),
        dw::DW_FORM_addr
            | dw::DW_FORM_addrx
            | dw::DW_FORM_addrx1
            | dw::DW_FORM_addrx2
            | dw::DW_FORM_addrx3
            | dw::DW_FORM_addrx4
            | dw::DW_FORM_GNU_addr_index
            | dw::DW_FORM_sec_offset
            | dw::DW_FORM_loclistx
            | dw::DW_FORM_rnglistx
            | dw::DW_FORM_indirect
    ) || spec.name() == dw::DW_AT_high_pc
        || matches!(spec.form(), dw::DW_FORM_data4 | dw::DW_FORM_data8)
            && matches!(
                spec.name(),
                dw::DW_AT_location
                    | dw::DW_AT_ranges
                    | dw::DW_AT_frame_base
                    | dw::DW_AT_string_length
                    | dw::DW_AT_return_addr
                    | dw::DW_AT_segment
                    | dw::DW_AT_static_link
                    | dw::DW_AT_use_location
                    | dw::DW_AT_vtable_elem_location
                    | dw::DW_AT_data_member_location
                    | dw::DW_AT_start_scope
            )
}

/// The table of abbreviations at `at`. In the one with this code, `DW_AT_ranges` in `form` replaces `DW_AT_high_pc`, and a filler
/// attribute takes `filler` bytes behind it.
fn with_ranges(section: &[u8], at: u64, code: u64, form: gimli::DwForm, filler: u64) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let mut cursor = Cursor::new(section, at);
    let mut changed = false;
    loop {
        let this = cursor.uleb()?;
        uleb(&mut out, this);
        if this == 0 {
            return if changed { Ok(out) } else { Err(invalid("a unit has no abbreviation")) };
        }
        uleb(&mut out, cursor.uleb()?);
        out.push(cursor.u8()?);
        loop {
            let (name, of) = (cursor.uleb()?, cursor.uleb()?);
            if this == code && name == u64::from(dw::DW_AT_high_pc.0) {
                changed = true;
                uleb(&mut out, u64::from(dw::DW_AT_ranges.0));
                uleb(&mut out, u64::from(form.0));
                if filler == 4 {
                    uleb(&mut out, u64::from(FILLER.0));
                    uleb(&mut out, u64::from(dw::DW_FORM_data4.0));
                }
                continue;
            }
            uleb(&mut out, name);
            uleb(&mut out, of);
            if of == u64::from(dw::DW_FORM_implicit_const.0) {
                sleb(&mut out, cursor.sleb()?);
            }
            if (name, of) == (0, 0) {
                break;
            }
        }
    }
}

/// The filler attribute: the last one of the range for vendors (DWARF 5, 7.5.4), which no vendor defines.
const FILLER: gimli::DwAt = gimli::DwAt(0x3fff);
