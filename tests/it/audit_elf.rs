//! `lto-prune audit` of files without a report: every byte has a line, sizes agree with `size` and `nm`, and damaged files do no harm.

use std::ffi::OsString;
use std::path::Path;

use serde_json::Value;

use crate::audit::{GROUPINGS, audit, column, json, sections_of_size, sizes};
use crate::run::{Job, Session};
use crate::tools::{self, Linker};

const SOURCE: &str = include_str!("programs/audit_elf_source.c");

fn build(session: &mut Session, compiler: &str, words: &str) {
    let dir = session.dir().to_owned();
    session.must(&Job::new(&dir, compiler).words(words));
}

/// The rows of `top` with these words, and their sum.
fn top(session: &mut Session, words: &str) -> (Value, u64) {
    let answer = json(session, &format!("top --json {words}"));
    let rows = answer["top"].as_array().unwrap();
    let sum = rows.iter().map(|r| r["bytes"].as_u64().unwrap()).sum();
    (answer, sum)
}

fn bytes_of(answer: &Value, symbol: &str) -> u64 {
    let rows = answer["top"].as_array().unwrap().iter().filter(|r| r["symbol"] == symbol);
    rows.map(|r| r["bytes"].as_u64().unwrap()).sum()
}

/// The bytes of the file that its loadable segments have, by readelf. Segments that linkers make do not overlap.
pub(crate) fn loadable(session: &mut Session, file: &str) -> u64 {
    let text = session.cmd(&format!("readelf -lW {file}")).stdout;
    let size = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        (words.first() == Some(&"LOAD")).then(|| u64::from_str_radix(&words[4][2..], 16).unwrap())
    };
    text.lines().filter_map(size).sum()
}

/// Every grouping of a file adds up to its length, and to its loadable bytes; sections are those of `size -A`.
fn adds_up(session: &mut Session, file: &str) {
    let length = std::fs::metadata(session.path(file)).unwrap().len();
    let is_linked = !file.ends_with(".o") && !file.ends_with(".a");
    let loaded = if is_linked { Some(loadable(session, file)) } else { None };
    for by in GROUPINGS.split(' ') {
        let (answer, sum) = top(session, &format!("--all --by={by} {file}"));
        session.check_eq(&sum, &length, &format!("{file} by {by}"));
        session.check_eq(&answer["size"], &Value::from(length), file);
        let (answer, sum) = top(session, &format!("--by={by} {file}"));
        session.check_eq(&answer["loaded"], &Value::from(sum), &format!("loaded bytes of {file} by {by}"));
        session.check_eq(&sum, &loaded.unwrap_or(sum), &format!("loaded bytes of {file} by {by}"));
    }
    if !is_linked {
        return;
    }
    let (answer, _) = top(session, &format!("--all --by=section {file}"));
    sections_of_size(session, file, answer["top"].as_array().unwrap(), 8);
}

#[test]
fn every_byte_of_any_file_has_a_line() {
    let mut session = Session::new("audit_elf/adds_up");
    session.write("main.c", SOURCE);
    let mut files = vec!["plain", "fixed", "static", "library.so", "debug", "stripped", "main.o", "lib.a"];
    for words in [
        "-O2 main.c -o plain",
        "-O2 -no-pie main.c -o fixed",
        "-O2 -static main.c -o static",
        "-O2 -fPIC -shared main.c -o library.so",
        "-O2 -g -gdwarf-5 main.c -o debug",
        "-O2 -s main.c -o stripped",
        "-O2 -g -c main.c -o main.o",
    ] {
        build(&mut session, "gcc", words);
    }
    build(&mut session, "ar", "rc lib.a main.o main.c");
    for kind in ["zlib", "zstd"] {
        let words = format!("--compress-debug-sections={kind} debug {kind}");
        // Not every objcopy knows zstd.
        if session.run(&session.job("objcopy").words(&words)).ok() {
            files.push(kind);
        }
    }
    if tools::is_installed("clang") {
        build(&mut session, "clang", "-O2 -g main.c -o of_clang");
        files.push("of_clang");
    }
    std::fs::copy("/bin/bash", session.path("bash")).unwrap();
    files.push("bash");
    for file in files {
        adds_up(&mut session, file);
    }
    for file in ["debug", "zlib", "zstd", "of_clang"] {
        if session.path(file).exists() {
            let (answer, _) = top(&mut session, file);
            let rows = answer["top"].as_array().unwrap();
            let one = rows.iter().find(|r| r["symbol"] == "one").unwrap();
            session.check_eq(
                &one["module"],
                &Value::from("main.c"),
                &format!("{file}: the unit of a function"),
            );
        }
    }
    // Of a program of thousands of functions hardly anything is left, though it has no symbols.
    let (answer, sum) = top(&mut session, "bash");
    let is_nobodys = |r: &&Value| {
        let symbol = r["symbol"].as_str().unwrap();
        symbol.starts_with('[') && !symbol.starts_with("[function at")
    };
    let rows = answer["top"].as_array().unwrap().iter().filter(is_nobodys);
    let nobodys: u64 = rows.map(|r| r["bytes"].as_u64().unwrap()).sum();
    session.check(nobodys * 20 < sum, &format!("{nobodys} of {sum} bytes of bash belong to nobody"));
}

