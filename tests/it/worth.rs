//! `--prune-worth`: a module is passed to the linker as it is if too little could be removed from it, and the report says so.

use crate::run::Session;
use crate::tools::Linker;

const FILES: &str = include_str!("programs/worth.txt");

/// Code that is live, so that the link is large: 512 KiB.
const LARGE: &str = "void large(void) { __asm__ volatile (\".skip 524288, 0x90\"); }\n";
const MAIN: &str =
    "int helper(int); int main(int argc, char **argv) { (void)argv; return helper(argc) - 2; }\n";
const MAIN_OF_LARGE: &str = "void large(void);\nint helper(int);\n\
    int main(int argc, char **argv) { (void)argv; if (argc > 5) large(); return helper(argc) - 2; }\n";

/// Link the main program, the helper, and a module with a function `mentioned` of so many bytes. The result says whether `dead` is in the output, and has the
/// text of the limit `not-worth`, if the report has it.
fn link(session: &mut Session, is_large: bool, mentioned: usize, options: &str) -> (bool, Option<String>) {
    session.files(FILES, "link");
    session.write("main.c", if is_large { MAIN_OF_LARGE } else { MAIN });
    session.write("large.c", LARGE);
    session.write(
        "mentioned.c",
        format!("int mentioned(int x) {{ __asm__ volatile (\".skip {mentioned}, 0x90\"); return x; }}\n"),
    );
    session.cmd("gcc -O1 -fno-inline -c helper.c main.c large.c mentioned.c");
    if !session.path("shims").exists() {
        session.shims();
    }
    let objects =
        if is_large { "main.o helper.o mentioned.o large.o" } else { "main.o helper.o mentioned.o" };
    let job = session.job("gcc -B shims -o out -Wl,--prune-report=report.json").words(objects);
    session.must(&job.words(options).by(Linker::Lld));
    session.cmd("./out");
    let report = session.report("report.json");
    let mut limits = report["limits"].as_array().unwrap().iter();
    let limit = limits.find(|limit| limit["limit"] == "not-worth").map(|limit| limit["detail"].to_string());
    (session.facts("out").defined.contains("dead"), limit)
}

#[test]
fn few_bytes_of_a_large_link_are_not_worth_it() {
    let mut session = Session::new("worth/few");
    let (is_there, limit) = link(&mut session, true, 64, "");
    session.check(is_there && limit.is_some_and(|detail| detail.contains("could be removed")), "a limit");
    for options in ["-Wl,--prune-worth=0", "-Wl,--prune-worth=8", "-Wl,--prune-level=functions"] {
        let (is_there, _) = link(&mut session, true, 64, options);
        session.check(!is_there, &format!("{options}: dead is kept"));
    }
    // A small link is decoded as a whole.
    let (is_there, limit) = link(&mut session, false, 64, "");
    session.check(!is_there && limit.is_none(), "dead is kept in a small link");
}

/// The dead function itself is small. It is removed because only it refers to a large function.
#[test]
fn few_bytes_that_keep_much_are_worth_it() {
    let mut session = Session::new("worth/much");
    let (is_there, _) = link(&mut session, true, 4096, "");
    session.check(!is_there, "dead is kept");
}

/// A module that was decoded and then left as it is: the cache has what its code is, and not what one link thought of it.
#[test]
fn a_cache_has_no_decision_of_a_link() {
    let mut session = Session::new("worth/cache");
    let dir = session.dir().to_owned();
    // Undecoded, the local function may be dead with the global one. It has most of the code, so that the module is looked up.
    session.files(FILES, "a_cache_has_no_decision_of_a_link");
    // Both of its functions are live, so that it is not decoded.
    session.write("large.c", format!("{LARGE}int other(void) {{ return 0; }}\nint (*const others[])(void) __attribute__((used, retain)) = {{ other }};\n"));
    session.cmd("gcc -O1 -c helper.c main.c large.c");
    session.shims();
    let linked = |session: &mut Session, options: &str| {
        let words = format!("-B shims main.o helper.o large.o -o out {options}");
        let job = session.job("gcc").words(&words).env("XDG_CACHE_HOME", dir.join("caches"));
        session.must(&job.by(Linker::Lld));
        session.bytes("out")
    };
    let fresh = linked(&mut session, "-Wl,--prune-no-cache");
    session.check(session.facts("out").defined.contains("dead"), "it is worth it");
    let all = linked(&mut session, "-Wl,--prune-no-cache,--prune-worth=0");
    session.check(!session.facts("out").defined.contains("dead"), "dead is kept");
    for _ in 0..3 {
        let warm = linked(&mut session, "");
        session.check(warm == fresh, "a warm cache changes the output");
        let warm = linked(&mut session, "-Wl,--prune-worth=0");
        session.check(warm == all, "an earlier link decides");
    }
}

/// Assembly of an undecoded module runs from one section into the next. The next section is kept, and `--prune-why` says the reason.
#[test]
fn the_next_section_of_undecoded_assembly_is_kept() {
    let mut session = Session::new("worth/next-section");
    session.write("main.c", "int first(void); int main(void) { return first() - 7; }\n");
    let function = |name: &str, code: &str| {
        format!(
            ".section .text.{name},\"ax\",@progbits\n.globl {name}\n.type {name},@function\n{name}: {code}\n.size {name},.-{name}\n"
        )
    };
    let text = function("first", "mov $3,%eax")
        + &function("second", "add $4,%eax; ret")
        + &function("third", "ret");
    session.write("code.s", text + ".section .note.GNU-stack,\"\",@progbits\n");
    session.cmd("gcc -O1 -c main.c code.s");
    session.shims();
    let words =
        "-B shims main.o code.o -o out -Wl,--prune-worth=1,--prune-level=functions,--prune-why=second";
    let linked = session.must(&session.job("gcc").words(words).by(Linker::Lld));
    session.says(&linked.stdout, "root: fall-through");
    session.cmd("./out");
    let defined = session.facts("out").defined;
    session.check(defined.contains("second") && !defined.contains("third"), "second alone is kept");
}
