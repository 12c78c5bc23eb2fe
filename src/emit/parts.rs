//! Sections that are emitted in parts, and the parts.
//!
//! Decides the parts: a run of neighbouring atoms that stay is one part, a section of its own with the name, type and
//! flags of the original. Safe because within a run every distance is what it was, and what reaches from one run to
//! another gets a relocation here or is an error. A run ends before an atom that is aligned better than the run's
//! start is, so that every atom keeps its alignment. A section from which nothing goes is none of these, however many
//! atoms it has, unless functions of it may be folded: it is copied.
//!
//! A function that the linker may fold is a run by itself, also in a section from which nothing goes: folding moves whole sections.
//! So is an atom that the plan gives a section of its own ([`ModulePlan::section_names`]). A run of metadata is ordered after one run of
//! code.
//!
//! A stub is a run by itself, also where it is all that the section has: the bytes of the run are not the original's, and
//! nothing but its first byte is a place in it.
//!
//! Left out: where atoms begin and end, and what their references mean; the summary says so. Bytes before the first
//! atom, and between a run and the next atom, are padding and go.

use object::elf;
use summaries::native::significance::Significance;
use summaries::{Atom, AtomIdx, ModuleSummary, SHORT_JUMP};

use super::input::{Input, LE, Rela, Role, SymbolPlace};
use super::stub_code::Code;
use crate::error::{Error, Result, Stage};
use crate::plan::{Action, DebugCollection, ModulePlan};

/// The section type `SHT_LLVM_BB_ADDR_MAP` (llvm/BinaryFormat/ELF.h): maps of basic blocks.
const BB_ADDR_MAP: elf::SectionType = elf::SectionType(0x6fff_4c0a);

/// What a relocation of a debug section means where the address alone does not say: (section, offset) and the atom.
pub(super) type Meant = ((u32, u64), AtomIdx);

/// One part of a section. Offsets are in bytes from the start of the original section.
#[derive(Debug, Clone, Copy)]
pub(super) struct PartRun {
    pub(super) start: u64,
    pub(super) end: u64,
    /// What the original section guaranteed for `start`: a power of two, at least 1. A stub keeps it: programs may store
    /// flags in the low bits of a function's address.
    pub(super) align: u64,
    /// What is emitted instead of the bytes from `start` to `end`.
    pub(super) stub: Option<Code>,
    /// A function by itself, which the linker may fold.
    pub(super) foldable: bool,
}

/// A section that is emitted in parts: some of it goes, or some of it gets a section of its own.
#[derive(Debug)]
pub(super) struct PartialSection {
    pub(super) section: u32,
    /// Ascending, apart from each other, at least one.
    pub(super) runs: Vec<PartRun>,
    /// First and last byte (exclusive) of each atom that goes, ascending.
    dropped: Vec<(u64, u64)>,
    /// The atom, if the section has only one.
    only: Option<AtomIdx>,
}

/// Where an offset of a divided section is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OffsetLocation {
    Run(u32),
    /// In what this run, a stub, replaces.
    Stub(u32),
    Dropped,
    /// It is in no atom of the section.
    Nowhere,
}

/// A relocation `R_X86_64_PC32` for what the assembler resolved. Between runs the distance is not known any more.
#[derive(Debug, Clone, Copy)]
pub(super) struct SynthesizedRelocation {
    pub(super) section: u32,
    /// In bytes, from the start of the original section.
    pub(super) field: u64,
    pub(super) target: u32,
    pub(super) addend: i64,
    /// The field is that of a short jump, which is relaxed to a near one.
    pub(super) relaxed: bool,
}

/// All sections that are emitted in parts, and the relocations that the parting adds and removes.
#[derive(Debug)]
pub(super) struct SplitSections<'s> {
    summary: &'s ModuleSummary,
    plan: &'s ModulePlan,
    /// The sections that are emitted in parts, by section index.
    pub(super) sections: Vec<PartialSection>,
    /// By section: the first of its atoms and the one behind its last.
    atoms: Vec<(u32, u32)>,
    /// The relocations that the parting adds, by (section, field).
    synthesized: Vec<SynthesizedRelocation>,
    /// What addresses in debug information mean where their place alone does not say, sorted.
    pub(super) meant: Vec<Meant>,
    /// (section, start, end) of ranges whose relocations go with their dropped owner; sorted and apart.
    ownerless: Vec<(u32, u64, u64)>,
}

