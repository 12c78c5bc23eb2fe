//! Outputs that are linked again (`-r` and `--emit-relocs`) have the linker's own bytes, unless an option requests pruning with `--emit-relocs`.

use serde_json::Value;

use crate::run::{Job, Session};
use crate::tools::{self, Linker};

const FILES: &str = include_str!("programs/relocatable.txt");

/// Link plainly and in front of the linker; whether the bytes are the same, and the limits of the report.
fn linked(session: &mut Session, linker: Linker, line: &str, options: &str) -> (bool, Vec<String>) {
    let line = format!("-nostartfiles -e main main.o lib.o {line}");
    let plain = session.job("gcc -B").arg(format!("plain-{}", linker.name()));
    session.must(&plain.words(&line).words("-o plain"));
    let job = session.job("gcc -B shims").words(&line).words(options);
    session.must(&job.words("-Wl,--prune-strict -Wl,--prune-report=report.json -o out").by(linker));
    let read = |name: &str| session.bytes(name);
    let report: Value = serde_json::from_slice(&read("report.json")).unwrap();
    let limits = report["limits"].as_array().unwrap().iter();
    let limits = limits.filter(|l| l["severity"] == "link").map(|l| l["limit"].as_str().unwrap().to_owned());
    (read("plain") == read("out"), limits.collect())
}

#[test]
fn the_linkers_own_bytes() {
    let mut session = Session::new("again");
    session.files(FILES, "the_linkers_own_bytes");
    session.cmd("gcc -O1 -fno-inline -fno-pie -c main.c lib.c");
    session.shims();
    // wild knows no --emit-relocs, and makes no relocatable output.
    for linker in Linker::ALL.into_iter().filter(|linker| *linker != Linker::Wild) {
        std::fs::create_dir_all(session.path(&format!("plain-{}", linker.name()))).unwrap();
        std::os::unix::fs::symlink(linker.path(), session.path(&format!("plain-{}/ld", linker.name())))
            .unwrap();
        let again = vec!["relocatable-output".to_owned()];
        for (line, options) in [
            ("-r", ""),
            ("-r", "-Wl,--prune-level=functions"),
            ("-no-pie -Wl,--emit-relocs", "-Wl,--prune-level=functions"),
        ] {
            let found = linked(&mut session, linker, line, options);
            session.check_eq(&found, &(true, again.clone()), &format!("{} {line} {options}", linker.name()));
        }
        // gold stops at an internal error with --emit-relocs and --gc-sections, ours or not; the others don't take -r with it.
        if linker == Linker::Gold {
            continue;
        }
        if linker == Linker::Lld {
            let found = linked(&mut session, linker, "-r -Wl,--gc-sections", "-Wl,--prune-level=functions");
            session.check_eq(&found, &(true, again.clone()), "lld -r --gc-sections");
        }
        let both = "-no-pie -Wl,--emit-relocs -Wl,--gc-sections";
        let unasked = linked(&mut session, linker, both, "");
        session.check_eq(&unasked, &(true, again), &format!("{}, not asked", linker.name()));
        let asked = linked(&mut session, linker, both, "-Wl,--prune-level=functions");
        session.check_eq(&asked, &(false, Vec::new()), &format!("{}, asked", linker.name()));
        let listing = session.cmd("nm out").stdout;
        session.check(listing.contains(" callee") && !listing.contains("dead_"), &listing);
    }
}

/// `ld.bfd -r` of objects that share a COMDAT function leaves a relocation of the record that it took out, at the head of another one.
#[test]
fn leftovers_of_unwind_tables() {
    let header =
        "template <int N> __attribute__((noinline)) inline int shared(int x) { return x * N + 1; }\n";
    let mut session = Session::new("leftovers");
    session.write(
        "a.cc",
        format!("{header}int a(int x) {{ return shared<3>(x); }}\nint dead_a() {{ return 4; }}\n"),
    );
    session.write("b.cc", format!("{header}int b(int x) {{ return shared<3>(x) + 7; }}\n"));
    session.write("main.cc", "int a(int); int b(int); int main() { return a(2) + b(3) - 24; }\n");
    session.cmd("g++ -O2 -c a.cc b.cc main.cc");
    session.must(&Job::new(session.dir(), Linker::Bfd.path()).words("-r a.o b.o -o ab.o"));
    let bytes = session.bytes("ab.o");
    let file = object::File::parse(&*bytes).unwrap();
    let unwind = object::Object::section_by_name(&file, ".eh_frame").unwrap();
    let none = object::RelocationFlags::Elf { r_type: object::elf::R_X86_64_NONE };
    let left = object::ObjectSection::relocations(&unwind).filter(|(_, r)| r.flags() == none).count();
    session.check(left > 0, "GNU ld leaves none");
    for linker in [Linker::Lld, Linker::Bfd] {
        tools::shim_dir(&session.path(&format!("ours-{}", linker.name())), &tools::lto_prune());
        session.link(
            linker,
            &format!(
                "g++ main.o ab.o -o out -Wl,--prune-level=functions -Wl,--prune-strict -Bours-{}",
                linker.name()
            ),
        );
        session.cmd("./out");
        let bytes = session.bytes("out");
        let file = object::File::parse(&*bytes).unwrap();
        let mut names = object::Object::symbols(&file);
        let dead = names.any(|s| object::ObjectSymbol::name(&s).is_ok_and(|name| name.contains("dead_a")));
        session.check(!dead, &format!("{}: dead_a stays", linker.name()));
    }
}

