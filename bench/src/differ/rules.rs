//! Differences that pruning is meant to make, each with the reason. Everything else is a defect.
//!
//! A rule is about a kind of line and a side, never about a case. `-` is what only the plain link has.

use std::collections::BTreeMap;

/// A difference, and what else is known of the pair.
#[derive(Debug)]
pub(crate) struct Difference<'a> {
    /// It begins with its sign, minus or plus.
    pub(crate) line: &'a str,
    pub(crate) all: &'a [String],
    pub(crate) plain: &'a [String],
    pub(crate) words: &'a [String],
    pub(crate) plain_linked: bool,
    /// The linker maps the output over an input of the same name while it reads that.
    pub(crate) overwrites_input: bool,
}

impl Difference<'_> {
    fn asks(&self, options: &[&str]) -> bool {
        self.words.iter().any(|w| options.iter().any(|o| w == o || w.starts_with(&format!("{o}="))))
    }

    fn is_message(&self) -> bool {
        self.line[1..].starts_with("stdout: ") || self.line[1..].starts_with("stderr: ")
    }

    /// What follows `prefix`, which has the sign in it.
    fn after(&self, prefix: &str) -> Option<&str> {
        self.line.strip_prefix(prefix)
    }
}

/// Whether a line that only the pruned link prints is the warning of a limit, which ends with what follows from it, whichever pass
/// met it.
pub(super) fn is_limit(line: &str) -> bool {
    let follows = ["; nothing is pruned", "; the module is kept whole"];
    line.starts_with("+stderr: lto-prune: warning: ") && follows.iter().any(|end| line.ends_with(end))
}

