//! Value flow of native code: what a function's constraints say of the addresses in it.

use std::collections::BTreeSet;

use crate::compilers::{assembled, cases};
use summaries::registers::Register;
use summaries::relation::{CallSite, Callee, Constraint, FunctionSummary};
use summaries::{Granularity, Limit, ModuleSummary, Target, ValueIdx};

/// A module with one function `t` of these instructions, as a compiler would write it.
pub(crate) fn module(body: &str) -> ModuleSummary {
    let text = format!(
        ".text\n.globl t\n.type t, @function\nt:\n.cfi_startproc\n{body}\n.cfi_endproc\n.size t, .-t\n\
         .section .note.GNU-stack,\"\",@progbits\n"
    );
    let summary = summaries::extract::extract(&assembled(&text), Granularity::Pointers);
    assert_eq!(summary.check(), Ok(()));
    summary
}

pub(crate) fn function(body: &str) -> (ModuleSummary, FunctionSummary) {
    let summary = module(body);
    assert_eq!(summary.limits, [], "{body}");
    let function = summary.functions.first().cloned().unwrap_or_else(|| panic!("no function: {body}"));
    (summary, function)
}

/// The names of the symbols whose address a value may hold, by assignments and by loads from the cells that were stored to.
pub(crate) fn held(summary: &ModuleSummary, function: &FunctionSummary, value: ValueIdx) -> BTreeSet<String> {
    let (mut seen, mut work, mut names) = (BTreeSet::new(), vec![value], BTreeSet::new());
    while let Some(value) = work.pop() {
        if !seen.insert(value) {
            continue;
        }
        for constraint in &function.constraints {
            match constraint {
                Constraint::Address { to, target: Target::Symbol(symbol), .. } if *to == value => {
                    names.insert(String::from_utf8_lossy(summary.symbol_name(*symbol)).into_owned());
                }
                Constraint::Assign { from, to, .. } if *to == value => work.push(*from),
                Constraint::Load { from: place, to, .. } if *to == value => {
                    let stored = |c: &Constraint| match c {
                        Constraint::Store { from, to, .. } if to == place => Some(*from),
                        _ => None,
                    };
                    work.extend(function.constraints.iter().filter_map(stored));
                }
                _ => {}
            }
        }
    }
    names
}

/// The possible callees of each call of the function, in order.
pub(crate) fn callees(body: &str) -> Vec<Vec<String>> {
    let (summary, function) = function(body);
    let names = |callee| match callee {
        Callee::Indirect(value) => held(&summary, &function, value).into_iter().collect(),
        Callee::Direct { target: Target::Symbol(symbol), .. } => {
            vec![String::from_utf8_lossy(summary.symbol_name(symbol)).into_owned()]
        }
        Callee::Direct { target: Target::Atom(_), .. } => vec!["t".to_owned()],
    };
    function.call_sites.iter().map(|site| names(site.callee)).collect()
}

#[test]
fn every_way_to_read_an_address_is_a_constraint() {
    for [body] in cases("every_way_to_read_an_address_is_a_constraint") {
        assert_eq!(callees(body), [["f"]], "{body}");
    }
}

#[test]
fn values_survive_in_the_frame_and_in_saved_registers() {
    for body in [
        "sub $24, %rsp; lea f(%rip), %rax; mov %rax, 8(%rsp); call g; mov 8(%rsp), %rax; call *%rax; add $24, %rsp; ret",
        "push %rbx; lea f(%rip), %rbx; call g; call *%rbx; pop %rbx; ret",
        "push %rbp; mov %rsp, %rbp; sub $16, %rsp; lea f(%rip), %rax; movups %xmm0, -16(%rbp); mov %rax, -8(%rbp); call g; \
         call *-8(%rbp); leave; ret",
    ] {
        let (_, function) = function(body);
        assert!(!function.frame, "{body}");
        assert!(callees(body).last().is_some_and(|c| c.contains(&"f".to_owned())), "{body}");
    }
    let (_, function) = function("sub $24, %rsp; lea 8(%rsp), %rdi; call g; add $24, %rsp; ret");
    assert!(function.frame, "an address in the frame goes to g");
}

