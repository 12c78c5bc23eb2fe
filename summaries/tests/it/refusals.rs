//! One hand-written object for each reason to keep a section whole, each a step away from one that is divided.

use crate::compilers::assembled;
use crate::compilers::cases;
use crate::functions::divided;
use crate::texts::templates;
use summaries::{AtomKind, Granularity, ModuleSummary, SummaryOptions, Target, extract};

/// Two functions as a compiler writes them, with lines in the first, behind the second, and before both.
fn source(before: &str, inside: &str, behind: &str) -> String {
    format!(
        " .file \"a.c\"\n .ident \"GCC: (none)\"\n{before}\n .text\n .p2align 4\n .globl f\n .type f, @function\nf:\n .cfi_startproc\n{inside}\n ret\n .cfi_endproc\n \
         .size f, .-f\n .p2align 4\n .type g, @function\ng:\n .cfi_startproc\n xor %eax, %eax\n nop\n ret\n .cfi_endproc\n \
         .size g, .-g\n{behind}\n"
    )
}

fn parts(summary: &ModuleSummary) -> usize {
    summary.atoms.iter().filter(|a| a.kind == AtomKind::Code && summary.name(a.name) == b".text").count()
}

fn refused(before: &str, inside: &str, behind: &str) -> Vec<&'static str> {
    let summary = divided(&assembled(&source(before, inside, behind)));
    let limits: Vec<_> = summary.limits.iter().map(|l| l.limit.name()).collect();
    assert_eq!(parts(&summary), if limits.is_empty() { 2 } else { 1 }, "{limits:?} {:?}", summary.limits);
    let tables = (summary.retargets.len(), summary.resolved.len(), summary.owned.len());
    assert!(limits.is_empty() || tables == (0, 0, 0), "{tables:?}");
    limits
}

/// Code of compilers is divided, and each limit has its cause.
#[test]
fn each_limit_has_its_cause() {
    let cases = templates(include_str!("programs/refusals.txt"), &["before", "inside", "behind"]);
    for case in &cases {
        let [before, inside, behind] = ["before", "inside", "behind"].map(|key| case.part(key).trim_end());
        assert_eq!(refused(before, inside, behind).join(" "), case.words, "{case:?}");
    }
    assert!(cases.len() > 30);
    assert_eq!(refused(" .section .rodata\n.Lt: .long .Lx - .Lt, .Lx - .Lt", JUMP, ""), Vec::<&str>::new());
}

/// A reference in debug information alone ties nothing together if the debug information is dropped; other references do.
#[test]
fn debug_information_that_is_left_out() {
    let debug = " .section .debug_info\n .quad g, f\n .long g - f\n";
    for (behind, expected) in [(String::new(), 2), (" .section .note.probes\n .quad g".to_owned(), 1)] {
        let object = assembled(&source(debug, "", &behind));
        assert_eq!(parts(&divided(&object)), expected);
        for granularity in [Granularity::Functions, Granularity::Pointers] {
            let summary =
                extract::extract(&object, SummaryOptions { without_debug: true, ..granularity.into() });
            assert!(summary.without_debug);
            assert_eq!(parts(&summary), expected, "{:?}", summary.limits);
            assert_eq!(summary.limits.iter().any(|l| l.limit.name() == "debug-info"), expected == 1);
        }
    }
}

/// The targets of a table whose base is not proved are kept together.
#[test]
fn tables_without_a_proved_base() {
    let table = " .section .rodata\n .p2align 2\n.Lt: .long .Lx - .Lt, .Lx - .Lt\n";
    for (before, inside, expected) in [
        (" .section .rodata\n .long g - .", "", 2),
        (table, ".Lx: lea .Lt(%rip), %rax", 2),
        (table, ".Lx: lea .Lt(%rip), %rax\n shl $1, %rax\n jmp *%rax", 2),
        (" .section .rodata\n.Lt: .long .Lx - .Lt, g - .Lt", JUMP, 2),
        (" .section .rodata\n.Lt: .long .Lx - .Lt, 0, .Lx - .Lt", JUMP, 2),
        (" .section .rodata\n.Lt: .long .Lx - 1 - .Lt", JUMP, 2),
        // The base may be the last entry, which leads into `g` then.
        (
            " .section .rodata\n.Lt: .rept 9\n .long .Lx - .Lt\n .endr",
            ".Lx: lea .Lt(%rip), %rax\n .skip 9, 0x90",
            1,
        ),
        // A lookup table behind a jump table has a base of its own.
        (" .section .rodata\n.Lt: .long .Lx - .Lt\n.Lu: .long .Lx - .Lu", LOOKUP, 2),
    ] {
        let summary = divided(&assembled(&source(before, inside, "")));
        let limits: Vec<_> = summary.limits.iter().map(|l| l.limit.name()).collect();
        let tied: &[&str] = if expected == 1 { &["unclaimed-pcrel-table"] } else { &[] };
        assert_eq!((parts(&summary), &limits[..]), (expected, tied), "{before} {inside}");
    }
}

