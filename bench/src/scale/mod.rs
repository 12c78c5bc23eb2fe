//! `bench scale`: what a link costs as the program doubles, up to the size of a browser: 30,000 objects, 10 million symbols.
//!
//! The program is made up on the spot ([`object`]): every size has objects of the same kind, so that twice as many objects are twice the
//! program. lld and lto-prune link it in turns; the passes are those of one more link, on one thread and on all. A link that fails, or in which
//! the originals had to be linked, fails the command. Left out: data, debug information, archives, and running what was linked.

mod object;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::corpus::{Corpus, find_linker};
use crate::links::cost;
use crate::process::{Finished, passes, run_ok};
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

fn command(dir: &Path, linker: &Path, output: &str, collects: bool) -> Command {
    let mut command = Command::new(linker);
    command.current_dir(dir).env_remove("LTO_PRUNE_FLAGS").args(["@objects", "-e", "_start", "-o", output]);
    command.args(collects.then_some("--gc-sections"));
    command
}

/// The share of a pass that is serial, by Amdahl's law from its times on one thread and on all. `None` where there is nothing to tell by: the linker has its own
/// threads, and what takes no time has no share.
fn serial_share(one: f64, all: f64) -> Option<f64> {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as f64;
    (one >= 10.0 && threads > 1.0).then(|| ((threads * all / one - 1.0) / (threads - 1.0)).clamp(0.0, 1.0))
}

/// The command. It is true whatever the times are.
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
    let mut shares = Table::new(&[
        "line",
        "pass",
        "one thread, ms",
        "all threads, ms",
        "per symbol on all, ns",
        "serial share",
        "64 cores, ms",
    ]);
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
            pruned.env("LTO_PRUNE_LINKER", &lld).arg("--prune-no-cache");
            // What is left to lld is no failure, and with this option it would be analysed all the same.
            pruned.args((!collects).then_some("--prune-strict"));
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
        let costs = results.each_ref().map(|results| cost(results));
        let seconds = costs.each_ref().map(|cost| cost.wall.as_secs_f64());
        let [alone, in_front, pruned_link] = seconds;
        let mut row = [objects, symbols, symbols * object::CALLS].map(|n| count(n as u64)).to_vec();
        row.push(format!("{alone:.2}"));
        for ours in [in_front, pruned_link] {
            row.extend([format!("{ours:.2}"), format!("{:.2}", ours / alone)]);
        }
        let twice =
            |i: usize| before.map_or(String::new(), |before| format!("{:.2}", seconds[i] / before[i]));
        row.extend([0, 1, 2].map(twice));
        row.extend(costs.map(|cost| format!("{:.0}", cost.peak_kib as f64 / 1024.0)));
        table.row(&row);
        before = Some(seconds);
        if doubling == 0 {
            for (line, collects) in [("with --gc-sections", true), ("pruned", false)] {
                let said = |options: &[&str]| -> Result<String> {
                    run_ok(pruned(collects).arg("--prune-time").args(options), &scratch)?;
                    Ok(fs::read_to_string(scratch.join("stderr"))?)
                };
                let (one, all) = (said(&["--prune-jobs=1"])?, said(&[])?);
                for ((name, one), (_, all)) in passes(&one).into_iter().zip(passes(&all)) {
                    let mut cells = vec![line.to_owned(), name.to_owned()];
                    cells.extend([one, all, all * 1e6 / symbols as f64].map(|time| format!("{time:.0}")));
                    let is_ours = name != "link" && name != "total";
                    let serial = serial_share(one, all).filter(|_| is_ours);
                    let on_64 = serial.map(|serial| one * (serial + (1.0 - serial) / 64.0));
                    cells.push(serial.map_or(String::new(), |share| format!("{share:.2}")));
                    cells.push(on_64.map_or(String::new(), |time| format!("{time:.0}")));
                    shares.row(&cells);
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
         The passes of the largest link. The serial share is what Amdahl's law makes of the two times, and the last column the time on 64 cores by it, if memory kept \
         up; *link* is the linker, which has threads of its own.\n\n{}",
        object::FUNCTIONS,
        object::INLINE,
        object::CALLS,
        table.as_str(),
        shares.as_str()
    );
    publish(corpus, options, "scale", "Links as the program doubles", &body)?;
    Ok(true)
}
