//! The symbols of an object: the fate of each, its new number, and the bytes of the symbol table.
//!
//! A symbol is kept or dropped with its atom. A dropped symbol that is still referenced becomes undefined, if the
//! plan says that another definition prevails. A dropped symbol of non-default visibility leaves a weak undefined
//! entry. The linker merges the visibilities of all objects (gABI, "Symbol Table"), and a weak entry extracts no
//! archive member. Undefined symbols without a reference in the input are kept: they may extract archive members.
//!
//! The section symbol of a divided section is that of its first part. Other parts get new ones, behind the input's local symbols.
//! The order of symbols does not change, so local symbols come before global ones.

use object::elf::{self, SymbolBind};
use object::{U16, U32, U64, pod};
use summaries::{Definition, ModuleSummary};

use super::input::{Input, LE, Role, Sym, SymbolPlace};
use super::parts::{OffsetLocation, SplitSections};
use super::sections::{SectionDisposition, SectionNumbering};
use super::strings::{PrunedStringTable, StringTable};
use crate::error::{Error, Result, Stage};
use crate::plan::{Action, ModulePlan, SymbolFlags};

/// The fate of a symbol's definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SymbolDisposition {
    /// Its definition is kept in the output.
    Defined,
    /// It has no definition in the input.
    Undefined,
    /// It is dropped, and another definition prevails.
    Replaced,
    /// It is dropped, and no other definition prevails.
    Gone,
}

/// The symbols of an object under a plan. Indices are the old ones.
#[derive(Debug)]
pub(super) struct Symbols<'p> {
    pub(super) plan: &'p ModulePlan,
    first_global: usize,
    disposition: Vec<SymbolDisposition>,
    /// By symbol: a relocation of the input names it.
    was_referenced: Vec<bool>,
    /// By symbol: a kept relocation names it.
    is_referenced: Vec<bool>,
    /// The kept symbols of divided sections, in order.
    homes: Vec<PartSymbol>,
}

fn malformed(message: impl Into<String>) -> Error {
    Error::new(Stage::Emit, message)
}

impl<'p> Symbols<'p> {
    /// Find the disposition of every symbol.
    pub(super) fn new(
        input: &Input<'_>,
        summary: &ModuleSummary,
        plan: &'p ModulePlan,
        dispositions: &SectionDisposition,
        split: &SplitSections<'_>,
    ) -> Result<Self> {
        let mut homes = Vec::new();
        let count = input.symbols.len();
        if summary.symbols.len() != count {
            return Err(malformed("the summary is not of this module: its symbols differ"));
        }
        let mut disposition = Vec::with_capacity(count);
        for (i, symbol) in summary.symbols.iter().enumerate() {
            let planned = match symbol.definition {
                Definition::Atom(a) | Definition::Common(a) => {
                    plan.atoms.get(a.index()) == Some(&Action::Drop)
                }
                _ => false,
            };
            let place = input.place(i)?;
            let dropped = match place {
                SymbolPlace::Section(s) if split.of(s).is_some() => {
                    match home(input, split, i, s, symbol.definition)? {
                        Some(home) => {
                            homes.push(home);
                            false
                        }
                        None => true,
                    }
                }
                SymbolPlace::Section(s) => planned || !dispositions.keeps(s as usize),
                SymbolPlace::Undefined => false,
                _ => planned,
            };
            disposition.push(match place {
                SymbolPlace::Undefined => SymbolDisposition::Undefined,
                _ if !dropped => SymbolDisposition::Defined,
                _ if i >= input.first_global && plan.symbol(i).has(SymbolFlags::PREVAILS_ELSEWHERE) => {
                    SymbolDisposition::Replaced
                }
                _ => SymbolDisposition::Gone,
            });
        }
        Ok(Symbols {
            plan,
            first_global: input.first_global,
            disposition,
            was_referenced: vec![false; count],
            is_referenced: vec![false; count],
            homes,
        })
    }

    /// The fate of the symbol's definition.
    pub(super) fn disposition(&self, symbol: u32) -> Result<SymbolDisposition> {
        self.disposition
            .get(symbol as usize)
            .copied()
            .ok_or_else(|| malformed(format!("a relocation names symbol {symbol}, not there")))
    }

    /// Whether the symbol names a stub.
    pub(super) fn is_stub(&self, symbol: u32) -> bool {
        let found = self.homes.binary_search_by_key(&symbol, |h| h.symbol).ok();
        found.and_then(|h| self.homes.get(h)).is_some_and(|h| h.stub.is_some())
    }

