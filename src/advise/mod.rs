//! `lto-prune advise -- LINK COMMAND`: the options of a link that make its output smaller, measured by links.
//!
//! Each row of the answer is an experiment: the command with an edit, linked to a temporary folder and measured. A greedy search combines
//! the rows that gain alone. An output is only combined if the rest of the system sees no difference: its kind, its needed libraries, its
//! exported symbols, and a test of the user's.

mod command;
mod edits;
mod laboratory;
mod text;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use crate::args::{Environment, help, linker};
use crate::audit;
use crate::config::Flavor;
use crate::error::{Error, Result, Stage};
use crate::process_group::{Signals, end_by, temporary_folder};
use command::LinkCommand;
use laboratory::{AdviseOptions, Ended, Laboratory};
use text::LinkSituation;

/// Run the command with these words.
pub fn main(words: &[OsString], env: &Environment<'_>) -> Result<ExitCode> {
    let options = match laboratory::parse(words) {
        Ok(Some(options)) => options,
        Ok(None) => return audit::print(help::text("advise")),
        Err(error) => return Ok(usage(&error)),
    };
    let signals = Signals::watch("advise")?;
    let folder = temporary_folder(Stage::Link, "advise-")?;
    // The folder is removed before a signal ends this program.
    match advise(options, folder, signals, env) {
        Ok(status) => Ok(status),
        Err(Ended::Failed(error)) if error.stage == Stage::Arguments => Ok(usage(&error)),
        Err(Ended::Failed(error)) => Err(error),
        Err(Ended::Signal(signal)) => Ok(end_by(signal)),
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
        Some(archive) => unpack(archive, &folder.path().join("inputs"), env)?,
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
    let trials = text::run(&laboratory, &base.facts, text::variants(&situation, env))?;
    let name = flavor.map_or("an unknown linker", Flavor::name);
    let linker = if is_pruned { format!("lto-prune and {name}") } else { name.to_owned() };
    let screen = audit::screen(format, env);
    let answer = text::answer(&laboratory, &linker, &base, &trials, format, screen.width.is_some());
    Ok(audit::print(&answer.text(format, screen))?)
}

/// The linker that a line of `--version` names. gcc prints its command before, which may have any name in it.
fn linker_of_line(line: &str) -> Option<Flavor> {
    let is_version = !line.contains(" -o ") && !line.starts_with("collect2");
    is_version.then(|| linker::flavor_of_version(line)).flatten()
}

/// Unpack an archive; the result is its link.
fn unpack(archive: &Path, folder: &Path, env: &Environment<'_>) -> Result<LinkCommand> {
    let file = std::fs::File::open(archive).map_err(|e| Error::io(Stage::Load, archive, "read", e))?;
    let unpacked = tar::Archive::new(file).unpack(folder);
    unpacked.map_err(|e| Error::io(Stage::Load, archive, "unpack the archive", e))?;
    let folder = folder.join("repro");
    let version = std::fs::read_to_string(folder.join("version.txt"));
    let version =
        version.map_err(|e| Error::io(Stage::Load, archive, "find version.txt in the archive", e))?;
    let line = version.lines().find_map(|line| line.strip_prefix("linker: "));
    let Some((path, flavor)) = line.and_then(|line| line.strip_suffix(')')?.rsplit_once(" (")) else {
        let error = Error::new(Stage::Load, "version.txt of the archive names no linker");
        return Err(error.in_file(archive.display().to_string()));
    };
    // It was made on another machine, perhaps: then the linker of that kind is taken.
    let found = match (Path::new(path).is_file(), flavor) {
        (true, _) => linker::choose(Some(Path::new(path)), None, env),
        (false, "Lld") => linker::choose(None, None, env),
        (false, _) => linker::choose(Some(Path::new(&flavor.to_lowercase())), None, env),
    }?;
    let mut response = OsString::from("@");
    response.push(folder.join("response.txt"));
    let mut link = LinkCommand::parse(&[found.path.into_os_string(), response])?;
    link.folder = Some(folder);
    link.is_driver = false;
    Ok(link)
}
