//! The relocations of an object: the action of each (keep, retarget, resolve here, remove), and the bytes of relocation sections.
//!
//! [`scan`] decides all actions before symbols and sections are numbered. In an allocated section, a relocation of
//! kept contents is kept, and an error if its symbol has no definition left. Elsewhere a relocation to dropped
//! contents is resolved to the value that `ld.lld --gc-sections` writes for a dead target
//! (`InputSection::relocateNonAlloc`, lld 19). That is 1 in `.debug_loc` and `.debug_ranges`, all ones in
//! `.debug_names`, 0 in other `.debug*` sections, and else the addend.
//!
//! A relocation against the symbol of a divided section gets the section symbol of a part. Its addend says which part in
//! `.eh_frame` and in sections that are not allocated. In other sections the summary says it, since a PC-relative addend is biased.
//! Modules with REL relocations are not rewritten.

use object::elf;
use object::{I64, U64, pod};
use rayon::prelude::*;

use super::input::{Formula, Input, LE, Rela, Role, Shdr, SymbolPlace, checked_field_of, field_of};
use super::parts::{OffsetLocation, PartialSection, SplitSections, is_biased_entry};
use super::sections::{PartRelocations, SectionDisposition};
use super::symbols::{EmittedSymbols, SymbolDisposition, Symbols};
use super::tables;
use super::unwind::Unwind;
use super::write::relocation;
use crate::error::{Error, Result, all_or_first_error};
use crate::plan::Action;

/// A field whose relocation is resolved.
#[derive(Debug, Clone, Copy)]
struct Patch {
    section: u32,
    offset: u64,
    width: u8,
    value: u64,
}

/// The number of relocations that one task decides. Unit tests use small tasks, to cover the boundaries between tasks.
const SHARE: usize = if cfg!(test) { 3 } else { 1 << 14 };

#[derive(Debug, Default)]
pub(super) struct Scan {
    /// By section: the action of each entry, for kept relocation sections.
    actions: Vec<Vec<RelocationAction>>,
    /// The resolved fields in the order of their sections.
    patches: Vec<Patch>,
    /// By section: whether a relocation section has an entry left, or had none in the input.
    has_entries: Vec<bool>,
    /// The parts of divided sections that have relocations.
    pub(super) of_parts: PartRelocations,
    /// The parts whose section symbol is needed, as (old section, part), sorted.
    pub(super) section_symbols: Vec<(u32, u32)>,
}

fn truncate(value: u64, width: u8) -> u64 {
    if width >= 8 { value } else { value & ((1 << (u32::from(width) * 8)) - 1) }
}

/// Decide every relocation, and note the symbols that are still in use.
pub(super) fn scan(
    input: &Input<'_>,
    dispositions: &SectionDisposition,
    unwind: &Unwind,
    split: &SplitSections<'_>,
    symbols: &mut Symbols<'_>,
) -> Result<Scan> {
    let count = input.sections.len();
    let mut scan =
        Scan { actions: vec![Vec::new(); count], has_entries: vec![false; count], ..Scan::default() };
    for (index, section) in input.sections.iter().enumerate().skip(1) {
        if input.role(index) != Role::Relocations {
            continue;
        }
        let target_index = section.sh_info.get(LE) as usize;
        let entries: &[Rela] = input.table(index)?;
        entries.iter().for_each(|e| symbols.note_input(e.r_sym(LE, false)));
        if !dispositions.keeps(index) {
            continue;
        }
        let relocated = RelocatedSection::of(input, target_index)?;
        let divided = split.of(relocated.section);
        if relocated.is_read_in_place() {
            let size = input.data(target_index)?.len();
            entries.iter().try_for_each(|e| checked_field_of(input, target_index, size, e).map(drop))?;
        }
        let actions = actions(input, unwind, split, symbols, relocated, entries)?;
        let mut any = entries.is_empty() && divided.is_none();
        for (entry, action) in entries.iter().zip(&actions) {
            let symbol = entry.r_sym(LE, false);
            let offset = entry.r_offset.get(LE);
            if *action != RelocationAction::Remove
                && let Some(part) = divided.and_then(|p| p.part_at(offset))
            {
                scan.of_parts.old.push((index as u32, part));
                any = true;
            }
            match *action {
                RelocationAction::Keep => {
                    check_unmoved(input, unwind, relocated, entry)?;
                    symbols.note_kept(symbol);
                    any = true;
                }
                RelocationAction::Retarget { section, part, .. } => {
                    scan.section_symbols.push((section, part));
                    any = true;
                }
                RelocationAction::Remove => {}
                RelocationAction::Resolve(value) => {
                    let width = field_of(entry.r_type(LE, false)).map_or(0, |(width, _)| width);
                    let value = truncate(value, width);
                    scan.patches.push(Patch { section: relocated.section, offset, width, value });
                }
            }
        }
        if let (Some(has_entries), Some(slot)) =
            (scan.has_entries.get_mut(index), scan.actions.get_mut(index))
        {
            (*has_entries, *slot) = (any, actions);
        }
    }
    scan.patches.sort_by_key(|p| p.section);
    scan.synthesize(input, dispositions, split)?;
    Ok(scan)
}

