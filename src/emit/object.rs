//! The emission of one native module: the plan applied to the bytes of an ELF object.
//!
//! First every section, unwind record, symbol and relocation is decided, by its old index. Then sections and symbols
//! are numbered, and the output is written once, from front to back. Kept contents are copied bit by bit. The exceptions are
//! `.eh_frame`, the fields of sections that are not allocated, and divided sections ([`parts`](super::parts)).
//! The order, names, flags, alignments and entry sizes of sections do not change.

use std::collections::BTreeMap;

use object::{U32, U64, elf};
use summaries::{ModuleSummary, NEAR_JUMP};

use super::debug::{self, ExplicitDebug};
use super::input::{Input, LE, Role, Shdr, Sym};
use super::parts::{SectionPart, SplitSections};
use super::relocations::{self, Output, PartTables, Scan};
use super::sections::{SectionDisposition, SectionNumbering, Slot};
use super::strings::{PrunedStringTable, StringTable};
use super::symbols::{EmittedSymbols, Symbols};
use super::tables::{self, Profile, StubTable};
use super::unwind::Unwind;
use super::write::{ObjectWriter, new_header, relocation_header};
use crate::error::{Error, Result, Stage};
use crate::plan::ModulePlan;

/// The prefix of the name of a relocation section, before the name of its target.
const RELA: &[u8] = b".rela";

/// The object `bytes` without what `plan` drops. `summary` is the summary of the same bytes.
///
/// The result is a valid ELF64 x86-64 relocatable object. The kept sections and symbols are in their old order.
///
/// # Errors
/// The bytes are no such object, a section type can't be renumbered, or the plan is of another module or leaves a
/// reference without a definition. The error names section and symbol.
pub fn rewrite(bytes: &[u8], summary: &ModuleSummary, plan: &ModulePlan) -> Result<Vec<u8>> {
    let explicit = explicit_debug(bytes, summary, plan)?;
    rewrite_explicit(bytes, summary, plan, explicit.as_ref())
}

/// The object after its debug sections are decompressed or rewritten, and `.debug_frame` and `.debug_addr` added; `None` if nothing
/// changes.
///
/// # Errors
/// The debug information can't be made explicit. Then nothing of the object may be dropped.
pub fn explicit_debug(
    bytes: &[u8],
    summary: &ModuleSummary,
    plan: &ModulePlan,
) -> Result<Option<ExplicitDebug>> {
    let input = Input::parse(bytes)?;
    debug::rewrite(&input, &SplitSections::decide(&input, summary, plan)?)
}

/// [`rewrite`], with the result of [`explicit_debug`] for the same object and plan.
///
/// # Errors
/// The errors of [`rewrite`].
pub fn rewrite_explicit(
    bytes: &[u8],
    summary: &ModuleSummary,
    plan: &ModulePlan,
    explicit: Option<&ExplicitDebug>,
) -> Result<Vec<u8>> {
    let mut input = Input::parse(bytes)?;
    let mut split = SplitSections::decide(&input, summary, plan)?;
    if let Some(explicit) = explicit {
        input = Input::overlaid(bytes, &explicit.overlay, &explicit.added)?;
        split.meant.clone_from(&explicit.meant);
    }
    let mut dispositions = SectionDisposition::decide(&input, summary, plan, &split)?;
    let mut symbols = Symbols::new(&input, summary, plan, &dispositions, &split)?;
    let unwind = Unwind::prune(&input, &dispositions, &symbols, &split)?;
    let scan = relocations::scan(&input, &dispositions, &unwind, &split, &mut symbols)?;
    drop_emptied(&input, &mut dispositions, &unwind, &scan, &symbols)?;
    let mut table = symbols.number(&input, &dispositions, &split, &scan.section_symbols)?;
    let mut profile = tables::profile(&input, &table)?;
    // lld warns of a profile without relocations. Its section symbol is dropped too.
    if let Some(empty) = profile.take_if(|p| p.weights.is_empty()) {
        dispositions.drop(empty.section);
        dispositions.drop(empty.relocation_section);
        table = symbols.number(&input, &dispositions, &split, &scan.section_symbols)?;
    }
    let sections = number_sections(&input, &mut dispositions, &split, &scan)?;
    let stubs = tables::stubs(&input, &split, &table)?;
    let addrsig = match &split.plan.addresses {
        Some(addresses) => tables::new_addrsig(&input, &table, &split, addresses)?,
        None => Vec::new(),
    };
    let (input, split) = (&input, &split);
    ObjectRewrite { input, split, dispositions, unwind, scan, sections, table, profile, stubs, addrsig }
        .write()
}

