//! The bytes of an ELF object, from front to back: header, contents in section order, section header table.
//!
//! Each section is aligned in the file as it asks for, up to a page, so that a tool that maps the file can use its tables
//! in place. Counts that do not fit into the ELF header go into section header 0 (gABI, "ELF Header").

use object::elf;
use object::{I64, U16, U32, U64, pod};

use super::input::{ElfHeader, LE, Rela, Shdr};

/// The largest alignment of a section in the file, in bytes. The alignment in memory may be that of a huge page.
const MAX_FILE_ALIGNMENT: u64 = 4096;

/// An object that is being written.
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
        // `SHT_NULL` and `SHT_NOBITS` have no bytes in the file.
        if header.sh_type.get(LE) != elf::SHT_NULL && header.sh_type.get(LE) != elf::SHT_NOBITS {
            self.align(header.sh_addralign.get(LE));
        }
        self.start = self.out.len();
    }

    /// End the contents of a section and add its header, with the offset and size of the appended bytes. `SHT_NOBITS` keeps its size.
    /// `SHT_NULL` keeps its name only.
    pub(super) fn end(&mut self, mut header: Shdr) {
        if header.sh_type.get(LE) == elf::SHT_NULL {
            header = new_header(header.sh_name.get(LE), elf::SHT_NULL, 0, 0);
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
        let mut null = new_header(0, elf::SHT_NULL, 0, 0);
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

/// The header of a section that the input does not have.
pub(super) fn new_header(name: u32, kind: elf::SectionType, flags: u64, align: u64) -> Shdr {
    Shdr {
        sh_name: U32::new(LE, name),
        sh_type: U32::new(LE, kind),
        sh_flags: U64::new(LE, elf::SectionFlags(flags)),
        sh_addr: U64::default(),
        sh_offset: U64::default(),
        sh_size: U64::default(),
        sh_link: U32::default(),
        sh_info: U32::default(),
        sh_addralign: U64::new(LE, align),
        sh_entsize: U64::default(),
    }
}

/// The header of a new relocation section of section `target`. `flags` may have `SHF_GROUP`.
pub(super) fn relocation_header(name: u32, symbols: u32, target: u32, flags: u64) -> Shdr {
    Shdr {
        sh_link: U32::new(LE, symbols),
        sh_info: U32::new(LE, target),
        sh_entsize: U64::new(LE, size_of::<Rela>() as u64),
        ..new_header(name, elf::SHT_RELA, elf::SHF_INFO_LINK.0 | flags, 8)
    }
}

/// A relocation entry of these fields.
pub(super) fn relocation(offset: u64, kind: elf::RelocationType, symbol: u32, addend: i64) -> Rela {
    let mut entry =
        Rela { r_offset: U64::new(LE, offset), r_info: U64::default(), r_addend: I64::new(LE, addend) };
    entry.set_r_info(LE, false, symbol, kind);
    entry
}
