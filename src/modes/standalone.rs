//! Standalone: the compiler driver of the system links, with ourselves as its linker.
//!
//! The driver adds start files and libraries. A temporary folder holds `ld`, a link to `ld.lto-prune` in the same folder, and `-B`
//! makes gcc and clang use it. Our options travel in `LTO_PRUNE_FLAGS`, since a driver would reject them.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::args::linker::PREFERS_LLD;
use crate::args::{Environment, prune, words};
use crate::error::{Error, Result, Stage};
use crate::inputs::interface;
use crate::inputs::mapped::MappedFile;
use crate::precomputed;
use crate::process_group;

/// Link `args` through a compiler driver.
pub(super) fn run(args: &[OsString], env: &Environment<'_>) -> Result<ExitCode> {
    let (mut ours, theirs): (Vec<_>, Vec<_>) = args.iter().cloned().partition(|w| prune::is_ours(w));
    let (choices, theirs): (Vec<_>, Vec<_>) = theirs.into_iter().partition(|w| chosen_linker(w).is_some());
    if let Some(linker) = choices.last().and_then(|w| chosen_linker(w)) {
        // For the driver it would replace us; it means the linker that we call. A --prune-linker overrides it.
        let mut word = OsString::from("--prune-linker=");
        word.push(linker);
        ours.insert(0, word);
    }
    let driver = driver(&theirs, &ours, env)?;
    let own = super::shims::own_executable()?;
    let folder = process_group::temporary_folder(Stage::Link, "")?;
    let by_driver = ["ld", "ld.lld"].map(|name| (name, Path::new(PREFERS_LLD)));
    for (name, target) in [(PREFERS_LLD, own.as_path())].into_iter().chain(by_driver) {
        let shim = folder.path().join(name);
        symlink(target, &shim).map_err(|e| Error::io(Stage::Link, &shim, "create", e))?;
    }
    let Some((program, first)) = driver.split_first() else {
        return Err(Error::new(Stage::Arguments, "an empty compiler command"));
    };
    let mut command = Command::new(program);
    command.args(first).arg("-B").arg(folder.path()).args(&theirs);
    command.env(
        prune::FLAGS_VARIABLE,
        words::joined(&env.get(prune::FLAGS_VARIABLE).unwrap_or_default(), &ours),
    );
    // An interrupt from the terminal reaches the driver as well. We outlive it and remove the folder.
    let interrupted = Arc::new(AtomicBool::new(false));
    let _ = signal_hook::flag::register(signal_hook::consts::SIGINT, interrupted);
    let status = process_group::run(&mut command, Path::new(program))?;
    // The folder is removed here, also when the driver failed.
    drop(folder);
    Ok(process_group::exit_code(status))
}

/// The linker that a driver option asks for. `lld` alone is our default.
fn chosen_linker(word: &OsStr) -> Option<&OsStr> {
    let bytes = word.as_bytes();
    let name = bytes.strip_prefix(b"-fuse-ld=").or_else(|| bytes.strip_prefix(b"--ld-path="))?;
    (name != b"lld").then(|| OsStr::from_bytes(name))
}

