//! Sections of which only a part stays: which sections of the emitted object they became, and what a relocation against
//! them must be there.
//!
//! The parts are found from the emitted object, not computed: each must be a run of whole atoms that the plan keeps, in
//! order, together all of them, with the bytes that they had and at least the alignment; a short jump to another part becomes
//! a near one. Whatever referred to a place
//! of the original section must refer to the same place of the part that has it: section symbol and addend
//! together, counted from the start of the original, are what they were.
//!
//! Left out: whether the summary found every reference that the assembler resolved, and what biased addends mean;
//! the latter is checked as far as the form of the relocation tells.

use std::ops::Range;

use goblin::elf::reloc::{R_X86_64_8, R_X86_64_16, R_X86_64_32, R_X86_64_32S, R_X86_64_64};
use goblin::elf::section_header as sh;
use goblin::elf::sym::{STT_SECTION, Sym, st_type};
use summaries::{Atom, AtomIdx, ModuleSummary, NEAR_JUMP, SHORT_JUMP};

use super::debug;
use super::elf::{Object, Place};
use super::object::Pair;
use super::relocations::{RelocationEntry, SymbolMap};
use super::stubs;
use crate::error::Result;
use crate::plan::{Action, ModulePlan};

const R_X86_64_PC32: u32 = 2;

/// Whether `new` is `old`, but for the opcodes before some of these fields: a short jump may have become a near one.
fn is_same_code(old: &[u8], new: &[u8], fields: impl Iterator<Item = usize>) -> bool {
    let mut at = 0;
    for field in fields {
        let opcode = field.wrapping_sub(1);
        if (old.get(opcode), new.get(opcode)) != (Some(&SHORT_JUMP), Some(&NEAR_JUMP)) {
            continue;
        }
        if old.get(at..opcode) != new.get(at..opcode) {
            return false;
        }
        at = field;
    }
    old.get(at..) == new.get(at..)
}

/// An atom: start, end, what becomes of it.
pub(super) type AtomExtent = (u64, u64, Action);

/// An atom that becomes a section of its own: section and start, and the name.
type NamedAtom = ((usize, u64), Box<[u8]>);

/// What the plan does to parts of sections. Sections are ELF indices of the original, offsets are in bytes from
/// their start.
#[derive(Debug, Clone, Default)]
pub struct ExpectedParts {
    /// Sections of which only a part stays, ascending, with their atoms.
    sections: Vec<(usize, Vec<AtomExtent>)>,
    /// The names of atoms that become sections of their own, by section and start.
    names: Vec<NamedAtom>,
    /// (section, field, start of the target atom) of assembler-resolved references of atoms that stay, sorted.
    resolved: Vec<(usize, u64, u64)>,
    /// ((section, offset), (target section, start of the target atom)), sorted.
    retargets: Vec<((usize, u64), (usize, u64))>,
    /// (section, start, end, owner stays) of jump tables, sorted.
    tables: Vec<(usize, u64, u64, bool)>,
}

/// A section of the emitted object that is a part of one of the original.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub(super) old: usize,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) new: usize,
    /// It holds a trap instead of what was there.
    pub(super) stub: bool,
}

/// What a relocation must be in the emitted object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Against the same symbol with the same addend.
    Same,
    /// Against the section symbol of this section of the emitted object.
    Part { section: usize, addend: i64 },
    /// Not there: it belonged to a dropped function.
    Gone,
    /// Nothing that it could be is there.
    Dangling,
}

