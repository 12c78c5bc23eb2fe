//! Symbol resolution for value flow: the place in the whole link that a target of a module refers to.
//!
//! A target has a known place only in a loaded module that is analysed. Everything else is the unknown: data of libraries,
//! definitions by the linker, thread-local memory, sections with a special meaning. Liveness of places is not considered here.

use rustc_hash::FxHashMap;
use summaries::models::{MemoryIdx, Model};
use summaries::{
    Atom, AtomIdx, AtomKind, Definition, ModuleSummary, SymbolIdx, SymbolKind, Target, Visibility, atom_flags,
};

use super::process::ProcessFacts;
use crate::config::{Config, OutputKind};
use crate::ids::{AtomId, Id, ModuleId, SymbolId};
use crate::index::{Index, Region, is_ordinary_data};
use crate::propagate::liveness::Liveness;
use crate::resolve::{Prevailing, Resolution};

/// The model of a function of a shared library, by its symbol.
pub type ModelOf<'m> = &'m dyn Fn(SymbolId) -> Option<&'m Model>;

/// The inputs of value flow: the joined link and its module summaries.
#[derive(Clone, Copy)]
pub struct FlowInputs<'s> {
    pub config: &'s Config,
    pub resolution: &'s Resolution<'s>,
    /// The module summaries in load order, as in the index.
    pub summaries: &'s [&'s ModuleSummary],
    pub index: &'s Index,
    /// The liveness by references. Value flow analyses only these atoms, so that it never keeps more.
    pub reachable: &'s Liveness,
    pub models: ModelOf<'s>,
    /// The library memory of a symbol, with the soname. The symbol is a function with a model, or a variable that holds only
    /// addresses of this memory.
    pub memory: &'s dyn Fn(SymbolId) -> Option<(&'s str, MemoryIdx)>,
    /// Code outside of the link and without models runs in the process.
    pub unseen_code: bool,
    /// A linker script has a `SECTIONS` command.
    pub has_sections: bool,
    /// Whether a stub may replace an atom. Other atoms are live if they are address-taken.
    pub can_stub: &'s dyn Fn(AtomId) -> bool,
}

/// The meaning in the link of a place in a module's summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResolvedPlace {
    /// In an atom, in bytes from the start of its section.
    Atom(AtomId, i64),
    /// A function (or object) of a shared library.
    External(SymbolId),
    /// The result of the resolver function at this place.
    Resolver(AtomId, i64),
    Unknown,
    /// The null address, as of an undefined weak symbol.
    Nothing,
}

/// The resolved places of all targets in the link.
pub(super) struct LinkPlaces<'s> {
    pub(super) sources: FlowInputs<'s>,
    pub(super) position_of: FxHashMap<ModuleId, usize>,
    /// By atom: the position of its module.
    position: Vec<u32>,
    /// Undefined weak symbols may be defined when the program runs.
    dynamic: bool,
    /// The program may register `printf` conversions, which take any number of arguments.
    pub(super) registers_conversions: bool,
    pub(super) process: ProcessFacts,
}

impl<'s> LinkPlaces<'s> {
    pub(super) fn new(sources: FlowInputs<'s>) -> Self {
        let position_of = sources.index.modules.iter().enumerate().map(|(i, m)| (m.module, i)).collect();
        let modules = (0u32..).zip(&sources.index.modules).zip(sources.summaries);
        let position = modules.flat_map(|((i, _), s)| std::iter::repeat_n(i, s.atoms.len())).collect();
        let executable = matches!(sources.config.output_kind, OutputKind::Executable | OutputKind::StaticPie);
        LinkPlaces {
            registers_conversions: may_register_conversions(sources),
            process: ProcessFacts::new(sources),
            position_of,
            position,
            dynamic: !executable || !sources.resolution.dsos.is_empty(),
            sources,
        }
    }

    pub(super) fn locate(&self, atom: AtomId) -> (usize, AtomIdx, &'s ModuleSummary) {
        let position = self.position[atom.index()] as usize;
        let local = AtomIdx(atom.0 - self.sources.index.modules[position].first_atom);
        (position, local, self.sources.summaries[position])
    }

