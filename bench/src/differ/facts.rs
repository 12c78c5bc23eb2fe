//! What of a link must not depend on pruning, as lines of text: `KIND: VALUE`, compared as multisets.
//!
//! The output is read with the `object` crate. Left out: addresses, offsets, what is in sections, `.symtab`.

use std::collections::BTreeMap;
use std::path::Path;

use object::Endianness;
use object::elf;
use object::read::elf::{Dyn, ElfFile64, FileHeader, ProgramHeader, SectionHeader, Sym};

type File<'a> = ElfFile64<'a, Endianness>;

/// The facts of an output; of something else only what it is.
pub(crate) fn of_output(path: &Path) -> Vec<String> {
    let Ok(meta) = path.symlink_metadata() else { return vec!["output: is not there".to_owned()] };
    let Ok(bytes) = std::fs::read(path) else { return vec!["output: can't be read".to_owned()] };
    if bytes.starts_with(b"old output") {
        return vec!["output: the old one".to_owned()];
    }
    let mut facts = Vec::new();
    use std::os::unix::fs::PermissionsExt;
    facts.push(format!("mode: {:o}", meta.permissions().mode() & 0o7777));
    facts.extend(of_bytes(&bytes));
    facts
}

/// The facts of an ELF file.
pub(crate) fn of_bytes(bytes: &[u8]) -> Vec<String> {
    match read(bytes) {
        Ok(facts) => facts,
        Err(_) => vec!["output: no ELF file".to_owned()],
    }
}

/// Tags of the dynamic section whose value is an address, a size or a count that depends on code.
const LOOSE: &[(i64, &str)] = &[
    (elf::DT_RELA.0, "RELA"),
    (elf::DT_RELASZ.0, "RELASZ"),
    (elf::DT_RELACOUNT.0, "RELACOUNT"),
    (elf::DT_JMPREL.0, "JMPREL"),
    (elf::DT_PLTRELSZ.0, "PLTRELSZ"),
    (elf::DT_PLTREL.0, "PLTREL"),
    (elf::DT_PLTGOT.0, "PLTGOT"),
    (elf::DT_RELAENT.0, "RELAENT"),
    (elf::DT_RELR.0, "RELR"),
    (elf::DT_RELRSZ.0, "RELRSZ"),
    (elf::DT_RELRENT.0, "RELRENT"),
    (elf::DT_TEXTREL.0, "TEXTREL"),
];

fn read(bytes: &[u8]) -> object::Result<Vec<String>> {
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
        match segment.p_type(endian) {
            elf::PT_INTERP => {
                let name = segment.data(endian, bytes).unwrap_or_default();
                facts.push(format!("interp: {}", text(name)));
            }
            elf::PT_GNU_STACK => facts.push(format!("stack: flags {}", segment.p_flags(endian).0)),
            elf::PT_TLS => facts.push("tls: some".to_owned()),
            elf::PT_GNU_RELRO => facts.push("relro: some".to_owned()),
            elf::PT_GNU_EH_FRAME => facts.push("eh-frame-hdr: some".to_owned()),
            elf::PT_GNU_PROPERTY => facts.push("property: some".to_owned()),
            elf::PT_DYNAMIC => facts.push("dynamic: some".to_owned()),
            _ => {}
        }
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
        let tag = entry.d_tag(endian);
        let value = entry.d_val(endian);
        let string = || {
            let at = u32::try_from(value).unwrap_or(u32::MAX);
            text(strings.get(at).unwrap_or_default())
        };
        match tag {
            elf::DT_NULL => break,
            elf::DT_NEEDED => {
                facts.push(format!("needed {needed}: {}", string()));
                needed += 1;
            }
            elf::DT_SONAME => facts.push(format!("soname: {}", string())),
            elf::DT_RPATH => facts.push(format!("rpath: {}", string())),
            elf::DT_RUNPATH => facts.push(format!("runpath: {}", string())),
            elf::DT_AUXILIARY => facts.push(format!("auxiliary: {}", string())),
            elf::DT_FILTER => facts.push(format!("filter: {}", string())),
            elf::DT_FLAGS => flags(facts, "flags", value),
            elf::DT_FLAGS_1 => flags(facts, "flags-1", value),
            elf::DT_INIT_ARRAYSZ | elf::DT_FINI_ARRAYSZ | elf::DT_PREINIT_ARRAYSZ => {
                facts.push(format!("dynamic-array: {:x} {}", tag.0, value / 8));
            }
            elf::DT_VERNEEDNUM => facts.push(format!("needed-versions-of: {value}")),
            elf::DT_VERDEFNUM => facts.push(format!("defined-versions: {value}")),
            _ => match LOOSE.iter().find(|(t, _)| *t == tag.0) {
                Some((_, name)) => facts.push(format!("relocating-tag: {name}")),
                None => facts.push(format!("tag: {:x}", tag.0)),
            },
        }
    }
    Ok(())
}

