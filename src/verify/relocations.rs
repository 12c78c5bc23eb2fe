//! Symbols and relocations of an emitted object against those of its original.
//!
//! Each symbol of the emitted object must be one of the original's, in order: defined at the same place of the same
//! section, or undefined where the original was, or undefined because the plan dropped its definition. Each
//! relocation of a section that stays must be there unchanged and mean the same symbol. In a section that is not
//! allocated one may be missing whose symbol is dropped; only the bytes that it relocates may differ.

use std::borrow::Cow;

use goblin::elf::section_header as sh;
use goblin::elf::sym::{STB_LOCAL, STB_WEAK, STT_SECTION, Sym, st_bind, st_type};

use super::debug;
use super::elf::{Object, Place, SHN_ABS, SHN_COMMON, SHT_LLVM_ADDRSIG, SHT_LLVM_CALL_GRAPH_PROFILE, error};
use super::object::Pair;
use super::parts::{Part, Wanted};
use crate::error::{Error, Result};

/// Which symbol of the emitted object is which of the original.
#[derive(Debug)]
pub(super) struct SymbolMap {
    /// By symbol of the original; `u32::MAX` for one that is not there any more.
    new_of_old: Vec<u32>,
}

impl SymbolMap {
    pub(super) fn new(pair: &Pair<'_>) -> Result<Self> {
        let count = pair.old.symbol_count();
        let mut map = SymbolMap { new_of_old: vec![u32::MAX; count] };
        let mut next_old = 0;
        for j in 0..pair.new.symbol_count() {
            let symbol = pair.new.symbol(j).ok_or_else(|| error("a symbol can't be read"))?;
            if !pair.new.has_name(&symbol) {
                return Err(error(format!("the name of symbol {j} is outside of its table")));
            }
            let local = st_bind(symbol.st_info) == STB_LOCAL;
            if local != (j < pair.new.first_global) {
                return Err(error(format!("symbol {j} is on the wrong side of sh_info")));
            }
            let Some(i) = (next_old..count).find(|i| is_same(pair, *i, j, &symbol)) else {
                if pair.is_of_part(j, &symbol) {
                    continue;
                }
                let name = String::from_utf8_lossy(pair.new.symbol_name(&symbol)).into_owned();
                return Err(error(format!("symbol {j} is none of the original's")).at_symbol(name));
            };
            if let Some(slot) = map.new_of_old.get_mut(i) {
                *slot = j as u32;
            }
            next_old = i + 1;
        }
        Ok(map)
    }

    /// Whether symbol `new` of the emitted object means what `old` of the original does.
    pub(super) fn agrees(&self, pair: &Pair<'_>, old: usize, new: usize) -> bool {
        match self.new_of_old.get(old) {
            Some(mapped) if *mapped as usize == new => true,
            // Two symbols of the original may be the same in all but their number.
            Some(_) => pair.new.symbol(new).is_some_and(|s| is_same(pair, old, new, &s)),
            None => false,
        }
    }
}

/// Whether symbol `j` of the emitted object may stand for symbol `i` of the original.
fn is_same(pair: &Pair<'_>, i: usize, j: usize, new: &Sym) -> bool {
    let Some(old) = pair.old.symbol(i) else { return false };
    if i == 0 || j == 0 {
        return i == j;
    }
    let (old_place, new_place) = (pair.old.place(i, &old), pair.new.place(j, new));
    let size = match new_place {
        Place::Section(t) if old.st_size != 0 => pair.stub_size(t).unwrap_or(old.st_size),
        _ => old.st_size,
    };
    let same_shape = (old.st_info, old.st_other, size) == (new.st_info, new.st_other, new.st_size);
    let plausible = match (old_place, new_place) {
        (Place::Section(s), Place::Section(t)) if pair.old.is_table(s) => {
            let types = (pair.old.sections.get(s), pair.new.sections.get(t));
            same_shape && matches!(types, (Some(a), Some(b)) if a.sh_type == b.sh_type)
        }
        (Place::Section(s), Place::Section(t)) => {
            let section = pair.parted_by_symbol(i);
            let first = || pair.parts_of(s).first().is_some_and(|p| p.new == t) && new.st_value == 0;
            same_shape
                && match section {
                    Some(_) => first(),
                    None => pair.is_same_place(s, old.st_value, t, new.st_value),
                }
        }
        (Place::Undefined, Place::Undefined) => {
            let weakened = weak(new) && old.st_other == new.st_other && is_global(&old);
            (same_shape && old.st_value == new.st_value) || (weakened && new.st_value == 0)
        }
        (Place::Section(s), Place::Undefined) => {
            let gone = pair.is_dropped(s, old.st_value) || pair.old.is_table(s);
            gone && may_be_undefined(pair, i, &old, new)
        }
        (Place::Special(SHN_COMMON), Place::Undefined) => may_be_undefined(pair, i, &old, new),
        (Place::Special(a), Place::Special(b)) => a == b && same_shape && old.st_value == new.st_value,
        // The local signature of a group, its own definition dropped.
        (Place::Section(s), Place::Special(SHN_ABS)) => {
            pair.is_dropped(s, old.st_value)
                && !is_global(&old)
                && old.st_info == new.st_info
                && new.st_value == 0
        }
        _ => false,
    };
    plausible && pair.old.symbol_name(&old) == pair.new.symbol_name(new)
}

