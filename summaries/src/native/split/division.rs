//! The input and the result of dividing a module, by section and offset, as atoms do not exist yet.

use crate::ids::AtomIdx;
use crate::native::eh_frame::UnwindSection;
use crate::native::relocations::Rela;
use crate::native::tables::Tables;
use crate::parallel::ParallelMap;
use crate::summary::{Atom, Symbol};

/// The references of and to divided sections, by section and offset, as atoms do not exist yet.
#[derive(Debug, Default)]
pub(crate) struct Division {
    /// The starts of the parts of each divided section, ascending; the first is 0, and there are at least two.
    pub(crate) parts: Vec<(u32, Vec<u64>)>,
    /// For relocations by section symbol what they mean, sorted by place.
    pub(crate) retargets: Vec<(SectionPlace, SectionPlace)>,
    /// References that the assembler resolved between parts, sorted by place.
    pub(crate) resolved: Vec<IntraSectionReference>,
    /// Jump tables and whose they are, sorted by place.
    pub(crate) owned: Vec<OwnedTable>,
    /// Every reference to a place in code whose target is known, in divided sections and others: (from, to), sorted.
    pub(crate) exact: Vec<(SectionPlace, SectionPlace)>,
    /// The sections that hold functions that decode and nothing else, sorted.
    pub(crate) understood: Vec<u32>,
    /// The parts of sections of metadata, each by its start, and the place of the code that it is ordered after.
    pub(crate) orders: Vec<(SectionPlace, SectionPlace)>,
    /// Parts of divided data sections that refer to all other parts of theirs, each by its start.
    pub(crate) hubs: Vec<SectionPlace>,
}

/// An ELF section index and an offset in it, in bytes.
pub(crate) type SectionPlace = (u32, u64);

/// The position of a [`Text`] in the list of them and an offset in it, in bytes.
pub(super) type TextPlace = (usize, u64);

/// A reference that the assembler resolved, from one part of a section to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct IntraSectionReference {
    pub(crate) section: u32,
    pub(crate) field: u64,
    /// The target of the field, from the start of the section.
    pub(crate) target: u64,
    /// The first byte behind the instruction.
    pub(crate) end: u64,
    /// It is a branch, and no operand with an address.
    pub(crate) branch: bool,
}

/// A jump table of one function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OwnedTable {
    pub(crate) section: u32,
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Some place in the function that jumps through it.
    pub(crate) owner: SectionPlace,
}

/// The input of all steps of dividing a module.
pub(super) struct SplitContext<'a, 't> {
    pub(super) tables: &'t Tables<'a>,
    pub(super) atoms: &'t [Atom],
    pub(super) symbols: &'t [Symbol],
    /// `.comment` names a compiler. Other modules count as assembly, which may rely on the distances between its
    /// functions and objects.
    pub(super) compiled: bool,
    pub(super) parallel_map: ParallelMap<'t>,
    /// The unwind sections in the order of the file.
    pub(super) unwind: Vec<UnwindSection<'a>>,
    /// By section index: the position in the list of [`Text`](super::text::Text)s.
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

    /// The position of a section in the list of [`Data`](super::objects::Data).
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
