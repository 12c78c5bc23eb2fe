//! `lto-prune cargo COMMAND` (`cargo lto-prune COMMAND`): a cargo command whose links go through lto-prune.
//!
//! rustc hides what a linker prints, so the statistics of the links go to a log, which is printed when cargo has ended. Reports and the
//! folder of shims are below `lto-prune` in cargo's target folder.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use crate::args::{Environment, prune, words};
use crate::error::{Error, Result, Stage};

/// Flags of rustc that cargo has from here, separated by U+001F; they replace all others.
const ENCODED: &str = "CARGO_ENCODED_RUSTFLAGS";
/// Flags of rustc, separated by spaces.
const PLAIN: &str = "RUSTFLAGS";

/// Run cargo with `args`; the words of ours among them go to each link.
pub(super) fn run(args: &[OsString], env: &Environment<'_>) -> Result<ExitCode> {
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
    let mut flag = OsString::from("-Clink-arg=-B");
    flag.push(&shims);
    let flags = [OsString::from("-Clink-self-contained=-linker"), flag];
    let mut cargo_command = Command::new(&cargo);
    cargo_command.arg(command);
    add_flags(&mut cargo_command, &flags, env)?;
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
    cargo_command.args(rest).env(prune::FLAGS_VARIABLE, words::joined(&before, &options));
    let status = super::spawned::run(&mut cargo_command, Path::new(&cargo))?;
    tell(&log, &folder);
    Ok(super::spawned::exit_code(status))
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

/// Add flags of rustc to those of the user. cargo has four sources and takes the first that is set: two variables, then
/// `target.*.rustflags` of its configuration, then `build.rustflags`.
fn add_flags(cargo: &mut Command, flags: &[OsString], env: &Environment<'_>) -> Result<()> {
    let plain = || {
        let plain = env.get(PLAIN)?;
        let words: Vec<&str> = plain.to_str()?.split_ascii_whitespace().collect();
        Some(OsString::from(words.join("\u{1f}")))
    };
    if let Some(mut all) = env.get(ENCODED).or_else(plain) {
        for flag in flags {
            if !all.is_empty() {
                all.push("\u{1f}");
            }
            all.push(flag);
        }
        cargo.env(ENCODED, all);
        return Ok(());
    }
    let texts: Option<Vec<&str>> = flags.iter().map(|flag| flag.to_str()).collect();
    let not_utf8 = || Error::new(Stage::Arguments, "the path of cargo's target folder is not UTF-8");
    // An array of strings in JSON is one in TOML.
    let array = serde_json::Value::from(texts.ok_or_else(not_utf8)?);
    let key = if has_target_flags(env) { "target.'cfg(all())'.rustflags" } else { "build.rustflags" };
    cargo.arg("--config").arg(format!("{key}={array}"));
    Ok(())
}

/// Whether a configuration file of cargo has flags for some target.
fn has_target_flags(env: &Environment<'_>) -> bool {
    let here = std::env::current_dir().unwrap_or_default();
    let home = env.get("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(env.get("HOME")?).join(".cargo")));
    let folders = here.ancestors().map(|folder| folder.join(".cargo")).chain(home);
    let mut files = folders.flat_map(|folder| ["config.toml", "config"].map(|name| folder.join(name)));
    files.any(|file| {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let table = text.parse::<toml::Table>().unwrap_or_default();
        let targets = table.get("target").and_then(toml::Value::as_table);
        targets.is_some_and(|targets| targets.values().any(|target| target.get("rustflags").is_some()))
    })
}

/// Print what the log has of programs and libraries. Build scripts run once and are shipped nowhere.
fn tell(log: &Path, folder: &Path) {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let is_shipped = |line: &&str| !line.contains("/build/");
    let lines: Vec<&str> = text.lines().filter(is_shipped).collect();
    if lines.is_empty() {
        eprintln!("lto-prune: cargo linked no program; touch a source file to have one linked again");
        return;
    }
    for line in lines {
        eprintln!("{line}");
    }
    let folder = folder.join("reports");
    eprintln!(
        "lto-prune: the reports are in {}; lto-prune audit --help says what they answer",
        folder.display()
    );
}
