//! The corpus on disk: programs in several modes, how each is linked, and the linkers.
//!
//! A link is a folder `work/obj/PROGRAM/MODE` that `build.sh` made. Its two files of arguments are the whole interface.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::process::output;
use crate::texts::words;

/// The first programs of every table; others follow by name.
const PROGRAMS: &str = "lua bzip2 minigzip zstd sqlite3 cpp calls hexyl ninja gperf gawk redis git busybox llvm digest describe png fd";

#[derive(Debug, Clone)]
pub(crate) struct Link {
    pub(crate) program: String,
    pub(crate) mode: String,
    /// The arguments are relative to this folder.
    pub(crate) dir: PathBuf,
    /// The compiler driver and its arguments, without `-o` and without a choice of linker.
    pub(crate) driver: Vec<String>,
    /// The arguments that the driver gives the linker, without `-o`.
    pub(crate) linker_args: Vec<String>,
}

impl Link {
    pub(crate) fn name(&self) -> String {
        format!("{}/{}", self.program, self.mode)
    }

    /// Whether each function has its own section.
    pub(crate) fn function_sections(&self) -> bool {
        !self.mode.ends_with("-mono")
    }

    /// Whether the objects are LLVM bitcode.
    pub(crate) fn is_bitcode(&self) -> bool {
        self.mode.starts_with("lto-")
    }

    /// The lld that reads the objects: bitcode of Rust needs that of rustc.
    pub(crate) fn lld(&self) -> Result<PathBuf> {
        if self.is_bitcode() && self.program == "hexyl" { rust_linker() } else { find_linker("lld") }
    }
}

/// The links of a command, and the tools.
#[derive(Debug)]
pub(crate) struct Corpus {
    /// The folder of the bench crate.
    pub(crate) root: PathBuf,
    pub(crate) links: Vec<Link>,
    /// The lto-prune under test: `LTO_PRUNE`, or else the one built with this program.
    pub(crate) pruner: PathBuf,
    /// lto-prune under the name of a linker, so that it takes a linker's arguments.
    shim: PathBuf,
}

impl Corpus {
    /// The links in these modes, all or those of `only` (`PROGRAM` or `PROGRAM/MODE`).
    ///
    /// # Errors
    /// lto-prune is not built, or no link of these modes.
    pub(crate) fn open(root: PathBuf, modes: &str, only: &[String]) -> Result<Corpus> {
        let pruner = match std::env::var_os("LTO_PRUNE") {
            Some(path) => PathBuf::from(path),
            None => std::env::current_exe()?.with_file_name("lto-prune"),
        };
        let missing = |_| format!("{}: missing; run `cargo build --release` first", pruner.display());
        let pruner = pruner.canonicalize().map_err(missing)?;
        let objects = root.join("work/obj");
        let mut programs = words(PROGRAMS);
        let mut others: Vec<String> = fs::read_dir(&objects)
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
            .filter(|name| !programs.contains(name))
            .collect();
        others.sort();
        programs.append(&mut others);
        let mut links = Vec::new();
        for program in programs {
            for mode in modes.split_whitespace() {
                let dir = objects.join(&program).join(mode);
                let wanted = |o: &String| *o == program || *o == format!("{program}/{mode}");
                if dir.join("ld.args").exists() && (only.is_empty() || only.iter().any(wanted)) {
                    let linker_args = without_output(lines(&dir.join("ld.args"))?);
                    let driver = lines(&dir.join("link.args"))?;
                    links.push(Link {
                        program: program.clone(),
                        mode: mode.into(),
                        dir,
                        driver,
                        linker_args,
                    });
                }
            }
        }
        if links.is_empty() && !modes.is_empty() {
            return Err("nothing is built: run bench/fetch.sh and bench/build.sh first".into());
        }
        let shim = root.join("work/run/ld.lto-prune");
        if !fs::read_link(&shim).is_ok_and(|target| target == pruner) {
            fs::create_dir_all(root.join("work/run"))?;
            let _ = fs::remove_file(&shim);
            symlink(&pruner, &shim)?;
        }
        Ok(Corpus { root, links, pruner, shim })
    }

