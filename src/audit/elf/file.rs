//! The reader of an ELF file: sections, symbols and relocations, each with its place.
//!
//! A place is a number for one byte. A byte of the file has its offset, and bytes of sections without contents have the numbers behind the end of
//! the file. Sections of an object have no addresses; each is given 2^40 of them.

use std::borrow::Cow;

use object::LittleEndian;
use object::elf::{self, FileHeader64, Rela64, Sym64};
use object::read::elf::{FileHeader, ProgramHeader, Rela, SectionHeader, SectionTable, Sym};
use object::read::{SectionIndex, SymbolIndex};

use crate::error::{Error, Result, Stage};

pub(super) const LE: LittleEndian = LittleEndian;

/// Sections of an object are so many addresses apart, as a power of two.
const SECTION_SHIFT: u32 = 40;
/// No file has more bytes of zero-initialised memory than this.
const MAX_ZERO: u64 = 1 << 60;

#[derive(Debug)]
pub(super) struct AuditedSection<'a> {
    pub(super) name: Cow<'a, str>,
    pub(super) kind: elf::SectionType,
    pub(super) flags: u64,
    pub(super) address: u64,
    /// The bytes that it has in memory and, unless it is zero-initialised, in the file.
    pub(super) size: u64,
    /// The place of its first byte.
    pub(super) start: u64,
    pub(super) link: u32,
    pub(super) info: u32,
    pub(super) entry_size: u64,
    /// The contents; empty for zero-initialised memory.
    pub(super) bytes: &'a [u8],
}

impl AuditedSection<'_> {
    /// Whether it has a name, perhaps behind that of its copy (BOLT's `.bolt.org.eh_frame`) or before that of a function.
    pub(super) fn is_named(&self, name: &str) -> bool {
        let rest = self.name.strip_prefix(".bolt.org").unwrap_or(&self.name).strip_prefix(name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }

    fn has(&self, flag: elf::SectionFlags) -> bool {
        self.flags & flag.0 != 0
    }

    pub(super) fn is_loaded(&self) -> bool {
        self.has(elf::SHF_ALLOC)
    }

    pub(super) fn is_code(&self) -> bool {
        self.is_loaded() && self.has(elf::SHF_EXECINSTR)
    }

    pub(super) fn is_writable(&self) -> bool {
        self.has(elf::SHF_WRITE)
    }

    pub(super) fn is_compressed(&self) -> bool {
        self.has(elf::SHF_COMPRESSED)
    }

    /// The place behind its last byte.
    pub(super) fn end(&self) -> u64 {
        self.start + self.size
    }

    /// Compilers put constants, variables and strings there.
    pub(super) fn is_data(&self) -> bool {
        let is_table = [".got", ".plt", ".interp"];
        let is_unwind = [".eh_frame", ".eh_frame_hdr", ".gcc_except_table"];
        let is_contents = self.kind == elf::SHT_PROGBITS || self.kind == elf::SHT_NOBITS;
        self.is_loaded()
            && is_contents
            && !self.is_code()
            && !is_table.iter().any(|t| self.name.starts_with(t))
            && !is_unwind.iter().any(|t| self.is_named(t))
    }
}

/// A symbol of one of the two symbol tables.
#[derive(Debug)]
pub(super) struct AuditedSymbol<'a> {
    pub(super) name: &'a [u8],
    /// The position of its name in the string table.
    pub(super) name_offset: u64,
    /// The place of its definition; `None` if that is in another file or at the end of a section.
    pub(super) place: Option<u64>,
    pub(super) size: u64,
    pub(super) kind: elf::SymbolType,
    pub(super) bind: elf::SymbolBind,
    /// The number of the section that defines it.
    pub(super) section: Option<u32>,
    /// The source file that a local symbol is of, if the table says it.
    pub(super) file: Option<&'a [u8]>,
}

impl AuditedSymbol<'_> {
    pub(super) fn is_definition(&self) -> bool {
        self.place.is_some() && ![elf::STT_SECTION, elf::STT_FILE].contains(&self.kind)
    }
}

