//! Debug information entries of removed functions are removed, entries of kept functions are kept, and an unknown form is reported.

use object::{Object, ObjectSection};

use crate::debuginfo::{BLOCKS, HELPER, INLINE, MAIN, debug_bytes};
use crate::elf::Facts;
use crate::run::{Job, Session};
use crate::tools::{self, Linker};

/// Types, names and functions that nothing kept refers to, and some that something does.
const NAMED: &str = r#"
#include <stddef.h>
namespace outer { struct used_in_namespace { int member_of_used; }; struct unused_in_namespace { int member_of_unused; }; }
struct base_of_used { int of_base; };
struct used : base_of_used { outer::used_in_namespace inside; enum kind { first_kind, second_kind } of; int method(int x) { return x + of_base; } };
struct only_dead { int member_of_dead; };
typedef only_dead *name_of_only_dead;
template <class T> struct of_template { T held; T get() { return held; } };
static inline int inlined(used *u) { int result_of_inlined = u->of_base * 3; return result_of_inlined ^ u->inside.member_of_used; }
extern "C" int dead(name_of_only_dead d) { return d->member_of_dead + 1; }
extern "C" __attribute__((noinline)) int live(used *u) { of_template<int> t{u->of_base}; return inlined(u) + (int)t.get(); }
int main(int argc, char **) { used u{{argc}, {2}, used::second_kind}; return live(&u) + u.method(1) == 77; }
"#;

#[test]
fn what_nothing_refers_to_goes() {
    for (compiler, version) in [("gcc", 4), ("gcc", 5), ("clang-19", 4), ("clang-19", 5)] {
        let mut session = Session::new(&format!("debuginfo/unused-{compiler}-{version}"));
        let dir = session.dir().to_owned();
        session.write("a.cc", NAMED);
        let job = Job::new(&dir, tools::cxx(compiler)).words("-O1 -fno-function-sections -c a.cc -g");
        session.must(&job.arg(format!("-gdwarf-{version}")));
        tools::shim_dir(&session.path("shims"), &tools::lto_prune());
        let mut said = Vec::new();
        let mut sizes = Vec::new();
        for (out, flags) in [("kept", "--prune-strict"), ("shrunk", "--prune-strict --prune-debug=shrink")] {
            let job = Job::new(&dir, tools::cxx(compiler)).words("-B shims a.o -o").arg(out);
            let job = job.env("LTO_PRUNE_LINKER", Linker::Lld.path()).env("LTO_PRUNE_FLAGS", flags);
            let linked = session.must(&job);
            session.check_eq(&linked.stderr, &String::new(), "what the link says");
            let dump = Job::new(&dir, "llvm-dwarfdump-19").words("--debug-info").arg(out);
            said.push(session.must(&dump).stdout);
            sizes.push(debug_bytes(&session.path(out)));
        }
        let what = format!("{compiler} {version}: {sizes:?}");
        session.check(sizes[1] < sizes[0], &what);
        let has = |text: &str, name: &str| text.contains(&format!("(\"{name}\")"));
        for name in [
            "used",
            "used_in_namespace",
            "member_of_used",
            "base_of_used",
            "of_base",
            "second_kind",
            "method",
            "result_of_inlined",
            "of_template<int>",
            "live",
        ] {
            session.check(has(&said[1], name), &format!("{what}: {name} is lost"));
        }
        // gcc describes only types that something uses.
        for name in ["only_dead", "member_of_dead", "name_of_only_dead"] {
            session.check(!has(&said[1], name), &format!("{what}: {name} stays"));
        }
        session
            .check(!has(&said[0], "dead") && !has(&said[1], "dead"), &format!("{what}: the function stays"));
        let strings = session.must(&Job::new(&dir, "readelf").words("-p .debug_str shrunk")).stdout;
        session.check(!strings.contains("member_of_dead") && strings.contains("member_of_used"), &strings);
        for command in
            ["ptype used", "ptype outer::used_in_namespace", "info scope live", "ptype of_template<int>"]
        {
            let answers = ["kept", "shrunk"].map(|out| {
                let gdb = Job::new(&dir, "gdb").words("-nx -batch -ex").arg("set print address off");
                let said = session.must(&gdb.arg("-ex").arg(command).arg(out)).stdout;
                // Places may differ, for the order of code does.
                said.split_whitespace()
                    .filter(|word| !word.contains("0x"))
                    .map(|word| word.to_owned() + " ")
                    .collect::<String>()
            });
            session.check(answers[0].len() > 20, &format!("{what}: {command}: {}", answers[0]));
            session.check_eq(&answers[1], &answers[0], &format!("{what}: {command}"));
        }
    }
}

