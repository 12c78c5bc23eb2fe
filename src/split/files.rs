//! The files: objects, archives, folders of them, and pipes.
//!
//! An archive keeps its members, their order and names, and its symbol table, which division does not change. It is
//! written as `ar -D` writes it: dates, owners and modes are fixed. A file without divided objects is passed through.
//!
//! Files are renamed into their places after all are divided. So an error leaves no output, and no reader sees a
//! half-written file.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::SplitRequest;
use super::divide::{self, SplitOptions};
use super::report::{ObjectReport, SplitFileReport, SplitOutcome};
use crate::emit::archive;
use crate::error::{Error, Result, Stage};
use crate::inputs::FileKind;
use crate::inputs::archive::{Archive, parse};
use crate::inputs::recognise::{is_foreign_elf, recognise};
use crate::precomputed::same_file;

const PIPE: &str = "-";

/// A written file, and its final path.
struct PendingFile {
    file: tempfile::NamedTempFile,
    path: PathBuf,
}

/// Divide the requested inputs, and write them.
pub(super) fn split(request: &SplitRequest) -> Result<Vec<SplitFileReport>> {
    let mut reports = Vec::new();
    let Some(output) = &request.output else {
        let mut written = Vec::new();
        for input in &request.inputs {
            if is_pipe(input) {
                return Err(refused(input, "there is no place in a pipe; -o OUT"));
            }
            match input.is_dir() {
                true => in_folder(input, request.options, &mut written, &mut reports)?,
                false => in_place(input, Unknown::Error, request.options, &mut written, &mut reports)?,
            }
        }
        for written in written {
            put(written)?;
        }
        return Ok(reports);
    };
    let Some(input) = request.inputs.first() else { return Ok(reports) };
    if !is_pipe(input) && input.is_dir() {
        folder(input, output, request.options, &mut reports)?;
        return Ok(reports);
    }
    if same_file(input, output) {
        return Err(refused(output, "it is the input; --in-place rewrites it"));
    }
    if output.is_dir() {
        return Err(refused(output, "it is a folder; name the file to write"));
    }
    let bytes = read(input)?;
    let (divided, report) = contents(input, &bytes, Unknown::Error, request.options)?;
    reports.extend(report);
    let bytes = divided.as_ref().unwrap_or(&bytes);
    // Pipes and devices can't be renamed over.
    let direct = fs::metadata(output).is_ok_and(|m| !m.is_file());
    if is_pipe(output) {
        let mut out = std::io::stdout().lock();
        let written = out.write_all(bytes).and_then(|()| out.flush());
        written.map_err(|e| Error::io(Stage::Emit, output, "write to", e))?;
    } else if direct {
        fs::write(output, bytes).map_err(|e| Error::io(Stage::Emit, output, "write", e))?;
    } else {
        let mode = if is_pipe(input) { None } else { Some(input.as_path()) };
        put(beside(output, bytes, mode)?)?;
    }
    Ok(reports)
}

fn is_pipe(path: &Path) -> bool {
    path.as_os_str() == PIPE
}

fn refused(path: &Path, message: &str) -> Error {
    Error::new(Stage::Arguments, message).in_file(path.display().to_string())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    if is_pipe(path) {
        let mut bytes = Vec::new();
        let read = std::io::stdin().lock().read_to_end(&mut bytes);
        return read.map(|_| bytes).map_err(|e| Error::io(Stage::Load, path, "read from", e));
    }
    fs::read(path).map_err(|e| Error::io(Stage::Load, path, "read", e))
}

/// Write `bytes` to a file in the folder of `path`, with the mode of the file `like`.
fn beside(path: &Path, bytes: &[u8], like: Option<&Path>) -> Result<PendingFile> {
    let cannot = |e| Error::io(Stage::Emit, path, "write", e);
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(cannot)?;
    file.write_all(bytes).map_err(cannot)?;
    let permissions = match like {
        Some(like) => fs::metadata(like).map_err(cannot)?.permissions(),
        None => std::os::unix::fs::PermissionsExt::from_mode(0o644),
    };
    fs::set_permissions(file.path(), permissions).map_err(cannot)?;
    Ok(PendingFile { file, path: path.to_owned() })
}

