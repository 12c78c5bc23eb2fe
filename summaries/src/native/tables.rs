//! The tables of an ELF64 little-endian x86-64 relocatable object, as checked byte ranges.
//!
//! All files of the front end read through this module, so each bounds check is made once. The structures are those
//! of the gABI ("Sections", "Symbol Table"). They are read in place at any alignment, because archive members are
//! aligned to two bytes only.

use std::ffi::CStr;
use std::ops::Range;

use object::elf;
use object::endian::LittleEndian as LE;
use object::pod;

use crate::ids::NameRef;
use crate::limit::{Limit, LimitRecord};

/// The `SHT_LLVM_*` types of LLVM's ABI (llvm/BinaryFormat/ELF.h), which are not in the gABI.
pub(crate) mod llvm {
    pub(crate) const LINKER_OPTIONS: u32 = 0x6fff_4c01;
    pub(crate) const ADDRSIG: u32 = 0x6fff_4c03;
    pub(crate) const DEPENDENT_LIBRARIES: u32 = 0x6fff_4c04;
    pub(crate) const SYMPART: u32 = 0x6fff_4c05;
    pub(crate) const PART_EHDR: u32 = 0x6fff_4c06;
    pub(crate) const PART_PHDR: u32 = 0x6fff_4c07;
    pub(crate) const CALL_GRAPH_PROFILE: u32 = 0x6fff_4c09;
    pub(crate) const BB_ADDR_MAP: u32 = 0x6fff_4c0a;
    pub(crate) const OFFLOADING: u32 = 0x6fff_4c0b;
    pub(crate) const LTO: u32 = 0x6fff_4c0c;
}

/// A result whose error is the limit that makes the whole file opaque.
pub(crate) type Result<T> = std::result::Result<T, LimitRecord>;

/// A [`LimitRecord`] of `limit` in section `section`.
pub(crate) fn record(limit: Limit, section: Option<u32>, detail: impl Into<String>) -> LimitRecord {
    LimitRecord { limit, section, offset: None, bytes: 0, detail: detail.into() }
}

/// The limit [`Limit::MalformedObject`], about the whole file.
pub(crate) fn malformed(detail: impl Into<String>) -> LimitRecord {
    record(Limit::MalformedObject, None, detail)
}

/// A section header, decoded, in the host's numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Section {
    pub(crate) name: NameRef,
    pub(crate) ty: u32,
    pub(crate) flags: u64,
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) link: u32,
    pub(crate) info: u32,
    pub(crate) align: u64,
    pub(crate) entsize: u64,
}

impl Section {
    pub(crate) fn is_alloc(&self) -> bool {
        self.flags & elf::SHF_ALLOC.0 != 0
    }
}

/// A string table whose strings are ranges of [`crate::ModuleSummary::names`].
///
/// A lookup scans [`StringTable::SCAN`] bytes, and then uses a sorted list of all ends. Otherwise a table of one long
/// string would make reading quadratic.
#[derive(Debug)]
pub(crate) struct StringTable<'a> {
    bytes: &'a [u8],
    base: u32,
    ends: Option<Vec<u32>>,
}

impl<'a> StringTable<'a> {
    const SCAN: usize = 1024;

    /// A table whose first byte is byte `base` of the names. Base and length must fit into 32 bits.
    pub(crate) fn new(bytes: &'a [u8], base: u32) -> Self {
        StringTable { bytes, base, ends: None }
    }

    /// The string at `offset`, or `None` if it is not inside the table or has no end.
    pub(crate) fn name(&mut self, offset: u32) -> Option<NameRef> {
        let start = offset as usize;
        let Some(rest) = self.bytes.get(start..).filter(|r| !r.is_empty()) else {
            // An absent table is valid if only the empty name is looked up.
            return (offset == 0).then(NameRef::default);
        };
        let window = rest.get(..Self::SCAN).unwrap_or(rest);
        let len = match CStr::from_bytes_until_nul(window) {
            Ok(name) => name.count_bytes(),
            Err(_) => self.far_end(start)?.checked_sub(start)?,
        };
        Some(match len {
            0 => NameRef::default(),
            _ => NameRef { start: self.base.checked_add(offset)?, len: len as u32 },
        })
    }

