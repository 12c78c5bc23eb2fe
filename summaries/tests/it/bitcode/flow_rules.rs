//! Value flow of LLVM IR, a test for each rule: the sources of returned, stored and passed values.
//!
//! The tests compare the sources that reach a place, not the numbers of values, so that a missing constraint is detected.

use std::collections::BTreeSet;

use summaries::relation::{CallSite, Constraint, FunctionSummary, Place};
use summaries::{Limit, ModuleSummary, ReferenceKind, Target, ValueIdx};

use crate::texts::blocks;

use super::flow::assembled;

const HEAD: &str = "target datalayout = \"e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128\"\n\
    target triple = \"x86_64-pc-linux-gnu\"\n\
    @g = global [4 x ptr] zeroinitializer\n@h = global [4 x ptr] zeroinitializer\ndeclare void @u(ptr)\n\
    declare i32 @p(...)\n";
const REGISTERS: [&str; 10] = ["rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9"];

/// The function `t` of IR, and its module.
fn function(ir: &str) -> (ModuleSummary, FunctionSummary) {
    let summary = assembled(&format!("{HEAD}{ir}\n"));
    let is_t = |f: &&FunctionSummary| summary.name(summary.atoms[f.atom.index()].name) == b".text.t";
    let function = summary.functions.iter().find(is_t).cloned();
    let function = function.unwrap_or_else(|| panic!("no function: {ir}: {:?}", summary.limits));
    (summary, function)
}

/// The sources of a value: registers at entry, symbols, cells of the stack, `unknown`, and `*x` for a load from x; a `?` marks an unknown offset.
fn sources(summary: &ModuleSummary, function: &FunctionSummary, value: ValueIdx) -> BTreeSet<String> {
    let (mut found, mut seen) = (BTreeSet::new(), BTreeSet::new());
    let mut work = vec![(value, String::new(), String::new())];
    while let Some((value, before, behind)) = work.pop() {
        if !seen.insert((value, before.clone(), behind.clone())) || before.len() > 2 {
            continue;
        }
        let mut is = |what: &str| found.insert(format!("{before}{what}{behind}"));
        for (register, parameter) in &function.parameters {
            if *parameter == value {
                is(REGISTERS.get(usize::from(*register)).unwrap_or(&"xmm"));
            }
        }
        for constraint in &function.constraints {
            match constraint {
                Constraint::Address { to, target: Target::Symbol(symbol), .. } if *to == value => {
                    is(&String::from_utf8_lossy(summary.symbol_name(*symbol)));
                }
                Constraint::Frame { to, offset } if *to == value => {
                    is(&offset.map_or("frame".to_owned(), |at| format!("frame{at}")));
                }
                Constraint::Unknown { to } if *to == value => {
                    is("unknown");
                }
                Constraint::Assign { from, to, offset } if *to == value => {
                    let somewhere = offset.is_none() || behind == "?";
                    let behind = if somewhere { "?" } else { "" };
                    work.push((*from, before.clone(), behind.to_owned()));
                }
                Constraint::Load { from: Place { value: from, .. }, to, .. } if *to == value => {
                    work.push((*from, format!("*{before}"), behind.clone()));
                }
                _ => {}
            }
        }
    }
    found
}

fn set(names: &str) -> BTreeSet<String> {
    names.split_whitespace().map(str::to_owned).collect()
}

/// The values that `t` may return in a register.
fn returned(summary: &ModuleSummary, function: &FunctionSummary, register: u8) -> BTreeSet<String> {
    let result = function.results.iter().find(|r| r.0 == register);
    result.map(|r| sources(summary, function, r.1)).unwrap_or_default()
}

#[test]
fn sources_of_returned_values() {
    for case in blocks(include_str!("../programs/returned_values.txt")) {
        let (body, expected) = (case.text, case.words);
        let (summary, function) =
            function(&format!("{INTRINSICS}define ptr @t(ptr %a, ptr %b, i1 %c) {{\n {body}\n}}"));
        assert_eq!(returned(&summary, &function, 0), set(expected), "{body}: {function:#?}");
    }
}

const INTRINSICS: &str = include_str!("../programs/bitcode_flow_rules_intrinsics.ll");

