//! The symbols: one entry of the summary for each entry of the ELF symbol table, also the null symbol.
//!
//! The indices do not change, because resolution and emission use the same table. A section index of more than 16
//! bits is in `SHT_SYMTAB_SHNDX` (gABI, "Symbol Table"). An unknown reserved section index or binding makes the file
//! malformed.

use object::elf;
use object::endian::LittleEndian as LE;
use object::pod;

use super::tables::{Result, Section, Symtab, Tables, malformed};
use crate::ids::{AtomIdx, NameRef};
use crate::summary::{Atom, AtomKind, Binding, Definition, Symbol, SymbolKind, Visibility};

/// Large commons (psABI, medium code model): as `SHN_COMMON`, in `.lbss`.
const SHN_X86_64_LCOMMON: u16 = 0xff02;

/// The atom of each section; of a divided one, the first.
#[derive(Debug)]
pub(crate) struct SectionAtoms(pub(crate) Vec<Option<AtomIdx>>);

impl SectionAtoms {
    pub(crate) fn get(&self, section: u32) -> Option<AtomIdx> {
        self.0.get(section as usize).copied().flatten()
    }

    /// The atom that holds this offset of a section, or the last one for an offset behind it.
    pub(crate) fn at(&self, atoms: &[Atom], section: u32, offset: u64) -> Option<AtomIdx> {
        let first = self.get(section)?.index();
        let rest = atoms.get(first..)?;
        let behind = match rest.get(1).is_some_and(|next| next.section == section) {
            true => rest.partition_point(|a| a.section == section && a.offset <= offset),
            false => 1,
        };
        Some(AtomIdx::new(first + behind.saturating_sub(1)))
    }
}

/// Read the symbol table. An atom is appended to `atoms` for each common symbol.
pub(crate) fn read(
    tables: &mut Tables<'_>,
    by_section: &SectionAtoms,
    atoms: &mut Vec<Atom>,
) -> Result<Vec<Symbol>> {
    let Some(symtab) = &tables.symtab else { return Ok(Vec::new()) };
    let names = &mut tables.symbol_names;
    let sections = tables.sections.len();
    let mut symbols = Vec::with_capacity(symtab.entries.len());
    // Otherwise linkers would see a symbol in a relocation without one.
    if symtab.entries.first().is_some_and(|null| pod::bytes_of(null).iter().any(|b| *b != 0)) {
        return Err(malformed("symbol 0 is not the null symbol"));
    }
    for (i, raw) in symtab.entries.iter().enumerate() {
        let offset = raw.st_name.get(LE);
        let name = names.name(offset).ok_or_else(|| {
            malformed(format!("symbol {i}: its name {offset:#x} is not in the string table"))
        })?;
        let (value, size) = (raw.st_value.get(LE), raw.st_size.get(LE));
        let definition = match place(symtab, i, raw)? {
            SymbolHome::Undefined => Definition::Undefined,
            SymbolHome::Absolute => Definition::Absolute,
            SymbolHome::Common => {
                let atom = common(i, name, value, size)?;
                atoms.push(atom);
                Definition::Common(AtomIdx::new(atoms.len() - 1))
            }
            SymbolHome::Section(section) if section as usize >= sections => {
                return Err(malformed(format!("symbol {i}: defined in section {section} of {sections}")));
            }
            SymbolHome::Section(section) if is_stray_variable(&tables.sections, section, raw) => {
                return Err(malformed(format!("symbol {i}: thread-local, in a section that is not")));
            }
            SymbolHome::Section(section) => match by_section.get(section) {
                Some(atom) => Definition::Atom(atom),
                None => Definition::OtherSection(section),
            },
        };
        let binding = binding(raw.st_bind(), i)?;
        let local = i < symtab.first_global as usize;
        if local != (binding == Binding::Local) {
            return Err(malformed(format!(
                "symbol {i}: local and global symbols are mixed (sh_info is {})",
                symtab.first_global
            )));
        }
        let visibility = match raw.st_visibility() {
            elf::STV_INTERNAL => Visibility::Internal,
            elf::STV_HIDDEN => Visibility::Hidden,
            elf::STV_PROTECTED => Visibility::Protected,
            _ => Visibility::Default,
        };
        symbols.push(Symbol {
            name,
            binding,
            visibility,
            kind: kind(raw.st_type()),
            definition,
            value,
            size,
        });
    }
    Ok(symbols)
}

/// Whether a thread-local symbol is in a section that is not. lld rejects references to it.
fn is_stray_variable(sections: &[Section], section: u32, raw: &elf::Sym64<LE>) -> bool {
    let is_tls = |s: &Section| s.flags & elf::SHF_TLS.0 != 0;
    raw.st_type() == elf::STT_TLS && !sections.get(section as usize).is_some_and(is_tls)
}

enum SymbolHome {
    Undefined,
    Absolute,
    Common,
    Section(u32),
}

fn place(symtab: &Symtab<'_>, index: usize, raw: &elf::Sym64<LE>) -> Result<SymbolHome> {
    Ok(match raw.st_shndx.get(LE) {
        elf::SHN_UNDEF => SymbolHome::Undefined,
        elf::SHN_ABS => SymbolHome::Absolute,
        elf::SHN_COMMON => SymbolHome::Common,
        elf::SymbolSection(SHN_X86_64_LCOMMON) => SymbolHome::Common,
        elf::SHN_XINDEX => {
            let at = index.checked_mul(4);
            let word = symtab.extended.zip(at).and_then(|(words, at)| words.get(at..)?.first_chunk::<4>());
            match word {
                Some(word) => SymbolHome::Section(u32::from_le_bytes(*word)),
                None => {
                    return Err(malformed(format!("symbol {index}: its extended section index is missing")));
                }
            }
        }
        elf::SymbolSection(n) if n < elf::SHN_LORESERVE => SymbolHome::Section(u32::from(n)),
        elf::SymbolSection(n) => {
            return Err(malformed(format!("symbol {index}: reserved section index {n:#x}")));
        }
    })
}

/// The atom of a tentative definition, which has no section until the link.
fn common(index: usize, name: NameRef, align: u64, size: u64) -> Result<Atom> {
    let align = align.max(1);
    if !align.is_power_of_two() {
        return Err(malformed(format!("symbol {index}: a common aligned to {align} bytes")));
    }
    Ok(Atom {
        section: Atom::NO_SECTION,
        offset: 0,
        size,
        align,
        kind: AtomKind::Common,
        flags: 0,
        name,
        group: None,
        link_order: None,
    })
}

fn binding(bind: elf::SymbolBind, index: usize) -> Result<Binding> {
    Ok(match bind {
        elf::STB_LOCAL => Binding::Local,
        elf::STB_GLOBAL => Binding::Global,
        elf::STB_WEAK => Binding::Weak,
        elf::STB_GNU_UNIQUE => Binding::Unique,
        other => return Err(malformed(format!("symbol {index}: binding {}", other.0))),
    })
}

fn kind(ty: elf::SymbolType) -> SymbolKind {
    match ty {
        elf::STT_NOTYPE => SymbolKind::NoType,
        elf::STT_OBJECT => SymbolKind::Object,
        elf::STT_FUNC => SymbolKind::Func,
        elf::STT_SECTION => SymbolKind::Section,
        elf::STT_FILE => SymbolKind::File,
        elf::STT_COMMON => SymbolKind::Common,
        elf::STT_TLS => SymbolKind::Tls,
        elf::STT_GNU_IFUNC => SymbolKind::Ifunc,
        _ => SymbolKind::Other,
    }
}
