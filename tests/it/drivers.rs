//! As compilers and build systems call a linker: each way by which the tool gets into a build.
//!
//! Each test ends with a program that runs and from which a dead function is gone, so that a driver that silently
//! took another linker fails it.

use std::path::{Path, PathBuf};

use crate::elf::Facts;
use crate::run::{Job, Session};
use crate::tools::{self, Linker};

const MAIN: &str = "#include <stdio.h>\n#include <math.h>\nint helper(int);\nint dead(int x) { return helper(x); }\n\
    int main(int argc, char **argv) { printf(\"%d %.0f\\n\", helper(argc), floor(argc + 0.5)); return argv == 0; }\n";
const HELPER: &str = "int helper(int x) { return x + 1; }\nint dead_helper(int x) { return x - 1; }\n";

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
        session.write("main.c", MAIN);
        session.write("helper.c", HELPER);
        let shims = session.path("shims");
        session.must(&Job::new(&dir, tools::lto_prune()).arg("install-shims").arg(&shims));
        Driven { session, dir, shims }
    }

    fn job(&self, program: impl Into<std::ffi::OsString>) -> Job {
        Job::new(&self.dir, program).env("LTO_PRUNE_LINKER", Linker::Lld.path())
    }

    /// `PATH` with the shims in front.
    fn path(&self) -> std::ffi::OsString {
        let mut path = self.shims.clone().into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap());
        path
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
    let job = make(&driven).env("LTO_PRUNE_LINKER", linker.path());
    driven.session.must(&job);
    let out = driven.dir.join("out");
    driven.finish(&out, "2 1\n", &["helper"], &["dead", "dead_helper"]);
}

#[test]
fn gcc_with_b() {
    for linker in Linker::ALL {
        let name = format!("gcc-b-{}", linker.name());
        c_driver(&name, linker, |d| d.job("gcc").arg("-B").arg(&d.shims).words(COMPILE));
    }
}