#[test]
fn stored_and_escaped_values() {
    for case in blocks(include_str!("../programs/stored_values.txt")) {
        let (body, (stored, escaped)) = (case.text, case.words.split_once('|').unwrap());
        let (summary, function) =
            function(&format!("{INTRINSICS}define void @t(ptr %a, ptr %b) {{\n {body}\n ret void\n}}"));
        let (mut into, mut out) = (BTreeSet::new(), BTreeSet::new());
        let of = |value: ValueIdx| sources(&summary, &function, value);
        let mut stores = |to: ValueIdx, from: ValueIdx, how: &str| {
            for to in of(to) {
                into.extend(of(from).iter().map(|from| format!("{to}={how}{from}")));
            }
        };
        for constraint in &function.constraints {
            match constraint {
                Constraint::Store { from, to, .. } => stores(to.value, *from, ""),
                Constraint::Copy { from, to, .. } => stores(to.value, from.value, "copy:"),
                Constraint::Escape { from } => out.extend(of(*from)),
                _ => {}
            }
        }
        assert_eq!((into, out), (set(stored), set(escaped)), "{body}: {function:#?}");
    }
}

fn site(function: &FunctionSummary) -> &CallSite {
    assert_eq!(function.call_sites.len(), 1, "{function:#?}");
    &function.call_sites[0]
}

/// Integers and pointers in rdi, rsi, rdx, rcx, r8 and r9, then in cells of the stack, from 8 bytes above the stack pointer at entry on.
#[test]
fn places_of_arguments() {
    let types = "ptr %a, ptr %b, ptr %c, ptr %d, ptr %e, ptr %f, ptr %x, ptr %y";
    let order = ["rdi", "rsi", "rdx", "rcx", "r8", "r9", "*frame8", "*frame16"];
    for (name, expected) in ["a", "b", "c", "d", "e", "f", "x", "y"].into_iter().zip(order) {
        let (summary, function) = function(&format!("define ptr @t({types}) {{\n ret ptr %{name}\n}}"));
        assert_eq!(returned(&summary, &function, 0), set(expected), "{name}");
    }
    let (summary, function) = function(&format!(
        "declare void @v({0})\ndefine void @t({types}) {{\n call void @v({types})\n ret void\n}}",
        { ["ptr"; 8].join(", ") }
    ));
    let site = site(&function);
    for (register, value) in &site.actuals {
        let name = REGISTERS[usize::from(*register)];
        assert_eq!(sources(&summary, &function, *value), set(name));
    }
    assert_eq!(site.actuals.len(), 6);
    let stack: Vec<_> = site.stack.iter().map(|(at, v)| (*at, sources(&summary, &function, *v))).collect();
    assert_eq!(stack, [(8, set("*frame8")), (16, set("*frame16"))]);
}

/// A result without a register of its own may be in any result register.
#[test]
fn results_of_more_than_one_register() {
    let (summary, function) = function(
        "declare { ptr, ptr } @w()\ndefine { ptr, ptr } @t(ptr %a) {\n %q = call { ptr, ptr } @w()\n \
         %r = insertvalue { ptr, ptr } %q, ptr %a, 0\n ret { ptr, ptr } %r\n}",
    );
    for register in [0, 2] {
        assert_eq!(returned(&summary, &function, register), set("rdi"));
    }
    let registers: Vec<u8> = site(&function).results.iter().map(|r| r.0).collect();
    assert!(registers.starts_with(&[0, 1, 2]), "{registers:?}");
    // A function of no result may leave alone what it was passed.
    let (_, function) = self::function("define void @t() {\n ret void\n}");
    assert_eq!(function.preserved, summaries::registers::PRESERVABLE);
}

/// An argument that is passed by value is on the stack, byte for byte, and its bytes may be in registers.
#[test]
fn arguments_by_value() {
    let (summary, function) = function(
        "define void @t(ptr %a) {\n call void @v(ptr byval([2 x ptr]) %a)\n ret void\n}\ndeclare void @v(ptr)",
    );
    let site = site(&function);
    let passed: BTreeSet<_> =
        site.actuals.iter().flat_map(|(_, v)| sources(&summary, &function, *v)).collect();
    assert_eq!(passed, set("*rdi"));
    assert_eq!(site.stack_in_frame, Some(None));
    let copied = function.constraints.iter().any(|c| {
        matches!(c, Constraint::Copy { from, to, .. } if sources(&summary, &function, from.value) == set("rdi")
            && sources(&summary, &function, to.value) == set("frame"))
    });
    assert!(copied, "{function:#?}");
}

