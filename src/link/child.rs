//! The linker as a child with the line as it was given, if we can't become it.
//!
//! That is so if something is to be done during or after the link: an analysis, a warning, a report, or the removal of a response file. The child has
//! our standard streams, and we pass its exit status on. Signals that are sent to us alone are passed to it; a terminal signals the
//! whole group itself.

use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::sync::Mutex;

use super::bound;
use super::workspace::Workspace;
use crate::config::Config;
use crate::error::{Error, Result, Stage};

/// Processes that get the signals sent to us.
static PROCESSES: Mutex<Vec<u32>> = Mutex::new(Vec::new());

fn processes() -> std::sync::MutexGuard<'static, Vec<u32>> {
    PROCESSES.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Whether signals are passed on, once [`pass_signals_on`] was called.
pub(super) fn is_running() -> bool {
    !processes().is_empty()
}

/// From now on a signal to end is passed to the processes, and we end after them.
///
/// # Errors
/// No thread can be started.
pub fn pass_signals_on() -> std::io::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    let Ok(mut signals) = signal_hook::iterator::Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM]) else {
        return Ok(());
    };
    let wait = move || {
        for signal in signals.forever() {
            // A terminal interrupts the whole group: a second interrupt would end a linker that is cleaning up.
            if signal == SIGINT || signal == SIGQUIT {
                std::thread::sleep(bound::GRACE);
            }
            for process in processes().iter() {
                bound::send(*process, signal);
            }
        }
    };
    std::thread::Builder::new().spawn(wait).map(drop)
}

/// Start a process that gets our signals. The lock covers both steps, so that a signal finds it noted or not yet started.
pub fn start(command: &mut Command) -> std::io::Result<Child> {
    let mut processes = processes();
    let child = command.spawn()?;
    processes.push(child.id());
    Ok(child)
}

/// From now on a running process gets our signals.
pub(super) fn add(id: u32) {
    processes().push(id);
}

/// Forget a process that has ended.
pub fn ended(id: u32) {
    processes().retain(|p| *p != id);
}

/// The linker, running on the line as it was given.
#[derive(Debug)]
pub struct PlainLinker {
    process: Child,
    /// Holds the line if that is too long for the system.
    _line: Option<Workspace>,
}

impl PlainLinker {
    /// Start the linker on the originals, before anything is decided.
    pub fn start(config: &Config) -> Result<Self> {
        let failed = |e| Error::io(Stage::Link, &config.linker.path, "run the linker", e);
        match start(bound::command(&config.linker.path).args(&config.linker_args)) {
            Ok(process) => Ok(PlainLinker { process, _line: None }),
            Err(error) if error.kind() == ErrorKind::ArgumentListTooLong => {
                let line = Workspace::without_output(config, 0)?;
                let word = bound::in_response_file(&config.linker_args, &line.copies).map_err(failed)?;
                let process = start(bound::command(&config.linker.path).arg(word)).map_err(failed)?;
                Ok(PlainLinker { process, _line: Some(line) })
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// Wait for its end and return its status.
    pub fn wait(mut self) -> Result<ExitStatus> {
        let status = self.process.wait();
        ended(self.process.id());
        status.map_err(|e| Error::new(Stage::Link, format!("cannot wait for the linker: {e}")))
    }
}

/// End as the linker ended: compiler drivers report the signal.
pub fn exit_as(status: ExitStatus) -> ExitCode {
    if let Some(signal) = status.signal() {
        let _ = signal_hook::low_level::emulate_default_handler(signal);
    }
    ExitCode::from(status.code().unwrap_or(1) as u8)
}
