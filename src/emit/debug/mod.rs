//! Debug information of an object whose sections are emitted in parts: every address in it made explicit (DWARF 2 to 5).
//!
//! [`rewrite`] makes an object with the same sections and symbols, in which debug information says nothing of code by its distance
//! from other code any more: line number programs have a sequence for each part ([`lines`]), lists of ranges and locations are
//! start and length ([`lists`]), the span of a unit is ranges ([`units`]), so is `.debug_aranges` ([`aranges`]). The rest of
//! emission then treats each address by itself, like in an object with function sections. Entries of units keep size and place.
//! Sound because whatever is not known to be right is an error, upon which the object is kept whole.
//!
//! A section with several functions of which all go is treated alike: where it was, at address 0 in the output, it would reach
//! into the code of a position-independent program.
//!
//! Left out: a section that holds only one function, or from which nothing goes, needs none of this; `.debug_frame`,
//! `.debug_names`, `.debug_macro` and strings say nothing by distance.

mod aranges;
mod draft;
pub(super) mod gc;
mod layout;
mod lines;
mod lists;
mod surgery;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
mod units;
mod view;

use object::elf;
use rayon::prelude::*;

use self::draft::{OffsetMap, SectionDraft, relocation};
use self::layout::{Layout, SectionSymbols};
use self::lists::{ListReader, ListSection, ListUse, append_ranges};
use self::surgery::{Addition, Change, Surgery};
use self::units::{Needs, SpanUnit, Tables};
use self::view::DebugSection;
use super::debug_frame::{self, DebugFrame};
use super::input::{Input, LE, Rela, Role, SymbolPlace};
use super::overlay::Overlay;
use super::parts::{Meant, SplitSections};
use crate::error::{Error, Result, Stage};
use crate::plan::Action;

/// An object with explicit debug information.
#[derive(Debug)]
pub struct ExplicitDebug {
    /// The sections of the input in their order, then new ones.
    pub(super) overlay: Overlay,
    /// The new sections, by index. Relocations refer to the first by the number of symbols, to the second by one more.
    pub(super) added: Vec<u32>,
    /// What addresses at the seams of parts mean, sorted.
    pub(super) meant: Vec<Meant>,
}

/// The names of sections that hold lists, of DWARF up to 4 and from 5 on.
const RANGES: [&[u8]; 2] = [b".debug_ranges", b".debug_rnglists"];
const ADDRESSES: &[u8] = b".debug_addr";
const LOCATIONS: [&[u8]; 2] = [b".debug_loc", b".debug_loclists"];

/// Make debug information explicit; `None` if the object has none, or code of it is not emitted in parts. Sections that are
/// relocated are not compressed in what is made, since fields of what is dropped are written into their contents.
///
/// # Errors
/// Debug information that is malformed or of a form that can't be made explicit. The object may then not be divided.
pub(super) fn rewrite(input: &Input<'_>, parts: &SplitSections<'_>) -> Result<Option<ExplicitDebug>> {
    let is_code = |section: u32| {
        let flags = input.section(section as usize).map_or(0, |s| s.sh_flags.get(LE).0);
        flags & elf::SHF_EXECINSTR.0 != 0
    };
    let goes_whole = |section: u32| {
        parts.action_of_section(section) == Some(Action::Drop) && parts.atoms_of(section).1.len() > 1
    };
    let is_divided = parts.sections.iter().any(|p| p.only().is_none() && is_code(p.section))
        || (1..input.sections.len() as u32).any(|section| is_code(section) && goes_whole(section));
    let named = |prefix: &[u8]| -> Vec<usize> {
        let stays = |i: usize| parts.action_of_section(i as u32) != Some(Action::Drop);
        let of_name =
            |i: &usize| input.role(*i) == Role::Content && input.section_name(*i).starts_with(prefix);
        (1..input.sections.len()).filter(of_name).filter(|i| stays(*i)).collect()
    };
    if let Some(old_style) = named(b".zdebug").first() {
        return Err(input.about(*old_style, "debug information compressed in the old way"));
    }
    if !is_divided || named(b".debug").is_empty() {
        return without_parts(input, parts);
    }
    let symbols = &SectionSymbols::read(input)?;
    let layout = Layout { input, parts, symbols };
    let sections = Sections::read(input)?;
    let (lines, lists) = rayon::join(
        || lines_and_aranges(input, layout, &sections),
        || units_and_lists(input, layout, &sections),
    );
    let (needs, lists) = lists?;
    let rewritten = [lines?, lists].into_iter().flatten().collect();
    write(input, layout, sections, needs, rewritten).map(Some)
}

