//! The cache that links use by default, and summaries that are made ahead for archives: they change the time of a link and nothing else.

use std::path::Path;

use crate::run::{Job, Session};
use crate::tools::Linker;

/// So many functions that their section is worth an entry.
const FUNCTIONS: usize = 400;

/// A unit with debug information and one section of code, in an archive too, and two programs that call different functions of it.
fn prepare(name: &str) -> Session {
    let mut session = Session::new(name);
    // The functions of the second half call those of the first, so that references lie far into the unit.
    let function = |i: usize| {
        let end = i.checked_sub(FUNCTIONS / 2).map_or("x".to_owned(), |callee| format!("f{callee}(x)"));
        format!("int f{i}(int x) {{ for (int i = 0; i < x; i++) x ^= i * {i}; return {end}; }}\n")
    };
    session.write("large.c", (0..FUNCTIONS).map(function).collect::<String>());
    for (main, callee) in [("one.c", 207), ("other.c", 209)] {
        let call = format!("return f{callee}(argc) != (argc ^ 0);");
        session.write(main, format!("int f{callee}(int);\nint main(int argc, char **v) {{ {call} }}\n"));
    }
    session.cmd("gcc -g -O1 -fno-inline -c large.c one.c other.c");
    session.cmd("ar rcs liblarge.a large.o");
    session.shims();
    session
}

fn job(session: &Session, words: &str) -> Job {
    driven(session, "gcc", words)
}

fn driven(session: &Session, compiler: &str, words: &str) -> Job {
    // At `pointers` a link has cache entries of its own for analysed functions.
    let job = session.job(&format!("{compiler} -B shims -Wl,--prune-level=functions")).words(words);
    job.by(Linker::Lld).env("XDG_CACHE_HOME", session.path("caches"))
}

fn entries(session: &Session) -> usize {
    std::fs::read_dir(session.path("caches/lto-prune")).map_or(0, |entries| {
        let is_entry = |name: &std::ffi::OsStr| name.len() == 64;
        entries.filter(|e| e.as_ref().is_ok_and(|e| is_entry(&e.file_name()))).count()
    })
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

/// Links both programs without a cache, then several times with the cache of earlier links, and with a wrong entry. Pruned objects begin with
/// `magic`.
fn link_warm(session: &mut Session, magic: &[u8], job: &dyn Fn(&Session, &str) -> Job) {
    std::fs::create_dir(session.path("caches")).unwrap();
    let mut expected = Vec::new();
    for main in ["one.o", "other.o"] {
        session.must(&job(session, &format!("{main} large.o -o out -Wl,--prune-no-cache")));
        expected.push(read(&session.path("out")));
    }
    session.check_eq(&entries(session), &0, "entries without a cache");
    let names = session.facts("out").defined;
    session.check(names.contains("f9") && !names.contains("f7"), "what the other program keeps");
    // The second program has the summary from the first, and a plan of its own.
    for (round, known) in [(0, 2), (1, 3), (0, 3), (1, 3)] {
        session.must(&job(session, &format!("{} large.o -o out", ["one.o", "other.o"][round])));
        session.check(read(&session.path("out")) == expected[round], "another output with a cache");
        session.check_eq(&entries(session), &known, "summary and objects");
    }
    // An object that an earlier link made is verified like any other: this one has been exchanged for the other program's.
    let dir = session.path("caches/lto-prune");
    let mut by_size: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|e| e.unwrap().path()).collect();
    by_size.retain(|path| path.file_name().is_some_and(|name| name.len() == 64));
    by_size.retain(|path| read(path).starts_with(magic));
    session.check_eq(&by_size.len(), &2, "pruned objects");
    let objects: Vec<_> = by_size.iter().map(|path| read(path)).collect();
    std::fs::write(&by_size[0], &objects[1]).unwrap();
    std::fs::write(&by_size[1], &objects[0]).unwrap();
    let outcome = session.run(&job(session, "one.o large.o -o out"));
    session.says(&outcome.stderr, "linking the originals");
    let outcome = session.must(&job(session, "one.o large.o -o out"));
    session.check_eq(&outcome.stderr, &String::new(), "what the next link says");
    session.check(read(&session.path("out")) == expected[0], "the next link is another one");
}

#[test]
fn warm_links_of_bitcode_are_the_same() {
    let mut session = prepare("cache/bitcode");
    session.cmd("clang-19 -O1 -fno-inline -flto=thin -c large.c one.c other.c");
    link_warm(&mut session, b"BC\xc0\xde", &|session, words| {
        driven(session, "clang-19", words).words("-flto=thin --ld-path=shims/ld.lld")
    });
}

#[test]
fn warm_links_are_the_same() {
    link_warm(&mut prepare("cache/warm"), b"\x7fELF", &job);
}

#[test]
fn no_folder_of_caches_is_no_error() {
    let mut session = prepare("cache/none");
    for home in ["/dev/null", "missing", "relative/path"] {
        session.must(&job(&session, "one.o large.o -o out").env("XDG_CACHE_HOME", home).env("HOME", home));
        session.cmd("./out");
    }
    session.write("file", "");
    session.must(&job(&session, "one.o large.o -o out -Wl,--prune-cache=file"));
    // Entries are larger than files may be (in blocks of 512 bytes), the output is not.
    std::fs::create_dir(session.path("caches")).unwrap();
    let limited = format!("ulimit -f 20; {}", job(&session, "one.o large.o -s -o out"));
    session.must(&session.job("sh").arg("-c").arg(limited));
}

#[test]
fn many_links_at_once() {
    let mut session = prepare("cache/concurrent");
    std::fs::create_dir(session.path("caches")).unwrap();
    session.must(&job(&session, "one.o large.o -o expected -Wl,--prune-no-cache"));
    let mut running: Vec<_> = (0..100)
        .map(|i| job(&session, &format!("one.o large.o -o out{i}")).command().spawn().unwrap())
        .collect();
    let good = running.iter_mut().filter_map(|child| child.wait().ok()).filter(|s| s.success()).count();
    session.check_eq(&good, &100, "links that end well");
    let expected = read(&session.path("expected"));
    let same = (0..100).filter(|i| read(&session.path(&format!("out{i}"))) == expected).count();
    session.check_eq(&same, &100, "links with the same output");
    session.check_eq(&entries(&session), &2, "a summary and an object");
}

#[test]
fn summaries_beside_an_archive_change_nothing() {
    let mut session = prepare("cache/archive");
    session.cmd("lto-prune summarize liblarge.a -o liblarge.a.ltosum");
    let mut outputs = Vec::new();
    for _ in 0..2 {
        let line = "one.o liblarge.a -o out -Wl,--prune-no-cache,--prune-report=report.json";
        session.must(&job(&session, line));
        outputs.push((read(&session.path("out")), read(&session.path("report.json"))));
        let _ = std::fs::remove_dir_all(session.path("liblarge.a.ltosum"));
    }
    session.check(outputs[0] == outputs[1], "a summary made ahead changes the link");
}
