//! Debug information stays right for what survives: `addr2line` on the pruned program answers, for every surviving
//! function and for addresses inside it, what it answers on the plain one.
//!
//! Both binutils' and LLVM's reader are asked, since they look things up in different tables.

use std::collections::BTreeMap;

use object::{Object, ObjectSection};

use crate::elf::Facts;
use crate::run::{Job, Session};
use crate::tools::{self, Linker};

pub(crate) const MAIN: &str = r#"
#include <stdio.h>
#include "inline.h"
int helper(int), table_entry(int);
static int local(int x) {
    volatile int y = x;
    return y + 1;
}
int dead_first(int x) {
    return local(x)
        + scaled(x);
}
int (*table[])(int) = {table_entry, local};
int main(int argc, char **argv) {
    int sum = scaled(argc);
    for (int i = 0; i < 2; i++)
        sum += table[i](helper(i));
    printf("%d\n", sum + (argv == 0));
    return 0;
}
int dead_last(void) { return dead_first(1); }
"#;
pub(crate) const HELPER: &str = r#"
#include "inline.h"
int dead_before(int x) { return x / 3; }
struct pair { int a, b; };
int helper(int x) {
    struct pair p = {x, scaled(x)};
    return p.a
        + p.b;
}
int dead_between(struct pair *p) { return p->a; }
int table_entry(int x) {
    return scaled(x) - 1;
}
int dead_after(int x) { return dead_before(x) + 1; }
"#;
pub(crate) const INLINE: &str =
    "static inline int scaled(int x) {\n    int y = x * 7;\n    return y ^ 3;\n}\n";

