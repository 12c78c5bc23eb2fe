//! Scripts of real projects, GNU ld's own default script, and scripts that must be refused.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::config::Flavor;

fn script(text: &str) -> Result<ScriptFacts, String> {
    let mut facts = ScriptFacts::default();
    sections::parse(text.as_bytes(), &mut facts).map(|_| facts)
}

fn version(text: &str) -> names::NameMatcher {
    let mut facts = ScriptFacts::default();
    version::parse_script(text.as_bytes(), &mut facts).unwrap();
    facts.name_matcher(Flavor::Bfd, None)
}

/// `ld.bfd --verbose` prints its script between two lines of equals signs.
#[test]
fn the_default_script_of_gnu_ld() {
    let output = std::process::Command::new("ld.bfd").arg("--verbose").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let body = text.split("==================================================").nth(1).unwrap();
    let facts = script(body).unwrap();
    assert_eq!(facts.entry.as_deref(), Some("_start"));
    assert!(facts.has_sections);
    let kept: Vec<&str> = facts.keep.iter().flat_map(|(_, s)| s).map(String::as_str).collect();
    for section in [".init", ".fini", ".init_array", ".preinit_array", ".ctors", ".dtors", ".jcr"] {
        assert!(kept.contains(&section), "{section} in {kept:?}");
    }
    assert!(facts.file_patterns.contains(&"*crtbegin.o".to_owned()), "{:?}", facts.file_patterns);
    let provided: Vec<&str> = facts.provided.iter().map(|p| p.symbol.as_str()).collect();
    for symbol in ["__executable_start", "etext", "__init_array_start", "_edata", "end"] {
        let assigned = facts.assigned_symbols.iter().any(|s| s == symbol);
        assert!(provided.contains(&symbol) || assigned, "{symbol} in {provided:?}");
    }
    assert!(facts.assigned_symbols.contains(&"__bss_start".to_owned()));
    assert!(facts.referenced_symbols.is_empty(), "{:?}", facts.referenced_symbols);
}

#[test]
fn a_script_like_that_of_linux() {
    let facts = script(include_str!("tests/linux.ld")).unwrap();
    assert_eq!(facts.entry.as_deref(), Some("phys_startup_64"));
    let strings = |items: &[&str]| items.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
    assert_eq!(
        facts.assigned_symbols,
        strings(&["jiffies", "phys_startup_64", "_text", "ALIGN_FUNCTION", "__start___ex_table", "hid", "x"])
    );
    assert_eq!(
        facts.referenced_symbols,
        "jiffies_64 startup_64 LOAD_OFFSET value_symbol x _end _text one two".split(' ').collect::<Vec<_>>()
    );
    assert_eq!(facts.tested_symbols, strings(&["optional"]));
    assert_eq!(
        facts.provided,
        [ProvideAssignment { symbol: "maybe".into(), references: strings(&["other"]) }]
    );
    assert_eq!(
        facts.keep,
        [
            ("*".to_owned(), strings(&["__ex_table"])),
            ("*".to_owned(), strings(&[".init_array.*", ".ctors.*"])),
            ("drivers/built-in.a:*".to_owned(), strings(&[".k"])),
        ]
    );
    assert_eq!(facts.file_patterns, strings(&["*init.o", "drivers/built-in.a:*", "crt0.o", "quoted file.o"]));
}

#[test]
fn what_is_not_known_is_refused() {
    for text in [
        "INCLUDE other.ld",
        "SECTIONS { INCLUDE x.ld }",
        "SECTIONS { OVERLAY 0x1000 : { .a { *(.a) } } }",
        "INPUT(a.o",
        "INPUT a.o",
        "STARTUP(a.o)",
        "STARTUP(crt0.o)",
        "FANCY_NEW_COMMAND(x)",
        "a = NEW_FUNCTION(b);",
        "SECTIONS { .text : { *(.text) }",
        "SECTIONS { .text : { *(.text }",
        "a = 1",
        "just some words",
        "}",
    ] {
        assert!(script(text).is_err(), "{text}");
    }
    assert!(script("").is_ok() && script("/* only */ # comments").is_ok());
}

