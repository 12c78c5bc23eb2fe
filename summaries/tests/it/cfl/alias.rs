//! The machine against brute force: two values that may hold addresses in the same object may alias.

use proptest::prelude::*;
use summaries::cfl::{Answer, EnvironmentAssumption, MOST_FACTS, Query, may_alias};
use summaries::relation::{Constraint, FunctionSummary, Place};
use summaries::{SymbolIdx, Target, ValueIdx};

use super::brute::{Object, RING, Set, solve};
use super::random::{ProgramChoices, Shape, empty, program};

fn value(number: usize) -> ValueIdx {
    ValueIdx::new(number)
}

fn place(number: usize, offset: Option<i64>) -> Place {
    Place { value: value(number), offset }
}

fn plain(from: usize, to: usize, offset: Option<i64>) -> Constraint {
    Constraint::Assign { from: value(from), to: value(to), offset }
}

fn address(to: usize, symbol: usize) -> Constraint {
    Constraint::Address { to: value(to), target: Target::Symbol(SymbolIdx::new(symbol)), offset: 0 }
}

fn load(from: usize, offset: i64, to: usize) -> Constraint {
    Constraint::Load { from: place(from, Some(offset)), to: value(to), size: 8 }
}

fn store(from: usize, to: usize, offset: i64) -> Constraint {
    Constraint::Store { from: value(from), to: place(to, Some(offset)), size: 8 }
}

fn of(values: usize, constraints: Vec<Constraint>) -> FunctionSummary {
    FunctionSummary { values: values as u32, constraints, ..empty() }
}

fn alone(function: &FunctionSummary, query: Query) -> Answer {
    let answer = may_alias(function, EnvironmentAssumption::Nothing, query, MOST_FACTS);
    assert!(!answer.exhausted);
    answer
}

fn values(function: &FunctionSummary, a: usize, b: usize) -> bool {
    let (there, back) = (Query::Values(value(a), value(b)), Query::Values(value(b), value(a)));
    let answer = alone(function, there).may_alias;
    assert_eq!(answer, alone(function, back).may_alias, "it has no direction");
    answer
}

fn memory(function: &FunctionSummary, a: (usize, i64), b: (usize, i64)) -> bool {
    let access = |(v, offset): (usize, i64)| (place(v, Some(offset)), 8);
    alone(function, Query::Memory(access(a), access(b))).may_alias
}

#[test]
fn the_program_of_the_paper() {
    // y = &r; x = *y; s = r; r = &z: r is what y points to.
    let (x, y, s, a, z) = (0, 1, 2, 3, 4);
    let f = of(
        5,
        vec![
            address(a, 5),
            plain(a, y, Some(0)),
            load(y, 0, x),
            load(a, 0, s),
            address(z, 6),
            store(z, a, 0),
        ],
    );
    assert!(values(&f, x, s), "both are what r holds");
    assert!(memory(&f, (x, 0), (s, 0)), "*x and *s are z");
    assert!(memory(&f, (y, 0), (a, 0)), "*y is r");
    assert!(!values(&f, x, y) && !memory(&f, (x, 0), (y, 0)), "z is not r");
    assert!(memory(&f, (x, 0), (z, 0)));
    assert!(!memory(&f, (x, 0), (s, 16)), "another part of z");
}

#[test]
fn assignments_and_their_displacements() {
    let f = of(
        6,
        vec![address(0, 9), plain(0, 1, Some(0)), plain(1, 2, Some(8)), plain(0, 3, None), address(4, 8)],
    );
    assert!(values(&f, 2, 0) && values(&f, 1, 3) && !values(&f, 4, 2) && !values(&f, 5, 0));
    assert!(memory(&f, (2, 0), (0, 8)) && !memory(&f, (2, 8), (0, 0)) && !memory(&f, (2, 16), (1, 0)));
    assert!(memory(&f, (3, 32), (0, 0)), "at any displacement");
    // Two copies of the same, and a value that two different ones flow into.
    let f = of(
        5,
        vec![address(0, 9), address(1, 8), plain(0, 2, Some(0)), plain(1, 2, Some(0)), plain(0, 3, Some(0))],
    );
    assert!(
        values(&f, 2, 1) && values(&f, 2, 3) && !values(&f, 3, 1),
        "a join relates to both, not both to each other"
    );
}

