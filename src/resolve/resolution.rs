//! The symbol resolution of a link: the loaded modules, and the prevailing definition of each name. Later passes read it by id.

use summaries::{Limit, LimitRecord, SymbolIdx, Visibility};

use crate::ids::{DsoId, IdVec, ModuleId, SymbolId};

/// A limit that concerns the link as a whole.
pub(crate) fn link_limit(limit: Limit, detail: String) -> LimitRecord {
    LimitRecord::new(limit, detail)
}

/// The definition of a name that the linker takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prevailing {
    /// No definition. Strong if any loaded module refers to it strongly.
    Undefined {
        weak: bool,
    },
    Module {
        module: ModuleId,
        symbol: SymbolIdx,
    },
    Dso(DsoId),
    /// The linker or a script defines it (`_end`, `__start_X`, `--defsym`).
    Linker,
}

/// A global symbol of the link.
#[derive(Debug, Clone)]
pub struct GlobalSymbol<'a> {
    pub name: &'a [u8],
    pub prevailing: Prevailing,
    /// The strictest visibility that any loaded module gives it (gABI, "Symbol Table").
    pub visibility: Visibility,
    /// A DSO on the line refers to it.
    pub referenced_by_dso: bool,
    /// A DSO on the line defines it too.
    pub defined_by_dso: bool,
    /// It has an explicit version (`.symver`), in its name or in that of the definition that prevails.
    pub versioned: bool,
    /// A loaded module has a strong undefined symbol of this name.
    pub strong_reference: bool,
    /// A loaded module of bitcode refers to it, or the code compiled from bitcode may: see [`bitcode`](super::bitcode).
    pub by_bitcode: bool,
    /// The code compiled from bitcode may refer to it, though no module names it.
    pub by_generated_code: bool,
    /// The prevailing definition is one of bitcode that needs no entry of `.dynsym`.
    pub omittable: bool,
}

/// The resolution of a loaded module: its global symbols and its discarded groups.
#[derive(Debug, Clone, Default)]
pub struct LoadedModule {
    /// Index of the first non-local symbol in its symbol table.
    pub first_global: u32,
    /// The global symbol of each symbol table entry from `first_global` on.
    pub symbols: Vec<SymbolId>,
    /// ELF section indices of `SHT_GROUP` sections whose COMDAT another module's group replaces, sorted.
    pub discarded_groups: Vec<u32>,
}

/// The files that the linker loads, in its order.
#[derive(Debug, Default)]
pub(super) struct Extraction {
    pub(super) loaded: Vec<ModuleId>,
    /// By DSO: the linker takes it.
    pub(super) taken: Vec<bool>,
    pub(super) mentions: Vec<DsoMention>,
    /// Libraries that are needed independently of the prevailing definitions.
    pub(super) referenced: Vec<DsoId>,
    /// Members that are not loaded and define names that the linker looks up.
    pub(super) looked_for: Vec<ModuleId>,
    /// The symbols `__wrap_foo` for a weak `foo`: lld gives references to them the binding of the symbol, not of the reference.
    pub(super) weak_wraps: Vec<SymbolId>,
    /// Uncertainties of the extraction, and errors of the linker.
    pub(super) limits: Vec<LimitRecord>,
}

/// A shared library on the line, at its position among the modules. The position decides the version of a symbol that both define,
/// the size of a common one, and whether a symbol is weak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DsoMention {
    /// The position of the library in [`Inputs::sequence`](crate::inputs::Inputs::sequence).
    pub item: usize,
    /// How many modules are loaded before it.
    pub after: usize,
    /// The linker takes it here, or has taken it before.
    pub taken: bool,
}

/// The resolution of a shared library: whether it is loaded and needed.
#[derive(Debug, Clone, Copy, Default)]
pub struct DsoState {
    /// The linker reads it. GNU ld forgets a library that nothing before it needed, mold one that nothing needed.
    pub taken: bool,
    /// A loaded module refers strongly to a symbol with its definition, which prevails or for gold prevailed for a while.
    pub referenced: bool,
}

/// The product of resolution: what is loaded, and which definitions prevail.
#[derive(Debug, Default)]
pub struct Resolution<'a> {
    pub symbols: IdVec<SymbolId, GlobalSymbol<'a>>,
    /// In the order in which the linker loads them.
    pub loaded: Vec<ModuleId>,
    /// The loaded modules; `None` for an archive member that is not loaded.
    pub modules: IdVec<ModuleId, Option<LoadedModule>>,
    pub dsos: IdVec<DsoId, DsoState>,
    /// The mentions of libraries, sorted by what they come after.
    pub dso_mentions: Vec<DsoMention>,
    pub limits: Vec<(Option<ModuleId>, LimitRecord)>,
    /// Definitions in bitcode that don't prevail and constrain the symbol more than the prevailing one ([`merging`](super::merging)), sorted.
    pub demanding: Vec<(ModuleId, SymbolIdx)>,
    /// Modules of bitcode that share the name of their source file with another one, sorted.
    pub same_source: Vec<ModuleId>,
    /// A module of bitcode is in the link.
    pub has_bitcode: bool,
    /// Members that are not loaded and that the linker must see, ascending: native ones that it may load for code compiled
    /// from bitcode, and those that define a name that it looks up.
    pub late: Vec<ModuleId>,
}

impl Resolution<'_> {
    /// Names whose prevailing definition is in no module, or that have none: a reference to one needs no module.
    pub fn names_needing_no_module(&self) -> impl Iterator<Item = &[u8]> {
        let elsewhere = self.symbols.iter().filter(|s| !matches!(s.prevailing, Prevailing::Module { .. }));
        elsewhere.map(|s| s.name)
    }

    /// The global symbol of entry `symbol` in the symbol table of `module`; `None` for a local one.
    pub fn symbol_id(&self, module: ModuleId, symbol: SymbolIdx) -> Option<SymbolId> {
        let loaded = self.modules[module].as_ref()?;
        let i = symbol.0.checked_sub(loaded.first_global)?;
        loaded.symbols.get(i as usize).copied()
    }
}
