//! `bench links`: what a link costs with lto-prune in front of lld, beside lld alone, and what it saves.
//!
//! The linker step alone is timed, not the compiler driver. The contestants take turns within each round, so that
//! a machine that slows down slows all of them; the first round warms the page cache and isn't counted. The median
//! is reported: a link has no lucky runs, only disturbed ones.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::corpus::{Corpus, Link, find_linker, lld_version, newest_lld};
use crate::floor::Floor;
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
        // Some builds call archives so.
        let is_elf =
            |word: &str| std::fs::read(link.dir.join(word)).is_ok_and(|bytes| bytes.starts_with(b"\x7fELF"));
        let is_object = |word: &&String| !word.starts_with('/') && word.ends_with(".o") && is_elf(word);
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

/// The cost of a link to that of lld alone.
#[derive(Debug, Clone, Copy)]
struct Ratios {
    /// By how much the cold link takes longer.
    more: Duration,
    cold: f64,
    warm: f64,
    changed: f64,
}

/// Measure one link; the cells of its row, and the ratios in them.
fn measure(
    corpus: &Corpus,
    options: &Options,
    link: &Link,
    lld: &Path,
    ours: &Path,
) -> Result<(Vec<String>, Ratios)> {
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
    let told = scratch.join("told");
    let file = std::fs::File::create(&told)?;
    let mut once = pruned(link, "once", "");
    if !once.args(["--prune-no-cache", "--prune-time"]).stderr(file).status()?.success() {
        return Err(format!("{}: fails with --prune-time", link.name()).into());
    }
    let divided = divided(&std::fs::read_to_string(told)?).unwrap_or_default();
    for (output, level) in [("gc-ours", None), ("gc-functions", Some("--prune-level=functions"))] {
        run_ok(pruned(link, output, "").args(["--gc-sections", "--prune-no-cache"]).args(level), &scratch)?;
    }
    let text = |output: &str| text_size(&scratch.join(output));
    let (text_plain, text_gc, text_ours) = (text("plain")?, text("gc")?, text("cold")?);
    let missed = text_ours.saturating_sub(text("functions")?);
    let missed_gc = text("gc-ours")?.saturating_sub(text("gc-functions")?);
    if text_ours * 100 > text_gc * 101 {
        let kept = format!("{} keeps {text_ours} bytes of .text, lld --gc-sections {text_gc}", link.name());
        return Err(kept.into());
    }

    let [plain, functions, cold, warm, one] = runs.each_ref().map(|r| cost(r));
    let ms = |c: &Cost| format!("{:.1}", c.wall.as_secs_f64() * 1e3);
    let mb = |c: &Cost| format!("{:.1}", c.peak_kib as f64 / 1024.0);
    let to_plain = |c: &Cost| c.wall.as_secs_f64() / plain.wall.as_secs_f64();
    let more = cold.wall.saturating_sub(plain.wall);
    let ratios = Ratios { more, cold: to_plain(&cold), warm: to_plain(&warm), changed: to_plain(&one) };
    let two = |ratio: f64| format!("{ratio:.2}");
    let cells = vec![
        link.name(),
        ms(&plain),
        ms(&cold),
        two(ratios.cold),
        two(cold.wall.as_secs_f64() / functions.wall.as_secs_f64()),
        ms(&warm),
        two(ratios.warm),
        ms(&one),
        two(ratios.changed),
        divided,
        mb(&plain),
        mb(&cold),
        mb(&warm),
        count(text_plain),
        count(text_gc),
        count(text_ours),
        count(missed),
        count(missed_gc),
    ];
    Ok((cells, ratios))
}

/// Of the line of `--prune-time` about divided code: how many hundredths of it were.
fn divided(text: &str) -> Option<String> {
    let (divided, rest) = text.split_once("divided: ")?.1.split_once(" of ")?;
    let (divided, all): (f64, f64) = (divided.parse().ok()?, rest.split_once(' ')?.0.parse().ok()?);
    Some(format!("{:.0}%", 100.0 * divided / all))
}

