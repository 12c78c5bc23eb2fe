//! Interfaces of objects and archives, by which a link can be planned without the objects themselves.
//!
//! Like an interface stub of a shared library, it is the file without the contents of code and data and their relocations,
//! with a summary of each native module. Every kept byte stays at its offset and the others read as zero, so that all readers of objects
//! and archives read an interface like the file. Bitcode and small objects are kept whole, for value flow.
//!
//! A link by such a plan plans again from the files themselves, and uses a pruned object only if the plans are equal. So a reader
//! that needs removed bytes costs time but no correctness.

use std::io;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use summaries::format;

use super::mapped::MappedFile;
use crate::hashing::{with_checksum, without_checksum};
use crate::precomputed;

const MAGIC: [u8; 8] = *b"LTOIF\r\n\x1a";
/// The suffix that makes an interface's name of its input's.
pub const SUFFIX: &str = ".ltoif";

/// A range in an input file: the first byte, and the end.
type FileRange = (u64, u64);

/// The header of an interface, in the order of the file. The kept bytes follow it, then the summaries.
#[derive(Debug, Serialize, Deserialize)]
struct InterfaceContents {
    /// The size of the original file, in bytes.
    size: u64,
    kept: Vec<FileRange>,
    modules: Vec<InterfaceModule>,
}

/// A module in an interface, with its range and its summaries.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct InterfaceModule {
    place: FileRange,
    pub is_whole: bool,
    /// The sizes of its summaries, in bytes, each for other options.
    summaries: Vec<u64>,
}

/// The interface of an input file.
#[derive(Debug)]
pub struct Interface {
    bytes: MappedFile,
    /// The modules, sorted by place, each with the offset of its first summary in `bytes`.
    modules: Vec<(InterfaceModule, usize)>,
    /// It was read instead of the file, so that module hashes are taken from it.
    pub stands_in: bool,
}

impl Interface {
    /// Read the interface of `input`, and with `stands_in` make an image of the file.
    ///
    /// # Errors
    /// The file can't be read, is not trusted, is damaged, or is of another version.
    pub(super) fn open(path: &Path, input: &Path, stands_in: bool) -> io::Result<(Self, Option<MappedFile>)> {
        let bad = |message: String| {
            io::Error::new(io::ErrorKind::InvalidData, format!("{}: {message}", path.display()))
        };
        let damaged = || bad("the interface is damaged".to_owned());
        let bytes = precomputed::open(path, Some(input))?;
        let (contents, mut at) =
            format::decode_file::<InterfaceContents>(MAGIC, &bytes).map_err(|e| bad(e.to_string()))?;
        // With the file itself at hand only summaries are read, and each has its own checksum.
        if stands_in && without_checksum(&bytes).is_none() {
            return Err(damaged());
        }
        let image = stands_in.then(|| image(&contents, bytes.get(at..)?));
        let image = match image {
            Some(None) => return Err(damaged()),
            Some(Some(image)) => Some(MappedFile::from_bytes(image)),
            None => None,
        };
        for (start, end) in &contents.kept {
            at = end.checked_sub(*start).and_then(|n| at.checked_add(n as usize)).ok_or_else(damaged)?;
        }
        let mut modules = Vec::with_capacity(contents.modules.len());
        for module in contents.modules {
            let first = at;
            for size in &module.summaries {
                at = at.checked_add(*size as usize).ok_or_else(damaged)?;
            }
            modules.push((module, first));
        }
        modules.sort_by_key(|(module, _)| module.place);
        Ok((Interface { bytes, modules, stands_in }, image))
    }

    /// The module in this range of the file, with its summaries in the format of [`format`](mod@format), each with its checksum.
    pub fn module(&self, range: &Range<usize>) -> Option<(&InterfaceModule, Vec<&[u8]>)> {
        let place = (range.start as u64, range.end as u64);
        let found = self.modules.binary_search_by_key(&place, |(module, _)| module.place).ok()?;
        let (module, first) = self.modules.get(found)?;
        let mut at = *first;
        let mut summaries = Vec::new();
        for size in &module.summaries {
            let end = at.checked_add(*size as usize)?;
            summaries.push(self.bytes.get(at..end)?);
            at = end;
        }
        Some((module, summaries))
    }
}

/// The file, with zeros for bytes that are not kept. `kept` begins with the kept bytes.
fn image(contents: &InterfaceContents, mut kept: &[u8]) -> Option<Vec<u8>> {
    let size = usize::try_from(contents.size).ok()?;
    // A size beyond memory means a damaged file.
    Vec::<u8>::new().try_reserve_exact(size).ok()?;
    let mut image = vec![0; size];
    for (start, end) in &contents.kept {
        let bytes = kept.split_off(..usize::try_from(end.checked_sub(*start)?).ok()?)?;
        image.get_mut(*start as usize..*end as usize)?.copy_from_slice(bytes);
    }
    Some(image)
}

/// The path below `dir` of a precomputed file for the input at `path`: the same path with `suffix`. Each `..` is resolved by its
/// text; one that leads out of the working directory becomes `__`.
pub fn path_of(dir: &Path, path: &Path, suffix: &str) -> PathBuf {
    let mut below = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => below.push(name),
            Component::ParentDir if below.file_name().is_some_and(|name| name != "__") => {
                below.pop();
            }
            Component::ParentDir => below.push("__"),
            Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
        }
    }
    let mut out = dir.join(below).into_os_string();
    out.push(suffix);
    PathBuf::from(out)
}

/// The parts of a module from which an interface is made.
#[derive(Debug)]
pub struct ModuleForInterface {
    /// Its range in the file.
    pub range: Range<usize>,
    /// The ranges that are not kept, in offsets of the module.
    pub left_out: Vec<Range<usize>>,
    /// Its summaries, in the format of [`format`](mod@format), each with its checksum.
    pub summaries: Vec<Vec<u8>>,
}

/// The interface of the file with these bytes and modules.
pub fn encode(bytes: &[u8], modules: &[ModuleForInterface]) -> Vec<u8> {
    let mut left_out: Vec<Range<usize>> = Vec::new();
    for module in modules {
        let in_file = |at: usize| module.range.start.saturating_add(at);
        left_out.extend(module.left_out.iter().map(|range| in_file(range.start)..in_file(range.end)));
    }
    left_out.sort_by_key(|range| range.start);
    let mut kept: Vec<Range<usize>> = Vec::new();
    let mut at = 0;
    for range in left_out {
        if range.start > at {
            kept.push(at..range.start);
        }
        at = at.max(range.end);
    }
    kept.push(at..bytes.len());
    let place = |range: &Range<usize>| (range.start as u64, range.end as u64);
    let entry = |module: &ModuleForInterface| InterfaceModule {
        place: place(&module.range),
        is_whole: module.left_out.is_empty(),
        summaries: module.summaries.iter().map(|summary| summary.len() as u64).collect(),
    };
    let contents = InterfaceContents {
        size: bytes.len() as u64,
        kept: kept.iter().map(place).collect(),
        modules: modules.iter().map(entry).collect(),
    };
    let kept = kept.iter().map(|range| bytes.get(range.clone()).unwrap_or_default());
    let summaries = modules.iter().flat_map(|module| &module.summaries).map(Vec::as_slice);
    with_checksum(format::encode_file(MAGIC, &contents, &kept.chain(summaries).collect::<Vec<_>>()))
}
