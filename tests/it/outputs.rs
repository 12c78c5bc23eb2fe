//! The check of the output detects a wrong output, and the originals are linked instead.
//!
//! A script replaces each linker. It makes the plain link as requested, and makes a different link of the pruned objects. There must be one warning
//! that names the difference, and no output with `--prune-strict`. The fixtures show that the check accepts correct outputs: there a warning is a
//! failure.

use std::path::PathBuf;

use crate::compare;
use crate::run::{Job, Session};
use crate::tools::Linker;

const MAIN: &str = "int a(void);\nint dead(void) { return a() + 1; }\nint main(void) { return a(); }\n\
                    __attribute__((visibility(\"hidden\"))) int gone(void) { return a() + 2; }\n";

/// A wrong output: the line, the line that the linker uses instead for the pruned link, and the text of the warning.
type Wrong = (&'static str, &'static str, &'static str);

const EXECUTABLE: &str = "-e main main.o liba.so";
const STATIC: &str = "-e main main.o a.o";
// With a soname no linker writes the path of the output into it.
const LIBRARY: &str = "-shared -soname=lib.so main.o a.o";

const INIT: &str = "-shared -soname=lib.so main.o a.o begin.o";
const FINI: &str = "-shared -soname=lib.so main.o a.o end.o";

const WRONG: &[Wrong] = &[
    (EXECUTABLE, "-e main main.o a.o", "needs [], not [liba.so]"),
    (EXECUTABLE, "-e main main.o liba.so --no-as-needed libb.so", "needs [liba.so libb.so], not [liba.so]"),
    (
        "-e main main.o liba.so --no-as-needed libb.so",
        "-e main main.o --no-as-needed libb.so liba.so",
        "needs [libb.so liba.so], not [liba.so libb.so]",
    ),
    (LIBRARY, "-shared main.o a.o --version-script=none.map", "does not export "),
    (
        "-shared -soname=lib.so main.o a.o --version-script=main.map",
        "-shared main.o --version-script=main.map",
        "has a as undefined",
    ),
    (EXECUTABLE, "-e main main.o init.o liba.so", "bytes of init array, not 0 to 0"),
    ("-e main main.o init.o liba.so", "-e main main.o liba.so", "has 0 bytes of init array, not 8 to 8"),
    (EXECUTABLE, "-e main main.o fini.o liba.so", "bytes of fini array, not 0 to 0"),
    (
        "-z noexecstack -e main main.o liba.so",
        "-z execstack -e main main.o liba.so",
        "has an executable stack",
    ),
    (
        "-z execstack -e main main.o liba.so",
        "-z noexecstack -e main main.o liba.so",
        "has no executable stack",
    ),
    (
        "-e main main.o liba.so --as-needed libb.so",
        "-e main main.o liba.so --no-as-needed libb.so",
        "needs [liba.so libb.so], not [liba.so]",
    ),
    (
        "-shared -soname=lib.so main.o a.o --version-script=one.map",
        "-shared -soname=lib.so main.o a.o --version-script=two.map",
        "does not export main@@V1",
    ),
    (
        "-shared -soname=lib.so main.o a.o version.o --version-script=open.map",
        "-shared -soname=lib.so main.o a.o --version-script=open.map",
        "does not export api@V1",
    ),
    (LIBRARY, "-shared -soname=other.so main.o a.o", "has the soname [other.so], not [lib.so]"),
    (
        "--dynamic-linker=/lib/one.so -e main main.o liba.so",
        "--dynamic-linker=/lib/other.so -e main main.o liba.so",
        "has the interpreter [/lib/other.so], not [/lib/one.so]",
    ),
    (INIT, LIBRARY, "has no DT_INIT"),
    (LIBRARY, INIT, "has a DT_INIT"),
    (FINI, LIBRARY, "has no DT_FINI"),
    (LIBRARY, FINI, "has a DT_FINI"),
    ("--no-gc-sections -e main main.o tls.o liba.so", EXECUTABLE, "has no thread-local data"),
    (EXECUTABLE, "-e main main.o tls.o liba.so", "has thread-local data"),
    (STATIC, "-e 0 main.o a.o", "an executable without entry"),
    (STATIC, "-r main.o a.o", "neither executable nor shared library"),
    (EXECUTABLE, "-e main missing.o", "the linker refused the pruned objects"),
];

/// A script that makes the link to `out` as requested, and any other link as `wrong.line` says.
fn stand_in(session: &Session, linker: Linker) -> PathBuf {
    let body = r#"#!/bin/sh
previous= output=
for word in "$@"; do
    [ "$previous" = -o ] && output=$word
    previous=$word
done
case $output in ''|out) exec LINKER "$@";; esac
exec LINKER $(cat wrong.line) -o "$output"
"#;
    session.script("stand-in/ld", body.replace("LINKER", &linker.path().display().to_string()))
}

