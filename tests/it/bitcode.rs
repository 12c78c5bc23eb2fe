//! Links of bitcode with native objects, by two versions of lld, compared with the plain link: the loaded files, the recorded libraries, and the
//! output of the programs are the same.
//!
//! The fixtures `bitcode*` test pruning with lld 19. These tests need modules of rustc (LLVM 22) or several links.

use std::path::Path;

use crate::compare;
use crate::elf::Facts;
use crate::reports;
use crate::run::{Job, Session};
use crate::tools::{self, Linker};

const FILES: &str = include_str!("programs/bitcode.txt");

struct Mixed {
    session: Session,
    lld: std::path::PathBuf,
}

impl Mixed {
    fn new(name: &str, lld: &Path) -> Self {
        let session = Session::new(&format!("mixed/{name}"));
        tools::shim_dir(&session.path("plain"), lld);
        session.shims();
        Mixed { session, lld: lld.to_owned() }
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        self.session.write(name, text);
    }

    fn must(&mut self, program: &str, words: &str) {
        let dir = self.session.dir().to_owned();
        self.session.must(&Job::new(&dir, program).words(words));
    }

    /// Link `line` both ways and compare; gives the symbols of both outputs.
    fn compare(&mut self, driver: &str, line: &str, prints: &str, gone: &[&str], kept: &[&str]) {
        let dir = self.session.dir().to_owned();
        self.session.must(&self.session.job(&format!("{driver} -B plain -o plain.out")).words(line));
        let pruned = self
            .session
            .job(&format!("{driver} -B shims -o out -Wl,--prune-report=report.json -Wl,--prune-worth=0"))
            .words(line)
            .env("LTO_PRUNE_LINKER", &self.lld);
        let pruned = self.session.must(&pruned);
        self.session.check_eq(&compare::ours(&pruned.stderr), &Vec::new(), "our messages");
        let report = self.session.report("report.json");
        let limits = reports::limit_names(&report);
        self.session.check(!limits.iter().any(|l| l == "bitcode"), &format!("limits: {limits:?}"));
        let facts = |name: &str| Facts::read(&dir.join(name)).unwrap();
        let (plain, pruned) = (facts("plain.out"), facts("out"));
        compare::outputs(&self.session, &plain, &pruned, line);
        for program in ["plain.out", "out"] {
            let outcome = self.session.must(&Job::new(&dir, dir.join(program)));
            self.session.check_eq(&outcome.stdout.as_str(), &prints, program);
        }
        for name in gone {
            self.session.check(plain.defined.contains(*name), &format!("{name} is not in the plain output"));
            self.session.check(!pruned.defined.contains(*name), &format!("{name} is not gone"));
        }
        for name in kept {
            self.session.check(pruned.defined.contains(*name), &format!("{name} is gone"));
        }
    }
}

#[test]
fn rust_bitcode_in_a_program_of_c() {
    let mut mixed = Mixed::new("rust", &tools::lld_of_rustc());
    mixed.session.files(FILES, "rust_bitcode_in_a_program_of_c");
    mixed.must(
        "rustc",
        "--crate-type=staticlib -Copt-level=2 -Cpanic=abort -Clinker-plugin-lto r.rs -o libr.a",
    );
    mixed.must("gcc", "-O1 -ffunction-sections -c main.c");
    mixed.compare("gcc", "main.o libr.a -lpthread -ldl", "38\n", &["dead_c"], &["from_c"]);
}

#[test]
fn routines_that_only_generated_code_calls() {
    for (lld, name) in [(Linker::Lld.path(), "routines"), (tools::lld_of_rustc(), "routines22")] {
        for mode in ["", "-static"] {
            let mut mixed = Mixed::new(&format!("{name}{mode}"), &lld);
            mixed.session.files(FILES, "routines_that_only_generated_code_calls");
            mixed.must("clang-19", "-O1 -flto=thin -c main.c");
            mixed.must("gcc", "-O1 -ffunction-sections -c native.c");
            let line = format!("{mode} main.o native.o");
            mixed.compare("gcc", &line, "2 0 8\n", &["dead_helper"], &["helper"]);
        }
    }
}

