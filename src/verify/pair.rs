//! An emitted object and its original: their sections and places by each other.
//!
//! The mapping follows from the matched sections ([`object`](super::object)) and from the plan.

use goblin::elf::sym::{STT_SECTION, Sym, st_type};
use summaries::{Atom, AtomKind, ModuleSummary};

use super::elf::{Object, SymbolSection};
use super::parts::{EmittedPart, ExpectedParts};
use crate::plan::{Action, ModulePlan, SymbolFlags};

/// The plan of one module, in numbers of the original's ELF tables.
#[derive(Debug, Clone, Default)]
pub struct ExpectedObject {
    /// By ELF section index: whether it is dropped. Sections behind the end are kept.
    pub dropped: Vec<bool>,
    /// By ELF symbol index: whether another definition prevails, so that a reference may be kept without this one.
    pub prevails_elsewhere: Vec<bool>,
    pub parts: ExpectedParts,
    /// Whether the object gets an address-significance table.
    pub addresses: bool,
    /// A section with several functions is dropped, so that debug information is rewritten.
    pub(super) drops_functions: bool,
    /// FDEs with an empty range are dropped.
    pub(super) drops_empty_fdes: bool,
    /// The functions that are kept without their FDEs: section, start and end, sorted.
    without_unwind: Vec<(usize, u64, u64)>,
    /// These FDEs are in a new section `.debug_frame`.
    pub(super) has_debug_frame: bool,
    /// Debugging information entries of the original are dropped.
    pub(super) collects_debug: bool,
}

impl ExpectedObject {
    /// The expectation of a plan. A section of several atoms is dropped if all of them are.
    pub fn new(summary: &ModuleSummary, plan: &ModulePlan) -> Self {
        let sections = summary.atoms.iter().map(|a| a.section).filter(|s| *s != Atom::NO_SECTION);
        let count = sections.max().map_or(0, |s| s as usize + 1);
        let mut dropped = vec![false; count];
        let mut kept = vec![false; count];
        for (atom, action) in summary.atoms.iter().zip(&plan.atoms) {
            let set = if *action == Action::Drop { &mut dropped } else { &mut kept };
            if let Some(slot) = set.get_mut(atom.section as usize) {
                *slot = true;
            }
        }
        for (dropped, kept) in dropped.iter_mut().zip(kept) {
            *dropped &= !kept;
        }
        let is_dropped = |section: u32| dropped.get(section as usize) == Some(&true);
        let several = |atoms: &&[Atom]| matches!(atoms, [first, _, ..] if first.kind == AtomKind::Code && is_dropped(first.section));
        let drops_functions =
            summary.atoms.chunk_by(|a, b| a.section == b.section).any(|atoms| several(&atoms));
        ExpectedObject {
            dropped,
            prevails_elsewhere: plan.symbols.iter().map(|s| s.has(SymbolFlags::PREVAILS_ELSEWHERE)).collect(),
            parts: ExpectedParts::new(summary, plan),
            addresses: plan.addresses.is_some(),
            drops_functions,
            drops_empty_fdes: plan.drops_empty_fdes,
            without_unwind: without_unwind(summary, plan),
            has_debug_frame: plan.writes_debug_frame,
            collects_debug: plan.debug.is_some(),
        }
    }

    pub(super) fn drops(&self, section: usize) -> bool {
        self.dropped.get(section).copied().unwrap_or(false)
    }

    /// Whether the function at a place of a section is kept without its FDE.
    pub(super) fn removes_unwind_at(&self, section: usize, place: u64) -> bool {
        let next = self.without_unwind.partition_point(|(s, start, _)| (*s, *start) <= (section, place));
        let found = next.checked_sub(1).and_then(|last| self.without_unwind.get(last));
        found.is_some_and(|(s, start, end)| *s == section && (place < *end || place == *start))
    }

    pub(super) fn is_replaced(&self, symbol: usize) -> bool {
        self.prevails_elsewhere.get(symbol).copied().unwrap_or(false)
    }
}

fn without_unwind(summary: &ModuleSummary, plan: &ModulePlan) -> Vec<(usize, u64, u64)> {
    let atoms = summary.atoms.iter().enumerate().filter(|(i, _)| {
        plan.atoms.get(*i) == Some(&Action::Keep) && plan.removes_unwind.get(*i) == Some(&true)
    });
    let place = |(_, atom): (usize, &Atom)| {
        (atom.section as usize, atom.offset, atom.offset.saturating_add(atom.size))
    };
    let mut places: Vec<_> = atoms.map(place).collect();
    places.sort_unstable();
    places
}

/// Original and emitted object, with the mapping of their sections.
#[derive(Debug)]
pub(super) struct Pair<'a> {
    pub(super) old: Object<'a>,
    pub(super) new: Object<'a>,
    /// The new number of each section of the original; 0 for a dropped or divided one, and for tables.
    pub(super) new_of_old: Vec<usize>,
    /// The parts, by section of the original and start.
    pub(super) parts: Vec<EmittedPart>,
    /// Code is divided, so that debug information is rewritten: [`debug`](super::debug) compares it.
    pub(super) rewritten_debug: bool,
    pub(super) expected: &'a ExpectedObject,
}