    /// The definition that prevails elsewhere is itself dropped there; `None` where the plan does not say.
    pub(super) fn prevailing_dropped(&self, symbol: u32) -> Option<bool> {
        let flags = self.plan.symbol(symbol as usize);
        let is_known = flags.has(SymbolFlags::DEFINITION_DROPPED) || flags.has(SymbolFlags::DEFINITION_KEPT);
        is_known.then(|| flags.has(SymbolFlags::DEFINITION_DROPPED))
    }

    /// Notes that a relocation of the input names the symbol.
    pub(super) fn note_input(&mut self, symbol: u32) {
        if let Some(slot) = self.was_referenced.get_mut(symbol as usize) {
            *slot = true;
        }
    }

    /// Note that a kept relocation names the symbol.
    pub(super) fn note_kept(&mut self, symbol: u32) {
        if let Some(slot) = self.is_referenced.get_mut(symbol as usize) {
            *slot = true;
        }
    }

    /// By section: whether a named or referenced symbol needs it.
    pub(super) fn needed_sections(&self, input: &Input<'_>) -> Result<Vec<bool>> {
        let mut needed = vec![false; input.sections.len()];
        for (i, symbol) in input.symbols.iter().enumerate() {
            let used =
                symbol.st_type() != elf::STT_SECTION || self.is_referenced.get(i).copied().unwrap_or(true);
            if let (true, SymbolPlace::Section(section)) = (used, input.place(i)?)
                && let Some(slot) = needed.get_mut(section as usize)
            {
                *slot = true;
            }
        }
        Ok(needed)
    }

    /// Whether a dropped symbol is kept for its visibility.
    fn is_pinned(&self, i: usize, symbol: &Sym) -> bool {
        if symbol.st_visibility() == elf::STV_DEFAULT || i < self.first_global {
            return false;
        }
        !self.plan.symbol(i).has(SymbolFlags::DEFINITION_DROPPED)
    }

    /// Decide how each symbol is emitted. `parts` are the parts (old section and number, sorted) that need a section symbol.
    pub(super) fn number(
        &self,
        input: &Input<'_>,
        dispositions: &SectionDisposition,
        split: &SplitSections<'_>,
        parts: &[(u32, u32)],
    ) -> Result<EmittedSymbols> {
        let mut signature = vec![false; input.symbols.len()];
        for (index, section) in input.sections.iter().enumerate() {
            if input.role(index) == Role::Group && dispositions.keeps(index) {
                let symbol = section.sh_info.get(LE) as usize;
                *signature
                    .get_mut(symbol)
                    .ok_or_else(|| input.about(index, "the signature is no symbol"))? = true;
            }
        }
        let mut table = EmittedSymbols {
            entries: Vec::with_capacity(input.symbols.len()),
            new: Vec::with_capacity(input.symbols.len()),
            first_global: 0,
            debug: input.added.clone(),
            homes: self.homes.clone(),
            parts: Vec::new(),
            added: Vec::new(),
            first_added: 0,
        };
        let mut next = 0;
        for (i, symbol) in input.symbols.iter().enumerate() {
            if i == self.first_global {
                next = table.end_locals(next, parts);
            }
            let flag = |flags: &[bool]| flags.get(i).copied().unwrap_or(false);
            // A table or unwind section may have been dropped later, because it is empty.
            let disposition = match (self.disposition.get(i).copied(), input.place(i)?) {
                (Some(SymbolDisposition::Defined), SymbolPlace::Section(s))
                    if !dispositions.keeps(s as usize) =>
                {
                    SymbolDisposition::Gone
                }
                (disposition, _) => disposition.unwrap_or(SymbolDisposition::Gone),
            };
            let pinned = self.plan.symbol(i).has(SymbolFlags::SEEN_BY_BITCODE);
            let entry = match disposition {
                _ if i == 0 => EmittedSymbol::AsItWas,
                SymbolDisposition::Defined => EmittedSymbol::AsItWas,
                SymbolDisposition::Undefined
                    if flag(&self.is_referenced) || !flag(&self.was_referenced) || pinned =>
                {
                    EmittedSymbol::AsItWas
                }
                SymbolDisposition::Replaced if flag(&self.is_referenced) || pinned => {
                    EmittedSymbol::Undefined
                }
                _ if i < self.first_global => match flag(&signature) {
                    true if symbol.st_type() == elf::STT_SECTION => {
                        let name = String::from_utf8_lossy(input.symbol_name(i)).into_owned();
                        return Err(malformed("a group's name is that of a dropped section").at_symbol(name));
                    }
                    true => EmittedSymbol::Absolute,
                    false => EmittedSymbol::Absent,
                },
                _ if flag(&signature) || self.is_pinned(i, symbol) => EmittedSymbol::WeakUndefined,
                _ => EmittedSymbol::Absent,
            };
            table.entries.push(entry);
            if entry == EmittedSymbol::Absent {
                table.new.push(u32::MAX);
            } else {
                table.new.push(next);
                if i < self.first_global
                    && let Some(divided) = split.of_symbol(input, i as u32)?
                    && table.part(divided.section, 0).is_none()
                {
                    let at = table.parts.partition_point(|(s, _, _)| *s < divided.section);
                    table.parts.insert(at, (divided.section, 0, next));
                }
                next += 1;
            }
        }
        if self.first_global >= input.symbols.len() {
            table.end_locals(next, parts);
        }
        Ok(table)
    }
}

