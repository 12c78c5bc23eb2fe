//! `lto-prune split`: archives of monolithic objects, divided, link with every linker's own `--gc-sections` as they do through us, and
//! whole as they were.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use object::{Object, ObjectSection, ObjectSymbol};

use crate::run::{Job, Session};
use crate::tools::{self, Linker};

const PRINTS: &str = "5 11 70 -2 2 3 51 -1 1 9 201 5 5 6 32 1 7 2 -1 7\n";

struct SplitBuild {
    compiler: &'static str,
    flags: &'static str,
    link: &'static str,
    /// Each jump table can be cut off. At -O0 a function has its address twice, and the second might mean what lies behind it.
    exact: bool,
}

const BUILDS: &[SplitBuild] = &[
    SplitBuild { compiler: "gcc", flags: "-O2 -fPIE", link: "-pie", exact: true },
    SplitBuild { compiler: "gcc", flags: "-O0 -fPIC", link: "-pie", exact: false },
    SplitBuild { compiler: "gcc", flags: "-Os -fno-pic", link: "-no-pie", exact: true },
    SplitBuild { compiler: "clang-19", flags: "-O2 -fPIE", link: "-pie", exact: true },
    SplitBuild { compiler: "clang-19", flags: "-O1 -fno-pic", link: "-no-pie", exact: true },
    SplitBuild { compiler: "clang-19", flags: "-Os -fPIC -faddrsig", link: "-pie", exact: true },
];

/// `main.o`, and the archive `libpart.a` of the fixture.
fn compile(session: &mut Session, build: &SplitBuild) {
    let fixture = tools::repository().join("fixtures/split");
    for unit in ["main.c", "part.c", "throws.cc", "biased.s"] {
        let compiler = if unit.ends_with(".cc") { tools::cxx(build.compiler) } else { build.compiler };
        let job = session.job(&format!("{compiler} -w -c")).words(build.flags);
        let object = format!("{}.o", unit.split('.').next().unwrap());
        session.must(&job.arg(fixture.join(unit)).arg("-o").arg(object));
    }
    session.cmd("ar rcsD libpart.a part.o throws.o biased.o");
}

fn split(session: &mut Session, words: &str) {
    session.must(&session.job("lto-prune").arg("split").words(words));
}

/// Link `main.o` with `archive`; `through` are shims of ours.
fn link(session: &mut Session, build: &SplitBuild, linker: Linker, archive: &str, through: bool) -> Vec<u8> {
    let shims = format!("shims-{}-{through}", linker.name());
    if !session.path(&shims).exists() {
        let path = if through { tools::lto_prune() } else { linker.path() };
        tools::shim_dir(&session.path(&shims), &path);
    }
    let job = Job::new(session.dir(), tools::cxx(build.compiler)).words("-Wl,--gc-sections main.o -o out");
    let job = job.words(build.link).arg(format!("-B{shims}")).arg(archive);
    let job = if build.compiler == "gcc" { job } else { job.arg(format!("--ld-path={shims}/ld")) };
    session.must(&if through { job.arg("-Wl,--prune-strict") } else { job }.by(linker));
    let run = session.cmd("./out");
    session.check_eq(&run.stdout.as_str(), &PRINTS, "output");
    session.bytes("out")
}

fn size_of(bytes: &[u8], name: &str) -> u64 {
    let file = object::File::parse(bytes).unwrap();
    file.section_by_name(name).map_or(0, |s| s.size())
}

fn dead(bytes: &[u8]) -> Vec<String> {
    let file = object::File::parse(bytes).unwrap();
    let names = file.symbols().filter_map(|s| s.name().ok().map(str::to_owned));
    let mut dead: Vec<String> = names.filter(|n| n.starts_with("dead_") && n != "dead_biased").collect();
    dead.sort();
    dead
}

