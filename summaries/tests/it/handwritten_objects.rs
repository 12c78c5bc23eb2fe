//! Objects that assemblers can write and compilers rarely do: limits, link order, many sections.

use crate::compilers::{Find, assembled, object, summary};
use summaries::{AtomKind, Definition, Limit, Severity, Target, atom_flags};

#[test]
fn link_order_retain_and_none_relocations() {
    let s = summary(&assembled(include_str!("programs/handwritten_link_order.s")));
    assert_eq!(s.limits_found(), []);
    let (f, _) = s.atom_named(".text.f");
    assert!(s.atom_named("kept").1.has(atom_flags::RETAIN));
    let after = s.atom_named("after_f").1;
    assert!(after.has(atom_flags::LINK_ORDER));
    assert_eq!(after.link_order, Some(f));
    assert_eq!(s.edges(".text.g"), ["Address kept_too", "Call callee", "Got var"]);
    assert_eq!(s.edges(".rodata.v"), ["Data callee"]);
    assert_eq!(s.atom_named(".note.x").1.kind, AtomKind::Note);
    assert_eq!(s.atom_named(".fini").1.kind, AtomKind::InitFini);
    assert_eq!(s.atom_named(".ctors.00100").1.kind, AtomKind::InitFini);
    assert_eq!(s.edges(".ctors.00100"), ["Data [.text.f]"]);
}

/// Each by its section type or name; the severe ones name what they are about.
#[test]
fn section_limits() {
    for (section, limit) in [
        (".section .x,\"a\",@0x6fff4caa", Limit::UnknownSectionType),
        (".section .x,\"\",@0x6fff4c02", Limit::UnknownSectionType),
        (".section .x,\"a\",@0x40000014", Limit::UnknownSectionType),
        (".section .deplibs,\"MS\",@0x6fff4c04,1", Limit::DependentLibraries),
        (".section .x,\"\",@0x6fff4c05", Limit::Partitions),
        (".section .gnu.lto_.decls,\"e\",@progbits", Limit::GccLto),
    ] {
        let s = summary(&assembled(&format!("{section}\n.long 1\n.text\ncall needed\n.globl own\nown: nop")));
        assert_eq!(s.limits_found(), [limit], "{section}");
        assert!(s.limits[0].detail.contains(section.split([' ', ',']).nth(1).unwrap()), "{:?}", s.limits);
    }
    for known in ["0x6fff4c03", "0x6fff4c09", "0x6fff4c0a", "0x6fff4c0c", "0x6ffffff5"] {
        let s = summary(&assembled(&format!(".section .x,\"e\",@{known}\n.long 1")));
        assert_eq!(s.limits_found(), [], "{known}");
    }
}

/// A section that may refer to anything does, through the first atom: other modules must not lose what it needs.
#[test]
fn hidden_references_reach_every_global() {
    let s = summary(&assembled(
        ".section .x,\"a\",@0x6fff4caa\n.long 1\n.text\n.globl own\nown: nop\n.weak outside\ncall outside",
    ));
    let mut reached: Vec<String> =
        s.references.iter().filter(|r| r.from.0 == 0).map(|r| s.edge_name(r)).collect();
    reached.sort();
    reached.dedup();
    assert_eq!(reached, ["outside", "own"]);
    assert_eq!(s.limits[0].limit.severity(), Severity::Module);
    assert!(s.limits[0].bytes >= 5);
}

#[test]
fn unknown_relocation_types_are_named() {
    // GNU_VTINHERIT, which only bfd and gold know, has no business in a call.
    let mut bytes = assembled(".text\ncall base");
    let relocation = summaries::native::find_section(&bytes, b".rela.text").unwrap().start;
    bytes[relocation + 8] = 250;
    let s = summary(&bytes);
    assert_eq!(s.limits_found(), [Limit::UnknownRelocation]);
    assert!(
        s.limits[0].detail.contains("type 250 at 0x1") && s.limits[0].detail.contains("(base)"),
        "{:?}",
        s.limits
    );
    assert_eq!(s.edges(".text"), ["Address base"]);
}

#[test]
fn unwind_limits() {
    let cie = ".long 16\n.long 0\n.byte 1\n.asciz \"zR\"\n.byte 1,0x78,16,1,0x1b\n.zero 3\n";
    let fde = |begin: &str, more: &str| format!(".long 16\n.long 24\n{begin}\n.long 8\n{more}\n");
    let all = |body: &str| format!(".text\nf: nop\n.section .eh_frame,\"a\",@progbits\n{cie}{body}");
    for (body, limit, edges) in [
        (fde(".long f - .", ".long 0"), false, vec![]),
        (fde(".long f - .", ".long lsda"), false, vec!["Unwind lsda"]),
        // No function: the linker drops the FDE, and nothing hangs on it.
        (fde(".long 0", ".long 0"), false, vec![]),
        (fde(".long 0", ".long lsda"), true, vec!["Data lsda"]),
        (fde(".long elsewhere - .", ".long 0"), true, vec!["Data elsewhere"]),
        (".long 100\n.long 0\n".to_owned(), true, vec![]),
        (".long 12\n.long 4\n.quad 0\n".to_owned(), true, vec![]),
        (".long 0\n".to_owned(), false, vec![]),
    ] {
        let s = summary(&assembled(&all(&body)));
        let expected: &[Limit] = if limit { &[Limit::MalformedUnwind] } else { &[] };
        assert_eq!(
            (s.limits_found(), s.edges(".text")),
            (expected.to_vec(), edges.iter().map(|e| e.to_string()).collect()),
            "{body}"
        );
    }
}

/// An extended length, two `.eh_frame` sections, and a personality in the CIE.
#[test]
fn unwind_of_two_sections() {
    let s = summary(&assembled(include_str!("programs/handwritten_unwind.s")));
    assert_eq!(s.limits_found(), []);
    assert_eq!(s.edges(".text.f"), ["Unwind personality"]);
    assert_eq!(s.edges(".text.g"), ["Unwind lsda"]);
}

#[test]
fn more_sections_than_sixteen_bits() {
    let count = 66_000;
    let mut source = String::new();
    for i in 0..count {
        source +=
            &format!(".section .text.f{i},\"ax\",@progbits\n.globl f{i}\nf{i}: call f{}\n", (i + 1) % count);
    }
    let s = summary(&object(&["as", "--64"], "s", &source));
    assert_eq!(s.limits_found(), []);
    for i in [0, 1, 65_270, 65_279, 65_300, count - 1] {
        let (atom, entry) = s.atom_named(&format!(".text.f{i}"));
        assert!(entry.section as usize > i);
        assert_eq!(s.symbol_named(&format!("f{i}")).definition, Definition::Atom(atom));
        let edge = s.references_of(atom)[0];
        let Target::Symbol(symbol) = edge.target else { panic!("{edge:?}") };
        assert_eq!(s.symbol_name(symbol), format!("f{}", (i + 1) % count).as_bytes());
    }
}

#[test]
fn sections_found_by_name() {
    let bytes = assembled(".section .lto_prune.summary,\"e\",@progbits\n.ascii \"hello\"");
    let range = summaries::native::find_section(&bytes, summaries::format::SECTION_NAME).unwrap();
    assert_eq!(&bytes[range], b"hello");
    assert_eq!(summaries::native::find_section(&bytes, b".lto_prune"), None);
    assert_eq!(summaries::native::find_section(b"\x7fELF", b".text"), None);
}
