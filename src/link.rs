//! Pass 8, link: the real linker, on the pruned objects or, wherever we are not sure, on the originals.
//!
//! The pruned link writes into a hidden folder beside the output, so that the output appears complete or not at
//! all. Where a rename would not do what the linker does (the output is a symbolic link or one of several names of a
//! file, or the folder takes no other file) it writes to the output itself. Its messages are held back until it has succeeded: if it fails, the originals are linked in our
//! place (the same process, by exec), so exit status, messages and signals are the linker's own. A signal
//! that ends us ends the linker and removes what we made.

pub mod plain;

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};
use std::sync::Mutex;

use crate::config::{Config, Dialect, LineArg};
use crate::emit::tree::{Emitted, LineWord, Names};
use crate::error::{Error, Result, Stage};

/// A line longer than this goes through a response file: the system's limit for all arguments is 2 MiB, and a
/// shared one with the environment.
const LONGEST_LINE: usize = 128 << 10;

/// Become the linker, with the line as it was given. Returns only if that is impossible.
pub fn exec_plain(config: &Config) -> ExitCode {
    let error = Command::new(&config.linker.path).args(&config.linker_args).exec();
    if error.kind() == std::io::ErrorKind::ArgumentListTooLong {
        // It came in response files, and those were read; a file of ours must outlive the linker.
        return run_plain(config);
    }
    eprintln!("lto-prune: link: {}: cannot run the linker: {error}", config.linker.path.display());
    ExitCode::FAILURE
}

