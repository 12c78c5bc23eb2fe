//! The linker to call: its executable and its flavor.
//!
//! A shim stands for the linker of its name, which is looked up where the compiler driver looks for it. The result is
//! never lto-prune: each candidate is compared with the running executable by device and inode. The flavor is known by
//! the name of the file, links resolved, or else by its `--version`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::parent_id;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::args::environment::Environment;
use crate::config::{Flavor, Linker};
use crate::error::{Error, Result, Stage};

/// The environment variable that names the linker.
pub const LINKER_VARIABLE: &str = "LTO_PRUNE_LINKER";

/// The device and inode of a file, which are the same for all of its names.
type Identity = (u64, u64);

fn identity(path: &Path) -> Option<Identity> {
    let meta = path.metadata().ok()?;
    Some((meta.dev(), meta.ino()))
}

/// The file name of lto-prune as a linker in front of lld.
pub const PREFERS_LLD: &str = "ld.lto-prune";

/// Finds executables that are linkers and not lto-prune itself.
#[derive(Debug)]
struct Finder {
    /// The folders in which only the calling compiler driver looks.
    of_driver: Vec<PathBuf>,
    /// The folders that `PATH` names, in its order.
    directories: Vec<PathBuf>,
    ourselves: Option<Identity>,
}

impl Finder {
    fn new(env: &Environment<'_>) -> Self {
        let folders = |variable| {
            let value = env.get(variable).unwrap_or_default();
            std::env::split_paths(&value).filter(|d| !d.as_os_str().is_empty()).collect::<Vec<_>>()
        };
        // gcc tells its children by this variable where it looks for programs, and clang reads it.
        let mut of_driver = folders("COMPILER_PATH");
        of_driver.extend(folder_of_clang());
        Finder {
            of_driver,
            directories: folders("PATH"),
            ourselves: std::env::current_exe().ok().and_then(|p| identity(&p)),
        }
    }

    fn usable(&self, path: &Path) -> bool {
        let Ok(meta) = path.metadata() else { return false };
        // A shim of another installation would come back to us.
        let is_shim = || path.canonicalize().is_ok_and(|p| p.file_name() == Some(OsStr::new("lto-prune")));
        meta.is_file()
            && meta.permissions().mode() & 0o111 != 0
            && Some((meta.dev(), meta.ino())) != self.ourselves
            && !is_shim()
    }

    fn on_path(&self, name: &OsStr) -> Option<PathBuf> {
        self.directories.iter().map(|d| d.join(name)).find(|p| self.usable(p))
    }

    /// The linker that the compiler driver would have run by this name without us, and whether it is our choice among several lld.
    fn namesake(&self, name: &OsStr) -> Option<(PathBuf, bool)> {
        let folders = || self.of_driver.iter().chain(&self.directories);
        let find = |name: &OsStr| folders().map(|d| d.join(name)).find(|p| self.usable(p));
        let text = name.to_str().unwrap_or_default();
        // Both are installed with and without the prefix, by their own build or by a distribution.
        let other_name = match text.strip_prefix("ld.") {
            Some(rest) if matches!(rest, "mold" | "wild") => Some(rest.to_owned()),
            None if matches!(text, "mold" | "wild") => Some(format!("ld.{text}")),
            _ => None,
        };
        let found = find(name).or_else(|| find(OsStr::new(&other_name?)));
        let any_lld = || self.any_lld().filter(|_| text == "ld.lld").map(|path| (path, true));
        found.map(|path| (path, false)).or_else(any_lld)
    }

    fn any_lld(&self) -> Option<PathBuf> {
        self.on_path(OsStr::new("ld.lld")).or_else(|| self.newest_lld()).or_else(|| self.in_rust_sysroot())
    }

    /// A name with a slash is a path; else it is looked up on `PATH`, then with `ld.` before it.
    fn named(&self, name: &Path) -> Option<PathBuf> {
        if name.as_os_str().as_bytes().contains(&b'/') {
            return self.usable(name).then(|| name.to_owned());
        }
        // ld.NAME first: `--prune-linker=mold` means the linker, and a bare `lld` is a driver that refuses to link.
        let mut with_prefix = OsString::from("ld.");
        with_prefix.push(name);
        self.on_path(&with_prefix).or_else(|| self.on_path(name.as_os_str()))
    }

