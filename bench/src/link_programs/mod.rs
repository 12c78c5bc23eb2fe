//! `bench soak-links`: random programs, each linked plain and pruned by each linker, must behave alike.
//!
//! Alike means: the same status of the link, and if it succeeds the same DT_NEEDED in the same order, the same exports
//! by name, version and binding, no import that the plain one lacks, the same stack flags, and the same output and
//! status of the program (which prints what its constructors and functions do, in order).
//!
//! Needs nothing but the standard library: the integration tests run a few seeds of it.

mod compare;
mod line;
mod program;
mod rng;

use std::path::{Path, PathBuf};
use std::process::Command;

use self::compare::{Facts, facts};
use self::program::{LinkProgram, Mode, ModuleContainer};
pub(crate) use self::rng::SplitMix64;

/// A linker: its name here and its executable.
#[derive(Debug, Clone)]
pub(crate) struct Linker {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
}

#[derive(Debug, Default)]
pub(crate) struct LinkTally {
    /// Links that succeeded, plain and pruned, and were compared.
    pub(crate) compared: usize,
    /// The number of these links whose output is smaller when pruned.
    pub(crate) smaller: usize,
    /// These links failed in the same way with both.
    pub(crate) failed: usize,
    /// The warnings of pruned links that fell back to the originals, each with its seed and line.
    pub(crate) warned: Vec<String>,
}

impl LinkTally {
    pub(crate) fn add(&mut self, other: LinkTally) {
        self.compared += other.compared;
        self.smaller += other.smaller;
        self.failed += other.failed;
        self.warned.extend(other.warned);
    }
}

/// Make and try the program of `seed` in `dir`, which is emptied first and stays if something differs or fell back.
///
/// # Errors
/// What differs, with the line, or what could not be run.
pub(crate) fn run_seed(seed: u64, ours: &Path, linkers: &[Linker], dir: &Path) -> Result<LinkTally, String> {
    let _ = std::fs::remove_dir_all(dir);
    std::fs::create_dir_all(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let mut rng = SplitMix64::new(seed);
    let program = program::generate(&mut rng);
    let (words, files) = line::generate(&mut rng, &program);
    for (name, contents) in files {
        write(dir, name, &contents)?;
    }
    build(dir, &program, &mut rng)?;
    let place = format!("in {}: {} {}", dir.display(), driver(&program), words.join(" "));
    let mut tally = LinkTally::default();
    let mut differences = String::new();
    for linker in linkers {
        if program.has_commons && ["mold", "wild"].contains(&linker.name.as_str()) {
            continue;
        }
        match try_linker(dir, &program, &words, ours, linker) {
            Ok(mut one) => {
                let told =
                    |said: &mut String| *said = format!("seed {seed}, {}: {said}\n{place}", linker.name);
                one.warned.iter_mut().for_each(told);
                tally.add(one);
            }
            Err(text) => differences.push_str(&format!("seed {seed}, {}: {text}\n", linker.name)),
        }
    }
    if differences.is_empty() {
        if tally.warned.is_empty() {
            let _ = std::fs::remove_dir_all(dir);
        }
        return Ok(tally);
    }
    Err(format!("{differences}{place}"))
}

fn driver(program: &LinkProgram) -> &'static str {
    if program.has_cxx { "g++" } else { "gcc" }
}

fn write(dir: &Path, name: &str, contents: &str) -> Result<(), String> {
    std::fs::write(dir.join(name), contents).map_err(|e| format!("{name}: {e}"))
}

/// Compile the modules, then make the archives and the shared libraries.
fn build(dir: &Path, program: &LinkProgram, rng: &mut SplitMix64) -> Result<(), String> {
    for module in &program.modules {
        write(dir, &module.source, &module.text)?;
        let mut command = Command::new(module.compiler);
        command.args(&module.flags).args(["-c", &module.source, "-o", &module.object()]);
        must(dir, &mut command)?;
    }
    let of = |place: ModuleContainer| -> Vec<String> {
        program.modules.iter().filter(|m| m.place == place).map(program::LinkedModule::object).collect()
    };
    for archive in 0..program.archives {
        let kind = if rng.chance(20) { "rcT" } else { "rc" };
        let name = format!("liba{archive}.a");
        must(dir, Command::new("ar").arg(kind).arg(&name).args(of(ModuleContainer::Archive(archive))))?;
    }
    for library in 0..program.libraries {
        let name = format!("libd{library}.so");
        let mut command = Command::new("g++");
        command.args(["-shared", "-o", &name, "-x", "c", "/dev/null", "-x", "none"]);
        command.args(of(ModuleContainer::Library(library)));
        if rng.chance(70) {
            command.arg(format!("-Wl,-soname,{name}"));
        }
        if rng.chance(25) {
            write(dir, "dso_version", "DSO_1 { f1; f2; f3; f4; v1; v2; };\nDSO_2 { *; } DSO_1;\n")?;
            command.arg("-Wl,--version-script=dso_version");
        }
        if library > 0 && rng.chance(50) {
            command.args(["-Wl,--no-as-needed", "./libd0.so"]);
        }
        must(dir, &mut command)?;
    }
    Ok(())
}

fn must(dir: &Path, command: &mut Command) -> Result<(), String> {
    let output =
        command.current_dir(dir).output().map_err(|e| format!("{:?}: {e}", command.get_program()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command:?}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr)))
}

