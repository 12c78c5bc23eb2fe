//! The facts of a linked file that do not depend on pruning, as lines `KIND: VALUE` that are compared as multisets.
//!
//! The file is read with the `object` crate. Addresses, offsets, contents of sections and `.symtab` are not facts.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use object::Endianness;
use object::elf;
use object::read::elf::{Dyn, ElfFile64, FileHeader, ProgramHeader, SectionHeader, Sym};

type File<'a> = ElfFile64<'a, Endianness>;

/// The facts of an output. A missing file, and one that is not ELF, have one fact each.
pub(crate) fn of_output(path: &Path) -> Vec<String> {
    let Ok(meta) = path.symlink_metadata() else { return vec!["output: is not there".to_owned()] };
    let Ok(bytes) = std::fs::read(path) else { return vec!["output: can't be read".to_owned()] };
    if bytes.starts_with(b"old output") {
        return vec!["output: the old one".to_owned()];
    }
    let mut facts = vec![format!("mode: {:o}", meta.permissions().mode() & 0o7777)];
    facts.extend(of_bytes(&bytes));
    facts
}

/// The facts of an ELF file.
pub(crate) fn of_bytes(bytes: &[u8]) -> Vec<String> {
    read(bytes).unwrap_or_else(|_| vec!["output: no ELF file".to_owned()])
}

/// Whether the bytes are an ELF program or shared library.
pub(crate) fn is_linked(bytes: &[u8]) -> bool {
    let kind = File::parse(bytes).map(|file| file.elf_header().e_type(file.endian()));
    matches!(kind, Ok(elf::ET_EXEC | elf::ET_DYN))
}

pub(crate) fn read(bytes: &[u8]) -> object::Result<Vec<String>> {
    let file = File::parse(bytes)?;
    let endian = file.endian();
    let header = file.elf_header();
    let mut facts = vec![
        format!("type: {}", header.e_type(endian).0),
        format!("e_flags: {:?}", header.e_flags(endian)),
        format!("os-abi: {:?}", header.e_ident().os_abi),
        format!("entry: {}", if header.e_entry(endian) == 0 { "none" } else { "some" }),
    ];
    for segment in header.program_headers(endian, bytes)? {
        facts.push(match segment.p_type(endian) {
            elf::PT_INTERP => format!("interp: {}", text(segment.data(endian, bytes).unwrap_or_default())),
            elf::PT_GNU_STACK => format!("stack: flags {}", segment.p_flags(endian).0),
            elf::PT_TLS => "tls: some".to_owned(),
            elf::PT_GNU_RELRO => "relro: some".to_owned(),
            elf::PT_GNU_EH_FRAME => "eh-frame-hdr: some".to_owned(),
            elf::PT_GNU_PROPERTY => "property: some".to_owned(),
            elf::PT_DYNAMIC => "dynamic: some".to_owned(),
            _ => continue,
        });
    }
    let sections = header.sections(endian, bytes)?;
    let mut symtab = "none";
    for section in sections.iter() {
        let name = text(sections.section_name(endian, section).unwrap_or_default());
        let size = section.sh_size(endian);
        match section.sh_type(endian) {
            elf::SHT_INIT_ARRAY | elf::SHT_FINI_ARRAY | elf::SHT_PREINIT_ARRAY => {
                facts.push(format!("array: {name} {}", size / 8));
            }
            elf::SHT_SYMTAB => symtab = "some",
            elf::SHT_NOTE if name == ".note.gnu.build-id" => facts.push(format!("build-id: {size} bytes")),
            elf::SHT_NOTE if name == ".note.gnu.property" => {
                facts.push(format!("property: {:x?}", section.data(endian, bytes)?));
            }
            _ => {}
        }
    }
    facts.push(format!("symtab: {symtab}"));
    dynamic(&file, bytes, &mut facts)?;
    symbols(&file, bytes, &mut facts)?;
    Ok(facts)
}

