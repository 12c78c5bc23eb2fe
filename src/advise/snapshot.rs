//! A snapshot of folders: which of their files a link wrote, in spite of the options that were dropped.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::command::LinkCommand;
use crate::error::{Error, Result, Stage};

/// The inode, size and time of modification of a file; `None` for a folder.
type FileState = Option<(u64, u64, i64, i64)>;

/// The entries of the working folder and of the folders that the command's own options write to.
#[derive(Debug)]
pub(super) struct FolderSnapshot {
    folders: Vec<PathBuf>,
    entries: BTreeMap<PathBuf, FileState>,
}

impl FolderSnapshot {
    /// Take it before a link. Folders in `ours` are not the user's.
    pub(super) fn take(link: &LinkCommand, ours: &Path) -> FolderSnapshot {
        let base = link.folder.as_deref().unwrap_or(Path::new(""));
        let written = link.written.iter().chain([&link.output]);
        let named = written.flat_map(|path| [Some(path.as_path()), path.parent()]).flatten();
        let all = named.chain([Path::new("")]).map(|path| base.join(path));
        let mut folders: Vec<PathBuf> = all.filter(|folder| !folder.starts_with(ours)).collect();
        folders.sort();
        folders.dedup();
        FolderSnapshot { entries: entries(&folders), folders }
    }

    /// # Errors
    /// A file was written, replaced or removed since.
    pub(super) fn compare(&self) -> Result<()> {
        let now = entries(&self.folders);
        let is_changed = |(path, state): &(&PathBuf, &FileState)| self.entries.get(*path) != Some(*state);
        let changed = now.iter().find(is_changed).map(|(path, _)| (path, "wrote"));
        let removed = || self.entries.keys().find(|path| !now.contains_key(*path));
        let Some((path, verb)) = changed.or_else(|| removed().map(|path| (path, "removed"))) else {
            return Ok(());
        };
        let message = format!(
            "advise: the first link {verb} this file, which is not its output; no further link is made: \
             leave out the option that names the file"
        );
        Err(Error::new(Stage::Link, message).in_file(path.display().to_string()))
    }
}

/// The entries of folders that exist.
fn entries(folders: &[PathBuf]) -> BTreeMap<PathBuf, FileState> {
    let is_here = |folder: &Path| folder.as_os_str().is_empty();
    let listed = folders.iter().filter_map(|folder| {
        let read = std::fs::read_dir(if is_here(folder) { Path::new(".") } else { folder }).ok()?;
        Some(read.flatten().map(move |entry| folder.join(entry.file_name())))
    });
    let state = |path: &PathBuf| {
        // A link to a file may lead nowhere.
        let data = path.metadata().or_else(|_| path.symlink_metadata()).ok()?;
        (!data.is_dir()).then(|| (data.ino(), data.len(), data.mtime(), data.mtime_nsec()))
    };
    listed.flatten().map(|path| (path.clone(), state(&path))).collect()
}
