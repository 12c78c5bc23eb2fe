//! Value flow of LLVM IR: what functions and initializers come to, from IR that is written for it (`flow.ll`), and invariants of every sample.

use std::process::Command;

use summaries::bitcode;
use summaries::extract::extract;
use summaries::{Granularity, Limit, ModuleSummary, atom_flags, text};

use super::corpus::{run, samples};

/// The summary of IR in LLVM 19's text.
pub(super) fn assembled(ir: &str) -> ModuleSummary {
    let dir = tempfile::tempdir().unwrap();
    let (source, target) = (dir.path().join("t.ll"), dir.path().join("t.bc"));
    std::fs::write(&source, ir).unwrap();
    run(Command::new("llvm-as-19").arg(&source).arg("-o").arg(&target));
    let summary = extract(&std::fs::read(&target).unwrap(), Granularity::Pointers);
    assert_eq!(summary.check(), Ok(()));
    summary
}

/// Entries of a function or an atom in the text form, without indentation.
fn entries(dump: &str, head: &str) -> Vec<String> {
    let mut lines = dump.lines().skip_while(|l| !l.starts_with(head)).skip(1);
    let mut found = Vec::new();
    while let Some(line) = lines.next().filter(|l| l.starts_with(' ')) {
        found.push(line.trim().to_owned());
    }
    found
}

/// The lines of `flow.ll` that say what the target is.
fn head() -> String {
    let head = include_str!("flow.ll").lines().filter(|l| l.starts_with("target "));
    head.flat_map(|l| [l, "\n"]).collect()
}

#[test]
fn each_rule() {
    let dump = text::dump(&assembled(include_str!("flow.ll")));
    let has = |head: &str, wanted: &[&str]| {
        let found = entries(&dump, head);
        for line in wanted {
            assert!(found.iter().any(|l| l == line), "{head}: no `{line}` in {found:#?}");
        }
    };
    let lacks = |head: &str, what: &str| {
        let found = entries(&dump, head);
        assert!(
            !found.is_empty() && !found.iter().any(|l| l.starts_with(what)),
            "{head}: `{what}` in {found:#?}"
        );
    };
    // Initializers: places by layout, addends, packed ones; a difference is no address and lets its target escape.
    has(
        "atom .data.g ",
        &["data @0x8 f +0", "data @0x18 h +0", "data @0x18 [.text.h] +0", "data @0x20 g +8"],
    );
    has("atom .rodata.p ", &["data @0x1 f +0"]);
    has("atom .rodata.rel ", &["address @0x0 f +1"]);
    // The address of a label is no entry.
    has("atom .rodata.labels ", &["data @0x0 go +1"]);
    // Registers by class, constant distances.
    has(
        "function [.text.f]",
        &["param rdi %0", "param xmm0 %1", "param rsi %2", "param xmm1 %3", "%4 = %2 +40", "result rax %6"],
    );
    // A definition that another one may replace can be called instead of it; so can one that is only available externally.
    has(
        "function [.text.user]",
        &[
            "site section 8 @0x0 direct h +0 actual rdi %0",
            "site section 8 @0x1 direct [.text.h] +0 actual rdi %0",
            "site section 8 @0x11 direct [.text.av] +0 actual rdi %0",
        ],
    );
    has("function [.text.av]", &["site section 7 @0x0 direct h +0 actual rdi %0"]);
    // An argument without a register of its own is passed in all of them, and on the stack.
    has(
        "function [.text.wide] frame",
        &["param rdi %0", "param xmm7 %0", "%1 = frame unknown", "%0 = load %1 unknown size 0"],
    );
    let call = entries(&dump, "function [.text.wide]").into_iter().find(|l| l.starts_with("site")).unwrap();
    assert!(
        call.contains("indirect %3") && call.contains("actual rsi %4") && call.ends_with("instack unknown"),
        "{call}"
    );
    // The address of a result comes back in rax; a copy on the stack is in the frame of the callee.
    has(
        "function [.text.sr] frame",
        &["result rax %2", "%0 = %1 unknown", "copy %3 +0 -> %5 unknown size 0"],
    );
    // Variable arguments: all registers are saved where a list leads.
    has("function [.text.va] frame", &["store %16 -> %1 unknown size 0", "store %18 -> %17 +0 size 0"]);
    has("function [.text.as]", &["escape %0", "copy %1 +0 -> %0 +0 size 16", "copy %1 +0 -> %0 +0 size 0"]);
    lacks("function [.text.as]", "escape %1");
    has("function [.text.go]", &["%1 = %2 unknown", "%3 = load %1 +0 size 8"]);
    // Memory at a constant address is unknown.
    has("function [.text.fixed]", &["escape %0", "%1 = unknown"]);
    // Another convention than C's: the function is not understood, and takes what it wants.
    assert!(!dump.contains("function [.text.odd]"));
    assert!(dump.contains("limit not-psabi section 14"), "{dump}");
    assert!(dump.lines().any(|l| l.starts_with("atom .text.odd") && l.contains("takes-registers")));
    assert_eq!(text::dump(&text::parse(&dump).unwrap()), dump);
}

