//! Divided sections: which parts of a section are emitted, each as a section of its own.
//!
//! Neighbouring kept atoms make one part, so every distance within a part stays the same. A reference from one part to
//! another gets a relocation, or emission fails. A part ends before an atom that needs a larger alignment than the
//! start of the part has. Bytes before the first atom and behind a part are padding and are dropped.
//!
//! Three kinds of atoms are always parts of their own: functions that the linker may fold, stubs, and atoms to which the plan
//! gives a section ([`ModulePlan::section_names`]). A part of metadata is ordered after one part of code.

use object::elf;
use summaries::{Atom, AtomIdx, ModuleSummary, SHORT_JUMP};

use super::input::{Input, LE, Rela, Role, SymbolPlace};
use super::stubs::Code;
use crate::error::{Error, Result, Stage};
use crate::plan::{Action, ModulePlan};

/// The section type `SHT_LLVM_BB_ADDR_MAP` (llvm/BinaryFormat/ELF.h): maps of basic blocks.
const BB_ADDR_MAP: elf::SectionType = elf::SectionType(0x6fff_4c0a);

/// A relocation of a debug section (section, offset), and the atom that its address belongs to.
pub(super) type Meant = ((u32, u64), AtomIdx);

/// A part of a section. Offsets are in bytes from the start of the original section.
#[derive(Debug, Clone, Copy)]
pub(super) struct SectionPart {
    pub(super) start: u64,
    pub(super) end: u64,
    /// The alignment that the original section guaranteed for `start`. A stub keeps it, because programs may store flags
    /// in the low bits of a function's address.
    pub(super) align: u64,
    /// The code that replaces the bytes from `start` to `end`.
    pub(super) stub: Option<Code>,
    /// It is one function, which the linker may fold.
    pub(super) foldable: bool,
}

/// A section that is emitted in parts.
#[derive(Debug)]
pub(super) struct PartialSection {
    pub(super) section: u32,
    /// The parts are in ascending order, and do not overlap. There is at least one.
    pub(super) parts: Vec<SectionPart>,
    /// The start and end of each dropped atom, in ascending order.
    dropped: Vec<(u64, u64)>,
    /// The section's only atom. Every reference to the section means it.
    pub(super) only: Option<AtomIdx>,
}

/// The place of an offset of a divided section, with the number and the start of its part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OffsetLocation {
    Part(u32, u64),
    /// It is in the original code of a stub.
    Stub(u32, u64),
    Dropped,
    /// It is in no atom of the section.
    Nowhere,
}

/// A relocation `R_X86_64_PC32` for a reference that the assembler resolved, and that leads from one part to another.
#[derive(Debug, Clone, Copy)]
pub(super) struct SynthesizedRelocation {
    pub(super) section: u32,
    /// The offset of the field in the original section.
    pub(super) field: u64,
    pub(super) target: u32,
    pub(super) addend: i64,
    /// The instruction is a short jump, which becomes a near jump.
    pub(super) relaxed: bool,
}

/// The divided sections of an object, and the relocations that the division adds and removes.
#[derive(Debug)]
pub(super) struct SplitSections<'s> {
    pub(super) summary: &'s ModuleSummary,
    pub(super) plan: &'s ModulePlan,
    /// The divided sections, by section index.
    pub(super) sections: Vec<PartialSection>,
    /// By section: its first atom, and the end of its atoms.
    atoms: Vec<(u32, u32)>,
    /// The added relocations, sorted by section and field.
    synthesized: Vec<SynthesizedRelocation>,
    /// The atoms of addresses in debug information that lie between two atoms, sorted.
    pub(super) meant: Vec<Meant>,
    /// The jump tables of dropped functions: section, start and end, sorted and without overlaps.
    ownerless: Vec<(u32, u64, u64)>,
}

fn contradiction(message: impl Into<String>) -> Error {
    Error::new(Stage::Emit, message)
}

