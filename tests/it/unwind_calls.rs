//! `--prune-unwind=unused`: which functions are called where something has a handler, by whom, and which have an entry at all.

use crate::tools::Linker;
use crate::unwind_entries::{CATCHES, Program, THROUGH_C, THROWS, UNUSED, modes};

const FILES: &str = include_str!("programs/unwind_calls.txt");

/// The program has no handler; the C++ library has one where it calls the program.
const CALLED_BY_LIBRARY: &str = include_str!("programs/unwind_calls_called_by_library.cc");

/// Threads, locks and streams of the C library; with WAYS a thread ends itself, or is cancelled, in one of several ways.
const THREADS: &str = include_str!("programs/unwind_calls_threads.c");

/// A terminate handler, and the destructor of an exception, take backtraces.
const TRACES: &str = include_str!("programs/unwind_calls_traces.cc");

/// Functions with the same code that throw nothing.
const TWINS: &str = include_str!("programs/unwind_calls_twins.c");

/// Assembly with an unwind entry. Without a size it is one piece with the next function, which may have no entry.
const JOINED: &str = r#"
__asm__(".text\n.globl jumps\n.type jumps,@function\njumps:\n.cfi_startproc\nsub $8,%rsp\n.cfi_def_cfa_offset 16\ncall *%rdi\nadd $8,%rsp\n.cfi_def_cfa_offset 8\nret\n.cfi_endproc\n");
int simple(int x) { return *(volatile int *)&x + 1; }
"#;

const THROWS_THROUGH_ASSEMBLY: &str = include_str!("programs/unwind_calls_throws_through_assembly.cc");

/// Of an indirect function whose address is taken a static program has a stub, which has no entry.
const CHOOSES: &str = include_str!("programs/unwind_calls_chooses.cc");

/// Without type information, and with a class of the library that has nothing to override but its destructor.
const READS_A_FILE: &str = include_str!("programs/unwind_calls_reads_a_file.cc");

/// A class that overrides all of its base in the library; without type information only its destructor tells.
const OVERRIDES_ALL: &str = include_str!("programs/unwind_calls_overrides_all.cc");

/// A large switch with a table of addresses in its own function, and a function that runs before main.
const STARTS: &str = include_str!("programs/unwind_calls_starts.cc");

#[test]
fn a_library_with_a_handler_calls_the_program() {
    let cases = [
        ("gcc", "-O2"),
        ("clang-19", "-O2"),
        ("gcc", "-O0 -fno-rtti"),
        ("gcc", "-O2 -DCALLBACK"),
        ("clang-19", "-Os -DCALLBACK"),
    ];
    for (i, (compiler, flags)) in cases.into_iter().enumerate() {
        let name = format!("library-calls-{compiler}{flags}").replace(' ', "");
        let mut program = Program::new(&name, compiler, flags, &[("main.cc", CALLED_BY_LIBRARY)]);
        for mode in modes(i) {
            let kept = program.behaves_as_before(mode, &[Linker::Lld]);
            let control = program.runs("control");
            program.check(kept.ok() && !control.ok(), &format!("{name} {mode}"));
        }
    }
}

#[test]
fn a_class_without_type_information_inherits_by_its_size() {
    let mut program =
        Program::new("untyped", "gcc", "-O2 -fno-rtti -fno-exceptions", &[("main.cc", READS_A_FILE)]);
    let linked = program.must_link("plain", Linker::Lld, UNUSED, "out");
    program.session.check_eq(&linked.stderr, &String::new(), "nothing is kept");
    let ran = program.runs("out");
    program.check(ran.ok(), "it runs");
    let mut program =
        Program::new("overrides", "gcc", "-O2 -std=c++17 -fno-rtti", &[("main.cc", OVERRIDES_ALL)]);
    program.must_link("plain", Linker::Lld, UNUSED, "out");
    let has = program.describes("out", ".eh_frame", "_ZN4Pool11do_allocateEmm");
    program.check(has, "the library may call it where it has a handler");
}

