//! `lto-prune summarize` and `lto-prune dump`: summaries ahead of the link, and their text form.
//!
//! Unlike in the pass, unreadable and unwritable files are errors. Input kinds are recognised by content. A limit in a summary is
//! no error: it says how the link will treat the module.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use lexopt::prelude::{Long, Short, Value};
use object::read::archive::ArchiveFile;
use summaries::{Granularity, bitcode, extract, format, text};

use super::{granularity, interfaces, member_name};
use crate::config::Level;
use crate::error::{Error, Result, Stage};
use crate::hashing;
use crate::inputs::recognise::recognise;
use crate::inputs::{FileKind, interface};
use crate::precomputed;

const SUMMARIZE_USAGE: &str = "usage: lto-prune summarize [--prune-level=LEVEL] [--interface] IN... -o OUT (a file for one object, else a folder)";

/// `lto-prune summarize IN... -o OUT`, without the first two words.
///
/// One object gives the file OUT, unless OUT is a folder. Several inputs, or an archive, give `OUT/NAME.ltosum` each, with
/// `NAME` the file's name or `archive(member)`. A summary serves links at levels that divide modules as finely as the given
/// level does (`--prune-level`, as in a link; by default the finest).
pub fn summarize_command(args: &[OsString]) -> Result<()> {
    let SummarizeRequest { inputs, output, level, interface } = parse_arguments(args)?;
    if interface {
        return write_interfaces(&inputs, &output, level);
    }
    let granularity = granularity(level);
    let mut modules = Vec::new();
    for input in &inputs {
        read_modules(input, &mut modules)?;
    }
    let single = inputs.len() == 1 && modules.iter().all(|m| !m.is_member) && !output.is_dir();
    if !single {
        fs::create_dir_all(&output)
            .map_err(|e| Error::io(Stage::Summarise, &output, "make the folder", e))?;
    }
    // Names come first: nothing is written if two inputs would overwrite each other.
    let mut targets: BTreeMap<PathBuf, &ModuleSource> = BTreeMap::new();
    for module in &modules {
        let target = if single { output.clone() } else { output.join(format!("{}.ltosum", module.name)) };
        if targets.insert(target, module).is_some() {
            let message = format!("two inputs are named {}: summarise them into two folders", module.name);
            return Err(Error::new(Stage::Summarise, message));
        }
    }
    for (target, module) in targets {
        let encoded = format::encode(
            &extract::extract_by(&module.bytes, granularity, &super::at_once),
            hashing::hash(&module.bytes),
        );
        fs::write(&target, hashing::with_checksum(encoded))
            .map_err(|e| Error::io(Stage::Summarise, &target, "write the summary", e))?;
    }
    Ok(())
}

/// Write the interface of each input: `OUT` for one, below it at the input's path for several, as a link looks for them.
fn write_interfaces(inputs: &[PathBuf], output: &Path, level: Level) -> Result<()> {
    let single = inputs.len() == 1 && !output.is_dir();
    let mut targets = BTreeSet::new();
    for input in inputs {
        let encoded =
            interfaces::of_file(input, &read(input)?, granularity(level), level == Level::Pointers)?;
        let target =
            if single { output.to_owned() } else { interface::path_of(output, input, interface::SUFFIX) };
        if !targets.insert(target.clone()) {
            return Err(Error::new(Stage::Summarise, "another input has the same path there")
                .in_file(target.display().to_string()));
        }
        let written = precomputed::write(&target, &encoded);
        written.map_err(|e| Error::io(Stage::Summarise, &target, "write the interface", e))?;
    }
    Ok(())
}

/// `lto-prune dump FILE`, without the first two words: the text form of a summary, an object, bitcode or the members of an
/// archive. Bitcode that is embedded in an object comes after it. Modules are divided as finely as possible.
pub fn dump_command(args: &[OsString]) -> Result<()> {
    let [file] = args else {
        return Err(Error::new(
            Stage::Arguments,
            "usage: lto-prune dump FILE (an object, bitcode, an archive or a .ltosum)",
        ));
    };
    let path = Path::new(file);
    let mut out = String::new();
    let bytes = read(path)?;
    if bytes.starts_with(&format::MAGIC) {
        let bad = |what: String| Error::new(Stage::Summarise, what).in_file(path.display().to_string());
        // A summary of another version has another end, so that this error comes first.
        format::input_hash(&bytes).map_err(|e| bad(e.to_string()))?;
        let whole =
            hashing::without_checksum(&bytes).ok_or_else(|| bad("the summary is damaged".to_owned()))?;
        let (summary, _) = format::decode(whole).map_err(|e| bad(e.to_string()))?;
        out = text::dump(&summary);
    } else {
        let mut modules = Vec::new();
        split_modules(path, bytes, &mut modules)?;
        for module in modules {
            if module.is_member {
                out.push_str(&format!("; {}\n", module.name.escape_debug()));
            }
            out.push_str(&text::dump(&extract::extract(&module.bytes, Granularity::Pointers)));
            if let Some(inner) = bitcode::embedded(&module.bytes).and_then(|range| module.bytes.get(range)) {
                out.push_str(&format!("; bitcode in {}\n", module.name.escape_debug()));
                out.push_str(&text::dump(&extract::extract(inner, Granularity::Pointers)));
            }
        }
    }
    match std::io::stdout().lock().write_all(out.as_bytes()) {
        // The reader has closed the pipe (`lto-prune dump x.o | head`).
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        Err(e) => Err(Error::io(Stage::Summarise, path, "print the text form", e)),
        Ok(()) => Ok(()),
    }
}

