//! Constants of native code: what calls need and pass, which accesses are direct, and what is not told.

use crate::compilers::assembled;
use summaries::constant::{FunctionConstants, Integer};
use summaries::relation::Callee;
use summaries::{Granularity, Limit, ModuleSummary, Target, text};

/// A module with one function `t` of these instructions, and objects of data.
fn module(body: &str) -> ModuleSummary {
    let text = format!(
        ".text\n.globl t\n.type t, @function\nt:\n.cfi_startproc\n{body}\n.cfi_endproc\n.size t, .-t\n\
         .data\n.globl v\n.type v, @object\n.size v, 4\nv: .long 5\n\
         .globl p\n.type p, @object\n.size p, 8\np: .quad t\n\
         .section .note.GNU-stack,\"\",@progbits\n"
    );
    let summary = summaries::extract::extract(&assembled(&text), Granularity::Constants);
    assert_eq!(summary.check(), Ok(()));
    assert!(!summary.functions.is_empty(), "{body}: {:?}", summary.limits);
    summary
}

fn constants(body: &str) -> (ModuleSummary, FunctionConstants) {
    let summary = module(body);
    let constants = summary.constants.first().cloned();
    let constants = constants.unwrap_or_else(|| panic!("nothing is told: {body}: {:?}", summary.limits));
    (summary, constants)
}

/// The lines of the text form below `constants` that begin so, without what says where calls are.
fn lines(summary: &ModuleSummary, first: &str) -> Vec<String> {
    let dump = text::dump(summary);
    let own = dump.lines().skip_while(|l| !l.starts_with("constants "));
    own.filter_map(|l| l.trim().strip_prefix(first)).map(|l| l.trim().to_owned()).collect()
}

/// What the last call of `g` needs: the conditions, each with the way that it must go.
fn needs(body: &str) -> Vec<String> {
    let (summary, constants) = constants(body);
    let all = lines(&summary, "condition ");
    let pass = pass_of(&summary, &constants);
    let needs = pass.map(|p| p.needs.clone()).unwrap_or_default();
    let shown = |n: &summaries::constant::Outcome| {
        format!("{} {}", if n.holds { "if" } else { "unless" }, all[n.condition as usize])
    };
    needs.iter().map(shown).collect()
}

fn pass_of<'c>(summary: &ModuleSummary, of: &'c FunctionConstants) -> Option<&'c summaries::constant::Pass> {
    let function = &summary.functions[0];
    let calls = |callee: &Callee| matches!(callee, Callee::Direct { target: Target::Symbol(s), .. } if summary.symbol_name(*s) == b"g");
    let site =
        function.call_sites.iter().rfind(|s| calls(&s.callee)).unwrap_or_else(|| panic!("no call of g"));
    of.pass(site.section, site.offset)
}

/// What the last call of `g` passes in rdi and rsi.
fn passed(body: &str) -> [Option<Integer>; 2] {
    let (summary, constants) = constants(body);
    let actuals = pass_of(&summary, &constants).map(|p| p.actuals.clone()).unwrap_or_default();
    [7, 6].map(|r| actuals.iter().find(|a| a.0 == r).map(|a| a.1))
}

/// `if (TEST) g();` in a frame that is aligned.
fn guarded(test: &str) -> String {
    format!("push %rbx; {test} 1f; call g; 1: pop %rbx; ret")
}