impl Pair<'_> {
    /// The parts of a section of the original; empty if it is dropped or not divided.
    pub(super) fn parts_of(&self, old: usize) -> &[EmittedPart] {
        parts_of(&self.parts, old)
    }

    /// The size of a section of the emitted object, if it is a stub.
    pub(super) fn stub_size(&self, new: usize) -> Option<u64> {
        let stub = self.part_of_new(new).is_some_and(|p| p.stub);
        self.new.sections.get(new).filter(|_| stub).map(|s| s.sh_size)
    }

    /// The part that keeps the byte at `offset` of a section of the original.
    pub(super) fn kept_at(&self, old: usize, offset: u64) -> Option<EmittedPart> {
        self.part_at(old, offset).filter(|p| !p.stub)
    }

    /// The part that keeps the byte at `offset` of a section of the original, or is its stub.
    pub(super) fn part_at(&self, old: usize, offset: u64) -> Option<EmittedPart> {
        let next = self.parts.partition_point(|p| (p.old, p.start) <= (old, offset));
        self.parts.get(next.checked_sub(1)?).filter(|p| p.old == old && offset < p.end).copied()
    }

    /// Whether the place `value` of a section of the original may be at `new_value` of section `new`.
    pub(super) fn is_same_place(&self, old: usize, value: u64, new: usize, new_value: u64) -> bool {
        if self.expected.parts.of(old).is_none() {
            return value == new_value && new != 0 && self.new_of_old.get(old) == Some(&new);
        }
        let atom_starts = || {
            let atoms = self.expected.parts.of(old).unwrap_or(&[]);
            atoms.binary_search_by_key(&value, |(start, _, _)| *start).is_ok()
        };
        self.part_of_new(new).is_some_and(|p| {
            p.old == old
                && new_value.checked_add(p.start) == Some(value)
                && (!p.stub || value == p.start)
                && (value < p.end || (value == p.end && !atom_starts()))
        })
    }

    /// Whether section `new` of the emitted object is a part.
    pub(super) fn is_part(&self, new: usize) -> bool {
        self.part_of_new(new).is_some()
    }

    /// The part that section `new` of the emitted object is. Sections keep their order, so parts are in both orders.
    pub(super) fn part_of_new(&self, new: usize) -> Option<&EmittedPart> {
        self.parts.binary_search_by_key(&new, |p| p.new).ok().and_then(|i| self.parts.get(i))
    }

    /// Whether a function of `size` bytes at `value` of a divided section is in one part.
    pub(super) fn holds(&self, old: usize, value: u64, size: u64) -> bool {
        self.kept_at(old, value).is_some_and(|p| size <= p.end - value)
    }

    /// Whether the place `value` of a section of the original is dropped, or becomes a stub.
    pub(super) fn is_dropped(&self, old: usize, value: u64) -> bool {
        match self.expected.parts.of(old) {
            None => self.expected.drops(old),
            Some(_) => self.kept_at(old, value).is_none(),
        }
    }

    /// The divided section of the original whose section symbol this is.
    pub(super) fn parted_by_symbol(&self, symbol: usize) -> Option<usize> {
        let entry = self.old.symbol(symbol)?;
        match self.old.place(symbol, &entry) {
            SymbolSection::Section(s)
                if st_type(entry.st_info) == STT_SECTION && self.expected.parts.of(s).is_some() =>
            {
                Some(s)
            }
            _ => None,
        }
    }

    /// Whether a section symbol of the emitted object is that of a part or of a new section.
    pub(super) fn is_of_part(&self, index: usize, symbol: &Sym) -> bool {
        let SymbolSection::Section(section) = self.new.place(index, symbol) else { return false };
        st_type(symbol.st_info) == STT_SECTION
            && (symbol.st_value, symbol.st_size, symbol.st_other, symbol.st_name) == (0, 0, 0, 0)
            && index < self.new.first_global
            && (self.part_of_new(section).is_some()
                || self.rewritten_debug && is_new_section(self.new.section_name(section))
                || self.expected.has_debug_frame && self.new.section_name(section) == DEBUG_FRAME)
    }
}

/// The parts of a section of the original, of all in the order of their sections.
pub(super) fn parts_of(all: &[EmittedPart], old: usize) -> &[EmittedPart] {
    let start = all.partition_point(|p| p.old < old);
    let end = all.partition_point(|p| p.old <= old);
    all.get(start..end).unwrap_or(&[])
}

/// The section for FDEs of functions without an entry in `.eh_frame`.
pub(super) const DEBUG_FRAME: &[u8] = b".debug_frame";

/// Whether a section of this name may be new: units whose span became ranges may need it, and lists that name
/// addresses by slots.
pub(super) fn is_new_section(name: &[u8]) -> bool {
    name == b".debug_ranges" || name == b".debug_rnglists" || name == b".debug_addr"
}
