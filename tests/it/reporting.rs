//! Stubs that say so when they run (`--prune-stub=report`): what they say, how the process ends, and that nobody else sees them.

use crate::elf::Facts;
use crate::matrix;
use crate::run::{Job, Outcome, Session};
use crate::tools::{self, Linker};

/// Death by SIGILL, as a shell says it.
const SIGILL: i32 = 128 + 4;

fn said(name: &str, module: &str) -> String {
    format!(
        "lto-prune: the function {name} of {module} was called although nothing was found to call it; \
         --prune-keep={name} keeps it\n"
    )
}

fn dies_saying(session: &Session, outcome: &Outcome, name: &str, module: &str) {
    session.check_eq(&outcome.stderr, &said(name, module), "what the stub says");
    session.check_eq(&outcome.status, &SIGILL, "SIGILL");
}

/// Compile the fixture `stub_report`.
fn compile(session: &mut Session, compiler: &str, flags: &str) {
    let fixture = tools::repository().join("fixtures/stub_report");
    for source in ["main", "other"] {
        let job = Job::new(session.dir(), compiler).words("-O2 -fcf-protection -fno-rtti -fno-exceptions");
        let job = job.words("-pthread -ffunction-sections -c").words(flags);
        session.must(&job.arg(fixture.join(format!("{source}.cpp"))).arg("-o").arg(format!("{source}.o")));
    }
    tools::shim_dir(&session.path("shims"), &tools::lto_prune());
}

fn link(session: &mut Session, compiler: &str, linker: Linker, words: &str) {
    let job = Job::new(session.dir(), compiler).words("-B shims -Wl,--prune-strict -Wl,--prune-stub=report");
    let job = job.words("-Wl,--prune-stub-symbol=*never* -Wl,--prune-report=report.json -pthread");
    session.must(&job.words(words).env("LTO_PRUNE_LINKER", linker.path()));
}

#[test]
fn a_stub_that_runs_says_so() {
    for compiler in ["gcc", "clang-19"] {
        for linker in Linker::ALL {
            for mode in ["-no-pie", "-pie -fPIE", "-static", "-static-pie -fPIE"] {
                let name = mode.split(' ').next().unwrap();
                // gold has no start files for it.
                if (linker, name) == (Linker::Gold, "-static-pie") {
                    continue;
                }
                let mut session = Session::new(&format!("reporting/{compiler}-{}{name}", linker.name()));
                compile(&mut session, compiler, if name == "-static" { "" } else { mode });
                // With a table of the addresses that matter, the reporter and the stubs are in it.
                let folds = if (linker, name) == (Linker::Lld, "-pie") { "-Wl,--icf=safe" } else { "" };
                let words = format!("{mode} main.o other.o -o out -Wl,--gc-sections {folds}");
                link(&mut session, compiler, linker, &words);
                let run = |session: &mut Session, argument: &str| {
                    let job = Job::new(session.dir(), "./out");
                    session.run(&if argument.is_empty() { job } else { job.arg(argument) })
                };
                let good = run(&mut session, "");
                session.check_eq(&(good.status, good.stdout.as_str()), &(0, "distinct\n"), "no stub runs");
                session.check_eq(&good.stderr.as_str(), &"", "nothing is said");
                let dead = run(&mut session, "t0");
                dies_saying(&session, &dead, "never", "main.o");
                let dead = run(&mut session, "t1");
                dies_saying(&session, &dead, "never_either", "main.o");
                let dead = run(&mut session, "p");
                dies_saying(&session, &dead, "never", "main.o");
                let dead = run(&mut session, "v");
                dies_saying(&session, &dead, "_ZN5Shape5neverEi", "main.o");
                // Ten bytes are enough, seven are not.
                let dead = run(&mut session, "t3");
                dies_saying(&session, &dead, "never_small", "main.o");
                let dead = run(&mut session, "t2");
                session.check_eq(&(dead.status, dead.stderr.as_str()), &(SIGILL, ""), "a trap alone");
                // The trap is in the stub, and what was passed is there still.
                let caught = run(&mut session, "r");
                session.check_eq(&caught.status, &77, "registers at the trap");
                session.check_eq(&caught.stderr, &said("never", "main.o"), "what the stub says");
                reports_and_explains(&mut session);
            }
        }
    }
}

