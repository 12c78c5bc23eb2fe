//! The groups of an emitted object against those of its original.
//!
//! The kept members of a group must be in one group of the same name and kind, since linkers keep or discard a group
//! as a whole. A relocation section must be in the group of its target.

use goblin::elf::section_header as sh;

use super::elf::Object;
use super::pair::Pair;
use super::symbols::SymbolMap;
use crate::error::Result;

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

pub(super) fn check(pair: &Pair<'_>, symbols: &SymbolMap) -> Result<()> {
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