/// Bitcode with a symbol table of an unknown version. lld rebuilds the table from the module; lto-prune does not.
fn with_a_newer_table(bytes: &[u8]) -> Vec<u8> {
    // Version, producer (two words), the modules' place behind the header, one module.
    let is_header = |w: &[u8]| w[..4] == [3, 0, 0, 0] && w[12..20] == [76, 0, 0, 0, 1, 0, 0, 0];
    let at = bytes.windows(20).position(is_header).unwrap();
    let mut bytes = bytes.to_vec();
    bytes[at] = 99;
    bytes
}

/// Such bitcode on the line stops pruning, with a message. As a member of an archive it may be loaded, because lld does not use the archive's own
/// table.
#[test]
fn symbols_that_only_the_linker_reads() {
    let mut mixed = Mixed::new("unread", &Linker::Lld.path());
    let dir = mixed.session.dir().to_owned();
    mixed.session.files(FILES, "symbols_that_only_the_linker_reads");
    mixed.must("gcc", "-O1 -ffunction-sections -c main.c other.c");
    mixed.must("clang-19", "-O1 -flto=thin -c bit.c");
    let bit = with_a_newer_table(&std::fs::read(dir.join("bit.o")).unwrap());
    std::fs::write(dir.join("bit.o"), bit).unwrap();
    mixed.must("ar", "rcs libboth.a other.o bit.o");
    for (line, limit, warns) in
        [("main.o bit.o", "unknown-bitcode", true), ("main.o libboth.a", "bitcode", false)]
    {
        let job = mixed.session.job("gcc -B shims -o out -Wl,--prune-report=report.json").words(line);
        let linked = mixed.session.must(&job.env("LTO_PRUNE_LINKER", &mixed.lld));
        let said = compare::ours(&linked.stderr);
        let is_loud = said.iter().any(|m| m.contains("nothing is pruned"));
        mixed.session.check(is_loud == warns, &format!("{line}: {said:?}"));
        let limits = reports::limit_names(&mixed.session.report("report.json"));
        mixed.session.check(limits.iter().any(|l| l == limit), &format!("{line}: {limits:?}"));
        mixed.session.cmd("./out");
        let kept = Facts::read(&dir.join("out")).unwrap().defined.contains("dead_main");
        mixed.session.check(kept, &format!("{line}: dead_main is gone"));
    }
}

/// The sections that lld loads in place of an object with `--fat-lto-objects`. The code returns 3, the bitcode 5.
#[test]
fn bitcode_in_objects() {
    let flags = "-Wl,--fat-lto-objects";
    for (lld, name) in [(Linker::Lld.path(), "fat"), (tools::lld_of_rustc(), "fat22")] {
        for (sections, prints) in [
            (".llvm.lto=other.bc", "5\n"),
            (".llvmbc=other.bc", "3\n"),
            (".llvm.lto=one", "3\n"),
            (".llvm.lto=none", "3\n"),
            (".llvm.lto.x=other.bc", "3\n"),
        ] {
            let mut mixed = Mixed::new(&format!("{name}{}", sections.replace(['=', '.'], "_")), &lld);
            let used = "int printf(const char *, ...);\nint value(void);\nint main(void) { return printf(\"%d\\n\", value()) - 2; }\n";
            mixed.write("main.c", used);
            mixed.write("code.c", "int value(void) { return 3; }\nint dead_code(void) { return 4; }\n");
            mixed.write("other.c", "int value(void) { return 5; }\nint dead_code(void) { return 6; }\n");
            mixed.write("one", "x");
            mixed.write("none", "");
            mixed.must("gcc", "-O1 -ffunction-sections -c main.c code.c");
            mixed.must("clang-19", "-O1 -flto=thin -c other.c -o other.bc");
            mixed.must("objcopy", &format!("--add-section {sections} code.o fat.o"));
            mixed.must("ar", "rcs libfat.a fat.o");
            // lld itself drops unused functions of its bitcode.
            let gone: &[&str] = if prints == "3\n" { &["dead_code"] } else { &[] };
            for line in ["main.o fat.o", "main.o libfat.a"] {
                mixed.compare("gcc", &format!("{flags} {line}"), prints, gone, &["main"]);
            }
        }
    }
}