/// The actions of a relocation section's entries, in their order. Entries in dropped contents are removed.
fn actions(
    input: &Input<'_>,
    unwind: &Unwind,
    split: &SplitSections<'_>,
    symbols: &Symbols<'_>,
    relocated: RelocatedSection,
    entries: &[Rela],
) -> Result<Vec<RelocationAction>> {
    let (moved, divided) = (unwind.of(relocated.section), split.of(relocated.section));
    let goes = |offset: u64| {
        moved.is_some_and(|m| m.relocated(offset).is_none())
            || divided.is_some_and(|p| p.part_at(offset).is_none())
    };
    let share = |entries: &[Rela]| {
        let action = |entry: &Rela| match goes(entry.r_offset.get(LE)) {
            true => Ok(RelocationAction::Remove),
            false => action_of(input, symbols, split, relocated, entry),
        };
        entries.iter().map(action).collect::<Result<Vec<RelocationAction>>>()
    };
    if entries.len() <= SHARE {
        return share(entries);
    }
    Ok(all_or_first_error(entries.par_chunks(SHARE).map(share))?.concat())
}

/// Check that a relocation names no place inside of a pruned `.eh_frame` by section symbol and addend: the addend may be a place or a
/// bias. The start of the section does not move.
fn check_unmoved(
    input: &Input<'_>,
    unwind: &Unwind,
    relocated: RelocatedSection,
    entry: &Rela,
) -> Result<()> {
    let symbol = entry.r_sym(LE, false) as usize;
    let names_section = input.symbols.get(symbol).is_some_and(|s| s.st_type() == elf::STT_SECTION);
    if names_section
        && entry.r_addend.get(LE) > 0
        && let SymbolPlace::Section(section) = input.place(symbol)?
        && unwind.of(section).is_some()
    {
        return Err(input.about(relocated.section as usize, "refers to a place inside of a pruned .eh_frame"));
    }
    Ok(())
}

/// The relocation section that gets the added relocations of `section`: the first that is kept.
fn carrier(input: &Input<'_>, dispositions: &SectionDisposition, section: u32) -> Option<usize> {
    let relocates = |(i, s): &(usize, &Shdr)| {
        input.role(*i) == Role::Relocations && s.sh_info.get(LE) == section && dispositions.keeps(*i)
    };
    input.sections.iter().enumerate().skip(1).find(relocates).map(|(i, _)| i)
}

impl Scan {
    /// Note the added relocations, and the section symbols that they and `.llvm_addrsig` need.
    fn synthesize(
        &mut self,
        input: &Input<'_>,
        dispositions: &SectionDisposition,
        split: &SplitSections<'_>,
    ) -> Result<()> {
        for divided in &split.sections {
            if split.plan.addresses.is_some() {
                let listed = divided.parts.iter().zip(0..).filter(|(part, _)| !part.foldable);
                self.section_symbols.extend(listed.map(|(_, part)| (divided.section, part)));
            }
            self.section_symbols.extend(divided.stubs().map(|(part, _)| (divided.section, part)));
            let carrier = carrier(input, dispositions, divided.section);
            for added in split.synthesized(divided.section) {
                let part =
                    divided.part_at(added.field).ok_or_else(|| lost_field(input, divided, added.field))?;
                self.section_symbols.push((divided.section, added.target));
                match carrier {
                    Some(index) => {
                        self.of_parts.old.push((index as u32, part));
                        if let Some(slot) = self.has_entries.get_mut(index) {
                            *slot = true;
                        }
                    }
                    None => self.of_parts.new.push((divided.section, part)),
                }
            }
        }
        for index in (1..input.sections.len()).filter(|i| input.role(*i) == Role::Addrsig) {
            for symbol in tables::listed(input, index)? {
                if let Some(divided) = split.of_symbol(input, symbol)? {
                    self.section_symbols
                        .extend((0..divided.parts.len() as u32).map(|r| (divided.section, r)));
                }
            }
        }
        for table in [&mut self.section_symbols, &mut self.of_parts.old, &mut self.of_parts.new] {
            table.sort_unstable();
            table.dedup();
        }
        Ok(())
    }

