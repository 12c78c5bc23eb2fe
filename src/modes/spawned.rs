//! A program that does the work of a mode: its exit status becomes ours.

use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus};

use crate::error::{Error, Result, Stage};

/// Run a command to its end.
///
/// # Errors
/// The program at `path` can't be started.
pub(super) fn run(command: &mut Command, path: &Path) -> Result<ExitStatus> {
    command.status().map_err(|e| Error::io(Stage::Link, path, "run", e))
}

/// The status of a child as ours; death by a signal as shells report it.
pub(super) fn exit_code(status: ExitStatus) -> ExitCode {
    use std::os::unix::process::ExitStatusExt;
    let code = status.code().or_else(|| status.signal().map(|s| 128 + s)).unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
