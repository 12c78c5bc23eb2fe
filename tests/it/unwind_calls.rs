//! `--prune-unwind=unused`: which functions are called where something has a handler, by whom, and which have an entry at all.

use crate::run::Job;
use crate::tools::Linker;
use crate::unwind_entries::{CATCHES, Program, THROUGH_C, THROWS, UNUSED, program_has};

/// The program has no handler; the C++ library has one where it calls the program.
const CALLED_BY_LIBRARY: &str = r#"
#include <cstdio>
#include <sstream>
// Objects of the program as a whole need no cleanup in main.
#ifdef CALLBACK
static std::ostringstream stream;
static void event(std::ios_base::event e, std::ios_base &, int i) { if (e == std::ios_base::imbue_event) throw i; }
int main(int argc, char **) { stream.register_callback(event, argc); stream.imbue(std::locale::classic()); return std::puts("imbued") < 0; }
#else
struct Buffer : std::streambuf { __attribute__((noinline)) int fail(int c) { if (c) throw c; return c; } int overflow(int c) override { return fail(c); } };
static Buffer buffer;
static std::ostream stream(&buffer);
int main(int argc, char **) { stream << argc; return std::printf("bad %d\n", stream.bad()) < 0; }
#endif
"#;

/// Threads, locks and streams of the C library; with WAYS a thread ends itself, or is cancelled, in one of several ways.
const THREADS: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <threads.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void cleanup(int *x) { printf("cleanup %d\n", *x); fflush(stdout); }
__attribute__((noinline)) static void ends(int n) {
    int x __attribute__((cleanup(cleanup))) = n;
#if WAYS == 1
    pthread_exit(0);
#elif WAYS == 2
    thrd_exit(7);
#elif WAYS == 3
    for (;;) sleep(1);
#elif WAYS == 4
    void (*volatile by_address)(void *) = (void (*)(void *))pthread_exit;
    by_address(0);
#elif WAYS == 5
    pthread_cancel(pthread_self());
    pthread_testcancel();
#endif
    pthread_mutex_lock(&lock); printf("%d\n", n); pthread_mutex_unlock(&lock);
}
static void *run(void *a) { ends(*(int *)a); return 0; }
int main(int argc, char **argv) {
    pthread_t thread; int n = argc;
    pthread_create(&thread, 0, run, &n);
#if WAYS == 3
    usleep(20000); pthread_cancel(thread);
#endif
    pthread_join(thread, 0);
    return fclose(stdout);
}
"#;

/// A terminate handler, and the destructor of an exception, take backtraces.
const TRACES: &str = r#"
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <execinfo.h>
#include <unistd.h>
static void trace() { void *b[32]; std::printf("%d frames\n", backtrace(b, 32)); }
static void last() { trace(); std::fflush(stdout); _exit(0); }
struct Failure { int code; explicit Failure(int code) : code(code) {} Failure(const Failure &) = default; ~Failure(); };
Failure::~Failure() { trace(); }
__attribute__((noinline)) void raise(int n) { if (n) throw Failure(n); }
__attribute__((noinline)) int caught(int n) { try { raise(n); } catch (Failure &failure) { return failure.code; } return 0; }
__attribute__((noinline)) int around(int n) { return caught(n) + *(volatile int *)&n; }
__attribute__((noinline)) void ends(int n) { if (n) std::terminate(); *(volatile int *)&n; }
__attribute__((noinline)) void outside(int n) { ends(n + 1); *(volatile int *)&n; }
int main(int argc, char **) {
    std::set_terminate(last);
#ifndef QUIET
    std::printf("%d\n", around(argc));
#endif
    outside(argc);
}
"#;

/// Functions with the same code, of which nothing is thrown.
const TWINS: &str = r#"
#include <stdio.h>
#include <stdlib.h>
extern volatile int state;
volatile int state;
__attribute__((noinline)) int one(int x) { state += x; return rand() + x; }
__attribute__((noinline)) int two(int x) { state += x; return rand() + x; }
int main(int argc, char **argv) { (void)argv; return printf("%d\n", one(argc) != two(argc)) < 0; }
"#;

/// Assembly with an entry; without a size it is in one piece with the function behind it, which may have none.
const JOINED: &str = r#"
__asm__(".text\n.globl jumps\n.type jumps,@function\njumps:\n.cfi_startproc\nsub $8,%rsp\n.cfi_def_cfa_offset 16\ncall *%rdi\nadd $8,%rsp\n.cfi_def_cfa_offset 8\nret\n.cfi_endproc\n");
int simple(int x) { return *(volatile int *)&x + 1; }
"#;

