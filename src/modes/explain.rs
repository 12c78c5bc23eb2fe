//! `lto-prune explain-trap BINARY ADDRESS|CORE [BASE]`: which function a stub that was run stands for.
//!
//! The table that emission put into each object (`.debug_lto_prune_stubs`) is in the output, its addresses those of the link. A core
//! file has the place where the process stopped (`NT_PRSTATUS`; the first thread received the signal) and the mapped files
//! (`NT_FILE`), so that the load address need not be known. An address is one of the link, or with BASE one of a process in which the
//! file was loaded there.
//!
//! Each offset is checked. Compressed debug information is not read.

use std::ffi::OsString;
use std::path::Path;

use object::LittleEndian;
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};

use crate::error::{Error, Result, Stage, lossy};
use crate::inputs::mapped::MappedFile;

const LE: LittleEndian = LittleEndian;
const TABLE: &[u8] = b".debug_lto_prune_stubs";
const NT_PRSTATUS: u32 = 1;
/// `NT_FILE`: the mapped files of the process.
const NT_FILE: u32 = 0x4649_4c45;
/// The offset of `rip` in the descriptor of an `NT_PRSTATUS` (`struct elf_prstatus` of x86-64 Linux): the registers are behind 112
/// bytes, and it is the 17th.
const RIP: usize = 112 + 16 * 8;

fn error(message: impl Into<String>) -> Error {
    Error::new(Stage::Report, message)
}

/// The answer, a line.
pub fn explain(words: &[OsString]) -> Result<String> {
    let (binary, place, base) = match words {
        [binary, place] => (binary, place, 0),
        [binary, place, base] => (
            binary,
            place,
            address(base).ok_or_else(|| error(format!("{}: no address", base.to_string_lossy())))?,
        ),
        _ => {
            return Err(Error::new(
                Stage::Arguments,
                "explain-trap takes the program and where it stopped: lto-prune explain-trap BINARY ADDRESS|CORE [BASE]",
            ));
        }
    };
    let binary = Path::new(binary);
    let bytes = open(binary)?;
    let at = match address(place) {
        Some(address) => address.checked_sub(base).ok_or_else(|| error("the address is below the base"))?,
        None => {
            let core = open(Path::new(place))?;
            let offset = stopped_at(&core, binary)?;
            address_of(&bytes, offset)
                .ok_or_else(|| error(format!("offset {offset:#x} of the program is not loaded")))?
        }
    };
    let table = table(&bytes)?;
    match table.iter().find(|(start, size, _)| at.checked_sub(*start).is_some_and(|d| d < *size)) {
        Some((start, _, name)) => Ok(format!("{start:#x}: stub of {}\n", lossy(name))),
        None => Err(error(format!("{at:#x} is in none of the {} stubs", table.len()))),
    }
}

fn open(path: &Path) -> Result<MappedFile> {
    MappedFile::open(path).map_err(|e| Error::io(Stage::Report, path, "read", e))
}