fn put(written: PendingFile) -> Result<()> {
    let persisted = written.file.persist(&written.path);
    persisted.map(drop).map_err(|e| Error::io(Stage::Emit, &written.path, "write", e.error))
}

/// The handling of a file that is neither object nor archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unknown {
    Error,
    /// It is passed through, because only its folder was named.
    Pass,
}

/// All files of a folder and its subfolders, in the order of their names. Links are not followed.
fn walk(folder: &Path) -> Result<Vec<PathBuf>> {
    let cannot = |e| Error::io(Stage::Load, folder, "read the folder", e);
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(cannot)? {
        paths.push(entry.map_err(cannot)?.path());
    }
    paths.sort();
    let mut all = Vec::new();
    for path in paths {
        let is_folder = fs::symlink_metadata(&path).map_err(cannot)?.is_dir();
        all.push(path.clone());
        if is_folder {
            all.extend(walk(&path)?);
        }
    }
    Ok(all)
}

/// Rewrite the files of a folder in place.
fn in_folder(
    folder: &Path,
    options: SplitOptions,
    written: &mut Vec<PendingFile>,
    reports: &mut Vec<SplitFileReport>,
) -> Result<()> {
    for path in walk(folder)? {
        if fs::symlink_metadata(&path).is_ok_and(|m| m.is_file()) {
            in_place(&path, Unknown::Pass, options, written, reports)?;
        }
    }
    Ok(())
}

fn in_place(
    path: &Path,
    unknown: Unknown,
    options: SplitOptions,
    written: &mut Vec<PendingFile>,
    reports: &mut Vec<SplitFileReport>,
) -> Result<()> {
    // The target of a link is rewritten, and the link is kept.
    let path = fs::canonicalize(path).map_err(|e| Error::io(Stage::Load, path, "find", e))?;
    let bytes = read(&path)?;
    let (divided, report) = contents(&path, &bytes, unknown, options)?;
    reports.extend(report);
    if let Some(divided) = divided {
        written.push(beside(&path, &divided, Some(&path))?);
    }
    Ok(())
}

/// Copy a folder with divided objects and archives. The copy is made next to its final place.
fn folder(
    input: &Path,
    output: &Path,
    options: SplitOptions,
    reports: &mut Vec<SplitFileReport>,
) -> Result<()> {
    if is_pipe(output) || fs::symlink_metadata(output).is_ok() {
        return Err(refused(output, "a folder is divided into a new folder, and this is there already"));
    }
    let cannot = |e| Error::io(Stage::Emit, output, "make the folder", e);
    let parent = output.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // The list is made first, since the copy may be in the folder itself.
    let paths = walk(input)?;
    let copy = tempfile::Builder::new().prefix(".lto-prune").tempdir_in(parent).map_err(cannot)?;
    let mode = fs::metadata(input).map_err(cannot)?.permissions();
    for path in paths {
        let Ok(relative) = path.strip_prefix(input) else { continue };
        let target = copy.path().join(relative);
        let metadata = fs::symlink_metadata(&path).map_err(|e| Error::io(Stage::Load, &path, "read", e))?;
        let cannot = |e| Error::io(Stage::Emit, output.join(relative), "write", e);
        if metadata.is_dir() {
            fs::create_dir(&target).map_err(cannot)?;
        } else if metadata.is_symlink() {
            let to = fs::read_link(&path).map_err(cannot)?;
            std::os::unix::fs::symlink(to, &target).map_err(cannot)?;
        } else if metadata.is_file() {
            let bytes = read(&path)?;
            let (divided, report) = contents(&path, &bytes, Unknown::Pass, options)?;
            reports.extend(report);
            fs::write(&target, divided.as_ref().unwrap_or(&bytes)).map_err(cannot)?;
            fs::set_permissions(&target, metadata.permissions()).map_err(cannot)?;
        }
    }
    fs::set_permissions(copy.path(), mode).map_err(cannot)?;
    fs::rename(copy.keep(), output).map_err(cannot)
}

