//! The relocations of an object that are against section symbols: which place of which section each of them names.
//!
//! Read from the bytes, because a summary does not say of what form a relocation is. Nothing is decided here.

use object::LittleEndian as LE;
use object::elf;
use object::read::elf::{FileHeader, Rela, SectionHeader};

/// What a relocation applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    Code,
    Data,
    /// An unwind section, or one that is not loaded.
    Other,
}

/// A relocation against a section symbol.
#[derive(Debug, Clone, Copy)]
pub(super) struct BySection {
    /// ELF index of the section that it applies to, and the offset in it.
    pub(super) section: u32,
    pub(super) offset: u64,
    pub(super) source: Source,
    pub(super) kind: elf::RelocationType,
    pub(super) addend: i64,
    /// ELF index of the section that it names.
    pub(super) target: u32,
}

/// All of them, by the section that they name; `None` for what can't be read.
pub(super) fn by_section(bytes: &[u8]) -> Option<Vec<BySection>> {
    let header = elf::FileHeader64::<object::LittleEndian>::parse(bytes).ok()?;
    let endian = LE;
    let sections = header.sections(endian, bytes).ok()?;
    let symbols = sections.symbols(endian, bytes, elf::SHT_SYMTAB).ok()?;
    let mut all = Vec::new();
    for section in sections.iter() {
        let Some((relas, _)) = section.rela(endian, bytes).ok()? else { continue };
        let to = section.info_link(endian);
        let target = sections.section(to).ok()?;
        let flags = target.sh_flags(endian).0;
        let unwind = target.sh_type(endian) == elf::SHT_X86_64_UNWIND
            || sections.section_name(endian, target).ok()? == b".eh_frame";
        let source = match flags & elf::SHF_ALLOC.0 != 0 && !unwind {
            false => Source::Other,
            true if flags & elf::SHF_EXECINSTR.0 != 0 => Source::Code,
            true => Source::Data,
        };
        for rela in relas {
            let Some(index) = rela.symbol(endian, false) else { continue };
            let symbol = symbols.symbol(index).ok()?;
            if symbol.st_type() != elf::STT_SECTION {
                continue;
            }
            let named = symbols.symbol_section(endian, symbol, index).ok()??;
            all.push(BySection {
                section: to.0 as u32,
                offset: rela.r_offset(endian),
                source,
                kind: rela.r_type(endian, false),
                addend: rela.r_addend(endian),
                target: named.0 as u32,
            });
        }
    }
    all.sort_by_key(|r| (r.target, r.section, r.offset));
    Some(all)
}

/// Where the contents of a section lie in the object; `None` for one without, and for what can't be read.
pub(super) fn contents(bytes: &[u8], section: u32) -> Option<std::ops::Range<usize>> {
    let header = elf::FileHeader64::<object::LittleEndian>::parse(bytes).ok()?;
    let sections = header.sections(LE, bytes).ok()?;
    let (start, size) = sections.section(object::SectionIndex(section as usize)).ok()?.file_range(LE)?;
    let start = usize::try_from(start).ok()?;
    Some(start..start.checked_add(usize::try_from(size).ok()?)?)
}
