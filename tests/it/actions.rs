//! A link in separate build actions (docs/ACTIONS.md): the output has the bytes of a link by one command, and only the actions with changed inputs
//! run again.

use std::fs;

use crate::run::{Outcome, Session};
use crate::tools::{self, Linker};

const SOURCES: &str = include_str!("programs/actions.txt");

const MAIN: &str = "#include <stdio.h>\nint helper(int);\nint thin(int);\nint dead(int x) { return helper(x); }\n\
    int main(int argc, char **argv) { printf(\"%d\\n\", helper(argc) + thin(argc)); return argv == 0; }\n";
const HELPER: &str = "int helper(int x) { return x + 1; }\nint dead_helper(int x) { return x - 1; }\n";
/// The object is so large that a link reads its summary from its interface.
const FUNCTIONS: usize = 400;
const THIN: &str = "int thin(int x) { return x + 2; }\nint dead_thin(int x) { return x - 2; }\n";
/// The files of the link, as an interface is made of each; a thin archive names a file of its own.
const FILES: [&str; 5] = ["main.o", "sub/helper.o", "libhelper.a", "thin.o", "libthin.a"];
const LINE: &str = "main.o libhelper.a libthin.a";

/// Objects with debug information, without function sections; a member, and one of a thin archive.
fn prepare(name: &str, flags: &str) -> Session {
    let mut session = Session::new(&format!("actions/{name}"));
    session.mkdir("sub");
    let function =
        |i: usize| format!("int f{i}(int x) {{ for (int i = 0; i < x; i++) x ^= i * {i}; return x; }}\n");
    let helper = HELPER.to_owned() + &(0..FUNCTIONS).map(function).collect::<String>();
    for (file, text) in [("main.c", MAIN), ("helper.c", &helper), ("thin.c", THIN)] {
        session.write(file, text);
    }
    session.must(&session.job("clang-19").words(flags).words("-O1 -c main.c thin.c"));
    session.must(&session.job("clang-19").words(flags).words("-O1 -c helper.c -o sub/helper.o"));
    session.cmd("ar rcs libhelper.a sub/helper.o");
    session.cmd("ar rcsT libthin.a thin.o");
    session
}

/// A link of `line` by the standalone command.
fn link(session: &mut Session, linker: Linker, line: &str) -> Outcome {
    let job = session.job("lto-prune").words(line).words("--prune-no-cache");
    session.run(&job.by(linker))
}

fn must_link(session: &mut Session, linker: Linker, line: &str) -> String {
    let outcome = link(session, linker, line);
    session.check(outcome.ok(), &outcome.stderr);
    outcome.stderr
}

fn summarize(session: &mut Session, options: &str) {
    let job = session.job("lto-prune summarize --interface").words(options).args(FILES);
    let job = job.words("-o prune");
    session.mkdir("prune");
    session.must(&job);
}

/// The line for a plan, which names the objects so that no driver asks for them.
fn plan_line() -> String {
    format!("-Wl,{} -o out --prune-interfaces=prune --prune-plan=prune", LINE.replace(' ', ","))
}

fn emit(session: &mut Session, file: &str) -> Outcome {
    let output = session.path("emitted").join(file);
    fs::create_dir_all(output.parent().unwrap()).unwrap();
    let words = format!("emit --plan=prune/{file}.ltoplan {file} -o emitted/{file}");
    session.run(&session.job("lto-prune").words(&words))
}

const EMITTED: &str = "--prune-interfaces=prune --prune-emitted=emitted";

fn read(session: &Session, name: &str) -> Vec<u8> {
    session.bytes(name)
}