#[test]
fn what_makes_a_module_opaque() {
    const HEAD: &str = "target datalayout = \"e-m:e-i64:64-f80:128-n8:16:32:64-S128\"\n\
        target triple = \"x86_64-pc-linux-gnu\"\n";
    for (ir, why) in [
        (
            "@a = global [2 x i32] zeroinitializer\n@b = alias i32, getelementptr (i8, ptr @a, i64 4)\n",
            "the alias b of an expression",
        ),
        ("define void @f() prefix i32 7 { ret void }\n", "data before function f"),
        ("@v = global i128 0\n", "variable v of unknown size"),
    ] {
        let summary = assembled(&format!("{HEAD}{ir}declare ptr @mmap(ptr)\n@u = global ptr @mmap\n"));
        // Its calls were not analysed.
        assert!(summary.limits.iter().any(|l| l.limit == Limit::FixedMapping), "{:?}", summary.limits);
        let limit = summary.limits.iter().find(|l| l.limit == Limit::OpaqueBitcode);
        assert!(limit.is_some_and(|l| l.detail.contains(why)), "{ir}: {:?}", summary.limits);
        assert!(summary.functions.is_empty());
    }
    let held = assembled(&format!("{HEAD}declare ptr @mmap(ptr)\n@u = global ptr @mmap\n"));
    assert!(held.limits.iter().any(|l| l.limit == Limit::FixedMapping), "{:?}", held.limits);
    let fine = assembled(&format!("{HEAD}@a = global i32 0\n@b = alias i32, ptr @a\n"));
    assert!(fine.limits.is_empty(), "{:?}", fine.limits);
}

#[test]
fn functions_that_are_not_followed() {
    const HEAD: &str = "target datalayout = \"e-m:e-i64:64-i128:128-f80:128-n8:16:32:64-S128\"\n\
        target triple = \"x86_64-pc-linux-gnu\"\ndeclare void @f()\n";
    for body in [
        "declare ptr @llvm.frameaddress.p0(i32)\ndefine ptr @t() { %a = call ptr @llvm.frameaddress.p0(i32 0)\n ret ptr %a }",
        "define void @t(ptr nest %a) { ret void }",
        "define double @t(double %a) \"use-soft-float\"=\"true\" { ret double %a }",
        "define void @t(ptr %l) { %a = va_arg ptr %l, ptr\n ret void }",
        "define void @t() naked { call void asm sideeffect \"jmp f\", \"\"()\n unreachable }",
        "define void @t(ptr %a) { call preserve_nonecc void %a()\n ret void }",
        "define void @t(ptr %a) { call void %a() [ \"deopt\"(i32 1) ]\n ret void }",
    ] {
        let summary = assembled(&format!("{HEAD}{body}\n"));
        assert!(summary.limits.iter().any(|l| l.limit == Limit::NotPsabi), "{body}");
        assert!(summary.functions.is_empty(), "{body}");
    }
}