    /// Whether relocation section `index` has an entry left, or had none in the input.
    pub(super) fn has_entries(&self, index: usize) -> bool {
        self.has_entries.get(index).copied().unwrap_or(false)
    }

    /// Write the resolved fields into the copied contents of `section`.
    pub(super) fn patch(&self, input: &Input<'_>, section: u32, contents: &mut [u8]) -> Result<()> {
        let start = self.patches.partition_point(|p| p.section < section);
        for patch in self.patches.get(start..).unwrap_or(&[]) {
            if patch.section != section {
                break;
            }
            let width = usize::from(patch.width);
            let field = usize::try_from(patch.offset)
                .ok()
                .and_then(|at| contents.get_mut(at..at.checked_add(width)?))
                .ok_or_else(|| input.about(section as usize, "a relocation is outside of the section"))?;
            field.copy_from_slice(patch.value.to_le_bytes().get(..width).unwrap_or(&[]));
        }
        Ok(())
    }
}

/// The decisions that relocations are written from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Output<'o> {
    pub(super) input: &'o Input<'o>,
    pub(super) split: &'o SplitSections<'o>,
    pub(super) scan: &'o Scan,
    pub(super) table: &'o EmittedSymbols,
}

impl<'o> Output<'o> {
    /// The entries of relocation section `index`, each with its action.
    fn decided(&self, index: usize) -> Result<impl Iterator<Item = (&'o Rela, &'o RelocationAction)>> {
        let entries: &[Rela] = self.input.table(index)?;
        let actions = self.scan.actions.get(index).filter(|t| t.len() == entries.len());
        let undecided = || self.input.about(index, "its relocations are not decided");
        Ok(entries.iter().zip(actions.ok_or_else(undecided)?))
    }
}

/// Append the entries of relocation section `index` as they are in the output.
pub(super) fn write(output: Output<'_>, unwind: &Unwind, index: usize, out: &mut Vec<u8>) -> Result<()> {
    let moved = unwind.of(output.input.section(index)?.sh_info.get(LE));
    for (entry, action) in output.decided(index)? {
        let mut new = *entry;
        if let Some(moved) = moved {
            let Some(offset) = moved.relocated(entry.r_offset.get(LE)) else { continue };
            new.r_offset = U64::new(LE, offset);
        }
        if let Some(new) = written(output, index, action, new)? {
            out.extend_from_slice(pod::bytes_of(&new));
        }
    }
    Ok(())
}

/// The writer of the relocation sections of parts. It makes those of one divided section at a time.
pub(super) struct PartTables<'o> {
    output: Output<'o>,
    dispositions: &'o SectionDisposition,
    /// The section and the relocation section of `tables`.
    made: Option<(u32, Option<usize>)>,
    /// By part: the bytes of its relocation section.
    tables: Vec<Vec<u8>>,
}

impl<'o> PartTables<'o> {
    pub(super) fn new(output: Output<'o>, dispositions: &'o SectionDisposition) -> Self {
        PartTables { output, dispositions, made: None, tables: Vec::new() }
    }

    /// The relocations of a part of `section`: those of the relocation section `index`, and if that is the first one of the section,
    /// the added ones. They are in the order of their offsets.
    ///
    /// # Errors
    /// The section has no such part, or a relocation is in none.
    pub(super) fn get(&mut self, section: u32, index: Option<usize>, part: u32) -> Result<&[u8]> {
        if self.made != Some((section, index)) {
            self.tables = self.make(section, index)?;
            self.made = Some((section, index));
        }
        let missing = || self.output.input.about(section as usize, format!("has no part {part}"));
        self.tables.get(part as usize).map(Vec::as_slice).ok_or_else(missing)
    }

