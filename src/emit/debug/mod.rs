//! Explicit addresses in the debug information of divided objects (DWARF 2 to 5).
//!
//! In the result of [`rewrite`] no address is a distance from other code. Line number programs have a sequence for each part
//! ([`lines`]), lists are start and length ([`lists`]), and the span of a unit becomes ranges ([`units`]). Emission then
//! relocates each address, as in an object with function sections. Entries of units keep size and place. An unknown form is an error,
//! and then nothing of the object is dropped.
//!
//! Sections with several functions that are all dropped need this too. In the output such a section would be at address 0, and reach
//! into the code of a position-independent program.

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

use self::draft::{OffsetMap, SectionDraft};
use self::layout::{Layout, SectionSymbols};
use self::lists::{ListReader, ListSection, ListUse, append_ranges};
use self::surgery::{Addition, Change, Surgery};
use self::units::{Needs, SpanUnit, Tables};
use self::view::DebugSection;
use super::debug_frame::{self, DebugFrame};
use super::input::{Input, LE, Overlay, Rela, Role, SymbolPlace};
use super::parts::{Meant, SplitSections};
use super::write::relocation;
use crate::error::{Error, Result, Stage};
use crate::plan::{Action, DebugCollection};

/// An object with explicit debug information.
#[derive(Debug)]
pub struct ExplicitDebug {
    /// The sections of the input in their order, then new ones.
    pub(super) overlay: Overlay,
    /// The new sections, by index. Relocations refer to the first by the number of symbols, to the second by one more.
    pub(super) added: Vec<u32>,
    /// The atoms of addresses between two atoms, sorted.
    pub(super) meant: Vec<Meant>,
}

/// The names of sections that hold lists, of DWARF up to 4 and from 5 on.
const RANGES: [&[u8]; 2] = [b".debug_ranges", b".debug_rnglists"];
const ADDRESSES: &[u8] = b".debug_addr";
const LOCATIONS: [&[u8]; 2] = [b".debug_loc", b".debug_loclists"];

/// Decompress relocated debug sections, make the debug information of divided code explicit, and add `.debug_frame` and `.debug_addr`
/// if they are needed. `None` if nothing changes. The fields of dropped code are written into the decompressed contents.
///
/// # Errors
/// Debug information is malformed or of an unknown form. Then the object may not be divided.
pub(super) fn rewrite(input: &Input<'_>, split: &SplitSections<'_>) -> Result<Option<ExplicitDebug>> {
    let is_code = |section: u32| {
        let flags = input.section(section as usize).map_or(0, |s| s.sh_flags.get(LE).0);
        flags & elf::SHF_EXECINSTR.0 != 0
    };
    let is_dropped = |section: u32| {
        split.action_of_section(section) == Some(Action::Drop) && split.atoms_of(section).1.len() > 1
    };
    let is_divided = split.sections.iter().any(|p| p.only.is_none() && is_code(p.section))
        || (1..input.sections.len() as u32).any(|section| is_code(section) && is_dropped(section));
    let named = |prefix: &[u8]| -> Vec<usize> {
        let is_kept = |i: usize| split.action_of_section(i as u32) != Some(Action::Drop);
        let of_name =
            |i: &usize| input.role(*i) == Role::Content && input.section_name(*i).starts_with(prefix);
        (1..input.sections.len()).filter(of_name).filter(|i| is_kept(*i)).collect()
    };
    if let Some(old_style) = named(b".zdebug").first() {
        return Err(input.about(*old_style, "debug information compressed in the old way"));
    }
    if !is_divided || named(b".debug").is_empty() {
        return without_parts(input, split);
    }
    let symbols = &SectionSymbols::read(input)?;
    let layout = Layout { input, split, symbols };
    let sections = Sections::read(input)?;
    let (lines, lists) = rayon::join(
        || lines_and_aranges(input, layout, &sections),
        || units_and_lists(input, layout, &sections),
    );
    let (needs, lists) = lists?;
    let rewritten = [lines?, lists].into_iter().flatten().collect();
    write(input, layout, sections, needs, rewritten).map(Some)
}

/// Rewrite the sections that do not depend on the units.
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
        let draft = lines::rewrite_aranges(aranges, layout);
        let draft = draft.map_err(|e| e.in_section(name(input, aranges.index)))?;
        rewritten.push((draft, OffsetMap::default()));
    }
    Ok(rewritten)
}

/// Read the units, and rewrite the lists that they use.
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

/// Decompress all relocated sections, and add `.debug_frame` and `.debug_addr` if they are needed; `None` if nothing changes.
fn without_parts(input: &Input<'_>, split: &SplitSections<'_>) -> Result<Option<ExplicitDebug>> {
    let mut surgery = Surgery::default();
    surgery.decompress(input)?;
    if surgery.changes.is_empty() && !split.plan.writes_debug_frame && !wants_addresses(input, split) {
        return Ok(None);
    }
    finish(surgery, input, split, Vec::new()).map(Some)
}

/// Apply the changes, and add `.debug_frame` and `.debug_addr` if they are needed.
fn finish(
    mut surgery: Surgery,
    input: &Input<'_>,
    split: &SplitSections<'_>,
    meant: Vec<Meant>,
) -> Result<ExplicitDebug> {
    if wants_addresses(input, split) {
        let (bytes, relocations) = Default::default();
        surgery.additions.push(Addition { name: ADDRESSES, bytes, relocations, align: 1 });
    }
    let count = surgery.additions.len();
    let symbol = (input.symbols.len() + count) as u32;
    if let Some(DebugFrame { bytes, relocations }) = debug_frame::of_object(input, split, symbol)? {
        let align = debug_frame::ALIGN as u64;
        surgery.additions.push(Addition { name: debug_frame::NAME, bytes, relocations, align });
    }
    let indices = 0..surgery.additions.len();
    let added = indices.map(|i| surgery::index_of_addition(input, i) as u32).collect();
    Ok(ExplicitDebug { overlay: surgery.perform(input)?, added, meant })
}

