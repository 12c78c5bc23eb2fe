//! `--prune-unwind`: entries that nothing needs are removed behind every linker, programs that unwind behave as before, and debuggers find
//! the removed entries in `.debug_frame`.
//!
//! Each program that unwinds has a control: linked from objects without unwind tables it must fail, so that it shows what is missing.

use std::path::Path;

use object::{Object, ObjectSection};

use crate::run::{Job, Outcome, Session, section};
use crate::tools::{self, Linker};

/// A C program in which nothing unwinds.
pub(crate) const QUIET: &str = include_str!("programs/unwind_entries_quiet.c");

/// A C++ program that is compiled with `-fno-exceptions`.
const NO_EXCEPTIONS: &str = include_str!("programs/unwind_entries_no_exceptions.cc");

/// Throws, catches, rethrows, through a callback of the C library, and with cleanups on the way.
pub(crate) const THROWS: &str = include_str!("programs/unwind_entries_throws.cc");

/// Catches what is thrown through it, and through C, from another module.
pub(crate) const CATCHES: &str = include_str!("programs/unwind_entries_catches.cc");

pub(crate) const THROUGH_C: &str =
    "int through_c(void (*callback)(int), int x) { callback(x); return x + 1; }\n";

/// Cancels a thread and ends others; cleanups of C run.
const CANCELS: &str = include_str!("programs/unwind_entries_cancels.c");

/// A signal interrupts a function that calls nothing, and the handler takes a backtrace.
const SIGNAL: &str = include_str!("programs/unwind_entries_signal.c");

const USES_LIBRARY: &str = "int library(int (*)(int), int);\nint twice(int x) { return 2 * x; }\nint main(void) { return library(twice, 0); }\n";

pub(crate) const UNUSED: &str = "-Wl,--prune-unwind=unused";

const MODES: [&str; 2] = ["-pie", "-no-pie -static"];

/// The link modes of a configuration: the first has both, the others take turns.
pub(crate) fn modes(config: usize) -> &'static [&'static str] {
    if config == 0 { &MODES } else { &MODES[config % 2..][..1] }
}

/// The objects of a program: in the folder `plain`, and without unwind tables in `bare`.
pub(crate) struct Program {
    pub(crate) session: Session,
    objects: Vec<&'static str>,
    driver: &'static str,
}

