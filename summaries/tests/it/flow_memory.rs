//! Value flow of native code, further: memory at numbers, the guard of the stack, barriers, string instructions, callees that never return.

use std::collections::BTreeSet;

use crate::compilers::{assembled, cases};
use crate::flow::{callees, function, held, module};
use summaries::ids::ValueIdx;
use summaries::relation::{CallSite, Callee, Constraint};
use summaries::{Granularity, Limit, ModuleSummary, Target};

/// A call that maps memory does not choose the address if a constant on every path to the call leaves it open.
#[test]
fn who_chooses_where_memory_is() {
    let chooses = |body: &str| {
        let summary = module(body);
        summary.limits.iter().filter(|l| l.limit == Limit::FixedMapping).count()
    };
    for [count, body] in cases("who_chooses_where_memory_is") {
        assert_eq!(chooses(body).to_string(), count, "{body}");
    }
}

/// Memory at a constant address is not tracked: a stored value escapes, and a loaded value is unknown. The null page holds no value.
#[test]
fn memory_at_a_number() {
    let constraints = |body: &str| function(body).1.constraints;
    let escapes = |body: &str| constraints(body).iter().any(|c| matches!(c, Constraint::Escape { .. }));
    let unknown = |body: &str| constraints(body).iter().any(|c| matches!(c, Constraint::Unknown { .. }));
    assert!(escapes("leaq g(%rip), %rax\nmovabsq $0x100000000, %rcx\nmovq %rax, 8(%rcx)\nret"));
    assert!(escapes("leaq g(%rip), %rax\nmovq %rax, 0x20000000\nret"));
    assert!(!escapes("leaq g(%rip), %rax\nmovq %rax, 8\nret"));
    assert!(escapes("leaq g(%rip), %rsi\nmovl $0x20000000, %edi\nmovsq\nret"));
    assert!(unknown("leaq g(%rip), %rdi\nmovl $0x20000000, %esi\nmovsq\nret"));
    assert!(unknown("movl $0x20000000, %ecx\nmovq 8(%rcx), %rax\nret"));
    assert!(unknown("movq 0x20000000, %rax\nret"));
    assert!(!unknown("movq 0x20, %rax\nret"));
    assert!(!unknown("movzbl -1, %eax\nret"));
}

/// The stack guard is a number. Every other field of the thread control block is unknown.
#[test]
fn the_guard_of_the_stack() {
    let unknown = |body: &str| {
        let constraints = function(body).1.constraints;
        constraints.iter().any(|c| matches!(c, Constraint::Unknown { .. }))
    };
    assert!(!unknown("movq %fs:0x28, %rax\nret"));
    assert!(!unknown("movq $0, %rax\nxorq %fs:0x28, %rax\nret"));
    for body in [
        "movq %fs:0x30, %rax\nret",
        "movq %fs:0, %rax\nret",
        "movq %gs:0x28, %rax\nret",
        "movq %fs:0x28(%rdi), %rax\nret",
        "movq %fs:v@tpoff, %rax\nret",
    ] {
        assert!(unknown(body), "{body}");
    }
    let stored = function("movq %rdi, %fs:0x28\nret").1.constraints;
    assert!(stored.iter().any(|c| matches!(c, Constraint::Escape { .. })), "{stored:?}");
}

/// A barrier writes what was there: the function returns to its caller as before.
#[test]
fn barriers() {
    let sites = |body: &str| function(body).1.call_sites.len();
    assert_eq!(sites("lock orq $0, (%rsp)\nret"), 0);
    assert_eq!(sites("lock addl $0, (%rsp)\nret"), 0);
    assert_eq!(sites("xorq $0, (%rsp)\nret"), 0);
    // This may change where it returns to.
    let summary = module("lock orq $g, (%rsp)\nret");
    assert!(summary.limits.iter().any(|l| l.limit == Limit::NotPsabi), "{:?}", summary.limits);
}

