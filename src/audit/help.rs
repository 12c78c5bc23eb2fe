//! The help of `lto-prune audit` and of each of its commands.

use super::args::Command;

pub(super) fn text(command: Option<Command>) -> &'static str {
    match command {
        None => ALL,
        Some(Command::Top) => TOP,
        Some(Command::Dominators) => DOMINATORS,
        Some(Command::Why) => WHY,
        Some(Command::Paths) => PATHS,
        Some(Command::Reach) => REACH,
        Some(Command::Garbage) => GARBAGE,
        Some(Command::Duplicates) => DUPLICATES,
        Some(Command::Limits) => LIMITS,
        Some(Command::Calls) => CALLS,
        Some(Command::Graph) => GRAPH,
        Some(Command::Imports) => IMPORTS,
        Some(Command::Stack) => STACK,
        Some(Command::Diff) => DIFF,
        Some(Command::Budget) => BUDGET,
        Some(Command::Html) => HTML,
    }
}

/// The commands of `audit`, with the help of each.
pub(crate) fn commands() -> Vec<(&'static str, &'static str)> {
    Command::ALL.iter().map(|&(name, command)| (name, text(Some(command)))).collect()
}

const ALL: &str = "\
lto-prune audit: why a program is as large as it is, from the report of its link or from the file

Usage: lto-prune audit COMMAND [options] [names] [FILE] REPORT.json | LINK LINE
       lto-prune audit top|duplicates|html|stack|budget [options] FILE
       lto-prune audit diff [options] OLD NEW

REPORT.json is what --prune-report=FILE wrote. A line of objects and options (a.o b.o -lm) is linked first, as
`lto-prune a.o b.o -lm` does, and the output is thrown away. Options of ours stand before the line; -- ends them.
FILE is any x86_64 executable, shared library, object or archive. An object or archive alone is such a file for top,
duplicates, html and budget; behind -- it is a link line. With FILE and its report, the audit checks that they belong
together.

Commands:
  top                what the bytes of the file are, the largest first; they add up to its length
  dominators         what would go if something went: retained sizes
  why SYMBOL         what keeps it: paths, and the fewest references to remove so that it goes
  paths FROM TO      how one thing leads to another
  reach SYMBOL...    whether code of functions is in the program: removed, absent, or reachable, and how; VEX documents
  garbage            what was dropped, and why
  duplicates         the same code or data in several places
  limits             what was kept because it was not understood, and what to do about it
  calls              what indirect calls may call, or what stops following them, and what they keep
  graph              the call graph of what is kept: Graphviz, JSON, CSV, folded stacks
  imports            what is used and defined elsewhere, by library
  stack FILE [ENTRY...]
                     the worst-case stack of a linked file, and the reasons where there is no bound
  diff OLD NEW       what a change cost; the differences add up exactly
  budget FILE        limits of size, for CI: status 1 where one is broken
  html               a page with a map of the sizes, search, and what keeps what; needs no network

Options of all tables: -n N (rows, 0: all), --json, --csv, --format=table|json|csv|markdown, --help
";

const TOP: &str = "\
lto-prune audit top: what the bytes of the linked file are, the largest first

Usage: lto-prune audit top [options] [FILE] REPORT.json | FILE | LINK LINE

  --all              all bytes of the file, with debug information and symbol tables, and not only the loaded ones
  --by=symbol|module|archive|section|category|namespace|crate|generic|template
                     what a line is (default: symbol). generic joins the instances of a template or generic function
  --depth=N          segments of a namespace (default: 1)
  --std              with --by=crate: core and alloc count as std
  --bss              zero-initialised memory instead of bytes of the file
  -n N               rows (default: 20; 0: all)
  --json, --csv, --format=table|json|csv|markdown

A line in brackets is of no symbol: headers, padding, tables that the linker made, strings that it merged. All lines
together are the loaded bytes of the file exactly, or with --all its length; --by=section has the sizes of `size -A`.

