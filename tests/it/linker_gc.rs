//! Links where the linker's own `--gc-sections` removes all dead code: the original objects are linked, and the output is the plain one.

use std::fs;

use crate::run::{Job, Session};
use crate::tools::{self, Linker};

const FILES: &str = include_str!("programs/linker_gc.txt");

/// Compile with `flags`, link plain and with lto-prune by lld; whether the outputs are the same bytes, and whether objects were pruned.
fn outcome(session: &mut Session, flags: &str, options: &str) -> (bool, bool) {
    let dir = session.dir().to_owned();
    session.files(FILES, "outcome");
    session.must(&session.job("gcc -O1 -fno-inline -c main.c").words(flags));
    let lld = Linker::Lld.path();
    if !session.path("shims").exists() {
        session.shims();
        tools::shim_dir(&session.path("plain"), &lld);
    }
    for (folder, output) in [("plain", "plain.out"), ("shims", "ours.out")] {
        let job = session.job("gcc main.o -Wl,--gc-sections").arg("-B").arg(folder).words("-o").arg(output);
        let ours = "-Wl,--prune-strict -Wl,--prune-report=report.json";
        let job = if folder == "shims" { job.words(ours).words(options) } else { job };
        session.must(&job.env("LTO_PRUNE_LINKER", &lld));
        session.must(&Job::new(&dir, format!("./{output}")));
    }
    let same = session.bytes("plain.out") == session.bytes("ours.out");
    let report = session.report("report.json");
    (same, report["pruned"].as_bool().unwrap())
}

#[test]
fn functions_in_sections_are_left_to_lld() {
    let mut session = Session::new("linker_gc/sections");
    let found = outcome(&mut session, "-ffunction-sections", "");
    session.check_eq(&found, &(true, false), "the plain output, of the originals");
    // Who wants to see pruned objects gets them.
    let found = outcome(&mut session, "-ffunction-sections", "-Wl,--prune-emit=objects");
    session.check_eq(&found.1, &true, "pruned objects with --prune-emit");
}

#[test]
fn bitcode_beside_code_is_not_written() {
    let mut session = Session::new("linker_gc/excluded");
    session
        .write("bits.h", "__asm__(\".section .llvmbc,\\\"e\\\",@progbits\\n.skip 1000000\\n.previous\");\n");
    let found = outcome(&mut session, "-include bits.h", "-Wl,--prune-emit=objects");
    session.check_eq(&found.1, &true, "pruned objects");
    let original = fs::metadata(session.path("main.o")).unwrap().len();
    let folders = fs::read_dir(session.path("objects")).unwrap().map(|entry| entry.unwrap().path());
    let objects: Vec<_> = folders.map(|folder| folder.join("main.o")).filter(|path| path.exists()).collect();
    let sizes: Vec<u64> = objects.iter().map(|path| fs::metadata(path).unwrap().len()).collect();
    let is_small = matches!(sizes[..], [size] if size < 10_000);
    session.check(original > 1_000_000 && is_small, "an object without the section");
}

#[test]
fn functions_that_share_a_section_are_not() {
    let mut session = Session::new("linker_gc/mono");
    let found = outcome(&mut session, "", "");
    session.check_eq(&found, &(false, true), "pruned objects");
}

/// Compile many functions with `flags`, link them with `options`; whether more than the symbols were read of it.
fn is_analysed(session: &mut Session, functions: usize, flags: &str, options: &str) -> bool {
    let function = |i: usize| format!("void f{i}(void) {{ __asm__(\".skip 4096, 0x90\"); }}\n");
    let data = "int a[2000] = {1}, b[2000] = {2};\nint main(void) { f0(); return a[0] - 1; }\n";
    let source: String = (0..functions).map(function).chain([data.to_owned()]).collect();
    session.write("many.c", source);
    session.must(&session.job("gcc -O1 -c many.c").words(flags));
    let job = session.job("gcc many.o -Wl,--gc-sections -B shims -o many").words(options);
    let outcome = session.must(&job.words("-Wl,--prune-time -Wl,--prune-no-cache").by(Linker::Lld));
    session.cmd("./many");
    outcome.stderr.contains("summarise")
}

#[test]
fn a_link_of_whole_sections_is_not_analysed() {
    let mut session = Session::new("linker_gc/whole");
    session.shims();
    let sections = "-ffunction-sections -fdata-sections";
    for (functions, flags, options, expected) in [
        (200, sections, "", false),
        (200, sections, "-Wl,--prune-level=functions", false),
        // A tenth of its code: all of it may be worth following.
        (20, sections, "", true),
        (200, sections, "-Wl,--prune-level=pointers", true),
        (200, sections, "-Wl,--prune-stats", true),
        (200, sections, "-Wl,--icf=safe", true),
        (200, sections, "-Wl,--prune-debug=shrink", true),
        (200, "-ffunction-sections", "", true),
        (200, "-fdata-sections", "", true),
    ] {
        let found = is_analysed(&mut session, functions, flags, options);
        session.check_eq(&found, &expected, &format!("{functions} functions, {flags} {options}"));
    }
    // A report changes nothing of the link.
    let mut link = |options| {
        let is_analysed = is_analysed(&mut session, 200, sections, options);
        (is_analysed, session.bytes("many"))
    };
    let (_, alone) = link("");
    let outputs = ["-Wl,--prune-report=report.json", "-Wl,--prune-strict"].map(link);
    for (is_analysed, output) in outputs {
        session.check(is_analysed && output == alone, "the same output where it is analysed");
    }
}

