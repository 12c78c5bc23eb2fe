//! Files that are made ahead of a link: written where something changed, and read where there is one.
//!
//! A file that stays the same is not written again, so that a build system that compares times runs nothing again for it. Only regular files are read: a
//! pipe in the place of one would never end.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::{fs, io};

/// Write `bytes` to `path`, in a folder that is made if it isn't there, unless that is what it has.
///
/// # Errors
/// The folder or the file can't be written.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if is_there(path) && fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, bytes)
}

/// Whether there is a regular file.
pub fn is_there(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file())
}

/// Whether two paths are one regular file.
pub fn same_file(a: &Path, b: &Path) -> bool {
    let identity = |path: &Path| fs::metadata(path).ok().filter(|m| m.is_file()).map(|m| (m.dev(), m.ino()));
    identity(a).is_some_and(|a| Some(a) == identity(b))
}
