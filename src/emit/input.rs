//! The reader of emission: the tables of an ELF64 x86-64 relocatable file, each range checked once.
//!
//! Each section gets a [`Role`]. Tables of section or symbol indices are rewritten, and other sections are copied. The list of
//! section types is closed: a type that may hold indices in an unknown form is an error. Sources: gABI chapter 4, psABI
//! x86-64, LLVM's `BinaryFormat/ELF.h`. An [`Overlay`] replaces the contents of some sections.

use object::elf;
use object::read::ReadRef;
use object::read::elf::{FileHeader, SectionHeader};
use object::{LittleEndian, U64, pod};

use crate::error::{Error, Result, Stage};

/// The byte order of every file that is rewritten.
pub(super) const LE: LittleEndian = LittleEndian;

pub(super) type ElfHeader = elf::FileHeader64<LittleEndian>;
pub(super) type Shdr = elf::SectionHeader64<LittleEndian>;
pub(super) type Sym = elf::Sym64<LittleEndian>;
pub(super) type Rela = elf::Rela64<LittleEndian>;

/// The type of an address-significance table (LLVM, `SHT_LLVM_ADDRSIG`), which `object` does not name.
pub(super) const ADDRSIG: elf::SectionType = elf::SectionType(0x6fff_4c03);
/// The type of a call-graph profile (LLVM, `SHT_LLVM_CALL_GRAPH_PROFILE`).
const CALL_GRAPH_PROFILE: elf::SectionType = elf::SectionType(0x6fff_4c09);
/// LLVM's and GNU's types whose contents hold no index of a section or symbol.
const OPAQUE_TYPES: &[elf::SectionType] = &[
    elf::SectionType(0x6fff_4c01), // SHT_LLVM_LINKER_OPTIONS: strings
    elf::SectionType(0x6fff_4c08), // SHT_LLVM_BB_ADDR_MAP_V0: addresses by relocation
    elf::SectionType(0x6fff_4c0a), // SHT_LLVM_BB_ADDR_MAP
    elf::SectionType(0x6fff_4c0b), // SHT_LLVM_OFFLOADING: an embedded image
    elf::SectionType(0x6fff_4c0c), // SHT_LLVM_LTO: bitcode
    elf::SHT_GNU_ATTRIBUTES,
];

/// The role of a section in emission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Entry 0 of the section table, or one of type `SHT_NULL`.
    Null,
    /// It is copied, except for relocated fields.
    Content,
    /// Unwind records: a section `.eh_frame` by name or type.
    Unwind,
    /// A relocation section of type `SHT_RELA`; `sh_info` is its target.
    Relocations,
    /// The relocations of a [`Role::CallGraphProfile`], of either form. They name symbols and change no bytes.
    ProfileRelocations,
    Group,
    SymbolTable,
    /// The section indices that don't fit the symbol table (`SHT_SYMTAB_SHNDX`).
    ExtendedIndices,
    /// The string table of the symbols, of the section names, or of both.
    Names,
    Addrsig,
    CallGraphProfile,
}

/// The place of a symbol, with `SHN_XINDEX` resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SymbolPlace {
    Undefined,
    Absolute,
    Common,
    Section(u32),
    /// Another reserved index, such as `SHN_X86_64_LCOMMON` of the medium code model.
    Reserved(u16),
}

/// The sections of an object with new contents for some of them, and new sections behind the others. The indices of old sections
/// do not change.
#[derive(Debug)]
pub(super) struct Overlay {
    pub(super) headers: Vec<Shdr>,
    /// By section: the contents that replace those of the file. The header has their size.
    pub(super) contents: Vec<Option<Contents>>,
}

#[derive(Debug)]
pub(super) enum Contents {
    Bytes(Vec<u8>),
    Relocations(Vec<Rela>),
}

impl Contents {
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Contents::Bytes(bytes) => bytes,
            Contents::Relocations(relocations) => pod::bytes_of_slice(relocations),
        }
    }
}

impl Overlay {
    pub(super) fn push(&mut self, header: Shdr, contents: Contents) {
        let index = self.headers.len();
        self.headers.push(header);
        self.contents.push(None);
        self.set(index, header, contents);
    }

    pub(super) fn set(&mut self, index: usize, mut header: Shdr, contents: Contents) {
        header.sh_size = U64::new(LE, contents.bytes().len() as u64);
        if let (Some(old), Some(slot)) = (self.headers.get_mut(index), self.contents.get_mut(index)) {
            (*old, *slot) = (header, Some(contents));
        }
    }
}

