//! The bytes of an input file: the one place where a file is mapped.
//!
//! A mapped file that shrinks ends the process (SIGBUS). Linkers rely on inputs that don't change during the link. But a build with a missing
//! dependency may write one again, so that recently written files are read, not mapped. A file that another user may write is read
//! too, because he could change it between two looks and change it back. At the end [`MappedFile::is_unchanged`] finds changed files.

use std::fs::{File, Metadata};
use std::io;
use std::ops::Deref;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use rustix::process::geteuid;

use crate::precomputed::has_access_list_open;

/// The size in bytes from which a file of any age is mapped: archives, of which little may be in the link, and shared libraries.
const MAPPED_FROM: u64 = 1 << 20;
/// A file of at least so many bytes is mapped if it was not written recently. Mapping smaller ones takes as long as reading.
const MAPPED_OLD_FROM: u64 = 1 << 16;
/// A file that is at least so old counts as complete.
const SETTLED: Duration = Duration::from_secs(10);

/// Bytes of a file, mapped if that saves time.
pub struct MappedFile {
    bytes: Bytes,
    stamp: Option<Stamp>,
}

enum Bytes {
    Map(memmap2::Mmap),
    Read(Vec<u8>),
}

/// Device, inode, size and time of modification. They differ between files, and change with a write unless the size is the same and
/// the time is reset.
type Stamp = (u64, u64, u64, i64, i64);

fn stamp(meta: &Metadata) -> Stamp {
    (meta.dev(), meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec())
}

/// Whether a user other than root and the effective user may write to a file. A group with the user's number counts as the user's
/// own.
pub fn others_write(file: &File, meta: &Metadata) -> bool {
    let own = geteuid().as_raw();
    let is_own = [0, own].contains(&meta.uid());
    let is_own_group = || [0, own].contains(&meta.gid()) && !has_access_list_open(file);
    !is_own || meta.mode() & 0o002 != 0 || meta.mode() & 0o020 != 0 && !is_own_group()
}

impl std::fmt::Debug for MappedFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mapped({} bytes)", self.len())
    }
}

impl Deref for MappedFile {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Map(map) => map,
            Bytes::Read(bytes) => bytes,
        }
    }
}

impl MappedFile {
    /// Map a large regular file; read anything else to its end.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::of(File::open(path)?)
    }

    /// [`MappedFile::open`] for a file that is open.
    ///
    /// # Errors
    /// As there.
    pub fn of(mut file: File) -> io::Result<Self> {
        let meta = file.metadata()?;
        if meta.is_dir() {
            return Err(io::Error::from(io::ErrorKind::IsADirectory));
        }
        let is_settled = || meta.modified().is_ok_and(|at| at.elapsed().is_ok_and(|age| age >= SETTLED));
        let is_mapped = meta.len() >= MAPPED_FROM || meta.len() >= MAPPED_OLD_FROM && is_settled();
        if meta.is_file() && is_mapped && !others_write(&file, &meta) {
            // SAFETY: the map is private and read-only. Like every linker we rely on inputs that are not cut short meanwhile.
            // `is_unchanged` finds a file that is changed in place.
            #[allow(unsafe_code)]
            let map = unsafe { memmap2::Mmap::map(&file) }?;
            return Ok(MappedFile { bytes: Bytes::Map(map), stamp: Some(stamp(&meta)) });
        }
        let mut bytes = Vec::with_capacity(meta.len() as usize);
        io::Read::read_to_end(&mut file, &mut bytes)?;
        Ok(MappedFile { bytes: Bytes::Read(bytes), stamp: meta.is_file().then(|| stamp(&meta)) })
    }

    /// Bytes that belong to no file and never change.
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        MappedFile { bytes: Bytes::Read(bytes), stamp: None }
    }

    /// Whether the file at `path` is still the one that was opened there, unchanged.
    pub fn is_unchanged(&self, path: &Path) -> bool {
        self.stamp.is_none_or(|before| path.metadata().is_ok_and(|meta| stamp(&meta) == before))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, chown};
    use std::time::SystemTime;

    #[test]
    fn what_was_just_written_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.o");
        let is_mapped = |size: u64, age: u64| {
            let file = File::create(&path).unwrap();
            file.set_len(size).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
            let mapped = MappedFile::open(&path).unwrap();
            assert_eq!(mapped.len() as u64, size);
            matches!(mapped.bytes, Bytes::Map(_))
        };
        assert!(!is_mapped(MAPPED_OLD_FROM, 0) && is_mapped(MAPPED_OLD_FROM, 60));
        assert!(!is_mapped(MAPPED_OLD_FROM - 1, 60) && is_mapped(MAPPED_FROM, 0));
    }

    #[test]
    fn what_others_may_write_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.o");
        let file = File::create(&path).unwrap();
        file.set_len(MAPPED_FROM).unwrap();
        let is_mapped = |mode: u32| {
            file.set_permissions(Permissions::from_mode(mode)).unwrap();
            matches!(MappedFile::open(&path).unwrap().bytes, Bytes::Map(_))
        };
        assert!(is_mapped(0o644) && !is_mapped(0o646) && !is_mapped(0o666));
        // An access control list shows as bits of the group.
        file.set_permissions(Permissions::from_mode(0o644)).unwrap();
        let list = std::process::Command::new("setfacl").args(["-m", "u:12345:rw"]).arg(&path).status();
        match list.is_ok_and(|status| status.success()) {
            true => assert!(matches!(MappedFile::open(&path).unwrap().bytes, Bytes::Read(_))),
            false => println!("no setfacl here, or no lists on this file system"),
        }
        if geteuid().is_root() {
            chown(&path, Some(12345), None).unwrap();
            assert!(!is_mapped(0o644));
        }
    }
}
