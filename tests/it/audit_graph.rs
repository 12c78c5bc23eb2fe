//! `lto-prune audit graph` on programs whose calls are read off their text: each edge and its kind, in every format.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::audit::{audit, json, reported};
use crate::run::Session;
use crate::tools::Linker;

/// A function that is called by address, once by a table that value flow follows and once from outside.
const SOURCE: &str = include_str!("programs/audit_graph_source.c");

/// Link the source with a report.
fn linked(session: &mut Session, words: &str) {
    session.write("main.c", SOURCE);
    session.cmd("gcc -O1 -ffunction-sections -c main.c");
    reported(session, "out", &format!("main.o {words}"), Linker::Lld);
}

/// (source, target, kind) of the edges between functions of the source.
fn edges(answer: &Value) -> BTreeSet<(String, String, String)> {
    let of = |row: &Value, column: &str| row[column].as_str().unwrap().to_owned();
    let rows = answer["edges"].as_array().unwrap().iter();
    rows.map(|row| (of(row, "from"), of(row, "to"), of(row, "kind"))).collect()
}

#[test]
fn edges_are_those_of_the_text() {
    let mut session = Session::new("audit/graph");
    linked(&mut session, "--prune-level=pointers");
    let any = "[any function whose address is taken]";
    let expected = [
        ("main", "direct", "call"),
        ("main", "unknown", "call"),
        ("main", "first", "resolved"),
        ("main", "second", "resolved"),
        ("unknown", "handler", "address"),
        ("unknown", "signal", "call"),
        ("unknown", any, "unresolved"),
        (any, "handler", "address-taken"),
        (any, "first", "address-taken"),
        (any, "second", "address-taken"),
    ];
    let answer = json(&mut session, "graph --json out.json");
    let found = edges(&answer);
    let of_source = found.iter().filter(|e| ["main", "unknown", any].contains(&e.0.as_str()));
    let missing: Vec<_> = of_source
        .filter(|e| !expected.contains(&(&e.0, &e.1, &e.2)) && !e.1.starts_with(['_', '[']) && e.1 != "main")
        .collect();
    session.check(missing.is_empty(), &format!("{missing:?}"));
    for (from, to, kind) in expected {
        let edge = (from.to_owned(), to.to_owned(), kind.to_owned());
        session.check(found.contains(&edge), &format!("{edge:?} in {found:?}"));
    }
    // Each call instruction of the linked file is an edge, and each edge of the kind call is one.
    let dump = session.cmd("objdump -d --no-show-raw-insn out").stdout;
    let (mut calls, mut function) = (BTreeSet::new(), "");
    for line in dump.lines() {
        let name = line.split_once('<').and_then(|l| l.1.split_once('>')).map(|l| l.0).unwrap_or_default();
        let target = name.trim_end_matches("@plt");
        if line.ends_with(">:") {
            function = name;
        } else if line.contains("call ") && !target.is_empty() && function != "main@plt" {
            calls.insert((function.to_owned(), target.to_owned()));
        }
    }
    let own = ["main", "unknown", "direct", "first", "second", "handler"];
    calls.retain(|c| own.contains(&c.0.as_str()));
    let direct = found.iter().filter(|e| e.2 == "call" && own.contains(&e.0.as_str()));
    let direct: BTreeSet<_> = direct.map(|e| (e.0.clone(), e.1.clone())).collect();
    session.check_eq(&direct, &calls, "calls of objdump");
}

#[test]
fn formats_of_other_tools() {
    let mut session = Session::new("audit/graph-formats");
    linked(&mut session, "--prune-level=pointers");
    let dot = audit(&mut session, "graph --format=dot out.json").stdout;
    let answer = json(&mut session, "graph --json out.json");
    let rows = answer["edges"].as_array().unwrap();
    session.check_eq(&dot.matches(" -> ").count(), &rows.len(), "edges of the drawing");
    session.check(dot.starts_with("digraph calls {\n") && dot.ends_with("}\n"), &dot);
    let folded = audit(&mut session, "graph --format=folded out.json").stdout;
    session.check(folded.lines().any(|l| l.starts_with("_start;main;direct ")), &folded);
    let bytes: u64 = folded.lines().map(|l| l.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum();
    let nodes = answer["nodes"].as_array().unwrap().iter();
    session.check_eq(&bytes, &nodes.map(|n| n["bytes"].as_u64().unwrap()).sum(), "bytes of the stacks");
    let csv = audit(&mut session, "graph --csv out.json").stdout;
    session.check(csv.starts_with("from,to,kind,places,from_node,to_node\n"), &csv);
    let outcome = audit(&mut session, "graph --format=openvex out.json");
    session.check_eq(&outcome.status, &2, &outcome.stderr);
    // Without value flow nothing is known of indirect calls, and the answer says so.
    linked(&mut session, "--prune-level=functions");
    let text = audit(&mut session, "graph out.json").stdout;
    session.check(text.contains("Indirect calls were not analysed and are missing"), &text);
}
