//! `cargo lto-prune COMMAND`: cargo runs a program of this name for a subcommand that it does not know.
//!
//! It runs `lto-prune cargo COMMAND`, by the lto-prune in its own folder, or else the first in `PATH`.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let beside = std::env::current_exe().ok().map(|path| path.with_file_name("lto-prune"));
    let program = beside.filter(|path| path.exists()).unwrap_or_else(|| "lto-prune".into());
    // cargo passes the name of the subcommand as the first word.
    let words = std::env::args_os().skip(1);
    let words: Vec<_> = words.enumerate().filter(|(i, word)| *i > 0 || word != "lto-prune").collect();
    let error = Command::new(&program).arg("cargo").args(words.into_iter().map(|(_, word)| word)).exec();
    eprintln!("cargo-lto-prune: error: cannot run {}: {error}", program.display());
    ExitCode::FAILURE
}
