//! Binary search: over links first, and then over the atoms of one link.
//!
//! Both by halving between a number that was seen to succeed and one that was seen to fail. A link that fails by
//! itself is searched with all others whole; one that fails only beside those before it, with those pruned. In the
//! end both neighbours are run once more, and what was found is kept while all else goes, which shows whether it is
//! all.

use std::ffi::OsString;

use super::outcome::{Stop, status};
use super::process::{CommandRun, Runner};
use super::text::{self, LinkLimits, LoggedLink, TextMatch, keep_of};
use crate::report::log::{LogAtom, LogLine};

/// How many of the atoms that went together are tried to be kept.
const TRIED_KEEPS: usize = 8;

#[derive(Debug)]
pub(super) struct BisectSearch {
    runner: Runner,
    runs: usize,
}

type Result<T> = std::result::Result<T, Stop>;

impl BisectSearch {
    pub(super) fn new(runner: Runner) -> Self {
        BisectSearch { runner, runs: 0 }
    }

    /// Search; what was found, as text.
    pub(super) fn run(&mut self) -> Result<String> {
        let links = self.ends()?;
        let (at, context) = self.link(&links)?;
        let link = links.get(at).ok_or_else(unsteady_search)?;
        let share = |n: usize| {
            let mut share = context.clone();
            share.push((link.id.clone(), n.to_string()));
            share
        };
        let name = link.outputs.first().cloned().unwrap_or_default();
        let what = |n: usize| format!("{n} of {} atoms of {name}", link.atoms);
        let number = first_bad(0, link.atoms, |n| {
            let run = self.test(&what(n), &limit_of(&share(n)))?;
            let line = of_link(&run, link)?;
            if line.limit != n {
                return Err(own_limit(line));
            }
            Ok(run.failure.is_some())
        })?;
        // Once more, the failing one last: what it printed is shown.
        let good = self.test(&format!("again {}", what(number - 1)), &limit_of(&share(number - 1)))?;
        of_link(&good, link)?;
        let bad = self.test(&format!("again {}", what(number)), &limit_of(&share(number)))?;
        let line = of_link(&bad, link)?.clone();
        let (None, Some(failure)) = (&good.failure, &bad.failure) else {
            return Err(contradiction(&what(number - 1), &what(number)));
        };
        let shown = self.runner.shown();
        let Some(last) = line.last.clone() else { return Err(unsteady_search()) };
        if last.state == "kept" && line.with.is_empty() {
            // Both runs dropped the same.
            return Err(contradiction(&what(number - 1), &what(number)));
        }
        let kept = self.keep(&last, &line.with)?;
        Ok(text::found(
            &self.runner,
            &TextMatch {
                link,
                number,
                context: &context,
                last: &last,
                with: &line.with,
                failure,
                shown: &shown,
                kept: kept.as_deref(),
                good: &limit_of(&share(number - 1)),
                bad: &limit_of(&share(number)),
            },
        ))
    }

    /// Nothing dropped must succeed, and everything dropped fail. The links, in the order in which they were made.
    fn ends(&mut self) -> Result<Vec<LoggedLink>> {
        let none = self.test("nothing dropped", "--prune-limit=0")?;
        if let Some(failure) = &none.failure {
            return Err(Stop::Said(status::FAILS_ANYWAY, text::fails_anyway(failure, &self.runner.shown())));
        }
        let all = self.test("all dropped", "--prune-limit=all")?;
        let other = none.links.iter().find(|l| l.limit > 0);
        if let Some(line) = other.or(all.links.iter().find(|l| l.limit < l.atoms)) {
            return Err(own_limit(line));
        }
        let links = links_of(&all.links);
        let before = links_of(&none.links);
        if before.is_empty() && links.is_empty() {
            return Err(Stop::Said(status::NO_LINK, text::no_link(none.links.len())));
        }
        if links.is_empty() {
            let output = before.into_iter().flat_map(|l| l.outputs).next().unwrap_or_default();
            return Err(not_again(&output));
        }
        if all.failure.is_none() {
            let again = |output: &String| all.links.iter().any(|l| l.output == *output);
            let same = |link: &LoggedLink| links.iter().any(|l| l.id == link.id);
            return Err(
                match before.iter().filter(|l| !same(l)).flat_map(|l| &l.outputs).find(|o| !again(o)) {
                    Some(output) => not_again(output),
                    None => Stop::Said(status::NOTHING, text::nothing(&links)),
                },
            );
        }
        Ok(links)
    }

    /// Which link, and what must go from others for it to fail.
    fn link(&mut self, links: &[LoggedLink]) -> Result<(usize, LinkLimits)> {
        let whole = |count: usize| -> LinkLimits {
            links.iter().take(count).map(|l| (l.id.clone(), "all".to_owned())).collect()
        };
        let count = first_bad(0, links.len(), |count| {
            let run =
                self.test(&format!("{count} of {} links pruned", links.len()), &limit_of(&whole(count)))?;
            if run.failure.is_none() {
                // A build that fails stops early; one that succeeds has made them all.
                for link in links.iter().take(count) {
                    of_link(&run, link)?;
                }
            }
            Ok(run.failure.is_some())
        })?;
        let at = count - 1;
        let link = links.get(at).ok_or_else(unsteady_search)?;
        let name = link.outputs.first().cloned().unwrap_or_default();
        let alone = vec![(link.id.clone(), "all".to_owned())];
        let run = self.test(&format!("only {name} pruned"), &limit_of(&alone))?;
        of_link(&run, link)?;
        if run.failure.is_some() {
            return Ok((at, LinkLimits::new()));
        }
        if count > 1 {
            let run = self.test(&format!("{name} and those before it pruned"), &limit_of(&whole(count)))?;
            of_link(&run, link)?;
            if run.failure.is_some() {
                return Ok((at, whole(at)));
            }
        }
        Err(contradiction(&format!("{name} pruned"), "all dropped"))
    }

