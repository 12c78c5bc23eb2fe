//! A stub that runs ends the program by SIGILL, and `explain-trap` names its function, from an address or from a core file.

use crate::run::Session;
use crate::tools::{self, Linker};

/// Link the fixture `stub_mentioned`; the session, with `out` and `report.json` in it.
fn link(name: &str, compiler: &str, linker: Linker, mode: &str, level: &str) -> Session {
    let mut session = Session::new(&format!("stubs/{name}-{compiler}-{}{mode}-{level}", linker.name()));
    let fixture = tools::repository().join("fixtures/stub_mentioned");
    for source in ["main", "other"] {
        let job = session.job(&format!("{compiler} -O1 -fcf-protection -c")).words(mode);
        let job = if level == "sections" { job.words("-ffunction-sections") } else { job };
        session.must(&job.arg(fixture.join(format!("{source}.c"))).arg("-o").arg(format!("{source}.o")));
    }
    session.shims();
    let job = session.job(&format!("{compiler} -B shims main.o other.o -o out")).words(mode);
    let job = job.words("-Wl,--gc-sections -Wl,--prune-strict -Wl,--prune-report=report.json");
    let job = job.words("-Wl,--prune-stub-symbol=first -Wl,--prune-stub-symbol=other");
    session.must(&job.arg(format!("-Wl,--prune-level={level}")).by(linker));
    session
}

fn explain(session: &mut Session, place: &str) -> crate::run::Outcome {
    let job = session.job("lto-prune explain-trap out").arg(place);
    session.run(&job)
}

/// A core file of a process that stopped at offset `offset` of the file `name`.
fn core_file(name: &str, offset: u64) -> Vec<u8> {
    const BASE: u64 = 0x7f00_0000_0000;
    let mut status = vec![0; 336];
    status[240..248].copy_from_slice(&(BASE + offset).to_le_bytes());
    let mut files = Vec::new();
    for word in [1, 1, BASE, BASE + 0x100_0000, 0] {
        files.extend_from_slice(&u64::to_le_bytes(word));
    }
    files.extend_from_slice(format!("/somewhere/{name}\0").as_bytes());
    let mut notes = Vec::new();
    for (kind, text) in [(1u32, &status), (0x4649_4c45, &files)] {
        for word in [5, text.len() as u32, kind] {
            notes.extend_from_slice(&word.to_le_bytes());
        }
        notes.extend_from_slice(b"CORE\0\0\0\0");
        notes.extend_from_slice(text);
        notes.resize(notes.len().next_multiple_of(4), 0);
    }
    let mut core = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x04\0\x3e\0\x01\0\0\0".to_vec();
    for word in [0, 64, 0] {
        core.extend_from_slice(&u64::to_le_bytes(word));
    }
    core.extend_from_slice(&[0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 64, 0, 0, 0, 0, 0]);
    core.extend_from_slice(&[4, 0, 0, 0, 4, 0, 0, 0]);
    for word in [120, 0, 0, notes.len() as u64, 0, 4] {
        core.extend_from_slice(&word.to_le_bytes());
    }
    core.extend_from_slice(&notes);
    core
}

#[test]
fn stub_that_runs_names_itself() {
    for compiler in ["gcc", "clang-19"] {
        for linker in Linker::ALL {
            for (mode, level) in
                [("-no-pie", "sections"), ("-pie -fPIE", "functions"), ("-static", "functions")]
            {
                let mut session = link("runs", compiler, linker, mode, level);
                let report = session.report("report.json");
                let atoms = report["atoms"].as_array().unwrap();
                let stubs = atoms.iter().filter(|a| a["state"] == "stub");
                let stubs: Vec<_> = stubs.map(|a| a["symbols"][0].as_str().unwrap().to_owned()).collect();
                session.check_eq(&stubs, &vec!["first".to_owned(), "other".to_owned()], "stubs");
                session.check_eq(&report["functions"]["stubs"], &2.into(), "counted stubs");
                // A function that only a stub calls is removed.
                let facts = session.facts("out");
                session.check(!facts.defined.contains("another"), "another is still there");

                let good = session.cmd("./out");
                session.check_eq(&good.stdout.as_str(), &"third 1\ndistinct\n", "output");
                let dead = session.run(&session.job("./out").arg("0"));
                session.check_eq(&dead.status, &(128 + 4), "SIGILL");

                let address = |name: &str| facts.functions.iter().find(|(n, _)| n == name).unwrap().1;
                for name in ["first", "other"] {
                    let at = address(name);
                    let told = explain(&mut session, &format!("{at:#x}"));
                    session.check(told.stdout.ends_with(&format!(": stub of {name}\n")), &told.stdout);
                    // The trap itself, behind endbr64.
                    let told = explain(&mut session, &format!("{:#x}", at + 4));
                    session.says(&told.stdout, name);
                }
                let none = explain(&mut session, &format!("{:#x}", address("main")));
                session.check(none.status == 1 && none.stderr.contains("none of the 2 stubs"), &none.stderr);

                let headers = session.cmd("readelf -lW out").stdout;
                let number = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).unwrap();
                let at = address("first") + 4;
                let offset = headers.lines().find_map(|line| {
                    let words: Vec<&str> = line.split_whitespace().collect();
                    let start = words.first().filter(|w| **w == "LOAD").map(|_| number(words[2]))?;
                    let inside = start <= at && at < start + number(words[4]);
                    inside.then(|| at - start + number(words[1]))
                });
                session.write("core", core_file("out", offset.unwrap()));
                let told = explain(&mut session, "core");
                session.check(told.stdout.ends_with("stub of first\n"), &told.stderr);
                session.write("core", core_file("libother.so", offset.unwrap()));
                let told = explain(&mut session, "core");
                session.says(&told.stderr, "stopped in /somewhere/libother.so");
            }
        }
    }
}

