//! Wall time of each pass, for `--prune-time`, and the one progress line of a long link.
//!
//! The line is written only to a terminal and only once the work has taken long enough that a person wonders.

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::error::Stage;

/// A link that takes longer than this gets a progress line.
const PATIENCE: Duration = Duration::from_secs(2);
/// The time between two looks at the pass.
const INTERVAL: Duration = Duration::from_millis(200);
/// The columns of the line, which spaces fill: not every terminal can erase one.
const WIDTH: usize = 40;
/// The pass that runs. One process links once.
static PASS: Mutex<Option<Stage>> = Mutex::new(None);

#[derive(Debug)]
pub struct Timer {
    start: Instant,
    stages: Vec<(Stage, Duration)>,
    /// Lines about the amount of work of the passes.
    work: Vec<String>,
    progress: Option<Progress>,
}

/// The thread that writes the progress line. It ends when its sender is dropped.
#[derive(Debug)]
struct Progress {
    thread: JoinHandle<()>,
    ends: Sender<()>,
}

impl Progress {
    /// Write the line again whenever another pass runs. The cursor stays at its start, so that a message replaces it.
    fn start() -> Option<Self> {
        let (ends, end) = channel::<()>();
        let write = move || {
            let (mut wait, mut shown) = (PATIENCE, None);
            while end.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                wait = INTERVAL;
                let pass = *PASS.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(stage) = pass.filter(|_| pass != shown) {
                    let (done, all) = (stage as usize, Stage::Report as usize);
                    // A progress line that can't be written is no reason to fail.
                    let _ =
                        write!(std::io::stderr(), "lto-prune: {} ({done} of {all})\x1b[K\r", stage.name());
                    shown = pass;
                }
            }
            if shown.is_some() {
                let _ = write!(std::io::stderr(), "{:<WIDTH$}\r", "");
            }
        };
        let thread = std::thread::Builder::new().spawn(write).ok()?;
        Some(Progress { thread, ends })
    }
}

impl Timer {
    pub fn start() -> Self {
        let progress = if std::io::stderr().is_terminal() { Progress::start() } else { None };
        Timer { start: Instant::now(), stages: Vec::new(), work: Vec::new(), progress }
    }

    /// Run a pass under its name.
    pub fn stage<T>(&mut self, stage: Stage, pass: impl FnOnce() -> T) -> T {
        *PASS.lock().unwrap_or_else(PoisonError::into_inner) = Some(stage);
        let begin = Instant::now();
        let result = pass();
        // A pass that runs again, or in two steps, has one line.
        match self.stages.iter_mut().find(|(other, _)| *other == stage) {
            Some((_, time)) => *time += begin.elapsed(),
            None => self.stages.push((stage, begin.elapsed())),
        }
        result
    }

    /// Add a line about the amount of work of a pass, which follows the table.
    pub fn work(&mut self, text: String) {
        self.work.push(text);
    }

    /// Remove the progress line, if there is one.
    pub fn clear(&mut self) {
        if let Some(Progress { thread, ends }) = self.progress.take() {
            drop(ends);
            let _ = thread.join();
        }
    }

    /// One line a pass, in milliseconds, and the total; then the lines about their work.
    pub fn table(&self) -> String {
        let mut out = String::new();
        for (stage, time) in &self.stages {
            out += &format!("{:>10.3} ms  {}\n", time.as_secs_f64() * 1e3, stage.name());
        }
        out += &format!("{:>10.3} ms  total\n", self.start.elapsed().as_secs_f64() * 1e3);
        self.work.iter().fold(out, |out, text| out + text + "\n")
    }
}