impl ExpectedParts {
    pub(super) fn new(summary: &ModuleSummary, plan: &ModulePlan) -> Self {
        let mut expected = ExpectedParts::default();
        let planned: Vec<(&Atom, Action)> = summary.atoms.iter().zip(plan.atoms.iter().copied()).collect();
        let mut next = 0;
        for atoms in planned.chunk_by(|(a, _), (b, _)| a.section == b.section) {
            let range = next..next + atoms.len();
            next = range.end;
            let Some((first, _)) = atoms.first() else { continue };
            if first.section != Atom::NO_SECTION && plan.parts(range) {
                let extents =
                    atoms.iter().map(|(a, action)| (a.offset, a.offset.saturating_add(a.size), *action));
                expected.sections.push((first.section as usize, extents.collect()));
            }
        }
        let named = summary.atoms.iter().zip(&plan.section_names);
        let named = named.filter_map(|(a, name)| Some(((a.section as usize, a.offset), name.clone()?)));
        expected.names = named.collect();
        let stays = |a: AtomIdx| plan.atoms.get(a.index()) == Some(&Action::Keep);
        let atom = |a: AtomIdx| summary.atoms.get(a.index());
        let resolved = summary.resolved.iter().filter(|r| stays(r.from));
        let resolved = resolved.filter_map(|r| Some((r.section as usize, r.field, atom(r.target)?.offset)));
        expected.resolved = resolved.collect();
        let retargets = summary.retargets.iter().filter_map(|r| {
            let target = atom(r.target)?;
            Some(((r.section as usize, r.offset), (target.section as usize, target.offset)))
        });
        expected.retargets = retargets.collect();
        let tables = summary
            .owned
            .iter()
            .filter_map(|o| Some((atom(o.atom)?.section as usize, o.start, o.end, stays(o.owner))));
        expected.tables = tables.collect();
        expected.sections.sort_unstable_by_key(|(section, _)| *section);
        expected.names.sort_unstable();
        expected.resolved.sort_unstable();
        expected.retargets.sort_unstable();
        expected.tables.sort_unstable();
        expected
    }

    /// The atoms of a section of which only a part stays.
    pub(super) fn of(&self, section: usize) -> Option<&[AtomExtent]> {
        let found = self.sections.binary_search_by_key(&section, |(s, _)| *s).ok()?;
        self.sections.get(found).map(|(_, atoms)| atoms.as_slice())
    }

    /// The name of the section that the atom at this place becomes, if it gets one of its own.
    pub(super) fn name(&self, section: usize, start: u64) -> Option<&[u8]> {
        let found = self.names.binary_search_by_key(&(section, start), |(at, _)| *at).ok()?;
        self.names.get(found).map(|(_, name)| &**name)
    }

    /// The assembler-resolved fields of a range of a section, from its start.
    fn fields(&self, section: usize, range: Range<u64>) -> impl Iterator<Item = usize> {
        let from = self.resolved.partition_point(|(s, field, _)| (*s, *field) < (section, range.start));
        let own = self.resolved.get(from..).unwrap_or(&[]).iter();
        let inside = own.take_while(move |(s, field, _)| *s == section && *field < range.end);
        inside.map(move |(_, field, _)| (field - range.start) as usize)
    }

    fn retarget(&self, section: usize, offset: u64) -> Option<(usize, u64)> {
        let found = self.retargets.binary_search_by_key(&(section, offset), |(from, _)| *from).ok()?;
        self.retargets.get(found).map(|(_, to)| *to)
    }

    /// The jump table that holds `offset`, as (start, whether its owner stays).
    fn table(&self, section: usize, offset: u64) -> Option<(u64, bool)> {
        let next = self.tables.partition_point(|(s, start, _, _)| (*s, *start) <= (section, offset));
        let (s, start, end, stays) = self.tables.get(next.checked_sub(1)?)?;
        (*s == section && offset < *end).then_some((*start, *stays))
    }
}

