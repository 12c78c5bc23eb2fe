//! The mode of a call, as of a multi-call binary: a linker, a link through a compiler driver, or a subcommand.
//!
//! A program named `ld`, `ld.*`, `*-ld`, `mold` or `wild` is a linker, with any words, because compilers choose a linker by its name.

pub(crate) mod cargo;
mod completions;
mod manual;
pub mod explain;
mod lto;
pub(crate) mod shims;
mod standalone;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, ExitCode};

use crate::args::{self, Environment, help, prune};
use crate::config::{Config, Flavor, Linker};
use crate::error::{Error, Result, Stage};
use crate::process_group::{exit_code, run};

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
    Version,
    /// `lto-prune a.o b.o -o main`, see [`run_standalone`].
    Standalone(Vec<OsString>),
    /// A call by cargo in place of rustc, see [`cargo::rustc`].
    Rustc(Vec<OsString>),
    /// A subcommand, and the words after it.
    Command(&'static str, Vec<OsString>),
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
    let names = || help::commands().map(|(name, _)| name).filter(|name| !name.contains(' '));
    match first.to_str() {
        Some("--help" | "-h" | "help") => Ok(Mode::Help(None)),
        Some("--version" | "-V") => Ok(Mode::Version),
        Some(word) if let Some(name) = names().find(|name| *name == word) => {
            Ok(Mode::Command(name, rest.to_vec()))
        }
        // A word of letters that names no file is a misspelt command.
        Some(word) if is_word(word) && !Path::new(word).exists() => {
            match help::nearest(word, names().chain(["help"])) {
                Some(near) => usage(&format!("there is no command and no file {word}; did you mean {near}?")),
                None => Ok(Mode::Standalone(words.to_vec())),
            }
        }
        _ => Ok(Mode::Standalone(words.to_vec())),
    }
}

/// Our own help on stdout, then that of `linker`: libtool and configure scripts search there for supported features (`supported
/// targets:.* elf`, `no-whole-archive`).
pub fn print_help(linker: Option<&(Linker, Vec<OsString>)>) -> Result<ExitCode> {
    let own = print(help::text(help::PROGRAM));
    match linker {
        Some((linker, args)) => run_linker_only(linker, args),
        None => Ok(own),
    }
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
pub fn run_linker_only(linker: &Linker, args: &[OsString]) -> Result<ExitCode> {
    Ok(exit_code(run(Command::new(&linker.path).args(args), &linker.path)?))
}

/// `lto-prune a.o b.o -o main`: link through the system's compiler driver with ourselves as its linker.
pub fn run_standalone(words: &[OsString], env: &Environment<'_>) -> Result<ExitCode> {
    // A mistake in our options is reported here, before a compiler wraps it in messages of its own.
    prune::parse(words, None, env)?;
    standalone::run(words, env)
}

/// A subcommand that has no module of its own, by the words after its name.
pub fn run_command(name: &'static str, words: &[OsString], env: &Environment<'_>) -> Result<ExitCode> {
    let text = help::text(name);
    match (name, words) {
        ("install-shims", [directory]) => {
            for path in shims::install(Path::new(directory))? {
                print(&format!("{}\n", path.display()));
            }
            Ok(ExitCode::SUCCESS)
        }
        ("completions", [shell]) => {
            let shell_name = shell.to_string_lossy();
            let unknown = format!(
                "no completions for {shell_name}: the shells are bash, zsh and fish, and man is the manual page"
            );
            let script = completions::script(shell);
            Ok(print(&script.ok_or_else(|| Error::new(Stage::Arguments, unknown))?))
        }
        ("explain-trap", _) => Ok(print(&explain::explain(words)?)),
        ("cargo", _) => cargo::run(words, env),
        _ => {
            let usage = text.lines().find_map(|line| line.strip_prefix("Usage: ")).unwrap_or_default();
            Err(Error::new(Stage::Arguments, format!("{name} takes other words: {usage}")))
        }
    }
}

/// Whether words ask for the help of a command without a parser of its own; then it is printed.
pub fn print_command_help(name: &str, words: &[OsString]) -> Option<ExitCode> {
    let is_help = |word: &OsString| word == "--help" || word == "-h";
    let asks = match name {
        "audit" | "advise" | "bisect" | "split" => false,
        // Other words may be those of the program that cargo runs.
        "cargo" => words.first().is_some_and(is_help),
        _ => words.iter().any(is_help),
    };
    asks.then(|| print(help::text(name)))
}

#[cfg(test)]
mod tests;
