//! `bench soak`: random programs, linked plain and with lto-prune, must behave the same.
//!
//! A seed is a program. Both compilers make objects of it, with options drawn from the same seed, and one linker links these twice. Equal must
//! be: the status of the links, the messages of the linker, the output and the exit status of the program, so that a trap shows. A case
//! that differs is kept with a script.
//!
//! A program that a compiler refuses, whose plain link fails or that does not end in time is only counted.

mod case;
mod debug;
mod pointers;
mod program;
mod setup;
mod statements;
mod unwind;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use case::{SoakOutcome, SoakTools};
use program::SoakProgram;
use setup::COMPILERS;

use crate::corpus::Corpus;
use crate::process::parallel;
use crate::table::count;
use crate::{Options, Result};

#[derive(Debug, Default)]
struct Totals {
    programs: u64,
    links: u64,
    /// Bytes of `.text` of all plain links together, and of the pruned ones.
    text: [u64; 2],
    /// Cases that were not compared, by reason: how many, and the first.
    idle: BTreeMap<String, (u64, String)>,
    // Live functions, stubs, dead functions.
    functions: [u64; 3],
    with_stubs: u64,
    /// Links that `--prune-unwind=drop` refuses, or warns of.
    refused: u64,
    /// Pruned links in which no function loses its unwind entries, some do, and all do.
    entries: [u64; 3],
    red: Vec<String>,
}

impl Totals {
    fn add(&mut self, name: &str, outcome: SoakOutcome) {
        self.links += 2;
        match outcome {
            SoakOutcome::Same { plain, pruned, functions, entries: [removed, kept] } => {
                self.entries[if removed == 0 { 0 } else { 2 - usize::from(kept > 0) }] += 1;
                self.text[0] += plain;
                self.text[1] += pruned;
                self.functions.iter_mut().zip(functions).for_each(|(sum, n)| *sum += n);
                self.with_stubs += u64::from(functions[1] > 0);
            }
            SoakOutcome::Idle(reason) => {
                self.links -= 2;
                self.idle.entry(reason).or_insert_with(|| (0, name.to_owned())).0 += 1;
            }
            SoakOutcome::Refused => self.refused += 1,
            SoakOutcome::Red(text) => self.red.push(format!("{name}: {text}")),
        }
    }
}

/// The name of a generator, the prefix of its cases, its code.
type SoakGenerator = (&'static str, &'static str, fn(u64) -> SoakProgram);

/// The generator of `--programs`, by default the one for the level.
fn generator(options: &Options) -> Result<SoakGenerator> {
    let by_level = if options.level == "pointers" { "pointers" } else { "functions" };
    const ALL: [SoakGenerator; 3] = [
        ("functions", "", program::generate),
        ("pointers", "pointers-", pointers::generate),
        ("unwind", "unwind-", unwind::generate),
    ];
    let name = options.programs.as_deref().unwrap_or(by_level);
    Ok(*ALL.iter().find(|g| g.0 == name).ok_or("--programs=functions|pointers|unwind")?)
}

/// A folder for the cases: in memory if there is such a file system.
fn scratch() -> Result<PathBuf> {
    let shm = Path::new("/dev/shm");
    let parent = if shm.is_dir() { shm.to_owned() } else { std::env::temp_dir() };
    let dir = parent.join(format!("bench-soak-{}", std::process::id()));
    fs::create_dir(&dir)?;
    Ok(dir)
}