/// lld names what it makes of a module of the thin link by the module's path, which is a copy's.
#[test]
fn maps_name_the_originals() {
    let mut mixed = Mixed::new("maps", &Linker::Lld.path());
    mixed.session.files(FILES, "maps_name_the_originals");
    mixed.must("clang-19", "-O1 -flto=thin -fPIE -c d/main.c -o d/main.o");
    mixed.must("clang-19", "-O1 -flto=thin -fPIE -c d/two.c -o two.o");
    mixed.compare("clang-19", "-flto=thin -fuse-ld=lld -Wl,-Map=map d/main.o ./two.o", "", &[], &[]);
    let map = mixed.session.text("map");
    mixed.session.check(!map.contains("lto-prune"), &map);
    mixed.session.check(map.contains(" d/out.lto.main.o:(") && map.contains(" out.lto.two.o:("), &map);
}

impl Mixed {
    /// Link `line` both ways, compare the outputs, and look that our link pruned something; a program is run.
    fn exports(&mut self, line: &str, gone: &[&str]) {
        let dir = self.session.dir().to_owned();
        let plain = self.session.job("clang++-19 -B plain -o plain.out").words(line);
        self.session.must(&plain);
        let pruned = self.session.job("clang++-19 -B shims -o out -Wl,--prune-strict").words(line);
        let pruned = self.session.must(&pruned.env("LTO_PRUNE_LINKER", &self.lld));
        self.session.check_eq(&compare::ours(&pruned.stderr), &Vec::new(), "our messages");
        let facts = |name: &str| Facts::read(&dir.join(name)).unwrap();
        let (plain, pruned) = (facts("plain.out"), facts("out"));
        compare::outputs(&self.session, &plain, &pruned, line);
        for name in gone {
            self.session.check(!pruned.defined.contains(*name), &format!("{line}: {name} is not gone"));
        }
        if !line.contains("-shared") {
            self.session.cmd("./out");
        }
    }
}

/// An inline function, a vtable and a constant, each once as a copy that asks for no export and once as an explicit instantiation.
const INSTANTIATED: [(&str, &str, &str); 3] = [
    (
        "template <class T> struct Box { T v; __attribute__((noinline)) T get() { return v + 1; } };\n",
        "int use(Box<int> &b) { return b.get(); }\n",
        "template struct Box<int>;\n",
    ),
    (
        "struct Shape { virtual int sides() { return 1; } virtual ~Shape() {} };\n\
         template <class T> struct Square : Shape { int sides() override { return 4; } };\n",
        "int use(int n) { Shape *s = new Square<int>; n += s->sides(); delete s; return n; }\n",
        "template struct Square<int>;\n",
    ),
    (
        "template <class T> constexpr T table[4] = {1, 2, 3, 4};\n",
        "int use(int n) { return table<int>[n & 3]; }\n",
        "template const int table<int>[4];\n",
    ),
];

/// Exports are those of the plain link whichever copy prevails: of several definitions in bitcode lld merges whether `.dynsym` may do without the
/// symbol, and the visibility.
#[test]
fn attributes_of_copies_merge() {
    for (lld, name) in [(Linker::Lld.path(), "merge"), (tools::lld_of_rustc(), "merge22")] {
        let mut mixed = Mixed::new(name, &lld);
        mixed.write("main.cpp", "int use(int);\nint main() { return use(1) == 0; }\n");
        mixed.must("clang++-19", "-O2 -fPIC -flto=thin -c main.cpp");
        let modes = [
            ("clang++-19", "-flto=thin", "-flto=thin"),
            ("clang++-19", "-flto=full", "-flto=full"),
            ("clang++-19", "-flto=thin", "-flto=full"),
            ("clang++-19", "-flto=thin", ""),
            ("clang++-19", "", "-flto=thin"),
            ("clang++-14", "-flto=thin", "-flto=thin"),
        ];
        for (compiler, first, second) in &modes[..if name == "merge" { 6 } else { 2 }] {
            for (i, (class, user, instance)) in INSTANTIATED.into_iter().enumerate() {
                let dead = "__attribute__((visibility(\"hidden\"))) int dead_NAME(int x) { return x; }\n";
                let of = |name: &str, text: &str| format!("{class}{text}{}", dead.replace("NAME", name));
                mixed.write("use.cpp", of("use", user));
                mixed.write("all.cpp", of("all", instance));
                mixed.must(compiler, &format!("-O2 -fPIC {first} -c use.cpp"));
                mixed.must(compiler, &format!("-O2 -fPIC {second} -c all.cpp"));
                let gone = ["_Z8dead_usei", "_Z8dead_alli"];
                mixed.exports("-shared use.o all.o", &gone);
                if i == 0 {
                    mixed.exports("-shared all.o use.o", &gone);
                    mixed.must(compiler, &format!("-O2 -fPIC -fvisibility=hidden {second} -c all.cpp"));
                    mixed.exports("-shared use.o all.o", &gone);
                    mixed.must(compiler, &format!("-O2 -fPIC -fvisibility=protected {second} -c all.cpp"));
                    mixed.exports("-shared use.o all.o", &gone);
                } else {
                    mixed.exports("-rdynamic main.o use.o all.o", &gone);
                    mixed.write("all.list", "{ *; };\n");
                    mixed.exports("-Wl,--dynamic-list=all.list main.o use.o all.o", &gone);
                    mixed.exports("-Wl,--export-dynamic-symbol=* main.o use.o all.o", &gone);
                }
            }
        }
    }
}

