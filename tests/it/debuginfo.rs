//! Debug information of kept code stays correct: `addr2line` gives the same answers on the pruned and on the plain program, for every kept function
//! and for addresses inside it.
//!
//! Both binutils' and LLVM's reader are tested, since they use different tables.

use std::collections::BTreeMap;

use object::{Object, ObjectSection};

use crate::elf::Facts;
use crate::run::{Outcome, Session};
use crate::tools::{self, Linker};

const FILES: &str = include_str!("programs/debuginfo.txt");

const MAIN: &str = include_str!("programs/debuginfo_main.c");
const HELPER: &str = include_str!("programs/debuginfo_helper.c");
const INLINE: &str = "static inline int scaled(int x) {\n    int y = x * 7;\n    return y ^ 3;\n}\n";

/// The sources of most programs here.
pub(crate) const PROGRAM: [(&str, &str); 3] = [("main.c", MAIN), ("helper.c", HELPER), ("inline.h", INLINE)];

/// A session with sources, and the folders `plain` with lld and `shims` with the tool.
pub(crate) fn prepare(name: &str, sources: &[(&str, &str)]) -> Session {
    let session = Session::new(&format!("debuginfo/{name}"));
    for (file, text) in sources {
        session.write(file, text);
    }
    tools::shim_dir(&session.path("plain"), &Linker::Lld.path());
    session.shims();
    session
}

/// Links by a compiler driver with the linker of a folder; `flags` are for the tool, in front of lld.
pub(crate) fn linked(session: &mut Session, driver: &str, folder: &str, words: &str, flags: &str) -> Outcome {
    let job = session.job(&format!("{driver} -B {folder} {words}")).by(Linker::Lld);
    session.must(&job.env("LTO_PRUNE_FLAGS", flags))
}

