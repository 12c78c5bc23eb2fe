//! `install-shims`: a folder in which compilers find us by a linker's name, with a package file for CMake and a native file for Meson.
//!
//! The shims are symbolic links to this executable, so that they follow an upgrade in place. A file that is no shim is never
//! replaced. A folder with other files and no shim is refused, since it may be one of the system.

use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::args::linker::PREFERS_LLD;
use crate::error::{Error, Result, Stage};

/// The names that compilers look for: `ld` (gcc, clang), `ld.NAME` (`-fuse-ld=NAME`, rustc); and those that build systems call.
const NAMES: [&str; 9] =
    ["ld", "ld.bfd", "ld.gold", "ld.lld", "ld.mold", "ld.wild", "mold", "wild", PREFERS_LLD];

/// Files for build systems, with their texts. [`is_made`] knows them by their first lines.
const FILES: [(&str, &str); 3] = [
    ("LtoPruneConfig.cmake", include_str!("build_systems/LtoPruneConfig.cmake")),
    ("LtoPruneConfigVersion.cmake", include_str!("build_systems/LtoPruneConfigVersion.cmake")),
    ("lto-prune.ini", include_str!("build_systems/lto-prune.ini")),
];

pub(super) fn own_executable() -> Result<PathBuf> {
    std::env::current_exe().map_err(|e| Error::io(Stage::Arguments, "/proc/self/exe", "read", e))
}

/// Make the links and the files; the result is their paths.
/// If files that aren't links of ours are in the way or alone, that is an error, and nothing is changed.
pub(crate) fn install(directory: &Path) -> Result<Vec<PathBuf>> {
    let own = own_executable()?;
    std::fs::create_dir_all(directory).map_err(|e| Error::io(Stage::Arguments, directory, "create", e))?;
    let paths: Vec<PathBuf> = NAMES.iter().map(|name| directory.join(name)).collect();
    let mut entries =
        std::fs::read_dir(directory).map_err(|e| Error::io(Stage::Arguments, directory, "read", e))?;
    if entries.next().is_some() && !paths.iter().any(|path| is_ours(path, &own)) {
        let message =
            "the folder is not empty and has no shims; name a new one, such as ~/.local/lib/lto-prune";
        return Err(Error::new(Stage::Arguments, message).in_file(directory.display().to_string()));
    }
    let files: Vec<PathBuf> = FILES.iter().map(|(name, _)| directory.join(name)).collect();
    for path in paths.iter().chain(&files) {
        if path.symlink_metadata().is_ok() && !is_ours(path, &own) && !is_made(path) {
            let message = "is in the way and not a link to lto-prune; nothing was changed";
            return Err(Error::new(Stage::Arguments, message).in_file(path.display().to_string()));
        }
    }
    for path in &paths {
        match std::fs::remove_file(path) {
            Ok(()) => {}
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(Error::io(Stage::Arguments, path, "replace", e)),
        }
        symlink(&own, path).map_err(|e| Error::io(Stage::Arguments, path, "create", e))?;
    }
    let shims =
        std::path::absolute(directory).map_err(|e| Error::io(Stage::Arguments, directory, "find", e))?;
    let shims = shims.to_string_lossy().replace('\\', "\\\\").replace('\'', "\\'");
    for (path, (_, text)) in files.iter().zip(FILES) {
        let text = text.replace("@VERSION@", env!("CARGO_PKG_VERSION")).replace("@SHIMS@", &shims);
        std::fs::write(path, text).map_err(|e| Error::io(Stage::Arguments, path, "write", e))?;
    }
    Ok(paths.into_iter().chain(files).collect())
}

/// Make a link to this executable at `path`, in place of an older one.
pub(super) fn link_to_us(path: &Path) -> Result<()> {
    let own = own_executable()?;
    if is_ours(path, &own) {
        std::fs::remove_file(path).map_err(|e| Error::io(Stage::Arguments, path, "replace", e))?;
    }
    symlink(&own, path).map_err(|e| Error::io(Stage::Arguments, path, "create", e))
}

/// Whether it is a file that [`install`] made.
fn is_made(path: &Path) -> bool {
    let is_file = path.symlink_metadata().is_ok_and(|meta| meta.is_file());
    let first = std::fs::read_to_string(path).ok().and_then(|text| text.lines().next().map(str::to_owned));
    is_file && first.is_some_and(|line| line.contains("Made by lto-prune install-shims"))
}

/// A link to this executable, or to one of the same name (an earlier place of ours, perhaps gone).
fn is_ours(path: &Path, own: &Path) -> bool {
    let Ok(target) = std::fs::read_link(path) else { return false };
    target == own || target.file_name() == Some(std::ffi::OsStr::new("lto-prune"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn links_are_made_and_remade_but_files_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("new/shims");
        for _ in 0..2 {
            let paths = install(&target).unwrap();
            let (links, files) = paths.split_at(NAMES.len());
            assert!(links.iter().all(|p| std::fs::read_link(p).unwrap() == own_executable().unwrap()));
            assert!(files.len() == FILES.len() && files.iter().all(|p| is_made(p)));
        }
        std::fs::remove_file(target.join("ld.lld")).unwrap();
        std::fs::write(target.join("ld.lld"), "somebody's").unwrap();
        let before = std::fs::read_link(target.join("ld")).unwrap();
        assert!(install(&target).unwrap_err().to_string().contains("in the way"));
        assert_eq!(std::fs::read(target.join("ld.lld")).unwrap(), b"somebody's");
        assert_eq!(std::fs::read_link(target.join("ld")).unwrap(), before);
        std::fs::remove_file(target.join("ld.lld")).unwrap();
        symlink("/usr/bin/ld.bfd", target.join("ld.lld")).unwrap();
        assert!(install(&target).is_err());
        std::fs::remove_file(target.join("ld.lld")).unwrap();
        std::fs::write(target.join("lto-prune.ini"), "[binaries]\n").unwrap();
        assert!(install(&target).unwrap_err().to_string().contains("lto-prune.ini"));
    }
}
