//! `bench audit` and `bench files`: whether the answers of `lto-prune audit` add up, and the time that each takes.
//!
//! `audit` makes each link with a report. `top` must add up to the length of the file in every grouping and have the sizes of `size -A`;
//! a difference of two levels must add up to that of the two files; each command must take less than a second of a processor. `files`
//! asks `top` about programs, libraries and archives of the system and of the Rust toolchain, without a report.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::corpus::{Corpus, Link};
use crate::process::{output, run_ok};
use crate::report::{self, list, number, text};
use crate::table::{Table, count, publish};
use crate::{Options, Result};

const GROUPINGS: &str = "symbol module archive section category namespace crate generic";
/// An answer that takes longer is an error.
const LONGEST: Duration = Duration::from_secs(1);

/// The commands in the order of the table; REPORT, OTHER, BUDGET and SYMBOL are replaced.
const COMMANDS: &str = "top REPORT|dominators REPORT|why SYMBOL REPORT|paths main SYMBOL REPORT|garbage REPORT|imports REPORT|\
                        duplicates REPORT|limits REPORT|calls REPORT|diff OTHER REPORT|budget BUDGET REPORT";

/// The answer of `lto-prune audit WORDS`, run in `dir`.
fn ask(corpus: &Corpus, dir: &Path, words: &[&str]) -> Result<Value> {
    let mut command = Command::new(&corpus.pruner);
    let (name, rest) = words.split_first().ok_or("no command")?;
    command.args(["audit", name, "--json", "-n", "0"]).args(rest).current_dir(dir);
    let output = command.output()?;
    if !output.status.success() {
        return Err(format!("audit {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn rows(answer: &Value) -> impl Iterator<Item = &Value> {
    answer["top"].as_array().into_iter().flatten()
}

fn bytes(answer: &Value) -> u64 {
    rows(answer).map(|row| number(row, "bytes")).sum()
}

/// The number of sections that have the sizes of `size -A` in an answer of `top --all --by=section`.
fn sections(file: &Path, answer: &Value) -> Result<usize> {
    let mut compared = 0;
    for line in output(Command::new("size").arg("-A").arg(file))?.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [section, size, address] = words[..] else { continue };
        let (Ok(size), Ok(_)) = (size.parse::<u64>(), address.parse::<u64>()) else { continue };
        let found: u64 = rows(answer).filter(|r| r["section"] == section).map(|r| number(r, "size")).sum();
        if found != size {
            return Err(format!("{section} has {size} bytes by size -A, {found} by the audit").into());
        }
        compared += 1;
    }
    Ok(compared)
}

/// The number of edges of the graph, and a symbol of the atom that most of them lead to, which is the hardest to explain.
fn hub(report: &Value) -> Result<(usize, String)> {
    let (atoms, targets) = (list(report, "atoms")?, list(&report["graph"], "target")?);
    let mut held = vec![0usize; atoms.len()];
    targets.iter().filter_map(Value::as_u64).for_each(|atom| held[atom as usize] += 1);
    let symbol = |atom: &usize| atoms[*atom]["symbols"][0].as_str().filter(|name| !name.is_empty());
    let hub = (0..atoms.len()).filter(|atom| symbol(atom).is_some()).max_by_key(|atom| held[*atom]);
    Ok((targets.len(), hub.as_ref().and_then(symbol).ok_or("no atom has a symbol")?.to_owned()))
}

fn measure(corpus: &Corpus, options: &Options, link: &Link) -> Result<Vec<String>> {
    let dir = corpus.scratch(&format!("audit/{}-{}", link.program, link.mode))?;
    let (mut lengths, mut compared) = ([0; 2], 0);
    for ((folder, level), length) in [("old", "off"), ("new", &options.level)].into_iter().zip(&mut lengths) {
        // Both links have the same names, so that they differ in the level alone.
        let dir = dir.join(folder);
        std::fs::create_dir_all(&dir)?;
        let mut command = corpus.pruned_command(link, &link.lld()?, &dir.join("out"));
        command.arg(format!("--prune-level={level}"));
        run_ok(command.arg(format!("--prune-report={}", dir.join("report.json").display())), &dir)?;
        *length = std::fs::metadata(dir.join("out"))?.len();
        for by in GROUPINGS.split(' ') {
            let answer = ask(corpus, &dir, &["top", "--all", "--by", by, "report.json"])?;
            let found = bytes(&answer);
            if found != *length {
                return Err(format!("top --by={by} adds up to {found}, the file has {length} bytes").into());
            }
            if by == "section" {
                compared = sections(&dir.join("out"), &answer)?;
            }
        }
        if compared < 10 {
            return Err(format!("size -A names {compared} sections").into());
        }
    }
    let report = dir.join("new/report.json");
    let (edges, symbol) = hub(&report::read(&report)?)?;
    let answer = ask(corpus, &dir, &["diff", "--all", "old/report.json", "new/report.json"])?;
    let changes = list(&answer, "diff")?.iter().map(|row| row["change"].as_i64().unwrap_or(0));
    let difference: i64 = changes.sum();
    if difference != lengths[1] as i64 - lengths[0] as i64 {
        return Err(format!("diff adds up to {difference}").into());
    }
    std::fs::write(dir.join("budget.toml"), format!("total = {}\n", lengths[1]))?;
    let mut cells = vec![link.name(), count(lengths[1]), count(std::fs::metadata(report)?.len())];
    cells.extend([count(edges as u64), compared.to_string()]);
    for command in COMMANDS.split('|') {
        let words: Vec<&str> = command
            .split(' ')
            .map(|word| match word {
                "REPORT" => "new/report.json",
                "OTHER" => "old/report.json",
                "BUDGET" => "budget.toml",
                "SYMBOL" => &symbol,
                other => other,
            })
            .collect();
        // A command has one thread: its processor time is its time on a machine that does nothing else.
        let mut least = Duration::MAX;
        for _ in 0..options.runs {
            let mut audit = Command::new(&corpus.pruner);
            least = least.min(run_ok(audit.arg("audit").args(&words).current_dir(&dir), &dir)?.cpu);
        }
        if least > LONGEST {
            return Err(format!("audit {} takes {least:?}", words.join(" ")).into());
        }
        cells.push(format!("{:.0}", least.as_secs_f64() * 1e3));
    }
    Ok(cells)
}

/// The command `audit`. True if every number agrees.
pub(crate) fn run(corpus: &Corpus, options: &Options) -> Result<bool> {
    let name = |command: &str| format!(" | {}, ms", command.split(' ').next().unwrap_or_default());
    let columns: String = COMMANDS.split('|').map(name).collect();
    let mut table = Table::new(&format!("link | file | report | edges | sections as by `size -A`{columns}"));
    let good = table.links(&corpus.links, |link| measure(corpus, options, link));
    let body = format!(
        "Of each link, pruned at `--prune-level={}` and plain: `audit top` adds up to the length of the file in {} groupings, its sections have the sizes \
         of `size -A`, and `audit diff` of plain and pruned adds up. Times are processor time of \
         whole commands (least of {}), `why` and `paths` of the symbol with most references; none may take a second.\n\n{}",
        options.level,
        GROUPINGS.split(' ').count(),
        options.runs,
        table.as_str()
    );
    publish(good, corpus, options, ("audit", "What audits say, and how fast"), &body)
}

/// Folders and names of files in them for `files`. `RUST` and `CARGO` are the toolchain's and cargo's.
const FILES: [(&str, &str); 5] = [
    ("/usr/bin", "bash git gdb busybox cmake mold ld.lld-19 ld.bfd zsh"),
    (
        "/usr/lib/x86_64-linux-gnu",
        "libc.so.6 libstdc++.so.6 libcrypto.so.3 libc.a libm-2.36.a libpython3.11.so.1.0",
    ),
    ("/usr/lib/gcc/x86_64-linux-gnu/12", "cc1plus libstdc++.a"),
    ("RUST", "rustc cargo rustdoc"),
    ("CARGO", "wild cargo-nextest"),
];
/// With fewer files the command fails.
const LEAST: usize = 12;

/// Per cent of the loaded bytes whose row has no owner: its name is in brackets and is not a function that only has an address.
fn without_owner(answer: &Value, column: &str) -> String {
    let is_nobody = |row: &&Value| {
        let name = text(row, column);
        name.starts_with('[') && !name.starts_with("[function at ")
    };
    let of: u64 = rows(answer).filter(is_nobody).map(|row| number(row, "bytes")).sum();
    format!("{:.1}%", of as f64 * 100.0 / bytes(answer).max(1) as f64)
}

fn account(corpus: &Corpus, file: &Path, is_rust: bool) -> Result<Vec<String>> {
    let length = std::fs::metadata(file)?.len();
    let path = file.display().to_string();
    let top = |words: &[&str]| ask(corpus, &corpus.root, &[&["top"], words, &[path.as_str()]].concat());
    let found = bytes(&top(&["--all"])?);
    if found != length {
        return Err(format!("top --all adds up to {found}, the file has {length} bytes").into());
    }
    let by_section = top(&["--all", "--by=section"])?;
    // size prints the members of an archive one by one.
    let is_archive = file.extension().is_some_and(|extension| extension == "a");
    let compared = if is_archive { "".into() } else { sections(file, &by_section)?.to_string() };
    let loaded = top(&[])?;
    let has = |name: &str| rows(&by_section).any(|row| row["section"] == name);
    let symbols = if has(".symtab") { "symbols" } else { "stripped" }.to_owned();
    Ok(vec![
        file.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        symbols + if has(".debug_info") { ", DWARF" } else { "" },
        count(length),
        count(bytes(&loaded)),
        compared,
        without_owner(&loaded, "symbol"),
        if is_rust { without_owner(&top(&["--by=crate"])?, "namespace") } else { String::new() },
    ])
}

/// The command `files`. True if every file adds up and there are enough of them.
pub(crate) fn files(corpus: &Corpus, options: &Options) -> Result<bool> {
    let mut table = Table::new(
        "file | has | bytes, all accounted for | loaded | sections as by `size -A` | loaded without an owner | without a crate",
    );
    let sysroot = output(Command::new("rustc").args(["--print", "sysroot"]))?;
    let cargo = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo = cargo.or_else(|| Some(std::env::home_dir()?.join(".cargo"))).unwrap_or_default();
    let (mut good, mut accounted) = (true, 0);
    for (folder, names) in FILES {
        let place = match folder {
            "RUST" => Path::new(sysroot.trim()).join("bin"),
            "CARGO" => cargo.join("bin"),
            folder => PathBuf::from(folder),
        };
        for file in names.split(' ').map(|name| place.join(name)).filter(|file| file.is_file()) {
            eprintln!("{}", file.display());
            match account(corpus, &file, !folder.starts_with('/')) {
                Ok(cells) => table.row(&cells),
                Err(e) => {
                    eprintln!("FAILED {}: {e}", file.display());
                    good = false;
                }
            }
            accounted += 1;
        }
    }
    let body = format!(
        "Files of other builds, without a report. Each row of `audit top --all` is counted once, and together they have the length of the file. An owner is a \
         symbol, or a function of which only an unwind entry is known; headers, tables of the linker and padding have none.\n\n{}",
        table.as_str()
    );
    publish(good && accounted >= LEAST, corpus, options, ("files", "What audits say of any file"), &body)
}
