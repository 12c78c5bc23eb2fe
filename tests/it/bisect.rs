//! `lto-prune bisect` finds the known atom that makes a command fail.
//!
//! The fault is a stub that runs (`--prune-stub-symbol`), or the command itself needs a removed symbol.

use std::os::unix::process::CommandExt as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::run::{Job, Outcome, Session};
use crate::tools::Linker;

const MAIN: &str = "#include <stdio.h>\nint helper(int);\n\
    int dead_a(int x) { return helper(x) + 1; }\nint dead_b(int x) { return dead_a(x) * 3; }\n\
    int dead_c(int x) { return dead_a(x) + dead_b(x); }\nint table[4] = { 1, 2, 3, 4 };\n\
    int main(int argc, char **argv) { printf(\"%d\\n\", helper(argc)); return argv == 0; }\n";
const LIB: &str = "int wanted(int x) { return x ^ 5; }\nint dead_d(int x) { return wanted(x) + 2; }\n\
    int dead_e(int x) { return dead_d(x) + wanted(x); }\nint helper(int x) { return x + 1; }\n";

/// A session with objects `main.o`, `lib.o`, `liblib.a` and shims.
fn prepare(name: &str) -> Session {
    let mut session = Session::new(&format!("bisect/{name}"));
    session.write("main.c", MAIN);
    session.write("lib.c", LIB);
    session.cmd("gcc -O1 -fno-inline -ffunction-sections -fdata-sections -c main.c lib.c");
    session.cmd("ar qcs liblib.a lib.o");
    session.shims();
    session.mkdir("tmp");
    session
}

fn job(session: &Session) -> Job {
    let job = session.job("lto-prune").arg("bisect").env("TMPDIR", session.path("tmp"));
    job.by(Linker::Lld)
}

fn bisect(session: &mut Session, script: &str, flags: &str, options: &str) -> Outcome {
    let job = job(session).words(options).arg("--").words("sh -c").arg(script).env("LTO_PRUNE_FLAGS", flags);
    let outcome = session.run(&job);
    let left = std::fs::read_dir(session.path("tmp")).unwrap().count();
    session.check_eq(&left, &0, "temporary files");
    outcome
}

fn said(session: &Session, outcome: &Outcome, status: i32, texts: &[&str]) {
    let all = format!("exit status {}\n{}{}", outcome.status, outcome.stdout, outcome.stderr);
    session.check_eq(&outcome.status, &status, &all);
    for text in texts {
        session.check(all.contains(text), &format!("no `{text}` in\n{all}"));
    }
}

/// The commands that are printed at the end: the first fails, the second succeeds.
fn repeats(session: &mut Session, outcome: &Outcome) {
    let lines: Vec<String> =
        outcome.stdout.lines().filter(|l| l.starts_with("  LTO_PRUNE_FLAGS=")).map(str::to_owned).collect();
    session.check_eq(&lines.len(), &2, &outcome.stdout);
    for (line, good) in lines.iter().zip([false, true]) {
        let run = session.run(&session.job("sh").arg("-c").arg(line).by(Linker::Lld));
        session.check_eq(&run.ok(), &good, &format!("{line}: {}", run.stderr));
    }
}

const LINK: &str = "gcc -B shims main.o liblib.a -o out && ./out";

#[test]
fn symbol_that_the_command_asks_for() {
    // `wanted` is referred to by other dead functions: the limit must tell it from them.
    // wild collects garbage by itself, so that nothing that is dropped would be there.
    for linker in Linker::ALL.into_iter().filter(|linker| *linker != Linker::Wild) {
        let mut session = prepare(&format!("symbol-{}", linker.name()));
        let script = format!("{LINK} && nm out | grep -q ' wanted$'");
        let outcome = session.run(&job(&session).arg("--").words("sh -c").arg(&script).by(linker));
        let place = "place:    liblib.a(lib.o), section .text.wanted at 0x0";
        let why = "why:      only dropped atoms refer to it: dead_d, dead_e";
        let keep = "--prune-keep=wanted\n";
        said(
            &session,
            &outcome,
            0,
            &["found: wanted\n", place, why, keep, "all else dropped", "bytes, dropped\n"],
        );
        session.check(!outcome.stdout.contains("with it"), &outcome.stdout);
        repeats(&mut session, &outcome);
    }
}

