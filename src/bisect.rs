//! Delta debugging by bisection (`lto-prune bisect [OPTIONS] -- COMMAND...`): the dropped atom that makes COMMAND fail.
//!
//! COMMAND links and tests. `LTO_PRUNE_FLAGS` limits the number of atoms that each of its links drops (`--prune-limit`), and makes the
//! links log what they are (`--prune-limit-log`). The search is over links, then over the atoms of one link in the order of
//! [`crate::plan::limit`]. The result was seen twice: a run that drops the first N atoms fails, and one that drops N - 1 succeeds.
//!
//! A link is identified by the hash of its droppable atoms ([`crate::config::LinkId`]), so that neither the order of a parallel build nor
//! names of temporary files matter. Different causes of a failure are not told apart; to find a second one, keep the first.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::io::{Read, Seek, SeekFrom, Write as _};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use crate::args::help::{CommandWord, CommandWords};
use crate::args::prune::FLAGS_VARIABLE;
use crate::args::{Environment, help, words};
use crate::error::{Result, Stage};
use crate::process_group::{GroupEnd, Signals, end_by, failure, temporary_folder};
use crate::report::log::{LogAtom, LogLine};
use crate::report::table::first_names;
use crate::terminal;

/// Run the command with these words.
pub fn main(words: &[OsString], env: &Environment<'_>) -> Result<ExitCode> {
    let Some(options) = parse(words)? else {
        // A closed pipe is the reader's business.
        let _ = std::io::stdout().write_all(help::text("bisect").as_bytes());
        return Ok(ExitCode::SUCCESS);
    };
    let mut search = BisectSearch::new(options, env)?;
    let ended = search.run();
    // The folder of temporary files is removed before a signal ends us.
    drop(search);
    Ok(match ended {
        Ok(found) => {
            let _ = std::io::stdout().write_all(terminal::lines(&found).as_bytes());
            ExitCode::from(status::FOUND)
        }
        Err(Stop::Said(status, text)) => {
            eprint!("{text}");
            ExitCode::from(status)
        }
        Err(Stop::Signal(signal)) => end_by(signal),
    })
}

#[derive(Debug, Clone)]
struct Options {
    command: Vec<OsString>,
    repeat: usize,
    timeout: Option<Duration>,
    verbose: bool,
}

