//! Tests of functions that map memory at a chosen address, from summary text.

use summaries::models::{Effect, Model, PassedArgument, ResultUse, Source};

use super::{budget, flow_of_within, module};

/// The code that maps memory; `Some(None)` if the address escaped. `elsewhere` has the functions other than `_start`.
fn chooses(
    start: &str,
    elsewhere: &[(&str, &str)],
    line: &str,
    budget: budget::Budget,
) -> Option<Option<String>> {
    let calls = Effect::Calls {
        function: Source::Argument(0),
        arguments: [PassedArgument::Nothing; 3],
        returned: ResultUse::Dropped,
    };
    let models = [
        ("mmap", Model { effects: vec![Effect::ReturnsFresh], ..Model::default() }),
        ("puts", Model::default()),
        ("atexit", Model { effects: vec![calls], ..Model::default() }),
    ];
    let functions: Vec<_> = [("_start", start)].iter().chain(elsewhere).copied().collect();
    let undefined = ["mmap", "shmat", "weak_hook", "puts", "atexit", "unseen"];
    let undefined: Vec<&str> =
        undefined.into_iter().filter(|u| elsewhere.iter().all(|(name, _)| name != u)).collect();
    let text = module(&functions, &[("table", "")], &undefined);
    let text = text.replace("symbol resolved global func", "symbol resolved global ifunc");
    let (flow, names) = flow_of_within(line, &[&text], &models, budget);
    let chosen = flow.fixed_mapping?;
    assert!(flow.liveness.witness.is_empty() && flow.statistics.is_none());
    Some(chosen.by.map(|by| names[by.0 as usize].clone()))
}

const LINE: &str = "a.o -pie -o out";

#[test]
fn who_gets_what_maps_memory() {
    let call = ("f", "param rdi %0; call indirect %0");
    let leave = ("f", "param rsi %0; call indirect %0");
    let by = |name: &str| Some(Some(format!("t.{name}")));
    for (start, f, expected) in [
        // Direct calls, which the front end checks, or no call.
        ("call direct mmap", call, None),
        ("call direct shmat", call, None),
        ("%0 = address mmap", call, None),
        ("%0 = address puts; call indirect %0", call, None),
        // In a register that library functions do not read.
        ("%0 = address shmat; call direct puts actual r10 %0", call, None),
        ("%0 = address mmap; call direct f actual rdi %0", leave, None),
        // Calls through a pointer.
        ("%0 = address mmap; call indirect %0", call, by("_start")),
        ("%0 = address mmap; call direct f actual rdi %0", call, by("f")),
        (
            "%0 = address mmap; %1 = address table; store %0 -> %1 +0 size 8; %2 = load %1 +0 size 8; call indirect %2",
            call,
            by("_start"),
        ),
        ("%0 = address mmap; call direct atexit actual rdi %0", call, by("_start")),
        // The address escapes.
        ("%0 = address mmap; escape %0", call, Some(None)),
        ("%0 = address shmat; call direct shmat actual rdi %0", call, Some(None)),
        ("%0 = address mmap; %1 = unknown; store %0 -> %1 +0 size 8", call, Some(None)),
        ("%0 = address mmap; call direct unseen actual rdi %0", call, Some(None)),
        ("%0 = unknown; %0 = address mmap; escape %0", call, Some(None)),
    ] {
        assert_eq!(chooses(start, &[f], LINE, budget::BUDGET), expected, "{start}");
    }
}

/// Cases in which the function's address has no element of its own.
#[test]
fn who_may_get_what_maps_memory() {
    let take = "%0 = address mmap";
    let by_start = Some(Some("t._start".to_owned()));
    // A function of the link, and one that a definition in a library may replace.
    assert_eq!(chooses(take, &[("mmap", "")], LINE, budget::BUDGET), by_start);
    assert_eq!(chooses("call direct mmap", &[("mmap", "")], LINE, budget::BUDGET), None);
    let shared = "a.o -shared -u _start -o out";
    assert_eq!(chooses(take, &[], shared, budget::BUDGET), by_start);
    assert_eq!(chooses("call direct mmap", &[], shared, budget::BUDGET), None);
    // An indirect function has a different name.
    let resolve = [("resolved", "%0 = address mmap; result rax %0")];
    assert_eq!(chooses("call direct resolved", &resolve, LINE, budget::BUDGET), Some(None));
    assert_eq!(chooses("call direct resolved", &[("resolved", "result rax %0")], LINE, budget::BUDGET), None);
    // The fixpoint exceeds the budget.
    let small = budget::Budget { free: 0, steps: [0, 9999, 9999], most: [0, 9999, 9999], ..budget::BUDGET };
    let work = "; %1 = address f; %2 = address table; store %1 -> %2 +0 size 8; %3 = load %2 +0 size 8; call indirect %3";
    assert!(chooses(&format!("{take}{work}"), &[("f", "")], LINE, small).is_some());
    assert_eq!(chooses(&format!("%0 = address puts{work}"), &[("f", "")], LINE, small), None);
}
