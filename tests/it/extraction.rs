//! The list of loaded files in the report agrees with the linker's own trace.
//!
//! mold 1.10 traces every member that it parses, extracted or not; its map must have no file that the report lacks.
//!
//! wild logs the sections that it loads, of all loaded files if it collects no garbage. Members of one name in an archive are not distinguished.
//!
//! Every other linker prints the files that it loads (`--trace`), members as `archive(member)`. Two members of one name have the same line, so the
//! lists are compared as sorted lists with repetition.

use std::path::Path;

use crate::reports;
use crate::run::{Job, Session};
use crate::tools::{self, Linker};

/// Compares the files that each linker loads for `line` with the report.
fn compare(name: &str, driver: &str, line: &str, sources: &[(&str, &str)], prepare: &[(&str, &str)]) {
    for linker in Linker::ALL {
        compare_by(linker, &linker.path(), linker.name(), (name, driver, line), sources, prepare);
    }
}

/// The same of one linker, at `path`.
fn compare_by(
    linker: Linker,
    path: &Path,
    linker_name: &str,
    (name, driver, line): (&str, &str, &str),
    sources: &[(&str, &str)],
    prepare: &[(&str, &str)],
) {
    let mut session = Session::new(&format!("extraction/{name}-{linker_name}"));
    let dir = session.dir().to_owned();
    for (file, text) in sources {
        session.write(file, text);
    }
    for (program, args) in prepare {
        session.must(&Job::new(&dir, *program).words(args));
    }
    tools::shim_dir(&session.path("plain"), path);
    session.shims();
    // Given twice, GNU ld's lists archive members too.
    let trace = match linker {
        Linker::Bfd => "-Wl,-t,-t",
        Linker::Mold => "-Wl,-Map=plain.map",
        Linker::Wild => "-Wl,--no-gc-sections",
        _ => "-Wl,--trace",
    };
    let plain = Job::new(&dir, driver).words("-B plain -o plain.out").arg(trace).words(line);
    let traced = session.must(&plain.env("WILD_LOG", "debug"));
    let pruned = Job::new(&dir, driver).words("-B shims -o out -Wl,--prune-report=report.json").words(line);
    session.must(&pruned.env("LTO_PRUNE_LINKER", path));

    let map = std::fs::read_to_string(session.path("plain.map")).unwrap_or_default();
    let text = format!("{}{}{map}", traced.stdout, traced.stderr);
    let report = session.report("report.json");
    let mut ours: Vec<String> = reports::module_names(&report).iter().map(|n| normal(n)).collect();
    let mut theirs: Vec<String> = text.lines().filter_map(object_of_trace).collect();
    ours.sort();
    theirs.sort();
    if matches!(linker, Linker::Mold | Linker::Wild) {
        theirs.dedup();
    }
    if linker == Linker::Wild {
        ours.dedup();
    }
    let missing: Vec<_> = difference(&theirs, &ours);
    let extra = if linker == Linker::Mold { Vec::new() } else { difference(&ours, &theirs) };
    session.check(
        missing.is_empty() && extra.is_empty(),
        &format!("{name} {linker_name}: we miss {missing:?}\nand invent {extra:?}"),
    );
    session.check(theirs.len() > 3, &format!("trace not understood: {:?}", traced.stdout));
}

/// The entries of sorted `a` that sorted `b` lacks, with repetition.
fn difference(a: &[String], b: &[String]) -> Vec<String> {
    let mut rest = b.to_vec();
    let keep = |x: &&String| match rest.binary_search(x) {
        Ok(at) => {
            rest.remove(at);
            false
        }
        Err(_) => true,
    };
    a.iter().filter(keep).cloned().collect()
}

/// The relocatable object that a line of a trace names.
fn object_of_trace(line: &str) -> Option<String> {
    let mut line = line.trim();
    // mold: `trace: file`; others print the name alone. bfd: `(archive)member` in old versions.
    if let Some((_, rest)) = line.split_once("trace: ") {
        line = rest;
    }
    // wild: `loaded_section=.text file=archive @ member`.
    if line.contains("loaded_section=") {
        let (_, file) = line.split_once(" file=")?;
        return Some(match file.split_once(" @ ") {
            Some((archive, member)) => normal(&format!("{archive}({member})")),
            None => normal(file),
        });
    }
    // A line of mold's map: address, size, alignment, `file:(section)`; its other lines name symbols.
    if line.starts_with(|c: char| c.is_ascii_digit()) {
        let (file, _) = line.split_whitespace().nth(3)?.split_once(":(")?;
        return object_of_trace(file);
    }
    // GNU ld: `(archive)member`.
    if let Some((archive, member)) = line.strip_prefix('(').and_then(|l| l.split_once(')')) {
        return Some(normal(&format!("{archive}({member})")));
    }
    let is_member = line.ends_with(')');
    (is_member || line.ends_with(".o") || line.ends_with(".obj")).then(|| normal(line))
}

