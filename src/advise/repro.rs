//! The reader of a repro archive (`--prune-repro`): its files in a folder, and the link that it holds.

use std::ffi::OsString;
use std::path::Path;

use super::command::LinkCommand;
use crate::args::{Environment, linker};
use crate::error::{Error, Result, Stage};

/// Unpack an archive; the result is its link.
///
/// # Errors
/// It can't be read, is no such archive, or its linker is not installed.
pub(super) fn unpack(archive: &Path, folder: &Path, env: &Environment<'_>) -> Result<LinkCommand> {
    let file = std::fs::File::open(archive).map_err(|e| Error::io(Stage::Load, archive, "read", e))?;
    let unpacked = tar::Archive::new(file).unpack(folder);
    unpacked.map_err(|e| Error::io(Stage::Load, archive, "unpack the archive", e))?;
    let folder = folder.join("repro");
    let version = std::fs::read_to_string(folder.join("version.txt"));
    let version =
        version.map_err(|e| Error::io(Stage::Load, archive, "find version.txt in the archive", e))?;
    let line = version.lines().find_map(|line| line.strip_prefix("linker: "));
    let Some((path, flavor)) = line.and_then(|line| line.strip_suffix(')')?.rsplit_once(" (")) else {
        let error = Error::new(Stage::Load, "version.txt of the archive names no linker");
        return Err(error.in_file(archive.display().to_string()));
    };
    // It was made on another machine, perhaps: then the linker of that kind is taken.
    let found = match (Path::new(path).is_file(), flavor) {
        (true, _) => linker::choose(Some(Path::new(path)), None, env),
        (false, "Lld") => linker::choose(None, None, env),
        (false, _) => linker::choose(Some(Path::new(&flavor.to_lowercase())), None, env),
    }?;
    let mut response = OsString::from("@");
    response.push(folder.join("response.txt"));
    let mut link = LinkCommand::parse(&[found.path.into_os_string(), response])?;
    link.folder = Some(folder);
    link.is_driver = false;
    Ok(link)
}
