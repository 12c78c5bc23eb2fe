//! The address map of divided sections: which ranges are kept, and to which atom an address belongs.
//!
//! In debug information an address is the first byte of a range or the first byte behind it. In a divided section the
//! end of one function is the start of the next. [`Layout::meant`] decides by the function that the entry describes.
//! Ranges are cut to the kept parts, and an address of dropped code gets a tombstone.

use object::elf;
use summaries::AtomIdx;

use super::view::{decode, encode};
use crate::emit::input::{Input, LE, SymbolPlace};
use crate::emit::parts::SplitSections;
use crate::error::{Error, Result, Stage};
use crate::plan::Action;

/// The sections of the object under its plan.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout<'l> {
    pub(super) input: &'l Input<'l>,
    pub(super) split: &'l SplitSections<'l>,
    pub(super) symbols: &'l SectionSymbols,
}

/// The symbols that relocations of debug information use.
#[derive(Debug)]
pub(super) struct SectionSymbols {
    /// By section: its section symbol; 0 if it has none.
    of: Vec<u32>,
    /// Functions and objects that no other definition can replace, by section and value.
    named: Vec<(u32, u64, u32)>,
}

impl SectionSymbols {
    pub(super) fn read(input: &Input<'_>) -> Result<Self> {
        let mut symbols = SectionSymbols { of: vec![0; input.sections.len()], named: Vec::new() };
        for (i, symbol) in input.symbols.iter().enumerate().skip(1) {
            let SymbolPlace::Section(section) = input.place(i)? else { continue };
            let slot = symbols.of.get_mut(section as usize).filter(|slot| **slot == 0);
            match symbol.st_type() {
                elf::STT_SECTION if symbol.st_value.get(LE) == 0 => {
                    slot.into_iter().for_each(|slot| *slot = i as u32);
                }
                elf::STT_FUNC | elf::STT_OBJECT if symbol.st_bind() != elf::STB_WEAK => {
                    symbols.named.push((section, symbol.st_value.get(LE), i as u32));
                }
                _ => {}
            }
        }
        symbols.named.sort_unstable();
        Ok(symbols)
    }

    /// The section symbol of a section.
    pub(super) fn of_section(&self, input: &Input<'_>, section: usize) -> Result<u32> {
        let found = self.of.get(section).copied().filter(|symbol| *symbol != 0);
        found.ok_or_else(|| {
            input.about(section, "debug information refers to it, and it has no section symbol")
        })
    }
}

