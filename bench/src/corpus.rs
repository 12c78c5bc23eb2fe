//! The corpus on disk: which programs are built in which modes, how each is linked, and where the linkers are.
//!
//! A link is a folder `work/obj/PROGRAM/MODE` made by `build.sh`; its two files of arguments are the whole contract.
//! Left out: building any of it.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;

/// Programs in the order of every table.
const PROGRAMS: [&str; 19] = [
    "lua", "bzip2", "minigzip", "zstd", "sqlite3", "cpp", "calls", "hexyl", "ninja", "gperf", "gawk",
    "redis", "git", "busybox", "llvm", "digest", "describe", "png", "fd",
];
const MODES: [&str; 5] = ["gcc-mono", "gcc-fs", "clang-mono", "clang-fs", "rust"];
/// Modes that only `links` measures: programs that nothing was tuned for, and programs with debug information.
const TIMED_MODES: [&str; 3] = ["gcc-others", "gcc-debug", "clang-debug"];
/// Modes of `bench debug`, with debug information.
const DEBUG_MODES: [&str; 3] = ["gcc-debug", "clang-debug", "rust-debug"];
/// The mode of programs that load no code at run time and that have no handlers.
const CLOSED_MODES: [&str; 1] = ["gcc-closed"];
/// Modes with LLVM bitcode, for lld alone.
const LTO_MODES: [&str; 5] = ["lto-thin", "lto-full", "lto-fat", "lto-taken", "lto-half"];

#[derive(Debug, Clone)]
pub(crate) struct Link {
    pub(crate) program: String,
    pub(crate) mode: String,
    /// The arguments are relative to this folder.
    pub(crate) dir: PathBuf,
    /// The compiler driver and its arguments, without `-o` and without a choice of linker.
    pub(crate) driver: Vec<String>,
    /// What that driver gives the linker, without `-o`.
    pub(crate) linker_args: Vec<String>,
}

impl Link {
    pub(crate) fn name(&self) -> String {
        format!("{}/{}", self.program, self.mode)
    }

    /// Whether functions have sections of their own.
    pub(crate) fn function_sections(&self) -> bool {
        !self.mode.ends_with("-mono")
    }
}

/// Everything that was built, and the tools.
#[derive(Debug)]
pub(crate) struct Corpus {
    /// The folder of the bench crate.
    pub(crate) root: PathBuf,
    pub(crate) links: Vec<Link>,
    pub(crate) pruner: PathBuf,
}

/// The lto-prune under test: `LTO_PRUNE`, else the one built beside this program.
pub(crate) fn lto_prune() -> Result<PathBuf> {
    let pruner = match std::env::var_os("LTO_PRUNE") {
        Some(path) => PathBuf::from(path),
        None => std::env::current_exe()?.with_file_name("lto-prune"),
    };
    let missing = |_| format!("{}: not there; run `cargo build --release` first", pruner.display());
    Ok(pruner.canonicalize().map_err(missing)?)
}

impl Corpus {
    /// Find the built programs, all or those of `only` (`PROGRAM` or `PROGRAM/MODE`).
    ///
    /// # Errors
    /// If nothing fits, or lto-prune isn't built.
    pub(crate) fn open(root: PathBuf, only: &[String]) -> Result<Corpus> {
        Corpus::built(root, only)?.having_links()
    }

    fn having_links(self) -> Result<Corpus> {
        if self.links.is_empty() {
            return Err("nothing is built: run bench/fetch.sh and bench/build.sh first".into());
        }
        Ok(self)
    }

    /// As [`Corpus::open`], and behind them the large programs and those with debug information that are built.
    ///
    /// # Errors
    /// If nothing fits, or lto-prune isn't built.
    pub(crate) fn timed(root: PathBuf, only: &[String]) -> Result<Corpus> {
        let timed = Corpus::in_modes(root.clone(), only, &TIMED_MODES)?;
        let mut corpus = Corpus::built(root, only)?;
        corpus.links.extend(timed.links);
        corpus.having_links()
    }

    /// As [`Corpus::open`], of the programs with debug information.
    ///
    /// # Errors
    /// If nothing fits, or lto-prune isn't built.
    pub(crate) fn with_debug(root: PathBuf, only: &[String]) -> Result<Corpus> {
        Corpus::in_modes(root, only, &DEBUG_MODES)?.having_links()
    }

    /// As [`Corpus::open`], and behind them the programs that load no code at run time and that are built.
    ///
    /// # Errors
    /// If nothing fits, or lto-prune isn't built.
    pub(crate) fn closed(root: PathBuf, only: &[String]) -> Result<Corpus> {
        let closed = Corpus::in_modes(root.clone(), only, &CLOSED_MODES)?;
        let mut corpus = Corpus::built(root, only)?;
        corpus.links.extend(closed.links);
        corpus.having_links()
    }

    /// As [`Corpus::open`], but there may be none.
    ///
    /// # Errors
    /// If lto-prune isn't built.
    pub(crate) fn built(root: PathBuf, only: &[String]) -> Result<Corpus> {
        Corpus::in_modes(root, only, &MODES)
    }

    /// As [`Corpus::open`], of the programs as bitcode.
    ///
    /// # Errors
    /// If nothing fits, or lto-prune isn't built.
    pub(crate) fn bitcode(root: PathBuf, only: &[String]) -> Result<Corpus> {
        let corpus = Corpus::in_modes(root, only, &LTO_MODES)?;
        if corpus.links.is_empty() {
            return Err("nothing is built: run bench/fetch.sh and bench/build.sh --lto first".into());
        }
        Ok(corpus)
    }