    /// The `ld.lld-N` with the greatest N.
    fn newest_lld(&self) -> Option<PathBuf> {
        let mut best: Option<(u32, PathBuf)> = None;
        for directory in &self.directories {
            for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
                let name = entry.file_name();
                let Some(version) = name.as_bytes().strip_prefix(b"ld.lld-") else { continue };
                let Some(version) = std::str::from_utf8(version).ok().and_then(|v| v.parse::<u32>().ok())
                else {
                    continue;
                };
                // Strictly greater: of equal ones the first directory of PATH wins.
                if best.as_ref().is_none_or(|(b, _)| version > *b) && self.usable(&entry.path()) {
                    best = Some((version, entry.path()));
                }
            }
        }
        best.map(|(_, path)| path)
    }

    fn in_rust_sysroot(&self) -> Option<PathBuf> {
        let rustc = self.on_path(OsStr::new("rustc"))?;
        let output = Command::new(rustc).args(["--print", "sysroot"]).output().ok()?;
        let sysroot = output.stdout.strip_suffix(b"\n").unwrap_or(&output.stdout);
        let path = Path::new(OsStr::from_bytes(sysroot))
            .join("lib/rustlib/x86_64-unknown-linux-gnu/bin/gcc-ld/ld.lld");
        self.usable(&path).then_some(path)
    }
}

/// Choose the linker: `explicit` (`--prune-linker`), `LTO_PRUNE_LINKER`, or the `namesake` of the shim that was called. Without one it is
/// `ld.lld` on `PATH`, the newest `ld.lld-N` there, the one in rustc's sysroot, and, so that a build without any lld still links, `ld`.
pub fn choose(explicit: Option<&Path>, namesake: Option<&OsStr>, env: &Environment<'_>) -> Result<Linker> {
    let finder = Finder::new(env);
    let from_env = env.get(LINKER_VARIABLE).filter(|v| !v.is_empty()).map(PathBuf::from);
    let named = match (explicit, &from_env) {
        (Some(path), _) => Some(("--prune-linker", path)),
        (None, Some(path)) => Some((LINKER_VARIABLE, path.as_path())),
        (None, None) => None,
    };
    if let Some((from, name)) = named {
        let Some(path) = finder.named(name) else {
            let why = match identity(name) {
                Some(id) if Some(id) == finder.ourselves => "is this program itself",
                _ => "is no executable, nor one on PATH",
            };
            return Err(Error::new(Stage::Arguments, format!("{from}: {} {why}", name.display())));
        };
        return Ok(identified(path, false));
    }
    let found = match namesake {
        Some(name) => finder.namesake(name),
        None => finder.any_lld().or_else(|| finder.on_path(OsStr::new("ld"))).map(|path| (path, true)),
    };
    found.map(|(path, is_our_choice)| identified(path, is_our_choice)).ok_or_else(|| {
        let missing = match namesake {
            Some(name) => format!("the linker {} is not installed", name.display()),
            None => "no linker found (ld.lld, ld.lld-N, rustc's or ld)".to_owned(),
        };
        let message = format!("{missing}; install it, or name one by --prune-linker or {LINKER_VARIABLE}");
        Error::new(Stage::Arguments, message)
    })
}

/// An lld of the `major` version of LLVM or of a later one.
/// If there is none, the error is the newest one that is found, with its version.
pub fn lld_for_bitcode(major: u32, env: &Environment<'_>) -> std::result::Result<PathBuf, (u32, PathBuf)> {
    let finder = Finder::new(env);
    // rustc is run last, since that takes long.
    let candidates: [&dyn Fn() -> Option<PathBuf>; 3] =
        [&|| finder.on_path(OsStr::new("ld.lld")), &|| finder.newest_lld(), &|| finder.in_rust_sysroot()];
    let mut newest = (0, PathBuf::new());
    for path in candidates.iter().filter_map(|candidate| candidate()) {
        match version_of_lld(&path) {
            Some(version) if version >= major => return Ok(path),
            Some(version) if version > newest.0 => newest = (version, path),
            _ => {}
        }
    }
    Err(newest)
}

/// The major version in a name `ld.lld-19`, or else in the answer to `--version`.
fn version_of_lld(path: &Path) -> Option<u32> {
    let of_name = || path.file_name()?.to_str()?.strip_prefix("ld.lld-")?.parse().ok();
    let of_text = || {
        let text = version_text(path);
        let (_, version) = text.split_once("LLD ")?;
        version.split('.').next()?.parse().ok()
    };
    of_name().or_else(of_text)
}

/// The folder of the clang that called us: clang looks for programs there before `PATH`.
fn folder_of_clang() -> Option<PathBuf> {
    let driver = std::fs::read_link(format!("/proc/{}/exe", parent_id())).ok()?;
    let is_clang = driver.file_name().is_some_and(|name| name.to_string_lossy().contains("clang"));
    driver.parent().filter(|_| is_clang).map(Path::to_owned)
}

fn identified(path: PathBuf, is_our_choice: bool) -> Linker {
    let resolved = path.canonicalize().ok();
    let by_name = resolved.as_deref().and_then(flavor_of_name).or_else(|| flavor_of_name(&path));
    let flavor = by_name.or_else(|| flavor_of_version(&version_text(&path)));
    // An unknown linker is treated as GNU ld, which every linker imitates. If it resolves a symbol in another way, verify finds a
    // difference in the output.
    Linker { path, flavor: flavor.unwrap_or(Flavor::Bfd), is_our_choice }
}

