//! The relocations of an emitted object against those of its original.
//!
//! Each relocation of a kept section must be unchanged and mean the same symbol. In a section that is not allocated,
//! a relocation against a dropped symbol may be missing, and then the bytes of its field may differ.

use std::borrow::Cow;

use goblin::elf::sym::{STT_SECTION, st_type};

use super::addresses;
use super::elf::{
    RelocationEntry, SHN_COMMON, SHT_LLVM_ADDRSIG, SHT_LLVM_CALL_GRAPH_PROFILE, SymbolSection, by_target,
    entries, is_debug,
};
use super::pair::Pair;
use super::part_relocations::ExpectedRelocation;
use super::parts::EmittedPart;
use super::symbols::SymbolMap;
use crate::error::{Error, Result};

/// Width of the relocated field, in bytes (psABI x86-64, "Relocation Types").
fn width(kind: u32) -> u64 {
    match kind {
        0 => 0,
        12 | 13 => 2,
        14 | 15 => 1,
        1 | 17 | 18 | 24 | 33 => 8,
        _ => 4,
    }
}

/// The tombstone of a dropped target in debug information, cut to the width of the field; `None` if there is no
/// convention (other sections, relative fields).
fn tombstone(name: &[u8], kind: u32) -> Option<u64> {
    // S + A of all widths, also relative to the TLS block.
    if ![1, 10, 11, 12, 14, 17, 18, 21, 23].contains(&kind) {
        return None;
    }
    let name = name.strip_prefix(b".debug").or_else(|| name.strip_prefix(b".zdebug"))?;
    let bits = 8 * width(kind) as u32;
    Some(match name {
        b"_loc" | b"_ranges" => 1,
        b"_names" => u64::MAX.checked_shr(64 - bits).unwrap_or(0),
        _ => 0,
    })
}

/// A resolved field: its place, its width, and its value if it is known.
type Resolved = (u64, u64, Option<u64>);

/// Check the relocations and the bytes of every section that is no table, and the tables of symbol indices.
pub(super) fn check(pair: &Pair<'_>, symbols: &SymbolMap) -> Result<()> {
    let (old_tables, new_tables) = (by_target(&pair.old), by_target(&pair.new));
    for (i, &j) in pair.new_of_old.iter().enumerate() {
        let parts = pair.parts_of(i);
        if j == 0 && parts.is_empty() {
            continue;
        }
        let old = entries(&pair.old, &old_tables, i)?;
        if !parts.is_empty() {
            check_parts(pair, symbols, parts, &old, &new_tables)?;
            continue;
        }
        if pair.rewritten_debug && is_debug(&pair.old, i) {
            continue;
        }
        let new = entries(&pair.new, &new_tables, j)?;
        let missing = check_section(pair, symbols, i, &old, &new)?;
        check_bytes(pair, i, j, &missing)?;
    }
    for &(target, index) in &new_tables {
        let size = pair.new.sections.get(target).map_or(0, |s| s.sh_size);
        let placed = !pair.new.is_compressed(target);
        for entry in pair.new.relocations(index)?.iter() {
            if entry.r_sym >= pair.new.symbol_count() {
                return Err(pair.new.about(index, format!("names symbol {}, not there", entry.r_sym)));
            }
            if placed && entry.r_offset >= size {
                return Err(pair.new.about(index, "relocates a place outside of its section"));
            }
        }
    }
    check_index_tables(pair)
}

/// Compare the relocations of the parts of a section; their bytes were compared when they were found.
fn check_parts(
    pair: &Pair<'_>,
    symbols: &SymbolMap,
    parts: &[EmittedPart],
    old: &[RelocationEntry],
    new_tables: &[(usize, usize)],
) -> Result<()> {
    let mut old = old.to_vec();
    let sorted = old.is_sorted_by_key(|e| e.offset);
    if !sorted {
        old.sort_by_key(|e| e.offset);
    }
    for part in parts {
        let start = old.partition_point(|e| e.offset < part.start);
        let end = old.partition_point(|e| e.offset < part.end);
        let mut new = entries(&pair.new, new_tables, part.new)?;
        if !sorted {
            new.sort_by_key(|e| e.offset);
        }
        pair.check_part(symbols, part, old.get(start..end).unwrap_or(&[]), &new)?;
    }
    Ok(())
}

