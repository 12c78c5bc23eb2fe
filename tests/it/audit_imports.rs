//! `lto-prune audit imports` agrees with the dynamic symbol table of the output. Its answers fit a terminal, and are complete without any import.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::audit::{audit, column, json, reported};
use crate::run::{Job, Session};
use crate::tools::{self, Linker};

const FILES: &str = include_str!("programs/audit_imports.txt");

/// `main`, a program with a library, and `main.json`.
fn linked(session: &mut Session, linker: Linker) {
    session.files(FILES, "linked");
    session.cmd("gcc -shared -fPIC lib.c -o libx.so -Wl,-soname,libx.so.3");
    session.cmd("gcc -O1 -fPIE -c main.c");
    reported(session, "main", "main.o libx.so -pie", linker);
}

fn undefined_symbols(session: &mut Session) -> BTreeSet<String> {
    let text = session.cmd("nm -D --undefined-only --without-symbol-versions main").stdout;
    text.lines().filter_map(|l| l.split_whitespace().last()).map(str::to_owned).collect()
}

#[test]
fn imports_are_those_of_the_output() {
    for linker in Linker::ALL {
        let mut session = Session::new(&format!("audit/imports-{}", linker.name()));
        linked(&mut session, linker);
        let answer = json(&mut session, "imports -n 0 --json main.json");
        let rows = answer["imports"].as_array().unwrap().clone();
        let those = |defined_by: &dyn Fn(&str) -> bool| -> BTreeSet<String> {
            let of = rows.iter().filter(|r| defined_by(r["defined_by"].as_str().unwrap()));
            of.map(|r| r["symbol"].as_str().unwrap().to_owned()).collect()
        };
        let table = undefined_symbols(&mut session);
        let of_libraries = those(&|by| by.starts_with("lib"));
        session
            .check(of_libraries.is_subset(&table), &format!("{of_libraries:?}, but .dynsym has {table:?}"));
        // Whether a weak symbol without a definition gets there is each linker's own affair.
        let all = those(&|by| by != "the linker");
        session.check(table.is_subset(&all), &format!("{all:?}, but .dynsym has {table:?}"));
        session.check(of_libraries.contains("twice"), "what is referred to twice is there");
        session.check(!all.contains("other"), "what is dead imports nothing");
        let by = |symbol: &str| rows.iter().find(|r| r["symbol"] == symbol).map(|r| r["defined_by"].clone());
        session.check_eq(&by("given"), &Some(Value::from("libx.so.3")), "by its soname");
        session.check_eq(&by("maybe"), &Some(Value::from("nothing")), "weak");
        session.check_eq(&by("_end"), &Some(Value::from("the linker")), "made by the linker");
    }
}

#[test]
fn why_and_paths_to_an_import() {
    let mut session = Session::new("audit/import-paths");
    linked(&mut session, Linker::Lld);
    let answer = json(&mut session, "why --json given main.json");
    session.check_eq(&answer["kept"], &Value::from(true), "kept");
    session.check_eq(&answer["references"], &Value::from(1), "one reference");
    session.check_eq(&column(&answer, "holders", "from"), &vec!["step"], "by step");
    session.check_eq(&column(&answer, "holders", "to"), &vec!["given"], "of given");
    session.check_eq(&column(&answer, "holders", "reference"), &vec!["call"], "a call");
    let relocations = session.cmd("readelf -rW main.o").stdout;
    let given = relocations.lines().find(|l| l.contains(" given")).unwrap();
    let offset = u64::from_str_radix(given.split_whitespace().next().unwrap(), 16).unwrap();
    session.check_eq(
        &column(&answer, "holders", "place"),
        &vec![&*format!("main.o:(.text+{offset:#x})")],
        "where",
    );
    session.check_eq(&column(&answer, "cut", "to"), &vec!["given"], "the cut");
    let answer = json(&mut session, "why --json twice main.json");
    let places: Vec<u64> =
        answer["holders"].as_array().unwrap().iter().filter_map(|h| h["places"].as_u64()).collect();
    session.check_eq(&places, &vec![2], "two calls");
    let text = audit(&mut session, "why given main.json").stdout;
    session.check(text.starts_with("given is not in the link: libx.so.3 defines it\n"), &text);
    let answer = json(&mut session, "paths --json main given main.json");
    session.check_eq(&column(&answer, "paths", "to"), &vec!["step", "given"], "a path");
    let link = session.job("lto-prune").env("CC", "gcc").words("main.o libx.so -pie -o main");
    let link = link.arg(format!("--prune-linker={}", Linker::Lld.path().display()));
    let text = session.must(&link.words("--prune-why=give* --prune-why=other")).stdout;
    let chain =
        ["given is in no module of the link: libx.so.3 defines it", "  call from step", "  called from main"];
    session.check(text.starts_with("main:\n"), &text);
    let lines: Vec<&str> = text.lines().skip(1).collect();
    session.check(chain.iter().zip(&lines).all(|(start, line)| line.starts_with(start)), &text);
    session.check(lines.last().is_some_and(|l| l.starts_with("  root: entry")), &text);
    let message = audit(&mut session, "paths given main main.json").stderr;
    let expected = "no module in the link defines given, and nothing leads on from it; libx.so.3 defines it";
    session.check(message.contains(expected), &message);
    let text = audit(&mut session, "why maybe main.json").stdout;
    session.check(text.starts_with("maybe is not in the link: nothing defines it\n"), &text);
    for word in ["why other", "paths main other"] {
        let message = audit(&mut session, &format!("{word} main.json")).stderr;
        session.check(message.contains("no module in the link defines other"), &message);
    }
}

/// Files of values have a head also where nothing stands below it.
#[test]
fn values_without_rows_have_their_columns() {
    let mut session = Session::new("audit/no-rows");
    linked(&mut session, Linker::Lld);
    for (command, words, head) in [
        ("why", "dead", "reference,place,to\n"),
        ("paths", "table step", "path,reference,place,to\n"),
        ("duplicates", "", "waste,"),
        ("limits", "", "limit"),
        ("diff", "--by=module main.json", "change,old,new,what,module\n"),
    ] {
        let text = audit(&mut session, &format!("{command} --csv {words} main.json")).stdout;
        session.check(text.starts_with(head), &format!("{command} {words}: {text}"));
    }
    let answer = json(&mut session, "paths --json table step main.json");
    session.check_eq(&answer["paths"], &Value::Array(Vec::new()), "no path");
}

/// `script` gives a terminal without a size; `stty` then a width and no height.
#[test]
fn the_width_is_that_of_the_terminal() {
    let mut session = Session::new("audit/terminal");
    linked(&mut session, Linker::Lld);
    let dir = session.dir().to_owned();
    let tool = tools::lto_prune();
    let mut widest = |stty: &str| {
        let command = format!("{stty}{} audit top -n 0 main.json", tool.display());
        let job = Job::new(&dir, "script").words("-qec").arg(command).words("/dev/null");
        let text = session.must(&job.env("TERM", "xterm").env("NO_COLOR", "1")).stdout;
        // The line above the table is a sentence.
        text.lines().skip(1).map(|l| l.trim_end().chars().count()).max()
    };
    let all = widest("").unwrap();
    let narrow = widest("stty cols 46; ").unwrap();
    let wide = widest("stty rows 24 cols 200; ").unwrap();
    assert_eq!((all, narrow), (wide, 46));
    assert!(wide > 46);
}