#[test]
fn gcc_with_b_and_fuse_ld() {
    c_driver("gcc-fuse-ld", Linker::Lld, |d| {
        d.job("gcc").arg("-B").arg(&d.shims).arg("-fuse-ld=lld").words(COMPILE)
    });
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
fn clang_with_ld_path() {
    c_driver("clang-ld-path", Linker::Lld, |d| {
        let ld = d.shims.join("ld.lto-prune");
        d.job("clang-19").arg(format!("--ld-path={}", ld.display())).words(COMPILE)
    });
}

#[test]
fn clang_with_b() {
    c_driver("clang-b", Linker::Mold, |d| d.job("clang-19").arg("-B").arg(&d.shims).words(COMPILE));
}

#[test]
fn linker_is_found_without_being_named() {
    // No LTO_PRUNE_LINKER: the linker of that name, in PATH behind the shims.
    for options in ["", "-fuse-ld=lld"] {
        let mut driven = Driven::new("found");
        let job = Job::new(&driven.dir, "gcc").env("PATH", driven.path()).arg("-B").arg(&driven.shims);
        driven.session.must(&job.words(options).words(COMPILE));
        let out = driven.dir.join("out");
        driven.finish(&out, "2 1\n", &["helper"], &["dead", "dead_helper"]);
    }
}

#[test]
fn words_of_any_form_reach_the_linker() {
    let path = "/odd \"folder\\ of\nmany'forms";
    let driven = Driven::new("words");
    let mut session = driven.session;
    let job =
        Job::new(&driven.dir, "gcc").env("LTO_PRUNE_LINKER", Linker::Lld.path()).arg("-B").arg(&driven.shims);
    let job = job.words(COMPILE).arg("-Xlinker").arg(format!("-rpath={path}"));
    session.must(&job.env("LTO_PRUNE_FLAGS", "--prune-strict"));
    let linked = std::fs::read(driven.dir.join("out")).unwrap();
    let holds = linked.windows(path.len()).any(|bytes| bytes == path.as_bytes());
    session.check(holds, "the path is not in the output as it was given");
    session.must(&Job::new(&driven.dir, "./out"));
}

#[test]
fn originals_under_strict_leave_no_output() {
    let mut driven = Driven::new("strict");
    // It refuses to link to any other file than the one that the driver names.
    let script = "#!/bin/sh\ncase \"$*\" in *' -o '*) case \"$*\" in *' -o out '*) ;; *) exit 1;; esac;; esac\nexec REAL \"$@\"\n";
    let real = Linker::Lld.path().display().to_string();
    let linker = driven.session.script("bin/ld.lld-99", script.replace("REAL", &real));
    let mut path = linker.parent().unwrap().as_os_str().to_owned();
    path.push(":");
    path.push(driven.path());
    let job = |flags: &str| {
        let job = Job::new(&driven.dir, "gcc").env("PATH", &path).env("LTO_PRUNE_FLAGS", flags);
        job.arg("-B").arg(&driven.shims).arg("-fuse-ld=lld").words(COMPILE)
    };
    let (plain, strict) = (job(""), job("--prune-strict"));
    let out = driven.dir.join("out");
    let says = "the linker refused the pruned objects";
    let outcome = driven.session.run(&strict);
    driven.session.check(!outcome.ok() && outcome.stderr.contains(says), &outcome.stderr);
    driven.session.check(!out.exists(), "an output in spite of --prune-strict");
    let outcome = driven.session.must(&plain);
    driven.session.check(outcome.stderr.contains(says), &outcome.stderr);
    driven.finish(&out, "2 1\n", &["helper", "dead", "dead_helper"], &[]);
}

#[test]
fn options_from_the_environment() {
    let mut driven = Driven::new("environment");
    let job = driven.job("gcc").arg("-B").arg(&driven.shims).words(COMPILE);
    driven.session.must(&job.env("LTO_PRUNE_FLAGS", "--prune-report=report.json --prune-keep=dead_helper"));
    crate::matrix::report(&driven.session, &driven.session.path("report.json"));
    let out = driven.dir.join("out");
    driven.finish(&out, "2 1\n", &["helper", "dead_helper"], &["dead"]);
}

#[test]
fn standalone_c() {
    for compiler in ["gcc", "clang-19"] {
        let mut driven = Driven::new(&format!("standalone-{compiler}"));
        let job = driven.job(compiler).words("-O1 -ffunction-sections -c main.c helper.c");
        driven.session.must(&job);
        let job = driven.job(tools::lto_prune()).env("CC", compiler);
        driven.session.must(&job.words("--prune-report=report.json main.o helper.o -lm -o main"));
        let out = driven.dir.join("main");
        driven.finish(&out, "2 1\n", &["helper"], &["dead", "dead_helper"]);
    }
}

#[test]
fn standalone_cxx() {
    let mut driven = Driven::new("standalone-cxx");
    let text = "#include <iostream>\n#include <vector>\n__attribute__((used)) static int sum(std::vector<int> v) { int s = 0; \
        for (int x : v) s += x; return s; }\nint dead() { return sum({1}); }\nint main() { try { std::cout << sum({1, 2}) << \
        std::endl; throw 1; } catch (int) { return 0; } }\n";
    driven.session.write("a.cpp", text);
    let job = driven.job("g++").words("-O1 -ffunction-sections -c a.cpp");
    driven.session.must(&job);
    let job = driven.job(tools::lto_prune()).words("a.o -lstdc++ -lm -o main");
    driven.session.must(&job);
    let out = driven.dir.join("main");
    driven.finish(&out, "3\n", &["main"], &["_Z4deadv"]);
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
    driven.session.must(&job.env("LTO_PRUNE_LINKER", linker.path()));
    let report = crate::matrix::report(&driven.session, &driven.session.path("report.json"));
    let dead = report["atoms"].as_array().unwrap().iter().filter(|a| a["live"] == false).count();
    driven.session.check(dead > 100, &format!("only {dead} dead atoms in a Rust program"));
    let program = target.join("release/rust_app");
    driven.finish(&program, "shapes: 3.5 12 caught: no shape\n", &["main"], &[]);
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
fn cmake_project() {
    let mut driven = Driven::new("cmake");
    driven.session.write(
        "CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.16)\nproject(app C CXX)\nadd_library(helper STATIC helper.c)\n\
         add_executable(app main.c)\ntarget_link_libraries(app helper m)\n",
    );
    let configure = driven.job("cmake").words("-S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release");
    let configure = configure.arg("-DCMAKE_C_FLAGS=-ffunction-sections");
    let flags = format!("-B{}", driven.shims.display());
    let configure = configure
        .arg(format!("-DCMAKE_EXE_LINKER_FLAGS={flags}"))
        .arg(format!("-DCMAKE_LINKER={}/ld.lto-prune", driven.shims.display()));
    driven.session.must(&configure);
    let build = driven.job("cmake").words("--build build");
    driven.session.must(&build);
    let out = driven.dir.join("build/app");
    driven.finish(&out, "2 1\n", &["helper"], &["dead", "dead_helper"]);
}

#[test]
fn meson_project() {
    // Meson asks the linker for its version and sorts linkers by what they print.
    for linker in [Linker::Lld, Linker::Bfd] {
        let mut driven = Driven::new(&format!("meson-{}", linker.name()));
        driven.session.write(
            "meson.build",
            "project('app', 'c', default_options: ['buildtype=release'])\n\
             helper = static_library('helper', 'helper.c', c_args: '-ffunction-sections')\n\
             m = meson.get_compiler('c').find_library('m')\n\
             executable('app', 'main.c', link_with: helper, dependencies: m, c_args: '-ffunction-sections')\n",
        );
        let setup = driven
            .job("meson")
            .words("setup build")
            .env("CC", "clang-19")
            .env("CC_LD", driven.shims.join("ld.lto-prune"));
        let setup = setup.env("LTO_PRUNE_LINKER", linker.path());
        driven.session.must(&setup);
        let build = driven.job("ninja").words("-C build");
        driven.session.must(&build.env("LTO_PRUNE_LINKER", linker.path()));
        let out = driven.dir.join("build/app");
        driven.finish(&out, "2 1\n", &["helper"], &["dead", "dead_helper"]);
    }
}

#[test]
fn version_text_is_recognised() {
    // What build systems look for in `ld --version`, `-v` and `-V`: libtool and autoconf (`GNU ld`, `GNU gold`,
    // `with_gnu_ld`), CMake (first line, `LLD`, `GNU gold`, `mold`), Meson (`LLD`, `GNU`), Linux (`scripts/ld-version.sh`).
    for linker in Linker::ALL {
        let mut driven = Driven::new(&format!("version-{}", linker.name()));
        for option in ["--version", "-v", "-V"] {
            let behind = driven.session.run(&Job::new(&driven.dir, linker.path()).arg(option));
            let job = driven.job(driven.shims.join("ld")).arg(option).env("LTO_PRUNE_LINKER", linker.path());
            let ours = driven.session.run(&job);
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
    let job = driven.job("gcc").arg("-B").arg(&driven.shims).words("@objects.rsp -o out");
    driven.session.must(&job);
    let probe = driven.job("gcc").arg("-B").arg(&driven.shims).words("-print-prog-name=ld");
    let found = driven.session.must(&probe).stdout;
    driven.session.check(found.trim().ends_with("shims/ld"), &found);
    let out = driven.dir.join("out");
    driven.finish(&out, "2 1\n", &["helper"], &["dead", "dead_helper"]);
}

#[test]
fn shims_can_be_installed_twice() {
    let mut driven = Driven::new("twice");
    let again = driven.job(tools::lto_prune()).arg("install-shims").arg(&driven.shims);
    driven.session.must(&again);
    driven.session.check(driven.shims.join("ld.bfd").exists(), "no ld.bfd");
}