#[test]
fn stores_match_loads() {
    // *p = a; b = *q; p and q the same, then other places of the same object.
    let body = |by: i64| {
        of(5, vec![address(0, 9), plain(0, 1, Some(by)), address(2, 8), store(2, 0, 0), load(1, 0, 3)])
    };
    assert!(values(&body(0), 2, 3) && !values(&body(64), 2, 3));
    // Twice: **p = a; b = **p by other names.
    let f = of(
        8,
        vec![
            address(0, 9),
            address(1, 8),
            store(1, 0, 0),
            load(0, 0, 2),
            address(3, 7),
            store(3, 2, 0),
            load(0, 0, 4),
            load(4, 0, 5),
            load(1, 0, 6),
        ],
    );
    assert!(values(&f, 5, 3) && values(&f, 6, 3) && values(&f, 2, 1) && !values(&f, 5, 1));
    // A copy of memory.
    let copy = Constraint::Copy { from: place(0, Some(0)), to: place(1, Some(0)), size: 16 };
    let f = of(
        6,
        vec![address(0, 9), address(1, 8), address(2, 7), store(2, 0, 8), copy, load(1, 8, 3), address(4, 6)],
    );
    assert!(values(&f, 3, 2) && !values(&f, 3, 4));
}

/// What is copied is what lies in the bytes that are copied, also where nobody knows where it goes. Brute force once copied all of
/// the object then, and the machine, which was right, was at fault.
#[test]
fn a_copy_to_anywhere_is_of_its_bytes() {
    let frame = |to, offset| Constraint::Frame { to: value(to), offset };
    let copy = |at| Constraint::Copy { from: place(0, Some(at)), to: place(1, Some(0)), size: 8 };
    for (at, meets) in [(0, false), (24, true)] {
        let f = of(
            5,
            vec![
                address(0, 1),
                frame(1, None),
                frame(2, Some(-8)),
                address(3, 2),
                store(3, 0, 24),
                copy(at),
                load(2, 0, 4),
            ],
        );
        let f = FunctionSummary { frame: true, ..f };
        let solution = solve(std::slice::from_ref(&f));
        assert_eq!((values(&f, 3, 4), !solution.value(0, value(4)).is_empty()), (meets, meets), "{at}");
    }
}

#[test]
fn cycles_and_long_chains_end() {
    const LENGTH: usize = 200_000;
    let mut chain: Vec<Constraint> = (0..LENGTH).map(|i| plain(i, i + 1, Some(0))).collect();
    chain.push(address(0, 0));
    assert!(values(&of(LENGTH + 1, chain), 0, LENGTH));
    let f = of(
        4,
        vec![
            address(0, 9),
            plain(0, 1, Some(8)),
            plain(1, 0, Some(0)),
            load(1, 0, 2),
            store(1, 2, 0),
            address(3, 8),
        ],
    );
    assert!(memory(&f, (0, 800), (1, 0)), "round and round");
    assert!(!values(&f, 0, 3));
    let same = of(2, vec![address(0, 9), load(0, 0, 0), store(0, 0, 0), plain(0, 1, Some(0))]);
    assert!(values(&same, 0, 1));
}

#[test]
fn code_that_is_not_seen() {
    let any = |f: &FunctionSummary, a, b| {
        let answer = may_alias(f, EnvironmentAssumption::Any, Query::Values(value(a), value(b)), MOST_FACTS);
        assert!(!answer.exhausted);
        answer.may_alias
    };
    let frame = |to| Constraint::Frame { to: value(to), offset: Some(-16) };
    let parameters = vec![(6, value(0)), (7, value(1))];
    let mut f = FunctionSummary { parameters, frame: true, ..of(4, vec![frame(2), load(1, 0, 3)]) };
    assert!(any(&f, 0, 1) && any(&f, 3, 0), "a caller may pass the same twice");
    assert!(!any(&f, 2, 1) && !any(&f, 2, 3), "nobody has the address of the frame");
    f.constraints.push(store(2, 0, 8));
    assert!(any(&f, 2, 3), "now somebody has");
    f.constraints.pop();
    f.results = vec![(0, value(2))];
    assert!(any(&f, 2, 1));
    assert!(!values(&f, 0, 1), "but not if nobody calls it");
    for (at, expected) in [(0, false), (-4096, false), (24, true), (4096, true)] {
        let parameters = vec![(6, value(0))];
        let f = FunctionSummary { parameters, frame: true, ..of(3, vec![frame(1), load(1, at, 2)]) };
        assert_eq!(any(&f, 0, 2), expected, "{at}: callers leave something above the return address only");
    }
}

#[test]
fn the_budget_is_a_yes() {
    let f = of(4, vec![address(0, 9), plain(0, 1, Some(0)), address(2, 8), plain(2, 3, Some(0))]);
    let query = Query::Values(value(1), value(3));
    let answer = |facts| may_alias(&f, EnvironmentAssumption::Nothing, query, facts);
    assert_eq!((answer(2).may_alias, answer(2).exhausted), (true, true));
    assert_eq!((answer(100).may_alias, answer(100).exhausted), (false, false));
}

