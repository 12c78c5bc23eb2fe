//! New contents of sections and new sections, applied to an object.
//!
//! The indices of sections and symbols do not change, so a plan for the old object also fits the new one.

use object::{U64, elf};

use super::view::{contents, is_compressed};
use crate::emit::input::{Contents, Input, LE, Overlay, Rela, Role};
use crate::emit::write::{new_header, relocation_header};
use crate::error::Result;

#[derive(Debug)]
pub(super) struct Change {
    pub(super) section: usize,
    /// The new contents; `None` if they do not change.
    pub(super) bytes: Option<Vec<u8>>,
    /// All its relocations; `None` if they do not change.
    pub(super) relocations: Option<Vec<Rela>>,
}

/// A new debug section, with a relocation section behind it.
#[derive(Debug)]
pub(super) struct Addition {
    pub(super) name: &'static [u8],
    pub(super) bytes: Vec<u8>,
    pub(super) relocations: Vec<Rela>,
    /// The alignment of the section, in bytes.
    pub(super) align: u64,
}

#[derive(Debug, Default)]
pub(super) struct Surgery {
    pub(super) changes: Vec<Change>,
    pub(super) additions: Vec<Addition>,
}

/// The index that the `number`th new section gets.
pub(super) fn index_of_addition(input: &Input<'_>, number: usize) -> usize {
    input.sections.len() + 2 * number
}

impl Surgery {
    /// Decompress all relocated sections that have no new contents.
    pub(super) fn decompress(&mut self, input: &Input<'_>) -> Result<()> {
        for table in (1..input.sections.len()).filter(|i| input.role(*i) == Role::Relocations) {
            let section = input.section(table)?.sh_info.get(LE) as usize;
            let changed = self.changes.iter_mut().find(|c| c.section == section);
            if !is_compressed(input, section) || changed.as_ref().is_some_and(|c| c.bytes.is_some()) {
                continue;
            }
            let bytes = Some(contents(input, section)?.into_owned());
            match changed {
                Some(change) => change.bytes = bytes,
                None => self.changes.push(Change { section, bytes, relocations: None }),
            }
        }
        Ok(())
    }

    pub(super) fn perform(self, input: &Input<'_>) -> Result<Overlay> {
        let mut overlay = Overlay {
            headers: input.sections.to_vec(),
            contents: (0..input.sections.len()).map(|_| None).collect(),
        };
        let mut names = input.data(input.section_names)?.to_vec();
        let symbols = input.symbol_table.unwrap_or(0) as u32;
        for addition in self.additions {
            let target = overlay.headers.len() as u32;
            let own_name = name(&mut names, &[addition.name]);
            let header = new_header(own_name, elf::SHT_PROGBITS, 0, addition.align);
            overlay.push(header, Contents::Bytes(addition.bytes));
            let header = relocation_header(name(&mut names, &[b".rela", addition.name]), symbols, target, 0);
            overlay.push(header, Contents::Relocations(addition.relocations));
        }
        for change in self.changes {
            if let Some(bytes) = change.bytes {
                let mut header = *input.section(change.section)?;
                let flags = header.sh_flags.get(LE).0;
                if flags & elf::SHF_COMPRESSED.0 != 0 {
                    header.sh_flags = U64::new(LE, elf::SectionFlags(flags & !elf::SHF_COMPRESSED.0));
                    header.sh_addralign = U64::new(LE, 1);
                }
                overlay.set(change.section, header, Contents::Bytes(bytes));
            }
            let Some(mut relocations) = change.relocations else { continue };
            let mut tables = tables_of(input, change.section).peekable();
            if tables.peek().is_none() && !relocations.is_empty() {
                if input.section(change.section)?.sh_flags.get(LE).0 & elf::SHF_GROUP.0 != 0 {
                    return Err(input.about(change.section, "is of a group, and would need relocations"));
                }
                let name = name(&mut names, &[b".rela", input.section_name(change.section)]);
                let header = relocation_header(name, symbols, change.section as u32, 0);
                overlay.push(header, Contents::Relocations(std::mem::take(&mut relocations)));
            }
            // The first table gets all of them, and the others become empty.
            for table in tables {
                let all = Contents::Relocations(std::mem::take(&mut relocations));
                overlay.set(table, *input.section(table)?, all);
            }
        }
        overlay.set(input.section_names, *input.section(input.section_names)?, Contents::Bytes(names));
        Ok(overlay)
    }
}

/// The relocation sections of a section.
fn tables_of<'i>(input: &'i Input<'_>, section: usize) -> impl Iterator<Item = usize> + 'i {
    (1..input.sections.len()).filter(move |table| {
        let target = input.sections.get(*table).map_or(0, |s| s.sh_info.get(LE) as usize);
        input.role(*table) == Role::Relocations && target == section
    })
}

/// Append a name, and return its offset.
fn name(names: &mut Vec<u8>, words: &[&[u8]]) -> u32 {
    let offset = names.len() as u32;
    names.extend_from_slice(&words.concat());
    names.push(0);
    offset
}