    /// The end of the string at `start`, from the list of all ends.
    fn far_end(&mut self, start: usize) -> Option<usize> {
        let bytes = self.bytes;
        let ends = self.ends.get_or_insert_with(|| {
            bytes.iter().enumerate().filter(|(_, b)| **b == 0).map(|(i, _)| i as u32).collect()
        });
        let i = ends.partition_point(|end| (*end as usize) < start);
        ends.get(i).map(|end| *end as usize)
    }
}

/// The symbol table as it lies in the file.
#[derive(Debug)]
pub(crate) struct Symtab<'a> {
    pub(crate) section: u32,
    pub(crate) entries: &'a [elf::Sym64<LE>],
    /// Index of the first symbol that is not local (`sh_info`).
    pub(crate) first_global: u32,
    /// `SHT_SYMTAB_SHNDX`, one word a symbol, if the object has one.
    pub(crate) extended: Option<&'a [u8]>,
}

/// The tables of a relocatable object, bounded by the file.
#[derive(Debug)]
pub(crate) struct Tables<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) sections: Vec<Section>,
    pub(crate) symtab: Option<Symtab<'a>>,
    /// `.strtab`, then `.shstrtab` if it is another section.
    pub(crate) names: Vec<u8>,
    pub(crate) symbol_names: StringTable<'a>,
}

impl<'a> Tables<'a> {
    /// Read the headers. On an error the file can't be trusted.
    pub(crate) fn read(bytes: &'a [u8]) -> Result<Self> {
        let raw = section_headers(bytes)?;
        let mut sections: Vec<Section> = raw.headers.iter().map(decode).collect();
        // Linkers reject these headers in any section, also in those that emission rewrites.
        for (i, section) in sections.iter().enumerate().skip(1) {
            let refused = |what: String| Err(malformed(format!("section [{i}]: {what}")));
            if !section.align.max(1).is_power_of_two() {
                return refused(format!("alignment {}", section.align));
            }
            if section.flags & elf::SHF_COMPRESSED.0 != 0 && section.ty != elf::SHT_PROGBITS.0 {
                return refused(format!("compressed, and of type {}", section.ty));
            }
            if section.flags & elf::SHF_COMPRESSED.0 != 0 && !is_compressed(bytes, section) {
                return refused("compressed, without the header of compressed data".to_owned());
            }
            if section.ty == elf::SHT_NULL.0 && section.size != 0 {
                return refused(format!("no type, and {} bytes", section.size));
            }
            if section_bytes(bytes, section).is_none() {
                return refused("its bytes are not in the file".to_owned());
            }
            if section.link as usize >= sections.len() {
                return refused(format!("linked to section {} of {}", section.link, sections.len()));
            }
        }
        check_relocated(&sections)?;
        // gABI, "Section Header": the first entry is zero, except for fields that extend the file header. wild checks
        // its alignment.
        if sections.first().is_some_and(|first| first.align != 0) {
            return Err(malformed("section [0]: an alignment"));
        }
        if let Some(section) = overlapping(&sections, raw.offset) {
            return Err(malformed(format!(
                "section [{section}]: some of its bytes are another one's, or headers"
            )));
        }
        let symtab = read_symtab(bytes, &sections)?;
        let strtab_index = match &symtab {
            Some(symtab) => sections.get(symtab.section as usize).map_or(0, |s| s.link),
            None => 0,
        };
        let strtab = string_section(bytes, &sections, strtab_index)?;
        let mut names = Vec::with_capacity(strtab.len());
        names.extend_from_slice(strtab);
        let mut section_names = if raw.shstrndx == strtab_index {
            StringTable::new(strtab, 0)
        } else {
            let shstrtab = string_section(bytes, &sections, raw.shstrndx)?;
            let base = names.len() as u32;
            names.extend_from_slice(shstrtab);
            StringTable::new(shstrtab, base)
        };
        // The sum is checked too, since two tables may be the same range of a hostile file.
        if u32::try_from(names.len()).is_err() {
            return Err(malformed("the string tables hold more than 4 GiB"));
        }
        for (i, (section, header)) in sections.iter_mut().zip(raw.headers).enumerate() {
            let offset = header.sh_name.get(LE);
            section.name = section_names.name(offset).ok_or_else(|| {
                malformed(format!("section {i}: its name {offset:#x} is not in the string table"))
            })?;
        }
        let symbol_names = StringTable::new(strtab, 0);
        Ok(Tables { bytes, sections, symtab, names, symbol_names })
    }