/// `stos` stores what rax holds, and not where it stores it.
#[test]
fn string_stores() {
    let stored = |body: &str| {
        let (summary, function) = function(body);
        let mut names = BTreeSet::new();
        for constraint in &function.constraints {
            if let Constraint::Store { from, size, .. } = constraint {
                names.extend(held(&summary, &function, *from).into_iter().map(|n| (n, *size)));
            }
        }
        names
    };
    let one = |name: &str, size: u32| BTreeSet::from([(name.to_owned(), size)]);
    assert_eq!(stored("leaq g(%rip), %rdi\nxorl %eax, %eax\nmovl $8, %ecx\nrep stosq\nret"), BTreeSet::new());
    assert_eq!(stored("leaq g(%rip), %rdi\nleaq h(%rip), %rax\nmovl $8, %ecx\nrep stosq\nret"), one("h", 64));
    assert_eq!(stored("leaq g(%rip), %rdi\nleaq h(%rip), %rax\nstosq\nret"), one("h", 8));
    // In the frame: what is read there may be it, wherever.
    let own = "subq $88, %rsp\nmovq %rsp, %rdi\nleaq h(%rip), %rax\nmovl %esi, %ecx\nrep stosq\ncall *24(%rsp)\nud2";
    let (summary, function) = function(own);
    let callee = function.call_sites.iter().find_map(|s| match s.callee {
        Callee::Indirect(value) => Some(value),
        Callee::Direct { .. } => None,
    });
    let callee = callee.expect("a call of what was stored");
    let frames: Vec<ValueIdx> = function
        .constraints
        .iter()
        .filter_map(|c| match c {
            Constraint::Frame { to, .. } => Some(*to),
            _ => None,
        })
        .collect();
    let is_stored = function.constraints.iter().any(|c| {
        matches!(c, Constraint::Store { from, to, .. }
            if frames.contains(&to.value) && held(&summary, &function, *from).contains("h"))
    });
    let is_loaded = function.constraints.iter().any(
        |c| matches!(c, Constraint::Load { from, to, .. } if frames.contains(&from.value) && *to == callee),
    );
    assert!(is_stored && is_loaded, "{function:?}");
    // A known number of bytes, and an unknown one.
    let written = |count: &str| {
        let body = format!(
            "subq $88, %rsp\nmovq %rsp, %rdi\nleaq h(%rip), %rax\n{count}rep stosq\ncall *24(%rsp)\nud2"
        );
        let stores = self::function(&body).1.constraints.into_iter().filter_map(|c| match c {
            Constraint::Store { size, .. } => Some(size),
            _ => None,
        });
        stores.collect::<Vec<_>>()
    };
    assert_eq!(written("movl $4, %ecx\n"), [32]);
    assert_eq!(written("movl $4, %ecx\nmovb $1, %cl\n"), [0]);
    assert_eq!(written("movl $4, %ecx\ntestl %esi, %esi\nje 1f\nmovl $4, %ecx\n1:"), [32]);
    assert_eq!(written("movl $4, %ecx\ntestl %esi, %esi\nje 1f\nmovl $5, %ecx\n1:"), [0]);
    // Zeros over the return address lead nowhere.
    let zeros =
        "subq $88, %rsp\nmovq %rsp, %rdi\nxorl %eax, %eax\nmovl $8, %ecx\nrep stosq\naddq $88, %rsp\nret";
    assert_eq!(self::function(zeros).1.call_sites.len(), 0);
}

/// Behind a callee that never returns, padding may stand before code that others reach with another frame.
#[test]
fn padding_behind_what_never_returns() {
    let body = "testl %esi, %esi\njne 2f\nsubq $8, %rsp\ntestl %edi, %edi\njne 1f\ncall f\nnop\n\
                1: call g\nnopl (%rax)\n2: jmp h";
    assert_eq!(callees(body), [vec!["f"], vec!["g"], vec!["h"]]);
    // With the same frame it may as well return.
    let body = "leaq g(%rip), %rbx\ntestl %esi, %esi\njne 2f\nleaq h(%rip), %rbx\ncall f\nnopl (%rax)\n2: call *%rbx\nud2";
    assert_eq!(callees(body), [vec!["f"], vec!["g", "h"]]);
}

/// A debugger, or a handler, goes on behind `int3`; after `std` string instructions go down.
#[test]
fn what_goes_on_and_what_goes_down() {
    assert_eq!(callees("int3\ncall f\nret"), [vec!["f"]]);
    let summary = module("std\nmovl $8, %ecx\nrep movsq\ncld\nret");
    assert!(summary.limits.iter().any(|l| l.limit == Limit::NotPsabi), "{:?}", summary.limits);
}

