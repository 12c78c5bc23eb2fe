//! A reduced function is the same to every caller and in every surrounding.

use crate::texts::templates;
use proptest::prelude::*;
use summaries::ValueIdx;
use summaries::cfl::reduce;
use summaries::relation::{Callee, Constraint, FunctionSummary};

use super::brute::{Node, Object, Set, Solution, solve};
use super::random::{ProgramChoices, Shape, empty, program};

/// The interface of function 0: each externally visible value by name, with its points-to set.
fn interface(of: &Solution<'_>, original: &FunctionSummary) -> Vec<(String, Set)> {
    let this = &of.functions[0];
    let mut seen = Vec::new();
    let mut registers = |name: &str, named: &[(u8, ValueIdx)], own: &[(u8, ValueIdx)]| {
        for (register, _) in named {
            let value = own.iter().find(|o| o.0 == *register);
            seen.push((format!("{name} {register}"), value.map_or(Set::new(), |v| of.value(0, v.1))));
        }
    };
    registers("result", &original.results, &this.results);
    for (i, (site, own)) in original.call_sites.iter().zip(&this.call_sites).enumerate() {
        registers(&format!("site {i} actual"), &site.actuals, &own.actuals);
        if let Callee::Indirect(value) = own.callee {
            registers(&format!("site {i} callee"), &[(0, value)], &[(0, value)]);
        }
        let (stack, own): (Vec<_>, Vec<_>) = (
            site.stack.iter().map(|s| (s.0 as u8, s.1)).collect(),
            own.stack.iter().map(|s| (s.0 as u8, s.1)).collect(),
        );
        registers(&format!("site {i} stack"), &stack, &own);
    }
    seen
}

/// The values that enter function 0, with their points-to sets; those without uses may be missing.
fn inflow(of: &Solution<'_>, reduced: &FunctionSummary) -> Vec<(String, Set)> {
    let this = &of.functions[0];
    let mut seen = Vec::new();
    for (register, _) in &reduced.parameters {
        let value = this.parameters.iter().find(|p| p.0 == *register).unwrap().1;
        seen.push((format!("parameter {register}"), of.value(0, value)));
    }
    for (offset, _) in &reduced.stack_parameters {
        let value = this.stack_parameters.iter().find(|p| p.0 == *offset).map(|p| p.1);
        seen.push((format!("stack parameter {offset}"), value.map_or(Set::new(), |v| of.value(0, v))));
    }
    for (i, (site, own)) in reduced.call_sites.iter().zip(&this.call_sites).enumerate() {
        for (register, _) in &site.results {
            let value = own.results.iter().find(|r| r.0 == *register).unwrap().1;
            seen.push((format!("site {i} result {register}"), of.value(0, value)));
        }
    }
    seen
}

/// The surroundings: all values of the other functions, and memory.
fn elsewhere(of: &Solution<'_>, frame: bool) -> Vec<(Node, Set)> {
    let visible = |node: &Node| match node {
        Node::Value(f, _) | Node::Above(f) => *f != 0,
        Node::Cell(o, _) | Node::Anywhere(o) => frame || *o != Object::Frame(0),
        Node::Escaped => true,
    };
    of.sets.iter().filter(|(n, s)| visible(n) && !s.is_empty()).map(|(n, s)| (*n, s.clone())).collect()
}