/// Objects that a set leads into.
fn objects(set: &Set) -> std::collections::BTreeSet<Option<Object>> {
    set.iter().map(|a| a.map(|a| a.0)).collect()
}

/// A function of its own, every value of which is defined: what is undefined holds nothing, and paths from there tell nothing.
fn closed(bytes: &[u8], offsets: bool) -> Vec<FunctionSummary> {
    let shape = Shape { functions: 1, data: 5, values: 6, constraints: 10, copies: 20, vectors: false };
    let mut functions = program(&mut ProgramChoices(bytes.iter()), &shape);
    let f = &mut functions[0];
    *f = FunctionSummary { values: f.values, frame: f.frame, constraints: f.constraints.clone(), ..empty() };
    f.constraints.retain(|c| match c {
        Constraint::Unknown { .. } | Constraint::Escape { .. } | Constraint::EscapeCode { .. } => false,
        Constraint::Address { target: Target::Symbol(s), .. } => s.0 != 0,
        _ => true,
    });
    if !offsets {
        for c in &mut f.constraints {
            match c {
                Constraint::Address { offset, .. } => *offset = 0,
                Constraint::Frame { offset, .. } | Constraint::Assign { offset, .. } => *offset = Some(0),
                Constraint::Load { from: Place { offset, .. }, size, .. }
                | Constraint::Store { to: Place { offset, .. }, size, .. } => (*offset, *size) = (Some(0), 8),
                Constraint::Copy { from, to, size } => {
                    (from.offset, to.offset, *size) = (Some(0), Some(0), 8);
                }
                Constraint::Unknown { .. } | Constraint::Escape { .. } | Constraint::EscapeCode { .. } => {}
            }
        }
    }
    functions
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_brute_force_finds_may_alias(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let functions = closed(&bytes, true);
        let solution = solve(&functions);
        for a in 0..6 {
            for b in 0..6 {
                let (of_a, of_b) = (solution.value(0, value(a)), solution.value(0, value(b)));
                if !objects(&of_a).is_disjoint(&objects(&of_b)) {
                    prop_assert!(values(&functions[0], a, b), "%{a} and %{b} of {:#?}", functions[0]);
                }
                // Accesses of 8 bytes, by the cells that they touch.
                let cells = |set: &Set| -> std::collections::BTreeSet<(Object, i64)> {
                    let places = set.iter().flatten().flat_map(|(o, at)| {
                        let all = at.map_or((0..RING / 8).collect(), |at| vec![at / 8, (at + 7) % RING / 8]);
                        all.into_iter().map(|cell| (*o, cell))
                    });
                    places.collect()
                };
                // Where it all goes round, numbers are others.
                let far = |s: &Set| s.iter().flatten().any(|a| a.1.is_some_and(|at| (24..40).contains(&at)));
                if !far(&of_a) && !far(&of_b) && !cells(&of_a).is_disjoint(&cells(&of_b)) {
                    prop_assert!(memory(&functions[0], (a, 0), (b, 0)), "%{a} and %{b} of {:#?}", functions[0]);
                }
            }
        }
    }
}

/// Give every value and every object in memory something to hold: an object of each value's own, itself for each object.
fn define(function: &mut FunctionSummary) {
    let objects = (1..6).chain(20..20 + function.values as usize);
    let mut next = function.values as usize;
    for object in objects {
        function.constraints.extend([address(next, object), store(next, next, 0)]);
        if object >= 20 {
            function.constraints.push(plain(next, object - 20, Some(0)));
        }
        next += 1;
    }
    if function.frame {
        function.constraints.push(Constraint::Frame { to: value(next), offset: Some(0) });
        function.constraints.push(store(next, next, 0));
        next += 1;
    }
    function.values = next as u32;
}

/// Where nothing is displaced and everything is defined, paths are exactly points-to sets that meet.
#[test]
fn without_offsets_nothing_is_lost() {
    let (mut found, mut state) = (0, 1u64);
    for _ in 0..1000 {
        let bytes: Vec<u8> = (0..100)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) as u8
            })
            .collect();
        let mut functions = closed(&bytes, false);
        define(&mut functions[0]);
        let solution = solve(&functions);
        for a in 0..6 {
            for b in a + 1..6 {
                let (of_a, of_b) =
                    (objects(&solution.value(0, value(a))), objects(&solution.value(0, value(b))));
                let truth = !of_a.is_disjoint(&of_b);
                assert_eq!(values(&functions[0], a, b), truth, "%{a} and %{b} of {:#?}", functions[0]);
                found += usize::from(truth);
            }
        }
    }
    assert!((2000..13_000).contains(&found), "{found} of 15000");
}