/// The same name for the same file: no `..`, no doubled slashes, no symbolic links in the folder.
fn normal(name: &str) -> String {
    let (file, member) = match name.find('(') {
        Some(at) => name.split_at(at),
        None => (name, ""),
    };
    let path = std::path::Path::new(file);
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let path = path.to_string_lossy().into_owned();
    format!("{}{member}", path.strip_prefix("./").unwrap_or(&path))
}

const HELLO_C: &str =
    "#include <stdio.h>\nint main(void) { printf(\"%d %s %f\\n\", 1, \"hello\", 2.5); return 0; }\n";
const HELLO_CPP: &str = "#include <iostream>\n#include <stdexcept>\n\
    int main(int argc, char **) { try { if (argc) throw std::runtime_error(\"hello\"); } \
    catch (std::exception &e) { std::cout << e.what() << std::endl; } return 0; }\n";

#[test]
fn hello_static() {
    compare("c-static", "gcc", "-static hello.o", &[("hello.c", HELLO_C)], &[("gcc", "-O2 -c hello.c")]);
}

#[test]
fn hello_dynamic() {
    compare("c-dynamic", "gcc", "hello.o -lm", &[("hello.c", HELLO_C)], &[("gcc", "-O2 -c hello.c")]);
}

#[test]
fn hello_cxx_static() {
    let prepare = [("g++", "-O2 -c hello.cpp")];
    compare("cxx-static", "g++", "-static hello.o", &[("hello.cpp", HELLO_CPP)], &prepare);
}

#[test]
fn threads_and_names_static() {
    let main = "#include <pthread.h>\n#include <math.h>\n#include <stdlib.h>\n#include <time.h>\n\
        void *f(void *p) { return p; }\nint main(int c, char **v) { pthread_t t; pthread_create(&t, 0, f, v); \
        qsort(v, c, sizeof *v, (int (*)(const void *, const void *))f); setenv(\"TZ\", v[0], 1); tzset(); \
        return pthread_join(t, 0) + (int)pow(c, 0.5) + atoi(v[0]); }\n";
    let prepare = [("gcc", "-O1 -c main.c -w")];
    compare("threads-static", "gcc", "-static main.o -lm -lpthread", &[("main.c", main)], &prepare);
}

#[test]
fn circular_archives() {
    let sources = [
        ("main.c", "int a1(void); extern int common; int common; int main(void) { return a1() - 6; }"),
        ("a1.c", "int b1(void); int a1(void) { return b1() + 1; }"),
        ("a2.c", "int b2(void); int a2(void) { return b2() + 1; } int unused_a2(void) { return 0; }"),
        ("a3.c", "int common = 3; int a3(void) { return 3; }"),
        ("b1.c", "int a2(void); int b1(void) { return a2() + 2; }"),
        ("b2.c", "int b2(void) { return 2; }"),
        ("b3.c", "int a3(void); int b3(void) { return a3(); }"),
        ("weak.c", "int weakly(void) { return 1; }"),
        ("wref.c", "__attribute__((weak)) int weakly(void); int (*p)(void) = weakly;"),
    ];
    let prepare = [
        ("gcc", "-O1 -fcommon -c main.c a1.c a2.c a3.c b1.c b2.c b3.c weak.c wref.c"),
        ("ar", "qcs liba.a a1.o a2.o a3.o weak.o"),
        ("ar", "qcs libb.a b1.o b2.o b3.o"),
    ];
    let line = "main.o wref.o -Wl,--start-group liba.a libb.a -Wl,--end-group";
    compare("circular", "gcc", line, &sources, &prepare);
}

#[test]
fn archive_order_matters() {
    // bfd and gold look at an archive once, where it stands; lld and mold remember it.
    let sources = [
        ("main.c", "int x(void); int main(void) { return x() - 1; }"),
        ("x1.c", "int x(void) { return 1; } int y(void);"),
        ("x2.c", "int y(void); int x(void) { return y(); }"),
    ];
    let prepare =
        [("gcc", "-O1 -c main.c x1.c x2.c"), ("ar", "qcs libone.a x1.o"), ("ar", "qcs libtwo.a x2.o")];
    compare("order", "gcc", "main.o libone.a libtwo.a", &sources, &prepare);
}