const THROWS_THROUGH_ASSEMBLY: &str = r#"
#include <cstdio>
extern "C" { void jumps(void (*)()); int simple(int); }
static void raise() { throw 1; }
extern "C" __attribute__((noinline)) int alone(int x) { return *(volatile int *)&x + 1; }
int main() { try { jumps(raise); } catch (int) { std::printf("caught %d\n", simple(2) + alone(2)); } }
"#;

/// Of an indirect function whose address is taken a static program has a stub, which has no entry.
const CHOOSES: &str = r#"
#include <cstdio>
__attribute__((noinline)) static void fail(int n) { if (n) throw n; }
extern "C" {
static int one(int x) { return x + 1; }
static int (*choose())(int) { fail(0); return one; }
int chosen(int x) __attribute__((ifunc("choose")));
}
int (*volatile taken)(int) = chosen;
int main(int argc, char **) { try { fail(argc); } catch (int n) { std::printf("%d\n", taken(n)); } }
"#;

/// Without type information, and with a class of the library that has nothing to override but its destructor.
const READS_A_FILE: &str = r#"
#include <fstream>
#include <iostream>
struct Shape { virtual ~Shape() {} virtual int area(int k) { return k; } };
struct Square : Shape { int area(int k) override { return k * k; } };
// Compilers inline the stream's destructor outside of main.
__attribute__((noinline)) bool reads(const char *name) { std::ifstream file(name); return file.good(); }
int main(int argc, char **argv) {
    Shape *shape = argc > 1 ? new Shape : new Square;
    std::cout << reads(argv[0]) << shape->area(3) << std::endl;
    delete shape;
}
"#;

/// A class that overrides all of its base in the library; without type information only its destructor tells.
const OVERRIDES_ALL: &str = r#"
#include <cstdlib>
#include <memory_resource>
struct Pool : std::pmr::memory_resource {
    void *do_allocate(size_t n, size_t) override; void do_deallocate(void *p, size_t, size_t) override { std::free(p); }
    bool do_is_equal(const memory_resource &o) const noexcept override { return this == &o; }
};
void *Pool::do_allocate(size_t n, size_t) { if (n > 5000) throw 5; return std::malloc(n); }
static Pool pool;
int main(int argc, char **) { std::pmr::set_default_resource(&pool); return argc > 2; }
"#;

/// A big switch, of which the table holds places in its function alone, and a function that runs before main.
const STARTS: &str = r#"
#include <cstdio>
#include <cstdlib>
#include <cstring>
extern "C" __attribute__((noinline)) int choose(int n) {
    switch (n) { case 0: return std::puts("a"); case 1: return std::rand(); case 2: return std::puts("c") + 1; case 3: return std::getchar(); case 4: return std::puts("e") * 2; case 5: std::exit(9); }
    return *new int(n);
}
extern "C" __attribute__((noinline)) int fail(int n) { if (n > 1) throw n; return n; }
extern "C" __attribute__((noinline)) int caught(int n) { try { return fail(n); } catch (int) { return 7; } }
__attribute__((constructor)) static void early() { std::printf("early %d\n", caught(3)); }
#ifdef AGAIN
static int depth;
int main(int argc, char **argv);
static int (*volatile again)(int, char **) = main;
int main(int argc, char **argv) {
    if (depth++) return fail(argc + 5);
    try { return again(argc, argv); } catch (int n) { return std::printf("again %d\n", n) < 0; }
}
#else
int main(int argc, char **) { return choose(argc - 1) < 0; }
#endif
"#;

