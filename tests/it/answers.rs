//! A link writes every requested report, however it ends, and each report names the output.
//!
//! Each path is linked with a report, remarks, statistics and a log, once without and once with `--prune-strict`.

use std::path::PathBuf;

use serde_json::Value;

use crate::run::{Job, Outcome, Session};
use crate::tools::Linker;

const SOURCES: &str = include_str!("programs/answers.txt");

const MAIN: &str = "int callee(int);\nint dead_one(int x) { return callee(x); }\n\
    int main(int argc, char **argv) { (void)argv; return callee(argc) - 2; }\n";
const LIB: &str = "int callee(int x) { return x + 1; }\nint dead_two(void) { return 3; }\n";
const ALL: &str = "int callee(int x) { return x + 1; }\nint main(int argc, char **argv) { (void)argv; return callee(argc) - 2; }\n";

/// It refuses what lto-prune wrote, and links the originals.
const REFUSES_COPIES: &str =
    "case \"$*\" in *lto-prune-link-*) echo 'ld: it is a copy' >&2; exit 1;; esac\nexec LLD \"$@\"";

/// How a link comes to its end.
struct PathThroughRun {
    name: &'static str,
    line: &'static str,
    /// The body of a script that replaces the linker; empty for lld, and `ld` for the default linker of the compiler driver.
    linker: &'static str,
    pruned: bool,
    /// The report's `not_pruned` has this; empty: it is null.
    reason: &'static str,
    linked: &'static str,
    /// How the linker ends under `--prune-strict`, if in another way.
    strict: &'static str,
}

/// Lines `NAME|LINE|REASON|LINKER|STRICT|END`; the end is `pruned` or `failed`.
fn paths() -> impl Iterator<Item = PathThroughRun> {
    include_str!("programs/answers_paths.txt").lines().map(|path| {
        let [name, line, reason, linker, strict, end] =
            path.split('|').collect::<Vec<_>>().try_into().unwrap();
        let linker = if linker == "REFUSES" { REFUSES_COPIES } else { linker };
        let linked = if end == "failed" { end } else { "succeeded" };
        PathThroughRun { name, line, linker, pruned: end == "pruned", reason, linked, strict }
    })
}

fn prepare(name: &str) -> Session {
    let mut session = Session::new(&format!("answers/{name}"));
    let dir = session.dir().to_owned();
    for (file, text) in
        [("main.c", MAIN), ("lib.c", LIB), ("all.c", ALL), ("lto.c", MAIN), ("sections.c", MAIN)]
    {
        session.write(file, text);
    }
    let gcc = |words: &str| Job::new(&dir, "gcc").words("-O1 -fno-inline -c").words(words);
    session.must(&gcc("main.c lib.c all.c"));
    session.must(&gcc("-flto lto.c"));
    session.write("sections.c", format!("{MAIN}{LIB}"));
    session.must(&gcc("-ffunction-sections -fno-asynchronous-unwind-tables sections.c"));
    session.write("symbols.s", ".globl fixed\n.set fixed, 0x1000\n");
    // A section of a type that is not known has its module kept whole.
    session.write("odd.s", ".globl odd\n.text\nodd: ret\n.section .odd,\"a\",@0x6fffff01\n.quad 1\n");
    session.cmd("gcc -c symbols.s odd.s");
    session.files(SOURCES, "prepare");
    session.shims();
    session
}

/// The options that ask for everything.
const ASKS: &str = "-Wl,--prune-report=report.json,--prune-remarks=remarks.yaml,--prune-stats,--prune-log=log,--prune-why=main";
const FILES: [&str; 3] = ["report.json", "remarks.yaml", "log"];

/// The output that a line names.
fn output(path: &PathThroughRun) -> &'static str {
    if path.line.contains("/dev/null") { "/dev/null" } else { "bin/app" }
}

