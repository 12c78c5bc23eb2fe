//! The check of one emitted object against its original and its plan.
//!
//! The emitted object must be well formed: every index, offset and size is in range. It must have exactly the
//! sections that the plan keeps, in order, with the same visible bytes, or the parts of a divided section. Its
//! relocations must be those of the original. Every difference must follow from the plan.

use goblin::elf::section_header as sh;

use super::elf::{Object, error, is_debug};
use super::pair::{DEBUG_FRAME, ExpectedObject, Pair, is_new_section, parts_of};
use super::parts::{self, EmittedPart};
use super::symbols::SymbolMap;
use super::{addresses, debug, debug_entries, relocations, unwind};
use crate::error::Result;

/// Check the object `emitted` against `original`. Errors name the file `name`.
///
/// # Errors
/// Stage verify, naming the section and symbol: a malformed table, a section that is missing, left over or
/// changed, a relocation that is missing, left over, or refers to something else.
pub fn object(name: &str, original: &[u8], emitted: &[u8], expected: &ExpectedObject) -> Result<()> {
    check(original, emitted, expected).map_err(|e| e.in_file(name))
}

fn check(original: &[u8], emitted: &[u8], expected: &ExpectedObject) -> Result<()> {
    let old = Object::read(original)?;
    let new = Object::read(emitted)?;
    well_formed(&new)?;
    let rewritten_debug = is_rewritten(&old, expected) || expected.collects_debug;
    let (new_of_old, parts) = match_sections(&old, &new, expected, rewritten_debug)?;
    let pair = Pair { old, new, new_of_old, parts, rewritten_debug, expected };
    let symbols = SymbolMap::new(&pair)?;
    check_groups(&pair, &symbols)?;
    relocations::check(&pair, &symbols)?;
    unwind::check(&pair, &symbols)?;
    debug::check(&pair)?;
    debug_entries::check(&pair)?;
    addresses::check(&pair)
}

/// Whether debug information must be rewritten: some code is divided, or a section with several functions is dropped.
pub(super) fn is_rewritten(old: &Object<'_>, expected: &ExpectedObject) -> bool {
    let is_code = |i: usize| old.sections.get(i).is_some_and(|s| s.is_executable());
    expected.drops_functions
        || (1..old.sections.len())
            .any(|i| is_code(i) && expected.parts.of(i).is_some_and(|atoms| atoms.len() > 1))
}

/// Whether a compressed section is decompressed in the emitted object.
pub(super) fn is_decompressed(old: &Object<'_>, before: usize, new: &Object<'_>, after: usize) -> bool {
    let alloc = old.is_alloc(before) || new.is_alloc(after);
    !alloc && old.is_compressed(before) && !new.is_compressed(after)
}

