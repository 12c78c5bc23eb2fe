//! `bench check`: a pruned program behaves as the plain one, whichever linker made both; and the `.text` of both by lld.
//!
//! The compiler driver links each program, as a build does, with each linker alone and with lto-prune in front of it. `check/PROGRAM.sh`
//! runs both programs in folders of the same name. Output, errors and status must be equal byte for byte, and the plain program must pass.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::corpus::{Corpus, Link, driver_command, find_linker, folder_of};
use crate::process::{self, parallel, run_ok};
use crate::report::text_size;
use crate::table::{Table, count, publish};
use crate::{Options, Result};

/// Status, standard output and standard error of a check.
type Transcript = (i32, Vec<u8>, Vec<u8>);

/// Run the check of a program in an empty folder `scratch/run`. Programs of `bench/mains` have theirs with the objects.
pub(crate) fn transcript(corpus: &Corpus, link: &Link, binary: &Path, scratch: &Path) -> Result<Transcript> {
    let dir = scratch.join("run");
    if dir.exists() {
        fs::remove_dir_all(&dir)?;
    }
    fs::create_dir(&dir)?;
    let own = link.dir.join("check.sh");
    let script =
        if own.exists() { own } else { corpus.root.join("check").join(&link.program).with_extension("sh") };
    let mut command = Command::new("sh");
    command.arg(script).arg(binary).current_dir(&dir).env("LC_ALL", "C.UTF-8");
    let (out, err) = (scratch.join("transcript"), scratch.join("errors"));
    let done = process::run(&mut command, &out, &err)?;
    Ok((done.status, fs::read(&out)?, fs::read(&err)?))
}

/// Link with `behind` in both ways in the new folder `scratch`: the plain program and the pruned one, whose report is `report.json`.
pub(crate) fn link_pair(
    corpus: &Corpus,
    link: &Link,
    level: &str,
    behind: &Path,
    scratch: &Path,
) -> Result<[PathBuf; 2]> {
    let [plain, pruned] = ["plain", "pruned"].map(|name| scratch.join(name));
    folder_of(&scratch.join("bin"), behind)?;
    folder_of(&scratch.join("ours"), &corpus.pruner)?;
    run_ok(&mut driver_command(link, &scratch.join("bin"), &plain)?, scratch)
        .map_err(|e| format!("plain link: {e}"))?;
    let flags = format!(
        "--prune-level={level} --prune-strict --prune-report={}",
        scratch.join("report.json").display()
    );
    let mut command = driver_command(link, &scratch.join("ours"), &pruned)?;
    command.env("LTO_PRUNE_LINKER", behind).env("LTO_PRUNE_FLAGS", flags);
    run_ok(&mut command, scratch).map_err(|e| format!("pruned link: {e}"))?;
    Ok([plain, pruned])
}

/// Link and check one program with one linker. The result is the `.text` plain, with `--gc-sections`, and pruned.
fn compare(corpus: &Corpus, options: &Options, link: &Link, linker: &str) -> Result<[u64; 3]> {
    let behind = if link.is_bitcode() { link.lld()? } else { find_linker(linker)? };
    let scratch = corpus.scratch(&format!("check/{}-{}-{linker}", link.program, link.mode))?;
    let [plain, pruned] = link_pair(corpus, link, &options.level, &behind, &scratch)?;
    let expected = transcript(corpus, link, &plain, &scratch)?;
    if expected.0 != 0 {
        let errors = String::from_utf8_lossy(&expected.2).into_owned();
        return Err(format!("the plain program fails its check, status {}\n{errors}", expected.0).into());
    }
    let got = transcript(corpus, link, &pruned, &scratch)?;
    if got.0 != 0 {
        return Err(format!("pruned: status {}\n{}", got.0, String::from_utf8_lossy(&got.2)).into());
    }
    if got != expected {
        let [a, b] =
            [expected, got].map(|(_, out, err)| String::from_utf8_lossy(&[out, err].concat()).into_owned());
        let differs = a.lines().zip(b.lines()).find(|(a, b)| a != b);
        return Err(format!("plain and pruned differ first at {differs:?}").into());
    }
    let gc = scratch.join("gc");
    run_ok(driver_command(link, &scratch.join("bin"), &gc)?.arg("-Wl,--gc-sections"), &scratch)?;
    Ok([text_size(&plain)?, text_size(&gc)?, text_size(&pruned)?])
}

/// The command. True if every pair agrees.
pub(crate) fn run(corpus: &Corpus, options: &Options) -> Result<bool> {
    let linkers = options.linkers_or(&["lld", "mold", "bfd", "gold"]);
    let links = &corpus.links;
    let results = parallel(options.jobs, links.len() * linkers.len(), |job| {
        let (link, linker) = (&links[job / linkers.len()], &linkers[job % linkers.len()]);
        if link.is_bitcode() && linker != "lld" {
            return None;
        }
        let result = compare(corpus, options, link, linker);
        eprintln!("{} {linker}: {}", link.name(), if result.is_ok() { "same" } else { "FAILED" });
        Some(result)
    });
    let mut table = Table::new(&format!("program | `.text` | with gc | pruned | {}", linkers.join(" | ")));
    let mut good = true;
    for (link, results) in links.iter().zip(results.chunks(linkers.len())) {
        let sizes = results.iter().flatten().find_map(|result| result.as_ref().ok());
        let mut cells = vec![link.name()];
        cells.extend(sizes.unwrap_or(&[0; 3]).map(count));
        for (linker, result) in linkers.iter().zip(results) {
            cells.push(match result {
                Some(Ok(_)) => "same".to_owned(),
                None => String::new(),
                Some(Err(e)) => {
                    println!("FAILED {} {linker}: {e}", link.name());
                    good = false;
                    "**differs**".to_owned()
                }
            });
        }
        table.row(&cells);
    }
    let body = format!(
        "Functional check of the pruned program (`--prune-level={} --prune-strict`) and of the plain one, linked by each linker through the \
         compiler driver. Sizes are of the first linker: plain, with `--gc-sections`, and pruned.\n\n{}",
        options.level,
        table.as_str()
    );
    publish(good, corpus, options, ("check", "Plain and pruned programs behave alike"), &body)
}
