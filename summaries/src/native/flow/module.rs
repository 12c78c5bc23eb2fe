//! The module's context of an intraprocedural analysis: places, entries, labels, and the references to them.
//!
//! It is immutable before the analysis of the first function, so that functions can be analysed in any order. The code of one function is
//! in `unit`.

use object::endian::LittleEndian as LE;

use super::unit::RelocatedOperand;
use crate::ids::{AtomIdx, SymbolIdx};
use crate::native::relocations::types::{R_X86_64_32, R_X86_64_32S, R_X86_64_64, R_X86_64_PC32};
use crate::native::relocations::{Rela, symbol_of, type_of};
use crate::native::split::{self, Division, SectionPlace};
use crate::native::symbols::SectionAtoms;
use crate::native::tables::Tables;
use crate::parallel::ParallelMap;
use crate::relation::FunctionSummary;
use crate::summary::{
    Atom, AtomKind, Binding, Definition, OwnedRange, Reference, ResolvedReference, Symbol, SymbolKind, Target,
};

/// A place inside a function that something refers to by address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Label {
    pub(super) atom: AtomIdx,
    pub(super) offset: u64,
    /// The address is a value that the program can hold, not only an entry of a relative jump table.
    pub(super) is_value: bool,
    pub(super) by: LabelUse,
}

/// The origin of a reference to the address of a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LabelUse {
    /// A table of labels that begins at this place, and to which code refers.
    Table(SectionPlace),
    /// Data without a reference from code: signal handlers and code patching read the address of the next instruction there (`asm goto`,
    /// `.fixup`).
    Data,
    /// The code of this atom does so.
    Code(AtomIdx),
    /// A relocation by the name of the function, and a distance.
    Name,
}

/// The parts of the module that the analysis of a function reads.
pub(crate) struct FlowModule<'a, 't> {
    pub(super) tables: &'t Tables<'a>,
    pub(super) by_section: &'t SectionAtoms,
    pub(super) atoms: &'t [Atom],
    pub(super) symbols: &'t [Symbol],
    /// The relocations of the module, each with the section that it is in, by (section, place).
    pub(super) relas: Vec<(u32, Rela)>,
    /// The places of function symbols, without those of cold parts: sorted.
    pub(super) entries: Vec<(AtomIdx, u64)>,
    /// By atom: whether the symbols at its start mark it as a part of another function.
    pub(super) cold: Vec<bool>,
    /// There is code that is part of no function that is known.
    pub(super) has_loose_parts: bool,
    /// The module's own functions that compilers call implicitly, sorted.
    pub(super) routines: Vec<AtomIdx>,
    /// Functions that LLVM's outliner made of code of others, sorted.
    pub(super) outlined: Vec<AtomIdx>,
    /// The places in code that a symbol or a table names, sorted.
    pub(super) labels: Vec<Label>,
    /// Atoms with an unwind table that refers to something, sorted; and their tables of handlers.
    pub(super) handled: Vec<AtomIdx>,
    pub(super) lsdas: Vec<Lsda>,
    /// The sections whose code is analysed, ascending.
    pub(super) followed: Vec<u32>,
    /// The module requests an executable stack: frames may hold code, like trampolines of nested functions.
    pub(super) executes_stack: bool,
    /// Whether each atom is live, if only live atoms are analysed.
    pub(super) live: Option<&'t [bool]>,
}

/// The tables of the summary that give the meaning of the module's references, and the options of the analysis.
#[derive(Clone, Copy)]
pub(crate) struct References<'r> {
    pub(crate) references: &'r [Reference],
    pub(crate) resolved: &'r [ResolvedReference],
    pub(crate) owned: &'r [OwnedRange],
    /// Whether control may reach each atom, if only live atoms are analysed.
    pub(crate) live: Option<&'r [bool]>,
    /// How pieces of the work are run: one after the other, or on threads.
    pub(crate) parallel_map: ParallelMap<'r>,
    /// Code that may fall through into the next section.
    pub(crate) goes_on: &'r [AtomIdx],
}

/// The result of the analysis of the module's code.
#[derive(Default)]
pub(crate) struct FlowTables {
    /// The summary of every analysed function, ascending by atom.
    pub(crate) functions: Vec<FunctionSummary>,
    /// Functions without a summary because they read registers of their caller that pass nothing.
    pub(crate) takes_registers: Vec<AtomIdx>,
    /// Functions that make system calls by instructions, or may do so.
    pub(crate) runs_unseen: Vec<AtomIdx>,
}

/// An atom's exception handling table, to which its FDE refers: the section of the table and its start there. The start is -1 if it is
/// unknown or if the FDE does not begin at the atom. Sorted by atom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Lsda {
    pub(super) of: AtomIdx,
    pub(super) section: u32,
    pub(super) offset: i64,
}