/// Compile with `flags`, with sections for each function and without, link both ways, ask the readers.
fn compare(name: &str, compiler: &str, flags: &str, linkers: &[Linker]) {
    for (linker, split) in linkers.iter().flat_map(|linker| [(linker, true), (linker, false)]) {
        let form = if split { "sections" } else { "whole" };
        let name = format!("{name}-{compiler}-{}-{form}", linker.name());
        let mut session = prepare(&name, &PROGRAM);
        let sections = if split { "-ffunction-sections -fdata-sections" } else { "-fno-function-sections" };
        session.cmd(&format!("{compiler} {sections} -c main.c helper.c {flags}"));
        tools::shim_dir(&session.path("alone"), &linker.path());
        for (shims, out, flags) in [
            ("alone", "plain.out", ""),
            ("shims", "pruned.out", "--prune-strict"),
            ("shims", "shrunk.out", "--prune-strict --prune-debug=shrink"),
        ] {
            let job = session.job(&format!("{compiler} -B {shims} -no-pie main.o helper.o -o {out}"));
            session.must(&job.by(*linker).env("LTO_PRUNE_FLAGS", flags));
        }
        let [in_plain, in_pruned, in_shrunk] =
            ["plain.out", "pruned.out", "shrunk.out"].map(|file| debug_bytes(&session.path(file)));
        // An undivided unit, or one with split debug information, may need a few bytes more.
        let is_simple = !flags.contains("-gsplit-dwarf") && !flags.contains("-fdebug-types-section");
        let sizes = format!("bytes of debug information: {in_plain}, {in_pruned}, {in_shrunk}");
        session.check(!is_simple || in_shrunk <= in_pruned && in_pruned < in_plain, &sizes);
        let plain = session.facts("plain.out");
        let pruned = session.facts("pruned.out");
        let shrunk = session.facts("shrunk.out");
        let is_followed = split || !flags.contains("-gsplit-dwarf") || flags.contains("-gdwarf-4");
        session.check(!is_followed || !pruned.defined.contains("dead_between"), "dead_between is not gone");
        let addresses = |facts: &Facts| facts.functions.iter().cloned().collect::<BTreeMap<String, u64>>();
        let (plain, pruned, shrunk) = (addresses(&plain), addresses(&pruned), addresses(&shrunk));
        let names: Vec<&String> = ["main", "helper", "table_entry", "local"]
            .iter()
            .map(|n| pruned.get_key_value(*n).unwrap().0)
            .collect();
        // Neither is a removed function described, nor does readelf find a fault that it does not find in the plain program.
        if is_simple {
            let dumps = ["plain.out", "pruned.out", "shrunk.out"].map(|file| {
                let dump = session.job(&format!("readelf --debug-dump=info,loc,Ranges,aranges {file}"));
                session.run(&dump)
            });
            let faults = dumps.each_ref().map(|dump| dump.stderr.lines().count());
            // Of a table of offsets, as clang writes them, readelf wants each list to be used.
            let is_listed = compiler != "gcc" && flags.contains("-gdwarf-5");
            session.check(is_listed || faults[1] <= faults[0] && faults[2] <= faults[0], &dumps[1].stderr);
            let [plain, pruned, shrunk] = dumps.map(|dump| dump.stdout.contains("dead_between"));
            session.check(flags.contains("-gline-tables-only") || plain, "nothing is described");
            session.check(!pruned && !shrunk, "a removed function is described");
        }
        // LLVM reports the tombstones that linkers write for removed sections. It does not end on ranges of no bytes, which gcc writes with
        // optimisation.
        if !split && !flags.contains("-gsplit-dwarf") && (compiler != "gcc" || flags.contains("-O0")) {
            let statuses = ["pruned.out", "shrunk.out", "plain.out"].map(|file| {
                let job = session.job(&format!("llvm-dwarfdump-19 --verify --error-display=summary {file}"));
                session.run(&job).status
            });
            session.check_eq(&statuses[0], &statuses[2], "llvm-dwarfdump --verify");
            session.check_eq(&statuses[1], &statuses[2], "llvm-dwarfdump --verify of the shrunk program");
        }
        for reader in ["addr2line", "llvm-addr2line-19"] {
            let mut answers = Vec::new();
            for (file, table) in [("plain.out", &plain), ("pruned.out", &pruned), ("shrunk.out", &shrunk)] {
                let mut job = session.job(&format!("{reader} -f -i -e {file}"));
                for name in &names {
                    // Inside as well: the first bytes of any of these are code at every level.
                    for offset in [0, 1, 3, 5] {
                        job = job.arg(format!("{:#x}", table[*name] + offset));
                    }
                }
                answers.push(session.must(&job).stdout);
            }
            session
                .check(answers[0].contains("main.c:"), &format!("{reader} knows nothing:\n{}", answers[0]));
            session.check_eq(&answers[1], &answers[0], &format!("{reader} of {names:?}"));
            session.check_eq(&answers[2], &answers[0], &format!("{reader} of {names:?}, shrunk"));
        }
    }
}

/// The bytes of all debug sections of a file.
pub(crate) fn debug_bytes(path: &std::path::Path) -> u64 {
    let bytes = std::fs::read(path).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let is_debug =
        |section: &object::Section<'_, '_>| section.name().is_ok_and(|name| name.starts_with(".debug"));
    file.sections().filter(is_debug).map(|section| section.size()).sum()
}

macro_rules! debug_formats {
    ($($name:ident: $compiler:literal $flags:literal $linkers:expr;)*) => {
        $(#[test]
        fn $name() {
            compare(stringify!($name), $compiler, $flags, &$linkers);
        })*
    };
}

