//! Constants from hand-written summaries: what is reached, what is passed, which memory is followed, and random programs
//! against the oracle.

use std::collections::BTreeSet;

use proptest::prelude::*;
use summaries::models::{Effect, Model, Passed, Returned, Source};

use super::random::{Choices, answer, expected, text};
use super::{flow_of, flow_of_within, module};
use crate::ids::{AtomId, Id};
use crate::propagate::values::Integer;
use crate::propagate::values::budget::{BUDGET, Budget};

const LINE: &str = "a.o -e main -o out --prune-constants";

/// The functions that live, by name.
fn live(line: &str, texts: &[&str], models: &[(&str, Model)]) -> BTreeSet<String> {
    let (flow, names) = flow_of(line, texts, models);
    let alive = names.iter().enumerate().filter(|(i, _)| flow.liveness.is_live(AtomId::new(*i)));
    alive.filter_map(|(_, n)| n.strip_prefix("t.")).map(str::to_owned).collect()
}

/// Whether `g` lives, which `f` calls at @4 if what `f` is told allows it; main calls f and whatever else is said.
fn reaches(main: &str, constants: &str, more: &[(&str, &str)], data: &str) -> bool {
    reaches_by(LINE, main, constants, more, data, &[])
}

fn reaches_by(
    line: &str,
    main: &str,
    constants: &str,
    more: &[(&str, &str)],
    data: &str,
    models: &[(&str, Model)],
) -> bool {
    let mut functions = vec![("main", main), ("f", "call direct g"), ("g", "")];
    functions.extend(more);
    let outside: Vec<&str> = models.iter().map(|m| m.0).collect();
    let text = module(&functions, &[], &outside).replace("atom t.main", &format!("{SYMBOLS}\natom t.main"));
    live(line, &[&format!("{text}\n{constants}\n{data}")], models).contains("g")
}

/// Objects behind the functions; their atoms come last.
const SYMBOLS: &str = "symbol v global object in [v] size 4";

const F: &str = "constants [t.f]\n condition rdi bytes 4 over 4 equal 0\n pass section 2 @4 unless 0\n";

fn main_passes(n: &str) -> String {
    format!("constants [t.main]\n pass section 1 @4 rdi constant {n}\n{F}{V}")
}

/// An object `v` that holds 3.
const V: &str =
    "atom v data section 90 size 4 align 4 flags write,standard\ncontents [v] @0 \"\\x03\\x00\\x00\\x00\"\n";

#[test]
fn a_call_behind_a_test_of_a_parameter() {
    assert!(!reaches("call direct f", &main_passes("0"), &[], ""));
    assert!(reaches("call direct f", &main_passes("1"), &[], ""));
    // The upper half is not tested.
    assert!(!reaches("call direct f", &main_passes("0x100000000"), &[], ""));
    // Without the option, or where nothing is told of the call, anything is passed.
    assert!(reaches_by("a.o -e main -o out", "call direct f", &main_passes("0"), &[], "", &[]));
    assert!(reaches("call direct f", &format!("{F}{V}"), &[], ""));
    // Another call passes something else; or it doesn't live.
    let other = |n| format!("{}constants [t.h]\n pass section 4 @4 rdi constant {n}\n", main_passes("0"));
    assert!(!reaches("call direct f; call direct h", &other(0), &[("h", "call direct f")], ""));
    assert!(reaches("call direct f; call direct h", &other(1), &[("h", "call direct f")], ""));
    assert!(!reaches("call direct f", &other(1), &[("h", "call direct f")], ""));
}

