//! The result of dividing a module, by section and offset: atoms don't exist yet.

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