    fn make(&self, section: u32, index: Option<usize>) -> Result<Vec<Vec<u8>>> {
        let Output { input, split, table, .. } = self.output;
        let undivided = || input.about(section as usize, "is not divided");
        let divided = split.of(section).ok_or_else(undivided)?;
        let mut entries: Vec<Vec<Rela>> = vec![Vec::new(); divided.parts.len()];
        let mut push = |offset: u64, mut entry: Rela| -> Result<()> {
            let lost = || lost_field(input, divided, offset);
            let part = divided.part_at(offset).ok_or_else(lost)?;
            entry.r_offset = U64::new(LE, offset - divided.part(part)?.start);
            entries.get_mut(part as usize).ok_or_else(lost)?.push(entry);
            Ok(())
        };
        if let Some(index) = index {
            for (entry, action) in self.output.decided(index)? {
                if let Some(new) = written(self.output, index, action, *entry)? {
                    push(entry.r_offset.get(LE), new)?;
                }
            }
        }
        let added = match index == carrier(input, self.dispositions, section) {
            true => split.synthesized(section),
            false => &[],
        };
        for added in added {
            let symbol = table.part(section, added.target).ok_or_else(|| lost(input, section as usize))?;
            push(added.field, relocation(0, elf::R_X86_64_PC32, symbol, added.addend))?;
        }
        if !added.is_empty() {
            for part in &mut entries {
                part.sort_by_key(|e| e.r_offset.get(LE));
                if part.array_windows().any(|[a, b]| a.r_offset == b.r_offset) {
                    return Err(input.about(section as usize, "a resolved reference has a relocation too"));
                }
            }
        }
        Ok(entries.iter().map(|part| pod::bytes_of_slice(part).to_vec()).collect())
    }
}

/// A relocation as it is written, with the new offset of `new`; `None` if it is resolved or removed.
fn written(
    output: Output<'_>,
    index: usize,
    action: &RelocationAction,
    mut new: Rela,
) -> Result<Option<Rela>> {
    let Output { input, table, .. } = output;
    let kind = new.r_type(LE, false);
    let symbol = match *action {
        RelocationAction::Keep => table.of(new.r_sym(LE, false)),
        RelocationAction::Retarget { section, part, addend } => {
            new.r_addend = I64::new(LE, addend);
            table.part(section, part)
        }
        RelocationAction::Resolve(_) | RelocationAction::Remove => return Ok(None),
    };
    new.set_r_info(LE, false, symbol.ok_or_else(|| lost(input, index))?, kind);
    Ok(Some(new))
}

fn lost(input: &Input<'_>, index: usize) -> Error {
    input.about(index, "a kept relocation names a dropped symbol")
}