FILE needs no report: sizes come from its symbols, else from its unwind entries, else from where calls and
pointers lead; source files come from its debug information. A function has its unwind entry, its relocations, its
entries in symbol tables, and the constants without a symbol that it refers to first.

Examples:
  lto-prune audit top /bin/bash
  lto-prune audit top --all --by=module libfoo.a
  lto-prune audit top main.json
  lto-prune audit top --by=crate -n 0 target/app.json
  lto-prune audit top --by=module main.o util.o -lm
";

const DOMINATORS: &str = "\
lto-prune audit dominators: what would go if something went

Usage: lto-prune audit dominators [options] REPORT.json | LINK LINE

  -n N               rows (default: 20; 0: all)
  --depth=N          print the tree, so many levels deep, instead of a list
  --json, --csv, --format=table|json|csv|markdown

Retained is the size of a function or object and of everything that only it keeps, directly or not. It is exact at the
levels sections and functions, and a lower bound at the level pointers.

Examples:
  lto-prune audit dominators main.json
  lto-prune audit dominators --depth=3 main.json
";

const WHY: &str = "\
lto-prune audit why: what keeps a symbol, and what would have to change so that it goes

Usage: lto-prune audit why [options] SYMBOL REPORT.json | LINK LINE

SYMBOL is a name as the linker or as the programmer writes it, with or without parameters, or a pattern (*, ?, []);
of several that have it one is MODULE:SYMBOL, and what has no symbol goes by its place, 'a.o:(.rodata)'. It may be a
symbol of a library, which then is what goes.

  --keep=GLOB        what has to stay, besides the entry and main; may be repeated
  -n N               rows (default: 20; 0: all)
  --json, --csv, --format=table|json|csv|markdown

It prints a shortest path from what is live by itself, the fewest references to remove so that the symbol goes (the
cut), with the bytes that go along, and as many paths that share none of them, which shows that fewer would not do.

Examples:
  lto-prune audit why vfprintf main.json
  lto-prune audit why 'std::ios_base::Init::Init' --keep='log_*' main.o log.o
";

const PATHS: &str = "\
lto-prune audit paths: how one thing leads to another

Usage: lto-prune audit paths [options] FROM TO REPORT.json | LINK LINE

  -n N               paths (default: 20; 0: all)
  --json, --csv, --format=table|json|csv|markdown

A shortest path first, then others; no reference is in two of them.

Examples:
  lto-prune audit paths main parse_options main.json
";

const REACH: &str = "\
lto-prune audit reach: whether the code of functions is in the program, as a proof of absence for advisories

Usage: lto-prune audit reach [options] SYMBOL... REPORT.json | LINK LINE

The first word that is the name of a file is the report, or begins the link line. A symbol is a name as the linker or as
the programmer writes it, or a pattern. The clones of a function (f.part.0, f.cold) count as the function.

  --from=FILE        symbols, one on a line; # begins a comment
  --scope=program|file
                     whether the claim covers the shared libraries that the program loads (default: program)
  --format=table|text|json|csv|markdown|openvex|cyclonedx
  --vulnerability=ID, --product=PURL
                     what an OpenVEX or CycloneDX document is about
  --author=NAME      who makes the statement (default: Unknown Author)
  --timestamp=TIME   the time of the document, as 2026-01-31T12:00:00Z (default: SOURCE_DATE_EPOCH, or now)
  -n N               rows (default: 20; 0: all)
  --json, --csv

Verdicts: reachable (with a shortest path), present (in the file, and no path is known), inlined (a copy is in another
function), imported (from a shared library), unknown, removed (a module defined it and the link dropped it), absent (no
module defines it).

Removed and absent are proved if debug information describes all code of the file and names no inlined copy. Only then
the status is 0, and a VEX document says vulnerable_code_not_present; else the status is 1, and 2 for a wrong word.

Examples:
  lto-prune audit reach png_handle_iCCP main.json
  lto-prune audit reach --from=functions.txt --format=openvex --vulnerability=CVE-2026-0001 \\
    --product=pkg:generic/main@1.0 main.o libz.a
