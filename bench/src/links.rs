//! `bench links`: time, peak memory and `.text` of each link, by lld alone and with lto-prune in front of it.
//!
//! Only the linker step is timed. The commands take turns within each round, so that a slow spell of the machine hits all of them.

use std::fs;
use std::path::{Path, PathBuf};

use crate::corpus::{Corpus, Link, find_linker, newest_lld};
use crate::process::{in_turn, run_ok};
use crate::report::text_size;
use crate::table::{Table, count, publish};
use crate::{Options, Result};

/// A link with one object that is new each time: the middle one of the line by size.
struct RelinkedProgram {
    link: Link,
    original: Vec<u8>,
    copy: PathBuf,
}

impl RelinkedProgram {
    fn of(link: &Link, scratch: &Path) -> Result<Self> {
        // Some builds have archives whose name ends with .o.
        let is_elf =
            |word: &str| fs::read(link.dir.join(word)).is_ok_and(|bytes| bytes.starts_with(b"\x7fELF"));
        let is_object = |word: &&String| !word.starts_with('/') && word.ends_with(".o") && is_elf(word);
        let mut objects: Vec<&String> = link.linker_args.iter().filter(is_object).collect();
        objects.sort_by_key(|word| fs::metadata(link.dir.join(word)).map_or(0, |meta| meta.len()));
        let middle = objects.len().saturating_sub(1) / 2;
        let object = (*objects.get(middle).ok_or("no object on the line")?).clone();
        let mut changed = link.clone();
        let copy = scratch.join("changed.o");
        let words = changed.linker_args.iter_mut().filter(|word| **word == object);
        words.for_each(|word| *word = copy.display().to_string());
        Ok(RelinkedProgram { link: changed, original: fs::read(link.dir.join(object))?, copy })
    }

    /// Append bytes: they change the file, not its meaning.
    fn again(&self, round: usize) -> Result<()> {
        Ok(fs::write(&self.copy, [self.original.as_slice(), &vec![0; round + 1]].concat())?)
    }
}

/// The times of a link with a cold cache, a warm one, and one changed object, divided by the time of lld alone.
type Ratios = [f64; 3];

fn measure(corpus: &Corpus, options: &Options, link: &Link, lld: &Path) -> Result<(Vec<String>, Ratios)> {
    let scratch = corpus.scratch(&format!("links/{}-{}", link.program, link.mode))?;
    let changed = RelinkedProgram::of(link, &scratch)?;
    let pruned = |link: &Link, output: &str, cache: &str, flags: &[&str]| {
        let mut command = corpus.pruned_command(link, lld, &scratch.join(output));
        command.args(flags).env("XDG_CACHE_HOME", scratch.join(cache));
        command
    };
    let functions = ["--prune-no-cache", "--prune-level=functions"];
    let mut commands = [
        corpus.linker_command(link, lld, &scratch.join("plain")),
        pruned(link, "functions", "", &functions),
        pruned(link, "cold", "empty", &[]),
        pruned(link, "warm", "full", &[]),
        pruned(&changed.link, "changed", "full", &[]),
    ];
    fs::create_dir_all(scratch.join("full"))?;
    let [plain, functions_cost, cold, warm, one] = in_turn(&mut commands, options.runs, &scratch, |round| {
        changed.again(round)?;
        let empty = scratch.join("empty");
        let _ = fs::remove_dir_all(&empty);
        Ok(fs::create_dir(empty)?)
    })?;
    run_ok(corpus.linker_command(link, lld, &scratch.join("gc")).arg("--gc-sections"), &scratch)?;
    run_ok(&mut pruned(link, "once", "", &["--prune-no-cache", "--prune-time"]), &scratch)?;
    let divided = divided(&fs::read_to_string(scratch.join("stderr"))?).unwrap_or_default();
    run_ok(&mut pruned(link, "gc-ours", "", &["--gc-sections", "--prune-no-cache"]), &scratch)?;
    run_ok(pruned(link, "gc-functions", "", &functions).arg("--gc-sections"), &scratch)?;
    let text = |output: &str| text_size(&scratch.join(output));
    let (text_plain, text_gc, text_ours) = (text("plain")?, text("gc")?, text("cold")?);
    if text_ours * 100 > text_gc * 101 {
        return Err(format!("keeps {text_ours} bytes of .text, lld --gc-sections {text_gc}").into());
    }
    let missed = [text_ours - text("functions")?.min(text_ours), {
        let ours = text("gc-ours")?;
        ours - text("gc-functions")?.min(ours)
    }];
    let ratios = [cold, warm, one].map(|cost| cost.ms / plain.ms);
    let one_digit = |value: f64| format!("{value:.1}");
    let two_digits = |value: f64| format!("{value:.2}");
    let mut cells = vec![link.name(), one_digit(plain.ms), one_digit(cold.ms), two_digits(ratios[0])];
    cells.extend([two_digits(cold.ms / functions_cost.ms), one_digit(warm.ms), two_digits(ratios[1])]);
    cells.extend([one_digit(one.ms), two_digits(ratios[2]), divided]);
    cells.extend([plain, cold, warm].map(|cost| one_digit(cost.mib)));
    cells.extend([text_plain, text_gc, text_ours, missed[0], missed[1]].map(count));
    Ok((cells, ratios))
}