fn link(session: &mut Session, path: &PathThroughRun, options: &str) -> Outcome {
    // Files of an earlier link must be overwritten.
    for file in FILES {
        session.write(file, "stale\n");
    }
    std::fs::remove_file(session.path("log")).unwrap();
    session.mkdir("bin");
    let _ = std::fs::remove_file(session.path("bin/app"));
    let mut job = session.job("gcc -B shims -o bin/app").words(path.line).words(options);
    if path.linker != "ld" {
        let lld = Linker::Lld.path();
        let linker: PathBuf = match path.linker {
            "" => lld,
            body => session.script(
                "fake/ld.lld",
                format!(
                    "#!/bin/sh\ncase \"$1\" in --version|-v|-V) exec {0} \"$@\";; esac\n{1}\n",
                    lld.display(),
                    body.replace("LLD", &lld.display().to_string())
                ),
            ),
        };
        job = job.env("LTO_PRUNE_LINKER", linker);
    }
    session.run(&job)
}

fn check(session: &mut Session, path: &PathThroughRun, is_strict: bool) {
    let strict = if is_strict { "-Wl,--prune-strict" } else { "" };
    let outcome = link(session, path, &format!("{ASKS} {strict}"));
    let what = format!(
        "{}{}: {}{}",
        path.name,
        if is_strict { ", strict" } else { "" },
        outcome.stdout,
        outcome.stderr
    );
    let output = output(path);
    let linked = if is_strict && !path.strict.is_empty() { path.strict } else { path.linked };
    let is_refused = is_strict && path.linker == REFUSES_COPIES;
    session.check_eq(&outcome.ok(), &(linked == "succeeded" && !is_refused), &what);

    let report: Value = session.report("report.json");
    session.check_eq(&report["output"], &output.into(), &what);
    let may_prune = path.name == "a module" && !is_strict;
    session.check_eq(&report["pruned"], &(path.pruned || may_prune).into(), &what);
    session.check_eq(&report["linked"], &linked.into(), &what);
    let reason = report["not_pruned"].as_str();
    if !(is_strict && path.name == "a module") {
        session.check_eq(&reason.is_some(), &!path.reason.is_empty(), &what);
    }
    session.check(reason.unwrap_or_default().contains(path.reason), &what);
    let has_file = linked == "succeeded" && output != "/dev/null";
    session.check_eq(&!report["file"].is_null(), &has_file, &what);
    let remarks = session.text("remarks.yaml");
    session.check(!remarks.contains("stale"), &what);

    let prefix = format!("lto-prune: {output}: ");
    session.check(outcome.stderr.lines().any(|line| line.starts_with(&prefix)), &what);
    let why = format!("{}{}", outcome.stdout, outcome.stderr);
    session.check(why.lines().any(|line| line.starts_with(&format!("{output}:"))), &what);
    let ours = outcome.stderr.lines().filter(|line| line.starts_with("lto-prune: "));
    let log = session.text("log");
    for line in ours {
        let names =
            [&prefix, &format!("lto-prune: warning: {output}: "), &format!("lto-prune: error: {output}: ")];
        session.check(names.iter().any(|name| line.starts_with(name.as_str())), &format!("{line}\n{what}"));
        session.check(log.lines().any(|of_log| of_log == line), &format!("not in the log: {line}\n{what}"));
    }
    if linked == "not-run" {
        session.check(outcome.stderr.contains(&format!("lto-prune: error: {output}: ")), &what);
    }
    let says_failed = outcome.stderr.contains("the link failed");
    session.check_eq(&says_failed, &(linked == "failed"), &what);
    if !has_file {
        let audit = session.run(&session.job("lto-prune audit top report.json"));
        let says_failed = audit.stderr.contains("the linker failed");
        session
            .check(!audit.ok() && says_failed == (linked == "failed"), &format!("{}\n{what}", audit.stderr));
    }
}

#[test]
fn every_path_is_answered() {
    let mut session = prepare("paths");
    let mut object = session.bytes("lib.o");
    // The offset of the section headers points outside, which the linker refuses as well.
    object[0x28..0x30].copy_from_slice(&u64::MAX.to_le_bytes());
    session.write("damaged.o", object);
    for path in paths() {
        let is_damaged = path.name == "a damaged object";
        for is_strict in [false, true] {
            let linked = if is_damaged && !is_strict { "failed" } else { path.linked };
            check(&mut session, &PathThroughRun { linked, ..path }, is_strict);
        }
    }
}

