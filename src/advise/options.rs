//! The argument parser of `lto-prune advise`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::args::help::{self, CommandWord, CommandWords};
use crate::audit::table::Format;
use crate::error::Result;

#[derive(Debug, Clone, Default)]
pub(super) struct AdviseOptions {
    /// It is empty if an archive has the link.
    pub(super) command: Vec<OsString>,
    pub(super) repro: Option<PathBuf>,
    pub(super) runs: usize,
    pub(super) timeout: Option<Duration>,
    pub(super) test: Option<OsString>,
    pub(super) format: Format,
    pub(super) keep: Option<PathBuf>,
}

/// Read the words; `None` if they ask for help.
pub(super) fn parse(words: &[OsString]) -> Result<Option<AdviseOptions>> {
    let mut options = AdviseOptions { runs: 3, ..AdviseOptions::default() };
    let mut words = CommandWords::new("advise", words, "");
    while let Some(word) = words.next()? {
        match word {
            CommandWord::Value(program) => {
                options.command = std::iter::once(program).chain(words.rest()?).collect();
            }
            CommandWord::Option("help", _) => return Ok(None),
            CommandWord::Option("runs", value) => {
                options.runs = words.count("runs", &value, "a number of links")?
            }
            CommandWord::Option("timeout", value) => {
                options.timeout = Some(words.seconds("timeout", &value)?)
            }
            CommandWord::Option("format", value) => {
                let all = [("table", Format::Table), ("json", Format::Json), ("csv", Format::Csv)];
                options.format = help::one_of("format", &value.to_string_lossy(), &all)?;
            }
            CommandWord::Option("test", value) => options.test = Some(value),
            CommandWord::Option("keep", value) => options.keep = Some(PathBuf::from(value)),
            CommandWord::Option(_, value) => options.repro = Some(PathBuf::from(value)),
        }
    }
    match (options.command.is_empty(), options.repro.is_some()) {
        (true, false) => Err(words.wrong("no link command: lto-prune advise [OPTIONS] -- LINK COMMAND")),
        (false, true) => Err(words.wrong("a link command or --repro, not both")),
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
            ("--format=html gcc", "table, json, csv, not html"),
            ("--run=1 gcc", "no option --run; did you mean --runs?"),
            ("--repro=a.tar gcc", "not both"),
            ("-x gcc", "invalid option '-x'"),
        ] {
            let message = run(line).unwrap_err().to_string();
            assert!(message.contains(text), "{line}: {message}");
        }
    }
}
