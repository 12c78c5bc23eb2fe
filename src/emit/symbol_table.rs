//! The symbol table of the output: numbers, and the bytes of it.
//!
//! Decides nothing: how each symbol appears was decided in [`symbols`](super::symbols). Symbols that are not of the input
//! (section symbols of parts and of new debug sections) stand behind the input's local ones.
//!
//! Left out: names of what goes; [`strings`](super::strings) drops them.

use object::elf::{self, SymbolBind};
use object::{U16, U32, U64, pod};

use super::input::{Input, LE, Sym, SymbolPlace};
use super::sections::SectionNumbering;
use super::strings::{PrunedStringTable, StringTable};
use crate::error::{Error, Result, Stage};

/// How a symbol appears in the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EmittedSymbol {
    Absent,
    AsItWas,
    /// Undefined, with the binding that it had.
    Undefined,
    /// Undefined and weak: only its name and visibility matter.
    WeakUndefined,
    /// A local signature of a group whose own definition went: only its name matters.
    Absolute,
}
/// The run in which a symbol of a divided section is.
#[derive(Debug, Clone, Copy)]
pub(super) struct SymbolRun {
    pub(super) symbol: u32,
    pub(super) run: u32,
    /// Where the run starts in the original section.
    pub(super) start: u64,
    /// The size of the stub that the symbol names, in bytes; `None` where it names none.
    pub(super) stub: Option<u64>,
}
/// The symbol table of the output.
#[derive(Debug)]
pub(super) struct EmittedSymbols {
    pub(super) entries: Vec<EmittedSymbol>,
    /// The new index of each old one; `u32::MAX` for a symbol that goes.
    pub(super) new: Vec<u32>,
    /// `sh_info`: index of the first non-local symbol.
    pub(super) first_global: u32,
    /// Section symbols of debug sections that the input has no symbol of: the sections.
    pub(super) debug: Vec<u32>,
    pub(super) homes: Vec<SymbolRun>,
    /// The section symbol of each run that has one: (old section, run, new symbol), sorted.
    pub(super) runs: Vec<(u32, u32, u32)>,
    /// Runs whose section symbols are new, in the order of the table.
    pub(super) added: Vec<(u32, u32)>,
    /// Index of the first symbol that is not of the input: the section symbols.
    pub(super) first_added: u32,
}
fn malformed(message: impl Into<String>) -> Error {
    Error::new(Stage::Emit, message)
}

impl EmittedSymbols {
    /// Number what comes behind the local symbols of the input; returns the index of the first global symbol.
    pub(super) fn end_locals(&mut self, next: u32, runs: &[(u32, u32)]) -> u32 {
        // Entry 0 is local, also where the input's sh_info says otherwise.
        self.first_added = next;
        let mut next = next;
        for &(section, run) in runs {
            if self.run(section, run).is_none() {
                self.added.push((section, run));
            }
        }
        for &(section, run) in &self.added {
            self.runs.push((section, run, next));
            next += 1;
        }
        self.runs.sort_unstable();
        next += self.debug.len() as u32;
        self.first_global = next;
        self.first_global
    }

    /// The new index of the section symbol of a run; `None` if it has none.
    pub(super) fn run(&self, section: u32, run: u32) -> Option<u32> {
        let found = self.runs.binary_search_by_key(&(section, run), |(s, r, _)| (*s, *r)).ok()?;
        self.runs.get(found).map(|(_, _, symbol)| *symbol)
    }

