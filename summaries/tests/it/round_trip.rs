//! The serialised and the text form give back what they were given.

use proptest::prelude::*;
use summaries::relation::Callee;
use summaries::{Definition, Granularity, ReferenceKind, Target, ValueIdx, format, text};

use crate::bitcode::corpus::sample;
use crate::compilers::cases;
use crate::compilers::{Find, object};

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_parsed_or_refused(lines in proptest::collection::vec(
        "(symbol|atom|group|call|data|limit|function|site|store|copy|%1 =|param|entry|;|module)( (\\[|\\]|\"|@0x1|#0|a|in|code|size|->|%0|rdi|load|section|direct|-1)){0,7}", 0..8)) {
        if let Ok(summary) = text::parse(&lines.join("\n")) {
            prop_assert_eq!(summary.check(), Ok(()));
        }
    }
}

#[test]
fn by_hand() {
    let s = text::parse(include_str!("programs/round_trip_by_hand.txt")).unwrap();
    assert_eq!(s.edges(".text.main"), ["Call helper", "Address [.rodata]"]);
    assert_eq!(s.references[0].addend, -4);
    assert_eq!(
        (s.references[1].kind, s.references[1].target),
        (ReferenceKind::Address, Target::Atom(summaries::AtomIdx(1)))
    );
    assert_eq!(s.atoms[1].section, 2);
    assert_eq!(s.symbol_named("pool").definition, Definition::Common(summaries::AtomIdx(2)));
    assert_eq!(s.groups[0].members, [summaries::AtomIdx(0)]);
}

#[test]
fn value_flow_by_hand() {
    let s = text::parse(include_str!("programs/round_trip_value_flow_by_hand.txt")).unwrap();
    let f = &s.functions[0];
    assert_eq!(
        (f.values, f.frame, f.parameters.as_slice()),
        (7, true, &[(7, ValueIdx(0)), (16, ValueIdx(1))][..])
    );
    assert_eq!(f.constraints.len(), 8);
    assert_eq!(f.call_sites[0].callee, Callee::Indirect(ValueIdx(5)));
    let site = &f.call_sites[1];
    assert_eq!(site.callee, Callee::Direct { target: Target::Atom(f.atom), offset: 16 });
    assert_eq!((site.jump, site.stack_in_frame), (true, Some(Some(-16))));
    assert_eq!(text::parse(&text::dump(&s)).unwrap(), s.with_canonical_names());
}

#[test]
fn errors_name_the_line() {
    for [text, line, message] in cases("errors_name_the_line") {
        let error = text::parse(text).unwrap_err();
        assert_eq!(error.line.to_string(), line, "{error}");
        assert!(error.message.contains(message), "{error}");
    }
}

/// Names that the text form must quote.
const ODD_NAMES: [&[u8]; 9] = [b"", b"#1", b"a b", b"[x]", b"1", b"-4", b"x;y", b"\xff\n", b"\"\\"];

#[test]
fn real_objects() {
    let cxx = "#include <vector>\nthread_local int t; inline int both() { static int n; return ++n + t; }\n\
               int f(std::vector<int> v) { try { return v.at(1) + both(); } catch (...) { return 0; } }";
    let c = include_str!("programs/functions_c.c");
    let data = include_str!("programs/data_c.c");
    let mut objects =
        vec![object(&["g++", "-c", "-g"], "cpp", cxx), object(&["clang++-19", "-c", "-O2"], "cpp", cxx)];
    for compiler in ["gcc", "clang-19"] {
        objects.extend(
            [c, data].map(|source| object(&[compiler, "-c", "-O2", "-fPIE", "-fcommon"], "c", source)),
        );
        objects.push(object(&[compiler, "-c", "-O0", "-ffunction-sections", "-fno-pic"], "c", c));
    }
    objects.extend(["c-thin", "cxx-vtables", "rust-plugin"].map(|name| sample(name).bytes.clone()));
    for (at, bytes) in objects.iter().enumerate() {
        for granularity in [Granularity::Sections, Granularity::Functions, Granularity::Pointers] {
            let mut summary = summaries::extract::extract(bytes, granularity);
            for (i, name) in ODD_NAMES.into_iter().enumerate().take(summary.symbols.len()) {
                summary.symbols[i].name = summary.push_name(name);
            }
            assert_eq!(summary.check(), Ok(()));
            let dumped = text::dump(&summary);
            let parsed = text::parse(&dumped).unwrap_or_else(|e| panic!("{e}\n{dumped}"));
            assert_eq!(parsed, summary.with_canonical_names(), "{at} {granularity:?}");
            assert_eq!(text::dump(&parsed), dumped);
            assert_eq!(format::decode(&format::encode(&summary, [7; 32])).unwrap(), (summary, [7; 32]));
        }
    }
}
