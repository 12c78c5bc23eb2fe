//! Damaged reports: every command answers or reports an error.

#![allow(clippy::unwrap_used)]

use std::ffi::OsString;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::args::{AuditRequest, Request, parse};
use super::model::Model;
use super::table::{Answer, Format, Screen};
use super::{commands, html};
use crate::error::Result;

/// A small report with everything in it.
fn report() -> Value {
    let atom = |module: u32, section: &str, size: u64, state: &str, symbol: &str| {
        json!({
            "module": module, "section": section, "section_index": 1, "offset": 0, "function": null,
            "kind": if section == ".bss" { "bss" } else { "code" }, "size": size, "live": state == "kept",
            "state": state, "stub": null, "discarded": false, "merge": section == ".rodata.str",
            "linker_live": true, "symbols": [symbol], "witness": null
        })
    };
    let part = |name: &str, what: &str, category: &str, size: u64, bytes: u64| {
        json!({ "name": name, "what": what, "category": category, "address": 4096, "offset": 0, "size": size,
            "bytes": bytes })
    };
    let symbol = |atom: u32| json!({ "name": "x", "module": 0, "atom": atom, "size": 8, "live": true });
    json!({
        "schema": crate::report::SCHEMA, "tool": "lto-prune", "output": "out", "level": "pointers",
        "shadow": false, "pruned": true,
        "linker": { "path": "/ld", "dialect": "lld", "gc_sections": true, "icf": "all" },
        "modules": [{ "name": "a.o", "archive": null, "status": "pruned" },
            { "name": "b.o", "archive": "lib.a", "status": "untouched" }],
        "atoms": [atom(0, ".text", 10, "kept", "_start"), atom(0, ".text.f", 20, "kept", "_ZN2ns1fEv"),
            atom(1, ".text.g", 30, "kept", "main"), atom(1, ".bss", 64, "kept", "zero"),
            atom(1, ".text.h", 50, "dropped", "h"), atom(1, ".rodata.str", 6, "kept", ""),
            atom(1, ".text.i", 30, "stub", "_RNvC6_123foo3bar")],
        "symbols": [symbol(0), symbol(1), symbol(2), symbol(3)],
        "limits": [{ "limit": "unproved-data", "severity": "section", "count": 2, "bytes": 9, "module": "a.o",
            "detail": "d", "lifted_by": "l" }],
        "roots": [{ "atom": 0, "reason": "entry", "symbol": "_start" },
            { "atom": 5, "reason": "exported", "symbol": null }],
        "graph": { "kinds": ["call", "data"], "start": [0, 2, 4, 5, 5, 5, 5, 5], "target": [1, 2, 2, 3, 6],
            "kind": [0, 1, 0, 0, 0], "offset": [1, 2, -1, 4, 5], "count": [1, 1, 255, 1, 1],
            "flags": [9, 1, 3, 1, 5] },
        "imports": [{ "symbol": "_ZSt4cout", "defined_by": "library", "library": "libstdc++.so.6",
                "from": [1, 2], "kind": [0, 1], "offset": [1, -1], "count": [1, 255] },
            { "symbol": "weak", "defined_by": "nothing", "library": null, "from": [2], "kind": [1],
                "offset": [8], "count": [1] }],
        "duplicates": [[1, 2], [3, 5]],
        "file": { "size": 200, "parts": [part("ELF header", "header", "headers", 64, 64),
            part(".text", "section", "text", 60, 60), part(".rodata", "section", "rodata", 70, 70),
            part("padding", "padding", "padding", 6, 6), part(".bss", "section", "bss", 64, 0)] },
        "value_flow": { "indirect_sites": 3, "overdefined": 1, "by_cause": [["memory", 2]],
            "candidates": [{ "what": "stored", "atoms": 1, "bytes": 8 }],
            "given_up": "nothing" },
        "call_sites": [{ "module": 0, "caller": 0, "section": 1, "offset": 4, "state": "resolved",
                "targets": [{ "atom": 1, "offset": 0 }], "externals": ["_ZSt4cout"], "causes": [], "because": null },
            { "module": 0, "caller": 1, "section": 2, "offset": 8, "state": "overdefined", "targets": [],
                "externals": [], "causes": ["memory"], "because": "b" }]
    })
}

