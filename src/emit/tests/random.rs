//! Random plans on real objects, and damaged objects. Emission gives an error or an object that is verified, and never panics.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use summaries::{Granularity, ModuleSummary, native};

use super::planner::keeps_all;
use super::split::C_LIB;
use super::tools::{Workshop, run};
use crate::emit::{archive, object::rewrite};
use crate::plan::{Action, ModulePlan, SymbolFlags};
use crate::propagate::can_stub;
use crate::verify;

const SOURCE: &str = include_str!("random_source.cc");

fn rust_object(shop: &Workshop) -> Vec<u8> {
    let source = "use std::fmt::Debug;\nthread_local!(static T: std::cell::Cell<u32> = std::cell::Cell::new(1));\n\
        pub fn f(v: &mut Vec<Box<dyn Debug>>, s: &str) -> usize { v.push(Box::new(s.to_owned())); \
        println!(\"{v:?}\"); T.with(|t| t.replace(3)) as usize + v.len() }\n\
        #[unsafe(no_mangle)] pub extern \"C\" fn g(x: usize) -> usize { [1, 2, 3][x] }\n";
    shop.write("r.rs", source);
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let flags =
        ["--edition=2024", "--crate-type=lib", "--emit=obj", "-g", "-Cno-prepopulate-passes", "-o", "r.o"];
    run(shop.command(&rustc).arg("r.rs").args(flags));
    std::fs::read(shop.path("r.o")).unwrap()
}

/// Objects of C++ and Rust with a section for each function, and of C and C++ with one for all of them.
fn objects() -> Vec<(Vec<u8>, ModuleSummary)> {
    let shop = Workshop::new();
    let base = ["-ffunction-sections", "-fdata-sections", "-std=c++17"];
    let whole = [
        ("g++", &["-O2", "-g"][..]),
        ("g++", &["-O0", "-g3", "-gz", "-fdebug-types-section", "-fno-pic"]),
        ("clang++-19", &["-O2", "-g", "-gdwarf-4"]),
        ("clang++-19", &["-O1", "-gz", "-g", "-fstack-size-section", "-fbasic-block-address-map"]),
        ("clang++-19", &["-O0"]),
    ]
    .into_iter()
    .map(|(compiler, flags)| shop.compile(compiler, "r.cc", SOURCE, &[&base[..], flags].concat()))
    .chain([rust_object(&shop)])
    .map(|bytes| (native::extract(&bytes), bytes));
    let divided = [
        shop.compile("gcc", "a.c", C_LIB, &["-O2"]),
        shop.compile("clang-19", "b.c", C_LIB, &["-O1", "-fno-pic"]),
        shop.compile("g++", "x.cc", SOURCE, &["-O2", "-std=c++17"]),
        shop.compile("clang++-19", "y.cc", SOURCE, &["-O0", "-std=c++17"]),
    ]
    .map(|bytes| (native::extract_at(&bytes, Granularity::Functions), bytes));
    whole.chain(divided).map(|(summary, bytes)| (bytes, summary)).collect()
}

/// A plan from random bits, with stubs in half of the plans. It drops about `drop_percent` of the atoms.
pub(super) fn random_plan(summary: &ModuleSummary, seed: &[u8], drop_percent: u8) -> ModulePlan {
    let byte = |i: usize| seed[i % seed.len()] ^ (i / seed.len()).wrapping_mul(37) as u8;
    let flags = |i: usize| {
        let mut flags = SymbolFlags::default();
        flags.set(SymbolFlags::PREVAILS_ELSEWHERE, byte(3) & 1 == 1 || byte(i + 7) & 1 == 0);
        let dropped = if byte(i + 11) & 1 == 0 {
            SymbolFlags::DEFINITION_DROPPED
        } else {
            SymbolFlags::DEFINITION_KEPT
        };
        flags.set(dropped, byte(5) & 1 == 0);
        flags
    };
    let mut plan = ModulePlan {
        atoms: (0..summary.atoms.len())
            .map(|i| if byte(i) % 100 < drop_percent { Action::Drop } else { Action::Keep })
            .collect(),
        symbols: (0..summary.symbols.len()).map(flags).collect(),
        ..ModulePlan::default()
    };
    for (g, group) in summary.groups.iter().enumerate() {
        if byte(g + 17) % 5 == 0 {
            plan.discarded_groups.push(group.section);
            group.members.iter().for_each(|m| plan.atoms[m.index()] = Action::Drop);
        }
    }
    if byte(21) & 1 == 0 {
        for (i, can) in can_stub(summary).into_iter().enumerate() {
            if can && plan.atoms[i] == Action::Keep && byte(i + 23) % 3 == 0 {
                plan.atoms[i] = Action::Stub;
            }
        }
    }
    plan
}

