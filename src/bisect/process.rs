//! One run of COMMAND: started, timed, ended, with what its links said.
//!
//! It runs in a process group of its own, so that a timeout or an interrupt ends all that it started; and without
//! input, since the terminal belongs to our own group. What it prints is kept for the last run that is shown. Left
//! out: processes that leave the group.

use std::ffi::OsString;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::options::Options;
use super::outcome::{Stop, status};
use crate::args::prune::FLAGS_VARIABLE;
use crate::args::{Environment, words};
use crate::error::{Error, Result, Stage};
use crate::report::log::LogLine;

/// How long what was told to end may take before it is ended.
const GRACE: Duration = Duration::from_secs(3);
/// How much is shown of what a failed run printed.
const SHOWN_BYTES: u64 = 2000;
const SHOWN_LINES: usize = 12;

#[derive(Debug)]
pub(super) struct CommandRun {
    /// How it failed; `None`: it did not.
    pub(super) failure: Option<String>,
    /// What its links said, in the order in which they were made.
    pub(super) links: Vec<LogLine>,
    pub(super) time: Duration,
}

#[derive(Debug)]
pub(super) struct Runner {
    pub(super) options: Options,
    /// It is `LTO_PRUNE_FLAGS` as it was before.
    flags: OsString,
    folder: tempfile::TempDir,
    /// A signal that asks us to end; 0: none.
    signal: Arc<AtomicUsize>,
}

impl Runner {
    pub(super) fn new(options: Options, env: &Environment<'_>) -> Result<Self> {
        let signal = Arc::new(AtomicUsize::new(0));
        for number in [signal_hook::consts::SIGHUP, signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM]
        {
            signal_hook::flag::register_usize(number, Arc::clone(&signal), number as usize)
                .map_err(|e| Error::io(Stage::Arguments, "bisect", "wait for signals", e))?;
        }
        let folder = tempfile::Builder::new().prefix("lto-prune-bisect-").tempdir();
        let folder =
            folder.map_err(|e| Error::io(Stage::Arguments, std::env::temp_dir(), "make a folder in", e))?;
        Ok(Runner { options, flags: env.get(FLAGS_VARIABLE).unwrap_or_default(), folder, signal })
    }

    /// The flags with `ours` behind them.
    pub(super) fn flags(&self, ours: &[OsString]) -> OsString {
        words::joined(&self.flags, ours)
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("links")
    }

    fn printed(&self) -> PathBuf {
        self.folder.path().join("printed")
    }

    /// Run COMMAND with these options for its links, as often as it has to be to say something.
    pub(super) fn run(&self, ours: &[OsString]) -> std::result::Result<CommandRun, Stop> {
        let mut run = self.once(ours)?;
        for _ in 1..self.options.repeat {
            if run.failure.is_some() {
                break;
            }
            run = self.once(ours)?;
        }
        Ok(run)
    }

    fn once(&self, ours: &[OsString]) -> std::result::Result<CommandRun, Stop> {
        let trouble = |e: std::io::Error| {
            Stop::Said(1, format!("lto-prune: error: bisect: {}: {e}\n", self.folder.path().display()))
        };
        let mut log = OsString::from("--prune-limit-log=");
        log.push(self.log());
        std::fs::write(self.log(), "").map_err(trouble)?;
        let mut words = vec![log];
        words.extend_from_slice(ours);
        let [program, arguments @ ..] = &self.options.command[..] else {
            return Err(Stop::Said(status::CANNOT_RUN, String::new()));
        };
        let mut command = Command::new(program);
        command.args(arguments).env(FLAGS_VARIABLE, self.flags(&words));
        command.stdin(Stdio::null()).process_group(0);
        if !self.options.verbose {
            let file = std::fs::File::create(self.printed()).map_err(trouble)?;
            command.stdout(file.try_clone().map_err(trouble)?).stderr(file);
        }
        let start = Instant::now();
        let child = command.spawn().map_err(|e| {
            let text = format!("lto-prune: bisect: {}: cannot be run: {e}\n", Path::new(program).display());
            Stop::Said(status::CANNOT_RUN, text)
        })?;
        let failure = self.wait(child, start)?;
        let text = std::fs::read(self.log()).map_err(trouble)?;
        let lines = text.split(|b| *b == b'\n').filter(|l| !l.is_empty());
        // A line that is cut was written by a link that was ended in the middle.
        let links = lines.filter_map(|line| serde_json::from_slice(line).ok()).collect();
        Ok(CommandRun { failure, links, time: start.elapsed() })
    }

    /// Wait for the end, or make one.
    fn wait(&self, mut child: Child, start: Instant) -> std::result::Result<Option<String>, Stop> {
        let mut pause = Duration::from_millis(1);
        loop {
            match child.try_wait() {
                Ok(Some(status)) => {
                    return self
                        .interrupted()
                        .map_or(Ok(failure(status)), |signal| Err(Stop::Signal(signal)));
                }
                Ok(None) => {}
                Err(e) => {
                    end(&mut child, signal_hook::consts::SIGTERM);
                    return Err(Stop::Said(1, format!("lto-prune: error: bisect: {e}\n")));
                }
            }
            if let Some(signal) = self.interrupted() {
                end(&mut child, signal);
                return Err(Stop::Signal(signal));
            }
            if let Some(limit) = self.options.timeout.filter(|limit| start.elapsed() >= *limit) {
                end(&mut child, signal_hook::consts::SIGTERM);
                return Ok(Some(format!("took longer than {} s", limit.as_secs_f64())));
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }

    fn interrupted(&self) -> Option<i32> {
        Some(self.signal.load(Ordering::SeqCst) as i32).filter(|s| *s != 0)
    }

    /// The end of what the last run printed, each line behind a bar.
    pub(super) fn shown(&self) -> String {
        let read = || -> std::io::Result<Vec<u8>> {
            let mut file = std::fs::File::open(self.printed())?;
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(length.saturating_sub(SHOWN_BYTES)))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        let text = String::from_utf8_lossy(&read().unwrap_or_default()).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        let last = lines.iter().skip(lines.len().saturating_sub(SHOWN_LINES));
        last.map(|line| format!("  | {line}\n")).collect()
    }
}

fn failure(status: ExitStatus) -> Option<String> {
    match (status.code(), status.signal()) {
        (Some(0), _) => None,
        (Some(code), _) => Some(format!("exit status {code}")),
        (None, signal) => Some(format!("signal {}", signal.unwrap_or(0))),
    }
}

/// End a process and its group: links below it remove their temporary files when they are asked to end.
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

/// A group of which nobody is left is no failure.
fn signal_group(leader: &Child, signal: Signal) {
    let _ = kill_process_group(Pid::from_child(leader), signal);
}
