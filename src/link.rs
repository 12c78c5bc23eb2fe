//! The pass link: the linker, on the pruned objects or, in doubt, on the originals.
//!
//! The pruned link writes into a hidden folder next to the output, so that the output appears complete or not at all. If a rename would
//! differ from the linker's own replacement, the linker writes to the output itself ([`workspace`]). Its messages are held back until it has
//! succeeded. If it fails, the originals are linked by a child with our streams, so that status, messages and signals are the linker's own.
//! If nothing is left to do after the link, the linker replaces this process (exec). It never outlives us ([`bound`]).

pub mod bound;
pub mod child;
pub mod waiting;
pub mod workspace;

pub use bound::response_file;

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus, Output};

use crate::config::{Config, Flavor, InputArg};
use crate::emit::tree::CopyNames;
use crate::emit::tree::{EmittedLink, LineWord};
use crate::error::{Error, Result, Stage};
use crate::ids::Id;
use crate::inputs::{FileKind, Inputs};
use crate::messages;
use workspace::Workspace;

/// A longer line is passed in a response file. The system's limit for all arguments and the environment is 2 MiB.
const LONGEST_LINE: usize = 128 << 10;

/// Become the linker, with the line as it was given, unless a waiting one can take it. Returns only if that fails.
pub fn exec_plain(config: &Config) -> ExitCode {
    let end = |status: Result<ExitStatus>| match status {
        Ok(status) => child::exit_as(status),
        Err(error) => {
            messages::error(config, error);
            ExitCode::FAILURE
        }
    };
    if let Some(status) = plain_by_waiting(config) {
        return end(status);
    }
    let wait = || end(run_plain(config));
    let error = Command::new(&config.linker.path).args(&config.linker_args).exec();
    if error.kind() == std::io::ErrorKind::ArgumentListTooLong {
        // The line came in response files that were read; a new response file must outlive the linker.
        return wait();
    }
    let path = config.linker.path.display();
    messages::error(config, format_args!("link: {path}: cannot run the linker: {error}"));
    ExitCode::FAILURE
}

/// Run the linker with the line as it was given, and wait for it, because something is reported about the output.
pub fn run_plain(config: &Config) -> Result<ExitStatus> {
    if let Some(status) = plain_by_waiting(config) {
        return status;
    }
    // If that fails, no signal is passed on; those of a terminal reach the linker without us.
    let _ = child::pass_signals_on();
    child::PlainLinker::start(config).and_then(child::PlainLinker::wait)
}

/// Link the originals by the waiting linker. If it can't take the line, it is ended.
fn plain_by_waiting(config: &Config) -> Option<Result<ExitStatus>> {
    let failed = |e| Error::io(Stage::Link, &config.linker.path, "wait for the linker", e);
    let status = waiting::link_originals(config);
    waiting::end();
    Some(status?.map_err(failed))
}

/// Remove the output of a link that fails after the linker succeeded.
pub fn remove_output(config: &Config) {
    if config.output.symlink_metadata().is_ok_and(|meta| meta.is_file()) {
        // If it can't be removed, the status says that it is not to be used.
        let _ = std::fs::remove_file(&config.output);
    }
}

/// Run the linker on the pruned objects; its messages are held back.
pub fn link_pruned(config: &Config, emitted: &EmittedLink, workspace: &Workspace) -> Result<Output> {
    let line = words(config, emitted, &workspace.temporary_output);
    run(config, &line, &workspace.copies)
}

fn is_time_trace(word: &OsStr) -> bool {
    word == "--time-trace" || word == "-time-trace"
}

/// The line with the output at `output`.
pub fn words(config: &Config, emitted: &EmittedLink, output: &Path) -> Vec<OsString> {
    let mut line = Vec::new();
    let mut has_output = false;
    for word in &emitted.line {
        match word {
            LineWord::Word(word) if config.rules().traces_by_output_name && is_time_trace(word) => {
                // lld would name the file after the temporary output.
                let mut named = OsString::from("--time-trace=");
                named.push(&config.output);
                named.push(".time-trace");
                line.push(named);
            }
            LineWord::Word(word) => line.push(word.clone()),
            LineWord::Output(_) => {
                has_output = true;
                line.extend(["-o".into(), output.as_os_str().to_owned()]);
            }
        }
    }
    if !has_output {
        debug_assert_eq!(config.output, Path::new("a.out"));
        line.extend(["-o".into(), output.as_os_str().to_owned()]);
    }
    line
}

fn run(config: &Config, line: &[OsString], folder: &Path) -> Result<Output> {
    let failed = |e| Error::io(Stage::Link, &config.linker.path, "run the linker", e);
    if let Some(output) = waiting::link(line) {
        return output.map_err(failed);
    }
    let mut command = bound::command(&config.linker.path);
    if config.rules().forks {
        // Their linking processes would outlive the one that we know.
        command.arg("--no-fork");
    }
    match line.iter().map(|w| w.len() + 1).sum::<usize>() > LONGEST_LINE {
        true => command.arg(bound::in_response_file(line, folder).map_err(failed)?),
        false => command.args(line),
    };
    bound::output(command).map_err(failed)
}

