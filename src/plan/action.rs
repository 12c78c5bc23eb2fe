//! The plan that emission receives: an action for each atom, and the consequences for symbols and groups.

use serde::{Deserialize, Serialize};
use summaries::AtomIdx;
use summaries::native::significance::Significance;

use crate::ids::SymbolId;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    Keep,
    Drop,
    /// Code whose address is needed and whose body is not: a trap replaces it ([`crate::propagate::can_stub`]).
    Stub,
}

/// Which debugging information entries are removed, with their lists and lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DebugCollection {
    /// Entries of removed functions, and entries that only those refer to.
    RemovedCode,
    /// All entries that no entry of kept code or data refers to (`--prune-debug=shrink`).
    Unreferenced,
}
/// The flags of a global symbol in the plan of a module. None is set if the plan was made without the rest of the link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SymbolFlags(u8);

impl SymbolFlags {
    /// The module defines the symbol, and the definition of another module, a DSO or the linker prevails. References to a dropped
    /// definition then lead to that one.
    pub const PREVAILS_ELSEWHERE: Self = Self(1);
    /// The prevailing definition is dropped, so that no module defines the name. Only then may its visibility be lost.
    pub const DEFINITION_DROPPED: Self = Self(2);
    /// The prevailing definition is kept: debug information may refer to it.
    pub const DEFINITION_KEPT: Self = Self(4);
    /// Bitcode refers to the symbol or its section. An undefined symbol stays, because linkers compile bitcode by the symbols that objects name.
    pub const SEEN_BY_BITCODE: Self = Self(8);

    pub fn has(self, flag: Self) -> bool {
        self.0 & flag.0 != 0
    }

    pub fn set(&mut self, flag: Self, value: bool) {
        self.0 |= if value { flag.0 } else { 0 };
    }
}
/// The plan of one loaded module.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ModulePlan {
    /// The elements are indexed by `AtomIdx`.
    pub atoms: Vec<Action>,
    /// By ELF symbol index: the flags of global symbols. Empty if the plan was made without the rest of the link.
    pub symbols: Vec<SymbolFlags>,
    /// ELF section indices of `SHT_GROUP` sections that another module's group replaces, sorted. All their atoms are dropped.
    pub discarded_groups: Vec<u32>,
    /// The linker receives the original bytes of the module. It may itself remove dropped atoms.
    pub passed_through: bool,
    /// The contents of its address-significance table, if it gets one ([`mark_foldable`](super::fold::mark_foldable)).
    pub addresses: Option<Significance>,
    /// A module of LLVM bitcode that shares its source file name with another one. LLVM renames the local symbols of both by the
    /// modules' hashes, which must differ even if the kept contents are equal.
    pub same_source: bool,
    /// FDEs that describe no byte are removed.
    pub drops_empty_fdes: bool,
    /// By `AtomIdx`: the FDEs of the atom are removed though it is kept. Empty means "of none of them".
    pub removes_unwind: Vec<bool>,
    /// Where FDEs of kept atoms are removed: they are written as `.debug_frame`.
    pub writes_debug_frame: bool,
    /// By `AtomIdx`: the atom is emitted as a section of its own, with this name. Empty means "none of them".
    pub section_names: Vec<Option<Box<[u8]>>>,
    /// Which of its debugging information entries are removed; `None` if it keeps all of them.
    pub debug: Option<DebugCollection>,
}

impl ModulePlan {
    /// The flags of the symbol with this ELF index.
    pub fn symbol(&self, symbol: usize) -> SymbolFlags {
        self.symbols.get(symbol).copied().unwrap_or_default()
    }

    /// Whether the FDEs of this atom, which is kept, are removed.
    pub fn removes_unwind_of(&self, atom: AtomIdx) -> bool {
        let keeps = self.atoms.get(atom.index()) == Some(&Action::Keep);
        keeps && self.removes_unwind.get(atom.index()) == Some(&true)
    }

    /// Whether the linker may give this atom, a function, the address of one like it.
    pub fn is_foldable(&self, atom: AtomIdx) -> bool {
        let keeps = self.atoms.get(atom.index()) == Some(&Action::Keep);
        keeps && self.addresses.as_ref().is_some_and(|a| a.foldable.get(atom.index()) == Some(&true))
    }

    /// The name of the section that this atom is emitted as, if it gets one of its own.
    pub fn section_name(&self, atom: AtomIdx) -> Option<&[u8]> {
        self.section_names.get(atom.index())?.as_deref()
    }

    /// Whether a section with these atoms is emitted in parts: the actions differ, one is a stub, one can be folded without the
    /// others, or one gets a section of its own.
    pub fn parts(&self, atoms: std::ops::Range<usize>) -> bool {
        let actions = self.atoms.get(atoms.clone()).unwrap_or(&[]);
        let differs = |action: &Action| Some(action) != actions.first() || *action == Action::Stub;
        let several = atoms.len() > 1;
        let moves = |a: AtomIdx| several && self.is_foldable(a) || self.section_name(a).is_some();
        actions.iter().any(differs) || atoms.map(AtomIdx::new).any(moves)
    }
}

#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// The elements are in load order.
    pub modules: Vec<ModulePlan>,
    /// Dropped atoms, without those of groups that the linker discards anyway.
    pub dropped: usize,
    /// The number of atoms that become stubs.
    pub stubs: usize,
    /// `STB_GNU_UNIQUE` definitions that gold must keep to export them; each gets a `-u`.
    pub demanded: Vec<SymbolId>,
}
