//! Value flow of native code: a [`FunctionSummary`] for every function that is understood.
//!
//! A function is understood if its section was proved to hold functions and nothing else ([`super::split`]), every
//! instruction is modelled, every relocation in it has a meaning, and control enters it only where symbols say and
//! leaves it only with its frame gone. It is analysed together with its cold parts. Of what compilers do this takes for
//! granted: between modules the psABI's calling convention holds; what a caller keeps in rbx, rbp and r12 to r15 is saved
//! and restored and otherwise left alone; addresses are made by relocations, and flow through operands, not through
//! comparisons. Anything else makes the function one that is not understood, and it gets no summary: whatever it
//! refers to and is given escapes.

mod arguments;
mod builder;
mod calls;
mod closed;
mod compact;
mod follow;
mod groups;
mod handlers;
mod limits;
mod mapping;
mod memory;
mod needed;
mod preserve;
mod stacks;
mod state;
mod transfer;
mod unit;
mod nonstandard_registers;
mod walk;

use object::endian::LittleEndian as LE;

use super::decode::effects::Effects;
use super::relocations::{Rela, symbol_of, type_of};
use super::split::{self, Plan};
use super::symbols::SectionAtoms;
use super::tables::{Result, Tables};
use crate::ids::{AtomIdx, SymbolIdx};
use crate::limit::LimitRecord;
use crate::native::relocations::types::{R_X86_64_32, R_X86_64_32S, R_X86_64_64, R_X86_64_PC32};
use crate::parallel::ParallelMap;
use crate::relation::FunctionSummary;
use crate::summary::{
    Atom, AtomKind, Binding, Definition, OwnedRange, Reference, ReferenceKind, ResolvedReference, Symbol,
    SymbolKind, Target,
};
use unit::{Meaning, Unit};

/// A place inside a function that something refers to by address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Label {
    atom: AtomIdx,
    offset: u64,
    /// The address is a value that the program can hold, not only an entry of a relative jump table.
    is_value: bool,
}

/// What of the module the analysis of a function looks at.
pub(crate) struct FlowModule<'a, 't> {
    tables: &'t Tables<'a>,
    by_section: &'t SectionAtoms,
    atoms: &'t [Atom],
    symbols: &'t [Symbol],
    /// The relocations of the module, each with the section that it is in, by (section, place).
    relas: Vec<(u32, Rela)>,
    /// Where function symbols are, without those of cold parts: sorted.
    entries: Vec<(AtomIdx, u64)>,
    /// By atom: the symbols at its start say that it is a part of another function.
    cold: Vec<bool>,
    /// There is code that is part of no function that is known.
    has_loose_parts: bool,
    /// Functions of its own that compilers call by themselves, sorted.
    routines: Vec<AtomIdx>,
    /// Pieces that LLVM's outliner has taken out of functions, sorted.
    outlined: Vec<AtomIdx>,
    /// The places in code that a symbol or a table names, sorted.
    labels: Vec<Label>,
    /// With an unwind table that refers to something, sorted; and their tables of handlers.
    handled: Vec<AtomIdx>,
    lsdas: Vec<handlers::Lsda>,
    /// Sections whose code is followed, ascending.
    followed: Vec<u32>,
    /// The module asks for a stack that is executable: frames may hold code, as trampolines of nested functions are.
    executes_stack: bool,
    /// By atom, if only what lives is followed.
    live: Option<&'t [bool]>,
}

/// The tables of the summary that say what the references of the module mean, and what is asked for.
#[derive(Clone, Copy)]
pub(crate) struct References<'r> {
    pub(crate) references: &'r [Reference],
    pub(crate) resolved: &'r [ResolvedReference],
    pub(crate) owned: &'r [OwnedRange],
    /// By atom, if only what lives is followed: whether control may come to it.
    pub(crate) live: Option<&'r [bool]>,
    /// How pieces of the work are run: one after the other, or on threads.
    pub(crate) each: ParallelMap<'r>,
}

