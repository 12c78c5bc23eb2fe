//! The symbol resolution of a link: what is loaded, and which definition of each name prevails.
//!
//! Frozen once it is made; later passes read it by id. Left out: how it is decided, which is each linker's own ([`resolve`](super::resolve())).

use summaries::{Limit, LimitRecord, SymbolIdx, Visibility};

use crate::ids::{DsoId, IdVec, ModuleId, SymbolId};

/// A limit that concerns the link as a whole.
pub(crate) fn link_limit(limit: Limit, detail: String) -> LimitRecord {
    LimitRecord { limit, section: None, offset: None, bytes: 0, detail }
}

/// Which definition of a name the linker takes.
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
    /// A module of bitcode that is in the link mentions it, or the code that is made of it may: see [`bitcode`](super::bitcode).
    pub by_bitcode: bool,
    /// The code that is made of bitcode may refer to it, whatever is mentioned.
    pub by_generated_code: bool,
    /// The definition that prevails is one of bitcode that asks for no entry of `.dynsym`.
    pub omittable: bool,
}

/// What resolve knows of a module that is in the link.
#[derive(Debug, Clone, Default)]
pub struct LoadedModule {
    /// Index of the first non-local symbol in its symbol table.
    pub first_global: u32,
    /// The global symbol of each symbol table entry from `first_global` on.
    pub symbols: Vec<SymbolId>,
    /// ELF section indices of `SHT_GROUP` sections whose COMDAT another module's group replaces, sorted.
    pub discarded_groups: Vec<u32>,
}

/// What the linker read, in its order.
#[derive(Debug, Default)]
pub(super) struct Extraction {
    pub(super) loaded: Vec<ModuleId>,
    /// By DSO: the linker takes it.
    pub(super) taken: Vec<bool>,
    pub(super) mentions: Vec<DsoMention>,
    /// Libraries that are needed whatever prevails.
    pub(super) referenced: Vec<DsoId>,
    /// Members that stay out and define what the linker looks for by name, without loading it.
    pub(super) looked_for: Vec<ModuleId>,
    /// The symbols `__wrap_foo` to which references to a weak `foo` are weak too: lld gives them the binding of the symbol, not of the reference.
    pub(super) weak_wraps: Vec<SymbolId>,
    /// What can't be said of it.
    pub(super) limits: Vec<LimitRecord>,
}

/// A shared library on the line, where the linker reads it. Linkers mind whether a library comes before or after a
/// module: for the version of a symbol that both define, for the size of a common one, for what is weak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DsoMention {
    /// The position of the library in [`Inputs::sequence`](crate::inputs::Inputs::sequence).
    pub item: usize,
    /// How many modules are loaded before it.
    pub after: usize,
    /// The linker takes it here, or has taken it before.
    pub taken: bool,
}

/// What resolve knows of a shared library.
#[derive(Debug, Clone, Copy, Default)]
pub struct DsoState {
    /// The linker reads it: false for one that GNU ld forgets because nothing before it needed it, or mold because nothing needed it.
    pub taken: bool,
    /// A loaded module refers strongly to a symbol for which its definition prevails, or for gold prevailed for a while.
    pub referenced: bool,
}

/// The product of resolution: what is loaded, and which definitions prevail.
#[derive(Debug, Default)]
pub struct Resolution<'a> {
    pub symbols: IdVec<SymbolId, GlobalSymbol<'a>>,
    /// In the order in which the linker loads them.
    pub loaded: Vec<ModuleId>,
    /// The loaded modules; `None` is an archive member that stays out.
    pub modules: IdVec<ModuleId, Option<LoadedModule>>,
    pub dsos: IdVec<DsoId, DsoState>,
    /// The mentions of libraries, sorted by what they come after.
    pub dso_mentions: Vec<DsoMention>,
    pub limits: Vec<(Option<ModuleId>, LimitRecord)>,
    /// Definitions in bitcode that don't prevail and ask more of the linker than the one that does ([`merging`](super::merging)), sorted.
    pub demanding: Vec<(ModuleId, SymbolIdx)>,
    /// Modules of bitcode that share the name of their source file with another one, sorted.
    pub same_source: Vec<ModuleId>,
    /// A module of bitcode is in the link.
    pub has_bitcode: bool,
    /// Members that stay out and that the linker must see all the same, ascending: native ones that it may load for the code that it makes
    /// of bitcode, and those in which it finds a name that it looks for.
    pub late: Vec<ModuleId>,
}

impl Resolution<'_> {
    /// Names of which no loaded module's definition prevails, undefined ones among them: a reference to one needs no module.
    pub fn names_needing_no_module(&self) -> impl Iterator<Item = &[u8]> {
        let elsewhere = self.symbols.iter().filter(|s| !matches!(s.prevailing, Prevailing::Module { .. }));
        elsewhere.map(|s| s.name)
    }

    /// The global symbol that symbol table entry `symbol` of `module` names; `None` for a local one.
    pub fn symbol_id(&self, module: ModuleId, symbol: SymbolIdx) -> Option<SymbolId> {
        let loaded = self.modules[module].as_ref()?;
        let i = symbol.0.checked_sub(loaded.first_global)?;
        loaded.symbols.get(i as usize).copied()
    }
}
