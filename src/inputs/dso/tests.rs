//! The system's libc.so.6, compared with nm.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::process::Command;

use super::*;

const LIBC: &str = "/lib/x86_64-linux-gnu/libc.so.6";

/// Names with versions as `nm -D` prints them: `name@VERSION`, `name@@VERSION` or bare.
fn nm(option: &str) -> BTreeSet<String> {
    let output = Command::new("nm").args(["-D", option, LIBC]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter_map(|l| l.split_whitespace().last()).map(str::to_owned).collect()
}

fn spelled(symbol: &DsoSymbol) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let name = text(&symbol.name);
    match &symbol.version {
        // The symbols that stand for the versions themselves.
        Some(version) if *version == symbol.name => name,
        Some(version) if symbol.defined && !symbol.hidden_version => format!("{name}@@{}", text(version)),
        Some(version) => format!("{name}@{}", text(version)),
        None => name,
    }
}

#[test]
fn libc_equals_nm() {
    let facts = parse(&std::fs::read(LIBC).unwrap()).unwrap();
    assert_eq!(facts.soname.as_deref(), Some("libc.so.6"));
    assert_eq!(facts.needed, ["ld-linux-x86-64.so.2"]);
    let ours =
        |defined| facts.symbols.iter().filter(|s| s.defined == defined).map(spelled).collect::<BTreeSet<_>>();
    for (defined, option) in [(true, "--defined-only"), (false, "--undefined-only")] {
        let (ours, theirs) = (ours(defined), nm(option));
        let differing: Vec<_> = ours.symmetric_difference(&theirs).take(20).collect();
        assert!(differing.is_empty() && !ours.is_empty(), "{option}: {differing:?}");
    }
    let weak =
        |name: &[u8]| facts.symbols.iter().find(|s| &*s.name == name && !s.hidden_version).unwrap().weak;
    assert!(weak(b"fork") || weak(b"write") || weak(b"close"));
    assert!(!weak(b"malloc") && !weak(b"qsort"));
}

#[test]
fn damage_is_an_error_and_no_panic() {
    let bytes = std::fs::read(LIBC).unwrap();
    assert!(parse(b"").is_err() && parse(b"\x7fELF").is_err());
    for end in (0..4096).chain((4096..bytes.len()).step_by(50_021)) {
        let _ = parse(&bytes[..end]);
    }
    // The section headers are at the end: without them there is nothing, and that is an error.
    assert!(parse(&bytes[..bytes.len() - 1]).is_err());
    let mut foreign = bytes.clone();
    foreign[18] = 183;
    assert_eq!(parse(&foreign).unwrap_err().0, Limit::ForeignObject);
}

/// Headers, section headers and dynamic tables with wrong bytes give facts or an error, never a panic.
#[test]
fn flipped_bytes() {
    let libm = std::fs::read("/lib/x86_64-linux-gnu/libm.so.6").unwrap();
    let places = (0..64).chain((64..4096).step_by(7)).chain(libm.len() - 2048..libm.len());
    for place in places {
        let mut bytes = libm.clone();
        bytes[place] = 0xff;
        let _ = parse(&bytes);
    }
}
