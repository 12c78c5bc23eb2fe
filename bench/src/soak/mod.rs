//! `bench soak`: random programs, linked plain and pruned, run, and compared.
//!
//! A seed is a program; both compilers make one executable's objects of it, with options drawn from the same seed, and
//! one linker links these twice. What must be equal: the status of the links, what the linker says, the output, and
//! the exit status of the program. A trap that runs shows as a status. Anything else is red: the case is kept with a
//! script that does it again.
//!
//! A program that a compiler refuses, whose plain link fails or which doesn't end in time, proves nothing and is only
//! counted: the generator aims at none of them, csmith's programs may loop for ever.

mod case;
mod compiled;
mod cplus;
mod csmith;
pub(crate) mod debug;
mod pointers;
mod prelude;
mod program;
pub(crate) mod rng;
mod setup;
mod statements;
mod switches;
mod twins;
mod unwind;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use case::{SoakOutcome, SoakTools};
use setup::Compiler;

use crate::corpus::Corpus;
use crate::table::{Table, count};
use crate::{Options, Result};

#[derive(Debug, Default)]
struct Totals {
    programs: u64,
    links: u64,
    /// Bytes of `.text` of all plain links together; below, of the pruned ones.
    plain: u64,
    pruned: u64,
    /// Cases that prove nothing, by reason: how many, and the first.
    idle: BTreeMap<String, (u64, String)>,
    /// Limits of the reports: how often, and how many bytes.
    limits: BTreeMap<String, (u64, u64)>,
    /// Indirect call sites that traces saw, and resolved ones of them.
    sites: (usize, usize),
    /// Functions that live, that are stubs, that are gone.
    functions: [u64; 3],
    with_stubs: u64,
    /// Links that `--prune-unwind=drop` refuses, or warns of.
    refused: u64,
    /// Programs linked without unwind entries, and those among them that behave in another way.
    controls: [u64; 2],
    /// Pruned links in which no function loses its unwind entries, some do, and all do.
    entries: [u64; 3],
    red: Vec<String>,
}

