//! The argument parser of `lto-prune split`, and its help.

use std::ffi::OsString;
use std::path::PathBuf;

use super::Options;
use crate::error::{Error, Result, Stage};

pub const HELP: &str = "\
lto-prune split: rewrite objects as if they had been built with -ffunction-sections

Each function gets a section of its own (.text.NAME, with gcc's prefixes .text.hot., .text.unlikely. and so on), so that the
--gc-sections of any linker drops what a program can't reach, with nothing else to do at link time.

Usage:
  lto-prune split [--data] IN -o OUT                IN: an object, an archive, a folder of them, or - (standard input);
                                                    OUT: a file, a new folder, or - (standard output)
  lto-prune split [--data] --in-place FILE...       rewrite objects, archives and folders where they are

Options:
  --data                                            objects of data too, as with -fdata-sections
  --report=FILE                                     what was divided and what was not, as JSON, in place of the text on
                                                    standard error

What can't be divided safely stays whole, and what is no object stays as it is. On an error nothing is written.

Examples:
  lto-prune split libz.a -o split/libz.a && gcc -Wl,--gc-sections main.o split/libz.a -o main
  lto-prune split --data --in-place build/*.o
";

#[derive(Debug)]
pub(super) struct SplitRequest {
    pub(super) inputs: Vec<PathBuf>,
    /// Without it the inputs are rewritten in place.
    pub(super) output: Option<PathBuf>,
    pub(super) options: Options,
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
    let mut request =
        SplitRequest { inputs: Vec::new(), output: None, options: Options { data: false }, report: None };
    let mut in_place = false;
    let mut only_files = false;
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let text = word.to_str().unwrap_or_default();
        match text {
            _ if only_files => request.inputs.push(PathBuf::from(word)),
            "--" => only_files = true,
            "-h" | "--help" => return Ok(None),
            "--data" => request.options.data = true,
            "--in-place" => in_place = true,
            "-o" => {
                let output = words.next().ok_or_else(|| wrong("-o needs a file".to_owned()))?;
                if request.output.replace(PathBuf::from(output)).is_some() {
                    return Err(wrong("-o is there twice".to_owned()));
                }
            }
            _ if text.starts_with("--report=") => {
                request.report = text.strip_prefix("--report=").filter(|p| !p.is_empty()).map(PathBuf::from);
                if request.report.is_none() {
                    return Err(wrong("--report= needs a file".to_owned()));
                }
            }
            _ if text.len() > 1 && text.starts_with('-') => {
                return Err(wrong(format!("unknown option {text}")));
            }
            _ => request.inputs.push(PathBuf::from(word)),
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