const TIME: &str = "2026-01-01T00:00:00Z";

fn request(line: &str) -> Request {
    let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
    let AuditRequest::Answer(request) = parse(&words).unwrap() else { unreachable!("{line} asks for help") };
    *request
}

/// The answers of each command to a report, in each form; their number.
fn ask_all(text: &str) -> Result<usize> {
    let model = Model::read("x.json", text)?;
    let whole = report().to_string();
    let good = Model::read("good.json", &whole)?;
    let (some, all) = (request("diff o.json x.json"), request("diff -n 0 --by=module o.json x.json"));
    let of = |line: &str| request(&format!("{line} x.json"));
    let names = ["*", "ns::f", "h", "b.o:zero", "std::cout", "none"].map(str::to_owned);
    let vex = format!("reach --format=openvex --vulnerability=V --product=P --timestamp={TIME} f");
    let env = crate::args::Environment::new(&|_| None);
    let text = "total = 10\n[symbol]\n\"*\" = 1\n[module]\n\"*.o\" = 5\n";
    let budget = commands::budget::BudgetFile { path: "b.toml", text, ratchet: true };
    let answers: Vec<Result<Answer>> = vec![
        commands::sizes::top(&model, &of("top -n 2")),
        commands::sizes::top(&model, &of("top --bss")),
        commands::sizes::top(&model, &of("top --by=section -n 1")),
        commands::sizes::top(&model, &of("top --by=namespace --depth=2")),
        commands::sizes::top(&model, &of("top --by=generic")),
        Ok(commands::why::dominators(&model, &of("dominators -n 1"))),
        Ok(commands::why::dominators(&model, &of("dominators --depth=9"))),
        commands::why::why(&model, "*", &of("why *")),
        commands::why::why(&model, "main", &of("why --keep=ns* main")),
        commands::why::paths(&model, "_start", "main", &of("paths a b")),
        Ok(commands::sizes::garbage(&model, &of("garbage -n 1"))),
        Ok(commands::sizes::duplicates(&model, &of("duplicates -n 1"))),
        commands::why::why(&model, "std::cout", &of("why std::cout")),
        commands::why::paths(&model, "main", "weak", &of("paths a b")),
        Ok(commands::why::imports(&model, &of("imports -n 1"))),
        Ok(commands::calls::limits(&model, &of("limits"))),
        Ok(commands::calls::calls(&model, &of("calls"))),
        commands::sizes::diff(&good, &model, &some),
        commands::sizes::diff(&model, &good, &all),
        commands::budget::answer(&model, &budget, &|_| Ok(Vec::new())).map(|answer| answer.0),
        Ok(commands::graph::answer(&model, &of("graph -n 1"))),
        Ok(commands::graph::answer(&model, &of("graph --format=dot"))),
        Ok(commands::graph::answer(&model, &of("graph --format=folded"))),
        commands::reach::answer(&model, Err(&"no file".to_owned()), &names, &of("reach f"), &env),
        commands::reach::answer(&model, Err(&"no file".to_owned()), &names, &of(&vex), &env),
    ];
    let mut answered = 0;
    for answer in answers.into_iter().flatten() {
        for format in [Format::Table, Format::Json, Format::Csv, Format::Markdown] {
            let text = answer.text(format, Screen { width: Some(60), colours: true });
            answered += usize::from(text.ends_with('\n') || text.is_empty());
        }
    }
    for page in [
        html::page(&model, Some(&good), true),
        html::page(&good, Some(&model), false),
        html::page(&model, None, true),
    ] {
        answered += usize::from(page.is_ok_and(|p| p.ends_with("</html>\n")));
    }
    Ok(answered)
}

#[test]
fn a_report_that_is_whole_is_answered() {
    assert_eq!(ask_all(&report().to_string()).unwrap(), 25 * 4 + 3);
}