/// The sections that no unit needs to have been read for.
fn lines_and_aranges(
    input: &Input<'_>,
    layout: Layout<'_>,
    sections: &Sections<'_>,
) -> Result<Vec<(SectionDraft, OffsetMap)>> {
    let mut rewritten = Vec::new();
    if let Some(lines) = &sections.lines {
        rewritten.push(lines::rewrite(lines, layout).map_err(|e| e.in_section(name(input, lines.index)))?);
    }
    if let Some(aranges) = &sections.aranges {
        let draft = aranges::rewrite(aranges, layout);
        let draft = draft.map_err(|e| e.in_section(name(input, aranges.index)))?;
        rewritten.push((draft, OffsetMap::default()));
    }
    Ok(rewritten)
}

/// What the units need, and the sections of lists, by what the units say of them.
fn units_and_lists(
    input: &Input<'_>,
    layout: Layout<'_>,
    sections: &Sections<'_>,
) -> Result<(Needs, Vec<(SectionDraft, OffsetMap)>)> {
    let mut needs = Needs::default();
    for info in &sections.units {
        let Some(abbreviations) = &sections.abbreviations else {
            return Err(input.about(info.index, "has no abbreviations"));
        };
        let range_lists = |version: usize| sections.ranges.get(version).and_then(Option::as_ref);
        let location_lists = |version: usize| sections.locations.get(version).and_then(Option::as_ref);
        let tables = Tables {
            abbreviations,
            addresses: sections.addresses.as_ref(),
            ranges: [range_lists(0), range_lists(1)],
            locations: [location_lists(0), location_lists(1)],
            layout,
        };
        units::read(info, tables, &mut needs).map_err(|e| e.in_section(name(input, info.index)))?;
    }
    needs.skeletons.sort_unstable_by_key(|(offset, _)| *offset);
    needs.skeletons.dedup();
    if needs.skeletons.array_windows().any(|[a, b]| a.0 == b.0) {
        return Err(Error::new(Stage::Emit, "two units with .dwo files share their lists of ranges"));
    }
    let mut rewritten = Vec::new();
    for (tables, uses, is_locations) in
        [(&sections.ranges, &mut needs.ranges, false), (&sections.locations, &mut needs.locations, true)]
    {
        for (version, (section, uses)) in tables.iter().zip(uses).enumerate() {
            let Some(section) = section else { continue };
            uses.sort_by_key(|list: &ListUse| list.offset);
            let addresses = sections.addresses.as_ref();
            let is_coded = version == 1;
            let skeletons = if is_locations || is_coded { &[][..] } else { &needs.skeletons };
            let reader = ListReader { section, addresses, is_locations, is_coded };
            let lists = ListSection { reader, layout, skeletons };
            let lists = lists.rewrite(uses).map_err(|e| e.in_section(name(input, section.index)))?;
            rewritten.push(lists);
        }
    }
    Ok((needs, rewritten))
}

/// The object with all sections that are relocated decompressed; `None` if none is compressed, and no unwind entry is removed from kept
/// functions.
fn without_parts(input: &Input<'_>, parts: &SplitSections<'_>) -> Result<Option<ExplicitDebug>> {
    let mut surgery = Surgery::default();
    surgery.decompress(input)?;
    if surgery.changes.is_empty() && !parts.writes_debug_frame() && !wants_addresses(input, parts) {
        return Ok(None);
    }
    finish(surgery, input, parts, Vec::new()).map(Some)
}

/// The object that all of this makes, with the unwind entries that kept functions lose.
fn finish(
    mut surgery: Surgery,
    input: &Input<'_>,
    parts: &SplitSections<'_>,
    meant: Vec<Meant>,
) -> Result<ExplicitDebug> {
    if wants_addresses(input, parts) {
        let (bytes, relocations) = Default::default();
        surgery.additions.push(Addition { name: ADDRESSES, bytes, relocations, align: 1 });
    }
    let count = surgery.additions.len();
    let symbol = (input.symbols.len() + count) as u32;
    if let Some(DebugFrame { bytes, relocations }) = debug_frame::of_object(input, parts, symbol)? {
        let align = debug_frame::ALIGN as u64;
        surgery.additions.push(Addition { name: debug_frame::NAME, bytes, relocations, align });
    }
    let indices = 0..surgery.additions.len();
    let added = indices.map(|i| surgery::index_of_addition(input, i) as u32).collect();
    Ok(ExplicitDebug { overlay: surgery.perform(input)?, added, meant })
}