debug_formats! {
    gcc_dwarf_2: "gcc" "-O2 -g -gdwarf-2" [Linker::Lld, Linker::Bfd];
    gcc_dwarf_3: "gcc" "-Os -g -gdwarf-3" [Linker::Lld, Linker::Gold];
    gcc_dwarf_4: "gcc" "-O1 -g -gdwarf-4" Linker::ALL;
    gcc_dwarf_5: "gcc" "-O2 -g -gdwarf-5" Linker::ALL;
    gcc_compressed: "gcc" "-O1 -g -gz" [Linker::Lld, Linker::Bfd];
    gcc_unoptimised: "gcc" "-O0 -g" [Linker::Lld, Linker::Mold];
    gcc_type_units: "gcc" "-O0 -g -fdebug-types-section" [Linker::Lld, Linker::Bfd];
    gcc_split: "gcc" "-O1 -g -gsplit-dwarf" [Linker::Lld];
    gcc_split_dwarf_4: "gcc" "-O2 -g -gsplit-dwarf -gdwarf-4" Linker::ALL;
    gcc_split_unoptimised: "gcc" "-O0 -g -gsplit-dwarf -gdwarf-4" [Linker::Bfd, Linker::Mold];
    clang_split_dwarf_4: "clang-19" "-O2 -g -gsplit-dwarf -gdwarf-4" Linker::ALL;
    clang_dwarf_4: "clang-19" "-O1 -g -gdwarf-4" Linker::ALL;
    clang_dwarf_5: "clang-19" "-O2 -g -gdwarf-5" Linker::ALL;
    clang_aranges: "clang-19" "-O0 -g -gdwarf-4 -gdwarf-aranges" [Linker::Lld, Linker::Bfd];
    clang_line_tables_only: "clang-19" "-O2 -gline-tables-only" [Linker::Lld, Linker::Gold];
}

#[test]
fn debug_information_that_keeps_an_object_is_counted() {
    // A .dwo file of DWARF 5 can't be rewritten: the object is kept whole, and the report has the number of bytes.
    let mut session = prepare("kept", &PROGRAM);
    session.cmd("gcc -O1 -g -gsplit-dwarf -fno-function-sections -c main.c helper.c");
    let said =
        session.link(Linker::Lld, "gcc -B shims -no-pie main.o helper.o -o out -Wl,--prune-stats=full");
    let mut lines = said.stdout.lines().chain(said.stderr.lines());
    let line = lines.find(|l| l.starts_with("limit debug-info (module): ")).unwrap_or_default();
    session.check(line.contains("2 places, ") && line.contains(" bytes, first: main.o: "), line);
    session.check(line.contains("DWARF 5") && line.contains("compile with -gdwarf-4"), line);
    session.check(!said.stderr.contains("warning"), &said.stderr);
}

/// In each function there are blocks whose code is in several ranges.
pub(crate) const BLOCKS: &str = include_str!("programs/debuginfo_blocks.c");

#[test]
fn lists_of_dwo_files_stay_where_they_were() {
    // In DWARF 4 a .dwo file refers to lists of .debug_ranges by their offset, here also in an object that `ld -r` joined.
    for (compiler, joined) in [("gcc", false), ("gcc", true), ("clang-19", false), ("clang-19", true)] {
        let main =
            "int first(int), second(int); int main(int c, char **v) { return first(c) - second(c); }\n";
        let [a, b] = ["first", "second"].map(|name| BLOCKS.replace("NAME", name));
        let mut session =
            prepare(&format!("dwo-{compiler}-{joined}"), &[("a.c", &a), ("b.c", &b), ("main.c", main)]);
        session.cmd(&format!(
            "{compiler} -O2 -g -gdwarf-4 -gsplit-dwarf -fno-function-sections -c a.c b.c main.c"
        ));
        let objects = if joined { "joined.o main.o" } else { "a.o b.o main.o" };
        if joined {
            session.cmd("ld -r -o joined.o a.o b.o");
        }
        let mut answers = Vec::new();
        for shims in ["plain", "shims"] {
            linked(
                &mut session,
                "gcc",
                shims,
                &format!("-no-pie -o {shims}.out {objects}"),
                "--prune-strict",
            );
            let facts = session.facts(&format!("{shims}.out"));
            session.check_eq(&facts.defined.contains("first_dead"), &(shims == "plain"), "first_dead");
            // The places of variables are distances from the start of their function.
            let mut said = String::new();
            for name in ["first", "second", "main"] {
                let start = facts.functions.iter().find(|(n, _)| n == name).unwrap().1;
                let job = session.job("gdb -nx -batch -ex").arg(format!("info scope {name}"));
                let scope = session.must(&job.arg(format!("{shims}.out"))).stdout;
                for word in scope.split_whitespace() {
                    let bounds = word.trim_end_matches(':').split('-').map(|a| a.trim_start_matches("0x"));
                    let bounds: Vec<_> = bounds.map(|a| u64::from_str_radix(a, 16)).collect();
                    match bounds.as_slice() {
                        [Ok(a), Ok(b)] => said += &format!("{:#x}-{:#x} ", a - start, b - start),
                        _ => said += &format!("{word} "),
                    }
                }
                let mut blocks = session.job(&format!("llvm-symbolizer-19 --inlines -e {shims}.out"));
                for offset in 0..80 {
                    blocks = blocks.arg(format!("{:#x}", start + offset));
                }
                let lines = session.must(&blocks).stdout;
                said += &format!("{name}\n{lines}");
            }
            answers.push(said);
        }
        session.check(answers[0].contains("Symbol s is multi-location"), &answers[0]);
        session.check(answers[0].contains("scaled\n"), &answers[0]);
        session.check_eq(&answers[1], &answers[0], "variables and inlined code");
    }
}

