//! A bounds-checked ELF reader for relocatable objects and linked files: goblin's, with each table checked against
//! the file first.
//!
//! Names are bytes. The string tables of goblin accept UTF-8 only, and index all strings at the start, which is slow.

use std::borrow::Cow;
use std::ffi::CStr;

use goblin::container::{Container, Ctx, Endian};
use goblin::elf::header::{EM_X86_64, ET_REL, Header};
use goblin::elf::reloc::RelocSection;
use goblin::elf::section_header::{self as sh, SectionHeader};
use goblin::elf::sym::{STT_SECTION, Sym, Symtab, st_type};
use goblin::elf::{Elf, section_header};

use crate::compression::decompress;
use crate::error::{Error, Result, Stage};

/// Size of a section header, in bytes.
const SHDR: usize = 64;
/// `SHN_LORESERVE`: from here on an `st_shndx` is no section.
const LORESERVE: usize = 0xff00;
const XINDEX: usize = 0xffff;
pub(super) const SHN_ABS: usize = 0xfff1;
pub(super) const SHN_COMMON: usize = 0xfff2;

pub(super) const SHT_LLVM_ADDRSIG: u32 = 0x6fff_4c03;
pub(super) const SHT_LLVM_CALL_GRAPH_PROFILE: u32 = 0x6fff_4c09;

pub(super) fn error(message: impl Into<String>) -> Error {
    Error::new(Stage::Verify, message)
}

/// How goblin is to read: ELF64, little endian.
pub(super) fn context() -> Ctx {
    Ctx::new(Container::Big, Endian::Little)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SymbolSection {
    Undefined,
    /// `SHN_ABS`, `SHN_COMMON` and other reserved numbers.
    Special(usize),
    Section(usize),
}

pub(super) struct Object<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) sections: Vec<SectionHeader>,
    names: usize,
    pub(super) symbols: Option<Symtab<'a>>,
    pub(super) symbol_table: usize,
    pub(super) first_global: usize,
    extended: &'a [u8],
    /// By section: whether it is a table, see [`Object::is_table`].
    tables: Vec<bool>,
}

impl std::fmt::Debug for Object<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Object({} bytes, {} sections)", self.bytes.len(), self.sections.len())
    }
}

/// The ELF header and the section headers of a file, with the index of the table of section names.
pub(super) fn headers(bytes: &[u8]) -> Result<(Header, Vec<SectionHeader>, usize)> {
    if bytes.len() < 64 || !bytes.starts_with(b"\x7fELF\x02\x01") {
        return Err(error("not a little-endian ELF64 file"));
    }
    let header = Elf::parse_header(bytes).map_err(|e| error(e.to_string()))?;
    let offset = usize::try_from(header.e_shoff).unwrap_or(usize::MAX);
    if offset == 0 {
        return Ok((header, Vec::new(), 0));
    }
    if usize::from(header.e_shentsize) != SHDR || bytes.len().saturating_sub(offset) < SHDR {
        return Err(error("the section header table is outside of the file"));
    }
    // If the header has no count, goblin reads it from section 0, and checks it against the file.
    let sections = SectionHeader::parse(bytes, offset, usize::from(header.e_shnum), context())
        .map_err(|e| error(e.to_string()))?;
    let names = match usize::from(header.e_shstrndx) {
        XINDEX => sections.first().map_or(0, |s| s.sh_link as usize),
        index => index,
    };
    Ok((header, sections, names))
}

/// The bytes of a section in the file; none for `SHT_NOBITS`.
pub(super) fn contents<'a>(bytes: &'a [u8], section: &SectionHeader) -> Option<&'a [u8]> {
    if section.sh_type == sh::SHT_NOBITS || section.sh_type == sh::SHT_NULL {
        return Some(&[]);
    }
    let start = usize::try_from(section.sh_offset).ok()?;
    let size = usize::try_from(section.sh_size).ok()?;
    bytes.get(start..start.checked_add(size)?)
}

/// The string at `offset` of a table, without its NUL.
pub(super) fn string(table: &[u8], offset: usize) -> Option<&[u8]> {
    let rest = table.get(offset..)?;
    CStr::from_bytes_until_nul(rest).ok().map(CStr::to_bytes)
}

/// The symbols of a table section.
pub(super) fn symbols<'a>(bytes: &'a [u8], section: &SectionHeader) -> Result<Symtab<'a>> {
    let data = contents(bytes, section).ok_or_else(|| error("a symbol table is outside of the file"))?;
    if data.is_empty() {
        return Ok(Symtab::default());
    }
    Symtab::parse(data, 0, data.len() / 24, context()).map_err(|e| error(e.to_string()))
}

