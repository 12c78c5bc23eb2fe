//! Interfaces made before the link (`summarize --interface`): the ranges of an object that are removed, and the summaries that replace them.
//!
//! The contents of code and data and their relocations are removed, by far the most of an object without debug information. Headers,
//! symbols, groups and the index of an archive are kept, because inputs are recognised and resolved by them, and so are
//! unwind tables and debug information, which a plan reads. LLVM bitcode is kept whole: its symbols and references are in one stream.
//! [`crate::inputs::interface`] says why this is sound.

use std::ops::Range;
use std::path::Path;

use object::LittleEndian;
use object::elf;
use object::read::elf::{FileHeader, SectionHeader};
use rayon::prelude::*;
use summaries::{Granularity, SummaryOptions, extract, format, have_debug_info};

use crate::config::DEFAULT_BUDGET;
use crate::error::{Error, Result, Stage};
use crate::hashing;
use crate::inputs::interface::{self, ModuleForInterface};
use crate::inputs::recognise::recognise;
use crate::inputs::{FileKind, archive};

const LE: LittleEndian = LittleEndian;

/// At the level `pointers` a module with at most this many bytes of contents is kept whole, so that small links have value flow.
const WHOLE_BELOW: usize = 4 * DEFAULT_BUDGET as usize;

/// The interface of the object or archive at `path`, for links with this granularity. With `keeps_small` they may have value flow.
///
/// # Errors
/// It is neither, or an archive that can't be read.
pub(super) fn of_file(
    path: &Path,
    bytes: &[u8],
    granularity: Granularity,
    keeps_small: bool,
) -> Result<Vec<u8>> {
    let bad = |message: String| Error::new(Stage::Summarise, message).in_file(path.display().to_string());
    let ranges: Vec<Range<usize>> = match recognise(bytes) {
        FileKind::Object | FileKind::Bitcode => std::iter::once(0..bytes.len()).collect(),
        // Its members are separate files.
        FileKind::ThinArchive => Vec::new(),
        FileKind::Archive => {
            archive::parse(bytes).map_err(bad)?.members.into_iter().map(|member| member.data).collect()
        }
        FileKind::SharedLibrary | FileKind::Script | FileKind::Unknown => {
            return Err(bad("neither an object nor an archive".to_owned()));
        }
    };
    let of_range = |range: Range<usize>| {
        of_module(range.clone(), bytes.get(range).unwrap_or_default(), granularity, keeps_small)
    };
    let modules: Vec<ModuleForInterface> = ranges.into_par_iter().map(of_range).collect();
    Ok(interface::encode(bytes, &modules))
}

fn of_module(
    range: Range<usize>,
    bytes: &[u8],
    granularity: Granularity,
    keeps_small: bool,
) -> ModuleForInterface {
    if recognise(bytes) != FileKind::Object {
        return ModuleForInterface { range, left_out: Vec::new(), summaries: Vec::new() };
    }
    let contents = contents_of(bytes).unwrap_or_default();
    let size: usize = contents.iter().map(Range::len).sum();
    let is_whole = keeps_small && size <= WHOLE_BELOW;
    let left_out = if is_whole { Vec::new() } else { contents };
    ModuleForInterface { range, left_out, summaries: summaries_of(bytes, granularity) }
}

/// The serialised summaries of an object: one for links that keep its debug information, and one for links that drop it, if it has some.
fn summaries_of(bytes: &[u8], granularity: Granularity) -> Vec<Vec<u8>> {
    let hash = hashing::hash(bytes);
    let summary =
        |without_debug| extract::extract(bytes, SummaryOptions { without_debug, ..granularity.into() });
    let with = summary(false);
    let without = have_debug_info(&with.atoms).then(|| summary(true));
    std::iter::once(with)
        .chain(without)
        .map(|summary| hashing::with_checksum(format::encode(&summary, hash)))
        .collect()
}

/// The ranges of code and data of an object, and of their relocations; without unwind tables.
fn contents_of(object: &[u8]) -> Option<Vec<Range<usize>>> {
    let header = elf::FileHeader64::<LittleEndian>::parse(object).ok()?;
    let sections = header.sections(LE, object).ok()?;
    let is_contents = |section: &elf::SectionHeader64<LittleEndian>| {
        section.sh_type(LE) == elf::SHT_PROGBITS
            && section.sh_flags(LE).0 & elf::SHF_ALLOC.0 != 0
            && sections.section_name(LE, section).is_ok_and(|name| name != b".eh_frame")
    };
    let mut ranges = Vec::new();
    for section in sections.iter() {
        let is_relocations = section.sh_type(LE) == elf::SHT_RELA;
        let target = || sections.section(object::SectionIndex(section.sh_info(LE) as usize)).ok();
        if is_contents(section) || is_relocations && target().is_some_and(is_contents) {
            let (offset, size) = section.file_range(LE)?;
            let (start, size) = (usize::try_from(offset).ok()?, usize::try_from(size).ok()?);
            ranges.push(start..start.checked_add(size).filter(|end| *end <= object.len())?);
        }
    }
    Some(ranges)
}
