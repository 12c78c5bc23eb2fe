//! One run of COMMAND: started, timed, ended, with what its links said.
//!
//! It runs in a process group of its own, so that a timeout or an interrupt ends all that it started; and without
//! input, since the terminal belongs to our own group. What it prints is kept for the last run that is shown. Left
//! out: processes that leave the group.

use std::ffi::OsString;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::options::Options;
use super::outcome::{Stop, status};
use crate::args::prune::FLAGS_VARIABLE;
use crate::args::{Environment, words};
use crate::error::{Error, Result, Stage};
use crate::process_group::{GroupEnd, Signals, failure};
use crate::report::log::LogLine;

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
    signals: Signals,
}

impl Runner {
    pub(super) fn new(options: Options, env: &Environment<'_>) -> Result<Self> {
        let signals =
            Signals::watch().map_err(|e| Error::io(Stage::Arguments, "bisect", "wait for signals", e))?;
        let folder = tempfile::Builder::new().prefix("lto-prune-bisect-").tempdir();
        let folder =
            folder.map_err(|e| Error::io(Stage::Arguments, std::env::temp_dir(), "make a folder in", e))?;
        Ok(Runner { options, flags: env.get(FLAGS_VARIABLE).unwrap_or_default(), folder, signals })
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

    /// Wait for the end, or make one; the result is how the run failed, if it did.
    fn wait(&self, child: Child, start: Instant) -> std::result::Result<Option<String>, Stop> {
        match self.signals.wait(child, start, self.options.timeout) {
            Ok(GroupEnd::Exited(status)) => Ok(failure(status)),
            Ok(GroupEnd::TimedOut(limit)) => Ok(Some(format!("took longer than {} s", limit.as_secs_f64()))),
            Ok(GroupEnd::Interrupted(signal)) => Err(Stop::Signal(signal)),
            Err(e) => Err(Stop::Said(1, format!("lto-prune: error: bisect: {e}\n"))),
        }
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