    pub(super) fn atom(&self, atom: AtomId) -> Option<&'s Atom> {
        let (_, local, summary) = self.locate(atom);
        summary.atoms.get(local.index())
    }

    pub(super) fn global(&self, position: usize, atom: AtomIdx) -> AtomId {
        AtomId(self.sources.index.modules[position].first_atom + atom.0)
    }

    /// The place to which `target` of the module at `position` refers, plus `offset` bytes. The flag is true if the loader may
    /// prefer another definition of the symbol.
    pub(super) fn place(&self, position: usize, target: Target, offset: i64) -> (ResolvedPlace, bool) {
        let symbol = match target {
            Target::Atom(atom) => return (ResolvedPlace::Atom(self.global(position, atom), offset), false),
            Target::Symbol(symbol) => symbol,
        };
        let module = self.sources.index.modules[position].module;
        let Some(id) = self.sources.resolution.symbol_id(module, symbol) else {
            return (self.defined(position, symbol, offset), false);
        };
        let global = &self.sources.resolution.symbols[id];
        let shared = self.sources.config.output_kind == OutputKind::Shared;
        let place = match global.prevailing {
            Prevailing::Module { module, symbol } => match self.position_of.get(&module) {
                Some(position) => self.defined(*position, symbol, offset),
                None => ResolvedPlace::Unknown,
            },
            Prevailing::Dso(_) => ResolvedPlace::External(id),
            Prevailing::Linker => ResolvedPlace::Unknown,
            // The loader may define it, or the linker does: it relaxes calls of `__tls_get_addr` in a static link.
            Prevailing::Undefined { weak } if !weak || self.dynamic && self.process.has_other_libraries => {
                ResolvedPlace::Unknown
            }
            Prevailing::Undefined { .. } => ResolvedPlace::Nothing,
        };
        (place, shared && global.visibility == Visibility::Default)
    }

    /// The place of a symbol that a module defines.
    fn defined(&self, position: usize, symbol: SymbolIdx, offset: i64) -> ResolvedPlace {
        let Some(symbol) = self.sources.summaries[position].symbols.get(symbol.index()) else {
            return ResolvedPlace::Unknown;
        };
        match symbol.definition {
            Definition::Atom(atom) => {
                let (atom, value) = (self.global(position, atom), symbol.value as i64);
                match symbol.kind {
                    SymbolKind::Ifunc => ResolvedPlace::Resolver(atom, value),
                    SymbolKind::Tls => ResolvedPlace::Unknown,
                    _ => ResolvedPlace::Atom(atom, value.wrapping_add(offset)),
                }
            }
            // The value of a common symbol is its alignment.
            Definition::Common(atom) => ResolvedPlace::Atom(self.global(position, atom), offset),
            Definition::Undefined => ResolvedPlace::Nothing,
            Definition::Absolute | Definition::OtherSection(_) => ResolvedPlace::Unknown,
        }
    }

    /// The function of an atom: position of its module, and index in the module's functions.
    pub(super) fn function_of(&self, atom: AtomId) -> Option<(usize, usize)> {
        let (position, local, _) = self.locate(atom);
        self.sources.index.functions[position].of(local).map(|f| (position, f))
    }

    pub(super) fn is_entry(&self, atom: AtomId, offset: i64) -> bool {
        let (position, local, summary) = self.locate(atom);
        self.sources.index.functions[position].is_entry(summary, local, offset)
    }

    /// Whether the atom is dead without value flow: another module's group replaces it, or no reference reaches it.
    pub(super) fn is_dead(&self, atom: AtomId) -> bool {
        self.sources.index.discarded[atom.index()] || !self.sources.reachable.is_live(atom)
    }

    /// The kind of memory that an atom is.
    pub(super) fn content(&self, atom: AtomId) -> Content {
        let (position, local, summary) = self.locate(atom);
        let Some(this) = summary.atoms.get(local.index()) else { return Content::Unfollowed };
        if this.kind == AtomKind::Code {
            Content::Code
        } else if !is_ordinary_data(this) {
            Content::Unfollowed
        } else if this.kind == AtomKind::ReadOnlyData
            && !this.has(atom_flags::WRITE)
            && !self.process.writes_constants
            && !self.sources.index.regions[position].of(local).is_some_and(|r| r.refers)
        {
            Content::Constant
        } else {
            Content::Data
        }
    }

    /// The region of memory that contains a data atom.
    pub(super) fn region(&self, atom: AtomId) -> Option<(AtomId, Region)> {
        let (position, local, _) = self.locate(atom);
        let region = self.sources.index.regions[position].of(local)?;
        Some((self.global(position, region.first), region))
    }

    /// The number of atoms in the link, dead ones too.
    pub(super) fn atoms(&self) -> usize {
        self.sources.index.atom_count()
    }

    /// The number of the first function of each module, by position.
    pub(super) fn first_functions(&self) -> Vec<u32> {
        let mut first = 0;
        let count = |s: &&ModuleSummary| {
            let this = first;
            first += s.functions.len() as u32;
            this
        };
        self.sources.summaries.iter().map(count).collect()
    }
}

/// Whether a module or an option names a function that registers `printf` conversions, or one that finds functions by name.
fn may_register_conversions(sources: FlowInputs<'_>) -> bool {
    const NAMES: [&[u8]; 5] = [b"register_printf_", b"dlsym", b"dlvsym", b"dlopen", b"dlmopen"];
    let names = |text: &[u8]| NAMES.iter().any(|name| text.windows(name.len()).any(|part| part == *name));
    sources.unseen_code
        || sources.resolution.symbols.iter().any(|symbol| names(symbol.name))
        || sources.config.defsym.iter().any(|defsym| names(defsym.expression.as_bytes()))
}

/// The contents of an atom, as value flow distinguishes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    Code,
    /// Constants without addresses that are never written: a pointer to them has no pointee.
    Constant,
    Data,
    /// Its code was not analysed, so that it may do anything.
    Unfollowed,
}
