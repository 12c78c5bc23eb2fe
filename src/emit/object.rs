//! One module rewritten: the plan applied to the bytes of an object.
//!
//! [`rewrite`] is the list of the steps. First everything is decided in old numbers (dispositions of sections, unwind
//! records, dispositions of symbols, relocations that are resolved), then sections and symbols are numbered anew, then
//! the output is written once, front to back. The contents of a section that stays are copied bit by bit, but for
//! `.eh_frame` and for fields of sections that are not allocated; order, names, flags, alignments and entry sizes
//! stay.
//!
//! A section of which only a part stays is written as several ([`parts`](super::parts)), each followed by nothing but the
//! next; so are its relocations.

use object::{U32, U64, elf};
use summaries::{ModuleSummary, NEAR_JUMP};

use super::debug::{self, ExplicitDebug};
use super::input::{Input, LE, Role, Shdr};
use super::parts::{PartRun, SplitSections};
use super::relocations::{self, Output, Scan};
use super::sections::{SectionDisposition, SectionNumbering, Slot};
use super::strings::{PrunedStringTable, StringTable};
use super::symbol_table::EmittedSymbols;
use super::symbols::Symbols;
use super::unwind::Unwind;
use super::write::ObjectWriter;
use super::{stub_table, tables};
use crate::error::{Error, Result, Stage};
use crate::plan::ModulePlan;

/// What the name of a relocation section has before that of its target.
const RELA: &[u8] = b".rela";

/// Everything that was decided, in old numbers and new.
struct ObjectRewrite<'a> {
    input: &'a Input<'a>,
    parts: &'a SplitSections<'a>,
    dispositions: SectionDisposition,
    unwind: Unwind,
    scan: Scan,
    sections: SectionNumbering,
    table: EmittedSymbols,
    profile: Option<tables::Profile>,
}

/// The object `bytes` without what `plan` drops. `summary` is the summary of the same bytes.
///
/// The result is a valid ELF64 x86-64 relocatable object with the sections and symbols that stay in their old order.
///
/// # Errors
/// Stage emit, with section and symbol where there is one: bytes that are no such object, a section of a type
/// that can't be renumbered, a plan that is not of this module or that leaves a reference without a definition.
pub fn rewrite(bytes: &[u8], summary: &ModuleSummary, plan: &ModulePlan) -> Result<Vec<u8>> {
    let explicit = explicit_debug(bytes, summary, plan)?;
    rewrite_explicit(bytes, summary, plan, explicit.as_ref())
}

/// The same object with explicit debug information, where `plan` divides its code and it has some.
///
/// # Errors
/// Debug information that can't be made explicit: then nothing of the object may go.
pub fn explicit_debug(
    bytes: &[u8],
    summary: &ModuleSummary,
    plan: &ModulePlan,
) -> Result<Option<ExplicitDebug>> {
    let input = Input::parse(bytes)?;
    debug::rewrite(&input, &SplitSections::decide(&input, summary, plan)?)
}

/// [`rewrite`], with what [`explicit_debug`] makes of the same object and plan.
///
/// # Errors
/// As those of [`rewrite`].
pub fn rewrite_explicit(
    bytes: &[u8],
    summary: &ModuleSummary,
    plan: &ModulePlan,
    explicit: Option<&ExplicitDebug>,
) -> Result<Vec<u8>> {
    rewrite_without(bytes, summary, plan, explicit, &[])
}

/// [`rewrite_explicit`], with these sections (old indices) taken out too.
fn rewrite_without(
    bytes: &[u8],
    summary: &ModuleSummary,
    plan: &ModulePlan,
    explicit: Option<&ExplicitDebug>,
    emptied: &[usize],
) -> Result<Vec<u8>> {
    let mut input = Input::parse(bytes)?;
    let mut parts = SplitSections::decide(&input, summary, plan)?;
    if let Some(explicit) = explicit {
        input = Input::overlaid(bytes, &explicit.overlay, &explicit.added)?;
        parts.meant.clone_from(&explicit.meant);
    }
    let mut dispositions = SectionDisposition::decide(&input, summary, plan, &parts)?;
    emptied.iter().for_each(|section| dispositions.drop(*section));
    let mut symbols = Symbols::new(&input, summary, plan, &dispositions, &parts)?;
    let unwind = Unwind::prune(&input, &dispositions, &symbols, &parts)?;
    let scan = relocations::scan(&input, &dispositions, &unwind, &parts, &mut symbols)?;
    drop_emptied(&input, &mut dispositions, &unwind, &scan, &symbols)?;
    let table = symbols.number(&input, &dispositions, &parts, &scan.section_symbols)?;
    let profile = tables::profile(&input, &table)?;
    if let Some(profile) = profile.as_ref().filter(|p| p.weights.is_empty() && emptied.is_empty()) {
        // lld warns of a profile without relocations. Symbols of it go too, so their numbers are others.
        let emptied = [profile.section, profile.relocation_section];
        return rewrite_without(bytes, summary, plan, explicit, &emptied);
    }
    let sections = number_sections(&input, &mut dispositions, &parts, &scan)?;
    let input = &input;
    ObjectRewrite { input, parts: &parts, dispositions, unwind, scan, sections, table, profile }.write()
}

