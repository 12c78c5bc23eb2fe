//! Differences that pruning may make, each with the reason. Any other difference is a defect.
//!
//! A rule is about a kind of line and a side. A line begins with `-` if only the plain link has it, with `+` if only the pruned one has it.

use std::collections::BTreeMap;

/// A difference, all differences of the pair, the facts of the plain link, and its words.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Difference<'a> {
    line: &'a str,
    all: &'a [String],
    plain: &'a [String],
    words: &'a [String],
    /// The linker maps the output over an input of the same name while it reads that.
    pub(crate) overwrites_input: bool,
}

impl<'a> Difference<'a> {
    pub(crate) fn new(all: &'a [String], plain: &'a [String], words: &'a [String]) -> Self {
        Difference { line: "", all, plain, words, overwrites_input: false }
    }

    fn plain_linked(&self) -> bool {
        let fails = |fact: &String| fact.starts_with("link status: ") && !fact.ends_with("exit status: 0");
        !self.plain.iter().any(fails)
    }

    fn asks(&self, options: &[&str]) -> bool {
        self.words.iter().any(|w| options.iter().any(|o| w == o || w.starts_with(&format!("{o}="))))
    }

    fn is_message(&self) -> bool {
        self.line[1..].starts_with("stdout: ") || self.line[1..].starts_with("stderr: ")
    }
}

/// Whether a line is the warning of a bailout, which ends with its consequence.
fn is_limit(line: &str) -> bool {
    let follows = ["; nothing is pruned", "; the module is kept whole"];
    line.starts_with("+stderr: lto-prune: warning: ") && follows.iter().any(|end| line.ends_with(end))
}

