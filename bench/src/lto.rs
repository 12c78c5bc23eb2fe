//! `bench lto`: programs of LLVM bitcode, in every form in which it reaches a linker, linked by lld alone and pruned.
//!
//! The modes are those of `build.sh --lto`. Both programs pass the same check, and ours is never larger. Where all bitcode has summaries,
//! the passes of lto-prune that read and decide stand beside `ld.lld --thinlto-index-only` on the same modules: it reads and joins
//! summaries too, as a whole process, and makes no code. What writing the pruned objects takes besides stands in columns of its own. Left out: other linkers, behind which bitcode isn't pruned.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::check::{link_pair, same_behaviour};
use crate::corpus::{Corpus, Link, find_linker, rust_linker};
use crate::process::{pass, run, run_ok};
use crate::symbols::text_size;
use crate::table::{Table, count, publish};
use crate::{Options, Result};

/// Passes of lto-prune that read and decide, as `--prune-time` names them.
const THIN_LINK: [&str; 6] = ["load", "resolve", "summarise", "index", "propagate", "plan"];

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_unstable_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// What a link is made of.
struct Made {
    bitcode: usize,
    native: usize,
    stubs: u64,
    pruned: bool,
    /// Names of the limits because of which the link wasn't pruned.
    limits: String,
}

fn made(report: &Path) -> Result<Made> {
    let report = crate::report::read(report)?;
    let list = |name: &str| report[name].as_array().cloned().unwrap_or_default();
    let limits = list("limits");
    let bitcode = list("modules").iter().filter(|m| m["kind"] == "bitcode").count();
    let stubs = report["functions"]["stubs"].as_u64().unwrap_or_default();
    let mut refusals: Vec<String> = limits
        .iter()
        .filter(|l| l["severity"] == "link")
        .filter_map(|l| l["limit"].as_str().map(str::to_owned))
        .collect();
    refusals.dedup();
    Ok(Made {
        bitcode,
        native: list("modules").len().saturating_sub(bitcode),
        stubs,
        pruned: report["pruned"] == Value::Bool(true),
        limits: refusals.join(", "),
    })
}

/// A copy of the folder of a link: lld writes an index beside each module.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// Medians of interleaved runs, in milliseconds.
struct Times {
    /// Our thin link without a summary cache.
    cold: f64,
    /// Our thin link with a warm summary cache.
    warm: f64,
    /// Our pruned objects, without a summary cache.
    emission: f64,
    /// lld's thin link, as a whole process.
    index_only: f64,
}

/// Measure both ways to our thin link beside lld's; the first round fills the caches and doesn't count.
fn thin_link(corpus: &Corpus, options: &Options, link: &Link, lld: &Path, scratch: &Path) -> Result<Times> {
    let here = Link { dir: scratch.join("thin"), ..link.clone() };
    copy(&link.dir, &here.dir)?;
    let cache = format!("--prune-cache={}", scratch.join("cache").display());
    let passes = |cache: &str| -> Result<(f64, f64)> {
        let mut command = corpus.linker_command(&here, &corpus.pruner, &scratch.join("timed"));
        command.env("LTO_PRUNE_LINKER", lld).env_remove("LTO_PRUNE_FLAGS");
        command.arg0("ld.lto-prune").args([cache, "--prune-time"]);
        // Code generation is not timed.
        command.arg(format!("--thinlto-cache-dir={}", scratch.join("code").display()));
        command.arg(format!("--prune-level={}", options.level));
        run_ok(&mut command, scratch)?;
        let text = fs::read_to_string(scratch.join("stderr"))?;
        let time = |name: &str| pass(&text, name);
        let thin_link = THIN_LINK.iter().map(|name| time(name)).sum::<std::result::Result<f64, _>>()?;
        Ok((thin_link, time("emit")?))
    };
    let (mut cold, mut warm, mut emission, mut index_only) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..=options.runs {
        let ((without, emit), (with, _)) = (passes("--prune-no-cache")?, passes(&cache)?);
        let mut command = corpus.linker_command(&here, lld, &scratch.join("index"));
        command.arg("--thinlto-index-only");
        let done = run(&mut command, &scratch.join("stdout"), &scratch.join("stderr"))?;
        if done.status != 0 {
            return Err(format!("--thinlto-index-only: status {}", done.status).into());
        }
        if round > 0 {
            cold.push(without);
            warm.push(with);
            emission.push(emit);
            index_only.push(done.wall.as_secs_f64() * 1e3);
        }
    }
    let [cold, warm, emission, index_only] = [cold, warm, emission, index_only].map(median);
    Ok(Times { cold, warm, emission, index_only })
}

