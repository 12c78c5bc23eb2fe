//! `lto-prune audit calls`: callees of indirect calls, what stops following them, and the bytes that hang on each.

use serde_json::Value;

use crate::audit::{json, reported};
use crate::run::Session;
use crate::tools::Linker;

/// One call by a table, one by a field, and one by a value from outside the link.
const MAIN: &str = "
    #include <stdio.h>
    #include <stdlib.h>
    typedef int (*fn)(int);
    #define NOINLINE __attribute__((noinline, noclone, aligned(16)))
    extern fn chosen(const char *);
    static NOINLINE int deep(int x) { return x * 17 + 3; }
    static NOINLINE int add(int x) { return deep(x) + 1; }
    static NOINLINE int sub(int x) { return x - 1; }
    static NOINLINE int both(int x) { return x * x; }
    static const fn table[2] = { add, both };
    struct operation { fn run; };
    struct operation by_field_too = { both }, only = { sub };
    NOINLINE int by_table(int i, int x) { return table[i & 1](x); }
    NOINLINE int by_field(struct operation *o, int x) { return o->run(x); }
    NOINLINE int from_outside(const char *s, int x) { return chosen(s)(x); }
    int main(int argc, char **argv) {
        struct operation *o = argc > 3 ? &by_field_too : &only;
        printf(\"%d %d\\n\", by_table(argc, 4), by_field(o, 5));
        return argc > 1 ? from_outside(argv[1], 2) : 0;
    }
";
const LIBRARY: &str = "typedef int (*fn)(int); fn chosen(const char *s) { return (fn)(void *)s; }";

fn linked(session: &mut Session, options: &str) {
    session.write("main.c", MAIN);
    session.write("lib.c", LIBRARY);
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

#[test]
fn a_link_without_value_flow_is_said_to_be_one() {
    let mut session = Session::new("audit/calls-none");
    linked(&mut session, "--prune-level=functions");
    let outcome = crate::audit::audit(&mut session, "calls main.json");
    session.check_eq(&outcome.status, &0, "status");
    session.check(
        outcome.stdout.contains("addresses were not analysed: --prune-level=functions"),
        &outcome.stdout,
    );
}

/// Bytes of the atom that has a symbol.
fn size_of(session: &Session, name: &str) -> u64 {
    let report = session.report("main.json");
    let atoms = report["atoms"].as_array().unwrap();
    let has = |atom: &&Value| atom["symbols"].as_array().unwrap().iter().any(|s| s == name);
    atoms.iter().find(has).unwrap()["size"].as_u64().unwrap()
}