impl Layout<'_> {
    /// The symbol and addend for a place of a section. If there is no section symbol (LLVM omits unused ones), it is a symbol of the
    /// atom.
    pub(super) fn symbol_for(&self, section: u32, place: i64, meant: Option<AtomIdx>) -> Result<(u32, i64)> {
        let missing = match self.symbols.of_section(self.input, section as usize) {
            Ok(symbol) => return Ok((symbol, place)),
            Err(missing) => missing,
        };
        let held = |value: u64| meant.is_none() || self.meant(section, value as i64, &[], true) == meant;
        let first = self.symbols.named.partition_point(|(s, ..)| *s < section);
        let of_section = self.symbols.named.iter().skip(first).take_while(|(s, ..)| *s == section);
        let found = of_section.filter(|(_, value, _)| held(*value)).last();
        let (_, value, symbol) = found.ok_or(missing)?;
        Ok((*symbol, place.wrapping_sub(*value as i64)))
    }

    /// Whether the section of a made-up address (see [`super::view`]) is divided or dropped.
    pub(super) fn is_changed(&self, address: u64) -> bool {
        let is_dropped = |section| self.split.action_of_section(section) == Some(Action::Drop);
        decode(address).is_some_and(|(section, _)| self.split.of(section).is_some() || is_dropped(section))
    }

    /// The kept parts of the range from `begin` to `end`, in made-up addresses. A range of numbers that are no addresses does not
    /// change. `within` are the atoms of the described function.
    ///
    /// # Errors
    /// The range leads into another section, or ends before it begins.
    pub(super) fn kept_ranges(&self, begin: u64, end: u64, within: &[AtomIdx]) -> Result<Vec<(u64, u64)>> {
        let (section, first, last) = match (decode(begin), decode(end)) {
            (Some((a, first)), Some((b, last))) if a == b && first <= last => (a, first, last),
            (None, None) => return Ok(vec![(begin, end)]),
            _ => {
                return Err(Error::new(
                    Stage::Emit,
                    "a range of debug information begins and ends in two sections",
                ));
            }
        };
        let Some(divided) = self.split.of(section) else {
            return Ok(match self.split.action_of_section(section) {
                Some(Action::Drop | Action::Stub) => Vec::new(),
                Some(Action::Keep) | None => vec![(begin, end)],
            });
        };
        if first == last {
            let meant = self.meant(section, first, within, false);
            let stays = meant.is_some_and(|a| self.split.atom(a).is_ok_and(|(_, a)| a == Action::Keep));
            return Ok(if stays { vec![(begin, end)] } else { Vec::new() });
        }
        let next = divided.parts.partition_point(|r| r.end as i64 <= first);
        let parts = divided.parts.get(next..).unwrap_or(&[]).iter();
        let parts = parts.take_while(|r| (r.start as i64) < last).filter(|r| r.stub.is_none());
        let cut = parts.map(|r| (first.max(r.start as i64), last.min(r.end as i64))).filter(|(b, e)| b < e);
        Ok(cut.filter_map(|(b, e)| encode(section, b).zip(encode(section, e))).collect())
    }

    /// The atom that an address belongs to; `None` in an undivided section. It is the atom that holds the address, or the one that
    /// ends there if only that is one of `within`. With `entry` it is always the atom that holds the address.
    pub(super) fn meant(&self, section: u32, place: i64, within: &[AtomIdx], entry: bool) -> Option<AtomIdx> {
        self.split.of(section)?;
        let (first, atoms) = self.split.atoms_of(section);
        let place = u64::try_from(place).unwrap_or(0);
        let held = atoms.partition_point(|a| a.offset <= place).saturating_sub(1);
        let here = AtomIdx::new(first + held);
        if entry || atoms.get(held)?.offset != place || within.contains(&here) || held == 0 {
            return Some(here);
        }
        let before = AtomIdx::new(first + held - 1);
        let ends = atoms.get(held - 1).is_some_and(|a| a.offset.saturating_add(a.size) == place);
        Some(if ends && within.contains(&before) { before } else { here })
    }

    /// The atom that holds the last byte before `end`, a made-up address.
    pub(super) fn ended(&self, end: u64) -> Option<AtomIdx> {
        let (section, place) = decode(end)?;
        self.meant(section, place.checked_sub(1)?, &[], true)
    }

    /// Whether a function begins at a made-up address, and the function before it ends with a call and is moved apart.
    pub(super) fn is_behind_call(&self, address: u64) -> bool {
        let Some((section, place)) = decode(address) else { return false };
        let Some(place) = u64::try_from(place).ok().filter(|_| self.split.of(section).is_some()) else {
            return false;
        };
        let (first, atoms) = self.split.atoms_of(section);
        let next = atoms.partition_point(|a| a.offset < place);
        if next == 0 || atoms.get(next).is_none_or(|a| a.offset != place) {
            return false;
        }
        let kept = |i: usize| {
            self.split.atom(AtomIdx::new(first + i)).is_ok_and(|(_, action)| action == Action::Keep)
        };
        let is_apart = !kept(next) || self.part(address) != self.part(address - 1);
        kept(next - 1) && is_apart && self.ends_with_call(section, place)
    }

    /// Whether the instruction before a place of a section may be a call. An indirect call is looked for at each possible length.
    fn ends_with_call(&self, section: u32, place: u64) -> bool {
        let data = self.input.data(section as usize).unwrap_or_default();
        let before = usize::try_from(place).ok().and_then(|place| data.get(place.saturating_sub(7)..place));
        let before = before.unwrap_or_default();
        let direct = before.iter().rev().nth(4) == Some(&0xe8);
        direct || before.array_windows().any(|[opcode, operand]| *opcode == 0xff && operand >> 3 & 7 == 2)
    }

    /// Whether a made-up address is in an undivided section.
    pub(super) fn is_whole(&self, address: u64) -> bool {
        decode(address).is_some_and(|(section, _)| {
            let action = self.split.action_of_section(section);
            self.split.of(section).is_none() && matches!(action, Some(Action::Keep) | None)
        })
    }

    /// The section and part of a kept made-up address. Addresses in the same part keep their distance.
    pub(super) fn part(&self, address: u64) -> Option<(u32, u32)> {
        let (section, place) = decode(address)?;
        let Some(divided) = self.split.of(section) else { return Some((section, 0)) };
        let part = divided.parts.partition_point(|r| r.start as i64 <= place).checked_sub(1)?;
        Some((section, part as u32))
    }
}