/// Relocation sections whose entries all went go; so does an `.eh_frame` of which nothing is left, unless a symbol
/// marks its place.
fn drop_emptied(
    input: &Input<'_>,
    dispositions: &mut SectionDisposition,
    unwind: &Unwind,
    scan: &Scan,
    symbols: &Symbols<'_>,
) -> Result<()> {
    for index in 1..input.sections.len() {
        if input.role(index) == Role::Relocations && !scan.has_entries(index) {
            dispositions.drop(index);
        }
    }
    let needed = symbols.needed_sections(input)?;
    for index in unwind.emptied() {
        if needed.get(index) != Some(&true) {
            dispositions.drop(index);
        }
    }
    Ok(())
}

/// Number the sections of the output. The table of extended section numbers goes where there are too few sections to need it, and then the
/// others are numbered once more.
fn number_sections(
    input: &Input<'_>,
    dispositions: &mut SectionDisposition,
    parts: &SplitSections<'_>,
    scan: &Scan,
) -> Result<SectionNumbering> {
    let sections = dispositions.number(input, parts, &scan.of_parts);
    let extended: Vec<usize> =
        (1..input.sections.len()).filter(|i| input.role(*i) == Role::ExtendedIndices).collect();
    if sections.order.len() <= usize::from(elf::SHN_LORESERVE) {
        if extended.iter().all(|i| !dispositions.keeps(*i)) {
            return Ok(sections);
        }
        extended.iter().for_each(|i| dispositions.drop(*i));
        return Ok(dispositions.number(input, parts, &scan.of_parts));
    }
    match extended.is_empty() {
        false => Ok(sections),
        true => Err(Error::new(Stage::Emit, "in parts it has more sections than its symbols can name")),
    }
}

