//! The words in which the tables of models say what a function does.
//!
//! One effect is a verb with what it is about, as `copies 1 to 0`; arguments are numbers, counted from 0. What isn't
//! understood is an error of the table, found when the tables are read: there is no word that is skipped.

use super::{
    Argument, Effect, ExposedArguments, LinkFields, PassedArgument, ResultUse, Source, StoredAddress,
};
use crate::registers::ARGUMENTS;

pub(super) fn effect(words: &str) -> Option<Effect> {
    let (verb, rest) = words.split_once(' ').unwrap_or((words, ""));
    Some(match (verb, rest) {
        ("returns", "fresh") => Effect::ReturnsFresh,
        ("returns", "aligned") => Effect::ReturnsAligned,
        ("returns", "library") => Effect::ReturnsLibrary,
        ("returns", "held") => Effect::ReturnsHeld,
        ("returns", "within contents held") => Effect::ReturnsWithinContentsOfHeld,
        ("returns", "unknown") => Effect::ReturnsUnknown,
        ("returns", "files") => Effect::ReturnsFiles,
        ("returns", rest) => match rest.split_once(' ') {
            None => Effect::Returns { argument: argument(rest)?, exact: true },
            Some(("within", n)) => Effect::Returns { argument: argument(n)?, exact: false },
            Some(("contents", rest)) => match rest.strip_prefix("within ") {
                Some(n) => Effect::ReturnsContents { argument: argument(n)?, exact: false },
                None => Effect::ReturnsContents { argument: argument(rest)?, exact: true },
            },
            Some(("linked", rest)) => {
                let (n, fields) = rest.split_once(" by ")?;
                Effect::ReturnsLinked { argument: argument(n)?, fields: link_fields(fields)? }
            }
            Some(_) => return None,
        },
        ("copies", rest) => {
            let (from, to) = rest.split_once(" to ")?;
            let (aligned, from) = match from.strip_prefix("around ") {
                Some(from) => (false, from),
                None => (true, from),
            };
            Effect::Copies { from: source(from)?, to: source(to)?, aligned }
        }
        ("relinks", rest) => {
            let (rest, returns) = match rest.strip_suffix(" and returns one") {
                Some(rest) => (rest, true),
                None => (rest, false),
            };
            let (nodes, fields) = rest.split_once(" by ")?;
            let mut arguments = 0;
            for word in nodes.split(", ") {
                arguments |= 1 << argument(word)?;
            }
            Effect::Relinks { arguments, fields: link_fields(fields)?, returns }
        }
        ("stores", rest) => {
            let (what, to) = rest.split_once(" to ")?;
            let (to, offset) = match to.split_once(" at ") {
                Some((to, offset)) => (to, Some(offset.parse().ok()?)),
                None => (to, None),
            };
            let what = match what {
                "unknown" => StoredAddress::Unknown,
                "library" => StoredAddress::Library,
                "fresh" => StoredAddress::Fresh,
                "aligned" => StoredAddress::Aligned,
                "held" => StoredAddress::Held,
                words => match words.split_once(' ')? {
                    ("within", n) => StoredAddress::Within(argument(n)?),
                    ("contents", n) => StoredAddress::Contents(argument(n)?),
                    ("place", place) => {
                        let (offset, n) = place.split_once(" of ")?;
                        StoredAddress::Place { offset: offset.parse().ok()?, argument: argument(n)? }
                    }
                    _ => return None,
                },
            };
            Effect::Stores { what, to: source(to)?, offset }
        }
        ("frees", "") => Effect::Frees,
        ("exposes", "numbers") => Effect::Exposes(ExposedArguments::Vectors),
        ("exposes", "long") => Effect::Exposes(ExposedArguments::Stack),
        ("exposes", n) => Effect::Exposes(ExposedArguments::General(argument(n)?)),
        ("escapes", n) => Effect::Escapes(argument(n)?),
        ("holds", what) => match what.strip_prefix("within ") {
            Some(n) => Effect::HoldsWithin(argument(n)?),
            None => Effect::Holds(source(what)?),
        },
        ("prints", rest) => {
            let (first, within) = listed(rest)?;
            Effect::Prints { first, within }
        }
        ("scans", rest) => {
            let (first, within) = listed(rest)?;
            Effect::Scans { first, within }
        }
        ("writes", words) => match words.strip_prefix("value ") {
            Some(n) => Effect::WritesValue(argument(n)?),
            None => Effect::WritesOut(argument(words)?),
        },
        ("reads", what) => Effect::ReadsIn(source(what)?),
        ("calls", rest) => {
            let (rest, returned) = match rest.rsplit_once(" and ") {
                Some((rest, "returns it")) => (rest, ResultUse::Returned),
                Some((rest, "keeps it")) => (rest, ResultUse::Kept),
                Some(_) => return None,
                None => (rest, ResultUse::Dropped),
            };
            let (function, passed) = rest.split_once(" with").unwrap_or((rest, ""));
            let mut arguments = [PassedArgument::Nothing; 3];
            let passed = passed.split(',').map(str::trim).filter(|p| !p.is_empty());
            for (i, word) in passed.enumerate() {
                *arguments.get_mut(i)? = passed_word(word)?;
            }
            Effect::Calls { function: source(function)?, arguments, returned }
        }
        _ => return None,
    })
}

/// The first of the arguments of any number, and whether it is a list of them.
fn listed(words: &str) -> Option<(Argument, bool)> {
    match words.strip_prefix("within ") {
        Some(first) => Some((argument(first)?, true)),
        None => Some((argument(words)?, false)),
    }
}

fn link_fields(words: &str) -> Option<LinkFields> {
    let mut fields = [None; 3];
    for (i, word) in words.split(", ").enumerate() {
        *fields.get_mut(i)? = Some(word.parse().ok()?);
    }
    Some(fields)
}

fn source(words: &str) -> Option<Source> {
    let Some(field) = words.strip_prefix("field ") else { return argument(words).map(Source::Argument) };
    let (offset, of) = field.split_once(" of ")?;
    Some(Source::Field { offset: offset.parse().ok()?, of: argument(of)? })
}

fn passed_word(word: &str) -> Option<PassedArgument> {
    Some(match word.split_once(' ') {
        Some(("within", n)) => PassedArgument::Within(argument(n)?),
        Some(("contents", n)) => PassedArgument::Contents(argument(n)?),
        Some(_) => return None,
        None if word == "nothing" => PassedArgument::Nothing,
        None if word == "library" => PassedArgument::Library,
        None if word == "unknown" => PassedArgument::Unknown,
        None => PassedArgument::Argument(argument(word)?),
    })
}

fn argument(word: &str) -> Option<Argument> {
    word.parse().ok().filter(|n: &Argument| usize::from(*n) < ARGUMENTS.len())
}