struct SummarizeRequest {
    inputs: Vec<PathBuf>,
    output: PathBuf,
    level: Level,
    interface: bool,
}

fn parse_arguments(args: &[OsString]) -> Result<SummarizeRequest> {
    let usage = || Error::new(Stage::Arguments, SUMMARIZE_USAGE);
    let mistake = |e: lexopt::Error| Error::new(Stage::Arguments, format!("{e}; {SUMMARIZE_USAGE}"));
    let (mut inputs, mut output) = (Vec::new(), None);
    let (mut level, mut interface) = (None, false);
    let mut parser = lexopt::Parser::from_args(args);
    while let Some(arg) = parser.next().map_err(mistake)? {
        match arg {
            Short('o') | Long("output") => output = Some(PathBuf::from(parser.value().map_err(mistake)?)),
            Long("interface") => interface = true,
            Long("prune-level") => {
                let value = parser.value().map_err(mistake)?;
                level = match value.to_str() {
                    Some("sections") => Some(Level::Sections),
                    Some("functions") => Some(Level::Functions),
                    Some("pointers") => Some(Level::Pointers),
                    _ => {
                        let what = format!("--prune-level={} is no level", value.display());
                        return Err(Error::new(Stage::Arguments, format!("{what}; {SUMMARIZE_USAGE}")));
                    }
                }
            }
            Value(input) => inputs.push(PathBuf::from(input)),
            other => return Err(mistake(other.unexpected())),
        }
    }
    if level == Some(Level::Pointers) && !interface {
        let what = "--prune-level=pointers needs --interface: links analyse functions from the objects themselves, and a \
                    summary is that of --prune-level=functions";
        return Err(Error::new(Stage::Arguments, what));
    }
    let level = level.unwrap_or(Level::Pointers);
    match output {
        Some(output) if !inputs.is_empty() => Ok(SummarizeRequest { inputs, output, level, interface }),
        _ => Err(usage()),
    }
}

/// A module to summarise: a file, or the member of an archive.
struct ModuleSource {
    /// Fit to be a file name.
    name: String,
    is_member: bool,
    bytes: Vec<u8>,
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|e| Error::io(Stage::Summarise, path, "read it", e))
}

fn read_modules(path: &Path, modules: &mut Vec<ModuleSource>) -> Result<()> {
    let bytes = read(path)?;
    split_modules(path, bytes, modules)
}

/// The file itself, or its members. A repeated member name gets the member's offset.
fn split_modules(path: &Path, bytes: Vec<u8>, modules: &mut Vec<ModuleSource>) -> Result<()> {
    let file = path.file_name().unwrap_or(OsStr::new("input")).to_string_lossy().into_owned();
    let kind = recognise(&bytes);
    if !matches!(kind, FileKind::Archive | FileKind::ThinArchive) {
        if !matches!(kind, FileKind::Object | FileKind::Bitcode) {
            let message = "is no object, LLVM bitcode or archive";
            return Err(Error::new(Stage::Summarise, message).in_file(path.display().to_string()));
        }
        modules.push(ModuleSource { name: file, is_member: false, bytes });
        return Ok(());
    }
    let bad =
        |e: object::Error| Error::new(Stage::Summarise, e.to_string()).in_file(path.display().to_string());
    let archive = ArchiveFile::parse(bytes.as_slice()).map_err(bad)?;
    let first = modules.len();
    for member in archive.members() {
        let member = member.map_err(bad)?;
        let mut name = member_name(&file, &String::from_utf8_lossy(member.name()));
        if modules.iter().skip(first).any(|m| m.name == name) {
            name = format!("{name}@{}", member.file_range().0);
        }
        let bytes = if member.is_thin() {
            read(&thin_member_path(path, member.name()))?
        } else {
            member.data(bytes.as_slice()).map_err(bad)?.to_vec()
        };
        modules.push(ModuleSource { name, is_member: true, bytes });
    }
    Ok(())
}

/// A thin archive names its members relative to itself.
fn thin_member_path(archive: &Path, member: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt as _;
    archive.parent().unwrap_or(Path::new("")).join(OsStr::from_bytes(member))
}
