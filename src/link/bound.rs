//! A linker that does not outlive us, and the signals that end us.
//!
//! A killed process can't end its children, so that each child asks the kernel for its end (`PR_SET_PDEATHSIG`) before it becomes
//! the linker: it is started as this program with a special first word. That costs half a millisecond and no `unsafe`. On a
//! signal to end, the linker is killed and our folders are removed. Linkers that fork get the option against it.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Output, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::fs::fstat;
use rustix::process::{Pid, Signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGKILL, SIGTERM, SIGXFSZ};

use super::{child, workspace};

/// The first word of the process that becomes the linker; the number of its parent follows it.
const WORD: &str = "--run-linker-of=";

/// This program, even if it was replaced or removed since it started.
pub(super) const OURSELVES: &str = "/proc/self/exe";

/// A command that runs `program` and ends when we end. The thread that starts it must wait for it.
pub fn command(program: &Path) -> Command {
    if !Path::new(OURSELVES).exists() {
        return Command::new(program);
    }
    let mut command = Command::new(OURSELVES);
    command.arg0("lto-prune").arg(format!("{WORD}{}", std::process::id())).arg(program);
    command
}

/// The word that stands for a line too long for the system, which goes into a response file in `folder`.
pub(super) fn in_response_file(line: &[OsString], folder: &Path) -> std::io::Result<OsString> {
    let file = folder.join("line.rsp");
    std::fs::write(&file, response_file(line))?;
    let mut word = OsString::from("@");
    word.push(&file);
    Ok(word)
}

/// Become the linker, if these are the words of a process that [`command`] started.
pub fn become_linker(words: &[OsString]) -> Option<ExitCode> {
    let [_, first, program, line @ ..] = words else { return None };
    let parent: i32 = first.to_str()?.strip_prefix(WORD)?.parse().ok()?;
    end_with_parent();
    // If the parent ended before that, no signal comes.
    if rustix::process::getppid().map(Pid::as_raw_pid) != Some(parent) {
        return Some(ExitCode::FAILURE);
    }
    let error = Command::new(program).args(line).exec();
    eprintln!("lto-prune: link: {}: cannot run the linker: {error}", Path::new(program).display());
    Some(ExitCode::FAILURE)
}

/// From now on a file that outgrows the limit of the process (`RLIMIT_FSIZE`) is an error of that write, not a signal. A
/// linker that we start or become gets the signal, because handlers are reset at exec.
pub fn outgrown_files_are_errors() {
    // If that fails, the signal ends us like other programs.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
}

/// Be killed when the process that started this one ends.
pub fn end_with_parent() {
    // It only fails for an invalid signal number.
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
}

/// Send a signal to a child that has not been waited for.
pub fn send(child: u32, signal: i32) {
    let child = i32::try_from(child).ok().and_then(Pid::from_raw);
    if let (Some(child), Some(signal)) = (child, Signal::from_named_raw(signal)) {
        // It fails if the child has ended already.
        let _ = rustix::process::kill_process(child, signal);
    }
}

/// The signals that ask a process to end.
const ENDING: [i32; 3] = [SIGHUP, SIGINT, SIGTERM];
/// The time in which a signal to the whole group reaches us after it has ended the linker.
pub(super) const GRACE: Duration = Duration::from_millis(200);

static CHILD: Mutex<Option<u32>> = Mutex::new(None);

fn child() -> std::sync::MutexGuard<'static, Option<u32>> {
    CHILD.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Start a command whose output is held back. If our standard streams are one file, so are its streams, which keeps the order of messages.
pub(super) fn spawn(mut command: Command) -> std::io::Result<Child> {
    command.stdin(Stdio::inherit());
    if !prints_to_one_file() {
        return command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    }
    let (reader, writer) = std::io::pipe()?;
    let mut process = command.stdout(writer.try_clone()?).stderr(writer).spawn()?;
    process.stdout = Some(OwnedFd::from(reader).into());
    Ok(process)
}

fn prints_to_one_file() -> bool {
    let streams = (fstat(std::io::stdout()), fstat(std::io::stderr()));
    matches!(streams, (Ok(out), Ok(err)) if (out.st_dev, out.st_ino) == (err.st_dev, err.st_ino))
}

/// Run a command to its end, with its output held back; a signal that ends us kills it.
pub fn output(command: Command) -> std::io::Result<Output> {
    let process = {
        let mut child = child();
        let process = spawn(command)?;
        *child = Some(process.id());
        process
    };
    wait(process)
}

/// Let a process begin its work and wait for its end; a signal that ends us kills it.
pub(super) fn outcome(process: Child, begin: impl FnOnce()) -> std::io::Result<Output> {
    *child() = Some(process.id());
    begin();
    wait(process)
}

fn wait(process: Child) -> std::io::Result<Output> {
    let output = process.wait_with_output();
    *child() = None;
    // A terminal signals the whole group: no other link may begin before the signal ends us.
    if output.as_ref().is_ok_and(|o| o.status.signal().is_some_and(|s| ENDING.contains(&s))) {
        std::thread::sleep(GRACE);
    }
    output
}

/// From now on a signal that ends us first kills the linker and removes our folders.
///
/// # Errors
/// No thread can be started.
pub fn clean_up_on_signals() -> std::io::Result<()> {
    let Ok(mut signals) = signal_hook::iterator::Signals::new(ENDING) else {
        return Ok(());
    };
    let wait = move || {
        for signal in signals.forever() {
            if child::is_running() {
                continue;
            }
            if let Some(child) = *child() {
                // An unfinished linker has nothing to save: we remove its output.
                send(child, SIGKILL);
            }
            workspace::remove_for_good(|| {
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            });
        }
    };
    std::thread::Builder::new().spawn(wait).map(drop)
}

/// A response file with the words of a line, in the syntax that all linkers of the GNU family read: one quoted word per line, with a
/// backslash before quotes and backslashes.
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