/// Whether the collection of entries gets a section for addresses, which it fills for location lists.
fn wants_addresses(input: &Input<'_>, parts: &SplitSections<'_>) -> bool {
    let has = |name: &[u8]| (1..input.sections.len()).any(|i| input.section_name(i) == name);
    parts.shrinks_debug() && has(LOCATIONS[1]) && !has(ADDRESSES)
}

fn name(input: &Input<'_>, index: usize) -> String {
    String::from_utf8_lossy(input.section_name(index)).into_owned()
}

/// The debug sections that are read.
#[derive(Debug, Default)]
struct Sections<'a> {
    units: Vec<DebugSection<'a>>,
    abbreviations: Option<DebugSection<'a>>,
    addresses: Option<DebugSection<'a>>,
    lines: Option<DebugSection<'a>>,
    aranges: Option<DebugSection<'a>>,
    ranges: [Option<DebugSection<'a>>; 2],
    locations: [Option<DebugSection<'a>>; 2],
}

impl<'a> Sections<'a> {
    fn read(input: &Input<'a>) -> Result<Self> {
        let mut wanted: Vec<(DebugSectionKind, usize)> = Vec::new();
        for index in 1..input.sections.len() {
            let name = input.section_name(index);
            if input.role(index) != Role::Content
                || !(name.starts_with(b".debug_") || name.ends_with(b".dwo"))
            {
                continue;
            }
            let Some(kind) = DebugSectionKind::of(name) else {
                if name.starts_with(b".debug_line.") || name.ends_with(b".dwo") {
                    return Err(input.about(index, "debug information in sections of an unknown name"));
                }
                continue;
            };
            if kind != DebugSectionKind::Units && wanted.iter().any(|(other, _)| *other == kind) {
                return Err(input.about(index, "is there twice"));
            }
            wanted.push((kind, index));
        }
        let read: Vec<Result<DebugSection<'a>>> =
            wanted.par_iter().map(|(_, index)| DebugSection::read(input, *index)).collect();
        let mut sections = Sections::default();
        for ((kind, _), section) in wanted.into_iter().zip(read) {
            let section = section?;
            let slot = match kind {
                DebugSectionKind::Units => {
                    sections.units.push(section);
                    continue;
                }
                DebugSectionKind::Abbreviations => &mut sections.abbreviations,
                DebugSectionKind::Addresses => &mut sections.addresses,
                DebugSectionKind::Lines => &mut sections.lines,
                DebugSectionKind::Aranges => &mut sections.aranges,
                DebugSectionKind::Ranges(version) => &mut sections.ranges[usize::from(version)],
                DebugSectionKind::Locations(version) => &mut sections.locations[usize::from(version)],
            };
            *slot = Some(section);
        }
        Ok(sections)
    }
}

/// What a debug section that is read holds. Of lists, whether it is the section of DWARF 5 and later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DebugSectionKind {
    Units,
    Abbreviations,
    Addresses,
    Lines,
    Aranges,
    Ranges(bool),
    Locations(bool),
}

impl DebugSectionKind {
    fn of(name: &[u8]) -> Option<DebugSectionKind> {
        Some(match name {
            b".debug_info" => DebugSectionKind::Units,
            b".debug_abbrev" => DebugSectionKind::Abbreviations,
            n if n == ADDRESSES => DebugSectionKind::Addresses,
            b".debug_line" => DebugSectionKind::Lines,
            b".debug_aranges" => DebugSectionKind::Aranges,
            n if n == RANGES[0] => DebugSectionKind::Ranges(false),
            n if n == RANGES[1] => DebugSectionKind::Ranges(true),
            n if n == LOCATIONS[0] => DebugSectionKind::Locations(false),
            n if n == LOCATIONS[1] => DebugSectionKind::Locations(true),
            _ => return None,
        })
    }
}

