//! Each shim stands for the linker of its name: what a build links with without lto-prune, it links with lto-prune.
//!
//! No test here names a linker by an option or a variable. A build that only one linker links fails with any other.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use object::{Object as _, ObjectSection as _};

use crate::elf::Facts;
use crate::reports::{limit_names, report};
use crate::run::{Job, Session};
use crate::tools;

const FILES: &str = include_str!("programs/shims.txt");

/// Sources, objects of gcc and `shims`, made by the tool's own subcommand.
fn prepare(name: &str) -> Session {
    let mut session = Session::new(&format!("shims/{name}"));
    session.files(FILES, "prepare");
    session.cmd("lto-prune install-shims shims");
    session.cmd("gcc -O1 -ffunction-sections -c main.c helper.c");
    session
}

/// The program runs, and its dead functions are gone.
fn check_pruned(session: &mut Session, program: &str) {
    session.must(&Job::new(session.dir(), session.path(program)));
    let facts = session.facts(program);
    for name in ["dead", "dead_helper"] {
        session.check(!facts.defined.contains(name), &format!("{name} is in {program}"));
    }
}

/// The linker that wrote a file, by the mark that it leaves; GNU ld leaves none.
fn linked_by(file: &Path) -> &'static str {
    let bytes = std::fs::read(file).unwrap();
    let has = |mark: &str| bytes.windows(mark.len()).any(|part| part == mark.as_bytes());
    let marks =
        [("LLD ", "lld"), ("Linker: Wild", "wild"), ("mold ", "mold"), (".note.gnu.gold-version", "gold")];
    marks.into_iter().find(|(mark, _)| has(mark)).map_or("bfd", |(_, name)| name)
}

#[test]
fn each_fuse_ld_is_pruned_by_its_linker() {
    let mut session = prepare("fuse-ld");
    let of_gcc = ["bfd", "gold", "mold"].map(|name| ("gcc", name));
    let of_clang = ["lld", "bfd", "gold", "mold", "wild"].map(|name| ("clang-19", name));
    for (compiler, name) in of_gcc.into_iter().chain(of_clang) {
        let job = session.job(&format!("{compiler} -B shims main.o helper.o -o out"));
        session.must(&job.arg(format!("-fuse-ld={name}")).env("LTO_PRUNE_FLAGS", "--prune-strict"));
        session.check_eq(&linked_by(&session.path("out")), &name, &format!("the linker of {compiler}"));
        check_pruned(&mut session, "out");
    }
    // gcc finds no `ld.lld` here but the shim, which takes the newest lld.
    session.cmd("gcc -B shims -fuse-ld=lld main.o helper.o -o out");
    session.check_eq(&linked_by(&session.path("out")), &"lld", "the linker");
    check_pruned(&mut session, "out");
}

#[test]
fn build_systems_call_mold_and_wild_by_name() {
    let mut session = prepare("by-name");
    let dir = session.dir().to_owned();
    for name in ["mold", "wild", "ld.lld-19", "ld.gold", "x86_64-linux-gnu-ld"] {
        let shim = session.path("shims").join(name);
        if !shim.exists() {
            std::os::unix::fs::symlink(tools::lto_prune(), &shim).unwrap();
        }
        let line = "--entry=helper main.o helper.o -o out";
        session.must(&Job::new(&dir, &shim).words(line));
        let wanted = match name {
            "ld.lld-19" => "lld",
            "ld.gold" => "gold",
            "x86_64-linux-gnu-ld" => "bfd",
            name => name,
        };
        session.check_eq(&linked_by(&session.path("out")), &wanted, name);
        let facts = session.facts("out");
        session.check(!facts.defined.contains("dead_helper"), &format!("{name}: dead_helper is there"));
    }
    // mold's own way to replace the linkers of a command.
    session.cmd("shims/mold -run gcc main.o helper.o -o run");
    session.check_eq(&linked_by(&session.path("run")), &"mold", "mold -run");
}

