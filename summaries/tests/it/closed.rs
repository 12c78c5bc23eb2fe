//! Hand-written code without sizes and unwind tables: followed where it can do nothing but work on what it is passed.

use crate::compilers::assembled;
use summaries::relation::{Constraint, FunctionSummary};
use summaries::{Granularity, ModuleSummary};

/// A module whose `.text` is this, as people write it.
fn module(text: &str) -> ModuleSummary {
    let text = format!(".text\n{text}\n.section .note.GNU-stack,\"\",@progbits\n");
    let summary = summaries::extract::extract(&assembled(&text), Granularity::Pointers);
    assert_eq!(summary.check(), Ok(()));
    summary
}

fn functions(text: &str) -> Vec<FunctionSummary> {
    module(text).functions
}

const TWO: &str = ".globl first\n.globl second\nfirst: push %rbx\nmov 8(%rdi), %rbx\nloop: mov %rbx, (%rsi)\ndec %edx\njnz loop\n\
                   pop %rbx\nret\n.p2align 4\nsecond: mov %rdi, %rax\nret";

#[test]
fn closed_code_is_one_function_with_all_entries() {
    let summary = module(TWO);
    let [function] = summary.functions.as_slice() else { panic!("{:?}", summary.functions) };
    assert_eq!(function.entries.iter().map(|e| e.1).collect::<Vec<_>>(), [0, 16]);
    // What rdi points to goes where rsi points to, and rdi is returned.
    let passed: Vec<u8> = function.parameters.iter().map(|p| p.0).collect();
    assert!(passed.contains(&6) && passed.contains(&7), "{passed:?}");
    assert!(function.constraints.iter().any(|c| matches!(c, Constraint::Load { size: 8, .. })));
    assert!(function.constraints.iter().any(|c| matches!(c, Constraint::Store { size: 8, .. })));
    assert!(
        !function
            .constraints
            .iter()
            .any(|c| matches!(c, Constraint::Unknown { .. } | Constraint::Escape { .. }))
    );
    assert!(function.results.iter().any(|r| r.0 == 0));
}

#[test]
fn code_that_is_not_closed_is_not_followed() {
    let bodies = [
        ("a call", "call first\nret"),
        ("a call through a register", "call *%rdi\nret"),
        ("a jump through a register", "jmp *%rdi"),
        ("a relocation", "lea other(%rip), %rax\nret"),
        ("the kernel", "syscall\nret"),
        ("the end", "mov %rdi, %rax"),
        ("another stack", "mov %rdi, %rsp\nret"),
        ("a register that nobody passes", "mov %rbx, (%rdi)\nret"),
        ("a branch between instructions", "jmp .+4\nmov $1, %eax\nret"),
    ];
    for (what, body) in bodies {
        let found = functions(&format!(".globl first\nfirst: {body}"));
        assert!(found.is_empty(), "{what}: {found:?}");
    }
}

#[test]
fn code_that_is_entered_without_a_name_is_not_followed() {
    // A table of places inside.
    let table = format!("{TWO}\n.data\n.quad loop");
    assert!(functions(&table).is_empty());
    // No symbol that anybody could call.
    assert!(functions("first: mov %rdi, %rax\nret").is_empty());
    // An object among the code.
    let object = format!("{TWO}\n.globl data\n.type data, @object\ndata: ret");
    assert!(functions(&object).is_empty());
}