/// `ud2` and `hlt` end the program: values don't pass them, and code behind them runs only if another path leads there.
#[test]
fn instructions_that_end_the_program() {
    for end in ["ud2", "hlt"] {
        // Code that no path leads to may have an unknown entry, so that its function is not analysed.
        let unreached = module(&format!("{end}\ncall f\nret"));
        assert!(unreached.limits.iter().any(|l| l.limit == Limit::NotPsabi), "{:?}", unreached.limits);
        assert_eq!(callees(&format!("testl %edi, %edi\njne 1f\n{end}\n1: call f\nret")), [["f"]], "{end}");
    }
    for (between, expected) in [("ud2", vec!["g"]), ("hlt", vec!["g"]), ("nop", vec!["g", "h"])] {
        let start = "leaq g(%rip), %rbx\ntestl %edi, %edi\njne 1f\nleaq h(%rip), %rbx";
        assert_eq!(callees(&format!("{start}\n{between}\n1: call *%rbx\nud2")), [expected], "{between}");
    }
    // A function with another privileged instruction is not analysed.
    let summary = module("cli\ncall f\nret");
    assert!(summary.limits.iter().any(|l| l.limit == Limit::NotPsabi), "{:?}", summary.limits);
}

/// A number that is stored over some bytes of an address leaves the address where it was, for calls and as an argument.
#[test]
fn numbers_over_parts_of_addresses() {
    let stored = "subq $24, %rsp\nleaq f(%rip), %rax\nmovq %rax, 8(%rsp)";
    let pointed = "subq $24, %rsp\nleaq f(%rip), %rax\nmovq %rax, (%rdi)";
    for (width, offsets) in [("b", 0..8), ("w", 0..7), ("l", 0..5)] {
        for offset in offsets {
            let over = format!("{stored}\nmov{width} $7, {}(%rsp)", offset + 8);
            assert_eq!(callees(&format!("{over}\ncall *8(%rsp)\nud2")), [["f"]], "{over}");
            let over = format!("{pointed}\nmov{width} $7, {offset}(%rdi)");
            assert_eq!(callees(&format!("{over}\ncall *(%rdi)\nud2")), [["f"]], "{over}");
            let (summary, function) = function(&format!(
                "{stored}\nmov{width} $7, {}(%rsp)\nmovq 8(%rsp), %rdi\ncall h\nud2",
                offset + 8
            ));
            let actuals = function.call_sites.iter().flat_map(|site| &site.actuals);
            let passed: BTreeSet<String> =
                actuals.flat_map(|(_, value)| held(&summary, &function, *value)).collect();
            assert!(passed.contains("f"), "{over}: {function:?}");
        }
    }
}

/// A function whose frame depth is unknown behind calls that never return is not analysed, unless another path gives the depth.
#[test]
fn who_returns_is_told_by_others_or_not_at_all() {
    // At 2 the frame is that of `g`, which is followed first since nothing else leads there.
    let (summary, function) = function(
        "testl %edi, %edi\nje 1f\ncall f\n2: addq $16, %rsp\nret\n1: pushq $0\npushq $0\ncall g\njmp 2b",
    );
    let returns = |name: &str| {
        let is_call = |c: &Callee| matches!(c, Callee::Direct { target: Target::Symbol(s), .. } if summary.symbol_name(*s) == name.as_bytes());
        let site = function.call_sites.iter().find(|s| is_call(&s.callee));
        !site.unwrap_or_else(|| panic!("no call of {name}")).results.is_empty()
    };
    assert_eq!((returns("f"), returns("g")), (false, true));
    // With a frame pointer two depths may meet.
    let body = "pushq %rbp\nmovq %rsp, %rbp\nleaq g(%rip), %rbx\ntestl %edi, %edi\nje 1f\nleaq h(%rip), %rbx\n\
                pushq $0\npushq $0\ncall y\n1: call *%rbx\nud2";
    assert_eq!(callees(body).last().map(Vec::len), Some(2));
    // `die` stands before a place that only a later one leads to, with another frame, and that leads on to where `y` returns.
    let body = "testl %edi, %edi\njne 1f\nsubq $8, %rsp\npushq $0\npushq $0\ncall die\n3: call z\njmp 2f\n\
                1: subq $8, %rsp\ncall y\n2: movq %rax, %rbx\ncall *%rbx\ncmpl $9, %eax\njg 3b\nud2";
    let summary = module(body);
    assert!(summary.functions.is_empty(), "{:?}", summary.functions);
    assert!(summary.limits.iter().any(|l| l.limit == Limit::NotPsabi), "{:?}", summary.limits);
}