fn lost_field(input: &Input<'_>, divided: &PartialSection, offset: u64) -> Error {
    input.about(divided.section as usize, format!("the relocated field at {offset:#x} is in no kept part"))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RelocationAction {
    Keep,
    /// Replaced by this value, in the width of the relocated field.
    Resolve(u64),
    /// It gets the section symbol of this part, and this addend.
    Retarget {
        section: u32,
        part: u32,
        addend: i64,
    },
    /// The function of the field is dropped. The field is not changed.
    Remove,
}

/// The section that relocations apply to, and how its fields are resolved.
#[derive(Debug, Clone, Copy)]
struct RelocatedSection {
    section: u32,
    alloc: bool,
    unwind: bool,
    code: bool,
    compressed: bool,
    /// The value of a dropped target in a `.debug*` section. In other sections it is offset + addend.
    tombstone: Option<u64>,
}

impl RelocatedSection {
    fn of(input: &Input<'_>, index: usize) -> Result<Self> {
        let flags = input.section(index)?.sh_flags.get(LE).0;
        let name = input.section_name(index);
        let old_style = name.starts_with(b".zdebug");
        let tombstone = match name {
            b".debug_loc" | b".debug_ranges" | b".zdebug_loc" | b".zdebug_ranges" => Some(1),
            b".debug_names" | b".zdebug_names" => Some(u64::MAX),
            _ if old_style || name.starts_with(b".debug") => Some(0),
            _ => None,
        };
        Ok(RelocatedSection {
            section: index as u32,
            alloc: flags & elf::SHF_ALLOC.0 != 0,
            unwind: input.role(index) == Role::Unwind,
            code: flags & elf::SHF_EXECINSTR.0 != 0,
            compressed: old_style || flags & elf::SHF_COMPRESSED.0 != 0,
            tombstone,
        })
    }

    /// Whether the contents are not loaded and not compressed.
    fn is_read_in_place(&self) -> bool {
        !self.alloc && !self.compressed
    }
}

/// The action for one relocation of a section.
fn action_of(
    input: &Input<'_>,
    symbols: &Symbols<'_>,
    split: &SplitSections<'_>,
    relocated: RelocatedSection,
    entry: &Rela,
) -> Result<RelocationAction> {
    let symbol = entry.r_sym(LE, false);
    if symbol as usize >= input.symbols.len() && input.added_section(symbol).is_some() {
        return Ok(RelocationAction::Keep);
    }
    if split.belongs_to_dropped_jump_table(relocated.section, entry.r_offset.get(LE)) {
        return Ok(RelocationAction::Remove);
    }
    if let Some(divided) = split.of_symbol(input, symbol)? {
        return retarget_to_part(input, split, relocated, entry, divided);
    }
    let disposition = symbols.disposition(symbol)?;
    let stub = symbols.is_stub(symbol);
    if stub && relocated.alloc && !means_entry(relocated, entry, entry.r_addend.get(LE)) {
        return Err(into_stub(input, relocated, entry));
    }
    // Whether the definition that prevails in another module is dropped, if the plan says so.
    let prevailing_dropped = symbols.prevailing_dropped(symbol);
    let dangles = if relocated.alloc {
        disposition == SymbolDisposition::Gone
    } else {
        match disposition {
            SymbolDisposition::Defined => stub,
            SymbolDisposition::Undefined => prevailing_dropped == Some(true),
            // Debug information keeps nothing, so the other definition must be known to be kept.
            SymbolDisposition::Replaced => prevailing_dropped != Some(false),
            SymbolDisposition::Gone => true,
        }
    };
    if dangles { resolve(input, relocated, entry) } else { Ok(RelocationAction::Keep) }
}

/// Retarget one relocation against the section symbol of a divided section to the part that it means, or resolve it.
fn retarget_to_part(
    input: &Input<'_>,
    split: &SplitSections<'_>,
    relocated: RelocatedSection,
    entry: &Rela,
    divided: &PartialSection,
) -> Result<RelocationAction> {
    let (offset, addend) = (entry.r_offset.get(LE), entry.r_addend.get(LE));
    let error = |what: &str| {
        let of = String::from_utf8_lossy(input.section_name(divided.section as usize));
        let message = format!("the relocation at {offset:#x} against section {of} + {addend:#x} {what}");
        Err(input.about(relocated.section as usize, message))
    };
    if field_of(entry.r_type(LE, false)).is_some_and(|(_, formula)| formula == Formula::Size) {
        return error("asks for the size of a divided section");
    }
    let is_debug = !relocated.alloc && relocated.tombstone.is_some();
    // The summary says which function a record of metadata describes.
    let known =
        split.summary.retarget_at(relocated.section, offset).filter(|_| !is_debug && !relocated.unwind);
    let spot = if relocated.alloc && !relocated.unwind || is_debug || known.is_some() {
        let atom = match is_debug {
            true => {
                let place = u64::try_from(addend).unwrap_or(0);
                split.described((relocated.section, offset), divided.section, place)
            }
            false => known.or(divided.only),
        };
        let Some(atom) = atom else { return error("has no known target") };
        let (atom, action) = split.atom(atom)?;
        if atom.section != divided.section {
            return error("means another section by the summary");
        }
        match action {
            Action::Drop => OffsetLocation::Dropped,
            Action::Keep | Action::Stub => divided.spot(atom.offset),
        }
    } else {
        match u64::try_from(addend) {
            // It may be the end of a kept range or the start of a dropped one, or the reverse.
            Ok(place) if !relocated.alloc && divided.is_seam(place) => {
                return error("is where a part ends and another begins");
            }
            Ok(place) => match divided.spot(place) {
                // The end of a range, or of the section.
                OffsetLocation::Nowhere if !relocated.alloc => divided.ended(place),
                spot => spot,
            },
            Err(_) => OffsetLocation::Nowhere,
        }
    };
    match spot {
        OffsetLocation::Part(part, start) => {
            let addend = addend.wrapping_sub(start as i64);
            Ok(RelocationAction::Retarget { section: divided.section, part, addend })
        }
        OffsetLocation::Stub(part, start) if relocated.alloc || known.is_some() => {
            let addend = addend.wrapping_sub(start as i64);
            match !relocated.unwind && means_entry(relocated, entry, addend) {
                true => Ok(RelocationAction::Retarget { section: divided.section, part, addend }),
                false => Err(into_stub(input, relocated, entry)),
            }
        }
        OffsetLocation::Dropped if relocated.alloc => error("refers to a dropped atom"),
        OffsetLocation::Dropped | OffsetLocation::Stub(..) => resolve(input, relocated, entry),
        OffsetLocation::Nowhere => error("refers to no function"),
    }
}

/// Whether `addend`, from the start of a stub, means that start. Each entry of a table of distances has another bias, so they are not checked.
fn means_entry(relocated: RelocatedSection, entry: &Rela, addend: i64) -> bool {
    match entry.r_type(LE, false) {
        elf::R_X86_64_NONE => true,
        elf::R_X86_64_64 | elf::R_X86_64_32 | elf::R_X86_64_32S | elf::R_X86_64_16 | elf::R_X86_64_8 => {
            addend == 0
        }
        elf::R_X86_64_PC32 | elf::R_X86_64_PLT32 if relocated.code => is_biased_entry(addend),
        elf::R_X86_64_SIZE32 | elf::R_X86_64_SIZE64 => false,
        _ => true,
    }
}

fn into_stub(input: &Input<'_>, relocated: RelocatedSection, entry: &Rela) -> Error {
    let offset = entry.r_offset.get(LE);
    let symbol = entry.r_sym(LE, false) as usize;
    let message = format!("the relocation at {offset:#x} refers to the body of a stub");
    let name = String::from_utf8_lossy(input.symbol_name(symbol)).into_owned();
    input.about(relocated.section as usize, message).at_symbol(name)
}

/// The value for a dropped target; an error in an allocated section.
fn resolve(input: &Input<'_>, relocated: RelocatedSection, entry: &Rela) -> Result<RelocationAction> {
    let symbol = entry.r_sym(LE, false);
    let kind = entry.r_type(LE, false);
    let offset = entry.r_offset.get(LE);
    let error = |message: String| {
        let name = String::from_utf8_lossy(input.symbol_name(symbol as usize)).into_owned();
        let name = if name.is_empty() { format!("[{symbol}]") } else { name };
        Err(input.about(relocated.section as usize, message).at_symbol(name))
    };
    if relocated.alloc {
        return error(format!(
            "the relocation at {offset:#x} refers to a symbol whose definition is dropped"
        ));
    }
    if relocated.compressed {
        return error(format!("the field at {offset:#x} is of compressed contents"));
    }
    let Some((_, formula)) = field_of(kind) else {
        return error(format!("the relocation at {offset:#x} of type {} can't be resolved", kind.0));
    };
    // In lld a dead global symbol has the value 0, and a local one keeps its offset.
    let (value, size) = match input.symbols.get(symbol as usize) {
        Some(s) if s.st_bind() == elf::STB_LOCAL => (s.st_value.get(LE), s.st_size.get(LE)),
        Some(s) => (0, s.st_size.get(LE)),
        None => (0, 0),
    };
    let addend = entry.r_addend.get(LE) as u64;
    Ok(RelocationAction::Resolve(match formula {
        Formula::Nothing => 0,
        Formula::Address => relocated.tombstone.unwrap_or(value.wrapping_add(addend)),
        Formula::Relative => value.wrapping_add(addend).wrapping_sub(offset),
        Formula::Size => size.wrapping_add(addend),
    }))
}
