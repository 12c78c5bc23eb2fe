//! An upper bound for the gain of dividing sections over a linker's `--gc-sections`, from headers and symbols.
//!
//! A linker drops a section with one function or object itself. More can be dropped only in sections with several
//! ([`super::split`]), and in exception tables, which lld always keeps (`scanEhFrameSection` in ELF/MarkLive.cpp).
//! The bound decides only whether the analysis is worth its time. It may be far too high, since it ignores liveness
//! and sections that turn out undividable.

use object::elf;
use object::endian::LittleEndian as LE;

use super::sections::{atom_kind, limit_of};
use super::tables::Tables;
use crate::summary::AtomKind;

/// The bytes of a module's sections that are loaded into memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SectionBytes {
    pub all: u64,
    pub code: u64,
    /// The bytes of divisible sections, and of exception tables that lld keeps.
    pub divisible: u64,
}

impl SectionBytes {
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        SectionBytes {
            all: self.all.saturating_add(other.all),
            code: self.code.saturating_add(other.code),
            divisible: self.divisible.saturating_add(other.divisible),
        }
    }
}

/// The functions and objects of a section, as far as symbols were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Contents {
    Unnamed,
    /// All functions and objects so far begin at this offset.
    One(u64),
    Several,
}

/// Count the bytes of an object; `None` if it is unreadable, or has an unknown section.
pub fn section_bytes(bytes: &[u8]) -> Option<SectionBytes> {
    let tables = Tables::read(bytes).ok()?;
    let mut contents = vec![Contents::Unnamed; tables.sections.len()];
    for symbol in tables.symtab.iter().flat_map(|symtab| symtab.entries) {
        let ty = symbol.st_type();
        let is_function = ty == elf::STT_FUNC || ty == elf::STT_GNU_IFUNC;
        let is_object = ty == elf::STT_OBJECT && symbol.st_size.get(LE) > 0;
        if !is_function && !is_object {
            continue;
        }
        let section = symbol.st_shndx.get(LE);
        // The section index is in another table.
        if section == elf::SHN_XINDEX {
            return None;
        }
        let Some(contents) = contents.get_mut(usize::from(section.0)) else { continue };
        let start = symbol.st_value.get(LE);
        *contents = match *contents {
            Contents::Unnamed => Contents::One(start),
            Contents::One(other) if other == start => Contents::One(start),
            Contents::One(_) | Contents::Several => Contents::Several,
        };
    }
    let mut sum = SectionBytes::default();
    for ((index, section), contents) in (0u32..).zip(&tables.sections).zip(contents) {
        let name = tables.name(section.name);
        if limit_of(&tables, index, section, name, true).is_some() {
            return None;
        }
        if !section.is_alloc() {
            continue;
        }
        let kind = atom_kind(section, name);
        // Sections of groups and merged sections are not divided.
        let is_whole = section.flags & (elf::SHF_GROUP.0 | elf::SHF_MERGE.0) != 0;
        let is_divisible = match kind {
            AtomKind::Lsda => section.flags & elf::SHF_LINK_ORDER.0 == 0,
            _ => contents == Contents::Several,
        };
        let of = |counts: bool| if counts { section.size } else { 0 };
        sum = sum.plus(SectionBytes {
            all: section.size,
            code: of(kind == AtomKind::Code),
            divisible: of(is_divisible && !is_whole),
        });
    }
    Some(sum)
}