#[test]
fn tests_of_parameters() {
    for (test, condition) in [
        ("test %edi, %edi; je", "unless rdi bytes 4 over 4 equal 0x0"),
        ("test %rdi, %rdi; jne", "if rdi bytes 8 over 8 equal 0x0"),
        ("test %sil, %sil; je", "unless rsi bytes 1 over 1 equal 0x0"),
        ("cmp $3, %edx; jne", "if rdx bytes 4 over 4 equal 0x3"),
        ("cmp $-1, %ecx; jle", "unless rcx bytes 4 over 4 less-or-equal 0xffffffff"),
        ("cmpw $7, %r8w; ja", "if r8 bytes 2 over 2 below-or-equal 0x7"),
        ("cmp $7, %r9d; jb", "unless r9 bytes 4 over 4 below 0x7"),
        ("test %edi, %edi; js", "unless rdi bytes 4 over 4 negative 0x0"),
        ("testb $4, %dil; je", "unless rdi bytes 1 mask 0x4 over 1 equal 0x0"),
        ("and $6, %edi; jne", "if rdi bytes 4 mask 0x6 over 4 equal 0x0"),
        ("movzbl %dil, %eax; cmp $9, %eax; jl", "unless rdi bytes 1 over 4 less 0x9"),
        ("movsbl %dil, %eax; test %eax, %eax; jge", "if rdi bytes 1 signed 4 over 4 less 0x0"),
        (
            "movslq %edi, %rax; cmp $-2, %rax; je",
            "unless rdi bytes 4 signed 8 over 8 equal 0xfffffffffffffffe",
        ),
        ("mov %edi, %ebx; mov %ebx, %eax; test %eax, %eax; je", "unless rdi bytes 4 over 4 equal 0x0"),
        ("mov %edi, -4(%rsp); cmpl $1, -4(%rsp); je", "unless rdi bytes 4 over 4 equal 0x1"),
        (
            "mov %rdi, -8(%rsp); mov -8(%rsp), %eax; test %eax, %eax; je",
            "unless rdi bytes 4 over 4 equal 0x0",
        ),
        ("mov %edi, %ebx; call h; test %ebx, %ebx; je", "unless rdi bytes 4 over 4 equal 0x0"),
        ("mov $2, %eax; cmp %eax, %edi; je", "unless rdi bytes 4 over 4 equal 0x2"),
    ] {
        assert_eq!(needs(&guarded(test)), [condition], "{test}");
    }
}

#[test]
fn what_is_no_test_of_a_parameter() {
    for test in [
        // Written before, in whole or in part.
        "mov $1, %dil; test %edi, %edi; je",
        "cmove %esi, %edi; test %edi, %edi; je",
        "add %esi, %edi; test %edi, %edi; je",
        "inc %edi; test %edi, %edi; je",
        "call h; test %edi, %edi; je",
        "mov %rdi, %rax; syscall; test %eax, %eax; je",
        // Only its lowest byte is known.
        "movb %dil, %al; test %eax, %eax; je",
        "test %esi, %edi; je",
        "cmp %esi, %edi; je",
        "cmp $g, %edi; je",
        // Other flags, or those of something behind it.
        "test %edi, %edi; jp",
        "cmp $1, %edi; jo",
        "test %edi, %edi; add $1, %esi; je",
        "test %edi, %edi; call h; je",
        // Not a register of an argument.
        "test %r10d, %r10d; je",
        "movzbl %bh, %eax; test %eax, %eax; je",
        // The frame is stored to twice, or through an index, or its address goes elsewhere.
        "mov %edi, -4(%rsp); mov %esi, -4(%rsp); cmpl $1, -4(%rsp); je",
        "mov %edi, -4(%rsp); movb $0, -2(%rsp); cmpl $1, -4(%rsp); je",
        "mov %edi, -4(%rsp); movl $1, -64(%rsp,%rsi,4); cmpl $1, -4(%rsp); je",
        "mov %edi, -4(%rsp); lea -4(%rsp), %rax; mov %rax, v(%rip); cmpl $1, -4(%rsp); je",
        "mov %edi, -4(%rsp); mov %rsp, %rax; movl $0, -4(%rax); cmpl $1, -4(%rsp); je",
        "mov %edi, -4(%rsp); call h; cmpl $1, -4(%rsp); je",
        "mov %edi, -4(%rsp); incl -4(%rsp); cmpl $1, -4(%rsp); je",
        "mov %edi, -4(%rsp); cmpq $1, -4(%rsp); je",
    ] {
        assert_eq!(needs(&guarded(test)), Vec::<String>::new(), "{test}");
    }
}

