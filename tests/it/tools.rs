//! Paths of the tools: the binary under test, linkers, compilers, and directories of shims.
//!
//! A test fails if its tool is missing. `tests/setup.sh` installs all tools except Free Pascal, Go and gccgo.

use std::path::{Path, PathBuf};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Linker {
    Lld,
    Mold,
    Bfd,
    Gold,
    Wild,
}

impl Linker {
    pub(crate) const ALL: [Linker; 5] = [Linker::Lld, Linker::Mold, Linker::Bfd, Linker::Gold, Linker::Wild];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Linker::Lld => "lld",
            Linker::Mold => "mold",
            Linker::Bfd => "bfd",
            Linker::Gold => "gold",
            Linker::Wild => "wild",
        }
    }

    pub(crate) fn path(self) -> PathBuf {
        match self {
            Linker::Lld => tool("ld.lld-19"),
            Linker::Mold => tool("mold"),
            Linker::Bfd => tool("ld.bfd"),
            Linker::Gold => tool("ld.gold"),
            Linker::Wild => tool("wild"),
        }
    }
}

pub(crate) fn lto_prune() -> PathBuf {
    match std::env::var_os("LTO_PRUNE_BIN") {
        Some(path) => path.into(),
        None => env!("CARGO_BIN_EXE_lto-prune").into(),
    }
}

pub(crate) fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// `PATH` with a folder in front.
pub(crate) fn path_with(folder: &Path) -> std::ffi::OsString {
    let mut path = folder.as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap());
    path
}

pub(crate) fn tool(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file());
    found.unwrap_or_else(|| panic!("{name} is not in PATH; tests/setup.sh installs it"))
}

/// Whether a compiler is installed that `tests/setup.sh` does not install; a test that needs it is skipped with a message.
pub(crate) fn is_installed(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|dir| dir.join(name).is_file());
    if !found {
        println!("{name} is not installed, and nothing is tested");
    }
    found
}

/// The C++ driver of a C driver.
pub(crate) fn cxx(cc: &str) -> &'static str {
    match cc {
        "gcc" => "g++",
        "clang-19" => "clang++-19",
        other => panic!("no C++ compiler is known for {other}"),
    }
}

/// The lld that comes with rustc: newer than [`Linker::Lld`].
pub(crate) fn lld_of_rustc() -> PathBuf {
    let output = std::process::Command::new("rustc").args(["--print", "sysroot"]).output().unwrap();
    let sysroot = String::from_utf8(output.stdout).unwrap();
    let path = Path::new(sysroot.trim()).join("lib/rustlib/x86_64-unknown-linux-gnu/bin/gcc-ld/ld.lld");
    assert!(path.is_file(), "{} is not there", path.display());
    path
}

/// Links the linker into `dir` by each name that compilers look for, so that `-B dir` uses it.
pub(crate) fn shim_dir(dir: &Path, linker: &Path) {
    std::fs::create_dir_all(dir).unwrap();
    for name in ["ld", "ld.lld", "ld.lto-prune"] {
        std::os::unix::fs::symlink(linker, dir.join(name)).unwrap();
    }
}
