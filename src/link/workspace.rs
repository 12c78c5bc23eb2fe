//! The folders of a link: one for copies of inputs, in memory if the system has such a place, and a hidden one next to the output, so
//! that publishing is a rename on one file system.
//!
//! They are removed at the end of the link, and by a signal to end. A killed process leaves them to the next link. The folder of copies is
//! locked (`flock`) while its process lives, and has a note with the path of the other folder. A folder with a free lock
//! is removed. A helper process that waits for our end was rejected (docs/REJECTED.md).

use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File, TryLockError};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rayon::prelude::*;
use rustix::fs::{CWD, RenameFlags};

use crate::config::{Config, Flavor, OutputKind};
use crate::error::{Error, Result, Stage};

/// The prefix of folders of copies. A leftover folder with this prefix is removed if this user owns it and no process has locked it.
const COPIES: &str = "lto-prune-link-";
/// The prefix of folders next to outputs; the rest of the name is that of the folder of copies.
const BESIDE: &str = ".lto-prune-";
/// A file in the folder of copies, with the path of the folder next to the output.
const NOTE: &str = "output-folder";

/// The folders that are removed when we end.
static FOLDERS: Mutex<Vec<Folder>> = Mutex::new(Vec::new());

#[derive(Debug)]
struct Folder {
    path: PathBuf,
    /// Open and locked for as long as the folder is there.
    _lock: Option<File>,
}

fn folders() -> MutexGuard<'static, Vec<Folder>> {
    FOLDERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Remove everything that [`Workspace`]s made; a folder with a note is removed after the noted one.
fn remove(folders: &mut Vec<Folder>) {
    while let Some(folder) = folders.pop() {
        // A folder may not be empty at once while a thread still writes files.
        for _ in 0..100 {
            match std::fs::remove_dir_all(&folder.path) {
                Err(error) if error.kind() == std::io::ErrorKind::DirectoryNotEmpty => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                // A folder that can't be removed does not matter to the link.
                _ => break,
            }
        }
    }
}

/// Remove everything and let no further folder be made while `then` ends the process.
pub(super) fn remove_for_good(then: impl FnOnce()) {
    let mut folders = folders();
    remove(&mut folders);
    then();
}

/// The folders of one link, which are removed when it ends.
#[derive(Debug)]
pub struct Workspace {
    /// The folder for copies of inputs that other files name.
    pub copies: PathBuf,
    /// In a folder next to the output, with the same basename; or the output itself if only the linker knows how to replace
    /// it.
    pub temporary_output: PathBuf,
}

