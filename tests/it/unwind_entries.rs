//! `--prune-unwind`: entries that nothing needs are removed behind every linker, programs that unwind behave as before, and debuggers find
//! the removed entries in `.debug_frame`.
//!
//! Each program that unwinds has a control: linked from objects without unwind tables it must fail, so that it shows what is missing.

use std::path::Path;

use object::{Object, ObjectSection};

use crate::run::{Job, Outcome, Session};
use crate::tools::{self, Linker};

/// A C program in which nothing unwinds.
pub(crate) const QUIET: &str = r#"
#include <stdio.h>
#include <stdlib.h>
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
__attribute__((noinline)) int inner(int n) { return n > 2 ? puts("inner") : n; }
__attribute__((noinline)) int outer(int n) { int r = inner(n + 3); return printf("outer %d\n", r > 0) + r; }
int dead(int n) { return puts("dead") + n; }
int dead_too(int n) { return dead(n) + n; }
int main(int argc, char **argv) {
    int numbers[] = {5, 3, argc, 2};
    qsort(numbers, 4, sizeof *numbers, compare);
    printf("%d %d\n", numbers[0], outer(argc) > 0);
    return 0;
}
"#;

/// A C++ program that is compiled with `-fno-exceptions`.
const NO_EXCEPTIONS: &str = r#"
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>
struct Shape { virtual ~Shape() {} virtual int area(int) = 0; };
struct Square : Shape { int k; Square(int k) : k(k) {} int area(int x) override { return x * k; } };
int main(int argc, char **) {
    std::vector<std::unique_ptr<Shape>> all;
    for (int i = 0; i < 5; i++) all.emplace_back(new Square(i));
    std::map<std::string, int> counts; counts["a"] = argc;
    int sum = 0;
    for (auto &shape : all) sum += shape->area(counts["a"]);
    std::printf("%d\n", sum);
}
"#;

/// Throws, catches, rethrows, through a callback of the C library, and with cleanups on the way.
pub(crate) const THROWS: &str = r#"
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <vector>
struct Noise { const char *name; ~Noise() { std::printf("~%s\n", name); } };
extern "C" __attribute__((noinline)) int alone(int x) { return *(volatile int *)&x + 1; }
extern "C" __attribute__((noinline)) void raise(int x) { Noise n{"raise"}; if (x > 2) throw std::runtime_error("boom"); std::puts("no"); }
extern "C" __attribute__((noinline)) void pass(int x) { Noise n{"pass"}; try { raise(x); } catch (int) { std::puts("int"); } }
static int compare(const void *a, const void *b) { if (*(int *)a == 3) throw 7; return *(int *)a - *(int *)b; }
int elsewhere(void (*callback)(int), int x);
int main(int argc, char **) {
    try { pass(argc + 5); } catch (std::exception &e) { std::printf("caught %s\n", e.what()); }
    try { try { raise(9); } catch (...) { std::puts("again"); throw; } } catch (std::runtime_error &) { std::puts("rethrown"); }
    int numbers[] = {5, 3, 1, 2};
    try { qsort(numbers, 4, sizeof *numbers, compare); } catch (int i) { std::printf("from qsort %d\n", i); }
    try { std::vector<int> empty; empty.at(3); } catch (std::out_of_range &) { std::puts("out of range"); }
    std::printf("elsewhere %d\n", elsewhere(raise, alone(3)));
}
"#;

/// Catches what is thrown through it, and through C, from another module.
pub(crate) const CATCHES: &str = r#"
#include <stdexcept>
extern "C" int through_c(void (*callback)(int), int x);
int elsewhere(void (*callback)(int), int x) { try { return through_c(callback, x); } catch (std::exception &) { return 1; } }
"#;

pub(crate) const THROUGH_C: &str =
    "int through_c(void (*callback)(int), int x) { callback(x); return x + 1; }\n";

