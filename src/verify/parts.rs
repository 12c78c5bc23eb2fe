//! Divided sections: the sections of the emitted object that are their parts.
//!
//! The parts are found in the emitted object, not computed. Each must consist of whole neighbouring atoms, and
//! together they must have all kept atoms in order. They must have the same bytes and at least the same alignment. A
//! short jump to another part becomes a near one.

use std::ops::Range;

use goblin::elf::section_header as sh;
use summaries::{Atom, AtomIdx, ModuleSummary, NEAR_JUMP, SHORT_JUMP};

use super::elf::{Object, by_target, entries};
use crate::error::Result;
use crate::plan::{Action, ModulePlan};

/// Whether `new` has the bytes of `old`. A short jump before one of these fields may have become a near one.
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

/// An atom: its start, end and action.
pub(super) type AtomExtent = (u64, u64, Action);

/// The section and start of an atom that becomes a section of its own, and its name.
type NamedAtom = ((usize, u64), Box<[u8]>);

/// The plan for parts of sections. Sections are ELF indices of the original, and offsets are in bytes from
#[derive(Debug, Clone, Default)]
pub struct ExpectedParts {
    /// The divided sections in ascending order, with their atoms.
    sections: Vec<(usize, Vec<AtomExtent>)>,
    /// The names of atoms that become sections of their own, by section and start.
    names: Vec<NamedAtom>,
    /// The assembler-resolved references of kept atoms: section, field and start of the target atom, sorted.
    pub(super) resolved: Vec<(usize, u64, u64)>,
    /// ((section, offset), (target section, start of the target atom)), sorted.
    retargets: Vec<((usize, u64), (usize, u64))>,
    /// Jump tables: section, start, end, and whether the owner is kept, sorted.
    tables: Vec<(usize, u64, u64, bool)>,
    /// Atoms that are ordered after others: section and start of each, and of the other, sorted.
    orders: Vec<((usize, u64), (usize, u64))>,
}

/// A section of the emitted object that is a part of an original one.
#[derive(Debug, Clone, Copy)]
pub(super) struct EmittedPart {
    pub(super) old: usize,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) new: usize,
    /// It is a stub, a trap in place of the code.
    pub(super) stub: bool,
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
        expected.order(&planned);
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

    /// Note the sections that are ordered after divided ones: they are divided too.
    fn order(&mut self, planned: &[(&Atom, Action)]) {
        let parted: Vec<(usize, bool)> =
            self.sections.iter().map(|(section, atoms)| (*section, atoms.len() > 1)).collect();
        for atoms in planned.chunk_by(|(a, _), (b, _)| a.section == b.section) {
            let known = self.orders.len();
            self.orders.extend(atoms.iter().filter_map(|(a, _)| {
                let (after, _) = planned.get(a.link_order?.index())?;
                Some(((a.section as usize, a.offset), (after.section as usize, after.offset)))
            }));
            let mut own = self.orders.get(known..).unwrap_or(&[]).iter();
            let is_parted = own.any(|(_, (after, _))| parted.binary_search(&(*after, true)).is_ok());
            let Some((first, _)) = atoms.first().filter(|_| is_parted) else { continue };
            let section = first.section as usize;
            let stays = atoms.iter().any(|(_, action)| *action != Action::Drop);
            if stays && parted.binary_search_by_key(&section, |(s, _)| *s).is_err() {
                let extents =
                    atoms.iter().map(|(a, action)| (a.offset, a.offset.saturating_add(a.size), *action));
                self.sections.push((section, extents.collect()));
            }
        }
        self.orders.sort_unstable();
    }

    /// The section and start of the atoms that those in a range of a section are ordered after.
    pub(super) fn ordered_after(
        &self,
        section: usize,
        range: Range<u64>,
    ) -> impl Iterator<Item = (usize, u64)> {
        let from = self.orders.partition_point(|(at, _)| *at < (section, range.start));
        let own = self.orders.get(from..).unwrap_or(&[]).iter();
        own.take_while(move |(at, _)| *at < (section, range.end)).map(|(_, after)| *after)
    }

    /// The atoms of a divided section.
    pub(super) fn of(&self, section: usize) -> Option<&[AtomExtent]> {
        let found = self.sections.binary_search_by_key(&section, |(s, _)| *s).ok()?;
        self.sections.get(found).map(|(_, atoms)| atoms.as_slice())
    }

    /// The name of the section that the plan gives to an atom.
    pub(super) fn name(&self, section: usize, start: u64) -> Option<&[u8]> {
        let found = self.names.binary_search_by_key(&(section, start), |(at, _)| *at).ok()?;
        self.names.get(found).map(|(_, name)| &**name)
    }

    /// The assembler-resolved fields in a range of a section, from its start.
    fn fields(&self, section: usize, range: Range<u64>) -> impl Iterator<Item = usize> {
        let from = self.resolved.partition_point(|(s, field, _)| (*s, *field) < (section, range.start));
        let own = self.resolved.get(from..).unwrap_or(&[]).iter();
        let inside = own.take_while(move |(s, field, _)| *s == section && *field < range.end);
        inside.map(move |(_, field, _)| (field - range.start) as usize)
    }

    pub(super) fn retarget(&self, section: usize, offset: u64) -> Option<(usize, u64)> {
        let found = self.retargets.binary_search_by_key(&(section, offset), |(from, _)| *from).ok()?;
        self.retargets.get(found).map(|(_, to)| *to)
    }

    /// The start of the jump table that holds `offset`, and whether its owner is kept.
    pub(super) fn table(&self, section: usize, offset: u64) -> Option<(u64, bool)> {
        let next = self.tables.partition_point(|(s, start, _, _)| (*s, *start) <= (section, offset));
        let (s, start, end, stays) = self.tables.get(next.checked_sub(1)?)?;
        (*s == section && offset < *end).then_some((*start, *stays))
    }
}