fn contradiction(message: impl Into<String>) -> Error {
    Error::new(Stage::Emit, message)
}

impl<'s> SplitSections<'s> {
    /// Part the sections of which the plan drops some atoms and keeps others, those with stubs, and those with several atoms of
    /// which the linker may fold some.
    ///
    /// # Errors
    /// Atoms that are not in their section or overlap, a section that can't be divided (a table, merged or compressed
    /// contents), an assembler-resolved reference to a dropped atom.
    pub(super) fn decide(
        input: &Input<'_>,
        summary: &'s ModuleSummary,
        plan: &'s ModulePlan,
    ) -> Result<Self> {
        if plan.atoms.len() != summary.atoms.len() {
            return Err(contradiction("the plan is not of this module: its atoms differ"));
        }
        let mut parts = SplitSections {
            summary,
            plan,
            sections: Vec::new(),
            atoms: vec![(0, 0); input.sections.len()],
            synthesized: Vec::new(),
            meant: Vec::new(),
            ownerless: Vec::new(),
        };
        let planned: Vec<(&Atom, Action)> = summary.atoms.iter().zip(plan.atoms.iter().copied()).collect();
        if !planned.is_sorted_by_key(|(a, _)| a.section) {
            return Err(contradiction("the atoms of the summary are not in order"));
        }
        // Sections that are ordered after others are parted as these are.
        for ordered in [false, true] {
            let found = parts.decide_sections(input, &planned, ordered)?;
            parts.sections.extend(found);
            parts.sections.sort_by_key(|p| p.section);
        }
        parts.forget_owned()?;
        parts.synthesize(input)?;
        Ok(parts)
    }

    /// Part the sections that are ordered after others, or those that are not.
    fn decide_sections(
        &mut self,
        input: &Input<'_>,
        planned: &[(&Atom, Action)],
        ordered: bool,
    ) -> Result<Vec<PartialSection>> {
        let plan = self.plan;
        let mut found = Vec::new();
        let mut first_atom = 0;
        for atoms in planned.chunk_by(|(a, _), (b, _)| a.section == b.section) {
            let index = AtomIdx::new(first_atom);
            let range = first_atom..first_atom + atoms.len();
            first_atom = range.end;
            let Some((first, _)) = atoms.first() else { continue };
            if let Some(slot) = self.atoms.get_mut(first.section as usize) {
                *slot = (range.start as u32, range.end as u32);
            }
            let is_ordered = atoms.iter().any(|(a, _)| a.link_order.is_some());
            if first.section == Atom::NO_SECTION || is_ordered != ordered {
                continue;
            }
            let after: Vec<_> =
                atoms.iter().map(|(a, _)| a.link_order.and_then(|after| self.run_of(after))).collect();
            if plan.parts(range) || after.iter().any(Option::is_some) {
                let only = (atoms.len() == 1).then_some(index);
                let alone = |i: usize| {
                    let atom = AtomIdx::new(index.index() + i);
                    RunIsolation {
                        foldable: plan.is_foldable(atom),
                        named: plan.section_name(atom).is_some(),
                        after: after.get(i).copied().flatten(),
                    }
                };
                found.push(PartialSection { only, ..part(input, first.section, atoms, &alone)? });
            }
        }
        Ok(found)
    }

    /// The section and run that hold an atom, or stand for it, if it is of a section of several runs.
    pub(super) fn run_of(&self, atom: AtomIdx) -> Option<(u32, u32)> {
        let atom = self.summary.atoms.get(atom.index())?;
        let divided = self.of(atom.section).filter(|p| p.only.is_none())?;
        divided.holding(atom.offset).map(|(run, _)| (atom.section, run))
    }

    /// The atom that a section, or a run of it, is ordered after.
    pub(super) fn ordered_after(&self, section: u32, run: Option<u32>) -> Option<AtomIdx> {
        match run {
            Some(run) => self.summary.atoms.get(self.atom_of(section, run)?.index())?.link_order,
            None => self.atoms_of(section).1.first()?.link_order,
        }
    }

    /// Whether no section is emitted in parts.
    pub(super) fn is_empty(&self) -> bool {
        self.sections.is_empty()
    }