    pub(crate) fn name(&self, name: NameRef) -> &[u8] {
        let start = name.start as usize;
        self.names.get(start..start.saturating_add(name.len as usize)).unwrap_or(&[])
    }

    /// A section as a message names it: `[index] name`.
    pub(crate) fn describe(&self, index: u32) -> String {
        let name = self.sections.get(index as usize).map_or(&[][..], |s| self.name(s.name));
        format!("[{index}] {}", String::from_utf8_lossy(name))
    }

    /// The bytes of a section: empty for `SHT_NOBITS`, an error if they are not all in the file.
    pub(crate) fn data(&self, index: u32) -> Result<&'a [u8]> {
        let section = self.sections.get(index as usize);
        section.and_then(|s| section_bytes(self.bytes, s)).ok_or_else(|| {
            malformed(format!("section {}: its bytes are not in the file", self.describe(index)))
        })
    }
}

/// A section of code or data that shares bytes of the file with another section or with the headers at 0 and at
/// `headers`, or such other section. Assemblers write no such sections. gold ends with an internal error when it
/// reads one. A rewritten object has other bytes of headers.
fn overlapping(sections: &[Section], headers: u64) -> Option<usize> {
    let size = |count: usize, of: usize| count.saturating_mul(of) as u64;
    let table = (headers, size(sections.len(), size_of::<elf::SectionHeader64<LE>>()), false, 0);
    let file = (0, size(1, size_of::<elf::FileHeader64<LE>>()), false, 0);
    let in_file =
        |(_, s): &(usize, &Section)| s.ty != elf::SHT_NOBITS.0 && s.ty != elf::SHT_NULL.0 && s.size != 0;
    let own = sections.iter().enumerate().filter(in_file).map(|(i, s)| (s.offset, s.size, s.is_alloc(), i));
    let mut spans: Vec<(u64, u64, bool, usize)> = own.chain([file, table]).collect();
    spans.sort_unstable();
    let (mut end, mut end_of_alloc) = (0, 0);
    for (start, size, is_alloc, section) in spans {
        if start < end_of_alloc || is_alloc && start < end {
            return Some(section);
        }
        end = end.max(start.saturating_add(size));
        if is_alloc {
            end_of_alloc = end_of_alloc.max(start.saturating_add(size));
        }
    }
    None
}

/// The bytes of a section, or `None` if they reach out of the file.
pub(crate) fn section_bytes<'a>(bytes: &'a [u8], section: &Section) -> Option<&'a [u8]> {
    if section.ty == elf::SHT_NOBITS.0 || section.ty == elf::SHT_NULL.0 {
        return Some(&[]);
    }
    let start = usize::try_from(section.offset).ok()?;
    let end = start.checked_add(usize::try_from(section.size).ok()?)?;
    bytes.get(start..end)
}

struct RawHeaders<'a> {
    headers: &'a [elf::SectionHeader64<LE>],
    /// Their offset in the file, in bytes.
    offset: u64,
    shstrndx: u32,
}

