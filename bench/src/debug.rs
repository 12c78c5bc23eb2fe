//! `bench debug`: bytes of debug information at the default level and with `--prune-debug=shrink`, and the time of the link.
//!
//! Sizes are of all sections `.debug_*`. llvm-dwarfutil collects the program of the default level after the link. It also removes entries
//! of kept functions with several ranges (gcc's `.cold` parts), so that its sizes are too small there. Times are without a cache.

use std::fs;
use std::path::Path;
use std::process::Command;

use object::{Object, ObjectSection};

use crate::corpus::{Corpus, Link, find_linker};
use crate::process::{in_turn, run_ok};
use crate::table::{Table, count, publish};
use crate::{Options, Result};

const COLLECTOR: &str = "llvm-dwarfutil-19";

/// The bytes of the debug sections of a linked file, and those of the file.
fn sizes(path: &Path) -> Result<(u64, u64)> {
    let data = fs::read(path)?;
    let is_debug =
        |section: &object::Section<'_, '_>| section.name().is_ok_and(|name| name.starts_with(".debug_"));
    let debug = object::File::parse(&*data)?.sections().filter(is_debug).map(|section| section.size()).sum();
    Ok((debug, data.len() as u64))
}

fn measure(corpus: &Corpus, options: &Options, link: &Link) -> Result<Vec<String>> {
    let scratch = corpus.scratch(&format!("debug/{}-{}", link.program, link.mode))?;
    let lld = find_linker("lld")?;
    let pruned = |name: &str, flags: &[&str]| {
        let mut command = corpus.pruned_command(link, &lld, &scratch.join(name));
        command.args(["--prune-no-cache", "--prune-strict"]).args(flags);
        command
    };
    let mut commands = [
        corpus.linker_command(link, &lld, &scratch.join("plain")),
        pruned("default", &[]),
        pruned("shrink", &["--prune-debug=shrink"]),
    ];
    let times = in_turn(&mut commands, options.runs, &scratch, |_| Ok(()))?.map(|cost| cost.ms);
    let mut collector = Command::new(COLLECTOR);
    collector.args(["--garbage-collection", "--no-odr-deduplication"]);
    run_ok(collector.arg(scratch.join("default")).arg(scratch.join("collected")), &scratch)?;
    let size = |name: &str| sizes(&scratch.join(name));
    let ((plain, _), (default, _)) = (size("plain")?, size("default")?);
    let ((shrunk, shrunk_file), (collected, collected_file)) = (size("shrink")?, size("collected")?);
    let percent = |of: u64| format!("{:+.1}%", (of as f64 / plain as f64 - 1.0) * 100.0);
    let mut cells = vec![link.name()];
    cells.extend([plain, default, shrunk, collected].map(count));
    cells.extend([percent(default), percent(shrunk)]);
    cells.push(format!("{:.3}", shrunk as f64 / collected as f64));
    cells.push(format!("{:.3}", shrunk_file as f64 / collected_file as f64));
    cells.extend(times.map(|time| format!("{time:.1}")));
    cells.push(format!("{:.2}", times[2] / times[1]));
    Ok(cells)
}

/// The command. True unless a link failed.
pub(crate) fn run(corpus: &Corpus, options: &Options) -> Result<bool> {
    let mut table = Table::new(
        "link | lld | default | `shrink` | llvm-dwarfutil | default saves | `shrink` saves | to llvm-dwarfutil | file to file | lld (ms) | default (ms) | `shrink` (ms) | ratio",
    );
    let good = table.links(&corpus.links, |link| measure(corpus, options, link));
    let body = format!(
        "Bytes of all debug sections, linked by lld alone, with lto-prune at the default level, and with `--prune-debug=shrink`; then of the program of the \
         default level after `{COLLECTOR} --garbage-collection --no-odr-deduplication`. Times of the linker step without a cache, medians of {} runs; the \
         ratio is `shrink` to default.\n\n{}",
        options.runs,
        table.as_str()
    );
    publish(good, corpus, options, ("debug", "Debug information"), &body)
}