/// An object with its tables. All indices are those of the input.
#[derive(Debug)]
pub(super) struct Input<'a> {
    bytes: &'a [u8],
    pub(super) header: &'a ElfHeader,
    pub(super) sections: &'a [Shdr],
    pub(super) roles: Vec<Role>,
    pub(super) section_names: usize,
    pub(super) symbol_table: Option<usize>,
    pub(super) symbol_names: Option<usize>,
    pub(super) symbols: &'a [Sym],
    /// Index of the first non-local symbol.
    pub(super) first_global: usize,
    extended: &'a [object::U32<LittleEndian>],
    /// By section: the contents that replace those of the file.
    replaced: &'a [Option<Contents>],
    /// Debug sections without a section symbol. Relocations refer to the first by the number of symbols, and to the next by one more.
    pub(super) added: Vec<u32>,
}

fn malformed(message: impl Into<String>) -> Error {
    Error::new(Stage::Emit, message)
}

fn has_bytes(section: &Shdr) -> bool {
    !matches!(section.sh_type(LE), elf::SHT_NOBITS | elf::SHT_NULL)
}

impl<'a> Input<'a> {
    /// Read the tables of `bytes`.
    ///
    /// # Errors
    /// The file is no ELF64 x86-64 relocatable object, a table is outside of the file, or a section type can't be renumbered.
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self> {
        Self::read(bytes, None)
    }

    /// Read the tables with the sections of an overlay. `added` are its new sections.
    pub(super) fn overlaid(bytes: &'a [u8], overlay: &'a Overlay, added: &[u32]) -> Result<Self> {
        let input = Self::read(bytes, Some(overlay))?;
        Ok(Input { added: added.to_vec(), ..input })
    }

    fn read(bytes: &'a [u8], overlay: Option<&'a Overlay>) -> Result<Self> {
        let header = ElfHeader::parse(bytes).map_err(|e| malformed(e.to_string()))?;
        if !header.is_little_endian()
            || header.e_type(LE) != elf::ET_REL
            || header.e_machine(LE) != elf::EM_X86_64
        {
            return Err(malformed("not an x86-64 relocatable object"));
        }
        let sections = header.section_headers(LE, bytes).map_err(|e| malformed(e.to_string()))?;
        if sections.is_empty() {
            return Err(malformed("no section header table"));
        }
        let (in_file, replaced) = (sections, overlay.map_or(&[][..], |o| &o.contents));
        let sections = overlay.map_or(in_file, |o| &o.headers);
        let section_names = header.shstrndx(LE, bytes).map_err(|e| malformed(e.to_string()))? as usize;
        let mut input = Input {
            bytes,
            header,
            sections,
            roles: vec![Role::Null; sections.len()],
            section_names,
            symbol_table: None,
            symbol_names: None,
            symbols: &[],
            first_global: 0,
            extended: &[],
            replaced,
            added: Vec::new(),
        };
        for (i, section) in sections.iter().enumerate() {
            if section.sh_type(LE) != elf::SHT_SYMTAB {
                continue;
            }
            if input.symbol_table.is_some() {
                return Err(malformed("two symbol tables"));
            }
            input.symbol_table = Some(i);
            input.symbol_names = Some(section.sh_link(LE) as usize);
            input.symbols = input.table(i)?;
            input.first_global = section.sh_info(LE) as usize;
        }
        // In a real object no two sections share bytes. A hostile object could make the output huge.
        let total =
            in_file.iter().filter(|s| has_bytes(s)).fold(0u64, |sum, s| sum.saturating_add(s.sh_size(LE)));
        if total > bytes.len() as u64 {
            return Err(malformed("the sections together are larger than the file"));
        }
        if input.first_global > input.symbols.len() {
            return Err(malformed("sh_info of the symbol table is past its end"));
        }
        for i in 1..sections.len() {
            let role = input.role_of(i)?;
            if let Some(slot) = input.roles.get_mut(i) {
                *slot = role;
            }
            if role == Role::ExtendedIndices {
                input.extended = input.table(i)?;
            }
        }
        Ok(input)
    }

