//! `lto-prune split IN -o OUT`: objects as if they had been built with `-ffunction-sections`, so that `--gc-sections`
//! of any linker prunes them.
//!
//! It uses the passes of a link: the module is summarised at the level `functions`, each atom becomes a section,
//! emission writes the object and verify reads it again ([`divide`]). Every reference between atoms is a relocation
//! of the divided object, and so an edge for the linker. No atom is dropped.

mod divide;
mod files;
mod report;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use lexopt::prelude::{Long, Short, Value};

use self::divide::SplitOptions;
use crate::error::{Error, Result, Stage};
use crate::terminal;

/// Run `lto-prune split` with these arguments.
///
/// # Errors
/// An option is wrong, an input is unreadable or neither object nor archive, or an output can't be written. Then nothing is written.
pub fn run(words: &[OsString]) -> Result<ExitCode> {
    let Some(request) = parse(words)? else {
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

#[derive(Debug)]
struct SplitRequest {
    inputs: Vec<PathBuf>,
    /// Without it the inputs are rewritten in place.
    output: Option<PathBuf>,
    options: SplitOptions,
    report: Option<PathBuf>,
}

/// Read the words; `None` if they ask for help.
fn parse(words: &[OsString]) -> Result<Option<SplitRequest>> {
    let wrong = |message: String| {
        Error::new(
            Stage::Arguments,
            format!("{message}; usage: lto-prune split [--data] IN -o OUT, see split --help"),
        )
    };
    let mistake = |e: lexopt::Error| wrong(e.to_string());
    let mut request = SplitRequest {
        inputs: Vec::new(),
        output: None,
        options: SplitOptions { data: false },
        report: None,
    };
    let mut in_place = false;
    let mut parser = lexopt::Parser::from_args(words);
    while let Some(arg) = parser.next().map_err(mistake)? {
        match arg {
            Short('h') | Long("help") => return Ok(None),
            Long("data") => request.options.data = true,
            Long("in-place") => in_place = true,
            Short('o') | Long("output") => {
                let output = PathBuf::from(parser.value().map_err(mistake)?);
                if request.output.replace(output).is_some() {
                    return Err(wrong("-o is there twice".to_owned()));
                }
            }
            Long("report") => {
                let report = parser.value().map_err(mistake)?;
                if report.is_empty() {
                    return Err(wrong("--report needs a file".to_owned()));
                }
                request.report = Some(PathBuf::from(report));
            }
            Value(input) => request.inputs.push(PathBuf::from(input)),
            other => return Err(mistake(other.unexpected())),
        }
    }
    match (&request.output, in_place) {
        _ if request.inputs.is_empty() => Err(wrong("there is no input".to_owned())),
        (None, false) => Err(wrong("there is no output: -o OUT, or --in-place".to_owned())),
        (Some(_), true) => Err(wrong("-o and --in-place are two outputs".to_owned())),
        (Some(_), false) if request.inputs.len() > 1 => Err(wrong("-o takes one input".to_owned())),
        _ => Ok(Some(request)),
    }
}
