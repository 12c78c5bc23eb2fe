//! Virtual functions that nothing calls, in bitcode and in native code: exactly they become stubs, and none where a shared library has the
//! objects.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;

use crate::run::{Job, Session};
use crate::tools::{self, Linker};

/// Classes with three virtual functions and a destructor. The program never calls `never`.
const CLASSES: usize = 50;

const BASE: &str = "struct Shape {\n  virtual int area(int x) const = 0;\n  virtual int used(int x) const { return x; }\n\
    virtual int never(int x) const { return x * 3; }\n  virtual ~Shape() {}\n};\n";

/// The program; `uses` is a statement with a `Shape *p`.
fn source(uses: &str) -> String {
    let mut text = format!("#include <cstdio>\n{BASE}extern \"C\" int use(Shape *);\n");
    for i in 0..CLASSES {
        let _ = write!(
            text,
            "struct S{i} final : Shape {{\n  int k;\n  S{i}(int k) : k(k) {{}}\n  int area(int) const override;\n  \
             int used(int) const override;\n  int never(int) const override;\n}};\n\
             int S{i}::area(int x) const {{ return x * {i} + k; }}\n\
             int S{i}::used(int x) const {{ return x ^ ({i} + k); }}\n\
             int S{i}::never(int x) const {{ return x * ({i} + 1000) + {i} * k; }}\n"
        );
    }
    text.push_str("static Shape *make(int i) {\n  switch (i) {\n");
    for i in 0..CLASSES {
        let _ = writeln!(text, "  case {i}: return new S{i}({i});");
    }
    let _ = write!(
        text,
        "  default: return nullptr;\n  }}\n}}\nint main(int argc, char **) {{\n  int sum = 0;\n  \
         for (int i = 0; i < {CLASSES}; i++) {{\n    Shape *p = make((i * 7 + argc) % {CLASSES});\n    \
         sum += p->area(i);\n    sum += p->used(sum);\n    {uses}\n    delete p;\n  }}\n  \
         std::printf(\"%d\\n\", sum);\n}}\n"
    );
    text
}

const LIBRARY: &str = "extern \"C\" int use(Shape *p) { return p->never(5); }\n";

/// Links a program both ways, and returns the names of its stubs, and the dropped names of its own module.
fn stubs(name: &str, compiler: &str, flags: &str, library: bool) -> (BTreeSet<String>, BTreeSet<String>) {
    let mut session = Session::new(&format!("vtables/{name}"));
    let dir = session.dir().to_owned();
    let uses = if library { "sum += use(p);" } else { "" };
    fs::write(dir.join("main.cpp"), source(uses)).unwrap();
    fs::write(dir.join("library.cpp"), format!("{BASE}{LIBRARY}")).unwrap();
    let lld = Linker::Lld.path();
    tools::shim_dir(&session.path("plain"), &lld);
    session.shims();
    let mut line = "main.o".to_owned();
    session.must(&Job::new(&dir, compiler).words(flags).words("-c main.cpp -o main.o"));
    if library {
        session.cmd(&format!("{compiler} -O2 -fPIC -shared library.cpp -o libuse.so"));
        line.push_str(" -L. -luse -Wl,-rpath,$ORIGIN");
    }
    session.must(&Job::new(&dir, compiler).words(flags).words("-B plain -o plain.out").words(&line));
    let job = Job::new(&dir, compiler).words(flags).words("-B shims -o out").words(&line);
    let options = "-Wl,--prune-level=pointers -Wl,--prune-strict -Wl,--prune-report=report.json";
    session.must(&job.words(options).env("LTO_PRUNE_LINKER", &lld));
    let plain = session.cmd("./plain.out");
    let pruned = session.cmd("./out");
    session.check_eq(&pruned.stdout, &plain.stdout, "output");
    let report = session.report("report.json");
    let modules = report["modules"].as_array().unwrap();
    let own = modules.iter().position(|m| m["name"].as_str().is_some_and(|n| n.ends_with("main.o"))).unwrap();
    let named = |state: &str| {
        let atoms = report["atoms"].as_array().unwrap().iter();
        let atoms = atoms.filter(|a| a["state"] == state && a["kind"] == "code" && a["module"] == own);
        atoms.filter_map(|a| Some(a["symbols"][0].as_str()?.to_owned())).collect()
    };
    (named("stub"), named("dropped"))
}

/// `_ZNK3S305neverEi` and its like; of the base class, which no object is of, nothing is needed at all.
fn never_called() -> BTreeSet<String> {
    let name = |i: usize| {
        let class = format!("S{i}");
        format!("_ZNK{}{class}5neverEi", class.len())
    };
    (0..CLASSES).map(name).collect()
}

#[test]
fn exactly_the_slots_that_nothing_calls() {
    for (name, compiler, flags) in [
        ("thin", "clang++-19", "-O2 -flto=thin"),
        ("thin-O0", "clang++-19", "-O0 -flto=thin"),
        ("full", "clang++-19", "-O2 -flto"),
        // Two modules in a file: one for a full link with vtables and typed functions, and one for a thin link with the rest.
        ("split", "clang++-19", "-O2 -flto=thin -fwhole-program-vtables -fvisibility=hidden"),
        ("split-O0", "clang++-19", "-O0 -flto=thin -fwhole-program-vtables -fsplit-lto-unit"),
        ("types", "clang++-19", "-O2 -flto -fwhole-program-vtables -fvisibility=hidden"),
        ("native-gcc", "g++", "-O2"),
    ] {
        let (stubs, _) = stubs(name, compiler, flags, false);
        let ours: BTreeSet<String> =
            stubs.iter().filter(|s| s.contains("5never") && !s.contains("5Shape")).cloned().collect();
        assert_eq!(ours.difference(&never_called()).collect::<Vec<_>>(), Vec::<&String>::new(), "{name}");
        assert_eq!(never_called().difference(&ours).collect::<Vec<_>>(), Vec::<&String>::new(), "{name}");
        // Nor is anything else a stub that is called: objects are deleted through their tables.
        let called = ["4area", "4used", "D0Ev"];
        assert!(stubs.iter().all(|s| called.iter().all(|c| !s.contains(c))), "{name}: {stubs:?}");
    }
}

#[test]
fn what_a_library_has_keeps_its_slots() {
    for (name, compiler, flags) in [
        ("library-thin", "clang++-19", "-O2 -flto=thin"),
        ("library-full", "clang++-19", "-O2 -flto"),
        ("library-split", "clang++-19", "-O2 -flto=thin -fwhole-program-vtables -fsplit-lto-unit"),
        ("library-gcc", "g++", "-O2"),
    ] {
        let (stubs, dropped) = stubs(name, compiler, flags, true);
        let of_classes = |names: &BTreeSet<String>| {
            names.iter().filter(|s| s.starts_with("_ZNK")).cloned().collect::<Vec<_>>()
        };
        assert_eq!(of_classes(&stubs), Vec::<String>::new(), "{name}");
        assert_eq!(of_classes(&dropped).iter().filter(|s| s.contains('S')).count(), 0, "{name}: {dropped:?}");
    }
}