#[test]
fn stub_that_runs() {
    // At the level `functions` too, where objects are not divided by the compiler.
    let mut session = prepare("stub");
    session.cmd("gcc -O1 -fno-inline -c main.c lib.c");
    for level in ["functions", "pointers"] {
        let flags = format!("--prune-stub-symbol=helper --prune-level={level}");
        let outcome = bisect(&mut session, "gcc -B shims main.o lib.o -o out && ./out", &flags, "");
        said(
            &session,
            &outcome,
            0,
            &["found: helper\n", "replaced by a trap", "its address is needed", "exit status 132"],
        );
        said(&session, &outcome, 0, &["main takes it", "lib.o, section .text at 0x"]);
        repeats(&mut session, &outcome);
    }
}

#[test]
fn one_of_several_links() {
    // A parallel make with new names for its temporary files in each run. The third program fails.
    let mut session = prepare("make");
    let mut makefile = "all: a b c d\n".to_owned();
    for name in ["a", "b", "c", "d"] {
        let asks = if name == "c" { "&& nm $$t/c | grep -q ' wanted$$'" } else { "" };
        session.write(&format!("{name}.c"), MAIN.replace("dead_b", &format!("dead_{name}b")));
        session.cmd(&format!("gcc -O1 -fno-inline -ffunction-sections -c {name}.c"));
        let link =
            format!("t=$$(mktemp -d) && gcc -B shims {name}.o liblib.a -o $$t/{name} && $$t/{name} {asks}");
        makefile += &format!(".PHONY: {name}\n{name}:\n\t{link}; s=$$?; rm -r $$t; exit $$s\n");
    }
    session.write("Makefile", makefile);
    for make in ["make", "make -j4", "make -k -j3"] {
        let outcome = session.run(&job(&session).arg("--").words(make));
        said(
            &session,
            &outcome,
            0,
            &["found: wanted\n", "liblib.a(lib.o)", "/c\n", "All other links were whole"],
        );
        repeats(&mut session, &outcome);
        let left = std::fs::read_dir(session.path("tmp")).unwrap().count();
        session.check_eq(&left, &0, "temporary files");
    }
}

#[test]
fn two_links_that_fail_only_together() {
    let mut session = prepare("together");
    session.write("lib2.c", LIB.replace("wanted", "second"));
    session.cmd("gcc -O1 -fno-inline -ffunction-sections -c lib2.c");
    let script = "gcc -B shims main.o liblib.a -o one && gcc -B shims main.o lib2.o -o two && \
        { nm one | grep -q ' wanted$' || nm two | grep -q ' second$'; }";
    let outcome = bisect(&mut session, script, "", "");
    said(
        &session,
        &outcome,
        0,
        &["found: second\n", "only if links before this one are pruned too", "--prune-keep=second\n"],
    );
    repeats(&mut session, &outcome);
}

#[test]
fn two_atoms_of_which_one_is_not_enough() {
    let mut session = prepare("two");
    let script = format!("{LINK} && nm out | grep -q ' wanted$' && nm out | grep -q ' table$'");
    let outcome = bisect(&mut session, &script, "", "");
    said(&session, &outcome, 0, &["That alone is not enough", "bisect again"]);
    let first = if outcome.stdout.contains("found: wanted") { "wanted" } else { "table" };
    let second = if first == "wanted" { "table" } else { "wanted" };
    let outcome = bisect(&mut session, &script, &format!("--prune-keep={first}"), "");
    said(&session, &outcome, 0, &[&format!("found: {second}\n"), "all else dropped"]);
    session.says(&outcome.stdout, &format!("LTO_PRUNE_FLAGS='--prune-keep={first} "));
}