/// A folder in which `ld` is `target`.
fn shim(dir: &Path, name: &str, target: &Path) -> Result<PathBuf, String> {
    let folder = dir.join(name);
    std::fs::create_dir_all(&folder).map_err(|e| e.to_string())?;
    let _ = std::fs::remove_file(folder.join("ld"));
    std::os::unix::fs::symlink(target, folder.join("ld")).map_err(|e| e.to_string())?;
    Ok(folder)
}

fn try_linker(
    dir: &Path,
    program: &LinkProgram,
    words: &[String],
    ours: &Path,
    linker: &Linker,
) -> Result<LinkTally, String> {
    let link = |shim: &Path, output: &str| {
        let _ = std::fs::remove_file(dir.join(output));
        // mold 1.10 may ask for memory without end.
        let mut command = Command::new("prlimit");
        command
            .args(["--as=8589934592", driver(program)])
            .current_dir(dir)
            .arg("-B")
            .arg(shim)
            .args(words)
            .args(["-o", output]);
        command.env("LTO_PRUNE_LINKER", &linker.path).env_remove("LTO_PRUNE_FLAGS").env("LC_ALL", "C");
        command.output().map_err(|e| e.to_string())
    };
    let plain = link(&shim(dir, &format!("plain-{}", linker.name), &linker.path)?, "plain")?;
    let pruned = link(&shim(dir, "ours", ours)?, "pruned")?;
    let messages = String::from_utf8_lossy(&pruned.stderr).into_owned();
    if plain.status != pruned.status {
        let other = String::from_utf8_lossy(&plain.stderr).into_owned();
        return Err(format!("plain {}, pruned {}\n{other}{messages}", plain.status, pruned.status));
    }
    if !plain.status.success() {
        return Ok(LinkTally { failed: 1, ..LinkTally::default() });
    }
    let warned = messages.lines().find(|line| line.contains("lto-prune: ")).map(str::to_owned);
    let (before, after) = (facts(&dir.join("plain"))?, facts(&dir.join("pruned"))?);
    compare(&before, &after)?;
    if program.mode == Mode::Shared {
        write(dir, "host.c", "int start_here(void); int main(void) { return start_here(); }\n")?;
    }
    let outputs: Vec<String> =
        ["plain", "pruned"].iter().map(|name| execute(dir, program, name)).collect::<Result<_, _>>()?;
    // A library may leave to others what only code refers to that is dropped: the loader may miss another name, or none.
    let is_missing = |said: &str| said.contains("symbol lookup error: ");
    let not_missed = !after.imports_what_was_not_found(&outputs[0]);
    let dropped = is_missing(&outputs[0]) && (is_missing(&outputs[1]) || not_missed);
    if outputs[0] != outputs[1] && !dropped {
        return Err(format!("plain prints\n{}pruned prints\n{}", outputs[0], outputs[1]));
    }
    let size = |name: &str| std::fs::metadata(dir.join(name)).map_or(0, |m| m.len());
    let smaller = usize::from(size("pruned") < size("plain"));
    Ok(LinkTally { compared: 1, smaller, failed: 0, warned: warned.into_iter().collect() })
}

fn compare(plain: &Facts, pruned: &Facts) -> Result<(), String> {
    if plain.needed != pruned.needed {
        return Err(format!("DT_NEEDED: plain {:?}, pruned {:?}", plain.needed, pruned.needed));
    }
    if plain.stack != pruned.stack {
        return Err(format!("PT_GNU_STACK: plain {}, pruned {}", plain.stack, pruned.stack));
    }
    let lost: Vec<_> = plain.exports.difference(&pruned.exports).filter(|e| !plain.is_copy(e)).collect();
    // A copy is as weak as the references that are left.
    let both_copy = |export: &str| plain.is_copy(export) && pruned.is_copy(export);
    let new: Vec<_> = pruned.exports.difference(&plain.exports).filter(|e| !both_copy(e)).collect();
    if !lost.is_empty() || !new.is_empty() {
        return Err(format!("exports: lost {lost:?}, new {new:?}"));
    }
    // What dead code alone copies is what the library has.
    let new: Vec<_> = pruned.imports.difference(&plain.imports).filter(|e| !plain.is_copy(e)).collect();
    if !new.is_empty() {
        return Err(format!("imports: new {new:?}"));
    }
    Ok(())
}

/// Output and status of the program, or of a host of the library.
fn execute(dir: &Path, program: &LinkProgram, name: &str) -> Result<String, String> {
    let mut executable = format!("./{name}");
    if program.mode == Mode::Shared {
        executable = format!("./host-{name}");
        let mut command = Command::new("gcc");
        command.current_dir(dir).args(["host.c", "-o", &executable]).arg(format!("./{name}"));
        command.arg("-Wl,--allow-shlib-undefined");
        if !command.output().map_err(|e| e.to_string())?.status.success() {
            return Ok("no host can be linked".to_owned());
        }
    }
    let mut command = Command::new("timeout");
    command.args(["20", &executable]).current_dir(dir).env("LD_LIBRARY_PATH", ".");
    let output = command.output().map_err(|e| format!("{executable}: {e}"))?;
    let text =
        |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(&executable, "PROGRAM").replace(name, "NAME");
    Ok(format!("{}{}{:?}\n", text(&output.stdout), text(&output.stderr), output.status.code()))
}