#[test]
fn a_return_address_that_is_another_functions_start_keeps_a_dwo_file_right() {
    // .debug_addr has the end of `fail` and the start of the function behind it as equal numbers: where the two are moved apart
    // only the .dwo file would tell which is which.
    let fail = "__attribute__((noinline)) void fail(int a) { x = a; die(a + 1); }\n";
    let dead =
        "int dead(int n) { int s = 0; for (int i = 0; i < n; i++) s += printf(\"%d\", i); return s; }\n";
    let main = "int main(int c, char **v) { printf(\"%d\\n\", c); if (c > 9) fail(c); return x; }\n";
    for (order, is_divided) in [([fail, dead, main], false), ([dead, fail, main], true)] {
        let head = "int printf(const char *, ...); void die(int) __attribute__((noreturn)); int x;\n";
        let sources = [
            ("a.c", &*format!("{head}{}", order.concat())),
            ("die.c", "void die(int a) { __builtin_trap(); }\n"),
        ];
        let mut session = prepare(&format!("return-{is_divided}"), &sources);
        let flags = "-fno-function-sections -fno-toplevel-reorder -falign-functions=1";
        session.cmd(&format!("gcc -O1 -g -gdwarf-4 -gsplit-dwarf {flags} -c a.c die.c"));
        let said = session.link(Linker::Lld, "gcc -B shims -no-pie a.o die.o -o out -Wl,--prune-stats=full");
        session.check_eq(&session.facts("out").defined.contains("dead"), &!is_divided, "dead");
        let is_said = format!("{}{}", said.stdout, said.stderr).contains("a call ends a function");
        session.check_eq(&is_said, &!is_divided, "the reason");
    }
}

#[test]
fn an_object_of_which_all_goes_answers_for_nothing() {
    // An unchanged unit would lie at address 0, and cover code of a program that may be loaded at any address.
    for (compiler, version) in [("gcc", 4), ("gcc", 5), ("clang-19", 4), ("clang-19", 5)] {
        let dead =
            |n: usize| format!("int dead_{n}(int x) {{ v[{n} % 9] = x * {n}; return v[x % 9] + {n}; }}\n");
        let dead = format!("volatile int v[9];\n{}", (0..400).map(dead).collect::<String>());
        let sources = [("main.c", "int main(void) { return 0; }\n"), ("dead.c", &dead)];
        let mut session = prepare(&format!("gone-{compiler}-{version}"), &sources);
        session.cmd(&format!(
            "{compiler} -O1 -fPIE -fno-function-sections -c main.c dead.c -g -gdwarf-{version}"
        ));
        linked(&mut session, compiler, "shims", "-pie main.o dead.o -o out", "--prune-strict");
        let facts = session.facts("out");
        session.check(!facts.defined.contains("dead_1"), "dead_1 is not gone");
        let start = facts.functions.iter().find(|(name, _)| name == "_start").unwrap().1;
        for reader in ["addr2line", "llvm-addr2line-19"] {
            let said = session.cmd(&format!("{reader} -f -i -e out {start:#x}")).stdout;
            session.check(!said.contains("dead"), &format!("{reader} of _start, DWARF {version}: {said}"));
        }
    }
}