#[test]
fn whoever_is_not_seen_passes_anything() {
    // Its address escapes; code that is not understood has it; a pointer is called with it at an unknown place.
    assert!(reaches("call direct f; %0 = address f +0; escape %0", &main_passes("0"), &[], ""));
    assert!(reaches("call direct f; mention f", &main_passes("0"), &[], ""));
    let indirect = |n| {
        format!(
            "{F}{V}constants [t.main]\n pass section 1 @4 rdi constant 0\n pass section 1 @6 rdi constant {n}\n"
        )
    };
    let main = "call direct f; %0 = address f +0; call indirect %0";
    assert!(!reaches(main, &indirect(0), &[], ""));
    assert!(reaches(main, &indirect(7), &[], ""));
    assert!(reaches(
        "call direct f; %0 = address f +0; %1 = %0 unknown; call indirect %1",
        &indirect(0),
        &[],
        ""
    ));
    // A library calls it.
    let effects = vec![Effect::Calls {
        function: Source::Argument(0),
        arguments: [Passed::Argument(1), Passed::Nothing, Passed::Nothing],
        returned: Returned::Dropped,
    }];
    let runs = [("runs", Model { effects, ..Model::default() })];
    let main = "call direct f; %0 = address f +0; call direct runs actual rdi %0";
    assert!(reaches_by(LINE, main, &main_passes("0"), &[], "", &runs));
    // It is exported.
    assert!(reaches_by(
        "a.o -e main -o out --prune-constants --export-dynamic",
        "call direct f",
        &main_passes("0"),
        &[],
        "",
        &[]
    ));
    assert!(reaches_by(
        "a.o -e main -u f -o out --prune-constants",
        "call direct f",
        &main_passes("0"),
        &[],
        "",
        &[]
    ));
    // Control may enter it at a label.
    assert!(reaches("call direct f; %0 = address f +8; call indirect %0", &indirect(0), &[], ""));
}

#[test]
fn what_is_passed_on() {
    // main -> h -> f, h passes its own parameter; and itself, for a while.
    let on = |n: &str, what: &str| {
        format!(
            "constants [t.main]\n pass section 1 @4 rdi constant {n}\n{F}constants [t.h]\n\
             pass section 4 @4 rdi {what}\n pass section 4 @5 rdi rdi bytes 8\n{V}"
        )
    };
    let h = [("h", "call direct f; call direct h")];
    assert!(!reaches("call direct h", &on("0", "rdi bytes 8"), &h, ""));
    assert!(reaches("call direct h", &on("2", "rdi bytes 8"), &h, ""));
    assert!(!reaches("call direct h", &on("0x100", "rdi bytes 1"), &h, ""));
    assert!(reaches("call direct h", &on("0x80", "rdi bytes 1 signed 4"), &h, ""));
    // What memory holds is passed.
    let memory = |n| {
        format!(
            "constants [t.main]\n pass section 1 @4 rdi memory v +0 size 4 bytes 4\nconstants [t.f]\n condition rdi bytes 4 over 4 equal {n}\n pass section 2 @4 unless 0\n get v +0 size 4\n{V}"
        )
    };
    assert!(!reaches("call direct f", &memory(3), &[], ""));
    assert!(reaches("call direct f", &memory(4), &[], ""));
}

/// `f` calls `g` unless v is 3; `more` is said of main.
fn by_memory(more: &str, data: &str) -> bool {
    let constants = format!(
        "constants [t.main]\n{more}\nconstants [t.f]\n condition memory v +0 size 4 bytes 4 over 4 equal 3\n \
         pass section 2 @4 unless 0\n get v +0 size 4\n"
    );
    reaches("call direct f", &constants, &[], data)
}

#[test]
fn memory_that_always_holds_the_same() {
    assert!(!by_memory("", V));
    assert!(!by_memory("put v +0 size 4 = constant 3", V));
    assert!(!by_memory("put v +0 size 4 = constant 0x500000003", V), "only 4 bytes are stored");
    assert!(by_memory("put v +0 size 4 = constant 4", V));
    assert!(by_memory("put v +0 size 4 = anything", V));
    // A store that is not reached, and one that is.
    let guarded = |way: &str| {
        format!("condition memory v +0 size 4 bytes 4 over 4 equal 3\n put v +0 size 4 = constant 4 {way} 0")
    };
    assert!(!by_memory(&guarded("unless"), V));
    assert!(by_memory(&guarded("if"), V));
    // What is there in the beginning is not known, or is another thing.
    assert!(by_memory("", V.split("contents").next().unwrap()));
    assert!(by_memory("", &V.replace("x03", "x04")));
    assert!(
        by_memory("", &V.replace(" data ", " bss ").replace("contents [v] @0 \"\\x03\\x00\\x00\\x00\"", "")),
        "zeros"
    );
}