/// All actions, the plan where none of the files is; then the link is that by one command.
fn all(name: &str, flags: &str, linker: Linker, more: &str) {
    let mut session = prepare(name, flags);
    must_link(&mut session, linker, &format!("{LINE} {more} -o single"));
    let level = more.split(' ').find(|word| word.starts_with("--prune-level=")).unwrap_or_default();
    summarize(&mut session, level);
    let away: Vec<_> = FILES.map(|file| (session.path(file), session.path(&format!("{file}.away")))).into();
    away.iter().for_each(|(file, away)| fs::rename(file, away).unwrap());
    must_link(&mut session, linker, &format!("{} {more}", plan_line()));
    session.check(!session.path("out").exists(), "a plan has an output");
    away.iter().for_each(|(file, away)| fs::rename(away, file).unwrap());
    for file in FILES.iter().filter(|file| **file != "sub/helper.o") {
        let outcome = emit(&mut session, file);
        session.check(outcome.ok(), &outcome.stderr);
    }
    // At the level `functions` nothing is followed, so that no code of a native object is in its interface.
    let code = [0x89, 0xf8, 0x85, 0xff, 0x7e]; // mov %edi,%eax; test %edi,%edi; jle
    let has_code = |name: &str| read(&session, name).windows(code.len()).any(|bytes| bytes == code);
    let is_left_out = !level.is_empty();
    session.check(!is_left_out || has_code("sub/helper.o"), "the functions begin in another way");
    session.check(!is_left_out || !has_code("prune/sub/helper.o.ltoif"), "code is in an interface");
    // A member is emitted as one of its archive, a file that a thin archive names as itself.
    let listed = session.cmd("ar t emitted/libhelper.a").stdout;
    session.check_eq(
        &listed.as_str(),
        &"helper.o
",
        "what is emitted of the archive",
    );
    must_link(&mut session, linker, &format!("{LINE} {more} -o linked --prune-strict {EMITTED}"));
    session
        .check(read(&session, "linked") == read(&session, "single"), "another program than by one command");
    let facts = session.facts("linked");
    for dead in ["dead", "dead_helper", "dead_thin"] {
        session.check(!facts.defined.contains(dead), dead);
    }
}

#[test]
fn the_bytes_of_one_command() {
    for linker in [Linker::Lld, Linker::Mold, Linker::Bfd, Linker::Gold] {
        all(&format!("same-{}", linker.name()), "-g", linker, "");
    }
    for (name, flags) in [("same-stripped-debug", "-g"), ("same-stripped", "")] {
        all(name, flags, Linker::Lld, "-Wl,-S");
    }
    for (name, flags) in [("same-left-out", ""), ("same-left-out-debug", "-g")] {
        all(name, flags, Linker::Lld, "--prune-level=functions");
    }
    all("same-bitcode", "-flto=thin", Linker::Lld, "");
    all("same-sections", "-ffunction-sections -fno-addrsig", Linker::Lld, "");
}

/// A missing result of an action is an error, even if an earlier link put it into the user's cache.
#[test]
fn missing_results_are_not_taken_from_the_cache() {
    let mut session = prepare("cached", "-g");
    summarize(&mut session, "");
    must_link(&mut session, Linker::Lld, &plan_line());
    for file in ["main.o", "thin.o"] {
        let outcome = emit(&mut session, file);
        session.check(outcome.ok(), &outcome.stderr);
    }
    for options in ["", "", EMITTED] {
        let strict = if options.is_empty() { "" } else { "--prune-strict" };
        let job = session.job("lto-prune").words(LINE).words(options).words(strict);
        let job = job.words("-o linked").arg(format!("--prune-cache={}", session.path("cache").display()));
        let outcome = session.run(&job.by(Linker::Lld));
        let is_missing = outcome.stderr.contains("libhelper.a") && !outcome.ok();
        session.check_eq(&is_missing, &!options.is_empty(), &outcome.stderr);
    }
}

/// A damaged or outdated result is not used. The link prints a message and has the same output.
#[test]
fn what_does_not_fit_is_made_in_the_link() {
    let mut session = prepare("stale", "-g");
    summarize(&mut session, "");
    must_link(&mut session, Linker::Lld, &plan_line());
    for file in ["main.o", "libhelper.a"] {
        let outcome = emit(&mut session, file);
        session.check(outcome.ok(), &outcome.stderr);
    }
    must_link(&mut session, Linker::Lld, &format!("{LINE} -o single"));
    let expected = session.bytes("single");
    // One was not emitted.
    let missing = must_link(&mut session, Linker::Lld, &format!("{LINE} -o linked {EMITTED}"));
    session.check(missing.contains("thin.o") && missing.contains("1 pruned object"), &missing);
    let strict = link(&mut session, Linker::Lld, &format!("{LINE} -o strict --prune-strict {EMITTED}"));
    session.fails_with(&strict, "thin.o");
    // The test damages bytes of the files that the actions wrote.
    for file in ["emitted/main.o", "emitted/libhelper.a", "prune/main.o.ltoif", "prune/libhelper.a.ltoif"] {
        let good = session.bytes(file);
        for at in (0..good.len()).step_by(good.len() / 12 + 1).chain([good.len() - 1, good.len() - 20]) {
            let mut bad = good.clone();
            bad[at] ^= 0x41;
            fs::write(session.path(file), bad).unwrap();
            let said = must_link(&mut session, Linker::Lld, &format!("{LINE} -o linked {EMITTED}"));
            session.check(!said.contains("panicked"), &said);
            let same = session.bytes("linked") == expected;
            session
                .check(same || said.contains("linking the originals"), &format!("{file}, byte {at}: {said}"));
        }
        fs::write(session.path(file), &good[..good.len() / 2]).unwrap();
        must_link(&mut session, Linker::Lld, &format!("{LINE} -o linked {EMITTED}"));
        session.check(session.bytes("linked") == expected, &format!("{file} cut off"));
        fs::write(session.path(file), good).unwrap();
    }
    // An object that changed is not what was planned.
    session.write("main.c", MAIN.replace("x) { return helper(x)", "x) { return helper(x + 1)"));
    session.cmd("clang-19 -g -O1 -c main.c");
    let outcome = emit(&mut session, "main.o");
    session.fails_with(&outcome, "emit: main.o: it is not what was planned");
    must_link(&mut session, Linker::Lld, &format!("{LINE} -o single"));
    must_link(&mut session, Linker::Lld, &format!("{LINE} -o linked {EMITTED}"));
    session.check(session.bytes("linked") == session.bytes("single"), "stale");
}