    fn role_of(&self, index: usize) -> Result<Role> {
        let section = self.section(index)?;
        let of_symbols = || Some(section.sh_link(LE) as usize) == self.symbol_table;
        let needs_symbols = |role| {
            if of_symbols() {
                return Ok(role);
            }
            Err(self.about(index, "sh_link is not the symbol table"))
        };
        match section.sh_type(LE) {
            elf::SHT_NULL => Ok(Role::Null),
            elf::SHT_SYMTAB => Ok(Role::SymbolTable),
            elf::SHT_STRTAB if index == self.section_names || Some(index) == self.symbol_names => {
                Ok(Role::Names)
            }
            elf::SHT_RELA | elf::SHT_REL
                if self.section(section.sh_info(LE) as usize)?.sh_type(LE) == CALL_GRAPH_PROFILE =>
            {
                needs_symbols(Role::ProfileRelocations)
            }
            elf::SHT_RELA => needs_symbols(Role::Relocations),
            elf::SHT_GROUP => needs_symbols(Role::Group),
            elf::SHT_SYMTAB_SHNDX => needs_symbols(Role::ExtendedIndices),
            CALL_GRAPH_PROFILE => Ok(Role::CallGraphProfile),
            // A tool that does not know the section leaves sh_link 0. Linkers then ignore it.
            ADDRSIG if of_symbols() => Ok(Role::Addrsig),
            ADDRSIG => Ok(Role::Content),
            elf::SHT_X86_64_UNWIND => Ok(Role::Unwind),
            elf::SHT_PROGBITS if self.section_name(index) == b".eh_frame" => Ok(Role::Unwind),
            elf::SHT_PROGBITS
            | elf::SHT_NOBITS
            | elf::SHT_NOTE
            | elf::SHT_STRTAB
            | elf::SHT_INIT_ARRAY
            | elf::SHT_FINI_ARRAY
            | elf::SHT_PREINIT_ARRAY => Ok(Role::Content),
            other if OPAQUE_TYPES.contains(&other) => Ok(Role::Content),
            other => Err(self.about(index, format!("section type {:#x} can't be renumbered", other.0))),
        }
    }

    /// The total size of its sections in bytes.
    pub(super) fn size(&self) -> usize {
        self.sections.iter().filter(|s| has_bytes(s)).map(|s| s.sh_size(LE) as usize).sum()
    }

    /// The new section of a symbol number behind the last symbol.
    pub(super) fn added_section(&self, symbol: u32) -> Option<u32> {
        self.added.get((symbol as usize).checked_sub(self.symbols.len())?).copied()
    }

    /// An error of this stage that names the file and section `index`.
    pub(super) fn about(&self, index: usize, message: impl Into<String>) -> Error {
        malformed(message).in_section(self.section_label(index))
    }

    /// The name and index of a section, for messages.
    pub(super) fn section_label(&self, index: usize) -> String {
        format!("{} [{index}]", String::from_utf8_lossy(self.section_name(index)))
    }