    /// The parts of a section; `None` if it stays or goes as a whole.
    pub(super) fn of(&self, section: u32) -> Option<&PartialSection> {
        if self.sections.is_empty() {
            return None;
        }
        let found = self.sections.binary_search_by_key(&section, |p| p.section).ok()?;
        self.sections.get(found)
    }

    /// The divided section whose section symbol this is.
    pub(super) fn of_symbol(&self, input: &Input<'_>, symbol: u32) -> Result<Option<&PartialSection>> {
        let index = symbol as usize;
        let Some(entry) = input.symbols.get(index).filter(|_| !self.sections.is_empty()) else {
            return Ok(None);
        };
        if entry.st_type() != elf::STT_SECTION {
            return Ok(None);
        }
        let SymbolPlace::Section(section) = input.place(index)? else { return Ok(None) };
        let divided = self.of(section);
        if divided.is_some() && entry.st_value.get(LE) != 0 {
            return Err(input.about(section as usize, "its section symbol is not at its start"));
        }
        Ok(divided)
    }

    /// What the plan says of an atom, and where that atom is. An error if there is no such atom.
    pub(super) fn atom(&self, atom: AtomIdx) -> Result<(&'s Atom, Action)> {
        let found = self.summary.atoms.get(atom.index()).zip(self.plan.atoms.get(atom.index()));
        let (atom, action) =
            found.ok_or_else(|| contradiction("the summary names an atom that is not there"))?;
        Ok((atom, *action))
    }

    /// The atom that the relocation at `offset` of `section`, against a section symbol, truly means.
    pub(super) fn retarget(&self, section: u32, offset: u64) -> Option<AtomIdx> {
        let table = &self.summary.retargets;
        let start = table.partition_point(|r| (r.section, r.offset) < (section, offset));
        let mut same = table.get(start..)?.iter().take_while(|r| (r.section, r.offset) == (section, offset));
        let first = same.next()?;
        same.all(|r| r.target == first.target).then_some(first.target)
    }

    /// The atoms of a section, and the number of the first.
    pub(super) fn atoms_of(&self, section: u32) -> (usize, &'s [Atom]) {
        let (first, end) = self.atoms.get(section as usize).copied().unwrap_or_default();
        (first as usize, self.summary.atoms.get(first as usize..end as usize).unwrap_or(&[]))
    }

    /// What the plan says of a section that is not divided; `None` if it is no atom.
    pub(super) fn action_of_section(&self, section: u32) -> Option<Action> {
        let (first, atoms) = self.atoms_of(section);
        self.plan.atoms.get(first).copied().filter(|_| !atoms.is_empty())
    }

    /// The atom that an address in debug information means: `at` (section and offset) holds one of `place` in `divided`. Padding
    /// belongs to the atom before it. `near` is where the last answer was found in what is noted.
    pub(super) fn described(
        &self,
        at: (u32, u64),
        divided: u32,
        place: u64,
        near: &mut usize,
    ) -> Option<AtomIdx> {
        if let Some(atom) = self.meant_at(at, near) {
            return Some(atom);
        }
        let (first, atoms) = self.atoms_of(divided);
        let next = atoms.partition_point(|a| a.offset <= place);
        (!atoms.is_empty()).then(|| AtomIdx::new(first + next.saturating_sub(1)))
    }

    /// What is noted for a place. Relocations are asked about in the order of their places, so that the next answer is here or one further.
    fn meant_at(&self, place: (u32, u64), near: &mut usize) -> Option<AtomIdx> {
        let is_before = |i: usize| self.meant.get(i).is_some_and(|(at, _)| *at < place);
        let begins = |i: &usize| i.checked_sub(1).is_none_or(is_before) && !is_before(*i);
        let found = [*near, *near + 1].into_iter().find(begins);
        *near = found.unwrap_or_else(|| self.meant.partition_point(|(at, _)| *at < place));
        self.meant.get(*near).filter(|(at, _)| *at == place).map(|(_, atom)| *atom)
    }