#[test]
fn version_scripts() {
    let facts = version(
        "# comment\nLIB_1.0 {\n global: open; close*;\n extern \"C++\" { ns::*; \"f(int)\"; };\n local:\n *;\n};\n\
         LIB_1.1 { global:added; \"odd*name\"; } LIB_1.0;\n",
    );
    for name in ["open", "close_all", "added", "odd*name", "_ZN2ns1fEv"] {
        assert!(facts.version_exports(name.as_bytes()), "{name}");
    }
    for name in ["other", "opened", "oddXname"] {
        assert!(!facts.version_exports(name.as_bytes()), "{name}");
    }
    // Names before patterns before `*`.
    let facts = version("{ global : *; local : secret_*; exact; };");
    assert!(facts.version_exports(b"anything"));
    assert!(!facts.version_exports(b"secret_x") && !facts.version_exports(b"exact"));
    let facts = version("V { global: a*; local: ab; *; };");
    assert!(facts.version_exports(b"ac") && !facts.version_exports(b"ab"));
    // A C++ block that is local hides nothing for sure, unless it is `*`.
    let facts = version("V { local: extern \"C++\" { ns::*; }; };");
    assert!(facts.version_exports(b"_ZN2ns1fEv"));
    let facts = version("V { global: g; local: extern \"C++\" { *; }; };");
    assert!(!facts.version_exports(b"_ZN2ns1fEv") && facts.version_exports(b"g"));
    // No version script at all exports everything, an empty one too.
    assert!(
        ScriptFacts::default().name_matcher(Flavor::Bfd, None).version_exports(b"x")
            && version("V { };").version_exports(b"x")
    );
    let mut facts = ScriptFacts::default();
    for bad in ["V {", "{ global: a; } }", "V { extern { }; };", "V = 1;", "} ;"] {
        assert!(version::parse_script(bad.as_bytes(), &mut facts).is_err(), "{bad}");
    }
    assert!(
        script("VERSION { V1 { global: x; local: *; }; } SECTIONS { }").unwrap().version_global.is_some()
    );
}

/// `foo` is local by its name, and behind a pattern that makes it global.
#[test]
fn a_pattern_before_a_name() {
    let mut facts = ScriptFacts::default();
    version::parse_script(b"V1 { global: f*; }; V2 { global: fob; local: foo; gab; };", &mut facts).unwrap();
    for flavor in [Flavor::Lld, Flavor::Mold, Flavor::Bfd, Flavor::Gold, Flavor::Wild] {
        let names = facts.name_matcher(flavor, Some(true));
        let exported = ["foo", "fob", "gab"].map(|name| names.version_exports(name.as_bytes()));
        assert_eq!(exported, [flavor == Flavor::Mold, true, false], "{flavor:?}");
        assert_eq!(names.pattern_may_decide(b"fob"), flavor == Flavor::Mold);
    }
}

#[test]
fn names_that_must_be_defined() {
    let mut facts = ScriptFacts::default();
    let text = b"V { global: a; b*; local: c; \"d\"; *; };";
    version::parse_script(text, &mut facts).unwrap();
    let asked = |flavor, option| {
        let names = facts.name_matcher(flavor, option);
        ["a", "a@V", "c", "d", "b1", "e"].map(|n| names.must_be_defined(n.as_bytes()))
    };
    let all = [true, true, true, true, false, false];
    for flavor in [Flavor::Lld, Flavor::Mold] {
        assert_eq!((asked(flavor, None), asked(flavor, Some(false))), (all, all));
        assert_eq!(asked(flavor, Some(true)), [false; 6]);
    }
    for flavor in [Flavor::Bfd, Flavor::Gold] {
        assert_eq!((asked(flavor, None), asked(flavor, Some(true))), ([false; 6], [false; 6]));
        assert_eq!(asked(flavor, Some(false)), [true, true, false, false, false, false]);
    }
    assert_eq!(asked(Flavor::Wild, Some(false)), [false; 6]);
    let mut list = ScriptFacts::default();
    version::parse_list(b"{ a; b*; };", &mut list).unwrap();
    let asked = |flavor| {
        let names = list.name_matcher(flavor, Some(true));
        ["a", "b1", "c"].map(|n| names.must_be_defined(n.as_bytes()))
    };
    assert_eq!((asked(Flavor::Lld), asked(Flavor::Bfd)), ([false; 3], [false; 3]));
    assert_eq!((asked(Flavor::Mold), asked(Flavor::Gold)), ([true, false, false], [true, true, false]));
    // Which mangled name it is isn't known.
    let names = |text: &str| {
        let mut facts = ScriptFacts::default();
        version::parse_script(text.as_bytes(), &mut facts).unwrap();
        facts.name_matcher(Flavor::Lld, None)
    };
    assert!(names("V { local: extern \"C++\" { \"f(int)\"; }; };").must_be_defined(b"_Z1fi"));
    assert!(!names("V { local: extern \"C++\" { ns::*; }; };").must_be_defined(b"_Z1fi"));
}