/// Objects that were joined before the link are divided like those that a compiler made.
#[test]
fn joined_objects_are_divided() {
    let a = "int dead_a(int x) { return x * 3 + 1; }\nint live_a(int x) { return x + 5; }\n\
             int dead_a2(int x) { return dead_a(x) + 2; }\nint (*table[])(int) = {live_a};\n";
    let b = "static int helper(int x) { return x - 5; }\nint dead_b(int x) { return x * 7; }\n\
             int live_b(int x) { return helper(x); }\nint dead_b2(int x) { return dead_b(x) + 2; }\n";
    let main = "int printf(const char *, ...);\nint live_a(int), live_b(int);\n\
                int main(void) { printf(\"%d %d\\n\", live_a(1), live_b(9)); return 0; }\n";
    for (compiler, joiner) in [
        ("gcc -O1 -fno-function-sections", "mold"),
        ("gcc -O0 -fno-function-sections -fno-pie", "mold"),
        ("clang-19 -O2 -fno-function-sections", "mold"),
        ("gcc -O1 -fno-function-sections", "ld.gold"),
        ("tcc", "mold"),
        ("tcc", "tcc"),
        // It writes section symbols with values. The object is linked whole, and a limit says so.
        ("gcc -O1 -fno-function-sections", "tcc"),
        ("clang-19 -O2 -fno-function-sections", "tcc"),
    ] {
        if [compiler, joiner].contains(&"tcc") && !tools::is_installed("tcc") {
            continue;
        }
        let is_divided = joiner != "tcc" || compiler == "tcc";
        let name = format!("joined/{}-{joiner}", compiler.replace([' ', '='], ""));
        let mut session = Session::new(&name);
        let dir = session.dir().to_owned();
        session.write("a.c", a);
        session.write("b.c", b);
        session.write("main.c", main);
        let mut words = compiler.split(' ');
        let program = words.next().unwrap_or_default();
        for source in ["a.c", "b.c"] {
            session.must(&words.clone().fold(Job::new(&dir, program), Job::arg).arg("-c").arg(source));
        }
        session.cmd("gcc -O1 -c main.c");
        session.cmd(&format!("{joiner} -r -o joined.o a.o b.o"));
        session.shims();
        for linker in Linker::ALL {
            let said = session.link(linker, "gcc -B shims -no-pie main.o joined.o -o out -Wl,--prune-level=functions -Wl,--prune-strict -Wl,--prune-stats=full");
            let defined = session.facts("out").defined;
            let dead: Vec<&String> = defined.iter().filter(|n| n.starts_with("dead_")).collect();
            session.check_eq(&dead.is_empty(), &is_divided, &format!("{}: {dead:?}", linker.name()));
            let said = said.stdout + &said.stderr;
            session.check_eq(&said.contains("as tcc -r writes them"), &!is_divided, linker.name());
            let printed = session.cmd("./out").stdout;
            session.check_eq(&printed.as_str(), &"6 4\n", linker.name());
        }
    }
}