    /// The symbol that is enough to keep, if one is.
    fn keep(&mut self, last: &LogAtom, with: &[LogAtom]) -> Result<Option<String>> {
        for atom in std::iter::once(last).chain(with).take(TRIED_KEEPS) {
            let Some(symbol) = atom.symbols.first() else { continue };
            let words = ["--prune-limit=all".to_owned(), keep_of(symbol)];
            if self.test_words(&format!("all dropped but {symbol}"), &words)?.failure.is_none() {
                return Ok(Some(symbol.clone()));
            }
        }
        Ok(None)
    }

    fn test(&mut self, what: &str, word: &str) -> Result<CommandRun> {
        self.test_words(what, &[word.to_owned()])
    }

    fn test_words(&mut self, what: &str, words: &[String]) -> Result<CommandRun> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        self.runs += 1;
        let run = self.runner.run(&words)?;
        let result = match &run.failure {
            None => "succeeds".to_owned(),
            Some(failure) => format!("fails ({failure})"),
        };
        eprintln!("bisect: run {}: {what}: {result}, {:.1} s", self.runs, run.time.as_secs_f64());
        Ok(run)
    }
}

/// The option that lets this go and nothing else.
fn limit_of(share: &LinkLimits) -> String {
    let words: Vec<String> = share.iter().map(|(link, count)| format!("{count}@{link}")).collect();
    if words.is_empty() { "--prune-limit=0".to_owned() } else { format!("--prune-limit={}", words.join(",")) }
}

/// The links that could lose something, each once.
fn links_of(lines: &[LogLine]) -> Vec<LoggedLink> {
    let mut links: Vec<LoggedLink> = Vec::new();
    for line in lines.iter().filter(|l| l.atoms > 0) {
        match links.iter_mut().find(|l| l.id == line.link) {
            Some(link) if link.outputs.contains(&line.output) => {}
            Some(link) => link.outputs.push(line.output.clone()),
            None => links.push(LoggedLink {
                id: line.link.clone(),
                outputs: vec![line.output.clone()],
                atoms: line.atoms,
            }),
        }
    }
    links
}

/// What the link said in this run.
fn of_link<'r>(run: &'r CommandRun, link: &LoggedLink) -> Result<&'r LogLine> {
    let found = run.links.iter().find(|l| l.link == link.id);
    found.ok_or_else(|| not_again(link.outputs.first().map_or("", String::as_str)))
}

/// The least number that is bad, given one that is good and one that is bad, by halving.
fn first_bad(
    mut good: usize,
    mut bad: usize,
    mut is_bad: impl FnMut(usize) -> Result<bool>,
) -> Result<usize> {
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if is_bad(middle)? {
            bad = middle;
        } else {
            good = middle;
        }
    }
    Ok(bad)
}

fn not_again(output: &str) -> Stop {
    Stop::Said(status::UNSTEADY, text::not_again(output))
}

fn own_limit(line: &LogLine) -> Stop {
    Stop::Said(status::UNSTEADY, text::own_limit(&line.output))
}

fn contradiction(good: &str, bad: &str) -> Stop {
    Stop::Said(status::UNSTEADY, text::contradiction(good, bad))
}

fn unsteady_search() -> Stop {
    Stop::Said(status::UNSTEADY, text::contradiction("the last run", "an earlier one"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn halving_finds_a_step_from_good_to_bad() {
        for bad in 1..40 {
            let mut runs = 0;
            let found = first_bad(0, 40, |n| {
                runs += 1;
                Ok(n >= bad)
            });
            assert_eq!(found.unwrap(), bad);
            assert!(runs <= 6, "{runs}");
        }
        // Where there are several, one of them.
        let is_bad = |n: usize| n % 7 == 3 || n >= 30;
        let found = first_bad(0, 40, |n| Ok(is_bad(n))).unwrap();
        assert!(is_bad(found) && !is_bad(found - 1));
        assert_eq!(first_bad(0, 1, |_| Err(not_again(""))).unwrap(), 1);
    }

    #[test]
    fn links_that_could_lose_the_same_are_one() {
        let line = |link: &str, output: &str, atoms| LogLine {
            link: link.to_owned(),
            output: output.to_owned(),
            atoms,
            limit: atoms,
            last: None,
            with: Vec::new(),
        };
        let lines = [
            line("b", "/x", 3),
            line("a", "/y", 2),
            line("b", "/z", 3),
            line("b", "/x", 3),
            line("c", "/w", 0),
        ];
        let links = links_of(&lines);
        assert_eq!(links.len(), 2);
        assert_eq!(
            (links[0].id.as_str(), links[0].outputs.as_slice()),
            ("b", &["/x".to_owned(), "/z".to_owned()][..])
        );
    }

    #[test]
    fn symbols_are_no_patterns() {
        assert_eq!(keep_of("a*[b]\\"), "--prune-keep=a\\*\\[b]\\\\");
    }
}
