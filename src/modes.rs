//! How the program was called: as a linker, by hand, or with a subcommand; and the modes that are no link of ours.
//!
//! The name decides, as with any multi-call binary: `ld`, `ld.*`, `*-ld`, `mold` and `wild` are a linker, whatever follows, because
//! compilers choose a linker by name only. Left out: the link itself ([`crate::run`]).

mod cargo;
mod completions;
mod explain;
mod help;
mod lto;
mod shims;
mod spawned;
mod standalone;

pub use completions::{CommandHelp, HelpTexts};

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::args::{self, Environment, prune};
use crate::config::{Config, Flavor, Linker};
use crate::error::{Error, Result, Stage};

#[derive(Debug)]
pub enum Mode {
    Link(Box<Config>),
    /// Nothing to link on the line (`--version`, `-v`, `--target-help`, `mold -run`...): the linker alone, see [`run_linker_only`].
    LinkerOnly {
        linker: Linker,
        args: Vec<OsString>,
    },
    /// Our own help, and that of the linker if we were called as one, see [`print_help`].
    Help(Option<(Linker, Vec<OsString>)>),
    /// The help of the subcommand of this name.
    SubcommandHelp(String),
    Version,
    /// `lto-prune a.o b.o -o main`, see [`run_standalone`].
    Standalone(Vec<OsString>),
    /// The subcommand `install-shims`, see [`run_install_shims`] for more.
    InstallShims(PathBuf),
    /// The subcommand `completions`, see [`run_completions`] for more.
    Completions(OsString),
    /// The subcommand `summarize`, with the words behind it.
    Summarize(Vec<OsString>),
    /// The subcommand `emit`, with the words behind it.
    Emit(Vec<OsString>),
    /// The subcommand `dump`, with the file to print.
    Dump(PathBuf),
    /// `lto-prune audit COMMAND ...`, see [`crate::audit`].
    Audit(Vec<OsString>),
    /// `lto-prune cargo COMMAND ...`, see [`run_cargo`].
    Cargo(Vec<OsString>),
    /// Called by cargo in place of rustc, see [`run_rustc`].
    Rustc(Vec<OsString>),
    /// `lto-prune explain-trap BINARY ADDRESS|CORE`, see [`run_explain_trap`].
    ExplainTrap(Vec<OsString>),
    /// `lto-prune split IN -o OUT`, see [`crate::split`].
    Split(Vec<OsString>),
    /// `lto-prune advise [OPTIONS] -- COMMAND...`, see [`crate::advise`].
    Advise(Vec<OsString>),
    /// `lto-prune bisect [OPTIONS] -- COMMAND...`, see [`crate::bisect`].
    Bisect(Vec<OsString>),
}

/// Whether a program of this name is called as a linker.
pub fn is_linker_name(argv0: &OsStr) -> bool {
    let name = Path::new(argv0).file_name().unwrap_or(argv0).to_string_lossy();
    // A cross prefix (`x86_64-linux-gnu-ld`) or a suffix (`ld.lld-19`, `ld.lto-prune`) may be there.
    let is_ld = name == "ld" || name.starts_with("ld.") || name.ends_with("-ld") || name.contains("-ld.");
    is_ld || name == "mold" || name == "wild"
}

/// The linker that a shim stands for; none if it is `ld.lto-prune` or a link to that.
fn namesake(shim: &Path) -> Option<&OsStr> {
    let prefers_lld = |path: &Path| path.file_name() == Some(OsStr::new(args::linker::PREFERS_LLD));
    let is_link_to_it = || shim.read_link().is_ok_and(|target| prefers_lld(&target));
    shim.file_name().filter(|_| !prefers_lld(shim) && !is_link_to_it())
}

/// Decide the mode from all words, the program's name first.
///
/// # Errors
/// A mistake in a subcommand or in one of our options, or no linker to stand in front of.
pub fn mode(argv: &[OsString], env: &Environment<'_>) -> Result<Mode> {
    let Some((argv0, words)) = argv.split_first() else { return Ok(Mode::Help(None)) };
    if Path::new(argv0).file_name() == Some(OsStr::new(cargo::RUSTC)) {
        return Ok(Mode::Rustc(words.to_vec()));
    }
    if is_linker_name(argv0) { linker_mode(argv0, words, env) } else { own_mode(words) }
}

