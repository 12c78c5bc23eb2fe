//! Significant addresses: the functions whose address an object forms, and the functions that may be folded.

use crate::compilers::{assembled, cases, object};
use summaries::native::significance::{Addresses, Significance, addresses};
use summaries::{Definition, Granularity, ModuleSummary, SymbolIdx};

/// Functions `f`, called by `g`, and `far`, undefined; `more` is appended.
fn source(body: &str, more: &str) -> String {
    let function = |name: &str, body: &str| {
        format!(
            ".section .text.{name},\"ax\",@progbits\n.globl {name}\n.type {name},@function\n{name}: .cfi_startproc\n\
             {body}\nret\n.cfi_endproc\n.size {name},.-{name}\n"
        )
    };
    let (f, g) = (function("f", body), function("g", "call f\ncall far\njne f\njmp far"));
    format!("{f}{g}{more}\n.section .note.GNU-stack,\"\",@progbits\n")
}

fn found(bytes: &[u8], granularity: Granularity) -> (ModuleSummary, Significance) {
    let summary = summaries::extract::extract(bytes, granularity);
    let Addresses::Found(found) = addresses(bytes, &summary, &|_| true) else {
        panic!("{:?}", summary.limits)
    };
    (summary, found)
}

fn index(summary: &ModuleSummary, name: &str) -> usize {
    let symbols = 0..summary.symbols.len();
    symbols.into_iter().find(|i| summary.symbol_name(SymbolIdx::new(*i)) == name.as_bytes()).unwrap()
}

fn is_foldable((summary, found): &(ModuleSummary, Significance), name: &str) -> bool {
    let Definition::Atom(atom) = summary.symbols[index(summary, name)].definition else { panic!("{name}") };
    found.foldable[atom.index()]
}

fn is_mentioned((summary, found): &(ModuleSummary, Significance), name: &str) -> bool {
    found.mentioned[index(summary, name)]
}

#[test]
fn taken_addresses() {
    for [body, more, foldable, far] in cases("taken_addresses") {
        let facts = found(&assembled(&source(body, more)), Granularity::Functions);
        assert_eq!(is_foldable(&facts, "f"), !foldable.is_empty(), "{body} {more}");
        assert_eq!(is_mentioned(&facts, "far"), !far.is_empty(), "{body} {more}");
        assert!(is_foldable(&facts, "g"), "{body} {more}");
    }
}

#[test]
fn functions_that_are_not_foldable() {
    let plain = source("", "");
    let changes: [&[(&str, &str)]; 8] = [
        // No FDE, or one that doesn't begin with it or doesn't reach its end, or with an exception table.
        &[("g: .cfi_startproc", "g:"), ("jmp far\nret\n.cfi_endproc", "jmp far\nret")],
        &[("g: .cfi_startproc", "g: nop\n.cfi_startproc")],
        &[("jmp far\nret\n.cfi_endproc", "jmp far\nret\n.cfi_endproc\nadd %eax, %eax")],
        &[(
            "call far",
            "call far\n.cfi_lsda 0x1b,table\n.pushsection .gcc_except_table,\"a\"\ntable: .byte 0\n.popsection",
        )],
        &[(".section .text.g,\"ax\"", ".section .init,\"ax\"")],
        &[(".section .text.g,\"ax\"", ".section hot,\"ax\"")],
        &[(".section .text.g,\"ax\"", ".section .text.g,\"awx\"")],
        &[(".section .text.g,\"ax\"", ".section .text.g,\"axR\"")],
    ];
    for change in changes {
        let mut text = plain.clone();
        for (from, to) in change {
            assert!(text.contains(from), "{from}");
            text = text.replace(from, to);
        }
        let facts = found(&assembled(&text), Granularity::Functions);
        assert!(!is_foldable(&facts, "g"), "{change:?}");
        assert!(is_foldable(&facts, "f"), "{change:?}");
    }
}

#[test]
fn of_divided_sections() {
    let source = include_str!("programs/significance_of_divided_sections.c");
    for options in ["-O1", "-O2", "-Os"] {
        for position in ["-fPIE", "-fno-pie"] {
            let line = ["gcc", options, position, "-fcf-protection", "-c"];
            let facts = found(&object(&line, "c", source), Granularity::Functions);
            assert!(
                facts.0.atoms.iter().filter(|a| facts.0.name(a.name) == b".text").count() > 4,
                "{line:?}"
            );
            for (name, foldable) in [
                ("called", true),
                ("kept", false),
                ("self", false),
                ("pointer", true),
                ("outer", true),
                ("all", true),
            ] {
                assert_eq!(is_foldable(&facts, name), foldable, "{line:?} {name}");
            }
            assert_eq!(
                (is_mentioned(&facts, "far"), is_mentioned(&facts, "further")),
                (false, true),
                "{line:?}"
            );
        }
    }
}

#[test]
fn dropped_code_takes_no_addresses() {
    let bytes = assembled(&source("", ".data\n.quad f\n.quad far"));
    let summary = summaries::extract::extract(&bytes, Granularity::Functions);
    let keeps = |atom: summaries::AtomIdx| summary.name(summary.atoms[atom.index()].name) != b".data";
    let Addresses::Found(found) = addresses(&bytes, &summary, &keeps) else { panic!("{:?}", summary.limits) };
    let facts = (summary.clone(), found);
    assert!(is_foldable(&facts, "f") && !is_mentioned(&facts, "far"));
}

#[test]
fn a_table_of_its_own() {
    let clang = |more: &str| object(&["clang-19", "-c"], "s", &source("", more));
    let of = |bytes: &[u8]| {
        addresses(bytes, &summaries::extract::extract(bytes, Granularity::Functions), &|_| true)
    };
    assert!(matches!(of(&clang("")), Addresses::Found(_)));
    assert_eq!(of(&clang(".addrsig")), Addresses::Own { described: true });
    let bare = ".addrsig\n.section .text.h,\"ax\"\n.type h,@function\nh: ret\n.size h,.-h\n";
    assert_eq!(of(&clang(bare)), Addresses::Own { described: false });
    assert_eq!(of(&clang(&format!("{bare}.addrsig_sym h"))), Addresses::Own { described: true });
    let nameless = ".addrsig\n.section .text.h,\"ax\"\nh: ret\n";
    assert_eq!(of(&clang(nameless)), Addresses::Own { described: false });
    // A limit of the module.
    let odd = ".section .odd,\"\",@0x6fff4cff\n.byte 0\n";
    assert_eq!(of(&clang(odd)), Addresses::Unknown);
    assert_eq!(of(&clang(&format!(".addrsig\n{odd}"))), Addresses::Own { described: false });
}
