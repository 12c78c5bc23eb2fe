//! Precomputed files, which are made before a link: written if their contents change, and read if they exist.
//!
//! An unchanged file is not written, so that a build system that compares times runs no action again. Only regular files are read: a
//! pipe in the place of one would never end.
//!
//! A hash binds such a file to the bytes of its input, and every user can compute a hash. So [`open`] also checks which users can
//! have written the file.

use std::fs::Metadata;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::{fs, io};

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::config::Config;
use crate::error::{Error, Result, Stage};
use crate::inputs::mapped::MappedFile;
use crate::messages;

/// The user and group that stand for every one that a user namespace does not map.
const UNMAPPED: u32 = 65534;
/// The bits of `st_mode` for writing by the group and by others.
const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;

/// Write `bytes` to `path` and make its folder, unless the file has these contents.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if path.is_file() && fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, bytes)
}

/// Open a precomputed file, for the file `input` or for any.
/// One that is not trusted ([`is_trusted`]) is an error of the kind `PermissionDenied`, which names the file.
pub fn open(path: &Path, input: Option<&Path>) -> io::Result<MappedFile> {
    // A pipe would wait for its writer.
    let flags = OFlags::NONBLOCK.bits() as i32;
    let file = fs::File::options().read(true).custom_flags(flags).open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        let message = format!("{}: not a regular file", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    is_trusted(path, &meta, input)?;
    MappedFile::of(file)
}

/// Whether only those can have written the file or folder at `path` who can write `input` as well, or are root or the effective user.
///
/// The owners of the file, of a symbolic link to it and of its folder are such users, and no others may write to the file or the
/// folder. A group is an exception if it may also write `input`, in the same folder. An access control list ends the exception.
/// The error is of the kind `PermissionDenied`, and names the file, the fact and an action.
pub fn is_trusted(path: &Path, of_path: &Metadata, input: Option<&Path>) -> io::Result<()> {
    let of_input = input.and_then(|input| input.metadata().ok());
    let own = geteuid().as_raw();
    let of_input_uid = of_input.as_ref().map(Metadata::uid);
    let is_owner = |uid: u32| is_believed(uid, own, of_input_uid);
    let may_write_input = |gid: u32| {
        let writes = |meta: &Metadata| meta.mode() & GROUP_WRITES != 0 && meta.gid() == gid;
        gid != UNMAPPED
            && of_input.as_ref().is_some_and(writes)
            && input.is_some_and(|input| is_beside(path, input) && !has_access_list(input))
    };
    let others_write = |what: &Path, meta: &Metadata| {
        let by_group = meta.mode() & GROUP_WRITES != 0;
        meta.mode() & OTHERS_WRITE != 0 || by_group && (has_access_list(what) || !may_write_input(meta.gid()))
    };
    let refuse = |what: &Path, fact: String| {
        let of = if what == path { String::new() } else { format!(" ({})", what.display()) };
        let message = format!("{}: not used, since {fact}{of}", path.display());
        Err(io::Error::new(io::ErrorKind::PermissionDenied, message))
    };
    let owned = |what: &Path, meta: &Metadata, kind: &str| {
        if is_owner(meta.uid()) {
            return Ok(());
        }
        refuse(what, format!("user {} owns {kind}; remove it, or make it your own", meta.uid()))
    };
    owned(path, of_path, "it")?;
    owned(path, &path.symlink_metadata()?, "the link to it")?;
    if others_write(path, of_path) {
        return refuse(path, "others may write to it; run chmod go-w on it".to_owned());
    }
    // A user who replaces a folder becomes its owner.
    if of_path.is_dir() {
        return Ok(());
    }
    let target = path.canonicalize()?;
    for folder in [path.parent(), target.parent()].into_iter().flatten() {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let meta = folder.metadata()?;
        owned(folder, &meta, "its folder")?;
        // A sticky folder is no exception: its users can move files into it that root owns, with contents of their own.
        if others_write(folder, &meta) {
            return refuse(folder, "others may write to its folder; run chmod go-w on that".to_owned());
        }
    }
    Ok(())
}

/// Whether the owner `uid` of a file is the effective user `own`, root, or the owner of the input. A user who is not mapped equals no other
/// user, even if the effective user is not mapped either.
fn is_believed(uid: u32, own: u32, of_input: Option<u32>) -> bool {
    uid == 0 || uid != UNMAPPED && (uid == own || of_input == Some(uid))
}

/// Whether both are in one folder, so that the same users can reach them.
fn is_beside(path: &Path, input: &Path) -> bool {
    let folder = |path: &Path| path.canonicalize().ok().and_then(|path| path.parent().map(Path::to_owned));
    folder(path).is_some_and(|of_path| folder(input) == Some(of_path))
}

const ACCESS_LIST: &str = "system.posix_acl_access";

/// Whether a file has a POSIX access control list. The group's bits of its mode are then the mask of that list (acl(5)).
fn has_access_list(path: &Path) -> bool {
    is_access_list(rustix::fs::getxattr(path, ACCESS_LIST, &mut [0_u8; 1]))
}

/// The same for a file that is open.
pub fn has_access_list_open(file: &fs::File) -> bool {
    is_access_list(rustix::fs::fgetxattr(file, ACCESS_LIST, &mut [0_u8; 1]))
}

/// Whether reading a list into one byte shows that there is one: no list fits, and that is an error of another kind.
fn is_access_list(read: rustix::io::Result<usize>) -> bool {
    !matches!(read, Err(Errno::NODATA | Errno::OPNOTSUPP))
}

/// The message of [`is_trusted`], if that is why a file can't be read.
pub fn refusal(error: &io::Error) -> Option<String> {
    (error.kind() == io::ErrorKind::PermissionDenied).then(|| error.to_string())
}

/// Say once that files are not trusted.
/// Under `--prune-strict` that is an error.
pub fn report_refusals(config: &Config, stage: Stage, refusals: &[String]) -> Result<()> {
    let Some(first) = refusals.first() else { return Ok(()) };
    let more = match refusals.len() - 1 {
        0 => String::new(),
        1 => " (and 1 more file)".to_owned(),
        count => format!(" (and {count} more files)"),
    };
    let error = Error::new(stage, format!("{first}{more}"));
    if config.prune.strict {
        return Err(error);
    }
    messages::warning(config, error);
    Ok(())
}

/// Whether two paths are one regular file.
pub fn same_file(a: &Path, b: &Path) -> bool {
    let identity = |path: &Path| fs::metadata(path).ok().filter(|m| m.is_file()).map(|m| (m.dev(), m.ino()));
    identity(a).is_some_and(|a| Some(a) == identity(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_not_mapped_is_nobody() {
        assert!(is_believed(1000, 1000, None) && is_believed(0, 1000, None) && is_believed(7, 1000, Some(7)));
        assert!(!is_believed(7, 1000, None) && !is_believed(7, 1000, Some(1000)));
        // In a user namespace without a map, a stranger has the number of the effective user and of the input's owner.
        assert!(
            !is_believed(UNMAPPED, UNMAPPED, Some(UNMAPPED)) && !is_believed(UNMAPPED, 1000, Some(UNMAPPED))
        );
        assert!(is_believed(0, UNMAPPED, None));
    }
}
