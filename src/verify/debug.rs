//! The debug information of a divided object, without reading its entries.
//!
//! Emission makes every address explicit, so lists, line number programs and abbreviations differ from the original.
//! Entries of units keep their places, so their section keeps its length. Programs, lists and tables of ranges must
//! be chains of lengths that end with their sections. Each relocation must mean a place in a kept part, or its end.
//! The exception is a place that is outside of the section in the original too, as a pointer may lie before its
//! object. Tests compare the answers of debuggers (`it::debuginfo`).

use goblin::elf::section_header as sh;
use goblin::elf::sym::{STT_SECTION, st_type};

use super::elf::{Object, SymbolSection, by_target, entries, error, is_debug};
use super::pair::Pair;
use crate::error::Result;

/// Check the debug sections of the emitted object.
pub(super) fn check(pair: &Pair<'_>) -> Result<()> {
    if !pair.rewritten_debug {
        return Ok(());
    }
    let tables = by_target(&pair.new);
    for j in (1..pair.new.sections.len()).filter(|j| is_debug(&pair.new, *j)) {
        let name = pair.new.section_name(j);
        let bytes = pair.new.contents(j)?;
        match name {
            b".debug_line" | b".debug_loclists" | b".debug_rnglists" | b".debug_aranges" => {
                check_chain(pair, j, bytes)?;
            }
            _ => {}
        }
        let length = |object: &Object<'_>, i: usize| match object.is_compressed(i) {
            true => None,
            false => object.sections.get(i).map(|s| s.sh_size),
        };
        let old = pair.new_of_old.iter().position(|new| *new == j && j != 0);
        if let Some(old) = old
            .filter(|_| !pair.expected.collects_debug)
            .filter(|_| [&b".debug_info"[..], b".debug_types", b".debug_addr"].contains(&name))
            && let (Some(before), Some(after)) = (length(&pair.old, old), length(&pair.new, j))
            && before != after
        {
            return Err(pair.new.about(j, "has another length than before"));
        }
        let size = bytes.len() as u64;
        for entry in entries(&pair.new, &tables, j)? {
            let symbol = pair.new.symbol(entry.symbol).ok_or_else(|| error("a symbol can't be read"))?;
            let SymbolSection::Section(target) = pair.new.place(entry.symbol, &symbol) else { continue };
            if st_type(symbol.st_info) != STT_SECTION {
                continue;
            }
            let room = pair.new.sections.get(target).map_or(0, |s| s.sh_size);
            let inside = u64::try_from(entry.addend).is_ok_and(|place| place <= room);
            let is_lost = !inside && pair.is_part(target) && !was_outside(pair, target, entry.addend)?;
            if is_lost || !pair.new.is_compressed(j) && entry.offset >= size {
                let message = format!("the relocation at {:#x} means no place of a part", entry.offset);
                return Err(pair.new.about(j, message));
            }
        }
    }
    Ok(())
}

/// Whether debug information of the original means the place `addend` of the part `new`, and the place is outside of
/// the section.
fn was_outside(pair: &Pair<'_>, new: usize, addend: i64) -> Result<bool> {
    let Some(part) = pair.part_of_new(new) else { return Ok(false) };
    let place = addend.wrapping_add(part.start as i64);
    let room = pair.old.sections.get(part.old).map_or(0, |s| s.sh_size);
    if u64::try_from(place).is_ok_and(|place| place <= room) {
        return Ok(false);
    }
    let tables = by_target(&pair.old);
    for i in (1..pair.old.sections.len()).filter(|i| is_debug(&pair.old, *i)) {
        for entry in entries(&pair.old, &tables, i)? {
            let symbol = pair.old.symbol(entry.symbol).ok_or_else(|| error("a symbol can't be read"))?;
            let target = pair.old.place(entry.symbol, &symbol);
            if entry.addend == place
                && matches!(target, SymbolSection::Section(section) if section == part.old)
            {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Check that a section consists of units, each with its 32-bit length before it (DWARF 5, 7.2.2).
fn check_chain(pair: &Pair<'_>, section: usize, bytes: &[u8]) -> Result<()> {
    let header = pair.new.sections.get(section);
    if header.is_some_and(|s| s.sh_flags & u64::from(sh::SHF_COMPRESSED) != 0) {
        return Ok(());
    }
    let mut rest = bytes;
    while let Some((length, behind)) = rest.split_first_chunk::<4>() {
        let length = u32::from_le_bytes(*length) as usize;
        let Some(next) = behind.get(length..) else { break };
        rest = next;
    }
    match rest.is_empty() {
        true => Ok(()),
        false => Err(pair.new.about(section, "is no chain of units")),
    }
}
