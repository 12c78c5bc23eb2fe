//! Tests of addresses that are written to files, and of unknown calls, from summary text.

use summaries::models::{Effect, ExposedArguments, Model, Source};

use super::{flow_of, module, outcome, strings};
use crate::ids::{AtomId, Id};

fn models() -> [(&'static str, Model); 6] {
    let model = |effect| Model { effects: vec![effect], ..Model::default() };
    [
        ("snprintf", model(Effect::Prints { first: 3, within: false })),
        ("printf", model(Effect::Prints { first: 1, within: false })),
        ("strtoul", model(Effect::ReturnsFiles)),
        ("seek", model(Effect::Exposes(ExposedArguments::General(1)))),
        ("putc", model(Effect::WritesValue(0))),
        ("getc", model(Effect::ReturnsFiles)),
    ]
}

/// The stubs among `_start` with this body, `f`, `h`, and `g`, whose address is in `table`.
fn stubs(body: &str) -> Vec<String> {
    let text = module(
        &[("_start", body), ("f", ""), ("g", ""), ("h", "param rdi %0; call direct printf actual rsi %0")],
        &[("table", "0 g")],
        &["snprintf", "printf", "strtoul", "seek", "putc", "getc", "unseen"],
    );
    outcome(&[&text], &models()).1
}

#[test]
fn an_address_comes_back_from_text() {
    let addresses = "%0 = address table; %1 = address f";
    let print = "call direct printf actual rsi %0; call direct strtoul result rax %2";
    // The address of data is read again, but not the address of `f`.
    let found = format!("{addresses}; {print}; %3 = load %2 size 8; call indirect %3");
    assert_eq!(stubs(&found), strings(&["t.f"]));
    assert_eq!(stubs(&format!("{addresses}; {print}")), strings(&["t.f", "t.g"]));
    // The same with text that another function wrote.
    let elsewhere = found.replace("printf actual rsi", "snprintf actual rcx");
    assert_eq!(stubs(&elsewhere), strings(&["t.f"]));
}

#[test]
fn text_that_was_made_of_the_unknown() {
    // `h` escapes and prints its argument: any function that escaped is called with `f`.
    let parse = "%1 = address f; call direct strtoul result rax %2; call indirect %2 actual rdi %1";
    let escape = "%0 = address h; call direct unseen actual rdi %0; %9 = address table";
    assert_eq!(stubs(&format!("{parse}; %0 = address h")), strings(&["t.f", "t.h"]));
    assert_eq!(stubs(&format!("{parse}; {escape}")), strings(&["t.g"]));
}

#[test]
fn bytes_go_through_files_one_by_one() {
    let through = "%0 = address f; call direct putc actual rdi %0; call direct getc result rax %1";
    assert_eq!(stubs(&format!("{through}; call indirect %1")), strings(&[]));
    assert_eq!(stubs(through), strings(&["t.f"]));
}

/// A code address escapes if it is printed or used as a number; an address of data does not.
#[test]
fn what_is_used_otherwise_escapes() {
    for call in ["printf actual rsi %0", "snprintf actual rcx %0", "seek actual rsi %0"] {
        assert_eq!(
            stubs(&format!("%0 = address f; call direct {call}; %1 = address table")),
            strings(&["t.g"])
        );
        assert_eq!(
            stubs(&format!("%0 = address table; %1 = address f; call direct {call}")),
            strings(&["t.f", "t.g"])
        );
    }
    assert_eq!(
        stubs("%0 = address f; call direct seek actual rdi %0; %1 = address table"),
        strings(&["t.f", "t.g"])
    );
}

/// Functions that escaped are covered by the unknown, so an overdefined callee needs no own edges to them.
#[test]
fn calls_of_the_unknown_do_all_that_calls_of_what_escaped_do() {
    let holds = Model { effects: vec![Effect::Holds(Source::Argument(0))], ..Model::default() };
    let gives = Model { effects: vec![Effect::ReturnsHeld], ..Model::default() };
    let models = [("keep", holds), ("kept", gives)];
    let gone = |start: &str, f: &str| {
        let text = module(&[("_start", start), ("f", f), ("g", "")], &[], &["keep", "kept"]);
        outcome(&[&text], &models).1
    };
    // The callee is a label or a function.
    for (offset, taken) in [(8, "atlabel %0"), (0, "param rdi %0")] {
        for unknown in ["", "; %4 = unknown"] {
            let start = format!(
                "%4 = address f +{offset}{unknown}; %6 = address f; escape %6; %5 = address g; call indirect %4 actual rdi %5"
            );
            assert_eq!(gone(&start, &format!("{taken}; call indirect %0")), strings(&[]), "{start} {taken}");
        }
    }
    // The callee is a library function that keeps its argument.
    for unknown in ["", "; %4 = unknown"] {
        let start = format!(
            "%4 = address keep{unknown}; escape %4; %5 = address f; call indirect %4 actual rdi %5; \
             call direct kept result rax %6; %7 = address g; call indirect %6 actual rdi %7"
        );
        assert_eq!(gone(&start, "param rdi %0; call indirect %0"), strings(&[]), "{start}");
    }
}

/// An undefined weak symbol is null, unless a library that is loaded at run time may define it.
#[test]
fn hooks_that_nobody_defines() {
    let calls = |hook: &str, further: &str, line: &str| {
        for call in [
            format!("call direct {hook} actual rdi %0"),
            format!("%1 = address {hook}; call indirect %1 actual rdi %0"),
        ] {
            let start = format!("%0 = address f; {call}; {further}");
            let text = module(
                &[("_start", &start), ("f", "")],
                &[],
                &["weak_hook", "strong_hook", "dlopen", "dlmopen", "unseen_library"]
                    [..if further.contains("unseen") { 5 } else { 4 }],
            );
            let models = ["dlopen", "dlmopen", "unseen_library"].map(|name| (name, Model::default()));
            let (flow, names) = flow_of(line, &[&text], &models);
            let f = names.iter().position(|n| n == "t.f").unwrap();
            let is_live = flow.liveness.is_live(AtomId::new(f)) && !flow.liveness.stub[f];
            let expected = hook == "strong_hook" || !further.is_empty();
            assert_eq!(is_live, expected && line.contains("-pie"), "{start} {line}");
        }
    };
    for hook in ["weak_hook", "strong_hook"] {
        for further in ["", "call direct dlopen", "call direct dlmopen", "call direct unseen_library"] {
            calls(hook, further, "a.o -pie -o out");
        }
    }
    calls("weak_hook", "", "a.o -o out");
}
