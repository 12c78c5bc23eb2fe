//! What is only passed on in vector registers may be distinguished no longer, and nothing that is true of any call gets lost.

use std::collections::BTreeMap;

use proptest::prelude::*;
use summaries::cfl::merge_passthrough;
use summaries::relation::{CallSite, Callee, Constraint, FunctionSummary};
use summaries::{SymbolIdx, Target, ValueIdx};

use super::brute::{Address, Node, Object, Set, Solution, solve, solve_known};
use super::random::{ProgramChoices, Shape, empty, program};

/// As if copies of function 0 were that function.
fn original(object: Object, known: usize) -> Object {
    match object {
        Object::Frame(f) if f >= known => Object::Frame(0),
        Object::Function(_) | Object::Data(_) | Object::Frame(_) => object,
    }
}

fn originals(set: &Set, known: usize) -> Set {
    set.iter().map(|a: &Address| a.map(|(object, at)| (original(object, known), at))).collect()
}

/// What registers hold that function `f` passes, in the terms of `named`, a summary of the same function; and what it calls.
fn passed(of: &Solution<'_>, f: usize, named: &FunctionSummary) -> BTreeMap<String, Set> {
    let mut passed = BTreeMap::new();
    let mut add = |name: String, value: ValueIdx| passed.insert(name, of.value(f, value));
    for (i, site) in named.call_sites.iter().enumerate() {
        site.actuals.iter().for_each(|(register, value)| drop(add(format!("site {i} {register}"), *value)));
        site.stack.iter().for_each(|(offset, value)| drop(add(format!("site {i} stack {offset}"), *value)));
        if let Callee::Indirect(value) = site.callee {
            add(format!("site {i} callee"), value);
        }
    }
    passed
}

