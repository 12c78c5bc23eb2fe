//! Which symbols of an object stay, as what, and the numbers that they get.
//!
//! A symbol follows its atom. What is still referred to after its definition went becomes undefined, and only
//! where the plan says that another definition prevails; that is the symbol the linker would have bound the
//! reference to anyway. A symbol of non-default visibility leaves an undefined entry behind, because the linker
//! merges visibilities over all objects (gABI, "Symbol Table"); that entry is weak, so that it can neither pull a
//! member out of an archive nor be reported as undefined. Order is preserved, so locals stay before globals.
//!
//! A section symbol stays with the first part of a section that is parted; the other parts get their own where
//! something refers to them, behind the local symbols of the input.
//!
//! Undefined symbols that nothing referred to in the input stay: they were put there for their effect on
//! archives. Left out: resolution; `prevails_elsewhere` is taken from the plan.

use object::elf::{self, SymbolBind};
use object::{U16, U32, U64, pod};
use summaries::{Definition, ModuleSummary};

use super::input::{Input, LE, Place, Role, Sym};
use super::parts::{Parts, Spot};
use super::sections::{Fates, Numbering};
use super::strings::{Compacted, StringTable};
use super::unwind::Unwind;
use crate::error::{Error, Result, Stage};
use crate::plan::{Action, ModulePlan};

/// What the plan makes of a symbol's definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It stays defined.
    Defined,
    /// It never was defined here.
    Undefined,
    /// Its definition goes, and another one prevails.
    Replaced,
    /// Its definition goes, and there is no other.
    Gone,
}

/// How a symbol appears in the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Entry {
    Absent,
    AsItWas,
    /// Undefined, with the binding that it had.
    Undefined,
    /// Undefined and weak: only its name and visibility matter.
    WeakUndefined,
    /// A local signature of a group whose own definition went: only its name matters.
    Absolute,
}

/// The symbols of an object under a plan. Indices are the old ones.
#[derive(Debug)]
pub(super) struct Symbols<'p> {
    plan: &'p ModulePlan,
    first_global: usize,
    standing: Vec<Standing>,
    /// Some relocation of the input names it.
    was_referenced: Vec<bool>,
    /// Some relocation that stays names it.
    is_referenced: Vec<bool>,
    /// Of each symbol that stays in a parted section, in order.
    homes: Vec<Home>,
}

/// The run in which a symbol of a parted section is.
#[derive(Debug, Clone, Copy)]
struct Home {
    symbol: u32,
    run: u32,
    /// Where the run starts in the original section.
    start: u64,
}

/// The symbol table of the output.
#[derive(Debug)]
pub(super) struct SymbolTable {
    entries: Vec<Entry>,
    /// By old index; `u32::MAX` for a symbol that goes.
    new: Vec<u32>,
    /// `sh_info`: index of the first non-local symbol.
    pub(super) first_global: u32,
    /// Index of the local absolute symbol of value 0, where one was asked for.
    pub(super) zero: Option<u32>,
    homes: Vec<Home>,
    /// The section symbol of each run that has one: (old section, run, new symbol), sorted.
    runs: Vec<(u32, u32, u32)>,
    /// Runs whose section symbols are new, in the order of the table.
    added: Vec<(u32, u32)>,
    /// Index of the first symbol that is not of the input: the section symbols, then the absolute one.
    first_added: u32,
}

/// The name of the local absolute symbol of value 0 that relocations of compressed debug sections refer to: none, so that
/// the output names nothing that the plain one does not.
const ZERO_NAME: &[u8] = b"";

fn malformed(message: impl Into<String>) -> Error {
    Error::new(Stage::Emit, message)
}

