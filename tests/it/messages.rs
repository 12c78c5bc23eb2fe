//! Links that say, refuse or need something besides the program, for which no fixture has the form.
//!
//! Each is linked plainly and through us by the same words in two folders, and must end alike.

use std::path::PathBuf;

use crate::run::{Job, Session};
use crate::tools::{self, Linker};

const MAIN: &str = "int dead(void) { return 1; }\nint main(void) { return 0; }\n";

/// A session with two folders, `plain` and `pruned`, each with main.o and a compiler driver's linker of its kind.
fn prepare(name: &str, linker: Linker) -> Session {
    let mut session = Session::new(&format!("messages/{name}-{}", linker.name()));
    for (kind, program) in [("plain", linker.path()), ("pruned", tools::lto_prune())] {
        tools::shim_dir(&session.path(&format!("{kind}/shims")), &program);
        session.write(&format!("{kind}/main.c"), MAIN);
        let dir = session.path(kind);
        session.must(&Job::new(&dir, "gcc").words("-O1 -ffunction-sections -fPIC -c main.c"));
    }
    session
}

/// The same job in both folders, and that they end alike.
fn both(session: &mut Session, linker: Linker, words: &str) -> i32 {
    both_but_for_limits(session, linker, words, false)
}

/// The same; with `limits`, lines of ours may say why a link that succeeds is not pruned.
fn both_but_for_limits(session: &mut Session, linker: Linker, words: &str, limits: bool) -> i32 {
    let mut outcomes = Vec::new();
    for kind in ["plain", "pruned"] {
        let dir = session.path(kind);
        let job = Job::new(&dir, "gcc").words("-B shims").words(words);
        let outcome = session.run(&job.env("LTO_PRUNE_LINKER", linker.path()));
        let said = match limits && outcome.ok() {
            true => outcome.stderr.replace("lto-prune: warning: out: gate: ", "lto-prune: limit: "),
            false => outcome.stderr,
        };
        let lines = said.lines().filter(|line| !line.starts_with("lto-prune: limit: "));
        let said: String = lines.map(|line| format!("{line}\n")).collect();
        outcomes.push((outcome.status, crate::compare::messages(&said, linker), outcome.stdout));
    }
    session.check_eq(&outcomes[1], &outcomes[0], words);
    outcomes[0].0
}

/// The text that a reader prints of a file of each folder.
fn read_both(session: &mut Session, reader: &str, file: &str) -> [String; 2] {
    ["plain", "pruned"].map(|kind| {
        let dir: PathBuf = session.path(kind);
        session.must(&Job::new(&dir, "readelf").words(reader).arg(file)).stdout
    })
}

#[test]
fn an_output_that_is_an_input() {
    // In the driver's own words it would be the driver that refuses. What mold makes of it depends on its threads, and so does what is left
    // where wild finds that an input has changed.
    for linker in Linker::ALL.into_iter().filter(|linker| *linker != Linker::Mold) {
        let mut session = prepare("output-is-input", linker);
        both(&mut session, linker, "-Xlinker main.o -Xlinker -o -Xlinker main.o");
        let [plain, pruned] =
            ["plain", "pruned"].map(|kind| std::fs::read(session.path(&format!("{kind}/main.o"))).unwrap());
        let is_same = plain == pruned || linker == Linker::Wild;
        session.check(is_same, &format!("{}: another output", linker.name()));
    }
}