/// The symbols of a table, and the numbers of its sections.
#[derive(Debug, Default)]
pub(super) struct AuditedTable<'a> {
    pub(super) section: u32,
    pub(super) strings: u32,
    /// They are by position in the table; the first is null.
    pub(super) symbols: Vec<AuditedSymbol<'a>>,
}

/// A relocation with its place and the place of its entry.
#[derive(Debug, Clone, Copy)]
pub(super) struct AuditedRelocation {
    /// The place of the table's entry.
    pub(super) entry: u64,
    /// The place that is relocated; `None` if it is outside of all sections.
    pub(super) place: Option<u64>,
    pub(super) kind: elf::RelocationType,
    pub(super) symbol: u32,
    pub(super) addend: i64,
    /// The number of the section that holds the symbols.
    pub(super) symbols: u32,
}

#[derive(Debug)]
pub(super) struct AuditedFile<'a> {
    pub(super) data: &'a [u8],
    pub(super) kind: elf::FileType,
    /// The number of a section is its position.
    pub(super) sections: Vec<AuditedSection<'a>>,
    /// Numbers of the sections that have addresses, in ascending order of these.
    by_address: Vec<u32>,
    /// Numbers of the sections that have places, in ascending order of these.
    by_place: Vec<u32>,
    pub(super) static_symbols: AuditedTable<'a>,
    pub(super) dynamic_symbols: AuditedTable<'a>,
}

/// Whether bytes begin as an ELF file of any class and machine does.
pub(crate) fn is_elf(data: &[u8]) -> bool {
    data.starts_with(b"\x7fELF")
}

impl<'a> AuditedFile<'a> {
    /// Read the tables of a file.
    pub(super) fn read(data: &'a [u8]) -> Result<Self> {
        let damaged = |what: &str, e: &dyn std::fmt::Display| {
            Error::new(Stage::Load, format!("has {what} that cannot be read: {e}"))
        };
        let header = FileHeader64::<LittleEndian>::parse(data).map_err(|e| damaged("an ELF header", &e))?;
        if header.e_machine(LE) != elf::EM_X86_64 || header.e_ident.data != elf::ELFDATA2LSB {
            return Err(Error::new(Stage::Load, "is an ELF file of another machine than x86_64"));
        }
        let table = header.sections(LE, data).map_err(|e| damaged("a section table", &e))?;
        let segments = header.program_headers(LE, data).map_err(|e| damaged("program headers", &e))?;
        let tls = segments.iter().find(|s| s.p_type(LE) == elf::PT_TLS).map_or(0, |s| s.p_vaddr(LE));
        let mut file = AuditedFile {
            data,
            kind: header.e_type(LE),
            sections: Vec::with_capacity(table.len()),
            by_address: Vec::new(),
            by_place: Vec::new(),
            static_symbols: AuditedTable::default(),
            dynamic_symbols: AuditedTable::default(),
        };
        file.read_sections(&table);
        for (kind, what) in [(elf::SHT_SYMTAB, "a symbol table"), (elf::SHT_DYNSYM, "a dynamic symbol table")]
        {
            let symbols = file.read_symbols(&table, kind, tls).map_err(|e| damaged(what, &e))?;
            match kind {
                elf::SHT_SYMTAB => file.static_symbols = symbols,
                _ => file.dynamic_symbols = symbols,
            }
        }
        Ok(file)
    }

    pub(super) fn is_object(&self) -> bool {
        self.kind == elf::ET_REL
    }