/// The site of the direct call of `name`, the last one.
fn site(summary: &ModuleSummary, function: &FunctionSummary, name: &str) -> CallSite {
    let is = |s: &&CallSite| matches!(s.callee, Callee::Direct { target: Target::Symbol(t), .. } if summary.symbol_name(t) == name.as_bytes());
    function.call_sites.iter().rfind(is).cloned().unwrap_or_else(|| panic!("no call of {name}"))
}

#[test]
fn stack_arguments() {
    let passed = |body: &str| {
        let (summary, function) = function(body);
        let stack = site(&summary, &function, "h").stack;
        stack.into_iter().map(|(at, v)| (at, held(&summary, &function, v))).collect::<Vec<_>>()
    };
    let f = || BTreeSet::from(["f".to_owned()]);
    let store = "sub $24, %rsp; lea f(%rip), %rax; mov %rax,";
    assert_eq!(passed(&format!("{store} (%rsp); call h; add $24, %rsp; ret")), [(8, f())]);
    assert_eq!(passed(&format!("{store} 8(%rsp); movq $1, (%rsp); call h; add $24, %rsp; ret")), [(16, f())]);
    assert_eq!(passed("lea f(%rip), %rax; push %rax; call h; pop %rcx; ret"), [(8, f())]);
    // A routine that a compiler calls in between, and a cell that the function reads again.
    for routine in ["__udivti3", "memcpy"] {
        let between = format!(
            "{store} (%rsp); call {routine}; call h; mov (%rsp), %rax; call *%rax; add $24, %rsp; ret"
        );
        assert_eq!(passed(&between), [(8, f())]);
    }
    // By Microsoft's convention 32 bytes lie before the first.
    let store = "sub $56, %rsp; lea f(%rip), %rax; mov %rax,";
    assert_eq!(passed(&format!("{store} 32(%rsp); call h; add $56, %rsp; ret")), [(40, f())]);
    // A tail call passes on all stack arguments of the function's own caller.
    let (summary, tail) = function("lea f(%rip), %rdi; jmp h");
    assert!(tail.frame && site(&summary, &tail, "h").stack_in_frame == Some(Some(0)));
    // Cells below are not set, or not read. A cell that was set before the previous call is no argument.
    let store = "sub $120, %rsp; lea f(%rip), %rax; mov %rax, 104(%rsp);";
    let load = "mov 104(%rsp), %rax; call *%rax; add $120, %rsp; ret";
    assert_eq!(passed(&format!("{store} call h; {load}")), [(112, f())]);
    assert_eq!(passed(&format!("{store} call y; call h; {load}")), []);
}

/// An argument by value is copied to the stack through a pointer, and has no visible end.
#[test]
fn stack_arguments_behind_what_is_copied() {
    let fill = "1: movb %sil, (%rcx,%rdx); inc %rdx; cmp $32, %rdx; jne 1b;";
    let advance = "1: movq %rdx, (%rcx); add $8, %rcx; cmp %rcx, %rsi; jne 1b;";
    for (copy, is_passed) in [
        ("mov %rsp, %rdi; lea g(%rip), %rsi; mov $32, %edx; call memcpy;", true),
        ("mov %rsp, %rdi; xor %esi, %esi; mov $32, %edx; call memset;", true),
        (&format!("mov %rsp, %rcx; xor %edx, %edx; {fill}"), true),
        (&format!("mov %rsp, %rcx; lea 32(%rsp), %rsi; {advance}"), true),
        // Its address was put away.
        (&format!("mov %rsp, 48(%rsp); call y; mov 48(%rsp), %rcx; {advance}"), true),
        // A copy to memory of the caller or of another function, and a copy for the previous call.
        (&format!("mov %rdi, %rcx; {advance}"), false),
        (&format!("call malloc; mov %rax, %rcx; {advance}"), false),
        (&format!("mov %rsp, %rcx; {advance} call y;"), false),
    ] {
        let body = format!(
            "sub $72, %rsp; {copy} lea f(%rip), %rax; mov %rax, 40(%rsp); call h; mov 40(%rsp), %rax; call *%rax; add $72, %rsp; ret"
        );
        let (summary, function) = function(&body);
        let site = site(&summary, &function, "h");
        assert!(function.frame || !is_passed, "{body}");
        assert_eq!(site.stack_in_frame.is_some(), is_passed, "{body}");
    }
}

