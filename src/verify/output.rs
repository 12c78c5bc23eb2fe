//! The linked file: it is well formed, and its facts must agree with those of the plain link.
//!
//! `PlainOutput::difference` compares the facts. Relocatable outputs are not read, and of the others nothing behind
//! the dynamic section.

use std::path::Path;

use goblin::elf::header::{ET_DYN, ET_EXEC};
use goblin::elf::program_header::{
    PF_X, PT_DYNAMIC, PT_GNU_STACK, PT_INTERP, PT_LOAD, PT_TLS, ProgramHeader,
};
use goblin::elf::section_header as sh;

use super::elf::{contents, context, error, headers, string, symbols};
use crate::error::{Error, Result, Stage};
use crate::inputs::mapped::MappedFile;

const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
const DT_INIT: u64 = 12;
const DT_FINI: u64 = 13;
const DT_SONAME: u64 = 14;
const DT_INIT_ARRAYSZ: u64 = 27;
const DT_FINI_ARRAYSZ: u64 = 28;
/// `DT_FLAGS_1` and its bit for position-independent executables.
const DT_FLAGS_1: u64 = 0x6fff_fffb;
const DF_1_PIE: u64 = 0x0800_0000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputType {
    /// It is a program that depends on its position.
    Executable,
    PositionIndependentExecutable,
    SharedLibrary,
}

#[derive(Debug)]
pub struct OutputFacts {
    pub kind: OutputType,
    /// Address of the first instruction, or 0.
    pub entry: u64,
    /// The entries `DT_NEEDED`, in their order.
    pub needed: Vec<Vec<u8>>,
    /// Bytes: `DT_INIT_ARRAYSZ`, `DT_FINI_ARRAYSZ`; `None` in a file without a dynamic section.
    pub init_array: Option<u64>,
    pub fini_array: Option<u64>,
    /// `PT_GNU_STACK` with or without `PF_X`; `None` where there is no such segment.
    pub execstack: Option<bool>,
    pub soname: Option<Vec<u8>>,
    /// The path of the dynamic loader that the segment `PT_INTERP` names.
    pub interpreter: Option<Vec<u8>>,
    /// Whether there is `DT_INIT`, `DT_FINI`; `None` in a file without a dynamic section.
    pub init: Option<bool>,
    pub fini: Option<bool>,
    pub tls: bool,
    pub(super) bytes: MappedFile,
}

/// Read the linked file at `path`.
///
/// # Errors
/// Stage verify: the file can't be read, is no whole ELF64 executable or shared library, or is an executable
/// without entry.
pub fn output(path: &Path) -> Result<OutputFacts> {
    let bytes = MappedFile::open(path).map_err(|e| Error::io(Stage::Verify, path, "read", e))?;
    read(bytes).map_err(|e| e.in_file(path.display().to_string()))
}

