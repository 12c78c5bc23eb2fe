//! `lto-prune split IN -o OUT`: objects rewritten as if they had been built with `-ffunction-sections`, so that the `--gc-sections`
//! of any linker prunes them, with nothing of ours in the link.
//!
//! Built from the passes of a link: a module is summarised at the level `functions`, each of its atoms becomes a section
//! ([`pieces`]), emission writes it and verify reads it again ([`divide`]). What was proved of the atoms holds for sections as well:
//! every reference from one to another is a relocation of the divided object, and so an edge for the linker. Nothing goes.
//!
//! Left out: what a linker decides of the whole link, so that no function is dropped whose address is taken but never called, and
//! whatever the front end leaves whole.

mod divide;
mod files;
mod names;
mod options;
mod pieces;
mod report;

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
        print!("{}", crate::args::help::text("split"));
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