/// Code at a constant address is unknown, and gets the arguments.
#[test]
fn calls_of_numbers() {
    for body in [
        "leaq g(%rip), %rdi\nmovabsq $0x200000000, %rax\ncall *%rax\nret",
        "leaq g(%rip), %rdi\nmovabsq $0x200000000, %rax\njmp *%rax",
    ] {
        let (summary, function) = function(body);
        let site = function.call_sites.iter().find(|s| matches!(s.callee, Callee::Indirect(_)));
        let site = site.unwrap_or_else(|| panic!("{body}: {function:?}"));
        let Callee::Indirect(callee) = site.callee else { unreachable!() };
        assert!(function.constraints.contains(&Constraint::Unknown { to: callee }), "{body}: {function:?}");
        assert!(site.actuals.iter().any(|(_, v)| held(&summary, &function, *v).contains("g")), "{body}");
    }
}

/// An index adds an unknown offset to an address.
#[test]
fn indices() {
    let places = |body: &str| {
        let loads = function(body).1.constraints.into_iter().filter_map(|c| match c {
            Constraint::Load { from, .. } => Some(from.offset),
            _ => None,
        });
        loads.collect::<Vec<_>>()
    };
    assert_eq!(places("leaq g(%rip), %rax\nmovq 8(%rax), %rax\nret"), [Some(8)]);
    // Bytes of the address change places, or are replaced.
    let displaced = |c: &Constraint| matches!(c, Constraint::Assign { offset: None, .. });
    for exchange in ["xchgb %ah, %al", "xchgw %ax, %cx", "cmovew %cx, %ax"] {
        let body = format!("leaq g(%rip), %rax\n{exchange}\nmovq 8(%rax), %rax\nret");
        assert!(function(&body).1.constraints.iter().any(displaced), "{exchange}");
    }
    // A constant index adds an unknown offset too.
    assert_eq!(places("leaq g(%rip), %rax\nmovl $3, %ecx\nmovq 8(%rax,%rcx,8), %rax\nret"), [None]);
}

/// The table of handlers says where from the start of the function; of another form, the function is not understood.
#[test]
fn tables_of_handlers() {
    let summary = |lsda: &str, table: &str| {
        let text = format!(
            ".text\n.globl s\n.type s, @function\ns:\n.cfi_startproc\nnop\nret\n.cfi_endproc\n.size s, .-s\n\
             .globl t\n.type t, @function\nt:\n.cfi_startproc\n.cfi_personality 3, p\n.cfi_lsda 3, {lsda}\n\
             push %rbx\nlea f(%rip), %rbx\ncall g\npop %rbx\nret\n2: call *%rbx\nud2\n.cfi_endproc\n.size t, .-t\n\
             .section .gcc_except_table,\"a\"\n{table}\n.section .note.GNU-stack,\"\",@progbits\n"
        );
        let summary = summaries::extract::extract(&assembled(&text), Granularity::Pointers);
        assert_eq!(summary.check(), Ok(()));
        summary
    };
    let sites = ".byte 255, 255, 1, 4, 0, 13, 2b - t, 0";
    let told = summary(".Ltable", &format!(".byte 0\n.Ltable: {sites}"));
    let has_pad = |s: &ModuleSummary| {
        s.functions.iter().any(|f| {
            f.call_sites
                .iter()
                .any(|c| matches!(c.callee, Callee::Indirect(v) if held(s, f, v).contains("f")))
        })
    };
    assert_eq!(told.limits, []);
    assert!(has_pad(&told), "{told:?}");
    // A second one in the same function.
    let twice = summary(
        ".Ltable\nnop\n.cfi_endproc\n.cfi_startproc\n.cfi_lsda 3, .Ltable",
        &format!(".Ltable: {sites}"),
    );
    assert!(twice.limits.iter().any(|l| l.limit == Limit::NotPsabi), "{twice:?}");
    // Two FDEs in one function: pads are counted from the second.
    let text = format!(
        ".text\n.globl t\n.type t, @function\nt:\n.cfi_startproc\nnop\n.cfi_endproc\n.cfi_startproc\n.cfi_personality 3, p\n.cfi_lsda 3, .Ltable\n\
         push %rbx\nlea f(%rip), %rbx\ncall g\npop %rbx\nret\n2: call *%rbx\nud2\n.cfi_endproc\n.size t, .-t\n\
         .section .gcc_except_table,\"a\"\n.byte 0\n.Ltable: {sites}\n.section .note.GNU-stack,\"\",@progbits\n"
    );
    let two = summaries::extract::extract(&assembled(&text), Granularity::Pointers);
    assert!(two.limits.iter().any(|l| l.limit == Limit::NotPsabi), "{two:?}");
    // By a symbol of its own, not at the start of the section.
    let named = summary("table", &format!(".byte 0\n.globl table\ntable: {sites}"));
    assert!(named.limits.iter().any(|l| l.limit == Limit::NotPsabi) || has_pad(&named), "{named:?}");
}