#[test]
fn static_programs_of_musl() {
    // musl-gcc passes `-dynamic-linker` with `-static`, and lld then writes a program with an interpreter.
    let mut session = prepare("musl");
    for options in ["", "-Wl,--prune-level=off"] {
        let job = session.job("musl-gcc -static -B shims -O1 main.c helper.c -o out");
        session.must(&job.words(options));
        session.cmd("./out");
        if options.is_empty() {
            check_pruned(&mut session, "out");
        }
    }
}

#[test]
fn options_that_only_gnu_ld_has() {
    let mut session = prepare("gnu-options");
    for option in ["--spare-dynamic-tags=5", "--reduce-memory-overheads", "--disable-multiple-abs-defs"] {
        let outcome = session.cmd(&format!("gcc -B shims main.o helper.o -o out -Wl,{option}"));
        session.check_eq(&outcome.stderr.as_str(), &"", "messages");
        session.check_eq(&linked_by(&session.path("out")), &"bfd", "the linker");
        check_pruned(&mut session, "out");
    }
}

#[test]
fn a_library_that_only_a_library_needs() {
    // GNU ld takes a symbol from it; lld ignores the option and reports the symbol as undefined.
    let mut session = prepare("copy-dt-needed");
    session.write("outer.c", "int helper(int); int outer(int x) { return helper(x); }\n");
    session.cmd("gcc -shared -fPIC helper.c -o libinner.so");
    session.cmd("gcc -shared -fPIC outer.c -L. -linner -o libouter.so");
    let words = "main.o -Wl,--no-as-needed,--copy-dt-needed-entries,-rpath,. -L. -louter -o";
    session.must(&session.job("gcc").words(words).arg("plain"));
    session.must(&session.job("gcc -B shims").words(words).arg("out"));
    let needed = |session: &mut Session, file: &str| {
        let text = session.must(&session.job("readelf -dW").arg(file)).stdout;
        text.lines().filter(|line| line.contains("NEEDED")).map(str::to_owned).collect::<Vec<_>>()
    };
    let (plain, ours) = (needed(&mut session, "plain"), needed(&mut session, "out"));
    session.check_eq(&ours, &plain, "libraries");
    session.cmd("./out");
}

#[test]
fn addresses_in_read_only_data_of_a_pie() {
    let mut session = prepare("text-relocation");
    let dir = session.dir().to_owned();
    session.write("table.s", ".section .rodata\n.quad main\n.section .note.GNU-stack,\"\",@progbits\n");
    for (folder, out) in [("empty", "plain"), ("shims", "out")] {
        let job = session.job("gcc").arg("-B").arg(folder).words("-pie main.o helper.o table.s -o");
        let outcome = session.must(&job.arg(out).env("LTO_PRUNE_FLAGS", "--prune-report=report.json"));
        session
            .check(outcome.stderr.contains("DT_TEXTREL"), &format!("GNU ld warns of it: {}", outcome.stderr));
        session.must(&Job::new(&dir, session.path(out)));
    }
    // A PIE with such an address is not pruned. The report has the reason and the linker.
    let report = session.report("report.json");
    session.check_eq(&report["linker"]["dialect"], &"bfd".into(), "linker of the report");
    session.check_eq(&report["pruned"], &false.into(), "pruned");
    session.check(!report["limits"].as_array().unwrap().is_empty(), "no limit");
}

#[test]
fn the_linker_is_found_where_the_driver_looks() {
    let mut session = prepare("where");
    let fake = |session: &Session, name: &str, real: &str| {
        session.script(name, format!("#!/bin/sh\necho called >> called\nexec {real} \"$@\"\n"))
    };
    // gcc: another -B behind ours, before PATH.
    fake(&session, "tools/ld", "ld.bfd");
    session.cmd("gcc -B shims -B tools main.o helper.o -o out");
    session.check(session.path("called").exists(), "the ld of -B tools was not called");
    check_pruned(&mut session, "out");
    std::fs::remove_file(session.path("called")).unwrap();
    // clang: its own folder has lld, and comes before PATH.
    let fake = fake(&session, "on-path/ld.lld", "false");
    let job = session.job("clang-19 -B shims -fuse-ld=lld main.o helper.o -o out");
    session.must(&job.env("PATH", tools::path_with(fake.parent().unwrap())));
    session.check(!session.path("called").exists(), "an ld.lld of PATH was called");
    session.check_eq(&linked_by(&session.path("out")), &"lld", "the linker of clang");
    check_pruned(&mut session, "out");
}

