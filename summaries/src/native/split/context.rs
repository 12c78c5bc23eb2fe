//! The input of all steps of dividing a module: its tables, its relocations by section, and the candidate sections.

use crate::ids::AtomIdx;
use crate::native::relocations::Rela;
use crate::native::tables::Tables;
use crate::parallel::ParallelMap;
use crate::summary::{Atom, Symbol};

/// The input of all steps of dividing a module.
pub(super) struct SplitContext<'a, 't> {
    pub(super) tables: &'t Tables<'a>,
    pub(super) atoms: &'t [Atom],
    pub(super) symbols: &'t [Symbol],
    /// `.comment` names a compiler. Other modules count as assembly, which may rely on the distances between its
    /// functions and objects.
    pub(super) compiled: bool,
    pub(super) parallel_map: ParallelMap<'t>,
    /// By section index: the position in the list of [`Text`]s.
    pub(super) text_of: Vec<Option<u32>>,
    /// Sections of data that may be divided, ascending.
    pub(super) data: Vec<u32>,
    /// Relocations of every section except debug information, by section and place.
    pub(super) relas: Vec<(u32, Rela)>,
    /// By section index: the index of its first relocation in that list.
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
