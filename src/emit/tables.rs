//! Tables that hold symbol or section indices: groups, `.llvm_addrsig`, the call-graph profile, and the table of stubs.
//!
//! Each keeps its order, without the entries of dropped sections and symbols. Sources: gABI "Section Groups"; LLVM's
//! "Extensions" (`SHT_LLVM_ADDRSIG`, `SHT_LLVM_CALL_GRAPH_PROFILE`).

use object::{I64, LittleEndian, U32, U64, elf, pod};
use summaries::native::significance::Significance;

use super::cursor::{Cursor, uleb};
use super::input::{ADDRSIG as SHT_LLVM_ADDRSIG, Input, LE, Rela, Role, Shdr, SymbolPlace};
use super::parts::SplitSections;
use super::sections::{SectionNumbering, group_members};
use super::symbols::{EmittedSymbol, EmittedSymbols};
use super::write::{new_header, relocation};
use crate::error::Result;

type Rel = elf::Rel64<LittleEndian>;

/// The contents of a group with its kept members, and all parts of each.
pub(super) fn group(
    input: &Input<'_>,
    sections: &SectionNumbering,
    index: usize,
    out: &mut Vec<u8>,
) -> Result<()> {
    let flags = input.data(index)?.get(..4).ok_or_else(|| input.about(index, "has no flags"))?;
    out.extend_from_slice(flags);
    for member in group_members(input, index)? {
        for new in sections.all_of(member as u32) {
            out.extend_from_slice(&new.to_le_bytes());
        }
    }
    Ok(())
}

/// The symbols that the `.llvm_addrsig` in section `index` lists: ULEB128 indices.
pub(super) fn listed(input: &Input<'_>, index: usize) -> Result<Vec<u32>> {
    let mut cursor = Cursor::new(input.data(index)?, 0);
    let mut listed = Vec::new();
    while !cursor.rest().is_empty() {
        let symbol = cursor.uleb().ok().and_then(|symbol| u32::try_from(symbol).ok());
        listed.push(symbol.ok_or_else(|| input.about(index, "is no list of symbol indices"))?);
    }
    Ok(listed)
}

/// Append the contents of `.llvm_addrsig`. For a listed section it lists all parts.
pub(super) fn addrsig(
    input: &Input<'_>,
    symbols: &EmittedSymbols,
    split: &SplitSections<'_>,
    index: usize,
    out: &mut Vec<u8>,
) -> Result<()> {
    for symbol in listed(input, index)? {
        if let Some(divided) = split.of_symbol(input, symbol)? {
            symbols.parts_of(divided.section).for_each(|new| uleb(out, new.into()));
        } else if let Some(new) = symbols.of(symbol) {
            uleb(out, new.into());
        }
    }
    Ok(())
}

/// The name of the address-significance table.
pub(super) const ADDRSIG: &[u8] = b".llvm_addrsig";

/// The contents of a new `.llvm_addrsig`. It lists defined symbols except foldable functions, file symbols and group signatures, and
/// undefined symbols whose address this object takes. Divided sections are listed by part.
pub(super) fn new_addrsig(
    input: &Input<'_>,
    symbols: &EmittedSymbols,
    split: &SplitSections<'_>,
    addresses: &Significance,
) -> Result<Vec<u8>> {
    let mentioned = |old: usize| addresses.mentioned.get(old) == Some(&true);
    let mut listed = Vec::new();
    for (old, (symbol, entry)) in input.symbols.iter().zip(&symbols.entries).enumerate().skip(1) {
        let lists = match (entry, input.place(old)?) {
            (EmittedSymbol::Absent | EmittedSymbol::Absolute, _) => false,
            (EmittedSymbol::Undefined | EmittedSymbol::WeakUndefined, _) | (_, SymbolPlace::Undefined) => {
                mentioned(old)
            }
            (EmittedSymbol::AsItWas, SymbolPlace::Section(section)) => match split.of(section) {
                // The section symbols of parts are listed below.
                Some(_) if symbol.st_type() == elf::STT_SECTION => false,
                Some(divided) => {
                    let home = symbols.homes.binary_search_by_key(&(old as u32), |h| h.symbol).ok();
                    let home = home.and_then(|h| symbols.homes.get(h));
                    !home.map(|h| divided.part(h.part)).transpose()?.is_some_and(|r| r.foldable)
                }
                None => !split.is_foldable(section),
            },
            (EmittedSymbol::AsItWas, _) => symbol.st_type() != elf::STT_FILE,
        };
        if let (true, Some(new)) = (lists, symbols.of(old as u32)) {
            listed.push(new);
        }
    }
    for divided in &split.sections {
        for (_, index) in divided.parts.iter().zip(0..).filter(|(part, _)| !part.foldable) {
            let lost =
                || input.about(divided.section as usize, format!("part {index} has no symbol to list"));
            listed.push(symbols.part(divided.section, index).ok_or_else(lost)?);
        }
    }
    listed.sort_unstable();
    let mut out = Vec::with_capacity(listed.len() * 2);
    listed.iter().for_each(|symbol| uleb(&mut out, (*symbol).into()));
    Ok(out)
}

/// The header of the new table. Linkers read a table that is linked to the symbol table and has `SHF_EXCLUDE`.
pub(super) fn addrsig_header(name: u32, symbol_table: u32) -> Shdr {
    let header = new_header(name, SHT_LLVM_ADDRSIG, elf::SHF_EXCLUDE.0, 1);
    Shdr { sh_link: U32::new(LE, symbol_table), ..header }
}