fn linker_mode(argv0: &OsStr, words: &[OsString], env: &Environment<'_>) -> Result<Mode> {
    let expanded = args::words::expand(words);
    let asks = |names: &[&str]| expanded.iter().any(|w| names.iter().any(|name| w == name));
    let config = args::parse(words, namesake(Path::new(argv0)), env)?;
    if config.linker.flavor == Flavor::Mold && words.first().is_some_and(|w| w == "-run" || w == "--run") {
        // It has the linkers of a command replaced by itself.
        return Ok(Mode::LinkerOnly { linker: config.linker, args: words.to_vec() });
    }
    if asks(&["--help", "-help"]) {
        return Ok(Mode::Help(Some((config.linker, config.linker_args))));
    }
    let asks_version = asks(&["--version", "-version"]);
    // Questions that a linker answers instead of linking.
    let asks_it = asks(&["--target-help", "--print-sysroot", "--print-output-format"]);
    // A script of `-T` may name the inputs.
    let has_inputs = !config.inputs.is_empty() || !config.scripts.is_empty();
    if asks_version || asks_it || !has_inputs {
        return Ok(Mode::LinkerOnly { linker: config.linker, args: config.linker_args });
    }
    Ok(Mode::Link(Box::new(lto::suited(config, words, env)?)))
}

/// The commands of lto-prune, for misspelt ones.
const COMMANDS: &[&str] = &[
    "advise",
    "audit",
    "bisect",
    "cargo",
    "completions",
    "dump",
    "emit",
    "explain-trap",
    "help",
    "install-shims",
    "split",
    "summarize",
];

fn is_word(word: &str) -> bool {
    word.len() > 2
        && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
        && !word.starts_with('-')
}

fn own_mode(words: &[OsString]) -> Result<Mode> {
    let usage = |message: &str| Err(Error::new(Stage::Arguments, message));
    let Some((first, rest)) = words.split_first() else {
        return usage("nothing to do: lto-prune a.o b.o -o main, or lto-prune --help");
    };
    let asks_help = rest.iter().any(|word| word == "--help" || word == "-h");
    match first.to_str() {
        Some("--help" | "-h" | "help") => Ok(Mode::Help(None)),
        Some(
            name @ ("install-shims" | "cargo" | "completions" | "summarize" | "emit" | "dump"
            | "explain-trap"),
        ) if asks_help => Ok(Mode::SubcommandHelp(name.to_owned())),
        Some("--version" | "-V") => Ok(Mode::Version),
        Some("install-shims") => match rest {
            [directory] => Ok(Mode::InstallShims(PathBuf::from(directory))),
            _ => usage("install-shims takes one folder: lto-prune install-shims DIR"),
        },
        Some("completions") => match rest {
            [shell] => Ok(Mode::Completions(shell.clone())),
            _ => usage("completions takes one shell: lto-prune completions bash|zsh|fish"),
        },
        Some("summarize") => Ok(Mode::Summarize(rest.to_vec())),
        Some("emit") => Ok(Mode::Emit(rest.to_vec())),
        Some("dump") => match rest {
            [file] => Ok(Mode::Dump(PathBuf::from(file))),
            _ => usage("dump takes one file: lto-prune dump FILE"),
        },
        Some("cargo") if rest.first().is_some_and(|word| word == "--help" || word == "-h") => {
            Ok(Mode::SubcommandHelp("cargo".to_owned()))
        }
        Some("cargo") => Ok(Mode::Cargo(rest.to_vec())),
        Some("split") => Ok(Mode::Split(rest.to_vec())),
        Some("advise") => Ok(Mode::Advise(rest.to_vec())),
        Some("bisect") => Ok(Mode::Bisect(rest.to_vec())),
        Some("explain-trap") => Ok(Mode::ExplainTrap(rest.to_vec())),
        Some("audit") => Ok(Mode::Audit(rest.to_vec())),
        // A word of letters that names no file is a misspelt command.
        Some(word) if is_word(word) && !Path::new(word).exists() => {
            match args::prune::nearest(word, COMMANDS.iter().copied()) {
                Some(near) => usage(&format!("there is no command and no file {word}; did you mean {near}?")),
                None => Ok(Mode::Standalone(words.to_vec())),
            }
        }
        _ => Ok(Mode::Standalone(words.to_vec())),
    }
}