/// Compare the relocations of a section. Returns the resolved fields.
fn check_section(
    pair: &Pair<'_>,
    symbols: &SymbolMap,
    section: usize,
    old: &[RelocationEntry],
    new: &[RelocationEntry],
) -> Result<Vec<Resolved>> {
    let alloc = pair.old.is_alloc(section);
    let name = pair.old.section_name(section);
    let mut resolved = Vec::new();
    let mut rest = new.iter();
    for entry in old {
        let next = rest.as_slice().first();
        if pair.wanted(section, entry) == ExpectedRelocation::Gone {
            continue;
        }
        let same =
            next.is_some_and(|n| n.offset == entry.offset && pair.stands_for(symbols, section, entry, n));
        if same {
            rest.next();
            continue;
        }
        if alloc || !may_be_resolved(pair, entry) {
            return Err(differs(pair, section, entry));
        }
        let value = tombstone(name, entry.kind);
        let width = width(entry.kind);
        resolved.push((entry.offset, width, value));
    }
    match rest.next() {
        None => Ok(resolved),
        Some(extra) => Err(pair.old.about(section, format!("a relocation at {:#x} is new", extra.offset))),
    }
}

/// Whether a reference that keeps nothing alive may have lost its symbol: the definition here is dropped, or the
/// symbol is undefined.
fn may_be_resolved(pair: &Pair<'_>, entry: &RelocationEntry) -> bool {
    let symbol = entry.symbol;
    let Some(old) = pair.old.symbol(symbol) else { return false };
    match pair.old.place(symbol, &old) {
        SymbolSection::Undefined => symbol != 0,
        SymbolSection::Section(s) if pair.parted_by_symbol(symbol).is_some() => {
            pair.is_dropped(s, u64::try_from(entry.addend).unwrap_or(0))
        }
        SymbolSection::Section(s) => pair.is_dropped(s, old.st_value),
        SymbolSection::Special(special) => special == SHN_COMMON,
    }
}

pub(super) fn differs(pair: &Pair<'_>, section: usize, entry: &RelocationEntry) -> Error {
    let name = pair.old.symbol(entry.symbol).map(|s| {
        let section_symbol = st_type(s.st_info) == STT_SECTION;
        let name = if section_symbol { pair.old.section_name(s.st_shndx) } else { pair.old.symbol_name(&s) };
        String::from_utf8_lossy(name).into_owned()
    });
    pair.old
        .about(
            section,
            format!("the relocation at {:#x} is missing or refers to something else", entry.offset),
        )
        .at_symbol(name.unwrap_or_default())
}

/// Compare contents except the `resolved` fields.
fn check_bytes(pair: &Pair<'_>, i: usize, j: usize, resolved: &[Resolved]) -> Result<()> {
    let (old, new) = match pair.new.is_compressed(j) {
        true => (Cow::Borrowed(pair.old.contents(i)?), pair.new.contents(j)?),
        false => (pair.old.uncompressed(i)?, pair.new.contents(j)?),
    };
    if resolved.is_empty() {
        return if old == new { Ok(()) } else { Err(pair.old.about(i, "has other contents")) };
    }
    let mut fields: Vec<(usize, usize)> = Vec::with_capacity(resolved.len());
    for (offset, width, value) in resolved {
        let start = usize::try_from(*offset).unwrap_or(usize::MAX);
        let end = start.saturating_add(*width as usize);
        let field = new.get(start..end);
        let expected = value.map(u64::to_le_bytes);
        let right = match (field, &expected) {
            (Some(field), Some(value)) => value.starts_with(field),
            (Some(_), None) => true,
            (None, _) => false,
        };
        if !right {
            return Err(pair.old.about(i, format!("what is at {start:#x} stands for no dropped target")));
        }
        fields.push((start, end));
    }
    fields.sort_unstable();
    let mut at = 0;
    for (start, end) in fields {
        let start = start.clamp(at, old.len().max(at));
        if old.get(at..start) != new.get(at..start) {
            return Err(pair.old.about(i, format!("has other contents between {at:#x} and {start:#x}")));
        }
        at = at.max(end);
    }
    if old.len() != new.len() || (at < old.len() && old.get(at..) != new.get(at..)) {
        return Err(pair.old.about(i, "has other contents at its end"));
    }
    Ok(())
}

/// Check that `.llvm_addrsig` and the call-graph profile name existing symbols.
fn check_index_tables(pair: &Pair<'_>) -> Result<()> {
    for (j, section) in pair.new.sections.iter().enumerate() {
        match section.sh_type {
            SHT_LLVM_ADDRSIG if section.sh_link as usize == pair.new.symbol_table => {
                addresses::listed(&pair.new, j)?;
            }
            SHT_LLVM_CALL_GRAPH_PROFILE if section.sh_size % 8 != 0 => {
                return Err(pair.new.about(j, "is no list of weights"));
            }
            _ => {}
        }
    }
    Ok(())
}
