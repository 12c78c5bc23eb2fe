//! The sections that are atoms, their kinds and flags, and the limits of unknown sections, all from the headers.
//!
//! The families of names are those of linkers' default scripts. A section that is wrongly called standard could be
//! dropped in a link without `--gc-sections`, so the list has only names that compilers emit.

use object::elf;

use super::tables::{Section, Tables, llvm};
use crate::limit::Limit;
use crate::summary::{AtomKind, atom_flags};

/// `SHF_GNU_RETAIN`; one bit for every OS ABI, as lld reads it.
const SHF_GNU_RETAIN: u64 = 1 << 21;

/// Sections into which compilers put several functions. gcc's prefixes have no dot at the end, and clang's have one.
/// A program may find the functions of its own sections (`.text.vectors`) by their place, and linkers keep these
/// whole.
pub const CODE_OF_COMPILERS: &[&[u8]] = &[
    b".text",
    b".text.exit",
    b".text.hot",
    b".text.hot.",
    b".text.split.",
    b".text.startup",
    b".text.unknown.",
    b".text.unlikely",
    b".text.unlikely.",
    b".ltext",
    b".ltext.hot.",
    b".ltext.split.",
    b".ltext.unknown.",
    b".ltext.unlikely.",
];

/// Sections into which compilers put several objects. A program may walk over a section that it names itself
/// (`.data.commands`), and linkers keep it whole.
pub const DATA_OF_COMPILERS: &[&[u8]] = &[
    b".rodata",
    b".data",
    b".data.rel",
    b".data.rel.local",
    b".data.rel.ro",
    b".data.rel.ro.local",
    b".bss",
];

/// Whether sections of this name are among those that a plain C, C++ or Rust program has for code and data.
///
/// In a link without `--gc-sections` only atoms of these families may be dropped: a program may find a section that
/// it names without a relocation.
pub fn is_standard_family(name: &[u8]) -> bool {
    /// The name itself, or the name followed by a dot and anything.
    const DOTTED: &[&[u8]] = &[
        b".text",
        b".data",
        b".rodata",
        b".bss",
        b".tdata",
        b".tbss",
        b".gcc_except_table",
        b".ltext",
        b".ldata",
        b".lrodata",
        b".lbss",
    ];
    /// Names that count only without a suffix.
    const EXACT: &[&[u8]] = &[b".eh_frame", b".sdata", b".sbss"];
    const LINKONCE: &[&[u8]] = &[b"t.", b"r.", b"d.", b"b.", b"s.", b"sb.", b"td.", b"tb."];
    if let Some(rest) = name.strip_prefix(b".gnu.linkonce.") {
        return LINKONCE.iter().any(|family| rest.starts_with(family));
    }
    EXACT.contains(&name)
        || DOTTED.iter().any(|f| name.strip_prefix(*f).is_some_and(|r| r.is_empty() || r[0] == b'.'))
}

/// Whether the name is a C identifier. Linkers define `__start_NAME` and `__stop_NAME` for such sections.
pub fn is_c_identifier(name: &[u8]) -> bool {
    let letter = |b: &u8| b.is_ascii_alphabetic() || *b == b'_';
    name.first().is_some_and(letter) && name.iter().all(|b| letter(b) || b.is_ascii_digit())
}

/// Whether a section is an unwind table, which is no atom.
pub(crate) fn is_eh_frame(ty: u32, name: &[u8]) -> bool {
    ty == elf::SHT_X86_64_UNWIND.0 || name == b".eh_frame"
}

/// Whether the section is an atom.
pub(crate) fn is_atom(section: &Section, name: &[u8]) -> bool {
    // A table for the linker is no atom, even if it is marked as loaded.
    const TABLES: &[u32] = &[
        elf::SHT_NULL.0,
        elf::SHT_SYMTAB.0,
        elf::SHT_STRTAB.0,
        elf::SHT_SYMTAB_SHNDX.0,
        elf::SHT_GROUP.0,
        elf::SHT_RELA.0,
        elf::SHT_REL.0,
        llvm::ADDRSIG,
        llvm::CALL_GRAPH_PROFILE,
    ];
    !TABLES.contains(&section.ty) && !is_eh_frame(section.ty, name)
}

