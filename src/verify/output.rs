//! The linked file: that it is one, and the facts of it that the plain link must agree on.
//!
//! Decides nothing by itself but that the file is a whole ELF64 executable or shared library; the driver compares the
//! facts. Left out: relocatable outputs, and everything behind the dynamic section.

use std::path::Path;

use goblin::elf::header::{ET_DYN, ET_EXEC};
use goblin::elf::program_header::{PF_X, PT_DYNAMIC, PT_GNU_STACK, PT_INTERP, PT_LOAD, ProgramHeader};
use goblin::elf::section_header as sh;

use super::elf::{contents, context, error, headers, string, symbols};
use crate::error::{Error, Result, Stage};
use crate::inputs::mapped::Mapped;

const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
const DT_INIT_ARRAYSZ: u64 = 27;
const DT_FINI_ARRAYSZ: u64 = 28;
/// `DT_FLAGS_1` and its bit for position-independent executables.
const DT_FLAGS_1: u64 = 0x6fff_fffb;
const DF_1_PIE: u64 = 0x0800_0000;

/// What was linked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputType {
    /// Position-dependent.
    Executable,
    PositionIndependentExecutable,
    SharedLibrary,
}

/// What the output says of itself.
#[derive(Debug)]
pub struct OutputFacts {
    pub kind: OutputType,
    /// Address of the first instruction; 0 where there is none.
    pub entry: u64,
    /// `DT_NEEDED`, in order.
    pub needed: Vec<Vec<u8>>,
    /// Bytes: `DT_INIT_ARRAYSZ`, `DT_FINI_ARRAYSZ`; `None` in a file without a dynamic section.
    pub init_array: Option<u64>,
    pub fini_array: Option<u64>,
    /// `PT_GNU_STACK` with or without `PF_X`; `None` where there is no such segment.
    pub execstack: Option<bool>,
    bytes: Mapped,
}

/// Read the linked file at `path`.
///
/// # Errors
/// Stage verify: the file can't be read, is no whole ELF64 executable or shared library, or is an executable
/// without entry.
pub fn output(path: &Path) -> Result<OutputFacts> {
    let bytes = Mapped::open(path).map_err(|e| Error::io(Stage::Verify, path, "read", e))?;
    read(bytes).map_err(|e| e.in_file(path.display().to_string()))
}

fn read(bytes: Mapped) -> Result<OutputFacts> {
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
    let needed = needed(&bytes, &segments, &dynamic)?;
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

fn needed(bytes: &[u8], segments: &[ProgramHeader], dynamic: &[(u64, u64)]) -> Result<Vec<Vec<u8>>> {
    let Some((_, address)) = dynamic.iter().find(|(tag, _)| *tag == DT_STRTAB) else {
        return Ok(Vec::new());
    };
    let in_file = |s: &ProgramHeader| {
        let inside = s.p_type == PT_LOAD && *address >= s.p_vaddr && *address - s.p_vaddr < s.p_filesz;
        inside.then(|| s.p_offset.saturating_add(*address - s.p_vaddr))
    };
    let table = segments.iter().find_map(in_file).and_then(|o| bytes.get(usize::try_from(o).ok()?..));
    let table = table.ok_or_else(|| error("the dynamic string table is outside of the file"))?;
    let names = dynamic.iter().filter(|(tag, _)| *tag == DT_NEEDED).map(|(_, offset)| {
        let name = usize::try_from(*offset).ok().and_then(|o| string(table, o));
        name.map(<[u8]>::to_vec).ok_or_else(|| error("a DT_NEEDED names no string"))
    });
    names.collect()
}

impl OutputFacts {
    /// The names in `.dynsym`, defined and undefined, each list sorted; `None` without such a table.
    pub fn dynamic_symbols(&self) -> Result<Option<[Vec<&[u8]>; 2]>> {
        let (_, sections, _) = headers(&self.bytes)?;
        let Some(section) = sections.iter().find(|s| s.sh_type == sh::SHT_DYNSYM) else { return Ok(None) };
        let strings = sections.get(section.sh_link as usize).and_then(|s| contents(&self.bytes, s));
        let strings = strings.ok_or_else(|| error("a dynamic symbol table without names"))?;
        let table = symbols(&self.bytes, section)?;
        let (mut defined, mut undefined) = (Vec::new(), Vec::new());
        for symbol in (1..table.len()).filter_map(|i| table.get(i)) {
            let Some(name) = string(strings, symbol.st_name).filter(|n| !n.is_empty()) else { continue };
            if symbol.st_shndx == 0 { undefined.push(name) } else { defined.push(name) }
        }
        defined.sort_unstable();
        undefined.sort_unstable();
        Ok(Some([defined, undefined]))
    }
}