#[test]
fn what_is_only_compared_is_named() {
    let unused = |body: &str| {
        let (summary, function) = function(body);
        let name = |t: &Target| match t {
            Target::Symbol(s) => String::from_utf8_lossy(summary.symbol_name(*s)).into_owned(),
            Target::Atom(_) => "an atom".to_owned(),
        };
        function.address_taken_only.iter().map(name).collect::<Vec<_>>()
    };
    assert_eq!(unused("cmpl $1, h(%rip); mov g(%rip), %esi; test %esi, %esi; ret").len(), 2);
    assert_eq!(unused("lea h(%rip), %rax; ret"), [""; 0]);
    assert_eq!(unused("lea h(%rip), %rsi; cmp %rsi, %rax; ret"), ["h"]);
    // A weak function that may be missing.
    assert_eq!(unused("cmpq $0, h@GOTPCREL(%rip); ret"), ["h"]);
}

#[test]
fn arguments_of_external_calls() {
    let (summary, function) = function("lea f(%rip), %rdi; movq %rdi, %xmm0; call g; call h; ret");
    let registers = |name| site(&summary, &function, name).actuals.iter().map(|a| a.0).collect::<Vec<_>>();
    // rdi and xmm0, and the argument registers with their values at entry.
    let passed = registers("g");
    assert!(passed.contains(&7) && passed.contains(&16), "{passed:?}");
    // External code reads no other register, and code of the link may read any. No convention passes arguments in rbx and rbp.
    assert!(passed.iter().all(|r| !matches!(*r, 3..=5)), "{passed:?}");
    // And to h as well: g may leave them alone.
    let h = site(&summary, &function, "h").actuals;
    let rdi = h.iter().find(|a| a.0 == 7).map(|a| held(&summary, &function, a.1));
    assert_eq!(rdi, Some(BTreeSet::from(["f".to_owned()])));
    assert!(h.iter().all(|a| !matches!(a.0, 3..=5)), "{h:?}");
    // rax is passed too: g may hand it back, or take it (`regcall`).
    let (summary, function) = function_with_rax();
    let rax = site(&summary, &function, "g").actuals.first().map(|a| (a.0, held(&summary, &function, a.1)));
    assert_eq!(rax, Some((0, BTreeSet::from(["f".to_owned()]))));
}

fn function_with_rax() -> (ModuleSummary, FunctionSummary) {
    function("lea f(%rip), %rax; call g; call *%rax; ret")
}

#[test]
fn a_register_that_is_left_alone_is_no_result() {
    let of = |list: &[(Register, ValueIdx)], register: Register| {
        list.iter().find(|entry| entry.0 == register).map(|entry| entry.1)
    };
    let function = function("test %rsi, %rsi; je 1f; mov %rsi, %rdi; jmp g; 1: ret").1;
    let (passed, left) = (of(&function.parameters, 16), of(&function.results, 16));
    assert!(passed.is_some() && left.is_some() && passed != left, "{function:?}");
    let flows = function.constraints.iter().any(
        |c| matches!(c, Constraint::Assign { from, to, .. } if Some(*from) == passed && Some(*to) == left),
    );
    assert!(!flows, "{function:?}");
    assert_ne!(function.preserved & 1 << 16, 0);
}