/// Find the parts of section `i` among the next sections of the emitted object. An atom with a name of its own must be a part
/// by itself, under that name.
pub(super) fn find(
    old: &Object<'_>,
    new: &Object<'_>,
    i: usize,
    expected: &ExpectedParts,
    atoms: &[AtomExtent],
    rest: &mut impl Iterator<Item = usize>,
) -> Result<Vec<Part>> {
    let Some(before) = old.sections.get(i) else { return Ok(Vec::new()) };
    let missing = || old.about(i, "a part of it is planned to stay, and is missing");
    let bytes = old.contents(i)?;
    let mut parts = Vec::new();
    let mut atoms = atoms.iter().peekable();
    while let Some(&&(start, atom_end, action)) = atoms.peek() {
        if action == Action::Drop {
            atoms.next();
            continue;
        }
        let j = rest.next().ok_or_else(missing)?;
        let after = new.sections.get(j).ok_or_else(missing)?;
        let shape = |s: &sh::SectionHeader| (s.sh_type, s.sh_flags, s.sh_entsize, s.sh_addr);
        let own_name = expected.name(i, start);
        let name = own_name.unwrap_or(old.section_name(i));
        if name != new.section_name(j) || shape(before) != shape(after) {
            let found = String::from_utf8_lossy(new.section_name(j)).into_owned();
            return Err(old.about(i, format!("in place of its part at {start:#x} is {found} [{j}]")));
        }
        let stub = action == Action::Stub;
        let alone = stub || own_name.is_some();
        let end = if alone { atom_end } else { start.saturating_add(after.sh_size) };
        let mut last = start;
        while let Some((s, e, other)) = atoms.next_if(|(s, _, _)| *s < end) {
            if *other != action || own_name.is_none() && expected.name(i, *s).is_some() {
                return Err(new.about(j, format!("what was at {s:#x} is planned to go, and is there")));
            }
            let alignment = |a: u64, o: u64| if o == 0 { a } else { a.min(1 << o.trailing_zeros()) };
            let needed = alignment(before.sh_addralign.max(1), *s);
            if after.sh_addralign < needed || s.wrapping_sub(start) % needed != 0 {
                return Err(new.about(j, format!("what was at {s:#x} is not aligned as it was")));
            }
            last = *e;
        }
        let range = || Some(usize::try_from(start).ok()?..usize::try_from(end).ok()?);
        let was = match before.sh_type {
            sh::SHT_NOBITS => Some(&[][..]),
            _ => range().and_then(|r| bytes.get(r)),
        };
        let body = was.filter(|_| stub).map(stubs::body);
        let same = match &body {
            Some(body) => body == new.contents(j)?,
            None => match was {
                Some(was) => is_same_code(was, new.contents(j)?, expected.fields(i, start..end)),
                None => false,
            },
        };
        let wrong_size = !stub && after.sh_size != end.saturating_sub(start);
        if wrong_size || last != end || after.sh_addralign > before.sh_addralign.max(1) || !same {
            return Err(old.about(i, format!("has other contents in the part at {start:#x}")));
        }
        parts.push(Part { old: i, start, end, new: j, stub });
    }
    Ok(parts)
}