/// An addition to memory, or a mask, writes it; only adding zero does not.
#[test]
fn numbers_added_to_memory() {
    let stores = |body: &str| {
        let constraints = function(body).1.constraints;
        constraints.iter().filter(|c| matches!(c, Constraint::Store { .. })).count()
    };
    assert_eq!(stores("addq $0, (%rdi)\nret"), 0);
    for body in
        ["addq $8, (%rdi)\nret", "orq $1, (%rdi)\nret", "andq $-16, (%rdi)\nret", "subq $8, (%rdi)\nret"]
    {
        assert!(stores(body) > 0, "{body}");
    }
}

/// A string instruction adds an unknown offset to its addresses.
#[test]
fn string_instructions_move_on() {
    for body in ["rep movsq", "movsq", "rep stosq", "stosq"] {
        let (_, function) = function(&format!(
            "leaq g(%rip), %rdi\nleaq h(%rip), %rsi\nxorl %eax, %eax\n{body}\nmovq %rdx, (%rdi)\nret"
        ));
        let stored = function.constraints.iter().filter_map(|c| match c {
            Constraint::Store { from, to, .. } if function.parameters.contains(&(2, *from)) => Some(*to),
            _ => None,
        });
        let stored: Vec<_> = stored.collect();
        let moved = |value: ValueIdx| {
            let is_address = |c: &Constraint| matches!(c, Constraint::Address { to, .. } if *to == value);
            let is_moved =
                |c: &Constraint| matches!(c, Constraint::Assign { to, offset: None, .. } if *to == value);
            function.constraints.iter().any(is_moved) && !function.constraints.iter().any(is_address)
        };
        assert!(
            !stored.is_empty() && stored.iter().all(|p| p.offset.is_none() || moved(p.value)),
            "{body}: {function:#?}"
        );
    }
}

/// A loop right behind a call is gone to when the call returns.
#[test]
fn a_loop_behind_a_call() {
    let body = "subq $8, %rsp\ncall f\n1: call g\ntestl %eax, %eax\njne 1b\naddq $8, %rsp\nret";
    assert_eq!(callees(body), [vec!["f"], vec!["g"]]);
}

/// A landing pad in the middle of code that others go through: what was there at calls joins what is there, and the exception is in rax.
#[test]
fn landing_pads_that_others_lead_to() {
    let table = ".section .gcc_except_table,\"a\"; .Ltable: .byte 255, 255, 1, 4, 0, 13, 2b - t, 0; .text";
    let start = ".cfi_personality 3, p; .cfi_lsda 3, .Ltable; push %rbx";
    let body = format!(
        "{start}; lea f(%rip), %rbx; call g; lea h(%rip), %rbx; xorl %eax, %eax; 2: movq %rax, %rdi; call *%rbx; pop %rbx; ret; {table}"
    );
    let (summary, function) = function(&body);
    let site = function.call_sites.iter().find_map(|s| match s.callee {
        Callee::Indirect(value) => Some((value, s)),
        Callee::Direct { .. } => None,
    });
    let (callee, site) = site.expect("an indirect call");
    let both = BTreeSet::from(["f".to_owned(), "h".to_owned()]);
    assert_eq!(held(&summary, &function, callee), both, "{function:#?}");
    let passed = site.actuals.iter().find(|a| a.0 == 7).map(|a| a.1).expect("the exception is passed");
    let mut values = vec![passed];
    for _ in 0..8 {
        let into = |c: &Constraint| match c {
            Constraint::Assign { from, to, .. } if values.contains(to) => Some(*from),
            _ => None,
        };
        let more: Vec<ValueIdx> = function.constraints.iter().filter_map(into).collect();
        values.extend(more);
    }
    let unknown = |c: &Constraint| matches!(c, Constraint::Unknown { to } if values.contains(to));
    assert!(function.constraints.iter().any(unknown), "{function:#?}");
}