/// Read the words; `None` if they ask for help.
fn parse(words: &[OsString]) -> Result<Option<Options>> {
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

/// Exit statuses; 1 is a mistake in our own words, as everywhere.
mod status {
    /// The exit status if an atom was found.
    pub(super) const FOUND: u8 = 0;
    /// The exit status if COMMAND succeeds with everything dropped.
    pub(super) const NOTHING: u8 = 2;
    /// The exit status if COMMAND fails with nothing dropped.
    pub(super) const FAILS_ANYWAY: u8 = 3;
    /// Runs contradict each other, or do not link again.
    pub(super) const UNSTEADY: u8 = 4;
    /// COMMAND makes no link through this program that drops anything.
    pub(super) const NO_LINK: u8 = 5;
    /// The exit status if COMMAND can't be run.
    pub(super) const CANNOT_RUN: u8 = 127;
}

/// How a search ended otherwise than by finding.
#[derive(Debug)]
enum Stop {
    /// An exit status, and a text for standard error.
    Said(u8, String),
    /// It was ended by a signal to us.
    Signal(i32),
}

/// The number of atoms dropped together that are tried to be kept.
const TRIED_KEEPS: usize = 8;

/// The shown part of the output of a failed run.
const SHOWN_BYTES: u64 = 2000;
const SHOWN_LINES: usize = 12;

#[derive(Debug)]
struct CommandRun {
    /// How it failed; `None`: it did not.
    failure: Option<String>,
    /// The log lines of its links, in their order.
    links: Vec<LogLine>,
    time: Duration,
}

#[derive(Debug)]
struct BisectSearch {
    options: Options,
    /// It is `LTO_PRUNE_FLAGS` as it was before.
    flags: OsString,
    folder: tempfile::TempDir,
    signals: Signals,
    /// So many times COMMAND was run.
    runs: usize,
}

impl BisectSearch {
    fn new(options: Options, env: &Environment<'_>) -> Result<Self> {
        let signals = Signals::watch("bisect")?;
        let folder = temporary_folder(Stage::Arguments, "bisect-")?;
        let flags = env.get(FLAGS_VARIABLE).unwrap_or_default();
        Ok(BisectSearch { options, flags, folder, signals, runs: 0 })
    }

    /// Search; what was found, as text.
    fn run(&mut self) -> Result<String, Stop> {
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
        let Some(last) = line.last.clone() else { return Err(unsteady_search()) };
        if last.state == "kept" && line.with.is_empty() {
            // Both runs dropped the same.
            return Err(contradiction(&what(number - 1), &what(number)));
        }
        let shown = self.shown();
        let kept = self.keep(&last, &line.with)?;
        Ok(self.found_text(&FoundAtom {
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
        }))
    }

    /// Check the two ends of the search: COMMAND must succeed with nothing dropped, and fail with everything dropped. Returns the links that
    /// can drop something, in the order in which they were made.
    fn ends(&mut self) -> Result<Vec<LoggedLink>, Stop> {
        let undropped_run = self.test("nothing dropped", "--prune-limit=0")?;
        if let Some(failure) = &undropped_run.failure {
            let text = format!(
                "bisect: the command fails with nothing dropped ({failure}): pruning is not the reason\n{}",
                self.shown()
            );
            return Err(Stop::Said(status::FAILS_ANYWAY, text));
        }
        let dropped_run = self.test("all dropped", "--prune-limit=all")?;
        let above_zero = undropped_run.links.iter().find(|l| l.limit > 0);
        if let Some(line) = above_zero.or(dropped_run.links.iter().find(|l| l.limit < l.atoms)) {
            return Err(own_limit(line));
        }
        let links = links_of(&dropped_run.links);
        let undropped_links = links_of(&undropped_run.links);
        if undropped_links.is_empty() && links.is_empty() {
            return Err(no_link(undropped_run.links.len()));
        }
        if links.is_empty() {
            let output = undropped_links.into_iter().flat_map(|l| l.outputs).next().unwrap_or_default();
            return Err(not_again(&output));
        }
        if dropped_run.failure.is_none() {
            let is_linked_again = |output: &String| dropped_run.links.iter().any(|l| l.output == *output);
            let is_made_again = |link: &&LoggedLink| links.iter().any(|l| l.id == link.id);
            let mut missing = undropped_links.iter().filter(|l| !is_made_again(l)).flat_map(|l| &l.outputs);
            return Err(match missing.find(|output| !is_linked_again(output)) {
                Some(output) => not_again(output),
                None => nothing(&links),
            });
        }
        Ok(links)
    }

    /// The failing link, and the limits of other links with which it fails.
    fn link(&mut self, links: &[LoggedLink]) -> Result<(usize, LinkLimits), Stop> {
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
    fn keep(&mut self, last: &LogAtom, with: &[LogAtom]) -> Result<Option<String>, Stop> {
        for atom in std::iter::once(last).chain(with).take(TRIED_KEEPS) {
            let Some(symbol) = atom.symbols.first() else { continue };
            let words = ["--prune-limit=all".to_owned(), keep_of(symbol)];
            if self.test_words(&format!("all dropped but {symbol}"), &words)?.failure.is_none() {
                return Ok(Some(symbol.clone()));
            }
        }
        Ok(None)
    }

    fn test(&mut self, what: &str, word: &str) -> Result<CommandRun, Stop> {
        self.test_words(what, &[word.to_owned()])
    }

    fn test_words(&mut self, what: &str, words: &[String]) -> Result<CommandRun, Stop> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        self.runs += 1;
        let run = self.run_repeatedly(&words)?;
        let result = match &run.failure {
            None => "succeeds".to_owned(),
            Some(failure) => format!("fails ({failure})"),
        };
        eprintln!("bisect: run {}: {what}: {result}, {:.1} s", self.runs, run.time.as_secs_f64());
        Ok(run)
    }

    /// The flags with `ours` behind them.
    fn flags(&self, ours: &[OsString]) -> OsString {
        words::joined(&self.flags, ours)
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("links")
    }

    fn printed(&self) -> PathBuf {
        self.folder.path().join("printed")
    }

    /// Run COMMAND with these options for its links, as often as it has to be to say something.
    fn run_repeatedly(&self, ours: &[OsString]) -> Result<CommandRun, Stop> {
        let mut run = self.once(ours)?;
        for _ in 1..self.options.repeat {
            if run.failure.is_some() {
                break;
            }
            run = self.once(ours)?;
        }
        Ok(run)
    }

    fn once(&self, ours: &[OsString]) -> Result<CommandRun, Stop> {
        let trouble = |e: std::io::Error| {
            Stop::Said(1, format!("lto-prune: error: bisect: {}: {e}\n", self.folder.path().display()))
        };
        let mut log = OsString::from("--prune-limit-log=");
        log.push(self.log());
        std::fs::write(self.log(), "").map_err(trouble)?;
        let mut words = vec![log];
        words.extend_from_slice(ours);
        let [program, arguments @ ..] = &self.options.command[..] else {
            return Err(Stop::Said(status::CANNOT_RUN, String::new()));
        };
        let mut command = Command::new(program);
        command.args(arguments).env(FLAGS_VARIABLE, self.flags(&words));
        command.stdin(Stdio::null()).process_group(0);
        if !self.options.verbose {
            let file = std::fs::File::create(self.printed()).map_err(trouble)?;
            command.stdout(file.try_clone().map_err(trouble)?).stderr(file);
        }
        let start = Instant::now();
        let child = command.spawn().map_err(|e| {
            let text = format!("lto-prune: bisect: {}: cannot be run: {e}\n", Path::new(program).display());
            Stop::Said(status::CANNOT_RUN, text)
        })?;
        let failure = match self.signals.wait(child, start, self.options.timeout) {
            Ok(GroupEnd::Exited(status)) => failure(status),
            Ok(GroupEnd::TimedOut(limit)) => Some(format!("took longer than {} s", limit.as_secs_f64())),
            Ok(GroupEnd::Interrupted(signal)) => return Err(Stop::Signal(signal)),
            Err(e) => return Err(Stop::Said(1, format!("lto-prune: error: bisect: {e}\n"))),
        };
        let text = std::fs::read(self.log()).map_err(trouble)?;
        let lines = text.split(|b| *b == b'\n').filter(|l| !l.is_empty());
        // A line that is cut was written by a link that was ended in the middle.
        let links = lines.filter_map(|line| serde_json::from_slice(line).ok()).collect();
        Ok(CommandRun { failure, links, time: start.elapsed() })
    }

    /// The end of the output of the last run, each line after a bar.
    fn shown(&self) -> String {
        let read = || -> std::io::Result<Vec<u8>> {
            let mut file = std::fs::File::open(self.printed())?;
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(length.saturating_sub(SHOWN_BYTES)))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        let text = String::from_utf8_lossy(&read().unwrap_or_default()).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        let last = lines.iter().skip(lines.len().saturating_sub(SHOWN_LINES));
        last.map(|line| format!("  | {line}\n")).collect()
    }

    /// The answer. Writing to a String can't fail, so results are not looked at.
    fn found_text(&self, found: &FoundAtom<'_>) -> String {
        let FoundAtom { link, number, last, with, .. } = found;
        let mut out = format!("found: {}\n", name(last));
        if last.symbols.len() > 1 {
            let _ = writeln!(out, "  symbols:  {}", list(&last.symbols));
        }
        let place = match &last.archive {
            Some(archive) => format!("{archive}({})", last.module),
            None => last.module.clone(),
        };
        let _ = writeln!(out, "  place:    {place}, section {} at {:#x}", last.section, last.offset);
        let _ = writeln!(out, "  what:     {}, {} bytes, {}", last.kind, last.size, state(last));
        let _ = writeln!(out, "  why:      {}", last.why);
        let _ = writeln!(out, "  output:   {}", list(&link.outputs));
        let _ = writeln!(out, "  atom:     {number} of {} of link {}", link.atoms, link.id);
        if !with.is_empty() {
            let names: Vec<String> = with.iter().map(|a| format!("{} ({})", name(a), a.section)).collect();
            let _ = writeln!(out, "  with it:  {}", list(&names));
        }
        let before = number - 1;
        let _ = writeln!(
            out,
            "\nWith the first {before} of these atoms dropped the command succeeds, with the first {number} it fails \
             ({}), each seen twice.",
            found.failure
        );
        out += match found.context.is_empty() {
            true => "All other links were whole.\n",
            false => "It does so only if links before this one are pruned too; those after it were whole.\n",
        };
        out += found.shown;
        let _ = match (found.kept, last.symbols.first()) {
            (Some(symbol), _) => writeln!(
                out,
                "\nTo keep it (the command succeeds with this, all else dropped):\n  {}",
                shell(&keep_of(symbol))
            ),
            (None, Some(symbol)) => writeln!(
                out,
                "\nTo keep it:\n  {}\nThat alone is not enough: more was dropped that the command needs. To find it, \
                 bisect again with this in {FLAGS_VARIABLE}.",
                shell(&keep_of(symbol))
            ),
            (None, None) => writeln!(
                out,
                "\nIt has no symbol that --prune-keep could name: keep what refers to it, or link with \
                 --prune-level=sections or =off."
            ),
        };
        let _ = writeln!(
            out,
            "\nTo see it fail, and succeed:\n  {}\n  {}",
            self.shell_line(found.bad),
            self.shell_line(found.good)
        );
        out
    }

    /// COMMAND with an option for its links, for a shell.
    fn shell_line(&self, option: &str) -> String {
        let flags = self.flags(&[option.into()]);
        let mut out = format!("{FLAGS_VARIABLE}={}", words::for_shell(&flags).to_string_lossy());
        for word in &self.options.command {
            let _ = write!(out, " {}", words::for_shell(word).to_string_lossy());
        }
        out
    }
}

/// The option that drops these atoms and no others.
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

/// The log line of the link in this run.
fn of_link<'r>(run: &'r CommandRun, link: &LoggedLink) -> Result<&'r LogLine, Stop> {
    let found = run.links.iter().find(|l| l.link == link.id);
    found.ok_or_else(|| not_again(link.outputs.first().map_or("", String::as_str)))
}

