//! An object with other contents in some sections, and with some sections more: a table of section headers, and the contents
//! that are not those of the file.
//!
//! Indices of sections and symbols stay what they were, so that a plan of the old object is one of the new.

use object::elf;
use object::{U32, U64};

use super::view::{contents, is_compressed};
use crate::emit::input::{Input, LE, Rela, Role, Shdr};
use crate::emit::overlay::{Contents, Overlay};
use crate::error::Result;

#[derive(Debug)]
pub(super) struct Change {
    pub(super) section: usize,
    /// It is `None` if they are as they were.
    pub(super) bytes: Option<Vec<u8>>,
    /// All its relocations; `None`: as they were.
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
    /// Change all compressed sections that are relocated and keep their contents so far to the same contents, decompressed.
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

    /// The object that this makes of `input`.
    pub(super) fn perform(self, input: &Input<'_>) -> Result<Overlay> {
        let mut overlay = Overlay {
            headers: input.sections.to_vec(),
            contents: (0..input.sections.len()).map(|_| None).collect(),
        };
        let mut names = input.data(input.section_names)?.to_vec();
        let symbols = input.symbol_table.unwrap_or(0) as u32;
        for addition in self.additions {
            let target = overlay.headers.len() as u32;
            let header = empty(elf::SHT_PROGBITS, name(&mut names, &[addition.name]), addition.align);
            overlay.push(header, Contents::Bytes(addition.bytes));
            let header = relocation_header(&mut names, addition.name, symbols, target);
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
                let section = input.section_name(change.section);
                let header = relocation_header(&mut names, section, symbols, change.section as u32);
                overlay.push(header, Contents::Relocations(std::mem::take(&mut relocations)));
            }
            // The first table gets all of them, the others become empty.
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

/// Append a name of these pieces, and return its offset.
fn name(names: &mut Vec<u8>, pieces: &[&[u8]]) -> u32 {
    let offset = names.len() as u32;
    pieces.iter().for_each(|piece| names.extend_from_slice(piece));
    names.push(0);
    offset
}

/// The header of a new relocation section of section `target`, of which this is the name.
fn relocation_header(names: &mut Vec<u8>, of_target: &[u8], symbols: u32, target: u32) -> Shdr {
    let mut header = empty(elf::SHT_RELA, name(names, &[b".rela", of_target]), 8);
    header.sh_flags = U64::new(LE, elf::SectionFlags(elf::SHF_INFO_LINK.0));
    header.sh_link = U32::new(LE, symbols);
    header.sh_info = U32::new(LE, target);
    header.sh_entsize = U64::new(LE, size_of::<Rela>() as u64);
    header
}

fn empty(ty: elf::SectionType, name: u32, align: u64) -> Shdr {
    Shdr {
        sh_name: U32::new(LE, name),
        sh_type: U32::new(LE, ty),
        sh_flags: U64::default(),
        sh_addr: U64::default(),
        sh_offset: U64::default(),
        sh_size: U64::default(),
        sh_link: U32::default(),
        sh_info: U32::default(),
        sh_addralign: U64::new(LE, align),
        sh_entsize: U64::default(),
    }
}