#[test]
fn what_a_function_leaves_alone() {
    let preserved = |body: &str| {
        let mask = function(body).1.preserved;
        [(0, "rax"), (2, "rdx"), (16, "xmm0"), (17, "xmm1")]
            .iter()
            .filter(|r| mask & 1 << r.0 != 0)
            .map(|r| r.1)
            .collect::<Vec<_>>()
    };
    assert_eq!(preserved("ret"), ["rax", "rdx", "xmm0", "xmm1"]);
    assert_eq!(preserved("xor %eax, %eax; movd %eax, %xmm1; ret"), ["rdx", "xmm0"]);
    for body in [
        "mov (%rdi), %rax; mov 8(%rdi), %rdx; ret",
        "xor %eax, %eax; test %edi, %edi; je 1f; xor %edx, %edx; 1: ret",
        "push %rax; xor %eax, %eax; xor %edx, %edx; pop %rcx; ret",
    ] {
        assert_eq!(preserved(body), ["xmm0", "xmm1"], "{body}");
    }
    // rax is put back from where it was put, or not touched on one of two paths.
    for [body] in cases("what_a_function_leaves_alone") {
        assert_eq!(preserved(body), ["rax", "xmm0", "xmm1"], "{body}");
    }
    // A callee may leave rax alone as well, and so may the target of a jump. It gets the entry value of rax, and its rax is returned.
    for body in [
        "sub $8, %rsp; call g; add $8, %rsp; ret",
        "jmp g",
        "test %edi, %edi; je 1f; mov %rsi, %rax; 1: jmp g",
    ] {
        let (_, own) = function(body);
        assert_eq!(preserved(body), ["rdx", "xmm0", "xmm1"], "{body}");
        let at = |registers: &[(u8, ValueIdx)]| registers.iter().find(|r| r.0 == 0).map(|r| r.1);
        let site = own.call_sites.first().expect(body);
        let becomes = |from: Option<ValueIdx>, to: Option<ValueIdx>| {
            let assigned = |c: &Constraint| matches!(c, Constraint::Assign { from: f, to: t, .. } if from == Some(*f) && to == Some(*t));
            from.is_some() && (from == to || own.constraints.iter().any(assigned))
        };
        assert!(becomes(at(&own.parameters), at(&site.actuals)), "{body}: {own:?}");
        assert!(becomes(at(&site.results), at(&own.results)), "{body}: {own:?}");
    }
    // Who writes it first passes nothing on.
    let (_, writer) = function("sub $8, %rsp; xor %eax, %eax; call g; add $8, %rsp; ret");
    assert!(writer.parameters.iter().all(|p| p.0 != 0), "{writer:?}");
    // One that doesn't return preserves nothing.
    assert_eq!(preserved("1: jmp 1b"), [""; 0]);
}

#[test]
fn vector_registers_carry_parameters_and_results() {
    // movq %xmm1, %rax: the callee is the second floating-point argument.
    let (_, callee) = function("movq %xmm1, %rax; jmp *%rax");
    let Callee::Indirect(called) = callee.call_sites[0].callee else { panic!("{callee:?}") };
    let parameter = callee.parameters.iter().find(|p| p.0 == 17).map(|p| p.1);
    let reaches = |from: ValueIdx, to: ValueIdx| {
        let assigned =
            |c: &Constraint| matches!(c, Constraint::Assign { from: f, to: t, .. } if *f == from && *t == to);
        from == to || callee.constraints.iter().any(assigned)
    };
    assert!(parameter.is_some_and(|p| reaches(p, called)), "{callee:?}");
    assert_eq!(callees("call g; movq %xmm0, %rax; call *%rax; ret").len(), 2);
    let (summary, result) = function("lea f(%rip), %rax; movq %rax, %xmm0; ret");
    let returned = result.results.iter().find(|r| r.0 == 16).map(|r| held(&summary, &result, r.1));
    assert_eq!(returned, Some(BTreeSet::from(["f".to_owned()])));
}

/// A value that is moved to an untracked register escapes, and a value from there is unknown.
#[test]
fn other_registers_carry_nothing() {
    for load in ["fldt", "fldl", "fildll", "kmovq", "movq"] {
        let to = if load == "kmovq" {
            ", %k1"
        } else if load == "movq" {
            ", %mm0"
        } else {
            ""
        };
        let (summary, function) =
            function(&format!("lea f(%rip), %rax; mov %rax, (%rsi); {load} (%rsi){to}; ret"));
        let escapes = |c: &Constraint| matches!(c, Constraint::Escape { .. });
        assert!(function.constraints.iter().any(escapes), "{load}: {summary:?}");
    }
    for store in "fstpt -16(%rsp)|fstpl -16(%rsp)|fistpll -16(%rsp)|kmovq %k1, -16(%rsp)|movq %mm0, -16(%rsp)"
        .split('|')
    {
        let (_, function) = function(&format!("{store}; mov -16(%rsp), %rax; call *%rax; ret"));
        assert!(function.constraints.iter().any(|c| matches!(c, Constraint::Unknown { .. })), "{store}");
    }
    // Numbers of fewer bytes are no addresses.
    let (_, function) = function("fildl (%rsi); fistpl -16(%rsp); mov -16(%rsp), %rax; call *%rax; ret");
    assert!(!function.constraints.iter().any(|c| matches!(c, Constraint::Escape { .. })));
}

