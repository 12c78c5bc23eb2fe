//! The argument parser of `lto-prune advise`, and its help.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use lexopt::prelude::{Long, Short, Value};

use crate::args::prune::nearest;
use crate::audit::table::Format;
use crate::error::{Error, Result, Stage};

pub(crate) const HELP: &str = "\
lto-prune advise: link again with other options, and print what each of them saves

Usage:
  lto-prune advise [options] [--] LINK COMMAND
  lto-prune advise [options] --repro FILE.tar

LINK COMMAND is a link by a compiler driver (gcc -O2 a.o b.o -o app -lz) or by a linker (ld.lld ... -o app).
FILE.tar is an archive that a link with --prune-repro=FILE.tar wrote.

The link is made as it is, then once with each option that may make its output smaller, then with the options
together that helped. Every row of the table is a link that was made. Rows are ordered by loaded bytes (what the PT_LOAD
segments take from the file), then by the size of the file. Each output is compared with that of the link as it
is: a row says if libraries that it needs or symbols that it exports differ, and is then not combined with others.
All outputs go to a temporary folder; maps and dependency files are not written.

Options:
  --runs=N         links of each row; the time is their median (default: 3)
  --timeout=S      a link or test that takes longer than S seconds is ended and has failed
  --test=CMD       run CMD by sh for each row, with the path of its output in LTO_PRUNE_OUTPUT; a row whose test fails
                   says so and is not combined with others
  --format=FORMAT  table, json or csv (default: table)
  --keep=DIR       keep the output of each row, as DIR/ROW/NAME; DIR must be new or empty
  --repro=FILE.tar take the link from an archive
  --help           this text

In the table SHIMS stands for a folder that `lto-prune install-shims SHIMS` makes.

Exit status: 0, or that of the link if it fails as it is, or 1 if nothing could be measured, or 2 for a mistake in the
options.
";

/// The long options, for misspelt ones.
const NAMES: [&str; 7] = ["format", "help", "keep", "repro", "runs", "test", "timeout"];

#[derive(Debug, Clone, Default)]
pub(super) struct AdviseOptions {
    /// It is empty where an archive has the link.
    pub(super) command: Vec<OsString>,
    pub(super) repro: Option<PathBuf>,
    pub(super) runs: usize,
    pub(super) timeout: Option<Duration>,
    pub(super) test: Option<OsString>,
    pub(super) format: Format,
    pub(super) keep: Option<PathBuf>,
}

/// Read the words; `None`: help is wanted.
pub(super) fn parse(words: &[OsString]) -> Result<Option<AdviseOptions>> {
    let mut options = AdviseOptions { runs: 3, ..AdviseOptions::default() };
    let wrong = |message: String| Error::new(Stage::Arguments, format!("advise: {message}"));
    let mistake = |e: lexopt::Error| wrong(e.to_string());
    let mut parser = lexopt::Parser::from_args(words);
    while let Some(arg) = parser.next().map_err(mistake)? {
        let name = match arg {
            Short('h') => return Ok(None),
            Long(name) => name.to_owned(),
            Value(program) => {
                options.command =
                    std::iter::once(program).chain(parser.raw_args().map_err(mistake)?).collect();
                break;
            }
            other => return Err(mistake(other.unexpected())),
        };
        if name == "help" {
            return Ok(None);
        }
        if !NAMES.contains(&&*name) {
            let near = nearest(&name, NAMES.into_iter()).map(|near| format!("; did you mean --{near}?"));
            return Err(wrong(format!("no option --{name}{}", near.unwrap_or_default())));
        }
        let value = parser.value().map_err(mistake)?;
        let text = value.to_string_lossy();
        let not = |what: &str| wrong(format!("--{name}={text}: not {what}"));
        match &*name {
            "runs" => {
                let number = text.parse().ok().filter(|n| *n > 0);
                options.runs = number.ok_or_else(|| not("a number of links"))?;
            }
            "timeout" => {
                let time = text.parse().ok().and_then(|s| Duration::try_from_secs_f64(s).ok());
                let time = time.filter(|t| !t.is_zero());
                options.timeout = Some(time.ok_or_else(|| not("a number of seconds"))?);
            }
            "format" => {
                options.format = match &*text {
                    "table" => Format::Table,
                    "json" => Format::Json,
                    "csv" => Format::Csv,
                    _ => return Err(not("table, json or csv")),
                };
            }
            "test" => options.test = Some(value),
            "keep" => options.keep = Some(PathBuf::from(value)),
            _ => options.repro = Some(PathBuf::from(value)),
        }
    }
    match (options.command.is_empty(), options.repro.is_some()) {
        (true, false) => Err(wrong("no link command: lto-prune advise [OPTIONS] -- LINK COMMAND".to_owned())),
        (false, true) => Err(wrong("a link command or --repro, not both".to_owned())),
        _ => Ok(Some(options)),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn run(line: &str) -> Result<Option<AdviseOptions>> {
        parse(&line.split_whitespace().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn options_end_where_the_command_begins() {
        let options = run("--runs=5 --timeout=1.5 --format=csv -- gcc a.o --runs=x").unwrap().unwrap();
        assert_eq!((options.runs, options.timeout), (5, Some(Duration::from_millis(1500))));
        assert_eq!(
            (options.command, options.format),
            (["gcc", "a.o", "--runs=x"].map(OsString::from).to_vec(), Format::Csv)
        );
        assert!(run("--help").unwrap().is_none());
        assert!(run("--repro=x.tar").unwrap().unwrap().repro.is_some());
    }

    #[test]
    fn mistakes_are_named() {
        for (line, text) in [
            ("", "no link command"),
            ("--", "no link command"),
            ("--runs=0 gcc", "--runs=0: not a number of links"),
            ("--timeout=soon gcc", "not a number of seconds"),
            ("--format=html gcc", "not table, json or csv"),
            ("--run=1 gcc", "no option --run; did you mean --runs?"),
            ("--repro=a.tar gcc", "not both"),
            ("-x gcc", "invalid option '-x'"),
        ] {
            let message = run(line).unwrap_err().to_string();
            assert!(message.contains(text), "{line}: {message}");
        }
    }
}