/// A common symbol has the size and alignment that it has in the plain link, which are the largest of all its definitions.
#[test]
fn common_symbols_merge() {
    let main = "volatile int room[2];\nint dead(int x) { return x; }\nint main(void) { room[1] = 3; return room[0]; }\n";
    let more = "_Alignas(256) volatile int room[500];\nint dead_more(int x) { return x + room[1]; }\n";
    for (lld, name) in [(Linker::Lld.path(), "common"), (tools::lld_of_rustc(), "common22")] {
        for mode in ["-flto=thin", "-flto=full"] {
            let mut mixed = Mixed::new(&format!("{name}{mode}"), &lld);
            mixed.write("main.c", main);
            mixed.write("more.c", more);
            mixed.must("clang-19", &format!("-O0 -fcommon {mode} -c main.c more.c"));
            mixed.compare("clang-19", "main.o more.o", "", &[], &["room"]);
            let mut of = |program: &str| {
                let listed = mixed.session.cmd(&format!("nm -S {program}"));
                let line = listed.stdout.lines().find(|l| l.ends_with(" room")).unwrap().to_owned();
                let mut numbers = line.split(' ').map(|n| u64::from_str_radix(n, 16).unwrap_or_default());
                let (address, size) = (numbers.next().unwrap(), numbers.next().unwrap());
                (address % 256 == 0, size)
            };
            let (plain, pruned) = (of("plain.out"), of("out"));
            mixed.session.check_eq(&plain.1, &2000, "size in the plain link");
            mixed.session.check_eq(&pruned.1, &plain.1, "size");
            mixed.session.check(!plain.0 || pruned.0, "alignment");
        }
    }
}

/// Definitions in COMDATs that `llvm.used` and `llvm.compiler.used` of two modules list, strong ones too, and code that mentions them.
#[test]
fn lists_of_used_definitions() {
    let module = |name: &str| {
        format!(
            "target triple = \"x86_64-unknown-linux-gnu\"\n$shared = comdat any\n$get = comdat any\n$kept = comdat any\n\
             @shared = constant i32 7, comdat\n@kept = linkonce_odr hidden constant i32 8, comdat\n\
             @local = private constant i32 9, comdat($kept)\n\
             @llvm.used = appending global [1 x ptr] [ptr @shared], section \"llvm.metadata\"\n\
             @llvm.compiler.used = appending global [2 x ptr] [ptr @kept, ptr @local], section \"llvm.metadata\"\n\
             define i32 @get() noinline comdat {{ %v = load volatile i32, ptr @shared ret i32 %v }}\n\
             define i32 @{name}() {{ %v = call i32 @get() ret i32 %v }}\n\
             define hidden i32 @dead_{name}() {{ ret i32 1 }}\n"
        )
    };
    let main = "int one(void), two(void);\nint printf(const char *, ...);\n\
                int main(void) { return printf(\"%d\\n\", one() + two()) - 3; }\n";
    for mode in ["-flto=thin", "-flto=full"] {
        for (lld, name) in [(Linker::Lld.path(), "used"), (tools::lld_of_rustc(), "used22")] {
            let mut mixed = Mixed::new(&format!("{name}{mode}"), &lld);
            mixed.write("main.c", main);
            mixed.must("gcc", "-O1 -ffunction-sections -c main.c");
            for name in ["one", "two"] {
                mixed.write(&format!("{name}.ll"), module(name));
                mixed.must("clang-19", &format!("-O1 -Wno-override-module {mode} -c {name}.ll"));
            }
            mixed.compare("gcc", "main.o one.o two.o", "14\n", &[], &["main"]);
        }
    }
}

