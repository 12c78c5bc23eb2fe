//! Check of debugging information entries (DIEs): those of an emitted object, compared with those of the original.
//!
//! A parser of its own reads both objects (DWARF 5, section 7.5). The units of the emitted object are trees of entries, each
//! reference leads to where an entry begins, and each kept function that the original describes is described.

use std::cell::Cell;

use goblin::elf::reloc::R_X86_64_NONE;
use rustc_hash::FxHashMap;

use super::elf::{Object, RelocationEntry, SymbolSection, by_target, entries, error};
use super::pair::Pair;
use crate::error::Result;

/// Check the entries of the emitted object, if some were removed.
pub(super) fn check(pair: &Pair<'_>) -> Result<()> {
    if !pair.expected.collects_debug {
        return Ok(());
    }
    let (new, old) = rayon::join(|| DescribedEntries::read(&pair.new), || DescribedEntries::read(&pair.old));
    // The collection removes nothing from damaged debug information.
    let old = match (old, &new) {
        (Ok(old), _) => old,
        (Err(_), Err(_)) => return Ok(()),
        (Err(old), Ok(_)) => return Err(old),
    };
    let new = new?;
    if let Some(lost) = new.lost().filter(|_| old.lost().is_none()) {
        return Err(error(format!(
            "debug information: a reference leads to {lost:#x}, where no entry begins"
        )));
    }
    for (section, value) in old.functions {
        if pair.is_dropped(section, value) {
            continue;
        }
        let place = match pair.expected.parts.of(section) {
            None => pair.new_of_old.get(section).map(|new| (*new, value)),
            Some(_) => pair.kept_at(section, value).map(|part| (part.new, value - part.start)),
        };
        if let Some(place) = place.filter(|(new, _)| *new != 0)
            && new.functions.binary_search(&place).is_err()
        {
            return Err(pair
                .new
                .about(place.0, format!("debug information of the function at {:#x} is lost", place.1)));
        }
    }
    Ok(())
}

/// The entries and functions that the `.debug_info` of an object describes.
#[derive(Debug, Default)]
struct DescribedEntries {
    /// The offsets of all entries, in ascending order.
    entries: Vec<u64>,
    /// The offsets that attributes refer to.
    references: Vec<u64>,
    /// Section and offset of each function's first byte, sorted.
    functions: Vec<(usize, u64)>,
}

/// Relocations in the order of their offsets, and the first one behind the place that was looked up last.
#[derive(Default)]
struct Relocations {
    entries: Vec<RelocationEntry>,
    next: Cell<usize>,
}

impl Relocations {
    /// The relocation at this offset. Most lookups come in order, and end at the first relocation or the one behind it.
    fn get(&self, offset: u64) -> Option<&RelocationEntry> {
        let begins = |at: usize| self.entries.get(at).is_none_or(|entry| entry.offset >= offset);
        let is_first = |at: &usize| begins(*at) && at.checked_sub(1).is_none_or(|before| !begins(before));
        let near = self.next.get();
        let search = || self.entries.partition_point(|entry| entry.offset < offset);
        self.next.set((near..near + 2).find(is_first).unwrap_or_else(search));
        self.entries.get(self.next.get()).filter(|entry| entry.offset == offset)
    }
}

/// By code: the tag, whether there are children, and name, form of each attribute.
type Abbreviations = FxHashMap<u64, (u64, bool, Vec<(u64, u64)>)>;

const TAG_SUBPROGRAM: u64 = 0x2e;
const AT_SIBLING: u64 = 0x01;
const AT_LOW_PC: u64 = 0x11;
const AT_ADDR_BASE: u64 = 0x73;
const AT_GNU_ADDR_BASE: u64 = 0x2133;

impl DescribedEntries {
    /// A reference that leads to where no entry begins.
    fn lost(&self) -> Option<u64> {
        self.references.iter().find(|target| self.entries.binary_search(target).is_err()).copied()
    }

