//! `--icf=safe` with the tables that lto-prune adds: it folds functions that are only called, and no others, in objects of both compilers.

use std::path::PathBuf;

use crate::run::Session;
use crate::tools::{self, Linker};

/// The address of each symbol of `out`.
fn addresses(session: &mut Session) -> Vec<(String, u64)> {
    let listing = session.cmd("nm out").stdout;
    let of = |line: &str| {
        let mut words = line.split_whitespace();
        let address = u64::from_str_radix(words.next()?, 16).ok()?;
        Some((words.nth(1)?.to_owned(), address))
    };
    listing.lines().filter_map(of).collect()
}

/// Whether two functions have one address.
fn are_one(addresses: &[(String, u64)], a: &str, b: &str) -> bool {
    let of = |name: &str| {
        let found = addresses.iter().find(|(n, _)| n == name);
        found.unwrap_or_else(|| panic!("no {name} in {addresses:?}")).1
    };
    of(a) == of(b)
}

/// Compile the units of the fixture `fold_safe`, each by its compiler.
fn compile(session: &mut Session, compilers: [&str; 3]) {
    let fixture = tools::repository().join("fixtures/fold_safe");
    for (unit, compiler) in ["main", "other", "mono"].iter().zip(compilers) {
        let job = session.job(&format!("{compiler} -O2 -fPIE -w -c"));
        let job = if *unit == "mono" { job } else { job.words("-ffunction-sections -fdata-sections") };
        session.must(&job.arg(fixture.join(format!("{unit}.c"))).arg("-o").arg(format!("{unit}.o")));
    }
    session.shims();
}

fn link(session: &mut Session, linker: &PathBuf, options: &str) -> Vec<(String, u64)> {
    let job = session.job("gcc -B shims -pie main.o other.o mono.o -o out");
    session.must(&job.words("-Wl,--prune-strict").words(options).env("LTO_PRUNE_LINKER", linker));
    let good = session.cmd("./out");
    let apart = "in data 0 in code 0 elsewhere 0 by itself 0 by an alias 0 by assembly 0";
    let output = format!("called 1981\n{apart}\nmono: {apart}\nmutual 40 switches 35 labels 0\n");
    session.check_eq(&good.stdout, &output, "output");
    addresses(session)
}

#[test]
fn what_is_only_called_is_one() {
    for compilers in
        [["gcc"; 3], ["gcc", "clang-19", "gcc"], ["clang-19", "gcc", "gcc"], ["gcc", "gcc", "clang-19"]]
    {
        for (i, linker) in [Linker::Lld.path(), tools::lld_of_rustc()].iter().enumerate() {
            for level in ["functions", "pointers"] {
                let mut session = Session::new(&format!("folding/{}-{i}-{level}", compilers.join("-")));
                compile(&mut session, compilers);
                let found = link(&mut session, linker, &format!("-Wl,--icf=safe -Wl,--prune-level={level}"));
                let one = |session: &Session, a: &str, b: &str, expected: bool| {
                    session.check(are_one(&found, a, b) == expected, &format!("{a} and {b}: {found:?}"));
                };
                one(&session, "called_a", "called_b", true);
                one(&session, "called_a", "called_c", true);
                if compilers[2] == "gcc" {
                    // The compiler of the first unit writes these in its own way.
                    one(&session, "called_a", "mono_called_a", compilers[0] == "gcc");
                    one(&session, "mono_called_a", "mono_called_b", true);
                }
                for (prefix, compiler) in [("", compilers[0]), ("mono_", compilers[2])] {
                    // clang works out what the comparison gives, and drops one of them.
                    let own = if compiler == "gcc" { &["self"][..] } else { &[] };
                    for pair in ["data", "code", "elsewhere", "asm"].iter().chain(own) {
                        one(&session, &format!("{prefix}{pair}_a"), &format!("{prefix}{pair}_b"), false);
                    }
                    one(&session, &format!("{prefix}first_alias"), &format!("{prefix}second_alias"), false);
                }
            }
        }
    }
}

#[test]
fn nothing_is_one_without_reason() {
    let linker = Linker::Lld.path();
    let mut session = Session::new("folding/options");
    compile(&mut session, ["gcc"; 3]);
    for (options, one) in [
        ("-Wl,--icf=safe", true),
        ("-Wl,--icf=safe -Wl,--prune-level=sections", false),
        ("-Wl,--icf=safe -Wl,--icf=none", false),
        // A name of the line for an address: nothing says what it is compared with.
        ("-Wl,--icf=safe -Wl,--defsym=third=called_a", false),
        ("-Wl,--icf=safe -rdynamic", false),
    ] {
        let found = link(&mut session, &linker, options);
        session.check(are_one(&found, "called_a", "mono_called_a") == one, options);
    }
}

/// The same bytes twice: called by something through which nothing is thrown, and thrown through.
const CALLS: &str = ".section .text.NAME,\"ax\",@progbits\n.globl NAME\n.type NAME,@function\nNAME: START\n\
    sub $8,%rsp\nOFFSET 16\ncall *%rdi\nadd $8,%rsp\nOFFSET 8\nret\nEND\n.size NAME,.-NAME\n\
    .section .note.GNU-stack,\"\",@progbits\n";

#[test]
fn exceptions_pass_through_functions_with_twins_without_tables() {
    let text = |name: &str, tables: bool| {
        let words = match tables {
            true => [".cfi_startproc", ".cfi_def_cfa_offset", ".cfi_endproc"],
            false => ["", "#", ""],
        };
        CALLS
            .replace("NAME", name)
            .replace("START", words[0])
            .replace("OFFSET", words[1])
            .replace("END", words[2])
    };
    let main = "#include <cstdio>\nextern \"C\" void silent(void (*)()), passes(void (*)()), twin(void (*)());\n\
        static void nothing() { std::puts(\"called\"); }\nstatic void thrower() { throw 1; }\n\
        int main() { silent(nothing); twin(nothing); try { passes(thrower); } catch (int) { std::puts(\"caught\"); } }\n";
    for (compiler, more, one) in
        [("gcc", "", true), ("clang-19", "", true), ("clang-19", ".addrsig\n", false)]
    {
        let mut session = Session::new(&format!("folding/exceptions-{compiler}-{}", more.len()));
        session.write("silent.s", text("silent", false) + more);
        session.write("passes.s", text("passes", true));
        session.write("twin.s", text("twin", true));
        session.write("main.cc", main);
        session.cmd(&format!("{compiler} -c silent.s"));
        session.cmd("gcc -c passes.s twin.s");
        session.cmd("g++ -O1 -c main.cc");
        session.shims();
        session.link(Linker::Lld, "g++ -B shims silent.o passes.o twin.o main.o -o out -Wl,--prune-strict -Wl,--prune-level=functions -Wl,--icf=safe");
        let good = session.cmd("./out");
        session.check_eq(&good.stdout.as_str(), &"called\ncalled\ncaught\n", "output");
        let found = addresses(&mut session);
        session.check(!are_one(&found, "silent", "passes"), "silent and passes");
        session.check(are_one(&found, "twin", "passes") == one, "twin and passes");
    }
}
