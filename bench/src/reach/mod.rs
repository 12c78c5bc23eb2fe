//! `bench reach`: small programs against the distribution's static libraries: what is kept beside what can be reached.
//!
//! What can be reached is computed here from the objects, with binutils' disassembler and the `object` crate, sharing no code with
//! lto-prune: the functions that the roots lead to when every address mentioned counts and a data section is one piece. What
//! is kept is read from the symbol table of the executable. Both count bytes that sized function symbols cover, once.
//!
//! Every program is also linked plain and pruned with each linker and must print what its first lines say.

mod disassembly;
mod graph;
mod input;
mod tables;
mod unwind;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::corpus::{self, Corpus, Link, find_linker};
use crate::process::{self, run_ok};
use crate::symbols::{sized_functions, text_size};
use crate::table::{Table, count, publish};
use crate::{Options, Result, report};

const LINKERS: [&str; 4] = ["lld", "mold", "bfd", "gold"];

/// The name of a main's link, in place of a corpus mode.
pub(crate) const MODE: &str = "main";

/// Excess that is allowed at least, in bytes.
const SLACK: u64 = 512;

/// A program of `bench/mains`, with what its first lines say.
pub(crate) struct Main {
    pub(crate) name: String,
    source: PathBuf,
    pub(crate) compiler: &'static str,
    pub(crate) cflags: Vec<String>,
    pub(crate) libraries: Vec<String>,
    pub(crate) prints: String,
}

/// Sized functions of an executable: name of each and bytes that none before it covers.
#[derive(Default)]
struct Functions {
    /// These are the size and the names of each.
    extents: Vec<(u64, Vec<String>)>,
    bytes: u64,
}

/// What was found for one main.
struct ReachRow {
    text: [u64; 3],
    kept: Functions,
    reach: Functions,
    /// Entries of data that look like those of jump tables and aren't.
    unclaimed: usize,
    /// Each has its name, its count and its bytes.
    limits: Vec<(String, u64, u64)>,
}

impl ReachRow {
    fn excess(&self) -> i64 {
        self.kept.bytes as i64 - self.reach.bytes as i64
    }

    fn allowed(&self) -> u64 {
        (self.reach.bytes / 100).max(SLACK)
    }

    fn passes(&self) -> bool {
        self.excess() <= self.allowed() as i64
    }
}

/// The programs of `bench/mains`, by name.
///
/// # Errors
/// If one can't be read, or none is asked for.
pub(crate) fn mains(corpus: &Corpus, only: &[String]) -> Result<Vec<Main>> {
    mains_of(corpus, Path::new("mains"), only)
}

/// The programs of a folder of `bench`, by name.
///
/// # Errors
/// A source is unreadable, or the folder lacks these names.
pub(crate) fn mains_of(corpus: &Corpus, folder: &Path, only: &[String]) -> Result<Vec<Main>> {
    let mut out = Vec::new();
    for entry in fs::read_dir(corpus.root.join(folder))? {
        let source = entry?.path();
        let compiler = match source.extension().and_then(|e| e.to_str()) {
            Some("c") => "gcc",
            Some("cc") => "g++",
            _ => continue,
        };
        let name = source.file_stem().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        if !only.is_empty() && !only.contains(&name) {
            continue;
        }
        let text = fs::read_to_string(&source)?;
        let header = |key: &str| {
            let prefix = format!("// {key}: ");
            text.lines().find_map(|l| l.strip_prefix(&prefix)).unwrap_or("").to_owned()
        };
        let words = |text: String| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        out.push(Main {
            compiler,
            cflags: words(header("cflags")),
            libraries: words(header("libraries")),
            prints: header("prints"),
            name,
            source,
        });
    }
    out.sort_by(|a, b| a.name.cmp(&b.name));
    if out.is_empty() { Err("no such main".into()) } else { Ok(out) }
}

/// The mains that there are.
///
/// # Errors
/// If one can't be read.
pub(crate) fn names(corpus: &Corpus) -> Result<Vec<String>> {
    Ok(mains(corpus, &[])?.into_iter().map(|m| m.name).collect())
}

pub(crate) fn compile(main: &Main, dir: &Path) -> Result<()> {
    let mut command = Command::new(main.compiler);
    command
        .args(["-O2", "-fPIE"])
        .args(&main.cflags)
        .arg("-c")
        .arg(&main.source)
        .arg("-o")
        .arg(dir.join("main.o"));
    run_ok(&mut command, dir)?;
    Ok(())
}