impl Program {
    pub(crate) fn new(
        name: &str,
        compiler: &'static str,
        flags: &str,
        sources: &[(&'static str, &str)],
    ) -> Self {
        let mut session = Session::new(&format!("unwind_entries/{name}"));
        session.shims();
        let cxx = tools::cxx(compiler);
        let mut objects = Vec::new();
        for (unit, text) in sources {
            session.write(unit, text);
            let driver = if unit.ends_with(".cc") { cxx } else { compiler };
            let object: &'static str =
                Box::leak(unit.replace(".cc", ".o").replace(".c", ".o").into_boxed_str());
            for folder in ["plain", "bare"] {
                session.mkdir(folder);
                session.cmd(&format!("{driver} -c -w -fPIE {flags} {unit} -o {folder}/{object}"));
            }
            let sections = "-R .eh_frame -R .rela.eh_frame -R .gcc_except_table* -R .rela.gcc_except_table*";
            session.must(&session.job("objcopy").words(sections).arg(format!("bare/{object}")));
            objects.push(object);
        }
        let driver = if sources.iter().any(|(unit, _)| unit.ends_with(".cc")) { cxx } else { compiler };
        Program { session, objects, driver }
    }

    /// Link the objects of a folder; `mode` are words for the driver.
    fn link(&mut self, folder: &str, linker: Linker, mode: &str, out: &str) -> Outcome {
        let objects = self.objects.iter().map(|object| format!("{folder}/{object}"));
        let job = Job::new(self.session.dir(), self.driver).words("-B shims -w -pthread").args(objects);
        let job = job.words(mode).words(&format!("-Wl,--prune-strict -o {out}"));
        self.session.run(&job.by(linker))
    }

    pub(crate) fn must_link(&mut self, folder: &str, linker: Linker, mode: &str, out: &str) -> Outcome {
        let linked = self.link(folder, linker, mode, out);
        self.session.check(linked.ok(), &format!("{} {mode}: {}", linker.name(), linked.stderr));
        linked
    }

    pub(crate) fn runs(&mut self, out: &str) -> Outcome {
        self.session.run(&Job::new(self.session.dir(), format!("./{out}")))
    }

    /// (section, start, end) of each FDE of a file.
    fn entries(&mut self, out: &str) -> Vec<(String, u64, u64)> {
        let listing = self.session.must(&self.session.job("readelf -wf").arg(out)).stdout;
        let mut section = String::new();
        let mut found = Vec::new();
        for line in listing.lines() {
            if let Some(name) = line.strip_prefix("Contents of the ") {
                section = name.split_whitespace().next().unwrap_or_default().to_owned();
            }
            let range = line.split(" pc=").nth(1).filter(|_| line.contains(" FDE "));
            if let Some((start, end)) = range.and_then(|range| range.split_once("..")) {
                let number = |text: &str| u64::from_str_radix(text.trim(), 16).unwrap();
                found.push((section.clone(), number(start), number(end)));
            }
        }
        found
    }

    /// The address of a function of a linked file.
    pub(crate) fn address(&mut self, out: &str, name: &str) -> u64 {
        let listing = self.session.must(&self.session.job("nm").arg(out)).stdout;
        let line = listing.lines().find(|line| line.split_whitespace().nth(2) == Some(name));
        let address = line.and_then(|line| line.split_whitespace().next());
        u64::from_str_radix(address.unwrap_or_else(|| panic!("no {name} in\n{listing}")), 16).unwrap()
    }

    /// Whether a section of a file has an FDE for a function.
    pub(crate) fn describes(&mut self, out: &str, section: &str, name: &str) -> bool {
        let address = self.address(out, name);
        let entries = self.entries(out);
        entries.iter().any(|(of, start, end)| of == section && (*start..*end).contains(&address))
    }

    /// Whether a file has an FDE for `main`.
    pub(crate) fn has_main(&mut self, out: &str) -> bool {
        self.describes(out, ".eh_frame", "main")
    }

    /// The removal of entries changes nothing for the program, which fails without all of them. Returns the outcome of the plain program.
    #[track_caller]
    pub(crate) fn behaves_as_before(&mut self, mode: &str, linkers: &[Linker]) -> Outcome {
        self.must_link("plain", linkers[0], mode, "kept");
        self.must_link("bare", linkers[0], mode, "control");
        let (kept, control) = (self.runs("kept"), self.runs("control"));
        self.check(control != kept, &format!("{mode}: the control shows nothing"));
        for linker in linkers {
            self.must_link("plain", *linker, &format!("{mode} {UNUSED}"), "out");
            let out = self.runs("out");
            self.session.check_eq(&out, &kept, &format!("{mode} {}", linker.name()));
        }
        kept
    }

    /// Checks a condition; a failure prints the commands of the session.
    #[track_caller]
    pub(crate) fn check(&self, condition: bool, what: &str) {
        self.session.check(condition, what);
    }

    fn stripped_size(&mut self, out: &str) -> usize {
        self.session.must(&self.session.job("strip").arg(out).words("-o stripped"));
        self.session.bytes("stripped").len()
    }
}

#[test]
fn entries_that_nothing_needs_are_removed() {
    const MODES: [&str; 3] = ["-pie -Wl,--gc-sections", "-no-pie -static", "-pie -Wl,--prune-level=sections"];
    let programs = [
        ("c", "gcc", "-O2", "main.c", QUIET, &MODES[..]),
        ("sections", "gcc", "-O2 -ffunction-sections", "main.c", QUIET, &MODES[..1]),
        ("cxx", "clang-19", "-O2 -fno-exceptions", "main.cc", NO_EXCEPTIONS, &MODES[2..]),
    ];
    for (name, compiler, flags, unit, text, modes) in programs {
        let mut program = Program::new(&format!("quiet-{name}"), compiler, flags, &[(unit, text)]);
        for (linker, mode) in Linker::ALL.into_iter().flat_map(|l| modes.iter().map(move |mode| (l, mode))) {
            program.must_link("plain", linker, mode, "kept");
            let linked = program.must_link("plain", linker, &format!("{mode} {UNUSED}"), "out");
            let what = format!("{name} {} {mode}", linker.name());
            program.session.check_eq(&linked.stderr, &String::new(), &what);
            let (kept, out) = (program.runs("kept"), program.runs("out"));
            program.session.check_eq(&out, &kept, &what);
            let tables = [program.has_main("kept"), program.has_main("out")];
            let for_debuggers = program.describes("out", ".debug_frame", "main");
            program.check(tables == [true, false] && for_debuggers, &what);
            // With -s nothing is written for debuggers, and the file is as small as one without tables.
            program.must_link("plain", linker, &format!("{mode} {UNUSED} -s"), "small");
            let (small, stripped) = (program.session.bytes("small").len(), program.stripped_size("out"));
            program.check(small <= stripped + 64, &format!("{what}: {small} bytes, stripped {stripped}"));
        }
    }
}

#[test]
fn programs_that_unwind_do_as_before() {
    let throws: &[(&str, &str)] = &[("main.cc", THROWS), ("catches.cc", CATCHES), ("through.c", THROUGH_C)];
    let mut linkers = Linker::ALL.into_iter().cycle();
    for (compiler, opt) in [("gcc", "-O0"), ("gcc", "-O2"), ("clang-19", "-O2"), ("clang-19", "-Os")] {
        let name = format!("throws-{compiler}{opt}");
        let mut program = Program::new(&name, compiler, &format!("{opt} -fexceptions"), throws);
        for mode in MODES {
            let kept = program.behaves_as_before(mode, &[linkers.next().unwrap()]);
            let [passes, alone] = ["pass", "alone"].map(|f| program.describes("out", ".eh_frame", f));
            program.check(kept.ok() && passes && !alone, &format!("{name} {mode}: {passes} {alone}"));
        }
    }
}

#[test]
fn threads_that_end_do_as_before_behind_every_linker() {
    let configs = [
        ("gcc", "-O2", &Linker::ALL[..]),
        ("gcc", "-O0", &[Linker::Mold]),
        ("clang-19", "-O2", &[Linker::Lld, Linker::Gold]),
        ("clang-19", "-Os", &[Linker::Bfd, Linker::Wild]),
    ];
    for (i, (compiler, opt, linkers)) in configs.into_iter().enumerate() {
        let (name, flags) = (format!("cancels-{compiler}{opt}"), format!("{opt} -fexceptions"));
        let mut program = Program::new(&name, compiler, &flags, &[("main.c", CANCELS)]);
        for mode in modes(i) {
            let kept = program.behaves_as_before(mode, linkers);
            program.check(kept.ok(), &name);
        }
    }
}

#[test]
fn unknown_code_keeps_every_entry() {
    let mut program = Program::new("unknown", "gcc", "-O2 -fPIC", &[("main.c", QUIET)]);
    let unknown = include_str!("programs/unwind_unknown.txt");
    program.session.files(unknown, "files");
    for folder in ["interface", "untyped", "data", "own"] {
        program.session.mkdir(folder);
    }
    for words in [
        "unknown.c -o libunknown.so",
        "quiet.c -L. -lunknown -o libquiet.so",
        "personality.c -lgcc_s -o libpersonality.so",
        "code.c -Wl,-soname,libcode.so -o libcode.so",
        "code.c -Wl,-soname,libfilter.so -Wl,-F,libcode.so -o libfilter.so",
        "interface.s -nostdlib -Wl,-soname,libcode.so -o interface/libcode.so",
        "untyped.s -nostdlib -Wl,-soname,libcode.so -o untyped/libcode.so",
        "interface.s -Wl,-soname,libcode.so -o data/libcode.so",
    ] {
        program.session.cmd(&format!("gcc -shared -fPIC {words}"));
    }
    program.session.cmd("gcc -O2 -fPIC -c find.c");
    program.session.cmd("ar rc own/libc.a find.o");
    for case in section(unknown, "cases") {
        let [name, main, mode, why] = case.words.split('|').collect::<Vec<_>>().try_into().unwrap();
        program.session.cmd(&format!("gcc -c -w -fPIE -O2 -fPIC main/{main} -o plain/main.o"));
        for linker in if name == "script" { &[Linker::Bfd][..] } else { &[Linker::Lld, Linker::Bfd] } {
            let kept = program.link("plain", *linker, mode, "kept");
            let linked = program.link("plain", *linker, &format!("{mode} {UNUSED}"), "out");
            program.session.check_eq(&linked.ok(), &kept.ok(), &linked.stderr);
            let is_said =
                ["out: all unwind entries are kept: ", why].iter().all(|s| linked.stderr.contains(s));
            program.check(is_said, &format!("{name} {}: {}", linker.name(), linked.stderr));
            let same = !kept.ok() || program.session.bytes("kept") == program.session.bytes("out");
            program.check(same, &format!("{name} {}: the files differ", linker.name()));
        }
    }
}

#[test]
fn a_library_that_can_not_unwind_keeps_nothing() {
    let mut program = Program::new("library", "gcc", "-O2", &[("main.c", USES_LIBRARY)]);
    program.session.write("library.c", "int library(int (*f)(int), int x) { return f(x); }\n");
    program.session.cmd("gcc -shared -fPIC library.c -o liblibrary.so");
    for linker in Linker::ALL {
        let mode = format!("-L. -llibrary -Wl,-rpath,$ORIGIN {UNUSED}");
        let linked = program.must_link("plain", linker, &mode, "out");
        let removed = linked.stderr.is_empty() && !program.has_main("out");
        let ran = program.runs("out");
        program.check(removed && ran.ok(), &format!("{}: {}", linker.name(), linked.stderr));
    }
}

#[test]
fn dropping_needed_entries_is_an_error() {
    let drop = "-Wl,--prune-unwind=drop";
    let throws: &[(&str, &str)] = &[("main.cc", THROWS), ("catches.cc", CATCHES), ("through.c", THROUGH_C)];
    let mut program = Program::new("drop-throws", "gcc", "-O2", throws);
    let linked = program.link("plain", Linker::Lld, drop, "out");
    program.check(!linked.ok() && !program.session.path("out").exists(), "an error, and no file");
    for text in ["error: out: --prune-unwind=drop: ", "calls __cxa_throw, and "] {
        program.check(linked.stderr.contains(text), &linked.stderr);
    }
    let warns = ["warning: out: without unwind entries", "main -> handler calls backtrace"];
    for (name, text, expected) in [("drop-signal", SIGNAL, &warns[..]), ("drop-quiet", QUIET, &[])] {
        let mut program = Program::new(name, "gcc", "-O2", &[("main.c", text)]);
        let linked = program.must_link("plain", Linker::Lld, drop, "out");
        let is_said = expected.iter().all(|text| linked.stderr.contains(text));
        program.check(is_said && linked.stderr.is_empty() == expected.is_empty(), &linked.stderr);
        let has = program.has_main("out");
        program.check(!has, "the entries are dropped");
    }
}

#[test]
fn statistics_and_reports_have_the_entries() {
    let mut program = Program::new("statistics", "gcc", "-O2", &[("main.c", QUIET)]);
    let linked = program.must_link("plain", Linker::Lld, "-Wl,--prune-stats", "out");
    let more = linked.stderr.lines().find(|line| line.trim_start().starts_with("more: ")).unwrap_or_default();
    let says = more.ends_with(" bytes of unwind entries that nothing needs; link with --prune-unwind=unused");
    program.check(says, &linked.stderr);
    let mut report = |mode: &str| {
        program.must_link("plain", Linker::Lld, &format!("{mode} -Wl,--prune-report=report"), "out");
        let text = program.session.bytes("report");
        let report: serde_json::Value = serde_json::from_slice(&text).unwrap();
        report["unwind"].clone()
    };
    assert_eq!(report(""), serde_json::Value::Null);
    let unused = report(UNUSED);
    assert_eq!(
        (&unused["mode"], &unused["kept"], &unused["why"]),
        (&"unused".into(), &0.into(), &serde_json::Value::Null)
    );
    assert!(unused["functions"].as_u64() > Some(3) && unused["bytes"].as_u64() > Some(80), "{unused}");
}

#[test]
fn audits_say_how_large_unwind_tables_are() {
    let mut program = Program::new("audits", "gcc", "-O2", &[("main.c", QUIET)]);
    let dir = program.session.dir().to_owned();
    let mut tables = Vec::new();
    for (mode, sentence) in [
        ("", None),
        ("-Wl,--prune-stats", Some("--prune-unwind=unused would remove ")),
        (UNUSED, Some(" bytes of unwind entries are removed, of ")),
    ] {
        program.must_link("plain", Linker::Lld, &format!("{mode} -Wl,--prune-report=report.json"), "out");
        let audit = |words: &str| {
            Job::new(&dir, tools::lto_prune()).words("audit top --all -n 0").words(words).arg("report.json")
        };
        let text = program.session.must(&audit("")).stdout;
        let says = |sentence: &str| text.contains(sentence);
        program.check(sentence.map_or(!says("unwind entries"), says), &text);
        let answer: serde_json::Value =
            serde_json::from_str(&program.session.must(&audit("--by=category --json")).stdout).unwrap();
        let rows = answer["top"].as_array().unwrap();
        let bytes = |row: &serde_json::Value| row["bytes"].as_i64().unwrap();
        let of_tables = rows.iter().find(|row| row["category"] == "eh_frame").map_or(0, bytes);
        let length = std::fs::metadata(dir.join("out")).unwrap().len() as i64;
        program.session.check_eq(&rows.iter().map(bytes).sum::<i64>(), &length, mode);
        tables.push(of_tables);
    }
    program.check(tables[0] == tables[1] && tables[2] < tables[1] / 4, &format!("{tables:?}"));
}

/// The contents of a section of an object.
fn contents(object: &Path, section: &str) -> Vec<u8> {
    let bytes = std::fs::read(object).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    file.section_by_name(section).map_or_else(Vec::new, |section| section.data().unwrap().to_vec())
}

#[test]
fn debug_frame_is_what_the_assembler_writes() {
    let text = QUIET.to_owned()
        + "void many(int, int, int, int, int, int, int, int, int);\nint stack(int n) { char room[n]; many(n, n, n, n, n, n, n, n, room[0]); return n; }\nvoid many(int a, int b, int c, int d, int e, int f, int g, int h, int i) { printf(\"%d\", a + i); }\n int (*used)(int) = stack;\n";
    for opt in ["-O0", "-O2", "-Os"] {
        let mut program =
            Program::new(&format!("assembler{opt}"), "gcc", &format!("{opt} -g"), &[("main.c", &text)]);
        let dir = program.session.dir().to_owned();
        let job = format!("-c -w -fPIE {opt} -g -fno-asynchronous-unwind-tables main.c -o expected.o");
        program.session.must(&program.session.job("gcc").words(&job));
        program.must_link(
            "plain",
            Linker::Lld,
            &format!("{UNUSED} -Wl,--prune-keep=* -Wl,--prune-emit=emitted"),
            "out",
        );
        let emitted =
            walk(&dir.join("emitted")).into_iter().find(|path| path.ends_with("main.o")).expect("main.o");
        let expected = contents(&dir.join("expected.o"), ".debug_frame");
        let found = contents(&emitted, ".debug_frame");
        program.session.check(!expected.is_empty(), "there is something to compare");
        program.session.check_eq(&found, &expected, opt);
    }
}

fn walk(dir: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(walk(&path)) } else { found.push(path) }
    }
    found
}
