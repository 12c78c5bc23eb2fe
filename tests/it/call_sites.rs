//! The call sites of the report have exactly the callees that the source says. Every callee that runs is in its set, and is kept.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::run::{Job, Session};
use crate::tools::{self, Linker};

/// The callees of each caller in the fixture `traced_calls`: all that run, and those in the same table.
const RUNS: [(&str, &[&str]); 10] = [
    ("by_register", &["add", "sub"]),
    ("by_memory", &["add", "mul", "sub"]),
    ("by_field", &["mul"]),
    ("by_stack", &["many"]),
    ("by_jump", &["mul", "sub"]),
    ("often", &["add"]),
    ("thread_call", &["in_thread"]),
    ("child_call", &["in_child"]),
    ("library_call", &["puts"]),
    ("ifunc_call", &["memcpy"]),
];

fn report(name: &str, compiler: &str, flags: &str) -> (Session, Value) {
    let mut session = Session::new(&format!("call_sites/{name}-{compiler}"));
    let source = tools::repository().join("fixtures/traced_calls/main.c");
    let job = session.job(&format!("{compiler} -pthread -fno-inline -c -o main.o")).words(flags);
    session.must(&job.arg(source));
    session.shims();
    let job = session.job(&format!("{compiler} -B shims main.o -pthread -o out")).words(flags);
    let job = job.words("-Wl,--prune-strict -Wl,--prune-level=pointers -Wl,--prune-report=report.json");
    session.must(&job.by(Linker::Lld));
    let ran = session.run(&session.job("./out"));
    session.check_eq(&ran.status, &0, "the pruned program's status");
    let report = session.report("report.json");
    (session, report)
}

/// Caller and callees of the fixture `called_contexts`, across two modules: by an argument, a variable, a field of two objects, a choice, a
/// result, and a function that returns its argument. `by_guard` calls one of two: constants are not propagated.
const ACROSS: [(&str, &[&str]); 9] = [
    ("by_argument", &["one"]),
    ("by_global", &["two"]),
    ("by_field_a", &["one"]),
    ("by_field_b", &["two"]),
    ("by_choice", &["one", "two"]),
    ("by_return", &["two"]),
    ("by_context_a", &["one"]),
    ("by_context_b", &["two"]),
    ("by_guard", &["one", "two"]),
];

fn check_across(name: &str, compiler: &str, flags: &str) {
    let mut session = Session::new(&format!("call_sites/across-{name}-{compiler}"));
    let dir = session.dir().to_owned();
    for unit in ["main", "calls"] {
        let source = tools::repository().join(format!("fixtures/called_contexts/{unit}.c"));
        session.must(&session.job(&format!("{compiler} -c")).words(flags).arg(source));
    }
    tools::shim_dir(&session.path("plain-shims"), &Linker::Lld.path());
    session.shims();
    for (shims, out) in [("-B plain-shims", "plain"), ("-B shims", "out")] {
        let job = Job::new(&dir, compiler).words(shims).words("main.o calls.o -o").arg(out).words(flags);
        let options = "-Wl,--prune-strict -Wl,--prune-level=pointers -Wl,--prune-report=report.json";
        session.must(&job.words(if out == "plain" { "" } else { options }).by(Linker::Lld));
    }
    for arguments in ["", "another"] {
        let plain = session.run(&session.job("./plain").words(arguments));
        let pruned = session.run(&session.job("./out").words(arguments));
        session.check_eq(&(pruned.status, pruned.stdout), &(plain.status, plain.stdout), "what it does");
    }
    let report = session.report("report.json");
    for site in report["call_sites"].as_array().unwrap() {
        let caller = report["atoms"][site["caller"].as_u64().unwrap() as usize]["symbols"][0].as_str();
        let callees = ACROSS.iter().find(|of| Some(of.0) == caller).map(|of| of.1);
        let expected = callees.map(|callees| callees.iter().map(|c| (*c).to_owned()).collect());
        session.check_eq(&may_call(&report, site), &expected, &format!("what {caller:?} calls"));
    }
    // Optimisers take calls away, but not all of them.
    session.check_eq(&report["call_sites"].as_array().unwrap().is_empty(), &false, "no calls");
}

#[test]
fn callees_are_exact_across_modules() {
    for compiler in ["gcc", "clang-19"] {
        check_across("O0", compiler, "-O0");
        check_across("O2", compiler, "-O2");
    }
    check_across("thin-O0", "clang-19", "-O0 -flto=thin -Xclang -disable-O0-optnone");
    check_across("thin-O2", "clang-19", "-O2 -flto=thin");
}

/// The names of the callees of a site, or `None` for any callee.
fn may_call(report: &Value, site: &Value) -> Option<BTreeSet<String>> {
    if site["state"] == "overdefined" {
        return None;
    }
    let names = |value: &Value| -> Vec<String> {
        value.as_array().unwrap().iter().map(|n| n.as_str().unwrap().to_owned()).collect()
    };
    let targets = site["targets"].as_array().unwrap().iter();
    let atoms = targets.map(|t| &report["atoms"][t["atom"].as_u64().unwrap() as usize]);
    Some(atoms.flat_map(|a| names(&a["symbols"])).chain(names(&site["externals"])).collect())
}

fn check(name: &str, compiler: &str, flags: &str) {
    let (session, report) = report(name, compiler, flags);
    let sites = report["call_sites"].as_array().unwrap();
    for (caller, callees) in RUNS {
        let of_caller = |site: &&Value| {
            let atom = &report["atoms"][site["caller"].as_u64().unwrap() as usize];
            atom["symbols"].as_array().unwrap().iter().any(|s| s == caller)
        };
        let here: Vec<&Value> = sites.iter().filter(of_caller).collect();
        session.check_eq(&here.len(), &1, &format!("sites of {caller}"));
        let runs: BTreeSet<String> = callees.iter().map(|c| (*c).to_owned()).collect();
        let may = may_call(&report, here[0]);
        // An index into a table means any object of its section, where objects are not distinguished.
        if let (Some(may), "by_memory") = (&may, caller) {
            session.check_eq(&may.is_superset(&runs), &true, &format!("{may:?} has what {caller} calls"));
        } else {
            session.check_eq(&may, &Some(runs), &format!("what {caller} calls"));
        }
        for callee in callees.iter().filter(|c| !["puts", "memcpy"].contains(c)) {
            let symbols = report["symbols"].as_array().unwrap();
            let live = symbols.iter().any(|s| s["name"] == *callee && s["live"] == true);
            session.check_eq(&live, &true, &format!("{callee} is live"));
        }
    }
}

#[test]
fn sets_are_what_the_source_says() {
    for compiler in ["gcc", "clang-19"] {
        for (name, flags) in [
            ("O0", "-O0 -fPIE -pie"),
            ("O2", "-O2 -fPIE -pie"),
            ("fixed", "-O1 -fno-pie -no-pie"),
            ("fs", "-O3 -ffunction-sections"),
        ] {
            check(name, compiler, flags);
        }
    }
}