/// The least number that is bad, given one that is good and one that is bad, by halving.
fn first_bad(
    mut good: usize,
    mut bad: usize,
    mut is_bad: impl FnMut(usize) -> Result<bool, Stop>,
) -> Result<usize, Stop> {
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
    let text = format!(
        "bisect: a run did not link {output} as an earlier one had: it must link the same again each time (remove \
         the outputs first)\n"
    );
    Stop::Said(status::UNSTEADY, text)
}

fn own_limit(line: &LogLine) -> Stop {
    let output = &line.output;
    let text =
        format!("bisect: the link of {output} has a --prune-limit on its own line, which overrides ours\n");
    Stop::Said(status::UNSTEADY, text)
}

fn contradiction(good: &str, bad: &str) -> Stop {
    let text = format!(
        "bisect: runs contradict each other ({good}; {bad}): the command does not always do the same. --repeat=N \
         runs it several times\n"
    );
    Stop::Said(status::UNSTEADY, text)
}

fn unsteady_search() -> Stop {
    contradiction("the last run", "an earlier one")
}

/// More outputs or atoms than these are counted.
const LISTED: usize = 5;

struct FoundAtom<'f> {
    link: &'f LoggedLink,
    /// So many atoms dropped fail; one less succeed.
    number: usize,
    context: &'f LinkLimits,
    last: &'f LogAtom,
    with: &'f [LogAtom],
    failure: &'f str,
    /// The end of its output.
    shown: &'f str,
    /// The symbol with which kept COMMAND succeeds.
    kept: Option<&'f str>,
    /// The option with which COMMAND succeeds, and that with which it fails.
    good: &'f str,
    bad: &'f str,
}

