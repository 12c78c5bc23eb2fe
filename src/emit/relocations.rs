//! The relocations of an object: which symbols and parts they keep in use, and the bytes of relocation sections.
//!
//! What becomes of each is decided once, by [`scan`], before symbols and sections are numbered
//! ([`relocation_action`](super::relocation_action)); [`write()`] and [`write_parts`] do it. What the parting of a section adds
//! ([`SplitSections::synthesized`]) goes into its first relocation section, or into a new one, in the order of offsets.
//!
//! Left out: REL relocations; the front end keeps modules that have them as they are.

use object::elf;
use object::{I64, U64, pod};
use rayon::prelude::*;

use super::input::{Input, LE, Rela, Role};
use super::parts::SplitSections;
use super::relocation_action::{RelocatedSection, RelocationAction, action_of, checked_field_of, field_of};
use super::sections::{PartRelocations, SectionDisposition};
use super::symbol_table::EmittedSymbols;
use super::symbols::Symbols;
use super::tables;
use super::unwind::Unwind;
use crate::error::{Error, Result, Stage, all_or_first_error};

/// A relocated field that gets its final value here.
#[derive(Debug, Clone, Copy)]
struct Patch {
    section: u32,
    offset: u64,
    width: u8,
    value: u64,
}

/// So many relocations are one piece of work, which another thread may take. Few objects have more of one section; the unit
/// tests divide earlier, so that they see the seams of pieces.
const SHARE: usize = if cfg!(test) { 3 } else { 1 << 14 };

/// What [`scan`] found out of all relocations, before anything is written.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// By section: what becomes of each entry, where it is a relocation section that stays.
    actions: Vec<Vec<RelocationAction>>,
    /// The bytes that change where a relocation goes, by section.
    patches: Vec<Patch>,
    /// By section: the relocation section has an entry left.
    has_entries: Vec<bool>,
    /// Which runs of divided sections have relocations.
    pub(super) of_parts: PartRelocations,
    /// (old section, run) of every run whose section symbol is needed, sorted.
    pub(super) section_symbols: Vec<(u32, u32)>,
}

fn truncate(value: u64, width: u8) -> u64 {
    if width >= 8 { value } else { value & ((1 << (u32::from(width) * 8)) - 1) }
}