#[test]
fn sizes_are_those_of_symbols() {
    let mut session = Session::new("audit_elf/sizes");
    session.write("main.c", SOURCE);
    // Without unwind entries and relocations a function has its code alone.
    let flags = "-O2 -fno-asynchronous-unwind-tables -fcf-protection=none -no-pie main.c";
    build(&mut session, "gcc", &format!("{flags} -o main"));
    build(&mut session, "gcc", &format!("{flags} -c -o main.o"));
    let by_nm = sizes(&mut session, "main");
    for words in ["main", "main.o"] {
        let (answer, _) = top(&mut session, words);
        for name in ["one", "same", "twice", "banner"] {
            session.check_eq(&bytes_of(&answer, name), &by_nm[name], &format!("{words}: {name}"));
        }
        // The string that only it refers to is its own.
        let main = bytes_of(&answer, "main");
        session.check(
            main >= by_nm["main"] + "a string of nobody else".len() as u64,
            &format!("{words}: main {main}"),
        );
    }
    let (answer, _) = top(&mut session, "--bss main");
    session.check_eq(&bytes_of(&answer, "zeros"), &400, "zero-initialised memory");
    // The entry of a function in the table of unwind entries and its relocations are the function's.
    build(&mut session, "gcc", "-O2 -c main.c -o unwound.o");
    let (loaded, _) = top(&mut session, "unwound.o");
    let (all, _) = top(&mut session, "--all unwound.o");
    session.check(bytes_of(&loaded, "one") > by_nm["one"], "an unwind entry has bytes");
    // A relocation of the entry, a symbol, and the name "one" with its end.
    session.check_eq(
        &(bytes_of(&all, "one") - bytes_of(&loaded, "one")),
        &(24 + 24 + 4),
        "entries of tables",
    );
    let answer = json(&mut session, "duplicates --json main");
    let copies = column(&answer, "duplicates", "symbol").join(" ");
    session.check(copies.contains("one, same"), &copies);
}

/// Without symbols and unwind entries functions are where calls and relocated pointers lead.
#[test]
fn calls_name_functions_of_stripped_files() {
    let mut session = Session::new("audit-elf/called");
    let source = format!(
        "{SOURCE}__attribute__((noinline)) int held(int x) {{ return x % 7 + 3; }}\nint (*const hold[])(int) = {{ held }};\n"
    );
    session.write("main.c", source);
    for (compiler, words) in [
        ("gcc", "-Os -fno-ipa-icf -fPIE -pie"),
        ("gcc", "-O2 -fno-ipa-icf -fPIE -pie"),
        ("clang-19", "-O2 -fPIE -pie"),
        ("gcc", "-O0 -no-pie"),
    ] {
        build(&mut session, compiler, &format!("{words} -fno-asynchronous-unwind-tables main.c -o main"));
        let text = session.cmd("nm -S main").stdout;
        session.cmd("strip -s -R .eh_frame -R .eh_frame_hdr main -o stripped");
        let rows = session.cmd("lto-prune audit top --csv -n 0 stripped").stdout;
        for name in ["twice", "one", "same", "held"] {
            // Only relocations show pointers.
            if name == "held" && words.contains("no-pie") {
                continue;
            }
            let line = text.lines().find(|line| line.ends_with(&format!(" {name}"))).unwrap();
            let numbers: Vec<u64> =
                line.split(' ').take(2).map(|n| u64::from_str_radix(n, 16).unwrap()).collect();
            let row = format!("[function at {:#x}]", numbers[0]);
            let found = rows.lines().find(|line| line.contains(&row));
            session.check(found.is_some(), &format!("{compiler} {words}: no {row} for {name}\n{rows}"));
        }
    }
}