/// The heap profiler's modules list a constant of their own COMDAT.
#[test]
fn modules_with_heap_profiles() {
    let mut mixed = Mixed::new("heap", &Linker::Lld.path());
    let runtime = include_str!("programs/bitcode_modules_with_heap_profiles.c");
    mixed.write("runtime.c", runtime);
    mixed.must("gcc", "-w -O1 -ffunction-sections -c runtime.c");
    mixed.session.files(FILES, "modules_with_heap_profiles");
    for compiler in ["clang-19", "clang-14"] {
        for mode in ["-flto=thin", "-flto=full"] {
            mixed.must(compiler, &format!("-O1 -fmemory-profile {mode} -c main.c other.c"));
            mixed.compare("gcc", "main.o other.o runtime.o", "5\n", &[], &["main"]);
        }
    }
}

/// A link with modelled options is pruned; a warning names an option that is not modelled.
#[test]
fn options_of_link_time_optimisation() {
    let mut mixed = Mixed::new("options", &Linker::Lld.path());
    let dir = mixed.session.dir().to_owned();
    mixed.session.files(FILES, "options_of_link_time_optimisation");
    mixed.must("gcc", "-O1 -ffunction-sections -c native.c");
    mixed.must("clang-19", "-O1 -g -gsplit-dwarf -flto=thin -c main.c other.c");
    let line = "main.o other.o native.o";
    for options in [
        "-mllvm,-stats,-mllvm,-inline-threshold=0,-plugin-opt=-import-instr-limit=5",
        "--time-trace,--time-trace-granularity=10,-plugin-opt=dwo_dir=dwo,-plugin-opt=stats-file=stats",
        "-plugin-opt=opt-remarks-filename=remarks,-plugin-opt=opt-remarks-passes=inline,--disable-verify",
        "--lto-basic-block-sections=all,--no-lto-whole-program-visibility,--lto-CGO1",
    ] {
        mixed.compare("clang-19", &format!("-Wl,{options} {line}"), "2\n", &["dead_native"], &["main"]);
    }
    for file in ["out.time-trace", "dwo", "stats", "remarks"] {
        mixed.session.check(dir.join(file).exists(), &format!("{file} is not written"));
    }
    // A function that an option alone names is kept.
    let trap = format!("-Wl,-mllvm,-trap-func=on_trap {line}");
    mixed.compare("clang-19", &trap, "2\n", &["dead_native"], &["on_trap"]);
    for option in
        "--save-temps|--lto-emit-asm|--thinlto-index-only|--why-extract=why|-mllvm -emulated-tls".split('|')
    {
        let words = option.replace(' ', ",");
        let job = mixed.session.job(&format!("clang-19 -B shims -o out -Wl,{words} {line}"));
        let linked = mixed.session.run(&job.env("LTO_PRUNE_LINKER", &mixed.lld));
        let said = compare::ours(&linked.stderr);
        let named =
            said.len() == 1 && said.iter().all(|m| m.contains(option) && m.contains("nothing is pruned"));
        mixed.session.check(named, &format!("{option}: {said:?}"));
    }
}

/// How many objects are in a ThinLTO cache.
fn cached(dir: &Path) -> usize {
    let names = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("llvmcache-")).count()
}

