//! Tests of escape reasons, from summary text.

use summaries::models::{Effect, Model};

use super::super::budget::{BUDGET, Budget};
use super::{EscapeReason, flow_of, flow_of_within, module};

/// The reason why the address of `f` escaped, if it did.
fn why(start: &str, functions: &[(&str, &str)]) -> Option<EscapeReason> {
    let keeps = Model { effects: vec![Effect::Escapes(0)], ..Model::default() };
    let functions: Vec<_> = [("_start", start), ("f", "")].iter().chain(functions).copied().collect();
    let text = module(&functions, &[("table", "0 [t.f] 0"), ("cell", "")], &["unseen", "keep"]);
    let models = [("keep", keeps)];
    // With any budget the report must not change the result, which `flow_of_within` checks.
    for free in 0..40 {
        let small = Budget { free, steps: [0, 1, 2], most: [usize::MAX; 3], ..BUDGET };
        flow_of_within("a.o -o out", &[&text], &models, small);
    }
    let (flow, names) = flow_of("a.o -o out", &[&text], &models);
    let atom = names.iter().position(|name| name == "t.f")?;
    let found = flow.stops.iter().find(|stop| stop.0.0 as usize == atom).map(|stop| stop.1);
    assert_eq!(found.is_some(), flow.escaped[atom], "{start}");
    found
}

#[test]
fn each_way_out_is_told() {
    use EscapeReason::*;
    for (start, expected) in [
        ("%0 = address f", None),
        ("%0 = address f; call indirect %0", None),
        ("mention f", Some(Unfollowed)),
        ("%0 = address f; escape %0", Some(FrontEnd)),
        ("%0 = address f; call direct unseen actual rdi %0", Some(CalleeWithoutSummary)),
        ("%0 = address f; call direct keep actual rdi %0", Some(CalleeWithoutSummary)),
        ("%0 = address f; %1 = unknown; call indirect %1 actual rdi %0", Some(OverdefinedCallee)),
        ("%0 = address f; %1 = unknown; store %0 -> %1 +0 size 8", Some(Stored)),
        // By memory whose address escapes: the reason is that of the memory.
        ("%0 = address table; call direct unseen actual rdi %0", Some(CalleeWithoutSummary)),
        ("%0 = address table; escape %0", Some(FrontEnd)),
        (
            "%0 = address f; %1 = address cell; store %0 -> %1 +0 size 8; call direct unseen actual rdi %1",
            Some(CalleeWithoutSummary),
        ),
        // By a copy of the address.
        ("%0 = address f; %1 = %0 +0; %2 = %1 unknown; escape %2", Some(FrontEnd)),
    ] {
        assert_eq!(why(start, &[]), expected, "{start}");
    }
    let returns = [("g", "%0 = address f; result rax %0")];
    assert_eq!(why("%0 = address g; escape %0", &returns), Some(Returned));
    assert_eq!(why("call direct g result rax %0", &returns), None);
}
