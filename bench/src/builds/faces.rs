//! What others see of a linked file: everything of its dynamic section and symbol table that a pruned one must have, too.
//!
//! Equal must be the kind of file, its interpreter, what it needs, its names and flags, the versions that it defines, whether
//! its stack is executable, and each symbol that it defines for others with version, type, binding, visibility and size. Left out are addresses,
//! and what it imports: that may be less, which [`Face::imports`] is for.

use std::collections::BTreeSet;
use std::path::Path;

use object::elf::{self, FileHeader64};
use object::read::elf::{Dyn, FileHeader, ProgramHeader, SectionHeader, Sym};
use object::{Endianness, FileKind};

use crate::Result;

/// What a linked file shows to the loader and to other links.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Face {
    /// One line for each thing that must be equal.
    pub(super) lines: BTreeSet<String>,
    /// Dynamic symbols that are undefined, or stand for a copy of a library's (R_X86_64_COPY), which is made where the program refers to it.
    pub(super) imports: BTreeSet<String>,
    /// The size of `.text`, in bytes.
    pub(super) text: u64,
}

/// Whether the bytes are an ELF program or shared library.
pub(super) fn is_linked(data: &[u8]) -> bool {
    matches!(FileKind::parse(data), Ok(FileKind::Elf64))
        && FileHeader64::<Endianness>::parse(data).is_ok_and(|header| {
            let kind = header.endian().map(|e| header.e_type(e));
            matches!(kind, Ok(elf::ET_EXEC | elf::ET_DYN))
        })
}

/// Read a file for which [`is_linked`].
pub(super) fn read(data: &[u8]) -> Result<Face> {
    let header = FileHeader64::<Endianness>::parse(data)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, data)?;
    let mut face = Face::default();
    face.lines.insert(format!("type {}", header.e_type(endian)));
    for segment in header.program_headers(endian, data)? {
        match segment.p_type(endian) {
            elf::PT_GNU_STACK => {
                face.lines.insert(format!("stack flags {}", segment.p_flags(endian)));
            }
            elf::PT_INTERP => {
                let name = segment.data(endian, data).unwrap_or_default();
                face.lines.insert(format!("interpreter {}", String::from_utf8_lossy(name)));
            }
            _ => {}
        }
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if let Some((dynamic, strings)) = sections.dynamic(endian, data)? {
        let strings = sections.strings(endian, data, strings)?;
        let mut needed = 0;
        for entry in dynamic {
            let tag = entry.tag(endian);
            let name = || entry.string(endian, strings).map(text).unwrap_or_default();
            let line = match tag {
                elf::DT_NEEDED => {
                    needed += 1;
                    format!("needs {needed}: {}", name())
                }
                elf::DT_SONAME => format!("soname {}", name()),
                elf::DT_RPATH => format!("rpath {}", name()),
                elf::DT_RUNPATH => format!("runpath {}", name()),
                elf::DT_FLAGS => format!("flags {:#x}", entry.d_val(endian)),
                elf::DT_FLAGS_1 => format!("flags_1 {:#x}", entry.d_val(endian)),
                elf::DT_TEXTREL | elf::DT_SYMBOLIC | elf::DT_BIND_NOW | elf::DT_INIT | elf::DT_FINI => {
                    format!("dynamic tag {tag}")
                }
                _ => continue,
            };
            face.lines.insert(line);
        }
    }
    if let Some((mut definitions, link)) = sections.gnu_verdef(endian, data)? {
        let strings = sections.strings(endian, data, link)?;
        while let Some((version, mut names)) = definitions.next()? {
            let mut line = format!("version {:#x}", version.vd_flags.get(endian));
            while let Some(name) = names.next()? {
                line.push_str(&format!(" {}", text(name.name(endian, strings)?)));
            }
            face.lines.insert(line);
        }
    }
    let symbols = sections.symbols(endian, data, elf::SHT_DYNSYM)?;
    let mut copied = BTreeSet::new();
    for section in sections.iter() {
        for relocation in section.rela(endian, data)?.map_or(&[][..], |(relocations, _)| relocations) {
            if relocation.r_type(endian, false) == elf::R_X86_64_COPY {
                copied.insert(relocation.r_offset.get(endian));
            }
        }
    }
    let versions = sections.versions(endian, data)?;
    for (index, symbol) in symbols.enumerate() {
        let mut name = text(symbol.name(endian, symbols.strings())?);
        if let Some(versions) = &versions {
            let at = versions.version_index(endian, index);
            if let Some(version) = versions.version(at.index())? {
                let by_default = if at.is_hidden() { "@" } else { "@@" };
                name = format!("{name}{by_default}{}", text(version.name()));
            }
        }
        if symbol.is_undefined(endian) || copied.contains(&symbol.st_value(endian)) {
            if !name.is_empty() {
                face.imports.insert(name);
            }
            continue;
        }
        face.lines.insert(format!(
            "exports {name} type {} binding {} visibility {} size {}",
            symbol.st_type(),
            symbol.st_bind(),
            symbol.st_visibility(),
            symbol.st_size(endian)
        ));
    }
    face.text = sections.section_by_name(endian, b".text").map_or(0, |(_, s)| s.sh_size(endian));
    Ok(face)
}