/// Function 0 made simpler, held against the same with a copy of it for each call.
fn holds_what_is_true(mut functions: Vec<FunctionSummary>) -> Result<(), TestCaseError> {
    let known = functions.len();
    for site in &mut functions[0].call_sites {
        if let Callee::Direct { target, .. } = &mut site.callee
            && *target == Target::Symbol(SymbolIdx(0))
        {
            *target = Target::Symbol(SymbolIdx(1));
        }
    }
    let mut simpler = functions.clone();
    merge_passthrough(&mut simpler[0]);
    let sites: usize = functions[1..].iter().map(|f| f.call_sites.len()).sum();
    let mut copied = functions.clone();
    copied.extend(std::iter::repeat_n(functions[0].clone(), sites));
    let (found, truth) = (solve(&simpler), solve_known(&copied, known));
    let context =
        |what: &dyn std::fmt::Debug| format!("{what:?} of {:#?}\nmade\n{:#?}", functions, simpler[0]);
    for (node, set) in &truth.sets {
        let node = match *node {
            Node::Value(f, _) if f == 0 || f >= known => continue,
            Node::Cell(object, cell) => Node::Cell(original(object, known), cell),
            Node::Anywhere(object) => Node::Anywhere(original(object, known)),
            Node::Above(f) if f >= known => Node::Above(0),
            node => node,
        };
        let mut missing = originals(set, known);
        missing.retain(|address| !found.set(node).contains(address));
        // That the unknown escapes says nothing.
        missing.retain(|address| node != Node::Escaped || address.is_some());
        prop_assert!(missing.is_empty(), "{missing:?} at {}", context(&node));
    }
    let ours = passed(&found, 0, &simpler[0]);
    for f in std::iter::once(0).chain(known..copied.len()) {
        for (name, set) in passed(&truth, f, &functions[0]) {
            let missing: Set = originals(&set, known).difference(&ours[&name]).copied().collect();
            prop_assert!(missing.is_empty(), "{missing:?} at {}", context(&name));
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_that_is_true_of_a_call_gets_lost(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let shape = Shape { functions: 3, data: 3, values: 12, constraints: 8, copies: 40, vectors: true };
        holds_what_is_true(program(&mut ProgramChoices(bytes.iter()), &shape))?;
    }
}

fn copy(from: u32, to: u32) -> Constraint {
    Constraint::Assign { from: ValueIdx(from), to: ValueIdx(to), offset: Some(0) }
}

fn named(values: &[(u8, u32)]) -> Vec<(u8, ValueIdx)> {
    values.iter().map(|(register, value)| (*register, ValueIdx(*value))).collect()
}

fn site(actuals: &[(u8, u32)], results: &[(u8, u32)]) -> CallSite {
    CallSite {
        section: 1,
        offset: 0,
        callee: Callee::Direct { target: Target::Symbol(SymbolIdx(1)), offset: 0 },
        jump: false,
        actuals: named(actuals),
        stack: Vec::new(),
        no_vectors: false,
        formats: Vec::new(),
        stack_in_frame: None,
        results: named(results),
    }
}

/// xmm0 to xmm2 come in, go to a call, come back from it and go out, each by a copy.
fn through() -> FunctionSummary {
    FunctionSummary {
        values: 9,
        parameters: named(&[(16, 0), (17, 1), (18, 2)]),
        results: named(&[(16, 6), (17, 7), (18, 8)]),
        constraints: vec![copy(3, 6), copy(4, 7), copy(5, 8)],
        call_sites: vec![site(&[(16, 0), (17, 1), (18, 2)], &[(16, 3), (17, 4), (18, 5)])],
        ..empty()
    }
}

fn merged(mut function: FunctionSummary) -> FunctionSummary {
    merge_passthrough(&mut function);
    function
}

#[test]
fn what_is_never_in_the_first_register_is_one_value() {
    let made = merged(through());
    assert_eq!(made.parameters, named(&[(16, 0), (17, 1), (18, 1)]));
    // Arguments and results are two values.
    assert_eq!(made.results, named(&[(16, 3), (17, 4), (18, 4)]));
    assert_eq!(made.call_sites, [site(&[(16, 0), (17, 1), (18, 1)], &[(16, 3), (17, 4), (18, 4)])]);
    assert_eq!(made.constraints, []);
}

#[test]
fn what_is_done_something_with_stays_as_it_is() {
    let place = summaries::relation::Place { value: ValueIdx(1), offset: Some(0) };
    let uses = [
        Constraint::Escape { from: ValueIdx(7) },
        Constraint::Store { from: ValueIdx(7), to: place, size: 8 },
        Constraint::Load { from: place, to: ValueIdx(0), size: 8 },
        Constraint::Assign { from: ValueIdx(4), to: ValueIdx(8), offset: None },
        Constraint::Unknown { to: ValueIdx(4) },
    ];
    for used in uses {
        let mut function = through();
        function.constraints.push(used);
        let made = merged(function.clone());
        let touched = if used == uses[2] { 1 } else { 4 };
        let same = |v: u32| {
            made.parameters.contains(&(18, ValueIdx(v))) || made.results.contains(&(18, ValueIdx(v)))
        };
        assert!(!same(touched), "{used:?}: {made:#?}");
    }
    // Nor what is ever in a general register, on the stack, called, or anything at a label.
    type Change = fn(&mut FunctionSummary);
    let changes: [Change; 4] = [
        |f| f.parameters.insert(0, (7, ValueIdx(2))),
        |f| f.call_sites[0].stack.push((8, ValueIdx(2))),
        |f| f.call_sites[0].callee = Callee::Indirect(ValueIdx(2)),
        |f| f.indirect_entry_values.push(ValueIdx(2)),
    ];
    for change in changes {
        let mut function = through();
        change(&mut function);
        let made = merged(function);
        assert_eq!(made.parameters.last(), Some(&(18, ValueIdx(2))), "{made:#?}");
        assert_eq!(made.results.last(), Some(&(18, ValueIdx(4))), "{made:#?}");
    }
}
