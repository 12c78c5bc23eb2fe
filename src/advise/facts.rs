//! The reader of a linked file: its sizes, and the parts that other files see.
//!
//! Loaded bytes are the sum of `p_filesz` of the `PT_LOAD` segments, memory is that of `p_memsz`.

use std::collections::BTreeSet;
use std::path::Path;

use object::Endianness;
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};

use crate::inputs::dso;

/// Symbols that a linker defines by itself: each linker exports others of them.
const OF_LINKER: [&str; 7] = ["__bss_start", "_edata", "_end", "_etext", "edata", "end", "etext"];
/// So many names of symbols are shown.
const SHOWN_NAMES: usize = 3;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LinkedFacts {
    pub(super) loaded: u64,
    pub(super) memory: u64,
    pub(super) file: u64,
    kind: String,
    needed: Vec<String>,
    /// Dynamic symbols that it defines, with their versions.
    exports: BTreeSet<String>,
    pub(super) has_symbols: bool,
    pub(super) has_debug: bool,
    has_relative_relocations: bool,
}

impl LinkedFacts {
    /// Read a linked file.
    ///
    /// # Errors
    /// It is no program and no shared library.
    pub(super) fn read(path: &Path) -> Result<LinkedFacts, String> {
        let data = std::fs::read(path).map_err(|e| e.to_string())?;
        let unread = |e: object::Error| format!("the output is no 64-bit ELF file: {e}");
        let header = FileHeader64::<Endianness>::parse(&*data).map_err(unread)?;
        let endian = header.endian().map_err(unread)?;
        let segments = header.program_headers(endian, &*data).map_err(unread)?;
        let loads = || segments.iter().filter(|s| s.p_type(endian) == elf::PT_LOAD);
        if loads().next().is_none() {
            return Err("the output is no program and no shared library".to_owned());
        }
        let sections = header.sections(endian, &*data).map_err(unread)?;
        let has = |prefix: &[u8]| {
            let names = sections.iter().filter_map(|s| sections.section_name(endian, s).ok());
            names.into_iter().any(|name| name.starts_with(prefix))
        };
        let of_dso = dso::parse(&data).map_err(|(_, why)| why)?;
        let interpreter = segments.iter().find_map(|s| s.interpreter(endian, &*data).ok()?);
        let interpreter = interpreter.map(|i| String::from_utf8_lossy(i).into_owned());
        let mut kind = match (header.e_type(endian), &interpreter) {
            (elf::ET_EXEC, _) => "a program at a fixed address".to_owned(),
            (elf::ET_DYN, _) if of_dso.is_program => "a position-independent program".to_owned(),
            _ => "a shared library".to_owned(),
        };
        kind += &interpreter.map_or(String::new(), |name| format!(" for {name}"));
        kind += &of_dso.soname.map_or(String::new(), |name| format!(" {name}"));
        // GNU ld and gold also define each version as a symbol.
        let is_version = |s: &crate::inputs::DsoSymbol| s.version.as_ref().is_some_and(|v| **v == *s.name);
        let defined = of_dso.symbols.iter().filter(|s| s.defined && !is_version(s));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let name = |s: &crate::inputs::DsoSymbol| match &s.version {
            Some(version) => format!("{}@{}", text(&s.name), text(version)),
            None => text(&s.name),
        };
        Ok(LinkedFacts {
            loaded: loads().map(|s| s.p_filesz(endian)).sum(),
            memory: loads().map(|s| s.p_memsz(endian)).sum(),
            file: data.len() as u64,
            kind,
            needed: of_dso.needed,
            exports: defined.map(name).filter(|name| !OF_LINKER.contains(&&**name)).collect(),
            has_symbols: sections.iter().any(|s| s.sh_type(endian) == elf::SHT_SYMTAB),
            has_debug: has(b".debug_") || has(b".zdebug_"),
            has_relative_relocations: sections.iter().any(|s| s.sh_type(endian) == elf::SHT_RELR),
        })
    }

    /// The order of rows: loaded bytes first.
    pub(super) fn size(&self) -> (u64, u64) {
        (self.loaded, self.file)
    }

    /// Differences from the link as it is that other files or the loader can see.
    pub(super) fn differences(&self, base: &LinkedFacts) -> Vec<String> {
        let mut out = Vec::new();
        if self.kind != base.kind {
            out.push(format!("it is {}, not {}", self.kind, base.kind));
        }
        let missing = |from: &[String], other: &[String]| {
            from.iter().filter(|name| !other.contains(name)).cloned().collect::<Vec<_>>().join(", ")
        };
        let (lost, new) = (missing(&base.needed, &self.needed), missing(&self.needed, &base.needed));
        out.extend((!lost.is_empty()).then(|| format!("no longer needs {lost}")));
        out.extend((!new.is_empty()).then(|| format!("needs also {new}")));
        if lost.is_empty() && new.is_empty() && self.needed != base.needed {
            out.push("needs its libraries in another order".to_owned());
        }
        let symbols = |from: &BTreeSet<String>, other: &BTreeSet<String>, what: &str| {
            let names: Vec<&str> = from.difference(other).map(String::as_str).collect();
            let shown = names.iter().take(SHOWN_NAMES).copied().collect::<Vec<_>>().join(", ");
            let more = names.len().saturating_sub(SHOWN_NAMES);
            let plural = if names.len() == 1 { "symbol" } else { "symbols" };
            let rest = if more == 0 { String::new() } else { format!(" and {more} more") };
            (!names.is_empty()).then(|| format!("{what} {} {plural}: {shown}{rest}", names.len()))
        };
        out.extend(symbols(&base.exports, &self.exports, "no longer exports"));
        out.extend(symbols(&self.exports, &base.exports, "exports also"));
        out
    }

    /// Differences that need a newer loader, or that only a debugger or profiler sees.
    pub(super) fn losses(&self, base: &LinkedFacts) -> Vec<String> {
        let mut out = Vec::new();
        out.extend((base.has_symbols && !self.has_symbols).then(|| "no symbol table".to_owned()));
        let is_new = self.has_relative_relocations && !base.has_relative_relocations;
        out.extend(is_new.then(|| "runs with glibc 2.36 and later".to_owned()));
        out.extend((base.has_debug && !self.has_debug).then(|| "no debug information".to_owned()));
        out
    }
}