#[test]
fn a_library_with_a_handler_calls_the_program() {
    let cases = [
        ("gcc", "-O2"),
        ("clang-19", "-O2"),
        ("gcc", "-O0 -fno-rtti"),
        ("gcc", "-O2 -DCALLBACK"),
        ("clang-19", "-Os -DCALLBACK"),
    ];
    for (compiler, flags) in cases {
        let name = format!("library-calls-{compiler}{flags}").replace(' ', "");
        let mut program = Program::new(&name, compiler, flags, &[("main.cc", CALLED_BY_LIBRARY)]);
        for mode in ["-pie", "-no-pie -static"] {
            program.must_link("plain", Linker::Lld, mode, "kept");
            program.must_link("plain", Linker::Lld, &format!("{mode} {UNUSED}"), "out");
            program.must_link("bare", Linker::Lld, mode, "control");
            let (kept, out, control) = (program.runs("kept"), program.runs("out"), program.runs("control"));
            let what = format!("{name} {mode}");
            program.check(kept.ok(), &what);
            program.session.check_eq(&out, &kept, &what);
            program.check(!control.ok(), &format!("{what}: the control shows nothing"));
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
    for (compiler, flags) in [("gcc", "-O2"), ("clang-19", "-O2"), ("gcc", "-O1 -fno-inline")] {
        for again in [false, true] {
            let name = format!("starts-{compiler}{flags}-{again}").replace(' ', "");
            let flags = format!("{flags}{}", if again { " -DAGAIN" } else { "" });
            let mut program = Program::new(&name, compiler, &flags, &[("main.cc", STARTS)]);
            for mode in ["-pie", "-no-pie -static"] {
                let what = format!("{name} {mode}");
                program.must_link("plain", Linker::Lld, mode, "kept");
                program.must_link("plain", Linker::Lld, &format!("{mode} {UNUSED}"), "out");
                program.must_link("bare", Linker::Lld, mode, "control");
                let (kept, out, control) =
                    (program.runs("kept"), program.runs("out"), program.runs("control"));
                program.check(kept.ok(), &what);
                program.session.check_eq(&out, &kept, &what);
                program.check(control != kept, &format!("{what}: the control shows nothing"));
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
const REPLACES: &str = r#"
#include <cstdio>
#include <cstdlib>
#include <new>
#if WAY == 0
void *operator new(std::size_t n) { if (n > 1000) throw std::bad_alloc(); return std::malloc(n); }
void operator delete(void *p) noexcept { std::free(p); }
int main(int argc, char **) { void *p = ::operator new(5000 * argc, std::nothrow); return std::puts(p ? "got" : "null") < 0; }
#elif WAY == 1
#include <typeinfo>
extern "C" void __cxa_vec_ctor(void *, std::size_t, std::size_t, void (*)(void *), void (*)(void *));
static int count;
static void make(void *) { if (++count == 3) throw count; }
static void destroy(void *) { std::puts("destroyed"); std::fflush(stdout); }
int main(int, char **) { static char room[16]; __cxa_vec_ctor(room, 4, 4, make, destroy); }
#else
typedef void (*initialiser)(int, char **, char **);
extern "C" initialiser __init_array_start[], __init_array_end[];
static int rounds;
__attribute__((constructor)) static void again() { if (rounds++) throw 5; }
int main(int argc, char **argv) {
    try { for (initialiser *i = __init_array_start; i != __init_array_end; i++) (*i)(argc, argv, argv); } catch (int code) { return code; }
    return 0;
}
#endif
"#;

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

/// A library that throws by a function of the C++ library alone, and one that names the unwinder's other functions.
const THROWING_LIBRARY: &str = "#include <string>\nstatic std::string text;\nextern \"C\" void grow(unsigned long n) { text.reserve(n); }\n";
const USES_THROWING: &str = "#include <cstdio>\nextern \"C\" void grow(unsigned long);\n\
    int main() { try { grow(-1UL); } catch (...) { std::puts(\"caught\"); } }\n";

#[test]
fn a_library_that_imports_from_the_cxx_library_may_throw() {
    let mut program = Program::new("throwing-library", "gcc", "-O2", &[("main.cc", USES_THROWING)]);
    program.session.write("grow.cc", THROWING_LIBRARY);
    let dir = program.session.dir().to_owned();
    program.session.must(&Job::new(&dir, "g++").words("-O2 -shared -fPIC grow.cc -o libgrow.so"));
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
                let has = program_has(&mut program, "out", ".eh_frame");
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
    for flags in ["-O2", "-O2 -DQUIET", "-O0", "-O0 -DQUIET"] {
        let name = format!("traces{flags}").replace(' ', "");
        let mut program = Program::new(&name, "gcc", flags, &[("main.cc", TRACES)]);
        for mode in ["-pie", "-no-pie -static"] {
            program.must_link("plain", Linker::Lld, mode, "kept");
            program.must_link("plain", Linker::Lld, &format!("{mode} {UNUSED}"), "out");
            program.must_link("bare", Linker::Lld, mode, "control");
            let (kept, out, control) = (program.runs("kept"), program.runs("out"), program.runs("control"));
            program.check(kept.ok(), &format!("{name} {mode}"));
            program.session.check_eq(&out, &kept, &format!("{name} {mode}"));
            program.check(control != kept, &format!("{name} {mode}: the control shows nothing"));
        }
    }
}