impl Pair<'_> {
    /// The parts of a section of the original; none if it is there as a whole, or not at all.
    pub(super) fn parts_of(&self, old: usize) -> &[Part] {
        let start = self.parts.partition_point(|p| p.old < old);
        let end = self.parts.partition_point(|p| p.old <= old);
        self.parts.get(start..end).unwrap_or(&[])
    }

    /// The size of a section of the emitted object that is a stub.
    pub(super) fn stub_size(&self, new: usize) -> Option<u64> {
        let stub = self.part_of_new(new).is_some_and(|p| p.stub);
        self.new.sections.get(new).filter(|_| stub).map(|s| s.sh_size)
    }

    /// The part that has the byte at `offset` of a section of the original, as it was.
    fn kept_at(&self, old: usize, offset: u64) -> Option<Part> {
        self.part_at(old, offset).filter(|p| !p.stub)
    }

    /// The part that holds, or stands for, the byte at `offset` of a section of the original.
    fn part_at(&self, old: usize, offset: u64) -> Option<Part> {
        let next = self.parts.partition_point(|p| (p.old, p.start) <= (old, offset));
        self.parts.get(next.checked_sub(1)?).filter(|p| p.old == old && offset < p.end).copied()
    }

    /// Whether what is at `value` of a section of the original may be at `new_value` of section `new`.
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

    /// Whether section `new` of the emitted object is a part of one of the original.
    pub(super) fn is_part(&self, new: usize) -> bool {
        self.part_of_new(new).is_some()
    }

    /// The part that section `new` of the emitted object is. Sections keep their order, so parts are in both orders.
    fn part_of_new(&self, new: usize) -> Option<&Part> {
        self.parts.binary_search_by_key(&new, |p| p.new).ok().and_then(|i| self.parts.get(i))
    }

    /// Whether a function of `size` bytes at `value` of a section of which only a part stays is in one part.
    pub(super) fn holds(&self, old: usize, value: u64, size: u64) -> bool {
        self.kept_at(old, value).is_some_and(|p| size <= p.end - value)
    }

    /// Whether what is at `value` of a section of the original is planned to be dropped, or to become a stub.
    pub(super) fn is_dropped(&self, old: usize, value: u64) -> bool {
        match self.expected.parts.of(old) {
            None => self.expected.drops(old),
            Some(_) => self.kept_at(old, value).is_none(),
        }
    }

    /// The section of the original, one of which only a part stays, whose section symbol this is.
    pub(super) fn parted_by_symbol(&self, symbol: usize) -> Option<usize> {
        let entry = self.old.symbol(symbol)?;
        match self.old.place(symbol, &entry) {
            Place::Section(s)
                if st_type(entry.st_info) == STT_SECTION && self.expected.parts.of(s).is_some() =>
            {
                Some(s)
            }
            _ => None,
        }
    }

    /// Whether the section symbol of the emitted object is that of a part.
    pub(super) fn is_of_part(&self, index: usize, symbol: &Sym) -> bool {
        let Place::Section(section) = self.new.place(index, symbol) else { return false };
        st_type(symbol.st_info) == STT_SECTION
            && (symbol.st_value, symbol.st_size, symbol.st_other, symbol.st_name) == (0, 0, 0, 0)
            && index < self.new.first_global
            && (self.part_of_new(section).is_some()
                || self.rewritten_debug && debug::is_new_section(self.new.section_name(section)))
    }

    /// What `entry`, a relocation of `section` of the original, must be now.
    pub(super) fn wanted(&self, section: usize, entry: &RelocationEntry) -> Wanted {
        let table = self.expected.parts.table(section, entry.offset);
        if let Some((_, false)) = table {
            return Wanted::Gone;
        }
        let Some(target) = self.parted_by_symbol(entry.symbol) else {
            let may = self.stub_of(entry.symbol).is_none_or(|_| self.may_name_stub(section, entry));
            return if may { Wanted::Same } else { Wanted::Dangling };
        };
        let exact = u64::try_from(entry.addend).ok();
        let code =
            self.old.sections.get(section).is_some_and(|s| s.sh_flags & u64::from(sh::SHF_EXECINSTR) != 0);
        let alloc = self.old.is_alloc(section);
        // First and last place that the form of the relocation allows the target to be at.
        let place = if !alloc {
            // A base that lies before the section, as in a location of debug information, is of its first object.
            exact.or(Some(0)).map(|a| (a, a, a))
        } else if self.old.is_unwind(section) {
            exact.map(|a| (a, a, a))
        } else {
            let meant = self.expected.parts.retarget(section, entry.offset);
            let only = self.expected.parts.of(target).and_then(|a| match a {
                [(start, _, _)] => Some((target, *start)),
                _ => None,
            });
            meant.or(only).filter(|(s, _)| *s == target).and_then(|(_, atom)| match (entry.kind, table) {
                (R_X86_64_64 | R_X86_64_32 | R_X86_64_32S | R_X86_64_16 | R_X86_64_8, _) => {
                    exact.map(|a| (atom, a, a))
                }
                (_, Some((start, _))) => {
                    let a = exact?.checked_sub(entry.offset.checked_sub(start)?)?;
                    Some((atom, a, a))
                }
                _ if code => {
                    // Less than 4 bytes before the place, which up to 4 bytes of an immediate come before.
                    let first = entry.addend.checked_add(4)?;
                    let last = u64::try_from(first.checked_add(4)?).ok()?;
                    Some((atom, u64::try_from(first).unwrap_or(0), last))
                }
                _ => Some((atom, atom, atom)),
            })
        };
        let Some((atom, first, last)) = place else { return Wanted::Dangling };
        let part = if !alloc || self.old.is_unwind(section) {
            self.kept_at(target, atom)
        } else {
            self.part_at(target, atom)
        };
        let meant = |p: &Part| match p.stub {
            true => first <= p.start && p.start <= last,
            false => first < p.end && p.start <= last,
        };
        match part {
            Some(part) if meant(&part) => {
                Wanted::Part { section: part.new, addend: entry.addend.wrapping_sub(part.start as i64) }
            }
            _ => Wanted::Dangling,
        }
    }

    /// The stub that a symbol of the original names.
    fn stub_of(&self, symbol: usize) -> Option<Part> {
        let entry = self.old.symbol(symbol)?;
        let Place::Section(section) = self.old.place(symbol, &entry) else { return None };
        self.part_at(section, entry.st_value).filter(|p| p.stub)
    }

    /// Whether a relocation may be against a symbol that names a stub: it must mean the first byte, and be of a section that
    /// the program sees.
    fn may_name_stub(&self, section: usize, entry: &RelocationEntry) -> bool {
        let absolute =
            matches!(entry.kind, R_X86_64_64 | R_X86_64_32 | R_X86_64_32S | R_X86_64_16 | R_X86_64_8);
        self.old.is_alloc(section) && !self.old.is_unwind(section) && (!absolute || entry.addend == 0)
    }

    /// Whether `new` may stand for `old`, a relocation of `section`; their offsets aside.
    pub(super) fn stands_for(
        &self,
        symbols: &SymbolMap,
        section: usize,
        old: &RelocationEntry,
        new: &RelocationEntry,
    ) -> bool {
        new.kind == old.kind
            && match self.wanted(section, old) {
                Wanted::Same => new.addend == old.addend && symbols.agrees(self, old.symbol, new.symbol),
                Wanted::Part { section, addend } => new.addend == addend && self.names(new.symbol, section),
                Wanted::Gone | Wanted::Dangling => false,
            }
    }

    fn names(&self, symbol: usize, section: usize) -> bool {
        self.new.is_start_of(symbol, section)
    }

    /// Check the relocations of a part: those of the original that are in it, and one for each resolved reference to another
    /// part, in the order of their offsets. `old` are all of the original section.
    pub(super) fn check_part(
        &self,
        symbols: &SymbolMap,
        part: &Part,
        old: &[RelocationEntry],
        new: &[RelocationEntry],
    ) -> Result<()> {
        let wrong = |offset: u64| {
            let message =
                format!("the relocation at {offset:#x} is missing, new or refers to something else");
            Err(self.old.about(part.old, message))
        };
        if part.stub {
            return match new.first() {
                Some(extra) => wrong(extra.offset.saturating_add(part.start)),
                None => Ok(()),
            };
        }
        let inside = |e: &&RelocationEntry| part.start <= e.offset && e.offset < part.end;
        let mut wanted: Vec<(RelocationEntry, Option<(usize, i64)>)> = old
            .iter()
            .filter(inside)
            .filter(|e| self.wanted(part.old, e) != Wanted::Gone)
            .map(|e| (*e, None))
            .collect();
        let resolved = &self.expected.parts.resolved;
        let from = resolved.partition_point(|(s, field, _)| (*s, *field) < (part.old, part.start));
        let (bytes, emitted) = (self.old.contents(part.old)?, self.new.contents(part.new)?);
        let mut added = false;
        for (section, field, target) in resolved.get(from..).unwrap_or(&[]) {
            if *section != part.old || *field >= part.end {
                break;
            }
            let window = field.checked_sub(1).and_then(|at| bytes.get(at as usize..)?.first_chunk::<5>());
            let Some([opcode, value @ ..]) = window else { return wrong(*field) };
            let short = *opcode == SHORT_JUMP;
            let value = match short {
                true => i64::from(value[0] as i8) - 3,
                false => i64::from(i32::from_le_bytes(*value)),
            };
            let Some(to) = self.part_at(part.old, *target) else { return wrong(*field) };
            // The end of the instruction is up to four bytes behind the field, and so is the place that is meant.
            let base = (*field as i64).wrapping_add(value);
            let reach = if to.stub { to.start + 1 } else { to.end };
            let reaches = |k: i64| (to.start as i64..reach as i64).contains(&base.wrapping_add(4 + k));
            if !(0..=4).any(reaches) {
                return wrong(*field);
            }
            let opcode = field.checked_sub(part.start + 1).and_then(|at| emitted.get(at as usize));
            if short && opcode != Some(if to.new == part.new { &SHORT_JUMP } else { &NEAR_JUMP }) {
                return wrong(*field);
            }
            if to.new != part.new {
                let entry = RelocationEntry { offset: *field, kind: R_X86_64_PC32, symbol: 0, addend: 0 };
                wanted.push((entry, Some((to.new, base.wrapping_sub(to.start as i64)))));
                added = true;
            }
        }
        if added {
            wanted.sort_by_key(|(e, _)| e.offset);
        }
        for (i, (entry, synthesized)) in wanted.iter().enumerate() {
            let right = |n: &RelocationEntry| {
                n.offset.checked_add(part.start) == Some(entry.offset)
                    && match synthesized {
                        None => self.stands_for(symbols, part.old, entry, n),
                        Some((section, addend)) => {
                            (n.kind, n.addend) == (R_X86_64_PC32, *addend) && self.names(n.symbol, *section)
                        }
                    }
            };
            if !new.get(i).is_some_and(right) {
                return wrong(entry.offset);
            }
        }
        match new.get(wanted.len()) {
            Some(extra) => wrong(extra.offset.saturating_add(part.start)),
            None => Ok(()),
        }
    }
}