/// Whether the linker itself replaces the output by a new file. Some linkers follow a symbolic link, or write in place to a file with
/// several names; GNU ld and gold write to an empty file and keep its mode.
fn is_replaceable(config: &Config) -> bool {
    let empty_is_kept = config.rules().keeps_empty_outputs;
    match config.output.symlink_metadata() {
        Ok(meta) => meta.is_file() && meta.nlink() == 1 && !(empty_is_kept && meta.len() == 0),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

/// Whether the linker may write the output's path into the output: lld, gold and mold name the base version of an output without
/// soname after it. Outputs with versions have one, and for gold all shared libraries.
fn writes_its_name(config: &Config) -> bool {
    let has_versions = !config.version_scripts.is_empty() || !config.scripts.is_empty();
    let may = match config.linker.flavor {
        Flavor::Gold | Flavor::Mold => has_versions || config.output_kind == OutputKind::Shared,
        Flavor::Lld => has_versions,
        Flavor::Bfd | Flavor::Wild => false,
    };
    may && config.soname.is_none()
}

impl Workspace {
    /// Make the folders, for copies of at most so many bytes. Without a folder next to the output the linker writes there itself.
    pub fn new(config: &Config, bytes: u64) -> Result<Self> {
        let mut workspace = Workspace::without_output(config, bytes)?;
        if is_replaceable(config)
            && !writes_its_name(config)
            && let Some(folder) = beside(&config.output, &workspace.copies)
        {
            let name = config.output.file_name().unwrap_or(OsStr::new("a.out"));
            workspace.temporary_output = folder.join(name);
        }
        Ok(workspace)
    }

    /// Make only the folder for copies, of at most so many bytes; the linker writes to the output itself.
    pub fn without_output(config: &Config, bytes: u64) -> Result<Self> {
        let failed = |e| Error::io(Stage::Link, std::env::temp_dir(), "make a temporary folder", e);
        Ok(Workspace { copies: copies(bytes).map_err(failed)?, temporary_output: config.output.clone() })
    }

    /// The name of a second file that the linker wrote into the folder of the temporary output, if there is one.
    pub fn other_file(&self, config: &Config) -> Option<OsString> {
        let folder = self.temporary_output.parent().filter(|_| self.temporary_output != config.output)?;
        let names = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.file_name());
        names.filter(|name| Some(&**name) != self.temporary_output.file_name()).min()
    }

    /// Move the finished output to its place, which [`can_publish`] has checked.
    pub fn publish(&self, config: &Config) -> Result<()> {
        if self.temporary_output == config.output {
            return Ok(());
        }
        if !can_publish(config) {
            return Err(Error::new(Stage::Link, "the output has become something else than a file")
                .in_file(config.output.display().to_string()));
        }
        put_in_place(&self.temporary_output, &config.output)
            .map_err(|e| Error::io(Stage::Link, &config.output, "publish the output", e))
    }
}

/// Give a new file the name of an old one, if there is one. If the file system can exchange names, the old file gets the new one's name.
///
/// ext4 writes a file to disk when a rename replaces another one, but not when names are exchanged.
fn put_in_place(new: &Path, old: &Path) -> std::io::Result<()> {
    let exchange = || rustix::fs::renameat_with(CWD, new, CWD, old, RenameFlags::EXCHANGE);
    if exchange().is_err() {
        return std::fs::rename(new, old);
    }
    // The old name belongs to a folder, whose files must not be removed.
    if new.symlink_metadata()?.is_dir() {
        exchange()?;
        return Err(std::io::ErrorKind::IsADirectory.into());
    }
    Ok(())
}

impl Drop for Workspace {
    fn drop(&mut self) {
        // Removing memory files takes as long as writing them, so that all threads do it.
        let copies: Vec<_> = std::fs::read_dir(&self.copies).into_iter().flatten().flatten().collect();
        copies.par_iter().for_each(|folder| {
            let _ = std::fs::remove_dir_all(folder.path());
        });
        remove(&mut folders());
    }
}

/// Make a locked folder for so many bytes of copies: in memory, or on disk if they don't fit there.
fn copies(bytes: u64) -> std::io::Result<PathBuf> {
    let memory = Path::new("/dev/shm");
    let in_memory = room(memory).filter(|room| bytes <= *room).and_then(|_| copies_in(memory).ok());
    in_memory.map_or_else(|| copies_in(&std::env::temp_dir()), Ok)
}

/// The bytes that copies may take in the memory files of `folder`; `None` if there is no such file system. That is half of its free space, and
/// at most a quarter of the available memory of the machine and of the container's control group. A container often has 64 MiB in
/// all, debug information may grow, and other links may write at the same time.
fn room(folder: &Path) -> Option<u64> {
    let files = rustix::fs::statvfs(folder).ok()?;
    let number = |text: &str| text.trim().trim_end_matches("kB").trim().parse::<u64>().ok();
    let available = || {
        let text = std::fs::read_to_string("/proc/meminfo").ok()?;
        Some(number(text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?)? * 1024)
    };
    let group = || number(&std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok()?);
    let memory = available().unwrap_or(u64::MAX).min(group().unwrap_or(u64::MAX));
    Some((files.f_bavail.saturating_mul(files.f_frsize) / 2).min(memory / 4))
}

/// Make a locked folder in `base`, after removing abandoned ones there.
fn copies_in(base: &Path) -> std::io::Result<PathBuf> {
    sweep(base);
    // Made and noted under one lock: after a signal has begun to clean up, no folder is made.
    let mut folders = folders();
    loop {
        let path = tempfile::Builder::new().prefix(COPIES).tempdir_in(base)?.keep();
        if let Some(lock) = lock(&path) {
            folders.push(Folder { path: path.clone(), _lock: lock });
            return Ok(path);
        }
        // Another link found it before it was locked, and removes it.
    }
}

/// Lock a folder. `None` if another process removes it; `Some(None)` if the file system has no locks, so that no process
/// gets one.
fn lock(path: &Path) -> Option<Option<File>> {
    let folder = File::open(path).ok()?;
    match folder.try_lock() {
        // It may have been removed before it was locked.
        Ok(()) => {
            (path.symlink_metadata().ok()?.ino() == folder.metadata().ok()?.ino()).then_some(Some(folder))
        }
        Err(TryLockError::WouldBlock) => None,
        Err(TryLockError::Error(_)) => Some(None),
    }
}

/// Make the folder next to the output. Its path is written into the folder of copies first, so that a later link removes it after a kill.
/// `None` if one of them cannot be written.
fn beside(output: &Path, copies: &Path) -> Option<PathBuf> {
    let parent = output.parent().filter(|p| *p != Path::new("")).unwrap_or(Path::new("."));
    let suffix = copies.file_name()?.as_bytes().strip_prefix(COPIES.as_bytes())?;
    let mut name = OsString::from(BESIDE);
    name.push(OsStr::from_bytes(suffix));
    let absolute = parent.canonicalize().ok()?.join(&name);
    let mut folders = folders();
    std::fs::write(copies.join(NOTE), absolute.as_os_str().as_bytes()).ok()?;
    let path = parent.join(&name);
    DirBuilder::new().mode(0o700).create(&path).ok()?;
    folders.push(Folder { path: path.clone(), _lock: None });
    Some(path)
}

/// Remove the folders in `base`, and those that they note, of processes that have ended.
fn sweep(base: &Path) {
    let Ok(entries) = std::fs::read_dir(base) else { return };
    let named = entries.flatten().filter(|e| e.file_name().as_bytes().starts_with(COPIES.as_bytes()));
    for entry in named {
        let path = entry.path();
        if !is_our_folder(&path) {
            continue;
        }
        let Some(Some(_lock)) = lock(&path) else { continue };
        if let Ok(note) = std::fs::read(path.join(NOTE)) {
            let other = PathBuf::from(OsString::from_vec(note));
            let is_named = other.file_name().is_some_and(|n| n.as_bytes().starts_with(BESIDE.as_bytes()));
            if is_named && is_our_folder(&other) {
                let _ = std::fs::remove_dir_all(&other);
            }
        }
        let _ = std::fs::remove_dir_all(&path);
    }
}

/// Whether this is a folder (not a link to one) that this user made: in a shared place, another user's folder proves
/// nothing.
fn is_our_folder(path: &Path) -> bool {
    let user = rustix::process::geteuid().as_raw();
    path.symlink_metadata().is_ok_and(|meta| meta.is_dir() && meta.uid() == user)
}

/// Whether the output can be moved to its place: it is a file, a link to one, or missing. The linker itself writes to or refuses a
/// device, a pipe or a folder, and `-o -`, the standard output for all but GNU ld.
pub fn can_publish(config: &Config) -> bool {
    if config.rules().dash_is_stdout && config.output == Path::new("-") {
        return false;
    }
    match std::fs::metadata(&config.output) {
        Ok(meta) => meta.is_file(),
        // Some linkers write through a dangling symbolic link, and fail if they can't.
        Err(e) => e.kind() == std::io::ErrorKind::NotFound && !config.output.is_symlink(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn memory_files_have_room_for_a_part_of_what_is_free() {
        let free = |folder: &str| {
            let files = rustix::fs::statvfs(folder).unwrap();
            files.f_bavail * files.f_frsize
        };
        let room = room(Path::new("/dev/shm")).unwrap();
        assert!(room > 0 && room < free("/dev/shm"), "{room}");
        assert_eq!(super::room(Path::new("/dev/shm/there is none")), None);
        let (small, large) = (copies(room / 2).unwrap(), copies(u64::MAX).unwrap());
        assert!(small.starts_with("/dev/shm") && !large.starts_with("/dev/shm"));
        remove(&mut folders());
        assert!(!small.exists() && !large.exists());
    }

    #[test]
    fn a_new_file_takes_the_place_of_a_file_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (new, old) = (folder.path().join("new"), folder.path().join("old"));
        let read = || std::fs::read_to_string(&old).unwrap();
        for contents in ["first", "second"] {
            std::fs::write(&new, contents).unwrap();
            put_in_place(&new, &old).unwrap();
            assert_eq!(read(), contents);
        }
        std::fs::remove_file(&old).unwrap();
        std::fs::create_dir(&old).unwrap();
        std::fs::write(old.join("kept"), "").unwrap();
        std::fs::write(&new, "third").unwrap();
        assert!(put_in_place(&new, &old).is_err());
        assert!(old.join("kept").exists() && std::fs::read_to_string(&new).unwrap() == "third");
    }

    #[test]
    fn a_locked_folder_stays_and_another_goes() {
        let base = tempfile::tempdir().unwrap();
        let (locked, free, other) = (
            base.path().join("lto-prune-link-a"),
            base.path().join("lto-prune-link-b"),
            base.path().join("x"),
        );
        let (output, kept) = (base.path().join(".lto-prune-b"), base.path().join("mine"));
        for folder in [&locked, &free, &other, &output, &kept] {
            std::fs::create_dir(folder).unwrap();
        }
        std::fs::write(free.join(NOTE), output.as_os_str().as_bytes()).unwrap();
        let lock = lock(&locked).unwrap();
        sweep(base.path());
        assert!(locked.exists() && other.exists() && !free.exists() && !output.exists());
        drop(lock);
        // A note with another name removes nothing.
        std::fs::write(locked.join(NOTE), kept.as_os_str().as_bytes()).unwrap();
        sweep(base.path());
        assert!(!locked.exists() && kept.exists());
    }
}