#[test]
fn atoms_of_a_circle_go_together() {
    let mut session = prepare("circle");
    let circle = "int one(int); int two(int x) { return x ? one(x - 1) : 2; }\nint one(int x) { return x ? two(x - 1) : 1; }\n";
    session.write("circle.c", circle);
    session.cmd("gcc -O1 -fno-inline -ffunction-sections -c circle.c");
    let script = "gcc -B shims main.o circle.o liblib.a -o out && nm out | grep -q ' one$'";
    let outcome = bisect(&mut session, script, "", "");
    said(&session, &outcome, 0, &["with it:", "one", "two", "all else dropped"]);
}

#[test]
fn nothing_to_find() {
    let mut session = prepare("nothing");
    let outcome = bisect(&mut session, LINK, "", "");
    said(&session, &outcome, 2, &["nothing to find", "succeeds with all"]);
}

#[test]
fn command_that_fails_anyway() {
    let mut session = prepare("anyway");
    let outcome = bisect(&mut session, &format!("{LINK} && echo the reason && false"), "", "");
    said(&session, &outcome, 3, &["fails with nothing dropped (exit status 1)", "  | the reason"]);
    session.check_eq(&outcome.stderr.matches("bisect: run").count(), &1, "runs");
}

#[test]
fn command_that_does_not_link() {
    let mut session = prepare("nolink");
    for (script, flags) in
        [("true", ""), ("false || gcc main.o lib.o -o out", ""), (LINK, "--prune-level=off")]
    {
        let outcome = bisect(&mut session, script, flags, "");
        said(&session, &outcome, 5, &["no link was made through lto-prune"]);
    }
    // Only the first run links.
    std::fs::remove_file(session.path("out")).unwrap();
    let outcome = bisect(&mut session, &format!("test -e out || {{ {LINK}; }}"), "", "");
    said(&session, &outcome, 4, &["did not link", "remove the outputs first"]);
}

#[test]
fn command_that_stops_linking() {
    // From the fourth run on, the command uses the program of the third and links nothing.
    let mut session = prepare("stops");
    let script = format!(
        "echo x >> runs; if test $(wc -l < runs) -le 3; then {LINK}; fi && nm out | grep -q ' wanted$'"
    );
    let outcome = bisect(&mut session, &script, "", "");
    said(&session, &outcome, 4, &["did not link", "run 4"]);
    session.check(!outcome.stderr.contains("run 5"), &outcome.stderr);
}

#[test]
fn command_that_cannot_be_run() {
    let mut session = prepare("cannot");
    for command in ["no-such-command-anywhere", "./main.c", "./"] {
        let outcome = session.run(&job(&session).arg("--").arg(command));
        said(&session, &outcome, 127, &[command, "cannot be run"]);
    }
    let job = job(&session).arg("--repeat=none").arg("true");
    let outcome = session.run(&job);
    said(&session, &outcome, 1, &["--repeat=none: not a number of runs"]);
    let help = self::job(&session).arg("--help");
    let help = session.must(&help);
    session.says(&help.stdout, "lto-prune bisect [options]");
}

#[test]
fn limit_on_the_line_is_seen() {
    let mut session = prepare("own");
    for limit in ["0", "2"] {
        let link = LINK.replace("-o", &format!("-Wl,--prune-limit={limit} -o"));
        let outcome = bisect(&mut session, &link, "", "");
        said(&session, &outcome, 4, &["has a --prune-limit on its own line"]);
    }
}