/// Its name, its reason, and whether it explains a difference.
pub(crate) type Rule = (&'static str, &'static str, fn(&Difference<'_>) -> bool);

pub(crate) const RULES: &[Rule] = &[
    (
        "gc-line",
        "--print-gc-sections does not list a section that was removed before the link, and lists the rest of an object of which all else was removed",
        |d| {
            let rest = [".comment", ".note.GNU-stack"].iter().any(|name| d.line.contains(name));
            d.asks(&["--print-gc-sections"])
                && (d.line.starts_with('-') || rest)
                && d.is_message()
                && d.line.contains("emoving unused section")
        },
    ),
    (
        "region-line",
        "--enable-non-contiguous-regions-warnings lists sections without a place, and removed ones are not among them",
        |d| d.line.starts_with('-') && d.line.contains("--enable-non-contiguous-regions makes section"),
    ),
    (
        "map-text",
        "a map, a cross reference or statistics on standard output list the sections that are linked, and their addresses; gold's trace lists opened files, and wild's times are in any order",
        |d| {
            let asked = [
                "-M",
                "--print-map",
                "--cref",
                "-Map=-",
                "--stats",
                "--perf",
                "--verbose",
                "--debug",
                "--time",
            ];
            d.is_message()
                && !d.line.contains("error: ")
                && !d.line.contains("warning: ")
                && !d.line.contains("lto-prune")
                && d.asks(&asked)
        },
    ),
    (
        "icf-line",
        "--print-icf-sections does not list a section that was removed before the link, and selects another one",
        |d| {
            d.asks(&["--print-icf-sections"])
                && (d.line.contains("selected section")
                    || d.line.contains("removing identical section")
                    || d.line.contains("ICF folding")
                    || d.line.contains("ICF saved"))
        },
    ),
    (
        "traced-symbol",
        "--trace-symbol names files that refer to a symbol or define it; dropped code does neither",
        |d| {
            let says = ["reference to ", "definition of "].iter().any(|w| d.line.contains(w));
            d.asks(&["--trace-symbol", "-y"]) && d.line.starts_with('-') && d.is_message() && says
        },
    ),
    (
        "import-of-dropped",
        "a symbol of a shared library that only dropped code refers to is not imported",
        |d| d.line.starts_with("-import: "),
    ),
    (
        "missing-import",
        "a symbol that is defined nowhere and that only dropped code refers to is not imported, so that the output can be loaded",
        |d| {
            let missing = |line: &String| {
                let name = line.strip_prefix("-run prints: ")?.split_once("undefined symbol: ")?.1;
                let name = name.split_whitespace().next()?;
                Some(
                    d.all.iter().any(|l| l.starts_with("-import: ") && l.split(' ').any(|word| word == name)),
                )
            };
            d.line[1..].starts_with("run") && d.all.iter().any(|line| missing(line) == Some(true))
        },
    ),
    ("crash", "the linker alone fails by an assertion of its own", |d| {
        !d.plain_linked() && d.plain.iter().any(|fact| fact.contains(": Assertion `"))
    }),
    (
        "random-id",
        "--build-id=uuid is another number in each link, and the whole output of -r is hashed",
        |d| d.line[1..].starts_with("relocatable output: ") && d.words.iter().any(|w| w == "--build-id=uuid"),
    ),
    (
        "overflow-of-dropped",
        "with -z nocopyreloc the loader reports a field of 4 bytes that cannot reach a library's variable, and dropped code had it",
        |d| {
            d.line.starts_with("-run prints: ")
                && d.line.contains("causes overflow in R_X86_64_")
                && d.words.iter().any(|w| w == "nocopyreloc")
        },
    ),
    ("import-gets-weak", "an import is weak if all remaining references are", |d| {
        d.line.strip_prefix("+import: ").is_some_and(|i| {
            i.contains(" WEAK ") && d.all.contains(&format!("-import: {}", i.replace(" WEAK ", " GLOBAL ")))
        })
    }),
    ("version-of-dropped", "imports need a version, and the last import of it was removed", |d| {
        d.line.starts_with("-needs-version: ")
            && d.all.iter().any(|l| l.starts_with("-import: ") || l.starts_with("-copy: "))
    }),
    ("versions-of-dropped", "no import of a library is left, so that none of its versions is needed", |d| {
        d.line[1..].starts_with("needed-versions-of: ")
            && d.all.iter().any(|l| l.starts_with("-needs-version: "))
    }),
    ("copy-of-dropped", "only dropped code needed a copy of a library's variable", |d| {
        d.line.starts_with("-copy: ")
    }),
    (
        "copied-export",
        "a variable is exported because it is a copy, and only dropped code needed the copy",
        |d| {
            d.line.strip_prefix("-export: ").is_some_and(|e| {
                e.contains(" OBJECT ")
                    && d.plain.iter().any(|f| f.starts_with("copy: "))
                    && d.all.iter().any(|l| l.starts_with("-copy: "))
            })
        },
    ),
    (
        "local-entry",
        "gold has local symbols in .dynsym for the relocations that refer to them, and those of dropped code are removed",
        |d| d.line.starts_with("-export: ") && d.line.contains(" LOCAL "),
    ),
    (
        "fewer-relocations",
        "there are no dynamic relocations of a kind any more, or no text relocations: dropped code had the last",
        |d| d.line.starts_with("-relocating-tag: ") || d.line == "-flags: 0x4",
    ),
    (
        "tls-of-dropped",
        "only dropped code used thread-local variables (of the static model: DF_STATIC_TLS)",
        |d| d.line == "-tls: some" || d.line == "-flags: 0x10",
    ),
    (
        "abi-of-ifunc",
        "a file with an indirect function is marked for the GNU system, and dropped code had the last",
        |d| {
            let both = ["-os-abi: 3", "+os-abi: 0"].map(|line| d.all.iter().any(|l| l == line));
            d.line[1..].starts_with("os-abi: ") && both == [true, true]
        },
    ),
    ("documented-limit", "a link that succeeds may report the bailout that kept it from being pruned", |d| {
        d.plain_linked() && is_limit(d.line)
    }),
    ("version-line", "--version and -v also print the version of lto-prune", |d| {
        d.line.starts_with("+stdout: lto-prune ") && d.asks(&["--version", "-v", "-V", "--verbose"])
    }),
    ("relocation-list", "-z report-relative-reloc lists relocations with their addresses", |d| {
        d.is_message()
            && d.words.iter().any(|w| w == "report-relative-reloc")
            && d.line.contains(": R_X86_64_")
    }),
    (
        "input-overwritten",
        "mold maps the output over a file of that name without a copy; if that is an input, messages, status and output depend on its threads",
        |d| d.overwrites_input && !d.line.contains("lto-prune"),
    ),
    (
        "plain-is-broken",
        "the linker alone makes a program that a signal ends before it prints anything; with wild, the pruned one lives without thread-local data",
        |d| {
            let dies = d.all.iter().any(|line| line.starts_with("-run: signal: "));
            let prints = d.plain.iter().any(|fact| fact.starts_with("run prints: "));
            d.line[1..].starts_with("run") && dies && !prints
        },
    ),
    ("help", "--help shows the options of lto-prune before those of the linker", |d| {
        d.line.starts_with("+stdout: ") && d.asks(&["--help"])
    }),
];

/// How often each rule explained a difference.
pub(crate) type RuleCounts = BTreeMap<&'static str, usize>;

/// The differences of a pair that no rule explains. `counts` counts the others.
pub(crate) fn unexplained(pair: Difference<'_>, counts: &mut RuleCounts) -> Vec<String> {
    let mut left = Vec::new();
    for line in pair.all {
        let difference = Difference { line, ..pair };
        match RULES.iter().find(|(_, _, applies)| applies(&difference)) {
            Some((rule, _, _)) => *counts.entry(rule).or_default() += 1,
            None => left.push(line.clone()),
        }
    }
    left
}
