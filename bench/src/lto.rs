//! `bench lto`: programs of LLVM bitcode, in every form in which it reaches a linker, linked by lld alone and pruned.
//!
//! The modes are those of `build.sh --lto`. Both programs pass the same check, and ours is never larger. If the bitcode has summaries, the linker
//! step is timed with lto-prune at its default level and with lld alone. Each is timed with an empty cache of generated code, and again with a full one.
//! Other linkers are not measured, because bitcode is not pruned for them.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::check::{link_pair, same_behaviour};
use crate::corpus::{Corpus, Link, find_linker, rust_linker};
use crate::process::run_ok;
use crate::symbols::text_size;
use crate::table::{Table, count, publish};
use crate::{Options, Result};

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

/// So many rounds with an empty cache: code generation takes longest, and as long for both.
const COLD_ROUNDS: usize = 3;

/// The cells of a row: the time of lld alone and of ours in milliseconds, and their ratio. The first three are with an empty cache of
/// generated code, the others with a full one. Ours is at the default level.
fn thin_links(
    corpus: &Corpus,
    options: &Options,
    link: &Link,
    lld: &Path,
    scratch: &Path,
) -> Result<[String; 6]> {
    let ours = corpus.shims()?.join("ld.lto-prune");
    let time = |linker: &Path, name: &str, is_cold: bool| -> Result<f64> {
        let code = scratch.join(format!("code-{name}"));
        if is_cold {
            let _ = fs::remove_dir_all(&code);
        }
        let mut command = corpus.linker_command(link, linker, &scratch.join(name));
        command.env("LTO_PRUNE_LINKER", lld).env_remove("LTO_PRUNE_FLAGS");
        command.env("XDG_CACHE_HOME", scratch.join("summaries"));
        command.arg(format!("--thinlto-cache-dir={}", code.display()));
        Ok(run_ok(&mut command, scratch)?.wall.as_secs_f64() * 1e3)
    };
    let mut cells = Vec::new();
    for (rounds, is_cold) in [(COLD_ROUNDS, true), (options.runs, false)] {
        let (mut alone, mut pruned) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            alone.push(time(lld, "alone", is_cold)?);
            pruned.push(time(&ours, "ours", is_cold)?);
        }
        let [alone, pruned] = [alone, pruned].map(median);
        cells.extend([format!("{alone:.1}"), format!("{pruned:.1}"), format!("{:.2}", pruned / alone)]);
    }
    cells.try_into().map_err(|_| "six cells".into())
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
    let times = match made.bitcode > 0 && link.mode != "lto-full" {
        true => thin_links(corpus, options, link, &lld, &scratch)?,
        false => Default::default(),
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
        "lld, empty cache, ms",
        "ours, ms",
        "ratio",
        "lld again, ms",
        "ours, ms",
        "ratio",
    ]);
    let linked = table.links(corpus, |link| {
        let (row, fine) = measure(corpus, options, link, &shims)?;
        good &= fine;
        Ok(row)
    });
    let body = format!(
        "Programs of LLVM bitcode linked through the compiler driver by lld alone and pruned \
         (`--prune-level={} --prune-strict`), and their functional check. Modules that are loaded are counted, start files too. Times are of \
         links at the default level beside lld alone, with an empty cache of generated code (median of {COLD_ROUNDS} interleaved runs) and again with a full one (of {}).\n\n{}",
        options.level,
        options.runs,
        table.as_str()
    );
    publish(corpus, options, "lto", "Programs of LLVM bitcode", &body)?;
    Ok(good && linked)
}
