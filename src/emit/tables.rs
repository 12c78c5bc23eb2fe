//! Tables that hold symbol or section indices: groups, `.llvm_addrsig`, the call-graph profile.
//!
//! Each is rewritten in the order of the input, entries of what is dropped left out. Safe because each entry is a
//! fact by itself: a group loses members, the address-significance table loses symbols that do not exist any
//! more, the profile loses edges of functions that do not. Sources: gABI "Section Groups"; LLVM's
//! "Extensions" (`SHT_LLVM_ADDRSIG`, `SHT_LLVM_CALL_GRAPH_PROFILE`).

use object::elf;
use object::pod;

use super::input::{Input, LE, Rela, Role};
use super::sections::{Fates, Numbering, group_members};
use super::symbols::SymbolTable;
use crate::error::Result;

/// The contents of a group with the members that stay.
pub(super) fn group(input: &Input<'_>, sections: &Numbering, index: usize, out: &mut Vec<u8>) -> Result<()> {
    let flags = input.data(index)?.get(..4).ok_or_else(|| input.about(index, "has no flags"))?;
    out.extend_from_slice(flags);
    for member in group_members(input, index)? {
        if let Some(new) = sections.of(member as u32) {
            out.extend_from_slice(&new.to_le_bytes());
        }
    }
    Ok(())
}

/// `.llvm_addrsig`: ULEB128 symbol indices.
pub(super) fn addrsig(
    input: &Input<'_>,
    symbols: &SymbolTable,
    index: usize,
    out: &mut Vec<u8>,
) -> Result<()> {
    let mut data = input.data(index)?;
    while !data.is_empty() {
        let (symbol, rest) =
            read_uleb(data).ok_or_else(|| input.about(index, "is no list of symbol indices"))?;
        data = rest;
        if let Some(new) = symbols.of(symbol) {
            write_uleb(new, out);
        }
    }
    Ok(())
}

fn read_uleb(data: &[u8]) -> Option<(u32, &[u8])> {
    let mut value: u64 = 0;
    for (i, byte) in data.iter().enumerate().take(5) {
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte & 0x80 == 0 {
            return Some((u32::try_from(value).ok()?, data.get(i + 1..)?));
        }
    }
    None
}

fn write_uleb(mut value: u32, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A call-graph profile with the edges that stay: the weights, and the relocations that name their ends.
#[derive(Debug, Default)]
pub(super) struct Profile {
    pub(super) weights: Vec<u8>,
    pub(super) relocations: Vec<u8>,
}

/// Rewrite the call-graph profile in section `index`, whose ends are named by two `R_X86_64_NONE` relocations an
/// edge in `relocation_section`.
pub(super) fn profile(
    input: &Input<'_>,
    symbols: &SymbolTable,
    index: usize,
    relocation_section: usize,
) -> Result<Profile> {
    let weights = input.data(index)?;
    let entries: &[Rela] = input.table(relocation_section)?;
    let (edges, rest) = weights.as_chunks::<8>();
    if !rest.is_empty() || entries.len() != edges.len() * 2 {
        return Err(input.about(index, "has not two relocations for each weight"));
    }
    let mut profile = Profile::default();
    for (weight, ends) in edges.iter().zip(entries.as_chunks::<2>().0) {
        let [from, to] = ends;
        let (Some(new_from), Some(new_to)) =
            (symbols.of(from.r_sym(LE, false)), symbols.of(to.r_sym(LE, false)))
        else {
            continue;
        };
        let offset = profile.weights.len() as u64;
        profile.weights.extend_from_slice(weight);
        for (entry, symbol) in [(from, new_from), (to, new_to)] {
            if entry.r_type(LE, false) != elf::R_X86_64_NONE {
                return Err(input.about(index, "is relocated by something else than R_X86_64_NONE"));
            }
            let mut new = *entry;
            new.r_offset = object::U64::new(LE, offset);
            new.set_r_info(LE, false, symbol, elf::R_X86_64_NONE);
            profile.relocations.extend_from_slice(pod::bytes_of(&new));
        }
    }
    Ok(profile)
}

/// The relocation section of each call-graph profile that stays, as (profile, relocation section).
pub(super) fn profiles(input: &Input<'_>, fates: &Fates) -> Result<Vec<(usize, usize)>> {
    let mut found: Vec<(usize, usize)> = Vec::new();
    for (index, section) in input.sections.iter().enumerate().skip(1) {
        let target = section.sh_info.get(LE) as usize;
        if input.role(index) == Role::Relocations
            && fates.keeps(index)
            && input.role(target) == Role::CallGraphProfile
        {
            found.push((target, index));
        }
    }
    found.sort_unstable();
    if found.is_sorted_by(|a, b| a.0 < b.0) {
        return Ok(found);
    }
    let twice = found.first().map_or(0, |f| f.0);
    Err(input.about(twice, "has two relocation sections"))
}
