//! `lto-prune audit calls`: callees of indirect calls, what stops following them, and the bytes that hang on each.

use serde_json::Value;

use crate::audit::{json, reported};
use crate::run::Session;
use crate::tools::Linker;

const FILES: &str = include_str!("programs/audit_calls.txt");

fn linked(session: &mut Session, options: &str) {
    session.files(FILES, "linked");
    session.cmd("gcc -shared -fPIC lib.c -o libx.so");
    session.cmd("gcc -O2 -fPIE -c main.c");
    reported(session, "main", &format!("main.o libx.so -pie {options}"), Linker::Lld);
}

/// The row of the call in a function.
fn row<'a>(answer: &'a Value, caller: &str) -> &'a Value {
    answer["calls"].as_array().unwrap().iter().find(|row| row["in"] == caller).unwrap()
}

#[test]
fn calls_have_callees_or_what_stops_and_bytes() {
    let mut session = Session::new("audit/calls");
    linked(&mut session, "--prune-gate=0");
    let answer = json(&mut session, "calls -n 0 --json main.json");
    let callees = |caller: &str| row(&answer, caller)["leads_to"].as_str().unwrap().to_owned();
    session.check_eq(&callees("by_table").as_str(), &"add, both", "callees by a table");
    session.check_eq(&callees("by_field").as_str(), &"sub, both", "callees by a field");
    session.check_eq(&row(&answer, "from_outside")["state"].as_str(), &Some("overdefined"), "of a library");
    let fates: Vec<&str> =
        answer["candidates"].as_array().unwrap().iter().map(|row| row["what"].as_str().unwrap()).collect();
    session.check(fates.contains(&"called"), &format!("what becomes of candidates: {fates:?}"));
    let stops = answer["stops"].as_array().unwrap();
    session.check(
        stops.iter().any(|s| s["because"] == callees("from_outside").as_str() && s["calls"] == 1),
        &format!("{stops:?}"),
    );
    // `both` hangs on neither: the other call keeps it. `deep` hangs on what keeps `add`.
    let sizes = ["add", "deep"].map(|name| size_of(&session, name));
    session.check_eq(&row(&answer, "by_table")["bytes"].as_u64(), &Some(sizes.iter().sum()), "add and deep");
    session.check_eq(&row(&answer, "by_table")["atoms"].as_u64(), &Some(2), "add and deep");
    session.check_eq(&row(&answer, "by_field")["bytes"].as_u64(), &Some(size_of(&session, "sub")), "sub");
    session.check_eq(&row(&answer, "from_outside")["bytes"].as_u64(), &Some(0), "what nobody knows");
}

/// Bytes of the atom that has a symbol.
fn size_of(session: &Session, name: &str) -> u64 {
    let report = session.report("main.json");
    let atoms = report["atoms"].as_array().unwrap();
    let has = |atom: &&Value| atom["symbols"].as_array().unwrap().iter().any(|s| s == name);
    atoms.iter().find(has).unwrap()["size"].as_u64().unwrap()
}