/// Drop relocation sections without entries, and each empty `.eh_frame` to which no symbol or relocation refers.
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

/// Number the sections of the output. The table of extended section indices is dropped if there are too few sections to need it, and
/// then the sections are numbered again.
fn number_sections(
    input: &Input<'_>,
    dispositions: &mut SectionDisposition,
    split: &SplitSections<'_>,
    scan: &Scan,
) -> Result<SectionNumbering> {
    let sections = dispositions.number(input, split, &scan.of_parts);
    let mut extended = (1..input.sections.len()).filter(|i| input.role(*i) == Role::ExtendedIndices);
    if sections.order.len() > usize::from(elf::SHN_LORESERVE) {
        return match extended.next() {
            Some(_) => Ok(sections),
            None => Err(Error::new(Stage::Emit, "divided, it has more sections than its symbols can name")),
        };
    }
    extended.for_each(|i| dispositions.drop(i));
    Ok(dispositions.number(input, split, &scan.of_parts))
}

/// All decisions and new numbers of an object.
struct ObjectRewrite<'a> {
    input: &'a Input<'a>,
    split: &'a SplitSections<'a>,
    dispositions: SectionDisposition,
    unwind: Unwind,
    scan: Scan,
    sections: SectionNumbering,
    table: EmittedSymbols,
    profile: Option<Profile>,
    stubs: StubTable,
    /// The contents of a new address-significance table.
    addrsig: Vec<u8>,
}

/// The string tables of the output, and the tables that need them.
struct NamedTables {
    /// The string tables by their old index. Symbols and sections may share one.
    strings: BTreeMap<usize, PrunedStringTable>,
    /// By section of the output, the offset of its name.
    section_names: Vec<u32>,
    symbols: Vec<u8>,
    /// The contents of `SHT_SYMTAB_SHNDX`, a word for each symbol.
    extended: Vec<u8>,
}

