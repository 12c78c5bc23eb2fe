//! Links of bitcode with native objects by two versions of lld, each beside the plain link: the same files are loaded, before and after code is
//! made of the bitcode, the same libraries recorded, and the programs do the same.
//!
//! The fixtures `bitcode*` hold what goes and what stays, by lld 19. Here are rustc's modules (LLVM 22) and what a fixture can't say: traces.

use std::path::Path;

use crate::compare;
use crate::elf::Facts;
use crate::matrix;
use crate::run::{Job, Session};
use crate::tools::{self, Linker};

struct Mixed {
    session: Session,
    lld: std::path::PathBuf,
}

impl Mixed {
    fn new(name: &str, lld: &Path) -> Self {
        let session = Session::new(&format!("mixed/{name}"));
        tools::shim_dir(&session.path("plain"), lld);
        tools::shim_dir(&session.path("shims"), &tools::lto_prune());
        Mixed { session, lld: lld.to_owned() }
    }

    fn must(&mut self, program: &str, words: &str) {
        let dir = self.session.dir().to_owned();
        self.session.must(&Job::new(&dir, program).words(words));
    }

    /// Link `line` both ways and compare; gives the symbols of both outputs.
    fn compare(&mut self, driver: &str, line: &str, prints: &str, gone: &[&str], kept: &[&str]) {
        let dir = self.session.dir().to_owned();
        self.session.must(&Job::new(&dir, driver).words("-B plain -o plain.out").words(line));
        let pruned = Job::new(&dir, driver)
            .words("-B shims -o out -Wl,--prune-report=report.json")
            .words(line)
            .env("LTO_PRUNE_LINKER", &self.lld);
        let pruned = self.session.must(&pruned);
        self.session.check_eq(&compare::ours(&pruned.stderr), &Vec::new(), "our messages");
        let report = matrix::report(&self.session, &self.session.path("report.json"));
        let limits = matrix::limit_names(&report);
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

const RUST: &str = "use std::collections::BTreeMap;\nextern \"C\" { fn from_c(x: i32) -> i32; }\n\
    #[no_mangle] pub extern \"C\" fn from_rust(x: i32) -> i32 {\n\
    let mut m = BTreeMap::new(); for i in 0..x { m.insert(i, format!(\"{i}\")); }\n\
    m.values().map(|s| s.len() as i32).sum::<i32>() + unsafe { from_c(x) } }\n\
    #[no_mangle] pub extern \"C\" fn only_dead(x: i32) -> i32 { x }\n";
const MAIN: &str = "#include <stdio.h>\nint from_rust(int), only_dead(int);\nint from_c(int x) { return x * 2; }\n\
    int dead_c(int x) { return only_dead(x); }\nint main(void) { printf(\"%d\\n\", from_rust(12)); return 0; }\n";

#[test]
fn rust_bitcode_in_a_program_of_c() {
    let mut mixed = Mixed::new("rust", &tools::lld_of_rustc());
    mixed.session.write("r.rs", RUST);
    mixed.session.write("main.c", MAIN);
    mixed.must(
        "rustc",
        "--crate-type=staticlib -Copt-level=2 -Cpanic=abort -Clinker-plugin-lto r.rs -o libr.a",
    );
    mixed.must("gcc", "-O1 -ffunction-sections -c main.c");
    mixed.compare("gcc", "main.o libr.a -lpthread -ldl", "38\n", &["dead_c"], &["from_c"]);
}

const ROUTINES: &str = "#include <stdio.h>\n#include <string.h>\nstruct big { char bytes[4000]; } from, to;\n\
    int helper(int);\n__attribute__((noinline)) double power(double x, int n) { return __builtin_powi(x, n); }\n\
    int main(int c, char **v) { to = from; printf(\"%d %d %.0f\\n\", helper(c), to.bytes[c], power(2.0, c + 2)); return 0; }\n";
const NATIVE: &str = "int helper(int x) { return x + 1; }\nint dead_helper(int x) { return helper(x); }\n";

#[test]
fn routines_that_only_generated_code_calls() {
    for (lld, name) in [(Linker::Lld.path(), "routines"), (tools::lld_of_rustc(), "routines22")] {
        for mode in ["", "-static"] {
            let mut mixed = Mixed::new(&format!("{name}{mode}"), &lld);
            mixed.session.write("main.c", ROUTINES);
            mixed.session.write("native.c", NATIVE);
            mixed.must("clang-19", "-O1 -flto=thin -c main.c");
            mixed.must("gcc", "-O1 -ffunction-sections -c native.c");
            let line = format!("{mode} main.o native.o");
            mixed.compare("gcc", &line, "2 0 8\n", &["dead_helper"], &["helper"]);
        }
    }
}

/// Bitcode whose symbol table is of a version that nobody knows: lld makes one of the module, we have none.
fn with_a_newer_table(bytes: &[u8]) -> Vec<u8> {
    // Version, producer (two words), the modules' place behind the header, one module.
    let is_header = |w: &[u8]| w[..4] == [3, 0, 0, 0] && w[12..20] == [76, 0, 0, 0, 1, 0, 0, 0];
    let at = bytes.windows(20).position(is_header).unwrap();
    let mut bytes = bytes.to_vec();
    bytes[at] = 99;
    bytes
}

/// With such bitcode on the line nothing is pruned, and we say so; as a member it may be loaded, although the archive's own table, which
/// lld does not ask, knows nothing of it.
#[test]
fn symbols_that_only_the_linker_reads() {
    let mut mixed = Mixed::new("unread", &Linker::Lld.path());
    let dir = mixed.session.dir().to_owned();
    mixed.session.write(
        "main.c",
        "int bit(void);\nint dead_main(void) { return bit(); }\nint main(void) { return bit() - 7; }\n",
    );
    mixed.session.write("other.c", "int of_other(void) { return 3; }\n");
    mixed.session.write("bit.c", "int bit(void) { return 7; }\n");
    mixed.must("gcc", "-O1 -ffunction-sections -c main.c other.c");
    mixed.must("clang-19", "-O1 -flto=thin -c bit.c");
    let bit = with_a_newer_table(&std::fs::read(dir.join("bit.o")).unwrap());
    std::fs::write(dir.join("bit.o"), bit).unwrap();
    mixed.must("ar", "rcs libboth.a other.o bit.o");
    for (line, limit, warns) in
        [("main.o bit.o", "unknown-bitcode", true), ("main.o libboth.a", "bitcode", false)]
    {
        let job = Job::new(&dir, "gcc").words("-B shims -o out -Wl,--prune-report=report.json").words(line);
        let linked = mixed.session.must(&job.env("LTO_PRUNE_LINKER", &mixed.lld));
        let said = compare::ours(&linked.stderr);
        let is_loud = said.iter().any(|m| m.contains("nothing is pruned"));
        mixed.session.check(is_loud == warns, &format!("{line}: {said:?}"));
        let limits = matrix::limit_names(&matrix::report(&mixed.session, &mixed.session.path("report.json")));
        mixed.session.check(limits.iter().any(|l| l == limit), &format!("{line}: {limits:?}"));
        mixed.session.must(&Job::new(&dir, dir.join("out")));
        let kept = Facts::read(&dir.join("out")).unwrap().defined.contains("dead_main");
        mixed.session.check(kept, &format!("{line}: dead_main is gone"));
    }
}

/// Which sections of an object are what lld takes in its place with `--fat-lto-objects`: the code says 3, the bitcode 5.
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
            mixed.session.write("main.c", used);
            mixed
                .session
                .write("code.c", "int value(void) { return 3; }\nint dead_code(void) { return 4; }\n");
            mixed
                .session
                .write("other.c", "int value(void) { return 5; }\nint dead_code(void) { return 6; }\n");
            mixed.session.write("one", "x");
            mixed.session.write("none", "");
            mixed.must("gcc", "-O1 -ffunction-sections -c main.c code.c");
            mixed.must("clang-19", "-O1 -flto=thin -c other.c -o other.bc");
            mixed.must("objcopy", &format!("--add-section {sections} code.o fat.o"));
            mixed.must("ar", "rcs libfat.a fat.o");
            // lld drops what nobody needs from its bitcode by itself.
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
    mixed.session.write(
        "d/main.c",
        "int two(int);\nint dead(int x) { return two(x); }\nint main(void) { return two(-2); }\n",
    );
    mixed
        .session
        .write("d/two.c", "int two(int x) { return x + 2; }\nint dead_two(int x) { return two(x); }\n");
    mixed.must("clang-19", "-O1 -flto=thin -fPIE -c d/main.c -o d/main.o");
    mixed.must("clang-19", "-O1 -flto=thin -fPIE -c d/two.c -o two.o");
    mixed.compare("clang-19", "-flto=thin -fuse-ld=lld -Wl,-Map=map d/main.o ./two.o", "", &[], &[]);
    let map = std::fs::read_to_string(mixed.session.path("map")).unwrap();
    mixed.session.check(!map.contains("lto-prune"), &map);
    mixed.session.check(map.contains(" d/out.lto.main.o:(") && map.contains(" out.lto.two.o:("), &map);
}
