//! The argument parser of `lto-prune split`.

use std::ffi::OsString;
use std::path::PathBuf;

use lexopt::prelude::{Long, Short, Value};

use crate::error::{Error, Result, Stage};

#[derive(Debug, Clone, Copy)]
pub(super) struct SplitOptions {
    /// It says whether sections of data are divided, too.
    pub(super) data: bool,
}

#[derive(Debug)]
pub(super) struct SplitRequest {
    pub(super) inputs: Vec<PathBuf>,
    /// Without it the inputs are rewritten in place.
    pub(super) output: Option<PathBuf>,
    pub(super) options: SplitOptions,
    pub(super) report: Option<PathBuf>,
}

/// Read the words; `None` if they ask for help.
pub(super) fn parse(words: &[OsString]) -> Result<Option<SplitRequest>> {
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
