//! Clones of functions that return memory: each call has its own objects, and values of other callers are not lost.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::random::{OracleAnswer, answer};
use super::*;
use crate::propagate::values::cloning::MIN_CLONES;

const MALLOC: &str = "call direct malloc actual rdi %0 result rax %1; param rdi %0; result rax %1";

fn models() -> [(&'static str, Model); 1] {
    [("malloc", Model { effects: vec![Effect::ReturnsFresh], ..Model::default() })]
}

/// The number of targets of each indirect call, and the number of clones.
fn called(functions: &[(&str, &str)], data: &[(&str, &str)], clones: usize) -> (Vec<usize>, usize) {
    let text = module(functions, data, &["malloc", "unseen"]);
    let budget = budget::Budget { clones, unseen_values: 0, objects: usize::MAX, ..budget::BUDGET };
    let (flow, _) = flow_of_within("a.o -o out", &[&text], &models(), budget);
    let count = |s: &CallTargets| if s.overdefined.is_empty() { s.targets.len() } else { usize::MAX };
    (flow.sites.iter().map(count).collect(), flow.statistics.unwrap().clones)
}

/// Two calls of `wrapper`. A function is stored in each result and called from there.
const TWO: &str = "call direct wrapper result rax %0; call direct wrapper result rax %1; %2 = address f; %3 = address g; \
                   store %2 -> %0 size 8; store %3 -> %1 size 8; %4 = load %0 size 8; call indirect %4; \
                   %5 = load %1 size 8; call indirect %5";

#[test]
fn each_call_gets_memory_of_its_own() {
    let functions = [("_start", TWO), ("wrapper", MALLOC), ("f", ""), ("g", "")];
    assert_eq!(called(&functions, &[], budget::BUDGET.clones), (vec![1, 1], 2));
    // Calls over the budget share one copy.
    assert_eq!(called(&functions, &[], 1), (vec![1, 1], 1));
    assert_eq!(called(&functions, &[], 0), (vec![2, 2], 0));
    let three =
        format!("{TWO}; call direct wrapper result rax %6; store %2 -> %6 size 8; store %3 -> %6 size 8");
    let functions = [("_start", three.as_str()), ("wrapper", MALLOC), ("f", ""), ("g", "")];
    assert_eq!(called(&functions, &[], 1), (vec![1, 2], 1));
    // Up to three wrapper functions are cloned.
    let outer = "call direct inner result rax %0; %1 = %0 +0; result rax %1";
    let functions = [("_start", TWO), ("wrapper", outer), ("inner", MALLOC), ("f", ""), ("g", "")];
    assert_eq!(called(&functions, &[], budget::BUDGET.clones), (vec![1, 1], 5));
    let again = outer.replace("inner", "second");
    let (third, fourth) = (outer.replace("inner", "third"), outer.replace("inner", "fourth"));
    let deep = [
        ("_start", TWO),
        ("wrapper", again.as_str()),
        ("second", &third),
        ("third", &fourth),
        ("fourth", MALLOC),
        ("f", ""),
        ("g", ""),
    ];
    assert_eq!(called(&deep, &[], budget::BUDGET.clones).0, [1, 1]);
    let (fourth, fifth) = (outer.replace("inner", "fifth"), ("fifth", MALLOC));
    let deeper: Vec<(&str, &str)> = deep
        .iter()
        .map(|f| if f.0 == "fourth" { ("fourth", fourth.as_str()) } else { *f })
        .chain([fifth])
        .collect();
    assert_eq!(called(&deeper, &[], budget::BUDGET.clones).0, [2, 2]);
}

/// A program in which all functions allocate and call others has at most one clone per function.
#[test]
fn there_are_not_too_many() {
    let names: Vec<String> = (0..2000).map(|i| format!("f{i}")).collect();
    let bodies: Vec<String> = (0..2000)
        .map(|i| {
            format!(
                "{MALLOC}; call direct f{} result rax %1; call direct f{} result rax %1",
                (i + 1) % 2000,
                i * 7 % 2000
            )
        })
        .collect();
    let mut functions = vec![("_start", "call direct f0 result rax %0")];
    functions.extend(names.iter().zip(&bodies).map(|(name, body)| (name.as_str(), body.as_str())));
    assert_eq!(called(&functions, &[], usize::MAX).1, 2001);
}

#[test]
fn what_is_no_such_function_is_shared() {
    let of = |wrapper: &str| {
        let functions = [("_start", TWO), ("wrapper", wrapper), ("f", ""), ("g", ""), ("plain", "")];
        called(&functions, &[], budget::BUDGET.clones)
    };
    // It returns other memory, has an indirect jump or a label, or is too large.
    let passed = "call direct malloc result rax %0; %1 = address plain; result rax %1";
    assert_eq!(of(passed).1, 0);
    assert_eq!(of(&format!("{MALLOC}; %2 = address plain; call indirect %2 jump")).1, 0);
    assert_eq!(of(&format!("{MALLOC}; atlabel %2")).1, 0);
    assert_eq!(of(&format!("{MALLOC}; %63 = %0")).1, 2);
    assert_eq!(of(&format!("{MALLOC}; %64 = %0")).1, 0);
}

#[test]
fn functions_that_call_themselves_come_to_an_end() {
    let wrapper =
        "call direct malloc result rax %1; call direct wrapper result rax %2; %1 = %2; result rax %1";
    let functions = [("_start", TWO), ("wrapper", wrapper), ("f", ""), ("g", "")];
    assert_eq!(called(&functions, &[], budget::BUDGET.clones), (vec![2, 2], 12));
    // Calls that use no result have no clone.
    let wrapper = format!("{MALLOC}; call direct other");
    let other = format!("{MALLOC}; call direct wrapper");
    let functions = [("_start", TWO), ("wrapper", wrapper.as_str()), ("other", &other), ("f", ""), ("g", "")];
    assert_eq!(called(&functions, &[], usize::MAX), (vec![1, 1], 2));
}

/// Calls through a pointer and jumps share the original function. External code has its own clone.
#[test]
fn other_ways_in_are_not_forgotten() {
    let start = "%0 = address wrapper; call indirect %0 result rax %1; %2 = address f; store %2 -> %1 size 8; \
                 call direct wrapper result rax %3; %4 = address g; store %4 -> %3 size 8; \
                 %5 = load %1 size 8; call indirect %5; %6 = load %3 size 8; call indirect %6; \
                 %7 = address kept; %8 = load %7 size 8; %9 = load %8 size 8; call indirect %9";
    let wrapper = format!("{MALLOC}; %2 = address kept; store %1 -> %2 size 8");
    let functions = [("_start", start), ("wrapper", wrapper.as_str()), ("f", ""), ("g", "")];
    let data = [("kept", "")];
    assert_eq!(called(&functions, &data, budget::BUDGET.clones), (vec![1, 1, 1, 2], 2));
    let escapes = format!("{start}; call direct unseen actual rdi %0");
    let functions = [("_start", escapes.as_str()), functions[1], ("f", ""), ("g", "")];
    let text = module(&functions, &data, &["malloc", "unseen"]);
    let (flow, names) = flow_of("a.o -o out", &[&text], &models());
    // External code calls its own clone, and its memory is not the one in which `f` is stored.
    let escaped: Vec<&str> = names.iter().zip(&flow.escaped).filter(|n| *n.1).map(|n| n.0.as_str()).collect();
    assert_eq!(escaped, ["t._start", "t.wrapper"]);
    let shares = budget::Budget { clones: 0, unseen_values: 0, ..budget::BUDGET };
    let (flow, _) = flow_of_within("a.o -o out", &[&text], &models(), shares);
    let escaped = names.iter().zip(&flow.escaped).filter(|n| *n.1).map(|n| n.0.as_str());
    assert!(escaped.collect::<Vec<_>>().contains(&"t.f"));
}

const FUNCTIONS: usize = 5;

/// A program without direct recursion. The last two functions allocate. The others store functions in their blocks and call functions
/// from some blocks.
fn program(choices: &mut super::random::Choices<'_>) -> Vec<Vec<String>> {
    (0..FUNCTIONS)
        .map(|own| if own < FUNCTIONS - 2 { user(own, choices) } else { allocator(own, choices) })
        .collect()
}

fn user(own: usize, choices: &mut super::random::Choices<'_>) -> Vec<String> {
    let mut lines = vec!["param rdi %0".to_owned(), "result rax %1".to_owned()];
    for block in [2, 3] {
        lines.push(format!(
            "call direct f{} actual rdi %0 result rax %{block}",
            FUNCTIONS - 2 + choices.below(2)
        ));
    }
    for _ in 0..1 + choices.below(6) {
        let (a, b) = (choices.below(5), choices.below(5));
        lines.push(match choices.below(8) {
            0 | 1 => format!("%{a} = address f{}", choices.below(FUNCTIONS)),
            2 => format!("%{a} = load %{b} +0 size 8"),
            3 | 4 => format!("store %{a} -> %{b} +0 size 8"),
            5 => format!("%{a} = %{b}"),
            6 if choices.below(4) == 0 => format!("escape %{a}"),
            _ => {
                let later = own + 1 + choices.below(FUNCTIONS - own - 1);
                format!("call direct f{later} actual rdi %{a} result rax %{b}")
            }
        });
    }
    lines.push(format!("%4 = load %{} +0 size 8", choices.below(4)));
    lines.push(format!("call indirect %4 actual rdi %{} result rax %{}", choices.below(5), choices.below(5)));
    lines
}

fn allocator(own: usize, choices: &mut super::random::Choices<'_>) -> Vec<String> {
    let mut lines = vec!["param rdi %0".to_owned(), "result rax %1".to_owned()];
    for _ in 0..choices.below(3) {
        lines.push(match choices.below(4) {
            0 => "store %0 -> %1 +0 size 8".to_owned(),
            1 => "%1 = %0".to_owned(),
            2 => format!("%2 = address f{}; store %2 -> %1 +0 size 8", choices.below(FUNCTIONS)),
            _ => "call direct malloc result rax %2; store %2 -> %1 +0 size 8".to_owned(),
        });
    }
    let by = if own + 1 < FUNCTIONS && choices.below(2) == 0 {
        format!("f{}", own + 1)
    } else {
        "malloc".to_owned()
    };
    lines.push(format!("call direct {by} actual rdi %0 result rax %1"));
    lines
}

/// The same program with a copy of each function for each direct call, and the original for all other callers.
fn copied(bodies: &[Vec<String>]) -> Vec<(String, String)> {
    fn copy(bodies: &[Vec<String>], of: usize, name: &str, out: &mut Vec<(String, String)>) {
        let at = out.len();
        out.push((name.to_owned(), String::new()));
        let mut lines = Vec::new();
        for line in &bodies[of] {
            let callee = line.strip_prefix("call direct f").and_then(|l| l[..1].parse::<usize>().ok());
            lines.push(match callee {
                Some(callee) => {
                    let name = format!("f{callee}_{}", out.len());
                    copy(bodies, callee, &name, out);
                    line.replacen(&format!("direct f{callee}"), &format!("direct {name}"), 1)
                }
                None => line.clone(),
            });
        }
        out[at].1 = lines.join(";");
    }
    let mut out = Vec::new();
    (0..bodies.len()).for_each(|of| copy(bodies, of, &format!("f{of}"), &mut out));
    out
}

/// The solver's answer, and the number of clones that it made.
fn run(functions: &[(String, String)], clones: usize) -> (OracleAnswer, usize) {
    let functions: Vec<(&str, &str)> = functions.iter().map(|f| (f.0.as_str(), f.1.as_str())).collect();
    let text = module(&functions, &[], &["malloc"]);
    let (objects, pairs) = (usize::MAX, usize::MAX);
    let budget = budget::Budget { clones, unseen_values: 0, objects, pairs, ..budget::BUDGET };
    let (flow, names) = flow_of_within("a.o -e f0 -o out", &[&text], &models(), budget);
    (answer(&flow, &names), flow.statistics.as_ref().unwrap().clones)
}

/// The name of the original function of a copy.
fn original(name: &str) -> String {
    name.split('_').next().unwrap().to_owned()
}

type ResolvedSite = (BTreeSet<String>, bool);

/// By caller and offset: the targets, and whether the site is overdefined.
fn sites(of: &OracleAnswer) -> BTreeMap<(String, u64), ResolvedSite> {
    let mut sites: BTreeMap<(String, u64), ResolvedSite> = BTreeMap::new();
    for (caller, offset, targets, unknown) in &of.2 {
        let site = sites.entry((original(caller), *offset)).or_default();
        site.0.extend(targets.iter().map(|t| original(&t.0)));
        site.1 |= unknown;
    }
    sites
}

/// Whether `more` includes every fact of `less`.
fn covers(more: &OracleAnswer, less: &OracleAnswer) -> bool {
    let live: BTreeSet<String> = more.0.iter().map(|n| original(n)).collect();
    let found = sites(more);
    less.0.iter().all(|n| live.contains(&original(n)))
        && sites(less).iter().all(|(at, (targets, unknown))| {
            found.get(at).is_some_and(|f| f.1 || !unknown && f.0.is_superset(targets))
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    /// With clones the result lies between one copy of each function and a copy for each call.
    #[test]
    fn between_none_and_all(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let bodies = program(&mut super::random::Choices(bytes.iter()));
        let copies = copied(&bodies);
        prop_assume!(copies.len() < 100);
        let own: Vec<(String, String)> =
            bodies.iter().enumerate().map(|(i, b)| (format!("f{i}"), b.join(";"))).collect();
        let none = run(&own, 0).0;
        let (ours, clones) = run(&own, usize::MAX);
        // With so many clones the budget may be exceeded, and the answer is less precise.
        prop_assume!(clones < MIN_CLONES);
        prop_assert!(covers(&none, &ours), "{own:?}");
        let (all, clones) = run(&copies, usize::MAX);
        // Copies have clones for indirect calls. If there are too few clones, calls share one, and the answer is less precise.
        prop_assume!(clones < MIN_CLONES);
        prop_assert!(covers(&ours, &all), "{own:?}");
    }
}