#[test]
fn expressions_extract() {
    // bfd looks at what an expression names where the option stands, lld once it has read all, the others before all.
    let sources = [
        (
            "main.c",
            "int renamed(void); __attribute__((weak)) int target(void); int main(void) { return renamed() - 1; }",
        ),
        ("one.c", "int target(void) { return 1; }"),
        ("two.c", "int target(void) { return 1; } int two(void) { return 2; }"),
        ("other.c", "int renamed(void) { return 1; }"),
    ];
    let prepare = [
        ("gcc", "-O1 -c main.c one.c two.c other.c"),
        ("ar", "qcs libone.a one.o"),
        ("ar", "qcs libtwo.a two.o"),
        ("ar", "qcs libother.a other.o"),
    ];
    for (name, line) in [
        ("expression-first", "-Wl,--defsym=renamed=target main.o libone.a libtwo.a"),
        ("expression-between", "main.o libone.a -Wl,--defsym=renamed=target libtwo.a"),
        ("defined-first", "-Wl,--defsym=renamed=main main.o libother.a"),
        ("defined-behind", "main.o -Wl,--defsym=renamed=main libother.a"),
    ] {
        // mold 1.10 ends in an assertion where it writes a map of an expression.
        for linker in [Linker::Lld, Linker::Bfd, Linker::Gold] {
            compare_by(linker, &linker.path(), linker.name(), (name, "gcc", line), &sources, &prepare);
        }
    }
}

/// Bitcode by the symbols that it carries, in archives with native members, by two versions of lld: the second reads what an older LLVM wrote.
#[test]
fn bitcode_and_native_members() {
    let sources = [
        (
            "main.c",
            "int n1(void); int b1(void); int tentative; __attribute__((weak)) int weakly(void); int inl(void); \
             int main(void) { return n1() + b1() + tentative + (weakly ? weakly() : 0) + inl(); }",
        ),
        ("n1.c", "int b2(void); int n1(void) { return b2() + 1; }"),
        ("n2.c", "int n2(void) { return 2; } int unused_n2(void) { return 0; }"),
        ("n3.c", "int in_asm(void); int n3(void) { return in_asm(); }"),
        ("n4.c", "int n4(void) { return 4; }"),
        ("n5.c", "int n5(void) { return 5; }"),
        ("wants.c", "int wanted_by_asm(void) { return 9; }"),
        (
            "b1.c",
            "int n2(void); static int hidden(void) { return n2(); } int b1(void) { return hidden() + 2; }",
        ),
        ("b2.c", "int n3(void); extern int common; int b2(void) { return n3() + common; }"),
        ("b3.c", "asm(\".globl in_asm\\nin_asm: jmp wanted_by_asm\\n\");"),
        ("b4.c", "int tentative = 4; int n5(void); int b4(void) { return n5(); }"),
        ("b5.c", "int weakly(void) { return 7; } int n4(void); int b5(void) { return n4(); }"),
        ("b6.c", "int n4(void); extern int away; int (*b6)(void) = n4; int common;"),
        (
            "b7.cc",
            "struct S { virtual int f(); virtual int g() { return 1; } }; int S::f() { return 2; } \
             template <class T> int both() { static T t; return ++t; } extern \"C\" int n4(void); \
             extern \"C\" int inl(void) { S s; S *p = &s; return p->g() + both<int>() + n4(); }",
        ),
    ];
    let prepare = [
        ("clang-19", "-O1 -fcommon -c main.c n1.c n2.c n3.c n4.c n5.c wants.c"),
        ("clang-19", "-O1 -flto=thin -c b1.c b3.c b5.c"),
        ("clang-19", "-O1 -flto -fcommon -c b2.c b4.c b6.c"),
        ("clang++-19", "-O2 -flto=thin -fno-exceptions -fno-rtti -c b7.cc"),
        ("llvm-ar-19", "qcs libone.a n5.o b1.o n3.o b5.o wants.o b4.o"),
        ("llvm-ar-19", "qcs libtwo.a b2.o n1.o n2.o b3.o n4.o b6.o b7.o"),
    ];
    let lld22 = tools::lld_of_rustc();
    for (path, name) in [(Linker::Lld.path(), "lld"), (lld22, "lld22")] {
        let what = ("bitcode", "gcc", "main.o libone.a libtwo.a");
        compare_by(Linker::Lld, &path, name, what, &sources, &prepare);
    }
}