/// Compile with `flags`, with sections for each function and without, link both ways, ask the readers.
fn compare(name: &str, compiler: &str, flags: &str, linkers: &[Linker]) {
    for (linker, split) in linkers.iter().flat_map(|linker| [(linker, true), (linker, false)]) {
        let form = if split { "sections" } else { "whole" };
        let mut session = Session::new(&format!("debuginfo/{name}-{compiler}-{}-{form}", linker.name()));
        let dir = session.dir().to_owned();
        session.write("main.c", MAIN);
        session.write("helper.c", HELPER);
        session.write("inline.h", INLINE);
        let sections = if split { "-ffunction-sections -fdata-sections" } else { "-fno-function-sections" };
        let job = Job::new(&dir, compiler).words(sections).words("-c main.c helper.c");
        session.must(&job.words(flags));
        tools::shim_dir(&session.path("plain"), &linker.path());
        tools::shim_dir(&session.path("shims"), &tools::lto_prune());
        let link = |shims: &str, out: &str| {
            let job =
                Job::new(&dir, compiler).arg("-B").arg(shims).words("-no-pie main.o helper.o -o").arg(out);
            job.env("LTO_PRUNE_LINKER", linker.path())
        };
        session.must(&link("plain", "plain.out"));
        session.must(&link("shims", "pruned.out").env("LTO_PRUNE_FLAGS", "--prune-strict"));
        let shrink =
            link("shims", "shrunk.out").env("LTO_PRUNE_FLAGS", "--prune-strict --prune-debug=shrink");
        session.must(&shrink);
        let [in_plain, in_pruned, in_shrunk] =
            ["plain.out", "pruned.out", "shrunk.out"].map(|file| debug_bytes(&session.path(file)));
        // What is not divided, or has its debug information elsewhere, may need a few bytes more.
        let is_simple = !flags.contains("-gsplit-dwarf") && !flags.contains("-fdebug-types-section");
        let sizes = format!("bytes of debug information: {in_plain}, {in_pruned}, {in_shrunk}");
        session.check(!is_simple || in_shrunk <= in_pruned && in_pruned < in_plain, &sizes);
        let plain = Facts::read(&session.path("plain.out")).unwrap();
        let pruned = Facts::read(&session.path("pruned.out")).unwrap();
        let shrunk = Facts::read(&session.path("shrunk.out")).unwrap();
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
                let dump = Job::new(&dir, "readelf").words("--debug-dump=info,loc,Ranges,aranges").arg(file);
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
        // LLVM finds fault with tombstones among ranges, as the linkers write them of sections that they remove, and does not
        // come to an end with ranges of no bytes, as gcc makes them when it optimises.
        if !split && !flags.contains("-gsplit-dwarf") && (compiler != "gcc" || flags.contains("-O0")) {
            let statuses = ["pruned.out", "shrunk.out", "plain.out"].map(|file| {
                let job =
                    Job::new(&dir, "llvm-dwarfdump-19").words("--verify --error-display=summary").arg(file);
                session.run(&job).status
            });
            session.check_eq(&statuses[0], &statuses[2], "llvm-dwarfdump --verify");
            session.check_eq(&statuses[1], &statuses[2], "llvm-dwarfdump --verify of the shrunk program");
        }
        for reader in ["addr2line", "llvm-addr2line-19"] {
            let mut answers = Vec::new();
            for (file, table) in [("plain.out", &plain), ("pruned.out", &pruned), ("shrunk.out", &shrunk)] {
                let mut job = Job::new(&dir, reader).words("-f -i -e").arg(file);
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
fn what_stays_for_debug_information_is_counted() {
    // A .dwo file of DWARF 5 can't be rewritten: the object is kept whole, and the report says what that costs.
    let mut session = Session::new("debuginfo/kept");
    let dir = session.dir().to_owned();
    session.write("main.c", MAIN);
    session.write("helper.c", HELPER);
    session.write("inline.h", INLINE);
    session
        .must(&Job::new(&dir, "gcc").words("-O1 -g -gsplit-dwarf -fno-function-sections -c main.c helper.c"));
    tools::shim_dir(&session.path("shims"), &tools::lto_prune());
    let job = Job::new(&dir, "gcc").words("-B shims -no-pie main.o helper.o -o out -Wl,--prune-stats=full");
    let said = session.must(&job.env("LTO_PRUNE_LINKER", Linker::Lld.path()));
    let line =
        said.stdout.lines().chain(said.stderr.lines()).find(|l| l.starts_with("limit debug-info (module): "));
    let line = line.unwrap_or_default();
    session.check(line.contains("2 places, ") && line.contains(" bytes, first: main.o: "), line);
    session.check(line.contains("DWARF 5") && line.contains("compile with -gdwarf-4"), line);
    session.check(!said.stderr.contains("warning"), &said.stderr);
}

/// In each function there are blocks whose code is in several ranges.
pub(crate) const BLOCKS: &str = r#"
#include <stdio.h>
#include <stdlib.h>
static inline int scaled(int x) { int y = x * 7; if (x > 90) printf("%d", y); return y ^ 3; }
int NAME_dead(int n) { int s = 0; for (int i = 0; i < n; i++) { int q = s * i; s += scaled(q); } return s; }
int NAME(int n) { int s = 1; for (int i = 0; i < n; i++) { int q = s + i; s += scaled(q ^ n); } return s; }
int NAME_dead_last(int *p) { if (*p > 3) { int k = scaled(*p); puts("no"); exit(k); } return p[1]; }
"#;

#[test]
fn lists_of_dwo_files_stay_where_they_were() {
    // In DWARF 4 a .dwo file refers to lists of .debug_ranges by their offset, here also in an object that `ld -r` joined.
    for (compiler, joined) in [("gcc", false), ("gcc", true), ("clang-19", false), ("clang-19", true)] {
        let mut session = Session::new(&format!("debuginfo/dwo-{compiler}-{joined}"));
        let dir = session.dir().to_owned();
        session.write("a.c", BLOCKS.replace("NAME", "first"));
        session.write("b.c", BLOCKS.replace("NAME", "second"));
        let main =
            "int first(int), second(int); int main(int c, char **v) { return first(c) - second(c); }\n";
        session.write("main.c", main);
        let job = Job::new(&dir, compiler).words("-O2 -g -gdwarf-4 -gsplit-dwarf -fno-function-sections -c");
        session.must(&job.words("a.c b.c main.c"));
        let objects = if joined { "joined.o main.o" } else { "a.o b.o main.o" };
        if joined {
            session.must(&Job::new(&dir, "ld").words("-r -o joined.o a.o b.o"));
        }
        tools::shim_dir(&session.path("plain"), &Linker::Lld.path());
        tools::shim_dir(&session.path("shims"), &tools::lto_prune());
        let mut answers = Vec::new();
        for shims in ["plain", "shims"] {
            let job =
                Job::new(&dir, "gcc").arg("-B").arg(shims).words("-no-pie -o").arg(format!("{shims}.out"));
            let job = job.words(objects).env("LTO_PRUNE_LINKER", Linker::Lld.path());
            session.must(&job.env("LTO_PRUNE_FLAGS", "--prune-strict"));
            let facts = Facts::read(&session.path(&format!("{shims}.out"))).unwrap();
            session.check_eq(&facts.defined.contains("first_dead"), &(shims == "plain"), "first_dead");
            // The places of variables are distances from the start of their function.
            let mut said = String::new();
            for name in ["first", "second", "main"] {
                let start = facts.functions.iter().find(|(n, _)| n == name).unwrap().1;
                let job = Job::new(&dir, "gdb").words("-nx -batch -ex").arg(format!("info scope {name}"));
                let scope = session.must(&job.arg(format!("{shims}.out"))).stdout;
                for word in scope.split_whitespace() {
                    let bounds = word.trim_end_matches(':').split('-').map(|a| a.trim_start_matches("0x"));
                    let bounds: Vec<_> = bounds.map(|a| u64::from_str_radix(a, 16)).collect();
                    match bounds.as_slice() {
                        [Ok(a), Ok(b)] => said += &format!("{:#x}-{:#x} ", a - start, b - start),
                        _ => said += &format!("{word} "),
                    }
                }
                let blocks = Job::new(&dir, "llvm-symbolizer-19").words("--inlines -e");
                let mut blocks = blocks.arg(format!("{shims}.out"));
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
        let mut session = Session::new(&format!("debuginfo/return-{is_divided}"));
        let dir = session.dir().to_owned();
        let head = "int printf(const char *, ...); void die(int) __attribute__((noreturn)); int x;\n";
        session.write("a.c", format!("{head}{}", order.concat()));
        session.write("die.c", "void die(int a) { __builtin_trap(); }\n");
        let flags =
            "-O1 -g -gdwarf-4 -gsplit-dwarf -fno-function-sections -fno-toplevel-reorder -falign-functions=1";
        session.must(&Job::new(&dir, "gcc").words(flags).words("-c a.c die.c"));
        tools::shim_dir(&session.path("shims"), &tools::lto_prune());
        let job = Job::new(&dir, "gcc").words("-B shims -no-pie a.o die.o -o out -Wl,--prune-stats=full");
        let said = session.must(&job.env("LTO_PRUNE_LINKER", Linker::Lld.path()));
        let facts = Facts::read(&session.path("out")).unwrap();
        session.check_eq(&facts.defined.contains("dead"), &!is_divided, "dead");
        let is_said = format!("{}{}", said.stdout, said.stderr).contains("a call ends a function");
        session.check_eq(&is_said, &!is_divided, "the reason");
    }
}

#[test]
fn an_object_of_which_all_goes_answers_for_nothing() {
    // Where it was it would lie at address 0, and reach into the code of a program that may be loaded anywhere.
    for (compiler, version) in [("gcc", 4), ("gcc", 5), ("clang-19", 4), ("clang-19", 5)] {
        let mut session = Session::new(&format!("debuginfo/gone-{compiler}-{version}"));
        let dir = session.dir().to_owned();
        session.write("main.c", "int main(void) { return 0; }\n");
        let dead =
            |n: usize| format!("int dead_{n}(int x) {{ v[{n} % 9] = x * {n}; return v[x % 9] + {n}; }}\n");
        let body: String = (0..400).map(dead).collect();
        session.write("dead.c", format!("volatile int v[9];\n{body}"));
        let job = Job::new(&dir, compiler).words("-O1 -fPIE -fno-function-sections -c main.c dead.c");
        session.must(&job.arg("-g").arg(format!("-gdwarf-{version}")));
        tools::shim_dir(&session.path("shims"), &tools::lto_prune());
        let job = Job::new(&dir, compiler).words("-B shims -pie main.o dead.o -o out");
        let job = job.env("LTO_PRUNE_LINKER", Linker::Lld.path()).env("LTO_PRUNE_FLAGS", "--prune-strict");
        session.must(&job);
        let facts = Facts::read(&session.path("out")).unwrap();
        session.check(!facts.defined.contains("dead_1"), "dead_1 is not gone");
        let start = facts.functions.iter().find(|(name, _)| name == "_start").unwrap().1;
        for reader in ["addr2line", "llvm-addr2line-19"] {
            let job = Job::new(&dir, reader).words("-f -i -e out").arg(format!("{start:#x}"));
            let said = session.must(&job).stdout;
            session.check(!said.contains("dead"), &format!("{reader} of _start, DWARF {version}: {said}"));
        }
    }
}

/// What gdb says at each breakpoint: where it stopped, who called, arguments and locals. Addresses are left out.
const GDB: &str = "set pagination off
set print address off
set print frame-arguments all
break helper
break table_entry
break main.c:5
break main.c:18
run
info args
info locals
ptype p
bt
continue
info args
info locals
bt
continue
bt
info locals
whatis table
continue
bt
continue
";

/// gdb stops at the same lines with the same backtraces and values in both programs.
fn debug_session(name: &str, compiler: &str, flags: &str) {
    let mut session = Session::new(&format!("debuginfo/gdb-{name}"));
    let dir = session.dir().to_owned();
    session.write("main.c", MAIN);
    session.write("helper.c", HELPER);
    session.write("inline.h", INLINE);
    session.write("commands", GDB);
    let job = Job::new(&dir, compiler).words("-fno-function-sections -c main.c helper.c");
    session.must(&job.words(flags));
    tools::shim_dir(&session.path("plain"), &Linker::Lld.path());
    tools::shim_dir(&session.path("shims"), &tools::lto_prune());
    let mut answers = Vec::new();
    for (shims, more) in [("plain", ""), ("shims", ""), ("shims", " --prune-debug=shrink")] {
        let job = Job::new(&dir, compiler).arg("-B").arg(shims).words("-no-pie main.o helper.o -o out");
        let job = job.env("LTO_PRUNE_LINKER", Linker::Lld.path());
        session.must(&job.env("LTO_PRUNE_FLAGS", format!("--prune-strict{more}")));
        let gdb = Job::new(&dir, "gdb").words("-nx -batch -x commands out");
        let said = session.must(&gdb).stdout;
        // Where a breakpoint is set says how often code was inlined, into dropped functions too.
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
    let gone = Facts::read(&session.path("out")).unwrap();
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
        let mut session = Session::new(&format!("debuginfo/unwind-{}", linker.name()));
        let dir = session.dir().to_owned();
        session.write("main.c", MAIN);
        session.write("helper.c", HELPER);
        session.write("inline.h", INLINE);
        let job = Job::new(&dir, "gcc").words("-O1 -ffunction-sections -fasynchronous-unwind-tables");
        session.must(&job.words("-c main.c helper.c"));
        tools::shim_dir(&session.path("shims"), &tools::lto_prune());
        let job = Job::new(&dir, "gcc").words("-B shims -no-pie -Wl,--eh-frame-hdr main.o helper.o -o out");
        session.must(&job.env("LTO_PRUNE_LINKER", linker.path()));
        let frames = session.must(&Job::new(&dir, "readelf").words("--debug-dump=frames out"));
        session.check(frames.stderr.is_empty(), &frames.stderr);
        let facts = Facts::read(&session.path("out")).unwrap();
        for (name, address) in
            facts.functions.iter().filter(|(n, _)| ["main", "helper", "local"].contains(&n.as_str()))
        {
            let begins = format!("pc={address:016x}..");
            session.check(frames.stdout.contains(&begins), &format!("{name} has no unwind entry"));
        }
    }
}