fn prepare(linker: Linker) -> Session {
    let mut session = Session::new(&format!("outputs/{}", linker.name()));
    let dir = session.dir().to_owned();
    session.write("main.c", MAIN);
    session.write("a.c", "int a(void) { return 3; }\n");
    session.write("b.c", "int b(void) { return 4; }\n");
    session.write("init.c", "int ran;\n__attribute__((constructor)) static void init(void) { ran = 1; }\n");
    session.write("fini.c", "int ran;\n__attribute__((destructor)) static void fini(void) { ran = 1; }\n");
    session.write("begin.c", "__attribute__((visibility(\"hidden\"))) void _init(void) {}\n");
    session.write("end.c", "__attribute__((visibility(\"hidden\"))) void _fini(void) {}\n");
    session.write("tls.c", "__attribute__((retain, used)) __thread int variable = 1;\n");
    session.write("version.c", "int old(void) { return 5; }\n__asm__(\".symver old, api@V1\");\n");
    session.write("one.map", "V1 { global: main; local: *; };\n");
    session.write("open.map", "V1 { global: main; };\n");
    session.write("two.map", "V2 { global: main; local: *; };\n");
    session.write("none.map", "{ local: *; };\n");
    session.write("main.map", "{ global: main; local: *; };\n");
    let sources = "main.c a.c b.c init.c fini.c begin.c end.c tls.c version.c";
    session.must(&Job::new(&dir, "gcc").words("-O1 -fPIC -ffunction-sections -c").words(sources));
    for name in ["a", "b"] {
        session.cmd(&format!("gcc -shared -nostdlib -o lib{name}.so -Wl,-soname,lib{name}.so {name}.o"));
    }
    session.shims();
    session
}

fn each_is_found(linker: Linker) {
    let mut session = prepare(linker);
    let dir = session.dir().to_owned();
    let stand_in = stand_in(&session, linker);
    let job = |program: PathBuf| Job::new(&dir, program).env("LTO_PRUNE_LINKER", &stand_in);
    // mold takes the beginning of the code for an entry that isn't there.
    let is_wrong = |(_, wrong, says): &&Wrong| match linker {
        Linker::Mold => !wrong.starts_with("-e 0"),
        // GNU ld treats names with an explicit version in its own way.
        Linker::Bfd => !says.contains("api@"),
        // It has no DT_INIT for a function of that name, and exports what has an explicit version by its own rules.
        Linker::Wild => !says.contains("DT_") && !says.contains("api@"),
        _ => true,
    };
    for (right, wrong, says) in WRONG.iter().filter(is_wrong) {
        session.write("wrong.line", wrong);
        session.must(&job(linker.path()).words(right).words("-o out"));
        let plain = std::fs::read(dir.join("out")).unwrap();
        std::fs::remove_file(dir.join("out")).unwrap();
        let what = format!("{} makes {wrong} of {right}", linker.name());
        let outcome = session.must(&job(session.path("shims/ld")).words(right).words("-o out"));
        let lines = compare::ours(&outcome.stderr);
        session.check(
            lines.len() == 1 && lines[0].contains("warning") && lines[0].contains(says),
            &format!("{what}: {}", outcome.stderr),
        );
        session.check(std::fs::read(dir.join("out")).unwrap() == plain, &format!("{what}: another output"));
        std::fs::remove_file(dir.join("out")).unwrap();
        let strict = job(session.path("shims/ld")).words(right).words("--prune-strict -o out");
        let strict = session.run(&strict);
        session.check(strict.stderr.contains(says) && !strict.ok(), &format!("{what}: {}", strict.stderr));
        session.check(!dir.join("out").exists(), &format!("{what}: an output in spite of --prune-strict"));
    }
}

#[test]
fn wrong_output_of_lld_is_found() {
    each_is_found(Linker::Lld);
}

#[test]
fn wrong_output_of_mold_is_found() {
    each_is_found(Linker::Mold);
}

#[test]
fn wrong_output_of_bfd_is_found() {
    each_is_found(Linker::Bfd);
}

#[test]
fn wrong_output_of_gold_is_found() {
    each_is_found(Linker::Gold);
}

#[test]
fn wrong_output_of_wild_is_found() {
    each_is_found(Linker::Wild);
}
