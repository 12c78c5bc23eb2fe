//! Pass 2, resolve: which members are in the link, which definition prevails, what each symbol means.
//!
//! Decided exactly as the linker behind us would (see the dialects). After this pass the set of modules, their
//! order and every prevailing definition are fixed.

use summaries::{LimitRecord, SymbolIdx, Visibility};

use crate::ids::{DsoId, IdVec, ModuleId, SymbolId};

/// Which definition the linker takes.
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
    /// Merged over all loaded modules.
    pub visibility: Visibility,
    /// A DSO on the line refers to it.
    pub referenced_by_dso: bool,
    /// A DSO on the line defines it too.
    pub defined_by_dso: bool,
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

/// What resolve knows of a shared library.
#[derive(Debug, Clone, Copy, Default)]
pub struct DsoState {
    /// A loaded module refers to one of its definitions.
    pub referenced: bool,
}

/// The product of pass 2.
#[derive(Debug, Default)]
pub struct Resolution<'a> {
    pub symbols: IdVec<SymbolId, GlobalSymbol<'a>>,
    /// In the order in which the linker loads them.
    pub loaded: Vec<ModuleId>,
    /// By module; `None` is an archive member that stays out.
    pub modules: IdVec<ModuleId, Option<LoadedModule>>,
    pub dsos: IdVec<DsoId, DsoState>,
    pub limits: Vec<(Option<ModuleId>, LimitRecord)>,
}

impl Resolution<'_> {
    /// The global symbol that symbol table entry `symbol` of `module` names; `None` for a local one.
    pub fn symbol_id(&self, module: ModuleId, symbol: SymbolIdx) -> Option<SymbolId> {
        let loaded = self.modules[module].as_ref()?;
        let i = symbol.0.checked_sub(loaded.first_global)?;
        loaded.symbols.get(i as usize).copied()
    }
}
