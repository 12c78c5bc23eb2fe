//! `bench scale`: what a link costs as the program doubles, up to the size of a browser: 30,000 objects, 10 million symbols.
//!
//! The program is made up on the spot ([`object`]): every size has objects of the same kind, so that twice as many objects are twice the
//! program. lld and lto-prune link the same line, in turns; the passes are those of one more link, on one thread and on all.

mod object;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::corpus::{Corpus, find_linker};
use crate::process::{Finished, run_ok};
use crate::table::{Table, count, publish};
use crate::{Options, Result};

/// The objects of the largest link, if nothing else is asked for.
const OBJECTS: u64 = 30_000;
/// How often the program doubles from the first row to the last.
const DOUBLINGS: u32 = 5;

/// Write the objects of a program into a new folder, and the line of its link.
fn make(dir: &Path, objects: usize) -> Result<()> {
    fs::create_dir_all(dir)?;
    let next = AtomicUsize::new(0);
    let write = || -> std::io::Result<()> {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= objects {
                return Ok(());
            }
            fs::write(dir.join(format!("{number}.o")), object::object(number, objects))?;
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..threads).map(|_| scope.spawn(write)).collect();
        writers.into_iter().try_for_each(|writer| writer.join().unwrap_or(Ok(())))
    })?;
    let line: String = (0..objects).map(|number| format!("{number}.o\n")).collect();
    Ok(fs::write(dir.join("objects"), line)?)
}

struct Cost {
    seconds: f64,
    peak_mib: f64,
}

fn cost(mut runs: Vec<Finished>) -> Cost {
    runs.sort_by_key(|run| run.wall);
    let seconds = runs.get(runs.len() / 2).map_or(0.0, |run| run.wall.as_secs_f64());
    let peak_kib = runs.iter().map(|run| run.peak_kib).max().unwrap_or(0);
    Cost { seconds, peak_mib: peak_kib as f64 / 1024.0 }
}

fn command(dir: &Path, linker: &Path, output: &str, collects: bool) -> Command {
    let mut command = Command::new(linker);
    command.current_dir(dir).env_remove("LTO_PRUNE_FLAGS").args(["@objects", "-e", "_start", "-o", output]);
    command.args(collects.then_some("--gc-sections"));
    command
}

/// The milliseconds of each pass, in their order.
fn passes(scratch: &Path) -> Result<Vec<(String, f64)>> {
    let text = fs::read_to_string(scratch.join("stderr"))?;
    let pass = |line: &str| {
        let mut words = line.split_whitespace();
        let milliseconds: f64 = words.next()?.parse().ok()?;
        Some((words.nth(1)?.to_owned(), milliseconds))
    };
    Ok(text.lines().filter_map(pass).collect())
}

/// The command. It is always true: what it prints is to be judged.
pub(crate) fn run(corpus: &Corpus, options: &Options) -> Result<bool> {
    let lld = find_linker("lld")?;
    let most = options.count.unwrap_or(OBJECTS).max(1 << DOUBLINGS) as usize;
    let runs = options.runs.min(3);
    let mut table = Table::new(&[
        "objects",
        "symbols",
        "references",
        "lld, s",
        "before lld, s",
        "ratio",
        "pruned, s",
        "ratio",
        "lld, twice",
        "before lld, twice",
        "pruned, twice",
        "lld, MiB",
        "before lld, MiB",
        "pruned, MiB",
    ]);
    let mut shares =
        Table::new(&["line", "pass", "one thread, ms", "all threads, ms", "per symbol on all, ns"]);
    let mut before: Option<[f64; 3]> = None;
    for doubling in (0..=DOUBLINGS).rev() {
        let objects = most >> doubling;
        let scratch = corpus.scratch("scale")?;
        let dir = scratch.join("program");
        eprintln!("{objects} objects");
        make(&dir, objects)?;
        let ours = scratch.join("ld.lto-prune");
        std::os::unix::fs::symlink(&corpus.pruner, &ours)?;
        let pruned = |collects: bool| {
            let mut pruned = command(&dir, &ours, "pruned", collects);
            pruned.env("LTO_PRUNE_LINKER", &lld).args(["--prune-no-cache", "--prune-strict"]);
            pruned
        };
        let mut results: [Vec<Finished>; 3] = Default::default();
        for _ in 0..runs {
            let mut commands = [command(&dir, &lld, "plain", true), pruned(true), pruned(false)];
            for (command, results) in commands.iter_mut().zip(&mut results) {
                results.push(run_ok(command, &scratch)?);
            }
        }
        let symbols = objects * (object::FUNCTIONS + object::INLINE);
        let costs = results.map(cost);
        let [lld_alone, in_front, alone] = &costs;
        let seconds = [lld_alone, in_front, alone].map(|cost| cost.seconds);
        let ratio = |cost: &Cost| format!("{:.2}", cost.seconds / lld_alone.seconds);
        let mut row = [objects, symbols, symbols * object::CALLS].map(|n| count(n as u64)).to_vec();
        row.push(format!("{:.2}", lld_alone.seconds));
        for cost in [in_front, alone] {
            row.extend([format!("{:.2}", cost.seconds), ratio(cost)]);
        }
        let twice =
            |i: usize| before.map_or(String::new(), |before| format!("{:.2}", seconds[i] / before[i]));
        row.extend([0, 1, 2].map(twice));
        row.extend([lld_alone, in_front, alone].map(|cost| format!("{:.0}", cost.peak_mib)));
        table.row(&row);
        before = Some(seconds);
        if doubling == 0 {
            for (line, collects) in [("with --gc-sections", true), ("pruned", false)] {
                run_ok(pruned(collects).args(["--prune-time", "--prune-jobs=1"]), &scratch)?;
                let one = passes(&scratch)?;
                run_ok(pruned(collects).arg("--prune-time"), &scratch)?;
                for ((name, one), (_, all)) in one.into_iter().zip(passes(&scratch)?) {
                    let each = format!("{:.0}", all * 1e6 / symbols as f64);
                    shares.row(&[line.to_owned(), name, format!("{one:.0}"), format!("{all:.0}"), each]);
                }
            }
        }
        fs::remove_dir_all(&scratch)?;
    }
    let body = format!(
        "Programs made up on the spot, each twice the one before: objects with {} functions of their own and {} inline ones that eight objects share, \
         sections for functions, {} calls in each function, unwind entries; a third of the functions is dead. Medians of {runs} interleaved runs and the peak of the \
         process tree, at the default level without a cache: `ld.lld --gc-sections` alone; lto-prune before it on the same line, where all is left to lld; and lto-prune without \
         `--gc-sections` on the line, so that it prunes. *Twice*: the time beside that of the row before.\n\n{}\n\
         The passes of the largest link.\n\n{}",
        object::FUNCTIONS,
        object::INLINE,
        object::CALLS,
        table.as_str(),
        shares.as_str()
    );
    publish(corpus, options, "scale", "Links as the program doubles", &body)?;
    Ok(true)
}
