//! The plan as emission takes it: what becomes of each atom, and what follows for symbols and groups.
//!
//! Everything that emission must not decide is in these tables. Left out: how they are filled ([`plan`](super::plan())).

use serde::{Deserialize, Serialize};
use summaries::AtomIdx;
use summaries::native::significance::Significance;

use crate::ids::SymbolId;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    Keep,
    Drop,
    /// Code of which the address is needed and the body is not: a trap takes its place ([`crate::propagate::can_stub`]).
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

/// The plan of one loaded module.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ModulePlan {
    /// The elements are indexed by `AtomIdx`.
    pub atoms: Vec<Action>,
    /// By ELF symbol index: the module defines this global symbol, and another definition (in another module, a
    /// DSO or the linker) prevails. If its atom is dropped, what still refers to it becomes a reference to that one.
    pub prevails_elsewhere: Vec<bool>,
    /// By ELF symbol index: the definition of this global symbol that prevails is dropped, so no module defines the
    /// name any more. Empty means "not known": debug information then refers to no definition in another module
    /// that replaces one dropped here.
    pub prevailing_dropped: Vec<bool>,
    /// By ELF symbol index: the non-default visibility of this global symbol must reach the linker although nothing
    /// else of the symbol stays here, because another module keeps a mention of it. Empty means "of all of them".
    pub pin_visibility: Vec<bool>,
    /// By ELF symbol index: bitcode mentions this global symbol, or it stands for a section of it, so that a mention of it here must
    /// stay: what the linker makes of bitcode depends on which of its symbols objects mention. Empty means "of none".
    pub pin_mention: Vec<bool>,
    /// ELF section indices of `SHT_GROUP` sections that another module's group replaces, sorted. All their atoms are dropped.
    pub discarded_groups: Vec<u32>,
    /// The module is passed to the linker as it is, the same bytes. Atoms may be dropped all the same, by the linker itself.
    pub untouched: bool,
    /// What its address-significance table says, if it gets one ([`mark_foldable`](super::fold::mark_foldable)).
    pub addresses: Option<Significance>,
    /// A module of LLVM bitcode, and another one in the link has the same name of its source file. LLVM tells local symbols of the two that it makes global apart
    /// by the modules' hashes, which must differ although what is kept may be equal.
    pub same_source: bool,
    /// FDEs that describe no byte are left out.
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
    /// Whether the module is passed to the linker as it is, the same bytes.
    pub fn is_untouched(&self) -> bool {
        self.untouched
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

    /// Whether the section of which these are all the atoms is emitted in parts: some stay and others go, one is a stub, one can be
    /// folded without the others, or one gets a section of its own.
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
    /// Definitions that the linker is asked for by name, and then exports.
    pub demanded: Vec<SymbolId>,
}
