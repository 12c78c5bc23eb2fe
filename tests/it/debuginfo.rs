//! Debug information stays right for what survives: `addr2line` on the pruned program answers, for every surviving
//! function and for addresses inside it, what it answers on the plain one.
//!
//! Both binutils' and LLVM's reader are asked, since they look things up in different tables.

use std::collections::BTreeMap;

use crate::elf::Facts;
use crate::run::{Job, Session};
use crate::tools::{self, Linker};

const MAIN: &str = r#"
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
const HELPER: &str = r#"
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
const INLINE: &str = "static inline int scaled(int x) {\n    int y = x * 7;\n    return y ^ 3;\n}\n";

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
        let plain = Facts::read(&session.path("plain.out")).unwrap();
        let pruned = Facts::read(&session.path("pruned.out")).unwrap();
        let is_followed = split || !flags.contains("-gsplit-dwarf");
        session.check(!is_followed || !pruned.defined.contains("dead_between"), "dead_between is not gone");
        let addresses = |facts: &Facts| facts.functions.iter().cloned().collect::<BTreeMap<String, u64>>();
        let (plain, pruned) = (addresses(&plain), addresses(&pruned));
        let names: Vec<&String> = ["main", "helper", "table_entry", "local"]
            .iter()
            .map(|n| pruned.get_key_value(*n).unwrap().0)
            .collect();
        // LLVM finds fault with tombstones among ranges, as the linkers write them of sections that they remove, and does not
        // come to an end with ranges of no bytes, as gcc makes them when it optimises.
        if !split && !flags.contains("-gsplit-dwarf") && (compiler != "gcc" || flags.contains("-O0")) {
            let statuses = ["pruned.out", "plain.out"].map(|file| {
                let job =
                    Job::new(&dir, "llvm-dwarfdump-19").words("--verify --error-display=summary").arg(file);
                session.run(&job).status
            });
            session.check_eq(&statuses[0], &statuses[1], "llvm-dwarfdump --verify");
        }
        for reader in ["addr2line", "llvm-addr2line-19"] {
            let mut answers = Vec::new();
            for (file, table) in [("plain.out", &plain), ("pruned.out", &pruned)] {
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
        }
    }
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
    gcc_dwarf_4: "gcc" "-O1 -g -gdwarf-4" Linker::ALL;
    gcc_dwarf_5: "gcc" "-O2 -g -gdwarf-5" Linker::ALL;
    gcc_compressed: "gcc" "-O1 -g -gz" [Linker::Lld, Linker::Bfd];
    gcc_unoptimised: "gcc" "-O0 -g" [Linker::Lld, Linker::Mold];
    gcc_type_units: "gcc" "-O0 -g -fdebug-types-section" [Linker::Lld, Linker::Bfd];
    gcc_split: "gcc" "-O1 -g -gsplit-dwarf" [Linker::Lld];
    clang_dwarf_4: "clang-19" "-O1 -g -gdwarf-4" Linker::ALL;
    clang_dwarf_5: "clang-19" "-O2 -g -gdwarf-5" Linker::ALL;
    clang_aranges: "clang-19" "-O0 -g -gdwarf-4 -gdwarf-aranges" [Linker::Lld, Linker::Bfd];
    clang_line_tables_only: "clang-19" "-O2 -gline-tables-only" [Linker::Lld, Linker::Gold];
}

#[test]
fn what_stays_for_debug_information_is_counted() {
    // Units in files of their own can't be rewritten: the object is kept whole, and the report says what that costs.
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
    session.check(!said.stderr.contains("warning"), &said.stderr);
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
bt
continue
info args
info locals
bt
continue
bt
info locals
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
    for shims in ["plain", "shims"] {
        let job = Job::new(&dir, compiler).arg("-B").arg(shims).words("-no-pie main.o helper.o -o out");
        let job = job.env("LTO_PRUNE_LINKER", Linker::Lld.path()).env("LTO_PRUNE_FLAGS", "--prune-strict");
        session.must(&job);
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
        ("clang-19", "-O0 -g -gdwarf-5"),
        ("clang-19", "-O2 -g -gdwarf-5"),
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