    fn read(object: &Object<'_>) -> Result<DescribedEntries> {
        let section = |name: &[u8]| (1..object.sections.len()).find(|i| object.section_name(*i) == name);
        let mut described = DescribedEntries::default();
        let (Some(info), Some(abbreviations)) = (section(b".debug_info"), section(b".debug_abbrev")) else {
            return Ok(described);
        };
        let tables = by_target(object);
        let relocations = |section: usize| -> Result<Relocations> {
            let mut all = entries(object, &tables, section)?;
            all.retain(|entry| entry.kind != R_X86_64_NONE);
            all.sort_by_key(|entry| entry.offset);
            Ok(Relocations { entries: all, next: Cell::new(0) })
        };
        let of_info = relocations(info)?;
        let of_addresses = section(b".debug_addr").map(relocations).transpose()?.unwrap_or_default();
        let (bytes, abbreviations) = (object.uncompressed(info)?, object.uncompressed(abbreviations)?);
        let mut at = 0;
        while at < bytes.len() {
            let mut unit = EntryCursor { bytes: &bytes, at };
            let end = at + 4 + unit.number(4)? as usize;
            let version = unit.number(2)?;
            let kind = if version >= 5 { (unit.number(1)?, unit.number(1)?).0 } else { 1 };
            let offset = of_info.get(unit.at as u64).map(|entry| entry.addend as u64);
            let offset = offset.unwrap_or(unit.number(4)?);
            let own = abbreviations_at(&abbreviations, offset as usize)?;
            let unit = CheckedUnit {
                object,
                section: info,
                start: at,
                end,
                version,
                relocations: &of_info,
                addresses: &of_addresses,
            };
            described.unit(
                &unit,
                EntryCursor { bytes: &bytes, at: at + header_length(version, kind) },
                &own,
            )?;
            at = end;
        }
        described.functions.sort_unstable();
        Ok(described)
    }

    fn unit(
        &mut self,
        unit: &CheckedUnit<'_>,
        mut reader: EntryCursor<'_>,
        abbreviations: &Abbreviations,
    ) -> Result<()> {
        let (mut depth, mut base) = (0usize, 0);
        while reader.at < unit.end {
            let offset = reader.at;
            let code = reader.uleb()?;
            if code == 0 {
                depth = depth
                    .checked_sub(1)
                    .ok_or_else(|| error("debug information: entries are closed twice"))?;
                continue;
            }
            let unknown =
                || error(format!("debug information: the entry at {offset:#x} has no abbreviation"));
            let (tag, has_children, attributes) = abbreviations.get(&code).ok_or_else(unknown)?;
            self.entries.push(offset as u64);
            for (name, form) in attributes {
                let at = reader.at;
                let value = reader.form(*form, unit.version)?;
                let relocation = unit.relocations.get(at as u64);
                match (*name, *form) {
                    // Its target may be removed.
                    (AT_SIBLING, _) => {}
                    (_, 0x11..=0x15) => {
                        self.references.push(unit.start as u64 + value);
                    }
                    // A reference to a symbol of another object is not checked.
                    (_, 0x10) => match relocation {
                        None => self.references.push(value),
                        Some(entry) => {
                            let place = unit.place(entry).filter(|(section, _)| *section == unit.section);
                            self.references.extend(place.map(|(_, offset)| offset));
                        }
                    },
                    (AT_ADDR_BASE | AT_GNU_ADDR_BASE, _) => {
                        base = relocation.map_or(value, |r| r.addend as u64)
                    }
                    (AT_LOW_PC, _) if *tag == TAG_SUBPROGRAM => {
                        let by_index = || unit.addresses.get(base + 8 * value);
                        let found = if *form == 0x01 { relocation } else { by_index() };
                        self.functions.extend(found.and_then(|entry| unit.place(entry)));
                    }
                    _ => {}
                }
            }
            depth += usize::from(*has_children);
        }
        match depth == 0 && reader.at == unit.end {
            true => Ok(()),
            false => Err(error("debug information: a unit is no tree of entries")),
        }
    }
}

/// The length of a unit's header in bytes. A type unit also has a signature and an offset, and a skeleton unit an id.
fn header_length(version: u64, kind: u64) -> usize {
    match (version >= 5, kind) {
        (false, _) => 11,
        (true, 2 | 6) => 24,
        (true, 4 | 5) => 20,
        (true, _) => 12,
    }
}

