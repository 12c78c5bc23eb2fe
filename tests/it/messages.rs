//! Links with messages, errors or side effects that fixtures cannot express.
//!
//! Each is linked plainly and through lto-prune, by the same words in two folders, and must end in the same way.

use crate::elf::Facts;
use crate::run::{Job, Session};
use crate::tools::{self, Linker};

const MAIN: &str = "int dead(void) { return 1; }\nint main(void) { return 0; }\n";

/// Two folders, `plain` and `pruned`, each with main.o and the shims of its linker.
struct Sides {
    session: Session,
    linker: Linker,
}

const KINDS: [&str; 2] = ["plain", "pruned"];

impl Sides {
    fn new(name: &str, linker: Linker) -> Self {
        let session = Session::new(&format!("messages/{name}-{}", linker.name()));
        let mut sides = Sides { session, linker };
        sides.write("main.c", MAIN);
        for (kind, program) in KINDS.into_iter().zip([linker.path(), tools::lto_prune()]) {
            tools::shim_dir(&sides.session.path(&format!("{kind}/shims")), &program);
        }
        sides.run("gcc -O1 -ffunction-sections -fPIC -c main.c");
        sides
    }

    fn write(&self, file: &str, text: &str) {
        KINDS.iter().for_each(|kind| drop(self.session.write(&format!("{kind}/{file}"), text)));
    }

    /// Runs a command in both folders; returns what it prints.
    fn run(&mut self, line: &str) -> [String; 2] {
        KINDS.map(|kind| {
            let (program, words) = line.split_once(' ').unwrap();
            let job = Job::new(&self.session.path(kind), program).words(words);
            self.session.must(&job).stdout
        })
    }

    fn bytes(&self, file: &str) -> [Vec<u8>; 2] {
        KINDS.map(|kind| self.session.bytes(&format!("{kind}/{file}")))
    }

    /// Links by the same words in both folders; both links must end in the same way.
    fn link(&mut self, words: &str) -> i32 {
        self.link_or_limit(words, false)
    }

    /// With `limits` the tool may print why it does not prune a link that succeeds.
    fn link_or_limit(&mut self, words: &str, limits: bool) -> i32 {
        let mut outcomes = Vec::new();
        for kind in KINDS {
            let job = Job::new(&self.session.path(kind), "gcc").words("-B shims").words(words);
            let outcome = self.session.run(&job.by(self.linker));
            let said = match limits && outcome.ok() {
                true => outcome.stderr.replace("lto-prune: warning: out: gate: ", "lto-prune: limit: "),
                false => outcome.stderr,
            };
            let lines = said.lines().filter(|line| !line.starts_with("lto-prune: limit: "));
            let said: String = lines.map(|line| format!("{line}\n")).collect();
            outcomes.push((outcome.status, crate::compare::messages(&said, self.linker), outcome.stdout));
        }
        self.session.check_eq(&outcomes[1], &outcomes[0], words);
        outcomes[0].0
    }
}

#[test]
fn an_output_that_is_an_input() {
    // The words are passed to the linker, because the driver would refuse them. mold's result depends on its threads; so do the files that
    // remain if wild detects a changed input.
    for linker in Linker::ALL.into_iter().filter(|linker| *linker != Linker::Mold) {
        let mut sides = Sides::new("output-is-input", linker);
        sides.link("-Xlinker main.o -Xlinker -o -Xlinker main.o");
        let [plain, pruned] = sides.bytes("main.o");
        let is_same = plain == pruned || linker == Linker::Wild;
        sides.session.check(is_same, &format!("{}: another output", linker.name()));
    }
}

#[test]
fn a_response_file_in_a_response_file() {
    for linker in Linker::ALL {
        let mut sides = Sides::new("nested-response", linker);
        sides.write("outer", "-z now @inner");
        sides.write("inner", "-z relro");
        sides.link("main.o -Xlinker @outer -o out");
    }
}

#[test]
fn inputs_that_only_some_linkers_take() {
    let lines = [
        // An archive in BSD's form, one with an empty member, and one that is found by a path.
        "main.o use.o bsd.a",
        "main.o use.o odd.a -Wl,--fatal-warnings",
        "main.o use.o -L. -l:./f.a",
        // A program, and a shared library.
        "main.o use.o f.o program",
        "main.o use.o libf.so -Wl,-rpath,.",
        // Commands of scripts, and their words.
        "main.o use.o f.o target.ld",
        "main.o use.o f.o architecture.ld",
        "main.o use.o f.o format.ld",
        "main.o use.o f.o binary.ld",
        // A group without an end, and two options where not every linker uses the last.
        "main.o use.o -Wl,--start-lib f.o",
        "main.o use.o f.o -Wl,-z,execstack,-z,noexecstack",
        // A library without a soname that another one needs, and messages with names of inputs.
        "main.o one.o -Wl,--as-needed ./libone.so ./libf.so",
        "-Wl,-z,cet-report=warning ./shims/../main.o use.o f.o",
    ];
    for linker in Linker::ALL {
        let mut sides = Sides::new("inputs", linker);
        for (file, text) in [
            ("f.c", "int f(void) { return 1; }\n"),
            ("use.c", "int f(void); int g(void) { return f(); }\n"),
            ("one.c", "int g(void); int one(void) { return g(); }\n"),
            ("empty.o", ""),
            ("target.ld", "TARGET(elf64-x86-64)\n"),
            ("architecture.ld", "OUTPUT_ARCH(i386:x86-64)\n"),
            ("format.ld", "OUTPUT_FORMAT(elf64-x86-64)\n"),
            ("binary.ld", "OUTPUT_FORMAT(binary)\n"),
        ] {
            sides.write(file, text);
        }
        for line in [
            "gcc -O1 -ffunction-sections -fPIC -c f.c use.c one.c",
            "llvm-ar-19 --format=bsd qcs bsd.a f.o",
            "ar qcs odd.a f.o empty.o",
            "ar qcs f.a f.o",
            "gcc -pie main.o f.o -o program",
            "gcc -shared f.o -o libf.so",
            "gcc -shared use.o -L. -lf -o libone.so",
        ] {
            sides.run(line);
        }
        for line in lines {
            sides.link_or_limit(&format!("{line} -o out"), true);
        }
    }
}