/// The part of a symbol of a divided section; `None` if the symbol is dropped.
fn home(
    input: &Input<'_>,
    split: &SplitSections<'_>,
    symbol: usize,
    section: u32,
    definition: Definition,
) -> Result<Option<PartSymbol>> {
    let about = |message: &str| {
        let name = String::from_utf8_lossy(input.symbol_name(symbol)).into_owned();
        Err(input.about(section as usize, message).at_symbol(name))
    };
    let symbol = symbol as u32;
    if let Some(divided) = split.of_symbol(input, symbol)? {
        let start = divided.part(0)?.start;
        return Ok(Some(PartSymbol { symbol, part: 0, start, stub: None }));
    }
    let (Definition::Atom(atom), Some(divided)) = (definition, split.of(section)) else {
        return about("only a part of the section is dropped, and a symbol of it is of no atom");
    };
    let (atom, action) = split.atom(atom)?;
    if atom.section != section {
        return about("a symbol is of an atom of another section");
    }
    if action == Action::Drop {
        return Ok(None);
    }
    let (OffsetLocation::Part(part, _) | OffsetLocation::Stub(part, _)) = divided.spot(atom.offset) else {
        return about("a symbol is in no kept part");
    };
    let value = input.symbols.get(symbol as usize).map_or(0, |s| s.st_value.get(LE));
    match divided.part(part)? {
        // A local symbol in the body is dropped with it.
        r if r.stub.is_some() && value != r.start && symbol < input.first_global as u32 => Ok(None),
        r if r.stub.is_some() && value != r.start => about("a global symbol is in the body of a stub"),
        r if r.start <= value && value <= r.end => {
            Ok(Some(PartSymbol { symbol, part, start: r.start, stub: r.stub.map(|s| s.size()) }))
        }
        _ => about("a symbol is outside of its atom"),
    }
}

/// The form of a symbol in the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EmittedSymbol {
    Absent,
    AsItWas,
    /// Undefined, with the binding that it had.
    Undefined,
    /// Undefined and weak, for its name and visibility.
    WeakUndefined,
    /// The local signature of a group. Its own definition is dropped, and only its name matters.
    Absolute,
}

/// A kept symbol of a divided section, with its part.
#[derive(Debug, Clone, Copy)]
pub(super) struct PartSymbol {
    pub(super) symbol: u32,
    pub(super) part: u32,
    /// The start of the part in the original section.
    pub(super) start: u64,
    /// The size in bytes of the stub that it names.
    pub(super) stub: Option<u64>,
}

/// The symbol table of the output.
#[derive(Debug)]
pub(super) struct EmittedSymbols {
    pub(super) entries: Vec<EmittedSymbol>,
    /// The new index of each old symbol; `u32::MAX` for a dropped one.
    new: Vec<u32>,
    /// `sh_info`: index of the first non-local symbol.
    pub(super) first_global: u32,
    /// The debug sections that get a new section symbol.
    debug: Vec<u32>,
    pub(super) homes: Vec<PartSymbol>,
    /// The section symbols of parts: (old section, part, new symbol), sorted.
    parts: Vec<(u32, u32, u32)>,
    /// The parts whose section symbols are new, in the order of the table.
    added: Vec<(u32, u32)>,
    /// Index of the first new symbol.
    first_added: u32,
}