#[test]
fn ld_as_a_link_to_ld_lto_prune_prefers_lld() {
    let mut session = prepare("link");
    std::fs::remove_file(session.path("shims/ld")).unwrap();
    std::os::unix::fs::symlink("ld.lto-prune", session.path("shims/ld")).unwrap();
    session.cmd("gcc -B shims main.o helper.o -o out");
    session.check_eq(&linked_by(&session.path("out")), &"lld", "the linker");
    check_pruned(&mut session, "out");
    session.cmd("lto-prune main.o helper.o -o by-hand");
    session.check_eq(&linked_by(&session.path("by-hand")), &"lld", "the linker of the standalone mode");
    check_pruned(&mut session, "by-hand");
}

#[test]
fn a_linker_that_is_not_installed_is_named() {
    let mut session = prepare("missing");
    let dir = session.dir().to_owned();
    let path = session.mkdir("empty");
    for name in ["ld", "ld.gold", "mold", "ld.wild", "ld.lld"] {
        let job = Job::new(&dir, session.path("shims").join(name)).words("main.o -o out").env("PATH", &path);
        let outcome = session.run(&job);
        session.check_eq(&outcome.status, &1, name);
        let says = format!("the linker {name} is not installed; install it, or name one by --prune-linker");
        session.says(&outcome.stderr, &says);
    }
    // A shim of another installation is no linker.
    let other = session.mkdir("other");
    std::fs::copy(tools::lto_prune(), other.join("lto-prune")).unwrap();
    std::os::unix::fs::symlink("lto-prune", other.join("ld.gold")).unwrap();
    let outcome = session.run(&session.job("shims/ld.gold main.o -o out").env("PATH", &other));
    session.fails_with(&outcome, "ld.gold is not installed");
}

