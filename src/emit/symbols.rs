//! Which symbols of an object stay, as what, and the numbers that they get.
//!
//! A symbol follows its atom. What is still referred to after its definition went becomes undefined, and only
//! where the plan says that another definition prevails; that is the symbol the linker would have bound the
//! reference to anyway. A symbol of non-default visibility leaves an undefined entry behind, because the linker
//! merges visibilities over all objects (gABI, "Symbol Table"); that entry is weak, so that it can neither pull a
//! member out of an archive nor be reported as undefined. Order is preserved, so locals stay before globals.
//!
//! A section symbol stays with the first part of a section that is divided; the other parts get their own where
//! something refers to them, behind the local symbols of the input.
//!
//! Undefined symbols that nothing referred to in the input stay: they were put there for their effect on
//! archives. Left out: resolution; [`SymbolFlags`] are taken from the plan.

use object::elf;
use summaries::{Definition, ModuleSummary};

use super::input::{Input, LE, Role, Sym, SymbolPlace};
use super::parts::{OffsetLocation, SplitSections};
use super::sections::SectionDisposition;
use super::symbol_table::{EmittedSymbol, EmittedSymbols, SymbolRun};
use crate::error::{Error, Result, Stage};
use crate::plan::{Action, ModulePlan, SymbolFlags};
/// What the plan makes of a symbol's definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SymbolDisposition {
    /// Its definition stays in the emitted object.
    Defined,
    /// The input has no definition of it either.
    Undefined,
    /// Its definition goes, and another one prevails.
    Replaced,
    /// Its definition goes, and there is no other.
    Gone,
}
/// The symbols of an object under a plan. Indices are the old ones.
#[derive(Debug)]
pub(super) struct Symbols<'p> {
    plan: &'p ModulePlan,
    first_global: usize,
    disposition: Vec<SymbolDisposition>,
    /// Some relocation of the input names it.
    was_referenced: Vec<bool>,
    /// Some relocation that stays names it.
    is_referenced: Vec<bool>,
    /// The run of each symbol that stays in a divided section, in order.
    homes: Vec<SymbolRun>,
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
        parts: &SplitSections<'_>,
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
                SymbolPlace::Section(s) if parts.of(s).is_some() => {
                    match home(input, parts, i, s, symbol.definition)? {
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

    /// What becomes of the symbol's definition. An error if there is no such symbol.
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

    /// Whether FDEs that describe no byte are left out.
    pub(super) fn drops_empty_fdes(&self) -> bool {
        self.plan.drops_empty_fdes
    }

    /// The definition that prevails elsewhere is itself dropped there; `None` where the plan does not say.
    pub(super) fn prevailing_dropped(&self, symbol: u32) -> Option<bool> {
        let flags = self.plan.symbol(symbol as usize);
        let is_known = flags.has(SymbolFlags::DEFINITION_DROPPED) || flags.has(SymbolFlags::DEFINITION_KEPT);
        is_known.then(|| flags.has(SymbolFlags::DEFINITION_DROPPED))
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
            if let (true, SymbolPlace::Section(section)) = (used, input.place(i)?)
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
        !self.plan.symbol(i).has(SymbolFlags::DEFINITION_DROPPED)
    }

    /// Decide how each symbol appears. `runs` are the runs (old section, run; sorted) that need a section symbol.
    pub(super) fn number(
        &self,
        input: &Input<'_>,
        dispositions: &SectionDisposition,
        parts: &SplitSections<'_>,
        runs: &[(u32, u32)],
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
            runs: Vec::new(),
            added: Vec::new(),
            first_added: 0,
        };
        let mut next = 0;
        for (i, symbol) in input.symbols.iter().enumerate() {
            if i == self.first_global {
                next = table.end_locals(next, runs);
            }
            let flag = |flags: &[bool]| flags.get(i).copied().unwrap_or(false);
            // Tables and unwind sections may have been found empty since the dispositions were taken.
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
                    && let Some(divided) = parts.of_symbol(input, i as u32)?
                    && table.run(divided.section, 0).is_none()
                {
                    let at = table.runs.partition_point(|(s, _, _)| *s < divided.section);
                    table.runs.insert(at, (divided.section, 0, next));
                }
                next += 1;
            }
        }
        if self.first_global >= input.symbols.len() {
            table.end_locals(next, runs);
        }
        Ok(table)
    }
}

/// Where a symbol of a divided section is; `None` if that goes.
fn home(
    input: &Input<'_>,
    parts: &SplitSections<'_>,
    symbol: usize,
    section: u32,
    definition: Definition,
) -> Result<Option<SymbolRun>> {
    let about = |message: &str| {
        let name = String::from_utf8_lossy(input.symbol_name(symbol)).into_owned();
        Err(input.about(section as usize, message).at_symbol(name))
    };
    let symbol = symbol as u32;
    if let Some(divided) = parts.of_symbol(input, symbol)? {
        let start = divided.run(0).map_or(0, |r| r.start);
        return Ok(Some(SymbolRun { symbol, run: 0, start, stub: None }));
    }
    let (Definition::Atom(atom), Some(divided)) = (definition, parts.of(section)) else {
        return about("only a part of the section is dropped, and a symbol of it is of no atom");
    };
    let (atom, action) = parts.atom(atom)?;
    if atom.section != section {
        return about("a symbol is of an atom of another section");
    }
    if action == Action::Drop {
        return Ok(None);
    }
    let (OffsetLocation::Run(run) | OffsetLocation::Stub(run)) = divided.spot(atom.offset) else {
        return about("a symbol is of no part that stays");
    };
    let value = input.symbols.get(symbol as usize).map_or(0, |s| s.st_value.get(LE));
    match divided.run(run) {
        // A place in the body goes with the body.
        Some(r) if r.stub.is_some() && value != r.start && symbol < input.first_global as u32 => Ok(None),
        Some(r) if r.stub.is_some() && value != r.start => about("a global symbol is in the body of a stub"),
        Some(r) if r.start <= value && value <= r.end => {
            Ok(Some(SymbolRun { symbol, run, start: r.start, stub: r.stub.map(|s| s.size()) }))
        }
        _ => about("a symbol is outside of its atom"),
    }
}
