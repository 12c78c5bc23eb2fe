//! Tables that hold symbol or section indices: groups, `.llvm_addrsig`, the call-graph profile.
//!
//! Each is rewritten in the order of the input, entries of what is dropped left out. Safe because each entry is a
//! fact by itself: a group loses members, the address-significance table loses symbols that do not exist any
//! more, the profile loses edges of functions that do not. Sources: gABI "Section Groups"; LLVM's
//! "Extensions" (`SHT_LLVM_ADDRSIG`, `SHT_LLVM_CALL_GRAPH_PROFILE`).

use object::{I64, LittleEndian, U32, U64, elf, pod};
use summaries::native::significance::Significance;

use super::input::{ADDRSIG as SHT_LLVM_ADDRSIG, Input, LE, Rela, Role, Shdr, SymbolPlace};
use super::parts::SplitSections;
use super::sections::{SectionNumbering, group_members};
use super::symbol_table::{EmittedSymbol, EmittedSymbols};
use crate::error::Result;

type Rel = elf::Rel64<LittleEndian>;

/// The contents of a group with the members that stay, all parts of each.
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
    let mut data = input.data(index)?;
    let mut listed = Vec::new();
    while !data.is_empty() {
        let (symbol, rest) =
            read_uleb(data).ok_or_else(|| input.about(index, "is no list of symbol indices"))?;
        data = rest;
        listed.push(symbol);
    }
    Ok(listed)
}

/// `.llvm_addrsig` of the output. If the address of a section mattered, so do those of all its parts.
pub(super) fn addrsig(
    input: &Input<'_>,
    symbols: &EmittedSymbols,
    parts: &SplitSections<'_>,
    index: usize,
    out: &mut Vec<u8>,
) -> Result<()> {
    for symbol in listed(input, index)? {
        if let Some(divided) = parts.of_symbol(input, symbol)? {
            symbols.runs_of(divided.section).for_each(|new| write_uleb(new, out));
        } else if let Some(new) = symbols.of(symbol) {
            write_uleb(new, out);
        }
    }
    Ok(())
}

fn read_uleb(data: &[u8]) -> Option<(u32, &[u8])> {
    let mut value: u64 = 0;
    for (i, byte) in data.iter().enumerate().take(5) {
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte & 0x80 == 0 {
            return Some((u32::try_from(value).ok()?, data.get(i + 1..)?));
        }
    }
    None
}

/// The name of the address-significance table.
pub(super) const ADDRSIG: &[u8] = b".llvm_addrsig";

/// `.llvm_addrsig` for an object that has none: every symbol of the output, but those of functions that can be folded and
/// those undefined ones whose address nothing here forms.
pub(super) fn new_addrsig(
    input: &Input<'_>,
    symbols: &EmittedSymbols,
    parts: &SplitSections<'_>,
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
            (EmittedSymbol::AsItWas, SymbolPlace::Section(section)) => match parts.of(section) {
                // Those of the parts are listed below, the first one's among them.
                Some(_) if symbol.st_type() == elf::STT_SECTION => false,
                Some(divided) => {
                    let home = symbols.homes.binary_search_by_key(&(old as u32), |h| h.symbol).ok();
                    let run = home.and_then(|h| symbols.homes.get(h)).and_then(|h| divided.run(h.run));
                    !run.is_some_and(|r| r.foldable)
                }
                None => !parts.is_foldable(section),
            },
            (EmittedSymbol::AsItWas, _) => symbol.st_type() != elf::STT_FILE,
        };
        if let (true, Some(new)) = (lists, symbols.of(old as u32)) {
            listed.push(new);
        }
    }
    for divided in &parts.sections {
        for (_, index) in divided.runs.iter().zip(0..).filter(|(run, _)| !run.foldable) {
            let lost =
                || input.about(divided.section as usize, format!("part {index} has no symbol to list"));
            listed.push(symbols.run(divided.section, index).ok_or_else(lost)?);
        }
    }
    listed.sort_unstable();
    let mut out = Vec::with_capacity(listed.len() * 2);
    listed.iter().for_each(|symbol| write_uleb(*symbol, &mut out));
    Ok(out)
}

/// The header of such a table. Linkers take one that is tied to the symbol table and excluded from their output.
pub(super) fn addrsig_header(name: u32, symbol_table: u32) -> Shdr {
    Shdr {
        sh_name: U32::new(LE, name),
        sh_type: U32::new(LE, SHT_LLVM_ADDRSIG),
        sh_flags: U64::new(LE, elf::SectionFlags(elf::SHF_EXCLUDE.0)),
        sh_addr: U64::default(),
        sh_offset: U64::default(),
        sh_size: U64::default(),
        sh_link: U32::new(LE, symbol_table),
        sh_info: U32::default(),
        sh_addralign: U64::new(LE, 1),
        sh_entsize: U64::default(),
    }
}

fn write_uleb(mut value: u32, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A call-graph profile with the edges that stay: the weights, and the relocations that name their ends.
#[derive(Debug, Default)]
pub(super) struct Profile {
    /// The index of the section in the input.
    pub(super) section: usize,
    pub(super) relocation_section: usize,
    pub(super) weights: Vec<u8>,
    pub(super) relocations: Vec<u8>,
}

/// Rewrite the call-graph profile, if there is one that has relocations: the ends of an edge are named by two
/// `R_X86_64_NONE` relocations (LLVM writes them without addends on x86-64 too).
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
        return Err(input.about(index, "has not two relocations for each weight"));
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
                return Err(input.about(index, "is relocated by something else than R_X86_64_NONE"));
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