pub(crate) struct Rule {
    pub(crate) name: &'static str,
    pub(crate) reason: &'static str,
    pub(crate) applies: fn(&Difference<'_>) -> bool,
}

pub(crate) const RULES: &[Rule] = &[
    Rule {
        name: "gc-line",
        reason: "--print-gc-sections says nothing of a section that went before the linker saw it, and names what is left of an object of which all else went",
        applies: |d| {
            let rest = [".comment", ".note.GNU-stack"].iter().any(|name| d.line.contains(name));
            d.asks(&["--print-gc-sections"])
                && (d.line.starts_with('-') || rest)
                && d.is_message()
                && d.line.contains("emoving unused section")
        },
    },
    Rule {
        name: "map-text",
        reason: "a map, a cross reference or statistics on standard output list the sections that are linked, and their addresses",
        applies: |d| {
            d.is_message()
                && !d.line.contains("error:")
                && !d.line.contains("warning:")
                && !d.line.contains("lto-prune")
                && d.asks(&["-M", "--print-map", "--cref", "-Map=-", "--stats", "--perf", "--verbose"])
        },
    },
    Rule {
        name: "icf-line",
        reason: "--print-icf-sections says nothing of a section that went before the linker saw it, and selects another one in its place",
        applies: |d| {
            d.asks(&["--print-icf-sections"])
                && (d.line.contains("selected section")
                    || d.line.contains("removing identical section")
                    || d.line.contains("ICF folding")
                    || d.line.contains("ICF saved"))
        },
    },
    Rule {
        name: "traced-symbol",
        reason: "--trace-symbol names files that refer to a symbol or define it; what was dropped does neither",
        applies: |d| {
            let says = ["reference to ", "definition of "].iter().any(|w| d.line.contains(w));
            d.asks(&["--trace-symbol", "-y"]) && d.line.starts_with('-') && d.is_message() && says
        },
    },
    Rule {
        name: "import-of-dropped",
        reason: "a symbol of a shared library that only dropped code refers to is not imported",
        applies: |d| d.line.starts_with("-import: "),
    },
    Rule {
        name: "missing-import",
        reason: "a symbol that nobody has and only dropped code refers to is not imported, so that the output can be loaded",
        applies: |d| {
            let missing = |line: &String| {
                let name = line.strip_prefix("-run prints: ")?.split_once("undefined symbol: ")?.1;
                let name = name.split_whitespace().next()?;
                Some(
                    d.all.iter().any(|l| l.starts_with("-import: ") && l.split(' ').any(|word| word == name)),
                )
            };
            d.line[1..].starts_with("run") && d.all.iter().any(|line| missing(line) == Some(true))
        },
    },
    Rule {
        name: "import-gets-weak",
        reason: "an import is weak if every reference that is left is",
        applies: |d| {
            d.after("+import: ").is_some_and(|i| {
                i.contains(" WEAK ")
                    && d.all.contains(&format!("-import: {}", i.replace(" WEAK ", " GLOBAL ")))
            })
        },
    },
    Rule {
        name: "version-of-dropped",
        reason: "a version is needed by imports, and the last import of it went",
        applies: |d| {
            d.line.starts_with("-needs-version: ")
                && d.all.iter().any(|l| l.starts_with("-import: ") || l.starts_with("-copy: "))
        },
    },
    Rule {
        name: "versions-of-dropped",
        reason: "no version of a library is needed any more, since the imports went",
        applies: |d| {
            d.line[1..].starts_with("needed-versions-of: ")
                && d.all.iter().any(|l| l.starts_with("-needs-version: "))
        },
    },
    Rule {
        name: "copy-of-dropped",
        reason: "only dropped code needed a copy of a library's variable",
        applies: |d| d.line.starts_with("-copy: "),
    },
    Rule {
        name: "copied-export",
        reason: "a variable is exported because it is a copy, and only dropped code needed the copy",
        applies: |d| {
            d.after("-export: ").is_some_and(|e| {
                e.contains(" OBJECT ")
                    && d.plain.iter().any(|f| f.starts_with("copy: "))
                    && d.all.iter().any(|l| l.starts_with("-copy: "))
            })
        },
    },
    Rule {
        name: "local-entry",
        reason: "gold has local symbols in .dynsym for the relocations that mean them, and those of dropped code went",
        applies: |d| d.line.starts_with("-export: ") && d.line.contains(" LOCAL "),
    },
    Rule {
        name: "fewer-relocations",
        reason: "there are no dynamic relocations of a kind any more, or no text relocations: dropped code had the last",
        applies: |d| d.line.starts_with("-relocating-tag: ") || d.line == "-flags: 0x4",
    },
    Rule {
        name: "tls-of-dropped",
        reason: "only dropped code used thread-local variables (of the static model: DF_STATIC_TLS), and they went with it",
        applies: |d| d.line == "-tls: some" || d.line == "-flags: 0x10",
    },
    Rule {
        name: "abi-of-ifunc",
        reason: "a file with an indirect function is marked for the GNU system, and dropped code had the last",
        applies: |d| {
            let both = ["-os-abi: 3", "+os-abi: 0"].map(|line| d.all.iter().any(|l| l == line));
            d.line[1..].starts_with("os-abi: ") && both == [true, true]
        },
    },
    Rule {
        name: "documented-limit",
        reason: "a link that succeeds may say by which limit something was not pruned",
        applies: |d| d.plain_linked && is_limit(d.line),
    },
    Rule {
        name: "version-line",
        reason: "--version and -v name us besides",
        applies: |d| {
            d.line.starts_with("+stdout: lto-prune ") && d.asks(&["--version", "-v", "-V", "--verbose"])
        },
    },
    Rule {
        name: "relocation-list",
        reason: "-z report-relative-reloc lists relocations with their addresses",
        applies: |d| {
            d.is_message()
                && d.words.iter().any(|w| w == "report-relative-reloc")
                && d.line.contains(": R_X86_64_")
        },
    },
    Rule {
        name: "input-overwritten",
        reason: "mold maps the output over the file of that name without a copy, and if that is an input, goes on reading it: its messages, its status and what it writes depend on its threads",
        applies: |d| d.overwrites_input && !d.line.contains("lto-prune"),
    },
    Rule {
        name: "plain-is-broken",
        reason: "the linker alone makes a program that dies by a signal before it prints anything: behind wild one that lives without the thread-local data that we dropped",
        applies: |d| {
            let dies = d.all.iter().any(|line| line.starts_with("-run: signal: "));
            let prints = d.plain.iter().any(|fact| fact.starts_with("run prints: "));
            d.line[1..].starts_with("run") && dies && !prints
        },
    },
    Rule {
        name: "help",
        reason: "--help shows our options before those of the linker",
        applies: |d| d.line.starts_with("+stdout: ") && d.asks(&["--help"]),
    },
];

/// How often each rule explained something.
pub(crate) type RuleCounts = BTreeMap<&'static str, usize>;

/// The rule that explains a difference.
pub(crate) fn explain(difference: &Difference<'_>) -> Option<&'static str> {
    RULES.iter().find(|r| (r.applies)(difference)).map(|r| r.name)
}