/// An object by two names is two files with one plan; what is linked by C++'s driver is planned by it.
#[test]
fn names_and_drivers() {
    let mut session = prepare("names", "-g");
    // The line names the object, and the archive has it as a member too. It is loaded once.
    session.files(SOURCES, "names_and_drivers");
    session.cmd("g++ -O1 -c start.cc");
    let files = ["start.o", "thin.o", "libthin.a"];
    session.mkdir("prune");
    let summarize = session.job("lto-prune summarize --interface").args(files);
    session.must(&summarize.words("-o prune"));
    let line = "start.o ./thin.o libthin.a";
    must_link(&mut session, Linker::Lld, &format!("{line} -o single"));
    let plan = "-Wl,start.o,./thin.o,libthin.a -o out --prune-interfaces=prune --prune-plan=prune";
    let said = must_link(&mut session, Linker::Lld, plan);
    session.check_eq(&said.as_str(), &"", "what the plan says");
    let before = fs::metadata(session.path("prune/thin.o.ltoplan")).unwrap().modified().unwrap();
    must_link(&mut session, Linker::Lld, plan);
    let after = fs::metadata(session.path("prune/thin.o.ltoplan")).unwrap().modified().unwrap();
    session.check_eq(&after, &before, "when the plan was written");
    for file in files {
        let outcome = emit(&mut session, file);
        session.check(outcome.ok(), &outcome.stderr);
    }
    must_link(&mut session, Linker::Lld, &format!("{line} -o linked --prune-strict {EMITTED}"));
    let same = session.bytes("linked") == session.bytes("single");
    session.check(same, "another program than by one command");
    // A plan for a link that can't succeed, or with nothing to plan, says so.
    let said = must_link(
        &mut session,
        Linker::Lld,
        "-Wl,start.o -o out --prune-interfaces=prune --prune-plan=prune",
    );
    session.check(said.contains("undefined symbol thin") && said.contains("nothing is pruned"), &said);
    let said = must_link(
        &mut session,
        Linker::Lld,
        &format!("{line} -o out --prune-interfaces=none --prune-plan=prune"),
    );
    session.check(said.contains("no file of this link has an interface"), &said);
    let said = must_link(
        &mut session,
        Linker::Lld,
        &format!("{line} -o out --prune-interfaces=none --prune-emitted=emitted"),
    );
    session.check(said.contains("no file of this link has an interface"), &said);
    // A warning of a link is no error of a plan.
    session.cmd("ar rcs nest.a libthin.a");
    must_link(&mut session, Linker::Lld, &format!("{plan} -Wl,nest.a"));
    // Switched off, a plan is still no link.
    fs::remove_file(session.path("out")).unwrap();
    must_link(&mut session, Linker::Lld, &format!("{plan} --prune-level=off"));
    session.check(!session.path("out").exists(), "a plan is linked");
    let outcome = session.run(&session.job("lto-prune emit --plan=prune/thin.o.ltoplan thin.o -o thin.o"));
    session.fails_with(&outcome, "the output is an input");
    // A pipe instead of a precomputed file must not block the link.
    for pipe in ["prune/start.o.ltoif", "emitted/start.o"] {
        fs::remove_file(session.path(pipe)).unwrap();
        session.must(&session.job("mkfifo").arg(pipe));
        must_link(&mut session, Linker::Lld, &format!("{line} -o linked {EMITTED}"));
    }
    let outcome = link(&mut session, Linker::Lld, plan);
    session.fails_with(&outcome, "start.o.ltoif: not a regular file");
}