/// Whether an empty `.debug_addr` is added, which the collection of entries fills.
fn wants_addresses(input: &Input<'_>, split: &SplitSections<'_>) -> bool {
    let has = |name: &[u8]| (1..input.sections.len()).any(|i| input.section_name(i) == name);
    split.plan.debug == Some(DebugCollection::Unreferenced) && has(LOCATIONS[1]) && !has(ADDRESSES)
}

fn name(input: &Input<'_>, index: usize) -> String {
    String::from_utf8_lossy(input.section_name(index)).into_owned()
}

/// The debug sections that are read. The lists are those of DWARF up to 4, and of DWARF 5.
#[derive(Debug)]
struct Sections<'a> {
    units: Vec<DebugSection<'a>>,
    abbreviations: Option<DebugSection<'a>>,
    addresses: Option<DebugSection<'a>>,
    lines: Option<DebugSection<'a>>,
    aranges: Option<DebugSection<'a>>,
    ranges: [Option<DebugSection<'a>>; 2],
    locations: [Option<DebugSection<'a>>; 2],
}

/// The names of the sections that are read, in the order of the fields of [`Sections`].
const NAMES: [&[u8]; 9] = [
    b".debug_info",
    b".debug_abbrev",
    ADDRESSES,
    b".debug_line",
    b".debug_aranges",
    RANGES[0],
    RANGES[1],
    LOCATIONS[0],
    LOCATIONS[1],
];

impl<'a> Sections<'a> {
    fn read(input: &Input<'a>) -> Result<Self> {
        let mut wanted: Vec<(usize, usize)> = Vec::new();
        for index in 1..input.sections.len() {
            let name = input.section_name(index);
            let is_split = name.ends_with(b".dwo");
            if input.role(index) != Role::Content || !(name.starts_with(b".debug_") || is_split) {
                continue;
            }
            let Some(kind) = NAMES.iter().position(|known| *known == name) else {
                if name.starts_with(b".debug_line.") || is_split {
                    return Err(input.about(index, "debug information in sections of an unknown name"));
                }
                continue;
            };
            // There may be several sections of units, in groups.
            if kind != 0 && wanted.iter().any(|(other, _)| *other == kind) {
                return Err(input.about(index, "is there twice"));
            }
            wanted.push((kind, index));
        }
        let read: Vec<Result<DebugSection<'a>>> =
            wanted.par_iter().map(|(_, index)| DebugSection::read(input, *index)).collect();
        let (mut units, mut found) = (Vec::new(), [const { None }; NAMES.len()]);
        for ((kind, _), section) in wanted.into_iter().zip(read) {
            match kind {
                0 => units.push(section?),
                _ => found[kind] = Some(section?),
            }
        }
        let [_, abbreviations, addresses, lines, aranges, ranges, rnglists, loc, loclists] = found;
        let (ranges, locations) = ([ranges, rnglists], [loc, loclists]);
        Ok(Sections { units, abbreviations, addresses, lines, aranges, ranges, locations })
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
    // By unit with a span: the symbol and offset of its list of ranges.
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
        // The new table replaces the old one, which nothing else uses.
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
    finish(surgery, input, layout.split, needs.meant)
}

/// Whether an object has a single unit.
fn has_one_unit(input: &Input<'_>, sections: &Sections<'_>) -> bool {
    let [units] = &sections.units[..] else { return false };
    let has_types = (1..input.sections.len()).any(|i| input.section_name(i).starts_with(b".debug_types"));
    let mut headers = gimli::DebugInfo::new(&units.linked, gimli::LittleEndian).units();
    !has_types && matches!((headers.next(), headers.next()), (Ok(Some(_)), Ok(None)))
}

/// Replace the spans of units by ranges. `relocations` are those of the section, and `places` the symbols and offsets of the lists of
/// ranges. The new tables of abbreviations are appended.
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
            // A LEB128 zero of the same size (DWARF 5, 7.6).
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

/// Set bytes of a section to a value.
fn fill(bytes: &mut [u8], start: u64, size: u64, value: u8) -> Result<()> {
    let range = || Some(usize::try_from(start).ok()?..usize::try_from(start.checked_add(size)?).ok()?);
    let field = range().and_then(|range| bytes.get_mut(range));
    field.ok_or_else(|| Error::new(Stage::Emit, "a unit ends early"))?.fill(value);
    Ok(())
}

/// The offset maps of rewritten sections, by their section symbols.
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

    /// Replace offsets into rewritten sections by the new ones.
    fn apply(&self, input: &Input<'_>, mut relocations: Vec<Rela>) -> Result<Vec<Rela>> {
        for entry in &mut relocations {
            let symbol = entry.r_sym(LE, false);
            let Ok(found) = self.maps.binary_search_by_key(&symbol, |(symbol, ..)| *symbol) else { continue };
            let Some((_, section, map)) = self.maps.get(found) else { continue };
            let old = entry.r_addend.get(LE);
            let new = u64::try_from(old).ok().and_then(|old| map.map(old));
            let unknown = || input.about(*section, format!("the new place of {old:#x} is not known"));
            entry.r_addend.set(LE, new.ok_or_else(unknown)? as i64);
        }
        Ok(relocations)
    }

    /// Do so for the relocations of all sections that are not changed yet.
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