fn shell(word: &str) -> String {
    words::for_shell(OsStr::new(word)).to_string_lossy().into_owned()
}

fn name(atom: &LogAtom) -> String {
    atom.symbols.first().cloned().unwrap_or_else(|| format!("{} of {}", atom.section, atom.module))
}

fn state(atom: &LogAtom) -> &str {
    match atom.state.as_str() {
        "stub" => "replaced by a trap",
        state => state,
    }
}

fn list(words: &[String]) -> String {
    match first_names(words.iter().cloned(), LISTED) {
        (first, 0) => first,
        (first, more) => format!("{first} and {more} more"),
    }
}

fn no_link(links: usize) -> Stop {
    let what = match links {
        0 => "no link was made through lto-prune".to_owned(),
        n => format!("{n} link(s) were made through lto-prune, and none could drop anything"),
    };
    let text = format!(
        "bisect: {what}; does the command link each time (remove the outputs first), with lto-prune as its linker, \
         and without --prune-level=off?\n"
    );
    Stop::Said(status::NO_LINK, text)
}

fn nothing(links: &[LoggedLink]) -> Stop {
    let atoms: usize = links.iter().map(|l| l.atoms).sum();
    let text = format!(
        "bisect: nothing to find: the command succeeds with all {atoms} atoms of {} link(s) dropped\n",
        links.len()
    );
    Stop::Said(status::NOTHING, text)
}

/// One link of COMMAND, or several that could lose the same.
#[derive(Debug, Clone)]
struct LoggedLink {
    id: String,
    outputs: Vec<String>,
    atoms: usize,
}

/// Limits of some links; other links drop nothing.
type LinkLimits = Vec<(String, String)>;

/// The option `--prune-keep` of exactly this name.
fn keep_of(symbol: &str) -> String {
    let mut out = String::from("--prune-keep=");
    for c in symbol.chars() {
        if "*?[\\".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
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
        // One of several steps is found.
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
