//! The report's calls that integers keep control from: which they are, and what is always the same there.
//!
//! Held against the sources of two fixtures, which say what each test is of; what becomes of the callees those fixtures hold.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::matrix;
use crate::run::{Job, Session};
use crate::tools::{self, Linker};

/// By the names of the callees: why they are not called.
fn unreached(name: &str, flags: &str) -> (Session, BTreeMap<String, String>, Value) {
    let mut session = Session::new(&format!("unreached/{name}"));
    let dir = session.dir().to_owned();
    let mut link = Job::new(&dir, "gcc").words("-B shims -no-pie -o out");
    for source in ["main", "other", "never"] {
        let path = tools::repository().join(format!("fixtures/{name}/{source}.c"));
        session.must(&Job::new(&dir, "gcc").words("-O1 -fno-pie -c -o").arg(format!("{source}.o")).arg(path));
        link = link.arg(format!("{source}.o"));
    }
    tools::shim_dir(&session.path("shims"), &tools::lto_prune());
    let link = link.words("-Wl,--prune-strict -Wl,--prune-level=pointers -Wl,--prune-report=report.json");
    session.must(&link.words(flags).env("LTO_PRUNE_LINKER", Linker::Lld.path()));
    let report = matrix::report(&session, &session.path("report.json"));
    let calls = report["unreached_calls"].as_array().unwrap();
    let because = |call: &Value| {
        let atom = &report["atoms"][call["callee"].as_u64().unwrap() as usize];
        let name = atom["symbols"][0].as_str().unwrap().to_owned();
        (name, call["because"].as_str().unwrap().to_owned())
    };
    (session, calls.iter().map(because).collect(), report)
}

#[test]
fn memory_that_is_always_the_same_is_named() {
    let (session, calls, report) = unreached("ic_memory", "-Wl,--prune-constants");
    for (callee, because) in [
        (
            "never_verbose",
            "memory at 0x0 of verbose (main.o:(.bss)) is always 0x0; its lowest 4 byte(s) must be not equal to 0x0",
        ),
        (
            "never_level",
            "memory at 0x0 of level (main.o:(.data)) is always 0x3; its lowest 4 byte(s) must be not equal to 0x3",
        ),
        (
            "never_quiet",
            "of quiet (main.o:(.bss)) is always 0x0; its lowest 4 byte(s) must be not equal to 0x0",
        ),
    ] {
        let found = calls.get(callee).map_or("nothing", String::as_str);
        let tail = because.split_once(" of ").map_or(because, |b| b.1);
        session.check_eq(&found.ends_with(tail), &true, &format!("{callee}: {found}"));
    }
    let counts = &report["value_flow"]["constants"];
    session.check_eq(&counts["unreached_sites"], &Value::from(calls.len()), "the count");
}

#[test]
fn parameters_that_are_always_the_same_are_named() {
    let (session, calls, _) = unreached("ic_parameters", "-Wl,--prune-constants");
    for (callee, because) in [
        ("never_mode", "parameter rdi is always 0x0; its lowest 4 byte(s) must be not equal to 0x0"),
        ("never_tail", "parameter rsi is always 0x0; its lowest 4 byte(s) must be not equal to 0x0"),
        (
            "never_range",
            "parameter rdi is always 0x5; its lowest 8 byte(s) must be not less than or equal to 0x5",
        ),
    ] {
        session.check_eq(&calls.get(callee).map(String::as_str), &Some(because), callee);
    }
}

#[test]
fn without_the_option_there_are_none() {
    let (session, calls, report) = unreached("ic_memory", "");
    session.check_eq(&calls.len(), &0, "calls");
    session.check_eq(&report["value_flow"]["constants"], &Value::Null, "counts");
}