impl FlowModule<'_, '_> {
    pub(super) fn find_entries(&mut self) {
        for symbol in self.symbols {
            let Definition::Atom(atom) = symbol.definition else { continue };
            let Some(start) = self.atoms.get(atom.index()).map(|a| a.offset) else { continue };
            match split::is_part(self.tables.name(symbol.name)) {
                false if !matches!(symbol.kind, SymbolKind::Func | SymbolKind::Ifunc) => {}
                true if symbol.value == start => {
                    if let Some(cold) = self.cold.get_mut(atom.index()) {
                        *cold = true;
                    }
                }
                true => {}
                false => self.entries.push((atom, symbol.value)),
            }
        }
        self.entries.sort_unstable();
        self.entries.dedup();
    }

    pub(super) fn find_labels(&mut self, division: &Division) {
        let mut labels = Vec::new();
        let starts = self.tables_of_code();
        let mut before: Option<(SectionPlace, LabelUse)> = None;
        for (from, to) in &division.exact {
            let is_table = starts.binary_search(from).is_ok();
            let by = match before {
                _ if self.is_code(from.0) => {
                    self.place(from.0, from.1).map_or(LabelUse::Data, |(atom, _)| LabelUse::Code(atom))
                }
                _ if is_table => LabelUse::Table(*from),
                Some((entry, by)) if entry.0 == from.0 && from.1 - entry.1 <= 8 => by,
                _ => LabelUse::Data,
            };
            before = Some((*from, by));
            let Some((atom, offset)) = self.place(to.0, to.1) else { continue };
            let is_relative =
                self.relas_of(from.0, from.1, from.1 + 1).iter().any(|(_, r)| type_of(r) == R_X86_64_PC32);
            labels.push(Label { atom, offset, is_value: self.is_code(from.0) || !is_relative, by });
        }
        for (section, rela) in &self.relas {
            // By the name of a function, but not to its start.
            let Some(symbol) = self.symbols.get(symbol_of(rela).index()) else { continue };
            let (Definition::Atom(_), SymbolKind::Func | SymbolKind::Ifunc) =
                (symbol.definition, symbol.kind)
            else {
                continue;
            };
            if matches!(type_of(rela), R_X86_64_64 | R_X86_64_32 | R_X86_64_32S)
                && rela.r_addend.get(LE) != 0
                && !self.is_unwind(*section)
                && let Some(offset) = symbol.value.checked_add_signed(rela.r_addend.get(LE))
                && let Some(section) = self.section_of(symbol)
                && let Some((atom, offset)) = self.place(section, offset)
            {
                labels.push(Label { atom, offset, is_value: true, by: LabelUse::Name });
            }
        }
        labels.retain(|l| self.entries.binary_search(&(l.atom, l.offset)).is_err());
        labels.sort_unstable();
        labels.dedup();
        self.labels = labels;
    }

    /// The places in data that code refers to, sorted: there tables begin.
    fn tables_of_code(&self) -> Vec<SectionPlace> {
        let place = |(section, rela): &(u32, Rela)| {
            let symbol = self.symbols.get(symbol_of(rela).index()).filter(|_| self.is_code(*section))?;
            // The displacement of a `lea` is the end of it.
            let behind = if type_of(rela) == R_X86_64_PC32 { 4 } else { 0 };
            let offset = symbol.value.checked_add_signed(rela.r_addend.get(LE).checked_add(behind)?)?;
            Some((self.section_of(symbol).filter(|section| !self.is_code(*section))?, offset))
        };
        let mut places: Vec<_> = self.relas.iter().filter_map(place).collect();
        places.sort_unstable();
        places.dedup();
        places
    }

    /// Whether control may reach the atom in the link.
    pub(super) fn may_run(&self, atom: AtomIdx) -> bool {
        self.live.is_none_or(|live| live.get(atom.index()).copied().unwrap_or(true))
    }

    pub(super) fn is_code(&self, section: u32) -> bool {
        let atom = self.by_section.get(section).and_then(|a| self.atoms.get(a.index()));
        atom.is_some_and(|a| a.kind == AtomKind::Code)
    }

    pub(super) fn is_unwind(&self, section: u32) -> bool {
        self.by_section.get(section).is_none()
    }

    pub(super) fn section_of(&self, symbol: &Symbol) -> Option<u32> {
        let Definition::Atom(atom) = symbol.definition else { return None };
        self.atoms.get(atom.index()).map(|a| a.section).filter(|s| *s != Atom::NO_SECTION)
    }

    /// The places of this atom's function symbols.
    pub(super) fn entries_of(&self, atom: AtomIdx) -> Vec<u64> {
        let start = self.entries.partition_point(|e| e.0 < atom);
        let own = self.entries.get(start..).unwrap_or(&[]).iter().take_while(|e| e.0 == atom);
        own.map(|e| e.1).collect()
    }