fn read(bytes: MappedFile) -> Result<OutputFacts> {
    let (header, _, _) = headers(&bytes)?;
    let offset = usize::try_from(header.e_phoff).unwrap_or(usize::MAX);
    let segments = ProgramHeader::parse(&bytes, offset, usize::from(header.e_phnum), context())
        .map_err(|e| error(e.to_string()))?;
    let size = bytes.len() as u64;
    let loaded = |s: &&ProgramHeader| s.p_type == PT_LOAD;
    if segments.iter().filter(loaded).any(|s| s.p_offset.checked_add(s.p_filesz).is_none_or(|e| e > size)) {
        return Err(error("a segment is outside of the file"));
    }
    let dynamic = dynamic_entries(&bytes, &segments)?;
    let flag = |tag, bit| dynamic.iter().any(|(t, value)| *t == tag && value & bit != 0);
    let kind = match header.e_type {
        ET_EXEC => OutputType::Executable,
        ET_DYN if flag(DT_FLAGS_1, DF_1_PIE) || segments.iter().any(|s| s.p_type == PT_INTERP) => {
            OutputType::PositionIndependentExecutable
        }
        ET_DYN => OutputType::SharedLibrary,
        other => return Err(error(format!("neither executable nor shared library: e_type {other}"))),
    };
    if kind != OutputType::SharedLibrary && header.e_entry == 0 {
        return Err(error("an executable without entry"));
    }
    let needed = named(&bytes, &segments, &dynamic, DT_NEEDED)?;
    let soname = named(&bytes, &segments, &dynamic, DT_SONAME)?.pop();
    let has = |tag| (!dynamic.is_empty()).then(|| dynamic.iter().any(|(t, _)| *t == tag));
    let text = |s: &ProgramHeader| {
        let start = usize::try_from(s.p_offset).ok()?;
        let text = bytes.get(start..start.checked_add(usize::try_from(s.p_filesz).ok()?)?)?;
        Some(text.strip_suffix(b"\0").unwrap_or(text).to_vec())
    };
    let interpreter = segments.iter().find(|s| s.p_type == PT_INTERP).and_then(text);
    let value = |tag| {
        let found = dynamic.iter().find(|(t, _)| *t == tag).map_or(0, |(_, value)| *value);
        (!dynamic.is_empty()).then_some(found)
    };
    let stack = segments.iter().find(|s| s.p_type == PT_GNU_STACK);
    Ok(OutputFacts {
        kind,
        entry: header.e_entry,
        needed,
        init_array: value(DT_INIT_ARRAYSZ),
        fini_array: value(DT_FINI_ARRAYSZ),
        execstack: stack.map(|s| s.p_flags & PF_X != 0),
        soname,
        interpreter,
        init: has(DT_INIT),
        fini: has(DT_FINI),
        tls: segments.iter().any(|s| s.p_type == PT_TLS),
        bytes,
    })
}

/// (tag, value) of the dynamic section, up to `DT_NULL`.
fn dynamic_entries(bytes: &[u8], segments: &[ProgramHeader]) -> Result<Vec<(u64, u64)>> {
    let Some(segment) = segments.iter().find(|s| s.p_type == PT_DYNAMIC) else { return Ok(Vec::new()) };
    let range = || {
        let start = usize::try_from(segment.p_offset).ok()?;
        bytes.get(start..start.checked_add(usize::try_from(segment.p_filesz).ok()?)?)
    };
    let data = range().ok_or_else(|| error("the dynamic section is outside of the file"))?;
    let words: Vec<u64> = data.as_chunks::<8>().0.iter().map(|w| u64::from_le_bytes(*w)).collect();
    let entries = words.as_chunks::<2>().0.iter().map(|[tag, value]| (*tag, *value));
    Ok(entries.take_while(|(tag, _)| *tag != 0).collect())
}

/// The strings that entries of one tag name.
fn named(
    bytes: &[u8],
    segments: &[ProgramHeader],
    dynamic: &[(u64, u64)],
    wanted: u64,
) -> Result<Vec<Vec<u8>>> {
    let Some((_, address)) = dynamic.iter().find(|(tag, _)| *tag == DT_STRTAB) else {
        return Ok(Vec::new());
    };
    let in_file = |s: &ProgramHeader| {
        let inside = s.p_type == PT_LOAD && *address >= s.p_vaddr && *address - s.p_vaddr < s.p_filesz;
        inside.then(|| s.p_offset.saturating_add(*address - s.p_vaddr))
    };
    let table = segments.iter().find_map(in_file).and_then(|o| bytes.get(usize::try_from(o).ok()?..));
    let table = table.ok_or_else(|| error("the dynamic string table is outside of the file"))?;
    let names = dynamic.iter().filter(|(tag, _)| *tag == wanted).map(|(_, offset)| {
        let name = usize::try_from(*offset).ok().and_then(|o| string(table, o));
        name.map(<[u8]>::to_vec).ok_or_else(|| error("an entry of the dynamic section names no string"))
    });
    names.collect()
}