    fn read_sections(&mut self, table: &SectionTable<'a, FileHeader64<LittleEndian>>) {
        let length = self.data.len() as u64;
        let mut zero = length;
        for (number, header) in table.iter().enumerate() {
            let is_zero = header.sh_type(LE) == elf::SHT_NOBITS;
            let offset = header.sh_offset(LE).min(length);
            let most = if is_zero { MAX_ZERO.saturating_sub(zero) } else { length - offset };
            let size = if header.sh_type(LE) == elf::SHT_NULL { 0 } else { header.sh_size(LE).min(most) };
            let bytes = match is_zero {
                true => &[],
                false => self.data.get(offset as usize..(offset + size) as usize).unwrap_or_default(),
            };
            let address = match self.is_object() {
                true => (number as u64 + 1) << SECTION_SHIFT,
                false => header.sh_addr(LE),
            };
            self.sections.push(AuditedSection {
                name: String::from_utf8_lossy(table.section_name(LE, header).unwrap_or_default()),
                kind: header.sh_type(LE),
                flags: header.sh_flags(LE).0,
                address,
                size,
                start: if is_zero { zero } else { offset },
                link: header.sh_link(LE),
                info: header.sh_info(LE),
                entry_size: header.sh_entsize(LE),
                bytes,
            });
            zero += if is_zero { size } else { 0 };
        }
        // The memory of thread-local variables that begin as zero is elsewhere.
        let has_addresses = |s: &AuditedSection<'_>| {
            s.size > 0 && s.is_loaded() && !(s.has(elf::SHF_TLS) && s.kind == elf::SHT_NOBITS)
        };
        self.by_address =
            (0u32..).zip(&self.sections).filter(|(_, s)| has_addresses(s)).map(|(i, _)| i).collect();
        let sections = &self.sections;
        self.by_address.sort_by_key(|i| sections.get(*i as usize).map(|s| s.address));
        self.by_place = (0u32..).zip(sections).filter(|(_, s)| s.size > 0).map(|(i, _)| i).collect();
        self.by_place.sort_by_key(|i| sections.get(*i as usize).map(|s| s.start));
    }

    fn read_symbols(
        &self,
        sections: &SectionTable<'a, FileHeader64<LittleEndian>>,
        kind: elf::SectionType,
        tls: u64,
    ) -> object::Result<AuditedTable<'a>> {
        let table = sections.symbols(LE, self.data, kind)?;
        let mut found = AuditedTable {
            section: table.section().0 as u32,
            strings: table.string_section().0 as u32,
            symbols: Vec::with_capacity(table.len()),
        };
        let mut file = None;
        for (number, symbol) in table.iter().enumerate() {
            let name = table.symbol_name(LE, symbol).unwrap_or_default();
            if symbol.st_type() == elf::STT_FILE {
                file = Some(name).filter(|n| !n.is_empty());
            }
            let section = table.symbol_section(LE, symbol, SymbolIndex(number)).ok().flatten();
            found.symbols.push(AuditedSymbol {
                name,
                name_offset: symbol.st_name(LE).into(),
                place: section.and_then(|section| self.place_of(symbol, section, tls)),
                size: symbol.st_size(LE),
                kind: symbol.st_type(),
                bind: symbol.st_bind(),
                section: section.map(|s| s.0 as u32),
                file: file.filter(|_| symbol.st_bind() == elf::STB_LOCAL),
            });
        }
        Ok(found)
    }

    fn place_of(&self, symbol: &Sym64<LittleEndian>, section: SectionIndex, tls: u64) -> Option<u64> {
        let section = self.sections.get(section.0)?;
        let value = symbol.st_value(LE);
        let offset = match self.is_object() {
            true => value,
            false if symbol.st_type() == elf::STT_TLS => {
                value.wrapping_add(tls).checked_sub(section.address)?
            }
            false => value.checked_sub(section.address)?,
        };
        (offset < section.size).then(|| section.start + offset)
    }

    /// Whether it is a program and no library: it has a fixed place, or says so (`DF_1_PIE`), or has an interpreter and no name
    /// under which programs need it.
    pub(super) fn is_program(&self) -> bool {
        let dynamic = self.sections.iter().filter(|s| s.kind == elf::SHT_DYNAMIC);
        let entries: Vec<(u64, u64)> = dynamic
            .flat_map(|s| s.bytes.as_chunks::<16>().0)
            .map(|entry| u128::from_le_bytes(*entry))
            .map(|entry| (entry as u64, (entry >> 64) as u64))
            .collect();
        let has = |tag: elf::DynamicTag| entries.iter().find(|e| e.0 == tag.0 as u64).map(|e| e.1);
        let is_pie = has(elf::DT_FLAGS_1).is_some_and(|flags| flags & elf::DF_1_PIE.0 != 0);
        let has_interpreter = self.sections.iter().any(|s| s.name == ".interp");
        self.kind == elf::ET_EXEC || is_pie || has_interpreter && has(elf::DT_SONAME).is_none()
    }

    /// The section that an address is in.
    fn section_at(&self, address: u64) -> Option<&AuditedSection<'a>> {
        let of = |i: &u32| self.sections.get(*i as usize);
        let next = self.by_address.partition_point(|i| of(i).is_some_and(|s| s.address <= address));
        let section = of(self.by_address.get(next.checked_sub(1)?)?)?;
        (address - section.address < section.size).then_some(section)
    }

    /// The place of an address of the program.
    pub(super) fn place(&self, address: u64) -> Option<u64> {
        let section = self.section_at(address)?;
        Some(section.start + (address - section.address))
    }

    /// The section that a place is in.
    pub(super) fn section_of(&self, place: u64) -> Option<&AuditedSection<'a>> {
        let of = |i: &u32| self.section(*i);
        let next = self.by_place.partition_point(|i| of(i).is_some_and(|s| s.start <= place));
        of(self.by_place.get(next.checked_sub(1)?)?).filter(|s| place < s.end())
    }

    /// The section that has a number.
    pub(super) fn section(&self, number: u32) -> Option<&AuditedSection<'a>> {
        self.sections.get(number as usize)
    }

    /// The symbol table in a section.
    pub(super) fn table(&self, section: u32) -> Option<&AuditedTable<'a>> {
        [&self.static_symbols, &self.dynamic_symbols]
            .into_iter()
            .find(|t| t.section == section && section != 0)
    }

    /// The 8 bytes at a place of the file, as a number.
    pub(super) fn word(&self, place: u64) -> Option<u64> {
        let start = usize::try_from(place).ok()?;
        let bytes = self.data.get(start..start.checked_add(8)?)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }

    /// All relocations with an addend, in the order of the file.
    pub(super) fn relocations(&self) -> Vec<AuditedRelocation> {
        let mut found = Vec::new();
        for section in self.sections.iter().filter(|s| s.kind == elf::SHT_RELA) {
            let size = size_of::<Rela64<LittleEndian>>();
            let count = section.bytes.len() / size;
            let Ok((entries, _)) =
                object::pod::slice_from_bytes::<Rela64<LittleEndian>>(section.bytes, count)
            else {
                continue;
            };
            let base = self.section(section.info).filter(|_| self.is_object());
            for (number, entry) in entries.iter().enumerate() {
                let offset = entry.r_offset(LE);
                let place = match base {
                    Some(base) => (offset < base.size).then(|| base.start + offset),
                    None => self.place(offset),
                };
                found.push(AuditedRelocation {
                    entry: section.start + (number * size) as u64,
                    place,
                    kind: entry.r_type(LE, false),
                    symbol: entry.r_sym(LE, false),
                    addend: entry.r_addend(LE),
                    symbols: section.link,
                });
            }
        }
        found
    }

    /// The words of the tables of packed relative relocations, each with a place that it relocates, in the order of the file.
    pub(super) fn packed_relocations(&self) -> Vec<(u64, u64)> {
        // No word is relocated twice.
        let most = self.data.len() / 8;
        let mut found = Vec::new();
        for section in self.sections.iter().filter(|s| s.kind == elf::SHT_RELR) {
            let mut next = 0u64;
            for (number, word) in section.bytes.chunks_exact(8).enumerate() {
                let word = word.try_into().map_or(0, u64::from_le_bytes);
                let entry = section.start + number as u64 * 8;
                let mut add = |address: u64| found.extend(self.place(address).map(|place| (entry, place)));
                if word & 1 == 0 {
                    add(word);
                    next = word.wrapping_add(8);
                } else {
                    let bits = (0..63u64).filter(|bit| word >> (bit + 1) & 1 == 1);
                    bits.for_each(|bit| add(next.wrapping_add(bit * 8)));
                    next = next.wrapping_add(63 * 8);
                }
                if found.len() > most {
                    return found;
                }
            }
        }
        found
    }
}
