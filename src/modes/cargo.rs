//! `lto-prune cargo COMMAND` (`cargo lto-prune COMMAND`): a cargo command whose links go through lto-prune.
//!
//! cargo runs this program in place of rustc for the packages of the workspace, so that no flags of the user have to be known. rustc hides the
//! messages of linkers. The statistics of the links go to a log, which is printed when cargo has ended. Reports and the folder of shims are below `lto-prune` in
//! cargo's target folder.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use crate::args::{Environment, prune, words};
use crate::error::{Error, Result, Stage};
use crate::process_group;

/// The file name of this program when cargo runs it in place of rustc.
pub(super) const RUSTC: &str = "lto-prune-rustc";
/// The program that cargo runs in place of rustc, for the packages of the workspace alone. cargo gives its products other file names.
const WRAPPER: &str = "RUSTC_WORKSPACE_WRAPPER";
/// The wrapper that the user had set.
const INNER: &str = "LTO_PRUNE_RUSTC_WRAPPER";
/// The flags that rustc gets in addition to those of cargo.
const FLAGS: &str = "LTO_PRUNE_RUSTC_FLAGS";

/// Run cargo with `args`; the words of ours among them go to each link.
pub(super) fn run(args: &[OsString], env: &Environment<'_>) -> Result<ExitCode> {
    // Words after -- are those of the program that cargo runs.
    let end = args.iter().position(|word| word == "--").unwrap_or(args.len());
    let (args, behind) = args.split_at(end);
    let (ours, theirs): (Vec<_>, Vec<_>) = args.iter().cloned().partition(|word| prune::is_ours(word));
    prune::parse(&ours, None, env)?;
    let Some((command, rest)) = theirs.split_first() else {
        return Err(Error::new(
            Stage::Arguments,
            "cargo takes a command of cargo: cargo lto-prune build --release",
        ));
    };
    let cargo = env.get("CARGO").unwrap_or_else(|| "cargo".into());
    let folder = target_folder(&cargo, rest, env)?.join("lto-prune");
    let shims = folder.join("shims");
    super::shims::install(&shims)?;
    let log = folder.join("log");
    match std::fs::remove_file(&log) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            return Err(Error::io(Stage::Arguments, &log, "remove the old log", e));
        }
        _ => {}
    }
    let wrapper = shims.join(RUSTC);
    super::shims::link_to_us(&wrapper)?;
    let mut cargo_command = Command::new(&cargo);
    cargo_command.arg(command).env(WRAPPER, &wrapper).env(FLAGS, flags(&shims, env));
    cargo_command.env(INNER, env.get(WRAPPER).filter(|user| *user != wrapper).unwrap_or_default());
    let file = |option: &str, path: PathBuf| {
        let mut word = OsString::from(option);
        word.push(path);
        word
    };
    let options = [
        "--prune-stats".into(),
        file("--prune-log=", log.clone()),
        file("--prune-report=", folder.join("reports/%o.json")),
    ];
    std::fs::create_dir_all(folder.join("reports"))
        .map_err(|e| Error::io(Stage::Arguments, &folder, "make the folder of reports in", e))?;
    let before = env.get(prune::FLAGS_VARIABLE).unwrap_or_default();
    let options: Vec<OsString> = options.into_iter().chain(ours).collect();
    cargo_command.args(rest).args(behind).env(prune::FLAGS_VARIABLE, words::joined(&before, &options));
    let status = process_group::run(&mut cargo_command, Path::new(&cargo))?;
    tell(&log, &folder);
    Ok(process_group::exit_code(status))
}