/// A unit that is checked, with the tables that its attributes refer to.
struct CheckedUnit<'a> {
    object: &'a Object<'a>,
    /// The index of its section `.debug_info`.
    section: usize,
    start: usize,
    end: usize,
    version: u64,
    relocations: &'a Relocations,
    /// The relocations of `.debug_addr`, in order.
    addresses: &'a Relocations,
}

impl CheckedUnit<'_> {
    /// The section and offset that a relocation means.
    fn place(&self, entry: &RelocationEntry) -> Option<(usize, u64)> {
        let symbol = self.object.symbol(entry.symbol)?;
        match self.object.place(entry.symbol, &symbol) {
            SymbolSection::Section(section) => {
                Some((section, symbol.st_value.wrapping_add_signed(entry.addend)))
            }
            _ => None,
        }
    }
}

fn abbreviations_at(bytes: &[u8], at: usize) -> Result<Abbreviations> {
    let mut reader = EntryCursor { bytes, at };
    let mut table = Abbreviations::default();
    loop {
        let code = reader.uleb()?;
        if code == 0 {
            return Ok(table);
        }
        let (tag, has_children) = (reader.uleb()?, reader.number(1)? != 0);
        let mut attributes = Vec::new();
        loop {
            let (name, form) = (reader.uleb()?, reader.uleb()?);
            if form == 0x21 {
                reader.uleb()?;
            }
            if (name, form) == (0, 0) {
                break;
            }
            attributes.push((name, form));
        }
        table.insert(code, (tag, has_children, attributes));
    }
}

struct EntryCursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl EntryCursor<'_> {
    fn skip(&mut self, count: u64) -> Result<()> {
        let end = usize::try_from(count).ok().and_then(|count| self.at.checked_add(count));
        self.at = end.filter(|end| *end <= self.bytes.len()).ok_or_else(early)?;
        Ok(())
    }

    /// A number of so many bytes, at most 8.
    fn number(&mut self, width: u64) -> Result<u64> {
        let start = self.at;
        self.skip(width)?;
        let bytes = self.bytes.get(start..self.at).unwrap_or(&[]);
        Ok(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    fn uleb(&mut self) -> Result<u64> {
        let mut value = 0u64;
        for shift in (0..70).step_by(7) {
            let byte = self.number(1)?;
            value |= (byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(early())
    }

    /// The value of an attribute as a number; 0 for other values (DWARF 5, 7.5.6).
    fn form(&mut self, form: u64, version: u64) -> Result<u64> {
        match form {
            0x10 if version <= 2 => self.number(8),
            0x0b | 0x0c | 0x11 | 0x25 | 0x29 => self.number(1),
            0x05 | 0x12 | 0x26 | 0x2a => self.number(2),
            0x27 | 0x2b => self.number(3),
            0x06 | 0x0e | 0x10 | 0x13 | 0x17 | 0x1c | 0x1d | 0x1f | 0x28 | 0x2c | 0x1f20 | 0x1f21 => {
                self.number(4)
            }
            0x01 | 0x07 | 0x14 | 0x20 | 0x24 => self.number(8),
            0x0d | 0x0f | 0x15 | 0x1a | 0x1b | 0x22 | 0x23 | 0x1f01 | 0x1f02 => self.uleb(),
            0x19 | 0x21 => Ok(0),
            0x1e => self.skip(16).map(|()| 0),
            0x08 => {
                let rest = self.bytes.get(self.at..).unwrap_or(&[]);
                let length = rest.iter().position(|byte| *byte == 0).ok_or_else(early)?;
                self.skip(length as u64 + 1).map(|()| 0)
            }
            0x03 | 0x04 | 0x0a => {
                let length = self.number(match form {
                    0x03 => 2,
                    0x04 => 4,
                    _ => 1,
                })?;
                self.skip(length).map(|()| 0)
            }
            0x09 | 0x18 => {
                let length = self.uleb()?;
                self.skip(length).map(|()| 0)
            }
            _ => Err(error(format!("debug information: an attribute of the unknown form {form:#x}"))),
        }
    }
}

fn early() -> crate::error::Error {
    error("debug information: it ends early")
}
