//! Compile units of DWARF 2 to 5: the addresses of their code, and their part of `.debug_info`.

use std::borrow::Cow;

use gimli::{AbbreviationsCacheStrategy, Dwarf, EndianSlice, LittleEndian, Unit};
use object::elf;

use super::coverage::Claim;
use super::file::{AuditedFile, AuditedSection, LE};
use super::owners::{Owner, Owners};
use crate::compression::decompress;

type DwarfBytes<'d> = EndianSlice<'d, LittleEndian>;

/// Addresses and the module whose code is there, in ascending order.
#[derive(Debug, Default)]
pub(super) struct UnitRanges {
    ranges: Vec<(u64, u64, u32)>,
}

impl UnitRanges {
    /// Each module once, in ascending order.
    pub(super) fn modules(&self) -> Vec<u32> {
        let mut modules: Vec<u32> = self.ranges.iter().map(|r| r.2).collect();
        modules.sort_unstable();
        modules.dedup();
        modules
    }

    /// The module whose code is at an address.
    pub(super) fn module(&self, address: u64) -> Option<u32> {
        let next = self.ranges.partition_point(|r| r.0 <= address);
        self.ranges.get(next.checked_sub(1)?).filter(|r| address < r.1).map(|r| r.2)
    }
}

/// The contents of a section, decompressed.
pub(super) fn contents<'a>(section: &AuditedSection<'a>) -> Option<Cow<'a, [u8]>> {
    if !section.is_compressed() {
        return Some(Cow::Borrowed(section.bytes));
    }
    let (header, bytes) =
        object::pod::from_bytes::<elf::CompressionHeader64<object::LittleEndian>>(section.bytes).ok()?;
    // No compression makes less than a thousandth of debug information.
    let size = header.ch_size.get(LE);
    if size / 1000 > bytes.len() as u64 {
        return None;
    }
    decompress(header.ch_type.get(LE).0, size, bytes).map(Cow::Owned)
}

/// Read the units of a linked file; what they have of a section that is not compressed is added to `claims`.
pub(super) fn read<'a>(
    file: &AuditedFile<'a>,
    owners: &mut Owners<'a>,
    claims: &mut Vec<Claim>,
) -> UnitRanges {
    let mut found = UnitRanges::default();
    let sections = gimli::DwarfSections::load(|id| -> Result<_, gimli::Error> {
        let section = file.sections.iter().find(|s| s.name == id.name());
        Ok(section.and_then(contents).unwrap_or_default())
    });
    let Ok(sections) = sections else { return found };
    let mut dwarf = sections.borrow(|bytes| DwarfBytes::new(bytes, LittleEndian));
    dwarf.populate_abbreviations_cache(AbbreviationsCacheStrategy::Duplicates);
    let info = file.sections.iter().find(|s| s.name == ".debug_info" && !s.is_compressed());
    // No file has more ranges than bytes: one table that many units name would make more.
    let most = file.data.len();
    let mut headers = dwarf.units();
    while let Ok(Some(header)) = headers.next() {
        let (offset, length) = (header.debug_info_offset().map(|o| o.0), header.length_including_self());
        let Ok(unit) = dwarf.unit(header) else { continue };
        let Some(name) = name(&dwarf, &unit) else { continue };
        let module = owners.module(Cow::Owned(name));
        if let (Some(info), Some(offset)) = (info, offset) {
            let owner = owners.push(Owner { name: None, home: None, module: Some(module) });
            let start = info.start.saturating_add(offset as u64);
            claims.push(Claim { start, end: start.saturating_add(length as u64).min(info.end()), owner });
        }
        let Ok(mut ranges) = dwarf.unit_ranges(&unit) else { continue };
        while let Ok(Some(range)) = ranges.next() {
            // Linkers leave 0 or 1 where code was removed.
            if range.begin > 1 && range.begin < range.end && found.ranges.len() < most {
                found.ranges.push((range.begin, range.end, module));
            }
        }
    }
    found.ranges.sort_unstable();
    found
}

/// The name of a unit: its source file, as the compiler was told it.
fn name(dwarf: &Dwarf<DwarfBytes<'_>>, unit: &Unit<DwarfBytes<'_>>) -> Option<String> {
    let name = match unit.name {
        Some(name) => name,
        // The part in the program of a unit whose entries are in another file.
        None => {
            let mut entries = unit.entries();
            entries.next_dfs().ok()?;
            let value = entries.current()?.attr_value(gimli::constants::DW_AT_dwo_name)?;
            dwarf.attr_string(unit, value).ok()?
        }
    };
    Some(String::from_utf8_lossy(name.slice()).into_owned()).filter(|n| !n.is_empty())
}