#[test]
fn a_call_needs_what_every_path_to_it_has_passed() {
    let zero = "if rdi bytes 4 over 4 equal 0x0";
    // Two tests, one behind the other.
    let both = "push %rbx; test %edi, %edi; jne 1f; cmp $2, %esi; je 1f; call g; 1: pop %rbx; ret";
    assert_eq!(needs(both), ["unless rsi bytes 4 over 4 equal 0x2", zero]);
    // Either of two ways leads there.
    let either = "push %rbx; test %edi, %edi; je 2f; cmp $2, %esi; je 1f; 2: call g; 1: pop %rbx; ret";
    assert_eq!(needs(either), Vec::<String>::new());
    // Behind both arms.
    let join = "push %rbx; test %edi, %edi; je 1f; call h; 1: call g; pop %rbx; ret";
    assert_eq!(needs(join), Vec::<String>::new());
    // In a loop, and behind it.
    let in_loop = "push %rbx; mov %edi, %ebx; 1: test %ebx, %ebx; jne 2f; call g; jmp 1b; 2: pop %rbx; ret";
    assert_eq!(needs(in_loop), [zero]);
    // A jump out of the function needs its own test.
    assert_eq!(needs("test %edi, %edi; je g; ret"), [zero]);
    assert_eq!(needs("test %edi, %edi; jne 1f; jmp g; 1: ret"), [zero]);
    // Where both ways lead to one place nothing is needed.
    assert_eq!(needs("push %rbx; test %edi, %edi; je 1f; 1: call g; pop %rbx; ret"), Vec::<String>::new());
}

#[test]
fn other_ways_in() {
    // A label that is a value: whoever has it may come back there.
    let label = "push %rbx; test %edi, %edi; jne 1f; jmp 2f; nop; 2: call g; 1: pop %rbx; ret; .data; .quad 2b; .text";
    assert_eq!(needs(label), Vec::<String>::new());
    // Code that no jump leads to is entered from elsewhere, if it is not dead.
    let dead = "push %rbx; test %edi, %edi; jne 1f; 2: call g; 1: pop %rbx; ret; jmp 2b";
    assert_eq!(needs(dead), Vec::<String>::new());
    // A table of addresses may be anybody's; a relative one is that of the jump.
    let body = "push %rbx; test %edi, %edi; jne 1f; mov %esi, %esi;";
    let ends = "2: call h; 3: call g; 1: pop %rbx; ret; .section .rodata; .balign 8;";
    let table = format!("{body} notrack jmp *5f(,%rsi,8); {ends} 5: .quad 2b, 3b; .text");
    assert_eq!(needs(&table), Vec::<String>::new());
    let relative = format!(
        "{body} lea 5f(%rip), %rax; movslq (%rax,%rsi,4), %rcx; add %rax, %rcx; notrack jmp *%rcx; {ends} 5: .long 2b-5b, 3b-5b; .text"
    );
    assert_eq!(needs(&relative), ["if rdi bytes 4 over 4 equal 0x0"]);
}

#[test]
fn handlers_of_exceptions_take_all_needs_away() {
    let text = ".text\n.globl t\n.type t, @function\nt:\n.cfi_startproc\n.cfi_personality 0x9b, DW.ref.q\n.cfi_lsda 0x1b, lsda\n\
                push %rbx; test %edi, %edi; je 1f; mov $3, %edi; call g; 1: pop %rbx; ret\n.cfi_endproc\n.size t, .-t\n\
                .section .gcc_except_table,\"a\",@progbits\nlsda: .byte 0xff, 0xff, 1, 0\n\
                .section .note.GNU-stack,\"\",@progbits\n";
    let summary = summaries::extract::extract(&assembled(text), Granularity::Constants);
    let of = summary.constants.first().unwrap();
    let pass = pass_of(&summary, of).unwrap();
    assert_eq!((pass.needs.len(), pass.actuals.clone()), (0, vec![(7, Integer::Constant(3))]));
}

