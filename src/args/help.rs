//! The help texts of the commands. As in docopt, they are also the tables of the commands' options.
//!
//! `help.txt` has a section for each command. A line that begins with two spaces and a dash names options: `--name=VALUE` takes a
//! value, `--name` takes none, and a leading `-n N, ` is a short form. The parsers, the completions of shells and the manual
//! page read these lines.

use std::ffi::{OsStr, OsString};
use std::time::Duration;

use lexopt::prelude::{Long, Short, Value};

use crate::error::{Error, Result, Stage};

const TEXT: &str = include_str!("help.txt");

/// The section of the program itself, with the options `--prune-*`.
pub const PROGRAM: &str = "lto-prune";

/// The commands with their help texts, in the order of the file. Commands of `audit` are named `audit top` and so on.
pub fn commands() -> impl Iterator<Item = (&'static str, &'static str)> {
    let sections = TEXT.split("=== ").filter_map(|section| section.split_once('\n'));
    sections.filter(|(name, _)| *name != PROGRAM)
}

/// The help text of a command, or of [`PROGRAM`].
pub fn text(command: &str) -> &'static str {
    let sections = TEXT.split("=== ").filter_map(|section| section.split_once('\n'));
    sections.into_iter().find(|(name, _)| *name == command).map_or("", |(_, text)| text)
}

/// The description in the first line of a help text.
pub fn about(text: &'static str) -> &'static str {
    text.lines().next().and_then(|line| line.split_once(": ")).map_or("", |(_, about)| about)
}

/// The possible values of an option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OptionValue {
    None,
    File,
    Folder,
    OneOf(Vec<&'static str>),
    /// One of these words, or no value at all.
    Optional(Vec<&'static str>),
    Other,
}

impl OptionValue {
    /// The kind of value that a form such as `=FILE` or `[=full]` stands for.
    fn of_form(form: &'static str) -> OptionValue {
        let words = |form: &'static str| form.split('|').collect::<Vec<_>>();
        match form.trim_start_matches('=') {
            "" => OptionValue::None,
            "FILE" | "FILE.tar" | "PATH" => OptionValue::File,
            "DIR" => OptionValue::Folder,
            form if form.starts_with("[=") => {
                OptionValue::Optional(words(form.trim_matches(['[', '=', ']'].as_slice())))
            }
            form if form.contains('|') && !form.contains(char::is_uppercase) => {
                OptionValue::OneOf(words(form))
            }
            _ => OptionValue::Other,
        }
    }
}

/// An option, as a help text has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HelpOption {
    /// The long name without dashes.
    pub name: &'static str,
    pub short: Option<char>,
    pub value: OptionValue,
    /// The description in one line; empty if it is shared with other options.
    pub help: String,
}

/// The words that a line of a help text describes, and their description, which may go on in the next lines.
pub fn described<'t>(
    line: &'t str,
    lines: &mut std::iter::Peekable<impl Iterator<Item = &'t str>>,
) -> (&'t str, String) {
    let (words, help) = line.split_once("  ").unwrap_or((line, ""));
    let mut help = help.trim().to_owned();
    while let Some(more) = lines.next_if(|next| next.starts_with("         ")) {
        help += if help.is_empty() { "" } else { " " };
        help += more.trim();
    }
    (words, help)
}

/// The options that a help text names.
pub fn options(text: &'static str) -> Vec<HelpOption> {
    let mut found = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let Some(line) = line.strip_prefix("  ").filter(|line| line.starts_with('-')) else { continue };
        let (names, help) = described(line, &mut lines);
        let short = names.chars().nth(1).filter(char::is_ascii_alphabetic);
        for word in names.split(", ").filter_map(|word| word.strip_prefix("--")) {
            let (name, form) = word.split_at(word.find(['=', '[']).unwrap_or(word.len()));
            found.push(HelpOption { name, short, value: OptionValue::of_form(form), help: help.clone() });
        }
    }
    found
}

/// The options `--prune-*`, without this prefix.
pub fn prune_options() -> Vec<HelpOption> {
    let own = |option: HelpOption| Some(HelpOption { name: option.name.strip_prefix("prune-")?, ..option });
    options(text(PROGRAM)).into_iter().filter_map(own).collect()
}

/// The value of an option, as one of several words.
pub(crate) fn one_of<T: Copy>(option: &str, word: &str, all: &[(&str, T)]) -> Result<T> {
    let words = || all.iter().map(|(known, _)| *known).collect::<Vec<_>>().join(", ");
    let wrong = || Error::new(Stage::Arguments, format!("--{option} is one of {}, not {word}", words()));
    all.iter().find(|(known, _)| *known == word).map(|(_, value)| *value).ok_or_else(wrong)
}

/// The known name that a misspelt one is most like: at most half of its letters differ.
pub(crate) fn nearest<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let near = known.map(|known| (distance(name, known), known)).min();
    near.filter(|(distance, known)| *distance <= known.len().div_ceil(2)).map(|(_, known)| known)
}