";

const GARBAGE: &str = "\
lto-prune audit garbage: what was dropped, and why

Usage: lto-prune audit garbage [options] REPORT.json | LINK LINE

  --by=symbol|module|archive|section|category|namespace|crate|generic|template
  --depth=N          segments of a namespace (default: 1)
  --std              with --by=crate: core and alloc count as std
  -n N               rows (default: 20; 0: all)
  --json, --csv, --format=table|json|csv|markdown

Examples:
  lto-prune audit garbage main.json
  lto-prune audit garbage --by=archive main.json
";

const DUPLICATES: &str = "\
lto-prune audit duplicates: the same code or data in several places of the program

Usage: lto-prune audit duplicates [options] [FILE] REPORT.json | FILE | LINK LINE

  -n N               rows (default: 20; 0: all)
  --json, --csv, --format=table|json|csv|markdown

The same are bytes and references to the same, at the same places. Waste is what all copies but one take. Merged is what
the linker joins by itself (strings and constants); folded what it was asked to (--icf).

Of a FILE without a report, functions and constants with a symbol are compared. In a linked file relative addresses
differ between copies, and two functions with the same bytes may call different ones. Of objects, relocations are
compared too.

Examples:
  lto-prune audit duplicates main.json
  lto-prune audit duplicates main.o
";

const LIMITS: &str = "\
lto-prune audit limits: what was kept because it was not understood, and what to do about it

Usage: lto-prune audit limits [options] REPORT.json | LINK LINE

  --json, --csv, --format=table|json|csv|markdown

Examples:
  lto-prune audit limits main.json
";

const CALLS: &str = "\
lto-prune audit calls: what indirect calls may call, or what stops following them, and what they keep

Usage: lto-prune audit calls [options] REPORT.json | LINK LINE

  -n N               rows (default: 20; 0: all)
  --json, --csv, --format=table|json|csv|markdown

The calls are those of functions that live, of a link with --prune-level=pointers (the default) in which values were
followed; --prune-gate=0 follows them in every link. Bytes are what would go without the call. Those that nobody knows
may call every function whose address escaped, and what these keep hangs on all such calls together.

Examples:
  lto-prune audit calls main.json
  lto-prune audit calls -n 0 --prune-gate=0 main.o util.o
";

const GRAPH: &str = "\
lto-prune audit graph: the call graph of the functions that the program keeps

Usage: lto-prune audit graph [options] REPORT.json | LINK LINE

  --format=table|text|json|csv|markdown|dot|folded
                     dot is for Graphviz; folded has a shortest chain to each function, with its bytes
  -n N               rows of a table (default: 20; 0: all)
  --json, --csv      edges with nodes, or edges alone

Kinds of edges: call; part (of one function); address (the code has the address, and may call it too); resolved (an
indirect call whose callees are known by value flow); unresolved (an indirect call that leads to [any function whose
address is taken]), and address-taken (from there to each of these). Indirect calls are known with
--prune-level=pointers.

Examples:
  lto-prune audit graph --format=dot main.json | dot -Tsvg > main.svg
  lto-prune audit graph --format=csv -- --prune-level=pointers main.o
";

const IMPORTS: &str = "\
lto-prune audit imports: what the program uses and others define, by library

Usage: lto-prune audit imports [options] REPORT.json | LINK LINE

  -n N               rows (default: 20; 0: all)
  --json, --csv, --format=table|json|csv|markdown

Symbols that few refer to come first: they are the easiest to do without. audit why says what refers to one of them, and
audit paths how the program comes to it.

Examples:
  lto-prune audit imports main.json
  lto-prune audit why printf main.json
  lto-prune audit paths main printf main.json
";

const STACK: &str = "\
lto-prune audit stack: the worst-case stack of a linked file

