//! A new address-significance table: the symbols that it lists, and the tables that verification rejects.

use std::collections::BTreeSet;
use std::process::Command;

use summaries::native::significance::{Addresses, addresses};
use summaries::{Granularity, ModuleSummary};

use super::planner::{emitted, verified};
use super::tools::{Workshop, run};
use crate::emit::object::rewrite;
use crate::plan::{Action, ModulePlan};

const SOURCE: &str = include_str!("addrsig_source.c");

/// A plan that keeps all and folds as much as possible.
fn plan(object: &[u8], summary: &ModuleSummary) -> ModulePlan {
    let Addresses::Found(found) = addresses(object, summary, &|_| true) else {
        panic!("{:?}", summary.limits)
    };
    ModulePlan {
        atoms: vec![Action::Keep; summary.atoms.len()],
        addresses: Some(found),
        ..ModulePlan::default()
    }
}

fn compiled(shop: &Workshop, flags: &[&str]) -> (Vec<u8>, ModuleSummary, ModulePlan) {
    let object = shop.compile("gcc", "a.c", SOURCE, flags);
    let summary = summaries::native::extract_at(&object, Granularity::Functions);
    let plan = plan(&object, &summary);
    (object, summary, plan)
}

/// The names that an object's table lists.
fn listed(shop: &Workshop, object: &[u8]) -> BTreeSet<String> {
    let text = run(Command::new("llvm-readobj-19").arg("--addrsig").arg(shop.write("listed.o", object)));
    let names = text.lines().filter_map(|l| l.trim().strip_prefix("Sym: "));
    names.map(|l| l.split(" (").next().unwrap_or("").to_owned()).collect()
}

#[test]
fn all_is_listed_but_what_is_only_called() {
    let shop = Workshop::new();
    for flags in [
        &["-O2", "-fPIE"][..],
        &["-O2", "-fPIE", "-ffunction-sections", "-fdata-sections"],
        &["-O1", "-fno-pie"],
        &["-Os", "-fPIC", "-fno-semantic-interposition", "-fcf-protection"],
    ] {
        let (object, summary, plan) = compiled(&shop, flags);
        let new = emitted(&object, &summary, &plan);
        let names = listed(&shop, &new);
        for name in ["kept", "self", "pointer", "constant", "compared"] {
            assert!(names.contains(name), "{flags:?} {name}: {names:?}");
        }
        for name in ["called", "global", "all", "far"] {
            assert!(!names.contains(name), "{flags:?} {name}: {names:?}");
        }
        // Each of these is a section of its own.
        let after = summaries::native::extract(&new);
        let atom = |name: &str| {
            let symbol = after.symbols.iter().find(|s| after.name(s.name) == name.as_bytes()).unwrap();
            (symbol.definition, symbol.value)
        };
        let starts: BTreeSet<String> =
            ["called", "global", "all"].map(|n| format!("{:?}", atom(n).0)).into_iter().collect();
        assert_eq!(starts.len(), 3, "{flags:?}");
        assert!(["called", "global", "all"].iter().all(|n| atom(n).1 == 0), "{flags:?}");
        // Without a table the object does not change.
        let without = ModulePlan { addresses: None, ..plan };
        let same = rewrite(&object, &summary, &without).unwrap();
        assert!(verified(&object, &same, &summary, &without).is_ok());
        assert!(verified(&object, &new, &summary, &without).is_err());
    }
}

#[test]
fn an_object_with_a_table_keeps_it() {
    let shop = Workshop::new();
    let object = shop.compile("clang-19", "c.c", &SOURCE.replace("noipa", "noinline"), &["-O2", "-faddrsig"]);
    let summary = summaries::native::extract_at(&object, Granularity::Functions);
    assert_eq!(addresses(&object, &summary, &|_| true), Addresses::Own { described: true });
    // A table that is linked to no symbol table is ignored.
    shop.write("c.o", &object);
    run(shop.command("objcopy").args(["--strip-debug", "c.o", "d.o"]));
    let copied = std::fs::read(shop.path("d.o")).unwrap();
    let summary = summaries::native::extract_at(&copied, Granularity::Functions);
    assert!(matches!(addresses(&copied, &summary, &|_| true), Addresses::Found(_)));
}

#[test]
fn verification_refuses_a_table_that_leaves_too_much_out() {
    let shop = Workshop::new();
    let flags = ["-O2", "-fPIE", "-ffunction-sections", "-fdata-sections"];
    let (object, summary, plan) = compiled(&shop, &flags);
    let good = emitted(&object, &summary, &plan);
    let range = summaries::native::find_section(&good, b".llvm_addrsig").unwrap();
    // Every entry is a byte here; another one instead of it leaves it out.
    assert!(range.len() > 5 && good[range.clone()].iter().all(|b| *b < 0x80));
    let names = listed(&shop, &good);
    let other = good[range.end - 1];
    let mut refused = BTreeSet::new();
    for at in range.start..range.end - 1 {
        // A section symbol stands before the function's own, and either will do.
        for count in 1..=2 {
            let mut bad = good.clone();
            bad[(at + 1 - count).max(range.start)..=at].fill(other);
            let lost: Vec<String> = names.difference(&listed(&shop, &bad)).cloned().collect();
            let last = lost.iter().find(|n| ["compared", "kept", "pointer", "self"].contains(&n.as_str()));
            let outcome = verified(&object, &bad, &summary, &plan);
            if let (Some(name), Err(error)) = (last, outcome) {
                assert!(
                    error.contains("left out")
                        || error.contains("leaves out")
                        || error.contains("own address"),
                    "{error}"
                );
                refused.insert(name.clone());
            }
        }
    }
    assert_eq!(refused.len(), 4, "{refused:?} of {names:?}");
    let mut bad = good.clone();
    bad[range.start] = 0x7f;
    assert!(verified(&object, &bad, &summary, &plan).is_err(), "a symbol that is not there");
    let mut bad = good.clone();
    bad[range.end - 1] |= 0x80;
    assert!(verified(&object, &bad, &summary, &plan).is_err(), "half an entry");
    // A plan that folds what it must not.
    for name in [".text.kept", ".text.self"] {
        let mut wrong = plan.clone();
        let atom = summary.atoms.iter().position(|a| summary.name(a.name) == name.as_bytes()).unwrap();
        wrong.addresses.as_mut().unwrap().foldable[atom] = true;
        let bad = rewrite(&object, &summary, &wrong).unwrap();
        let outcome = verified(&object, &bad, &summary, &wrong);
        assert!(outcome.is_err(), "{name}");
    }
    let mut wrong = plan.clone();
    wrong.addresses.as_mut().unwrap().mentioned.fill(false);
    let bad = rewrite(&object, &summary, &wrong).unwrap();
    assert!(verified(&object, &bad, &summary, &wrong).is_err());
    // No table at all.
    assert!(verified(&object, &object, &summary, &plan).is_err());
}
