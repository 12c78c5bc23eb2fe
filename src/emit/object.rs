//! One module rewritten: the plan applied to the bytes of an object.
//!
//! [`rewrite`] is the list of the steps. First everything is decided in old numbers (fates of sections, unwind
//! records, standings of symbols, relocations that are resolved), then sections and symbols are numbered anew, then
//! the output is written once, front to back. The contents of a section that stays are copied bit by bit, but for
//! `.eh_frame` and for fields of sections that are not allocated; order, names, flags, alignments and entry sizes
//! stay.
//!
//! Left out: splitting a section; atoms are whole sections here.

use object::U32;
use object::elf;
use summaries::ModuleSummary;

use super::input::{Input, LE, Role, Shdr};
use super::relocations::{self, Scan};
use super::sections::{Fates, Numbering};
use super::strings::{Compacted, StringTable};
use super::symbols::{SymbolTable, Symbols};
use super::tables;
use super::unwind::Unwind;
use super::write::Writer;
use crate::error::Result;
use crate::plan::ModulePlan;

/// Everything that was decided, in old numbers and new.
struct Model<'a, 'p> {
    input: &'a Input<'a>,
    symbols: Symbols<'p>,
    unwind: Unwind,
    scan: Scan,
    sections: Numbering,
    table: SymbolTable,
}

/// The object `bytes` without what `plan` drops. `summary` is the summary of the same bytes.
///
/// The result is a valid ELF64 x86-64 relocatable object with the sections and symbols that stay in their old order.
///
/// # Errors
/// Stage emit, with section and symbol where there is one: bytes that are no such object, a section of a type
/// that can't be renumbered, a plan that is not of this module or that leaves a reference without a definition.
pub fn rewrite(bytes: &[u8], summary: &ModuleSummary, plan: &ModulePlan) -> Result<Vec<u8>> {
    let input = Input::parse(bytes)?;
    let mut fates = Fates::decide(&input, summary, plan)?;
    let mut symbols = Symbols::new(&input, summary, plan, &fates)?;
    let unwind = Unwind::prune(&input, &fates, &symbols)?;
    let scan = relocations::scan(&input, &fates, &unwind, &mut symbols)?;
    drop_emptied(&input, &mut fates, &unwind, &scan, &symbols)?;
    let table = symbols.number(&input, &fates, scan.needs_zero)?;
    drop_extended_indices(&input, &mut fates);
    let sections = fates.number();
    Model { input: &input, symbols, unwind, scan, sections, table }.write()
}

/// Relocation sections whose entries all went go; so does an `.eh_frame` of which nothing is left, unless a symbol
/// marks its place.
fn drop_emptied(
    input: &Input<'_>,
    fates: &mut Fates,
    unwind: &Unwind,
    scan: &Scan,
    symbols: &Symbols<'_>,
) -> Result<()> {
    for index in 1..input.sections.len() {
        if input.role(index) == Role::Relocations && !scan.has_entries(index) {
            fates.drop(index);
        }
    }
    let needed = symbols.needed_sections(input)?;
    for index in unwind.emptied() {
        if needed.get(index) != Some(&true) {
            fates.drop(index);
        }
    }
    Ok(())
}

/// Section numbers only shrink, so the table of extended ones is needed only if there still are that many sections.
fn drop_extended_indices(input: &Input<'_>, fates: &mut Fates) {
    let stay = (1..input.sections.len()).filter(|i| fates.keeps(*i)).count() + 1;
    if stay <= usize::from(elf::SHN_LORESERVE) {
        for index in 1..input.sections.len() {
            if input.role(index) == Role::ExtendedIndices {
                fates.drop(index);
            }
        }
    }
}

impl Model<'_, '_> {
    fn write(&self) -> Result<Vec<u8>> {
        let (mut symbol_names, section_names) = self.names()?;
        let shared = self.input.symbol_names == Some(self.input.section_names);
        let names = symbol_names.as_mut();
        let mut none = Compacted::default();
        let (symbols, extended) =
            self.table.write(self.input, &self.sections, &self.unwind, names.unwrap_or(&mut none))?;
        let profiles = tables::profiles(self.input)?
            .into_iter()
            .map(|(index, r)| Ok((index, r, tables::profile(self.input, &self.table, index, r)?)))
            .collect::<Result<Vec<_>>>()?;

        let mut writer = Writer::new(self.input.header, self.input.bytes.len(), self.sections.order.len());
        for &old in &self.sections.order {
            let index = old as usize;
            let mut header = *self.input.section(index)?;
            let name_table = match shared {
                true => symbol_names.as_ref().unwrap_or(&section_names),
                false => &section_names,
            };
            header.sh_name = U32::new(LE, name_table.new_offset(header.sh_name.get(LE)));
            self.link(index, &mut header)?;
            writer.start(&header);
            match self.input.role(index) {
                Role::Null => {}
                Role::Content => self.copy(index, &header, &mut writer)?,
                Role::Unwind => match self.unwind.of(old) {
                    Some(changed) => writer.out.extend_from_slice(&changed.bytes),
                    None => self.copy(index, &header, &mut writer)?,
                },
                Role::Relocations => relocations::write(
                    self.input,
                    &self.symbols,
                    &self.table,
                    &self.unwind,
                    index,
                    &mut writer.out,
                )?,
                Role::ProfileRelocations => {
                    let profile = profiles.iter().find(|(_, r, _)| *r == index);
                    writer.out.extend_from_slice(profile.map_or(&[], |(_, _, p)| &p.relocations));
                }
                Role::CallGraphProfile => match profiles.iter().find(|(p, _, _)| *p == index) {
                    Some((_, _, profile)) => writer.out.extend_from_slice(&profile.weights),
                    None => self.copy(index, &header, &mut writer)?,
                },
                Role::Group => tables::group(self.input, &self.sections, index, &mut writer.out)?,
                Role::Addrsig => tables::addrsig(self.input, &self.table, index, &mut writer.out)?,
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

    fn copy(&self, index: usize, header: &Shdr, writer: &mut Writer) -> Result<()> {
        if header.sh_type.get(LE) == elf::SHT_NOBITS {
            return Ok(());
        }
        let at = writer.out.len();
        writer.out.extend_from_slice(self.input.data(index)?);
        let contents = writer.out.get_mut(at..).unwrap_or(&mut []);
        self.scan.patch(self.input, index as u32, contents)
    }

    /// Renumber `sh_link` and `sh_info` (gABI, "sh_link and sh_info Interpretation").
    fn link(&self, index: usize, header: &mut Shdr) -> Result<()> {
        let role = self.input.role(index);
        let flags = header.sh_flags.get(LE).0;
        if index == 0 || role == Role::Null {
            return Ok(());
        }
        let section = |old: u32| {
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
    fn names(&self) -> Result<(Option<Compacted>, Compacted)> {
        let input = self.input;
        let of_sections = self.string_table(input.section_names)?;
        let of_symbols = input.symbol_names.map(|i| self.string_table(i)).transpose()?;
        let shared = input.symbol_names == Some(input.section_names);
        let (mut of_symbols, mut of_sections) = (of_symbols, of_sections);
        if let Some(names) = &mut of_symbols {
            self.table.note_names(input, names);
        }
        for &old in &self.sections.order {
            let name = input.section(old as usize)?.sh_name.get(LE);
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