fn soak(
    seed: u64,
    tools: &SoakTools,
    options: &Options,
    scratch: &Path,
) -> Result<Vec<(String, SoakOutcome)>> {
    let (_, prefix, generate) = generator(options)?;
    let program = generate(seed);
    // gcc makes no LLVM bitcode.
    let takes_part = |at: usize| {
        (!options.lto || COMPILERS[at] == "clang") && (!options.one_compiler || seed % 2 == at as u64)
    };
    let mut outcomes = Vec::new();
    for compiler in (0..2).filter(|at| takes_part(*at)).map(|at| COMPILERS[at]) {
        let recipe = setup::draw(seed, &program, compiler, &tools.linkers, options.lto);
        let form = if options.lto { "lto-" } else { "" };
        let name = format!("{prefix}{form}{seed}-{}", compiler);
        let dir = scratch.join(&name);
        let outcome = case::run(&dir, &program, &recipe, tools)?;
        if let SoakOutcome::Red(text) = &outcome {
            let kept = tools.keep.join(&name);
            case::keep(&dir, &kept, &recipe, tools)?;
            eprintln!("RED {name} ({}): {text}\n  kept in {}", recipe.linker, kept.display());
        }
        fs::remove_dir_all(&dir)?;
        outcomes.push((name, outcome));
    }
    Ok(outcomes)
}

/// The command. True if nothing differed.
pub(crate) fn run(corpus: &Corpus, options: &Options) -> Result<bool> {
    let (from, to) = options.seeds.ok_or("--seeds=A..B is needed")?;
    let (programs, ..) = generator(options)?;
    let tools = SoakTools::find(corpus, options)?;
    let scratch = scratch()?;
    let start = Instant::now();
    let results = parallel(options.jobs, (to - from) as usize, |number| {
        if number > 0 && number.is_multiple_of(100) {
            eprintln!("{number} seeds, {:.0} s", start.elapsed().as_secs_f64());
        }
        let seed = from + number as u64;
        soak(seed, &tools, options, &scratch).map_err(|e| format!("seed {seed}: {e}"))
    });
    fs::remove_dir_all(&scratch)?;
    let mut totals = Totals::default();
    for result in results {
        totals.programs += 1;
        result?.into_iter().for_each(|(name, outcome)| totals.add(&name, outcome));
    }
    println!(
        "seeds {from}..{to} ({programs}), --prune-level={}: {} programs, {} links, {} s",
        options.level,
        totals.programs,
        totals.links,
        start.elapsed().as_secs()
    );
    summary(&totals, programs == "unwind");
    // A run that compared nothing is no success.
    Ok(totals.red.is_empty() && totals.links > 0)
}

fn summary(totals: &Totals, unwinds: bool) {
    let [live, stubs, dead] = totals.functions.map(count);
    println!(
        "functions: {live} live, {dead} dead, {stubs} stubs in {} pruned links",
        count(totals.with_stubs)
    );
    println!("bytes of .text: plain {}, pruned {}", count(totals.text[0]), count(totals.text[1]));
    if unwinds {
        let [none, some, every] = totals.entries;
        println!("functions without unwind entries: none in {none} links, some in {some}, all in {every}");
        println!("refused by --prune-unwind=drop: {}", totals.refused);
    }
    for (reason, (n, first)) in &totals.idle {
        println!("not compared: {n}, first {first} ({reason})");
    }
    println!("differences: {}", totals.red.len());
    totals.red.iter().for_each(|red| println!("  {red}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_one_program_and_all_marks_are_filled_in() {
        for generate in [program::generate, pointers::generate, unwind::generate] {
            let text = |seed| generate(seed).units.iter().map(|u| u.text.clone()).collect::<String>();
            for seed in 0..40 {
                assert_eq!(text(seed), text(seed));
                assert!(!text(seed).replace(",@function", "").contains('@'), "seed {seed}");
            }
            assert_ne!(text(1), text(2));
        }
    }

    /// Live functions refer to live ones only, so that dead code is out of reach.
    #[test]
    fn live_functions_do_not_name_dead_ones() {
        let mut live = 0;
        for unit in (0..40).flat_map(|seed| program::generate(seed).units) {
            let mut inside = false;
            for line in unit.text.lines() {
                if let Some((head, _)) = line.split_once("(unsigned a, unsigned b) {") {
                    inside = head.contains("unsigned live");
                    live += usize::from(inside);
                } else {
                    inside &= line != "}";
                    assert!(!inside || !line.contains("dead"), "{line}");
                }
            }
        }
        assert!(live > 100);
    }
}