#[test]
fn start_code_has_no_handler() {
    let compilers = [("gcc", "-O2"), ("clang-19", "-O2"), ("gcc", "-O1 -fno-inline")];
    for (i, (compiler, flags)) in compilers.into_iter().enumerate() {
        for again in [false, true] {
            let name = format!("starts-{compiler}{flags}-{again}").replace(' ', "");
            let flags = format!("{flags}{}", if again { " -DAGAIN" } else { "" });
            let mut program = Program::new(&name, compiler, &flags, &[("main.cc", STARTS)]);
            for mode in modes(i) {
                let what = format!("{name} {mode}");
                let kept = program.behaves_as_before(mode, &[Linker::Lld]);
                program.check(kept.ok(), &what);
                let main = program.describes("out", ".eh_frame", "main");
                program.check(main == again, &format!("{what}: main {main}"));
                if !again {
                    let choose = program.describes("out", ".eh_frame", "choose");
                    program.check(!choose, &format!("{what}: choose"));
                }
            }
        }
    }
}

#[test]
fn only_threads_that_end_themselves_or_are_cancelled_unwind() {
    for (compiler, ways) in (0..=5).map(|ways| (if ways % 2 == 0 { "gcc" } else { "clang-19" }, ways)) {
        let name = format!("threads-{ways}");
        let flags = format!("-O1 -fexceptions -DWAYS={ways}");
        let mut program = Program::new(&name, compiler, &flags, &[("main.c", THREADS)]);
        for mode in ["-pie", "-no-pie -static"] {
            let what = format!("{name} {compiler} {mode}");
            program.must_link("plain", Linker::Lld, mode, "kept");
            program.must_link("plain", Linker::Lld, &format!("{mode} {UNUSED}"), "out");
            let (kept, out) = (program.runs("kept"), program.runs("out"));
            program
                .check(kept.ok() && kept.stdout.starts_with(if ways == 0 { "1" } else { "cleanup" }), &what);
            program.session.check_eq(&out, &kept, &what);
            let has = program.describes("out", ".eh_frame", "ends");
            program.check(has == (ways > 0), &format!("{what}: {has}"));
            if ways > 0 {
                program.must_link("bare", Linker::Lld, mode, "control");
                let control = program.runs("control");
                program.check(control != kept, &format!("{what}: the control shows nothing"));
            }
        }
    }
}

/// The C++ library calls functions of the program that it has itself, by their names, where it has a handler.
const REPLACES: &str = include_str!("programs/unwind_calls_replaces.cc");

#[test]
fn replaced_functions_are_called_where_the_library_has_a_handler() {
    for (compiler, way) in
        [("gcc", 0), ("clang-19", 0), ("gcc", 1), ("clang-19", 1), ("gcc", 2), ("clang-19", 2)]
    {
        let name = format!("replaces-{compiler}-{way}");
        let mut program =
            Program::new(&name, compiler, &format!("-O2 -DWAY={way}"), &[("main.cc", REPLACES)]);
        program.must_link("plain", Linker::Lld, "", "kept");
        program.must_link("plain", Linker::Lld, UNUSED, "out");
        program.must_link("bare", Linker::Lld, "", "control");
        let (kept, out, control) = (program.runs("kept"), program.runs("out"), program.runs("control"));
        program.check(
            kept.status == out.status && kept.stdout == out.stdout,
            &format!("{name}: {}", out.stderr),
        );
        // In clang's program the throwing function is inlined into the function with the handler, which needs no entry.
        let is_shown = control.stdout != kept.stdout || control.status != kept.status;
        program.check(is_shown || (compiler, way) == ("clang-19", 2), "the control shows nothing");
    }
}

const USES_THROWING: &str = "#include <cstdio>\nextern \"C\" void grow(unsigned long);\n\
    int main() { try { grow(-1UL); } catch (...) { std::puts(\"caught\"); } }\n";