#[test]
fn any_linker_collects_what_we_would() {
    for (number, build) in BUILDS.iter().enumerate() {
        let mut session = Session::new(&format!("splitting/collects-{number}"));
        compile(&mut session, build);
        split(&mut session, "libpart.a -o libsplit.a");
        split(&mut session, "--data libpart.a -o libdata.a");
        for linker in Linker::ALL {
            let wanted = link(&mut session, build, linker, "libpart.a", true);
            let code = size_of(&wanted, ".text");
            for archive in ["libsplit.a", "libdata.a"] {
                let found = link(&mut session, build, linker, archive, false);
                let what = format!("{} {} {} {archive}", build.compiler, build.flags, linker.name());
                // Without --data a table of addresses is kept with its neighbour, and keeps its targets.
                let by_data = [
                    "dead_counter",
                    "dead_zeros",
                    "dead_table",
                    "dead_cold",
                    "dead_third",
                    "dead_helper",
                    "lost_before",
                ];
                let is_code = |name: &String| archive == "libdata.a" || !by_data.contains(&name.as_str());
                let left: Vec<String> = dead(&found).into_iter().filter(is_code).collect();
                let kept: Vec<String> = dead(&wanted).into_iter().filter(is_code).collect();
                if !build.exact {
                    continue;
                }
                session.check_eq(&left, &kept, &what);
                let size = size_of(&found, ".text");
                // A function that happens to begin at a multiple of 16 stays there.
                let close = size.abs_diff(code) <= (code / 200).max(64) || archive == "libsplit.a";
                session.check(close, &format!("{what}: {size} bytes of code, through us {code}"));
            }
            let data = dead(&link(&mut session, build, linker, "libdata.a", false));
            session.check(
                !data.contains(&"dead_counter".to_owned()),
                &format!("{} {}: {data:?}", linker.name(), build.flags),
            );
        }
    }
}

/// Linked whole, a divided archive gives the same file.
#[test]
fn whole_links_are_unchanged() {
    for (number, build) in BUILDS.iter().enumerate() {
        let mut session = Session::new(&format!("splitting/whole-{number}"));
        compile(&mut session, build);
        session.mkdir("plain");
        session.mkdir("split");
        fs::copy(session.path("libpart.a"), session.path("plain/l.a")).unwrap();
        split(&mut session, "--data libpart.a -o split/l.a");
        let mut outputs = Vec::new();
        for dir in ["plain", "split"] {
            let job = Job::new(&session.path(dir), Linker::Lld.path());
            let job = job
                .words("-e 0 --unresolved-symbols=ignore-all --noinhibit-exec -s --whole-archive l.a -o out");
            session.must(&job);
            outputs.push(fs::read(session.path(dir).join("out")).unwrap());
        }
        let (plain, split) = (&outputs[0], &outputs[1]);
        session.check(plain == split, &format!("{} {}: the whole links differ", build.compiler, build.flags));
    }
}

/// A short jump to another function is relaxed over its padding: the same target, and no other byte.
#[test]
fn short_jumps_alone_are_relaxed() {
    let mut session = Session::new("splitting/relaxed");
    let fixture = tools::repository().join("fixtures/split/short.s");
    session.must(&session.job("gcc -c -o short.o").arg(fixture));
    split(&mut session, "short.o -o divided.o");
    let mut linked = |object: &str, more: &str| {
        let job = Job::new(session.dir(), Linker::Lld.path()).words("-e first -o out --image-base=0x400000");
        session.must(&job.words(more).arg(object));
        let bytes = session.bytes("out");
        let file = object::File::parse(&*bytes).unwrap();
        file.section_by_name(".text").unwrap().data().unwrap().to_vec()
    };
    // `first` jumps over `second` to `last`, 32 bytes on, and `second` to itself.
    let plain = linked("short.o", "");
    assert_eq!((&plain[..5], &plain[16..18]), (&[0xeb, 30, 0xcc, 0xcc, 0xcc][..], &[0xeb, 0xfe][..]));
    let mut wanted = plain.clone();
    wanted[..5].copy_from_slice(&[0xe9, 27, 0, 0, 0]);
    assert_eq!(linked("divided.o", ""), wanted, "linked whole");
    let without_second = [&wanted[..16], &plain[32..]].concat();
    let mut pruned = without_second.clone();
    pruned[1] = 11;
    assert_eq!(linked("divided.o", "--gc-sections"), pruned, "without `second`");
}

