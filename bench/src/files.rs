//! `bench files`: whether `lto-prune audit top` accounts for every byte of files from other builds, and how many bytes have no owner.
//!
//! The files are programs, libraries and archives of the system and of the Rust toolchain. The rows of `top --all` must add up to the length of
//! the file, and those of `--by=section` must have the sizes of `size -A`. If cargo-bloat is installed, a second table
//! has the crates of this tool by both.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::audit::sections;
use crate::corpus::Corpus;
use crate::table::{Table, count, publish_good};
use crate::{Options, Result};

/// Folders, and names in them. The last ones are of Rust.
const FILES: [(&str, &[&str]); 3] = [
    ("/usr/bin", &["bash", "git", "gdb", "busybox", "cmake", "mold", "ld.lld-19", "ld.bfd", "zsh"]),
    (
        "/usr/lib/x86_64-linux-gnu",
        &["libc.so.6", "libstdc++.so.6", "libcrypto.so.3", "libc.a", "libm-2.36.a", "libpython3.11.so.1.0"],
    ),
    ("/usr/lib/gcc/x86_64-linux-gnu/12", &["cc1plus", "libstdc++.a"]),
];
/// Fewer files than these are no survey.
const LEAST: usize = 12;
/// The number of crates in the table with cargo-bloat's figures.
const CRATES: usize = 10;

fn audit(corpus: &Corpus, words: &[&str], file: &Path) -> Result<Value> {
    let output = Command::new(&corpus.pruner)
        .args(["audit", "top", "--json", "-n", "0"])
        .args(words)
        .arg(file)
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn rows(answer: &Value) -> impl Iterator<Item = &Value> {
    answer["top"].as_array().into_iter().flatten()
}

fn bytes(row: &Value) -> u64 {
    row["bytes"].as_u64().unwrap_or(0)
}

/// Per cent of the loaded bytes whose row has no owner: its name is in brackets and is no function that only has an address.
fn without_owner(answer: &Value, column: &str) -> f64 {
    let is_nobody = |row: &&Value| {
        let name = row[column].as_str().unwrap_or_default();
        name.starts_with('[') && !name.starts_with("[function at ")
    };
    let all: u64 = rows(answer).map(bytes).sum();
    rows(answer).filter(is_nobody).map(bytes).sum::<u64>() as f64 * 100.0 / all.max(1) as f64
}

fn measure(corpus: &Corpus, file: &Path, is_rust: bool) -> Result<Vec<String>> {
    let length = std::fs::metadata(file)?.len();
    let all = audit(corpus, &["--all"], file)?;
    let found: u64 = rows(&all).map(bytes).sum();
    if found != length {
        return Err(format!("top --all adds up to {found}, the file has {length} bytes").into());
    }
    let by_section = audit(corpus, &["--all", "--by=section"], file)?;
    let is_archive = file.extension().is_some_and(|extension| extension == "a");
    // size prints the members of an archive one by one.
    let compared = if is_archive { "".into() } else { sections(file, &by_section)?.to_string() };
    let loaded = audit(corpus, &[], file)?;
    let stripped = !rows(&by_section).any(|row| row["section"] == ".symtab");
    let debug = rows(&by_section).any(|row| row["section"] == ".debug_info");
    let crates = match is_rust {
        true => format!("{:.1}%", without_owner(&audit(corpus, &["--by=crate"], file)?, "namespace")),
        false => String::new(),
    };
    Ok(vec![
        file.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        ["symbols", "stripped"][usize::from(stripped)].to_owned() + if debug { ", DWARF" } else { "" },
        count(length),
        count(rows(&loaded).map(bytes).sum()),
        compared,
        format!("{:.1}%", without_owner(&loaded, "symbol")),
        crates,
    ])
}

/// The crates of this tool, by cargo-bloat and by the audit; `None` where cargo-bloat is not installed.
fn crates(corpus: &Corpus) -> Result<Option<String>> {
    let words = "bloat --release --locked -p lto-prune --bin lto-prune --crates -n 0 --message-format json";
    let output = Command::new("cargo").args(words.split(' ')).output()?;
    if !output.status.success() {
        return Ok(None);
    }
    let bloat: Value = serde_json::from_slice(&output.stdout)?;
    // It says on standard error which file it read.
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let file = said.lines().find_map(|line| line.trim().strip_prefix("Analyzing "));
    let file = PathBuf::from(file.ok_or("cargo bloat names no file")?);
    let answer = audit(corpus, &["--by=crate", "--std"], &file)?;
    let mut table = Table::new(&["crate", "`.text` by cargo bloat", "loaded bytes by the audit"]);
    for row in bloat["crates"].as_array().into_iter().flatten().take(CRATES) {
        let name = row["name"].as_str().unwrap_or_default();
        let ours: u64 = rows(&answer).filter(|row| row["namespace"] == name).map(bytes).sum();
        table.row(&[name.to_owned(), count(row["size"].as_u64().unwrap_or(0)), count(ours)]);
    }
    let none = without_owner(&answer, "namespace");
    Ok(Some(format!("{}\nOf the loaded bytes {none:.1}% belong to no crate.\n", table.as_str())))
}

/// The command. True if every file adds up and there are enough of them.
pub(crate) fn run(corpus: &Corpus, options: &Options) -> Result<bool> {
    let mut table = Table::new(&[
        "file",
        "has",
        "bytes, all accounted for",
        "loaded",
        "sections as by `size -A`",
        "loaded without an owner",
        "without a crate",
    ]);
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output()?.stdout;
    let toolchain = PathBuf::from(String::from_utf8(sysroot)?.trim()).join("bin");
    let cargo = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo =
        cargo.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo"))).unwrap_or_default();
    let of_system = FILES
        .iter()
        .flat_map(|(folder, names)| names.iter().map(|name| (Path::new(folder).join(name), false)));
    let of_rust = [
        toolchain.join("rustc"),
        toolchain.join("cargo"),
        toolchain.join("rustdoc"),
        cargo.join("bin/wild"),
        cargo.join("bin/cargo-nextest"),
    ];
    let files = of_system.chain(of_rust.map(|file| (file, true))).filter(|(file, _)| file.is_file());
    let (mut good, mut measured) = (true, 0);
    for (file, is_rust) in files {
        eprintln!("{}", file.display());
        match measure(corpus, &file, is_rust) {
            Ok(cells) => table.row(&cells),
            Err(e) => {
                eprintln!("{}: {e}", file.display());
                good = false;
            }
        }
        measured += 1;
    }
    let beside = crates(corpus)?.unwrap_or_else(|| "cargo-bloat is not installed.\n".to_owned());
    let body = format!(
        "Files that others linked, without a report. Each row of `audit top --all` is counted once, and together they have the length of the file. An owner is a symbol, or a \
         function of which only an unwind entry is known; headers, tables that the linker made and padding have none.\n\n{}\nThe crates of this tool as \
         `cargo bloat --crates` and `audit top --by=crate --std` see them. cargo bloat counts code alone, the audit also data, unwind entries and relocations. The audit counts a generic function for the crate that defines it, whoever \
         instantiates it.\n\n{beside}",
        table.as_str()
    );
    publish_good(good && measured >= LEAST, corpus, options, "files", "What audits say of any file", &body)
}
