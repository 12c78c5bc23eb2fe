//! Section groups and link order: the ties between atoms in section headers.
//!
//! Linkers keep or discard a group as a unit, so a malformed group makes the file malformed. Members that are no
//! atoms (relocation sections) follow their section.

use object::elf;

use super::symbols::SectionAtoms;
use super::tables::{Result, Tables, malformed};
use crate::ids::{AtomIdx, GroupIdx, SymbolIdx};
use crate::summary::{Atom, Group, atom_flags};

/// Read every `SHT_GROUP` section, in section order, and mark the members.
pub(crate) fn read(tables: &Tables<'_>, by_section: &SectionAtoms, atoms: &mut [Atom]) -> Result<Vec<Group>> {
    let symbols = tables.symtab.as_ref().map_or(0, |s| s.entries.len());
    let symtab = tables.symtab.as_ref().map(|s| s.section);
    let mut groups = Vec::new();
    for (i, section) in tables.sections.iter().enumerate() {
        if section.ty != elf::SHT_GROUP.0 {
            continue;
        }
        let index = i as u32;
        let bad = |what: &str| malformed(format!("section {}: {what}", tables.describe(index)));
        if symtab != Some(section.link) || section.info as usize >= symbols {
            return Err(bad("a group without a signature symbol"));
        }
        // lld and GNU ld reject another size of entries, and emission would write the right one.
        if section.entsize != 4 {
            return Err(bad(&format!("a group with entries of {} bytes", section.entsize)));
        }
        let data = tables.data(index)?;
        let (words, rest) = data.as_chunks::<4>();
        let Some((flags, members)) = words.split_first().filter(|_| rest.is_empty()) else {
            return Err(bad("a group of odd size"));
        };
        let comdat = match u32::from_le_bytes(*flags) {
            0 => false,
            1 => true,
            other => return Err(bad(&format!("unknown group flags {other:#x}"))),
        };
        let group = GroupIdx::new(groups.len());
        let mut inside = Vec::with_capacity(members.len());
        for word in members {
            let member = u32::from_le_bytes(*word);
            if member as usize >= tables.sections.len() {
                return Err(bad(&format!("group member {member} of {} sections", tables.sections.len())));
            }
            let Some(atom) = by_section.get(member) else { continue };
            let Some(entry) = atoms.get_mut(atom.index()) else { continue };
            if entry.group.is_some() {
                return Err(bad(&format!("section {} is in two groups", tables.describe(member))));
            }
            entry.group = Some(group);
            entry.flags |= atom_flags::GROUPED;
            inside.push(atom);
        }
        inside.sort_unstable();
        groups.push(Group { section: index, signature: SymbolIdx(section.info), comdat, members: inside });
    }
    Ok(groups)
}

/// Set [`Atom::link_order`] from `sh_link`. A link of 0 means that `ld -r` discarded the other section.
pub(crate) fn read_link_order(
    tables: &Tables<'_>,
    by_section: &SectionAtoms,
    atoms: &mut [Atom],
) -> Result<()> {
    for atom in atoms.iter_mut().filter(|a| a.has(atom_flags::LINK_ORDER)) {
        let Some(section) = tables.sections.get(atom.section as usize) else { continue };
        if section.link as usize >= tables.sections.len() {
            return Err(malformed(format!(
                "section {}: ordered after section {}",
                tables.describe(atom.section),
                section.link
            )));
        }
        let target: Option<AtomIdx> = by_section.get(section.link);
        atom.link_order = target.filter(|_| section.link != 0 && section.link != atom.section);
    }
    Ok(())
}