    pub(super) fn labels_in(&self, atoms: &[AtomIdx]) -> Vec<Label> {
        let of = |atom: &AtomIdx| {
            let first = self.labels.partition_point(|l| l.atom < *atom);
            let end = self.labels.partition_point(|l| l.atom <= *atom);
            self.labels.get(first..end).unwrap_or(&[])
        };
        atoms.iter().flat_map(of).copied().collect()
    }

    /// The atom at an offset of a section; the end of the section belongs to the last one.
    pub(super) fn place(&self, section: u32, offset: u64) -> Option<(AtomIdx, u64)> {
        let size = self.tables.sections.get(section as usize)?.size;
        let atom = self.by_section.at(self.atoms, section, offset)?;
        (offset <= size).then_some((atom, offset))
    }

    /// The section of an atom of code, the atom's start there, and its bytes.
    pub(super) fn code(&self, atom: AtomIdx) -> Option<(u32, u64, &[u8])> {
        let atom = self.atoms.get(atom.index())?;
        let data = self.tables.data(atom.section).ok()?;
        let end = atom.offset.checked_add(atom.size)?;
        let bytes = data.get(usize::try_from(atom.offset).ok()?..usize::try_from(end).ok()?)?;
        Some((atom.section, atom.offset, bytes))
    }

    pub(super) fn relas_of(&self, section: u32, start: u64, end: u64) -> &[(u32, Rela)] {
        let key = |(s, r): &(u32, Rela)| (*s, r.r_offset.get(LE));
        let from = self.relas.partition_point(|r| key(r) < (section, start));
        let to = self.relas.partition_point(|r| key(r) < (section, end));
        self.relas.get(from..to).unwrap_or(&[])
    }

    /// The place of a symbol plus an offset. A local symbol is a place in its section. An IFUNC is an exception: its place is that of the
    /// resolver, while calls reach the function that the resolver returns.
    pub(super) fn target(&self, symbol: SymbolIdx, offset: i64) -> Option<RelocatedOperand> {
        let entry = self.symbols.get(symbol.index())?;
        if entry.kind == SymbolKind::Tls {
            return Some(RelocatedOperand::Tls);
        }
        let is_place = entry.binding == Binding::Local && entry.kind != SymbolKind::Ifunc;
        match entry.definition {
            Definition::Atom(_) if is_place => {
                let section = self.section_of(entry)?;
                let offset = offset.checked_add_unsigned(entry.value)?;
                // A base before the section's start belongs to the first atom.
                let at = u64::try_from(offset).unwrap_or(0);
                let atom = self.by_section.at(self.atoms, section, at)?;
                Some(RelocatedOperand::Place(Target::Atom(atom), offset))
            }
            Definition::Atom(_) | Definition::Common(_) | Definition::Undefined if !is_place => {
                Some(RelocatedOperand::Place(Target::Symbol(symbol), offset))
            }
            _ => None,
        }
    }

    /// The place of a target, if it is in this module.
    pub(super) fn local(&self, target: Target, offset: i64) -> Option<(AtomIdx, u64)> {
        match target {
            Target::Atom(atom) => Some((atom, u64::try_from(offset).ok()?)),
            Target::Symbol(symbol) => {
                let entry = self.symbols.get(symbol.index())?;
                self.place(self.section_of(entry)?, entry.value.checked_add_signed(offset)?)
            }
        }
    }

    /// The place of a target: the atom, and the offset in its section.
    pub(super) fn place_of_target(&self, target: Target, offset: i64) -> Option<(AtomIdx, u64)> {
        match target {
            Target::Atom(atom) => Some((atom, u64::try_from(offset).ok()?)),
            Target::Symbol(symbol) => {
                let symbol = self.symbols.get(symbol.index())?;
                self.place(self.section_of(symbol)?, symbol.value.checked_add_signed(offset)?)
            }
        }
    }

    pub(super) fn is_local(&self, target: Target) -> bool {
        match target {
            Target::Atom(_) => true,
            Target::Symbol(symbol) => {
                self.symbols.get(symbol.index()).is_some_and(|s| matches!(s.definition, Definition::Atom(_)))
            }
        }
    }

    pub(super) fn name(&self, target: Target) -> &[u8] {
        match target {
            Target::Symbol(symbol) => {
                self.symbols.get(symbol.index()).map_or(&[], |s| self.tables.name(s.name))
            }
            Target::Atom(_) => &[],
        }
    }

    /// Functions that preserve every register by their own calling conventions.
    pub(super) fn preserves_all(&self, target: Target) -> bool {
        let known: [&[u8]; 6] = [
            b"__fentry__",
            b"_mcount",
            b"__morestack",
            b"__rust_probestack",
            b"__xray_FunctionEntry",
            b"__xray_FunctionExit",
        ];
        known.contains(&self.name(target))
    }

    pub(super) fn is_tls_get_addr(&self, target: Target) -> bool {
        self.name(target) == b"__tls_get_addr"
    }
}