/// `0x` and hexadecimal digits, or decimal ones.
fn address(word: &OsString) -> Option<u64> {
    let text = word.to_str()?;
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The stubs of a linked file: start, size in bytes, name.
fn table(bytes: &[u8]) -> Result<Vec<(u64, u64, &[u8])>> {
    let parsed = |e: object::Error| error(e.to_string());
    let header = FileHeader64::<LittleEndian>::parse(bytes).map_err(parsed)?;
    let sections = header.sections(LE, bytes).map_err(parsed)?;
    let named =
        |s: &&elf::SectionHeader64<LittleEndian>| sections.section_name(LE, s).is_ok_and(|n| n == TABLE);
    let section = sections
        .iter()
        .find(named)
        .ok_or_else(|| error("the program has no table of stubs: nothing was stubbed, or it was stripped"))?;
    if section.sh_flags.get(LE).0 & elf::SHF_COMPRESSED.0 != 0 {
        return Err(error("the table of stubs is compressed: objcopy --decompress-debug-sections first"));
    }
    let mut rest = section.data(LE, bytes).map_err(parsed)?;
    let mut table = Vec::new();
    while let (Some(start), Some(size)) = (u64_at(rest, 0), u32_at(rest, 8)) {
        let text = rest.get(12..).unwrap_or(&[]);
        let Some(end) = text.iter().position(|b| *b == 0) else { break };
        table.push((start, u64::from(size), text.get(..end).unwrap_or(&[])));
        rest = text.get(end + 1..).unwrap_or(&[]);
    }
    Ok(table)
}

/// The address of the link at an offset of the file.
fn address_of(bytes: &[u8], offset: u64) -> Option<u64> {
    let header = FileHeader64::<LittleEndian>::parse(bytes).ok()?;
    header.program_headers(LE, bytes).ok()?.iter().find_map(|segment| {
        let (start, size) = segment.file_range(LE);
        let into = offset.checked_sub(start).filter(|into| *into < size)?;
        (segment.p_type(LE) == elf::PT_LOAD).then(|| segment.p_vaddr(LE).checked_add(into))?
    })
}

/// The offset in `binary` at which the process of a core file stopped.
fn stopped_at(core: &[u8], binary: &Path) -> Result<u64> {
    let parsed = |e: object::Error| error(format!("the core file: {e}"));
    let header = FileHeader64::<LittleEndian>::parse(core).map_err(parsed)?;
    if header.e_type.get(LE) != elf::ET_CORE {
        return Err(error("neither an address nor a core file"));
    }
    let (mut rip, mut files) = (None, None);
    for segment in header.program_headers(LE, core).map_err(parsed)? {
        let Some(mut notes) = segment.notes(LE, core).map_err(parsed)? else { continue };
        while let Some(note) = notes.next().map_err(parsed)? {
            match note.n_type(LE).0 {
                NT_PRSTATUS if rip.is_none() => rip = u64_at(note.desc(), RIP),
                NT_FILE => files = Some(note.desc()),
                _ => {}
            }
        }
    }
    let rip = rip.ok_or_else(|| error("the core file has no registers"))?;
    let files = files.ok_or_else(|| error("the core file does not say what was mapped"))?;
    let (offset, name) =
        mapping(files, rip).ok_or_else(|| error(format!("the process stopped at {rip:#x}, in no file")))?;
    let name = Path::new(std::ffi::OsStr::new(&*String::from_utf8_lossy(name))).to_path_buf();
    if name.file_name() != binary.file_name() {
        return Err(error(format!("the process stopped in {}", name.display())));
    }
    Ok(offset)
}

/// The file offset and the name of the file that is mapped at an address.
fn mapping(files: &[u8], at: u64) -> Option<(u64, &[u8])> {
    let count = usize::try_from(u64_at(files, 0)?).ok()?;
    let page = u64_at(files, 8)?;
    let names = files.get(16usize.checked_add(count.checked_mul(24)?)?..)?;
    for i in 0..count {
        let entry = 16 + i * 24;
        let (start, end) = (u64_at(files, entry)?, u64_at(files, entry + 8)?);
        if start <= at && at < end {
            let offset = u64_at(files, entry + 16)?.checked_mul(page)?.checked_add(at - start)?;
            return Some((offset, names.split(|b| *b == 0).nth(i)?));
        }
    }
    None
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk::<8>().map(|b| u64::from_le_bytes(*b))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk::<4>().map(|b| u32::from_le_bytes(*b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_files_are_found_by_address() {
        let mut note = Vec::new();
        for word in [2u64, 4096, 0x1000, 0x2000, 0, 0x2000, 0x4000, 3] {
            note.extend_from_slice(&word.to_le_bytes());
        }
        note.extend_from_slice(b"/a\0/b\0");
        assert_eq!(mapping(&note, 0x1fff), Some((0xfff, &b"/a"[..])));
        assert_eq!(mapping(&note, 0x2010), Some((0x3010, &b"/b"[..])));
        assert_eq!(mapping(&note, 0x4000), None);
        // A count that the note does not hold.
        assert_eq!(mapping(&[0xff; 40], 0), None);
    }
}
