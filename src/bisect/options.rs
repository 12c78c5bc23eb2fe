//! The argument parser of `lto-prune bisect`.

use std::ffi::OsString;
use std::time::Duration;

use crate::args::help::{CommandWord, CommandWords};
use crate::error::Result;

#[derive(Debug, Clone)]
pub(super) struct Options {
    pub(super) command: Vec<OsString>,
    pub(super) repeat: usize,
    pub(super) timeout: Option<Duration>,
    pub(super) verbose: bool,
}

/// Read the words; `None` if they ask for help.
pub(super) fn parse(words: &[OsString]) -> Result<Option<Options>> {
    let mut options = Options { command: Vec::new(), repeat: 1, timeout: None, verbose: false };
    let mut words = CommandWords::new("bisect", words, "");
    while let Some(word) = words.next()? {
        match word {
            CommandWord::Value(program) => {
                options.command = std::iter::once(program).chain(words.rest()?).collect();
            }
            CommandWord::Option("help", _) => return Ok(None),
            CommandWord::Option("repeat", value) => {
                options.repeat = words.count("repeat", &value, "a number of runs")?;
            }
            CommandWord::Option("timeout", value) => {
                options.timeout = Some(words.seconds("timeout", &value)?)
            }
            CommandWord::Option(..) => options.verbose = true,
        }
    }
    if options.command.is_empty() {
        return Err(words.wrong("no command: lto-prune bisect [OPTIONS] -- COMMAND..."));
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
            ("--timeot=1 x", "no option --timeot; did you mean --timeout?"),
        ] {
            let message = run(line).unwrap_err().to_string();
            assert!(message.contains(text), "{line}: {message}");
        }
    }
}
