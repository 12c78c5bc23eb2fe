//! Garbage collection of DWARF for one object, by mark and sweep as in LLVM's `DWARFLinker`. It removes debugging information entries of
//! removed code. With `--prune-debug=shrink` it removes all entries that no kept entry refers to. Abbreviations, strings, lists and line number
//! programs of removed entries are removed too.
//!
//! Its input is an emitted object. The address of kept code has a relocation there, and the address of removed code does not. The pass marks
//! entries ([`mark`]), writes the kept ones ([`units`]), and then corrects every relocation into a changed section. A form that it does not read is
//! an error; the caller then uses the object as it was emitted.

mod attributes;
mod entries;
mod lists;
mod mark;
mod tables;
mod units;

use object::{I64, elf};

use self::entries::{EntrySections, EntryTable, invalid};
use self::lists::AddressSlots;
use self::mark::Marked;
use self::tables::{LineMap, StringMap, StringSlots};
use self::units::NewUnits;
use super::draft::{OffsetMap, SectionDraft};
use super::layout::SectionSymbols;
use super::surgery::{Change, Surgery};
use super::view::{DebugSection, encode};
use crate::emit::input::{Input, LE, Rela, Role, SymbolPlace};
use crate::emit::write::ObjectWriter;
use crate::error::Result;
use crate::plan::DebugCollection;

