//! `bench check`: a pruned program behaves as the plain one, whichever linker made both.
//!
//! Every program is linked through its compiler driver, as a build would (`gcc -B`, `clang --ld-path`), by each linker
//! alone and by lto-prune with that linker behind, and `check/PROGRAM.sh` runs both in folders of the same name. The
//! transcripts and statuses must be equal byte for byte, and the plain one must pass.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::corpus::{Corpus, Link, find_linker};
use crate::process::{self, run_ok};
use crate::table::{Table, publish_good};
use crate::{Options, Result};

const LINKERS: [&str; 4] = ["lld", "mold", "bfd", "gold"];

#[derive(PartialEq, Eq)]
struct Transcript {
    status: i32,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

/// The driver's command for `link`, with `linker` chosen: a folder whose `ld` it is.
fn driver_command(link: &Link, shims: &Path, output: &Path) -> Result<Command> {
    let (driver, args) = link.driver.split_first().ok_or("empty link.args")?;
    let mut command = Command::new(driver);
    if driver.starts_with("clang") {
        command.arg(format!("--ld-path={}", shims.join("ld").display()));
    } else {
        command.arg(format!("-B{}", shims.display()));
    }
    command.current_dir(&link.dir).args(args).arg("-o").arg(output);
    Ok(command)
}

/// Run the check of a program in an empty folder `scratch/run`.
fn transcript(corpus: &Corpus, link: &Link, binary: &Path, scratch: &Path) -> Result<Transcript> {
    let dir = scratch.join("run");
    if dir.exists() {
        fs::remove_dir_all(&dir)?;
    }
    fs::create_dir(&dir)?;
    let script = corpus.root.join("check").join(&link.program).with_extension("sh");
    let mut command = Command::new("sh");
    command.arg(script).arg(binary).current_dir(&dir).env("LC_ALL", "C.UTF-8");
    let (out, err) = (scratch.join("transcript"), scratch.join("errors"));
    let done = process::run(&mut command, &out, &err)?;
    Ok(Transcript { status: done.status, stdout: fs::read(&out)?, stderr: fs::read(&err)? })
}

/// Where two outputs part, for a person to read.
fn first_difference(plain: &[u8], pruned: &[u8]) -> String {
    let (a, b) = (String::from_utf8_lossy(plain), String::from_utf8_lossy(pruned));
    let (mut a, mut b) = (a.lines(), b.lines());
    for line in 1.. {
        match (a.next(), b.next()) {
            (None, None) => break,
            (x, y) if x == y => {}
            (x, y) => {
                return format!(
                    "line {line}\n  plain:  {}\n  pruned: {}",
                    x.unwrap_or("(end)"),
                    y.unwrap_or("(end)")
                );
            }
        }
    }
    "line ends".into()
}

/// A program linked by the linker alone, and through lto-prune.
pub(crate) struct ProgramPair {
    pub(crate) plain: PathBuf,
    pub(crate) pruned: PathBuf,
    /// It is that of the pruned link.
    pub(crate) report: PathBuf,
}

/// Link a program with the linker `behind` in both ways, in the new folder `scratch`.
pub(crate) fn link_pair(
    link: &Link,
    level: &str,
    behind: &Path,
    shims: &Path,
    scratch: &Path,
) -> Result<ProgramPair> {
    let plain_shims = scratch.join("bin");
    fs::create_dir(&plain_shims)?;
    symlink(behind, plain_shims.join("ld"))?;
    let pair = ProgramPair {
        plain: scratch.join("plain"),
        pruned: scratch.join("pruned"),
        report: scratch.join("report.json"),
    };
    run_ok(&mut driver_command(link, &plain_shims, &pair.plain)?, scratch)
        .map_err(|e| format!("plain link: {e}"))?;
    let mut command = driver_command(link, shims, &pair.pruned)?;
    let report = pair.report.display();
    command
        .env("LTO_PRUNE_LINKER", behind)
        .env("LTO_PRUNE_FLAGS", format!("--prune-level={level} --prune-strict --prune-report={report}"));
    run_ok(&mut command, scratch).map_err(|e| format!("pruned link: {e}"))?;
    Ok(pair)
}

/// Run the check of a program on both. An error says how they differ.
pub(crate) fn same_behaviour(corpus: &Corpus, link: &Link, pair: &ProgramPair, scratch: &Path) -> Result<()> {
    let expected = transcript(corpus, link, &pair.plain, scratch)?;
    if expected.status != 0 {
        let errors = String::from_utf8_lossy(&expected.stderr).into_owned();
        return Err(format!("the plain program fails its check, status {}\n{errors}", expected.status).into());
    }
    let got = transcript(corpus, link, &pair.pruned, scratch)?;
    if got.status != expected.status {
        let errors = String::from_utf8_lossy(&got.stderr).into_owned();
        return Err(format!("pruned: status {}\n{errors}", got.status).into());
    }
    for (what, a, b) in [("output", &expected.stdout, &got.stdout), ("errors", &expected.stderr, &got.stderr)]
    {
        if a != b {
            return Err(format!("{what} differs at {}", first_difference(a, b)).into());
        }
    }
    Ok(())
}

/// Link and check one program with one linker. An error is a failure of the row, in words.
fn compare(corpus: &Corpus, options: &Options, link: &Link, linker: &str, shims: &Path) -> Result<()> {
    let behind = find_linker(linker)?;
    let scratch = corpus.scratch(&format!("check/{}-{}-{linker}", link.program, link.mode))?;
    let pair = link_pair(link, &options.level, &behind, shims, &scratch)?;
    same_behaviour(corpus, link, &pair, &scratch)
}

/// Every link with every linker, as many at a time as there are cores: a row of results for each link.
fn run_all(corpus: &Corpus, options: &Options, linkers: &[String], shims: &Path) -> Vec<Vec<Result<()>>> {
    let jobs: Vec<(usize, usize)> =
        (0..corpus.links.len()).flat_map(|l| (0..linkers.len()).map(move |k| (l, k))).collect();
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<(usize, usize, Result<()>)>> = Mutex::new(Vec::new());
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(&(l, k)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = compare(corpus, options, &corpus.links[l], &linkers[k], shims);
                    eprintln!(
                        "{} {}: {}",
                        corpus.links[l].name(),
                        linkers[k],
                        if result.is_ok() { "same" } else { "FAILED" }
                    );
                    if let Ok(mut all) = results.lock() {
                        all.push((l, k, result));
                    }
                }
            });
        }
    });
    let mut all = results.into_inner().unwrap_or_default();
    all.sort_by_key(|(l, k, _)| (*l, *k));
    let mut rows: Vec<Vec<Result<()>>> = corpus.links.iter().map(|_| Vec::new()).collect();
    for (l, _, result) in all {
        rows[l].push(result);
    }
    rows
}

