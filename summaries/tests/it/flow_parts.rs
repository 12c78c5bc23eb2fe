//! Value flow of native code: jumps through tables, and functions with parts elsewhere that only a table reaches.

use std::process::Command;

use crate::compilers::assembled;
use crate::flow::{callees, takes_registers};
use summaries::relation::Callee;
use summaries::{Granularity, ModuleSummary};

/// A function that jumps in its frame through a table of two labels, one of its own and `other`.
fn switch(function: &str, other: &str) -> String {
    format!(
        ".section .text.{function},\"ax\",@progbits\n.globl {function}\n.type {function}, @function\n{function}: .cfi_startproc\npush %rbx\nlea 3f(%rip), %rdx\n\
         jmp *(%rdx,%rdi,8)\n1: pop %rbx\nret\n.cfi_endproc\n.size {function}, . - {function}\n\
         .section .data.rel.ro.{function},\"aw\",@progbits\n3: .quad 1b, {other}\n"
    )
}

fn part(function: &str, calls: &str) -> String {
    format!(
        ".section .text.{function}.__part.1,\"ax\",@progbits\n.type {function}.__part.1, @function\n{function}.__part.1:\n.cfi_startproc\n\
         call {calls}\npop %rbx\nret\n.cfi_endproc\n.size {function}.__part.1, . - {function}.__part.1\n"
    )
}

fn summary(object: &[u8]) -> ModuleSummary {
    let summary = summaries::extract::extract(object, Granularity::Pointers);
    assert_eq!(summary.check(), Ok(()));
    summary
}

fn names_called(summary: &ModuleSummary) -> Vec<String> {
    let direct = summary.functions.iter().flat_map(|f| &f.call_sites).filter_map(|site| match site.callee {
        Callee::Direct { target: summaries::Target::Symbol(symbol), .. } => {
            Some(String::from_utf8_lossy(summary.symbol_name(symbol)).into_owned())
        }
        _ => None,
    });
    let mut names: Vec<String> = direct.collect();
    names.sort_unstable();
    names
}

fn refusals(summary: &ModuleSummary) -> Vec<&str> {
    summary.limits.iter().map(|l| l.detail.as_str()).collect()
}

/// A jump in a frame leads to code of the function itself, unless some code has no known owner.
#[test]
fn code_that_only_a_table_leads_to() {
    let with = |other: &str, code: &str| summary(&assembled(&(switch("t", other) + code)));
    let own = with("1b", "");
    assert_eq!(refusals(&own), [""; 0]);
    assert_eq!(own.functions.len(), 1);
    let by_name = with("t.__part.1", &part("t", "h"));
    assert_eq!(refusals(&by_name), [""; 0]);
    assert_eq!(names_called(&by_name), ["h"]);
    for start in ["", "std\n", "l: "] {
        let code = format!(".section .text.p,\"ax\",@progbits\n{start}4: call h\npop %rbx\nret\n");
        let loose = with("4f", &code);
        assert!(
            refusals(&loose).iter().any(|r| r.contains("without a name")),
            "{code}: {:?}",
            refusals(&loose)
        );
        assert_eq!(names_called(&loose), [""; 0], "{code}");
    }
}

/// `ld -r` leaves functions of one name, each with its part, side by side.
#[test]
fn parts_of_functions_of_one_name() {
    let one = |f: &str, h: &str| switch(f, &format!("{f}.__part.1")) + &part(f, h);
    let dir = tempfile::tempdir().unwrap();
    let object = dir.path().join("t.o");
    std::fs::write(&object, assembled(&(one("f", "h") + &one("e", "i")))).unwrap();
    let names = [
        "--localize-symbol=e",
        "--localize-symbol=f",
        "--redefine-sym=e=f",
        "--redefine-sym=e.__part.1=f.__part.1",
    ];
    assert!(Command::new("objcopy").args(names).arg(&object).status().unwrap().success());
    let summary = summary(&std::fs::read(&object).unwrap());
    assert_eq!(refusals(&summary), [""; 0]);
    // Which part is whose can't be told: they are one.
    let together: Vec<usize> = summary.functions.iter().map(|f| 1 + f.parts.len()).collect();
    assert_eq!(together, [4]);
    assert_eq!(names_called(&summary), ["h", "i"]);
}