impl<'s> SplitSections<'s> {
    /// Divide the sections whose atoms the plan treats in different ways, those with stubs, and those with several atoms that the
    /// linker may fold.
    ///
    /// # Errors
    /// Atoms overlap or are outside of their section; a section can't be divided (a table, merged or compressed contents); the
    /// assembler resolved a reference to a dropped atom.
    pub(super) fn decide(
        input: &Input<'_>,
        summary: &'s ModuleSummary,
        plan: &'s ModulePlan,
    ) -> Result<Self> {
        if plan.atoms.len() != summary.atoms.len() {
            return Err(contradiction("the plan is not of this module: its atoms differ"));
        }
        let mut split = SplitSections {
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
        // Sections with SHF_LINK_ORDER are divided like the sections that they are ordered after.
        for ordered in [false, true] {
            let found = split.decide_sections(input, &planned, ordered)?;
            split.sections.extend(found);
            split.sections.sort_by_key(|p| p.section);
        }
        split.forget_owned()?;
        split.synthesize(input)?;
        Ok(split)
    }

    /// Divide the sections with `SHF_LINK_ORDER`, or those without.
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
                atoms.iter().map(|(a, _)| a.link_order.and_then(|after| self.part_of(after))).collect();
            if plan.parts(range) || after.iter().any(Option::is_some) {
                let only = (atoms.len() == 1).then_some(index);
                let isolation = |i: usize| {
                    let atom = AtomIdx::new(index.index() + i);
                    Isolation {
                        foldable: plan.is_foldable(atom),
                        named: plan.section_name(atom).is_some(),
                        after: after.get(i).copied().flatten(),
                    }
                };
                found.push(PartialSection { only, ..divide(input, first.section, atoms, &isolation)? });
            }
        }
        Ok(found)
    }

    /// The section and part of an atom, or of its stub, if its section has several atoms.
    pub(super) fn part_of(&self, atom: AtomIdx) -> Option<(u32, u32)> {
        let atom = self.summary.atoms.get(atom.index())?;
        let divided = self.of(atom.section).filter(|p| p.only.is_none())?;
        divided.holding(atom.offset).map(|(part, _)| (atom.section, part))
    }

    /// The atom that a section or a part of it is ordered after.
    pub(super) fn ordered_after(&self, section: u32, part: Option<u32>) -> Option<AtomIdx> {
        match part {
            Some(part) => self.summary.atoms.get(self.atom_of(section, part)?.index())?.link_order,
            None => self.atoms_of(section).1.first()?.link_order,
        }
    }

    /// The section with its parts; `None` if it is kept or dropped as a whole.
    pub(super) fn of(&self, section: u32) -> Option<&PartialSection> {
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

    pub(super) fn atom(&self, atom: AtomIdx) -> Result<(&'s Atom, Action)> {
        let found = self.summary.atoms.get(atom.index()).zip(self.plan.atoms.get(atom.index()));
        let (atom, action) =
            found.ok_or_else(|| contradiction("the summary names an atom that is not there"))?;
        Ok((atom, *action))
    }

    /// The atoms of a section, and the number of the first.
    pub(super) fn atoms_of(&self, section: u32) -> (usize, &'s [Atom]) {
        let (first, end) = self.atoms.get(section as usize).copied().unwrap_or_default();
        (first as usize, self.summary.atoms.get(first as usize..end as usize).unwrap_or(&[]))
    }

    /// The action of a section that is not divided; `None` if it is no atom.
    pub(super) fn action_of_section(&self, section: u32) -> Option<Action> {
        let (first, atoms) = self.atoms_of(section);
        self.plan.atoms.get(first).copied().filter(|_| !atoms.is_empty())
    }

    /// The atom that an address in debug information belongs to. The address is stored at `at`, and is the offset `place` of section
    /// `divided`. Padding belongs to the atom before it.
    pub(super) fn described(&self, at: (u32, u64), divided: u32, place: u64) -> Option<AtomIdx> {
        if let Ok(meant) = self.meant.binary_search_by_key(&at, |(place, _)| *place) {
            return self.meant.get(meant).map(|(_, atom)| *atom);
        }
        let (first, atoms) = self.atoms_of(divided);
        let next = atoms.partition_point(|a| a.offset <= place);
        (!atoms.is_empty()).then(|| AtomIdx::new(first + next.saturating_sub(1)))
    }

    /// Whether an undivided section is one function that the linker may fold.
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

    pub(super) fn has_stubs(&self) -> bool {
        self.sections.iter().any(|p| p.stubs().next().is_some())
    }

    /// The section name that the plan gives to a part.
    pub(super) fn name_of(&self, section: u32, part: u32) -> Option<&'s [u8]> {
        self.plan.section_name(self.atom_of(section, part)?)
    }

    /// The first atom of a part.
    pub(super) fn atom_of(&self, section: u32, part: u32) -> Option<AtomIdx> {
        let start = self.of(section)?.parts.get(part as usize)?.start;
        let found = self.summary.atoms.binary_search_by_key(&(section, start), |a| (a.section, a.offset));
        found.ok().map(AtomIdx::new)
    }

    /// Whether a relocation is in the jump table of a dropped function.
    pub(super) fn belongs_to_dropped_jump_table(&self, section: u32, offset: u64) -> bool {
        let next = self.ownerless.partition_point(|(s, start, _)| (*s, *start) <= (section, offset));
        let range = next.checked_sub(1).and_then(|i| self.ownerless.get(i));
        range.is_some_and(|(s, _, end)| *s == section && offset < *end)
    }

    /// The relocations that are added to a section, by field.
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

    /// Make the relocations for references from one part to another that the assembler resolved.
    ///
    /// A field at `F` holds `T - (F + 4 + k)`. `T` is the target, and `k` the bytes of the instruction behind the field, all in
    /// offsets of the original section. `R_X86_64_PC32` stores `S + A - P` (psABI, "Relocation Types"). With `S` the start
    /// of the part that holds `T`, the addend is `A = T - S - 4 - k = F + value - S`. The field of a short jump has one byte,
    /// and ends the instruction. It holds `T - (F + 1)`, three more than that of a near jump at the same place.
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
            let (
                OffsetLocation::Part(here, _),
                OffsetLocation::Part(there, start) | OffsetLocation::Stub(there, start),
            ) = (divided.spot(from.offset), divided.spot(to.offset))
            else {
                return about("is in no part that is kept");
            };
            if here == there {
                continue;
            }
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
    /// The location of an offset of the original section.
    pub(super) fn spot(&self, offset: u64) -> OffsetLocation {
        if let Some((part, found)) = self.holding(offset) {
            let location = if found.stub.is_some() { OffsetLocation::Stub } else { OffsetLocation::Part };
            return location(part, found.start);
        }
        let next = self.dropped.partition_point(|(start, _)| *start <= offset);
        match next.checked_sub(1).and_then(|i| self.dropped.get(i)) {
            Some((_, end)) if offset < *end => OffsetLocation::Dropped,
            _ => OffsetLocation::Nowhere,
        }
    }

    /// The stub or dropped atom that ends at `offset`. No atom begins there.
    pub(super) fn ended(&self, offset: u64) -> OffsetLocation {
        let part = self.parts.partition_point(|r| r.end < offset);
        let dropped = self.dropped.partition_point(|(_, end)| *end < offset);
        match (self.parts.get(part), self.dropped.get(dropped)) {
            (Some(r), _) if r.end == offset && r.stub.is_some() => OffsetLocation::Stub(part as u32, r.start),
            (_, Some((_, end))) if *end == offset => OffsetLocation::Dropped,
            _ => OffsetLocation::Nowhere,
        }
    }

    /// The part that the byte at `offset` of the original section belongs to, also if it is a stub.
    fn holding(&self, offset: u64) -> Option<(u32, &SectionPart)> {
        let next = self.parts.partition_point(|r| r.start <= offset);
        let index = next.checked_sub(1)?;
        self.parts.get(index).filter(|r| offset < r.end).map(|r| (index as u32, r))
    }

    /// The part that keeps the byte at `offset`.
    pub(super) fn part_at(&self, offset: u64) -> Option<u32> {
        self.holding(offset).filter(|(_, r)| r.stub.is_none()).map(|(index, _)| index)
    }

    /// The stubs, each with the number of its part.
    pub(super) fn stubs(&self) -> impl Iterator<Item = (u32, Code)> + '_ {
        self.parts.iter().zip(0..).filter_map(|(r, index)| Some((index, r.stub?)))
    }

    /// Whether a part begins or ends at `offset`, so that it may mean the end of one atom or the start of another.
    pub(super) fn is_seam(&self, offset: u64) -> bool {
        let starts = |r: &SectionPart| offset == r.start && r.start > 0;
        let next = self.parts.partition_point(|r| r.start <= offset);
        let near = self.parts.get(next.saturating_sub(2)..next).unwrap_or(&[]);
        near.iter().filter(|r| r.stub.is_none()).any(|r| starts(r) || offset == r.end)
    }

    pub(super) fn part(&self, part: u32) -> Result<&SectionPart> {
        let missing = || contradiction(format!("section {} has no part {part}", self.section));
        self.parts.get(part as usize).ok_or_else(missing)
    }
}