/// Pair the sections that are not tables, in order.
fn match_sections(
    old: &Object<'_>,
    new: &Object<'_>,
    expected: &ExpectedObject,
    rewritten_debug: bool,
) -> Result<(Vec<usize>, Vec<EmittedPart>)> {
    let mut all_parts = Vec::new();
    let mut new_of_old = vec![0; old.sections.len()];
    let mut rest = (1..new.sections.len()).filter(|i| !new.is_table(*i)).peekable();
    for (i, before) in old.sections.iter().enumerate().skip(1) {
        if old.is_table(i) || expected.drops(i) {
            continue;
        }
        if let Some(atoms) = expected.parts.of(i) {
            all_parts.extend(parts::find(old, new, i, &expected.parts, atoms, &mut rest)?);
            continue;
        }
        let Some(j) = rest.next() else {
            return Err(old.about(i, "is kept by the plan but missing from the pruned object"));
        };
        let Some(after) = new.sections.get(j) else { continue };
        let shape = |s: &sh::SectionHeader| {
            (s.sh_type, s.sh_flags, s.sh_size, s.sh_addralign, s.sh_entsize, s.sh_addr)
        };
        let of_any_size = rewritten_debug && is_debug(old, i) || is_decompressed(old, i, new, j);
        if old.section_name(i) != new.section_name(j) || !of_any_size && shape(before) != shape(after) {
            let found = String::from_utf8_lossy(new.section_name(j)).into_owned();
            return Err(old.about(i, format!("is kept by the plan, but in its place is {found} [{j}]")));
        }
        if let Some(slot) = new_of_old.get_mut(i) {
            *slot = j;
        }
    }
    // Units whose spans became ranges may need such a section.
    while rewritten_debug && rest.next_if(|j| is_new_section(new.section_name(*j))).is_some() {}
    if expected.has_debug_frame {
        rest.next_if(|j| new.section_name(*j) == DEBUG_FRAME);
    }
    parts::check_stubs(new, &all_parts, &mut rest)?;
    if let Some(extra) = rest.next() {
        return Err(new.about(extra, "is planned to be dropped, and is there"));
    }
    for (i, before) in old.sections.iter().enumerate().skip(1) {
        let ordered = before.sh_flags & u64::from(sh::SHF_LINK_ORDER) != 0 && before.sh_link != 0;
        if !ordered {
            continue;
        }
        let mapped = |i: usize| new_of_old.get(i).copied().unwrap_or(0);
        let to = before.sh_link as usize;
        let whole = (mapped(i) != 0).then(|| (mapped(i), 0, before.sh_size.max(1)));
        let of_parts = parts_of(&all_parts, i).iter().map(|p| (p.new, p.start, p.end));
        for (j, start, end) in whole.into_iter().chain(of_parts) {
            let link = new.sections.get(j).map_or(0, |s| s.sh_link as usize);
            // clang orders stack sizes after exception tables and jump tables, though they describe functions.
            let is_of_table = old.sections.get(to).is_some_and(|s| !s.is_executable());
            let is_after = |(section, place): (usize, u64)| {
                let parts = parts_of(&all_parts, section);
                let next = parts.partition_point(|p| p.start <= place);
                let part = next.checked_sub(1).and_then(|i| parts.get(i)).filter(|p| place < p.end);
                (section == to || is_of_table) && part.map_or(mapped(section), |p| p.new) == link
            };
            let mut after = expected.parts.ordered_after(i, start..end).peekable();
            let right = if after.peek().is_none() { mapped(to) == link } else { after.all(is_after) };
            if link == 0 || !right {
                return Err(new.about(j, "is ordered after another section than before"));
            }
        }
    }
    Ok((new_of_old, all_parts))
}

/// Check all that does not need the original.
fn well_formed(new: &Object<'_>) -> Result<()> {
    let count = new.sections.len();
    for (i, section) in new.sections.iter().enumerate().skip(1) {
        let data = new.contents(i)?;
        let alignment = section.sh_addralign.max(1);
        if !alignment.is_power_of_two() {
            return Err(new.about(i, "has an alignment that is no power of two"));
        }
        // A reader that maps the file can rely on the alignment of a page.
        if !data.is_empty() && section.sh_offset % alignment.min(4096) != 0 {
            return Err(new.about(i, "is not aligned in the file"));
        }
        if section.sh_link as usize >= count {
            return Err(new.about(i, "has a link to no section"));
        }
        let entry = match section.sh_type {
            sh::SHT_SYMTAB | sh::SHT_RELA => 24,
            sh::SHT_GROUP | sh::SHT_SYMTAB_SHNDX => 4,
            _ => 1,
        };
        if section.sh_size % entry != 0 {
            return Err(new.about(i, format!("has a size that is no multiple of {entry}")));
        }
        match section.sh_type {
            sh::SHT_GROUP => group(new, i, data)?,
            sh::SHT_RELA if section.sh_info == 0 || section.sh_info as usize >= count => {
                return Err(new.about(i, "relocates no section"));
            }
            sh::SHT_RELA if section.sh_link as usize != new.symbol_table => {
                return Err(new.about(i, "is not linked to the symbol table"));
            }
            sh::SHT_SYMTAB_SHNDX if data.len() / 4 != new.symbol_count() => {
                return Err(new.about(i, "has not one entry a symbol"));
            }
            _ => {}
        }
    }
    if new.symbol_count() > 0 && (new.first_global == 0 || new.first_global > new.symbol_count()) {
        return Err(error("sh_info of the symbol table is out of range"));
    }
    Ok(())
}