/// The kept edges of a call-graph profile: the weights, and the relocations that name their ends.
#[derive(Debug, Default)]
pub(super) struct Profile {
    /// The index of the section in the input.
    pub(super) section: usize,
    pub(super) relocation_section: usize,
    pub(super) weights: Vec<u8>,
    pub(super) relocations: Vec<u8>,
}

/// Rewrite the call-graph profile, if there is one with relocations. Two `R_X86_64_NONE` relocations name the ends of an edge. LLVM
/// writes them without addends, also on x86-64.
pub(super) fn profile(input: &Input<'_>, symbols: &EmittedSymbols) -> Result<Option<Profile>> {
    let mut all = (1..input.sections.len()).filter(|i| input.role(*i) == Role::ProfileRelocations);
    let Some(relocation_section) = all.next() else { return Ok(None) };
    let index = input.section(relocation_section)?.sh_info.get(LE) as usize;
    if all.next().is_some() {
        return Err(input.about(index, "is not the only call-graph profile"));
    }
    let has_addends = input.section(relocation_section)?.sh_type.get(LE) == elf::SHT_RELA;
    let entries: Vec<Rela> = if has_addends {
        input.table::<Rela>(relocation_section)?.to_vec()
    } else {
        let widen = |r: &Rel| Rela { r_offset: r.r_offset, r_info: r.r_info, r_addend: I64::default() };
        input.table::<Rel>(relocation_section)?.iter().map(widen).collect()
    };
    let (edges, rest) = input.data(index)?.as_chunks::<8>();
    if !rest.is_empty() || entries.len() != edges.len() * 2 {
        return Err(input.about(index, "does not have two relocations for each weight"));
    }
    let mut profile = Profile { section: index, relocation_section, ..Profile::default() };
    for (weight, ends) in edges.iter().zip(entries.as_chunks::<2>().0) {
        let [from, to] = ends;
        let (Some(new_from), Some(new_to)) =
            (symbols.of(from.r_sym(LE, false)), symbols.of(to.r_sym(LE, false)))
        else {
            continue;
        };
        let offset = profile.weights.len() as u64;
        profile.weights.extend_from_slice(weight);
        for (entry, symbol) in [(from, new_from), (to, new_to)] {
            if entry.r_type(LE, false) != elf::R_X86_64_NONE {
                return Err(input.about(index, "has a relocation other than R_X86_64_NONE"));
            }
            let mut new = *entry;
            new.r_offset = U64::new(LE, offset);
            new.set_r_info(LE, false, symbol, elf::R_X86_64_NONE);
            let bytes = pod::bytes_of(&new);
            let size = if has_addends { size_of::<Rela>() } else { size_of::<Rel>() };
            profile.relocations.extend_from_slice(bytes.get(..size).unwrap_or(bytes));
        }
    }
    Ok(Some(profile))
}

/// The name of the table of stubs. It makes the table debug information to linkers. With `--gc-sections` GNU ld drops any
/// other section that has relocations and no flags, and gold may refuse it.
pub(super) const STUBS: &[u8] = b".debug_lto_prune_stubs";
pub(super) const STUB_RELOCATIONS: &[u8] = b".rela.debug_lto_prune_stubs";

/// The contents of the table of stubs and of its relocation section. An entry is a relocated 64-bit address, the size in 32 bits, and
/// the name with a NUL, without padding.
#[derive(Debug, Default)]
pub(super) struct StubTable {
    pub(super) bytes: Vec<u8>,
    pub(super) relocations: Vec<u8>,
}

/// The table for the stubs of an object, by section and place. `explain-trap` reads it.
pub(super) fn stubs(
    input: &Input<'_>,
    split: &SplitSections<'_>,
    symbols: &EmittedSymbols,
) -> Result<StubTable> {
    // The symbols of each part (section, part). Global symbols come first, since the linker knows the function by them.
    let mut names: Vec<((u32, u32), bool, usize)> = Vec::new();
    for home in symbols.homes.iter().filter(|h| h.stub.is_some()) {
        let symbol = home.symbol as usize;
        let local = symbol < input.first_global;
        if let SymbolPlace::Section(section) = input.place(symbol)?
            && !input.symbol_name(symbol).is_empty()
        {
            names.push(((section, home.part), local, symbol));
        }
    }
    names.sort_unstable();
    let mut table = StubTable::default();
    for divided in &split.sections {
        for (part, code) in divided.stubs() {
            let place = (divided.section, part);
            let first = names.partition_point(|(p, _, _)| *p < place);
            let name = names.get(first).filter(|(p, _, _)| *p == place);
            let name = name.map_or(input.section_name(divided.section as usize), |n| input.symbol_name(n.2));
            let symbol = symbols
                .part(divided.section, part)
                .ok_or_else(|| input.about(divided.section as usize, "a stub in it has no section symbol"))?;
            let entry = relocation(table.bytes.len() as u64, elf::R_X86_64_64, symbol, 0);
            table.relocations.extend_from_slice(pod::bytes_of(&entry));
            table.bytes.extend_from_slice(&[0; 8]);
            table.bytes.extend_from_slice(&(code.size() as u32).to_le_bytes());
            table.bytes.extend_from_slice(name);
            table.bytes.push(0);
        }
    }
    Ok(table)
}
