//! `lto-prune split IN -o OUT`: objects as if they had been built with `-ffunction-sections`, so that `--gc-sections`
//! of any linker prunes them.
//!
//! It uses the passes of a link: the module is summarised at the level `functions`, each atom becomes a section,
//! emission writes the object and verify reads it again ([`divide`]). Every reference between atoms is a relocation
//! of the divided object, and so an edge for the linker. No atom is dropped.

mod divide;
mod files;
mod names;
mod options;
mod pieces;
mod report;

pub use options::HELP;

use std::ffi::OsString;
use std::process::ExitCode;

use crate::error::{Error, Result, Stage};
use crate::terminal;

/// Do what the words ask for.
///
/// # Errors
/// A mistake in the options, an input that can't be read or is neither object nor archive, an output that can't be written. Then
/// nothing is written.
pub fn run(words: &[OsString]) -> Result<ExitCode> {
    let Some(request) = options::parse(words)? else {
        print!("{HELP}");
        return Ok(ExitCode::SUCCESS);
    };
    let reports = files::split(&request)?;
    match &request.report {
        None => eprint!("{}", report::text(&reports)),
        Some(path) => {
            let text = terminal::json(&format!("{:#}\n", report::json(&reports))).into_owned();
            std::fs::write(path, text).map_err(|e| Error::io(Stage::Report, path, "write the report", e))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
