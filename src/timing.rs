//! Wall time of each pass, for `--prune-time`, and the one progress line of a long link.
//!
//! The line is written only to a terminal and only once the work has taken long enough that a person wonders.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::error::Stage;

/// A link that takes longer than this gets a progress line.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub struct Timer {
    start: Instant,
    stages: Vec<(Stage, Duration)>,
    /// Lines about the amount of work of the passes.
    work: Vec<String>,
    terminal: bool,
    shown: bool,
}

impl Timer {
    pub fn start() -> Self {
        let terminal = std::io::stderr().is_terminal();
        Timer { start: Instant::now(), stages: Vec::new(), work: Vec::new(), terminal, shown: false }
    }

    /// Run a pass under its name.
    pub fn stage<T>(&mut self, stage: Stage, pass: impl FnOnce() -> T) -> T {
        if self.terminal && self.start.elapsed() > PATIENCE {
            // A progress line that can't be written is no reason to fail.
            let _ = write!(std::io::stderr(), "\rlto-prune: {:<10}", stage.name());
            self.shown = true;
        }
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

    pub fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            let _ = write!(std::io::stderr(), "\r{:<22}\r", "");
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
