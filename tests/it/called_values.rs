//! Indirect calls of small programs of IR, held against LLVM's own called value propagation: what LLVM resolves is resolved, by the
//! same functions.
//!
//! The cases are those that LLVM's pass is for: functions as arguments, by recursion, select and phi, in variables, as results.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::run::Session;
use crate::tools::{self, Linker};

const PROGRAM: &str = include_str!("called_values.ll");

type Callees = BTreeMap<String, BTreeSet<String>>;

/// By function, what `!callees` of the one indirect call in it names.
fn by_llvm(text: &str) -> Callees {
    let names = |list: &str| -> BTreeSet<String> {
        let names = list.split('@').skip(1);
        names.map(|n| n.trim_end_matches(['}', ' ', ',']).split(',').next().unwrap().to_owned()).collect()
    };
    let nodes = text.lines().filter_map(|l| l.split_once(" = !{ptr "));
    let nodes: BTreeMap<&str, BTreeSet<String>> = nodes.map(|(node, list)| (node, names(list))).collect();
    let mut found = Callees::new();
    let mut function = "";
    for line in text.lines() {
        if let Some((_, rest)) = line.strip_prefix("define ").and_then(|l| l.split_once('@')) {
            function = rest.split('(').next().unwrap();
        }
        if let Some((_, node)) = line.split_once("!callees ") {
            assert_eq!(found.insert(function.to_owned(), nodes[node].clone()), None, "{function}");
        }
    }
    found
}

/// By function, what the report says of the one indirect call in it, if that is known.
fn by_report(report: &Value) -> Callees {
    let name = |atom: &Value| {
        let atom = &report["atoms"][atom.as_u64().unwrap() as usize];
        atom["symbols"][0].as_str().unwrap_or_default().to_owned()
    };
    let mut found = Callees::new();
    for site in report["call_sites"].as_array().unwrap() {
        let caller = name(&site["caller"]);
        if !caller.starts_with("by_") || site["state"] == "overdefined" {
            continue;
        }
        assert_eq!(site["externals"].as_array().unwrap().len(), 0, "{caller}");
        let targets = site["targets"].as_array().unwrap().iter().map(|t| name(&t["atom"])).collect();
        assert_eq!(found.insert(caller.clone(), targets), None, "{caller}");
    }
    found
}

#[test]
fn as_llvm_resolves_them() {
    let mut session = Session::new("called_values/as_llvm");
    let dir = session.dir().to_owned();
    session.write("main.ll", PROGRAM);
    session.cmd("llvm-as-19 main.ll -o main.o");
    session.cmd("opt-19 -passes=called-value-propagation -S main.o -o callees.ll");
    let llvm = by_llvm(&std::fs::read_to_string(dir.join("callees.ll")).unwrap());

    let lld = Linker::Lld.path();
    tools::shim_dir(&session.path("plain"), &lld);
    session.shims();
    session.cmd("clang-19 -B plain main.o -o plain.out");
    let job = session.job("clang-19 -B shims main.o -o out");
    let options = "-Wl,--prune-level=pointers -Wl,--prune-strict -Wl,--prune-report=report.json";
    session.must(&job.words(options).env("LTO_PRUNE_LINKER", &lld));
    for argument in ["", "another"] {
        let plain = session.run(&session.job("./plain.out").words(argument));
        let pruned = session.run(&session.job("./out").words(argument));
        session.check_eq(&pruned.status, &plain.status, "status");
    }
    let report = session.report("report.json");
    let ours = by_report(&report);

    let set = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<BTreeSet<_>>();
    let both = set(&["down", "up"]);
    let mut expected = Callees::new();
    for function in
        ["by_argument", "by_turns", "by_turns_back", "by_select", "by_phi", "by_global", "by_result"]
    {
        expected.insert(function.into(), both.clone());
    }
    expected.insert("by_initializer".into(), set(&["down"]));
    expected.insert("by_null".into(), set(&["up"]));
    // LLVM resolves exactly these, so that each case says something.
    session.check_eq(&llvm, &expected, "LLVM's callees");
    expected.insert("by_table".into(), both);
    session.check_eq(&ours, &expected, "our callees");
    let states = |name: &str| {
        let atoms = report["atoms"].as_array().unwrap().iter();
        let mut of_name = atoms.filter(|a| a["symbols"][0] == name).map(|a| a["state"].clone());
        of_name.next().unwrap_or_default()
    };
    session.check_eq(&states("never"), &Value::from("stub"), "what is only mentioned");
}