/// Compile the main called `name` in `dir`, and find out how its driver would call the linker.
///
/// # Errors
/// If there is no such main, or it doesn't compile or link.
pub(crate) fn record_link(corpus: &Corpus, name: &str, dir: &Path) -> Result<Link> {
    let main = mains(corpus, &[name.to_owned()])?.pop().ok_or("no such main")?;
    compile(&main, dir)?;
    fs::create_dir(dir.join("recorder"))?;
    symlink(corpus.root.join("record-ld.sh"), dir.join("recorder/ld"))?;
    let mut command = link(&main, dir, "recorder", "main");
    let recorded = dir.join("ld.args");
    run_ok(command.env("BENCH_RECORD", &recorded), dir)?;
    let driver = std::iter::once(main.compiler.to_owned()).chain(["main.o".to_owned()]);
    Ok(Link {
        program: main.name.clone(),
        mode: MODE.to_owned(),
        dir: dir.to_owned(),
        driver: driver.chain(main.libraries).collect(),
        linker_args: corpus::recorded(&recorded)?,
    })
}

/// The driver's link of `main`, by `DIR/ld`, to `DIR/../output`.
pub(crate) fn link(main: &Main, scratch: &Path, dir: &str, output: &str) -> Command {
    let mut command = Command::new(main.compiler);
    command
        .current_dir(scratch)
        .arg(format!("-B{dir}/"))
        .args(["main.o", "-o", output])
        .args(&main.libraries);
    command.env_remove("LTO_PRUNE_FLAGS").env_remove("LTO_PRUNE_LINKER");
    command
}

/// The sized functions of a linked file, each byte once.
fn functions(path: &Path) -> Result<Functions> {
    let data = fs::read(path)?;
    let file = object::File::parse(&*data)?;
    let mut out = Functions::default();
    let mut last_end = 0;
    for (start, end, name) in sized_functions(&file) {
        match out.extents.last_mut() {
            Some((size, names)) if start < last_end => {
                let more = end.saturating_sub(last_end);
                *size += more;
                out.bytes += more;
                names.push(name);
            }
            _ => {
                out.extents.push((end - start, vec![name]));
                out.bytes += end - start;
            }
        }
        last_end = last_end.max(end);
    }
    Ok(out)
}

/// Functions of the inputs that the roots reach.
fn reach(trace: &str, scratch: &Path) -> Result<(Functions, usize)> {
    let inputs = input::read(trace, scratch)?;
    let listings = disassembly::listings(&inputs.modules, scratch)?;
    let graph = graph::Graph::new(&inputs, &listings);
    let reached = graph.reach(&graph.roots());
    let mut out = Functions::default();
    for (node, _) in graph.nodes.iter().zip(&reached).filter(|(n, reached)| **reached && !n.names.is_empty())
    {
        out.bytes += node.end - node.start;
        out.extents.push((node.end - node.start, node.names.clone()));
    }
    Ok((out, graph.unclaimed))
}

/// Extents of `a` that have no partner of one of their names in `b`.
fn without<'a>(a: &'a Functions, b: &Functions) -> Vec<(u64, &'a str)> {
    let mut left: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, names) in &b.extents {
        for name in names {
            *left.entry(name).or_default() += 1;
        }
    }
    let mut out = Vec::new();
    for (size, names) in &a.extents {
        let found = names.iter().any(|n| left.get(&**n).is_some_and(|k| *k > 0));
        if found {
            for name in names {
                if let Some(k) = left.get_mut(&**name) {
                    *k = k.saturating_sub(1);
                }
            }
        } else {
            out.push((*size, names.first().map_or("", String::as_str)));
        }
    }
    out.sort_by(|x, y| y.cmp(x));
    out
}

/// Run `file` and hold its output against what the source says.
pub(crate) fn prints(main: &Main, file: &Path, scratch: &Path) -> Result<()> {
    let (out, err) = (scratch.join("stdout"), scratch.join("stderr"));
    let done = process::run(&mut Command::new(file), &out, &err)?;
    let text = String::from_utf8_lossy(&fs::read(&out)?).into_owned();
    if done.status != 0 || text.trim_end() != main.prints {
        return Err(
            format!("{}: status {}, prints `{}`", file.display(), done.status, text.trim_end()).into()
        );
    }
    Ok(())
}

/// Link by each linker, plain and pruned, and run; failures in words.
fn run_all(main: &Main, options: &Options, scratch: &Path) -> Vec<String> {
    let mut failures = Vec::new();
    let wanted =
        if options.linkers.is_empty() { LINKERS.map(str::to_owned).into() } else { options.linkers.clone() };
    for linker in &wanted {
        let result = (|| -> Result<()> {
            let behind = find_linker(linker)?;
            fs::create_dir(scratch.join(linker))?;
            symlink(&behind, scratch.join(linker).join("ld"))?;
            let (plain, pruned) = (format!("plain-{linker}"), format!("pruned-{linker}"));
            run_ok(&mut link(main, scratch, linker, &plain), scratch)?;
            let mut command = link(main, scratch, "ours", &pruned);
            let flags = format!(
                "--prune-level={} --prune-strict --prune-report={}",
                options.level,
                scratch.join(format!("report-{linker}.json")).display()
            );
            command.env("LTO_PRUNE_LINKER", &behind).env("LTO_PRUNE_FLAGS", flags);
            run_ok(&mut command, scratch)?;
            prints(main, &scratch.join(plain), scratch)?;
            prints(main, &scratch.join(pruned), scratch)
        })();
        if let Err(e) = result {
            failures.push(format!("{} {linker}: {e}", main.name));
        }
    }
    failures
}