fn dynamic(file: &File<'_>, bytes: &[u8], facts: &mut Vec<String>) -> object::Result<()> {
    let endian = file.endian();
    let sections = file.elf_header().sections(endian, bytes)?;
    let Some((entries, link)) = sections.dynamic(endian, bytes)? else { return Ok(()) };
    let strings = sections.strings(endian, bytes, link).unwrap_or_default();
    let mut needed = 0;
    for entry in entries {
        let (tag, value) = (entry.d_tag(endian), entry.d_val(endian));
        let string = || text(strings.get(u32::try_from(value).unwrap_or(u32::MAX)).unwrap_or_default());
        // Each bit alone, so that a rule can be about one.
        let mut flags = |kind: &str| {
            let bits = (0..64).filter(|bit| value >> bit & 1 == 1);
            facts.extend(bits.map(|bit| format!("{kind}: {:#x}", 1u64 << bit)));
        };
        let fact = match tag {
            elf::DT_NULL => break,
            elf::DT_NEEDED => {
                needed += 1;
                format!("needed {}: {}", needed - 1, string())
            }
            elf::DT_SONAME => format!("soname: {}", string()),
            elf::DT_RPATH => format!("rpath: {}", string()),
            elf::DT_RUNPATH => format!("runpath: {}", string()),
            elf::DT_AUXILIARY => format!("auxiliary: {}", string()),
            elf::DT_FILTER => format!("filter: {}", string()),
            elf::DT_FLAGS => {
                flags("flags");
                continue;
            }
            elf::DT_FLAGS_1 => {
                flags("flags-1");
                continue;
            }
            elf::DT_INIT_ARRAYSZ | elf::DT_FINI_ARRAYSZ | elf::DT_PREINIT_ARRAYSZ => {
                format!("dynamic-array: {:x} {}", tag.0, value / 8)
            }
            elf::DT_VERNEEDNUM => format!("needed-versions-of: {value}"),
            elf::DT_VERDEFNUM => format!("defined-versions: {value}"),
            // The value is an address, a size, or a count that depends on code.
            elf::DT_RELA
            | elf::DT_RELASZ
            | elf::DT_RELACOUNT
            | elf::DT_RELAENT
            | elf::DT_JMPREL
            | elf::DT_PLTRELSZ
            | elf::DT_PLTREL
            | elf::DT_PLTGOT
            | elf::DT_RELR
            | elf::DT_RELRSZ
            | elf::DT_RELRENT
            | elf::DT_TEXTREL => {
                format!("relocating-tag: {:x}", tag.0)
            }
            _ => format!("tag: {:x}", tag.0),
        };
        facts.push(fact);
    }
    Ok(())
}

fn symbols(file: &File<'_>, bytes: &[u8], facts: &mut Vec<String>) -> object::Result<()> {
    let endian = file.endian();
    let sections = file.elf_header().sections(endian, bytes)?;
    let table = sections.symbols(endian, bytes, elf::SHT_DYNSYM)?;
    let versions = sections.versions(endian, bytes)?;
    if let Some((mut definitions, link)) = sections.gnu_verdef(endian, bytes)? {
        let strings = sections.strings(endian, bytes, link)?;
        while let Some((definition, mut names)) = definitions.next()? {
            let mut words = Vec::new();
            while let Some(name) = names.next()? {
                words.push(text(name.name(endian, strings)?));
            }
            facts.push(format!("defines-version: {} {:?}", words.join(" "), definition.vd_flags.get(endian)));
        }
    }
    if let Some((mut needs, link)) = sections.gnu_verneed(endian, bytes)? {
        let strings = sections.strings(endian, bytes, link)?;
        while let Some((need, mut names)) = needs.next()? {
            let library = text(need.file(endian, strings)?);
            while let Some(name) = names.next()? {
                facts.push(format!("needs-version: {library} {}", text(name.name(endian, strings)?)));
            }
        }
    }
    for (index, symbol) in table.enumerate() {
        let name = text(table.symbol_name(endian, symbol)?);
        if name.is_empty() {
            continue;
        }
        let mut version = String::new();
        if let Some(versions) = &versions {
            let number = versions.version_index(endian, index);
            let at = if number.is_hidden() || symbol.is_undefined(endian) { "@" } else { "@@" };
            let found = versions.version(number.index())?;
            version = found.map(|v| format!("{at}{}", text(v.name()))).unwrap_or_default();
        }
        let named = |names: &[&str], number: u8| match names.get(usize::from(number)) {
            Some(name) => (*name).to_owned(),
            None => number.to_string(),
        };
        let kinds = ["NOTYPE", "OBJECT", "FUNC", "SECTION", "FILE", "COMMON", "TLS", "7", "8", "9", "IFUNC"];
        let what = format!(
            "{name}{version} {} {} visibility {}",
            named(&kinds, symbol.st_type().0),
            named(&["LOCAL", "GLOBAL", "WEAK"], symbol.st_bind().0),
            symbol.st_visibility().0
        );
        facts.push(match symbol.is_undefined(endian) {
            true => format!("import: {what}"),
            false => format!("export: {what} size {}", symbol.st_size(endian)),
        });
    }
    for section in sections.iter() {
        for relocation in section.rela(endian, bytes)?.map_or(&[][..], |(relocations, _)| relocations) {
            let symbol = object::SymbolIndex(relocation.r_sym(endian, false) as usize);
            if relocation.r_type(endian, false) == elf::R_X86_64_COPY
                && let Ok(symbol) = table.symbol(symbol)
            {
                facts.push(format!("copy: {}", text(table.symbol_name(endian, symbol)?)));
            }
        }
    }
    Ok(())
}

/// The names of functions that a library exports.
pub(crate) fn callable(path: &Path) -> Vec<String> {
    let facts = std::fs::read(path).map(|bytes| of_bytes(&bytes)).unwrap_or_default();
    let exports = facts.iter().filter_map(|f| f.strip_prefix("export: "));
    let functions = exports.filter(|e| e.contains(" FUNC ") || e.contains(" IFUNC "));
    let names = functions.filter_map(|e| e.split([' ', '@']).next());
    let mut names: Vec<String> = names.filter(|n| !n.starts_with('_')).map(str::to_owned).collect();
    names.dedup();
    names
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned()
}
