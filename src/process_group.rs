//! Commands in process groups of their own: a timeout, or a signal that asks this program to end, ends a command with all that it started.
//!
//! A process that leaves its group is not ended.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::error::{Error, Result, Stage};

/// How long what was told to end may take before it is ended.
const GRACE: Duration = Duration::from_secs(3);

// How a command ended.
#[derive(Debug)]
pub(crate) enum GroupEnd {
    Exited(ExitStatus),
    /// It ran longer than this limit.
    TimedOut(Duration),
    /// This program received a signal, and ended the command.
    Interrupted(i32),
}

/// The signals that ask this program to end. From now on they no longer end it by themselves.
#[derive(Debug)]
pub(crate) struct Signals {
    /// The number of the last one; 0: none.
    received: Arc<AtomicUsize>,
}

impl Signals {
    /// Catch the signals of a terminal and of a service manager.
    pub(crate) fn watch(command: &str) -> Result<Signals> {
        let refused = |e| Error::io(Stage::Arguments, command, "wait for signals", e);
        let received = Arc::new(AtomicUsize::new(0));
        for number in [signal_hook::consts::SIGHUP, signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM]
        {
            let registered =
                signal_hook::flag::register_usize(number, Arc::clone(&received), number as usize);
            registered.map_err(refused)?;
        }
        Ok(Signals { received })
    }

    pub(crate) fn received(&self) -> Option<i32> {
        Some(self.received.load(Ordering::SeqCst) as i32).filter(|s| *s != 0)
    }

    /// Wait for the end of the leader of a group, or make one.
    /// If its status can't be asked for, it was ended.
    pub(crate) fn wait(
        &self,
        mut child: Child,
        start: Instant,
        limit: Option<Duration>,
    ) -> std::io::Result<GroupEnd> {
        let mut pause = Duration::from_millis(1);
        loop {
            match child.try_wait() {
                Ok(Some(status)) => {
                    return Ok(self.received().map_or(GroupEnd::Exited(status), GroupEnd::Interrupted));
                }
                Ok(None) => {}
                Err(e) => {
                    end(&mut child, signal_hook::consts::SIGTERM);
                    return Err(e);
                }
            }
            if let Some(signal) = self.received() {
                end(&mut child, signal);
                return Ok(GroupEnd::Interrupted(signal));
            }
            if let Some(limit) = limit.filter(|limit| start.elapsed() >= *limit) {
                end(&mut child, signal_hook::consts::SIGTERM);
                return Ok(GroupEnd::TimedOut(limit));
            }
            std::thread::sleep(pause);
            // Links are timed by this.
            pause = (pause * 2).min(Duration::from_millis(2));
        }
    }
}

/// How a command failed, if it did.
pub(crate) fn failure(status: ExitStatus) -> Option<String> {
    match (status.code(), status.signal()) {
        (Some(0), _) => None,
        (Some(code), _) => Some(format!("exit status {code}")),
        (None, signal) => Some(format!("signal {}", signal.unwrap_or(0))),
    }
}

/// End a process and its group, first by a signal after which links remove their temporary files.
fn end(child: &mut Child, signal: i32) {
    signal_group(child, Signal::from_named_raw(signal).unwrap_or(Signal::TERM));
    let start = Instant::now();
    while start.elapsed() < GRACE && matches!(child.try_wait(), Ok(None)) {
        std::thread::sleep(Duration::from_millis(5));
    }
    signal_group(child, Signal::KILL);
    // It is gone, or will be at once: nothing outlives the second signal.
    let _ = child.wait();
}

/// A group without processes is no failure.
fn signal_group(leader: &Child, signal: Signal) {
    let _ = kill_process_group(Pid::from_child(leader), signal);
}

/// End this program by the signal that asked it to.
pub(crate) fn end_by(signal: i32) -> ExitCode {
    let _ = signal_hook::low_level::emulate_default_handler(signal);
    ExitCode::FAILURE
}

/// A folder for temporary files, which is removed with the result.
pub(crate) fn temporary_folder(stage: Stage, name: &str) -> Result<tempfile::TempDir> {
    let folder = tempfile::Builder::new().prefix(&format!("lto-prune-{name}")).tempdir();
    folder.map_err(|e| Error::io(stage, std::env::temp_dir(), "make a folder in", e))
}

/// Run a command to its end.
pub(crate) fn run(command: &mut Command, path: &Path) -> Result<ExitStatus> {
    command.status().map_err(|e| Error::io(Stage::Link, path, "run", e))
}

/// The exit status of a child as ours; death by a signal as shells report it.
pub(crate) fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|s| 128 + s)).unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
