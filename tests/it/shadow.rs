//! `--prune-level=off` with a report is a dry run: the link is that of the linker alone, byte by byte, and the report says which code would be
//! removed.
//!
//! A failure of the analysis affects only the report: a missing folder, a killed process.

use std::io::Read as _;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::reports;
use crate::run::{Job, Session};
use crate::tools::Linker;

const MAIN: &str = "#include <stdio.h>\nint callee(int);\nint dead_one(int x) { return callee(x); }\n\
    int main(int argc, char **argv) { printf(\"%d\\n\", callee(argc)); return argv == 0; }\n";
const LIB: &str = "int callee(int x) { return x + 1; }\nint dead_two(void) { return 3; }\n";
const BROKEN: &str =
    "int nowhere(void);\nint dead_three(void) { return 1; }\nint main(void) { return nowhere(); }\n";

fn prepare(name: &str, compiler: &str, mode: &str) -> Session {
    let mut session = Session::new(&format!("shadow/{name}"));
    for (file, text) in [("main.c", MAIN), ("lib.c", LIB), ("broken.c", BROKEN)] {
        session.write(file, text);
    }
    let job =
        session.job(&format!("{compiler} -O1 -fno-inline -ffunction-sections -c main.c lib.c broken.c"));
    session.must(&job.words(mode));
    session.cmd("ar qcs liblib.a lib.o");
    session.shims();
    for linker in Linker::ALL {
        // Linkers name themselves as they are called: by their own path.
        let script = format!("#!/bin/sh\nexec {} \"$@\"\n", linker.path().display());
        session.script(&format!("plain-{}/ld", linker.name()), script);
    }
    session
}

/// Names of the functions with an atom in this state.
fn in_state(report: &Value, state: &str) -> Vec<String> {
    let atoms = report["atoms"].as_array().unwrap().iter().filter(|a| a["state"] == state);
    atoms.flat_map(|a| a["symbols"].as_array().unwrap()).map(|s| s.as_str().unwrap().to_owned()).collect()
}

/// Link `inputs` by the linker alone and in the shadow, and hold all that can be seen of the one against the other.
fn same_link(session: &mut Session, compiler: &str, linker: Linker, line: &str) -> Value {
    let dir = session.dir().to_owned();
    let out = session.path("out");
    let mut seen = Vec::new();
    let report = session.path("report.json");
    let _ = std::fs::remove_file(&report);
    for (folder, options) in [
        (format!("plain-{}", linker.name()), ""),
        (
            "shims".to_owned(),
            "-Wl,--prune-level=off -Wl,--prune-worth=0 -Wl,--prune-report=report.json -Wl,--prune-strict",
        ),
    ] {
        let _ = std::fs::remove_file(&out);
        let job = Job::new(&dir, compiler).arg("-B").arg(folder).words(line).words("-o out").words(options);
        let outcome = session.run(&job.by(linker));
        seen.push((outcome.status, outcome.stdout, outcome.stderr, std::fs::read(&out).ok()));
    }
    let [plain, shadow] = &seen[..] else { session.fail("two links") };
    session.check_eq(&shadow.0, &plain.0, "exit status");
    session.check_eq(&shadow.1, &plain.1, "standard output");
    session.check_eq(&shadow.2, &plain.2, "standard error");
    session.check(shadow.3 == plain.3, "the outputs differ");
    let report = reports::report(session, &report);
    session.check_eq(&report["shadow"], &true.into(), "shadow");
    session.check_eq(&report["pruned"], &false.into(), "pruned");
    report
}

fn shadow_of(linker: Linker) {
    for compiler in ["gcc", "clang-19"] {
        for mode in ["-fPIE -pie", "-fno-pie -no-pie", "-fno-pie -static", "-fPIC -shared"] {
            let name = format!("{}-{compiler}{}", linker.name(), mode.replace(' ', ""));
            let mut session = prepare(&name, compiler, mode);
            let line = format!("{mode} main.o liblib.a");
            let report = same_link(&mut session, compiler, linker, &line);
            session.check_eq(&report["level"], &"pointers".into(), "level");
            let dropped = in_state(&report, "dropped");
            let expected = match mode.ends_with("-shared") {
                // All of main.o is exported; of the library too.
                true => Vec::new(),
                false => vec!["dead_one", "dead_two"],
            };
            let ours: Vec<&str> =
                dropped.iter().map(String::as_str).filter(|n| n.starts_with("dead_")).collect();
            session.check_eq(&ours, &expected, "what would go");
            let would = report["totals"]["difference"].as_i64().unwrap();
            session.check(would > 0 || expected.is_empty(), &format!("{would} bytes would go"));
            let statuses: Vec<&str> =
                report["modules"].as_array().unwrap().iter().filter_map(|m| m["status"].as_str()).collect();
            session.check(!statuses.contains(&"pruned"), "a pruned module");
            session.check(expected.is_empty() || statuses.contains(&"would-be-pruned"), "no module marked");

            let line = format!("{mode} -Wl,-z,defs broken.o");
            let report = same_link(&mut session, compiler, linker, &line);
            let limits = report["limits"].as_array().unwrap();
            let said = limits.iter().any(|l| l["detail"].as_str().is_some_and(|d| d.contains("nowhere")));
            session.check(said, &format!("the undefined symbol is not in {limits:#?}"));
        }
    }
}