/// The kind of an atom of this section.
pub(crate) fn atom_kind(section: &Section, name: &[u8]) -> AtomKind {
    let flag = |f: u64| section.flags & f != 0;
    if !section.is_alloc() {
        let debug = name.starts_with(b".debug") || name.starts_with(b".zdebug");
        return if debug { AtomKind::Debug } else { AtomKind::NonAlloc };
    }
    let nobits = section.ty == elf::SHT_NOBITS.0;
    if is_init_fini(section.ty, name) {
        AtomKind::InitFini
    } else if section.ty == elf::SHT_NOTE.0 {
        AtomKind::Note
    } else if flag(elf::SHF_TLS.0) {
        if nobits { AtomKind::TlsBss } else { AtomKind::TlsData }
    } else if flag(elf::SHF_EXECINSTR.0) {
        AtomKind::Code
    } else if nobits {
        AtomKind::Bss
    } else if name.strip_prefix(b".gcc_except_table").is_some_and(|r| r.is_empty() || r[0] == b'.') {
        AtomKind::Lsda
    } else if flag(elf::SHF_WRITE.0) {
        AtomKind::Data
    } else {
        AtomKind::ReadOnlyData
    }
}

/// Whether sections of this name hold thread-local data, by convention.
fn is_thread_local_family(name: &[u8]) -> bool {
    const PREFIXES: &[&[u8]] = &[b".tdata", b".tbss", b".gnu.linkonce.td.", b".gnu.linkonce.tb."];
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether a section has code or pointers that run before or after `main`. It counts by type or, as in lld's
/// `isReserved` (ELF/MarkLive.cpp), by name: old compilers and Go emit `.init_array` as `SHT_PROGBITS`.
fn is_init_fini(ty: u32, name: &[u8]) -> bool {
    const TYPES: &[u32] = &[elf::SHT_INIT_ARRAY.0, elf::SHT_FINI_ARRAY.0, elf::SHT_PREINIT_ARRAY.0];
    const PREFIXES: &[&[u8]] = &[b".init_array", b".fini_array", b".preinit_array", b".ctors", b".dtors"];
    TYPES.contains(&ty)
        || [&b".init"[..], b".fini", b".jcr"].contains(&name)
        || PREFIXES.iter().any(|p| name.starts_with(p))
}

/// The [`atom_flags`] of the header. Membership of a group is added when groups are read.
pub(crate) fn flags(section: &Section, name: &[u8]) -> u32 {
    let bits: [(u64, u32); 6] = [
        (SHF_GNU_RETAIN, atom_flags::RETAIN),
        (elf::SHF_LINK_ORDER.0, atom_flags::LINK_ORDER),
        (elf::SHF_MERGE.0, atom_flags::MERGE),
        (elf::SHF_STRINGS.0, atom_flags::STRINGS),
        (elf::SHF_WRITE.0, atom_flags::WRITE),
        (elf::SHF_EXECINSTR.0, atom_flags::EXEC),
    ];
    let mut flags = bits.iter().filter(|(f, _)| section.flags & f != 0).fold(0, |a, (_, b)| a | b);
    if is_c_identifier(name) {
        flags |= atom_flags::C_IDENTIFIER;
    }
    // lld rejects thread-local data next to other data in an output section, even without a reference to it.
    let is_of_family = (section.flags & elf::SHF_TLS.0 != 0) == is_thread_local_family(name);
    if is_standard_family(name) && is_of_family {
        flags |= atom_flags::STANDARD_FAMILY;
    }
    if section.flags & elf::SHF_EXCLUDE.0 != 0 && !section.is_alloc() {
        flags |= atom_flags::EXCLUDED;
    }
    flags
}

/// Whether a linker may join an unloaded section with a loaded one: an output section has the flags of all its
/// inputs. No loaded section has one of the names that compilers and assemblers give to tables for tools.
fn may_be_loaded_by_name(section: &Section, name: &[u8]) -> bool {
    const METADATA: &[&[u8]] = &[
        b".debug",
        b".zdebug",
        b".stab",
        b".note",
        b".comment",
        b".gnu",
        b".llvm",
        b".stack_sizes",
        b".pseudo_probe",
    ];
    let is_metadata = || METADATA.iter().any(|m| name.starts_with(m)) && !name.starts_with(b".gnu.linkonce.");
    let stands_by_type = section.ty != elf::SHT_PROGBITS.0 && section.ty != elf::SHT_NOBITS.0;
    let is_left_out = section.flags & elf::SHF_EXCLUDE.0 != 0;
    !section.is_alloc() && !is_left_out && !stands_by_type && !is_metadata()
}

/// The limit of a section that is not completely understood.
#[derive(Debug)]
pub(crate) struct SectionLimit {
    pub(crate) limit: Limit,
    pub(crate) detail: String,
    /// It may have references that were not read.
    pub(crate) hides_references: bool,
}

/// The limit that a section has by its type or name.
pub(crate) fn limit_of(
    tables: &Tables<'_>,
    index: u32,
    section: &Section,
    name: &[u8],
    is_relocated: bool,
) -> Option<SectionLimit> {
    let found = |limit, hides_references, what: &str| {
        let detail = format!("section {}: {what}", tables.describe(index));
        Some(SectionLimit { limit, detail, hides_references })
    };
    if name.starts_with(b".gnu.lto_") || name.starts_with(b".gnu.debuglto_") {
        return found(Limit::GccLto, true, "intermediate code of gcc");
    }
    const KNOWN: &[u32] = &[
        elf::SHT_NULL.0,
        elf::SHT_PROGBITS.0,
        elf::SHT_SYMTAB.0,
        elf::SHT_STRTAB.0,
        elf::SHT_RELA.0,
        elf::SHT_NOTE.0,
        elf::SHT_NOBITS.0,
        elf::SHT_INIT_ARRAY.0,
        elf::SHT_FINI_ARRAY.0,
        elf::SHT_PREINIT_ARRAY.0,
        elf::SHT_GROUP.0,
        elf::SHT_SYMTAB_SHNDX.0,
        elf::SHT_X86_64_UNWIND.0,
        elf::SHT_GNU_ATTRIBUTES.0,
        llvm::LINKER_OPTIONS,
        llvm::ADDRSIG,
        llvm::CALL_GRAPH_PROFILE,
        // It refers to code by relocations only.
        llvm::BB_ADDR_MAP,
        llvm::OFFLOADING,
        llvm::LTO,
    ];
    if is_relocated && may_be_loaded_by_name(section, name) {
        return found(
            Limit::UnallocatedSection,
            true,
            "it has no flag \"a\", and is loaded all the same beside one that has",
        );
    }
    match section.ty {
        llvm::DEPENDENT_LIBRARIES => found(Limit::DependentLibraries, false, "names of libraries to link"),
        llvm::SYMPART | llvm::PART_EHDR | llvm::PART_PHDR => found(Limit::Partitions, true, "a partition"),
        ty if ty == elf::SHT_REL.0 => {
            let target = tables.sections.get(section.info as usize);
            // clang writes the relocations of a call-graph profile without addends.
            if target.is_none_or(|t| t.ty != llvm::CALL_GRAPH_PROFILE) {
                found(Limit::RelRelocations, true, "relocations without addends")
            } else {
                None
            }
        }
        ty if KNOWN.contains(&ty) => None,
        ty => found(Limit::UnknownSectionType, true, &format!("type {ty:#x} may hold symbol indices")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_end_at_a_dot() {
        for name in
            [".text", ".text.main", ".data.rel.ro.local", ".rodata.str1.1", ".gnu.linkonce.t.f", ".tbss.x"]
        {
            assert!(is_standard_family(name.as_bytes()), "{name}");
        }
        for name in [".textual", ".init", ".data1", "my_section", ".gnu.linkonce.wi.x", ".eh_frame_hdr", ""] {
            assert!(!is_standard_family(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn identifiers() {
        assert!(is_c_identifier(b"__libc_atexit") && is_c_identifier(b"a1"));
        assert!(
            !is_c_identifier(b"1a")
                && !is_c_identifier(b".a")
                && !is_c_identifier(b"")
                && !is_c_identifier(b"a-b")
        );
    }
}