Usage: lto-prune audit stack [options] FILE [REPORT.json] [ENTRY...] | REPORT.json [ENTRY...] | [ENTRY...] LINK LINE

  --assume=FUNCTION=BYTES
                     the bound of a function or import, with all its callees and its return address; or of a pattern
  --call=CALLER=CALLEE
                     the indirect calls of a function lead to this one; may be repeated
  --library=FILE     analyse a shared library, too; may be repeated
  --address-taken    functions whose address is taken are entries, too
  -n N               rows (default: 20; 0: all)
  --json, --csv, --format=table|json|csv|markdown

Without ENTRY the entries are main, the start of the program, constructors, threads and handlers that are easily seen,
and the exported functions of a library. The depth of a function counts its return address, and memory that it uses
below the stack pointer. A bound holds for each path through the code. An entry has none if it may reach a recursion,
an indirect call with unknown callees, an import, or a frame of a size that is only known as the program runs. Then the
table has the depth that is known and all causes. Signal handlers run on top of it; the kernel's part is not counted.

Examples:
  lto-prune audit stack ./app main
  lto-prune audit stack --assume='printf=4096' --assume='exit=0' ./app main
  lto-prune audit stack --call=sort_by=compare_names ./app app.json worker
";

const DIFF: &str = "\
lto-prune audit diff: what a change cost

Usage: lto-prune audit diff [options] OLD.json NEW.json
       lto-prune audit diff [options] OLD NEW        two files without reports

  --all              all bytes of the files, and not only the loaded ones
  --by=symbol|module|archive|section|category|namespace|crate|generic|template
  --depth=N          segments of a namespace (default: 1)
  --std              with --by=crate: core and alloc count as std
  --bss              zero-initialised memory instead of bytes of the file
  -n N               rows (default: 20; 0: all)
  --json, --csv, --format=table|json|csv|markdown

The differences add up to that of the loaded bytes exactly, or with --all to that of the two files.

Examples:
  lto-prune audit diff before.json after.json
  lto-prune audit diff --by=module --format=markdown before.json after.json >> $GITHUB_STEP_SUMMARY
";

const BUDGET: &str = "\
lto-prune audit budget: limits of size, for CI

Usage: lto-prune audit budget [options] FILE.toml [FILE] REPORT.json | FILE | LINK LINE

  --assume, --call, --library
                     for limits of stacks, as audit stack takes them
  --ratchet          lower each limit in FILE.toml that is above the present size to that size; raise none
  --format=table|text|json|csv|markdown|sarif
  --json, --csv

The exit status is 1 where a limit is broken, and 2 for a mistake in the words or the file. The file:

  total = \"3 MiB\"              # the linked file; a number is of bytes; k, KB, M, K, KiB, MiB are understood
  bss = 65536                  # zero-initialised memory

  [stack]                      # the worst case; an entry without a bound breaks it
  main = \"64 KiB\"

  [section]                    # also [category], [module], [archive], [symbol], [namespace]
  \".text\" = 1_500_000
  \".debug*\" = 0                # a pattern: all that match, together

A limit of what the link doesn't have is broken, as a misspelt one would hold for ever; 0 is for what must not be there.

Examples:
  lto-prune audit budget size.toml main.json
  lto-prune audit budget --format=markdown size.toml main.json >> $GITHUB_STEP_SUMMARY
";

const HTML: &str = "\
lto-prune audit html: a page with a map of the sizes, search, and what keeps what

Usage: lto-prune audit html [options] [FILE] REPORT.json | FILE | LINK LINE

  --all              all bytes of the file, and not only the loaded ones
  -o FILE, --output=FILE
                     where the page goes (default: standard output)
  --old=OLD.json     an older report, or with FILE an older file: sizes before and after, and changes

The page is one file, opens from anywhere and asks nothing of a network. A click on a symbol says what keeps it and what
would go with it. The tables behind it are those of the other commands, which have --json and --csv.

Examples:
  lto-prune audit html -o size.html main.json
  lto-prune audit html --old=before.json -o change.html after.json
";