#[test]
fn shims_are_not_installed_among_files_of_others() {
    let mut session = prepare("refused");
    session.write("clone/README.md", "a project\n");
    let outcome = session.run(&session.job("lto-prune install-shims clone"));
    let says = "clone: the folder is not empty and has no shims; name a new one";
    session.fails_with(&outcome, says);
    session.check_eq(&std::fs::read_dir(session.path("clone")).unwrap().count(), &1, "files of the folder");
    session.cmd("lto-prune install-shims shims");
    let mut names: Vec<OsString> =
        std::fs::read_dir(session.path("shims")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    let all = ["LtoPruneConfig.cmake", "LtoPruneConfigVersion.cmake", "ld", "ld.bfd", "ld.gold", "ld.lld"];
    let all = all.into_iter().chain(["ld.lto-prune", "ld.mold", "ld.wild", "lto-prune.ini", "mold", "wild"]);
    let all: Vec<OsString> = all.map(OsString::from).collect();
    session.check_eq(&names, &all, "shims");
}

#[test]
fn free_pascal() {
    if !tools::is_installed("fpc") {
        return;
    }
    let mut session = prepare("fpc");
    let dir = session.dir().to_owned();
    session.write("hello.pas", "program hello;\nbegin\n  writeln('hello');\nend.\n");
    let library = "library units;\nfunction add(x: longint): longint; cdecl;\nbegin\n  add := x + 1;\nend;\n\
        exports add;\nbegin\nend.\n";
    session.write("units.pas", library);
    for (source, output) in [("hello.pas", "hello"), ("units.pas", "libunits.so")] {
        let plain = format!("plain_{output}");
        session.must(&session.job("fpc -Cg").arg(source).arg(format!("-o{plain}")));
        let job = session.job("fpc -Cg -FDshims").arg(source).arg(format!("-o{output}"));
        let outcome = session.must(&job.env("LTO_PRUNE_FLAGS", "--prune-strict --prune-report=report.json"));
        session.check(!outcome.stderr.contains("lto-prune"), &outcome.stderr);
        let limits = limit_names(&report(&session, &dir.join("report.json")));
        session.check(limits.iter().all(|limit| limit == "not-worth"), &format!("limits: {limits:?}"));
        let (plain, pruned) = (session.path(&plain), session.path(output));
        let sizes = (text_size(&pruned), text_size(&plain));
        session.check(sizes.0 < sizes.1 / 2, &format!("{output}: {sizes:?} bytes of .text"));
        let facts = [&plain, &pruned].map(|file| Facts::read(file).unwrap());
        session.check_eq(&facts[1].exports, &facts[0].exports, "exports");
        session.check_eq(&facts[1].needed, &facts[0].needed, "DT_NEEDED");
    }
    for program in ["plain_hello", "hello"] {
        let outcome = session.must(&Job::new(&dir, session.path(program)));
        session.check_eq(&outcome.stdout.as_str(), &"hello\n", "output");
    }
}

/// Bytes of `.text` in a file.
fn text_size(file: &Path) -> u64 {
    let bytes = std::fs::read(file).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    file.section_by_name(".text").unwrap().size()
}

#[test]
fn gccgo() {
    if !tools::is_installed("gccgo") {
        return;
    }
    let mut session = prepare("gccgo");
    let go = "package main\nimport \"fmt\"\nfunc main() { fmt.Println(\"hello\") }\n";
    session.write("hello.go", go);
    session.must(&session.job("gccgo -B shims hello.go -o hello").env("LTO_PRUNE_FLAGS", "--prune-strict"));
    session.cmd("gccgo hello.go -o plain");
    session.check_eq(&linked_by(&session.path("hello")), &linked_by(&session.path("plain")), "the linker");
    let outcome = session.cmd("./hello");
    session.check_eq(&outcome.stdout.as_str(), &"hello\n", "output");
}

#[test]
fn go_with_an_external_linker() {
    if !tools::is_installed("go") {
        return;
    }
    let mut session = prepare("go");
    let dir = session.dir().to_owned();
    let go = "package main\nimport \"fmt\"\nfunc main() { fmt.Println(\"hello\") }\n";
    session.write("hello/hello.go", go);
    let mut sections = Vec::new();
    for (out, flags) in [("plain", ""), ("out", "-B../shims")] {
        let job = Job::new(&session.path("hello"), "go").words("build -o").arg(format!("../{out}"));
        let job = job.arg(format!("-ldflags=-linkmode=external -extldflags '{flags}'")).arg("hello.go");
        session.must(&job.env("GOCACHE", session.path("cache")));
        let outcome = session.must(&Job::new(&dir, session.path(out)));
        session.check_eq(&outcome.stdout.as_str(), &"hello\n", "output");
        let text = session.must(&session.job("readelf -lW").arg(out)).stdout;
        sections.push(
            text.lines()
                .filter(|line| line.trim_start().starts_with(char::is_numeric))
                .map(str::to_owned)
                .collect::<Vec<_>>(),
        );
    }
    session.check_eq(&linked_by(&session.path("out")), &linked_by(&session.path("plain")), "the linker");
    session.check_eq(&sections[1], &sections[0], "segments with their sections");
}

/// The value of RUSTFLAGS in the examples of `--help`, with the folder of this session.
fn rustflags_of_help(session: &mut Session) -> String {
    let help = session.cmd("lto-prune --help").stdout;
    let (_, rest) = help.split_once("RUSTFLAGS=\"").unwrap_or_else(|| session.fail("no RUSTFLAGS in --help"));
    let (flags, _) = rest.split_once('"').unwrap();
    let (before, _) = flags.split_once("-Clink-arg=-B").unwrap_or_else(|| session.fail(flags));
    format!("{before}-Clink-arg=-B{}", session.path("shims").display())
}

#[test]
fn plugin_lto_of_rustc_takes_an_lld_that_reads_it() {
    let mut session = prepare("rustc");
    let dir = session.dir().to_owned();
    let flags = rustflags_of_help(&mut session);
    session.write("app.rs", "#[inline(never)]\nfn helper(x: usize) -> usize { x + 1 }\nfn main() { println!(\"{}\", helper(std::env::args().count())); }\n");
    let job = Job::new(&dir, "rustc").words("-O -Clinker-plugin-lto app.rs -o app").words(&flags);
    session.must(&job.env("LTO_PRUNE_FLAGS", "--prune-strict --prune-report=report.json"));
    session.check_eq(&linked_by(&session.path("app")), &"lld", "the linker");
    let outcome = session.must(&Job::new(&dir, session.path("app")));
    session.check_eq(&outcome.stdout.as_str(), &"2\n", "output");
    session.report("report.json");
}

/// An object of bitcode that rustc made, and a folder with links to some tools.
fn with_bitcode_of_rustc(name: &str) -> (Session, PathBuf) {
    let mut session = prepare(name);
    let dir = session.dir().to_owned();
    let rust = "#[unsafe(no_mangle)]\npub extern \"C\" fn helper(x: i32) -> i32 { x + 1 }\n#[unsafe(no_mangle)]\npub extern \"C\" fn dead_helper(x: i32) -> i32 { x - 1 }\n";
    session.write("lib.rs", rust);
    let words =
        "-O --crate-type=lib --emit=obj -Clinker-plugin-lto -Ccodegen-units=1 -Cpanic=abort lib.rs -o rust.o";
    session.must(&Job::new(&dir, "rustc").words(words));
    let path = session.mkdir("bin");
    for tool in ["ld.lld-19", "ld"] {
        std::os::unix::fs::symlink(tools::tool(tool), path.join(tool)).unwrap();
    }
    (session, path)
}

#[test]
fn bitcode_of_a_later_llvm() {
    let (mut session, path) = with_bitcode_of_rustc("bitcode");
    let dir = session.dir().to_owned();
    let program = |shim: &Path| {
        Job::new(&dir, "clang-19").words("main.o rust.o -o out").arg(format!("--ld-path={}", shim.display()))
    };
    session.must(&program(&session.path("shims/ld.lto-prune")));
    check_pruned(&mut session, "out");
    // In an archive too, and in the standalone mode.
    session.cmd("ar rc librust.a helper.o rust.o");
    session.cmd("lto-prune main.o rust.o -o by-hand");
    session.check_eq(&linked_by(&session.path("by-hand")), &"lld", "the linker");
    check_pruned(&mut session, "by-hand");
    // Only an earlier one is there.
    let shim = session.path("shims/ld.lto-prune");
    let outcome = session.run(&Job::new(&dir, shim).words("-e main main.o rust.o -o none").env("PATH", path));
    let says = "lto-prune: warning: none: rust.o was compiled by LLVM";
    session.says(&outcome.stderr, says);
    session.says(&outcome.stderr, "the newest lld found is 19");
}

#[test]
fn link_time_optimisation_of_gcc_by_hand() {
    let mut session = prepare("gcc-lto");
    let dir = session.dir().to_owned();
    session.cmd("gcc -flto -O1 -fPIC -c main.c helper.c");
    let job =
        |words: &str| Job::new(&dir, tools::lto_prune()).env("CC", "gcc").words("-flto -O1").words(words);
    session.must(&job("main.o helper.o -o out"));
    session.cmd("./out");
    session.must(&job("-shared main.o helper.o -o lib.so"));
    session.check(session.facts("lib.so").defined.contains("helper"), "an empty library");
    // Without gcc there is no plugin.
    let shim = session.path("shims/ld.lto-prune");
    let outcome = session.run(&Job::new(&dir, shim).words("-shared main.o helper.o -o lib.so"));
    let says = "lib.so: main.o has code of gcc's link-time optimisation, which lld does not compile";
    session.says(&outcome.stderr, says);
}