/// A register with a byte that the function wrote no longer has its value at entry.
#[test]
fn a_byte_of_a_register_is_written() {
    let is_followed = |write: &str| {
        let body = format!("pushq %r13\n{write}\ncall f\nmovl %r13d, %eax\npopq %r13\nret");
        module(&body).limits.iter().all(|l| l.limit != Limit::NotPsabi)
    };
    for write in ["sete %r13b", "setae %r13b", "movb $1, %r13b", "movw %ax, %r13w", "movl %eax, %r13d"] {
        assert!(is_followed(write), "{write}");
    }
    assert!(!is_followed("nop"));
}

/// A register that one function stores to its frame for good is not restored by another function.
#[test]
fn functions_that_stay_together_have_frames_of_their_own() {
    let function = |name: &str, body: &str| {
        format!(
            ".globl {name}\n.type {name}, @function\n{name}: .cfi_startproc\npushq %rbp\nmovq %rsp, %rbp\n\
             subq $16, %rsp\nmovq %r12, -8(%rbp)\n{body}\naddq $16, %rsp\npopq %rbp\nret\n.cfi_endproc\n.size {name}, .-{name}\n"
        )
    };
    let puts_back = function("b", "movq -8(%rbp), %r12");
    let kept = |functions: &str| {
        let text = format!(".text\n{functions}.section .debug_line,\"\",@progbits\n.byte 0\n");
        let summary = summaries::extract::extract(&assembled(&text), Granularity::Pointers);
        let limits = summary.limits.iter().filter(|l| l.limit == Limit::NotPsabi);
        limits.filter(|l| l.detail.contains("the caller's register")).count()
    };
    assert_eq!(kept(&puts_back), 0);
    assert_eq!(kept(&format!("{}{puts_back}", function("a", "call *-8(%rbp)"))), 1);
    assert_eq!(kept(&format!("{puts_back}{}", function("c", "call *-8(%rbp)"))), 1);
}

/// A caller may run the pieces in any order, or leave some to the analysis: the summary is the same.
#[test]
fn pieces_in_any_order() {
    let functions = (0..100).map(|i| {
        let body = if i % 7 == 0 { "std; jmp *%r12" } else { "push %rdi; call g; pop %rax; jmp *%rax" };
        format!(
            ".globl f{i}\n.type f{i}, @function\nf{i}:\n.cfi_startproc\n{body}\n.cfi_endproc\n.size f{i}, .-f{i}\n"
        )
    });
    let object = assembled(&format!(
        ".text\n{}.section .note.GNU-stack,\"\",@progbits\n",
        functions.collect::<String>()
    ));
    let expected = summaries::extract::extract(&object, Granularity::Pointers);
    assert_eq!((expected.functions.len(), expected.limits.len()), (85, 15));
    let most = std::sync::atomic::AtomicUsize::new(0);
    let backwards = |count: usize, piece: &(dyn Fn(usize) + Sync)| {
        most.fetch_max(count, std::sync::atomic::Ordering::Relaxed);
        (0..count).rev().for_each(piece);
    };
    let some = |count: usize, piece: &(dyn Fn(usize) + Sync)| (1..count).for_each(piece);
    assert_eq!(summaries::extract::extract_by(&object, Granularity::Pointers, &backwards), expected);
    assert!(most.into_inner() > 3);
    assert_eq!(summaries::extract::extract_by(&object, Granularity::Pointers, &some), expected);
}

/// A function stores nothing at its return address, whether the frame is cells or an object. A return to it is no call.
#[test]
fn a_return_address_is_anything_but_for_a_return() {
    let callee_is_unknown = |body: &str| {
        let (_, function) = function(body);
        let indirect = |s: &CallSite| if let Callee::Indirect(value) = s.callee { Some(value) } else { None };
        let callees: Vec<_> = function.call_sites.iter().filter_map(indirect).collect();
        let [callee] = callees[..] else { panic!("{body}: {callees:?}") };
        function.constraints.contains(&Constraint::Unknown { to: callee })
    };
    assert!(callee_is_unknown("sub $24, %rsp; mov 24(%rsp), %rax; call *%rax; add $24, %rsp; ret"));
    let leaks =
        "sub $24, %rsp; lea 8(%rsp), %rdi; call g; mov 24(%rsp), %rax; call *%rax; add $24, %rsp; ret";
    assert!(callee_is_unknown(leaks));
}
