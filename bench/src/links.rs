//! `bench links`: what a link costs with lto-prune in front of lld, beside lld alone, and what it saves.
//!
//! The linker step alone is timed, not the compiler driver. The contestants take turns within each round, so that
//! a machine that slows down slows all of them; the first round warms the page cache and isn't counted. The median
//! is reported: a link has no lucky runs, only disturbed ones.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::corpus::{Corpus, Link, find_linker};
use crate::process::{Finished, run_ok};
use crate::symbols::text_size;
use crate::table::{Table, count, publish_good};
use crate::{Options, Result};

/// Median time and largest peak of several runs.
struct Cost {
    wall: Duration,
    peak_kib: u64,
}

fn cost(runs: &[Finished]) -> Cost {
    let mut walls: Vec<Duration> = runs.iter().map(|r| r.wall).collect();
    walls.sort_unstable();
    Cost {
        wall: walls.get(walls.len() / 2).copied().unwrap_or_default(),
        peak_kib: runs.iter().map(|r| r.peak_kib).max().unwrap_or(0),
    }
}

/// Measure one link; the cells of its row.
fn measure(corpus: &Corpus, options: &Options, link: &Link, lld: &Path, ours: &Path) -> Result<Vec<String>> {
    let scratch = corpus.scratch(&format!("links/{}-{}", link.program, link.mode))?;
    let cache = scratch.join("cache");
    let pruned = |output: &str, flags: &[&str]| -> Command {
        let mut command = corpus.linker_command(link, ours, &scratch.join(output));
        command.env("LTO_PRUNE_LINKER", lld).env_remove("LTO_PRUNE_FLAGS").args(flags);
        command
    };
    let cached = format!("--prune-cache={}", cache.display());
    let mut contestants = [
        corpus.linker_command(link, lld, &scratch.join("plain")),
        pruned("functions", &["--prune-no-cache", "--prune-level=functions"]),
        pruned("cold", &["--prune-no-cache"]),
        pruned("warm", &[&cached]),
    ];
    let mut runs: [Vec<Finished>; 4] = Default::default();
    for round in 0..=options.runs {
        for (command, results) in contestants.iter_mut().zip(&mut runs) {
            let done = run_ok(command, &scratch)?;
            if round > 0 {
                results.push(done);
            }
        }
    }
    let mut gc = corpus.linker_command(link, lld, &scratch.join("gc"));
    run_ok(gc.arg("--gc-sections"), &scratch)?;

    let [plain, functions, cold, warm] = runs.each_ref().map(|r| cost(r));
    let ms = |c: &Cost| format!("{:.1}", c.wall.as_secs_f64() * 1e3);
    let mb = |c: &Cost| format!("{:.1}", c.peak_kib as f64 / 1024.0);
    let ratio = |c: &Cost| format!("{:.2}", c.wall.as_secs_f64() / plain.wall.as_secs_f64());
    Ok(vec![
        link.name(),
        ms(&plain),
        ms(&cold),
        ratio(&cold),
        format!("{:.2}", cold.wall.as_secs_f64() / functions.wall.as_secs_f64()),
        ms(&warm),
        ratio(&warm),
        mb(&plain),
        mb(&cold),
        mb(&warm),
        count(text_size(&scratch.join("plain"))?),
        count(text_size(&scratch.join("gc"))?),
        count(text_size(&scratch.join("cold"))?),
    ])
}

/// The command. True unless a link failed.
pub(crate) fn run(corpus: &Corpus, options: &Options) -> Result<bool> {
    let lld = find_linker("lld")?;
    let ours = corpus.shims()?.join("ld.lto-prune");
    let mut table = Table::new(&[
        "link",
        "lld, ms",
        "ours, no cache, ms",
        "ratio",
        "to functions",
        "ours, cache, ms",
        "ratio",
        "lld, MiB",
        "ours, no cache, MiB",
        "ours, cache, MiB",
        "`.text` lld",
        "`.text` lld gc",
        "`.text` ours",
    ]);
    let good = table.links(corpus, |link| measure(corpus, options, link, &lld, &ours));
    let body = format!(
        "Wall time (median of {} interleaved runs) and peak memory (`ru_maxrss`, largest of the process tree) of the \
         linker step; ours at the default level with lld behind, without a summary cache and with a warm one; *to functions*: its time without a cache, \
         beside that at `--prune-level=functions`.\n\n{}",
        options.runs,
        table.as_str()
    );
    publish_good(good, corpus, options, "links", "What a link costs", &body)
}
