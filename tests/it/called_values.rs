//! Indirect calls of small programs of IR, held against LLVM's own called value propagation: what LLVM resolves is resolved, by the
//! same functions.
//!
//! The cases are those that LLVM's pass is for: functions as arguments, by recursion, select and phi, in variables, as results.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::reports;
use crate::run::{Job, Session};
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
    let job = Job::new(&dir, "clang-19").words("-B shims main.o -o out");
    let options = "-Wl,--prune-level=pointers -Wl,--prune-strict -Wl,--prune-report=report.json";
    session.must(&job.words(options).env("LTO_PRUNE_LINKER", &lld));
    for argument in ["", "another"] {
        let plain = session.run(&Job::new(&dir, dir.join("plain.out")).words(argument));
        let pruned = session.run(&Job::new(&dir, dir.join("out")).words(argument));
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

/// By function the exact callees of the indirect call in it.
type ExactCallees = &'static [(&'static str, &'static [&'static str])];

/// Ways of a function to a call in another module: name, the caller's module, the other one, and the callees.
const WAYS: [(&str, &str, &str, ExactCallees); 6] = [
    (
        "argument",
        "int main(int c, char **v) { (void)v; return call(f1, c) + call(f2, c); }",
        "int call(fn f, int x) { return f(x); }",
        &[("call", &["f1", "f2"])],
    ),
    (
        "global",
        "int main(int c, char **v) { (void)v; set(f1); if (c > 1) set(f2); return run(c); }",
        "fn held; void set(fn f) { held = f; } int run(int x) { return held(x); }",
        &[("run", &["f1", "f2"])],
    ),
    (
        "field",
        "struct ops ops = { f1, f2 };\nint main(int c, char **v) { (void)v; if (c > 5) ops.b = f1; return call_a(c) + call_b(c); }",
        "int call_a(int x) { return ops.a(x); } int call_b(int x) { return ops.b(x); }",
        &[("call_a", &["f1"]), ("call_b", &["f1", "f2"])],
    ),
    (
        "select-and-phi",
        "int main(int c, char **v) { (void)v; fn f = c > 1 ? f1 : f2; return call(f, c); }",
        "int call(fn f, int x) { int s = 0; for (int i = 0; i < x; i++) s += f(i); return s; }",
        &[("call", &["f1", "f2"])],
    ),
    (
        "return",
        "int main(int c, char **v) { (void)v; return get(c)(c); }",
        "fn get(int x) { return x > 1 ? f1 : f2; }",
        &[("main", &["f1", "f2"])],
    ),
    (
        "wrapper",
        "__attribute__((noinline)) int one(int x) { return id(f1)(x); }\n__attribute__((noinline)) int two(int x) { return id(f2)(x); }\n\
         int main(int c, char **v) { (void)v; return one(c) + two(c); }",
        "fn id(fn f) { return f; }",
        &[("one", &["f1"]), ("two", &["f2"])],
    ),
];
const DECLARATIONS: &str = "typedef int (*fn)(int);\nstruct ops { fn a, b; };\nextern struct ops ops;\nint f1(int), f2(int), f3(int);\n\
    int call(fn, int), run(int), call_a(int), call_b(int);\nvoid set(fn);\nfn get(int), id(fn);\n";

#[test]
fn callees_in_other_modules_are_exact() {
    let mut session = Session::new("called_values/ways");
    let dir = session.dir().to_owned();
    session.write(
        "f.c",
        "int f1(int x) { return x + 1; }\nint f2(int x) { return x * 2; }\nint f3(int x) { return x - 3; }\n",
    );
    let ways = [
        "gcc -O0",
        "gcc -O2",
        "clang-19 -O0",
        "clang-19 -O2",
        "clang-19 -O1 -flto=thin",
        "clang-19 -O2 -flto=thin",
    ];
    for (name, caller, other, expected) in WAYS {
        // The address of f3 is taken, and nothing calls it.
        session.write("a.c", format!("{DECLARATIONS}fn spare = f3;\n{caller}\n"));
        session.write("b.c", format!("{DECLARATIONS}{other}\n"));
        for way in ways {
            let (compiler, flags) = way.split_once(' ').unwrap();
            session.must(&Job::new(&dir, compiler).words(flags).words("-c a.c b.c f.c"));
            let job = Job::new(&dir, tools::lto_prune())
                .words("a.o b.o f.o -o out --prune-level=pointers --prune-gate=0");
            let report = session.path("report.json");
            let job = job.arg(format!("--prune-report={}", report.display()));
            session.must(&job.by(Linker::Lld));
            let report = reports::report(&session, &report);
            let name_of = |atom: &Value| {
                report["atoms"][atom.as_u64().unwrap() as usize]["symbols"][0].as_str().unwrap_or_default()
            };
            for (function, callees) in expected {
                let sites = report["call_sites"].as_array().unwrap();
                let sites: Vec<&Value> =
                    sites.iter().filter(|site| name_of(&site["caller"]) == *function).collect();
                session.check_eq(&sites.len(), &1, &format!("{name} {way}: indirect calls of {function}"));
                let targets = sites[0]["targets"].as_array().unwrap();
                let found: BTreeSet<&str> = targets.iter().map(|target| name_of(&target["atom"])).collect();
                let what = format!("{name} {way}: callees of {function}");
                session.check_eq(&found, &callees.iter().copied().collect(), &what);
                session.check_eq(&sites[0]["state"], &"resolved".into(), &what);
            }
        }
    }
}