/// Each bit by itself, so that a rule may be about one.
fn flags(facts: &mut Vec<String>, kind: &str, value: u64) {
    facts
        .extend((0..64).filter(|bit| value >> bit & 1 == 1).map(|bit| format!("{kind}: {:#x}", 1u64 << bit)));
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
        let version = match &versions {
            Some(versions) => {
                let number = versions.version_index(endian, index);
                let version = versions.version(number.index())?;
                let at = if number.is_hidden() || symbol.is_undefined(endian) { "@" } else { "@@" };
                version.map(|v| format!("{at}{}", text(v.name()))).unwrap_or_default()
            }
            None => String::new(),
        };
        let what = format!(
            "{name}{version} {} {} visibility {}",
            kind(symbol.st_type().0),
            binding(symbol.st_bind().0),
            symbol.st_visibility().0
        );
        if symbol.is_undefined(endian) {
            facts.push(format!("import: {what}"));
        } else {
            facts.push(format!("export: {what} size {}", symbol.st_size(endian)));
        }
    }
    for (name, count) in copies(file, bytes)? {
        facts.push(format!("copy: {name} {count}"));
    }
    Ok(())
}

/// Copy relocations by the name that they are of.
fn copies(file: &File<'_>, bytes: &[u8]) -> object::Result<BTreeMap<String, usize>> {
    let endian = file.endian();
    let sections = file.elf_header().sections(endian, bytes)?;
    let table = sections.symbols(endian, bytes, elf::SHT_DYNSYM)?;
    let mut found = BTreeMap::new();
    for section in sections.iter() {
        let Some((relocations, _)) = section.rela(endian, bytes)? else { continue };
        for relocation in relocations {
            if relocation.r_type(endian, false) == elf::R_X86_64_COPY
                && let Ok(symbol) =
                    table.symbol(object::SymbolIndex(relocation.r_sym(endian, false) as usize))
            {
                *found.entry(text(table.symbol_name(endian, symbol)?)).or_insert(0) += 1;
            }
        }
    }
    Ok(found)
}

/// Functions that a library exports, for its host.
pub(crate) fn callable(path: &Path) -> Vec<String> {
    let facts = std::fs::read(path).map(|b| of_bytes(&b)).unwrap_or_default();
    let exports = facts.iter().filter_map(|f| f.strip_prefix("export: "));
    let functions = exports.filter(|e| e.contains(" FUNC ") || e.contains(" IFUNC "));
    let names = functions.filter_map(|e| e.split([' ', '@']).next());
    let mut names: Vec<String> = names.filter(|n| !n.starts_with('_')).map(str::to_owned).collect();
    names.dedup();
    names
}

fn kind(number: u8) -> String {
    let names = ["NOTYPE", "OBJECT", "FUNC", "SECTION", "FILE", "COMMON", "TLS"];
    match names.get(usize::from(number)) {
        Some(name) => (*name).to_owned(),
        None if number == 10 => "IFUNC".to_owned(),
        None => number.to_string(),
    }
}

fn binding(number: u8) -> String {
    let names = ["LOCAL", "GLOBAL", "WEAK"];
    names.get(usize::from(number)).map_or_else(|| number.to_string(), |n| (*n).to_owned())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned()
}