impl<'p> Symbols<'p> {
    /// Find the standing of every symbol.
    pub(super) fn new(
        input: &Input<'_>,
        summary: &ModuleSummary,
        plan: &'p ModulePlan,
        fates: &Fates,
        parts: &Parts<'_>,
    ) -> Result<Self> {
        let mut homes = Vec::new();
        let count = input.symbols.len();
        if summary.symbols.len() != count {
            return Err(malformed("the summary is not of this module: its symbols differ"));
        }
        let mut standing = Vec::with_capacity(count);
        for (i, symbol) in summary.symbols.iter().enumerate() {
            let planned = match symbol.definition {
                Definition::Atom(a) | Definition::Common(a) => {
                    plan.atoms.get(a.index()) == Some(&Action::Drop)
                }
                _ => false,
            };
            let place = input.place(i)?;
            let dropped = match place {
                Place::Section(s) if parts.of(s).is_some() => {
                    match home(input, parts, i, s, symbol.definition)? {
                        Some(home) => {
                            homes.push(home);
                            false
                        }
                        None => true,
                    }
                }
                Place::Section(s) => planned || !fates.keeps(s as usize),
                Place::Undefined => false,
                _ => planned,
            };
            standing.push(match place {
                Place::Undefined => Standing::Undefined,
                _ if !dropped => Standing::Defined,
                _ if i >= input.first_global && plan.prevails_elsewhere.get(i) == Some(&true) => {
                    Standing::Replaced
                }
                _ => Standing::Gone,
            });
        }
        Ok(Symbols {
            plan,
            first_global: input.first_global,
            standing,
            was_referenced: vec![false; count],
            is_referenced: vec![false; count],
            homes,
        })
    }

    /// What becomes of the symbol's definition. An error if there is no such symbol.
    pub(super) fn standing(&self, symbol: u32) -> Result<Standing> {
        self.standing
            .get(symbol as usize)
            .copied()
            .ok_or_else(|| malformed(format!("a relocation names symbol {symbol}, not there")))
    }

    /// The definition that prevails elsewhere is itself dropped there; `None` where the plan does not say.
    pub(super) fn prevailing_dropped(&self, symbol: u32) -> Option<bool> {
        self.plan.prevailing_dropped.get(symbol as usize).copied()
    }

    /// A relocation of the input names the symbol.
    pub(super) fn note_input(&mut self, symbol: u32) {
        if let Some(slot) = self.was_referenced.get_mut(symbol as usize) {
            *slot = true;
        }
    }

    /// A relocation that stays names the symbol.
    pub(super) fn note_kept(&mut self, symbol: u32) {
        if let Some(slot) = self.is_referenced.get_mut(symbol as usize) {
            *slot = true;
        }
    }

    /// By section: whether it must exist for the sake of a symbol, one that is referred to or a named one.
    pub(super) fn needed_sections(&self, input: &Input<'_>) -> Result<Vec<bool>> {
        let mut needed = vec![false; input.sections.len()];
        for (i, symbol) in input.symbols.iter().enumerate() {
            let used =
                symbol.st_type() != elf::STT_SECTION || self.is_referenced.get(i).copied().unwrap_or(true);
            if let (true, Place::Section(section)) = (used, input.place(i)?)
                && let Some(slot) = needed.get_mut(section as usize)
            {
                *slot = true;
            }
        }
        Ok(needed)
    }

    /// Whether the symbol's visibility must reach the linker although nothing else of it does.
    fn is_pinned(&self, i: usize, symbol: &Sym) -> bool {
        if symbol.st_visibility() == elf::STV_DEFAULT || i < self.first_global {
            return false;
        }
        self.plan.pin_visibility.is_empty() || self.plan.pin_visibility.get(i) == Some(&true)
    }