/// The report says which stubs report; `explain-trap` knows the place of the trap of such a stub.
fn reports_and_explains(session: &mut Session) {
    let report = matrix::report(session, &session.path("report.json"));
    let atoms = report["atoms"].as_array().unwrap();
    let kinds = atoms.iter().filter(|a| !a["stub"].is_null()).map(|a| {
        session.check_eq(&a["state"], &"stub".into(), "state");
        (a["symbols"][0].as_str().unwrap(), a["stub"].as_str().unwrap())
    });
    let mut kinds: Vec<_> = kinds.collect();
    kinds.sort_unstable();
    let want = [
        ("_ZN5Shape5neverEi", "report"),
        ("never", "report"),
        ("never_either", "report"),
        ("never_small", "report"),
        ("never_tiny", "trap"),
    ];
    session.check_eq(&kinds, &want.to_vec(), "which stubs report");
    let facts = Facts::read(&session.path("out")).unwrap();
    let at = facts.functions.iter().find(|(n, _)| n == "never").unwrap().1;
    // Behind endbr64 and the call.
    let job = Job::new(session.dir(), tools::lto_prune()).words("explain-trap out");
    let told = session.run(&job.arg(format!("{:#x}", at + 9)));
    session.check(told.stdout.ends_with(": stub of never\n"), &told.stdout);
}

#[test]
fn a_library_reports_and_exports_nothing_new() {
    let scripts = [("narrow", "{ global: get; local: *; };"), ("wide", "{ global: *; };")];
    let part = "static int never(int x) { volatile int y = x; return y * 3 + y; }\n\
        static int (*const functions[])(int) = {never};\nint (*get(int i))(int) { return functions[i]; }\n";
    let main = "int (*get(int))(int);\nint main(int argc, char **argv) { (void)argv; return argc > 1 ? get(0)(1) : !get(0); }\n";
    for compiler in ["gcc", "clang-19"] {
        for linker in Linker::ALL {
            for (name, script) in scripts {
                let mut session = Session::new(&format!("reporting/{compiler}-{}-{name}", linker.name()));
                for (file, text) in [("part.c", part), ("main.c", main), ("part.map", script)] {
                    session.write(file, text);
                }
                session.must(&Job::new(session.dir(), compiler).words("-O1 -fPIC -c part.c"));
                session.must(&Job::new(session.dir(), "ar").words("rc libpart.a part.o"));
                tools::shim_dir(&session.path("shims"), &tools::lto_prune());
                let words = "-shared -Wl,--whole-archive libpart.a -Wl,--no-whole-archive -Wl,-z,text -Wl,-z,defs \
                    -Wl,--version-script=part.map";
                link(&mut session, compiler, linker, &format!("{words} -o libpart.so"));
                tools::shim_dir(&session.path("plain"), &linker.path());
                let plain = Job::new(session.dir(), compiler).words(words).words("-B plain -o libplain.so");
                session.must(&plain);
                let exports = |name: &str| Facts::read(&session.path(name)).unwrap().exports;
                session.check_eq(&exports("libpart.so"), &exports("libplain.so"), "exports");
                let job = Job::new(session.dir(), compiler).words("main.c -L. -lpart -Wl,-rpath,. -o out");
                session.must(&job);
                session.must(&Job::new(session.dir(), "./out"));
                let dead = session.run(&Job::new(session.dir(), "./out").arg("x"));
                dies_saying(&session, &dead, "never", "libpart.a(part.o)");
            }
        }
    }
}

#[test]
fn a_long_name_is_said_whole() {
    // More than a pipe holds, so that the call of the kernel is interrupted half done, many times.
    let long = format!("never_{}", "long".repeat(60_000));
    for linker in Linker::ALL {
        let mut session = Session::new(&format!("reporting/long-{}", linker.name()));
        session.write("long.h", format!("#define never_either {long}\n"));
        compile(&mut session, "gcc", "-include long.h");
        link(&mut session, "gcc", linker, "main.o other.o -o out");
        let slow = "./out s 2>&1 >/dev/null | while sleep 0.02; read -r -N 3000 part || test -n \"$part\"; do \
            printf %s \"$part\"; part=; done";
        let all = session.run(&Job::new(session.dir(), "timeout").words("60 bash -c").arg(slow));
        session.check(all.stdout.trim_end() == said(&long, "main.o").trim_end(), "the message is not whole");
    }
}

#[test]
fn reporters_of_joined_objects_stay_apart() {
    for linker in [Linker::Lld, Linker::Mold, Linker::Bfd] {
        let mut session = Session::new(&format!("reporting/joined-{}", linker.name()));
        session.write("part.c", "int never_two(int x) { volatile int y = x; return y * 3 + y; }\n");
        let main = "int never_one(int x) { volatile int y = x; return y * 5; }\nint never_two(int);\n\
            int (*const table[])(int) = {never_one, never_two};\n\
            int main(int argc, char **argv) { return argc > 1 ? table[argv[1][0] - '1'](1) : !table[0] + !table[1]; }\n";
        session.write("main.c", main);
        session.must(&Job::new(session.dir(), "gcc").words("-O1 -fPIE -c main.c part.c"));
        tools::shim_dir(&session.path("shims"), &tools::lto_prune());
        link(&mut session, "gcc", linker, "main.o part.o -o out -Wl,--prune-emit=kept");
        let join = Job::new(session.dir(), "bash").words("-c");
        let join = join.arg(format!("{} -r kept/*/main.o kept/*/part.o -o both.o", linker.path().display()));
        session.must(&join);
        tools::shim_dir(&session.path("plain"), &linker.path());
        session.must(&Job::new(session.dir(), "gcc").words("-B plain both.o -o joined"));
        // Once more through us: what is in the object already is code like any other.
        let again = Job::new(session.dir(), "gcc").words("-B shims both.o -Wl,--prune-strict -o again");
        session.must(&again.env("LTO_PRUNE_LINKER", linker.path()));
        for program in ["./out", "./joined", "./again"] {
            session.must(&Job::new(session.dir(), program));
            for (argument, name, module) in [("1", "never_one", "main.o"), ("2", "never_two", "part.o")] {
                let dead = session.run(&Job::new(session.dir(), program).arg(argument));
                dies_saying(&session, &dead, name, module);
            }
        }
    }
}