/// An argument without a known place is on the stack too.
#[test]
fn arguments_without_a_known_place() {
    let (summary, function) = function(
        "declare void @v(i128, ptr)\ndefine void @t(ptr %a) {\n call void @v(i128 0, ptr %a)\n ret void\n}",
    );
    assert_eq!(site(&function).stack_in_frame, Some(None));
    let stored = function.constraints.iter().any(|c| {
        matches!(c, Constraint::Store { from, to, .. } if sources(&summary, &function, *from) == set("rdi")
            && sources(&summary, &function, to.value) == set("frame"))
    });
    assert!(stored, "{function:#?}");
}

/// A caught exception is unknown, a resumed one escapes, and tables name the types.
#[test]
fn exceptions() {
    let (summary, function) = function(
        "define ptr @t(ptr %a) personality ptr @p {\n invoke void @u(ptr %a) to label %y unwind label %z\n\
         y: ret ptr %a\nz: %e = landingpad { ptr, i32 } catch ptr @g filter [1 x ptr] [ptr @h]\n \
         resume { ptr, i32 } %e\n}",
    );
    let escaped: BTreeSet<_> = function
        .constraints
        .iter()
        .filter_map(|c| match c {
            Constraint::Escape { from } => Some(sources(&summary, &function, *from)),
            _ => None,
        })
        .flatten()
        .collect();
    assert_eq!(escaped, set("unknown"));
    let named = |kind: ReferenceKind| {
        let own = summary.references_of(function.atom).iter().filter(move |r| r.kind == kind);
        own.filter_map(|r| match r.target {
            Target::Symbol(symbol) => Some(String::from_utf8_lossy(summary.symbol_name(symbol)).into_owned()),
            Target::Atom(_) => None,
        })
        .collect::<Vec<_>>()
    };
    assert_eq!(named(ReferenceKind::Unwind), ["p"]);
    // Once as an address that constraints track, and once as an escaped address.
    for name in ["g", "h"] {
        let accounted = function.covered_references.len();
        let all = named(ReferenceKind::Address);
        assert_eq!(all.iter().filter(|n| *n == name).count(), 2, "{all:?}");
        assert!(all.len() >= accounted + 2, "{all:?}, {accounted} are accounted for");
    }
}

/// An address that is only taken is distinguished from one that constraints track.
#[test]
fn compared_addresses() {
    let (summary, function) = function("define i1 @t(ptr %a) {\n %r = icmp eq ptr %a, @g\n ret i1 %r\n}");
    let names = function.address_taken_only.iter().map(|t| match t {
        Target::Symbol(symbol) => String::from_utf8_lossy(summary.symbol_name(*symbol)).into_owned(),
        Target::Atom(_) => String::new(),
    });
    assert_eq!(names.collect::<Vec<_>>(), ["g"]);
    assert!(summary.limits.iter().all(|l| l.limit != Limit::NotPsabi));
}

/// Of an initializer only an address of 8 bytes at a known distance is contents; anything else that is made of one escapes.
#[test]
fn initializers() {
    let ir = "@full = internal constant i64 ptrtoint (ptr @f to i64)\n@half = internal constant i32 ptrtoint (ptr @f to i32)\n\
        define ptr @t() {\n ret ptr @full\n}\ndeclare void @f()\n@used = global [2 x ptr] [ptr @full, ptr @half]\n";
    let (summary, _) = function(ir);
    let kinds = |name: &[u8]| {
        let atom = summary.atoms.iter().position(|a| summary.name(a.name) == name).unwrap();
        let own = summary.references_of(summaries::AtomIdx(atom as u32));
        own.iter().map(|r| r.kind).collect::<Vec<_>>()
    };
    assert_eq!(kinds(b".rodata.full"), [ReferenceKind::Data]);
    assert_eq!(kinds(b".rodata.half"), [ReferenceKind::Address]);
}
