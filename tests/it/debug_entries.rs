//! Debug information entries of removed functions are removed, entries of kept functions are kept, and an unknown form is reported.

use object::{Object, ObjectSection};

use crate::debuginfo::{BLOCKS, PROGRAM, debug_bytes, linked, prepare};
use crate::tools::{self, Linker};

/// Types, names and functions that nothing kept refers to, and some that something does.
const NAMED: &str = include_str!("programs/debug_entries_named.cc");

const FORMATS: [(&str, u32); 4] = [("gcc", 4), ("gcc", 5), ("clang-19", 4), ("clang-19", 5)];
const STRICT: &str = "--prune-strict";
const SHRINK: &str = "--prune-strict --prune-debug=shrink";

#[test]
fn unused_entries_are_removed() {
    for (compiler, version) in FORMATS {
        let mut session = prepare(&format!("unused-{compiler}-{version}"), &[("a.cc", NAMED)]);
        let cxx = tools::cxx(compiler);
        session.cmd(&format!("{cxx} -O1 -fno-function-sections -c a.cc -g -gdwarf-{version}"));
        let mut said = Vec::new();
        let mut sizes = Vec::new();
        for (out, flags) in [("kept", STRICT), ("shrunk", SHRINK)] {
            let outcome = linked(&mut session, cxx, "shims", &format!("a.o -o {out}"), flags);
            session.check_eq(&outcome.stderr, &String::new(), "messages of the link");
            said.push(session.cmd(&format!("llvm-dwarfdump-19 --debug-info {out}")).stdout);
            sizes.push(debug_bytes(&session.path(out)));
        }
        let what = format!("{compiler} {version}: {sizes:?}");
        session.check(sizes[1] < sizes[0], &what);
        let has = |text: &str, name: &str| text.contains(&format!("(\"{name}\")"));
        let kept = "used used_in_namespace member_of_used base_of_used of_base second_kind method result_of_inlined of_template<int> live";
        for name in kept.split(' ') {
            session.check(has(&said[1], name), &format!("{what}: {name} is lost"));
        }
        // gcc describes only types that something uses.
        for name in ["only_dead", "member_of_dead", "name_of_only_dead", "dead"] {
            session.check(!has(&said[1], name), &format!("{what}: {name} is kept"));
        }
        session.check(!has(&said[0], "dead"), &format!("{what}: the function is kept"));
        let strings = session.cmd("readelf -p .debug_str shrunk").stdout;
        session.check(!strings.contains("member_of_dead") && strings.contains("member_of_used"), &strings);
        for command in
            ["ptype used", "ptype outer::used_in_namespace", "info scope live", "ptype of_template<int>"]
        {
            let answers = ["kept", "shrunk"].map(|out| {
                let gdb =
                    session.job("gdb -nx -batch -ex").arg("set print address off").arg("-ex").arg(command);
                let said = session.must(&gdb.arg(out)).stdout;
                // Addresses may differ, because the order of code does.
                said.split_whitespace().filter(|word| !word.contains("0x")).collect::<Vec<_>>().join(" ")
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

/// One function is removed from `.text`. Lists and line tables of the other functions, which have sections of their own, do not grow.
#[test]
fn tables_of_whole_sections_do_not_grow() {
    let functions: String =
        (0..60).map(|i| format!("inline int f{i}(int a) {{ return a + {i}; }}\n")).collect();
    let calls: String = (0..60).map(|i| format!("r += f{i}(c); ")).collect();
    let text = format!(
        "{functions}int dead(int a) {{ return a * 3; }}\nint main(int c, char **) {{ int r = 0; {calls}return r == 7; }}\n"
    );
    for (number, (compiler, options)) in [
        ("g++", "-O0 -g1"),
        ("g++", "-O0 -g -gdwarf-4"),
        ("clang++-19", "-O0 -g"),
        ("clang++-19", "-O0 -g -gdwarf-4"),
        ("clang++-19", "-O1 -fno-inline -g"),
    ]
    .into_iter()
    .enumerate()
    {
        let mut session = prepare(&format!("whole-sections-{number}"), &[("a.cc", &text)]);
        session.cmd(&format!("{compiler} -c a.cc {options}"));
        let [plain, pruned] = ["--prune-level=off", STRICT].map(|flags| {
            linked(&mut session, compiler, "shims", "a.o -o out", flags);
            debug_bytes(&session.path("out"))
        });
        session.check(!session.facts("out").defined.contains("_Z4deadi"), "dead is kept");
        session.check(pruned <= plain, &format!("{compiler} {options}: {plain} bytes become {pruned}"));
    }
}

#[test]
fn ranges_of_removed_functions_are_removed_from_kept_units() {
    // With a section for each function, such a range would begin at address 0 and cover the first functions of the program.
    let text = LONG.replace("STATEMENTS", &"v = x; x ^= v * 3;\n".repeat(3000));
    for (compiler, version) in FORMATS {
        let sources = [("long.c", text.as_str()), ("inlines.c", INLINES)];
        let mut session = prepare(&format!("ranges-{compiler}-{version}"), &sources);
        session.cmd(&format!(
            "{compiler} -O1 -g -fPIE -ffunction-sections -c long.c inlines.c -gdwarf-{version}"
        ));
        let mut answers = Vec::new();
        for (shims, flags) in [("plain", ""), ("shims", STRICT), ("shims", SHRINK)] {
            linked(&mut session, compiler, shims, "-pie long.o inlines.o -o out", flags);
            let facts = session.facts("out");
            session.check_eq(&facts.defined.contains("dead_long"), &(shims == "plain"), "dead_long");
            let mut job = session.job("llvm-symbolizer-19 --inlines -e out");
            let is_kept = |name: &str| ["kept", "main", "short_one"].contains(&name);
            for (_, address) in facts.functions.iter().filter(|(name, _)| is_kept(name)) {
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
fn an_empty_table_of_addresses_has_no_base() {
    let mut session = prepare("no-addresses", &[("main.c", DISTANCES)]);
    session.cmd("gcc -O1 -gdwarf-5 -fno-function-sections -c main.c");
    linked(&mut session, "gcc", "shims", "main.o -o out", SHRINK);
    let said = session.cmd("llvm-dwarfdump-19 --debug-info --debug-loclists out").stdout;
    session.check(said.contains("DW_LLE_offset_pair") && !said.contains("\"Unused\""), &said);
    // Readers report a base at the end of an empty table as invalid.
    session.check(!said.contains("DW_AT_addr_base"), &said);
}

#[test]
fn a_skeleton_unit_with_entries_keeps_its_object() {
    let main = "int first(int); int main(int c, char **v) { return first(c); }\n";
    let mut session =
        prepare("split-inlining", &[("a.c", &BLOCKS.replace("NAME", "first")), ("main.c", main)]);
    session.cmd(
        "clang-19 -O2 -g -gdwarf-4 -gsplit-dwarf -fsplit-dwarf-inlining -fno-function-sections -c a.c main.c",
    );
    let said = session.link(Linker::Lld, "lto-prune a.o main.o -o out --prune-stats=full");
    let said = format!("{}{}", said.stdout, said.stderr);
    session
        .check(said.contains("limit debug-info (module)") && said.contains("-fsplit-dwarf-inlining"), &said);
}

/// A variable whose description looks like that of an inlined function.
const INLINE_VARIABLE: &str = "inline int inline_variable = 33;\n\
    extern \"C\" int dead(int x) { return inline_variable + x; }\nint main() { return inline_variable - 33; }\n";

#[test]
fn inline_variables_are_kept() {
    for compiler in ["g++", "clang++-19"] {
        let mut session = prepare(&format!("inline-{compiler}"), &[("a.cc", INLINE_VARIABLE)]);
        session.cmd(&format!("{compiler} -O0 -g -std=c++17 -fno-function-sections -c a.cc"));
        for flags in ["--prune-level=off", STRICT, SHRINK] {
            linked(&mut session, compiler, "shims", "a.o -o out", flags);
            let gdb = session.job("gdb -nx -batch -ex").arg("print inline_variable").arg("out");
            let said = session.must(&gdb).stdout;
            session.check(said.contains("= 33"), &format!("{flags}: {said}"));
        }
    }
}

#[test]
fn entries_with_symbols_are_kept() {
    // gcc's link-time optimisation and Free Pascal define symbols for entries, and other objects refer to these symbols.
    let mut session = prepare("named-entries", &PROGRAM);
    session.cmd("gcc -O2 -g -fno-function-sections -S helper.c");
    session.cmd("gcc -O2 -g -fno-function-sections -c main.c");
    let assembly = session.text("helper.s");
    let (before, behind) = assembly.split_once(".Ldebug_info0:").unwrap();
    session
        .write("helper.s", format!("{before}.globl named_entries\nnamed_entries:\n.Ldebug_info0:{behind}"));
    // rustc names a loaded section of this prefix, which describes nothing.
    let scripts =
        ".section .debug_gdb_scripts,\"aMS\",@progbits,1\n.weak scripts\nscripts: .asciz \"\\1a.py\"\n";
    session.write("scripts.s", format!("{assembly}\n{scripts}"));
    session.cmd("gcc -c helper.s scripts.s");
    let lto = "gcc -O2 -g -flto -fno-function-sections";
    session.cmd(&format!("{lto} -c main.c -o main-lto.o"));
    session.cmd(&format!("{lto} -c helper.c -o helper-lto.o"));
    session.cmd(&format!("{lto} -r -flinker-output=nolto-rel main-lto.o helper-lto.o -o joined.o"));
    for (objects, named) in
        [("main.o helper.o", "helper.o"), ("joined.o", "joined.o"), ("main.o scripts.o", "")]
    {
        let line = format!("lto-prune {objects} -o out {SHRINK} --prune-stats=full");
        let said = session.link(Linker::Lld, &line);
        let said = format!("{}{}", said.stdout, said.stderr);
        let is_said = said.contains(named) && said.contains("a symbol names a place in it");
        session.check_eq(&is_said, &!named.is_empty(), &said);
        session.cmd("./out");
    }
}

#[test]
fn uncollected_entries_are_reported() {
    let mut session = prepare("uncollected", &[("a.cc", NAMED)]);
    session.cmd("g++ -O1 -g -fdebug-types-section -fno-function-sections -c a.cc");
    // The second link may take the object from the cache.
    for _ in 0..2 {
        let line = "lto-prune a.o -o out --prune-debug=shrink --prune-report=r.json";
        let said = session.link(Linker::Lld, line).stderr;
        let notes =
            said.lines().filter(|line| line.contains("note: out: debug information of a.o keeps")).count();
        session.check(notes == 1 && said.contains("type units"), &said);
        session.check(session.text("r.json").contains("\"debug-entries\""), "the limit is not in the report");
        session.check(!session.facts("out").defined.contains("dead"), "the function is kept");
    }
}

#[test]
fn the_abbreviations_of_one_unit_are_replaced() {
    // An object with a table of names (`.debug_names`) keeps all its entries.
    let mut session = prepare("replaced", &[("a.cc", NAMED)]);
    session.cmd("clang++-19 -O1 -gdwarf-5 -gpubnames -fno-function-sections -c a.cc");
    let sizes = ["plain", "shims"].map(|shims| {
        linked(&mut session, "clang++-19", shims, "a.o -o out", STRICT);
        let bytes = session.bytes("out");
        let file = object::File::parse(&*bytes).unwrap();
        let size = file.section_by_name(".debug_abbrev").unwrap().size();
        let has_names = file.section_by_name(".debug_names").is_some();
        (size, has_names, session.facts("out").defined.contains("dead"))
    });
    let [(plain, names, dead), (ours, kept, removed)] = sizes;
    session.check(names && kept && dead && !removed, &format!("{sizes:?}"));
    session.check(ours <= plain + 8, &format!("{sizes:?}"));
    session.cmd("llvm-dwarfdump-19 --verify out");
}
