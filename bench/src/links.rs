//! `bench links`: what a link costs with lto-prune in front of lld, beside lld alone, and what it saves.
//!
//! The linker step alone is timed, not the compiler driver. The contestants take turns within each round, so that
//! a machine that slows down slows all of them; the first round warms the page cache and isn't counted. The median
//! is reported: a link has no lucky runs, only disturbed ones.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::corpus::{Corpus, Link, find_linker};
use crate::process::{Finished, run_ok};
use crate::symbols::text_size;
use crate::table::{Table, count, publish_good};
use crate::{Options, Result};

/// Median time and largest peak of several runs.
pub(crate) struct Cost {
    pub(crate) wall: Duration,
    pub(crate) peak_kib: u64,
}

pub(crate) fn cost(runs: &[Finished]) -> Cost {
    let mut walls: Vec<Duration> = runs.iter().map(|r| r.wall).collect();
    walls.sort_unstable();
    Cost {
        wall: walls.get(walls.len() / 2).copied().unwrap_or_default(),
        peak_kib: runs.iter().map(|r| r.peak_kib).max().unwrap_or(0),
    }
}

/// A link in which one object is another one each time: of those on the line the middle one by size.
struct RelinkedProgram {
    link: Link,
    original: Vec<u8>,
    copy: PathBuf,
}

impl RelinkedProgram {
    fn of(link: &Link, scratch: &Path) -> Result<Self> {
        let is_object = |word: &&String| !word.starts_with('/') && word.ends_with(".o");
        let size = |word: &String| std::fs::metadata(link.dir.join(word)).map_or(0, |meta| meta.len());
        let mut objects: Vec<&String> = link.linker_args.iter().filter(is_object).collect();
        objects.sort_by_key(|word| size(word));
        let middle = objects.len().saturating_sub(1) / 2;
        let object = (*objects.get(middle).ok_or("no object on the line")?).clone();
        let mut changed = link.clone();
        let copy = scratch.join("changed.o");
        let words = changed.linker_args.iter_mut().filter(|word| **word == object);
        words.for_each(|word| *word = copy.display().to_string());
        Ok(RelinkedProgram { link: changed, original: std::fs::read(link.dir.join(object))?, copy })
    }

    /// Make it another one: bytes behind its end mean nothing.
    fn again(&self, round: usize) -> Result<()> {
        Ok(std::fs::write(&self.copy, [self.original.as_slice(), &vec![0; round + 1]].concat())?)
    }
}

/// Measure one link; the cells of its row.
fn measure(corpus: &Corpus, options: &Options, link: &Link, lld: &Path, ours: &Path) -> Result<Vec<String>> {
    let scratch = corpus.scratch(&format!("links/{}-{}", link.program, link.mode))?;
    let changed = RelinkedProgram::of(link, &scratch)?;
    let pruned = |link: &Link, output: &str, caches: &str| -> Command {
        let mut command = corpus.linker_command(link, ours, &scratch.join(output));
        command.env("LTO_PRUNE_LINKER", lld).env_remove("LTO_PRUNE_FLAGS");
        command.env("XDG_CACHE_HOME", scratch.join(caches));
        command
    };
    let mut functions = pruned(link, "functions", "");
    functions.args(["--prune-no-cache", "--prune-level=functions"]);
    let mut contestants = [
        corpus.linker_command(link, lld, &scratch.join("plain")),
        functions,
        pruned(link, "cold", "empty"),
        pruned(link, "warm", "full"),
        pruned(&changed.link, "changed", "full"),
    ];
    std::fs::create_dir_all(scratch.join("full"))?;
    let mut runs: [Vec<Finished>; 5] = Default::default();
    for round in 0..=options.runs {
        changed.again(round)?;
        let empty = scratch.join("empty");
        let _ = std::fs::remove_dir_all(&empty);
        std::fs::create_dir(empty)?;
        for (command, results) in contestants.iter_mut().zip(&mut runs) {
            let done = run_ok(command, &scratch)?;
            if round > 0 {
                results.push(done);
            }
        }
    }
    let mut gc = corpus.linker_command(link, lld, &scratch.join("gc"));
    run_ok(gc.arg("--gc-sections"), &scratch)?;
    let text = |output: &str| text_size(&scratch.join(output));
    let (text_plain, text_gc, text_ours) = (text("plain")?, text("gc")?, text("cold")?);
    if text_ours * 100 > text_gc * 101 {
        let kept = format!("{} keeps {text_ours} bytes of .text, lld --gc-sections {text_gc}", link.name());
        return Err(kept.into());
    }

    let [plain, functions, cold, warm, one] = runs.each_ref().map(|r| cost(r));
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
        ms(&one),
        ratio(&one),
        mb(&plain),
        mb(&cold),
        mb(&warm),
        count(text_plain),
        count(text_gc),
        count(text_ours),
    ])
}