/// The words of the compiler driver: `$CXX`, c++, g++, clang++ for C++ objects, else `$CC`, cc, gcc, clang.
fn driver(args: &[OsString], ours: &[OsString], env: &Environment<'_>) -> Result<Vec<OsString>> {
    let chosen = |name| env.get(name).map(|v| words::split(v.as_bytes())).filter(|w| !w.is_empty());
    let mut interfaces = ours.iter().filter_map(|word| word.as_bytes().strip_prefix(b"--prune-interfaces="));
    let interfaces = interfaces.next_back().map(|dir| Path::new(OsStr::from_bytes(dir)));
    // A line for a plan names objects by `-Wl,`.
    let mut words = args.iter().flat_map(|arg| match arg.as_bytes().strip_prefix(b"-Wl,") {
        Some(words) => words.split(|byte| *byte == b',').map(OsStr::from_bytes).collect(),
        None => vec![arg.as_os_str()],
    });
    // A CC that is set is the user's word; without it C++ objects need the driver that knows libstdc++.
    let (variable, names) = match chosen("CC") {
        Some(words) if chosen("CXX").is_none() => return Ok(words),
        _ if words.any(|word| is_cplusplus(Path::new(word), interfaces)) => {
            ("CXX", ["c++", "g++", "clang++"])
        }
        _ => ("CC", ["cc", "gcc", "clang"]),
    };
    if let Some(words) = chosen(variable) {
        return Ok(words);
    }
    let path = env.get("PATH").unwrap_or_default();
    let directories: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let mut candidates = names.iter().flat_map(|name| directories.iter().map(move |d| d.join(name)));
    match candidates.find(|p| is_executable(p)) {
        Some(path) => Ok(vec![path.into_os_string()]),
        None => Err(Error::new(
            Stage::Arguments,
            format!("no compiler driver on PATH ({}); set {variable}", names.join(", ")),
        )),
    }
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// Whether an object or archive, or its interface, refers to the C++ runtime, or a source file is C++. A guess that only chooses the driver.
fn is_cplusplus(path: &Path, interfaces: Option<&Path>) -> bool {
    match path.extension().and_then(OsStr::to_str) {
        Some("cc" | "cpp" | "cxx" | "C" | "c++" | "cp" | "ii") => return true,
        Some("o" | "a" | "obj" | "lo") => {}
        _ => return false,
    }
    let interface =
        || precomputed::open(&interface::path_of(interfaces?, path, interface::SUFFIX), Some(path)).ok();
    let Some(bytes) = MappedFile::open(path).ok().or_else(interface) else { return false };
    // Names as string tables hold them, each after the NUL of its predecessor.
    let marks: [&[u8]; 4] = [b"\0__gxx_personality_v0\0", b"\0_ZNSt", b"\0_ZNKSt", b"\0_Znwm\0"];
    marks.iter().any(|mark| contains(&bytes, mark))
}

/// Substring search by the first byte, which is rare enough to skip quickly.
fn contains(bytes: &[u8], mark: &[u8]) -> bool {
    bytes.windows(mark.len()).any(|w| w == mark)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_driver_fits_the_objects() {
        let dir = tempfile::tempdir().unwrap();
        let object = |name: &str, source: &str| {
            let file = dir.path().join(name);
            std::fs::write(&file, source).unwrap();
            let out = file.with_extension("o");
            assert!(Command::new("g++").arg("-c").arg(&file).arg("-o").arg(&out).status().unwrap().success());
            out.into_os_string()
        };
        let cxx = object("x.cpp", "int *f() { return new int; }");
        let c = dir.path().join("c.c");
        std::fs::write(&c, "int main(void) { return 0; }").unwrap();
        let c_object = c.with_extension("o").into_os_string();
        assert!(Command::new("gcc").arg("-c").arg(&c).arg("-o").arg(&c_object).status().unwrap().success());
        let choose = |args: &[&OsString], variables: &'static [(&str, &str)]| {
            let lookup = |name: &str| {
                let set = variables.iter().find(|(n, _)| *n == name).map(|(_, v)| OsString::from(v));
                set.or_else(|| (name == "PATH").then(|| "/usr/bin".into()))
            };
            let args: Vec<OsString> = args.iter().map(|a| (*a).clone()).collect();
            driver(&args, &[], &Environment::new(&lookup)).unwrap().join(OsStr::new(" "))
        };
        assert_eq!(choose(&[&c_object], &[]), "/usr/bin/cc");
        assert_eq!(choose(&[&c_object, &cxx], &[]), "/usr/bin/c++");
        assert_eq!(choose(&[&c_object], &[("CC", "ccache gcc")]), "ccache gcc");
        assert_eq!(choose(&[&cxx], &[("CC", "gcc")]), "gcc");
        assert_eq!(choose(&[&cxx], &[("CC", "gcc"), ("CXX", "g++ -m64")]), "g++ -m64");
        assert_eq!(choose(&[&c_object], &[("CC", "gcc"), ("CXX", "g++")]), "gcc");
    }
}
