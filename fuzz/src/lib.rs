//! The readers of untrusted bytes. Each must return on any input: without a panic, in bounded time and memory, with a result that keeps its
//! invariants.
//!
//! `fuzz/run.sh` calls them under libFuzzer, with the corpora in `fuzz/corpus/READER`. The test in `tests/corpora.rs` reads each corpus once, so that
//! no fixed bug returns.

mod link;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use lto_prune::args::Environment;
use lto_prune::inputs::recognise::{is_foreign_elf, recognise};
use lto_prune::inputs::{archive, dso, glob, scripts};
use lto_prune::{args, audit, modes, report, verify};
use summaries::{Granularity, bitcode, extract, format, models, text};

/// A reader by the name of its corpus.
pub type Reader = fn(&[u8]);

pub const READERS: &[(&str, Reader)] = &[
    ("archive", read_archive),
    ("bitcode", read_bitcode),
    ("budget", read_budget),
    ("library", read_library),
    ("line", read_line),
    ("link", link::read),
    ("model", read_model),
    ("object", read_object),
    ("output", read_output),
    ("report", read_report),
    ("script", read_script),
    ("summary", read_summary),
    ("text", read_text),
];

fn no_variables() -> Environment<'static> {
    Environment::new(&|_| None)
}

fn read_archive(bytes: &[u8]) {
    if let Ok(archive) = archive::parse(bytes) {
        for member in archive.members {
            recognise(bytes.get(member.data).unwrap_or_default());
        }
    }
}

fn read_library(bytes: &[u8]) {
    recognise(bytes);
    is_foreign_elf(bytes);
    let _ = dso::parse(bytes);
}

/// At every level; what the summary says must fit together, and come back from both of its forms.
fn read_object(bytes: &[u8]) {
    for granularity in [Granularity::Sections, Granularity::Functions, Granularity::Pointers] {
        let summary = extract::extract(bytes, granularity);
        assert_eq!(summary.check(), Ok(()));
        let encoded = format::encode(&summary, [7; 32]);
        assert_eq!(format::decode(&encoded).ok(), Some((summary, [7; 32])));
    }
}

fn read_bitcode(bytes: &[u8]) {
    let _ = bitcode::embedded(bytes);
    bitcode::fat(bytes);
    bitcode::hidden::words(bytes);
    let _ = bitcode::local_values(bytes);
    if let Ok(ir) = bitcode::ir::read(bytes) {
        for (at, module) in ir.modules.iter().enumerate() {
            let Ok(Some(reader)) = ir.reader(at) else { continue };
            for body in 0..module.bodies.len() {
                let _ = reader.body(body);
            }
        }
    }
    read_object(bytes);
}

fn read_summary(bytes: &[u8]) {
    let _ = format::input_hash(bytes);
    if let Ok((summary, hash)) = format::decode(bytes) {
        assert_eq!(summary.check(), Ok(()));
        assert_eq!(format::decode(&format::encode(&summary, hash)).ok(), Some((summary, hash)));
    }
}

fn read_text(bytes: &[u8]) {
    let Ok(words) = std::str::from_utf8(bytes) else { return };
    if let Ok(summary) = text::parse(words) {
        assert_eq!(text::parse(&text::dump(&summary)), Ok(summary));
    }
}

fn read_model(bytes: &[u8]) {
    let _ = std::str::from_utf8(bytes).map(models::read);
}

/// A script of each kind, and the patterns that its words may be.
fn read_script(bytes: &[u8]) {
    let _ = scripts::implicit::parse(bytes);
    let text = String::from_utf8_lossy(bytes);
    for word in text.split_whitespace().take(8) {
        glob::Glob::new(word).matches(b"_ZN3foo3barEv");
    }
    link::scripts(bytes);
}

/// The words of a linker's line, a word a line.
fn read_line(bytes: &[u8]) {
    args::words::split(bytes);
    // Files are for other readers.
    let words = bytes.split(|byte| *byte == b'\n').filter(|word| !word.starts_with(b"@"));
    let words: Vec<OsString> = words.map(|word| OsStr::from_bytes(word).to_owned()).collect();
    for linker in link::LINKERS {
        let mut words = words.clone();
        words.push(link::option_for(linker));
        let _ = args::parse(&words, None, &no_variables());
    }
}

fn read_output(bytes: &[u8]) {
    let path = link::write("output", bytes);
    if let Ok(facts) = verify::output(&path) {
        let _ = facts.dynamic_symbols();
    }
    report::contents::file(bytes);
    report::accounting::sizes(bytes);
    let explain = |words: [&OsStr; 2]| {
        let _ = modes::explain::explain(&words.map(OsStr::to_owned));
    };
    explain([path.as_os_str(), OsStr::new("0x1000")]);
    explain([path.as_os_str(), path.as_os_str()]);
    ask(&path, &[("top", &["--all"]), ("duplicates", &[])]);
}

/// `audit` of a report, each command that needs nothing else.
fn read_report(bytes: &[u8]) {
    let path = link::write("report.json", bytes);
    let page = link::place("page.html");
    let commands: [(&str, &[&str]); 11] = [
        ("top", &[]),
        ("dominators", &[]),
        ("why", &["main"]),
        ("paths", &["main", "x"]),
        ("reach", &["main", "x*"]),
        ("garbage", &[]),
        ("duplicates", &[]),
        ("limits", &[]),
        ("imports", &[]),
        ("graph", &["--format=folded"]),
        ("html", &["-o", page.to_str().unwrap_or_default()]),
    ];
    ask(&path, &commands);
}

/// Run commands of `audit`, each with further words, on a file.
fn ask(path: &Path, commands: &[(&str, &[&str])]) {
    for (command, more) in commands.iter().copied() {
        let words = std::iter::once(command).chain(more.iter().copied()).map(OsString::from);
        let words: Vec<OsString> = words.chain([path.as_os_str().to_owned()]).collect();
        let _ = audit::run(&words, &no_variables());
    }
}

fn read_budget(bytes: &[u8]) {
    let budget = link::write("budget.toml", bytes);
    let report = link::write("report.json", include_bytes!("../corpus/report/hello.json"));
    let words = [OsString::from("budget"), budget.into_os_string(), report.into_os_string()];
    let _ = audit::run(&words, &no_variables());
}