    /// What the address-significance table of the module says, if it gets one.
    pub(super) fn addresses(&self) -> Option<&'s Significance> {
        self.plan.addresses.as_ref()
    }

    /// Whether all of a section that is not divided is one function that the linker may fold.
    pub(super) fn is_foldable(&self, section: u32) -> bool {
        let (first, atoms) = self.atoms_of(section);
        !atoms.is_empty() && self.plan.is_foldable(AtomIdx::new(first))
    }

    /// Whether the FDE of a function that is kept is removed; `entry` is the relocation of its `pc_begin`.
    pub(super) fn removes_unwind(&self, input: &Input<'_>, entry: &Rela) -> Result<bool> {
        let symbol = entry.r_sym(LE, false) as usize;
        if self.plan.removes_unwind.is_empty() {
            return Ok(false);
        }
        let SymbolPlace::Section(section) = input.place(symbol)? else { return Ok(false) };
        let value = input.symbols.get(symbol).map_or(0, |s| s.st_value.get(LE));
        let begin = value.wrapping_add_signed(entry.r_addend.get(LE));
        let (first, atoms) = self.atoms_of(section);
        let behind = atoms.partition_point(|atom| atom.offset <= begin);
        Ok(behind > 0 && self.plan.removes_unwind_of(AtomIdx::new(first + behind - 1)))
    }

    /// Whether entries of debug information go that nothing refers to.
    pub(super) fn shrinks_debug(&self) -> bool {
        self.plan.debug == Some(DebugCollection::Unreferenced)
    }

    /// Whether FDEs that are removed from kept functions are written as `.debug_frame`.
    pub(super) fn writes_debug_frame(&self) -> bool {
        self.plan.writes_debug_frame
    }

    /// Whether something is emitted as a stub.
    pub(super) fn has_stubs(&self) -> bool {
        self.sections.iter().any(|p| p.stubs().next().is_some())
    }

    /// The name of a run that is an atom with a section of its own.
    pub(super) fn name_of(&self, section: u32, run: u32) -> Option<&'s [u8]> {
        if self.plan.section_names.is_empty() {
            return None;
        }
        self.plan.section_name(self.atom_of(section, run)?)
    }

    /// The atom that a run begins with.
    pub(super) fn atom_of(&self, section: u32, run: u32) -> Option<AtomIdx> {
        let start = self.of(section)?.run(run)?.start;
        let found = self.summary.atoms.binary_search_by_key(&(section, start), |a| (a.section, a.offset));
        found.ok().map(AtomIdx::new)
    }

    /// Whether the relocation at `offset` of `section` goes because the function that it belongs to does.
    pub(super) fn belongs_to_dropped_jump_table(&self, section: u32, offset: u64) -> bool {
        let next = self.ownerless.partition_point(|(s, start, _)| (*s, *start) <= (section, offset));
        let range = next.checked_sub(1).and_then(|i| self.ownerless.get(i));
        range.is_some_and(|(s, _, end)| *s == section && offset < *end)
    }

    /// The relocations to add to a section, by field.
    pub(super) fn synthesized(&self, section: u32) -> &[SynthesizedRelocation] {
        let start = self.synthesized.partition_point(|s| s.section < section);
        let end = self.synthesized.partition_point(|s| s.section <= section);
        self.synthesized.get(start..end).unwrap_or(&[])
    }

    fn forget_owned(&mut self) -> Result<()> {
        for range in &self.summary.owned {
            let (atom, action) = self.atom(range.atom)?;
            if action == Action::Keep && self.atom(range.owner)?.1 != Action::Keep {
                self.ownerless.push((atom.section, range.start, range.end));
            }
        }
        self.ownerless.sort_unstable();
        let overlap = |pair: &[(u32, u64, u64); 2]| pair[0].0 == pair[1].0 && pair[0].2 > pair[1].1;
        if self.ownerless.array_windows().any(overlap) {
            return Err(contradiction("two ranges that belong to a function overlap"));
        }
        Ok(())
    }

    /// Relocations between runs for what the assembler resolved.
    ///
    /// A field at `F` holds `T - (F + 4 + k)`, `T` being the target and `k` the bytes of the instruction behind the field,
    /// all in offsets of the original section. `R_X86_64_PC32` stores `S + A - P` (psABI, "Relocation Types"). With
    /// `S` the start of the run that holds `T`, it must be as far from `P` as `(T - run) - 4 - k`, so
    /// `A = T - run - 4 - k = F + value - run`. The field of a short jump has one byte and nothing behind it: it holds
    /// `T - (F + 1)`, three more than that of a near jump at the same place.
    fn synthesize(&mut self, input: &Input<'_>) -> Result<()> {
        let mut all = Vec::new();
        for resolved in &self.summary.resolved {
            let Some(divided) = self.of(resolved.section) else { continue };
            let section = resolved.section as usize;
            let about = |what: &str| {
                Err(input.about(section, format!("the reference at {:#x} {what}", resolved.field)))
            };
            let ((from, from_action), (to, to_action)) =
                (self.atom(resolved.from)?, self.atom(resolved.target)?);
            if from_action != Action::Keep {
                continue;
            }
            let end = resolved.field.checked_add(4);
            let inside = from.section == resolved.section
                && resolved.field >= from.offset
                && end.is_some_and(|end| end - from.offset <= from.size);
            if !inside || to.section != resolved.section {
                return about("is not from one atom of the section to another");
            }
            if to_action == Action::Drop {
                return about("is to a part that is dropped");
            }
            let (OffsetLocation::Run(here), OffsetLocation::Run(there) | OffsetLocation::Stub(there)) =
                (divided.spot(from.offset), divided.spot(to.offset))
            else {
                return about("is of no part that stays");
            };
            if here == there {
                continue;
            }
            let start = divided.runs.get(there as usize).map_or(0, |r| r.start);
            let at = usize::try_from(resolved.field).unwrap_or(usize::MAX);
            let window = at.checked_sub(1).and_then(|before| input.data(section).ok()?.get(before..));
            let Some([opcode, field @ ..]) = window.and_then(|d| d.first_chunk::<5>()) else {
                return about("is outside of the section");
            };
            let relaxed = *opcode == SHORT_JUMP;
            let value = match relaxed {
                true => i64::from(field[0] as i8) - 3,
                false => i64::from(i32::from_le_bytes(*field)),
            };
            let addend = (resolved.field as i64).wrapping_add(value).wrapping_sub(start as i64);
            if to_action == Action::Stub && !is_biased_entry(addend) {
                return about("is into the body of a stub");
            }
            all.push(SynthesizedRelocation {
                section: resolved.section,
                field: resolved.field,
                target: there,
                addend,
                relaxed,
            });
        }
        all.sort_by_key(|s| (s.section, s.field));
        if let Some([_, again]) =
            all.array_windows().find(|[a, b]| a.section == b.section && b.field - a.field < 4)
        {
            return Err(input.about(
                again.section as usize,
                format!("the reference at {:#x} overlaps another", again.field),
            ));
        }
        self.synthesized = all;
        Ok(())
    }
}