fn measure(corpus: &Corpus, options: &Options, main: &Main) -> Result<(ReachRow, Vec<String>)> {
    let scratch = corpus.scratch(&format!("reach/{}", main.name))?;
    compile(main, &scratch)?;
    for (dir, file) in [("ours", &corpus.pruner), ("bin", &find_linker("lld")?)] {
        fs::create_dir(scratch.join(dir))?;
        symlink(file, scratch.join(dir).join("ld"))?;
    }
    let failures = run_all(main, options, &scratch);

    run_ok(link(main, &scratch, "bin", "plain").arg("-Wl,--trace"), &scratch)?;
    let trace = fs::read_to_string(scratch.join("stdout"))?;
    run_ok(link(main, &scratch, "bin", "gc").arg("-Wl,--gc-sections"), &scratch)?;
    let mut pruned = link(main, &scratch, "ours", "pruned");
    let report = scratch.join("report.json");
    let flags = format!("--prune-level={} --prune-strict --prune-report={}", options.level, report.display());
    run_ok(pruned.env("LTO_PRUNE_LINKER", find_linker("lld")?).env("LTO_PRUNE_FLAGS", flags), &scratch)?;
    let (reach, unclaimed) = reach(&trace, &scratch)?;
    let row = ReachRow {
        text: [
            text_size(&scratch.join("plain"))?,
            text_size(&scratch.join("gc"))?,
            text_size(&scratch.join("pruned"))?,
        ],
        kept: functions(&scratch.join("pruned"))?,
        reach,
        unclaimed,
        limits: report::limits(&report::read(&report)?),
    };
    Ok((row, failures))
}

/// What is kept beyond reach, and what is reached but not kept, by name.
fn name_differences(name: &str, row: &ReachRow) {
    println!("{name}: {} relative entries of data lead to code and are of no jump table", row.unclaimed);
    for (what, list) in [
        ("kept beyond reach", without(&row.kept, &row.reach)),
        ("reached, not kept", without(&row.reach, &row.kept)),
    ] {
        println!(
            "{name}: {what}: {} functions, {} bytes",
            list.len(),
            list.iter().map(|(s, _)| s).sum::<u64>()
        );
        for (size, function) in list {
            println!("  {size:8} {function}");
        }
    }
}

/// The command. True if every main is within its bound and prints what it should.
pub(crate) fn run(corpus: &Corpus, options: &Options) -> Result<bool> {
    let mut table = Table::new(&[
        "main",
        "`.text` lld",
        "lld gc",
        "ours",
        "kept bytes (functions)",
        "reach bytes (functions)",
        "excess",
        "allowed",
        "within",
    ]);
    let mut causes = Table::new(&["main, limit", "count", "bytes"]);
    let mut failures = Vec::new();
    for main in mains(corpus, &options.only)? {
        eprintln!("{}", main.name);
        let (row, failed) = match measure(corpus, options, &main) {
            Ok(done) => done,
            Err(e) => {
                failures.push(format!("{}: {e}", main.name));
                continue;
            }
        };
        failures.extend(failed);
        let sized = |f: &Functions| format!("{} ({})", count(f.bytes), count(f.extents.len() as u64));
        let excess = row.excess();
        let sign = if excess < 0 { "-" } else { "" };
        table.row(&[
            main.name.clone(),
            count(row.text[0]),
            count(row.text[1]),
            count(row.text[2]),
            sized(&row.kept),
            sized(&row.reach),
            format!("{sign}{}", count(excess.unsigned_abs())),
            count(row.allowed()),
            if row.passes() { "yes".into() } else { "**no**".into() },
        ]);
        if !row.passes() {
            failures.push(format!("{}: {excess} bytes beyond reach", main.name));
        }
        for (limit, n, bytes) in &row.limits {
            causes.row(&[format!("{}, {limit}", main.name), count(*n), count(*bytes)]);
        }
        if options.verbose {
            name_differences(&main.name, &row);
        }
    }
    let body = format!(
        "`bench/mains` (gcc -O2, PIE, libc dynamic unless the name says static) with Debian's static libraries, lld behind, \
         `--prune-level={}`. Kept and reach: bytes that sized function symbols cover. Allowed: 1% of reach, or {SLACK} bytes.\n\n{}\n\
         Limits met on the way, with the bytes that each kept whole:\n\n{}",
        options.level,
        table.as_str(),
        causes.as_str()
    );
    publish(corpus, options, "reach", "What is kept of static libraries", &body)?;
    for failure in &failures {
        println!("FAILED {failure}");
    }
    Ok(failures.is_empty())
}