impl ObjectRewrite<'_> {
    fn write(&self) -> Result<Vec<u8>> {
        let (mut symbol_names, mut section_names) = self.names()?;
        let shared = self.input.symbol_names == Some(self.input.section_names);
        let names = symbol_names.as_mut();
        let mut none = PrunedStringTable::default();
        let (symbols, extended) = self.table.write(
            self.input,
            &self.sections,
            &|s, v| self.unwind.moved(s, v),
            names.unwrap_or(&mut none),
        )?;
        let names = match (shared, symbol_names.as_mut()) {
            (true, Some(names)) => names,
            _ => &mut section_names,
        };
        let new_names = self.new_names(names);
        let run_names = self.run_names(names);
        let stub_names = match self.parts.has_stubs() {
            true => (names.push(stub_table::TABLE), names.push(stub_table::TABLE_RELOCATIONS)),
            false => (0, 0),
        };
        let addrsig_name = match self.parts.addresses() {
            Some(_) => names.push(tables::ADDRSIG),
            None => 0,
        };
        let stubs = stub_table::named(self.input, self.parts, &self.table)?;
        let stubs = stub_table::table(&stubs);
        let addrsig = match self.parts.addresses() {
            Some(addresses) => tables::new_addrsig(self.input, &self.table, self.parts, addresses)?,
            None => Vec::new(),
        };
        let output = Output {
            input: self.input,
            parts: self.parts,
            scan: &self.scan,
            table: &self.table,
            unwind: &self.unwind,
        };

        // There is room for headers and alignment besides.
        let size = self.input.size() + self.sections.order.len() * 2 * size_of::<Shdr>();
        let mut writer = ObjectWriter::new(self.input.header, size, self.sections.order.len());
        // The relocations of a divided section, by run: made when the first of them is written.
        let mut of_runs: (Option<Slot>, Vec<Vec<u8>>) = (None, Vec::new());
        for (&slot, number) in self.sections.order.iter().zip(0u32..) {
            if matches!(slot, Slot::Stubs | Slot::StubRelocations | Slot::Addrsig) {
                let symbols = self.input.symbol_table.and_then(|t| self.sections.of(t as u32)).unwrap_or(0);
                let (header, bytes) = match slot {
                    Slot::Stubs => (stub_table::header(stub_names.0, None), &stubs.bytes),
                    Slot::StubRelocations => {
                        (stub_table::header(stub_names.1, Some((symbols, number - 1))), &stubs.relocations)
                    }
                    _ => (tables::addrsig_header(addrsig_name, symbols), &addrsig),
                };
                writer.start(&header);
                writer.out.extend_from_slice(bytes);
                writer.end(header);
                continue;
            }
            let old = slot.old();
            let index = old as usize;
            let mut header = *self.input.section(index)?;
            let name_table = match shared {
                true => symbol_names.as_ref().unwrap_or(&section_names),
                false => &section_names,
            };
            header.sh_name = U32::new(LE, name_table.new_offset(header.sh_name.get(LE)));
            if let Slot::NewRelocations { .. } = slot {
                let name = new_names.iter().find(|(section, _)| *section == old).map_or(0, |(_, name)| *name);
                header = self.new_relocation_header(&header, name);
            }
            if let Some(name) = self.run_name(&run_names, slot)? {
                header.sh_name = U32::new(LE, name);
            }
            self.link(slot, &mut header)?;
            if let Slot::Part { section, run } = slot {
                let run = self.run(section, run)?;
                header.sh_addralign = U64::new(LE, run.align);
                writer.start(&header);
                if header.sh_type.get(LE) == elf::SHT_NOBITS {
                    header.sh_size = U64::new(LE, run.end - run.start);
                } else {
                    let start = writer.out.len();
                    writer.out.extend_from_slice(self.run_bytes(index, run)?);
                    self.relax_jumps(section, run, writer.out.get_mut(start..).unwrap_or(&mut []));
                }
                writer.end(header);
                continue;
            }
            writer.start(&header);
            if let Slot::Relocations { run, .. } | Slot::NewRelocations { run, .. } = slot {
                let (section, relocations) = match slot {
                    Slot::Relocations { .. } => (self.input.section(index)?.sh_info.get(LE), Some(index)),
                    _ => (old, None),
                };
                let all = match slot {
                    Slot::Relocations { section, .. } => Slot::Relocations { section, run: 0 },
                    _ => Slot::NewRelocations { target: old, run: 0 },
                };
                if of_runs.0 != Some(all) {
                    of_runs = (
                        Some(all),
                        relocations::write_parts(output, &self.dispositions, section, relocations)?,
                    );
                }
                writer.out.extend_from_slice(of_runs.1.get(run as usize).map_or(&[], |r| r));
                writer.end(header);
                continue;
            }
            match self.input.role(index) {
                Role::Null => {}
                Role::Content => self.copy(index, &header, &mut writer)?,
                Role::Unwind => match self.unwind.of(old) {
                    Some(changed) => writer.out.extend_from_slice(&changed.bytes),
                    None => self.copy(index, &header, &mut writer)?,
                },
                Role::Relocations => relocations::write(output, index, &mut writer.out)?,
                Role::ProfileRelocations => {
                    let relocations = self.profile.as_ref().map_or(&[][..], |p| &p.relocations);
                    writer.out.extend_from_slice(relocations);
                }
                Role::CallGraphProfile => match self.profile.as_ref().filter(|p| p.section == index) {
                    Some(profile) => writer.out.extend_from_slice(&profile.weights),
                    None => self.copy(index, &header, &mut writer)?,
                },
                Role::Group => tables::group(self.input, &self.sections, index, &mut writer.out)?,
                Role::Addrsig => {
                    tables::addrsig(self.input, &self.table, self.parts, index, &mut writer.out)?
                }
                Role::SymbolTable => writer.out.extend_from_slice(&symbols),
                Role::ExtendedIndices => match &extended {
                    Some(table) => writer.out.extend_from_slice(table),
                    None => writer
                        .out
                        .resize(writer.out.len() + symbols.len() / size_of::<super::input::Sym>() * 4, 0),
                },
                Role::Names => {
                    let of_symbols = Some(index) == self.input.symbol_names;
                    let table = if of_symbols { symbol_names.as_ref() } else { Some(&section_names) };
                    writer.out.extend_from_slice(table.map_or(&[], |t| &t.bytes));
                }
            }
            writer.end(header);
        }
        let names_index = self.sections.of(self.input.section_names as u32).unwrap_or(0);
        Ok(writer.finish(names_index))
    }

    fn copy(&self, index: usize, header: &Shdr, writer: &mut ObjectWriter) -> Result<()> {
        if header.sh_type.get(LE) == elf::SHT_NOBITS {
            return Ok(());
        }
        let at = writer.out.len();
        writer.out.extend_from_slice(self.input.data(index)?);
        let contents = writer.out.get_mut(at..).unwrap_or(&mut []);
        self.scan.patch(self.input, index as u32, contents)
    }

    fn run(&self, section: u32, run: u32) -> Result<&PartRun> {
        let run = self.parts.of(section).and_then(|p| p.run(run));
        run.ok_or_else(|| self.input.about(section as usize, "has not that many parts"))
    }

    fn run_bytes<'b>(&'b self, index: usize, run: &'b PartRun) -> Result<&'b [u8]> {
        if let Some(stub) = &run.stub {
            return Ok(stub.bytes());
        }
        let range = || Some(usize::try_from(run.start).ok()?..usize::try_from(run.end).ok()?);
        let bytes = range().and_then(|r| self.input.data(index).ok()?.get(r));
        bytes.ok_or_else(|| self.input.about(index, "a part is outside of the section"))
    }

    /// Write the near form of the short jumps of a run that lead out of it; their fields are relocated.
    fn relax_jumps(&self, section: u32, run: &PartRun, bytes: &mut [u8]) {
        let all = self.parts.synthesized(section);
        let own = all.get(all.partition_point(|s| s.field <= run.start)..).unwrap_or(&[]);
        for added in own.iter().take_while(|s| s.field < run.end).filter(|s| s.relaxed) {
            if let Some(opcode) = bytes.get_mut((added.field - 1 - run.start) as usize) {
                *opcode = NEAR_JUMP;
            }
        }
    }

    /// Names for relocation sections that the input has not: `.rela` and the name of the target, by target.
    fn new_names(&self, names: &mut PrunedStringTable) -> Vec<(u32, u32)> {
        let mut new: Vec<(u32, u32)> = Vec::new();
        for slot in &self.sections.order {
            if let Slot::NewRelocations { target, .. } = *slot
                && new.last().is_none_or(|(last, _)| *last != target)
            {
                let name = [RELA, self.input.section_name(target as usize)].concat();
                new.push((target, names.push(&name)));
            }
        }
        new
    }

    /// The names of runs that are sections of their own, each with the prefix of its relocation section; sorted by (section, run).
    fn run_names(&self, names: &mut PrunedStringTable) -> Vec<((u32, u32), u32)> {
        let mut new = Vec::new();
        for slot in &self.sections.order {
            if let Slot::Part { section, run } = *slot
                && let Some(name) = self.parts.name_of(section, run)
            {
                new.push(((section, run), names.push(&[RELA, name].concat())));
            }
        }
        new.sort_unstable();
        new
    }

    /// The name of what is of such a run.
    fn run_name(&self, names: &[((u32, u32), u32)], slot: Slot) -> Result<Option<u32>> {
        let (section, run, skipped) = match slot {
            Slot::Part { section, run } => (section, run, RELA.len() as u32),
            Slot::Relocations { section, run } => {
                (self.input.section(section as usize)?.sh_info.get(LE), run, 0)
            }
            Slot::NewRelocations { target, run } => (target, run, 0),
            _ => return Ok(None),
        };
        let found = names.binary_search_by_key(&(section, run), |(of, _)| *of).ok();
        Ok(found.and_then(|i| names.get(i)).map(|(_, name)| name + skipped))
    }

    /// The header of a relocation section that the input has not. It is in the group of its target.
    fn new_relocation_header(&self, target: &Shdr, name: u32) -> Shdr {
        let group = target.sh_flags.get(LE).0 & elf::SHF_GROUP.0;
        let mut header = *target;
        header.sh_name = U32::new(LE, name);
        header.sh_type = U32::new(LE, elf::SHT_RELA);
        header.sh_flags = U64::new(LE, elf::SectionFlags(elf::SHF_INFO_LINK.0 | group));
        header.sh_addralign = U64::new(LE, 8);
        header.sh_entsize = U64::new(LE, size_of::<super::input::Rela>() as u64);
        header
    }

    /// Renumber `sh_link` and `sh_info` (gABI, "sh_link and sh_info Interpretation").
    fn link(&self, slot: Slot, header: &mut Shdr) -> Result<()> {
        let index = slot.old() as usize;
        let role = self.input.role(index);
        let flags = header.sh_flags.get(LE).0;
        if index == 0 || role == Role::Null {
            return Ok(());
        }
        let part = match slot {
            Slot::Relocations { run, .. } => Some((header.sh_info.get(LE), run)),
            Slot::NewRelocations { target, run } => Some((target, run)),
            _ => None,
        };
        if let Some((target, run)) = part {
            let target = self.sections.part(target, run);
            let table = self.input.symbol_table.and_then(|t| self.sections.of(t as u32));
            let (Some(target), Some(table)) = (target, table) else {
                return Err(self.input.about(index, "relocates a part that is not there"));
            };
            header.sh_link = U32::new(LE, table);
            header.sh_info = U32::new(LE, target);
            return Ok(());
        }
        let of_run = match slot {
            Slot::Part { run, .. } => Some(run),
            _ => None,
        };
        if flags & elf::SHF_LINK_ORDER.0 != 0
            && let Some(after) = self.parts.ordered_after(slot.old(), of_run)
        {
            let new = match self.parts.run_of(after) {
                Some((section, run)) => self.sections.part(section, run),
                None => self.sections.of(self.parts.atom(after)?.0.section),
            };
            let lost = || self.input.about(index, "is ordered after a section that is dropped");
            header.sh_link = U32::new(LE, new.ok_or_else(lost)?);
            return Ok(());
        }
        let section = |old: u32| {
            if self.parts.of(old).is_some_and(|p| p.only().is_none()) {
                return Err(self
                    .input
                    .about(index, format!("is tied to section {old}, of which only a part stays")));
            }
            self.sections
                .of(old)
                .ok_or_else(|| self.input.about(index, format!("is tied to section {old}, which is dropped")))
        };
        header.sh_link = U32::new(LE, section(header.sh_link.get(LE))?);
        let info = header.sh_info.get(LE);
        let info = match role {
            Role::Relocations | Role::ProfileRelocations => section(info)?,
            Role::SymbolTable => self.table.first_global,
            Role::Group => self
                .table
                .of(info)
                .ok_or_else(|| self.input.about(index, "its signature is no symbol of the output"))?,
            _ if flags & elf::SHF_INFO_LINK.0 != 0 => section(info)?,
            _ => info,
        };
        header.sh_info = U32::new(LE, info);
        Ok(())
    }

    /// The names that stay: of symbols (and of sections too, where both share a table), and of sections.
    fn names(&self) -> Result<(Option<PrunedStringTable>, PrunedStringTable)> {
        let input = self.input;
        let of_sections = self.string_table(input.section_names)?;
        let of_symbols = input.symbol_names.map(|i| self.string_table(i)).transpose()?;
        let shared = input.symbol_names == Some(input.section_names);
        let (mut of_symbols, mut of_sections) = (of_symbols, of_sections);
        if let Some(names) = &mut of_symbols {
            self.table.note_names(input, names);
        }
        for slot in &self.sections.order {
            let name = input.section(slot.old() as usize)?.sh_name.get(LE);
            match (&mut of_symbols, shared) {
                (Some(names), true) => names.note(name),
                _ => of_sections.note(name),
            }
        }
        Ok((of_symbols.map(StringTable::finish), of_sections.finish()))
    }

    /// A table of names. It is kept whole if something besides symbols and section headers names strings in it.
    fn string_table(&self, table: usize) -> Result<StringTable<'_>> {
        let foreign = self
            .input
            .sections
            .iter()
            .enumerate()
            .skip(1)
            .any(|(i, s)| s.sh_link.get(LE) as usize == table && self.input.role(i) != Role::SymbolTable);
        Ok(StringTable::new(self.input.data(table)?, foreign))
    }
}