fn write(
    input: &Input<'_>,
    layout: Layout<'_>,
    sections: Sections<'_>,
    mut needs: Needs,
    mut rewritten: Vec<(SectionDraft, OffsetMap)>,
) -> Result<ExplicitDebug> {
    let mut surgery = Surgery::default();
    // For each unit whose span becomes ranges: the symbol and offset of its list.
    let mut places: Vec<(u32, u64)> = vec![(0, 0); needs.spans.len()];
    for (version, table) in sections.ranges.iter().enumerate() {
        let is_coded = version == 1;
        let of_version = |span: &SpanUnit| (span.version >= 5) == is_coded;
        let lists: Vec<&[(u64, u64)]> =
            needs.spans.iter().filter(|s| of_version(s)).map(|s| s.ranges.as_slice()).collect();
        if lists.is_empty() {
            continue;
        }
        let old = table.as_ref().and_then(|t| rewritten.iter_mut().find(|(d, _)| d.index == t.index));
        let (symbol, offsets) = match old {
            Some((draft, _)) => {
                let offsets = append_ranges(draft, layout, is_coded, &lists)?;
                (layout.symbols.of_section(input, draft.index)?, offsets)
            }
            None => {
                let count = surgery.additions.len();
                let mut draft = SectionDraft::new(surgery::index_of_addition(input, count));
                let offsets = append_ranges(&mut draft, layout, is_coded, &lists)?;
                needs.meant.append(&mut draft.meant);
                let name = RANGES.get(version).copied().unwrap_or_default();
                let SectionDraft { bytes, relocations, .. } = draft;
                surgery.additions.push(Addition { name, bytes, relocations, align: 1 });
                ((input.symbols.len() + count) as u32, offsets)
            }
        };
        let of_spans = needs.spans.iter().zip(&mut places).filter(|(s, _)| of_version(s));
        of_spans.zip(offsets).for_each(|((_, place), offset)| *place = (symbol, offset));
    }
    let (drafts, offsets): (Vec<SectionDraft>, Vec<OffsetMap>) = rewritten.into_iter().unzip();
    let sections_of: Vec<usize> = drafts.iter().map(|draft| draft.index).collect();
    let maps = SectionOffsetMaps::new(input, &sections_of, &offsets)?;
    let mut abbreviations = sections.abbreviations.as_ref().map(|a| a.raw.to_vec()).unwrap_or_default();
    if has_one_unit(input, &sections) && !needs.spans.is_empty() {
        // Nothing else refers to the table that its new one replaces.
        abbreviations.clear();
    }
    for mut units in sections.units {
        let relocations = maps.apply(input, std::mem::take(&mut units.relocations).into_owned())?;
        surgery.changes.push(change_units(units, relocations, &needs, &places, &mut abbreviations)?);
    }
    if let Some(old) = sections.abbreviations.as_ref().filter(|old| *old.raw != abbreviations[..]) {
        surgery.changes.push(Change {
            section: old.index,
            bytes: Some(abbreviations),
            relocations: Some(old.relocations.to_vec()),
        });
    }
    for draft in drafts {
        let SectionDraft { index, bytes, relocations, mut meant, .. } = draft;
        needs.meant.append(&mut meant);
        let relocations = Some(maps.apply(input, relocations)?);
        surgery.changes.push(Change { section: index, bytes: Some(bytes), relocations });
    }
    maps.apply_elsewhere(input, &mut surgery)?;
    surgery.decompress(input)?;
    needs.meant.sort_unstable();
    needs.meant.dedup();
    finish(surgery, input, layout.parts, needs.meant)
}

/// Whether all that an object describes is in one unit.
fn has_one_unit(input: &Input<'_>, sections: &Sections<'_>) -> bool {
    let [units] = &sections.units[..] else { return false };
    let has_types = (1..input.sections.len()).any(|i| input.section_name(i).starts_with(b".debug_types"));
    let mut headers = gimli::DebugInfo::new(&units.linked, gimli::LittleEndian).units();
    !has_types && matches!((headers.next(), headers.next()), (Ok(Some(_)), Ok(None)))
}