/// A removed function that is longer than all that is kept, and kept code with an inlined function.
const LONG: &str = "volatile int v;\nint dead_long(int x) { STATEMENTS return x; }\nint short_one(int x) { return x + 1; }\n";
const INLINES: &str = "extern volatile int v;\nint short_one(int);\nstatic inline int inlined(int x) { v = x; return x * 7; }\n\
    __attribute__((noinline)) int kept(int x) { return inlined(x) + short_one(x); }\nint main(int argc, char **argv) { return kept(argc) == 3; }\n";

/// One function is removed from `.text`. Lists and line tables of the other functions, which have sections of their own, take no more room than before.
#[test]
fn what_describes_whole_sections_does_not_grow() {
    let functions: String =
        (0..60).map(|i| format!("inline int f{i}(int a) {{ return a + {i}; }}\n")).collect();
    let calls: String = (0..60).map(|i| format!("r += f{i}(c); ")).collect();
    let text = format!(
        "{functions}int dead(int a) {{ return a * 3; }}\nint main(int c, char **) {{ int r = 0; {calls}return r == 7; }}\n"
    );
    for (number, (compiler, options)) in [
        ("gcc", "-O0 -g1"),
        ("gcc", "-O0 -g -gdwarf-4"),
        ("clang-19", "-O0 -g"),
        ("clang-19", "-O0 -g -gdwarf-4"),
        ("clang-19", "-O1 -fno-inline -g"),
    ]
    .into_iter()
    .enumerate()
    {
        let mut session = Session::new(&format!("debuginfo/whole-sections-{number}"));
        let dir = session.dir().to_owned();
        session.write("a.cc", &text);
        session.must(&Job::new(&dir, tools::cxx(compiler)).words("-c a.cc").words(options));
        tools::shim_dir(&session.path("shims"), &tools::lto_prune());
        let sizes = ["--prune-level=off", "--prune-strict"].map(|flags| {
            let job = Job::new(&dir, tools::cxx(compiler)).words("-B shims a.o -o out");
            let job = job.env("LTO_PRUNE_LINKER", Linker::Lld.path()).env("LTO_PRUNE_FLAGS", flags);
            session.must(&job);
            (debug_bytes(&session.path("out")), Facts::read(&session.path("out")).unwrap())
        });
        let [(plain, _), (pruned, facts)] = &sizes;
        session.check(!facts.defined.contains("_Z4deadi"), "dead is kept");
        session.check(pruned <= plain, &format!("{compiler} {options}: {plain} bytes become {pruned}"));
    }
}

#[test]
fn ranges_of_removed_functions_go_from_kept_units() {
    // With a section for each function, such a range would begin at address 0 and cover the first functions of the program.
    let text = LONG.replace("STATEMENTS", &"v = x; x ^= v * 3;\n".repeat(3000));
    for (compiler, version) in [("gcc", 4), ("gcc", 5), ("clang-19", 4), ("clang-19", 5)] {
        let mut session = Session::new(&format!("debuginfo/ranges-{compiler}-{version}"));
        let dir = session.dir().to_owned();
        session.write("long.c", &text);
        session.write("inlines.c", INLINES);
        let job = Job::new(&dir, compiler).words("-O1 -g -fPIE -ffunction-sections -c long.c inlines.c");
        session.must(&job.arg(format!("-gdwarf-{version}")));
        tools::shim_dir(&session.path("plain"), &Linker::Lld.path());
        tools::shim_dir(&session.path("shims"), &tools::lto_prune());
        let mut answers = Vec::new();
        for (shims, more) in [("plain", ""), ("shims", ""), ("shims", " --prune-debug=shrink")] {
            let job = Job::new(&dir, compiler).arg("-B").arg(shims).words("-pie long.o inlines.o -o out");
            let job = job.env("LTO_PRUNE_LINKER", Linker::Lld.path());
            session.must(&job.env("LTO_PRUNE_FLAGS", format!("--prune-strict{more}")));
            let facts = Facts::read(&session.path("out")).unwrap();
            session.check_eq(&facts.defined.contains("dead_long"), &(shims == "plain"), "dead_long");
            let mut job = Job::new(&dir, "llvm-symbolizer-19").words("--inlines -e out");
            for (name, address) in facts
                .functions
                .iter()
                .filter(|(name, _)| ["kept", "main", "short_one"].contains(&name.as_str()))
            {
                println!("{name}");
                job = job.arg(format!("{address:#x}")).arg(format!("{:#x}", address + 1));
            }
            let said = session.must(&job).stdout;
            let mut said: Vec<String> = said.split("\n\n").map(str::to_owned).collect();
            said.sort();
            answers.push(said);
        }
        session.check(answers[0].iter().any(|a| a.contains("kept")), &format!("{answers:?}"));
        session.check_eq(&answers[1], &answers[0], &format!("{compiler} {version}"));
        session.check_eq(&answers[2], &answers[0], &format!("{compiler} {version}, shrunk"));
    }
}