/// The debug sections of an object that the collection reads.
#[derive(Debug, Default)]
struct CollectedSections<'a> {
    info: Option<DebugSection<'a>>,
    abbreviations: Option<DebugSection<'a>>,
    addresses: Option<DebugSection<'a>>,
    lines: Option<DebugSection<'a>>,
    strings: Option<DebugSection<'a>>,
    string_offsets: Option<DebugSection<'a>>,
    ranges: [Option<DebugSection<'a>>; 2],
    locations: [Option<DebugSection<'a>>; 2],
    /// There is a section of macros.
    has_macros: bool,
    /// The tables of names and of ranges, which have a contribution for each unit.
    by_unit: Vec<DebugSection<'a>>,
}

/// The object without the debugging information that `collection` removes; `None` if there is nothing to remove.
///
/// # Errors
/// Debug information that is malformed or of a form that is not modelled. The object is then to be used as it is.
pub(in crate::emit) fn collect(object: &[u8], collection: DebugCollection) -> Result<Option<Vec<u8>>> {
    collect_with(object, collection, true)
}

/// The same; `makes_table` is whether a unit without a table of addresses may get one.
fn collect_with(object: &[u8], collection: DebugCollection, makes_table: bool) -> Result<Option<Vec<u8>>> {
    let input = Input::parse(object)?;
    let Some(sections) = CollectedSections::read(&input)? else { return Ok(None) };
    has_no_symbols(&input)?;
    let (Some(info), Some(abbreviations)) = (&sections.info, &sections.abbreviations) else {
        return Ok(None);
    };
    let tables = EntrySections {
        info,
        abbreviations,
        addresses: sections.addresses.as_ref(),
        ranges: [sections.ranges[0].as_ref(), sections.ranges[1].as_ref()],
        locations: [sections.locations[0].as_ref(), sections.locations[1].as_ref()],
    };
    let entries = EntryTable::read(&tables)?;
    let marked = Marked::of(&entries, collection)?;
    if marked.kept.iter().all(|kept| *kept) {
        return Ok(None);
    }
    let slots = sections.addresses.as_ref().and_then(|section| AddressSlots::of(section, &entries));
    let slots = slots.filter(|slots| makes_table || !slots.is_new);
    let table = sections.addresses.as_ref().filter(|_| slots.as_ref().is_some_and(|slots| slots.is_new));
    let table =
        table.map(|table| SectionSymbols::read(&input)?.of_section(&input, table.index)).transpose()?;
    let units = units::write(info, abbreviations, &entries, &marked, table, collection)?;
    let Some(surgery) = changes(&input, sections, &entries, units, slots)? else {
        return collect_with(object, collection, false);
    };
    let overlay = surgery.perform(&input)?;
    let input = Input::overlaid(object, &overlay, &[])?;
    let mut writer = ObjectWriter::new(input.header, object.len(), input.sections.len());
    for (index, header) in input.sections.iter().enumerate() {
        writer.start(header);
        if header.sh_type.get(LE) != elf::SHT_NOBITS && input.role(index) != Role::Null {
            writer.out.extend_from_slice(input.data(index)?);
        }
        writer.end(*header);
    }
    let smaller = writer.finish(input.section_names as u32);
    Ok((smaller.len() < object.len()).then_some(smaller))
}

impl<'a> CollectedSections<'a> {
    /// `None` if the object has no debug information that can be collected by itself.
    fn read(input: &Input<'a>) -> Result<Option<CollectedSections<'a>>> {
        let mut sections = CollectedSections::default();
        for index in 1..input.sections.len() {
            let name = input.section_name(index);
            if input.role(index) != Role::Content || !name.starts_with(b".debug") {
                continue;
            }
            let slot = match name {
                b".debug_info" => {
                    // Type units are in groups of their own, which the linker removes or keeps whole.
                    if input.section(index)?.sh_flags.get(LE).0 & elf::SHF_GROUP.0 != 0 {
                        return Err(input.about(index, "type units are not collected"));
                    }
                    &mut sections.info
                }
                b".debug_macro" => {
                    sections.has_macros = true;
                    continue;
                }
                b".debug_types" | b".debug_names" | b".debug_cu_index" => {
                    return Err(input.about(index, "its entries cannot be removed"));
                }
                b".debug_abbrev" => &mut sections.abbreviations,
                b".debug_addr" => &mut sections.addresses,
                b".debug_line" => &mut sections.lines,
                b".debug_str" => &mut sections.strings,
                b".debug_str_offsets" => &mut sections.string_offsets,
                b".debug_ranges" => &mut sections.ranges[0],
                b".debug_rnglists" => &mut sections.ranges[1],
                b".debug_loc" => &mut sections.locations[0],
                b".debug_loclists" => &mut sections.locations[1],
                b".debug_aranges"
                | b".debug_pubnames"
                | b".debug_pubtypes"
                | b".debug_gnu_pubnames"
                | b".debug_gnu_pubtypes" => {
                    sections.by_unit.push(read(input, index)?);
                    continue;
                }
                _ if name.starts_with(b".debug_line.") => {
                    return Err(input.about(index, "its entries cannot be removed"));
                }
                _ => continue,
            };
            if slot.replace(read(input, index)?).is_some() {
                return Err(input.about(index, "is there twice"));
            }
        }
        Ok(sections.info.is_some().then_some(sections))
    }
}

/// Check that only relocations of the object itself refer to places in its debug sections.
///
/// # Errors
/// A symbol is defined in one of them, and other objects may refer to that symbol (Free Pascal, gcc's link-time optimisation).
fn has_no_symbols(input: &Input<'_>) -> Result<()> {
    for (index, symbol) in input.symbols.iter().enumerate() {
        let SymbolPlace::Section(section) = input.place(index)? else { continue };
        // rustc names its `.debug_gdb_scripts`, which is loaded.
        let is_loaded = input.section(section as usize)?.sh_flags.get(LE).0 & elf::SHF_ALLOC.0 != 0;
        if symbol.st_type() != elf::STT_SECTION
            && !is_loaded
            && input.section_name(section as usize).starts_with(b".debug_")
        {
            return Err(input.about(section as usize, "a symbol names a place in it"));
        }
    }
    Ok(())
}

/// A section with its relocations applied; an address of an undefined symbol is one of section 0.
fn read<'a>(input: &Input<'a>, index: usize) -> Result<DebugSection<'a>> {
    let mut section = DebugSection::read(input, index)?;
    for entry in section.relocations.iter() {
        let is_address = entry.r_type(LE, false) == elf::R_X86_64_64;
        if is_address && input.place(entry.r_sym(LE, false) as usize)? == SymbolPlace::Undefined {
            let at = usize::try_from(entry.r_offset.get(LE)).unwrap_or(usize::MAX);
            let field = section.linked.get_mut(at..at.saturating_add(8));
            if let (Some(field), Some(address)) = (field, encode(0, 0)) {
                field.copy_from_slice(&address.to_le_bytes());
            }
        }
    }
    Ok(section)
}

/// The new places of bytes of the changed sections.
struct Moved<'m> {
    sections: &'m CollectedSections<'m>,
    entries: &'m EntryTable,
    units: &'m NewUnits,
    lines: Option<LineMap>,
    strings: Option<StringMap>,
    /// Each with the index of the section, and where the last place of it was.
    lists: Vec<(usize, OffsetMap)>,
}