/// An edit in dead code alone leaves the hash of the pruned module: each object is in the ThinLTO cache.
#[test]
fn an_edit_in_dead_code_is_a_hit() {
    let mut mixed = Mixed::new("cache", &Linker::Lld.path());
    let dir = mixed.session.dir().to_owned();
    let main = "int live(int *);\nint main(void) { int x = 0; live(&x); return x - 3; }\n";
    let other = |live: &str, dead: &str| {
        format!(
            "__attribute__((noinline)) int live(int *p) {{ *p = {live}; return 0; }}\n\
             int dead(int *p) {{ *p = {dead}; return live(p); }}\n"
        )
    };
    let mut link = |main: &str, other: &str, status: i32| {
        mixed.write("main.c", main);
        mixed.write("other.c", other);
        mixed.must("clang-19", "-O1 -flto=thin -c main.c other.c");
        for (shims, output) in [("plain", "plain.out"), ("shims", "out")] {
            let words =
                format!("-B {shims} -o {output} -Wl,--thinlto-cache-dir=cache-{shims} main.o other.o");
            mixed.session.must(&Job::new(&dir, "clang-19").words(&words).env("LTO_PRUNE_LINKER", &mixed.lld));
            let outcome = mixed.session.run(&Job::new(&dir, dir.join(output)));
            mixed.session.check_eq(&outcome.status, &status, output);
        }
        let facts = |name: &str| Facts::read(&dir.join(name)).unwrap();
        compare::outputs(&mixed.session, &facts("plain.out"), &facts("out"), "cache");
        (cached(&dir.join("cache-plain")), cached(&dir.join("cache-shims")))
    };
    let (plain, pruned) = link(main, &other("3", "5"), 0);
    let (plain_edited, pruned_edited) = link(main, &other("3", "7"), 0);
    let (_, pruned_changed) = link(main, &other("4", "7"), 1);
    let of_all = format!("{plain} {pruned}, {plain_edited} {pruned_edited}, {pruned_changed}");
    mixed.session.check(plain_edited > plain, &format!("a hit of the plain link: {of_all}"));
    mixed.session.check_eq(&pruned_edited, &pruned, &format!("an edit in dead code: {of_all}"));
    mixed.session.check(pruned_changed > pruned, &format!("an edit in live code: {of_all}"));
}

/// Two modules of one name of the source file keep what tells them apart: their identities are also those of their dead code.
#[test]
fn modules_of_one_name_keep_their_identities() {
    let mut mixed = Mixed::new("twins", &Linker::Lld.path());
    let dir = mixed.session.dir().to_owned();
    mixed.write("main.c", "int one(int), two(int);\nint main(void) { return one(1) + two(1) - 4; }\n");
    mixed.must("clang-19", "-O1 -flto=thin -c main.c");
    let mut link = |dead: &str| {
        for name in ["one", "two"] {
            let text = format!(
                "static __attribute__((noinline)) int helper(int x) {{ return x * 2; }}\nint {name}(int x) {{ return helper(x); }}\n\
                 int dead_{name}(int *p) {{ *p = {dead}; return 0; }}\n"
            );
            mixed.session.mkdir(name);
            mixed.write(&format!("{name}/same.c"), text);
            mixed.session.must(&Job::new(&dir.join(name), "clang-19").words("-O1 -flto=thin -c same.c"));
        }
        let line = "-Wl,--thinlto-cache-dir=cache main.o one/same.o two/same.o";
        let job = Job::new(&dir, "clang-19").words("-B shims -o out").words(line);
        mixed.session.must(&job.env("LTO_PRUNE_LINKER", &mixed.lld));
        mixed.session.must(&Job::new(&dir, dir.join("out")));
        cached(&dir.join("cache"))
    };
    let (first, second) = (link("5"), link("7"));
    mixed.session.check(second > first, &format!("{first} {second}"));
}

/// With LLVM's option for it, local symbols that are made global have the names that they have in the plain link.
#[test]
fn promoted_names_by_source_file() {
    let mut mixed = Mixed::new("promoted", &Linker::Lld.path());
    mixed.session.files(FILES, "promoted_names_by_source_file");
    mixed.must("clang-19", "-O2 -flto=thin -c main.c other.c");
    let option = "-Wl,-mllvm,-use-source-filename-for-promoted-locals";
    mixed.compare("clang-19", &format!("{option} main.o other.o"), "2\n", &[], &["helper.llvm.other_c"]);
}

/// A function of bitcode counts by the bytes of its block.
#[test]
fn functions_have_sizes() {
    let mut mixed = Mixed::new("sizes", &Linker::Lld.path());
    mixed.session.files(FILES, "functions_have_sizes");
    mixed.must("clang-19", "-O1 -flto=thin -c main.c live.c");
    mixed.compare("clang-19", "main.o live.o", "", &[], &[]);
    let report = mixed.session.report("report.json");
    let atoms = report["atoms"].as_array().unwrap();
    for name in [".text.main", ".text.live", ".text.dead", ".text.dead_live"] {
        let atom = atoms.iter().find(|a| a["section"] == name);
        let size = atom.and_then(|a| a["size"].as_u64());
        mixed.session.check(size > Some(0), &format!("{name}: {size:?}"));
    }
}