/// A variable with a location list of distances from the unit's address, and a type that nothing uses.
const DISTANCES: &str = "#include <stdio.h>\nstruct Unused { int field; };\nstatic struct Unused *unused;\n\
    int main(int argc, char **argv) { int sum = argc * 2; argc += puts(argv[0]); sum += argc; argc = puts(argv[0]); return sum + argc; }\n";

#[test]
fn a_table_of_addresses_has_some() {
    let mut session = Session::new("debuginfo/no-addresses");
    let dir = session.dir().to_owned();
    session.write("main.c", DISTANCES);
    session.must(&Job::new(&dir, "gcc").words("-O1 -gdwarf-5 -fno-function-sections -c main.c"));
    tools::shim_dir(&session.path("shims"), &tools::lto_prune());
    let job = Job::new(&dir, "gcc").words("-B shims main.o -o out");
    let job = job.env("LTO_PRUNE_LINKER", Linker::Lld.path());
    session.must(&job.env("LTO_PRUNE_FLAGS", "--prune-strict --prune-debug=shrink"));
    let dump = Job::new(&dir, "llvm-dwarfdump-19").words("--debug-info --debug-loclists out");
    let said = session.must(&dump).stdout;
    session.check(said.contains("DW_LLE_offset_pair") && !said.contains("\"Unused\""), &said);
    // A base at the end of an empty table is one that readers call invalid.
    session.check(!said.contains("DW_AT_addr_base"), &said);
}

#[test]
fn a_skeleton_unit_with_entries_keeps_its_object() {
    let mut session = Session::new("debuginfo/split-inlining");
    let dir = session.dir().to_owned();
    session.write("a.c", BLOCKS.replace("NAME", "first"));
    session.write("main.c", "int first(int); int main(int c, char **v) { return first(c); }\n");
    let flags = "-O2 -g -gdwarf-4 -gsplit-dwarf -fsplit-dwarf-inlining -fno-function-sections -c a.c main.c";
    session.must(&Job::new(&dir, "clang-19").words(flags));
    let job = Job::new(&dir, tools::lto_prune()).words("a.o main.o -o out --prune-stats=full");
    let said = session.must(&job.env("LTO_PRUNE_LINKER", Linker::Lld.path()));
    let said = format!("{}{}", said.stdout, said.stderr);
    session
        .check(said.contains("limit debug-info (module)") && said.contains("-fsplit-dwarf-inlining"), &said);
}

/// A variable whose description looks like that of an inlined function.
const INLINE_VARIABLE: &str = r#"
inline int inline_variable = 33;
extern "C" int dead(int x) { return inline_variable + x; }
int main() { return inline_variable - 33; }
"#;

#[test]
fn inline_variables_stay() {
    for compiler in ["gcc", "clang-19"] {
        let mut session = Session::new(&format!("debuginfo/inline-{compiler}"));
        let dir = session.dir().to_owned();
        session.write("a.cc", INLINE_VARIABLE);
        let job =
            Job::new(&dir, tools::cxx(compiler)).words("-O0 -g -std=c++17 -fno-function-sections -c a.cc");
        session.must(&job);
        tools::shim_dir(&session.path("shims"), &tools::lto_prune());
        for flags in ["--prune-level=off", "--prune-strict", "--prune-strict --prune-debug=shrink"] {
            let job = Job::new(&dir, tools::cxx(compiler)).words("-B shims a.o -o out");
            session.must(&job.env("LTO_PRUNE_LINKER", Linker::Lld.path()).env("LTO_PRUNE_FLAGS", flags));
            let gdb = Job::new(&dir, "gdb").words("-nx -batch -ex").arg("print inline_variable");
            let said = session.must(&gdb.arg("out")).stdout;
            session.check(said.contains("= 33"), &format!("{flags}: {said}"));
        }
    }
}

