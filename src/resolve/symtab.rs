//! The symbol table of a module for resolution: its global names, their definitions, its COMDAT groups.
//!
//! It is read for every module, also for members that are not loaded, so it touches no relocation. A table that can't be read gives `None`:
//! the module has no symbols, and nothing is pruned if it is in the link.

use object::LittleEndian;
use object::elf;
use object::read::elf::{FileHeader, SectionHeader, Sym};
use summaries::Visibility;

use super::symbol_table::HashedName;
use crate::inputs::SymbolType;
use crate::linker_rules::LinkerRules;

type Elf = elf::FileHeader64<LittleEndian>;
const LE: LittleEndian = LittleEndian;

/// The kind of definition of a global symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    Undefined,
    /// A tentative definition of this many bytes.
    Common(u64),
    /// It is defined in the ELF section of this index.
    Section(u32),
    /// It is absolute (`SHN_ABS`), with this value.
    Absolute(u64),
}

/// An entry of the symbol table that is not local.
#[derive(Debug, Clone, Copy)]
pub(super) struct Global<'a> {
    /// The name in the string table, maybe with `@version`.
    pub(super) name: &'a [u8],
    /// There is an `@` in the name, so that it may carry a version.
    pub(super) versioned: bool,
    pub(super) entry: Entry,
    /// `STB_WEAK`, or `STB_GNU_UNIQUE`, which lld treats so between definitions.
    pub(super) weak: bool,
    pub(super) ty: SymbolType,
    /// Its size in bytes, as `st_size` says it.
    pub(super) size: u64,
    pub(super) visibility: Visibility,
    /// A definition in bitcode that asks for no entry of `.dynsym` ([`summaries::bitcode::symbols::LinkerSymbol::omittable`]).
    pub(super) omittable: bool,
    /// A value of bitcode whose address is insignificant.
    pub(super) unnamed_addr: bool,
}

impl<'a> Global<'a> {
    /// The name without a default version, for resolution.
    pub(super) fn stem(&self) -> &'a [u8] {
        if self.versioned { stem(self.name) } else { self.name }
    }
}

/// The name of a symbol for resolution: `foo@@V` is the default version of `foo`, and both are one symbol.
pub(super) fn stem(name: &[u8]) -> &[u8] {
    // Few names have a version.
    let at = name.contains(&b'@').then(|| name.windows(2).position(|w| w == b"@@")).flatten();
    at.map_or(name, |at| &name[..at])
}

/// A COMDAT group: its signature, and its sections.
#[derive(Debug, Clone)]
pub(super) struct Comdat<'a> {
    pub(super) section: u32,
    pub(super) signature: HashedName<'a>,
    pub(super) members: Vec<u32>,
}

/// The global symbols and the groups of a module, as its tables have them.
#[derive(Debug, Clone, Default)]
pub(super) struct ModuleSymbols<'a> {
    /// The index in the symbol table that `globals[0]` has.
    pub(super) first_global: u32,
    pub(super) globals: Vec<Global<'a>>,
    pub(super) comdats: Vec<Comdat<'a>>,
    /// A global symbol that is defined in a section that no output has.
    pub(super) excluded: Option<&'a [u8]>,
    /// The names of the source files, of bitcode alone.
    pub(super) sources: Vec<Box<[u8]>>,
}

/// The symbols with a section `.gnu.warning.SYMBOL` in this object or shared library: GNU ld and gold print a warning for references
/// to them.
pub(super) fn warned_symbols(data: &[u8]) -> Vec<&[u8]> {
    let read = || {
        let header = Elf::parse(data).ok()?;
        let sections = header.sections(LE, data).ok()?;
        let names = sections.iter().filter_map(|s| sections.section_name(LE, s).ok());
        Some(names.filter_map(|name| name.strip_prefix(b".gnu.warning.")).collect())
    };
    read().unwrap_or_default()
}