/// Print the linker's messages, with the names that the user knows.
pub fn print_messages(
    output: &Output,
    names: &CopyNames,
    workspace: &Workspace,
    config: &Config,
) -> Result<()> {
    let restore = |text: &[u8]| restore_paths(text, names, workspace, config);
    let Output { status, stdout, stderr } = output;
    let restored = Output { status: *status, stdout: restore(stdout), stderr: restore(stderr) };
    print(&restored)
        .map_err(|e| Error::io(Stage::Link, "standard output", "write what the linker printed", e))
}

/// Print the held-back output of a linker.
fn print(output: &Output) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(&output.stdout)?;
    stdout.flush()?;
    // A message about standard error could not be written either.
    let _ = std::io::stderr().write_all(&output.stderr);
    Ok(())
}

fn restore_paths(text: &[u8], names: &CopyNames, workspace: &Workspace, config: &Config) -> Vec<u8> {
    let temporary = workspace.temporary_output.as_os_str().as_bytes();
    let text = names.restore(text);
    let mut out = Vec::with_capacity(text.len());
    let mut rest = &text[..];
    while let Some(at) = rest.windows(temporary.len()).position(|w| w == temporary) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(config.output.as_os_str().as_bytes());
        rest = &rest[at + temporary.len()..];
    }
    out.extend_from_slice(rest);
    out
}

/// Put the original names into side outputs: the map by its text, and the dependency file by the list of opened files, if
/// that is given.
pub fn rewrite_side_outputs(
    config: &Config,
    names: &CopyNames,
    workspace: &Workspace,
    opened: Option<&[String]>,
) -> Result<()> {
    for path in config.map.iter().chain(&config.depfile) {
        let failed = |e| Error::io(Stage::Link, path, "rewrite a side output", e);
        // A map to standard output ("-") was held back with the messages.
        if path == Path::new("-") || !path.is_file() {
            continue;
        }
        let text = std::fs::read(path).map_err(failed)?;
        let mut text = restore_paths(&text, names, workspace, config);
        if let (true, Some(opened)) = (Some(path) == config.depfile.as_ref(), opened) {
            text = dependencies(&text, opened, config.linker.flavor);
        }
        std::fs::write(path, text).map_err(failed)?;
    }
    Ok(())
}

/// The files of wild's dependency file: files of the line by their path there, others by an absolute path, members
/// of a thin archive instead of the archive, and no version scripts.
pub fn wild_dependencies(config: &Config, inputs: &Inputs) -> Vec<String> {
    let mut archive_of = vec![None; inputs.files.len()];
    for module in inputs.modules.iter() {
        archive_of[module.file.index()] = module.archive.as_ref().map(|(archive, _)| *archive);
    }
    let named = |path: &Path| {
        let is = |input: &InputArg| matches!(input, InputArg::File { path: p, .. } if Path::new(p) == path);
        config.inputs.iter().any(is) || config.scripts.iter().any(|p| p == path)
    };
    let mut names = Vec::new();
    for (id, file) in inputs.files.enumerated() {
        let listed =
            config.version_scripts.iter().chain(&config.dynamic_lists).chain(&config.export_dynamic_lists);
        if file.kind == FileKind::ThinArchive || listed.into_iter().any(|p| *p == file.path) {
            continue;
        }
        let on_line = archive_of[id.index()].unwrap_or(id);
        let path = match named(&inputs.files[on_line].path) {
            true => file.path.clone(),
            false => std::path::absolute(&file.path).unwrap_or_else(|_| file.path.clone()),
        };
        names.push(path.display().to_string());
    }
    names
}

/// The dependency file with each file that the plain link opens, once, in its order: a rule, then an empty rule for
/// each file. lld and GNU ld write one file per line, mold all on one line.
fn dependencies(text: &[u8], opened: &[String], flavor: Flavor) -> Vec<u8> {
    let separator: &[u8] = match flavor {
        Flavor::Mold | Flavor::Wild => b" ",
        Flavor::Lld => b" \\\n ",
        Flavor::Bfd | Flavor::Gold => b" \\\n  ",
    };
    let target = text.iter().position(|c| *c == b':').map_or(&[][..], |end| &text[..end]);
    // wild does not escape names.
    let escaped =
        |file: &String| if flavor == Flavor::Wild { file.clone() } else { file.replace(' ', "\\ ") };
    let mut out = target.to_vec();
    out.push(b':');
    for file in opened {
        out.extend_from_slice(separator);
        out.extend_from_slice(escaped(file).as_bytes());
    }
    out.push(b'\n');
    for file in opened {
        out.push(b'\n');
        out.extend_from_slice(escaped(file).as_bytes());
        out.extend_from_slice(b":\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn response_file_quotes() {
        let line = ["a b".into(), "c\"d\\e".into(), OsString::new()];
        assert_eq!(response_file(&line), b"\"a b\"\n\"c\\\"d\\\\e\"\n\"\"\n");
    }

    #[test]
    fn dependency_file_has_all_that_was_opened() {
        let text =
            dependencies(b"out: \\\n  x\n\nx:\n", &["a.o".to_owned(), "li b.a".to_owned()], Flavor::Lld);
        assert_eq!(text, b"out: \\\n a.o \\\n li\\ b.a\n\na.o:\n\nli\\ b.a:\n");
    }
}