/// lld collects the sections of `many.c`. The functions of `mono.c` share one section, so that its code is looked at.
#[test]
fn a_link_in_which_no_module_is_worth_dividing_is_not_indexed() {
    let mut session = Session::new("linker_gc/not-indexed");
    let dir = session.dir().to_owned();
    session.shims();
    tools::shim_dir(&session.path("plain"), &Linker::Lld.path());
    // More live code than the budget of called values.
    let function =
        |name: &str| format!("void {name}(void) {{ __asm__ volatile (\".skip 16384, 0x90\"); }}\n");
    let many: String = (0..50).map(|i| function(&format!("f{i}"))).collect();
    session.write("many.c", many + "void two(void);\nvoid dead(void) { two(); }\n");
    session.write("mono.c", function("one") + &function("two"));
    session.files(FILES, "a_link_in_which_no_module_is_worth_dividing_is_not_indexed");
    session.cmd("gcc -O1 -ffunction-sections -c many.c main.c half.c");
    session.cmd("gcc -O1 -c mono.c odd.s");
    let mut link = |folder: &str, words: &str| {
        let job = Job::new(&dir, "gcc").words("many.o mono.o -Wl,--gc-sections -o out -B").arg(folder);
        let outcome = session.must(&job.words(words).by(Linker::Lld));
        session.cmd("./out");
        (outcome.stderr, session.bytes("out"))
    };
    let (_, plain) = link("plain", "main.o");
    let time = "-Wl,--prune-time -Wl,--prune-no-cache";
    let (told, output) = link("shims", &format!("main.o {time}"));
    assert!(told.contains("summarise") && !told.contains("index") && output == plain, "{told}");
    // Half of its code is dead here, but for a dead function that lld removes.
    let (told, output) = link("shims", &format!("half.o {time}"));
    assert!(told.contains("index") && output.len() < plain.len(), "{told}");
    // The user still hears of a module that is not understood, and gets the report.
    let (told, _) = link("shims", "main.o odd.o");
    assert!(told.contains("odd.o") && told.contains("kept whole"), "{told}");
    let (told, output) = link("shims", &format!("main.o {time} -Wl,--prune-report=report.json"));
    assert!(told.contains("index") && output == plain, "{told}");
}

#[test]
fn a_link_of_bitcode_is_left_to_llvm() {
    let mut session = Session::new("linker_gc/bitcode");
    let dir = session.dir().to_owned();
    session.shims();
    // Each function has a kilobyte of text, so that it is worth not to be read.
    let text = "nop\\n".repeat(200);
    let function = |i: usize| format!("void f{i}(void) {{ __asm__(\"{text}\"); }}\n");
    let source: String = (0..200).map(function).collect();
    session.write("many.c", source);
    session.files(FILES, "a_link_of_bitcode_is_left_to_llvm");
    let clang = tools::tool("clang-19");
    session.must(&Job::new(&dir, &clang).words("-O1 -flto=thin -c many.c main.c caller.c"));
    session.cmd("gcc -O1 -c native.c keeper.c");
    session.files(FILES, "a_link_of_bitcode_is_left_to_llvm_2");
    session.cmd("gcc -O1 -c large.c");
    let mut link = |inputs: &str, options: &str| {
        let job = Job::new(&dir, &clang).words("-O1 -flto=thin many.o -o many").words(inputs).words(options);
        let job = job.arg(format!("--ld-path={}", session.path("shims/ld.lto-prune").display()));
        let outcome = session.must(&job.words("-Wl,--prune-time -Wl,--prune-no-cache").by(Linker::Lld));
        session.cmd("./many");
        (outcome.stderr.contains("summarise"), session.bytes("many"))
    };
    let (is_analysed, alone) = link("main.o", "");
    assert!(!is_analysed, "bitcode alone is analysed");
    let (is_analysed, reported) = link("main.o", "-Wl,--prune-report=report.json");
    assert!(is_analysed && reported == alone, "a report changes nothing");
    assert!(link("main.o", "-Wl,--prune-level=functions").0, "a level is named");
    // Its dead function is too small.
    assert!(!link("caller.o native.o", "").0, "little native code is analysed");
    assert!(link("caller.o large.o", "").0, "much native code is not analysed");
    // However small it is: LLVM would keep for it what it refers to.
    assert!(link("caller.o keeper.o", "").0, "dead native code that keeps bitcode is not analysed");
}