/// Divide the contents of a file; `None` if nothing changes. There is no report for a file that is not read.
fn contents(
    path: &Path,
    bytes: &[u8],
    unknown: Unknown,
    options: SplitOptions,
) -> Result<(Option<Vec<u8>>, Option<SplitFileReport>)> {
    let name = path.display().to_string();
    let wrong = |message: String| Error::new(Stage::Load, message).in_file(name.clone());
    let report = |objects| Some(SplitFileReport { name: name.clone(), objects });
    match recognise(bytes) {
        FileKind::Archive => {
            let archive = parse(bytes).map_err(wrong)?;
            let (divided, objects) = members(&name, bytes, &archive, options).map_err(wrong)?;
            Ok((divided, report(objects)))
        }
        FileKind::Object if !is_foreign_elf(bytes) => {
            let (divided, object) = divide::object(&name, bytes, options);
            match &object.outcome {
                SplitOutcome::Limited { limit: "malformed-object", detail } if unknown == Unknown::Error => {
                    Err(wrong(detail.clone()))
                }
                _ => Ok((divided, report(vec![object]))),
            }
        }
        _ if unknown == Unknown::Pass => Ok((None, None)),
        FileKind::ThinArchive => {
            Err(wrong("a thin archive has no members in it; split the files that it names".to_owned()))
        }
        _ => Err(wrong("neither an x86-64 object nor an archive".to_owned())),
    }
}

/// Divide the members of an archive; `None` if nothing changes.
fn members(
    name: &str,
    bytes: &[u8],
    archive: &Archive,
    options: SplitOptions,
) -> std::result::Result<(Option<Vec<u8>>, Vec<ObjectReport>), String> {
    let divide = |member: &crate::inputs::archive::Member| {
        let contents = bytes.get(member.data.clone()).unwrap_or_default();
        let name = format!("{name}({})", member.name);
        match recognise(contents) {
            FileKind::Object if !is_foreign_elf(contents) => divide::object(&name, contents, options),
            FileKind::Object => (None, ObjectReport::foreign(&name, "an object of another machine")),
            FileKind::Bitcode => (None, ObjectReport::foreign(&name, "LLVM bitcode")),
            _ => (None, ObjectReport::foreign(&name, "no object")),
        }
    };
    let (divided, reports): (Vec<Option<Vec<u8>>>, Vec<ObjectReport>) =
        archive.members.par_iter().map(divide).unzip();
    if divided.iter().all(Option::is_none) {
        return Ok((None, reports));
    }
    if let Some(member) = archive.members.iter().find(|m| m.name.contains(char::REPLACEMENT_CHARACTER)) {
        return Err(format!("the name of member {} is not UTF-8", member.name));
    }
    let contents: Vec<(&str, &[u8])> = archive
        .members
        .iter()
        .zip(&divided)
        .map(|(member, divided)| {
            let as_it_was = bytes.get(member.data.clone()).unwrap_or_default();
            (member.name.as_str(), divided.as_deref().unwrap_or(as_it_was))
        })
        .collect();
    let mut written = Vec::new();
    match &archive.symbols {
        Some(symbols) => {
            let symbols: Vec<(usize, &[u8])> =
                symbols.iter().map(|(name, i)| (*i, bytes.get(name.clone()).unwrap_or_default())).collect();
            archive::write_indexed(&mut written, &contents, &symbols)
        }
        None => archive::write(&mut written, &contents),
    }
    .map_err(|e| e.to_string())?;
    Ok((Some(written), reports))
}