impl PartialSection {
    /// In which run `offset` of the original section is, if its atom stays.
    pub(super) fn spot(&self, offset: u64) -> OffsetLocation {
        if let Some((run, found)) = self.holding(offset) {
            return if found.stub.is_some() { OffsetLocation::Stub(run) } else { OffsetLocation::Run(run) };
        }
        let next = self.dropped.partition_point(|(start, _)| *start <= offset);
        match next.checked_sub(1).and_then(|i| self.dropped.get(i)) {
            Some((_, end)) if offset < *end => OffsetLocation::Dropped,
            _ => OffsetLocation::Nowhere,
        }
    }

    /// What does not stay and ends at `offset`, where nothing begins.
    pub(super) fn ended(&self, offset: u64) -> OffsetLocation {
        let run = self.runs.partition_point(|r| r.end < offset);
        let dropped = self.dropped.partition_point(|(_, end)| *end < offset);
        match (self.runs.get(run), self.dropped.get(dropped)) {
            (Some(r), _) if r.end == offset && r.stub.is_some() => OffsetLocation::Stub(run as u32),
            (_, Some((_, end))) if *end == offset => OffsetLocation::Dropped,
            _ => OffsetLocation::Nowhere,
        }
    }

    /// The run to which the byte at `offset` of the original section belongs, a stub's too.
    fn holding(&self, offset: u64) -> Option<(u32, &PartRun)> {
        let next = self.runs.partition_point(|r| r.start <= offset);
        let index = next.checked_sub(1)?;
        self.runs.get(index).filter(|r| offset < r.end).map(|r| (index as u32, r))
    }

    /// The run in which the byte at `offset` stays.
    pub(super) fn run_at(&self, offset: u64) -> Option<u32> {
        self.holding(offset).filter(|(_, r)| r.stub.is_none()).map(|(index, _)| index)
    }

