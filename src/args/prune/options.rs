//! The table of our own options: the parser, `--help` and the completions of shells are made from it.
//!
//! Left out: what an option does with its value, which is the parser's.

/// What may follow the equals sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptionValue {
    None,
    File,
    Folder,
    OneOf(&'static [&'static str]),
    /// One of these words, or no value at all.
    Optional(&'static [&'static str]),
    Other,
}

/// An option, with the text that `--help` has of it.
#[derive(Debug)]
pub struct PruneOption {
    /// The name without the prefix `--prune-`.
    pub name: &'static str,
    pub value: OptionValue,
    /// The form of its value in `--help`; empty if it takes none.
    pub form: &'static str,
    pub help: &'static str,
}

const fn option(
    name: &'static str,
    value: OptionValue,
    form: &'static str,
    help: &'static str,
) -> PruneOption {
    PruneOption { name, value, form, help }
}

use OptionValue::{File, Folder, None, OneOf, Optional, Other};

/// Every option of ours, below the headings of `--help`.
pub const OPTIONS: &[(&str, &[PruneOption])] = &[
    (
        "What is pruned",
        &[
            option(
                "level",
                OneOf(&[
                    "off",
                    "sections",
                    "functions",
                    "pointers",
                    "off:sections",
                    "off:functions",
                    "off:pointers",
                ]),
                "off|sections|functions|pointers",
                "how far to go (default: pointers, within --prune-budget); off links the originals and, with a report, says \
                 what would go; off:LEVEL at another level",
            ),
            option(
                "debug",
                OneOf(&["keep", "shrink", "drop"]),
                "keep|shrink|drop",
                "shrink: types and declarations that nothing kept refers to are removed; drop: an object loses its debug information with the first thing that goes from it, as always with -s or -S \
                 (default: keep)",
            ),
            option(
                "unwind",
                OneOf(&["keep", "unused", "drop"]),
                "keep|unused|drop",
                "unused: unwind entries (.eh_frame) that no exception, thread exit or backtrace of the program can need are removed; \
                 drop: all are removed; debuggers find them in .debug_frame (default: keep)",
            ),
            option("keep", Other, "GLOB", "keep these symbols; may be repeated"),
            option("stub-symbol", Other, "GLOB", "for tests: make these functions stubs, whatever is needed"),
            option(
                "limit",
                Other,
                "N|N@LINK,...",
                "drop only the first N atoms (of each link; of these links and nothing of others), see bisect",
            ),
            option(
                "limit-log",
                File,
                "FILE",
                "for bisect: add a line of JSON: id of the link, how many atoms could be dropped",
            ),
            option(
                "strict",
                None,
                "",
                "treat warnings about a link that is not pruned as errors, with status 1 and no output; so also a file of a \
                 --prune option that cannot be written",
            ),
        ],
    ),
    (
        "What is reported (%o in the name of a file is the name of the link's output, docs/REPORT_FORMAT.md)",
        &[
            option("report", File, "FILE", "everything kept and dropped, with reasons, as JSON"),
            option("remarks", File, "FILE", "LLVM optimisation remarks, as YAML"),
            option("why", Other, "GLOB", "why these symbols were kept or dropped; may be repeated"),
            option(
                "log",
                File,
                "FILE",
                "add all messages of the link and its --prune-stats, also where the compiler hides them; one file serves a build",
            ),
            option(
                "stats",
                Optional(&["full"]),
                "full",
                "three lines on the terminal: the loaded bytes with and without pruning, the largest reason for what was kept, \
                 and what else could be removed; full: the table of sizes and every reason",
            ),
            option("time", None, "", "time of each pass"),
        ],
    ),
    (
        "What is left behind",
        &[
            option("emit", Folder, "DIR", "keep the pruned objects and a script that links them"),
            option("repro", File, "FILE.tar", "inputs and command line of this link"),
        ],
    ),
    (
        "A link in actions of its own, for build systems (docs/ACTIONS.md)",
        &[
            option(
                "plan",
                Folder,
                "DIR",
                "link nothing: write DIR/FILE.ltoplan for each FILE that has an interface",
            ),
            option(
                "interfaces",
                Folder,
                "DIR",
                "take summaries from DIR/FILE.ltoif; with --prune-plan, in place of FILE",
            ),
            option(
                "emitted",
                Folder,
                "DIR",
                "take pruned objects from DIR/FILE, where they are what this link would make",
            ),
        ],
    ),
    (
        "How it runs",
        &[
            option(
                "linker",
                File,
                "PATH",
                "the linker behind; else $LTO_PRUNE_LINKER, the linker that the shim is named after, or lld",
            ),
            option(
                "worth",
                Other,
                "BYTES",
                "leave a module as it is from which fewer bytes would go; 0: decode all modules, and remove every byte (default: 256 in a link with \
                 64 KiB of code or more; 0 in smaller ones and where a level is named)",
            ),
            option(
                "budget",
                Other,
                "BYTES",
                "at the level pointers, follow addresses only in links with at most so much live code (default: 16384; where \
                 the level is named: any)",
            ),
            option(
                "gate",
                Other,
                "PERCENT",
                "at the level pointers, follow addresses only if at least so much of the code lives because its address is \
                 mentioned (default: 2)",
            ),
            option("jobs", Other, "N", "threads (default: one for each processor)"),
            option(
                "cache",
                Folder,
                "DIR",
                "the cache of what large sections of code were divided into, and of pruned objects (default: lto-prune in \
                 $XDG_CACHE_HOME or ~/.cache; about 1 GiB at most); nobody else may be able to write to it",
            ),
            option("no-cache", None, "", "no cache"),
        ],
    ),
];

pub fn all() -> impl Iterator<Item = &'static PruneOption> {
    OPTIONS.iter().flat_map(|(_, options)| *options)
}

/// The subcommands: name, the words behind it, and what it does.
pub const SUBCOMMANDS: &[(&str, &str, &str)] = &[
    (
        "install-shims",
        "DIR",
        "make links in DIR by the names of linkers (ld, ld.lld, ld.lto-prune, ...) for gcc -B DIR, and files for CMake and Meson",
    ),
    (
        "cargo",
        "COMMAND ...",
        "run a command of cargo whose links go through lto-prune, and print their statistics (also: cargo lto-prune COMMAND)",
    ),
    ("audit", "COMMAND ...", "what the bytes of a program are, and what keeps them (audit --help)"),
    (
        "advise",
        "[--runs=N] [--test=CMD] -- LINK COMMAND",
        "link again with other options, and print what each of them saves (advise --help)",
    ),
    (
        "bisect",
        "[--repeat=N] [--timeout=S] -- COMMAND...",
        "which dropped function or object makes COMMAND fail (bisect --help)",
    ),
    (
        "split",
        "[--data] IN -o OUT",
        "rewrite objects, archives or a folder of them as if built with -ffunction-sections [and -fdata-sections] \
         (split --help)",
    ),
    ("explain-trap", "BINARY ADDRESS|CORE", "which pruned function was run, should one ever be"),
    (
        "summarize",
        "[--interface] IN... -o OUT",
        "write a module summary ahead of the link, or what a link can be planned with in place of IN",
    ),
    ("emit", "--plan=FILE IN -o OUT", "prune the object or archive IN by its plan (docs/ACTIONS.md)"),
    ("dump", "FILE", "print a summary as text"),
    ("completions", "bash|zsh|fish", "print a script that completes our options in this shell"),
];
