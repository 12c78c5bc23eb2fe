//! `bench propagate`: what propagation at the level `pointers` costs, beside the linker on the same arguments.
//!
//! Summaries come from a cache, so that passes before it don't disturb; rounds are interleaved and medians are reported. The
//! counts are of one more link, with a report: they don't depend on the run.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::corpus::{Corpus, Link, find_linker};
use crate::process::run_ok;
use crate::table::{Table, count, publish_good};
use crate::{Options, Result};

pub(crate) fn median(mut times: Vec<f64>) -> f64 {
    times.sort_unstable_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// Milliseconds of a pass, from what `--prune-time` printed.
pub(crate) fn pass(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find(|l| l.split_whitespace().last() == Some(name))?;
    line.split_whitespace().next()?.parse().ok()
}

fn measure(corpus: &Corpus, options: &Options, link: &Link, ours: &Path) -> Result<Vec<String>> {
    let lld = find_linker("lld")?;
    let scratch = corpus.scratch(&format!("propagate/{}-{}", link.program, link.mode))?;
    let cache = format!("--prune-cache={}", scratch.join("cache").display());
    let pruned = |last: &str| -> Command {
        let mut command = corpus.linker_command(link, ours, &scratch.join("pruned"));
        command.env("LTO_PRUNE_LINKER", &lld).env_remove("LTO_PRUNE_FLAGS");
        command.args(["--prune-level=pointers", "--prune-gate=0", &cache, last]);
        command
    };
    let report = scratch.join("report.json");
    run_ok(&mut pruned(&format!("--prune-report={}", report.display())), &scratch)?;
    let report = crate::report::read(&report)?;
    let (mut propagation, mut linker) = (Vec::new(), Vec::new());
    for _ in 0..options.runs {
        run_ok(&mut pruned("--prune-time"), &scratch)?;
        let times = fs::read_to_string(scratch.join("stderr"))?;
        propagation.push(pass(&times, "propagate").ok_or("no time of propagation")?);
        let done = run_ok(&mut corpus.linker_command(link, &lld, &scratch.join("plain")), &scratch)?;
        linker.push(done.wall.as_secs_f64() * 1e3);
    }
    let (flow, code) = (&report["value_flow"], &report["live_code"]);
    let number = |name: &str| count(flow[name].as_u64().unwrap_or(0));
    let (propagation, linker) = (median(propagation), median(linker));
    Ok(vec![
        link.name(),
        format!("{linker:.1}"),
        format!("{propagation:.1}"),
        format!("{:.2}", propagation / linker),
        count(code["live"].as_u64().unwrap_or(0)),
        count(code["by_mentions"].as_u64().unwrap_or(0)),
        number("stubs"),
        number("constraints"),
        number("nodes"),
        number("steps"),
        number("joined_objects"),
        flow["given_up"].as_str().unwrap_or("?").to_owned(),
    ])
}

pub(crate) fn run(corpus: &Corpus, options: &Options) -> Result<bool> {
    let mut table = Table::new(&[
        "link",
        "linker ms",
        "propagation ms",
        "ratio",
        "live code",
        "by mentions alone",
        "stubs",
        "constraints",
        "nodes",
        "steps",
        "joined objects",
        "given up",
    ]);
    let ours = corpus.shims()?.join("ld.lto-prune");
    let good = table.links(corpus, |link| measure(corpus, options, link, &ours));
    publish_good(good, corpus, options, "propagate", "What propagation costs", table.as_str())
}