    /// The new indices of the section symbols of all runs of a section.
    pub(super) fn runs_of(&self, section: u32) -> impl Iterator<Item = u32> + '_ {
        let start = self.runs.partition_point(|(s, _, _)| *s < section);
        self.runs.iter().skip(start).take_while(move |(s, _, _)| *s == section).map(|(_, _, symbol)| *symbol)
    }

    /// The new index of an old symbol; `None` if it goes.
    pub(super) fn of(&self, old: u32) -> Option<u32> {
        let Some(new) = self.new.get(old as usize) else {
            // Behind the input's symbols stand those of new debug sections, here behind those of parts.
            let debug = (old as usize).checked_sub(self.new.len()).filter(|i| *i < self.debug.len())?;
            return Some(self.first_added + self.added.len() as u32 + debug as u32);
        };
        Some(*new).filter(|n| *n != u32::MAX)
    }

    /// Tell the string table which names stay.
    pub(super) fn note_names(&self, input: &Input<'_>, names: &mut StringTable<'_>) {
        for (symbol, entry) in input.symbols.iter().zip(&self.entries) {
            if *entry != EmittedSymbol::Absent {
                names.note(symbol.st_name.get(LE));
            }
        }
    }

    /// The bytes of the symbol table, and of `SHT_SYMTAB_SHNDX` if some section number needs it. `moved` says where an offset of a
    /// section is that is emitted whole.
    pub(super) fn write(
        &self,
        input: &Input<'_>,
        sections: &SectionNumbering,
        moved: &dyn Fn(u32, u64) -> u64,
        names: &mut PrunedStringTable,
    ) -> Result<(Vec<u8>, Option<Vec<u8>>)> {
        let mut out = Vec::with_capacity(std::mem::size_of_val(input.symbols));
        let mut extended: Vec<u32> = Vec::new();
        let mut any_extended = false;
        for (i, (old, entry)) in input.symbols.iter().zip(&self.entries).enumerate() {
            if extended.len() == self.first_added as usize {
                any_extended |= self.write_added(sections, &mut out, &mut extended)?;
            }
            if *entry == EmittedSymbol::Absent {
                continue;
            }
            let mut symbol = *old;
            symbol.st_name = U32::new(LE, names.new_offset(old.st_name.get(LE)));
            let mut high = 0;
            match entry {
                EmittedSymbol::AsItWas => {
                    if let SymbolPlace::Section(section) = input.place(i)? {
                        let home = self
                            .homes
                            .binary_search_by_key(&(i as u32), |h| h.symbol)
                            .ok()
                            .and_then(|h| self.homes.get(h));
                        let new = home
                            .map_or_else(|| sections.of(section), |h| sections.part(section, h.run))
                            .ok_or_else(|| input.about(section as usize, "goes, but a symbol of it stays"))?;
                        symbol.st_shndx = U16::new(LE, elf::SymbolSection::new(new));
                        if symbol.st_shndx.get(LE) == elf::SHN_XINDEX {
                            high = new;
                        }
                        let value = match (home, old.st_type()) {
                            (None, _) => moved(section, old.st_value.get(LE)),
                            (Some(_), elf::STT_SECTION) => 0,
                            (Some(home), _) => old.st_value.get(LE).wrapping_sub(home.start),
                        };
                        symbol.st_value = U64::new(LE, value);
                        if let Some(size) = home.and_then(|h| h.stub)
                            && old.st_size.get(LE) != 0
                        {
                            symbol.st_size = U64::new(LE, size);
                        }
                    }
                }
                EmittedSymbol::Undefined => make_undefined(&mut symbol, undefined_binding(old.st_bind())?),
                EmittedSymbol::WeakUndefined => make_undefined(&mut symbol, elf::STB_WEAK),
                EmittedSymbol::Absolute | EmittedSymbol::Absent => {
                    symbol.st_shndx = U16::new(LE, elf::SHN_ABS);
                    symbol.st_value = U64::new(LE, 0);
                    symbol.st_size = U64::new(LE, 0);
                }
            }
            any_extended |= high != 0;
            extended.push(high);
            out.extend_from_slice(pod::bytes_of(&symbol));
        }
        if extended.len() == self.first_added as usize {
            any_extended |= self.write_added(sections, &mut out, &mut extended)?;
        }
        let extended = any_extended.then(|| extended.iter().flat_map(|e| e.to_le_bytes()).collect());
        Ok((out, extended))
    }
}

impl EmittedSymbols {
    /// Append the symbols that are not of the input. Whether some section number is an extended one.
    fn write_added(
        &self,
        sections: &SectionNumbering,
        out: &mut Vec<u8>,
        extended: &mut Vec<u32>,
    ) -> Result<bool> {
        let mut any_extended = false;
        let runs = self.added.iter().map(|&(section, run)| {
            let gone = || malformed(format!("section {section} goes, but a part of it is referred to"));
            sections.part(section, run).ok_or_else(gone)
        });
        let debug = self.debug.iter().map(|&section| {
            let gone = || malformed("a new debug section is not there");
            sections.of(section).ok_or_else(gone)
        });
        for new in runs.chain(debug) {
            let new = new?;
            let symbol = Sym {
                st_info: elf::SymbolInfo::new(elf::STB_LOCAL, elf::STT_SECTION),
                st_shndx: U16::new(LE, elf::SymbolSection::new(new)),
                ..Sym::default()
            };
            let high = if symbol.st_shndx.get(LE) == elf::SHN_XINDEX { new } else { 0 };
            any_extended |= high != 0;
            extended.push(high);
            out.extend_from_slice(pod::bytes_of(&symbol));
        }
        Ok(any_extended)
    }
}

/// The binding of a reference to what was a definition. `STB_GNU_UNIQUE` means definitions only.
fn undefined_binding(old: SymbolBind) -> Result<SymbolBind> {
    match old {
        elf::STB_GLOBAL | elf::STB_GNU_UNIQUE => Ok(elf::STB_GLOBAL),
        elf::STB_WEAK => Ok(elf::STB_WEAK),
        other => Err(malformed(format!("a symbol of binding {} can't become undefined", other.0))),
    }
}

/// As compilers write undefined symbols: no type, but for thread-local ones, which linkers hold against the
/// definition's.
fn make_undefined(symbol: &mut Sym, bind: SymbolBind) {
    let kind = if symbol.st_type() == elf::STT_TLS { elf::STT_TLS } else { elf::STT_NOTYPE };
    symbol.set_st_info(bind, kind);
    symbol.st_shndx = U16::new(LE, elf::SHN_UNDEF);
    symbol.st_value = U64::new(LE, 0);
    symbol.st_size = U64::new(LE, 0);
}