/// Each linker alone and behind lto-prune, beside lld alone; the cells of a row.
fn measure_linkers(
    corpus: &Corpus,
    options: &Options,
    link: &Link,
    linkers: &[PathBuf],
    ours: &Path,
) -> Result<Vec<String>> {
    let scratch = corpus.scratch(&format!("links/{}-{}", link.program, link.mode))?;
    let mut commands = Vec::new();
    for linker in linkers {
        commands.push(corpus.linker_command(link, linker, &scratch.join("plain")));
        let mut pruned = corpus.linker_command(link, ours, &scratch.join("pruned"));
        pruned.env("LTO_PRUNE_LINKER", linker).env_remove("LTO_PRUNE_FLAGS").arg("--prune-no-cache");
        commands.push(pruned);
    }
    let mut runs: Vec<Vec<Finished>> = commands.iter().map(|_| Vec::new()).collect();
    for round in 0..=options.runs {
        for (command, results) in commands.iter_mut().zip(&mut runs) {
            let done = run_ok(command, &scratch)?;
            if round > 0 {
                results.push(done);
            }
        }
    }
    let walls: Vec<f64> = runs.iter().map(|r| cost(r).wall.as_secs_f64() * 1e3).collect();
    let lld = walls.first().copied().unwrap_or_default();
    let cells = walls.chunks(2).enumerate().flat_map(|(i, wall)| {
        let [alone, pruned] = [wall[0], wall[1]].map(|ms| format!("{ms:.1}"));
        let ratio = |ms: f64| format!("{:.2}", ms / lld);
        if i == 0 {
            vec![alone, pruned, ratio(wall[1])]
        } else {
            vec![alone, ratio(wall[0]), pruned, ratio(wall[1])]
        }
    });
    Ok(std::iter::once(link.name()).chain(cells).collect())
}

/// What each of these linkers costs behind lto-prune.
fn linkers(corpus: &Corpus, options: &Options) -> Result<bool> {
    let ours = corpus.shims()?.join("ld.lto-prune");
    let others = options.linkers.iter().filter(|name| *name != "lld");
    let names: Vec<&str> = std::iter::once("lld").chain(others.map(String::as_str)).collect();
    let paths = names.iter().map(|name| find_linker(name)).collect::<Result<Vec<_>>>()?;
    let mut columns = vec!["link".to_owned(), "lld, ms".into(), "with ours, ms".into(), "ratio".into()];
    for name in names.iter().skip(1) {
        columns.extend([format!("{name}, ms"), "to lld".into(), "with ours, ms".into(), "to lld".into()]);
    }
    let mut table = Table::new(&columns.iter().map(String::as_str).collect::<Vec<_>>());
    let good = table.links(corpus, |link| measure_linkers(corpus, options, link, &paths, &ours));
    let body = format!(
        "Wall time (median of {} interleaved runs) of each linker alone, and behind lto-prune at the default level without a cache; every ratio is to \
         lld alone.\n\n{}",
        options.runs,
        table.as_str()
    );
    publish_good(good, corpus, options, "linkers", "What a link costs behind each linker", &body)
}

/// The command. True unless a link failed, or keeps more than lld's `--gc-sections`.
pub(crate) fn run(corpus: &Corpus, options: &Options) -> Result<bool> {
    if !options.linkers.is_empty() {
        return linkers(corpus, options);
    }
    let lld = find_linker("lld")?;
    let ours = corpus.shims()?.join("ld.lto-prune");
    let mut table = Table::new(&[
        "link",
        "lld, ms",
        "ours, cold, ms",
        "ratio",
        "to functions",
        "warm, ms",
        "ratio",
        "one changed, ms",
        "ratio",
        "lld, MiB",
        "ours, cold, MiB",
        "warm, MiB",
        "`.text` lld",
        "`.text` lld gc",
        "`.text` ours",
    ]);
    let good = table.links(corpus, |link| measure(corpus, options, link, &lld, &ours));
    let body = format!(
        "Wall time (median of {} interleaved runs) and peak memory (`ru_maxrss`, largest of the process tree) of the \
         linker step; ours at the default level with lld behind. Cold: with an empty cache, which it fills; warm: with what an earlier \
         link left there; one changed: the same, but one object, the middle one by size, is new. *to functions*: the cold link beside one at \
         `--prune-level=functions` without a cache.\n\n{}",
        options.runs,
        table.as_str()
    );
    publish_good(good, corpus, options, "links", "What a link costs", &body)
}
