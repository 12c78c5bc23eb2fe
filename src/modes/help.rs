//! The help text, of both modes in one.

use crate::args::prune::options::{OPTIONS, OptionValue, SUBCOMMANDS};

const INTRODUCTION: &str = "\
lto-prune: link-time pruning for x86_64 ELF, in front of any linker

It reads every object of a link, works out what the program can reach, and hands the linker objects from which the
rest is gone. Nothing is recompiled. What it doesn't understand it keeps.

Usage:
";
const EXAMPLES: &str = "
Examples:
  lto-prune main.o util.o -o main --prune-report=main.json
  lto-prune install-shims ~/.local/lib/lto-prune
  gcc -B ~/.local/lib/lto-prune main.o -o main
  clang --ld-path=$HOME/.local/lib/lto-prune/ld.lto-prune main.o -o main -Wl,--prune-why='parse_*'
  RUSTFLAGS=\"-Clink-self-contained=-linker -Clink-arg=-B$HOME/.local/lib/lto-prune\" cargo build

Options (from a compiler: -Wl,--prune-...; or in LTO_PRUNE_FLAGS, which the command line overrides; or in lto-prune.toml in the
folder of the output or one above, or in the file that LTO_PRUNE_CONFIG names, which both override):
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
    entry(&mut out, "ld.lto-prune ...", "in place of lld: GNU ld's command line, as compilers call it");
    for (name, words, help) in SUBCOMMANDS {
        entry(&mut out, &format!("lto-prune {name} {words}"), help);
    }
    out += EXAMPLES;
    for (heading, options) in OPTIONS {
        out += &format!(" {heading}\n");
        for option in *options {
            let value = match option.value {
                OptionValue::None => String::new(),
                OptionValue::Optional(_) => format!("[={}]", option.form),
                _ => format!("={}", option.form),
            };
            entry(&mut out, &format!("--prune-{}{value}", option.name), option.help);
        }
    }
    out + END
}

/// The help of a subcommand that has no options beyond the words of its usage line, or few.
pub(super) fn of_subcommand(name: &str) -> String {
    let of_name = SUBCOMMANDS.iter().filter(|(known, ..)| *known == name);
    of_name
        .map(|(name, words, help)| format!("Usage: lto-prune {name} {words}\n\n{help}\n{}", details(name)))
        .collect()
}

/// The options and files of a subcommand, and where its output is.
fn details(name: &str) -> &'static str {
    match name {
        "install-shims" => "\nThe shims are symbolic links to this program. A file that is no shim is never replaced.\n",
        "summarize" => {
            "\nOne object gives the file OUT; several inputs, or an archive, give OUT/NAME.ltosum each.\n
Options:
  --interface              write an interface (docs/ACTIONS.md) instead of a summary
  --prune-level=LEVEL      the level of the links that will read it: sections, functions; with --interface also
                           pointers, which is the default there
  -o OUT, --output=OUT     the file or folder to write
"
        }
        "emit" => {
            "\nOptions:
  --plan=FILE              the plan of IN, as a link with --prune-plan writes it
  -o OUT, --output=OUT     the file to write
"
        }
        "dump" => "\nFILE is an object, bitcode, an archive, or a summary (.ltosum).\n",
        "explain-trap" => {
            "\nADDRESS is an address of the link, or with a third word BASE one of a process that loaded BINARY at BASE.
CORE is a core file of such a process.\n"
        }
        "cargo" => {
            "\nWords that begin with --prune- go to the links, the others to cargo. Reports are in lto-prune/reports in cargo's target folder.\n"
        }
        "completions" => "\nThe script goes to standard output.\n",
        _ => "",
    }
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