/// A plan for missing or damaged files is an error that names the file, and never a panic.
#[test]
fn plans_of_damaged_interfaces() {
    let mut session = prepare("damaged", "-g");
    summarize(&mut session, "");
    let interface = session.path("prune/main.o.ltoif");
    let good = fs::read(&interface).unwrap();
    for at in (0..good.len()).step_by(good.len() / 40 + 1) {
        let mut bad = good.clone();
        bad[at] ^= 0x81;
        fs::write(&interface, bad).unwrap();
        let outcome = link(&mut session, Linker::Lld, &plan_line());
        session.check(!outcome.stderr.contains("panicked"), &outcome.stderr);
        let emitted = emit(&mut session, "main.o");
        session.check(!emitted.stderr.contains("panicked"), &emitted.stderr);
    }
    fs::write(&interface, &good[..good.len() / 2]).unwrap();
    let outcome = link(&mut session, Linker::Lld, &plan_line());
    session.fails_with(&outcome, "main.o.ltoif");
    fs::write(&interface, good).unwrap();
    must_link(&mut session, Linker::Lld, &plan_line());
    let plan = session.path("prune/main.o.ltoplan");
    let good = fs::read(&plan).unwrap();
    for at in (0..good.len()).step_by(good.len() / 40 + 1) {
        let mut bad = good.clone();
        bad[at] ^= 0x81;
        fs::write(&plan, bad).unwrap();
        let outcome = emit(&mut session, "main.o");
        session.check(!outcome.stderr.contains("panicked"), &outcome.stderr);
    }
    for words in [
        "emit main.o -o x",
        "emit --plan=prune/main.o.ltoplan -o x",
        "emit --plan=x main.o",
        "emit --plan=nowhere main.o -o x",
    ] {
        let outcome = session.run(&session.job("lto-prune").words(words));
        session.check(!outcome.ok() && outcome.stderr.starts_with("lto-prune: error: "), &outcome.stderr);
    }
}

/// The block of docs/ACTIONS.md, as it stands there.
#[test]
fn ninja_runs_what_changed() {
    let page = fs::read_to_string(tools::repository().join("docs/ACTIONS.md")).unwrap();
    let (_, block) = page.split_once("```ninja\n").unwrap();
    let mut session = Session::new("actions/ninja");
    let dir = session.dir().to_owned();
    session.write("build.ninja", block.split_once("```").unwrap().0);
    session.write("main.c", MAIN.replace(" + thin(argc)", ""));
    session.write("helper.c", HELPER);
    let path = tools::path_with(tools::lto_prune().parent().unwrap());
    let ninja = session.job("ninja -v").env("PATH", path);
    let ninja = ninja.by(Linker::Lld).env("HOME", &dir);
    let actions = |output: &str| {
        let of = |line: &str| {
            let words = ["gcc", "ar rcs", "summarize", "prune-plan", "emit ", "prune-emitted"];
            words.iter().find(|word| line.contains(*word)).map_or("", |word| word.split(' ').next().unwrap())
        };
        output.lines().filter(|line| line.starts_with('[')).map(of).collect::<Vec<_>>().join(" ")
    };
    let first = session.must(&ninja).stdout;
    session.check_eq(&first.matches(" emit ").count(), &2, "files that are emitted");
    let printed = session.cmd("./app").stdout;
    session.check_eq(&printed.as_str(), &"2\n", "output");
    let facts = session.facts("app");
    session.check(!facts.defined.contains("dead") && !facts.defined.contains("dead_helper"), "dead code");
    session.write("helper.c", HELPER.replace("x + 1", "x + 10"));
    let second = session.must(&ninja).stdout;
    let expected = "gcc ar summarize prune-plan emit prune-emitted";
    session.check_eq(&actions(&second).as_str(), &expected, "actions after a change");
    let printed = session.cmd("./app").stdout;
    session.check_eq(&printed.as_str(), &"11\n", "output");
    let third = session.must(&ninja).stdout;
    session.check_eq(&actions(&third).as_str(), &"", "actions after none");
}