    pub(super) fn section(&self, index: usize) -> Result<&'a Shdr> {
        self.sections.get(index).ok_or_else(|| malformed(format!("there is no section {index}")))
    }

    /// The role of section `index`, [`Role::Null`] if it does not exist.
    pub(super) fn role(&self, index: usize) -> Role {
        self.roles.get(index).copied().unwrap_or(Role::Null)
    }

    /// The bytes of a section, from the overlay or else from the file; none for `SHT_NOBITS`.
    pub(super) fn data(&self, index: usize) -> Result<&'a [u8]> {
        let section = self.section(index)?;
        if let Some(Some(contents)) = self.replaced.get(index) {
            return Ok(contents.bytes());
        }
        section.data(LE, self.bytes).map_err(|e| self.about(index, e.to_string()))
    }

    /// The bytes of a section as whole entries of type `T`.
    pub(super) fn table<T: pod::Pod>(&self, index: usize) -> Result<&'a [T]> {
        let data = self.data(index)?;
        let entry = std::mem::size_of::<T>();
        if data.len() % entry != 0 {
            return Err(self.about(index, format!("size is no multiple of {entry}")));
        }
        data.read_slice_at(0, data.len() / entry).map_err(|()| self.about(index, "unreadable table"))
    }

    /// The name of a section; empty if it can't be read.
    pub(super) fn section_name(&self, index: usize) -> &'a [u8] {
        self.sections.get(index).map_or(&[], |s| self.string(self.section_names, s.sh_name(LE)))
    }

    /// The name of a symbol; empty if it can't be read.
    pub(super) fn symbol_name(&self, index: usize) -> &'a [u8] {
        match (self.symbol_names, self.symbols.get(index)) {
            (Some(table), Some(symbol)) => self.string(table, symbol.st_name.get(LE)),
            _ => &[],
        }
    }

    fn string(&self, table: usize, offset: u32) -> &'a [u8] {
        // Not by `data`: its error would ask for a name again.
        let bytes = match self.replaced.get(table) {
            Some(Some(contents)) => Some(contents.bytes()),
            _ => self.sections.get(table).and_then(|s| s.data(LE, self.bytes).ok()),
        };
        let rest = bytes.and_then(|d| d.get(offset as usize..)).unwrap_or(&[]);
        rest.split(|b| *b == 0).next().unwrap_or(&[])
    }

    /// The place where symbol `index` is defined.
    pub(super) fn place(&self, index: usize) -> Result<SymbolPlace> {
        let symbol =
            self.symbols.get(index).ok_or_else(|| malformed(format!("there is no symbol {index}")))?;
        Ok(match symbol.st_shndx.get(LE) {
            elf::SHN_UNDEF => SymbolPlace::Undefined,
            elf::SHN_ABS => SymbolPlace::Absolute,
            elf::SHN_COMMON => SymbolPlace::Common,
            elf::SHN_XINDEX => {
                let section = self.extended.get(index).map_or(0, |s| s.get(LE));
                self.section(section as usize)?;
                SymbolPlace::Section(section)
            }
            reserved if reserved.is_reserved() => SymbolPlace::Reserved(reserved.0),
            section => {
                self.section(usize::from(section.0))?;
                SymbolPlace::Section(u32::from(section.0))
            }
        })
    }
}

/// The value of a relocated field, by the letters of the psABI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Formula {
    Nothing,
    /// S + A, also relative to the TLS block.
    Address,
    /// The field holds S + A - P (psABI, "Relocation Types").
    Relative,
    /// The field holds Z + A, the size of the symbol.
    Size,
}

/// Width in bytes and formula of the relocation types that occur outside of allocated sections.
pub(super) fn field_of(kind: elf::RelocationType) -> Option<(u8, Formula)> {
    Some(match kind {
        elf::R_X86_64_NONE => (0, Formula::Nothing),
        elf::R_X86_64_64 | elf::R_X86_64_DTPOFF64 | elf::R_X86_64_TPOFF64 => (8, Formula::Address),
        elf::R_X86_64_32 | elf::R_X86_64_32S | elf::R_X86_64_DTPOFF32 | elf::R_X86_64_TPOFF32 => {
            (4, Formula::Address)
        }
        elf::R_X86_64_16 => (2, Formula::Address),
        elf::R_X86_64_8 => (1, Formula::Address),
        elf::R_X86_64_PC64 => (8, Formula::Relative),
        elf::R_X86_64_PC32 | elf::R_X86_64_PLT32 => (4, Formula::Relative),
        elf::R_X86_64_PC16 => (2, Formula::Relative),
        elf::R_X86_64_PC8 => (1, Formula::Relative),
        elf::R_X86_64_SIZE64 => (8, Formula::Size),
        elf::R_X86_64_SIZE32 => (4, Formula::Size),
        _ => return None,
    })
}

/// Width and formula of an entry of section `index`, which has `size` bytes and is not allocated.
///
/// # Errors
/// The type is unknown, there is no such symbol, or the field is outside of the section. Linkers reject such an entry.
pub(super) fn checked_field_of(
    input: &Input<'_>,
    index: usize,
    size: usize,
    entry: &Rela,
) -> Result<(u8, Formula)> {
    let kind = entry.r_type(LE, false);
    let offset = entry.r_offset.get(LE);
    let (width, formula) = field_of(kind)
        .ok_or_else(|| input.about(index, format!("the relocation at {offset:#x} is of type {}", kind.0)))?;
    let symbol = entry.r_sym(LE, false);
    if input.added_section(symbol).is_none() {
        input.place(symbol as usize).map_err(|e| e.in_section(input.section_label(index)))?;
    }
    if offset.checked_add(u64::from(width)).is_none_or(|end| end > size as u64) {
        return Err(input.about(index, format!("the relocation at {offset:#x} is outside of the section")));
    }
    Ok((width, formula))
}