/// Whether a PC-relative relocation with this addend means its symbol. Behind the 32-bit field there may be an immediate of
/// one, two or four bytes, and then the end of the instruction.
pub(super) fn is_biased_entry(addend: i64) -> bool {
    matches!(addend, -4 | -5 | -6 | -8)
}

/// The reasons for which an atom is a part of its own.
#[derive(Clone, Copy)]
struct Isolation {
    /// The linker may fold it with an identical function.
    foldable: bool,
    /// The plan gives it a section of its own.
    named: bool,
    /// The section and part that it is ordered after. All atoms of a part have the same.
    after: Option<(u32, u32)>,
}

/// Divide one section. `isolation` takes the position of an atom in `atoms`.
fn divide(
    input: &Input<'_>,
    section: u32,
    atoms: &[(&Atom, Action)],
    isolation: &dyn Fn(usize) -> Isolation,
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
        return Err(input.about(index, "only a part of the section is kept, and it can't be divided"));
    }
    let mut divided = PartialSection { section, parts: Vec::new(), dropped: Vec::new(), only: None };
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
            divided.parts.push(SectionPart {
                start: atom.offset,
                end,
                align,
                stub: Some(Code::of(body)),
                foldable: false,
            });
            open = false;
            continue;
        }
        let Isolation { foldable, named, after } = isolation(i);
        let joins = !foldable && !named;
        let is_same = std::mem::replace(&mut last_after, after) == after;
        match divided.parts.last_mut() {
            Some(part) if open && joins && is_same && align <= part.align => part.end = end,
            _ => divided.parts.push(SectionPart { start: atom.offset, end, align, stub: None, foldable }),
        }
        open = joins;
    }
    Ok(divided)
}