#[test]
fn what_other_objects_may_refer_to_stays() {
    // gcc's link-time optimisation and Free Pascal define symbols for entries, and other objects refer to these symbols.
    let mut session = Session::new("debuginfo/named-entries");
    let dir = session.dir().to_owned();
    session.write("main.c", MAIN);
    session.write("helper.c", HELPER);
    session.write("inline.h", INLINE);
    session.must(&Job::new(&dir, "gcc").words("-O2 -g -fno-function-sections -S helper.c"));
    session.must(&Job::new(&dir, "gcc").words("-O2 -g -fno-function-sections -c main.c"));
    let assembly = std::fs::read_to_string(session.path("helper.s")).unwrap();
    let (before, behind) = assembly.split_once(".Ldebug_info0:").unwrap();
    session
        .write("helper.s", format!("{before}.globl named_entries\nnamed_entries:\n.Ldebug_info0:{behind}"));
    session.must(&Job::new(&dir, "gcc").words("-c helper.s"));
    // rustc names a loaded section of this prefix, which describes nothing.
    let scripts =
        ".section .debug_gdb_scripts,\"aMS\",@progbits,1\n.weak scripts\nscripts: .asciz \"\\1a.py\"\n";
    session.write("scripts.s", format!("{assembly}\n{scripts}"));
    session.must(&Job::new(&dir, "gcc").words("-c scripts.s"));
    let lto = Job::new(&dir, "gcc").words("-O2 -g -flto -fno-function-sections");
    session.must(&lto.clone().words("-c main.c -o main-lto.o"));
    session.must(&lto.clone().words("-c helper.c -o helper-lto.o"));
    session.must(&lto.words("-r -flinker-output=nolto-rel main-lto.o helper-lto.o -o joined.o"));
    for (objects, named) in
        [("main.o helper.o", "helper.o"), ("joined.o", "joined.o"), ("main.o scripts.o", "")]
    {
        let job = Job::new(&dir, tools::lto_prune()).words(objects).words("-o out --prune-strict");
        let job =
            job.words("--prune-debug=shrink --prune-stats=full").env("LTO_PRUNE_LINKER", Linker::Lld.path());
        let said = session.must(&job);
        let said = format!("{}{}", said.stdout, said.stderr);
        let is_said = said.contains(named) && said.contains("a symbol names a place in it");
        session.check_eq(&is_said, &!named.is_empty(), &said);
        session.must(&Job::new(&dir, "./out"));
    }
}

#[test]
fn what_can_not_be_collected_is_said() {
    let mut session = Session::new("debuginfo/uncollected");
    let dir = session.dir().to_owned();
    session.write("a.cc", NAMED);
    session.must(&Job::new(&dir, "g++").words("-O1 -g -fdebug-types-section -fno-function-sections -c a.cc"));
    let job =
        Job::new(&dir, tools::lto_prune()).words("a.o -o out --prune-debug=shrink --prune-report=r.json");
    let job = job.env("LTO_PRUNE_LINKER", Linker::Lld.path());
    // The second link has the object from the cache, or would have it.
    for _ in 0..2 {
        let said = session.must(&job).stderr;
        let is_said =
            said.lines().filter(|line| line.contains("note: out: debug information of a.o keeps")).count();
        session.check(is_said == 1 && said.contains("type units"), &said);
        let report = session.must(&Job::new(&dir, "cat").arg("r.json")).stdout;
        session.check(report.contains("\"debug-entries\""), "the limit is not in the report");
        let facts = Facts::read(&session.path("out")).unwrap();
        session.check(!facts.defined.contains("dead"), "the function goes all the same");
    }
}

#[test]
fn the_abbreviations_of_one_unit_are_replaced() {
    // An object with a table of names (`.debug_names`) keeps all its entries.
    let mut session = Session::new("debuginfo/replaced");
    let dir = session.dir().to_owned();
    session.write("a.cc", NAMED);
    let flags = "-O1 -gdwarf-5 -gpubnames -fno-function-sections -c a.cc";
    session.must(&Job::new(&dir, "clang++-19").words(flags));
    tools::shim_dir(&session.path("plain"), &Linker::Lld.path());
    tools::shim_dir(&session.path("shims"), &tools::lto_prune());
    let sizes = ["plain", "shims"].map(|shims| {
        let job = Job::new(&dir, "clang++-19").arg("-B").arg(shims).words("a.o -o out");
        session
            .must(&job.env("LTO_PRUNE_LINKER", Linker::Lld.path()).env("LTO_PRUNE_FLAGS", "--prune-strict"));
        let bytes = std::fs::read(session.path("out")).unwrap();
        let file = object::File::parse(&*bytes).unwrap();
        (
            file.section_by_name(".debug_abbrev").unwrap().size(),
            file.section_by_name(".debug_names").is_some(),
            Facts::read(&session.path("out")).unwrap().defined.contains("dead"),
        )
    });
    let [(plain, names, dead), (ours, kept, removed)] = sizes;
    session.check(names && kept && dead && !removed, &format!("{sizes:?}"));
    session.check(ours <= plain + 8, &format!("{sizes:?}"));
    session.must(&Job::new(&dir, "llvm-dwarfdump-19").words("--verify out"));
}
