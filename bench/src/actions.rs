//! `bench actions`: each link in actions (docs/ACTIONS.md), and whether that gives the bytes of one command.
//!
//! Every object and archive of a link has an interface, those of the system too. The plan is made in an empty folder, where no object of the link is.
//! The link is strict: it fails if it had to emit an object itself.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::corpus::{Corpus, Link};
use crate::links::cost;
use crate::lto::linker;
use crate::process::{Finished, run_ok};
use crate::table::{Table, count, publish_good};
use crate::{Options, Result};

/// The objects and archives that lld opens in this link, as its dependency file has them.
fn files(corpus: &Corpus, link: &Link, lld: &Path, scratch: &Path) -> Result<Vec<String>> {
    let deps = scratch.join("deps");
    let mut command = corpus.linker_command(link, lld, &scratch.join("plain"));
    run_ok(command.arg("--dependency-file").arg(&deps), scratch)?;
    let text = std::fs::read_to_string(deps)?;
    let (_, rest) = text.split_once(": ").ok_or("a dependency file without a rule")?;
    let list = rest.split("\n\n").next().unwrap_or_default();
    let words = list.split_whitespace().filter(|word| *word != "\\");
    let mut found: Vec<String> =
        words.filter(|word| is_object(&link.dir.join(word))).map(str::to_owned).collect();
    found.sort();
    found.dedup();
    Ok(found)
}

/// Whether a file is a relocatable object, an archive or LLVM bitcode.
fn is_object(path: &Path) -> bool {
    let bytes = std::fs::read(path).unwrap_or_default();
    let is_relocatable = bytes.starts_with(b"\x7fELF") && bytes.get(16) == Some(&1);
    is_relocatable
        || bytes.starts_with(b"!<arch>\n")
        || bytes.starts_with(b"!<thin>\n")
        || bytes.starts_with(b"BC")
}

/// The size of all files below a folder, in bytes.
fn size_below(dir: &Path) -> Result<u64> {
    let mut size = 0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        size +=
            if entry.file_type()?.is_dir() { size_below(&entry.path())? } else { entry.metadata()?.len() };
    }
    Ok(size)
}

fn millis(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1e3)
}

/// The cells of a link's row.
fn measure(corpus: &Corpus, options: &Options, link: &Link, ours: &Path) -> Result<Vec<String>> {
    let scratch = corpus.scratch(&format!("actions/{}-{}", link.program, link.mode))?;
    let lld = linker(link)?;
    let files = files(corpus, link, &lld, &scratch)?;
    let [interfaces, emitted, nowhere] = ["interfaces", "emitted", "nowhere"].map(|name| scratch.join(name));
    for dir in [&interfaces, &nowhere] {
        std::fs::create_dir(dir)?;
    }
    let option = |name: &str, dir: &Path| format!("--prune-{name}={}", dir.display());
    let pruned = |output: &str| {
        let mut command = corpus.linker_command(link, ours, &scratch.join(output));
        command.env("LTO_PRUNE_LINKER", &lld).env_remove("LTO_PRUNE_FLAGS").arg("--prune-no-cache");
        command
    };
    let mut summarize = Command::new(&corpus.pruner);
    summarize.current_dir(&link.dir).args(["summarize", "--interface", "-o"]).arg(&interfaces).args(&files);
    let mut plan = pruned("planned");
    plan.current_dir(&nowhere).args([option("interfaces", &interfaces), option("plan", &interfaces)]);
    let mut linked = pruned("linked");
    linked.args([option("interfaces", &interfaces), option("emitted", &emitted)]).arg("--prune-strict");
    let mut emits: Vec<(Command, PathBuf)> = Vec::new();
    for file in &files {
        let relative = normal(file);
        let output = emitted.join(&relative);
        let mut emit = Command::new(&corpus.pruner);
        emit.current_dir(&link.dir).arg("emit").arg(file).arg("-o").arg(&output);
        emit.arg(format!("--plan={}.ltoplan", interfaces.join(&relative).display()));
        emits.push((emit, output));
    }
    let mut single = pruned("single");
    let mut runs: [Vec<Finished>; 4] = Default::default();
    let mut emission: Vec<Duration> = Vec::new();
    for round in 0..=options.runs {
        let summarized = run_ok(&mut summarize, &scratch)?;
        let planned = run_ok(&mut plan, &scratch)?;
        let mut total = Duration::ZERO;
        for (emit, output) in &mut emits {
            std::fs::create_dir_all(output.parent().unwrap_or(&emitted))?;
            total += run_ok(emit, &scratch)?.wall;
        }
        let done = [summarized, planned, run_ok(&mut linked, &scratch)?, run_ok(&mut single, &scratch)?];
        if round > 0 {
            emission.push(total);
            runs.iter_mut().zip(done).for_each(|(runs, done)| runs.push(done));
        }
    }
    if std::fs::read(scratch.join("linked"))? != std::fs::read(scratch.join("single"))? {
        return Err(format!("{}: the actions give another program than one command", link.name()).into());
    }
    emission.sort_unstable();
    let size: u64 =
        files.iter().map(|file| std::fs::metadata(link.dir.join(file)).map_or(0, |meta| meta.len())).sum();
    // The plans lie beside the interfaces.
    let plans: u64 = emits
        .iter()
        .map(|(_, output)| {
            let plan = output
                .strip_prefix(&emitted)
                .map(|path| interfaces.join(path).display().to_string() + ".ltoplan");
            plan.ok().and_then(|plan| std::fs::metadata(plan).ok()).map_or(0, |meta| meta.len())
        })
        .sum();
    let [summarized, planned, linked, single] = runs.each_ref().map(|runs| millis(cost(runs).wall));
    Ok(vec![
        link.name(),
        files.len().to_string(),
        count(size),
        count(size_below(&interfaces)? - plans),
        count(plans),
        summarized,
        planned,
        millis(emission.get(emission.len() / 2).copied().unwrap_or_default()),
        linked,
        single,
    ])
}

/// The path below a folder of what is made ahead for a file.
fn normal(file: &str) -> PathBuf {
    file.split('/').filter(|part| !part.is_empty() && *part != ".").collect()
}

/// The command. True unless a link failed, or is another one in actions.
pub(crate) fn run(corpus: &Corpus, options: &Options) -> Result<bool> {
    let ours = corpus.shims()?.join("ld.lto-prune");
    let mut table = Table::new(&[
        "link",
        "files",
        "their bytes",
        "of interfaces",
        "of plans",
        "summarise, ms",
        "plan, ms",
        "emit, ms",
        "link, ms",
        "one command, ms",
    ]);
    let good = table.links(corpus, |link| measure(corpus, options, link, &ours));
    let body = format!(
        "Each link in actions, lld behind, at the default level without a cache; medians of {} runs. *summarise* is one process for all files, *emit* a process \
         for each, one after the other. Every output is the same bytes as that of one command; the plan is made in a folder without any of the objects.\n\n{}",
        options.runs,
        table.as_str()
    );
    publish_good(good, corpus, options, "actions", "A link in actions", &body)
}
