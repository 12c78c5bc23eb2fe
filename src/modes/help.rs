//! The help text, of both modes in one.

use crate::args::prune::options::{OPTIONS, SUBCOMMANDS};

const INTRODUCTION: &str = "\
lto-prune: link-time pruning for x86_64 ELF, in front of any linker

It reads every object of a link, works out what the program can reach, and hands the linker objects from which the
rest is gone. Nothing is recompiled. What it doesn't understand it keeps.

Usage:
";
const EXAMPLES: &str = "
Examples:
  lto-prune main.o util.o -o main --prune-report=main.json
  lto-prune install-shims ~/shims && gcc -B ~/shims main.o -o main
  clang --ld-path=$HOME/shims/ld.lto-prune main.o -o main -Wl,--prune-why='parse_*'
  RUSTFLAGS=\"-Clinker-features=-lld -Clink-arg=-B$HOME/shims\" cargo build

Options (from a compiler: -Wl,--prune-...; or in LTO_PRUNE_FLAGS, which the command line overrides):
";
const END: &str = "
All other options are the linker's. ld.lto-prune --help prints its help as well.
";
/// Columns before the text of an entry, and of the text.
const COLUMNS: (usize, usize) = (52, 66);

/// The whole text, with a trailing newline.
pub(super) fn text() -> String {
    let mut out = INTRODUCTION.to_owned();
    let by_hand = "link by hand, through cc (or $CC; C++ objects: c++ or $CXX)";
    entry(&mut out, "lto-prune [options] a.o b.o libx.a -lm -o main", by_hand);
    entry(&mut out, "ld.lto-prune ...", "as a linker: GNU ld's command line, as compilers call it");
    for (name, words, help) in SUBCOMMANDS {
        entry(&mut out, &format!("lto-prune {name} {words}"), help);
    }
    out += EXAMPLES;
    for (heading, options) in OPTIONS {
        out += &format!(" {heading}\n");
        for option in *options {
            let equals = if option.form.is_empty() { "" } else { "=" };
            entry(&mut out, &format!("--prune-{}{equals}{}", option.name, option.form), option.help);
        }
    }
    out + END
}

/// Append a line with its text in the second column; what is too long goes on below.
fn entry(out: &mut String, left: &str, text: &str) {
    let (indent, width) = COLUMNS;
    let mut line = format!("  {left}");
    if line.len() >= indent {
        *out += &format!("{line}\n");
        line.clear();
    }
    let mut right = String::new();
    for word in text.split(' ') {
        if !right.is_empty() && right.len() + 1 + word.len() > width {
            *out += &format!("{line:<indent$}{right}\n");
            line.clear();
            right.clear();
        }
        if !right.is_empty() {
            right.push(' ');
        }
        right += word;
    }
    *out += &format!("{line:<indent$}{right}\n");
}