/// The units of a section, with ranges in place of spans. `relocations` are those of the section, `places` the symbols
/// and offsets of the lists of ranges; tables of abbreviations are appended.
fn change_units(
    units: DebugSection<'_>,
    mut relocations: Vec<Rela>,
    needs: &Needs,
    places: &[(u32, u64)],
    abbreviations: &mut Vec<u8>,
) -> Result<Change> {
    let early = || Error::new(Stage::Emit, "a unit ends early");
    let mut bytes = units.raw.into_owned();
    let here = |section: &usize| *section == units.index;
    let mut zeroed: Vec<u64> = needs.zeroed.iter().filter(|(s, _)| here(s)).map(|(_, at)| *at).collect();
    zeroed.sort_unstable();
    zeroed.iter().try_for_each(|at| fill(&mut bytes, *at, 8, 0))?;
    for (_, at, size, form) in needs.lengths.iter().filter(|(s, ..)| here(s)) {
        fill(&mut bytes, *at, *size, 0)?;
        if *form == gimli::constants::DW_FORM_udata {
            // Zero in as many bytes (DWARF 5, 7.6).
            fill(&mut bytes, *at, *size - 1, 0x80)?;
        }
    }
    relocations.retain(|entry| zeroed.binary_search(&entry.r_offset.get(LE)).is_err());
    let mut added: Vec<Rela> = Vec::new();
    for (span, (symbol, place)) in needs.spans.iter().zip(places).filter(|(s, _)| here(&s.section)) {
        let field = relocations.binary_search_by_key(&span.abbreviations_field, |r| r.r_offset.get(LE));
        let field = field.ok().and_then(|i| relocations.get_mut(i)).ok_or_else(early)?;
        field.r_addend.set(LE, abbreviations.len() as i64);
        abbreviations.extend_from_slice(&span.new_abbreviations);
        fill(&mut bytes, span.high_pc.0, span.high_pc.1, 0)?;
        added.push(relocation(span.high_pc.0, elf::R_X86_64_32, *symbol, *place as i64));
    }
    relocations.append(&mut added);
    relocations.sort_by_key(|entry| entry.r_offset.get(LE));
    Ok(Change { section: units.index, bytes: Some(bytes), relocations: Some(relocations) })
}

/// Set bytes of a section to one value.
fn fill(bytes: &mut [u8], start: u64, size: u64, value: u8) -> Result<()> {
    let range = || Some(usize::try_from(start).ok()?..usize::try_from(start.checked_add(size)?).ok()?);
    let field = range().and_then(|range| bytes.get_mut(range));
    field.ok_or_else(|| Error::new(Stage::Emit, "a unit ends early"))?.fill(value);
    Ok(())
}

/// The rewritten sections by their section symbols, which offsets into them are relocated against.
struct SectionOffsetMaps<'m> {
    /// The elements are indexed by symbol.
    maps: Vec<(u32, usize, &'m OffsetMap)>,
}

impl<'m> SectionOffsetMaps<'m> {
    fn new(input: &Input<'_>, sections: &[usize], offsets: &'m [OffsetMap]) -> Result<Self> {
        let mut maps = Vec::new();
        for (i, symbol) in input.symbols.iter().enumerate() {
            let SymbolPlace::Section(section) = input.place(i)? else { continue };
            let section = section as usize;
            if let Some((_, map)) = sections.iter().zip(offsets).find(|(s, _)| **s == section) {
                if symbol.st_value.get(LE) != 0 {
                    return Err(input.about(section, "a symbol is in the middle of debug information"));
                }
                maps.push((i as u32, section, map));
            }
        }
        Ok(SectionOffsetMaps { maps })
    }

    /// Let offsets into rewritten sections be those of the new contents.
    fn apply(&self, input: &Input<'_>, mut relocations: Vec<Rela>) -> Result<Vec<Rela>> {
        let mut near = 0;
        for entry in &mut relocations {
            let symbol = entry.r_sym(LE, false);
            let Ok(found) = self.maps.binary_search_by_key(&symbol, |(symbol, ..)| *symbol) else { continue };
            let Some((_, section, map)) = self.maps.get(found) else { continue };
            let old = entry.r_addend.get(LE);
            let new = u64::try_from(old).ok().and_then(|old| map.map(old, &mut near));
            let unknown = || input.about(*section, format!("what is referred to at {old:#x} is not known"));
            entry.r_addend.set(LE, new.ok_or_else(unknown)? as i64);
        }
        Ok(relocations)
    }

    /// The same for the relocations of all sections that are not changed yet.
    fn apply_elsewhere(&self, input: &Input<'_>, surgery: &mut Surgery) -> Result<()> {
        for table in (1..input.sections.len()).filter(|i| input.role(*i) == Role::Relocations) {
            let section = input.section(table)?.sh_info.get(LE) as usize;
            if surgery.changes.iter().any(|c| c.section == section) {
                continue;
            }
            let entries: &[Rela] = input.table(table)?;
            let is_mapped = |entry: &Rela| self.maps.iter().any(|(s, ..)| *s == entry.r_sym(LE, false));
            if entries.iter().any(is_mapped) {
                let relocations = Some(self.apply(input, entries.to_vec())?);
                surgery.changes.push(Change { section, bytes: None, relocations });
            }
        }
        Ok(())
    }
}
