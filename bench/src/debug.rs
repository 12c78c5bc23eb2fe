//! `bench debug`: the size of debug information at the default level and with `--prune-debug=shrink`, and the time of the link.
//!
//! Sizes are of all sections `.debug_*`. llvm-dwarfutil collects the program of the default level by the same rules after the link. It
//! also removes the entries of kept functions that have several ranges (gcc's `.cold` parts), so that its sizes are too small there.
//! Times are of the linker step without a cache: the runs take turns, and the median counts.

use std::fs;
use std::path::Path;
use std::process::Command;

use object::{Object, ObjectSection};

use crate::corpus::{Corpus, Link, find_linker};
use crate::links::cost;
use crate::process::{Finished, run_ok};
use crate::table::{Table, count, publish_good};
use crate::{Options, Result};

const COLLECTOR: &str = "llvm-dwarfutil-19";

/// The bytes of the debug sections of a linked file, and those of the file.
fn sizes(path: &Path) -> Result<(u64, u64)> {
    let data = fs::read(path)?;
    let file = object::File::parse(&*data)?;
    let is_debug =
        |section: &object::Section<'_, '_>| section.name().is_ok_and(|name| name.starts_with(".debug_"));
    let debug = file.sections().filter(is_debug).map(|section| section.size()).sum();
    Ok((debug, data.len() as u64))
}

/// The cells of a link's row.
fn measure(corpus: &Corpus, options: &Options, link: &Link) -> Result<Vec<String>> {
    let scratch = corpus.scratch(&format!("debug/{}-{}", link.program, link.mode))?;
    let (lld, ours) = (find_linker("lld")?, corpus.shims()?.join("ld.lto-prune"));
    let contestant = |linker: &Path, name: &str, flags: &[&str]| {
        let mut command = corpus.linker_command(link, linker, &scratch.join(name));
        command.args(flags).env("LTO_PRUNE_LINKER", &lld).env_remove("LTO_PRUNE_FLAGS");
        command
    };
    let strict = ["--prune-no-cache", "--prune-strict"];
    let mut contestants = [
        contestant(&lld, "plain", &[]),
        contestant(&ours, "default", &strict),
        contestant(&ours, "shrink", &[strict[0], strict[1], "--prune-debug=shrink"]),
    ];
    let mut runs: [Vec<Finished>; 3] = Default::default();
    for round in 0..=options.runs {
        for (command, results) in contestants.iter_mut().zip(&mut runs) {
            let done = run_ok(command, &scratch)?;
            if round > 0 {
                results.push(done);
            }
        }
    }
    let mut collector = Command::new(COLLECTOR);
    collector.args(["--garbage-collection", "--no-odr-deduplication"]);
    run_ok(collector.arg(scratch.join("default")).arg(scratch.join("collected")), &scratch)?;
    let size = |name: &str| sizes(&scratch.join(name));
    let ((plain, _), (default, _)) = (size("plain")?, size("default")?);
    let ((shrunk, shrunk_file), (collected, collected_file)) = (size("shrink")?, size("collected")?);
    let times = runs.each_ref().map(|r| cost(r).wall.as_secs_f64() * 1e3);
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

/// The command. True unless a link failed, or has more debug information than the plain one.
pub(crate) fn run(corpus: &Corpus, options: &Options) -> Result<bool> {
    let mut table = Table::new(&[
        "link",
        "lld",
        "default",
        "`shrink`",
        "llvm-dwarfutil",
        "default saves",
        "`shrink` saves",
        "to llvm-dwarfutil",
        "file to file",
        "lld (ms)",
        "default (ms)",
        "`shrink` (ms)",
        "ratio",
    ]);
    let good = table.links(corpus, |link| measure(corpus, options, link));
    let body = format!(
        "Bytes of all debug sections, linked by lld alone, by lld behind lto-prune at the default level, and there with `--prune-debug=shrink`; then what \
         `{COLLECTOR} --garbage-collection --no-odr-deduplication` leaves of the program of the default level. Times of the linker step without a cache, medians \
         of {} runs; the ratio is `shrink` to default.\n\n{}",
        options.runs,
        table.as_str()
    );
    publish_good(good, corpus, options, "debug", "Debug information", &body)
}