/// Look at every relocation: which symbols stay in use, which fields are resolved here.
pub(super) fn scan(
    input: &Input<'_>,
    dispositions: &SectionDisposition,
    unwind: &Unwind,
    parts: &SplitSections<'_>,
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
        let divided = parts.of(relocated.section);
        if relocated.is_read_in_place() {
            let size = input.data(target_index)?.len();
            entries.iter().try_for_each(|e| checked_field_of(input, target_index, size, e).map(drop))?;
        }
        let actions = actions(input, unwind, parts, symbols, relocated, entries)?;
        let mut any = entries.is_empty() && divided.is_none();
        for (entry, action) in entries.iter().zip(&actions) {
            let symbol = entry.r_sym(LE, false);
            let offset = entry.r_offset.get(LE);
            if *action != RelocationAction::Remove
                && let Some(run) = divided.and_then(|p| p.run_at(offset))
            {
                scan.of_parts.old.push((index as u32, run));
                any = true;
            }
            match *action {
                RelocationAction::Keep => {
                    check_unmoved(input, unwind, relocated, entry)?;
                    symbols.note_kept(symbol);
                    any = true;
                }
                RelocationAction::Retarget { section, run, .. } => {
                    scan.section_symbols.push((section, run));
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
    scan.synthesize(input, dispositions, parts)?;
    Ok(scan)
}

/// What becomes of the entries of a relocation section, in their order. Those that are in nothing that stays go.
fn actions(
    input: &Input<'_>,
    unwind: &Unwind,
    parts: &SplitSections<'_>,
    symbols: &Symbols<'_>,
    relocated: RelocatedSection,
    entries: &[Rela],
) -> Result<Vec<RelocationAction>> {
    let (moved, divided) = (unwind.of(relocated.section), parts.of(relocated.section));
    let goes = |offset: u64| {
        moved.is_some_and(|m| m.relocated(offset).is_none())
            || divided.is_some_and(|p| p.run_at(offset).is_none())
    };
    let share = |entries: &[Rela]| {
        let mut near = 0;
        let action = |entry: &Rela| match goes(entry.r_offset.get(LE)) {
            true => Ok(RelocationAction::Remove),
            false => action_of(input, symbols, parts, relocated, entry, &mut near),
        };
        entries.iter().map(action).collect::<Result<Vec<RelocationAction>>>()
    };
    if entries.len() <= SHARE {
        return share(entries);
    }
    Ok(all_or_first_error(entries.par_chunks(SHARE).map(share))?.concat())
}

/// A place inside an unwind section that moved can't be named by section symbol and addend any more: an addend
/// may be a place or a bias. Its start does not move.
fn check_unmoved(
    input: &Input<'_>,
    unwind: &Unwind,
    relocated: RelocatedSection,
    entry: &Rela,
) -> Result<()> {
    if unwind.is_empty() {
        return Ok(());
    }
    let symbol = entry.r_sym(LE, false) as usize;
    let names_section = input.symbols.get(symbol).is_some_and(|s| s.st_type() == elf::STT_SECTION);
    if names_section
        && entry.r_addend.get(LE) > 0
        && let super::input::SymbolPlace::Section(section) = input.place(symbol)?
        && unwind.of(section).is_some()
    {
        return Err(input.about(relocated.section as usize, "refers to a place inside of a pruned .eh_frame"));
    }
    Ok(())
}

/// The relocation section that takes the synthesised relocations of `section`: the first that stays.
fn carrier(input: &Input<'_>, dispositions: &SectionDisposition, section: u32) -> Option<usize> {
    let relocates = |(i, s): &(usize, &super::input::Shdr)| {
        input.role(*i) == Role::Relocations && s.sh_info.get(LE) == section && dispositions.keeps(*i)
    };
    input.sections.iter().enumerate().skip(1).find(relocates).map(|(i, _)| i)
}

impl Scan {
    /// Note what the parting of sections adds: relocations, and the section symbols that they and `.llvm_addrsig` need.
    fn synthesize(
        &mut self,
        input: &Input<'_>,
        dispositions: &SectionDisposition,
        parts: &SplitSections<'_>,
    ) -> Result<()> {
        if parts.is_empty() {
            return Ok(());
        }
        for divided in &parts.sections {
            if parts.addresses().is_some() {
                let listed = divided.runs.iter().zip(0..).filter(|(run, _)| !run.foldable);
                self.section_symbols.extend(listed.map(|(_, run)| (divided.section, run)));
            }
            self.section_symbols.extend(divided.stubs().map(|(run, _)| (divided.section, run)));
            let carrier = carrier(input, dispositions, divided.section);
            for added in parts.synthesized(divided.section) {
                let Some(run) = divided.run_at(added.field) else { continue };
                self.section_symbols.push((divided.section, added.target));
                match carrier {
                    Some(index) => {
                        self.of_parts.old.push((index as u32, run));
                        if let Some(slot) = self.has_entries.get_mut(index) {
                            *slot = true;
                        }
                    }
                    None => self.of_parts.new.push((divided.section, run)),
                }
            }
        }
        for index in (1..input.sections.len()).filter(|i| input.role(*i) == Role::Addrsig) {
            for symbol in tables::listed(input, index)? {
                if let Some(divided) = parts.of_symbol(input, symbol)? {
                    self.section_symbols.extend((0..divided.runs.len() as u32).map(|r| (divided.section, r)));
                }
            }
        }
        for table in [&mut self.section_symbols, &mut self.of_parts.old, &mut self.of_parts.new] {
            table.sort_unstable();
            table.dedup();
        }
        Ok(())
    }

    /// Whether relocation section `index` has an entry left (or had none in the input).
    pub(super) fn has_entries(&self, index: usize) -> bool {
        self.has_entries.get(index).copied().unwrap_or(false)
    }

    /// Write the fields that are resolved here into the copied contents of `section`.
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

/// What is needed to write relocations.
#[derive(Debug, Clone, Copy)]
pub(super) struct Output<'o> {
    pub(super) input: &'o Input<'o>,
    pub(super) parts: &'o SplitSections<'o>,
    pub(super) scan: &'o Scan,
    pub(super) table: &'o EmittedSymbols,
    pub(super) unwind: &'o Unwind,
}

impl<'o> Output<'o> {
    /// The entries of relocation section `index`, each with what becomes of it.
    fn decided(&self, index: usize) -> Result<impl Iterator<Item = (&'o Rela, &'o RelocationAction)>> {
        let entries: &[Rela] = self.input.table(index)?;
        let actions = self.scan.actions.get(index).filter(|t| t.len() == entries.len());
        let undecided = || self.input.about(index, "what becomes of its relocations is not decided");
        Ok(entries.iter().zip(actions.ok_or_else(undecided)?))
    }
}

/// The entries of relocation section `index` as they are in the output.
pub(super) fn write(output: Output<'_>, index: usize, out: &mut Vec<u8>) -> Result<()> {
    let Output { input, unwind, .. } = output;
    let moved = unwind.of(input.section(index)?.sh_info.get(LE));
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

/// The entries of each run of the divided section `section`: those of the relocation section `index`, and where that is
/// the first one of the section, those that the parting adds. Together they are in the order of their offsets. Without
/// `index` also the calls of stubs that report.
pub(super) fn write_parts(
    output: Output<'_>,
    dispositions: &SectionDisposition,
    section: u32,
    index: Option<usize>,
) -> Result<Vec<Vec<u8>>> {
    let Output { input, parts, table, .. } = output;
    let Some(divided) = parts.of(section) else { return Ok(Vec::new()) };
    let mut entries: Vec<Vec<Rela>> = vec![Vec::new(); divided.runs.len()];
    let mut push = |offset: u64, mut entry: Rela| {
        let Some(run) = divided.run_at(offset) else { return };
        let start = divided.run(run).map_or(0, |r| r.start);
        entry.r_offset = U64::new(LE, offset - start);
        if let Some(slot) = entries.get_mut(run as usize) {
            slot.push(entry);
        }
    };
    if let Some(index) = index {
        for (entry, action) in output.decided(index)? {
            if let Some(new) = written(output, index, action, *entry)? {
                push(entry.r_offset.get(LE), new);
            }
        }
    }
    let added = match index == carrier(input, dispositions, section) {
        true => parts.synthesized(section),
        false => &[],
    };
    for synthesized in added {
        let symbol = table.run(section, synthesized.target).ok_or_else(|| lost(input, section as usize))?;
        let mut entry = Rela {
            r_offset: U64::default(),
            r_info: U64::default(),
            r_addend: I64::new(LE, synthesized.addend),
        };
        entry.set_r_info(LE, false, symbol, elf::R_X86_64_PC32);
        push(synthesized.field, entry);
    }
    if !added.is_empty() {
        for run in &mut entries {
            run.sort_by_key(|e| e.r_offset.get(LE));
            if run.array_windows().any(|[a, b]| a.r_offset == b.r_offset) {
                return Err(input.about(section as usize, "a resolved reference has a relocation too"));
            }
        }
    }
    Ok(entries.iter().map(|run| pod::bytes_of_slice(run).to_vec()).collect())
}

/// A relocation as it is written; `None` if it is not. `new` is that of the input, moved.
fn written(
    output: Output<'_>,
    index: usize,
    action: &RelocationAction,
    mut new: Rela,
) -> Result<Option<Rela>> {
    let Output { input, table, .. } = output;
    let kind = new.r_type(LE, false);
    match *action {
        RelocationAction::Keep => {
            let symbol = table.of(new.r_sym(LE, false)).ok_or_else(|| lost(input, index))?;
            new.set_r_info(LE, false, symbol, kind);
        }
        RelocationAction::Retarget { section, run, addend } => {
            let symbol = table.run(section, run).ok_or_else(|| lost(input, index))?;
            new.set_r_info(LE, false, symbol, kind);
            new.r_addend = I64::new(LE, addend);
        }
        RelocationAction::Resolve(_) | RelocationAction::Remove => return Ok(None),
    }
    Ok(Some(new))
}

fn lost(input: &Input<'_>, index: usize) -> Error {
    match input.section(index) {
        Ok(_) => input.about(index, "a relocation that stays names a symbol that does not"),
        Err(_) => Error::new(Stage::Emit, "a relocation that stays names a symbol that does not"),
    }
}