/// What is found out about the code of a module.
#[derive(Default)]
pub(crate) struct FlowTables {
    /// Of every function that is understood, ascending by atom.
    pub(crate) functions: Vec<FunctionSummary>,
    /// What is not, because it uses registers of its caller that pass nothing.
    pub(crate) takes_registers: Vec<AtomIdx>,
}

/// Summarise every function that is understood; the others are counted in `limits`.
pub(crate) fn read(
    tables: &Tables<'_>,
    by_section: &SectionAtoms,
    atoms: &[Atom],
    symbols: &[Symbol],
    plan: &Plan,
    of: References<'_>,
    limits: &mut Vec<LimitRecord>,
) -> Result<FlowTables> {
    // What is not loaded says nothing of values.
    let mut relas = split::relocations_beside_debug(tables, by_section)?;
    relas.retain(|(section, _)| tables.sections.get(*section as usize).is_some_and(|s| s.is_alloc()));
    let mut module = FlowModule {
        tables,
        by_section,
        atoms,
        symbols,
        relas,
        entries: Vec::new(),
        cold: vec![false; atoms.len()],
        has_loose_parts: false,
        routines: Vec::new(),
        outlined: Vec::new(),
        labels: Vec::new(),
        handled: Vec::new(),
        lsdas: Vec::new(),
        followed: Vec::new(),
        executes_stack: tables.sections.iter().any(|s| {
            s.flags & object::elf::SHF_EXECINSTR.0 != 0 && tables.name(s.name) == b".note.GNU-stack"
        }),
        live: of.live,
    };
    let unwind = of.references.iter().filter(|r| r.kind == ReferenceKind::Unwind);
    module.handled = unwind.map(|r| r.from).collect();
    module.handled.sort_unstable();
    module.lsdas = handlers::tables(&module, of.references);
    let closed = module.closed_sections(plan);
    module.find_entries();
    module.entries.extend(module.closed_entries(&closed));
    module.entries.sort_unstable();
    module.entries.dedup();
    module.find_labels(plan);
    module.followed = plan.understood.iter().copied().chain(closed).collect();
    module.followed.sort_unstable();
    module.find_routines();
    let groups = module.groups();
    module.has_loose_parts = module.has_code_without_entry(&groups);
    let mut found = FlowTables::default();
    let mut entered: Vec<(AtomIdx, String)> = Vec::new();
    for followed in follow::follow(&module, &groups, of) {
        limits.extend(followed.limits);
        entered.extend(followed.entered);
        found.functions.extend(followed.functions);
        found.takes_registers.extend(followed.takes_registers);
    }
    let mut effects = Effects::new();
    for (i, atom) in module.atoms.iter().enumerate() {
        let left = atom.kind == AtomKind::Code && plan.understood.binary_search(&atom.section).is_err();
        let number = AtomIdx::new(i);
        if left && atom.size > 0 && module.may_run(number) {
            if module.may_take_registers(number, &mut effects) {
                found.takes_registers.push(number);
            }
            module.give_up(&[number], "its section is not understood as functions", limits);
        }
    }
    entered.sort_unstable();
    for (atom, why) in entered {
        if let Some(at) = found.functions.iter().position(|f| f.atom == atom || f.parts.contains(&atom)) {
            found.functions.remove(at);
            module.give_up(&[atom], &why, limits);
        }
    }
    found.functions.sort_by_key(|f| f.atom);
    module.find_mappings(plan, &found.functions, limits);
    Ok(found)
}

impl FlowModule<'_, '_> {
    fn find_entries(&mut self) {
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

    fn find_labels(&mut self, plan: &Plan) {
        let mut labels = Vec::new();
        for (from, to) in &plan.exact {
            let Some((atom, offset)) = self.place(to.0, to.1) else { continue };
            let table =
                self.relas_of(from.0, from.1, from.1 + 1).iter().any(|(_, r)| type_of(r) == R_X86_64_PC32)
                    && !self.is_code(from.0);
            labels.push(Label { atom, offset, is_value: !table });
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
                labels.push(Label { atom, offset, is_value: true });
            }
        }
        labels.retain(|l| self.entries.binary_search(&(l.atom, l.offset)).is_err());
        labels.sort_unstable();
        labels.dedup();
        self.labels = labels;
    }