/// A file that can't be written is an error message, and the link is the same; under `--prune-strict` it fails and leaves no output.
#[test]
fn files_that_cannot_be_written_change_no_output() {
    let mut session = prepare("unwritable");
    let line = paths().next().unwrap();
    let outcome = link(&mut session, &line, "");
    session.check(outcome.ok(), &outcome.stderr);
    let expected = session.bytes("bin/app");
    session.mkdir("folder");
    let remarks = "-Wl,--opt-remarks-filename,/nonexistent/x";
    for option in ["report", "remarks", "log", "limit-log"] {
        for file in ["/nonexistent/x", "folder", "/dev/full"] {
            let options = format!("-Wl,--prune-{option}={file}");
            let outcome = link(&mut session, &line, &options);
            let said = format!("{options}: {}", outcome.stderr);
            session.check(outcome.ok(), &said);
            session.check(
                outcome.stderr.starts_with("lto-prune: error: bin/app: ") && said.contains(file),
                &said,
            );
            session.check_eq(&outcome.stderr.lines().count(), &1, &said);
            session.check(session.bytes("bin/app") == expected, &said);
            let strict = link(&mut session, &line, &format!("{options},--prune-strict"));
            session.check(
                !strict.ok() && !session.path("bin/app").exists(),
                &format!("strict: {}", strict.stderr),
            );
            // The plain link has no output of ours to take back.
            let off = link(&mut session, &line, &format!("{options},--prune-level=off"));
            session.check(off.ok(), &off.stderr);
        }
    }
    // lld writes its own remarks only in a link of bitcode.
    let outcome = link(&mut session, &line, remarks);
    session.check(outcome.ok(), &outcome.stderr);
    session.check(session.bytes("bin/app") == expected, remarks);
}

/// Links of a build that run at the same time share a log, and no line is torn.
#[test]
fn one_log_serves_a_build() {
    let mut session = prepare("log");
    let script = "for i in 1 2 3 4 5 6 7 8; do gcc -B shims main.o lib.o -o app$i & done; wait";
    let job = session.job("sh").arg("-c").arg(script).env("LTO_PRUNE_FLAGS", "--prune-log=log");
    let outcome = session.must(&job.by(Linker::Lld));
    session.check(outcome.stderr.is_empty(), &outcome.stderr);
    let log = session.text("log");
    let lines: Vec<&str> = log.lines().collect();
    let starts: Vec<usize> = (0..lines.len()).filter(|at| lines[*at].starts_with("lto-prune: app")).collect();
    session.check_eq(&starts.len(), &8, &log);
    // Each link adds the same text but for its name.
    let length = lines.len() / 8;
    let texts = starts.iter().map(|at| lines.get(at + 1..at + length).map(<[&str]>::to_vec));
    let texts: std::collections::BTreeSet<_> = texts.collect();
    session.check(texts.len() == 1 && lines.len().is_multiple_of(8), &log);
}