#[test]
fn a_response_file_in_a_response_file() {
    for linker in Linker::ALL {
        let mut session = prepare("nested-response", linker);
        for kind in ["plain", "pruned"] {
            session.write(&format!("{kind}/outer"), "-z now @inner");
            session.write(&format!("{kind}/inner"), "-z relro");
        }
        both(&mut session, linker, "main.o -Xlinker @outer -o out");
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
        // A bracket without an end, two options of which the last does not win with every linker.
        "main.o use.o -Wl,--start-lib f.o",
        "main.o use.o f.o -Wl,-z,execstack,-z,noexecstack",
        // A library without a soname that another one needs, and messages with names of inputs.
        "main.o one.o -Wl,--as-needed ./libone.so ./libf.so",
        "-Wl,-z,cet-report=warning ./shims/../main.o use.o f.o",
    ];
    for linker in Linker::ALL {
        let mut session = prepare("inputs", linker);
        for kind in ["plain", "pruned"] {
            let dir = session.path(kind);
            session.write(&format!("{kind}/f.c"), "int f(void) { return 1; }\n");
            session.write(&format!("{kind}/use.c"), "int f(void); int g(void) { return f(); }\n");
            session.write(&format!("{kind}/empty.o"), "");
            session.write(&format!("{kind}/target.ld"), "TARGET(elf64-x86-64)\n");
            session.write(&format!("{kind}/architecture.ld"), "OUTPUT_ARCH(i386:x86-64)\n");
            session.write(&format!("{kind}/format.ld"), "OUTPUT_FORMAT(elf64-x86-64)\n");
            session.write(&format!("{kind}/binary.ld"), "OUTPUT_FORMAT(binary)\n");
            session.must(&Job::new(&dir, "gcc").words("-O1 -ffunction-sections -fPIC -c f.c use.c"));
            session.must(&Job::new(&dir, "llvm-ar-19").words("--format=bsd qcs bsd.a f.o"));
            session.must(&Job::new(&dir, "ar").words("qcs odd.a f.o empty.o"));
            session.must(&Job::new(&dir, "ar").words("qcs f.a f.o"));
            session.must(&Job::new(&dir, "gcc").words("-pie main.o f.o -o program"));
            session.must(&Job::new(&dir, "gcc").words("-shared f.o -o libf.so"));
            session.write(&format!("{kind}/one.c"), "int g(void); int one(void) { return g(); }\n");
            session.must(&Job::new(&dir, "gcc").words("-O1 -ffunction-sections -fPIC -c one.c"));
            session.must(&Job::new(&dir, "gcc").words("-shared use.o -L. -lf -o libone.so"));
        }
        for line in lines {
            both_but_for_limits(&mut session, linker, &format!("{line} -o out"), true);
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
        // Options of others, values of options that have none, and an end of options.
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
        let mut session = prepare("words", linker);
        for kind in ["plain", "pruned"] {
            session.write(&format!("{kind}/list"), "{ dead; };\n");
        }
        for word in words {
            let word = word.split(' ').map(|part| format!("-Xlinker {part}")).collect::<Vec<_>>().join(" ");
            both_but_for_limits(&mut session, linker, &format!("main.o {word} -o out"), true);
            let [plain, pruned] = ["plain", "pruned"].map(|kind| {
                let facts = crate::elf::Facts::read(&session.path(&format!("{kind}/out")));
                facts.map(|facts| (facts.needed, facts.exports)).unwrap_or_default()
            });
            session.check_eq(&pruned, &plain, &format!("{word}: (libraries, exports)"));
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
        let mut session = prepare(&format!("variable-{variable}"), linker);
        for kind in ["plain", "pruned"] {
            let job = Job::new(&session.path(kind), "gcc").words("-B shims main.o -o out");
            session.must(&job.env("LTO_PRUNE_LINKER", linker.path()).env(variable, value));
            session.check(session.path(&format!("{kind}/{file}")).exists(), &format!("{kind}: no {file}"));
        }
        let outputs =
            ["plain", "pruned"].map(|kind| std::fs::read(session.path(&format!("{kind}/out"))).unwrap());
        session.check(outputs[0] == outputs[1], &format!("{variable}: the output is pruned"));
    }
}

#[test]
fn why_extract_lists_what_it_lists() {
    let mut session = prepare("why-extract", Linker::Lld);
    for kind in ["plain", "pruned"] {
        let dir = session.path(kind);
        session.write(&format!("{kind}/f.c"), "int f(void) { return 1; }\n");
        session.write(&format!("{kind}/use.c"), "int f(void); int g(void) { return f(); }\n");
        session.must(&Job::new(&dir, "gcc").words("-O1 -ffunction-sections -c f.c use.c"));
        session.must(&Job::new(&dir, "ar").words("qcs f.a f.o"));
    }
    both(&mut session, Linker::Lld, "main.o use.o f.a -Wl,--why-extract=why.txt -o out");
    let read = |kind: &str| std::fs::read_to_string(session.path(kind).join("why.txt")).unwrap();
    session.check(read("plain").contains("f.a(f.o)"), "the plain link lists nothing");
    session.check_eq(&read("pruned"), &read("plain"), "--why-extract");
}

#[test]
fn base_version_of_an_output() {
    let lines = [(Linker::Gold, "-shared"), (Linker::Mold, "-shared"), (Linker::Lld, "-shared")];
    for (linker, kind) in lines.into_iter().chain(lines.map(|(linker, _)| (linker, "-rdynamic"))) {
        let mut session = prepare(&format!("base-version{kind}"), linker);
        for side in ["plain", "pruned"] {
            session.write(&format!("{side}/v.map"), "V1 { global: main; local: *; };\n");
        }
        both(&mut session, linker, &format!("{kind} main.o -Wl,--version-script=v.map -o out"));
        let [plain, pruned] = read_both(&mut session, "-VW", "out");
        let base = |text: &str| {
            let line = text.lines().find(|line| line.contains("BASE")).unwrap_or_default();
            line.rsplit("Name: ").next().unwrap_or_default().to_owned()
        };
        session.check(!base(&plain).is_empty(), "the plain output has no base version");
        session.check_eq(&base(&pruned), &base(&plain), "the base version");
    }
}

#[test]
fn undefined_symbols_without_a_relocation() {
    for linker in Linker::ALL {
        let mut session = prepare("undefined-hook", linker);
        for kind in ["plain", "pruned"] {
            let dir = session.path(kind);
            session.write(&format!("{kind}/f.c"), "int f(void) { return 1; }\n");
            session.write(
                &format!("{kind}/hook.c"),
                "int hook(void) { return 2; }\nint gone(void) { return 3; }\n",
            );
            session.write(&format!("{kind}/v.map"), "{ global: f; local: *; };\n");
            session.must(&Job::new(&dir, "gcc").words("-O1 -fPIC -ffunction-sections -c f.c hook.c"));
            session.must(&Job::new(&dir, "ld.bfd").words("-r -u hook f.o -o hooked.o"));
        }
        both(&mut session, linker, "-shared hooked.o hook.o -Wl,--version-script=v.map -o out");
        let [plain, pruned] = read_both(&mut session, "--dyn-syms -W", "out");
        let undefined = |text: &str| text.lines().any(|l| l.contains("UND") && l.ends_with("hook"));
        session.check(!undefined(&plain) && !undefined(&pruned), &format!("hook is undefined in {pruned}"));
    }
}

#[test]
fn link_time_optimisation_of_gcc() {
    let mut session = Session::new("messages/gcc-lto");
    let dir = session.dir().to_owned();
    tools::shim_dir(&session.path("shims"), &tools::lto_prune());
    session.write("a.c", "int g(void); int main(void) { return g() - 7; }\n");
    session.write("b.c", "int g(void) { return 7; } int dead(void) { return 1; }\n");
    session.must(&Job::new(&dir, "gcc").words("-flto -O1 -fPIC -c a.c b.c"));
    // `ld` stands for GNU ld: what `gcc -flto a.o b.o` links must link.
    session.must(&Job::new(&dir, "gcc").words("-flto -B shims a.o b.o -o out"));
    session.must(&Job::new(&dir, session.path("out")));
    session.must(&Job::new(&dir, "gcc").words("-flto -shared -B shims a.o b.o -o lib.so"));
    let symbols = session.must(&Job::new(&dir, "readelf").words("--dyn-syms -W lib.so")).stdout;
    session.check(symbols.contains(" main"), &format!("the library has no main: {symbols}"));
}