/// Cancels a thread and ends others; cleanups of C run.
const CANCELS: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static void cleanup(int *x) { printf("cleanup %d\n", *x); fflush(stdout); }
__attribute__((noinline)) static void deep(int n) {
    int x __attribute__((cleanup(cleanup))) = n;
    if (n > 3) for (;;) pause();
    deep(n + 1);
    puts("never");
}
static void *waits(void *a) { deep(0); return a; }
static void *ends(void *a) { int x __attribute__((cleanup(cleanup))) = 42; pthread_exit((void *)7); return a; }
static void old(void *x) { printf("pushed %s\n", (char *)x); }
static void *pushes(void *a) { pthread_cleanup_push(old, "a"); pthread_exit((void *)9); pthread_cleanup_pop(0); return a; }
int main(void) {
    pthread_t t; void *r;
    pthread_create(&t, 0, waits, 0); usleep(20000); pthread_cancel(t); pthread_join(t, &r);
    printf("%d\n", r == PTHREAD_CANCELED);
    pthread_create(&t, 0, ends, 0); pthread_join(t, &r); printf("%ld\n", (long)r);
    pthread_create(&t, 0, pushes, 0); pthread_join(t, &r); printf("%ld\n", (long)r);
}
"#;

/// A signal interrupts a function that calls nothing, and the handler takes a backtrace.
const SIGNAL: &str = r#"
#include <execinfo.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
static void handler(int s) { void *b[32]; printf("%d frames, signal %d\n", backtrace(b, 32), s); exit(0); }
__attribute__((noinline)) int leaf(int *p) { return *(volatile int *)p + 1; }
__attribute__((noinline)) int middle(int *p) { return leaf(p) * 3; }
int main(int argc, char **argv) { signal(SIGSEGV, handler); return middle((int *)(long)(argc - 1)) + 1; }
"#;

/// The same, installed by a reference that names a version.
const VERSIONED: &str = r#"
#include <execinfo.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
void (*versioned(int, void (*)(int)))(int);
__asm__(".symver versioned, signal@GLIBC_2.2.5");
static void handler(int s) { void *b[32]; printf("%d frames, signal %d\n", backtrace(b, 32), s); exit(0); }
__attribute__((noinline)) int leaf(int *p) { return *(volatile int *)p + 1; }
__attribute__((noinline)) int middle(int *p) { return leaf(p) * 3; }
int main(int argc, char **argv) { versioned(SIGSEGV, handler); return middle((int *)(long)(argc - 1)) + 1; }
"#;

const READER: &str = r#"
#define _GNU_SOURCE
#include <link.h>
#include <stdio.h>
static int one(struct dl_phdr_info *i, size_t s, void *d) {
    for (int k = 0; k < i->dlpi_phnum; k++)
        if (i->dlpi_phdr[k].p_type == PT_GNU_EH_FRAME) printf("%zu bytes\n", (size_t)i->dlpi_phdr[k].p_memsz);
    return 1;
}
int main(void) { return dl_iterate_phdr(one, 0) - 1; }
"#;

const ENCLOSING: &str = "#include <unwind.h>\n__attribute__((noinline)) int leaf(int x) { return x * 3; }\nint main(void) { return _Unwind_FindEnclosingFunction((char *)&leaf + 1) != (void *)&leaf; }\n";

const READS_HEADER: &str = r#"
#include <link.h>
#include <stdio.h>
extern const char __ehdr_start[];
int main(void) {
    const ElfW(Ehdr) *e = (const void *)__ehdr_start;
    const ElfW(Phdr) *p = (const void *)(__ehdr_start + e->e_phoff);
    for (int k = 0; k < e->e_phnum; k++)
        if (p[k].p_type == PT_GNU_EH_FRAME) printf("%zu bytes\n", (size_t)p[k].p_memsz);
    return 0;
}
"#;

const PATCHED: &str = "__attribute__((noinline, patchable_function_entry(4))) int f(int x) { return x + 1; }\nint main(void) { return f(-1); }\n";