/// The symbols for a linker with these rules; `None` if the file is not a well-formed x86-64 relocatable object.
pub(super) fn read<'a>(data: &'a [u8], rules: &LinkerRules) -> Option<ModuleSymbols<'a>> {
    let header = Elf::parse(data).ok()?;
    if !header.is_little_endian()
        || header.e_machine(LE) != elf::EM_X86_64
        || header.e_type(LE) != elf::ET_REL
    {
        return None;
    }
    let sections = header.sections(LE, data).ok()?;
    let symbols = sections.symbols(LE, data, elf::SHT_SYMTAB).ok()?;
    let mut out = ModuleSymbols::default();
    let Some((symtab_index, symtab)) = sections.enumerate().find(|(_, s)| s.sh_type(LE) == elf::SHT_SYMTAB)
    else {
        return Some(out);
    };
    let first_global = (symtab.sh_info(LE) as usize).max(1).min(symbols.len());
    out.first_global = first_global as u32;
    out.globals.reserve(symbols.len().saturating_sub(first_global));
    for (i, symbol) in symbols.enumerate().skip(first_global) {
        let shndx = symbol.st_shndx(LE);
        let entry = match shndx {
            elf::SHN_UNDEF => Entry::Undefined,
            elf::SHN_COMMON => Entry::Common(symbol.st_size(LE)),
            elf::SHN_ABS => Entry::Absolute(symbol.st_value(LE)),
            elf::SHN_XINDEX => Entry::Section(symbols.symbol_section(LE, symbol, i).ok()??.0 as u32),
            _ => Entry::Section(u32::from(shndx.0)),
        };
        let bind = symbol.st_bind();
        let name = symbols.symbol_name(LE, symbol).ok()?;
        out.globals.push(Global {
            name,
            versioned: name.contains(&b'@'),
            entry,
            weak: bind == elf::STB_WEAK || bind == elf::STB_GNU_UNIQUE,
            ty: SymbolType::of(symbol.st_type()),
            size: symbol.st_size(LE),
            visibility: match symbol.st_visibility() {
                elf::STV_INTERNAL if rules.exports_internal => Visibility::Default,
                elf::STV_INTERNAL => Visibility::Internal,
                elf::STV_HIDDEN => Visibility::Hidden,
                elf::STV_PROTECTED => Visibility::Protected,
                _ => Visibility::Default,
            },
            omittable: false,
            unnamed_addr: false,
        });
    }
    let mut excluded = Vec::new();
    for (index, section) in sections.enumerate() {
        // Sections of LLVM's types are tables for linkers.
        let flags = section.sh_flags(LE).0 & (elf::SHF_EXCLUDE.0 | elf::SHF_ALLOC.0);
        if flags == elf::SHF_EXCLUDE.0 && section.sh_type(LE).0 < elf::SHT_LOOS {
            excluded.push(index.0 as u32);
        }
        if section.sh_type(LE) != elf::SHT_GROUP || section.sh_link(LE) as usize != symtab_index.0 {
            continue;
        }
        let (flag, members) = section.group(LE, data).ok().flatten()?;
        if flag.0 & elf::GRP_COMDAT.0 == 0 {
            continue;
        }
        let signature = symbols.symbol(object::SymbolIndex(section.sh_info(LE) as usize)).ok()?;
        let mut name = symbols.symbol_name(LE, signature).ok()?;
        if signature.st_type() == elf::STT_SECTION && name.is_empty() {
            // gas names a group after a section symbol where no symbol has the signature's name.
            let i = object::SymbolIndex(section.sh_info(LE) as usize);
            let defined_in = symbols.symbol_section(LE, signature, i).ok()??;
            name = sections.section_name(LE, sections.section(defined_in).ok()?).ok()?;
        }
        out.comdats.push(Comdat {
            section: index.0 as u32,
            signature: HashedName::new(name),
            members: members.iter().map(|m| m.get(LE)).collect(),
        });
    }
    if !excluded.is_empty() {
        let is_there =
            |global: &&Global<'_>| matches!(global.entry, Entry::Section(n) if excluded.contains(&n));
        out.excluded = out.globals.iter().find(is_there).map(|global| global.name);
    }
    Some(out)
}
