//! The LSDA of an FDE in a divided exception table: all of it must be there.
//!
//! The check reads the same data as a personality routine that looks for a handler (Itanium C++ ABI, "Exception
//! Handling Tables"): header, call sites, action records, types and exception specifications. Each byte must be in
//! the part of the first one.

use super::elf::{RelocationEntry, SymbolSection};
use super::pair::Pair;

const OMIT: u8 = 0xff;

/// The start of an LSDA: section of the original, and offset in it.
pub(super) type LsdaStart = (usize, u64);

/// The LSDA that a relocation of an FDE means, if its table is divided.
pub(super) fn start(pair: &Pair<'_>, entry: &RelocationEntry) -> Option<LsdaStart> {
    let symbol = pair.old.symbol(entry.symbol)?;
    let SymbolSection::Section(section) = pair.old.place(entry.symbol, &symbol) else { return None };
    let is_table = pair.old.section_name(section).starts_with(b".gcc_except_table");
    (is_table && pair.expected.parts.of(section).is_some())
        .then_some((section, symbol.st_value.wrapping_add_signed(entry.addend)))
}

/// Whether all of an LSDA is in one part. `starts` are those of all FDEs, sorted.
pub(super) fn is_whole(pair: &Pair<'_>, (section, start): LsdaStart, starts: &[LsdaStart]) -> bool {
    let next = starts.get(starts.partition_point(|other| *other <= (section, start)));
    let next = next.filter(|(other, _)| *other == section).map(|(_, next)| *next as usize);
    let bytes = pair.old.contents(section).ok();
    let end = bytes.and_then(|bytes| read(bytes, start as usize, next.unwrap_or(usize::MAX)));
    end.is_some_and(|end| pair.holds(section, start, (end as u64).saturating_sub(start)))
}

/// Reads one LSDA and notes how far it reaches.
struct LsdaScan<'d> {
    bytes: &'d [u8],
    at: usize,
    /// Behind the last byte that was read.
    end: usize,
    /// The first byte that actions and types may have.
    floor: usize,
    types_end: Option<usize>,
    type_size: usize,
    /// How many more numbers may be read.
    left: usize,
}

/// The first byte behind all that is read of the LSDA at `start`; `None` if it is of another form. Call sites end where the next LSDA begins.
fn read(bytes: &[u8], start: usize, next: usize) -> Option<usize> {
    let left = bytes.len().checked_mul(16)?;
    let mut scan = LsdaScan { bytes, at: start, end: start, floor: 0, types_end: None, type_size: 0, left };
    let base = scan.byte()?;
    if base != OMIT {
        scan.pointer(base)?;
    }
    let types = scan.byte()?;
    if types != OMIT {
        let length = scan.unsigned()? as usize;
        scan.types_end = Some(scan.at.checked_add(length)?);
        scan.end = scan.end.max(scan.at.checked_add(length)?);
        scan.type_size = match types & 0x0f {
            _ if !matches!(types & 0x70, 0 | 0x10) => return None,
            0 | 4 | 12 => 8,
            3 | 11 => 4,
            2 | 10 => 2,
            _ => return None,
        };
    }
    let encoding = scan.byte()?;
    let length = scan.unsigned()? as usize;
    let sites_end = scan.at.checked_add(length)?;
    scan.floor = sites_end;
    scan.end = scan.end.max(sites_end);
    let mut actions = Vec::new();
    while scan.at < sites_end.min(next) {
        for _ in 0..3 {
            scan.pointer(encoding)?;
        }
        let action = scan.unsigned()? as usize;
        if scan.at > sites_end.min(next) {
            // The padding before the next LSDA was read as a call site.
            if next < sites_end {
                break;
            }
            return None;
        }
        if action != 0 {
            actions.push(sites_end.checked_add(action - 1)?);
        }
    }
    // Bytes of the next LSDA do not count.
    if next < sites_end {
        scan.end = scan.end.min(sites_end.max(scan.types_end.unwrap_or(0)));
    }
    actions.sort_unstable();
    actions.dedup();
    actions.into_iter().try_for_each(|action| scan.actions(action))?;
    (scan.end <= bytes.len()).then_some(scan.end)
}

impl LsdaScan<'_> {
    fn byte(&mut self) -> Option<u8> {
        let byte = self.bytes.get(self.at).copied()?;
        self.at += 1;
        self.end = self.end.max(self.at);
        self.left = self.left.checked_sub(1)?;
        Some(byte)
    }

    fn unsigned(&mut self) -> Option<u64> {
        let mut value = 0;
        for group in 0..9 {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << (7 * group);
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn signed(&mut self) -> Option<i64> {
        let before = self.at;
        let value = self.unsigned()?;
        let unused = 64 - 7 * (self.at - before) as u32;
        Some((value << unused) as i64 >> unused)
    }

    fn pointer(&mut self, encoding: u8) -> Option<()> {
        let size = match encoding & 0x0f {
            1 | 9 => return self.unsigned().map(|_| ()),
            0 | 4 | 12 => 8,
            3 | 11 => 4,
            2 | 10 => 2,
            _ => return None,
        };
        (0..size).try_for_each(|_| self.byte().map(|_| ()))
    }

    fn of_type(&self, number: u64) -> Option<()> {
        let back = usize::try_from(number).ok()?.checked_mul(self.type_size)?;
        (self.types_end?.checked_sub(back)? >= self.floor).then_some(())
    }

    fn actions(&mut self, first: usize) -> Option<()> {
        let mut next = Some(first);
        while let Some(at) = next {
            if at < self.floor {
                return None;
            }
            self.at = at;
            let filter = self.signed()?;
            let from = self.at;
            let distance = self.signed()?;
            next = match distance {
                0 => None,
                _ => Some(from.checked_add_signed(isize::try_from(distance).ok()?)?),
            };
            if filter > 0 {
                self.of_type(filter as u64)?;
            } else if filter < 0 {
                self.at = self.types_end?.checked_add(usize::try_from(-1 - filter).ok()?)?;
                loop {
                    match self.unsigned()? {
                        0 => break,
                        number => self.of_type(number)?,
                    }
                }
            }
        }
        Some(())
    }
}