#[test]
fn words_that_only_some_linkers_take() {
    let words = [
        // Prefixes of options, which GNU ld completes, with one dash too.
        "--ent=dead",
        "-ent=dead",
        "--wra=main",
        "--ini=dead",
        "--export-dynamic-symbol-l=list",
        // Options of other linkers, a value for an option without one, and the end of options.
        "--library=m",
        "--library m",
        "--whole-archive=1",
        "--gc-sections=1",
        "--",
        "-format=elf",
        "-orphan-handling=warn",
        "-export-dynamic-symbol-list=list",
    ];
    for linker in Linker::ALL {
        let mut sides = Sides::new("words", linker);
        sides.write("list", "{ dead; };\n");
        for word in words {
            let word = word.split(' ').map(|part| format!("-Xlinker {part}")).collect::<Vec<_>>().join(" ");
            sides.link_or_limit(&format!("main.o {word} -o out"), true);
            let [plain, pruned] = KINDS.map(|kind| {
                let facts = Facts::read(&sides.session.path(&format!("{kind}/out")));
                facts.map(|facts| (facts.needed, facts.exports)).unwrap_or_default()
            });
            sides.session.check_eq(&pruned, &plain, &format!("{word}: (libraries, exports)"));
        }
    }
}

#[test]
fn variables_that_are_options() {
    // Each has the linker record its inputs, which must be the user's, or write another file.
    for (linker, variable, value, file) in [
        (Linker::Lld, "LLD_REPRODUCE", "record.tar", "record.tar"),
        (Linker::Mold, "MOLD_REPRO", "1", "out.repro.tar"),
        (Linker::Wild, "WILD_SAVE_DIR", "record", "record"),
        (Linker::Wild, "WILD_WRITE_LAYOUT", "1", "out.layout"),
    ] {
        let mut sides = Sides::new(&format!("variable-{variable}"), linker);
        for kind in KINDS {
            let job = Job::new(&sides.session.path(kind), "gcc").words("-B shims main.o -o out");
            sides.session.must(&job.by(linker).env(variable, value));
            let is_there = sides.session.path(&format!("{kind}/{file}")).exists();
            sides.session.check(is_there, &format!("{kind}: no {file}"));
        }
        let [plain, pruned] = sides.bytes("out");
        sides.session.check(plain == pruned, &format!("{variable}: the output is pruned"));
    }
}

#[test]
fn why_extract_lists_what_it_lists() {
    let mut sides = Sides::new("why-extract", Linker::Lld);
    sides.write("f.c", "int f(void) { return 1; }\n");
    sides.write("use.c", "int f(void); int g(void) { return f(); }\n");
    sides.run("gcc -O1 -ffunction-sections -c f.c use.c");
    sides.run("ar qcs f.a f.o");
    sides.link("main.o use.o f.a -Wl,--why-extract=why.txt -o out");
    let [plain, pruned] = sides.bytes("why.txt").map(|bytes| String::from_utf8(bytes).unwrap());
    sides.session.check(plain.contains("f.a(f.o)"), "the plain link lists nothing");
    sides.session.check_eq(&pruned, &plain, "--why-extract");
}

#[test]
fn base_version_of_an_output() {
    for (linker, kind) in [Linker::Gold, Linker::Mold, Linker::Lld]
        .into_iter()
        .flat_map(|linker| ["-shared", "-rdynamic"].map(|kind| (linker, kind)))
    {
        let mut sides = Sides::new(&format!("base-version{kind}"), linker);
        sides.write("v.map", "V1 { global: main; local: *; };\n");
        sides.link(&format!("{kind} main.o -Wl,--version-script=v.map -o out"));
        let [plain, pruned] = sides.run("readelf -VW out").map(|text| {
            let line = text.lines().find(|line| line.contains("BASE")).unwrap_or_default();
            line.rsplit("Name: ").next().unwrap_or_default().to_owned()
        });
        sides.session.check(!plain.is_empty(), "the plain output has no base version");
        sides.session.check_eq(&pruned, &plain, "the base version");
    }
}

#[test]
fn undefined_symbols_without_a_relocation() {
    for linker in Linker::ALL {
        let mut sides = Sides::new("undefined-hook", linker);
        sides.write("f.c", "int f(void) { return 1; }\n");
        sides.write("hook.c", "int hook(void) { return 2; }\nint gone(void) { return 3; }\n");
        sides.write("v.map", "{ global: f; local: *; };\n");
        sides.run("gcc -O1 -fPIC -ffunction-sections -c f.c hook.c");
        sides.run("ld.bfd -r -u hook f.o -o hooked.o");
        sides.link("-shared hooked.o hook.o -Wl,--version-script=v.map -o out");
        for text in sides.run("readelf --dyn-syms -W out") {
            let undefined = text.lines().any(|l| l.contains("UND") && l.ends_with("hook"));
            sides.session.check(!undefined, &format!("hook is undefined in {text}"));
        }
    }
}
