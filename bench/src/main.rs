//! Runners of the benchmark: `bench COMMAND [OPTIONS]`, described in docs/BENCHMARKING.md.
//!
//! `bench/fetch.sh` and `bench/build.sh` make the corpus. `survey` downloads sources; it and the commands without a corpus compile.
//! Exit status: 0, or 1 if a comparison failed, or 2 if a command could not run.

mod advise;
mod advisories;
mod audit;
mod check;
mod corpus;
mod debug;
mod differ;
mod facts;
mod gcdiff;
mod kills;
mod links;
mod mutate;
mod pair;
mod process;
mod report;
mod rng;
mod rules;
mod sites;
mod soak;
mod soak_links;
mod stack;
mod survey;
mod table;
mod texts;
mod unwind;

use std::path::PathBuf;
use std::process::ExitCode;

use lexopt::prelude::{Long, ValueExt as _};

use corpus::Corpus;

/// An error is its text for the terminal.
type Error = Box<dyn std::error::Error + Send + Sync>;
type Result<T> = std::result::Result<T, Error>;

/// A subcommand: the modes of the corpus that it links, its help, its code.
type BenchCommand = (&'static str, &'static str, &'static str, fn(&Corpus, &Options) -> Result<bool>);

const BUILT: &str = "gcc-mono gcc-fs clang-mono clang-fs rust";
const WITH_MAINS: &str = "gcc-mono gcc-fs clang-mono clang-fs rust main";
const TIMED: &str = "gcc-mono gcc-fs clang-mono clang-fs rust gcc-others gcc-debug clang-debug";
const CLOSED: &str = "gcc-mono gcc-fs clang-mono clang-fs rust gcc-closed";
const CHECKED: &str =
    "gcc-mono gcc-fs clang-mono clang-fs rust main lto-thin lto-full lto-fat lto-taken lto-half";
const DEBUG: &str = "gcc-debug clang-debug rust-debug";

const COMMANDS: &[BenchCommand] = &[
    ("links", TIMED, "time, memory and .text of each link, by lld alone and with lto-prune", links::run),
    (
        "unwind",
        CLOSED,
        "loaded bytes with --prune-unwind, compared with no unwind tables; times",
        unwind::run,
    ),
    ("debug", DEBUG, "debug information with --prune-debug=shrink, compared with llvm-dwarfutil", debug::run),
    (
        "sites",
        WITH_MAINS,
        "indirect calls that are resolved, here and by LLVM; .text of each level",
        sites::run,
    ),
    ("advise", BUILT, "tables of `lto-prune advise`, each row linked again from its flags", advise::run),
    ("advisories", "main", "verdicts of `audit reach`, compared with nm, objdump and gdb", advisories::run),
    ("stack", BUILT, "bounds of `audit stack`, compared with runs on a painted stack", stack::run),
    ("audit", BUILT, "whether answers of `lto-prune audit` add up, and their times", audit::run),
    ("files", "", "whether `audit top` accounts for files of the system", audit::files),
    ("check", CHECKED, "functional checks of programs, plain and pruned, by each linker", check::run),
    ("gcdiff", WITH_MAINS, "sections that lto-prune and `lld --gc-sections` keep", gcdiff::run),
    ("survey", "", "projects built and tested by their own build systems, plain and pruned", survey::run),
    ("soak", "", "random programs, linked plain and pruned, must behave the same", soak::run),
    ("soak-links", "", "random link lines, linked plain and pruned by each linker", soak_links::run),
    ("differ", "", "small links of every feature, plain and pruned, differ only as rules allow", differ::run),
    ("kills", "", "links killed at any moment leave the old output or the new one", kills::run),
    ("mutate", "", "links with a damaged input end the same, plain and pruned", mutate::run),
];

const OPTIONS: &str = "options
  --only=A,B        these programs, or PROGRAM/MODE; differ: features; survey: projects, or PROJECT/LINKER, again
  --runs=N          links, advise, audit, debug, unwind: runs of each (default 11)
  --linkers=A,B     links: these too, each alone and with lto-prune; check, soak, differ, kills, mutate: only these
  --count=N         differ, kills, mutate: number of links (default 500, 100 and 1000)
  --seed=N          differ: the first seed (default 0)
  --seeds=A..B      soak, soak-links, mutate: the seeds from A to B - 1
  --options         differ: only list the linkers' options that no feature uses
  --one-compiler    soak: gcc for even seeds and clang for odd ones, not both
  --lto             soak: most units of clang as LLVM bitcode, by lld
  --programs=KIND   soak: functions, pointers, unwind (default: by the level)
  --jobs=N          soak, soak-links, differ, check: programs at a time (default: the number of cores)
  --level=LEVEL     audit, check, soak, advisories: the --prune-level (default: functions)
  --all-modes       gcdiff: also links without -ffunction-sections
  --verbose         gcdiff: name every section that one side alone keeps
  --write           write the table, with the facts of the machine, to bench/results";

#[derive(Default)]
struct Options {
    only: Vec<String>,
    runs: usize,
    linkers: Vec<String>,
    seeds: Option<(u64, u64)>,
    seed: u64,
    count: Option<u64>,
    list_options: bool,
    one_compiler: bool,
    lto: bool,
    programs: Option<String>,
    jobs: usize,
    level: String,
    all_modes: bool,
    verbose: bool,
    write: bool,
}

impl Options {
    /// The linkers of `--linkers`, or else these.
    fn linkers_or(&self, others: &[&str]) -> Vec<String> {
        if self.linkers.is_empty() {
            others.iter().map(|l| (*l).to_owned()).collect()
        } else {
            self.linkers.clone()
        }
    }
}

fn usage() -> String {
    let names: Vec<&str> = COMMANDS.iter().map(|c| c.0).collect();
    let lines: String = COMMANDS.iter().map(|c| format!("  {:<17} {}\n", c.0, c.2)).collect();
    format!("usage: bench {} [options]\n{lines}{OPTIONS}", names.join("|"))
}

fn parse(args: &[String]) -> Result<Options> {
    let mut options = Options {
        runs: 11,
        jobs: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        level: "functions".into(),
        ..Options::default()
    };
    let list = |v: &str| v.split(',').map(str::to_owned).collect::<Vec<_>>();
    let mut parser = lexopt::Parser::from_args(args);
    while let Some(arg) = parser.next()? {
        let Long(name) = arg else { return Err(format!("{}\n{}", arg.unexpected(), usage()).into()) };
        let name = name.to_owned();
        let mut value = || -> Result<String> { Ok(parser.value()?.string()?) };
        match name.as_str() {
            "only" => options.only = list(&value()?),
            "runs" => options.runs = value()?.parse::<usize>()?.max(1),
            "linkers" => options.linkers = list(&value()?),
            "seeds" => options.seeds = Some(seeds(&value()?)?),
            "seed" => options.seed = value()?.parse()?,
            "count" => options.count = Some(value()?.parse()?),
            "options" => options.list_options = true,
            "one-compiler" => options.one_compiler = true,
            "lto" => options.lto = true,
            "programs" => options.programs = Some(value()?),
            "jobs" => options.jobs = value()?.parse::<usize>()?.max(1),
            "level" => options.level = value()?,
            "all-modes" => options.all_modes = true,
            "verbose" => options.verbose = true,
            "write" => options.write = true,
            _ => return Err(format!("unknown option --{name}\n{}", usage()).into()),
        }
    }
    Ok(options)
}

/// `A..B`, the seeds from A to B - 1.
fn seeds(text: &str) -> Result<(u64, u64)> {
    let (from, to) = text.split_once("..").ok_or("--seeds=A..B")?;
    let (from, to) = (from.parse()?, to.parse()?);
    if from < to { Ok((from, to)) } else { Err("--seeds=A..B: no seed between".into()) }
}

fn run(args: &[String]) -> Result<bool> {
    let (name, rest) = args.split_first().ok_or_else(usage)?;
    let (_, modes, _, command) = COMMANDS.iter().find(|c| c.0 == name).ok_or_else(usage)?;
    let options = parse(rest)?;
    command(&Corpus::open(PathBuf::from(env!("CARGO_MANIFEST_DIR")), modes, &options.only)?, &options)
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(e) => {
            eprintln!("bench: {e}");
            ExitCode::from(2)
        }
    }
}