fn group(new: &Object<'_>, index: usize, data: &[u8]) -> Result<()> {
    let signature = new.sections.get(index).map_or(0, |s| s.sh_info as usize);
    if signature == 0 || signature >= new.symbol_count() {
        return Err(new.about(index, "has no signature"));
    }
    let (words, _) = data.as_chunks::<4>();
    if words.is_empty() {
        return Err(new.about(index, "is a group without flags"));
    }
    for word in words.iter().skip(1) {
        let member = u32::from_le_bytes(*word) as usize;
        if member == 0 || member == index || member >= new.sections.len() {
            return Err(new.about(index, format!("has section {member} as a member, which is none")));
        }
        // `ld -r` omits the flag in relocation sections.
        let says_so = |s: &sh::SectionHeader| s.sh_flags & u64::from(sh::SHF_GROUP) != 0;
        if !new.is_table(member) && !new.sections.get(member).is_some_and(says_so) {
            return Err(new.about(member, "is a member of a group and does not say so"));
        }
    }
    Ok(())
}

/// A group: its section, flags, signature and members.
struct Group {
    index: usize,
    flags: u32,
    signature: usize,
    members: Vec<usize>,
}

fn groups(object: &Object<'_>) -> Result<Vec<Group>> {
    let mut found = Vec::new();
    for (index, section) in object.sections.iter().enumerate().filter(|(_, s)| s.sh_type == sh::SHT_GROUP) {
        let (words, _) = object.contents(index)?.as_chunks::<4>();
        let mut words = words.iter().map(|w| u32::from_le_bytes(*w));
        found.push(Group {
            index,
            flags: words.next().unwrap_or(0),
            signature: section.sh_info as usize,
            members: words.map(|w| w as usize).collect(),
        });
    }
    Ok(found)
}

/// Check the groups. The kept members of a group must be in one group of the same name and kind, since linkers keep or discard a
/// group as a whole. A relocation section must be in the group of its target.
fn check_groups(pair: &Pair<'_>, symbols: &SymbolMap) -> Result<()> {
    let new_groups = groups(&pair.new)?;
    let mut rest = new_groups.iter();
    for old in groups(&pair.old)? {
        let of = |m: &usize| -> Vec<usize> {
            let whole = pair.new_of_old.get(*m).copied().filter(|n| *n != 0);
            whole.into_iter().chain(pair.parts_of(*m).iter().map(|p| p.new)).collect()
        };
        let kept: Vec<usize> = old.members.iter().flat_map(of).collect();
        let only_tables = old.members.iter().all(|m| pair.old.is_table(*m));
        if kept.is_empty() && !only_tables {
            continue;
        }
        let Some(new) = rest.next() else {
            return Err(pair.old.about(old.index, "the group is missing"));
        };
        let linked = pair.new.sections.get(new.index).map_or(0, |s| s.sh_link as usize);
        if new.flags != old.flags
            || linked != pair.new.symbol_table
            || !symbols.agrees(pair, old.signature, new.signature)
        {
            return Err(pair.new.about(new.index, "the group has another name or kind than before"));
        }
        let (tables, members): (Vec<usize>, Vec<usize>) =
            new.members.iter().partition(|m| pair.new.is_table(**m));
        if members != kept {
            return Err(pair.new.about(new.index, "the group has other members than the plan keeps"));
        }
        let mut sorted = members;
        sorted.sort_unstable();
        for table in tables {
            let of_target = pair.new.sections.get(table).is_some_and(|s| {
                matches!(s.sh_type, sh::SHT_RELA | sh::SHT_REL)
                    && sorted.binary_search(&(s.sh_info as usize)).is_ok()
            });
            if !of_target && !pair.new.is_unwind(table) {
                return Err(pair.new.about(table, "is in a group that its target is not in"));
            }
        }
    }
    match rest.next() {
        Some(extra) => Err(pair.new.about(extra.index, "the group is new, or should have gone")),
        None => Ok(()),
    }
}