impl ObjectRewrite<'_> {
    fn write(&self) -> Result<Vec<u8>> {
        let tables = self.named_tables()?;
        let order = &self.sections.order;
        // This leaves room for headers and alignment.
        let size = self.input.size() + order.len() * 2 * size_of::<Shdr>();
        let mut writer = ObjectWriter::new(self.input.header, size, order.len());
        let output = Output { input: self.input, split: self.split, scan: &self.scan, table: &self.table };
        let mut of_parts = PartTables::new(output, &self.dispositions);
        for ((slot, name), number) in order.iter().zip(&tables.section_names).zip(0u32..) {
            let header = self.header(*slot, *name, number)?;
            writer.start(&header);
            let out = &mut writer.out;
            match *slot {
                Slot::Whole(section) => self.contents(section as usize, output, &tables, out)?,
                Slot::Part { section, part } => self.part_contents(section, part, out)?,
                Slot::Relocations { section, part } => {
                    let target = self.input.section(section as usize)?.sh_info.get(LE);
                    out.extend_from_slice(of_parts.get(target, Some(section as usize), part)?);
                }
                Slot::NewRelocations { target, part } => {
                    out.extend_from_slice(of_parts.get(target, None, part)?);
                }
                Slot::Stubs => out.extend_from_slice(&self.stubs.bytes),
                Slot::StubRelocations => out.extend_from_slice(&self.stubs.relocations),
                Slot::Addrsig => out.extend_from_slice(&self.addrsig),
            }
            writer.end(header);
        }
        let names = self.sections.of(self.input.section_names as u32);
        Ok(writer
            .finish(names.ok_or_else(|| Error::new(Stage::Emit, "the table of section names is dropped"))?))
    }

    /// The contents of a section that is not divided.
    fn contents(
        &self,
        index: usize,
        output: Output<'_>,
        tables: &NamedTables,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let profile = self.profile.as_ref();
        match self.input.role(index) {
            Role::Null => {}
            Role::Content => self.copy(index, out)?,
            Role::Unwind => match self.unwind.of(index as u32) {
                Some(changed) => out.extend_from_slice(&changed.bytes),
                None => self.copy(index, out)?,
            },
            Role::Relocations => relocations::write(output, &self.unwind, index, out)?,
            Role::ProfileRelocations => out.extend_from_slice(profile.map_or(&[], |p| &p.relocations)),
            Role::CallGraphProfile => match profile.filter(|p| p.section == index) {
                Some(profile) => out.extend_from_slice(&profile.weights),
                None => self.copy(index, out)?,
            },
            Role::Group => tables::group(self.input, &self.sections, index, out)?,
            Role::Addrsig => tables::addrsig(self.input, &self.table, self.split, index, out)?,
            Role::SymbolTable => out.extend_from_slice(&tables.symbols),
            Role::ExtendedIndices => out.extend_from_slice(&tables.extended),
            Role::Names => {
                let missing = || self.input.about(index, "names neither symbols nor sections");
                out.extend_from_slice(&tables.strings.get(&index).ok_or_else(missing)?.bytes);
            }
        }
        Ok(())
    }

    fn copy(&self, index: usize, out: &mut Vec<u8>) -> Result<()> {
        if self.input.section(index)?.sh_type.get(LE) == elf::SHT_NOBITS {
            return Ok(());
        }
        let start = out.len();
        out.extend_from_slice(self.input.data(index)?);
        self.scan.patch(self.input, index as u32, out.get_mut(start..).unwrap_or(&mut []))
    }

    fn part(&self, section: u32, part: u32) -> Result<&SectionPart> {
        let divided = self.split.of(section);
        divided.ok_or_else(|| self.input.about(section as usize, "is not divided"))?.part(part)
    }

    /// The contents of a part. Short jumps that lead out of it become near jumps, whose fields are relocated.
    fn part_contents(&self, section: u32, part: u32, out: &mut Vec<u8>) -> Result<()> {
        let part = self.part(section, part)?;
        let index = section as usize;
        if let Some(stub) = &part.stub {
            out.extend_from_slice(stub.bytes());
            return Ok(());
        }
        if self.input.section(index)?.sh_type.get(LE) == elf::SHT_NOBITS {
            return Ok(());
        }
        let outside = || self.input.about(index, "a part is outside of the section");
        let range = || Some(usize::try_from(part.start).ok()?..usize::try_from(part.end).ok()?);
        let bytes = range().and_then(|r| self.input.data(index).ok()?.get(r)).ok_or_else(outside)?;
        let start = out.len();
        out.extend_from_slice(bytes);
        let all = self.split.synthesized(section);
        let own = all.get(all.partition_point(|s| s.field <= part.start)..).unwrap_or(&[]);
        for added in own.iter().take_while(|s| s.field < part.end).filter(|s| s.relaxed) {
            let opcode = out.get_mut(start + (added.field - 1 - part.start) as usize);
            *opcode.ok_or_else(outside)? = NEAR_JUMP;
        }
        Ok(())
    }

    /// The header of a section of the output. Offset and size are set by [`ObjectWriter::end`].
    fn header(&self, slot: Slot, name: u32, number: u32) -> Result<Shdr> {
        let symbols = self.input.symbol_table.and_then(|t| self.sections.of(t as u32)).unwrap_or(0);
        let old = *self.input.section(slot.old() as usize)?;
        let mut header = Shdr { sh_name: U32::new(LE, name), ..old };
        match slot {
            Slot::Whole(section) => self.link(section, None, &mut header)?,
            Slot::Part { section, part } => {
                self.link(section, Some(part), &mut header)?;
                let part = self.part(section, part)?;
                header.sh_addralign = U64::new(LE, part.align);
                // The writer keeps this size for `SHT_NOBITS` only.
                header.sh_size = U64::new(LE, part.end - part.start);
            }
            Slot::Relocations { section, part } => {
                let target = self.part_index(section, old.sh_info.get(LE), part)?;
                (header.sh_link, header.sh_info) = (U32::new(LE, symbols), U32::new(LE, target));
            }
            Slot::NewRelocations { target, part } => {
                let group = old.sh_flags.get(LE).0 & elf::SHF_GROUP.0;
                header = relocation_header(name, symbols, self.part_index(target, target, part)?, group);
            }
            Slot::Stubs => header = new_header(name, elf::SHT_PROGBITS, 0, 1),
            Slot::StubRelocations => header = relocation_header(name, symbols, number - 1, 0),
            Slot::Addrsig => header = tables::addrsig_header(name, symbols),
        }
        Ok(header)
    }

    /// The new index of a part, to which a relocation section of section `index` belongs.
    fn part_index(&self, index: u32, target: u32, part: u32) -> Result<u32> {
        let missing = || self.input.about(index as usize, "relocates a part that is not there");
        self.sections.part(target, part).ok_or_else(missing)
    }

    /// Renumber `sh_link` and `sh_info` of a section or a part of it (gABI, "sh_link and sh_info Interpretation").
    fn link(&self, old: u32, part: Option<u32>, header: &mut Shdr) -> Result<()> {
        let index = old as usize;
        let role = self.input.role(index);
        let flags = header.sh_flags.get(LE).0;
        if role == Role::Null {
            return Ok(());
        }
        if flags & elf::SHF_LINK_ORDER.0 != 0
            && let Some(after) = self.split.ordered_after(old, part)
        {
            let new = match self.split.part_of(after) {
                Some((section, part)) => self.sections.part(section, part),
                None => self.sections.of(self.split.atom(after)?.0.section),
            };
            let lost = || self.input.about(index, "is ordered after a section that is dropped");
            header.sh_link = U32::new(LE, new.ok_or_else(lost)?);
            return Ok(());
        }
        let section = |old: u32| {
            let wrong = |what: &str| self.input.about(index, format!("is tied to section {old}, {what}"));
            if self.split.of(old).is_some_and(|p| p.only.is_none()) {
                return Err(wrong("of which only a part is kept"));
            }
            self.sections.of(old).ok_or_else(|| wrong("which is dropped"))
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

    /// Write the symbol table, and the names of symbols and sections.
    fn named_tables(&self) -> Result<NamedTables> {
        let input = self.input;
        let mut noted: BTreeMap<usize, StringTable<'_>> = BTreeMap::new();
        for table in input.symbol_names.into_iter().chain([input.section_names]) {
            // A table is kept whole if another kind of section refers to its strings.
            let is_foreign = |(i, s): (usize, &Shdr)| {
                i != 0 && s.sh_link.get(LE) as usize == table && input.role(i) != Role::SymbolTable
            };
            let is_foreign = input.sections.iter().enumerate().any(is_foreign);
            noted.insert(table, StringTable::new(input.data(table)?, is_foreign));
        }
        if let Some(names) = input.symbol_names.and_then(|table| noted.get_mut(&table)) {
            self.table.note_names(input, names);
        }
        if let Some(names) = noted.get_mut(&input.section_names) {
            for slot in &self.sections.order {
                names.note(input.section(slot.old() as usize)?.sh_name.get(LE));
            }
        }
        let mut strings: BTreeMap<usize, PrunedStringTable> =
            noted.into_iter().map(|(table, names)| (table, names.finish())).collect();
        let none = PrunedStringTable::default();
        let symbol_names = input.symbol_names.and_then(|table| strings.get(&table)).unwrap_or(&none);
        let moved = |section, value| self.unwind.moved(section, value);
        let (symbols, extended) = self.table.write(input, &self.sections, &moved, symbol_names)?;
        let extended = extended.unwrap_or_else(|| vec![0; symbols.len() / size_of::<Sym>() * 4]);
        let section_names = match strings.get_mut(&input.section_names) {
            Some(names) => self.section_names(names)?,
            None => return Err(Error::new(Stage::Emit, "there is no table of section names")),
        };
        Ok(NamedTables { strings, section_names, symbols, extended })
    }

    /// The offset of the name of each section of the output. Names that the input does not have are appended.
    fn section_names(&self, names: &mut PrunedStringTable) -> Result<Vec<u32>> {
        let order = &self.sections.order;
        let mut of_relocations: BTreeMap<u32, u32> = BTreeMap::new();
        for slot in order {
            if let Slot::NewRelocations { target, .. } = *slot {
                let name = [RELA, self.input.section_name(target as usize)].concat();
                of_relocations.entry(target).or_insert_with(|| names.push(&name));
            }
        }
        // The plan names these parts. The name of the relocation section contains that of the part.
        let mut of_parts: BTreeMap<(u32, u32), u32> = BTreeMap::new();
        for slot in order {
            if let Slot::Part { section, part } = *slot
                && let Some(name) = self.split.name_of(section, part)
            {
                of_parts.insert((section, part), names.push(&[RELA, name].concat()));
            }
        }
        let mut offsets = Vec::with_capacity(order.len());
        for slot in order {
            let header = self.input.section(slot.old() as usize)?;
            let own = names.new_offset(header.sh_name.get(LE));
            offsets.push(match *slot {
                Slot::Whole(_) => own,
                Slot::Part { section, part } => {
                    of_parts.get(&(section, part)).map_or(own, |name| name + RELA.len() as u32)
                }
                Slot::Relocations { part, .. } => {
                    of_parts.get(&(header.sh_info.get(LE), part)).copied().unwrap_or(own)
                }
                Slot::NewRelocations { target, part } => {
                    let name = of_parts.get(&(target, part)).or(of_relocations.get(&target));
                    name.copied().unwrap_or(own)
                }
                Slot::Stubs => names.push(tables::STUBS),
                Slot::StubRelocations => names.push(tables::STUB_RELOCATIONS),
                Slot::Addrsig => names.push(tables::ADDRSIG),
            });
        }
        Ok(offsets)
    }
}