const RENAMED: &str = "int trace(void **, int);\nint backtrace(void **, int);\nint (*volatile unused)(void **, int);\nint main(void) { void *b[4]; return trace(b, 4) < 1; }\n";

const LOADER: &str =
    "#include <dlfcn.h>\nint main(int argc, char **argv) { return dlopen(argv[argc], 1) == 0; }\n";

const WALKS_INITIALISERS: &str = "extern void (*__init_array_start[])(void);\nint main(void) { return *(void *volatile *)__init_array_start == 0; }\n";

const USES_ARCHIVE: &str = "int find(void);\nint main(void) { return find(); }\n";

const USES_QUIET: &str = "int quiet(void);\nint main(void) { return quiet() != 0; }\n";

const USES_LIBRARY: &str = "int library(int (*)(int), int);\nint twice(int x) { return 2 * x; }\nint main(void) { return library(twice, 0); }\n";

/// One program, ready to be linked: objects in `plain`, and without unwind tables in `bare`.
pub(crate) struct Program {
    pub(crate) session: Session,
    objects: Vec<&'static str>,
    driver: &'static str,
}

impl Program {
    pub(crate) fn new(
        name: &str,
        compiler: &'static str,
        flags: &str,
        sources: &[(&'static str, &str)],
    ) -> Self {
        let mut session = Session::new(&format!("unwind_entries/{name}"));
        tools::shim_dir(&session.path("shims"), &tools::lto_prune());
        let cxx = tools::cxx(compiler);
        let mut objects = Vec::new();
        for (unit, text) in sources {
            session.write(unit, text);
            let driver = if unit.ends_with(".cc") { cxx } else { compiler };
            let object: &'static str =
                Box::leak(unit.replace(".cc", ".o").replace(".c", ".o").into_boxed_str());
            for folder in ["plain", "bare"] {
                session.mkdir(folder);
                let job = Job::new(session.dir(), driver)
                    .words(&format!("-c -w -fPIE {flags} {unit} -o {folder}/{object}"));
                session.must(&job);
            }
            let sections = "-R .eh_frame -R .rela.eh_frame -R .gcc_except_table* -R .rela.gcc_except_table*";
            session.must(&Job::new(session.dir(), "objcopy").words(sections).arg(format!("bare/{object}")));
            objects.push(object);
        }
        let driver = if sources.iter().any(|(unit, _)| unit.ends_with(".cc")) { cxx } else { compiler };
        Program { session, objects, driver }
    }

    /// Link the objects of a folder; `mode` are words for the driver.
    fn link(&mut self, folder: &str, linker: Linker, mode: &str, out: &str) -> Outcome {
        let objects = self.objects.iter().map(|object| format!("{folder}/{object}"));
        let job = Job::new(self.session.dir(), self.driver).words("-B shims -w -pthread").args(objects);
        let job = job.words(mode).words(&format!("-Wl,--prune-strict -o {out}"));
        self.session.run(&job.env("LTO_PRUNE_LINKER", linker.path()))
    }

    pub(crate) fn must_link(&mut self, folder: &str, linker: Linker, mode: &str, out: &str) -> Outcome {
        let linked = self.link(folder, linker, mode, out);
        self.session.check(linked.ok(), &format!("{} {mode}: {}", linker.name(), linked.stderr));
        linked
    }

    pub(crate) fn runs(&mut self, out: &str) -> Outcome {
        self.session.run(&Job::new(self.session.dir(), format!("./{out}")))
    }

    /// (section, start, end) of each FDE of a file.
    fn entries(&mut self, out: &str) -> Vec<(String, u64, u64)> {
        let listing =
            self.session.must(&Job::new(self.session.dir(), "readelf").words("-wf").arg(out)).stdout;
        let mut section = String::new();
        let mut found = Vec::new();
        for line in listing.lines() {
            if let Some(name) = line.strip_prefix("Contents of the ") {
                section = name.split_whitespace().next().unwrap_or_default().to_owned();
            }
            let range = line.split(" pc=").nth(1).filter(|_| line.contains(" FDE "));
            if let Some((start, end)) = range.and_then(|range| range.split_once("..")) {
                let number = |text: &str| u64::from_str_radix(text.trim(), 16).unwrap();
                found.push((section.clone(), number(start), number(end)));
            }
        }
        found
    }

    /// The address of a function of a linked file.
    pub(crate) fn address(&mut self, out: &str, name: &str) -> u64 {
        let listing = self.session.must(&Job::new(self.session.dir(), "nm").arg(out)).stdout;
        let line = listing.lines().find(|line| line.split_whitespace().nth(2) == Some(name));
        let address = line.and_then(|line| line.split_whitespace().next());
        u64::from_str_radix(address.unwrap_or_else(|| panic!("no {name} in\n{listing}")), 16).unwrap()
    }

    /// Whether a section of a file has an FDE for a function.
    pub(crate) fn describes(&mut self, out: &str, section: &str, name: &str) -> bool {
        let address = self.address(out, name);
        let entries = self.entries(out);
        entries.iter().any(|(of, start, end)| of == section && (*start..*end).contains(&address))
    }

    /// Check something that needs the session itself to find out.
    #[track_caller]
    pub(crate) fn check(&self, condition: bool, what: &str) {
        self.session.check(condition, what);
    }

    fn stripped_size(&mut self, out: &str) -> u64 {
        self.session.must(&Job::new(self.session.dir(), "strip").arg(out).words("-o stripped"));
        std::fs::metadata(self.session.path("stripped")).unwrap().len()
    }
}

pub(crate) const UNUSED: &str = "-Wl,--prune-unwind=unused";

#[test]
fn entries_that_nothing_needs_are_removed() {
    let programs = [
        ("c", "gcc", "-O2", "main.c", QUIET),
        ("sections", "gcc", "-O2 -ffunction-sections", "main.c", QUIET),
        ("cxx", "clang-19", "-O2 -fno-exceptions", "main.cc", NO_EXCEPTIONS),
    ];
    for (name, compiler, flags, unit, text) in programs {
        let mut program = Program::new(&format!("quiet-{name}"), compiler, flags, &[(unit, text)]);
        for linker in Linker::ALL {
            for mode in ["-pie -Wl,--gc-sections", "-no-pie -static", "-pie -Wl,--prune-level=sections"] {
                if name != "c" && mode.contains("static") {
                    continue;
                }
                program.must_link("plain", linker, mode, "kept");
                let linked = program.must_link("plain", linker, &format!("{mode} {UNUSED}"), "out");
                let what = format!("{name} {} {mode}", linker.name());
                program.session.check_eq(&linked.stderr, &String::new(), &what);
                let (kept, out) = (program.runs("kept"), program.runs("out"));
                program.session.check_eq(&out, &kept, &what);
                let has = program_has(&mut program, "kept", ".eh_frame");
                program.check(has, "the plain link has an entry");
                let has = program_has(&mut program, "out", ".eh_frame");
                program.check(!has, &what);
                let has = program_has(&mut program, "out", ".debug_frame");
                program.check(has, &what);
                // With -s nothing is written for debuggers, and the file is as small as one without tables.
                program.must_link("plain", linker, &format!("{mode} {UNUSED} -s"), "small");
                let (small, stripped) = (
                    std::fs::metadata(program.session.path("small")).unwrap().len(),
                    program.stripped_size("out"),
                );
                program
                    .session
                    .check(small <= stripped + 64, &format!("{what}: {small} bytes, stripped {stripped}"));
            }
        }
    }
}

pub(crate) fn program_has(program: &mut Program, out: &str, section: &str) -> bool {
    program.describes(out, section, "main")
}

/// Link an object of each folder by the first linker, with and without tables, and without entries that nothing needs by all.
fn behaves_as_before(program: &mut Program, name: &str, mode: &str, linkers: &[Linker]) {
    program.must_link("plain", linkers[0], mode, "kept");
    program.must_link("bare", linkers[0], mode, "control");
    let (kept, control) = (program.runs("kept"), program.runs("control"));
    program.check(kept.ok(), name);
    program.check(control != kept, &format!("{name} {mode}: the control shows nothing"));
    for linker in linkers {
        let what = format!("{name} {mode} {}", linker.name());
        program.must_link("plain", *linker, &format!("{mode} {UNUSED}"), "out");
        let out = program.runs("out");
        program.session.check_eq(&out, &kept, &what);
    }
}

#[test]
fn programs_that_unwind_do_as_before() {
    let throws: &[(&str, &str)] = &[("main.cc", THROWS), ("catches.cc", CATCHES), ("through.c", THROUGH_C)];
    let mut linkers = Linker::ALL.into_iter().cycle();
    for compiler in ["gcc", "clang-19"] {
        for opt in ["-O0", "-O2", "-Os"] {
            let name = format!("throws-{compiler}{opt}");
            let mut program = Program::new(&name, compiler, &format!("{opt} -fexceptions"), throws);
            for mode in ["-pie", "-no-pie -static"] {
                behaves_as_before(&mut program, &name, mode, &[linkers.next().unwrap()]);
                let [passes, alone] = ["pass", "alone"].map(|f| program.describes("out", ".eh_frame", f));
                program.check(passes && !alone, &format!("{name} {mode}: {passes} {alone}"));
            }
        }
    }
}

#[test]
fn threads_that_end_do_as_before_behind_every_linker() {
    for compiler in ["gcc", "clang-19"] {
        for opt in ["-O0", "-O2", "-Os"] {
            let (name, flags) = (format!("cancels-{compiler}{opt}"), format!("{opt} -fexceptions"));
            let mut program = Program::new(&name, compiler, &flags, &[("main.c", CANCELS)]);
            for mode in ["-pie", "-no-pie -static"] {
                behaves_as_before(&mut program, &name, mode, &Linker::ALL);
            }
        }
    }
}

#[test]
fn what_is_not_known_keeps_every_entry() {
    let cases: &[(&str, &str, &str, &str)] = &[
        ("signal", SIGNAL, "", "main -> handler calls backtrace"),
        ("versioned", VERSIONED, "", "main -> handler calls backtrace"),
        ("reader", READER, "", "main refers to dl_iterate_phdr, which finds the unwind tables"),
        ("loader", LOADER, "", "main refers to dlopen, which brings in code"),
        ("library", USES_LIBRARY, "-L. -lunknown -Wl,-rpath,$ORIGIN", "libunknown.so imports backtrace"),
        (
            "needed",
            USES_QUIET,
            "-L. -lquiet -Wl,-rpath-link,. -Wl,-rpath,$ORIGIN",
            "libunknown.so imports backtrace",
        ),
        (
            "initialisers",
            WALKS_INITIALISERS,
            "",
            "main refers to __init_array_start, which calls initialisers",
        ),
        ("archive", USES_ARCHIVE, "own/libc.a", "refers to dl_iterate_phdr, which finds the unwind tables"),
        (
            "personality",
            USES_QUIET,
            "-L. -lpersonality -Wl,-rpath,$ORIGIN",
            "libpersonality.so imports _Unwind_SetIP",
        ),
        ("filter", USES_QUIET, "-L. -lfilter -Wl,-rpath,$ORIGIN", "may run in place of libfilter.so"),
        ("interface", USES_QUIET, "-Linterface -lcode -Wl,-rpath,$ORIGIN", "may run in place of libcode.so"),
        ("untyped", USES_QUIET, "-Luntyped -lcode -Wl,-rpath,$ORIGIN", "may run in place of libcode.so"),
        ("data", USES_QUIET, "-Ldata -lcode -Wl,-rpath,$ORIGIN", "may run in place of libcode.so"),
        ("enclosing", ENCLOSING, "", "main refers to _Unwind_FindEnclosingFunction, which finds"),
        ("header", READS_HEADER, "", "main refers to __ehdr_start, which finds the unwind tables"),
        ("patched", PATCHED, "", "__patchable_function_entries, which lists functions"),
        ("renamed", RENAMED, "-Wl,--defsym=trace=backtrace", "backtrace may have another name"),
        ("asan", QUIET, "-fsanitize=address", "libasan.so.8 imports "),
        ("ubsan", QUIET, "-fsanitize=undefined -Wl,--no-as-needed", "libubsan.so.1 imports "),
        ("script", QUIET, "-Wl,-T,tables.ld", "the script tables.ld names .eh_frame"),
        ("shared", QUIET, "-shared", "code outside of the link calls a shared library"),
    ];
    for (name, text, mode, why) in cases {
        let mut program = Program::new(&format!("unknown-{name}"), "gcc", "-O2 -fPIC", &[("main.c", text)]);
        let dir = program.session.dir().to_owned();
        program.session.write("unknown.c", "#include <execinfo.h>\nint library(int (*f)(int), int x) { void *b[4]; return f(x) * backtrace(b, 4); }\n");
        program.session.write(
            "quiet.c",
            "int library(int (*)(int), int);\nint quiet(void) { int (*volatile f)(int (*)(int), int) = library; return f == 0; }\n",
        );
        program
            .session
            .write("tables.ld", "SECTIONS { .eh_frame : { KEEP(*(.eh_frame)) } }\nINSERT AFTER .rodata;\n");
        program.session.must(&Job::new(&dir, "gcc").words("-shared -fPIC unknown.c -o libunknown.so"));
        program
            .session
            .must(&Job::new(&dir, "gcc").words("-shared -fPIC quiet.c -L. -lunknown -o libquiet.so"));
        // A library with a personality routine of its own.
        program.session.write(
            "personality.c",
            "void _Unwind_SetIP(void *, unsigned long);\nint quiet(void) { void (*volatile f)(void *, unsigned long) = _Unwind_SetIP; return f == 0; }\n",
        );
        program
            .session
            .must(&Job::new(&dir, "gcc").words("-shared -fPIC personality.c -lgcc_s -o libpersonality.so"));
        program.session.write("code.c", "int quiet(void) { return 0; }\n");
        program.session.write("interface.s", ".data\n.globl quiet\n.type quiet,@function\nquiet: .byte 0\n");
        program.session.write("untyped.s", ".data\n.globl quiet\nquiet: .byte 0\n");
        for folder in ["interface", "untyped", "data", "own"] {
            program.session.mkdir(folder);
        }
        for words in [
            "code.c -Wl,-soname,libcode.so -o libcode.so",
            "code.c -Wl,-soname,libfilter.so -Wl,-F,libcode.so -o libfilter.so",
            "interface.s -nostdlib -Wl,-soname,libcode.so -o interface/libcode.so",
            "untyped.s -nostdlib -Wl,-soname,libcode.so -o untyped/libcode.so",
            "interface.s -Wl,-soname,libcode.so -o data/libcode.so",
        ] {
            program.session.must(&Job::new(&dir, "gcc").words("-shared -fPIC").words(words));
        }
        // An archive of the user that has the name of the C library's.
        program.session.write(
            "find.c",
            "#define _GNU_SOURCE\n#include <link.h>\nstatic int one(struct dl_phdr_info *i, size_t s, void *d) { return 1; }\nint find(void) { return dl_iterate_phdr(one, 0) - 1; }\n",
        );
        program.session.must(&Job::new(&dir, "gcc").words("-O2 -fPIC -c find.c"));
        program.session.must(&Job::new(&dir, "ar").words("rc own/libc.a find.o"));
        let linkers: &[Linker] = if *name == "script" { &[Linker::Bfd] } else { &[Linker::Lld, Linker::Bfd] };
        for linker in linkers {
            let what = format!("{name} {}", linker.name());
            let kept = program.link("plain", *linker, mode, "kept");
            let linked = program.link("plain", *linker, &format!("{mode} {UNUSED}"), "out");
            program.session.check_eq(&linked.ok(), &kept.ok(), &linked.stderr);
            let note = "out: all unwind entries are kept: ";
            program.session.check(linked.stderr.contains(note), &format!("{what}: {}", linked.stderr));
            program.session.check(linked.stderr.contains(why), &format!("{what}: {}", linked.stderr));
            if kept.ok() {
                let bytes = |out: &str| std::fs::read(dir.join(out)).unwrap();
                program.session.check(bytes("kept") == bytes("out"), &format!("{what}: the files differ"));
            }
        }
    }
}

#[test]
fn a_library_that_can_not_unwind_keeps_nothing() {
    let mut program = Program::new("library", "gcc", "-O2", &[("main.c", USES_LIBRARY)]);
    let dir = program.session.dir().to_owned();
    program.session.write("library.c", "int library(int (*f)(int), int x) { return f(x); }\n");
    program.session.must(&Job::new(&dir, "gcc").words("-shared -fPIC library.c -o liblibrary.so"));
    for linker in Linker::ALL {
        let mode = format!("-L. -llibrary -Wl,-rpath,$ORIGIN {UNUSED}");
        let linked = program.must_link("plain", linker, &mode, "out");
        program.session.check_eq(&linked.stderr, &String::new(), linker.name());
        let has = program_has(&mut program, "out", ".eh_frame");
        program.check(!has, linker.name());
        let ran = program.runs("out");
        program.session.check(ran.ok(), linker.name());
    }
}

#[test]
fn dropping_what_is_needed_is_an_error() {
    let drop = "-Wl,--prune-unwind=drop";
    let throws: &[(&str, &str)] = &[("main.cc", THROWS), ("catches.cc", CATCHES), ("through.c", THROUGH_C)];
    let mut program = Program::new("drop-throws", "gcc", "-O2", throws);
    let linked = program.link("plain", Linker::Lld, drop, "out");
    let says = |program: &Program, linked: &Outcome, text: &str| {
        program.session.check(linked.stderr.contains(text), &linked.stderr);
    };
    program.session.check(!linked.ok() && !program.session.path("out").exists(), "an error, and no file");
    says(&program, &linked, "error: out: --prune-unwind=drop: ");
    says(&program, &linked, "calls __cxa_throw, and ");
    let mut program = Program::new("drop-signal", "gcc", "-O2", &[("main.c", SIGNAL)]);
    let linked = program.must_link("plain", Linker::Lld, drop, "out");
    says(&program, &linked, "warning: out: without unwind entries");
    says(&program, &linked, "main -> handler calls backtrace");
    let has = program_has(&mut program, "out", ".eh_frame");
    program.check(!has, "dropped");
    let mut program = Program::new("drop-quiet", "gcc", "-O2", &[("main.c", QUIET)]);
    let linked = program.must_link("plain", Linker::Lld, drop, "out");
    program.session.check_eq(&linked.stderr, &String::new(), "nothing to say");
    let has = program_has(&mut program, "out", ".eh_frame");
    program.check(!has, "dropped");
}

#[test]
fn statistics_and_reports_have_the_entries() {
    let mut program = Program::new("statistics", "gcc", "-O2", &[("main.c", QUIET)]);
    let linked = program.must_link("plain", Linker::Lld, "-Wl,--prune-stats", "out");
    let more = linked.stderr.lines().find(|line| line.trim_start().starts_with("more: ")).unwrap_or_default();
    let says = more.ends_with(" bytes of unwind entries that nothing needs; link with --prune-unwind=unused");
    program.check(says, &linked.stderr);
    let mut report = |mode: &str| {
        program.must_link("plain", Linker::Lld, &format!("{mode} -Wl,--prune-report=report"), "out");
        let text = std::fs::read(program.session.path("report")).unwrap();
        let report: serde_json::Value = serde_json::from_slice(&text).unwrap();
        report["unwind"].clone()
    };
    assert_eq!(report(""), serde_json::Value::Null);
    let unused = report(UNUSED);
    assert_eq!(
        (&unused["mode"], &unused["kept"], &unused["why"]),
        (&"unused".into(), &0.into(), &serde_json::Value::Null)
    );
    assert!(unused["functions"].as_u64() > Some(3) && unused["bytes"].as_u64() > Some(80), "{unused}");
}

#[test]
fn audits_say_how_large_unwind_tables_are() {
    let mut program = Program::new("audits", "gcc", "-O2", &[("main.c", QUIET)]);
    let dir = program.session.dir().to_owned();
    let mut tables = Vec::new();
    for (mode, sentence) in [
        ("", None),
        ("-Wl,--prune-stats", Some("--prune-unwind=unused would remove ")),
        (UNUSED, Some(" bytes of unwind entries are removed, of ")),
    ] {
        program.must_link("plain", Linker::Lld, &format!("{mode} -Wl,--prune-report=report.json"), "out");
        let audit = |words: &str| {
            Job::new(&dir, tools::lto_prune()).words("audit top --all -n 0").words(words).arg("report.json")
        };
        let text = program.session.must(&audit("")).stdout;
        let says = |sentence: &str| text.contains(sentence);
        program.check(sentence.map_or(!says("unwind entries"), says), &text);
        let answer: serde_json::Value =
            serde_json::from_str(&program.session.must(&audit("--by=category --json")).stdout).unwrap();
        let rows = answer["top"].as_array().unwrap();
        let bytes = |row: &serde_json::Value| row["bytes"].as_i64().unwrap();
        let of_tables = rows.iter().find(|row| row["category"] == "eh_frame").map_or(0, bytes);
        let length = std::fs::metadata(dir.join("out")).unwrap().len() as i64;
        program.session.check_eq(&rows.iter().map(bytes).sum::<i64>(), &length, mode);
        tables.push(of_tables);
    }
    program.check(tables[0] == tables[1] && tables[2] < tables[1] / 4, &format!("{tables:?}"));
}

/// The contents of a section of an object.
fn contents(object: &Path, section: &str) -> Vec<u8> {
    let bytes = std::fs::read(object).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    file.section_by_name(section).map_or_else(Vec::new, |section| section.data().unwrap().to_vec())
}

#[test]
fn debug_frame_is_what_the_assembler_writes() {
    let text = QUIET.to_owned()
        + "void many(int, int, int, int, int, int, int, int, int);\nint stack(int n) { char room[n]; many(n, n, n, n, n, n, n, n, room[0]); return n; }\nvoid many(int a, int b, int c, int d, int e, int f, int g, int h, int i) { printf(\"%d\", a + i); }\n int (*used)(int) = stack;\n";
    for opt in ["-O0", "-O2", "-Os"] {
        let mut program =
            Program::new(&format!("assembler{opt}"), "gcc", &format!("{opt} -g"), &[("main.c", &text)]);
        let dir = program.session.dir().to_owned();
        let job = format!("-c -w -fPIE {opt} -g -fno-asynchronous-unwind-tables main.c -o expected.o");
        program.session.must(&Job::new(&dir, "gcc").words(&job));
        program.must_link(
            "plain",
            Linker::Lld,
            &format!("{UNUSED} -Wl,--prune-keep=* -Wl,--prune-emit=emitted"),
            "out",
        );
        let emitted =
            walk(&dir.join("emitted")).into_iter().find(|path| path.ends_with("main.o")).expect("main.o");
        let expected = contents(&dir.join("expected.o"), ".debug_frame");
        let found = contents(&emitted, ".debug_frame");
        program.session.check(!expected.is_empty(), "there is something to compare");
        program.session.check_eq(&found, &expected, opt);
    }
}

fn walk(dir: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(walk(&path)) } else { found.push(path) }
    }
    found
}