impl Moved<'_> {
    /// The new offset of a place in a section; `None` if the section did not change.
    fn place(&self, section: usize, old: u64) -> Result<Option<u64>> {
        let is = |of: &Option<DebugSection<'_>>| of.as_ref().is_some_and(|s| s.index == section);
        let lost = || invalid("a relocation means a place that is removed");
        if is(&self.sections.info) {
            let unit = self.entries.units.binary_search_by_key(&old, |unit| unit.start).ok();
            let start =
                unit.and_then(|unit| self.units.units.get(unit).copied().flatten()).map(|(start, _)| start);
            let found = start.or_else(|| self.units.place_of(self.entries, old));
            return found.map(Some).ok_or_else(lost);
        }
        if is(&self.sections.abbreviations) {
            let unit = self.entries.units.iter().position(|unit| unit.abbreviations == old);
            return unit.and_then(|unit| self.units.tables.get(unit).copied()).map(Some).ok_or_else(lost);
        }
        if is(&self.sections.lines) {
            let found = self.lines.as_ref().and_then(|lines| lines.place(old));
            return found.map(Some).ok_or_else(lost);
        }
        if let Some((_, map)) = self.lists.iter().find(|(list, _)| *list == section) {
            return map.map(old).map(Some).ok_or_else(lost);
        }
        match &self.strings {
            Some(strings) if is(&self.sections.strings) => strings.place(old).map(Some).ok_or_else(lost),
            _ => Ok(None),
        }
    }

    /// Let the addends of these relocations follow. Returns whether one changed.
    fn apply(&self, input: &Input<'_>, relocations: &mut [Rela]) -> Result<bool> {
        let mut changed = false;
        for entry in relocations {
            let symbol = entry.r_sym(LE, false) as usize;
            let SymbolPlace::Section(section) = input.place(symbol)? else { continue };
            let value = input.symbols.get(symbol).map_or(0, |s| s.st_value.get(LE));
            let old = value.wrapping_add_signed(entry.r_addend.get(LE));
            let Some(new) = self.place(section as usize, old)? else { continue };
            if value != 0 && new != old {
                return Err(invalid("a symbol names a place in a debug section"));
            }
            changed |= new != old;
            entry.r_addend = I64::new(LE, new.wrapping_sub(value) as i64);
        }
        Ok(changed)
    }
}