/// The folder in which cargo builds.
fn target_folder(cargo: &OsStr, words: &[OsString], env: &Environment<'_>) -> Result<PathBuf> {
    if let Some(folder) = value_of(words, "--target-dir") {
        return std::path::absolute(&folder).map_err(|e| Error::io(Stage::Arguments, folder, "find", e));
    }
    let mut command = Command::new(cargo);
    command.args(["metadata", "--format-version=1", "--no-deps"]).stderr(Stdio::inherit());
    if let Some(manifest) = value_of(words, "--manifest-path") {
        command.arg("--manifest-path").arg(manifest);
    }
    let output = command.output().map_err(|e| Error::io(Stage::Arguments, PathBuf::from(cargo), "run", e))?;
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let folder = metadata.get("target_directory").and_then(|folder| folder.as_str());
    // `cargo install` needs no package here.
    let fallback = || env.get("CARGO_TARGET_DIR").map(PathBuf::from);
    let none = || Error::new(Stage::Arguments, "cargo metadata names no target folder; add --target-dir=DIR");
    folder.map(PathBuf::from).or_else(fallback).ok_or_else(none)
}

/// The value of an option of cargo's, from the same word or the next one.
fn value_of(words: &[OsString], option: &str) -> Option<PathBuf> {
    let mut rest = words.iter().take_while(|word| *word != "--");
    while let Some(word) = rest.next() {
        if word == option {
            return rest.next().map(PathBuf::from);
        }
        let joined = word.to_str().and_then(|word| word.strip_prefix(option)?.strip_prefix('='));
        if let Some(value) = joined {
            return Some(PathBuf::from(value));
        }
    }
    None
}

/// Run rustc for cargo, with the flags of [`run`] behind those of cargo.
///
/// Build scripts and procedural macros run as a part of the build and are shipped nowhere: they are linked as always.
pub(crate) fn rustc(words: &[OsString], env: &Environment<'_>) -> Result<ExitCode> {
    let wrapped = env.get(INNER).filter(|wrapper| !wrapper.is_empty());
    let mut all = wrapped.into_iter().chain(words.iter().cloned());
    let Some(program) = all.next() else {
        return Err(Error::new(Stage::Arguments, "cargo names no rustc"));
    };
    let mut command = Command::new(&program);
    command.args(all);
    let pairs = || words.windows(2).filter_map(|pair| pair.first().zip(pair.last()));
    let is_script = |name: &OsString| name.to_string_lossy().starts_with("build_script_");
    let is_helper = |(key, value): (&OsString, &OsString)| {
        (key == "--crate-name" && is_script(value)) || (key == "--crate-type" && value == "proc-macro")
    };
    // Without a crate cargo asks rustc what it is.
    let is_crate = pairs().any(|(key, _)| key == "--crate-name");
    if is_crate && !pairs().any(is_helper) {
        let flags = env.get(FLAGS).unwrap_or_default();
        command.args(words::split(flags.as_bytes()));
    }
    let error = command.exec();
    Err(Error::io(Stage::Link, PathBuf::from(program), "run", error))
}

/// Flags of rustc with which the compiler driver finds the shims. From 1.90 on, rustc names the folder of its own lld before any other.
fn flags(shims: &Path, env: &Environment<'_>) -> OsString {
    let rustc = env.get("RUSTC").unwrap_or_else(|| "rustc".into());
    let version =
        Command::new(rustc).arg("--version").output().map(|output| output.stdout).unwrap_or_default();
    let version = String::from_utf8_lossy(&version).into_owned();
    let minor = version.strip_prefix("rustc 1.").and_then(|rest| rest.split('.').next()?.parse::<u32>().ok());
    let mut flag = OsString::from("-Clink-arg=-B");
    flag.push(shims);
    let own_lld =
        minor.is_none_or(|minor| minor >= 90).then(|| OsString::from("-Clink-self-contained=-linker"));
    let flags: Vec<OsString> = own_lld.into_iter().chain([flag]).collect();
    words::joined(OsStr::new(""), &flags)
}

/// Print the log of the links, and the folder of their reports.
fn tell(log: &Path, folder: &Path) {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    if text.is_empty() {
        eprintln!("lto-prune: cargo linked no program; touch a source file to have one linked again");
        return;
    }
    eprint!("{text}");
    let folder = folder.join("reports");
    eprintln!(
        "lto-prune: the reports are in {}; lto-prune audit --help says what they answer",
        folder.display()
    );
}