#[test]
fn thunks_are_indirect_calls_through_any_register() {
    let f = || vec!["f".to_owned()];
    let body = "push %r12; lea f(%rip), %r12; call __x86_indirect_thunk_r12; pop %r12; ret";
    assert_eq!(callees(body), [f()]);
    assert_eq!(callees("lea f(%rip), %rax; jmp __x86_indirect_thunk_rax"), [f()]);
    assert_eq!(callees("lea f(%rip), %r11; call __llvm_retpoline_r11; ret"), [f()]);
    // The effect of this routine is unknown.
    assert_eq!(
        callees("lea f(%rip), %rax; jmp __x86_indirect_thunk"),
        [vec!["__x86_indirect_thunk".to_owned()]]
    );
}

#[test]
fn an_executable_stack_lets_frames_escape() {
    let body =
        "sub $24, %rsp; lea f(%rip), %rax; mov %rax, 2(%rsp); mov %rsp, %rdi; call g; add $24, %rsp; ret";
    let text = |note: &str| {
        format!(
            ".text\n.globl t\n.type t, @function\nt:\n.cfi_startproc\n{body}\n.cfi_endproc\n.size t, .-t\n\
             .section .note.GNU-stack,\"{note}\",@progbits\n"
        )
    };
    let escapes = |note: &str| {
        let summary = summaries::extract::extract(&assembled(&text(note)), Granularity::Pointers);
        summary.functions[0].constraints.iter().any(|c| matches!(c, Constraint::Escape { .. }))
    };
    assert!(escapes("x") && !escapes(""));
}

#[test]
fn handlers_are_entered_from_calls() {
    let body = ".cfi_personality 3, p; .cfi_lsda 3, .Ltable; push %rbx; lea f(%rip), %rbx; call g; pop %rbx; ret; \
                call *%rbx; ud2; .section .gcc_except_table,\"a\"; .Ltable: .byte 255, 255, 1, 4, 0, 13, 15, 0; .text";
    assert_eq!(callees(body).last(), Some(&vec!["f".to_owned()]));
}

#[test]
fn paths_join() {
    let body = "lea f(%rip), %rax; test %edi, %edi; je 1f; lea g(%rip), %rax; 1: call *%rax; ret";
    assert_eq!(callees(body), [["f", "g"]]);
    let body = "xor %ecx, %ecx; lea f(%rip), %rax; 1: add $8, %rax; dec %edi; jne 1b; call *%rax; ret";
    assert_eq!(callees(body), [["f"]]);
    // A register that was pushed is the function's own, so that a path on which nothing sets it can't be gone to the call; whichever is walked first.
    let body = "push %rbx; test %edi, %edi; jne 1f; lea f(%rip), %rbx; 1: test %edi, %edi; jne 2f; call *%rbx; \
                2: pop %rbx; ret";
    assert_eq!(callees(body), [["f"]]);
    let body = "push %rbx; test %edi, %edi; je 3f; 1: test %edi, %edi; jne 2f; call *%rbx; 2: pop %rbx; ret; \
                3: lea f(%rip), %rbx; jmp 1b";
    assert_eq!(callees(body), [["f"]]);
    // One that was not pushed may be an argument.
    assert!(takes_registers("test %edi, %edi; jne 1f; lea f(%rip), %r12; 1: call *%r12; ret"));
}

/// Whether the function is not understood, as one that takes arguments in any register; else it must have a summary.
pub(crate) fn takes_registers(body: &str) -> bool {
    let summary = module(body);
    let marked = summary.atoms.iter().any(|a| a.has(summaries::atom_flags::TAKES_REGISTERS));
    assert_eq!(marked, summary.functions.is_empty(), "{body}: {:?}", summary.limits);
    marked
}

#[test]
fn jumps_that_are_calls() {
    assert_eq!(callees("lea f(%rip), %rax; jmp *%rax"), [["f"]]);
    assert_eq!(callees("lea f(%rip), %rax; mov %rax, -8(%rsp); mov -8(%rsp), %rcx; jmp *%rcx"), [["f"]]);
}

#[test]
fn what_is_not_modelled_has_no_summary() {
    for [body] in cases("what_is_not_modelled_has_no_summary") {
        let summary = module(body);
        assert!(summary.functions.is_empty(), "{body}");
        assert!(summary.limits.iter().any(|l| l.limit == Limit::NotPsabi), "{body}: {:?}", summary.limits);
    }
}

