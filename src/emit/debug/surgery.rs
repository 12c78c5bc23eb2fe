//! An object with other contents in some sections, and with some sections more: the old file, the new contents behind it,
//! and a new table of section headers.
//!
//! Indices of sections and symbols stay what they were, so that a plan of the old object is one of the new.

use object::elf;
use object::{U16, U32, U64, pod};

use super::view::{contents, is_compressed};
use crate::emit::input::{Input, LE, Rela, Role, Shdr};
use crate::error::{Error, Result, Stage};

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

    /// The bytes of the new object.
    pub(super) fn perform(self, input: &Input<'_>) -> Result<Vec<u8>> {
        let relocations = |relocations: &[Rela]| size_of_val(relocations) + 64;
        let added = self.additions.iter().map(|a| a.bytes.len() + relocations(&a.relocations));
        let changed = self.changes.iter().map(|change| {
            change.bytes.as_ref().map_or(0, Vec::len) + change.relocations.as_deref().map_or(0, relocations)
        });
        let more: usize = added.chain(changed).sum();
        let mut out = Vec::with_capacity(input.bytes.len() + more + (1 << 16));
        out.extend_from_slice(input.bytes);
        let mut file = File {
            out,
            headers: input.sections.to_vec(),
            names: input.data(input.section_names)?.to_vec(),
            symbol_table: input.symbol_table.unwrap_or(0) as u32,
        };
        for addition in self.additions {
            let name = file.name(addition.name);
            let target = file.headers.len() as u32;
            let mut header = empty(elf::SHT_PROGBITS, name, 1);
            file.append(&mut header, &addition.bytes);
            file.headers.push(header);
            file.add_relocations(addition.name, target, &addition.relocations);
        }
        for change in self.changes {
            if let Some(bytes) = &change.bytes {
                let mut header = *input.section(change.section)?;
                let flags = header.sh_flags.get(LE).0;
                if flags & elf::SHF_COMPRESSED.0 != 0 {
                    header.sh_flags = U64::new(LE, elf::SectionFlags(flags & !elf::SHF_COMPRESSED.0));
                    header.sh_addralign = U64::new(LE, 1);
                }
                file.append(&mut header, bytes);
                file.set(change.section, header);
            }
            if let Some(relocations) = &change.relocations {
                file.relocate(input, change.section, relocations)?;
            }
        }
        file.finish(input)
    }
}

struct File {
    out: Vec<u8>,
    headers: Vec<Shdr>,
    names: Vec<u8>,
    symbol_table: u32,
}

impl File {
    fn set(&mut self, index: usize, header: Shdr) {
        if let Some(slot) = self.headers.get_mut(index) {
            *slot = header;
        }
    }

    /// Append contents, and say in the header where they are.
    fn append(&mut self, header: &mut Shdr, bytes: &[u8]) {
        self.out.resize(self.out.len().next_multiple_of(8), 0);
        header.sh_offset = U64::new(LE, self.out.len() as u64);
        header.sh_size = U64::new(LE, bytes.len() as u64);
        self.out.extend_from_slice(bytes);
    }

    fn name(&mut self, name: &[u8]) -> u32 {
        let offset = self.names.len() as u32;
        self.names.extend_from_slice(name);
        self.names.push(0);
        offset
    }

    fn add_relocations(&mut self, name: &[u8], target: u32, relocations: &[Rela]) {
        let name = self.name(&[b".rela", name].concat());
        let mut header = empty(elf::SHT_RELA, name, 8);
        header.sh_flags = U64::new(LE, elf::SectionFlags(elf::SHF_INFO_LINK.0));
        header.sh_link = U32::new(LE, self.symbol_table);
        header.sh_info = U32::new(LE, target);
        header.sh_entsize = U64::new(LE, size_of::<Rela>() as u64);
        self.append(&mut header, pod::bytes_of_slice(relocations));
        self.headers.push(header);
    }

    /// Give a section these relocations and no others.
    fn relocate(&mut self, input: &Input<'_>, section: usize, relocations: &[Rela]) -> Result<()> {
        let of_section = |table: &usize| {
            let target = input.sections.get(*table).map_or(0, |s| s.sh_info.get(LE) as usize);
            input.role(*table) == Role::Relocations && target == section
        };
        let tables: Vec<usize> = (1..input.sections.len()).filter(of_section).collect();
        let mut rest = pod::bytes_of_slice(relocations);
        for table in tables.iter().copied() {
            let mut header = *input.section(table)?;
            self.append(&mut header, rest);
            self.set(table, header);
            rest = &[];
        }
        if tables.is_empty() && !rest.is_empty() {
            if input.section(section)?.sh_flags.get(LE).0 & elf::SHF_GROUP.0 != 0 {
                return Err(input.about(section, "is of a group, and would need relocations"));
            }
            self.add_relocations(input.section_name(section), section as u32, relocations);
        }
        Ok(())
    }

    fn finish(mut self, input: &Input<'_>) -> Result<Vec<u8>> {
        let names = std::mem::take(&mut self.names);
        let mut header = *input.section(input.section_names)?;
        self.append(&mut header, &names);
        self.set(input.section_names, header);
        self.out.resize(self.out.len().next_multiple_of(8), 0);
        let mut file = *input.header;
        file.e_shoff = U64::new(LE, self.out.len() as u64);
        let count = self.headers.len();
        // gABI, "ELF Header": a count that does not fit is in section 0.
        let fits = count < usize::from(elf::SHN_LORESERVE);
        file.e_shnum = U16::new(LE, if fits { count as u16 } else { 0 });
        if let Some(null) = self.headers.first_mut() {
            null.sh_size = U64::new(LE, if fits { 0 } else { count as u64 });
        }
        self.out.extend_from_slice(pod::bytes_of_slice(&self.headers));
        let early = || Error::new(Stage::Emit, "no ELF header");
        self.out.get_mut(..size_of_val(&file)).ok_or_else(early)?.copy_from_slice(pod::bytes_of(&file));
        Ok(self.out)
    }
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