/// Check the file header and find the section headers, also more than 65,279 of them.
fn section_headers(bytes: &[u8]) -> Result<RawHeaders<'_>> {
    if !bytes.starts_with(&elf::ELFMAG) {
        return Err(record(Limit::ForeignObject, None, "no ELF file"));
    }
    // EI_CLASS and EI_DATA: an ELF32 file has a shorter header, and is not truncated.
    let (Some(class), Some(data)) = (bytes.get(4), bytes.get(5)) else {
        return Err(malformed("the file ends in its ELF identification"));
    };
    if *class != elf::ELFCLASS64.0 || *data != elf::ELFDATA2LSB.0 {
        return Err(record(
            Limit::ForeignObject,
            None,
            "ELF of another class or byte order than 64-bit little-endian",
        ));
    }
    let Ok((header, _)) = pod::from_bytes::<elf::FileHeader64<LE>>(bytes) else {
        return Err(malformed("the file ends in its ELF header"));
    };
    let (machine, ty) = (header.e_machine.get(LE), header.e_type.get(LE));
    if machine != elf::EM_X86_64 {
        return Err(record(Limit::ForeignObject, None, format!("ELF for machine {}, not x86-64", machine.0)));
    }
    if ty != elf::ET_REL {
        return Err(record(
            Limit::ForeignObject,
            None,
            format!("ELF of type {}, not a relocatable object", ty.0),
        ));
    }
    let shoff = header.e_shoff.get(LE);
    if shoff == 0 {
        return Ok(RawHeaders { headers: &[], offset: 0, shstrndx: 0 });
    }
    let entsize = header.e_shentsize.get(LE);
    if usize::from(entsize) != size_of::<elf::SectionHeader64<LE>>() {
        return Err(malformed(format!("section headers of {entsize} bytes")));
    }
    let outside = || malformed("the section headers are not in the file");
    let table = usize::try_from(shoff).ok().and_then(|start| bytes.get(start..)).ok_or_else(outside)?;
    let Ok((first, _)) = pod::from_bytes::<elf::SectionHeader64<LE>>(table) else { return Err(outside()) };
    let count = match header.e_shnum.get(LE) {
        0 => usize::try_from(first.sh_size.get(LE)).unwrap_or(usize::MAX),
        n => usize::from(n),
    };
    // The count is compared with the file before it sizes anything.
    if count > table.len() / size_of::<elf::SectionHeader64<LE>>() || count > u32::MAX as usize / 2 {
        return Err(outside());
    }
    let Ok((headers, _)) = pod::slice_from_bytes::<elf::SectionHeader64<LE>>(table, count) else {
        return Err(outside());
    };
    let shstrndx = match header.e_shstrndx.get(LE) {
        elf::SHN_XINDEX => first.sh_link.get(LE),
        n => u32::from(n.0),
    };
    Ok(RawHeaders { headers, offset: shoff, shstrndx })
}

fn decode(header: &elf::SectionHeader64<LE>) -> Section {
    Section {
        name: NameRef::default(),
        ty: header.sh_type.get(LE).0,
        flags: header.sh_flags.get(LE).0,
        offset: header.sh_offset.get(LE),
        size: header.sh_size.get(LE),
        link: header.sh_link.get(LE),
        info: header.sh_info.get(LE),
        align: header.sh_addralign.get(LE),
        entsize: header.sh_entsize.get(LE),
    }
}

/// The bytes of string table `index`; index 0 is no table.
fn string_section<'a>(bytes: &'a [u8], sections: &[Section], index: u32) -> Result<&'a [u8]> {
    if index == 0 {
        return Ok(&[]);
    }
    let section = sections.get(index as usize).filter(|s| s.ty == elf::SHT_STRTAB.0);
    let data = section.and_then(|s| section_bytes(bytes, s));
    let data =
        data.ok_or_else(|| malformed(format!("section [{index}] is no string table that is in the file")))?;
    if data.last().is_some_and(|last| *last != 0) {
        return Err(malformed(format!("section [{index}]: a string table that does not end with a NUL")));
    }
    if u32::try_from(data.len()).is_err() {
        return Err(malformed(format!("section [{index}]: a string table of more than 4 GiB")));
    }
    Ok(data)
}

/// Whether a section has the header of a compressed one (gABI, "Section Compression"). A loaded section is never
/// compressed.
fn is_compressed(bytes: &[u8], section: &Section) -> bool {
    const TYPES: [elf::CompressionType; 2] = [elf::ELFCOMPRESS_ZLIB, elf::ELFCOMPRESS_ZSTD];
    let header = section_bytes(bytes, section)
        .and_then(|data| pod::from_bytes::<elf::CompressionHeader64<LE>>(data).ok());
    !section.is_alloc() && header.is_some_and(|(header, _)| TYPES.contains(&header.ch_type.get(LE)))
}

/// Check that each relocation section belongs to another section with contents. Linkers reject a relocation of a
/// table, and emission would lose it.
fn check_relocated(sections: &[Section]) -> Result<()> {
    const TABLES: [u32; 7] = [
        elf::SHT_NULL.0,
        elf::SHT_SYMTAB.0,
        elf::SHT_STRTAB.0,
        elf::SHT_RELA.0,
        elf::SHT_REL.0,
        elf::SHT_GROUP.0,
        elf::SHT_SYMTAB_SHNDX.0,
    ];
    let mut has_relocations = vec![false; sections.len()];
    for (i, section) in sections.iter().enumerate() {
        if ![elf::SHT_RELA.0, elf::SHT_REL.0].contains(&section.ty) || section.size == 0 {
            continue;
        }
        let of = section.info as usize;
        let is_of_contents = sections.get(of).is_some_and(|target| !TABLES.contains(&target.ty));
        match has_relocations.get_mut(of).filter(|has| is_of_contents && !**has) {
            Some(has) => *has = true,
            None => return Err(malformed(format!("section [{i}]: relocations of section {of}"))),
        }
    }
    Ok(())
}