    /// The runs that are stubs, each with its code.
    pub(super) fn stubs(&self) -> impl Iterator<Item = (u32, Code)> + '_ {
        self.runs.iter().zip(0..).filter_map(|(r, index)| Some((index, r.stub?)))
    }

    /// The section's only atom; that is what every reference to the section means.
    pub(super) fn only(&self) -> Option<AtomIdx> {
        self.only
    }

    /// Whether `offset` is where a run meets what is not in it: it may mean the end of the one or the start of the
    /// other.
    pub(super) fn is_seam(&self, offset: u64) -> bool {
        // What is meant by a place in a stub's original is gone, as in a dropped atom.
        let starts = |r: &PartRun| offset == r.start && r.start > 0;
        let next = self.runs.partition_point(|r| r.start <= offset);
        let near = self.runs.get(next.saturating_sub(2)..next).unwrap_or(&[]);
        near.iter().filter(|r| r.stub.is_none()).any(|r| starts(r) || offset == r.end)
    }

    /// The run of this number, if the section has so many.
    pub(super) fn run(&self, run: u32) -> Option<&PartRun> {
        self.runs.get(run as usize)
    }
}

/// Whether `addend` of a PC-relative relocation in an instruction, against a symbol at the start of a function, means that
/// start: behind the 32-bit field are an immediate of no, one, two or four bytes and the end of the instruction.
pub(super) fn is_biased_entry(addend: i64) -> bool {
    matches!(addend, -4 | -5 | -6 | -8)
}

/// Why an atom is a run by itself, if it is.
#[derive(Clone, Copy)]
struct RunIsolation {
    /// The linker may fold it with a function that is the same.
    foldable: bool,
    /// It gets a section of its own.
    named: bool,
    /// The section and run that it is ordered after. Atoms of one run have the same.
    after: Option<(u32, u32)>,
}

/// Part one section. `alone` says of an atom, by its place in `atoms`, whether it is a run by itself.
fn part(
    input: &Input<'_>,
    section: u32,
    atoms: &[(&Atom, Action)],
    alone: &dyn Fn(usize) -> RunIsolation,
) -> Result<PartialSection> {
    let index = section as usize;
    let header = input.section(index)?;
    let flags = header.sh_flags.get(LE).0;
    let whole = elf::SHF_MERGE.0 | elf::SHF_COMPRESSED.0;
    if input.role(index) != Role::Content
        || ![elf::SHT_PROGBITS, elf::SHT_NOBITS, BB_ADDR_MAP].contains(&header.sh_type.get(LE))
        || flags & whole != 0
        || flags & (elf::SHF_ALLOC.0 | elf::SHF_LINK_ORDER.0) == 0
    {
        return Err(input.about(index, "only a part of the section stays as it is, and it can't be divided"));
    }
    let mut divided = PartialSection { section, runs: Vec::new(), dropped: Vec::new(), only: None };
    let section_align = header.sh_addralign.get(LE).max(1);
    let mut end_before = 0;
    let mut open = false;
    let mut last_after = None;
    for (i, (atom, action)) in atoms.iter().enumerate() {
        let end = atom.offset.checked_add(atom.size).filter(|e| *e <= header.sh_size.get(LE));
        let Some(end) = end.filter(|_| atom.size > 0 && atom.offset >= end_before) else {
            return Err(input.about(index, format!("the atom at {:#x} has no place", atom.offset)));
        };
        end_before = end;
        if *action == Action::Drop {
            divided.dropped.push((atom.offset, end));
            open = false;
            continue;
        }
        let align = match atom.offset {
            0 => section_align,
            offset => section_align.min(1 << offset.trailing_zeros()),
        };
        if *action == Action::Stub {
            let range = || Some(usize::try_from(atom.offset).ok()?..usize::try_from(end).ok()?);
            let body = range().and_then(|r| input.data(index).ok()?.get(r));
            let body = body.ok_or_else(|| input.about(index, "a stub is outside of the section"))?;
            divided.runs.push(PartRun {
                start: atom.offset,
                end,
                align,
                stub: Some(Code::of(body)),
                foldable: false,
            });
            open = false;
            continue;
        }
        let RunIsolation { foldable, named, after } = alone(i);
        let joins = !foldable && !named;
        let is_same = std::mem::replace(&mut last_after, after) == after;
        match divided.runs.last_mut() {
            Some(run) if open && joins && is_same && align <= run.align => run.end = end,
            _ => divided.runs.push(PartRun { start: atom.offset, end, align, stub: None, foldable }),
        }
        open = joins;
    }
    Ok(divided)
}