#[test]
fn who_chooses_where_memory_is() {
    let head = head();
    let head = format!(
        "{head}declare ptr @mmap(ptr, i64, i32, i32, i32, i64)\ndeclare ptr @mremap(ptr, i64, i64, i32, ...)\n"
    );
    for (call, count) in [
        ("call ptr @mmap(ptr null, i64 %n, i32 3, i32 34, i32 -1, i64 0)", 0),
        ("call ptr @mmap(ptr inttoptr (i64 8589934592 to ptr), i64 %n, i32 3, i32 50, i32 -1, i64 0)", 1),
        ("call ptr @mmap(ptr %a, i64 %n, i32 3, i32 50, i32 -1, i64 0)", 1),
        ("call ptr (ptr, i64, i64, i32, ...) @mremap(ptr %a, i64 %n, i64 8, i32 1)", 0),
        ("call ptr (ptr, i64, i64, i32, ...) @mremap(ptr %a, i64 %n, i64 8, i32 3, ptr %a)", 1),
        // A holder of the address may call it with any argument.
        ("select i1 true, ptr @mmap, ptr %a", 1),
        ("getelementptr i8, ptr getelementptr (i8, ptr @mmap, i64 1), i64 -1", 1),
        ("call ptr %a(ptr @mmap)", 1),
        ("call ptr @mmap(ptr null, i64 ptrtoint (ptr @mmap to i64), i32 3, i32 34, i32 -1, i64 0)", 1),
    ] {
        let summary =
            assembled(&format!("{head}define ptr @t(ptr %a, i64 %n) {{ %r = {call}\n ret ptr %r }}\n"));
        let found = summary.limits.iter().filter(|l| l.limit == Limit::FixedMapping).count();
        assert_eq!((found, summary.functions.len()), (count, 1), "{call}");
    }
}

/// Arithmetic on numbers has no constraints.
#[test]
fn arithmetic_of_numbers() {
    let head = head();
    let takes = ["double", "double, double", "double, double, double"];
    for (name, count) in [("fmuladd", 3), ("fma", 3), ("sqrt", 1), ("atan2", 2), ("copysign", 2)] {
        let types = takes[count - 1];
        let values = types.replace("double", "double %a");
        let ir = format!(
            "declare double @llvm.{name}.f64({types})\ndefine double @t(double %a) {{ \
             %r = call double @llvm.{name}.f64({values})\n ret double %r }}\n"
        );
        let dump = text::dump(&assembled(&format!("{head}{ir}")));
        let found = entries(&dump, "function [.text.t]");
        let bad = |l: &String| l.starts_with("escape ") || l.ends_with("= unknown");
        assert!(!found.is_empty() && !found.iter().any(bad), "{name}: {found:#?}");
    }
}

/// A pointer made only of numbers is unknown; one with an address in it is not.
#[test]
fn pointers_that_are_numbers() {
    let head = head();
    const NUMBER: &str = "ptr inttoptr (i64 268435456 to ptr)";
    for (body, is_number) in [
        (format!("%p = getelementptr ptr, {NUMBER}, i64 %i\n store ptr %a, ptr %p\n ret void"), true),
        (format!("%p = select i1 %c, {NUMBER}, {NUMBER}\n %v = load ptr, ptr %p\n ret void"), true),
        (
            "%s = shl i64 %i, 3\n %p = inttoptr i64 %s to ptr\n store ptr %a, ptr %p\n ret void".to_owned(),
            false,
        ),
        ("%p = getelementptr ptr, ptr @g, i64 %i\n store ptr %a, ptr %p\n ret void".to_owned(), false),
        (format!("%p = select i1 %c, {NUMBER}, ptr %a\n store ptr %a, ptr %p\n ret void"), false),
        ("%p = alloca ptr\n store ptr %a, ptr %p\n ret void".to_owned(), false),
        (format!("call void {}(ptr %a)\n ret void", &NUMBER[4..]), true),
        ("call void null(ptr %a)\n ret void".to_owned(), false),
    ] {
        let ir = format!("{head}@g = global ptr null\ndefine void @t(ptr %a, i64 %i, i1 %c) {{ {body} }}\n");
        let dump = text::dump(&assembled(&ir));
        let found = entries(&dump, "function [.text.t]");
        assert!(!found.is_empty(), "{dump}");
        assert_eq!(found.iter().any(|l| l.ends_with("= unknown")), is_number, "{body}: {found:#?}");
    }
}

/// Assembly that queries the processor returns numbers; any other assembly may do anything.
#[test]
fn assembly_that_asks_the_processor() {
    for (assembly, is_known) in [
        ("{ i32, i32 } asm \"cpuid\", \"={ax},={bx},0,~{cx},~{dx},~{flags}\"(ptr %a)", true),
        ("{ i32, i32 } asm \"cpuid\", \"={ax},=r,0,~{cx},~{dx},~{flags}\"(ptr %a)", false),
        ("{ i32, i32 } asm sideeffect \"call *%rax\", \"={ax},={bx},0,~{memory}\"(ptr %a)", false),
    ] {
        let ir = format!("{}define void @t(ptr %a) {{\n %r = call {assembly}\n ret void\n}}\n", head());
        let summary = assembled(&ir);
        let found = entries(&text::dump(&summary), "function [.text.t]");
        assert_eq!((summary.functions.len(), summary.limits.len()), (1, 0), "{assembly}");
        let leaks = found.iter().any(|l| l.starts_with("escape ") || l.ends_with("= unknown"));
        assert_eq!(leaks, !is_known, "{assembly}: {found:#?}");
    }
}