/// The percentage in the line of `--prune-time` about divided code.
fn divided(text: &str) -> Option<String> {
    let (divided, rest) = text.split_once("divided: ")?.1.split_once(" of ")?;
    let (divided, all): (f64, f64) = (divided.parse().ok()?, rest.split_once(' ')?.0.parse().ok()?);
    Some(format!("{:.0}%", 100.0 * divided / all))
}

/// A row for each kind of link: the geometric mean of the ratios of its links, and the worst.
fn summary(all: &[(String, Ratios)]) -> Table {
    let mut table = Table::new("links | how many | cold | worst | warm | worst | one changed | worst");
    let kinds =
        ["all without -g", "of these those that nothing was tuned for", "of these the rest", "with -g"];
    for (kind, name) in kinds.into_iter().enumerate() {
        let is_of = |mode: &str| match (kind, mode.ends_with("-debug"), mode.ends_with("-others")) {
            (0, debug, _) => !debug,
            (1, _, others) => others,
            (2, debug, others) => !debug && !others,
            (_, debug, _) => debug,
        };
        let of: Vec<Ratios> = all.iter().filter(|(mode, _)| is_of(mode)).map(|(_, ratios)| *ratios).collect();
        if of.is_empty() {
            continue;
        }
        let mut cells = vec![name.to_owned(), of.len().to_string()];
        for column in 0..3 {
            let mean = (of.iter().map(|ratios| ratios[column].ln()).sum::<f64>() / of.len() as f64).exp();
            let worst = of.iter().map(|ratios| ratios[column]).fold(0.0, f64::max);
            cells.extend([mean, worst].map(|ratio| format!("{ratio:.2}")));
        }
        table.row(&cells);
    }
    table
}

/// Each linker alone and with lto-prune, compared with lld alone; the cells of a row.
fn measure_linkers(
    corpus: &Corpus,
    options: &Options,
    link: &Link,
    linkers: &[PathBuf],
) -> Result<Vec<String>> {
    let scratch = corpus.scratch(&format!("links/{}-{}", link.program, link.mode))?;
    let (mut cells, mut lld) = (vec![link.name()], None);
    for linker in linkers {
        let alone = || corpus.linker_command(link, linker, &scratch.join("plain"));
        let mut pruned = corpus.pruned_command(link, linker, &scratch.join("pruned"));
        pruned.arg("--prune-no-cache");
        // Not every linker knows each option of the line.
        if run_ok(&mut alone(), &scratch).is_err() {
            cells.extend(vec![String::new(); 4]);
            continue;
        }
        let [alone, pruned] =
            in_turn(&mut [alone(), pruned], options.runs, &scratch, |_| Ok(()))?.map(|c| c.ms);
        let first = *lld.get_or_insert(alone);
        cells.push(format!("{alone:.1}"));
        cells.extend((cells.len() > 2).then(|| format!("{:.2}", alone / first)));
        cells.extend([format!("{pruned:.1}"), format!("{:.2}", pruned / first)]);
    }
    Ok(cells)
}

fn linkers(corpus: &Corpus, options: &Options) -> Result<bool> {
    let others = options.linkers.iter().filter(|name| *name != "lld");
    let mut paths = vec![newest_lld()?.1];
    let mut columns = "link | lld, ms | with ours, ms | ratio".to_owned();
    for name in others {
        paths.push(find_linker(name)?);
        columns.push_str(&format!(" | {name}, ms | to lld | with ours, ms | to lld"));
    }
    let mut table = Table::new(&columns);
    let good = table.links(&corpus.links, |link| measure_linkers(corpus, options, link, &paths));
    let body = format!(
        "Wall time (median of {} interleaved runs) of each linker alone, and with lto-prune at the default level without a cache. Every ratio is \
         to lld alone. A linker that refuses the line has no figures.\n\n{}",
        options.runs,
        table.as_str()
    );
    publish(good, corpus, options, ("linkers", "What a link costs behind each linker"), &body)
}

/// The command. True unless a link failed, or keeps 1% more than lld's `--gc-sections`.
pub(crate) fn run(corpus: &Corpus, options: &Options) -> Result<bool> {
    if !options.linkers.is_empty() {
        return linkers(corpus, options);
    }
    let (version, lld) = newest_lld()?;
    let version: Vec<String> = version.iter().map(u32::to_string).collect();
    let mut table = Table::new(
        "link | lld, ms | ours, cold, ms | ratio | to functions | warm, ms | ratio | one changed, ms | ratio | divided | lld, MiB | ours, cold, MiB | warm, MiB | `.text` lld | `.text` lld gc | `.text` ours | missed | with gc",
    );
    let mut all = Vec::new();
    let good = table.links(&corpus.links, |link| {
        let (cells, ratios) = measure(corpus, options, link, &lld)?;
        all.push((link.mode.clone(), ratios));
        Ok(cells)
    });
    let body = format!(
        "Wall time (median of {} interleaved runs) and peak memory (`ru_maxrss`, largest of the process tree) of the linker step, lto-prune at the \
         default level. Cold: with an empty cache; warm: with the cache of an earlier link; one changed: the same, but the middle object by size is \
         new. *to functions*: the cold link, divided by a link at `--prune-level=functions` without a cache. *divided*: the share of the code that was \
         decoded. *missed*: the bytes of `.text` that the level `functions` removes and the default level keeps; *with gc*: the same if both links have \
         `--gc-sections`. All ratios are to LLD {}.\n\n{}\n{}",
        options.runs,
        version.join("."),
        table.as_str(),
        summary(&all).as_str()
    );
    publish(good, corpus, options, ("links", "What a link costs"), &body)
}
