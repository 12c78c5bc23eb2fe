//! Pass 6, plan: liveness becomes keep, drop or stub for each atom, per module.
//!
//! Emission applies a plan and decides nothing.

/// What happens to an atom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Keep,
    Drop,
}

/// The plan of one loaded module.
#[derive(Debug, Clone, Default)]
pub struct ModulePlan {
    /// By `AtomIdx`.
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
    /// ELF section indices of `SHT_GROUP` sections that another module's group replaces, sorted. All their atoms are dropped.
    pub discarded_groups: Vec<u32>,
}

impl ModulePlan {
    /// Whether the module is passed to the linker as it is, the same bytes.
    pub fn is_untouched(&self) -> bool {
        self.atoms.iter().all(|a| *a == Action::Keep)
    }
}