/// Also drop each atom that refers to a dropped one, so that the plan can be carried out.
pub(super) fn close(summary: &ModuleSummary, plan: &mut ModulePlan) {
    use summaries::{Definition, Target};
    loop {
        let mut changed = false;
        for r in &summary.references {
            let gone = match r.target {
                Target::Atom(a) => plan.atoms[a.index()] == Action::Drop,
                Target::Symbol(s) => match summary.symbols[s.index()].definition {
                    Definition::Atom(a) | Definition::Common(a) => {
                        let local = summary.symbols[s.index()].binding == summaries::Binding::Local;
                        let other = !local && plan.symbol(s.index()).has(SymbolFlags::PREVAILS_ELSEWHERE);
                        plan.atoms[a.index()] == Action::Drop && !other
                    }
                    _ => false,
                },
            };
            if gone && plan.atoms[r.from.index()] == Action::Keep {
                plan.atoms[r.from.index()] = Action::Drop;
                changed = true;
            }
        }
        for i in 0..summary.atoms.len() {
            let after = summary.atoms[i].link_order;
            if after.is_some_and(|a| plan.atoms[a.index()] == Action::Drop) && plan.atoms[i] == Action::Keep {
                plan.atoms[i] = Action::Drop;
                changed = true;
            }
        }
        if !changed {
            return;
        }
    }
}

/// More cases by `PROPTEST_CASES`, for a long run.
pub(super) fn cases(usual: u32) -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}

pub(super) fn runner(cases: u32) -> TestRunner {
    TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() })
}

#[test]
fn a_plan_is_carried_out_or_refused() {
    let objects = objects();
    let (carried_out, in_parts) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
    let strategy = (0..objects.len(), prop::collection::vec(any::<u8>(), 64), 0u8..60, any::<bool>());
    runner(cases(600))
        .run(&strategy, |(which, seed, percent, closed)| {
            let (object, summary) = &objects[which];
            let mut plan = random_plan(summary, &seed, percent);
            if closed {
                close(summary, &mut plan);
            }
            match rewrite(object, summary, &plan) {
                Err(e) if closed => panic!("{e}"),
                Err(_) => {}
                Ok(new) => {
                    verify::object("r.o", object, &new, &verify::ExpectedObject::new(summary, &plan))
                        .unwrap_or_else(|e| panic!("{e}"));
                    let again = native::extract(&new);
                    assert!(again.limits.is_empty(), "{:?}", again.limits);
                    // A second pass over the result with everything kept is a fixed point.
                    let keep = keeps_all(&again);
                    let twice = rewrite(&new, &again, &keep).unwrap();
                    assert!(twice == new, "not a fixed point");
                    carried_out.set(carried_out.get() + 1);
                    let planned: Vec<_> = summary.atoms.iter().zip(&plan.atoms).collect();
                    let mut sections = planned.chunk_by(|a, b| a.0.section == b.0.section);
                    let divided = sections.any(|a| a.iter().any(|(_, action)| *action != a[0].1));
                    in_parts.set(in_parts.get() + usize::from(divided));
                }
            }
            Ok(())
        })
        .unwrap();
    assert!(carried_out.get() > 100 && in_parts.get() > 5, "{carried_out:?} {in_parts:?}");
}

#[test]
fn damaged_objects_are_harmless() {
    let objects = objects();
    let damage = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), any::<bool>()), 1..12);
    let strategy = (0..objects.len(), damage, prop::collection::vec(any::<u8>(), 64), any::<Option<u16>>());
    runner(cases(1500))
        .run(&strategy, |(which, damage, seed, cut)| {
            let (original, own) = &objects[which];
            let mut bytes = original.clone();
            for (at, value, in_tables) in damage {
                // Half of the damage goes where the tables are: the header, and the section headers at the end.
                let start = if in_tables { bytes.len() - bytes.len() / 8 } else { 0 };
                let at = start + at.index(bytes.len() - start);
                bytes[at] = value;
            }
            if let Some(cut) = cut {
                bytes.truncate(usize::from(cut));
            }
            let mut shifted = own.clone();
            if let Some(atom) = shifted.atoms.get_mut(usize::from(seed[0])) {
                atom.offset ^= 1 << (seed[1] % 16);
            }
            for summary in [own, &shifted, &native::extract(&bytes)] {
                let mut plan = random_plan(summary, &seed, 20);
                close(summary, &mut plan);
                let expected = verify::ExpectedObject::new(summary, &plan);
                if let Ok(new) = rewrite(&bytes, summary, &plan) {
                    assert!(new.len() < 100 * bytes.len() + 4096);
                    let _ = verify::object("d.o", &bytes, &new, &expected);
                }
                let _ = verify::object("d.o", original, &bytes, &expected);
                let _ = verify::object("d.o", &bytes, original, &expected);
            }
            let _ = verify::facts("d.o", &bytes);
            archive::write(&mut Vec::new(), &[("d.o", &bytes)]).unwrap();
            Ok(())
        })
        .unwrap();
}