/// Sections are named as by the compiler.
#[test]
fn names_are_the_compiler_s() {
    let mut session = Session::new("splitting/names");
    compile(&mut session, &BUILDS[0]);
    split(&mut session, "--data part.o -o split.o");
    let fixture = tools::repository().join("fixtures/split/part.c");
    let job = session.job("gcc -w -c -O2 -fPIE -ffunction-sections -fdata-sections -o apart.o");
    session.must(&job.arg(fixture));
    // In `.rodata` a reference that may mean any object keeps the others together.
    let kinds = [".text", ".rodata.dead", ".rodata.on", ".data.", ".bss."];
    let names = |file: &str| -> Vec<String> {
        let bytes = session.bytes(file);
        let object = object::File::parse(&*bytes).unwrap();
        let sections = object.sections().filter(|s| s.size() > 0);
        let mut names: Vec<String> = sections
            .filter_map(|s| s.name().ok().map(str::to_owned))
            .filter(|n| kinds.iter().any(|kind| n.starts_with(kind)))
            .filter(|n| !n.contains(".str1."))
            .collect();
        names.sort();
        names
    };
    // A section with one static constructor or one function like `main` keeps its name.
    let one =
        |n: &String| n != ".text.startup" && !n.starts_with(".text.startup.") && !n.starts_with(".text.hot");
    let found: Vec<String> = names("split.o").into_iter().filter(one).collect();
    let wanted: Vec<String> = names("apart.o").into_iter().filter(one).collect();
    session.check_eq(&found, &wanted, "names of sections");
}

/// A program may iterate over the objects in a section with a name of its own, so the section is not divided.
#[test]
fn a_section_that_a_program_names_stays_whole() {
    let mut session = Session::new("splitting/named");
    let list = tools::repository().join("fixtures/list_in_named_section/list.c");
    session.must(&session.job("gcc -O0 -c -o list.o").arg(list));
    split(&mut session, "--data list.o -o split.o --report=report.json");
    let sections = |file: &str| {
        let bytes = session.bytes(file);
        let object = object::File::parse(&*bytes).unwrap();
        let names = object.sections().filter_map(|s| s.name().ok().map(str::to_owned));
        names.filter(|name| name.starts_with(".data.commands")).count()
    };
    session.check_eq(&sections("split.o"), &sections("list.o"), "sections of the list");
    let report: serde_json::Value = serde_json::from_slice(&session.bytes("report.json")).unwrap();
    let whole = &report["sums"]["data"]["whole"];
    session.check_eq(&whole["named-section"].as_u64(), &Some(64), &format!("{whole}"));
}

/// Archives keep members, order, names and index, and come out the same each time; in pipes too.
#[test]
fn archives_stay_what_they_are() {
    let mut session = Session::new("splitting/archives");
    compile(&mut session, &BUILDS[0]);
    fs::write(session.path("a_note_with_a_long_name.txt"), "no object\n").unwrap();
    fs::copy(session.path("part.o"), session.path("the_same_member_with_a_long_name.o")).unwrap();
    session.cmd(
        "ar qcsD l.a part.o a_note_with_a_long_name.txt throws.o the_same_member_with_a_long_name.o part.o",
    );
    split(&mut session, "l.a -o once.a");
    split(&mut session, "l.a -o again.a");
    let once = session.bytes("once.a");
    session.check(once == session.bytes("again.a"), "two runs differ");
    let job = session.job("sh").arg("-c");
    session.must(&job.arg(format!("{} split - -o - < l.a > piped.a", tools::lto_prune().display())));
    session.check(once == session.bytes("piped.a"), "in a pipe it differs");
    let mut listings = Vec::new();
    for archive in ["l.a", "once.a"] {
        let names = session.must(&session.job("ar t").arg(archive)).stdout;
        let listing = session.must(&session.job("nm --print-armap").arg(archive)).stdout;
        let index: Vec<String> =
            listing.lines().take_while(|l| !l.ends_with(".o:")).map(str::to_owned).collect();
        listings.push((names, index));
    }
    session.check_eq(&listings[1], &listings[0], "members and index");
    // The extracted note is unchanged.
    session.cmd("ar xv once.a a_note_with_a_long_name.txt");
    session.check_eq(&session.bytes("a_note_with_a_long_name.txt"), &b"no object\n".to_vec(), "the note");
    // Divided objects have nothing left to divide.
    split(&mut session, "once.a -o twice.a");
    session.check(once == session.bytes("twice.a"), "split again it differs");
}