#[test]
fn safe_folding_keeps_stubs_apart() {
    for linker in [Linker::Lld, Linker::Mold, Linker::Gold] {
        for compiler in ["gcc", "clang-19"] {
            let mut session = Session::new(&format!("reporting/{compiler}-{}-icf", linker.name()));
            let addrsig = if compiler == "gcc" { "" } else { "-faddrsig" };
            compile(&mut session, compiler, addrsig);
            link(&mut session, compiler, linker, "main.o other.o -o out -Wl,--icf=safe -Wl,--gc-sections");
            session.must(&Job::new(session.dir(), "./out"));
            let dead = session.run(&Job::new(session.dir(), "./out").arg("t1"));
            dies_saying(&session, &dead, "never_either", "main.o");
        }
    }
}

/// Stubs of bitcode, which is what the linker compiles: they trap, `explain-trap` knows them, and they say who they are if they are to.
#[test]
fn bitcode_says_so_too() {
    for flags in ["-flto=thin", "-flto=full", "-flto=thin -fno-omit-frame-pointer -g"] {
        for mode in ["-no-pie", "-pie -fPIE"] {
            for reports in [false, true] {
                let name = format!("{}{}{mode}{reports}", flags.len(), &flags[5..10]).replace(' ', "");
                let mut session = Session::new(&format!("reporting/bitcode-{name}"));
                compile(&mut session, "clang-19", &format!("{flags} {mode}"));
                let report = if reports { " -Wl,--prune-stub=report" } else { "" };
                let job =
                    Job::new(session.dir(), "clang-19").words("-fuse-ld=lld -B shims -Wl,--prune-strict -O2");
                let job = job
                    .words(flags)
                    .words(mode)
                    .words("main.o other.o -pthread -o out -Wl,--prune-level=pointers");
                let job =
                    job.words("-Wl,--prune-stub-symbol=*never* -Wl,--prune-report=report.json").words(report);
                session.must(&job.env("LTO_PRUNE_LINKER", Linker::Lld.path()));
                let run = |session: &mut Session, argument: &str| {
                    session.run(&Job::new(session.dir(), "./out").arg(argument))
                };
                let good = session.must(&Job::new(session.dir(), "./out"));
                session.check_eq(&good.stdout.as_str(), &"distinct\n", "output");
                let said = |name: &str| if reports { said(name, "main.o") } else { String::new() };
                for (argument, name) in [("t0", "never"), ("t2", "never_tiny"), ("v", "_ZN5Shape5neverEi")] {
                    let dead = run(&mut session, argument);
                    session.check_eq(&(dead.status, dead.stderr), &(SIGILL, said(name)), name);
                }
                // All registers are as they were passed: else it would be below 77.
                let caught = run(&mut session, "r");
                session.check(caught.status == 77 || caught.status == 100, &format!("{}", caught.status));
                session.check_eq(&caught.stderr, &said("never"), "what the stub says");
                let report = matrix::report(&session, &session.path("report.json"));
                let kinds = report["atoms"].as_array().unwrap().iter().filter_map(|a| a["stub"].as_str());
                let kinds: Vec<&str> = kinds.collect();
                let kind = if reports { "report" } else { "trap" };
                session.check(kinds.len() >= 5 && kinds.iter().all(|k| *k == kind), &format!("{kinds:?}"));
                // The trap is somewhere in the function.
                let facts = Facts::read(&session.path("out")).unwrap();
                for name in ["never", "never_small"] {
                    let at = facts.functions.iter().find(|(n, _)| n == name).unwrap().1;
                    let told = (at..at + 80).find_map(|at| {
                        let job = Job::new(session.dir(), tools::lto_prune()).words("explain-trap out");
                        let told = session.run(&job.arg(format!("{at:#x}")));
                        (told.status == 0).then_some(told.stdout)
                    });
                    let told = told.unwrap_or_default();
                    session.check(told.ends_with(&format!(": stub of {name}\n")), &told);
                }
            }
        }
    }
}