#[test]
fn memory_that_is_not_followed() {
    // Part of it, or more, is accessed.
    assert!(by_memory("put v +2 size 2 = constant 0", V));
    assert!(by_memory("put v +0 size 8 = constant 3", V));
    assert!(by_memory("get v +0 size 1", V));
    assert!(by_memory("get v -4 size 16", V));
    for data in [
        // Something else has its address; a section of another kind.
        &format!("{V}atom x data section 91 size 8 flags write,standard\n data @0 v\n"),
        &V.replace("write,standard", "write"),
        &V.replace("write,standard", "write,standard,retain"),
        &V.replace("write,standard", "write,standard,c-identifier"),
        &V.replace("write,standard", "write,standard,merge"),
        &V.replace("atom v data", "atom v tdata").replace("contents [v] @0 \"\\x03\\x00\\x00\\x00\"", ""),
        // The linker or the loader writes there.
        &V.replace("contents", " data @2 g\ncontents"),
    ] {
        assert!(by_memory("", data), "{data}");
    }
    // It is exported, or named by an option.
    for option in ["--export-dynamic", "-u v", "--defsym=w=v", "-shared"] {
        let constants = format!(
            "constants [t.f]\n condition memory v +0 size 4 bytes 4 over 4 equal 3\n pass section 2 @4 unless 0\n get v +0 size 4\n{V}"
        );
        let line = format!("{LINE} {option}");
        assert!(reaches_by(&line, "call direct f", &constants, &[], "", &[]), "{option}");
    }
}

#[test]
fn an_object_of_one_module_that_nothing_changes_is_volatile() {
    let constants = |more: &str| {
        format!(
            "constants [t.main]\n {more}\nconstants [t.f]\n condition memory w +0 size 4 bytes 4 over 4 equal 0\n \
             pass section 2 @4 unless 0\n get w +0 size 4\natom v data section 90 size 4\n"
        )
    };
    let run = |more: &str, binding: &str| {
        let functions = [("main", "call direct f"), ("f", "call direct g"), ("g", ""), ("h", "")];
        let text = module(&functions, &[], &[]);
        let text =
            text.replace("atom t.main", &format!("symbol w {binding} object in [w] size 4\natom t.main"));
        let text = format!("{text}{}", constants(more).replace("atom v data", "atom w bss"));
        live(LINE, &[&text.replace("section 90 size 4", "section 90 size 4 flags write,standard")], &[])
            .contains("g")
    };
    assert!(run("", "local"));
    assert!(run("put w +0 size 4 = constant 0", "local"));
    // A store that brings something else explains why it is loaded, though the store is not reached.
    let guarded =
        "condition memory w +0 size 4 bytes 4 over 4 equal 0\n put w +0 size 4 = constant 1 unless 0";
    assert!(!run(guarded, "local"));
    assert!(!run("", "global"));
}

#[test]
fn what_keeps_control_from_a_call_is_said() {
    let unreached = |more: &str| {
        let functions = [("main", more), ("f", "call direct g"), ("g", "")];
        let text = module(&functions, &[], &[]).replace("atom t.main", &format!("{SYMBOLS}\natom t.main"));
        flow_of(LINE, &[&format!("{text}\n{}", main_passes("7").replace("equal 0", "equal 7"))], &[])
            .0
            .unreached
    };
    let [call] = unreached("call direct f").try_into().unwrap();
    assert_eq!((call.caller, call.callee, call.offset), (AtomId::new(1), Some(AtomId::new(2)), 4));
    assert_eq!((call.integer, call.always, call.needs), (Integer::Parameter(7), Some(7), false));
    assert!(call.condition.holds(7));
    // Its address is called: nothing is known any more.
    assert_eq!(unreached("call direct f; %0 = address f +0; escape %0"), []);
}

#[test]
fn borders_of_data_mean_all_of_it() {
    let main = "call direct f; mention __bss_start";
    let constants = format!(
        "constants [t.f]\n condition memory v +0 size 4 bytes 4 over 4 equal 3\n pass section 2 @4 unless 0\n get v +0 size 4\n{V}"
    );
    let functions = [("main", main), ("f", "call direct g"), ("g", "")];
    let text =
        module(&functions, &[], &["__bss_start"]).replace("atom t.main", &format!("{SYMBOLS}\natom t.main"));
    let text = format!("{text}\n{constants}");
    assert!(live(LINE, &[&text], &[]).contains("g"));
    assert!(!live(LINE, &[&text.replace("__bss_start", "__bss_other")], &[]).contains("g"));
}

