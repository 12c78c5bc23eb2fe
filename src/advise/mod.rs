//! `lto-prune advise -- LINK COMMAND`: which options of a link make its output smaller, by links that are made.
//!
//! Each row of the answer is an experiment: the command with an edit, linked to a temporary folder and measured. Rows that gain alone are combined by a greedy search.
//! An output is only combined if the rest of the system sees no difference: its kind, the libraries that it needs, its exported symbols, and a test of the user's.

mod command;
mod edits;
mod facts;
mod laboratory;
mod options;
mod repro;
mod search;
mod snapshot;
mod text;
mod variants;

use std::ffi::OsString;
use std::process::ExitCode;

use crate::args::{Environment, help, linker};
use crate::audit;
use crate::error::{Error, Result, Stage};
use crate::process_group::Signals;
use command::LinkCommand;
use laboratory::{Ended, Laboratory};
use options::AdviseOptions;
use variants::LinkSituation;

/// Do what the words ask for.
///
/// # Errors
/// A file that can't be written, or a command that can't be run.
pub fn main(words: &[OsString], env: &Environment<'_>) -> Result<ExitCode> {
    let options = match options::parse(words) {
        Ok(Some(options)) => options,
        Ok(None) => return audit::print(help::text("advise")),
        Err(error) => return Ok(usage(&error)),
    };
    let signals =
        Signals::watch().map_err(|e| Error::io(Stage::Arguments, "advise", "wait for signals", e))?;
    let folder = tempfile::Builder::new().prefix("lto-prune-advise-").tempdir();
    let folder = folder.map_err(|e| Error::io(Stage::Link, std::env::temp_dir(), "make a folder in", e))?;
    // The folder is removed before a signal ends this program.
    match advise(options, folder, signals, env) {
        Ok(status) => Ok(status),
        Err(Ended::Failed(error)) if error.stage == Stage::Arguments => Ok(usage(&error)),
        Err(Ended::Failed(error)) => Err(error),
        Err(Ended::Signal(signal)) => {
            let _ = signal_hook::low_level::emulate_default_handler(signal);
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Print a mistake in the words; the exit status says that it is one.
fn usage(error: &Error) -> ExitCode {
    eprintln!("lto-prune: error: {error}");
    ExitCode::from(2)
}

fn advise(
    options: AdviseOptions,
    folder: tempfile::TempDir,
    signals: Signals,
    env: &Environment<'_>,
) -> Result<ExitCode, Ended> {
    let link = match &options.repro {
        Some(archive) => repro::unpack(archive, &folder.path().join("inputs"), env)?,
        None => LinkCommand::parse(&options.command)?,
    };
    let lookup = |name: &str| link.variable(name).or_else(|| env.get(name));
    let env = &Environment::new(&lookup);
    let format = options.format;
    let laboratory = Laboratory::new(link.clone(), options, folder, signals, env)?;
    let is_pruned = laboratory.is_pruned()?;
    let base = match laboratory.link("as-given", &[], laboratory.runs())? {
        Ok(base) => base,
        Err(failure) => {
            eprint!("{}", failure.printed);
            eprintln!("lto-prune: error: advise: the link as it is fails: {}", failure.line);
            return Ok(ExitCode::from(failure.status));
        }
    };
    if let Some(why) = &base.test {
        let message = format!("the test fails with the link as it is: {why}");
        return Err(Error::new(Stage::Link, format!("advise: {message}")).into());
    }
    let flavor = laboratory.version()?.lines().find_map(linker_of_line);
    let situation = LinkSituation { link: &laboratory.link, flavor, facts: &base.facts, is_pruned };
    let trials = search::run(&laboratory, &base.facts, variants::variants(&situation, env))?;
    let name = flavor.map_or("an unknown linker", edits::linker_name);
    let linker = if is_pruned { format!("lto-prune and {name}") } else { name.to_owned() };
    let screen = audit::screen(format, env);
    let answer = text::answer(&laboratory, &linker, &base, &trials, format, screen.width.is_some());
    Ok(audit::print(&answer.text(format, screen))?)
}

/// The linker that a line of `--version` names. gcc prints its command before, which may have any name in it.
fn linker_of_line(line: &str) -> Option<crate::config::Flavor> {
    let is_version = !line.contains(" -o ") && !line.starts_with("collect2");
    is_version.then(|| linker::flavor_of_version(line)).flatten()
}