/// All sections that change, with their relocations; `None` if a new table of addresses has no address.
fn changes(
    input: &Input<'_>,
    mut sections: CollectedSections<'_>,
    entries: &EntryTable,
    mut units: NewUnits,
    mut slots: Option<AddressSlots>,
) -> Result<Option<Surgery>> {
    let mut surgery = Surgery::default();
    let mut lists = [0, 1].map(|i| sections.locations[i].as_ref().map(|s| s.raw.to_vec()));
    units.set_references(entries, &mut lists)?;
    let mut changed: Vec<(usize, Vec<u8>, Vec<Rela>)> = Vec::new();
    for (section, bytes) in sections.locations.iter_mut().zip(lists) {
        if let (Some(section), Some(bytes)) = (section, bytes)
            && bytes[..] != section.raw[..]
        {
            changed.push((section.index, bytes.clone(), section.relocations.to_vec()));
            section.raw = bytes.into();
        }
    }
    let sections = &sections;
    let mut moved_lists = Vec::new();
    let lists_of = |section: &Option<DebugSection<'_>>, number: u8, slots: Option<&mut AddressSlots>| {
        let addresses = sections.addresses.as_ref();
        let lists = |section| lists::lists(section, number, entries, &units, addresses, slots);
        section.as_ref().map_or(Ok(None), lists)
    };
    let [[ranges_4, ranges_5], [locations_4, locations_5]] = [&sections.ranges, &sections.locations];
    // addr2line of binutils reads no slots in ranges.
    let (locations, ranges) = rayon::join(
        || [lists_of(locations_4, 2, None), lists_of(locations_5, 3, slots.as_mut())],
        || [lists_of(ranges_4, 0, None), lists_of(ranges_5, 1, None)],
    );
    for lists in ranges.into_iter().chain(locations) {
        if let Some((draft, map)) = lists? {
            changed.retain(|(index, ..)| *index != draft.index);
            moved_lists.push((draft.index, map));
            changed.push((draft.index, draft.bytes, draft.relocations));
        }
    }
    if slots.as_ref().is_some_and(|slots| slots.is_new && slots.count() == 0) {
        return Ok(None);
    }
    if let (Some(section), Some(slots)) = (&sections.addresses, slots) {
        changed.push((section.index, slots.bytes, slots.relocations));
    }
    for section in &sections.by_unit {
        let draft = tables::by_unit(input, section, entries, &units)?;
        changed.push((section.index, draft.bytes, draft.relocations));
    }
    // Macros name strings by the same slots.
    let slots = sections.string_offsets.as_ref().filter(|_| !sections.has_macros);
    if let Some(section) = slots
        && let Some(slots) = StringSlots::of(section, entries, &units)?
    {
        units.set_strings(entries, &slots)?;
        changed.push((section.index, slots.draft.bytes, slots.draft.relocations));
    }
    let mut others: Vec<(usize, Vec<Rela>)> = Vec::new();
    let rewritten = |section: usize| {
        let of = |s: &Option<DebugSection<'_>>| s.as_ref().is_some_and(|s| s.index == section);
        of(&sections.info) || of(&sections.abbreviations) || of(&sections.lines) || of(&sections.strings)
    };
    for index in (1..input.sections.len()).filter(|i| input.role(*i) == Role::Relocations) {
        let target = input.section(index)?.sh_info.get(LE) as usize;
        let is_alloc = input.section(target)?.sh_flags.get(LE).0 & elf::SHF_ALLOC.0 != 0;
        if is_alloc || rewritten(target) || changed.iter().any(|(section, ..)| *section == target) {
            continue;
        }
        others.push((target, input.table::<Rela>(index)?.to_vec()));
    }
    // All references to lines and strings are known now: those of kept units, of other sections, and of slots of string offsets.
    let (mut bytes, mut info) =
        (std::mem::take(&mut units.draft.bytes), std::mem::take(&mut units.draft.relocations));
    let of_lines = || info.iter().chain(others.iter().flat_map(|(_, r)| r));
    let lines = sections.lines.as_ref().map(|lines| LineMap::of(input, lines, of_lines())).transpose()?;
    let refers = || {
        let lines = lines.iter().flat_map(|lines| &lines.draft.relocations);
        let changed = changed.iter().flat_map(|(.., r)| r);
        of_lines().chain(lines).chain(changed)
    };
    let strings = match &sections.strings {
        Some(strings) if !entries.has_unknown_strings => Some(StringMap::of(input, strings, refers())?),
        _ => None,
    };
    let abbreviations = std::mem::take(&mut units.abbreviations);
    let mut moved = Moved { sections, entries, units: &units, lines, strings, lists: moved_lists };
    moved.apply(input, &mut info)?;
    units.set_table_offsets(entries, &info, &mut bytes)?;
    if let Some(section) = &sections.info {
        surgery.changes.push(Change { section: section.index, bytes: Some(bytes), relocations: Some(info) });
    }
    if let Some(section) = &sections.abbreviations {
        let relocations = Some(Vec::new());
        surgery.changes.push(Change { section: section.index, bytes: Some(abbreviations), relocations });
    }
    for (section, bytes, mut relocations) in changed {
        moved.apply(input, &mut relocations)?;
        surgery.changes.push(Change { section, bytes: Some(bytes), relocations: Some(relocations) });
    }
    for (section, mut relocations) in others {
        if moved.apply(input, &mut relocations)? {
            surgery.changes.push(Change { section, bytes: None, relocations: Some(relocations) });
        }
    }
    let draft = moved.lines.as_mut().map(|lines| std::mem::replace(&mut lines.draft, SectionDraft::new(0)));
    if let Some(SectionDraft { index, bytes, mut relocations, .. }) = draft {
        moved.apply(input, &mut relocations)?;
        surgery.changes.push(Change { section: index, bytes: Some(bytes), relocations: Some(relocations) });
    }
    if let (Some(section), Some(strings)) = (&sections.strings, moved.strings) {
        surgery.changes.push(Change {
            section: section.index,
            bytes: Some(strings.bytes),
            relocations: None,
        });
    }
    Ok(Some(surgery))
}