#[test]
fn folders_and_files_in_place() {
    let mut session = Session::new("splitting/folders");
    compile(&mut session, &BUILDS[3]);
    session.mkdir("in");
    session.mkdir("in/deeper");
    fs::copy(session.path("libpart.a"), session.path("in/deeper/libpart.a")).unwrap();
    fs::copy(session.path("part.o"), session.path("in/part.o")).unwrap();
    fs::set_permissions(session.path("in/part.o"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(session.path("in/libscript.a"), "GROUP ( deeper/libpart.a )\n").unwrap();
    std::os::unix::fs::symlink("part.o", session.path("in/link.o")).unwrap();
    split(&mut session, "in -o out --report=report.json");
    split(&mut session, "libpart.a -o alone.a");
    let read = |path: &str| session.bytes(path);
    session.check(read("out/deeper/libpart.a") == read("alone.a"), "the archive in the folder differs");
    session.check(read("out/libscript.a") == read("in/libscript.a"), "another file changed");
    session.check(
        fs::read_link(session.path("out/link.o")).unwrap().as_os_str() == "part.o",
        "the link is no link",
    );
    let mode = fs::metadata(session.path("out/part.o")).unwrap().permissions().mode() & 0o777;
    session.check_eq(&mode, &0o600, "mode");
    let report: serde_json::Value = serde_json::from_slice(&read("report.json")).unwrap();
    let code = &report["sums"]["code"];
    session.check(code["divided"] == code["bytes"] && code["bytes"].as_u64() > Some(0), &format!("{code}"));
    split(&mut session, "--in-place in");
    for path in ["part.o", "deeper/libpart.a", "libscript.a"] {
        let (here, there) =
            (fs::read(session.path("in").join(path)), fs::read(session.path("out").join(path)));
        session.check(here.unwrap() == there.unwrap(), &format!("{path} in place"));
    }
}

#[test]
fn on_errors_nothing_is_written() {
    let mut session = Session::new("splitting/errors");
    compile(&mut session, &BUILDS[0]);
    fs::write(session.path("text.o"), "no object\n").unwrap();
    let archive = session.bytes("libpart.a");
    fs::write(session.path("short.a"), &archive[..archive.len() - 100]).unwrap();
    let object = session.bytes("part.o");
    fs::write(session.path("short.o"), &object[..object.len() / 2]).unwrap();
    session.cmd("ar rcsDT thin.a part.o");
    for (words, says) in [
        ("text.o -o out", "text.o: neither an x86-64 object nor an archive"),
        ("short.a -o out", "past the end"),
        ("short.o -o out", "short.o"),
        ("thin.a -o out", "thin archive"),
        ("nothing.o -o out", "nothing.o"),
        ("part.o", "no output"),
        ("part.o -o part.o", "--in-place"),
        ("part.o throws.o -o out", "one input"),
        ("--in-place part.o text.o", "text.o"),
        ("--in-place -", "pipe"),
        ("-o out", "no input"),
        ("--gc part.o -o out", "invalid option '--gc'"),
        (". -o .", "is there already"),
    ] {
        let outcome = session.run(&session.job("lto-prune").arg("split").words(words));
        session.check(outcome.status == 1 && outcome.stderr.contains(says), &format!("{words}: {outcome:?}"));
        session.check(!session.path("out").exists(), &format!("{words}: there is an output"));
    }
    session.check(session.bytes("part.o") == object, "an input changed");
}