#[test]
fn changes_and_pages_without_a_report() {
    let mut session = Session::new("audit_elf/diff");
    session.write("main.c", SOURCE);
    session.mkdir("grown");
    session.write("grown/main.c", SOURCE.replace("x * 3 + 1;", "x * 3 + printf(banner) + x / 7;"));
    build(&mut session, "gcc", "-O2 -g main.c -o old");
    build(&mut session, "gcc", "-O2 -g grown/main.c -o new");
    let length = |name: &str| std::fs::metadata(session.path(name)).unwrap().len() as i64;
    let difference = length("new") - length("old");
    let answer = json(&mut session, "diff --all --json old new");
    session.check_eq(&answer["difference"], &Value::from(difference), "all bytes");
    let answer = json(&mut session, "diff --json old new");
    let rows = answer["diff"].as_array().unwrap();
    let sum: i64 = rows.iter().map(|r| r["change"].as_i64().unwrap()).sum();
    session.check_eq(&answer["difference"], &Value::from(sum), "loaded bytes");
    let one = rows.iter().find(|r| r["symbol"] == "one");
    session.check(one.is_some_and(|r| r["what"] == "grown"), "the function that has grown");
    let same = audit(&mut session, "diff old old").stdout;
    session.check(same.contains("+0 loaded bytes"), &same);
    let outcome = audit(&mut session, "html --old=old -o page.html new");
    session.check(outcome.ok(), &outcome.stderr);
    let page = session.text("page.html");
    session.check(page.contains("ELF executable, loaded bytes"), "the page says what it shows");
}

#[test]
fn a_report_belongs_to_its_file() {
    let mut session = Session::new("audit_elf/together");
    session.write("main.c", SOURCE);
    build(&mut session, "gcc", "-O2 -c main.c -o main.o");
    let dir = session.dir().to_owned();
    let link =
        Job::new(&dir, tools::lto_prune()).env("CC", "gcc").words("main.o -o main --prune-report=main.json");
    session.must(&link.arg(format!("--prune-linker={}", Linker::Lld.path().display())));
    let (with, sum) = top(&mut session, "main main.json");
    let loaded = loadable(&mut session, "main");
    session.check_eq(&sum, &loaded, "loaded bytes of the report");
    session.check(with["pruned"].is_boolean(), "the report explains");
    for (words, expected) in [
        ("top main.o main.json", "main.o: is not the file that the report main.json is about"),
        ("diff main main.json", "main is an ELF executable and main.json is a report"),
        ("dominators main", "main is a linked file; audit dominators needs its report too"),
        ("top --by=module -- main.o", ""),
    ] {
        let outcome = audit(&mut session, words);
        session.check(outcome.ok() == expected.is_empty(), &format!("{words}: {}", outcome.stderr));
        session.check(outcome.stderr.contains(expected), &format!("{words}: {}", outcome.stderr));
    }
    // The same length, and another byte.
    let mut bytes = session.bytes("main");
    *bytes.last_mut().unwrap() ^= 64;
    std::fs::write(session.path("other"), bytes).unwrap();
    let outcome = audit(&mut session, "top other main.json");
    session.says(&outcome.stderr, "other: is not the file that the report main.json is about");
}

/// Answer from a damaged file, or say what is wrong with it.
fn ask(file: &Path) {
    for command in ["top", "duplicates"] {
        let words = [command, "-n1", "--csv"].map(OsString::from).into_iter().chain([file.into()]);
        let words: Vec<OsString> = words.collect();
        let _ = lto_prune::audit::run(&words, &lto_prune::args::Environment::new(&|_| None));
    }
}

#[test]
fn damaged_files_do_no_harm() {
    let mut session = Session::new("audit_elf/damaged");
    session.write("main.c", SOURCE);
    build(&mut session, "gcc", "-O2 -g main.c -o main -Wl,-z,noseparate-code");
    build(&mut session, "gcc", "-O2 -c main.c -o main.o");
    build(&mut session, "ar", "rc lib.a main.o");
    let damaged = session.path("damaged");
    // A generator of numbers that are the same in each run (Numerical Recipes).
    let mut state = 1u32;
    let mut next = move |most: usize| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as usize % most
    };
    for name in ["main", "main.o", "lib.a"] {
        let whole = session.bytes(name);
        let table = whole.get(40..48).map_or(0, |b| u64::from_le_bytes(b.try_into().unwrap()) as usize);
        for round in 0..400 {
            let mut bytes = whole.clone();
            match round % 4 {
                0 => bytes.truncate(next(whole.len())),
                1 => (0..20).for_each(|_| bytes[next(whole.len())] = next(256) as u8),
                2 => bytes[next(64)] = [0, 1, 0x7f, 0xff][next(4)],
                _ if table + 64 < whole.len() => {
                    let at = table + next(whole.len() - table - 8);
                    bytes[at..at + 8].copy_from_slice(&[[0xff; 8], [0; 8], [0x7f; 8]][next(3)]);
                }
                _ => bytes[next(whole.len())] ^= 1 << next(8),
            }
            std::fs::write(&damaged, &bytes).unwrap();
            ask(&damaged);
        }
    }
}