    /// Whether control may come to the atom in the link.
    fn may_run(&self, atom: AtomIdx) -> bool {
        self.live.is_none_or(|live| live.get(atom.index()).copied().unwrap_or(true))
    }

    fn is_code(&self, section: u32) -> bool {
        let atom = self.by_section.get(section).and_then(|a| self.atoms.get(a.index()));
        atom.is_some_and(|a| a.kind == AtomKind::Code)
    }

    fn is_unwind(&self, section: u32) -> bool {
        self.by_section.get(section).is_none()
    }

    fn section_of(&self, symbol: &Symbol) -> Option<u32> {
        let Definition::Atom(atom) = symbol.definition else { return None };
        self.atoms.get(atom.index()).map(|a| a.section).filter(|s| *s != Atom::NO_SECTION)
    }

    /// Where function symbols of this atom are.
    fn entries_of(&self, atom: AtomIdx) -> Vec<u64> {
        let start = self.entries.partition_point(|e| e.0 < atom);
        let own = self.entries.get(start..).unwrap_or(&[]).iter().take_while(|e| e.0 == atom);
        own.map(|e| e.1).collect()
    }

    fn labels_in(&self, atoms: &[AtomIdx]) -> Vec<Label> {
        let of = |atom: &AtomIdx| {
            let first = self.labels.partition_point(|l| l.atom < *atom);
            let end = self.labels.partition_point(|l| l.atom <= *atom);
            self.labels.get(first..end).unwrap_or(&[])
        };
        atoms.iter().flat_map(of).copied().collect()
    }

    /// The atom at an offset of a section; the end of the section belongs to the last one.
    fn place(&self, section: u32, offset: u64) -> Option<(AtomIdx, u64)> {
        let size = self.tables.sections.get(section as usize)?.size;
        let atom = self.by_section.at(self.atoms, section, offset)?;
        (offset <= size).then_some((atom, offset))
    }

    /// The section of an atom of code, where it begins there, and its bytes.
    fn code(&self, atom: AtomIdx) -> Option<(u32, u64, &[u8])> {
        let atom = self.atoms.get(atom.index())?;
        let data = self.tables.data(atom.section).ok()?;
        let end = atom.offset.checked_add(atom.size)?;
        let bytes = data.get(usize::try_from(atom.offset).ok()?..usize::try_from(end).ok()?)?;
        Some((atom.section, atom.offset, bytes))
    }

    fn relas_of(&self, section: u32, start: u64, end: u64) -> &[(u32, Rela)] {
        let key = |(s, r): &(u32, Rela)| (*s, r.r_offset.get(LE));
        let from = self.relas.partition_point(|r| key(r) < (section, start));
        let to = self.relas.partition_point(|r| key(r) < (section, end));
        self.relas.get(from..to).unwrap_or(&[])
    }

    /// What a symbol plus an offset is. Local symbols are places.
    fn target(&self, symbol: SymbolIdx, offset: i64) -> Option<Meaning> {
        let entry = self.symbols.get(symbol.index())?;
        if entry.kind == SymbolKind::Tls {
            return Some(Meaning::Tls);
        }
        match entry.definition {
            Definition::Atom(_) if entry.binding == Binding::Local => {
                let section = self.section_of(entry)?;
                let offset = offset.checked_add_unsigned(entry.value)?;
                // A base may lie before the section, and is then of its first atom.
                let at = u64::try_from(offset).unwrap_or(0);
                let atom = self.by_section.at(self.atoms, section, at)?;
                Some(Meaning::Place(Target::Atom(atom), offset))
            }
            Definition::Atom(_) | Definition::Common(_) | Definition::Undefined
                if entry.binding != Binding::Local =>
            {
                Some(Meaning::Place(Target::Symbol(symbol), offset))
            }
            _ => None,
        }
    }