/// An address of a local function may be that of another one, near by, to which nothing else refers.
#[test]
fn functions_that_nothing_refers_to() {
    for (behind, expected) in [
        (LONELY.to_owned(), 2),
        (
            format!(
                " .type i, @function\n.globl i\ni: .cfi_startproc\n .rept 4200\n nop\n .endr\n ret\n .cfi_endproc\n .size i, .-i\n{LONELY}"
            ),
            3,
        ),
    ] {
        let summary = divided(&assembled(&source(" .section .rodata\n .quad .text + 16", "", &behind)));
        assert_eq!((parts(&summary), summary.limits.len()), (expected, 1), "{:?}", summary.limits);
    }
}

/// Without an FDE a last call may come back, unless it is known not to or the next function would not find its way back.
#[test]
fn last_calls_without_fde() {
    for [last, next, expected] in cases("last_calls_without_fde") {
        let text = format!(
            " .text\n .type f, @function\nf:{last}\n .size f, .-f\n .type g, @function\ng:{next}\n .size g, .-g\n"
        );
        let summary = divided(&assembled(&text));
        let expected = expected.parse().unwrap();
        assert_eq!(
            (parts(&summary), summary.limits.len()),
            (expected, 2 - expected),
            "{last} {next} {:?}",
            summary.limits
        );
    }
}

/// A local function that nothing refers to.
const LONELY: &str = " .type h, @function\nh: .cfi_startproc\n nop\n ret\n .cfi_endproc\n .size h, .-h";
const JUMP: &str = " lea .Lt(%rip), %rdx\n movslq (%rdx,%rax,4), %rax\n add %rdx, %rax\n jmp *%rax\n.Lx: nop";
const LOOKUP: &str = " lea .Lu(%rip), %rcx\n lea .Lt(%rip), %rdx\n movslq (%rdx,%rax,4), %rax\n add %rdx, %rax\n \
                      jmp *%rax\n.Lx: nop";

#[test]
fn ties() {
    for (inside, expected) in [
        (" jmp g", 1),                        // short
        (" .byte 0xe9\n .long g - . - 4", 2), // the same, long
        (" jrcxz g", 1),
        (" je 1f\n ret\n1: call ext\n .byte 0x2e", 2), // before the ret of the frame: no fall
    ] {
        let summary = divided(&assembled(&source("", inside, "")));
        assert_eq!((parts(&summary), summary.limits.len()), (expected, 2 - expected), "{inside}");
    }
    // Without its `ret` the first falls into the second; a call at the end is taken not to return, if something is on the stack.
    for (last, expected) in [
        (" nop", 1),
        (" je 1b", 1),
        (" syscall", 1),
        (" call ext", 1),
        (" push %rax\n call ext", 2),
        (" call abort", 2),
        (" ud2", 2),
        (" hlt", 2),
        (" jmp *%rax", 2),
    ] {
        let text = format!(
            " .text\n .type f, @function\nf: .cfi_startproc\n1: nop\n{last}\n .cfi_endproc\n .size f, .-f\n .p2align 4\n .type g, \
             @function\ng: .cfi_startproc\n ret\n .cfi_endproc\n .size g, .-g\n"
        );
        let summary = divided(&assembled(&text));
        assert_eq!((parts(&summary), summary.limits.len()), (expected, 2 - expected), "{last}");
    }
}

/// A short jump at the end of a function can be relaxed to a near one where three bytes of padding follow that nothing leads to.
#[test]
fn short_jumps_that_can_be_relaxed() {
    for (last, expected) in [
        (" jmp g", [2, 1]),
        (" .zero 11, 0x90\n jmp g", [2, 1]),
        (" .zero 12, 0x90\n jmp g", [1, 0]), // two bytes of padding
        (" je 1f\n jmp g\n1:", [1, 0]),      // the padding runs
        (" ret\n jrcxz g", [1, 0]),
        (" .byte 0x2e\n jmp g", [1, 0]), // with a prefix the opcode is elsewhere
    ] {
        let text = format!(
            " .text\n .type f, @function\nf: .cfi_startproc\n{last}\n .cfi_endproc\n .size f, .-f\n .p2align 4\n .type g, \
             @function\ng: .cfi_startproc\n nop\n nop\n nop\n ret\n .cfi_endproc\n .size g, .-g\n"
        );
        let summary = divided(&assembled(&text));
        assert_eq!([parts(&summary), summary.resolved.len()], expected, "{last}: {:?}", summary.limits);
    }
}