    /// A new and empty folder below `work/run`.
    pub(crate) fn scratch(&self, name: &str) -> Result<PathBuf> {
        let dir = self.root.join("work/run").join(name);
        if dir.exists() {
            fs::remove_dir_all(&dir)?;
        }
        fs::create_dir_all(&dir)?;
        Ok(dir)
    }

    /// The linker step alone: `linker` with the arguments of `link`, to `output`.
    pub(crate) fn linker_command(&self, link: &Link, linker: &Path, output: &Path) -> Command {
        let mut command = Command::new(linker);
        command.current_dir(&link.dir).args(&link.linker_args).arg("-o").arg(output);
        command.env_remove("LTO_PRUNE_FLAGS");
        command
    }

    /// The linker step through lto-prune, with `behind` as the linker.
    pub(crate) fn pruned_command(&self, link: &Link, behind: &Path, output: &Path) -> Command {
        let mut command = self.linker_command(link, &self.shim, output);
        command.env("LTO_PRUNE_LINKER", behind);
        command
    }
}

/// The driver's command for `link`, with `FOLDER/ld` as its linker.
pub(crate) fn driver_command(link: &Link, folder: &Path, output: &Path) -> Result<Command> {
    let (driver, args) = link.driver.split_first().ok_or("empty link.args")?;
    let mut command = Command::new(driver);
    match driver.starts_with("clang") {
        true => command.arg(format!("--ld-path={}", folder.join("ld").display())),
        false => command.arg(format!("-B{}/", folder.display())),
    };
    command.current_dir(&link.dir).args(args).arg("-o").arg(output);
    command.env_remove("LTO_PRUNE_FLAGS").env_remove("LTO_PRUNE_LINKER");
    Ok(command)
}

/// A new folder in which `ld` is `linker`.
pub(crate) fn folder_of(folder: &Path, linker: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    Ok(symlink(linker, folder.join("ld"))?)
}

/// The path of a linker by its short name. lld may have its version in its name.
pub(crate) fn find_linker(name: &str) -> Result<PathBuf> {
    let candidates: &[&str] = match name {
        "lld" => &["ld.lld-19", "ld.lld"],
        "rust-lld" => return rust_linker(),
        "mold" => &["ld.mold", "mold"],
        "bfd" => &["ld.bfd"],
        "gold" => &["ld.gold"],
        "wild" => &["wild"],
        _ => return Err(format!("no linker is called {name}").into()),
    };
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin".into());
    let files =
        candidates.iter().flat_map(|name| std::env::split_paths(&path).map(move |dir| dir.join(name)));
    Ok(files.into_iter().find(|file| file.is_file()).ok_or_else(|| format!("{name} is not installed"))?)
}

/// The newest lld that is installed: that of the system, or that of rustc.
///
/// # Errors
/// None is installed.
pub(crate) fn newest_lld() -> Result<(Vec<u32>, PathBuf)> {
    let version = |path: &Path| {
        let text = output(Command::new(path).arg("--version")).ok()?;
        let version = text.split_once("LLD ")?.1.split_whitespace().next()?.to_owned();
        Some(version.split('.').map_while(|number| number.parse().ok()).collect::<Vec<u32>>())
    };
    let found = ["lld", "rust-lld"].into_iter().filter_map(|name| {
        let path = find_linker(name).ok()?;
        Some((version(&path)?, path))
    });
    Ok(found.max().ok_or("no lld is installed")?)
}

/// The lld that reads the bitcode of this rustc: that of its sysroot.
fn rust_linker() -> Result<PathBuf> {
    let libdir = PathBuf::from(output(Command::new("rustc").args(["--print", "target-libdir"]))?.trim());
    let path = libdir.with_file_name("bin").join("gcc-ld/ld.lld");
    if path.is_file() { Ok(path) } else { Err(format!("{}: missing", path.display()).into()) }
}

fn lines(path: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(text.lines().map(str::to_owned).collect())
}

fn without_output(mut args: Vec<String>) -> Vec<String> {
    while let Some(at) = args.iter().position(|arg| arg == "-o") {
        args.drain(at..args.len().min(at + 2));
    }
    args
}
