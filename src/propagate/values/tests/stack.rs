//! Tests of stack arguments: passed in cells and in frames, read in cells and in frames, in any order.

use super::*;

#[test]
fn the_stack_carries_arguments() {
    let text = module(
        &[
            (
                "_start",
                "%0 = address f; %1 = address g; call direct cells stack 8 %0; call direct framed stack 16 %1; \
                %9 = frame -64; %2 = address h; store %2 -> %9 +8 size 8; call direct cells instack -64",
            ),
            ("cells", "stackparam 8 %0; call indirect %0"),
            (
                "framed",
                "%0 = frame +8; %1 = load %0 +8 size 8; call indirect %1; %2 = load %0 size 8; call indirect %2",
            ),
            ("f", ""),
            ("g", ""),
            ("h", ""),
        ],
        &[],
        &[],
    );
    let text = text
        .replace("function [t._start]", "function [t._start] frame")
        .replace("function [t.framed]", "function [t.framed] frame");
    let (live, _, flow) = outcome(&[&text], &[]);
    assert_eq!(live.len(), 6);
    let targets: Vec<usize> = flow.sites.iter().map(|s| s.targets.len()).collect();
    assert_eq!(targets, [2, 1, 0]);
}

/// Values at an unknown offset of the caller's frame reach the stack parameters, and no cells below them.
#[test]
fn what_is_passed_in_a_frame_stays_above() {
    for offset in ["-64", "unknown"] {
        let middle = format!(
            "%9 = frame -64; %2 = address h; store %2 -> %9 unknown size 8; call direct framed instack {offset}"
        );
        let framed = "%0 = frame -16; %1 = load %0 +32 size 8; call indirect %1; %2 = load %0 size 8; call indirect %2";
        let start = ("_start", "call direct middle");
        let text = module(&[start, ("middle", &middle), ("framed", framed), ("h", "")], &[], &[]);
        let text = text.replace("function [t.middle]", "function [t.middle] frame");
        let text = text.replace("function [t.framed]", "function [t.framed] frame");
        let (_, _, flow) = outcome(&[&text], &[]);
        let targets: Vec<usize> = flow.sites.iter().map(|s| s.targets.len()).collect();
        assert_eq!(targets, [1, 0], "{offset}");
    }
}

/// The number of targets of each indirect call; functions in `frames` have their frames as objects.
fn called(text: &str, frames: &[&str], budget: budget::Budget) -> Vec<usize> {
    let framed = |text: String, name: &&str| {
        text.replace(&format!("function [t.{name}]"), &format!("function [t.{name}] frame"))
    };
    let text = frames.iter().fold(text.to_owned(), framed);
    let (flow, _) = flow_of_within("a.o -o out", &[&text], &[], budget);
    flow.sites.iter().map(|s| s.targets.len()).collect()
}

#[test]
fn who_copies_what_is_passed_finds_it() {
    // Arguments are passed before and after the first read, by a cell and by a frame.
    let start = "%0 = address f; call direct copier stack 16 %0; call direct reader; call direct later";
    let later = "%9 = frame -64; %0 = address g; %1 = address h; call direct copier stack 8 %0; \
                 store %1 -> %9 +24 size 8; call direct copier instack -64";
    let copier = "%0 = frame +8; %1 = address data; copy %0 +0 -> %1 +0 size 24";
    let reader = "%0 = address data; %1 = load %0 +0 size 8; call indirect %1; \
                  %2 = load %0 +8 size 8; call indirect %2; %3 = load %0 +16 size 8; call indirect %3";
    let functions = [
        ("_start", start),
        ("copier", copier),
        ("reader", reader),
        ("later", later),
        ("f", ""),
        ("g", ""),
        ("h", ""),
    ];
    let text = module(&functions, &[("data", "")], &[]);
    assert_eq!(called(&text, &["copier", "later"], budget::BUDGET), [1, 1, 1]);
}

/// A part of a function whose own address is taken keeps neither the function nor its callees, if no reference reaches them.
#[test]
fn no_more_lives_than_references_reach() {
    let functions = [("_start", "mention cold"), ("whole", "call direct other"), ("cold", ""), ("other", "")];
    let text = module(&functions, &[], &[]);
    let text = text.replace("function [t.cold]\n  entry [t.cold] @0\n", "");
    let text = text.replace("function [t.whole]\n", "function [t.whole]\n  parts [t.cold]\n");
    let (live, _, _) = outcome(&[&text], &[]);
    assert_eq!(live, ["t._start", "t.cold"]);
}

#[test]
fn frames_that_are_told_apart_no_longer_hold_what_is_passed() {
    let start = "%0 = address f; call direct taker stack 16 %0";
    let taker =
        "%0 = frame +8; %1 = address data; %2 = %0 +0; %2 = %1 +0; %3 = load %2 +8 size 8; call indirect %3";
    let text = module(&[("_start", start), ("taker", taker), ("f", "")], &[("data", "")], &[]);
    for objects in [1, 9] {
        let budget = budget::Budget { objects, ..budget::BUDGET };
        assert_eq!(called(&text, &["taker"], budget), [1], "{objects}");
    }
}

#[test]
fn frames_join_before_the_table_that_a_value_points_to_as_well() {
    let start = "%0 = address table; %1 = address f; store %1 -> %0 +0 size 8; %2 = address g; store %2 -> %0 +8 size 8; \
                 call direct one; call direct two; call direct three; %3 = load %0 +0 size 8; call indirect %3";
    let passes = "%0 = frame -16; %1 = address h; store %1 -> %0 +0 size 8; call direct sink actual rdi %0";
    let sink = "param rdi %0; %1 = address table; %0 = %1 +0; %2 = load %0 +0 size 4";
    let functions = [("_start", start), ("one", passes), ("two", passes), ("three", passes), ("sink", sink)];
    let functions: Vec<_> = functions.into_iter().chain([("f", ""), ("g", ""), ("h", "")]).collect();
    let text = module(&functions, &[("table", "")], &[]);
    for (objects, callees) in [(1, 3), (2, 1), (9, 1)] {
        let budget = budget::Budget { objects, clones: 0, unseen_values: 0, ..budget::BUDGET };
        assert_eq!(called(&text, &["one", "two", "three"], budget), [callees], "{objects}");
    }
}

#[test]
fn joined_frames_hold_the_stack_arguments_of_all() {
    let start = "%0 = address f; call direct one stack 16 %0; %1 = address g; call direct two stack 16 %1";
    let passes = "%0 = frame +8; call direct sink actual rdi %0";
    let sink = "param rdi %0; %1 = address table; %0 = %1 +0; %2 = load %0 +8 size 8; call indirect %2";
    let functions =
        [("_start", start), ("one", passes), ("two", passes), ("sink", sink), ("f", ""), ("g", "")];
    let text = module(&functions, &[("table", "")], &[]);
    for objects in [1, 2, 9] {
        let budget = budget::Budget { objects, clones: 0, unseen_values: 0, ..budget::BUDGET };
        assert_eq!(called(&text, &["one", "two"], budget), [2], "{objects}");
    }
}