    /// Decide how each symbol appears. With `zero`, a local absolute symbol of value 0 is added; `runs` are the runs
    /// (old section, run; sorted) that need a section symbol.
    pub(super) fn number(
        &self,
        input: &Input<'_>,
        fates: &Fates,
        parts: &Parts<'_>,
        zero: bool,
        runs: &[(u32, u32)],
    ) -> Result<SymbolTable> {
        let mut signature = vec![false; input.symbols.len()];
        for (index, section) in input.sections.iter().enumerate() {
            if input.role(index) == Role::Group && fates.keeps(index) {
                let symbol = section.sh_info.get(LE) as usize;
                *signature
                    .get_mut(symbol)
                    .ok_or_else(|| input.about(index, "the signature is no symbol"))? = true;
            }
        }
        let mut table = SymbolTable {
            entries: Vec::with_capacity(input.symbols.len()),
            new: Vec::with_capacity(input.symbols.len()),
            first_global: 0,
            zero: None,
            homes: self.homes.clone(),
            runs: Vec::new(),
            added: Vec::new(),
            first_added: 0,
        };
        let mut next = 0;
        for (i, symbol) in input.symbols.iter().enumerate() {
            if i == self.first_global {
                next = table.end_locals(next, zero, runs);
            }
            let flag = |flags: &[bool]| flags.get(i).copied().unwrap_or(false);
            // Tables and unwind sections may have been found empty since the standings were taken.
            let standing = match (self.standing.get(i).copied(), input.place(i)?) {
                (Some(Standing::Defined), Place::Section(s)) if !fates.keeps(s as usize) => Standing::Gone,
                (standing, _) => standing.unwrap_or(Standing::Gone),
            };
            let entry = match standing {
                _ if i == 0 => Entry::AsItWas,
                Standing::Defined => Entry::AsItWas,
                Standing::Undefined if flag(&self.is_referenced) || !flag(&self.was_referenced) => {
                    Entry::AsItWas
                }
                Standing::Replaced if flag(&self.is_referenced) => Entry::Undefined,
                _ if i < self.first_global => match flag(&signature) {
                    true if symbol.st_type() == elf::STT_SECTION => {
                        let name = String::from_utf8_lossy(input.symbol_name(i)).into_owned();
                        return Err(malformed("a group's name is that of a dropped section").at_symbol(name));
                    }
                    true => Entry::Absolute,
                    false => Entry::Absent,
                },
                _ if flag(&signature) || self.is_pinned(i, symbol) => Entry::WeakUndefined,
                _ => Entry::Absent,
            };
            table.entries.push(entry);
            if entry == Entry::Absent {
                table.new.push(u32::MAX);
            } else {
                table.new.push(next);
                if i < self.first_global
                    && let Some(parted) = parts.of_symbol(input, i as u32)?
                    && table.run(parted.section, 0).is_none()
                {
                    let at = table.runs.partition_point(|(s, _, _)| *s < parted.section);
                    table.runs.insert(at, (parted.section, 0, next));
                }
                next += 1;
            }
        }
        if self.first_global >= input.symbols.len() {
            table.end_locals(next, zero, runs);
        }
        Ok(table)
    }
}

/// Where a symbol of a parted section is; `None` if that goes.
fn home(
    input: &Input<'_>,
    parts: &Parts<'_>,
    symbol: usize,
    section: u32,
    definition: Definition,
) -> Result<Option<Home>> {
    let about = |message: &str| {
        let name = String::from_utf8_lossy(input.symbol_name(symbol)).into_owned();
        Err(input.about(section as usize, message).at_symbol(name))
    };
    let symbol = symbol as u32;
    if let Some(parted) = parts.of_symbol(input, symbol)? {
        let start = parted.run(0).map_or(0, |r| r.start);
        return Ok(Some(Home { symbol, run: 0, start }));
    }
    let (Definition::Atom(atom), Some(parted)) = (definition, parts.of(section)) else {
        return about("only a part of the section is dropped, and a symbol of it is of no atom");
    };
    let (atom, action) = parts.atom(atom)?;
    if atom.section != section {
        return about("a symbol is of an atom of another section");
    }
    if action == Action::Drop {
        return Ok(None);
    }
    let Spot::Run(run) = parted.spot(atom.offset) else { return about("a symbol is of no part that stays") };
    let value = input.symbols.get(symbol as usize).map_or(0, |s| s.st_value.get(LE));
    match parted.run(run) {
        Some(r) if r.start <= value && value <= r.end => Ok(Some(Home { symbol, run, start: r.start })),
        _ => about("a symbol is outside of its atom"),
    }
}