    /// The place in this module that a target means, if it is one.
    fn local(&self, target: Target, offset: i64) -> Option<(AtomIdx, u64)> {
        match target {
            Target::Atom(atom) => Some((atom, u64::try_from(offset).ok()?)),
            Target::Symbol(symbol) => {
                let entry = self.symbols.get(symbol.index())?;
                self.place(self.section_of(entry)?, entry.value.checked_add_signed(offset)?)
            }
        }
    }

    fn is_local(&self, target: Target) -> bool {
        match target {
            Target::Atom(_) => true,
            Target::Symbol(symbol) => {
                self.symbols.get(symbol.index()).is_some_and(|s| matches!(s.definition, Definition::Atom(_)))
            }
        }
    }

    fn name(&self, target: Target) -> &[u8] {
        match target {
            Target::Symbol(symbol) => {
                self.symbols.get(symbol.index()).map_or(&[], |s| self.tables.name(s.name))
            }
            Target::Atom(_) => &[],
        }
    }

    /// Functions that every register survives, by their own conventions.
    fn preserves_all(&self, target: Target) -> bool {
        let known: [&[u8]; 7] = [
            b"__fentry__",
            b"mcount",
            b"_mcount",
            b"__morestack",
            b"__rust_probestack",
            b"__xray_FunctionEntry",
            b"__xray_FunctionExit",
        ];
        known.contains(&self.name(target))
    }

    fn is_tls_get_addr(&self, target: Target) -> bool {
        self.name(target) == b"__tls_get_addr"
    }

    /// Fill in what the constraints don't say: the atoms, the entries, and which references are accounted for.
    fn complete(&self, unit: &Unit, of: References<'_>, summary: &mut FunctionSummary) {
        let main = unit.entries.first().map_or(AtomIdx(0), |e| e.0);
        summary.atom = main;
        summary.parts = unit.atoms.iter().copied().filter(|a| *a != main).collect();
        summary.entries = unit.entries.iter().map(|e| (e.0, e.1)).collect();
        let inside =
            |target: &Target| matches!(target, Target::Atom(a) if unit.atoms.binary_search(a).is_ok());
        let mut known: Vec<(u32, u64)> = Vec::new();
        for op in &unit.ops {
            if matches!(op.displacement, Meaning::Place(..) | Meaning::Got(_))
                || matches!(op.immediate, Meaning::Place(..))
            {
                let own = self.relas_of(op.section, op.offset, op.end);
                known.extend(own.iter().map(|(s, r)| (*s, r.r_offset.get(LE))));
            }
        }
        for atom in unit.atoms.iter().filter_map(|a| self.atoms.get(a.index())) {
            let from = of.resolved.partition_point(|r| (r.section, r.field) < (atom.section, atom.offset));
            let end = (atom.section, atom.offset.saturating_add(atom.size));
            let own = of.resolved.iter().skip(from).take_while(|r| (r.section, r.field) < end);
            known.extend(own.map(|r| (r.section, r.field)));
        }
        // Tables of its own lead to its own labels.
        for range in of.owned.iter().filter(|o| unit.atoms.binary_search(&o.owner).is_ok()) {
            let Some(section) = self.atoms.get(range.atom.index()).map(|a| a.section) else { continue };
            for atom in &unit.atoms {
                let start = of.references.partition_point(|r| r.from < *atom);
                let own = of.references.get(start..).unwrap_or(&[]).iter().take_while(|r| r.from == *atom);
                known.extend(
                    own.filter(|r| {
                        (range.start..range.end).contains(&r.offset)
                            && r.kind == ReferenceKind::Data
                            && inside(&r.target)
                    })
                    .map(|r| (section, r.offset)),
                );
            }
        }
        known.sort_unstable();
        known.dedup();
        summary.covered_references = known;
    }
}