    /// As [`Corpus::timed`], and behind them those of bitcode that are built.
    ///
    /// # Errors
    /// If nothing fits, or lto-prune isn't built.
    pub(crate) fn all(root: PathBuf, only: &[String]) -> Result<Corpus> {
        let bitcode = Corpus::in_modes(root.clone(), only, &LTO_MODES)?;
        let mut corpus = Corpus::in_modes(root.clone(), only, &MODES)?;
        corpus.links.extend(Corpus::in_modes(root, only, &TIMED_MODES)?.links);
        corpus.links.extend(bitcode.links);
        corpus.having_links()
    }

    fn in_modes(root: PathBuf, only: &[String], modes: &[&str]) -> Result<Corpus> {
        let mut links = Vec::new();
        for program in PROGRAMS {
            for mode in modes {
                let dir = root.join("work/obj").join(program).join(mode);
                let wanted = only.is_empty()
                    || only.iter().any(|o| *o == program || *o == format!("{program}/{mode}"));
                if !wanted || !dir.join("ld.args").exists() {
                    continue;
                }
                links.push(Link {
                    program: program.into(),
                    mode: (*mode).into(),
                    driver: lines(&dir.join("link.args"))?,
                    linker_args: recorded(&dir.join("ld.args"))?,
                    dir,
                });
            }
        }
        Ok(Corpus { links, ..Corpus::tools(root)? })
    }

    /// The tools alone, for commands that bring their own programs.
    ///
    /// # Errors
    /// If lto-prune isn't built.
    pub(crate) fn tools(root: PathBuf) -> Result<Corpus> {
        let pruner = lto_prune()?;
        Ok(Corpus { root, links: Vec::new(), pruner })
    }

    pub(crate) fn scratch(&self, name: &str) -> Result<PathBuf> {
        let dir = self.root.join("work/run").join(name);
        if dir.exists() {
            fs::remove_dir_all(&dir)?;
        }
        fs::create_dir_all(&dir)?;
        Ok(dir)
    }

    /// A folder in which `ld` and `ld.lto-prune` are lto-prune, as `gcc -B` and `clang --ld-path` want them.
    pub(crate) fn shims(&self) -> Result<PathBuf> {
        let dir = self.scratch("shims")?;
        symlink(&self.pruner, dir.join("ld"))?;
        symlink(&self.pruner, dir.join("ld.lto-prune"))?;
        Ok(dir)
    }

    /// The linker step alone: `linker` on the arguments of `link`, to `output`.
    pub(crate) fn linker_command(&self, link: &Link, linker: &Path, output: &Path) -> Command {
        let mut command = Command::new(linker);
        command.current_dir(&link.dir).args(&link.linker_args).arg("-o").arg(output);
        command
    }
}

/// The path of a linker by its short name: `lld`, `mold`, `bfd`, `gold`, `wild`. lld may carry its version in its name.
pub(crate) fn find_linker(name: &str) -> Result<PathBuf> {
    let candidates: &[&str] = match name {
        "lld" => &["ld.lld-19", "ld.lld"],
        "mold" => &["ld.mold", "mold"],
        "bfd" => &["ld.bfd"],
        "gold" => &["ld.gold"],
        "wild" => &["wild"],
        _ => return Err(format!("no linker is called {name}").into()),
    };
    let path = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/bin"));
    for candidate in candidates {
        for dir in std::env::split_paths(&path) {
            let file = dir.join(candidate);
            if file.is_file() {
                return Ok(file);
            }
        }
    }
    Err(format!("{name} is not installed").into())
}

/// The linker's arguments that `record-ld.sh` wrote, without `-o FILE`.
///
/// # Errors
/// If the file can't be read.
pub(crate) fn recorded(path: &Path) -> Result<Vec<String>> {
    Ok(without_output(lines(path)?))
}

/// The newest lld that is installed: that of the system, or that of rustc.
///
/// # Errors
/// None is installed.
pub(crate) fn newest_lld() -> Result<PathBuf> {
    let found = [find_linker("lld"), rust_linker()].into_iter().filter_map(|path| {
        let path = path.ok()?;
        Some((lld_version(&path)?, path))
    });
    Ok(found.max().ok_or("no lld is installed")?.1)
}

/// The version of an lld, as numbers.
pub(crate) fn lld_version(path: &Path) -> Option<Vec<u32>> {
    let output = Command::new(path).arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let version = text.split_once("LLD ")?.1.split_whitespace().next()?;
    Some(version.split('.').map_while(|number| number.parse().ok()).collect())
}

/// The lld that reads the bitcode of this rustc: that of its sysroot.
pub(crate) fn rust_linker() -> Result<PathBuf> {
    let output = Command::new("rustc").args(["--print", "target-libdir"]).output()?;
    let libdir = PathBuf::from(String::from_utf8(output.stdout)?.trim());
    let path = libdir.with_file_name("bin").join("gcc-ld/ld.lld");
    if path.is_file() { Ok(path) } else { Err(format!("{}: not there", path.display()).into()) }
}

fn lines(path: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(text.lines().map(str::to_owned).collect())
}

fn without_output(args: Vec<String>) -> Vec<String> {
    let mut rest = args.into_iter();
    let mut kept = Vec::new();
    while let Some(arg) = rest.next() {
        if arg == "-o" {
            rest.next();
        } else {
            kept.push(arg);
        }
    }
    kept
}