/// gdb stops at the same lines with the same backtraces and values in both programs.
fn debug_session(name: &str, compiler: &str, flags: &str) {
    let mut session = prepare(&format!("gdb-{name}"), &PROGRAM);
    session.files(FILES, "debug_session");
    session.cmd(&format!("{compiler} -fno-function-sections -c main.c helper.c {flags}"));
    let mut answers = Vec::new();
    for (shims, more) in [("plain", ""), ("shims", ""), ("shims", " --prune-debug=shrink")] {
        let words = "-no-pie main.o helper.o -o out";
        linked(&mut session, compiler, shims, words, &format!("--prune-strict{more}"));
        let said = session.cmd("gdb -nx -batch -x commands out").stdout;
        // The places of a breakpoint count inlined copies, also those in dropped functions.
        let lines = said.lines().filter(|l| !l.starts_with("Breakpoint") || !l.contains(": "));
        // Of several places of a breakpoint the one that is left has no number of its own.
        let unnumbered = |l: &str| match l.strip_prefix("Breakpoint ").and_then(|l| l.split_once(", ")) {
            Some((number, place)) => format!("{} {place}", number.split('.').next().unwrap_or("")),
            None => l.to_owned(),
        };
        let lines = lines.filter(|l| !l.contains("process")).map(unnumbered);
        answers.push(lines.collect::<Vec<_>>().join("\n"));
    }
    session.check(answers[0].contains("helper (x="), &answers[0]);
    session.check_eq(&answers[1], &answers[0], "gdb");
    session.check_eq(&answers[2], &answers[0], "gdb, shrunk");
    let gone = session.facts("out");
    session.check(!gone.defined.contains("dead_between"), "dead_between is not gone");
}

#[test]
fn gdb_stops_where_it_did() {
    for (compiler, flags) in [
        ("gcc", "-O0 -g -gdwarf-5"),
        ("gcc", "-O0 -g -gdwarf-4"),
        ("gcc", "-O2 -g -gdwarf-5"),
        ("gcc", "-O2 -g -gdwarf-4"),
        ("gcc", "-O2 -g -gdwarf-4 -gsplit-dwarf"),
        ("clang-19", "-O0 -g -gdwarf-5"),
        ("clang-19", "-O2 -g -gdwarf-5"),
        ("clang-19", "-O2 -g -gdwarf-4 -gsplit-dwarf"),
        ("clang-19", "-O2 -g -gdwarf-4"),
    ] {
        debug_session(&format!("{compiler}{}", flags.replace(' ', "")), compiler, flags);
    }
}

#[test]
fn unwind_tables_are_complete() {
    // Every surviving function still has its unwind entry, and readelf finds the tables well formed.
    for linker in Linker::ALL {
        let mut session = prepare(&format!("unwind-{}", linker.name()), &PROGRAM);
        session.cmd("gcc -O1 -ffunction-sections -fasynchronous-unwind-tables -c main.c helper.c");
        session.link(linker, "gcc -B shims -no-pie -Wl,--eh-frame-hdr main.o helper.o -o out");
        let frames = session.cmd("readelf --debug-dump=frames out");
        session.check(frames.stderr.is_empty(), &frames.stderr);
        let facts = session.facts("out");
        for (name, address) in
            facts.functions.iter().filter(|(n, _)| ["main", "helper", "local"].contains(&n.as_str()))
        {
            let begins = format!("pc={address:016x}..");
            session.check(frames.stdout.contains(&begins), &format!("{name} has no unwind entry"));
        }
    }
}
