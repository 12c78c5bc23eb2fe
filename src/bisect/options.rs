//! The argument parser of `lto-prune bisect`, and its help.

use std::ffi::OsString;
use std::time::Duration;

use lexopt::prelude::{Long, Short, Value};

use crate::error::{Error, Result, Stage};

pub const HELP: &str = "\
lto-prune bisect: find the dropped atom that makes a command fail

Usage:
  lto-prune bisect [options] [--] COMMAND...

COMMAND links, through lto-prune, and tests what it linked: a script, `make check`, `sh -c '...'`. It must link
again each time it is run (remove the outputs first), and fail by its exit status. It is run about
log2(atoms) + 8 times, with LTO_PRUNE_FLAGS in its environment: what is there already is kept, and --prune-limit
and --prune-limit-log are added. It may make several links, in any order or in parallel.

Options:
  --repeat=N     a run counts as good only if N runs in a row succeed (default: 1), for what fails now and then
  --timeout=S    a run that takes longer than S seconds is ended, with all that it started, and counts as failed
  --verbose      show what COMMAND prints
  --help         this text

Exit status:
  0    found: symbol, section, module, why it was dropped, how to keep it and how to repeat it are printed
  1    a mistake in the options
  2    nothing to find: COMMAND succeeds with everything dropped
  3    COMMAND fails with nothing dropped: pruning isn't the reason
  4    can't be told: runs contradict each other (--repeat may help), or COMMAND did not link again
  5    COMMAND made no link through lto-prune that drops anything
  127  COMMAND can't be run
By a signal it ends as the signal says, with COMMAND, and leaves nothing behind.
";

#[derive(Debug, Clone)]
pub(super) struct Options {
    pub(super) command: Vec<OsString>,
    pub(super) repeat: usize,
    pub(super) timeout: Option<Duration>,
    pub(super) verbose: bool,
}

/// Read the words; `None`: help is wanted.
pub(super) fn parse(words: &[OsString]) -> Result<Option<Options>> {
    let mut options = Options { command: Vec::new(), repeat: 1, timeout: None, verbose: false };
    let wrong = |message: String| Error::new(Stage::Arguments, format!("bisect: {message}"));
    let mistake = |e: lexopt::Error| wrong(e.to_string());
    let mut parser = lexopt::Parser::from_args(words);
    while let Some(arg) = parser.next().map_err(mistake)? {
        match arg {
            Short('h') | Long("help") => return Ok(None),
            Long("verbose") => options.verbose = true,
            Long("repeat") => {
                let value = parser.value().map_err(mistake)?;
                let number = value.to_str().and_then(|v| v.parse().ok()).filter(|n| *n > 0);
                let not = || wrong(format!("--repeat={}: not a number of runs", value.display()));
                options.repeat = number.ok_or_else(not)?;
            }
            Long("timeout") => {
                let value = parser.value().map_err(mistake)?;
                let seconds = value.to_str().and_then(|v| v.parse().ok());
                let time = seconds.and_then(|s| Duration::try_from_secs_f64(s).ok()).filter(|t| !t.is_zero());
                let not = || wrong(format!("--timeout={}: not a number of seconds", value.display()));
                options.timeout = Some(time.ok_or_else(not)?);
            }
            Value(program) => {
                options.command =
                    std::iter::once(program).chain(parser.raw_args().map_err(mistake)?).collect();
                break;
            }
            other => return Err(mistake(other.unexpected())),
        }
    }
    if options.command.is_empty() {
        return Err(wrong("no command: lto-prune bisect [OPTIONS] -- COMMAND...".to_owned()));
    }
    Ok(Some(options))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn run(line: &str) -> Result<Option<Options>> {
        parse(&line.split_whitespace().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn options_end_where_the_command_begins() {
        let options = run("--repeat=3 --timeout=1.5 --verbose -- make --repeat=x").unwrap().unwrap();
        assert_eq!((options.repeat, options.timeout), (3, Some(Duration::from_millis(1500))));
        assert!(options.verbose);
        assert_eq!(options.command, ["make", "--repeat=x"]);
        assert_eq!(run("make -- x").unwrap().unwrap().command, ["make", "--", "x"]);
        assert!(run("--help").unwrap().is_none());
    }

    #[test]
    fn mistakes_are_named() {
        for (line, text) in [
            ("", "no command"),
            ("--", "no command"),
            ("--repeat=0 x", "not a number of runs"),
            ("--repeat", "missing argument"),
            ("--repeat x", "not a number of runs"),
            ("--timeout=soon x", "not a number of seconds"),
            ("--timeout=-1 x", "not a number of seconds"),
            ("--timeot=1 x", "invalid option '--timeot'"),
        ] {
            let message = run(line).unwrap_err().to_string();
            assert!(message.contains(text), "{line}: {message}");
        }
    }
}