/// A symbol that `.dynsym` defines, with its version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExportedSymbol<'a> {
    pub name: &'a [u8],
    /// It is empty for a symbol without a version of this file.
    pub version: &'a [u8],
    pub by_default: bool,
}

/// The symbols that `.dynsym` defines, and those that it leaves undefined. Both lists are sorted by name.
#[derive(Debug)]
pub struct DynamicSymbols<'a> {
    pub defined: Vec<ExportedSymbol<'a>>,
    pub undefined: Vec<&'a [u8]>,
}

impl<'a> DynamicSymbols<'a> {
    pub fn exports(&self, name: &[u8]) -> &[ExportedSymbol<'a>] {
        let start = self.defined.partition_point(|d| d.name < name);
        let end = self.defined.partition_point(|d| d.name <= name);
        &self.defined[start..end]
    }
}

impl OutputFacts {
    /// The dynamic symbols; `None` if there is no `.dynsym`.
    pub fn dynamic_symbols(&self) -> Result<Option<DynamicSymbols<'_>>> {
        let (_, sections, _) = headers(&self.bytes)?;
        let Some(section) = sections.iter().find(|s| s.sh_type == sh::SHT_DYNSYM) else { return Ok(None) };
        let strings = sections.get(section.sh_link as usize).and_then(|s| contents(&self.bytes, s));
        let strings = strings.ok_or_else(|| error("a dynamic symbol table without names"))?;
        let table = symbols(&self.bytes, section)?;
        let of_type = |ty| sections.iter().find(|s| s.sh_type == ty).and_then(|s| contents(&self.bytes, s));
        let indices = of_type(sh::SHT_GNU_VERSYM).unwrap_or_default().as_chunks::<2>().0;
        let versions = version_names(of_type(sh::SHT_GNU_VERDEF).unwrap_or_default(), strings);
        let (mut defined, mut undefined) = (Vec::new(), Vec::new());
        for (i, symbol) in (1..table.len()).filter_map(|i| Some((i, table.get(i)?))) {
            let Some(name) = string(strings, symbol.st_name).filter(|n| !n.is_empty()) else { continue };
            if symbol.st_shndx == 0 {
                undefined.push(name);
                continue;
            }
            let index = indices.get(i).map_or(0, |index| u16::from_le_bytes(*index));
            let named = versions.iter().find(|(number, _)| *number == index & !HIDDEN);
            let version = named.map_or(&[][..], |(_, name)| name);
            defined.push(ExportedSymbol { name, version, by_default: index & HIDDEN == 0 });
        }
        defined.sort_unstable();
        undefined.sort_unstable();
        Ok(Some(DynamicSymbols { defined, undefined }))
    }
}

/// In `.gnu.version`: not the default version of its name.
const HIDDEN: u16 = 1 << 15;

/// The numbers and names of `.gnu.version_d` (gABI supplement "Symbol Versioning"), but for the base version's.
fn version_names<'a>(table: &[u8], strings: &'a [u8]) -> Vec<(u16, &'a [u8])> {
    let half = |at: usize| Some(u16::from_le_bytes(*table.get(at..)?.first_chunk()?));
    let word = |at: usize| Some(u32::from_le_bytes(*table.get(at..)?.first_chunk()?) as usize);
    let mut names = Vec::new();
    let mut at = 0;
    // The minimum size of an entry bounds the number of entries.
    for _ in 0..table.len() / 20 {
        let entry = || Some((half(at + 2)?, half(at + 4)?, word(at + 12)?, word(at + 16)?));
        let Some((flags, number, names_at, next)) = entry() else { break };
        let name = word(at.saturating_add(names_at)).and_then(|offset| string(strings, offset));
        if let Some(name) = name.filter(|_| flags & 1 == 0) {
            names.push((number, name));
        }
        if next == 0 {
            break;
        }
        at = at.saturating_add(next);
    }
    names
}