impl SymbolTable {
    fn end_locals(&mut self, next: u32, zero: bool, runs: &[(u32, u32)]) -> u32 {
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
        self.zero = zero.then_some(next);
        self.first_global = next + u32::from(zero);
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
        self.new.get(old as usize).copied().filter(|n| *n != u32::MAX)
    }

    /// Tell the string table which names stay.
    pub(super) fn note_names(&self, input: &Input<'_>, names: &mut StringTable<'_>) {
        for (symbol, entry) in input.symbols.iter().zip(&self.entries) {
            if *entry != Entry::Absent {
                names.note(symbol.st_name.get(LE));
            }
        }
    }

    /// The bytes of the symbol table, and of `SHT_SYMTAB_SHNDX` if some section number needs it.
    pub(super) fn write(
        &self,
        input: &Input<'_>,
        sections: &Numbering,
        unwind: &Unwind,
        names: &mut Compacted,
    ) -> Result<(Vec<u8>, Option<Vec<u8>>)> {
        let mut out = Vec::with_capacity(std::mem::size_of_val(input.symbols));
        let mut extended: Vec<u32> = Vec::new();
        let mut any_extended = false;
        for (i, (old, entry)) in input.symbols.iter().zip(&self.entries).enumerate() {
            if extended.len() == self.first_added as usize {
                any_extended |= self.write_added(sections, names, &mut out, &mut extended)?;
            }
            if *entry == Entry::Absent {
                continue;
            }
            let mut symbol = *old;
            symbol.st_name = U32::new(LE, names.new_offset(old.st_name.get(LE)));
            let mut high = 0;
            match entry {
                Entry::AsItWas => {
                    if let Place::Section(section) = input.place(i)? {
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
                            (None, _) => unwind.moved(section, old.st_value.get(LE)),
                            (Some(_), elf::STT_SECTION) => 0,
                            (Some(home), _) => old.st_value.get(LE).wrapping_sub(home.start),
                        };
                        symbol.st_value = U64::new(LE, value);
                    }
                }
                Entry::Undefined => make_undefined(&mut symbol, undefined_binding(old.st_bind())?),
                Entry::WeakUndefined => make_undefined(&mut symbol, elf::STB_WEAK),
                Entry::Absolute | Entry::Absent => {
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
            any_extended |= self.write_added(sections, names, &mut out, &mut extended)?;
        }
        let extended = any_extended.then(|| extended.iter().flat_map(|e| e.to_le_bytes()).collect());
        Ok((out, extended))
    }
}

impl SymbolTable {
    /// Append the symbols that are not of the input. Whether some section number is an extended one.
    fn write_added(
        &self,
        sections: &Numbering,
        names: &mut Compacted,
        out: &mut Vec<u8>,
        extended: &mut Vec<u32>,
    ) -> Result<bool> {
        let mut any_extended = false;
        for &(section, run) in &self.added {
            let new = sections.part(section, run).ok_or_else(|| {
                malformed(format!("section {section} goes, but a part of it is referred to"))
            })?;
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
        if self.zero.is_some() {
            out.extend_from_slice(pod::bytes_of(&zero_symbol(names)));
            extended.push(0);
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

fn zero_symbol(names: &mut Compacted) -> Sym {
    Sym {
        st_name: U32::new(LE, names.push(ZERO_NAME)),
        // Local, without type.
        st_info: elf::SymbolInfo::new(elf::STB_LOCAL, elf::STT_NOTYPE),
        st_shndx: U16::new(LE, elf::SHN_ABS),
        ..Sym::default()
    }
}