/// The flavor that a basename names, if it names one linker: `ld.lld-19`, `x86_64-linux-gnu-ld.bfd`, `mold`.
pub fn flavor_of_name(path: &Path) -> Option<Flavor> {
    let name = path.file_name()?.to_str()?;
    let last = name.rsplit_once("ld.").map_or(name, |(_, last)| last);
    let stem = last.split_once('-').map_or(last, |(stem, _)| stem);
    match stem {
        "lld" => Some(Flavor::Lld),
        "mold" => Some(Flavor::Mold),
        "bfd" => Some(Flavor::Bfd),
        "gold" => Some(Flavor::Gold),
        "wild" => Some(Flavor::Wild),
        _ => None,
    }
}

/// The flavor that the first line of `--version` names.
pub fn flavor_of_version(text: &str) -> Option<Flavor> {
    let line = text.lines().next()?;
    // Order matters: lld and mold say "compatible with GNU linkers", gold comes from "GNU Binutils".
    [("LLD", Flavor::Lld), ("mold", Flavor::Mold), ("Wild", Flavor::Wild), ("GNU gold", Flavor::Gold)]
        .into_iter()
        .chain([("wild", Flavor::Wild), ("GNU ld", Flavor::Bfd)])
        .find(|(mark, _)| line.contains(mark))
        .map(|(_, flavor)| flavor)
}

fn version_text(path: &Path) -> String {
    let output = Command::new(path).arg("--version").output();
    output.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn names_and_versions() {
        let by_name = |name: &str| flavor_of_name(Path::new(name));
        assert_eq!(by_name("/usr/bin/ld.lld-19"), Some(Flavor::Lld));
        assert_eq!(by_name("/usr/bin/x86_64-linux-gnu-ld.bfd"), Some(Flavor::Bfd));
        assert_eq!(by_name("ld.gold"), Some(Flavor::Gold));
        assert_eq!(by_name("mold"), Some(Flavor::Mold));
        assert_eq!(by_name("ld.mold"), Some(Flavor::Mold));
        assert_eq!(by_name("wild"), Some(Flavor::Wild));
        assert_eq!(by_name("/usr/bin/ld"), None);
        assert_eq!(by_name("x86_64-linux-gnu-ld"), None);
        let by_text = flavor_of_version;
        assert_eq!(by_text("Debian LLD 19.1.7 (compatible with GNU linkers)\n"), Some(Flavor::Lld));
        assert_eq!(by_text("mold 1.10.1 (compatible with GNU ld)"), Some(Flavor::Mold));
        assert_eq!(by_text("GNU gold (GNU Binutils for Debian 2.40) 1.16"), Some(Flavor::Gold));
        assert_eq!(by_text("GNU ld (GNU Binutils for Debian) 2.40\nCopyright"), Some(Flavor::Bfd));
        assert_eq!(by_text("Wild version 0.8.0 (compatible with GNU linkers)"), Some(Flavor::Wild));
        assert_eq!(by_text("something else"), None);
    }

    fn executable(path: &Path) {
        std::fs::write(path, "#!/bin/sh\necho 'GNU ld (made for a test) 1'\n").unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn choose_in(path: &Path, linker: Option<&str>, explicit: Option<&str>) -> Result<Linker> {
        let path = path.as_os_str().to_owned();
        let linker = linker.map(OsString::from);
        let lookup = move |name: &str| match name {
            "PATH" => Some(path.clone()),
            LINKER_VARIABLE => linker.clone(),
            _ => None,
        };
        choose(explicit.map(Path::new), None, &Environment::new(&lookup))
    }

    #[test]
    fn the_order_of_candidates_and_never_ourselves() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        assert!(choose_in(dir.path(), None, None).is_err());
        executable(&at("ld"));
        let fallback = choose_in(dir.path(), None, None).unwrap();
        assert_eq!((fallback.path, fallback.flavor), (at("ld"), Flavor::Bfd));
        executable(&at("ld.lld-9"));
        executable(&at("ld.lld-14"));
        std::fs::write(at("ld.lld-20"), "not executable").unwrap();
        assert_eq!(choose_in(dir.path(), None, None).unwrap().path, at("ld.lld-14"));
        // A shim of ours under the best name is passed over.
        std::os::unix::fs::symlink(std::env::current_exe().unwrap(), at("ld.lld")).unwrap();
        assert_eq!(choose_in(dir.path(), None, None).unwrap().path, at("ld.lld-14"));
        executable(&at("ld.bfd"));
        assert_eq!(choose_in(dir.path(), Some("bfd"), None).unwrap().path, at("ld.bfd"));
        assert_eq!(choose_in(dir.path(), Some("bfd"), Some("ld.lld-9")).unwrap().path, at("ld.lld-9"));
        let own = at("ld.lld");
        let message = choose_in(dir.path(), None, own.to_str()).unwrap_err().to_string();
        assert!(message.contains("this program itself"), "{message}");
        assert!(choose_in(dir.path(), Some("nonexistent"), None).is_err());
    }
}