/// Levenshtein distance; `a` is cut so that a hostile word can't cost much.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().take(64).enumerate() {
        let mut next = vec![i + 1];
        for (j, cb) in b.iter().enumerate() {
            let at = |row: &[usize], k: usize| row.get(k).copied().unwrap_or(usize::MAX - 1);
            let substituted = at(&row, j) + usize::from(ca != *cb);
            next.push(substituted.min(at(&row, j + 1) + 1).min(at(&next, j) + 1));
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

/// A word of a command's line.
#[derive(Debug)]
pub(crate) enum CommandWord {
    /// An option that the help text names, with its value.
    Option(&'static str, OsString),
    Value(OsString),
}

/// The words of a command, read by the options of its help text.
pub(crate) struct CommandWords<'w> {
    command: &'static str,
    /// The end of messages about an unknown option.
    hint: &'static str,
    options: Vec<HelpOption>,
    words: &'w [OsString],
    parser: lexopt::Parser,
}

impl<'w> CommandWords<'w> {
    pub(crate) fn new(command: &'static str, words: &'w [OsString], hint: &'static str) -> Self {
        let parser = lexopt::Parser::from_args(words);
        CommandWords { command, hint, options: options(text(command)), words, parser }
    }

    /// An error that names the command.
    pub(crate) fn wrong(&self, message: impl std::fmt::Display) -> Error {
        wrong(self.command, message)
    }

    /// The next word. `-h` and `--help` are the option `help` of every command.
    pub(crate) fn next(&mut self) -> Result<Option<CommandWord>> {
        let command = self.command;
        let mistake = |e: lexopt::Error| wrong(command, e);
        let known = match self.parser.next().map_err(mistake)? {
            None => return Ok(None),
            Some(Value(word)) => return Ok(Some(CommandWord::Value(word))),
            Some(Short('h') | Long("help")) => {
                return Ok(Some(CommandWord::Option("help", OsString::new())));
            }
            Some(Short(letter)) => match self.options.iter().find(|option| option.short == Some(letter)) {
                Some(option) => option,
                None => return Err(self.wrong(format!("invalid option '-{letter}'{}", self.hint))),
            },
            Some(Long(name)) => match self.options.iter().find(|option| option.name == name) {
                Some(option) => option,
                None => {
                    let near = nearest(name, self.options.iter().map(|option| option.name));
                    let near = near.map(|near| format!("; did you mean --{near}?")).unwrap_or_default();
                    let message = format!("{command} has no option --{name}{near}{}", self.hint);
                    return Err(Error::new(Stage::Arguments, message));
                }
            },
        };
        let value = match known.value {
            OptionValue::None => OsString::new(),
            _ => self.parser.value().map_err(mistake)?,
        };
        Ok(Some(CommandWord::Option(known.name, value)))
    }

    /// All words that are left, options too.
    pub(crate) fn rest(&mut self) -> Result<Vec<OsString>> {
        Ok(self.parser.raw_args().map_err(|e| wrong(self.command, e))?.collect())
    }

    /// Whether one of the words read so far is `--`.
    pub(crate) fn is_after_dashes(&mut self) -> Result<bool> {
        let left = self.parser.raw_args().map_err(|e| wrong(self.command, e))?.as_slice().len();
        let read = self.words.get(..self.words.len().saturating_sub(left)).unwrap_or_default();
        Ok(read.iter().any(|word| word == "--"))
    }

    /// A value that is a number above 0; `what` describes it in a message.
    pub(crate) fn count(&self, name: &str, value: &OsStr, what: &str) -> Result<usize> {
        let number = value.to_str().and_then(|v| v.parse().ok()).filter(|n| *n > 0);
        number.ok_or_else(|| self.wrong(format!("--{name}={}: not {what}", value.display())))
    }

    /// A value that is a time in seconds.
    pub(crate) fn seconds(&self, name: &str, value: &OsStr) -> Result<Duration> {
        let seconds = value.to_str().and_then(|v| v.parse().ok());
        let time = seconds.and_then(|s| Duration::try_from_secs_f64(s).ok()).filter(|t| !t.is_zero());
        time.ok_or_else(|| self.wrong(format!("--{name}={}: not a number of seconds", value.display())))
    }
}

fn wrong(command: &str, message: impl std::fmt::Display) -> Error {
    Error::new(Stage::Arguments, format!("{command}: {message}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_help_text_is_a_table_of_options() {
        let found =
            options("Usage: x --no\n  -n N, --number=N   rows\n                     (all)\n  --a, --b=x|y\n");
        let shown: Vec<_> = found.iter().map(|o| (o.name, o.short, &o.value, &*o.help)).collect();
        assert_eq!(
            shown,
            [
                ("number", Some('n'), &OptionValue::Other, "rows (all)"),
                ("a", None, &OptionValue::None, ""),
                ("b", None, &OptionValue::OneOf(vec!["x", "y"]), ""),
            ]
        );
        let stats = prune_options().into_iter().find(|option| option.name == "stats");
        assert_eq!(stats.map(|option| option.value), Some(OptionValue::Optional(vec!["full"])));
    }

    #[test]
    fn each_command_is_in_the_help_of_the_program() {
        for (name, help) in commands() {
            let (of, listed) = name.split_once(' ').unwrap_or((PROGRAM, name));
            let is_listed = text(of).lines().any(|line| {
                line.trim_start().trim_start_matches("lto-prune ").split(' ').next() == Some(listed)
            });
            assert!(is_listed && help.contains(&format!("lto-prune {name} ")), "{name}");
        }
    }
}