/// Assembly that a linker joined (`-r`) with compiled objects is no compiler's. The link keeps functions and objects that the assembly finds by
/// their distance, and the section into which it falls through.
#[test]
fn joined_assembly_is_kept() {
    let assembly =
        ["asm_neighbours/tables.s", "asm_distances/jump.s", "asm_distances/quad.s", "asm_distances/stack.s"];
    let sources = [
        ("c.c", "int used(int x) { return x + 5; }\nint dead(int x) { return x * 7 + 1; }\n"),
        (
            "main.c",
            "#include <stdio.h>\nint used(int), behind(long), before(long), through(long), jump(long), quad(long), stack(long), goes_on(void);\n\
             int main(int c, char **v) {\n    printf(\"%d %d %d %d\", used(1), behind(2), before(1), through(2));\n\
             for (int i = 0; i < 3; i++) printf(\" %d %d %d\", jump(i), quad(i), stack(i));\n    if (c > 1) printf(\" %d\", goes_on());\n    return 0;\n}\n",
        ),
    ];
    // With a group, and without the name of the compiler, as archives of distributions have it.
    let grouped = "template <class T> struct Box { T value; __attribute__((noinline)) T get() { return value + 1; } };\n\
                   int boxed(int x) { Box<int> box{x}; return box.get(); }\n";
    // Without `.file`, and with types and sizes as a compiler writes them.
    let falls_through = ".section .text.one,\"ax\"\n.globl goes_on\n.type goes_on, @function\ngoes_on: mov $50, %eax\n.size goes_on, .-goes_on\n\
                         .section .text.two,\"ax\"\n.globl goal\n.type goal, @function\ngoal: inc %eax\n ret\n.size goal, .-goal\n\
                         .section .note.GNU-stack,\"\",@progbits\n";
    let expected = "6 7 22 37 10 30 40 11 31 41 12 32 42";
    for joiner in Linker::ALL {
        let mut session = Session::new(&format!("joined-assembly/{}", joiner.name()));
        let dir = session.dir().to_owned();
        for (name, text) in sources {
            session.write(name, text);
        }
        session.cmd("gcc -O1 -fno-function-sections -c c.c main.c");
        session.write("goes_on.s", falls_through);
        session.cmd("as goes_on.s -o goes_on.o");
        session.write("grouped.cc", grouped);
        session.cmd("g++ -O1 -fno-ident -c grouped.cc");
        session.cmd("objcopy -R .comment grouped.o");
        let mut objects = " goes_on.o".to_owned();
        for (i, source) in assembly.iter().enumerate() {
            let source = tools::repository().join("fixtures").join(source);
            session.must(&session.job("as").arg(source).arg("-o").arg(format!("{i}.o")));
            objects += &format!(" {i}.o");
        }
        session.shims();
        let lines = [
            ("last", format!("c.o{objects}")),
            ("first", format!("{} c.o", objects.trim())),
            // gold, lld and mold leave out all names of files with -x.
            ("stripped", format!("-x grouped.o{objects} c.o")),
            ("alone", "-x grouped.o c.o goes_on.o".to_owned() + &objects.replace(" goes_on.o", "")),
        ];
        for (order, line) in lines {
            let joined = session.run(&Job::new(&dir, joiner.path()).words("-r -o joined.o").words(&line));
            if !joined.ok() {
                session.check_eq(&joiner, &Linker::Wild, &joined.stderr);
                continue;
            }
            let what = format!("assembly {order}");
            session
                .link(Linker::Lld, "gcc -B shims -no-pie main.o joined.o -o out -Wl,--prune-level=functions");
            let printed = session.cmd("./out falls-through").stdout;
            session.check_eq(&printed, &format!("{expected} 51"), &what);
            // A linker with garbage collection removes a section that is only reached by falling through, divided or not.
            session.cmd("lto-prune split joined.o -o split.o");
            session.cmd("gcc -no-pie -fuse-ld=bfd -Wl,--gc-sections main.o split.o -o out");
            let printed = session.cmd("./out").stdout;
            session.check_eq(&printed.as_str(), &expected, &format!("{what}, split"));
        }
    }
}

/// Objects that other tools changed after the compiler have a section symbol for each section, another order, and tables that lto-prune does not
/// know. They are pruned, linked by every linker and run.
#[test]
fn objects_of_other_tools() {
    let mut linked = 0;
    for compiler in ["g++", "clang++-19"] {
        let mut session = Session::new(&format!("other-tools/{compiler}"));
        session.shims();
        session.write("other_tools.h", include_str!("programs/other_tools.h"));
        session.write("main.cc", include_str!("programs/other_tools_main.cc"));
        session.write("lib.cc", include_str!("programs/other_tools_lib.cc"));
        let flags = "-O1 -g -ffunction-sections -fdata-sections -std=c++17 -w";
        session.cmd(&format!("{compiler} {flags} -c main.cc lib.cc"));
        for tool in [
            "ld.bfd -r -o OUT IN",
            "ld.gold -r -o OUT IN",
            "ld.lld-19 -r -o OUT IN",
            "mold -r -o OUT IN",
            "objcopy IN OUT",
            "llvm-objcopy-19 IN OUT",
            "objcopy --compress-debug-sections=zlib IN OUT",
            "strip --strip-unneeded -o OUT IN",
            "llvm-strip-19 -g -o OUT IN",
        ] {
            for name in ["main", "lib"] {
                session.cmd(&tool.replace("IN", &format!("{name}.o")).replace("OUT", &format!("{name}.x.o")));
            }
            for linker in [Linker::Lld, Linker::Mold, Linker::Bfd, Linker::Gold] {
                let what = format!("{compiler}, {tool}, {}", linker.name());
                let plain = format!("plain-{}", linker.name());
                if !session.path(&plain).exists() {
                    tools::shim_dir(&session.path(&plain), &linker.path());
                }
                // Not every linker takes what another one writes with -r.
                let plain = session.run(&session.job(&format!("g++ -B {plain} main.x.o lib.x.o -o plain")));
                if !plain.ok() || !plain.stderr.is_empty() {
                    continue;
                }
                session.link(linker, "g++ -B shims main.x.o lib.x.o -o out -Wl,--prune-strict");
                let printed = session.cmd("./out").stdout;
                session.check_eq(&printed.as_str(), &"neg\n77 4 7 3 1\n", &what);
                let defined = session.facts("out").defined;
                session.check(!defined.contains("_Z10other_deadi"), &what);
                linked += 1;
            }
        }
    }
    assert!(linked > 60, "{linked}");
}