#[test]
fn what_is_passed() {
    let constant = |n| Some(Integer::Constant(n));
    let call = |before: &str| format!("push %rbx; {before}; call g; pop %rbx; ret");
    assert_eq!(passed(&call("mov $5, %edi; xor %esi, %esi")), [constant(5), constant(0)]);
    assert_eq!(passed(&call("mov $-1, %rdi; mov $-1, %esi")), [constant(u64::MAX), constant(0xffff_ffff)]);
    assert_eq!(passed(&call("mov $g, %edi; lea g(%rip), %rsi")), [None, None]);
    // Of a register that is written in part only that part is known.
    assert_eq!(passed(&call("mov $5, %dil; mov $1, %si")), [None, None]);
    assert_eq!(passed(&call("mov $5, %edi; movb $1, %dil; mov $1, %esi")), [None, constant(1)]);
    // On one path 1, on the other 2; 3 on both.
    let paths = "push %rbx; cmp %eax, %ebx; mov $3, %esi; mov $1, %edi; je 1f; mov $2, %edi; 1: call g; pop %rbx; ret";
    assert_eq!(passed(paths), [None, constant(3)]);
    // The kernel's result is in rax.
    assert_eq!(passed(&call("mov $39, %eax; syscall; mov %eax, %edi")), [None, None]);
    // Behind a call nothing is left.
    assert_eq!(passed(&call("mov $5, %edi; call h")), [None, None]);
    let (summary, _) = constants(&call("mov %edi, %esi; movl v(%rip), %edi"));
    let line = lines(&summary, "pass").pop().unwrap();
    assert!(line.contains(" rsi rdi bytes 4 rdi memory v +0 size 4 bytes 4 "), "{line}");
}

#[test]
fn accesses_of_memory() {
    let (summary, of) = constants(
        "push %rbx; test %edi, %edi; jne 1f; movl $7, v(%rip); 1: cmpl $0, v(%rip); je 2f; call g; 2: mov %esi, v(%rip); \
         movw $1, v+2(%rip); addl $1, v(%rip); movups %xmm0, v(%rip); pop %rbx; ret",
    );
    assert_eq!(lines(&summary, "get"), ["v +0 size 4"]);
    let puts = [
        "v +0 size 4 = anything",
        "v +0 size 4 = constant 0x7 if 1",
        "v +0 size 16 = anything",
        "v +2 size 2 = constant 0x1",
    ];
    let mut found = lines(&summary, "put");
    found.sort();
    let mut expected = puts.map(str::to_owned);
    expected.sort();
    assert_eq!(found, expected);
    assert_eq!(of.direct.len(), 6);
    assert_eq!(
        needs("push %rbx; cmpl $0, v(%rip); je 2f; call g; 2: pop %rbx; ret"),
        ["unless memory v +0 size 4 bytes 4 over 4 equal 0x0"]
    );
    // What the object holds in the beginning; p holds an address.
    assert_eq!(summary.contents.iter().map(|c| c.bytes.clone()).collect::<Vec<_>>(), [vec![5, 0, 0, 0]]);
}