fn same(functions: &[FunctionSummary]) -> Result<(), TestCaseError> {
    let mut after = functions.to_vec();
    after[0] = reduce(&functions[0]);
    let context = || format!("{:#?}\nreduced to\n{:#?}\nin {:#?}", functions[0], after[0], &functions[1..]);
    let (a, b) = (solve(functions), solve(&after));
    prop_assert_eq!(interface(&a, &functions[0]), interface(&b, &functions[0]), "{}", context());
    prop_assert_eq!(inflow(&a, &after[0]), inflow(&b, &after[0]), "{}", context());
    prop_assert_eq!(elsewhere(&a, after[0].frame), elsewhere(&b, after[0].frame), "{}", context());
    prop_assert!(after[0].constraints.len() <= functions[0].constraints.len() + 1, "{}", context());
    prop_assert_eq!(&reduce(&functions[0]), &after[0]);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_reduced_function_is_the_same_in_every_surrounding(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let shape = Shape { functions: 3, data: 3, values: 7, constraints: 12, copies: 15 };
        same(&program(&mut ProgramChoices(bytes.iter()), &shape))?;
    }

    #[test]
    fn so_is_one_of_many_copies(bytes in prop::collection::vec(any::<u8>(), 0..500)) {
        let shape = Shape { functions: 2, data: 3, values: 12, constraints: 26, copies: 60 };
        same(&program(&mut ProgramChoices(bytes.iter()), &shape))?;
    }
}

fn plain(from: usize, to: usize, offset: Option<i64>) -> Constraint {
    Constraint::Assign { from: ValueIdx::new(from), to: ValueIdx::new(to), offset }
}

/// A function with constraints between its parameter and its result.
fn between(values: usize, constraints: Vec<Constraint>) -> FunctionSummary {
    FunctionSummary {
        values: values as u32,
        parameters: vec![(7, ValueIdx(0))],
        results: vec![(0, ValueIdx::new(values - 1))],
        constraints,
        ..empty()
    }
}

#[test]
fn chains_are_as_long_as_they_are() {
    const LENGTH: usize = 200_000;
    let chain = |offset: Option<i64>| (0..LENGTH).map(|i| plain(i, i + 1, offset)).collect();
    let copied = reduce(&between(LENGTH + 1, chain(Some(0))));
    assert_eq!((copied.values, copied.constraints), (2, vec![plain(0, 1, Some(0))]));
    let displaced = reduce(&between(LENGTH + 1, chain(Some(2))));
    assert_eq!(displaced.constraints, [plain(0, 1, Some(400_000))]);
    let place = |i| summaries::relation::Place { value: ValueIdx::new(i), offset: Some(8) };
    let load = |i| Constraint::Load { from: place(i), to: ValueIdx::new(i + 1), size: 8 };
    let loaded = reduce(&between(LENGTH + 1, (0..LENGTH).map(load).collect()));
    assert_eq!(loaded.constraints.len(), LENGTH);
    let mut cycle: Vec<Constraint> = chain(Some(0));
    cycle.push(plain(LENGTH, 0, Some(0)));
    assert_eq!(reduce(&between(LENGTH + 1, cycle)).values, 2);
}

#[test]
fn a_value_with_many_neighbours_takes_no_longer() {
    const MANY: usize = 100_000;
    let mut constraints: Vec<Constraint> = (1..MANY).map(|i| plain(0, i, Some(i as i64))).collect();
    constraints.extend((1..MANY).map(|i| plain(i, MANY, Some(0))));
    constraints.push(plain(MANY, MANY + 1, None));
    let start = std::time::Instant::now();
    let reduced = reduce(&between(MANY + 2, constraints));
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
    assert!(reduced.constraints.len() <= MANY, "{}", reduced.constraints.len());
}

/// The text of a function after reduction.
fn reduced(body: &str) -> String {
    let head =
        "module native pointers\nsymbol \"\"\nsymbol f\nsymbol g\natom t code section 1 size 8 flags exec\n";
    let mut summary = summaries::text::parse(&format!("{head}{body}")).unwrap();
    summary.functions = summary.functions.iter().map(reduce).collect();
    assert_eq!(summary.check(), Ok(()));
    let text = summaries::text::dump(&summary);
    let start = text.find("function [t]").unwrap();
    text[start..].lines().map(|line| line.to_owned() + "\n").collect()
}

#[test]
fn what_becomes_of_constraints() {
    for case in templates(include_str!("../programs/reduced.txt"), &["reduced"]) {
        assert_eq!(reduced(&case.text), case.part("reduced"), "{}", case.words);
    }
}