/// How two files of one path differ, line by line. Empty if others see the same of both.
pub(super) fn differences(path: &Path, plain: &Face, pruned: &Face) -> Vec<String> {
    let path = path.display();
    let mut out = Vec::new();
    for line in plain.lines.difference(&pruned.lines) {
        out.push(format!("{path}: only plain: {line}"));
    }
    for line in pruned.lines.difference(&plain.lines) {
        out.push(format!("{path}: only pruned: {line}"));
    }
    for import in pruned.imports.difference(&plain.imports) {
        out.push(format!("{path}: only the pruned one imports {import}"));
    }
    out
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::process::Command;

    use super::*;

    fn library(dir: &Path, name: &str, source: &str, options: &[&str]) -> Face {
        let (c, so) = (dir.join(format!("{name}.c")), dir.join(format!("{name}.so")));
        std::fs::write(&c, source).unwrap();
        let mut gcc = Command::new("gcc");
        gcc.args(["-shared", "-fPIC", "-o"]).arg(&so).arg(&c).args(options);
        assert!(gcc.status().unwrap().success());
        let data = std::fs::read(&so).unwrap();
        assert!(is_linked(&data));
        read(&data).unwrap()
    }

    #[test]
    fn what_others_see_is_compared() {
        let dir = std::env::temp_dir().join(format!("bench-faces-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let script = dir.join("script");
        std::fs::write(&script, "V1 { global: f; local: *; };").unwrap();
        let script = format!("-Wl,--version-script={}", script.display());
        let path = Path::new("a.so");
        let two = "int f(void) { return 1; } int g(void) { return 2; }";
        let one = library(&dir, "one", two, &["-Wl,-soname,a"]);
        assert!(differences(path, &one, &library(&dir, "same", two, &["-Wl,-soname,a"])).is_empty());
        let without_g = library(&dir, "less", "int f(void) { return 1; }", &["-Wl,-soname,a"]);
        assert_eq!(
            differences(path, &one, &without_g),
            ["a.so: only plain: exports g type 2 binding 1 visibility 0 size 11"]
        );
        let others: [(&str, &[&str]); 4] = [
            ("versioned", &["-Wl,-soname,a", &script]),
            ("renamed", &["-Wl,-soname,b"]),
            ("needing", &["-Wl,-soname,a", "-Wl,--no-as-needed", "-lm"]),
            ("stack", &["-Wl,-soname,a", "-Wl,-z,execstack"]),
        ];
        for (name, options) in others {
            let other = library(&dir, name, two, options);
            assert!(!differences(path, &one, &other).is_empty(), "{name}");
        }
        let importing = library(
            &dir,
            "importing",
            "int h(void); int f(void) { return h(); } int g(void) { return 2; }",
            &["-Wl,-soname,a"],
        );
        assert!(differences(path, &one, &importing).iter().any(|l| l.ends_with("imports h")));
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