/// Assembly without operands that aligns code or waits runs nothing that is not seen.
#[test]
fn assembly_that_does_nothing() {
    for (assembly, does_nothing) in [
        ("void asm sideeffect \".p2align 5\", \"~{dirflag},~{fpsr},~{flags}\"()", true),
        ("void asm sideeffect \"rep; nop\", \"~{memory},~{dirflag},~{fpsr},~{flags}\"()", true),
        ("void asm sideeffect \"\", \"~{memory}\"()", true),
        ("void asm sideeffect \"call f\", \"~{memory}\"()", false),
        ("void asm sideeffect \".p2align 5\\0Acall f\", \"~{memory}\"()", false),
    ] {
        let ir = format!("{}define void @t() {{\n call {assembly}\n ret void\n}}\n", head());
        let summary = assembled(&ir);
        assert_eq!((summary.functions.len(), summary.limits.len()), (1, 0), "{assembly}");
        let runs_unseen = summary.atoms.iter().any(|atom| atom.has(atom_flags::RUNS_UNSEEN));
        assert_eq!(runs_unseen, !does_nothing, "{assembly}");
    }
}

/// The stack pointer is an address in the frame.
#[test]
fn the_saved_stack() {
    let head = head();
    let ir = "declare ptr @llvm.stacksave.p0()\n\
        define ptr @t() { %s = call ptr @llvm.stacksave.p0()\n %v = load ptr, ptr %s\n ret ptr %v }\n";
    let dump = text::dump(&assembled(&format!("{head}{ir}")));
    let found = entries(&dump, "function [.text.t]");
    assert!(
        found.iter().any(|l| l.contains("= frame")) && !found.iter().any(|l| l.ends_with("= unknown")),
        "{found:#?}"
    );
}

#[test]
fn what_is_passed_on_without_a_name_or_to_what_is_not_listed() {
    let ir = include_str!("../programs/bitcode_flow_passed_on.ll");
    let head = head();
    // As clang's thunks of variadic functions: what has no name is passed on as well.
    let variadic =
        "define void @w(ptr %a, ...) { musttail call void (ptr, ...) %a(ptr %a, ...)\n ret void }\n";
    let summary = assembled(&format!("{head}{ir}{variadic}"));
    assert_eq!(summary.limits.iter().filter(|l| l.limit == Limit::NotPsabi).count(), 1);
    let dump = text::dump(&summary);
    assert!(!dump.contains("function [.text.w]"), "{dump}");
    let found = entries(&dump, "function [.text.t]");
    for wanted in ["escape %0", "%1 = unknown"] {
        assert!(found.iter().any(|l| l == wanted), "no `{wanted}` in {found:#?}");
    }
    // The listed targets are complete: a jump is like a call.
    let found = entries(&dump, "function [.text.u]");
    assert!(found.iter().any(|l| l.starts_with("site")), "{found:#?}");
}

#[test]
fn every_sample_keeps_its_invariants() {
    let (mut functions, mut not_followed, mut opaque) = (0, 0, Vec::new());
    for sample in samples() {
        let summary = bitcode::extract_at(&sample.bytes, Granularity::Pointers);
        assert_eq!(summary.check(), Ok(()), "{}", sample.name);
        let dump = text::dump(&summary);
        assert_eq!(text::dump(&text::parse(&dump).unwrap()), dump, "{}", sample.name);
        functions += summary.functions.len();
        not_followed += summary.limits.iter().filter(|l| l.limit == Limit::NotPsabi).count();
        opaque.extend(
            summary.limits.iter().filter(|l| l.limit == Limit::OpaqueBitcode).map(|l| l.detail.clone()),
        );
    }
    assert!(functions > 250, "{functions} functions");
    assert!(not_followed * 10 < functions, "{not_followed} of {functions} are not followed");
    opaque.sort();
    opaque.dedup();
    let known = |why: &&String| !why.contains("several modules") && !why.contains("symbol table");
    assert_eq!(opaque.iter().filter(known).collect::<Vec<_>>(), Vec::<&String>::new());
}