impl EmittedSymbols {
    /// Number the new symbols, behind the local symbols of the input. Returns the index of the first global symbol.
    fn end_locals(&mut self, next: u32, parts: &[(u32, u32)]) -> u32 {
        // Entry 0 is local, also where the input's sh_info says otherwise.
        self.first_added = next;
        let mut next = next;
        for &(section, part) in parts {
            if self.part(section, part).is_none() {
                self.added.push((section, part));
            }
        }
        for &(section, part) in &self.added {
            self.parts.push((section, part, next));
            next += 1;
        }
        self.parts.sort_unstable();
        next += self.debug.len() as u32;
        self.first_global = next;
        self.first_global
    }

    /// The new index of a part's section symbol, if it has one.
    pub(super) fn part(&self, section: u32, part: u32) -> Option<u32> {
        let found = self.parts.binary_search_by_key(&(section, part), |(s, r, _)| (*s, *r)).ok()?;
        self.parts.get(found).map(|(_, _, symbol)| *symbol)
    }

    /// The new indices of the section symbols of all parts of a section.
    pub(super) fn parts_of(&self, section: u32) -> impl Iterator<Item = u32> + '_ {
        let start = self.parts.partition_point(|(s, _, _)| *s < section);
        self.parts.iter().skip(start).take_while(move |(s, _, _)| *s == section).map(|(_, _, symbol)| *symbol)
    }

    /// The new index of an old symbol; `None` if it is dropped.
    pub(super) fn of(&self, old: u32) -> Option<u32> {
        let Some(new) = self.new.get(old as usize) else {
            // Old numbers behind the last symbol are those of new debug sections.
            let debug = (old as usize).checked_sub(self.new.len()).filter(|i| *i < self.debug.len())?;
            return Some(self.first_added + self.added.len() as u32 + debug as u32);
        };
        Some(*new).filter(|n| *n != u32::MAX)
    }

    /// Note the names of kept symbols.
    pub(super) fn note_names(&self, input: &Input<'_>, names: &mut StringTable<'_>) {
        for (symbol, entry) in input.symbols.iter().zip(&self.entries) {
            if *entry != EmittedSymbol::Absent {
                names.note(symbol.st_name.get(LE));
            }
        }
    }

    /// The bytes of the symbol table, and of `SHT_SYMTAB_SHNDX` if a section number needs it. `moved` gives the new offset of a place in
    /// an undivided section.
    pub(super) fn write(
        &self,
        input: &Input<'_>,
        sections: &SectionNumbering,
        moved: &dyn Fn(u32, u64) -> u64,
        names: &PrunedStringTable,
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
                            .map_or_else(|| sections.of(section), |h| sections.part(section, h.part))
                            .ok_or_else(|| {
                                input.about(section as usize, "is dropped, but a symbol of it is kept")
                            })?;
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

    /// Append the new symbols. Returns whether a section number is an extended one.
    fn write_added(
        &self,
        sections: &SectionNumbering,
        out: &mut Vec<u8>,
        extended: &mut Vec<u32>,
    ) -> Result<bool> {
        let mut any_extended = false;
        let parts = self.added.iter().map(|&(section, part)| {
            let gone = || malformed(format!("section {section} is dropped, but a part of it is referenced"));
            sections.part(section, part).ok_or_else(gone)
        });
        let debug = self.debug.iter().map(|&section| {
            let gone = || malformed("a new debug section is not there");
            sections.of(section).ok_or_else(gone)
        });
        for new in parts.chain(debug) {
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

/// The binding of an undefined symbol that was defined. `STB_GNU_UNIQUE` is for definitions only.
fn undefined_binding(old: SymbolBind) -> Result<SymbolBind> {
    match old {
        elf::STB_GLOBAL | elf::STB_GNU_UNIQUE => Ok(elf::STB_GLOBAL),
        elf::STB_WEAK => Ok(elf::STB_WEAK),
        other => Err(malformed(format!("a symbol of binding {} can't become undefined", other.0))),
    }
}

/// Make a symbol undefined, without a type. Thread-local symbols keep theirs, because linkers compare it with that of the definition.
fn make_undefined(symbol: &mut Sym, bind: SymbolBind) {
    let kind = if symbol.st_type() == elf::STT_TLS { elf::STT_TLS } else { elf::STT_NOTYPE };
    symbol.set_st_info(bind, kind);
    symbol.st_shndx = U16::new(LE, elf::SHN_UNDEF);
    symbol.st_value = U64::new(LE, 0);
    symbol.st_size = U64::new(LE, 0);
}
