//! The relocations of an emitted object that are in parts of sections, or mean a part.
//!
//! A relocation means a place by its symbol, addend and form. The emitted one must mean the same place: section
//! symbol and addend together, counted from the start of the original. References between parts that the assembler
//! resolved must have a relocation. A biased addend is checked as far as the form of the relocation allows.

use goblin::elf::reloc::{R_X86_64_8, R_X86_64_16, R_X86_64_32, R_X86_64_32S, R_X86_64_64};
use goblin::elf::section_header as sh;
use summaries::{NEAR_JUMP, SHORT_JUMP};

use super::elf::{RelocationEntry, SymbolSection};
use super::pair::Pair;
use super::parts::EmittedPart;
use super::symbols::SymbolMap;
use crate::error::Result;

const R_X86_64_PC32: u32 = 2;

/// The expected form of a relocation in the emitted object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExpectedRelocation {
    /// Against the same symbol with the same addend.
    Same,
    /// Against the section symbol of this section of the emitted object.
    Part { section: usize, addend: i64 },
    /// It is missing, because its function is dropped.
    Gone,
    /// No form of the relocation is right.
    Dangling,
}

impl Pair<'_> {
    /// The expected form of `entry`, a relocation of `section` of the original.
    pub(super) fn wanted(&self, section: usize, entry: &RelocationEntry) -> ExpectedRelocation {
        let table = self.expected.parts.table(section, entry.offset);
        if let Some((_, false)) = table {
            return ExpectedRelocation::Gone;
        }
        let Some(target) = self.parted_by_symbol(entry.symbol) else {
            let may = self.stub_of(entry.symbol).is_none_or(|_| self.may_name_stub(section, entry));
            return if may { ExpectedRelocation::Same } else { ExpectedRelocation::Dangling };
        };
        let exact = u64::try_from(entry.addend).ok();
        let code =
            self.old.sections.get(section).is_some_and(|s| s.sh_flags & u64::from(sh::SHF_EXECINSTR) != 0);
        let alloc = self.old.is_alloc(section);
        // Metadata that is not loaded describes a function.
        let is_metadata = !alloc && self.expected.parts.retarget(section, entry.offset).is_some();
        // The first and last place of the target that the form of the relocation allows.
        let place = if !alloc && !is_metadata {
            // A base before the section, as in a location of debug information, belongs to the first object.
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
        let Some((atom, first, last)) = place else { return ExpectedRelocation::Dangling };
        let part = if !alloc && !is_metadata || self.old.is_unwind(section) {
            self.kept_at(target, atom)
        } else {
            self.part_at(target, atom)
        };
        let meant = |p: &EmittedPart| match p.stub {
            true => first <= p.start && p.start <= last,
            false => first < p.end && p.start <= last,
        };
        match part {
            Some(part) if meant(&part) => ExpectedRelocation::Part {
                section: part.new,
                addend: entry.addend.wrapping_sub(part.start as i64),
            },
            _ => ExpectedRelocation::Dangling,
        }
    }

    /// The stub that a symbol of the original names.
    fn stub_of(&self, symbol: usize) -> Option<EmittedPart> {
        let entry = self.old.symbol(symbol)?;
        let SymbolSection::Section(section) = self.old.place(symbol, &entry) else { return None };
        self.part_at(section, entry.st_value).filter(|p| p.stub)
    }

    /// Whether a relocation may be against a symbol that names a stub: it must mean the first byte, and be in an
    /// allocated section.
    fn may_name_stub(&self, section: usize, entry: &RelocationEntry) -> bool {
        let absolute =
            matches!(entry.kind, R_X86_64_64 | R_X86_64_32 | R_X86_64_32S | R_X86_64_16 | R_X86_64_8);
        self.old.is_alloc(section) && !self.old.is_unwind(section) && (!absolute || entry.addend == 0)
    }

    /// Whether `new` may replace `old`, a relocation of `section`. Their offsets are not compared.
    pub(super) fn stands_for(
        &self,
        symbols: &SymbolMap,
        section: usize,
        old: &RelocationEntry,
        new: &RelocationEntry,
    ) -> bool {
        new.kind == old.kind
            && match self.wanted(section, old) {
                ExpectedRelocation::Same => {
                    new.addend == old.addend && symbols.agrees(self, old.symbol, new.symbol)
                }
                ExpectedRelocation::Part { section, addend } => {
                    new.addend == addend && self.names(new.symbol, section)
                }
                ExpectedRelocation::Gone | ExpectedRelocation::Dangling => false,
            }
    }

    fn names(&self, symbol: usize, section: usize) -> bool {
        self.new.is_start_of(symbol, section)
    }

    /// Check the relocations of a part: those of the original that are in it, and one for each resolved reference to
    /// another part, in the order of their offsets. `old` are all relocations of the original section.
    pub(super) fn check_part(
        &self,
        symbols: &SymbolMap,
        part: &EmittedPart,
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
            .filter(|e| self.wanted(part.old, e) != ExpectedRelocation::Gone)
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
            // The instruction ends up to four bytes behind the field, and the target is counted from there.
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