#[test]
fn what_is_no_direct_access() {
    for body in [
        "lea v(%rip), %rax; movl $1, (%rax); ret",
        "mov $v, %eax; movl $1, (%rax); ret",
        "mov v(,%rdi,4), %eax; ret",
        "mov %esi, v(%rdi); ret",
        "btl %edi, v(%rip); ret",
        "prefetcht0 v(%rip); ret",
        "movl $v, v(%rip); ret",
        "rep movsb; mov $v, %eax; ret",
        // From the offset table, and then elsewhere.
        "mov v@GOTPCREL(%rip), %rax; ret",
        "mov v@GOTPCREL(%rip), %rdi; jmp g",
        "mov v@GOTPCREL(%rip), %rdi; push %rbx; call g; pop %rbx; ret",
        "mov v@GOTPCREL(%rip), %rax; mov %rax, p(%rip); xor %eax, %eax; ret",
        "mov v@GOTPCREL(%rip), %rax; add $4, %rax; movl $1, (%rax); xor %eax, %eax; ret",
        "mov v@GOTPCREL(%rip), %rax; movl $1, (%rax,%rdi,4); xor %eax, %eax; ret",
        "mov v@GOTPCREL(%rip), %rax; push %rax; pop %rcx; movl $1, (%rcx); xor %eax, %eax; xor %ecx, %ecx; ret",
        "cmp %rdi, v@GOTPCREL(%rip); ret",
        "push v@GOTPCREL(%rip); pop %rax; movl $1, (%rax); xor %eax, %eax; ret",
        "mov v@GOTPCREL(%rip), %rax; cmp %esi, %edi; je 1f; xor %eax, %eax; 1: movl $1, (%rax); xor %eax, %eax; ret",
        "mov v@GOTPCREL(%rip), %rax; rep stosb; ret",
        "mov v@GOTPCREL(%rip), %rdi; rep stosb; xor %edi, %edi; ret",
    ] {
        let (summary, of) = constants(body);
        let refers: Vec<u64> = summary
            .references
            .iter()
            .filter(|r| matches!(r.target, Target::Symbol(s) if summary.symbol_name(s) == b"v"))
            .filter(|r| !of.direct.contains(&(1, r.offset)))
            .map(|r| r.offset)
            .collect();
        assert!(!refers.is_empty(), "{body}");
    }
    // Loaded from the offset table and accessed, and that is all.
    let (summary, of) = constants("mov v@GOTPCREL(%rip), %rax; movl $1, (%rax); mov (%rax), %eax; ret");
    assert_eq!((of.direct.len(), lines(&summary, "put")), (1, vec!["v +0 size 4 = constant 0x1".to_owned()]));
}

#[test]
fn what_is_given_up_is_a_limit() {
    let limits = |body: &str| module(body).limits.iter().map(|l| l.limit).collect::<Vec<_>>();
    assert_eq!(limits("test %edi, %edi; ret"), []);
    let frame = "mov %edi, -4(%rsp); lea -64(%rsp), %rdi; jmp g";
    assert_eq!(limits(frame), [Limit::UnmodelledConstants]);
    // It writes where its return address lies.
    assert_eq!(limits("push %rbx; mov %rsi, 8(%rsp); pop %rbx; ret"), [Limit::UnmodelledConstants]);
    let many: String = (0..300).map(|n| format!("cmp ${n}, %edi; je 9f;")).collect();
    let many = format!("push %rbx; {many} call g; 9: pop %rbx; ret");
    assert_eq!((limits(&many), needs(&many)), (vec![Limit::UnmodelledConstants], vec![]));
}

#[test]
fn damage_breaks_no_invariant() {
    let text = ".text\n.globl t\n.type t, @function\nt:\n.cfi_startproc\npush %rbp; mov %rsp, %rbp; sub $16, %rsp; mov %edi, -4(%rbp)\n\
                cmpl $1, -4(%rbp); je 1f; mov $3, %edi; call g; 1: cmpl $0, v(%rip); je 2f; movl $4, v(%rip); 2: leave; ret\n\
                .cfi_endproc\n.size t, .-t\n.data\n.globl v\n.type v, @object\n.size v, 4\nv: .long 5\n";
    let bytes = assembled(text);
    for at in 0..bytes.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] ^= flip;
            let summary = summaries::extract::extract(&damaged, Granularity::Constants);
            assert_eq!(summary.check(), Ok(()), "byte {at:#x} ^ {flip:#x}");
        }
    }
}