impl Totals {
    fn add(&mut self, name: &str, outcome: SoakOutcome) {
        match outcome {
            SoakOutcome::Same { plain, pruned, report, sites, control } => {
                self.links += 2;
                let [removed, kept] = report.entries;
                self.entries[if removed == 0 {
                    0
                } else if kept > 0 {
                    1
                } else {
                    2
                }] += 1;
                self.controls[0] += u64::from(control.is_some());
                self.controls[1] += u64::from(control == Some(true));
                self.sites = (self.sites.0 + sites.0, self.sites.1 + sites.1);
                self.plain += plain;
                self.pruned += pruned;
                for (sum, n) in self.functions.iter_mut().zip(report.functions) {
                    *sum += n;
                }
                self.with_stubs += u64::from(report.functions[1] > 0);
                for (limit, n, bytes) in report.limits {
                    let entry = self.limits.entry(limit).or_default();
                    entry.0 += n;
                    entry.1 += bytes;
                }
            }
            SoakOutcome::Idle(reason) => {
                self.idle.entry(reason).or_insert_with(|| (0, name.to_owned())).0 += 1
            }
            SoakOutcome::Refused => {
                self.links += 2;
                self.refused += 1;
            }
            SoakOutcome::Red(text) => {
                self.links += 2;
                self.red.push(format!("{name}: {text}"));
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SoakPrograms {
    /// The programs of `program`: functions, live and dead.
    Functions,
    /// The programs of `pointers`: addresses that are called.
    Pointers,
    Csmith,
    /// The programs of `twins`: functions that are alike.
    Twins,
    /// The programs of `unwind`: exceptions, ends of threads, backtraces.
    Unwind,
}

impl SoakPrograms {
    pub(crate) fn parse(text: &str) -> Result<SoakPrograms> {
        match text {
            "functions" => Ok(SoakPrograms::Functions),
            "pointers" => Ok(SoakPrograms::Pointers),
            "csmith" => Ok(SoakPrograms::Csmith),
            "twins" => Ok(SoakPrograms::Twins),
            "unwind" => Ok(SoakPrograms::Unwind),
            _ => Err("--programs=functions|pointers|csmith|twins|unwind".into()),
        }
    }

    /// What was asked for, or what suits the level.
    fn of(options: &Options) -> SoakPrograms {
        let suits =
            if options.level == "pointers" { SoakPrograms::Pointers } else { SoakPrograms::Functions };
        options.programs.unwrap_or(suits)
    }

    fn name(self) -> &'static str {
        match self {
            SoakPrograms::Functions => "functions",
            SoakPrograms::Pointers => "pointers",
            SoakPrograms::Csmith => "csmith",
            SoakPrograms::Twins => "twins",
            SoakPrograms::Unwind => "unwind",
        }
    }

    /// The prefix of the folder in which a case is kept.
    fn prefix(self) -> &'static str {
        match self {
            SoakPrograms::Functions => "",
            SoakPrograms::Pointers => "pointers-",
            SoakPrograms::Csmith => "csmith-",
            SoakPrograms::Twins => "twins-",
            SoakPrograms::Unwind => "unwind-",
        }
    }
}

/// `A..B`, the seeds from A to B - 1.
pub(crate) fn seeds(text: &str) -> Result<(u64, u64)> {
    let (from, to) = text.split_once("..").ok_or("--seeds=A..B")?;
    let (from, to) = (from.parse()?, to.parse()?);
    if from < to { Ok((from, to)) } else { Err("--seeds=A..B: no seed between".into()) }
}

/// A folder for the cases: in memory where there is such a file system.
fn scratch() -> Result<PathBuf> {
    let shm = Path::new("/dev/shm");
    let parent = if shm.is_dir() { shm.to_owned() } else { std::env::temp_dir() };
    let dir = parent.join(format!("bench-soak-{}", std::process::id()));
    fs::create_dir(&dir)?;
    Ok(dir)
}

/// Everything that one seed is good for.
fn soak(
    seed: u64,
    tools: &SoakTools,
    options: &Options,
    scratch: &Path,
    totals: &Mutex<Totals>,
) -> Result<()> {
    let source = SoakPrograms::of(options);
    let program = match source {
        SoakPrograms::Csmith => csmith::generate(seed, scratch)?,
        SoakPrograms::Twins => twins::generate(seed),
        SoakPrograms::Unwind => unwind::generate(seed),
        SoakPrograms::Functions => program::generate(seed),
        SoakPrograms::Pointers => pointers::generate(seed),
    };
    let wanted =
        setup::RecipeRequest { linkers: &tools.linkers, traced: options.trace, bitcode: options.lto };
    // Of gcc there is no bitcode.
    let wants_bitcode = |c: Compiler| !options.lto || c == Compiler::Clang;
    let takes_turn = |c: Compiler| !options.one_compiler || c == Compiler::in_turn(seed);
    for compiler in Compiler::ALL.into_iter().filter(|c| wants_bitcode(*c) && takes_turn(*c)) {
        let recipe = setup::draw(seed, &program, compiler, wanted);
        let form = if options.lto { "lto-" } else { "" };
        let name = format!("{}{form}{seed}-{}", source.prefix(), compiler.name());
        let dir = scratch.join(&name);
        let outcome = case::run(&dir, &program, &recipe, tools)?;
        if let SoakOutcome::Red(text) = &outcome {
            let kept = tools.keep.join(&name);
            case::keep(&dir, &kept, &recipe, tools)?;
            eprintln!(
                "RED seed {seed} ({}, {}): {text}\n  kept in {}",
                compiler.name(),
                recipe.linker,
                kept.display()
            );
        }
        fs::remove_dir_all(&dir)?;
        if let Ok(mut totals) = totals.lock() {
            totals.add(&name, outcome);
        }
    }
    if let Ok(mut totals) = totals.lock() {
        totals.programs += 1;
    }
    Ok(())
}

/// The command. True if nothing differed.
pub(crate) fn run(corpus: &Corpus, options: &Options) -> Result<bool> {
    let (from, to) = options.seeds.ok_or("--seeds=A..B is needed")?;
    let tools = SoakTools::find(corpus, options)?;
    let scratch = scratch()?;
    let start = Instant::now();
    let next = AtomicU64::new(from);
    let stop = AtomicBool::new(false);
    let totals = Mutex::new(Totals::default());
    let failure: Mutex<Option<crate::Error>> = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..options.jobs {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= to {
                        break;
                    }
                    if let Err(e) = soak(seed, &tools, options, &scratch, &totals) {
                        stop.store(true, Ordering::Relaxed);
                        if let Ok(mut failure) = failure.lock() {
                            *failure = Some(format!("seed {seed}: {e}").into());
                        }
                    }
                    if (seed + 1 - from).is_multiple_of(100) {
                        eprintln!("{} seeds, {:.0} s", seed + 1 - from, start.elapsed().as_secs_f64());
                    }
                }
            });
        }
    });
    fs::remove_dir_all(&scratch)?;
    if let Some(e) = failure.into_inner().ok().flatten() {
        return Err(e);
    }
    let totals = totals.into_inner().map_err(|_| "a worker panicked")?;
    summary(options, &totals, from, to, start.elapsed().as_secs());
    Ok(totals.red.is_empty())
}

/// What was done and what came of it, on standard output.
fn summary(options: &Options, totals: &Totals, from: u64, to: u64, seconds: u64) {
    println!(
        "seeds {from}..{to} ({}), --prune-level={}: {} programs, {} links, {seconds} s",
        SoakPrograms::of(options).name(),
        options.level,
        totals.programs,
        totals.links
    );
    let [live, stubs, dead] = totals.functions;
    println!(
        "functions: {} live, {} dead, {} stubs in {} pruned links",
        count(live),
        count(dead),
        count(stubs),
        count(totals.with_stubs)
    );
    println!("bytes of .text: plain {}, pruned {}", count(totals.plain), count(totals.pruned));
    if options.trace {
        println!(
            "indirect call sites that ran under lld's links: {}, resolved: {}",
            totals.sites.0, totals.sites.1
        );
    }
    if SoakPrograms::of(options) == SoakPrograms::Unwind {
        let [all, differ] = totals.controls;
        let [none, some, every] = totals.entries;
        println!("functions without unwind entries: none in {none} links, some in {some}, all in {every}");
        println!("refused by --prune-unwind=drop: {}", totals.refused);
        println!("without unwind entries: {all} programs, {differ} behave in another way");
    }
    for (reason, (n, first)) in &totals.idle {
        println!("not compared: {n}, first {first} ({reason})");
    }
    if !totals.limits.is_empty() {
        let mut table = Table::new(&["limit", "count", "bytes"]);
        for (limit, (n, bytes)) in &totals.limits {
            table.row(&[limit.clone(), count(*n), count(*bytes)]);
        }
        print!("{}", table.as_str());
    }
    println!("differences: {}", totals.red.len());
    for red in &totals.red {
        println!("  {red}");
    }
}
