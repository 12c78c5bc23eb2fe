//! Messages of a link: each names the output, and is written to a standard stream and to the file of `--prune-log`.
//!
//! A file that can't be written is an error message, and never changes the output. [`all_written`] says whether there was one.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::{Result, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::config::Config;
use crate::error::{Error, Stage};
use crate::terminal::{lines, printable};

/// A file that was asked for could not be written. One process links once.
static IS_FILE_MISSING: AtomicBool = AtomicBool::new(false);
/// The log could not be written, and that was said.
static IS_LOG_MISSING: AtomicBool = AtomicBool::new(false);

/// Whether every file that was asked for could be written so far.
pub fn all_written() -> bool {
    !IS_FILE_MISSING.load(Ordering::Relaxed)
}

pub fn warning(config: &Config, text: impl Display) {
    to_stderr(config, &line(config, "warning", text));
}

pub fn note(config: &Config, text: impl Display) {
    to_stderr(config, &line(config, "note", text));
}

pub fn error(config: &Config, text: impl Display) {
    to_stderr(config, &line(config, "error", text));
}

/// An error about a file that the user asked for and doesn't get.
pub fn not_written(config: &Config, error: &Error) {
    IS_FILE_MISSING.store(true, Ordering::Relaxed);
    self::error(config, error);
}

/// One line of a message of this kind, with its newline.
pub fn line(config: &Config, kind: &str, text: impl Display) -> String {
    let text = format!("lto-prune: {kind}: {}: {text}", config.output.display());
    printable(&text).into_owned() + "\n"
}

/// Text that names the output itself, on standard error and in the log.
pub fn to_stderr(config: &Config, text: &str) {
    // A closed pipe is the reader's business, here and below.
    let text = lines(text);
    let _ = std::io::stderr().write_all(text.as_bytes());
    to_log(config, &text);
}

/// Text that names the output itself, on standard output and in the log.
pub fn to_stdout(config: &Config, text: &str) {
    let text = lines(text);
    let _ = std::io::stdout().write_all(text.as_bytes());
    to_log(config, &text);
}

/// Text that names the output itself, in the log alone.
pub fn to_log(config: &Config, text: &str) {
    let Some(path) = &config.prune.log else { return };
    let written = append(path, text.as_bytes());
    if let Err(error) = written
        && !IS_LOG_MISSING.swap(true, Ordering::Relaxed)
    {
        not_written(config, &Error::io(Stage::Report, path, "write the log", error));
    }
}

/// Add bytes to the end of a file by one write, so that those of links that run at the same time are not mixed.
pub fn append(path: &Path, bytes: &[u8]) -> Result<()> {
    OpenOptions::new().create(true).append(true).open(path)?.write_all(bytes)
}