fn read_symtab<'a>(bytes: &'a [u8], sections: &[Section]) -> Result<Option<Symtab<'a>>> {
    let of_type = |ty: u32| sections.iter().enumerate().filter(move |(_, s)| s.ty == ty);
    let mut tables = of_type(elf::SHT_SYMTAB.0);
    let Some((index, section)) = tables.next() else { return Ok(None) };
    if let Some((second, _)) = tables.next() {
        return Err(malformed(format!("sections [{index}] and [{second}]: two symbol tables")));
    }
    let entry = size_of::<elf::Sym64<LE>>();
    let data = section_bytes(bytes, section)
        .filter(|d| d.len() % entry == 0 && section.entsize == entry as u64)
        .ok_or_else(|| {
            malformed(format!("section [{index}]: a symbol table of odd size or outside the file"))
        })?;
    let Ok((entries, _)) = pod::slice_from_bytes::<elf::Sym64<LE>>(data, data.len() / entry) else {
        return Err(malformed(format!("section [{index}]: an unreadable symbol table")));
    };
    if u32::try_from(entries.len()).is_err() || section.info as usize > entries.len() {
        return Err(malformed(format!(
            "section [{index}]: {} local symbols of {}",
            section.info,
            entries.len()
        )));
    }
    let mut extended = None;
    for (i, s) in of_type(elf::SHT_SYMTAB_SHNDX.0) {
        if s.link as usize != index {
            return Err(malformed(format!("section [{i}]: extended section indices of section {}", s.link)));
        }
        let words = section_bytes(bytes, s)
            .filter(|d| d.len() / 4 == entries.len() && d.len() % 4 == 0 && s.entsize == 4)
            .ok_or_else(|| malformed(format!("section [{i}]: extended section indices outside the file")))?;
        extended = Some(words);
    }
    Ok(Some(Symtab { section: index as u32, entries, first_global: section.info, extended }))
}

/// The sizes in bytes of the sections of code, from the section headers; empty for a file that is no ELF object.
pub fn code_section_sizes(bytes: &[u8]) -> Vec<u64> {
    let is_code = |s: &Section| s.ty == elf::SHT_PROGBITS.0 && s.flags & elf::SHF_EXECINSTR.0 != 0;
    let headers = section_headers(bytes).map(|raw| raw.headers).unwrap_or_default();
    headers.iter().map(decode).filter(is_code).map(|section| section.size).collect()
}

/// The range of the first section of this name in the object. Nothing else is read.
pub fn find_section(bytes: &[u8], name: &[u8]) -> Option<Range<usize>> {
    let raw = section_headers(bytes).ok()?;
    let names = section_bytes(bytes, &decode(raw.headers.get(raw.shstrndx as usize)?))?;
    let section = raw.headers.iter().find(|header| {
        let rest = names.get(header.sh_name.get(LE) as usize..).unwrap_or(&[]);
        rest.strip_prefix(name).is_some_and(|r| r.first() == Some(&0))
    })?;
    let section = decode(section);
    let data = section_bytes(bytes, &section)?;
    let start = usize::try_from(section.offset).ok().filter(|_| !data.is_empty())?;
    Some(start..start.checked_add(data.len())?)
}

/// Whether this range of the object belongs to one section, and to no header.
pub fn is_of_one_section(bytes: &[u8], range: &Range<usize>) -> bool {
    let Ok(raw) = section_headers(bytes) else { return false };
    let is_there = |start: u64, size: u64| {
        size != 0 && start < range.end as u64 && start.saturating_add(size) > range.start as u64
    };
    let sections = raw.headers.iter().map(decode).filter(|s| s.ty != elf::SHT_NOBITS.0);
    range.start >= size_of::<elf::FileHeader64<LE>>()
        && !is_there(raw.offset, size_of_val(raw.headers) as u64)
        && sections.filter(|section| is_there(section.offset, section.size)).count() == 1
}