impl<'a> Object<'a> {
    /// Read the tables of an ELF64 x86-64 relocatable object.
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self> {
        let (header, sections, names) = headers(bytes)?;
        if header.e_type != ET_REL || header.e_machine != EM_X86_64 {
            return Err(error("not an x86-64 relocatable object"));
        }
        let mut object = Object {
            bytes,
            sections,
            names,
            symbols: None,
            symbol_table: 0,
            first_global: 0,
            extended: &[],
            tables: Vec::new(),
        };
        for (i, section) in object.sections.iter().enumerate() {
            match section.sh_type {
                sh::SHT_SYMTAB if object.symbols.is_some() => return Err(error("two symbol tables")),
                sh::SHT_SYMTAB => {
                    object.symbols = Some(symbols(bytes, section)?);
                    object.symbol_table = i;
                    object.first_global = section.sh_info as usize;
                }
                sh::SHT_SYMTAB_SHNDX => object.extended = contents(bytes, section).unwrap_or(&[]),
                _ => {}
            }
        }
        object.tables = (0..object.sections.len()).map(|i| object.follows_others(i)).collect();
        Ok(object)
    }

    /// The name of a section; empty if it can't be read.
    pub(super) fn section_name(&self, index: usize) -> &'a [u8] {
        let read = || {
            let table = contents(self.bytes, self.sections.get(self.names)?)?;
            string(table, self.sections.get(index)?.sh_name)
        };
        read().unwrap_or(&[])
    }

    /// The name of a symbol; empty if it can't be read.
    pub(super) fn symbol_name(&self, symbol: &Sym) -> &'a [u8] {
        self.symbol_names().and_then(|table| string(table, symbol.st_name)).unwrap_or(&[])
    }

    /// Whether the name of a symbol can be read.
    pub(super) fn has_name(&self, symbol: &Sym) -> bool {
        symbol.st_name == 0 || self.symbol_names().is_some_and(|t| symbol.st_name < t.len())
    }

    fn symbol_names(&self) -> Option<&'a [u8]> {
        let link = self.sections.get(self.symbol_table)?.sh_link as usize;
        contents(self.bytes, self.sections.get(link)?)
    }

    /// How many symbols there are, the null symbol included.
    pub(super) fn symbol_count(&self) -> usize {
        self.symbols.as_ref().map_or(0, Symtab::len)
    }

    pub(super) fn symbol(&self, index: usize) -> Option<Sym> {
        self.symbols.as_ref()?.get(index)
    }

    pub(super) fn place(&self, index: usize, symbol: &Sym) -> SymbolSection {
        match symbol.st_shndx {
            0 => SymbolSection::Undefined,
            XINDEX => {
                let word = self.extended.get(index.saturating_mul(4)..).and_then(|w| w.first_chunk::<4>());
                SymbolSection::Section(word.map_or(0, |w| u32::from_le_bytes(*w) as usize))
            }
            special if special >= LORESERVE => SymbolSection::Special(special),
            section => SymbolSection::Section(section),
        }
    }

    /// Whether the symbol is the section symbol of `section`.
    pub(super) fn is_start_of(&self, symbol: usize, section: usize) -> bool {
        self.symbol(symbol).is_some_and(|s| {
            st_type(s.st_info) == STT_SECTION
                && s.st_value == 0
                && self.place(symbol, &s) == SymbolSection::Section(section)
        })
    }

    /// The bytes of a section in the file.
    pub(super) fn contents(&self, index: usize) -> Result<&'a [u8]> {
        self.sections
            .get(index)
            .and_then(|s| contents(self.bytes, s))
            .ok_or_else(|| self.about(index, "is outside of the file"))
    }

    /// The entries of a relocation section.
    pub(super) fn relocations(&self, index: usize) -> Result<RelocSection<'a>> {
        let data = self.contents(index)?;
        let rela = self.sections.get(index).is_some_and(|s| s.sh_type == sh::SHT_RELA);
        RelocSection::parse(data, 0, data.len(), rela, context()).map_err(|e| error(e.to_string()))
    }

    /// Whether a section is a table that depends on other sections.
    pub(super) fn is_table(&self, index: usize) -> bool {
        self.tables.get(index).copied().unwrap_or(true)
    }

    fn follows_others(&self, index: usize) -> bool {
        let Some(section) = self.sections.get(index) else { return true };
        let link = self.sections.get(self.symbol_table).map_or(0, |s| s.sh_link as usize);
        match section.sh_type {
            sh::SHT_NULL
            | sh::SHT_SYMTAB
            | sh::SHT_SYMTAB_SHNDX
            | sh::SHT_RELA
            | sh::SHT_REL
            | sh::SHT_GROUP
            | SHT_LLVM_ADDRSIG
            | SHT_LLVM_CALL_GRAPH_PROFILE => true,
            sh::SHT_STRTAB => index == self.names || (self.symbols.is_some() && index == link),
            _ => self.is_unwind(index),
        }
    }

    /// Whether a section is an unwind table.
    pub(super) fn is_unwind(&self, index: usize) -> bool {
        let unwind_type = |s: &SectionHeader| s.sh_type == section_header::SHT_X86_64_UNWIND;
        self.sections.get(index).is_some_and(unwind_type) || self.section_name(index) == b".eh_frame"
    }

    /// Whether a section takes memory in the running program.
    pub(super) fn is_alloc(&self, index: usize) -> bool {
        self.sections.get(index).is_some_and(|s| s.sh_flags & u64::from(sh::SHF_ALLOC) != 0)
    }

    /// Whether a section is compressed, so that its offsets are not those of its bytes.
    pub(super) fn is_compressed(&self, index: usize) -> bool {
        self.sections.get(index).is_some_and(|s| s.sh_flags & u64::from(sh::SHF_COMPRESSED) != 0)
            || self.section_name(index).starts_with(b".zdebug")
    }

    /// The contents of a section, decompressed.
    pub(super) fn uncompressed(&self, index: usize) -> Result<Cow<'_, [u8]>> {
        let bytes = self.contents(index)?;
        if self.sections.get(index).is_none_or(|s| s.sh_flags & u64::from(sh::SHF_COMPRESSED) == 0) {
            return Ok(Cow::Borrowed(bytes));
        }
        // `Elf64_Chdr`: type, reserved, size, alignment.
        let header = bytes.split_first_chunk::<24>().map(|(header, rest)| {
            let [a, b, c, d, _, _, _, _, size @ ..] = header;
            let size = size.first_chunk::<8>().map_or(0, |size| u64::from_le_bytes(*size));
            (u32::from_le_bytes([*a, *b, *c, *d]), size, rest)
        });
        let contents = header.and_then(|(kind, size, rest)| decompress(kind, size, rest));
        contents.map(Cow::Owned).ok_or_else(|| self.about(index, "has contents that can't be decompressed"))
    }

    pub(super) fn about(&self, index: usize, message: impl Into<String>) -> Error {
        let name = String::from_utf8_lossy(self.section_name(index)).into_owned();
        error(message).in_section(format!("{name} [{index}]"))
    }
}