/// Run the linker with the line as it was given, and wait for it: something is still to be said about the output.
pub fn run_plain(config: &Config) -> ExitCode {
    plain::pass_signals_on();
    match plain::PlainLinker::start(config).and_then(plain::PlainLinker::wait) {
        Ok(status) => plain::exit_as(status),
        Err(error) => {
            eprintln!("lto-prune: error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Link the originals after the linker refused the pruned objects with `messages`. Most often it refuses the
/// originals too, and says why; that it doesn't is known only afterwards, and then it is a bug of ours. Here too the
/// output appears complete or not at all.
pub fn run_plain_after_refusal(config: &Config, messages: &[u8]) -> ExitCode {
    let Ok((workspace, output)) = link_originals(config) else { return exec_plain(config) };
    print_messages(&output, &Names::default(), &workspace, config);
    if output.status.success() {
        if let Err(error) = rewrite_side_outputs(config, &Names::default(), &workspace, None)
            .and_then(|()| workspace.publish(config))
        {
            eprintln!("lto-prune: error: {error}");
            return ExitCode::FAILURE;
        }
        let first = String::from_utf8_lossy(messages);
        let first = first.lines().next().unwrap_or("no message");
        eprintln!(
            "lto-prune: warning: link: the linker refused the pruned objects ({first}); the originals were linked"
        );
        return ExitCode::SUCCESS;
    }
    drop(workspace);
    plain::exit_as(output.status)
}

/// The line as it was given, but for the output.
fn link_originals(config: &Config) -> Result<(Workspace, Output)> {
    let workspace = Workspace::new(config)?;
    let mut line = config.linker_args.clone();
    for arg in &config.line {
        let LineArg::Output(words) = arg else { continue };
        if let Some(at) = line.windows(words.len()).position(|w| w == &words[..]) {
            line.drain(at..at + words.len());
        }
    }
    line.extend(["-o".into(), workspace.temporary_output.clone().into_os_string()]);
    let output = run(config, &line, &workspace.copies)?;
    Ok((workspace, output))
}

/// Whether the output is ours to put into its place: it is a file (or a link to one) or nothing yet. A device, a pipe
/// or a folder is the linker's own to write to or to refuse, and so is lld's `-o -`, the standard output.
pub fn can_publish(config: &Config) -> bool {
    if config.linker.dialect == Dialect::Lld && config.output == Path::new("-") {
        return false;
    }
    match std::fs::metadata(&config.output) {
        Ok(meta) => meta.is_file(),
        Err(e) => e.kind() == std::io::ErrorKind::NotFound,
    }
}

/// Folders that go when we end, also by a signal.
static FOLDERS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn folders() -> std::sync::MutexGuard<'static, Vec<PathBuf>> {
    FOLDERS.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Remove everything that [`Workspace`]s made.
fn remove_folders(folders: &mut Vec<PathBuf>) {
    for folder in folders.drain(..) {
        // Nothing better can be done for a folder that can't be removed, and the link is what matters.
        let _ = std::fs::remove_dir_all(folder);
    }
}

/// The folders of one link.
#[derive(Debug)]
pub struct Workspace {
    /// For the copies of inputs: in memory where the system has such a place.
    pub copies: PathBuf,
    /// In a folder beside the output, on its file system, so that publishing is a rename, under its own
    /// basename; or the output itself, where only the linker knows how to replace it.
    pub temporary_output: PathBuf,
}

/// Whether putting a new file in the place of the output is what every linker does. A symbolic link some replace and
/// some follow, and to a file of several names some write in place.
fn is_replaceable(output: &Path) -> bool {
    match output.symlink_metadata() {
        Ok(meta) => meta.is_file() && meta.nlink() == 1,
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

impl Workspace {
    /// Make the folders. Where none can be made beside the output the linker writes there itself, or says why not.
    pub fn new(config: &Config) -> Result<Self> {
        let memory = Path::new("/dev/shm");
        let base = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
        let parent = match config.output.parent() {
            Some(parent) if parent != Path::new("") => parent.to_path_buf(),
            _ => PathBuf::from("."),
        };
        let name = config.output.file_name().unwrap_or(OsStr::new("a.out"));
        let copies =
            folder_in(&base, "lto-prune-").or_else(|_| folder_in(&std::env::temp_dir(), "lto-prune-"))?;
        let beside =
            if is_replaceable(&config.output) { folder_in(&parent, ".lto-prune-").ok() } else { None };
        let temporary_output = beside.map_or_else(|| config.output.clone(), |folder| folder.join(name));
        Ok(Workspace { copies, temporary_output })
    }

    /// Put the finished output into its place, which [`can_publish`] has looked at.
    pub fn publish(&self, config: &Config) -> Result<()> {
        if self.temporary_output == config.output {
            return Ok(());
        }
        if !can_publish(config) {
            return Err(Error::new(Stage::Link, "the output has become something else than a file")
                .in_file(config.output.display().to_string()));
        }
        std::fs::rename(&self.temporary_output, &config.output)
            .map_err(|e| Error::io(Stage::Link, &config.output, "publish the output", e))
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        remove_folders(&mut folders());
    }
}

fn folder_in(parent: &Path, prefix: &str) -> Result<PathBuf> {
    let failed = |e| Error::io(Stage::Link, parent, "make a temporary folder", e);
    // Made and noted under one lock: once a signal has begun to clean up, nobody makes another folder.
    let mut folders = folders();
    let folder = tempfile::Builder::new().prefix(prefix).tempdir_in(parent).map_err(failed)?.keep();
    folders.push(folder.clone());
    Ok(folder)
}

/// From now on a signal that ends us removes our folders first. The linker gets the signal from the terminal
/// itself, or from us.
pub fn clean_up_on_signals() {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let Ok(mut signals) = signal_hook::iterator::Signals::new([SIGHUP, SIGINT, SIGTERM]) else { return };
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            if let Some(child) = *child() {
                // SIGKILL, because a linker that is half done has nothing to save: its output is ours to remove.
                let _ = Command::new("kill").args(["-KILL", &child.to_string()]).status();
            }
            // Held until we are gone.
            let mut folders = folders();
            remove_folders(&mut folders);
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    });
}

static CHILD: Mutex<Option<u32>> = Mutex::new(None);

fn child() -> std::sync::MutexGuard<'static, Option<u32>> {
    CHILD.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Run the linker on the pruned objects, its messages held back.
pub fn link_pruned(config: &Config, emitted: &Emitted, workspace: &Workspace) -> Result<Output> {
    let line = words(config, emitted, &workspace.temporary_output);
    run(config, &line, &workspace.copies)
}

/// The line with the output at `output`.
pub fn words(config: &Config, emitted: &Emitted, output: &Path) -> Vec<OsString> {
    let mut line = Vec::new();
    let mut has_output = false;
    for word in &emitted.line {
        match word {
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
    let mut command = Command::new(&config.linker.path);
    if line.iter().map(|w| w.len() + 1).sum::<usize>() > LONGEST_LINE {
        let file = folder.join("line.rsp");
        std::fs::write(&file, response_file(line)).map_err(failed)?;
        let mut at = OsString::from("@");
        at.push(&file);
        command.arg(at);
    } else {
        command.args(line);
    }
    let started = command.stdin(Stdio::inherit()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let process = started.map_err(failed)?;
    *child() = Some(process.id());
    let output = process.wait_with_output().map_err(failed);
    *child() = None;
    output
}

/// The line in the syntax that all GNU-like linkers read: one quoted word a line.
pub fn response_file(line: &[OsString]) -> Vec<u8> {
    let mut out = Vec::new();
    for word in line {
        out.push(b'"');
        for &byte in word.as_bytes() {
            if byte == b'"' || byte == b'\\' {
                out.push(b'\\');
            }
            out.push(byte);
        }
        out.extend_from_slice(b"\"\n");
    }
    out
}

/// Let out what the linker printed, with the names that the user knows.
pub fn print_messages(output: &Output, names: &Names, workspace: &Workspace, config: &Config) {
    let restore = |text: &[u8]| restore_paths(text, names, workspace, config);
    // A closed pipe is the reader's business, as it is when the linker writes itself.
    let _ = std::io::stdout().write_all(&restore(&output.stdout));
    let _ = std::io::stderr().write_all(&restore(&output.stderr));
}

fn restore_paths(text: &[u8], names: &Names, workspace: &Workspace, config: &Config) -> Vec<u8> {
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

/// Side outputs name the originals: the map by its text, the dependency file by the list of what was opened, if that is
/// given.
pub fn rewrite_side_outputs(
    config: &Config,
    names: &Names,
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
            text = dependencies(&text, opened, config.linker.dialect);
        }
        std::fs::write(path, text).map_err(failed)?;
    }
    Ok(())
}

/// A path without `.` and `..`, by its text alone, as lld and mold write it.
pub fn without_dots(path: &Path) -> String {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if matches!(out.components().next_back(), Some(Component::Normal(_))) => {
                out.pop();
            }
            part => out.push(part),
        }
    }
    out.display().to_string()
}

/// The dependency file with each file that the plain link opens, once, in its order: a rule, then an empty rule for
/// each file. lld and GNU ld put one file a line, mold all on one.
fn dependencies(text: &[u8], opened: &[String], dialect: Dialect) -> Vec<u8> {
    let separator: &[u8] = match dialect {
        Dialect::Mold | Dialect::Wild => b" ",
        Dialect::Lld => b" \\\n ",
        Dialect::Bfd | Dialect::Gold => b" \\\n  ",
    };
    let target = text.iter().position(|c| *c == b':').map_or(&[][..], |end| &text[..end]);
    let mut out = target.to_vec();
    out.push(b':');
    for file in opened {
        out.extend_from_slice(separator);
        out.extend_from_slice(file.replace(' ', "\\ ").as_bytes());
    }
    out.push(b'\n');
    for file in opened {
        out.push(b'\n');
        out.extend_from_slice(file.replace(' ', "\\ ").as_bytes());
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
    fn dots_go_by_text() {
        assert_eq!(without_dots(Path::new("./a/../b/c.o")), "b/c.o");
        assert_eq!(without_dots(Path::new("../a.o")), "../a.o");
        assert_eq!(without_dots(Path::new("/x/../../y")), "/../y");
    }

    #[test]
    fn dependency_file_has_all_that_was_opened() {
        let text =
            dependencies(b"out: \\\n  x\n\nx:\n", &["a.o".to_owned(), "li b.a".to_owned()], Dialect::Lld);
        assert_eq!(text, b"out: \\\n a.o \\\n li\\ b.a\n\na.o:\n\nli\\ b.a:\n");
    }
}