fn is_global(symbol: &Sym) -> bool {
    st_bind(symbol.st_info) != STB_LOCAL
}

fn weak(symbol: &Sym) -> bool {
    st_bind(symbol.st_info) == STB_WEAK
}

/// A dropped definition leaves a reference behind where another one prevails, else at most its visibility.
fn may_be_undefined(pair: &Pair<'_>, i: usize, old: &Sym, new: &Sym) -> bool {
    is_global(old)
        && (new.st_other, new.st_value, new.st_size) == (old.st_other, 0, 0)
        && (weak(new) || pair.expected.is_replaced(i))
}

/// A relocation, as both objects have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RelocationEntry {
    pub(super) offset: u64,
    pub(super) kind: u32,
    pub(super) symbol: usize,
    pub(super) addend: i64,
}

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

/// The value that stands for a dropped target in debug information, cut to the width of the field; `None` where
/// there is no convention (other sections, relative fields).
fn tombstone(name: &[u8], kind: u32) -> Option<u64> {
    // S + A of all widths, and the same relative to the TLS block.
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

/// A field that was resolved: its place, its width, and its value if that is known.
type Resolved = (u64, u64, Option<u64>);

/// The relocation sections of an object, as (target, relocation section), by target.
pub(super) fn by_target(object: &Object<'_>) -> Vec<(usize, usize)> {
    let mut pairs: Vec<(usize, usize)> = object
        .sections
        .iter()
        .enumerate()
        .filter(|(_, s)| s.sh_type == sh::SHT_RELA || s.sh_type == sh::SHT_REL)
        .map(|(i, s)| (s.sh_info as usize, i))
        .collect();
    pairs.sort_unstable();
    pairs
}

pub(super) fn entries(
    object: &Object<'_>,
    by_target: &[(usize, usize)],
    target: usize,
) -> Result<Vec<RelocationEntry>> {
    let start = by_target.partition_point(|(t, _)| *t < target);
    let end = by_target.partition_point(|(t, _)| *t <= target);
    let mut all = Vec::new();
    for (_, index) in by_target.get(start..end).unwrap_or(&[]) {
        let table = object.relocations(*index)?;
        all.reserve(table.len());
        all.extend(table.iter().map(|r| RelocationEntry {
            offset: r.r_offset,
            kind: r.r_type,
            symbol: r.r_sym,
            addend: r.r_addend.unwrap_or(0),
        }));
    }
    Ok(all)
}

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
        if pair.rewritten_debug && debug::is_debug(&pair.old, i) {
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
    parts: &[Part],
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

/// Compare the relocations of a section; returns the fields that were resolved.
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
        if pair.wanted(section, entry) == Wanted::Gone {
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

/// Whether a reference that keeps nothing alive may have lost the symbol: its definition here is dropped, or it has
/// none here at all.
fn may_be_resolved(pair: &Pair<'_>, entry: &RelocationEntry) -> bool {
    let symbol = entry.symbol;
    let Some(old) = pair.old.symbol(symbol) else { return false };
    match pair.old.place(symbol, &old) {
        Place::Undefined => symbol != 0,
        Place::Section(s) if pair.parted_by_symbol(symbol).is_some() => {
            pair.is_dropped(s, u64::try_from(entry.addend).unwrap_or(0))
        }
        Place::Section(s) => pair.is_dropped(s, old.st_value),
        Place::Special(special) => special == SHN_COMMON,
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

/// Compare contents, but for the `resolved` fields.
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

/// `.llvm_addrsig` and the call-graph profile name symbols that are there; the former at most those it named before.
fn check_index_tables(pair: &Pair<'_>) -> Result<()> {
    for (j, section) in pair.new.sections.iter().enumerate() {
        match section.sh_type {
            SHT_LLVM_ADDRSIG if section.sh_link as usize == pair.new.symbol_table => {
                let mut value = 0u64;
                let mut shift = 0;
                for byte in pair.new.contents(j)? {
                    value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(u64::MAX);
                    shift += 7;
                    if byte & 0x80 == 0 {
                        if value >= pair.new.symbol_count() as u64 {
                            return Err(pair.new.about(j, format!("names symbol {value}, not there")));
                        }
                        (value, shift) = (0, 0);
                    }
                }
            }
            SHT_LLVM_CALL_GRAPH_PROFILE if section.sh_size % 8 != 0 => {
                return Err(pair.new.about(j, "is no list of weights"));
            }
            _ => {}
        }
    }
    Ok(())
}