/// Our own help on stdout, then that of `linker`: libtool and configure scripts look there for what it supports
/// (`supported targets:.* elf`, `no-whole-archive`).
///
/// # Errors
/// The linker can't be started.
pub fn print_help(linker: Option<&(Linker, Vec<OsString>)>) -> Result<ExitCode> {
    let own = print(&help::text());
    match linker {
        Some((linker, args)) => run_linker_only(linker, args),
        None => Ok(own),
    }
}

pub fn print_subcommand_help(name: &str) -> ExitCode {
    print(&help::of_subcommand(name))
}

pub fn print_version() -> ExitCode {
    print(concat!("lto-prune ", env!("CARGO_PKG_VERSION"), env!("BUILT_FROM"), "\n"))
}

/// Write to stdout; a closed pipe is no reason to panic.
fn print(text: &str) -> ExitCode {
    use std::io::Write;
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Run the linker with `args` as they are. Nothing of ours is added: libtool's configure takes any version below 2 in the
/// answer to `-v` for that of an old GNU ld, and leaves version scripts out of libraries.
///
/// # Errors
/// The linker can't be started.
pub fn run_linker_only(linker: &Linker, args: &[OsString]) -> Result<ExitCode> {
    Ok(spawned::exit_code(spawned::run(Command::new(&linker.path).args(args), &linker.path)?))
}

/// `lto-prune a.o b.o -o main`: link through the system's compiler driver with ourselves as its linker.
///
/// # Errors
/// No compiler driver is found, one of our options is wrong, or the temporary folder can't be made.
pub fn run_standalone(words: &[OsString], env: &Environment<'_>) -> Result<ExitCode> {
    // A mistake in our options is reported here, before a compiler wraps it in messages of its own.
    prune::parse(words, None, env)?;
    standalone::run(words, env)
}

/// `lto-prune install-shims DIR`.
///
/// # Errors
/// The folder can't be written, or a file that isn't ours is in the way.
pub fn run_install_shims(directory: &Path) -> Result<ExitCode> {
    for path in shims::install(directory)? {
        print(&format!("{}\n", path.display()));
    }
    Ok(ExitCode::SUCCESS)
}

/// rustc for a cargo command whose links go through lto-prune.
///
/// # Errors
/// rustc can't be run.
pub fn run_rustc(words: &[OsString], env: &Environment<'_>) -> Result<ExitCode> {
    cargo::rustc(words, env)
}

/// A folder for `-B`, as [`run_install_shims`] makes it.
///
/// # Errors
/// The folder can't be written.
pub(crate) fn install_shims(directory: &Path) -> Result<Vec<PathBuf>> {
    shims::install(directory)
}

/// `lto-prune cargo COMMAND ...`: a cargo command whose links go through lto-prune.
///
/// # Errors
/// cargo can't be run or names no target folder, or one of our options is wrong.
pub fn run_cargo(words: &[OsString], env: &Environment<'_>) -> Result<ExitCode> {
    cargo::run(words, env)
}

/// `lto-prune completions SHELL`, with options from these help texts.
///
/// # Errors
/// A shell for which there is no script.
pub fn run_completions(shell: &OsStr, texts: HelpTexts<'_>) -> Result<ExitCode> {
    let unknown = || {
        let shell = shell.to_string_lossy();
        Error::new(Stage::Arguments, format!("no completions for {shell}: the shells are bash, zsh and fish"))
    };
    Ok(print(&completions::script(shell, texts).ok_or_else(unknown)?))
}

/// `lto-prune explain-trap BINARY ADDRESS|CORE`.
///
/// # Errors
/// A file that can't be read, or a place that is no stub.
pub fn run_explain_trap(words: &[OsString]) -> Result<ExitCode> {
    Ok(print(&explain::explain(words)?))
}

#[cfg(test)]
mod tests;