#[test]
fn what_the_caller_left_is_not_put_into_the_frame_for_good() {
    for [body] in cases("what_the_caller_left_is_not_put_into_the_frame_for_good") {
        assert!(takes_registers(body), "{body}");
    }
    for [body] in cases("what_the_caller_left_is_not_put_into_the_frame_for_good_not") {
        assert!(!takes_registers(body), "{body}");
    }
}

/// `swiftcall` passes a context in r13, `preserve_none` arguments in r12 to r15, `regcall` in rax, OCaml in rbx.
#[test]
fn what_the_caller_left_is_used_on_some_path() {
    for [body] in cases("what_the_caller_left_is_used_on_some_path") {
        assert!(takes_registers(body), "{body}");
    }
    for [body] in cases("what_the_caller_left_is_used_on_some_path_not") {
        assert!(!takes_registers(body), "{body}");
    }
}

/// The function is refused for another reason.
#[test]
fn who_may_take_arguments_in_any_register_is_marked() {
    let marked = |body: &str| {
        let summary = module(body);
        assert!(summary.functions.is_empty(), "{body}: {:?}", summary.functions);
        summary.atoms.iter().any(|a| a.has(summaries::atom_flags::TAKES_REGISTERS))
    };
    for [body] in cases("who_may_take_arguments_in_any_register_is_marked") {
        assert!(marked(body), "{body}");
    }
    for body in [
        "std; jmp *%rdi",
        "std; mov %rsp, %r14; ret",
        "std; push %r12; mov %rdi, %r12; call g; pop %r12; ret",
        "mov %rbx, (%rdi); mov %r12, 8(%rdi); mov %r13, 16(%rdi); mov %r14, 24(%rdi); mov %r15, 32(%rdi); xor %eax, %eax; ret",
        "std; mov %r13, -16(%rsp); mov %rdi, %r13; call g; mov -16(%rsp), %r13; ret",
    ] {
        assert!(!marked(body), "{body}");
    }
}

#[test]
fn a_return_on_another_stack_is_not_understood() {
    // Coroutines and contexts: the code jumps to the top of another stack, without a visible call.
    for [body] in cases("a_return_on_another_stack_is_not_understood") {
        let summary = module(body);
        assert!(summary.functions.is_empty(), "{body}: {:?}", summary.functions);
        assert!(summary.limits.iter().any(|l| l.limit == Limit::NotPsabi), "{body}: {:?}", summary.limits);
    }
    for body in [
        "push %rbp; mov %rsp, %rbp; and $-32, %rsp; sub $64, %rsp; leave; ret",
        "lea 8(%rsp), %r10; and $-32, %rsp; push -8(%r10); push %rbp; mov %rsp, %rbp; push %r10; sub $40, %rsp; call g; \
         add $40, %rsp; pop %r10; pop %rbp; lea -8(%r10), %rsp; ret",
        "push %rbp; mov %rsp, %rbp; sub $16, %rsp; mov %rsp, -8(%rbp); sub %rdi, %rsp; mov %rsp, %rdi; call g; \
         mov -8(%rbp), %rsp; leave; ret",
    ] {
        function(body);
    }
}

#[test]
fn calls_of_places_inside_are_not_understood() {
    let body = "xor %eax, %eax; call 1f; call *%rax; ret; 1: lea f(%rip), %rax; ret";
    assert_eq!(module(body).functions, []);
}

/// A jump from the end of a function back to a place that was reached before brings a value, and no other news.
#[test]
fn late_edges_bring_their_values() {
    let body = "push %rbx; jmp 2f; 1: call *%rbx; pop %rbx; ret; 2: lea f(%rip), %rax; test %edi, %edi; jne 4f; \
                3: mov %rax, %rbx; jmp 1b; 4: lea g(%rip), %rax; jmp 3b";
    let (summary, function) = function(body);
    let called = function.call_sites.iter().find_map(|site| match site.callee {
        Callee::Indirect(value) => Some(value),
        Callee::Direct { .. } => None,
    });
    let both = BTreeSet::from(["f".to_owned(), "g".to_owned()]);
    assert_eq!(held(&summary, &function, called.expect("an indirect call")), both, "{function:#?}");
}