#[test]
fn no_stubs_where_the_linker_folds_everything() {
    // All stubs are alike: --icf=all would give functions that differ one address.
    for linker in [Linker::Lld, Linker::Mold, Linker::Gold] {
        for (option, count) in [("--icf=safe", 2), ("--icf=all", 0)] {
            let mut session = Session::new(&format!("stubs/{}{option}", linker.name()));
            let fixture = tools::repository().join("fixtures/stub_mentioned");
            let job = session.job("clang-19 -O1 -ffunction-sections -faddrsig -c");
            session.must(&job.arg(fixture.join("main.c")).arg(fixture.join("other.c")));
            session.shims();
            session.link(linker, &format!("clang-19 -B shims main.o other.o -o out -Wl,--prune-report=report.json -Wl,--prune-stub-symbol=first -Wl,--prune-stub-symbol=other -Wl,--gc-sections -Wl,{option}"));
            let report = session.report("report.json");
            session.check_eq(&report["functions"]["stubs"], &count.into(), "stubs");
            let good = session.cmd("./out");
            session.check_eq(&good.stdout.as_str(), &"third 1\ndistinct\n", "output");
        }
    }
}

fn compile_kinds(session: &mut Session, compiler: &str, flags: &str) {
    let fixture = tools::repository().join("fixtures/stub_kinds");
    for source in ["main", "other"] {
        let job = session.job(&format!("{compiler} -O2 -fcf-protection -fno-rtti -fno-exceptions"));
        let job = job.words("-pthread -ffunction-sections -c").words(flags);
        session.must(&job.arg(fixture.join(format!("{source}.cpp"))).arg("-o").arg(format!("{source}.o")));
    }
    session.shims();
}

/// Link it, with stubs of all that is never called; nothing is called without an argument.
fn link_kinds(session: &mut Session, compiler: &str, linker: Linker, words: &str) {
    let job = session.job(&format!("{compiler} -B shims main.o other.o -o out -pthread")).words(words);
    let job = job.words("-Wl,--prune-strict -Wl,--prune-stub-symbol=*never* -Wl,--prune-report=report.json");
    session.must(&job.by(linker));
    let good = session.cmd("./out");
    session.check_eq(&good.stdout.as_str(), &"distinct\n", "output");
}

/// Stubs look the same, and the functions have different addresses all the same.
#[test]
fn safe_folding_keeps_stubs_apart() {
    for linker in [Linker::Lld, Linker::Mold, Linker::Gold] {
        for compiler in ["gcc", "clang-19"] {
            let mut session = Session::new(&format!("stubs/{compiler}-{}-icf", linker.name()));
            compile_kinds(&mut session, compiler, if compiler == "gcc" { "" } else { "-faddrsig" });
            link_kinds(&mut session, compiler, linker, "-Wl,--icf=safe -Wl,--gc-sections");
            let dead = session.run(&session.job("./out").arg("t1"));
            session.check_eq(&dead.status, &(128 + 4), "SIGILL");
        }
    }
}

/// Stubs in bitcode, compiled by the linker: they trap with all argument registers unchanged, and `explain-trap` names them.
#[test]
fn stubs_of_bitcode_are_explained() {
    for flags in ["-flto=thin", "-flto=full", "-flto=thin -fno-omit-frame-pointer -g"] {
        for mode in ["-no-pie", "-pie -fPIE"] {
            let name = format!("{}{}{mode}", flags.len(), &flags[5..10]).replace(' ', "");
            let mut session = Session::new(&format!("stubs/bitcode-{name}"));
            compile_kinds(&mut session, "clang-19", &format!("{flags} {mode}"));
            let words = format!("-fuse-ld=lld -O2 {flags} {mode} -Wl,--prune-level=pointers");
            link_kinds(&mut session, "clang-19", Linker::Lld, &words);
            for argument in ["t0", "t2", "v"] {
                let dead = session.run(&session.job("./out").arg(argument));
                session.check_eq(&dead.status, &(128 + 4), argument);
            }
            // Else it would be below 77.
            let caught = session.run(&session.job("./out").arg("r"));
            session.check(caught.status == 77 || caught.status == 100, &format!("{}", caught.status));
            let report = session.report("report.json");
            let stubs = report["atoms"].as_array().unwrap().iter().filter(|a| a["state"] == "stub").count();
            session.check(stubs >= 5, &format!("{stubs} stubs"));
            // The trap is somewhere in the function.
            let facts = session.facts("out");
            for name in ["never", "never_small"] {
                let at = facts.functions.iter().find(|(n, _)| n == name).unwrap().1;
                let told = (at..at + 80).find_map(|at| {
                    let told = explain(&mut session, &format!("{at:#x}"));
                    (told.status == 0).then_some(told.stdout)
                });
                let told = told.unwrap_or_default();
                session.check(told.ends_with(&format!(": stub of {name}\n")), &told);
            }
        }
    }
}