/// The command. True if every pair agrees.
pub(crate) fn run(corpus: &Corpus, options: &Options) -> Result<bool> {
    let linkers: Vec<String> =
        if options.linkers.is_empty() { LINKERS.map(str::to_owned).into() } else { options.linkers.clone() };
    let shims = corpus.shims()?;
    let rows = run_all(corpus, options, &linkers, &shims);
    let mut columns = vec!["program"];
    columns.extend(linkers.iter().map(String::as_str));
    let mut table = Table::new(&columns);
    let mut failures = String::new();
    for (link, results) in corpus.links.iter().zip(&rows) {
        let mut cells = vec![link.name()];
        for (linker, result) in linkers.iter().zip(results) {
            cells.push(if result.is_ok() { "same".into() } else { "**differs**".into() });
            if let Err(e) = result {
                failures.push_str(&format!("{} {linker}: {e}\n", link.name()));
            }
        }
        table.row(&cells);
    }
    let body = format!(
        "Functional check of the pruned program (`--prune-level={} --prune-strict`) against the plain one, linked by \
         each linker through the compiler driver.\n\n{}",
        options.level,
        table.as_str()
    );
    print!("{failures}");
    publish_good(
        failures.is_empty(),
        corpus,
        options,
        "check",
        "Plain and pruned programs behave alike",
        &body,
    )
}
