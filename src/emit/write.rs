//! The bytes of an object, front to back: header, contents in section order, section header table.
//!
//! Decides file offsets only: each section is aligned as it asks for, up to a page, so that a tool that maps the file
//! can use its tables in place. Counts that do not fit the ELF header go into section header 0 (gABI,
//! "ELF Header": `e_shnum`, `e_shstrndx`).

use object::elf;
use object::{U16, U64, pod};

use super::input::{ElfHeader, LE, Shdr};

/// No section is aligned in the file to more than this, in bytes: an alignment in memory may be a huge page.
const MAX_FILE_ALIGNMENT: u64 = 4096;

/// An object that is being written, front to back.
#[derive(Debug)]
pub(super) struct ObjectWriter {
    /// Everything before the section header table.
    pub(super) out: Vec<u8>,
    header: ElfHeader,
    sections: Vec<Shdr>,
    start: usize,
}

impl ObjectWriter {
    /// Begin an object with the ELF header of the input, about `size` bytes long.
    pub(super) fn new(header: &ElfHeader, size: usize, sections: usize) -> Self {
        let mut out = Vec::with_capacity(size.saturating_add(64));
        out.extend_from_slice(pod::bytes_of(header));
        ObjectWriter { out, header: *header, sections: Vec::with_capacity(sections), start: 0 }
    }

    fn align(&mut self, alignment: u64) {
        let alignment = alignment.clamp(1, MAX_FILE_ALIGNMENT) as usize;
        let alignment = if alignment.is_power_of_two() { alignment } else { 1 };
        self.out.resize(self.out.len().next_multiple_of(alignment), 0);
    }

    /// Begin the contents of a section; they are appended to [`out`](Self::out).
    pub(super) fn start(&mut self, header: &Shdr) {
        // What has no bytes in the file (`SHT_NULL`, `SHT_NOBITS`) needs no room.
        if header.sh_type.get(LE) != elf::SHT_NULL && header.sh_type.get(LE) != elf::SHT_NOBITS {
            self.align(header.sh_addralign.get(LE));
        }
        self.start = self.out.len();
    }

    /// End the contents of a section and add its header: place and size follow from what was appended, but for `SHT_NOBITS`, whose size is the header's.
    /// Of a header of `SHT_NULL` only the name stays.
    pub(super) fn end(&mut self, mut header: Shdr) {
        if header.sh_type.get(LE) == elf::SHT_NULL {
            header = Shdr { sh_name: header.sh_name, ..empty_header() };
        } else {
            header.sh_offset = U64::new(LE, self.start as u64);
            if header.sh_type.get(LE) != elf::SHT_NOBITS {
                header.sh_size = U64::new(LE, (self.out.len() - self.start) as u64);
            }
        }
        self.sections.push(header);
    }

    /// Append the section header table and complete the ELF header. `names` is the index of the section that
    /// holds the section names.
    pub(super) fn finish(mut self, names: u32) -> Vec<u8> {
        self.align(8);
        let count = self.sections.len();
        let mut null = empty_header();
        self.header.e_shoff = U64::new(LE, self.out.len() as u64);
        self.header.e_shnum = U16::new(LE, count as u16);
        if count >= usize::from(elf::SHN_LORESERVE) {
            self.header.e_shnum = U16::new(LE, 0);
            null.sh_size = U64::new(LE, count as u64);
        }
        self.header.e_shstrndx = U16::new(LE, elf::SymbolSection::new(names));
        if self.header.e_shstrndx.get(LE) == elf::SHN_XINDEX {
            null.sh_link.set(LE, names);
        }
        if let Some(first) = self.sections.first_mut() {
            *first = null;
        }
        self.out.extend_from_slice(pod::bytes_of_slice(&self.sections));
        if let Some(place) = self.out.get_mut(..size_of::<ElfHeader>()) {
            place.copy_from_slice(pod::bytes_of(&self.header));
        }
        self.out
    }
}

fn empty_header() -> Shdr {
    Shdr {
        sh_name: Default::default(),
        sh_type: Default::default(),
        sh_flags: Default::default(),
        sh_addr: Default::default(),
        sh_offset: Default::default(),
        sh_size: Default::default(),
        sh_link: Default::default(),
        sh_info: Default::default(),
        sh_addralign: Default::default(),
        sh_entsize: Default::default(),
    }
}