#[test]
fn dynamic_lists() {
    let mut facts = ScriptFacts::default();
    version::parse_list(b"{ foo; bar_*; extern \"C++\" { \"ns::g()\"; }; };\n{ baz; };", &mut facts).unwrap();
    let names = facts.name_matcher(Flavor::Bfd, None);
    assert!(
        names.dynamic_list_names(b"foo")
            && names.dynamic_list_names(b"bar_1")
            && names.dynamic_list_names(b"baz")
    );
    assert!(names.dynamic_list_names(b"_Z1gv") && !names.dynamic_list_names(b"food"));
    assert!(version::parse_list(b"{ local: *; };", &mut facts).is_err());
    assert!(version::parse_list(b"foo", &mut facts).is_err());
}

/// No prefix of a script makes any parser panic or hang.
#[test]
fn truncations() {
    let text = "/* c */ VERSION { V { global: a; extern \"C++\" { \"x\"; }; local: *; } W; } SECTIONS { . = 0x1 + \
        SIZEOF_HEADERS; .t ALIGN(4) (NOLOAD) : AT(1) { *(EXCLUDE_FILE(a) SORT(.x) .y) KEEP(*(.z)) LONG(1) \
        PROVIDE(p = DEFINED(q) ? SEGMENT_START(\"s\", 3) : q); } >r :ph =0x90 } GROUP ( a AS_NEEDED ( -lb ) )";
    for end in 0..=text.len() {
        let text = text.as_bytes().get(..end).unwrap();
        let mut facts = ScriptFacts::default();
        let _ = sections::parse(text, &mut facts);
        let _ = version::parse_script(text, &mut facts);
        let _ = version::parse_list(text, &mut facts);
        let _ = implicit::parse(text);
    }
}

#[test]
fn inputs_in_a_script() {
    let parse = |text: &str| {
        let mut facts = ScriptFacts::default();
        let named = sections::parse(text.as_bytes(), &mut facts).unwrap();
        let without = named.without_inputs.map(|text| String::from_utf8(text).unwrap());
        (named.commands.len(), without, named.augments, facts)
    };
    let text = "SEARCH_DIR(d)/* INPUT(c) */\nINPUT(\na.o -lb);GROUP ( AS_NEEDED(\"x y.o\") )x = y;\n\
        SECTIONS { .a : { KEEP(*(.k)) *(.p) } } INSERT AFTER .data;";
    let (commands, without, augments, facts) = parse(text);
    assert_eq!((commands, augments), (6, true));
    let blank = |length: usize| " ".repeat(length);
    let want = text.replace("INPUT(\na.o -lb)", &format!("{}\n{}", blank(6), blank(8)));
    let want = want.replace("GROUP ( AS_NEEDED(\"x y.o\") )", &blank(28));
    assert_eq!(without, Some(want));
    assert!(facts.has_sections && !facts.replaces_default);
    assert_eq!(facts.keep, [("*".to_owned(), vec![".k".to_owned()])]);
    assert_eq!(facts.placed, [("*".to_owned(), vec![".p".to_owned()])]);
    let (commands, without, augments, facts) =
        parse("SECTIONS { .a : { *(.p) } } x = 1; INSERT AFTER .data;");
    assert_eq!((commands, without, augments), (0, None, true));
    assert!(facts.replaces_default, "lld takes INSERT only behind SECTIONS");
}
