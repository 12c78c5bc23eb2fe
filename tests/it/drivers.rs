//! Compilers and build systems call lto-prune as their linker.
//!
//! Each test runs a program without its dead functions: a driver that silently takes another linker fails.

use std::path::{Path, PathBuf};

use crate::elf::Facts;
use crate::run::{Job, Session};
use crate::tools::{self, Linker};

const FILES: &str = include_str!("programs/drivers.txt");

struct Driven {
    session: Session,
    dir: PathBuf,
    shims: PathBuf,
}

impl Driven {
    /// Sources, and shims made by the tool's own subcommand.
    fn new(name: &str) -> Self {
        let mut session = Session::new(&format!("drivers/{name}"));
        let dir = session.dir().to_owned();
        session.files(FILES, "new");
        let shims = session.path("shims");
        session.must(&session.job("lto-prune").arg("install-shims").arg(&shims));
        Driven { session, dir, shims }
    }

    fn job(&self, program: impl Into<std::ffi::OsString>) -> Job {
        Job::new(&self.dir, program).by(Linker::Lld)
    }

    /// `PATH` with the shims in front.
    fn path(&self) -> std::ffi::OsString {
        tools::path_with(&self.shims)
    }

    fn finish(mut self, program: &Path, prints: &str, kept: &[&str], gone: &[&str]) {
        let outcome = self.session.must(&Job::new(&self.dir, program));
        self.session.check_eq(&outcome.stdout.as_str(), &prints, "output of the program");
        let facts = Facts::read(program).unwrap();
        for name in kept {
            self.session.check(facts.defined.contains(*name), &format!("{name} is gone"));
        }
        for name in gone {
            self.session.check(!facts.defined.contains(*name), &format!("{name} is not gone"));
        }
    }
}

const COMPILE: &str = "-O1 -ffunction-sections main.c helper.c -lm -o out";

/// One command line over the two C files.
fn c_driver(name: &str, linker: Linker, make: impl FnOnce(&Driven) -> Job) {
    let mut driven = Driven::new(name);
    driven.session.must(&make(&driven).by(linker));
    let out = driven.dir.join("out");
    driven.finish(&out, "2 1\n", &["helper"], &["dead", "dead_helper"]);
}

#[test]
fn clang_with_fuse_ld() {
    for linker in Linker::ALL {
        let name = format!("clang-fuse-ld-{}", linker.name());
        c_driver(&name, linker, |d| {
            d.job("clang-19").env("PATH", d.path()).arg("-fuse-ld=lto-prune").words(COMPILE)
        });
    }
}

#[test]
fn words_of_any_form_reach_the_linker() {
    let path = "/odd \"folder\\ of\nmany'forms";
    let driven = Driven::new("words");
    let mut session = driven.session;
    let job = Job::new(&driven.dir, "gcc").by(Linker::Lld).arg("-B").arg(&driven.shims);
    let job = job.words(COMPILE).arg("-Xlinker").arg(format!("-rpath={path}"));
    session.must(&job.env("LTO_PRUNE_FLAGS", "--prune-strict"));
    let linked = std::fs::read(driven.dir.join("out")).unwrap();
    let holds = linked.windows(path.len()).any(|bytes| bytes == path.as_bytes());
    session.check(holds, "the path is not in the output as it was given");
    session.must(&Job::new(&driven.dir, "./out"));
}

/// Build fixtures/rust_app by cargo with `flags`, run it, look at the report.
fn rustc(name: &str, linker: Linker, flags: impl FnOnce(&Driven) -> String) {
    let mut driven = Driven::new(&format!("rustc-{name}"));
    let manifest = tools::repository().join("fixtures/rust_app/Cargo.toml");
    let target = driven.dir.join("target");
    let job =
        driven.job(env!("CARGO")).words("build --release --offline --locked --manifest-path").arg(&manifest);
    let job = job.env("CARGO_TARGET_DIR", &target).env("RUSTFLAGS", flags(&driven));
    let job = job.env(
        "LTO_PRUNE_FLAGS",
        format!("--prune-worth=0 --prune-report={}/report.json", driven.dir.display()),
    );
    driven.session.must(&job.by(linker));
    let report = driven.session.report("report.json");
    let dead = report["atoms"].as_array().unwrap().iter().filter(|a| a["live"] == false).count();
    driven.session.check(dead > 100, &format!("only {dead} dead atoms in a Rust program"));
    driven.finish(&target.join("release/rust_app"), "shapes: 3.5 12 caught: no shape\n", &["main"], &[]);
}

#[test]
fn rustc_through_gcc() {
    // rustc names its own lld first on this target; without that, gcc takes the `ld` of our folder.
    for linker in [Linker::Lld, Linker::Bfd] {
        let flags = |d: &Driven| format!("-Clinker-features=-lld -Clink-arg=-B{}", d.shims.display());
        rustc(&format!("gcc-{}", linker.name()), linker, flags);
    }
}

#[test]
fn rustc_through_clang() {
    let flags =
        |d: &Driven| format!("-Clinker=clang-19 -Clink-arg=--ld-path={}/ld.lto-prune", d.shims.display());
    rustc("clang", Linker::Lld, flags);
}

#[test]
fn version_text_is_recognised() {
    // Build systems search the output of `ld --version`, `-v` and `-V`: libtool and autoconf for `GNU ld`, `GNU gold`, `with_gnu_ld`; CMake for
    // `LLD`, `GNU gold`, `mold` in the first line; Meson for `LLD`, `GNU`.
    for linker in Linker::ALL {
        let mut driven = Driven::new(&format!("version-{}", linker.name()));
        for option in ["--version", "-v", "-V"] {
            let behind = driven.session.run(&Job::new(&driven.dir, linker.path()).arg(option));
            let ours = driven.session.run(&driven.job(driven.shims.join("ld")).arg(option).by(linker));
            driven.session.check_eq(&ours.status, &behind.status, &format!("status of {option}"));
            // Byte for byte: libtool's configure takes any version below 2 for that of an old GNU ld.
            driven.session.check_eq(&ours.stdout, &behind.stdout, option);
            // libtool's `case `$LD -v 2>&1 </dev/null` in *GNU* | *'with BFD'*)`.
            let all = format!("{}{}", ours.stdout, ours.stderr);
            if behind.ok() {
                driven.session.check(all.contains("GNU"), &format!("libtool would not find GNU in {all}"));
            }
        }
    }
}

#[test]
fn response_files_and_compiler_probes() {
    let mut driven = Driven::new("response");
    let job = driven.job("gcc").words("-O1 -ffunction-sections -c main.c helper.c");
    driven.session.must(&job);
    driven.session.write("objects.rsp", "main.o\n\"helper.o\" -lm\n-Wl,--build-id=none\n");
    driven.session.write("linker.rsp", "--hash-style=gnu 'helper.o'\n");
    let job = driven.job("gcc").arg("-B").arg(&driven.shims).words("main.o -lm -Wl,@linker.rsp -o out");
    driven.session.must(&job);
    driven.session.must(&driven.job("gcc").arg("-B").arg(&driven.shims).words("@objects.rsp -o out"));
    let probe = driven.job("gcc").arg("-B").arg(&driven.shims).words("-print-prog-name=ld");
    let found = driven.session.must(&probe).stdout;
    driven.session.check(found.trim().ends_with("shims/ld"), &found);
    let out = driven.dir.join("out");
    driven.finish(&out, "2 1\n", &["helper"], &["dead", "dead_helper"]);
}