#[test]
fn a_library_that_imports_from_the_cxx_library_may_throw() {
    let mut program = Program::new("throwing-library", "gcc", "-O2", &[("main.cc", USES_THROWING)]);
    program.session.files(FILES, "a_library_that_imports_from_the_cxx_library_may_throw");
    program.session.cmd("g++ -O2 -shared -fPIC grow.cc -o libgrow.so");
    let mode = "-L. -lgrow -Wl,-rpath,.";
    program.must_link("plain", Linker::Lld, mode, "kept");
    let linked = program.must_link("plain", Linker::Lld, &format!("{mode} {UNUSED}"), "out");
    program.check(linked.stderr.contains("libgrow.so imports _Z"), &linked.stderr);
    let (kept, out) = (program.runs("kept"), program.runs("out"));
    program.session.check_eq(&out, &kept, "caught");
    program.check(kept.stdout == "caught\n", &kept.stdout);
}

#[test]
fn a_function_without_an_entry_needs_none() {
    let sources = &[("main.cc", THROWS_THROUGH_ASSEMBLY), ("joined.c", JOINED)];
    let mut program = Program::new("joined", "gcc", "-O2 -fno-asynchronous-unwind-tables", sources);
    for linker in Linker::ALL {
        program.must_link("plain", linker, "", "kept");
        program.must_link("plain", linker, UNUSED, "out");
        let (kept, out) = (program.runs("kept"), program.runs("out"));
        program.session.check_eq(&out, &kept, linker.name());
        let [jumps, simple] = ["jumps", "simple"].map(|name| program.describes("out", ".eh_frame", name));
        program.check(jumps && !simple, linker.name());
    }
    program.must_link("bare", Linker::Lld, "", "control");
    let control = program.runs("control");
    program.check(!control.ok(), "the control shows nothing");
    let mut program = Program::new("chooses", "gcc", "-O2 -fno-pie", &[("main.cc", CHOOSES)]);
    for linker in Linker::ALL {
        program.must_link("plain", linker, "-no-pie -static", "kept");
        program.must_link("plain", linker, &format!("-no-pie -static {UNUSED}"), "out");
        let (kept, out) = (program.runs("kept"), program.runs("out"));
        program.session.check_eq(&out, &kept, linker.name());
    }
}

#[test]
fn folded_functions_need_the_same() {
    let mut program = Program::new("folds-quiet", "gcc", "-O2 -ffunction-sections", &[("main.c", TWINS)]);
    for debug in ["", " -s"] {
        for mode in ["-pie -Wl,--icf=safe", "-no-pie -static -Wl,--icf=safe"] {
            let linked = program.must_link("plain", Linker::Lld, &format!("{mode} {UNUSED}{debug}"), "out");
            program.session.check_eq(&linked.stderr, &String::new(), mode);
            let ran = program.runs("out");
            program.check(ran.ok(), mode);
            if debug.is_empty() {
                let (one, two) = (program.address("out", "one"), program.address("out", "two"));
                program.check(one == two, &format!("{mode}: {one:x} {two:x}"));
                let has = program.has_main("out");
                program.check(!has, mode);
            }
        }
    }
    let throws: &[(&str, &str)] = &[("main.cc", THROWS), ("catches.cc", CATCHES), ("through.c", THROUGH_C)];
    let mut program = Program::new("folds-throws", "gcc", "-O2 -ffunction-sections", throws);
    for mode in ["-Wl,--icf=safe", "-Wl,--icf=all"] {
        program.must_link("plain", Linker::Lld, mode, "kept");
        let linked = program.must_link("plain", Linker::Lld, &format!("{mode} {UNUSED}"), "out");
        let says = linked.stderr.contains("--icf may fold functions that differ in this");
        program.check(says, &linked.stderr);
        let (kept, out) = (program.runs("kept"), program.runs("out"));
        program.session.check_eq(&out, &kept, mode);
        let alone = program.describes("out", ".eh_frame", "alone");
        program.check(alone, mode);
    }
}

#[test]
fn handlers_of_the_runtime_take_backtraces() {
    for (i, flags) in ["-O2", "-O2 -DQUIET", "-O0", "-O0 -DQUIET"].into_iter().enumerate() {
        let name = format!("traces{flags}").replace(' ', "");
        let mut program = Program::new(&name, "gcc", flags, &[("main.cc", TRACES)]);
        for mode in modes(i) {
            let kept = program.behaves_as_before(mode, &[Linker::Lld]);
            program.check(kept.ok(), &format!("{name} {mode}"));
        }
    }
}
