//! The check of a new address-significance table.
//!
//! The linker may fold functions that the table omits. The table must exist exactly if the plan has one, and it is
//! checked with the emitted object alone. It must list every symbol with a relocation that is not the distance of a
//! direct call or jump. It must list each section with a symbol, unless it is code whose original has an FDE from its
//! first byte on. A global symbol must be listed itself, since another definition may prevail; of a local one any
//! symbol of its section suffices. A function with the bytes of a `lea` of a place in itself must be listed too.
//! Other ways to form its own address are not checked.

use goblin::elf::reloc::{R_X86_64_PC32, R_X86_64_PLT32};
use goblin::elf::section_header as sh;

use super::elf::{Object, RelocationEntry, SHT_LLVM_ADDRSIG, SymbolSection, by_target, entries};
use super::pair::Pair;
use crate::error::Result;

/// The tables of an object that linkers read.
fn tables<'o>(object: &'o Object<'_>) -> impl Iterator<Item = usize> + 'o {
    let ours =
        |s: &sh::SectionHeader| s.sh_type == SHT_LLVM_ADDRSIG && s.sh_link as usize == object.symbol_table;
    object.sections.iter().enumerate().filter(move |(_, s)| ours(s)).map(|(i, _)| i)
}

/// Check the table, if the plan wants one.
pub(super) fn check(pair: &Pair<'_>) -> Result<()> {
    let new = &pair.new;
    let mut found = tables(new);
    let (first, second) = (found.next(), found.next());
    if !pair.expected.addresses {
        return match first.filter(|_| tables(&pair.old).next().is_none()) {
            Some(table) => Err(new.about(table, "is new, and the plan does not want it")),
            None => Ok(()),
        };
    }
    let missing = || super::elf::error("the address-significance table is missing, or not the only one");
    let table = first.filter(|_| second.is_none()).ok_or_else(missing)?;
    if new.sections.get(table).is_none_or(|s| s.sh_flags != u64::from(sh::SHF_EXCLUDE)) {
        return Err(new.about(table, "has other flags than linkers look for"));
    }
    let listed = listed(new, table)?;
    let mut unique = vec![false; new.sections.len()];
    let mut named = vec![false; new.sections.len()];
    for (i, listed) in listed.iter().enumerate().skip(1) {
        let place = new.symbol(i).map(|s| new.place(i, &s));
        if let Some(SymbolSection::Section(section)) = place
            && let (Some(unique), Some(named)) = (unique.get_mut(section), named.get_mut(section))
        {
            *unique |= listed;
            *named = true;
        }
    }
    let by_target = by_target(new);
    let mut described = vec![false; new.sections.len()];
    for (section, header) in new.sections.iter().enumerate().skip(1) {
        if header.sh_type == sh::SHT_RELA || !new.is_alloc(section) && !new.is_unwind(section) {
            continue;
        }
        for entry in entries(new, &by_target, section)? {
            let Some(symbol) = new.symbol(entry.symbol).filter(|_| entry.symbol != 0) else { continue };
            let place = new.place(entry.symbol, &symbol);
            if new.is_unwind(section) {
                if let SymbolSection::Section(to) = place
                    && symbol.st_value.checked_add_signed(entry.addend) == Some(0)
                    && let Some(slot) = described.get_mut(to)
                {
                    *slot = true;
                }
                continue;
            }
            let local = entry.symbol < new.first_global;
            let safe = match place {
                _ if listed.get(entry.symbol) == Some(&true) => true,
                SymbolSection::Section(to) if local => unique.get(to) == Some(&true),
                SymbolSection::Special(_) if local => true,
                _ => false,
            };
            if !safe && !is_branch(new, section, &entry)? {
                let name = String::from_utf8_lossy(new.symbol_name(&symbol)).into_owned();
                let message = format!("leaves out what {:#x} of section {section} refers to", entry.offset);
                return Err(new.about(table, message).at_symbol(name));
            }
        }
    }
    for (section, header) in new.sections.iter().enumerate().skip(1) {
        let is = |flag: u32| header.sh_flags & u64::from(flag) != 0;
        if unique.get(section) == Some(&true) || named.get(section) != Some(&true) || !is(sh::SHF_ALLOC) {
            continue;
        }
        let code = header.sh_type == sh::SHT_PROGBITS && is(sh::SHF_EXECINSTR) && !is(sh::SHF_WRITE);
        if new.is_unwind(section) {
            continue;
        }
        if !code || described.get(section) != Some(&true) && !loses_entry(pair, section) {
            return Err(
                new.about(section, "is left out of the address-significance table, and is no function")
            );
        }
        if has_own_lea(new.contents(section)?, &entries(new, &by_target, section)?) {
            return Err(new.about(section, "forms its own address, which the table leaves out"));
        }
    }
    Ok(())
}

/// Whether the function at the start of a section is kept without its FDE. Then no function of the link needs one.
fn loses_entry(pair: &Pair<'_>, section: usize) -> bool {
    let place = match pair.part_of_new(section) {
        Some(part) => Some((part.old, part.start)),
        None => pair.new_of_old.iter().position(|new| *new == section).map(|old| (old, 0)),
    };
    place.is_some_and(|(old, start)| pair.expected.removes_unwind_at(old, start))
}

/// By symbol: whether the table lists it.
pub(super) fn listed(object: &Object<'_>, table: usize) -> Result<Vec<bool>> {
    let mut listed = vec![false; object.symbol_count()];
    let (mut value, mut shift) = (0u64, 0u32);
    for byte in object.contents(table)? {
        value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(u64::MAX);
        shift += 7;
        if byte & 0x80 == 0 {
            match usize::try_from(value).ok().and_then(|v| listed.get_mut(v)) {
                Some(slot) => *slot = true,
                None => return Err(object.about(table, format!("names symbol {value}, not there"))),
            }
            (value, shift) = (0, 0);
        }
    }
    if shift != 0 {
        return Err(object.about(table, "ends in the middle of an entry"));
    }
    Ok(listed)
}

/// Whether a relocation is of type PC32 or PLT32, behind the opcode of a direct call or jump.
fn is_branch(object: &Object<'_>, section: usize, entry: &RelocationEntry) -> Result<bool> {
    let code = object.sections.get(section).is_some_and(|s| s.sh_flags & u64::from(sh::SHF_EXECINSTR) != 0);
    let before = usize::try_from(entry.offset).ok().and_then(|at| object.contents(section).ok()?.get(..at));
    let opcode = matches!(before, Some([.., 0xe8 | 0xe9] | [.., 0x0f, 0x80..=0x8f]));
    Ok(code && matches!(entry.kind, R_X86_64_PC32 | R_X86_64_PLT32) && opcode)
}

/// Whether there are bytes of a `lea` of a place in the same section, without a relocation.
fn has_own_lea(bytes: &[u8], relocations: &[RelocationEntry]) -> bool {
    bytes.array_windows::<7>().enumerate().any(|(at, window)| {
        let [rex, opcode, operand, field @ ..] = window;
        let target = (at as i64 + 7).wrapping_add(i64::from(i32::from_le_bytes(*field)));
        rex >> 3 == 9
            && *opcode == 0x8d
            && operand & 0xc7 == 5
            && usize::try_from(target).is_ok_and(|t| t < bytes.len())
            && !relocations.iter().any(|r| r.offset == at as u64 + 3)
    })
}