/// A program may store `g - 1`, and that is an address in the function before. Calls are never biased.
#[test]
fn biased_addresses_keep_both_functions() {
    for [before, inside, expected] in cases("biased_addresses_keep_both_functions") {
        let packed = source(before, inside, "").replace(" .p2align 4\n .type g", " .type g");
        let summary = divided(&assembled(&packed));
        let expected = expected.parse().unwrap();
        assert_eq!(
            (parts(&summary), summary.limits.len()),
            (expected, 2 - expected),
            "{before} {inside} {:?}",
            summary.limits
        );
    }
}

/// A part moves as a whole: one that begins at a multiple of 16 can't hold a function that is aligned to 64.
#[test]
fn alignment_of_what_is_tied() {
    for (align, tie, expected, ties) in [
        (4, " jrcxz g\n ret", [(0, 16), (16, 16)], 1),
        (6, " jrcxz g\n ret", [(0, 64), (0, 0)], 1),
        (6, " ret", [(0, 64), (16, 16)], 0),
    ] {
        let text = format!(
            " .text\n .type e, @function\ne: .cfi_startproc\n ret\n .cfi_endproc\n .size e, .-e\n .p2align 4\n .type f, \
             @function\nf: .cfi_startproc\n{tie}\n .cfi_endproc\n .size f, .-f\n .p2align {align}\n .type g, @function\ng: \
             .cfi_startproc\n ret\n .cfi_endproc\n .size g, .-g\n"
        );
        let summary = divided(&assembled(&text));
        let code = summary.atoms.iter().filter(|a| a.kind == AtomKind::Code).map(|a| (a.offset, a.align));
        let mut code: Vec<_> = code.take(2).collect();
        code.resize(2, (0, 0));
        assert_eq!((code, summary.limits.len()), (expected.to_vec(), ties), "{align} {tie}");
    }
}

/// glibc's `__restore_rt`: the FDE begins a byte early, and the byte goes with the function.
#[test]
fn an_fde_claims_the_gap_before_a_function() {
    let text = " .text\n .type f, @function\nf: .cfi_startproc\n ret\n .cfi_endproc\n .size f, .-f\n .p2align 4\n .cfi_startproc\n \
                nop\n .type g, @function\ng: ret\n .cfi_endproc\n .size g, .-g\n";
    let summary = divided(&assembled(text));
    let code: Vec<_> = summary
        .atoms
        .iter()
        .filter(|a| a.kind == AtomKind::Code)
        .map(|a| (a.offset, a.size, a.align))
        .collect();
    assert_eq!((code, summary.limits.len()), (vec![(0, 16, 16), (16, 2, 16)], 0));
}

/// From code that was not decoded a PC-relative relocation means any place from 4 to 8 bytes on.
#[test]
fn references_from_undecoded_code() {
    let raw = " .section .text.raw, \"ax\", @progbits\nraw: jmp .text + 16\n";
    let far = " .section .text.raw, \"ax\", @progbits\nraw: jmp .text\n";
    // f has 16 bytes with its padding, and 3 of them are code: a target at its end may be the next function.
    for (before, expected) in [(raw, 1), (far, 1)] {
        let summary = divided(&assembled(&source(before, "", "")));
        assert_eq!(parts(&summary), expected, "{:?}", summary.limits);
    }
    let long = source(raw, "", "").replace(" nop\n ret", " nop\n nop\n nop\n nop\n nop\n ret");
    let summary = divided(&assembled(&long));
    assert_eq!(parts(&summary), 2, "{:?}", summary.limits);
    let retarget = summary.retargets[0];
    let atom = &summary.atoms[retarget.target.index()];
    assert_eq!((atom.offset, summary.retargets.len()), (16, 1));
    assert!(summary.references.iter().any(|r| r.target == Target::Atom(retarget.target)));
}

/// Assembly with sizes and unwind tables may find a function by its distance from another one, which leaves no trace. A table of
/// its own labels is proved, and so is a pointer.
#[test]
fn targets_that_are_computed() {
    for case in templates(include_str!("programs/computed_targets.txt"), &["compiler", "before", "inside"]) {
        let [compiler, before, inside] = ["compiler", "before", "inside"].map(|key| case.part(key));
        let expected: usize = case.words.parse().unwrap();
        let text =
            source("", inside, "").replace(" .ident \"GCC: (none)\"\n", &format!("{compiler}\n{before}"));
        let summary = divided(&assembled(&text));
        assert_eq!(parts(&summary), expected, "{compiler} {before} {inside}: {:?}", summary.limits);
    }
}