/// lld's own remarks have at least those of the plain link, and only of the passes that the user selects.
#[test]
fn remarks_of_lld_have_removed_functions() {
    let mut session = prepare("remarks");
    let plain = Linker::Lld.path();
    let lto = [("-flto", ""), ("-flto=thin", ""), ("-flto", "-g")];
    for (mode, debug) in lto {
        session.must(&session.job("clang-19 -O1 -c main.c lib.c").arg(mode).words(debug));
        for (name, filter, has_ours) in [
            ("long", "--opt-remarks-filename,FILE,--opt-remarks-passes,lto", true),
            (
                "short",
                "-plugin-opt=opt-remarks-filename=FILE,-plugin-opt=opt-remarks-passes=inline|lto",
                true,
            ),
            ("all", "--opt-remarks-filename=FILE", true),
            ("none", "--opt-remarks-filename,FILE,--opt-remarks-passes,gvn", false),
            (
                "hot",
                "--opt-remarks-filename,FILE,--opt-remarks-with-hotness,--opt-remarks-hotness-threshold,9",
                false,
            ),
        ] {
            if name == "all" && !takes_equals(&mut session) {
                continue;
            }
            let mut texts = Vec::new();
            for (kind, shim) in [("plain", &plain), ("ours", &session.path("shims/ld.lld"))] {
                let file = format!("{kind}.yaml");
                let job = session
                    .job("clang-19")
                    .arg(format!("--ld-path={}", shim.display()))
                    .words("main.o lib.o -o app");
                let job = job.arg(mode).arg(format!("-Wl,{}", filter.replace("FILE", &file)));
                let outcome = session.must(&job.env("LTO_PRUNE_LINKER", &plain));
                session.check(outcome.stderr.is_empty(), &outcome.stderr);
                texts.push(session.text(&file));
            }
            let dead = |text: &str| -> Vec<String> {
                let named = text.lines().zip(text.lines().skip(1));
                let named =
                    named.filter(|(line, _)| line.starts_with("Name:") && line.ends_with("deadfunction"));
                let functions = text.split("--- !").filter(|document| document.contains("deadfunction"));
                let functions = functions
                    .filter_map(|document| document.lines().find(|line| line.starts_with("Function:")));
                assert_eq!(named.count(), functions.clone().count());
                functions.map(|line| line.rsplit(' ').next().unwrap().to_owned()).collect()
            };
            let (plain_dead, ours) = (dead(&texts[0]), dead(&texts[1]));
            session.check(
                plain_dead.iter().all(|name| ours.contains(name)),
                &format!("{mode} {name}: {texts:?}"),
            );
            for function in ["dead_one", "dead_two"] {
                let is_there = ours.iter().filter(|name| *name == function).count();
                session.check_eq(&is_there, &usize::from(has_ours), &format!("{mode} {name}: {texts:?}"));
            }
        }
    }
}

/// lld 19 takes the value of these options from the next word only.
fn takes_equals(session: &mut Session) -> bool {
    let job = Job::new(session.dir(), Linker::Lld.path())
        .words("--opt-remarks-filename=x main.o lib.o -e main -o x");
    session.run(&job).ok()
}

#[test]
fn subcommands_have_a_help_of_their_own() {
    let mut session = Session::new("answers/help");
    for name in "summarize emit dump install-shims completions explain-trap audit bisect split".split(' ') {
        let mut texts = Vec::new();
        for words in [format!("{name} --help"), format!("{name} a.o --help"), format!("{name} -h")] {
            let is_own_parser = ["audit", "bisect", "split"].contains(&name);
            if is_own_parser && words.contains("a.o") {
                continue;
            }
            let text = session.must(&session.job("lto-prune").words(&words)).stdout;
            session.check(text.contains(&format!("lto-prune {name}")), &format!("{words}: {text}"));
            session.check(!text.contains("What is pruned"), &format!("{words}: {text}"));
            texts.push(text);
        }
        session.check(texts.iter().all(|text| *text == texts[0]), name);
    }
}

/// A summary does not depend on what is analysed in the link, and the option that says so is refused.
#[test]
fn summaries_have_no_level_pointers() {
    let mut session = prepare("summaries");
    let summarize = |session: &mut Session, options: &str, file: &str| {
        let job = session.job("lto-prune").arg("summarize").words(options);
        session.run(&job.words("main.o -o").arg(file))
    };
    for (options, file) in
        [("", "default"), ("--prune-level=functions", "functions"), ("--prune-level=sections", "sections")]
    {
        let outcome = summarize(&mut session, options, file);
        session.check(outcome.ok(), &outcome.stderr);
    }
    let read = |session: &Session, file: &str| session.bytes(file);
    session.check(read(&session, "default") == read(&session, "functions"), "the default is functions");
    session.check(read(&session, "default") != read(&session, "sections"), "sections is another summary");
    let refused = summarize(&mut session, "--prune-level=pointers", "pointers");
    session.fails_with(&refused, "--interface");
    session.check(!session.path("pointers").exists(), "a summary all the same");
    let outcome = summarize(&mut session, "--prune-level=pointers --interface", "pointers");
    session.check(outcome.ok(), &outcome.stderr);
}
