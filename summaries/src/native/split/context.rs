//! What all steps of dividing a module read: its tables, its relocations by section, and which sections are in question.
//!
//! Made once and never changed. Left out: what the steps find out, which each section's `Text` holds.

use crate::ids::AtomIdx;
use crate::native::relocations::Rela;
use crate::native::tables::Tables;
use crate::parallel::ParallelMap;
use crate::summary::{Atom, Symbol};

/// All that the steps of dividing a module share.
pub(super) struct SplitContext<'a, 't> {
    pub(super) tables: &'t Tables<'a>,
    pub(super) atoms: &'t [Atom],
    pub(super) symbols: &'t [Symbol],
    /// A compiler names itself in `.comment`. Assembly, with which any other module counts, may rely on how far its functions and objects
    /// are from each other.
    pub(super) compiled: bool,
    /// Runs the pieces of what can be done in pieces.
    pub(super) parallel_map: ParallelMap<'t>,
    /// By section index: the position in the list of [`Text`]s.
    pub(super) text_of: Vec<Option<u32>>,
    /// Sections of data that may be divided, ascending.
    pub(super) data: Vec<u32>,
    /// Relocations of every section but debug information, by (section, place).
    pub(super) relas: Vec<(u32, Rela)>,
    /// By section index: where its relocations begin in that list.
    pub(super) rela_starts: Vec<usize>,
}

impl SplitContext<'_, '_> {
    /// The relocations of a section, by place.
    pub(super) fn relas_of(&self, section: u32) -> &[(u32, Rela)] {
        let start = |section: usize| self.rela_starts.get(section).copied().unwrap_or(self.relas.len());
        self.relas.get(start(section as usize)..start(section as usize + 1)).unwrap_or(&[])
    }

    pub(super) fn text_of(&self, section: u32) -> Option<usize> {
        self.text_of.get(section as usize).copied().flatten().map(|t| t as usize)
    }

    /// The position of a section in the list of [`objects::Data`].
    pub(super) fn data_of(&self, section: u32) -> Option<usize> {
        self.data.binary_search(&section).ok()
    }

    pub(super) fn describe(&self, section: u32) -> String {
        self.tables.describe(section)
    }

    /// The section that an atom is or was made from.
    pub(super) fn section_of(&self, atom: AtomIdx) -> Option<u32> {
        self.atoms.get(atom.index()).map(|a| a.section).filter(|s| *s != Atom::NO_SECTION)
    }
}