/// The lld that reads the bitcode of a program, and the objects of its compiler.
pub(crate) fn linker(link: &Link) -> Result<PathBuf> {
    if link.program == "hexyl" { rust_linker() } else { find_linker("lld") }
}

fn measure(corpus: &Corpus, options: &Options, link: &Link, shims: &Path) -> Result<(Vec<String>, bool)> {
    let lld = linker(link)?;
    let scratch = corpus.scratch(&format!("lto/{}-{}", link.program, link.mode))?;
    let pair = link_pair(link, &options.level, &lld, shims, &scratch)?;
    let same = same_behaviour(corpus, link, &pair, &scratch);
    let (plain, pruned) = (text_size(&pair.plain)?, text_size(&pair.pruned)?);
    let made = made(&pair.report)?;
    let times: [String; 7] = if made.bitcode > 0 && link.mode != "lto-full" {
        let Times { cold, warm, emission, index_only } = thin_link(corpus, options, link, &lld, &scratch)?;
        let [of_cold, of_warm, of_both] =
            [cold, warm, cold + emission].map(|t| format!("{:.2}", t / index_only));
        let [cold, warm, emission, index_only] =
            [cold, warm, emission, index_only].map(|t| format!("{t:.1}"));
        [cold, warm, emission, index_only, of_cold, of_warm, of_both]
    } else {
        Default::default()
    };
    if let Err(e) = &same {
        eprintln!("{}: {e}", link.name());
    }
    let good = same.is_ok() && pruned <= plain;
    let mut row = vec![
        link.name(),
        count(made.bitcode as u64),
        count(made.native as u64),
        if same.is_ok() { "same" } else { "**differs**" }.to_owned(),
        if made.pruned { "yes".to_owned() } else { format!("no: {}", made.limits) },
        count(plain),
        count(pruned),
        count(made.stubs),
    ];
    row.extend(times);
    Ok((row, good))
}

/// The command. True if all agree and none is larger.
pub(crate) fn run_all(corpus: &Corpus, options: &Options) -> Result<bool> {
    let shims = corpus.shims()?;
    let mut good = true;
    let mut table = Table::new(&[
        "link",
        "bitcode",
        "native",
        "check",
        "pruned",
        "`.text` lld",
        "`.text` ours",
        "stubs",
        "our thin link, ms",
        "cached, ms",
        "emission, ms",
        "index only, ms",
        "ratio",
        "ratio cached",
        "ratio with emission",
    ]);
    let linked = table.links(corpus, |link| {
        let (row, fine) = measure(corpus, options, link, &shims)?;
        good &= fine;
        Ok(row)
    });
    let body = format!(
        "Programs of LLVM bitcode linked through the compiler driver by lld alone and pruned \
         (`--prune-level={} --prune-strict`), and their functional check. Modules that are loaded are counted, start files too. Times are medians \
         of {} interleaved runs: our thin link is all that reads and decides, by `--prune-time`, without a summary cache and with a warm one; emission writes the pruned objects; `--thinlto-index-only` is a whole process.\n\n{}",
        options.level,
        options.runs,
        table.as_str()
    );
    publish(corpus, options, "lto", "Programs of LLVM bitcode", &body)?;
    Ok(good && linked)
}