/// A row for each kind of link: the geometric mean of the ratios of its links, and the worst.
fn summary(all: &[(Link, Ratios)]) -> String {
    let mut table =
        Table::new(&["links", "how many", "cold", "worst", "warm", "worst", "one changed", "worst"]);
    type Kind = (&'static str, fn(&str) -> bool);
    let kinds: [Kind; 4] = [
        ("all without -g", |mode| !mode.ends_with("-debug")),
        ("of these those that nothing was tuned for", |mode| mode.ends_with("-others")),
        ("of these the rest", |mode| !mode.ends_with("-debug") && !mode.ends_with("-others")),
        ("with -g", |mode| mode.ends_with("-debug")),
    ];
    for (name, is_of) in kinds {
        let of: Vec<Ratios> =
            all.iter().filter(|(link, _)| is_of(&link.mode)).map(|(_, ratios)| *ratios).collect();
        if of.is_empty() {
            continue;
        }
        let ratios: [fn(&Ratios) -> f64; 3] = [|r| r.cold, |r| r.warm, |r| r.changed];
        let mut cells = vec![name.to_owned(), of.len().to_string()];
        for ratio in ratios {
            let mean = (of.iter().map(|r| ratio(r).ln()).sum::<f64>() / of.len() as f64).exp();
            let worst = of.iter().map(ratio).fold(0.0, f64::max);
            cells.extend([format!("{mean:.2}"), format!("{worst:.2}")]);
        }
        table.row(&cells);
    }
    table.as_str().to_owned()
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
    let mut pairs = Vec::new();
    for linker in linkers {
        let alone = corpus.linker_command(link, linker, &scratch.join("plain"));
        let mut pruned = corpus.linker_command(link, ours, &scratch.join("pruned"));
        pruned.env("LTO_PRUNE_LINKER", linker).env_remove("LTO_PRUNE_FLAGS").arg("--prune-no-cache");
        pairs.push([(alone, Vec::new()), (pruned, Vec::new())]);
    }
    // Not every linker knows each option of the line.
    let refused: Vec<bool> =
        pairs.iter_mut().map(|[alone, _]| run_ok(&mut alone.0, &scratch).is_err()).collect();
    for round in 0..=options.runs {
        for (pair, _) in pairs.iter_mut().zip(&refused).filter(|(_, refused)| !**refused) {
            for (command, results) in pair {
                let done = run_ok(command, &scratch)?;
                if round > 0 {
                    results.push(done);
                }
            }
        }
    }
    let wall = |runs: &[Finished]| cost(runs).wall.as_secs_f64() * 1e3;
    let lld = pairs.first().map_or(0.0, |pair| wall(&pair[0].1));
    let cells = pairs.iter().zip(refused).enumerate().flat_map(|(i, (pair, refused))| {
        let [alone, pruned] = pair.each_ref().map(|(_, runs)| wall(runs));
        let ratio = |ms: f64| format!("{:.2}", ms / lld);
        let [alone, of_alone, pruned, of_pruned] = match refused {
            true => Default::default(),
            false => [format!("{alone:.1}"), ratio(alone), format!("{pruned:.1}"), ratio(pruned)],
        };
        if i == 0 { vec![alone, pruned, of_pruned] } else { vec![alone, of_alone, pruned, of_pruned] }
    });
    Ok(std::iter::once(link.name()).chain(cells).collect())
}

/// What each of these linkers costs behind lto-prune.
fn linkers(corpus: &Corpus, options: &Options) -> Result<bool> {
    let ours = corpus.shims()?.join("ld.lto-prune");
    let others = options.linkers.iter().filter(|name| *name != "lld");
    let names: Vec<&str> = std::iter::once("lld").chain(others.map(String::as_str)).collect();
    let path = |name: &&str| if *name == "lld" { newest_lld() } else { find_linker(name) };
    let paths = names.iter().map(path).collect::<Result<Vec<_>>>()?;
    let mut columns = vec!["link".to_owned(), "lld, ms".into(), "with ours, ms".into(), "ratio".into()];
    for name in names.iter().skip(1) {
        columns.extend([format!("{name}, ms"), "to lld".into(), "with ours, ms".into(), "to lld".into()]);
    }
    let mut table = Table::new(&columns.iter().map(String::as_str).collect::<Vec<_>>());
    let good = table.links(corpus, |link| measure_linkers(corpus, options, link, &paths, &ours));
    let body = format!(
        "Wall time (median of {} interleaved runs) of each linker alone, and behind lto-prune at the default level without a cache; every ratio is to \
         lld alone. A linker that refuses the line has no figures.\n\n{}",
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
    let lld = newest_lld()?;
    let version: Vec<String> = lld_version(&lld).unwrap_or_default().iter().map(u32::to_string).collect();
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
        "divided",
        "lld, MiB",
        "ours, cold, MiB",
        "warm, MiB",
        "`.text` lld",
        "`.text` lld gc",
        "`.text` ours",
        "missed",
        "with gc",
    ]);
    let mut all = Vec::new();
    let good = table.links(corpus, |link| {
        let (cells, ratios) = measure(corpus, options, link, &lld, &ours)?;
        all.push((link.clone(), ratios));
        Ok(cells)
    });
    // Later children of this process would be taken to have the memory that this needs.
    let mut floor = Floor::new();
    for (link, ratios) in &all {
        let scratch = corpus.scratch(&format!("links/{}-{}", link.program, link.mode))?;
        let mut pruned = corpus.linker_command(link, &ours, &scratch.join("floor.out"));
        pruned.env("LTO_PRUNE_LINKER", &lld).env_remove("LTO_PRUNE_FLAGS").arg("--prune-no-cache");
        floor.add(link, pruned, ratios.more, &scratch)?;
    }
    let body = format!(
        "Wall time (median of {} interleaved runs) and peak memory (`ru_maxrss`, largest of the process tree) of the \
         linker step; ours at the default level with lld behind. Cold: with an empty cache, which it fills; warm: with what an earlier \
         link left there; one changed: the same, but one object, the middle one by size, is new. *to functions*: the cold link beside one at \
         `--prune-level=functions` without a cache. *divided*: the share of the code that was decoded; *missed*: the bytes of `.text` that \
         this level removes besides, *with gc* the same if both links have `--gc-sections`. All times are beside LLD {}, the newest that is installed.\n\n{}\n{}\n\
         The floor of three links, on one thread: the symbols and relocations of all objects are read once, the code of the objects that are rewritten is decoded \
         once, and their pruned copies are written. The last column is the time that the cold link takes longer than lld's.\n\n{}",
        options.runs,
        version.join("."),
        table.as_str(),
        summary(&all),
        floor.as_str()
    );
    publish_good(good, corpus, options, "links", "What a link costs", &body)
}