#[test]
fn failure_now_and_then() {
    // Of four runs in which `wanted` is gone one fails.
    let mut session = prepare("flaky");
    let script = format!(
        "{LINK} && {{ nm out | grep -q ' wanted$' || {{ echo x >> count; test $(($(wc -l < count) % 4)) != 0; }}; }}"
    );
    let outcome = bisect(&mut session, &script, "", "--repeat=4");
    said(&session, &outcome, 0, &["found: wanted\n"]);
    let outcome = bisect(&mut session, &format!("{LINK} && ! test -e fails && touch fails"), "", "");
    session.check_eq(&outcome.status, &4, &outcome.stderr);
    said(&session, &outcome, 4, &["--repeat=N"]);
}

#[test]
fn hanging_command_is_ended() {
    let mut session = prepare("hang");
    let script = format!(
        "{LINK} && {{ nm out | grep -q ' wanted$' || {{ sleep 70 & echo $! >> pids; sleep 70; }}; }}"
    );
    let outcome = bisect(&mut session, &script, "", "--timeout=2.5");
    said(&session, &outcome, 0, &["found: wanted\n", "took longer than 2.5 s"]);
    for pid in session.text("pids").lines() {
        still_runs_not(&session, pid);
    }
}

/// A process that the command started is gone, or waits to be reaped. One that was killed is there until it has its turn.
fn still_runs_not(session: &Session, pid: &str) {
    let state = || std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    session.wait_until(pid, || state().is_empty() || state().contains("State:\tZ"));
}

#[test]
fn interrupted_search_leaves_nothing() {
    for signal in ["INT", "TERM"] {
        let mut session = prepare(&format!("interrupted-{signal}"));
        let job = job(&session)
            .arg("--")
            .words("sh -c")
            .arg(format!("{LINK} && {{ sleep 60 & echo $! > started; wait; }}"));
        let mut child = job.command().stderr(Stdio::null()).process_group(0).spawn().unwrap();
        let start = Instant::now();
        let pid = || std::fs::read_to_string(session.path("started")).unwrap_or_default();
        session.wait_until("started", || pid().ends_with('\n'));
        let pid = pid().trim().to_owned();
        session.must(&session.job("/bin/kill").arg(format!("-{signal}")).arg(child.id().to_string()));
        let status = child.wait().unwrap();
        session.check(start.elapsed() < Duration::from_secs(40), "it waits for the command");
        use std::os::unix::process::ExitStatusExt as _;
        let number = if signal == "INT" { 2 } else { 15 };
        session.check_eq(&status.signal(), &Some(number), "the signal that ended it");
        still_runs_not(&session, &pid);
        session.check_eq(&std::fs::read_dir(session.path("tmp")).unwrap().count(), &0, "temporary files");
    }
}

#[test]
fn log_names_the_links() {
    let mut session = prepare("log");
    for output in ["one", "two"] {
        let job = session.job("gcc -B shims main.o liblib.a -Wl,--prune-limit-log=log -o").arg(output);
        session.must(&job.by(Linker::Lld));
    }
    let text = session.text("log");
    let lines: Vec<serde_json::Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    session.check_eq(&lines.len(), &2, &text);
    session.check_eq(&lines[0]["link"], &lines[1]["link"], "ids of links that could lose the same");
    session.check(lines[0]["output"].as_str().unwrap().ends_with("/one"), &text);
    let atoms = lines[0]["atoms"].as_u64().unwrap();
    let report = "-Wl,--prune-report=report.json";
    for (limit, dropped) in [("2", 2), ("2@0", 0), ("all@1,3@LINK", 3), ("all", atoms)] {
        let limit = limit.replace("LINK", lines[0]["link"].as_str().unwrap());
        let job = session.job("gcc -B shims main.o liblib.a -o out").arg(report);
        session.must(&job.arg("-Xlinker").arg(format!("--prune-limit={limit}")).by(Linker::Lld));
        let report = session.report("report.json");
        let gone = report["atoms"].as_array().unwrap().iter().filter(|a| a["state"] == "dropped").count();
        session.check_eq(&(gone as u64), &dropped, &format!("atoms dropped under {limit}"));
    }
}