/// Every value in it, depth first: how many there are, or `change` of number `at`.
fn visit(value: &mut Value, at: &mut usize, change: &dyn Fn(&mut Value)) {
    if *at == 0 {
        change(value);
    }
    *at = at.wrapping_sub(1);
    match value {
        Value::Array(items) => items.iter_mut().for_each(|v| visit(v, at, change)),
        Value::Object(fields) => fields.iter_mut().for_each(|(_, v)| visit(v, at, change)),
        _ => {}
    }
}

fn values() -> usize {
    let mut at = usize::MAX;
    visit(&mut report(), &mut at, &|_| {});
    usize::MAX - at
}

/// Replacements of a value.
fn others() -> Vec<Value> {
    let numbers = [0u64, 1, 3, 7, 64, 255, u32::MAX.into(), i64::MAX as u64, u64::MAX];
    let mut others: Vec<Value> = numbers.into_iter().map(Value::from).collect();
    others.extend([json!(-1), json!(i64::MIN), json!(""), json!("kept"), json!("stub"), json!("dropped")]);
    others.extend([json!("code"), json!("bss"), json!("section"), json!("entry"), json!("..."), json!("_Z")]);
    others.extend([json!([]), json!([1, 1, 1]), json!({}), Value::Null, json!(true), json!(false)]);
    others
}

#[test]
fn tables_that_do_not_fit_are_named() {
    let huge = json!(u64::MAX);
    let cases = [
        ("/atoms/0/module", json!(2), "an atom is of a module"),
        ("/roots/0/atom", json!(7), "a root is an atom"),
        ("/duplicates/0/1", json!(7), "a duplicate is an atom"),
        ("/graph/kind", json!([0]), "the graph has columns of different lengths"),
        ("/graph/flags", json!([1]), "the graph has columns of different lengths"),
        ("/graph/target/0", json!(7), "the graph has an edge to or from an atom"),
        ("/graph/start/7", json!(6), "the graph has a table of rows that doesn't fit"),
        ("/graph/start/1", json!(5), "the graph has a table of rows that doesn't fit"),
        ("/imports/1/count", json!([]), "the import weak has columns of different lengths"),
        ("/imports/1/from/0", json!(7), "the import weak has an edge to or from an atom"),
        ("/file/size", json!(201), "the parts of the linked file don't add up"),
        ("/atoms/0/size", huge.clone(), "the sizes are beyond all bounds"),
        ("/file/parts/0/size", huge, "the sizes are beyond all bounds"),
    ];
    for (place, value, expected) in cases {
        let mut damaged = report();
        *damaged.pointer_mut(place).unwrap() = value;
        let error = Model::read("x.json", &damaged.to_string()).unwrap_err().to_string();
        assert!(error.contains(&format!("x.json: is a damaged report: {expected}")), "{place}: {error}");
    }
}

#[test]
fn one_value_that_is_another() {
    // Each value of the report is replaced by a third of the others.
    let (count, others) = (values(), others());
    assert!(count > 150);
    let mut refused = 0;
    for at in 0..count {
        for other in others.iter().skip(at % 3).step_by(3) {
            let mut damaged = report();
            visit(&mut damaged, &mut at.clone(), &|v| *v = other.clone());
            if let Err(error) = ask_all(&damaged.to_string()) {
                assert!(error.to_string().contains("x.json"), "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused > count);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn several_values_that_are_others(changes in prop::collection::vec((0..values(), 0..others().len()), 1..6)) {
        let mut damaged = report();
        for (at, other) in changes {
            let other = others()[other].clone();
            visit(&mut damaged, &mut at.clone(), &|v| *v = other.clone());
        }
        let _ = ask_all(&damaged.to_string());
    }

    #[test]
    fn bytes_that_are_others(at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>()) {
        let mut text = report().to_string().into_bytes();
        let at = at.index(text.len());
        if cut { text.truncate(at) } else { text[at] = byte }
        let _ = ask_all(&String::from_utf8_lossy(&text));
    }
}