/// The text of a random program with what its functions do with integers.
fn with_constants(choices: &mut Choices<'_>) -> String {
    let (program, mut data) = (choices.program(), choices.data());
    for (i, of) in data.iter_mut().enumerate() {
        // Objects of integers, of which something else may have the address.
        if choices.below(4) == 0 {
            of.1 = format!("{};24 c{}", of.1, i % 2).trim_matches(';').to_owned();
        }
    }
    data.extend((0..3).map(|i| (format!("c{i}"), String::new())));
    let mut text = text(&program, &data);
    let cell = |choices: &mut Choices<'_>| {
        let offset = ["+0", "+0", "+4", "+2"][choices.below(4)];
        format!("c{} {offset} size 4", choices.below(3))
    };
    let integer = |choices: &mut Choices<'_>| match choices.below(4) {
        0 => "rdi bytes 8".to_owned(),
        1 => "rsi bytes 4".to_owned(),
        2 => format!("memory {} bytes 4", cell(choices)),
        _ => format!("constant {}", choices.below(3)),
    };
    for (i, (name, body, _, understood)) in program.iter().enumerate() {
        if !understood || choices.below(6) == 0 {
            continue;
        }
        text += &format!("constants [t.{name}]\n");
        let conditions = choices.below(3);
        for _ in 0..conditions {
            let quantity = match choices.below(3) {
                0 => format!("memory {} bytes 4", cell(choices)),
                1 => "rsi bytes 4".to_owned(),
                _ => "rdi bytes 4".to_owned(),
            };
            let comparison = ["equal", "less"][choices.below(2)];
            text += &format!(" condition {quantity} over 4 {comparison} {}\n", choices.below(3));
        }
        let needs = |choices: &mut Choices<'_>| {
            let count = if conditions == 0 { 0 } else { choices.below(3) };
            let one = |choices: &mut Choices<'_>| {
                format!(" {} {}", ["if", "unless"][choices.below(2)], choices.below(conditions))
            };
            (0..count).map(|_| one(choices)).collect::<String>()
        };
        for (at, line) in (4..).zip(body.split(';')) {
            if line.starts_with("call") && choices.below(5) != 0 {
                let mut actuals = String::new();
                for register in ["rsi", "rdi"] {
                    if choices.below(3) != 0 {
                        actuals += &format!(" {register} {}", integer(choices));
                    }
                }
                text += &format!(" pass section {} @{at}{}{actuals}\n", i + 1, needs(choices));
            }
        }
        for _ in 0..choices.below(3) {
            let value = if choices.below(4) == 0 { "anything".to_owned() } else { integer(choices) };
            text += &format!(" put {} = {value}{}\n", cell(choices), needs(choices));
        }
    }
    for i in 0..3 {
        text +=
            &format!("contents [c{i}] @0 \"\\x0{}\\x00\\x00\\x00\\x00\\x00\\x00\\x00\"\n", choices.below(3));
    }
    text
}

fn run(text: &str, budget: Budget) -> super::random::Answer {
    let (flow, names) = flow_of_within("a.o -e f0 -o out --prune-constants", &[text], &[], budget);
    answer(&flow, &names)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn equals_the_oracle(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let text = with_constants(&mut Choices(bytes.iter()));
        let pairwise = Budget { pairs: usize::MAX, ..BUDGET };
        prop_assert_eq!(run(&text, pairwise), expected(&text), "{}", text);
    }

    /// Nothing lives that doesn't without constants, and with every budget spent nothing is lost.
    #[test]
    fn constants_only_take_away(bytes in prop::collection::vec(any::<u8>(), 0..600), steps in prop::array::uniform3(0usize..4)) {
        let text = with_constants(&mut Choices(bytes.iter()));
        let exact = run(&text, Budget { pairs: usize::MAX, ..BUDGET });
        let (all, names) = flow_of_within("a.o -e f0 -o out", &[&text], &[], Budget { pairs: usize::MAX, ..BUDGET });
        prop_assert!(answer(&all, &names).0.is_superset(&exact.0), "{}", text);
        let small = Budget { objects: 1, pairs: 1, alike: 1, instances: 1, room: 0, free: 50, steps, most: [usize::MAX; 3] };
        prop_assert!(run(&text, small).0.is_superset(&exact.0), "{}", text);
    }
}
