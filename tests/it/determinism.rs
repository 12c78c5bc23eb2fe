//! One thread, two threads and a second run give the same bytes: objects, report, remarks and output.
//!
//! The emitted tree also links again by its own script.

use std::collections::BTreeMap;
use std::path::Path;

use crate::run::Session;
use crate::tools::Linker;

const FILES: &str = include_str!("programs/determinism.txt");

const LIBRARY: &str = include_str!("programs/determinism_library.c");

const MAIN: &str = include_str!("programs/determinism_main.cc");

/// A static C++ program: a few hundred modules from the system's archives.
fn build(name: &str) -> Session {
    let mut session = Session::new(name);
    session.write("main.cpp", MAIN);
    session.write("library.c", LIBRARY);
    session.cmd("g++ -std=c++17 -O1 -ffunction-sections -c main.cpp");
    session.cmd("gcc -O1 -ffunction-sections -c library.c");
    session.shims();
    session
}

/// Every file below `dir`, by its path in it.
fn tree(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(dir).unwrap().to_string_lossy().into_owned();
                files.insert(name, std::fs::read(&path).unwrap());
            }
        }
    }
    files
}

#[test]
fn same_bytes_whatever_the_threads() {
    let mut session = build("determinism/threads");
    let mut runs: Vec<(String, BTreeMap<String, Vec<u8>>)> = Vec::new();
    for (what, jobs) in [("one", 1), ("two", 2), ("four", 4), ("again", 2)] {
        // The same path each time, as paths may stand in the report and in the script.
        let emit = session.path("emit");
        let _ = std::fs::remove_dir_all(&emit);
        session.link(Linker::Lld, &format!("g++ -B shims -static main.o library.o -o out -Wl,--prune-no-cache -Wl,--prune-report=report.json -Wl,--prune-remarks=remarks.yaml -Wl,--prune-jobs={jobs} -Wl,--prune-emit=emit"));
        let mut files = tree(&emit);
        for name in ["report.json", "remarks.yaml", "out"] {
            files.insert(format!("../{name}"), session.bytes(name));
        }
        runs.push((what.to_owned(), files));
    }
    let (_, first) = &runs[0];
    session.check(first.keys().any(|n| n.ends_with("library.o")), "no pruned object was emitted");
    for (what, files) in &runs[1..] {
        let names = |f: &BTreeMap<String, Vec<u8>>| f.keys().cloned().collect::<Vec<_>>();
        session.check_eq(&names(files), &names(first), &format!("files of run {what}"));
        for (name, bytes) in files {
            session.check(bytes == &first[name], &format!("{name} differs in run {what}"));
        }
    }
}

#[test]
fn cached_summaries_change_nothing() {
    let mut session = build("determinism/cache");
    let mut reports = Vec::new();
    for run in 0..3 {
        session.link(Linker::Bfd, "g++ -B shims -static main.o library.o -o out -Wl,--prune-cache=cache -Wl,--prune-report=report.json");
        let read = |name: &str| session.bytes(name);
        reports.push((read("report.json"), read("out")));
        // Every entry of the cache is damaged before the third run.
        if run == 1 {
            let entries: Vec<String> = tree(&session.path("cache")).into_keys().collect();
            session.check(!entries.is_empty(), "the cache is empty");
            for (number, name) in entries.iter().enumerate() {
                let path = session.path("cache").join(name);
                let mut bytes = std::fs::read(&path).unwrap();
                match number % 3 {
                    0 => bytes.truncate(bytes.len() / 2),
                    1 => bytes.clear(),
                    _ => bytes.iter_mut().for_each(|b| *b ^= 0x5a),
                }
                std::fs::write(&path, bytes).unwrap();
            }
        }
    }
    session.check(reports[0] == reports[1], "a warm cache changes the link");
    session.check(reports[0] == reports[2], "a damaged cache changes the link");
}

#[test]
fn emitted_tree_links_again() {
    for linker in Linker::ALL {
        let mut session = build(&format!("determinism/emit-{}", linker.name()));
        let link = session.job("g++ -B shims main.o library.o -o out -Wl,--prune-emit=emit");
        session.must(&link.by(linker));
        let first = session.bytes("out");
        let printed = session.cmd("./out");
        std::fs::remove_file(session.path("out")).unwrap();
        session.cmd("sh emit/link.sh");
        session.check(session.bytes("out") == first, "the script links something else");
        let again = session.cmd("./out");
        session.check_eq(&again, &printed, "the program of the script");
    }
}

/// More names than one thread decides about (`GRAIN` in `resolve`): each has a strong definition in one of three modules and weak ones in the others.
#[test]
fn many_names_on_many_threads() {
    const NAMES: usize = 20_000;
    let mut session = Session::new("determinism/names");
    session.shims();
    for number in 0..3 {
        let mut text = ".data\n".to_owned();
        for name in 0..NAMES {
            let binding = if name % 3 == number { "globl" } else { "weak" };
            text += &format!(
                ".{binding} n{name}\n.type n{name}, @object\n.size n{name}, 4\nn{name}: .long {number}\n"
            );
        }
        session.write(&format!("m{number}.s"), text);
    }
    session.files(FILES, "many_names_on_many_threads");
    session.cmd("gcc -c start.s m0.s m1.s m2.s");
    let mut runs = Vec::new();
    for jobs in [1, 4] {
        let link = session.job("shims/ld.lld").by(Linker::Lld);
        let link = link.words("start.o m0.o m1.o m2.o -o out --prune-no-cache --prune-report=report.json");
        session.must(&link.arg(format!("--prune-jobs={jobs}")));
        let read = |name: &str| session.bytes(name);
        runs.push((read("out"), read("report.json")));
    }
    session.check(runs[0] == runs[1], "four threads link another program than one");
    let report: serde_json::Value = serde_json::from_slice(&runs[0].1).unwrap();
    let mut prevailing = 0;
    for symbol in report["symbols"].as_array().unwrap().iter().filter(|s| s["prevails"] == true) {
        let Some(name) = symbol["name"].as_str().unwrap().strip_prefix('n') else { continue };
        let module = &report["modules"][symbol["module"].as_u64().unwrap() as usize]["name"];
        let expected = format!("m{}.o", name.parse::<usize>().unwrap() % 3);
        session.check_eq(&module.as_str(), &Some(expected.as_str()), &format!("the definition of n{name}"));
        prevailing += 1;
    }
    session.check_eq(&prevailing, &NAMES, "names that have a definition");
}
