//! The tracer sees what runs: all of it, wherever it runs, and nothing else; and the traced program does what it does alone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::program::TracedProgram;
use super::tracer::{self, CallTarget, Run, Trace};
use crate::corpus::Link;

pub(super) fn scratch(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("bench-trace-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

fn compile(dir: &Path, flags: &[&str]) -> TracedProgram {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/traced_calls/main.c");
    let binary = dir.join("main");
    let status = Command::new("gcc")
        .args(["-O2", "-fno-inline", "-pthread"])
        .args(flags)
        .arg(source)
        .arg("-o")
        .arg(&binary)
        .status()
        .unwrap();
    assert!(status.success());
    TracedProgram::read(&binary).unwrap()
}

/// Run it traced; what it printed.
fn run(program: &TracedProgram, dir: &Path, limit: u64) -> (Trace, String) {
    let (stdout, stderr) = (dir.join("stdout"), dir.join("stderr"));
    let binary = dir.join("main");
    let args = [binary.as_os_str()];
    let run = Run { args: &args, dir, stdout: &stdout, stderr: &stderr, limit };
    let trace = tracer::trace(program, &run).unwrap();
    assert_eq!(trace.status, 0, "{}", std::fs::read_to_string(&stderr).unwrap());
    (trace, std::fs::read_to_string(stdout).unwrap())
}

/// Caller, callee and hits, by name, of the fixture's own functions.
fn seen(program: &TracedProgram, trace: &Trace) -> BTreeMap<(String, String), u64> {
    let mut out = BTreeMap::new();
    for (site, observed) in &trace.sites {
        let caller = program.function(*site).unwrap().to_owned();
        for (target, hits) in &observed.targets {
            let callee = match target {
                CallTarget::Inside(address) => program.function(*address).unwrap_or("unnamed").to_owned(),
                CallTarget::Library(names) if names.contains("puts") => "puts".to_owned(),
                CallTarget::Library(names) if names.contains("memcpy") => "memcpy".to_owned(),
                CallTarget::Library(names) => format!("{names:?}"),
            };
            *out.entry((caller.clone(), callee)).or_default() += hits;
        }
    }
    out
}

/// What it prints when nobody watches.
fn alone(dir: &Path) -> String {
    String::from_utf8(Command::new(dir.join("main")).output().unwrap().stdout).unwrap()
}

fn expected(often: u64) -> BTreeMap<(String, String), u64> {
    [
        ("by_register", "add", 1),
        ("by_register", "sub", 1),
        ("by_memory", "add", 1),
        ("by_memory", "sub", 1),
        ("by_field", "mul", 1),
        ("by_stack", "many", 1),
        // Once in the first program, once in the one that exec started.
        ("by_jump", "mul", 1),
        ("by_jump", "sub", 1),
        ("often", "add", often),
        ("thread_call", "in_thread", 800),
        ("child_call", "in_child", 1),
        ("library_call", "puts", 1),
        ("ifunc_call", "memcpy", 1),
    ]
    .map(|(caller, callee, hits)| ((caller.to_owned(), callee.to_owned()), hits))
    .into()
}

fn check(name: &str, flags: &[&str]) {
    let dir = scratch(name);
    let program = compile(&dir, flags);
    let (trace, printed) = run(&program, &dir, u64::MAX);
    assert_eq!(printed, alone(&dir));
    assert_eq!(seen(&program, &trace), expected(1000));
    assert_eq!((trace.processes, trace.lost), (2, 0));
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_position_independent_program_is_seen() {
    check("pie", &["-fPIE", "-pie"]);
}

#[test]
fn a_program_at_fixed_addresses_is_seen() {
    check("fixed", &["-fno-pie", "-no-pie"]);
}

#[test]
fn prefixed_branches_are_seen() {
    check("cet", &["-fcf-protection=full", "-fno-plt"]);
}

#[test]
fn a_site_that_runs_often_is_taken_out() {
    let dir = scratch("often");
    let program = compile(&dir, &[]);
    let (trace, printed) = run(&program, &dir, 900);
    assert_eq!(printed, alone(&dir));
    assert_eq!(seen(&program, &trace), expected(900));
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_static_program_is_seen() {
    let dir = scratch("static");
    let program = compile(&dir, &["-static"]);
    let (trace, printed) = run(&program, &dir, u64::MAX);
    assert_eq!(printed, alone(&dir));
    // The C library's own calls are seen too, and its functions have names that depend on the processor.
    let callers: BTreeSet<String> = expected(0).into_keys().map(|(caller, _)| caller).collect();
    let mut got = seen(&program, &trace);
    got.retain(|(caller, _), _| callers.contains(caller));
    let named = |calls: &BTreeMap<(String, String), u64>| {
        calls.iter().map(|((caller, _), hits)| (caller.clone(), *hits)).collect::<Vec<_>>()
    };
    assert_eq!(named(&got), named(&expected(1000)));
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_closed_link_is_the_same_without_its_exports() {
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let link = |driver: &str, linker: &str| Link {
        program: "lua".into(),
        mode: "gcc-mono".into(),
        dir: PathBuf::new(),
        driver: words(driver),
        linker_args: words(linker),
    };
    let open = link("gcc a.o -Wl,-E -lm", "a.o -E -lm");
    let closed = super::closed(&open).unwrap();
    assert_eq!((closed.driver, closed.linker_args), (words("gcc a.o -lm"), words("a.o -lm")));
    assert_eq!(closed.mode, "closed-gcc-mono");
    assert!(super::closed(&link("gcc a.o", "a.o")).is_none());
}