/// A jump by eax through a table of two, which begins here.
fn switch_in(table: &str, entries: &str) -> String {
    format!(
        "cmp $1, %eax; ja 4f; lea {table}(%rip), %rcx; movslq (%rcx,%rax,4), %rdx; add %rcx, %rdx; jmp *%rdx; \
         .pushsection .rodata, \"a\", @progbits; .balign 4; {table}: .long {entries}; .popsection; "
    )
}

#[test]
fn a_jump_through_a_table_leads_to_its_entries() {
    // The caller's values reach the entries, joined with the values that one of them sets.
    let only = switch_in("table", ".La-table, .Lb-table");
    let body = "push %rbx; 1: movzbl (%rdi), %eax; inc %rdi; SWITCH .La: mov 8(%r12), %r12; jmp 1b; .Lb: call *(%r12); 4: pop %rbx; ret";
    assert!(takes_registers(&body.replace("SWITCH", &only)));
    // To the entries of one table nothing comes from the jump through another one behind it.
    let (one, other) =
        (switch_in("table", ".La-table, .Lb-table"), switch_in("other", ".Lc-other, .Ld-other"));
    let body = format!(
        "push %r13; movzbl (%rdi), %eax; test %rsi, %rsi; je 1f; mov %rsi, %r13; {one} .La: mov %rsi, (%r13); jmp 4f; \
         .Lb: mov %rsi, 8(%r13); jmp 4f; 1: {other} .Lc: inc %esi; jmp 4f; .Ld: dec %esi; 4: mov %esi, %eax; pop %r13; ret"
    );
    assert!(!takes_registers(&body));
}

/// All jumps to labels share a state, and so do all calls behind which a label may be entered. Each way to a label brings its own address.
#[test]
fn every_way_to_a_label_counts() {
    let table = switch_in("table", ".La-table, .Lb-table");
    let body = format!(
        "lea f(%rip), %r8; test %edx, %edx; jne .La; mov %edi, %eax; lea g(%rip), %r8; {table} .La: call *%r8; ret; \
         .Lb: mov %esi, %eax; lea h(%rip), %r8; lea table(%rip), %rcx; movslq (%rcx,%rax,4), %rdx; add %rcx, %rdx; jmp *%rdx; 4: ret"
    );
    // The jumps are sites, too, and lead out of the function to nothing.
    assert_eq!(callees(&body), [vec![], vec!["f".to_owned(), "g".to_owned(), "h".to_owned()], vec![]]);
    let body = "push %rbx; lea 1f(%rip), %rax; mov %rax, 8(%rdi); lea f(%rip), %rbx; call k; lea g(%rip), %rbx; call k; pop %rbx; ret; \
                1: call *%rbx; pop %rbx; ret";
    assert_eq!(callees(body).last(), Some(&vec!["f".to_owned(), "g".to_owned()]));
}

#[test]
fn a_jump_in_a_frame_is_to_a_label() {
    for body in [
        "sub $24, %rsp; mov f@GOTPCREL(%rip), %rax; mov %rax, 8(%rsp); mov 8(%rsp), %rcx; jmp *%rcx",
        "push %rsi; jmp *%rdi",
        "push %rsi; push %rdi; ret",
        "add $8, %rsp; ret",
        "lea 1f(%rip), %rcx; push %rcx; jmp *%rdi; 1: call *%rax; ret",
    ] {
        assert!(crate::flow::module(body).functions.is_empty(), "{body}");
    }
    for table in [
        switch_in("table", ".La-table, .Lb-table"),
        "jmp *table(,%rax,8); .pushsection .data; table: .quad .La, .Lb; .popsection; ".to_owned(),
    ] {
        let body = format!(
            "sub $24, %rsp; mov %edi, %eax; {table} .La: inc %esi; .Lb: mov %esi, %eax; 4: add $24, %rsp; ret"
        );
        assert_eq!(callees(&body), Vec::<Vec<String>>::new(), "{body}");
    }
}