/// Find the parts of section `i` among the next sections of the emitted object. A named atom must be a part of its
/// own, with that name.
pub(super) fn find(
    old: &Object<'_>,
    new: &Object<'_>,
    i: usize,
    expected: &ExpectedParts,
    atoms: &[AtomExtent],
    rest: &mut impl Iterator<Item = usize>,
) -> Result<Vec<EmittedPart>> {
    let Some(before) = old.sections.get(i) else { return Ok(Vec::new()) };
    let missing = || old.about(i, "a part of it is kept by the plan but missing from the pruned object");
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
        let body = was.filter(|_| stub).map(body);
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
        parts.push(EmittedPart { old: i, start, end, new: j, stub });
    }
    Ok(parts)
}

const TABLE: &[u8] = b".debug_lto_prune_stubs";
const R_X86_64_64: u32 = 1;

/// The bytes that stand for a function of these bytes.
fn body(original: &[u8]) -> Vec<u8> {
    let (landing, rest): (&[u8], &[u8]) = match original {
        [0xf3, 0x0f, 0x1e, 0xfa, rest @ ..] if !rest.is_empty() => (&[0xf3, 0x0f, 0x1e, 0xfa], rest),
        _ => (&[], original),
    };
    let trap: &[u8] = match rest.len() {
        0 => &[],
        1 => &[0xce],
        _ => &[0x0f, 0x0b],
    };
    [landing, trap].concat()
}

/// Check the table of stubs, which must be the next of the `rest` of sections exactly if there are stubs.
pub(super) fn check_stubs(
    new: &Object<'_>,
    parts: &[EmittedPart],
    rest: &mut impl Iterator<Item = usize>,
) -> Result<()> {
    let Some(first) = parts.iter().find(|p| p.stub) else { return Ok(()) };
    let missing = || new.about(first.new, "is a stub, and there is no table of stubs");
    check_table(new, parts, rest.next().ok_or_else(missing)?)
}

/// Check that the table is of the stubs and of nothing else.
fn check_table(new: &Object<'_>, parts: &[EmittedPart], table: usize) -> Result<()> {
    let wrong = |what: &str| Err(new.about(table, format!("the table of stubs {what}")));
    let shape = new.sections.get(table).map(|s| (s.sh_type, s.sh_flags, s.sh_addralign));
    if new.section_name(table) != TABLE || shape != Some((sh::SHT_PROGBITS, 0, 1)) {
        return wrong("is missing");
    }
    let relocations = entries(new, &by_target(new), table)?;
    let mut relocations = relocations.iter();
    let mut data = new.contents(table)?;
    let mut at = 0;
    for stub in parts.iter().filter(|p| p.stub) {
        let size = new.sections.get(stub.new).map_or(0, |s| s.sh_size);
        let name = data.get(12..).and_then(|d| d.split(|b| *b == 0).next());
        let (Some(name), Some(address), Some(says)) =
            (name, data.first_chunk::<8>(), data.get(8..).and_then(|d| d.first_chunk::<4>()))
        else {
            return wrong("ends early");
        };
        if *address != [0; 8] || u64::from(u32::from_le_bytes(*says)) != size || name.is_empty() {
            return wrong("has an entry that says something else");
        }
        let means = relocations.next().is_some_and(|r| {
            (r.offset, r.kind, r.addend) == (at, R_X86_64_64, 0) && new.is_start_of(r.symbol, stub.new)
        });
        let length = 12 + name.len() + 1;
        let Some(next) = data.get(length..) else { return wrong("ends early") };
        if !means {
            return wrong("has an entry that means another place");
        }
        data = next;
        at += length as u64;
    }
    if !data.is_empty() || relocations.next().is_some() {
        return wrong("has an entry too many");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::body;

    #[test]
    fn agrees_with_emission_on_what_fits() {
        assert_eq!(body(&[0xc3]).len(), 1);
        assert_eq!(body(&[0x31, 0xc0]), [0x0f, 0x0b]);
        assert_eq!(body(&[0xf3, 0x0f, 0x1e, 0xfa]), [0x0f, 0x0b]);
        assert_eq!(body(&[0xf3, 0x0f, 0x1e, 0xfa, 0xc3]).len(), 5);
        assert_eq!(body(&[0xf3, 0x0f, 0x1e, 0xfa, 0x31, 0xc0, 0xc3]).len(), 6);
    }
}