/// A relocation, as both objects have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RelocationEntry {
    pub(super) offset: u64,
    pub(super) kind: u32,
    pub(super) symbol: usize,
    pub(super) addend: i64,
}

/// The relocation sections of an object, as (target, relocation section), by target.
pub(super) fn by_target(object: &Object<'_>) -> Vec<(usize, usize)> {
    let mut pairs: Vec<(usize, usize)> = object
        .sections
        .iter()
        .enumerate()
        .filter(|(_, s)| s.sh_type == sh::SHT_RELA || s.sh_type == sh::SHT_REL)
        .map(|(i, s)| (s.sh_info as usize, i))
        .collect();
    pairs.sort_unstable();
    pairs
}

pub(super) fn entries(
    object: &Object<'_>,
    by_target: &[(usize, usize)],
    target: usize,
) -> Result<Vec<RelocationEntry>> {
    let start = by_target.partition_point(|(t, _)| *t < target);
    let end = by_target.partition_point(|(t, _)| *t <= target);
    let mut all = Vec::new();
    for (_, index) in by_target.get(start..end).unwrap_or(&[]) {
        let table = object.relocations(*index)?;
        all.reserve(table.len());
        all.extend(table.iter().map(|r| RelocationEntry {
            offset: r.r_offset,
            kind: r.r_type,
            symbol: r.r_sym,
            addend: r.r_addend.unwrap_or(0),
        }));
    }
    Ok(all)
}

/// Whether a section is debug information.
pub(super) fn is_debug(object: &Object<'_>, section: usize) -> bool {
    object.section_name(section).starts_with(b".debug") && !object.is_alloc(section)
}