macro_rules! shadows {
    ($($name:ident: $linker:ident)*) => { $(#[test] fn $name() { shadow_of(Linker::$linker); })* };
}

shadows! { shadow_of_lld: Lld shadow_of_mold: Mold shadow_of_bfd: Bfd shadow_of_gold: Gold }

#[test]
fn level_of_the_shadow_can_be_named() {
    let mut session = prepare("level", "gcc", "");
    for (option, level) in [("off", "pointers"), ("off:functions", "functions"), ("off:pointers", "pointers")]
    {
        session.link(
            Linker::Lld,
            &format!(
                "gcc -B shims main.o liblib.a -o out -Wl,--prune-level={option},--prune-report=report.json"
            ),
        );
        let report = session.report("report.json");
        session.check_eq(&report["level"], &level.into(), option);
        session.check_eq(&report["value_flow"].is_null(), &(level != "pointers"), "value flow");
    }
}

#[test]
fn every_form_of_report_is_written() {
    let mut session = prepare("forms", "gcc", "");
    let job = session.job("gcc -B shims main.o liblib.a -o out -Wl,--prune-level=off");
    let job = job.by(Linker::Lld);
    let outcome = session.must(&job.clone().words("-Wl,--prune-why=dead_one -Wl,--prune-stats=full -Wl,-v"));
    session.says(&outcome.stdout, "dead_one in main.o: would be dropped");
    session.says(&outcome.stderr, "would be pruned");
    // The linker's version is the linker's: configure scripts read it.
    session.check_eq(&outcome.stdout.matches("lto-prune 0").count(), &0, "version lines");
    session.must(&job.clone().words("-Wl,--prune-remarks=remarks.yaml -Wl,--prune-repro=repro.tar"));
    let remarks = session.text("remarks.yaml");
    let one =
        "--- !Analysis\nPass:            lto\nName:            deadfunction\nFunction:        dead_one\n";
    session.check(remarks.contains(one) && !remarks.contains("!Passed"), &remarks);
    session.check(session.path("repro.tar").exists(), "no repro.tar");
    session.must(&job.words("-Wl,--prune-report=report.json"));
    let text = session.cmd("lto-prune audit why dead_one report.json").stdout;
    session.check(
        text.contains("would be dropped: no live atom refers to it; not pruned: --prune-level=off"),
        &text,
    );
}

#[test]
fn analysis_that_is_killed_does_not_end_the_link() {
    // A pipe without a reader holds the analysis while it opens the report; then it is killed.
    let mut session = prepare("killed", "gcc", "");
    session.cmd("mkfifo report.json");
    let job = session.job("shims/ld main.o -e main --unresolved-symbols=ignore-all");
    let job = job.words("-o out --prune-level=off --prune-report=report.json");
    let mut command = job.by(Linker::Lld).command();
    let mut child = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    let start = Instant::now();
    let analysis = loop {
        // The linker is gone when only the analysis is left.
        let found = session.run(&session.job("pgrep").arg("-P").arg(child.id().to_string())).stdout;
        let ids: Vec<&str> = found.lines().collect();
        if let ([id], true) = (&ids[..], session.path("out").exists()) {
            break (*id).to_owned();
        }
        session.check(start.elapsed() < Duration::from_secs(30), "no analysis");
        std::thread::sleep(Duration::from_millis(20));
    };
    session.must(&session.job("/bin/kill").arg("-KILL").arg(analysis));
    let status = child.wait().unwrap();
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    session.check(status.success(), &text);
    session.check(text.contains("ended by signal 9; there is no report"), &text);
}

#[test]
fn line_too_long_for_the_system_is_linked() {
    // A response file of two megabytes, and a stack limit that is too small for such a command line.
    let mut session = prepare("long", "gcc", "");
    let line: String = (0..40_000).map(|i| format!("-L/{:060}{i}\n", 0)).collect();
    session.write("long.rsp", line);
    for options in ["--prune-level=off", "--prune-level=off --prune-report=report.json", "--prune-keep=main"]
    {
        let _ = std::fs::remove_file(session.path("out"));
        let script = format!(
            "ulimit -s 8192; exec shims/ld main.o -e main --unresolved-symbols=ignore-all -o out @long.rsp {options}"
        );
        let job = session.job("sh").arg("-c").arg(script);
        session.mkdir("tmp");
        session.must(&job.env("TMPDIR", session.path("tmp")).by(Linker::Lld));
        session.check(session.path("out").exists(), "no output");
        let left = std::fs::read_dir(session.path("tmp")).unwrap().count();
        session.check_eq(&left, &0, "temporary files");
    }
}
