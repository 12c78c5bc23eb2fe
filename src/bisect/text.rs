//! What is said in the end: what was found and how it was seen, or why nothing was found.

use std::ffi::OsStr;
use std::fmt::Write;

use super::process::Runner;
use crate::args::prune::FLAGS_VARIABLE;
use crate::args::words;
use crate::report::log::LogAtom;

/// More outputs or atoms than these are counted.
const LISTED: usize = 5;

pub(super) struct TextMatch<'f> {
    pub(super) link: &'f LoggedLink,
    /// So many atoms dropped fail; one less succeed.
    pub(super) number: usize,
    pub(super) context: &'f LinkLimits,
    pub(super) last: &'f LogAtom,
    pub(super) with: &'f [LogAtom],
    pub(super) failure: &'f str,
    /// The end of what it printed.
    pub(super) shown: &'f str,
    /// The symbol with which kept COMMAND succeeds.
    pub(super) kept: Option<&'f str>,
    /// The option with which COMMAND succeeds, and that with which it fails.
    pub(super) good: &'f str,
    pub(super) bad: &'f str,
}

/// The answer. Writing to a String can't fail, so results are not looked at.
pub(super) fn found(runner: &Runner, found: &TextMatch<'_>) -> String {
    let TextMatch { link, number, last, with, .. } = found;
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
        line(runner, found.bad),
        line(runner, found.good)
    );
    out
}

/// COMMAND with an option for its links, for a shell.
fn line(runner: &Runner, option: &str) -> String {
    let flags = runner.flags(&[option.into()]);
    let mut out = format!("{FLAGS_VARIABLE}={}", words::for_shell(&flags).to_string_lossy());
    for word in &runner.options.command {
        let _ = write!(out, " {}", words::for_shell(word).to_string_lossy());
    }
    out
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
    let rest = words.len().saturating_sub(LISTED);
    let mut out = words.iter().take(LISTED).cloned().collect::<Vec<_>>().join(", ");
    if rest > 0 {
        let _ = write!(out, " and {rest} more");
    }
    out
}

pub(super) fn fails_anyway(failure: &str, shown: &str) -> String {
    format!("bisect: the command fails with nothing dropped ({failure}): pruning is not the reason\n{shown}")
}

pub(super) fn no_link(links: usize) -> String {
    let what = match links {
        0 => "no link was made through lto-prune".to_owned(),
        n => format!("{n} link(s) were made through lto-prune, and none could drop anything"),
    };
    format!(
        "bisect: {what}; does the command link each time (remove the outputs first), with lto-prune as its linker, \
         and without --prune-level=off?\n"
    )
}

pub(super) fn nothing(links: &[LoggedLink]) -> String {
    let atoms: usize = links.iter().map(|l| l.atoms).sum();
    format!(
        "bisect: nothing to find: the command succeeds with all {atoms} atoms of {} link(s) dropped\n",
        links.len()
    )
}

pub(super) fn not_again(output: &str) -> String {
    format!(
        "bisect: a run did not link {output} as an earlier one had: it must link the same again each time (remove \
         the outputs first)\n"
    )
}

pub(super) fn own_limit(output: &str) -> String {
    format!("bisect: the link of {output} has a --prune-limit on its own line, which overrides ours\n")
}

pub(super) fn contradiction(good: &str, bad: &str) -> String {
    format!(
        "bisect: runs contradict each other ({good}; {bad}): the command does not always do the same. --repeat=N \
         runs it several times\n"
    )
}

/// One link of COMMAND, or several that could lose the same.
#[derive(Debug, Clone)]
pub(super) struct LoggedLink {
    pub(super) id: String,
    pub(super) outputs: Vec<String>,
    pub(super) atoms: usize,
}

/// A number of atoms for each of some links; nothing goes from others.
pub(super) type LinkLimits = Vec<(String, String)>;

/// The option `--prune-keep` of exactly this name.
pub(super) fn keep_of(symbol: &str) -> String {
    let mut out = String::from("--prune-keep=");
    for c in symbol.chars() {
        if "*?[\\".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
