//! Runners of the benchmark: `bench COMMAND [OPTIONS]`, described in docs/BENCHMARKING.md.
//!
//! The corpus is made beforehand by `bench/fetch.sh` and `bench/build.sh`; only `builds`, `survey`, `recompiled` and `split` download, and only they,
//! `soak`, `reach`, `advisories`, `trace`, `sites`, `stack`, `differ`, `kills` and `mutate` compile.
//! Exit status: 0, or 1 when a comparison failed, or 2 when a command could not run.

mod actions;
mod advise;
mod advisories;
mod audit;
mod beside;
mod builds;
mod check;
mod corpus;
mod debug;
mod differ;
mod examples;
mod files;
mod folds;
mod gcdiff;
mod kills;
mod floor;
mod links;
mod lto;
mod machine;
mod mutate;
mod oracle;
mod pages;
mod process;
mod scale;
mod sites;
mod link_programs;
mod soak_links;
mod reach;
mod report;
mod soak;
mod stack;
mod stops;
mod survey;
mod symbols;
mod table;
mod trace;
mod unwind;

use std::path::PathBuf;
use std::process::ExitCode;

use lexopt::prelude::{Long, ValueExt as _};

use corpus::Corpus;

/// What went wrong, in words for the terminal.
type Error = Box<dyn std::error::Error + Send + Sync>;
type Result<T> = std::result::Result<T, Error>;

const USAGE: &str =
    "usage: bench links|actions|advise|advisories|stops|folds|unwind|debug|audit|stack|files|pages|examples|gcdiff|check|builds|lto|soak|soak-links|differ|reach|trace|sites|oracle|kills|mutate|scale|survey|recompiled|split [options]
  links             time and memory of each link, the linker alone beside lto-prune, and .text sizes
  actions           each link in actions (docs/ACTIONS.md) is the link by one command; sizes and times
  advise            the tables of `lto-prune advise`, each row linked again from its flags
  advisories        verdicts of `lto-prune audit reach` on functions of real advisories, checked by nm, objdump and runs
  stops             what becomes of code that only mentions of its address reach, and what keeps it, in bytes
  folds             .text with --icf=safe, the linker alone beside lto-prune
  unwind            loaded bytes with --prune-unwind beside the same without unwind tables, and the time it takes
  debug             bytes of debug information at the default level and with --prune-debug=shrink, beside llvm-dwarfutil
  audit             what `lto-prune audit` says of each link adds up, and in which time it does
  files             what `lto-prune audit top` says of programs and libraries of the system adds up; crates beside cargo-bloat
  stack             worst-case stacks by `lto-prune audit stack` next to the depths of runs on a painted stack
  pages             the page of `lto-prune audit html` in a browser: whether it is right, and its times
  examples          whether docs/AUDIT.md shows what is printed; --write puts that there
  gcdiff            what lto-prune keeps beside what ld.lld --gc-sections keeps, section by section
  check             every program, linked plain and pruned by each linker, passes its functional check alike
  builds            real projects, built and tested by their own means, plain and with lto-prune, come out alike
  lto               every program as LLVM bitcode, linked by lld alone and pruned, passes its check alike; sizes and times
  soak              random programs, linked plain and pruned, behave alike
  soak-links        random link lines, linked plain and pruned by each linker, behave alike
  differ            small links with features of every kind, plain and pruned, differ only as rules say
  reach             what is kept of static libraries beside what can be reached
  trace             what programs call through pointers as they run is in what value flow says they can
  sites             indirect call sites resolved, here and by LLVM; functions called and not; bytes
  oracle            what LLVM's own analyses say of the programs as bitcode, beside what lto-prune says
  kills             links killed at any moment leave the old output or the new one, and nothing else
  mutate            links with a damaged input end alike, plain and through lto-prune
  scale             time and memory of links as the program doubles, up to 30,000 objects (--count=N) made up on the spot
  survey            how much of Debian's static libraries, and of units of its sources, is divided, and what each limit costs
  recompiled        programs of Debian's sources, pruned, beside the same recompiled with sections for functions and data
  split             what each linker's own --gc-sections keeps of split archives, beside what lto-prune keeps
options
  --only=A,B        these programs, or PROGRAM/MODE; reach: these mains; differ: these features; builds: these projects, or PROJECT/LINKER, again;
                    survey: libraries, programs; recompiled: these packages; split: these mains and packages
  --runs=N          links, advise, audit, lto: runs of each (default 11)
  --linkers=A,B     links: beside lld these, each alone and behind lto-prune;
                    check, soak, soak-links, reach: of lld, mold, bfd, gold (default: all four), wild; differ: rust-lld too
  --count=N         differ, kills, mutate: so many links (default: 500, 100 and 1000); survey: so many packages with libraries (default: 200);
                    recompiled: so many programs (default: 25); split: so many packages (default: 20)
  --seed=N          differ: the first seed (default 0)
  --options         differ: only list the linkers' options that no feature uses
  --seeds=A..B      soak, soak-links: the seeds from A to B - 1
  --hits=N          trace, sites: a site is watched for so many hits (default 50000)
  --objects=DIR     soak: keep what is compiled in DIR, and take from there what was compiled before
  --one-compiler    soak: a seed by one compiler, gcc and clang in turn, not by both
  --trace           soak: trace what lld links, at --level=pointers
  --lto             soak: most units of clang as LLVM bitcode, by lld
  --programs=KIND   soak: functions, pointers, csmith, twins, unwind (default: what suits the level)
  --csmith          soak: as --programs=csmith
  --jobs=N          soak, differ: programs at a time (default: as many as cores)
  --level=LEVEL     folds, audit, pages, check, lto, soak, reach: the --prune-level (default: functions)
  --all-modes       gcdiff: not only -ffunction-sections
  --verbose         gcdiff, reach, trace, oracle: name every section, function or address that needs a look
  --write           put the table, with the machine's facts, in bench/results";

struct Options {
    only: Vec<String>,
    runs: usize,
    linkers: Vec<String>,
    seeds: Option<(u64, u64)>,
    seed: u64,
    count: Option<u64>,
    list_options: bool,
    hits: u64,
    trace: bool,
    /// Not each seed by both compilers.
    one_compiler: bool,
    objects: Option<PathBuf>,
    lto: bool,
    programs: Option<soak::SoakPrograms>,
    jobs: usize,
    level: String,
    all_modes: bool,
    verbose: bool,
    write: bool,
}

fn parse(args: &[String]) -> Result<Options> {
    let mut options = Options {
        only: Vec::new(),
        runs: 11,
        linkers: Vec::new(),
        seeds: None,
        seed: 0,
        count: None,
        list_options: false,
        hits: 50_000,
        trace: false,
        one_compiler: false,
        objects: None,
        lto: false,
        programs: None,
        jobs: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        level: "functions".into(),
        all_modes: false,
        verbose: false,
        write: false,
    };
    let list = |v: &str| v.split(',').map(str::to_owned).collect::<Vec<_>>();
    let mut parser = lexopt::Parser::from_args(args);
    while let Some(arg) = parser.next()? {
        let Long(name) = arg else { return Err(format!("{}\n{USAGE}", arg.unexpected()).into()) };
        let name = name.to_owned();
        let mut value = || -> Result<String> { Ok(parser.value()?.string()?) };
        match name.as_str() {
            "only" => options.only = list(&value()?),
            "runs" => options.runs = value()?.parse::<usize>()?.max(1),
            "linkers" => options.linkers = list(&value()?),
            "seeds" => options.seeds = Some(soak::seeds(&value()?)?),
            "seed" => options.seed = value()?.parse()?,
            "count" => options.count = Some(value()?.parse()?),
            "options" => options.list_options = true,
            "hits" => options.hits = value()?.parse::<u64>()?.max(1),
            "objects" => options.objects = Some(value()?.into()),
            "one-compiler" => options.one_compiler = true,
            "trace" => options.trace = true,
            "lto" => options.lto = true,
            "programs" => options.programs = Some(soak::SoakPrograms::parse(&value()?)?),
            "csmith" => options.programs = Some(soak::SoakPrograms::Csmith),
            "jobs" => options.jobs = value()?.parse::<usize>()?.max(1),
            "level" => options.level = value()?,
            "all-modes" => options.all_modes = true,
            "verbose" => options.verbose = true,
            "write" => options.write = true,
            _ => return Err(format!("unknown option --{name}\n{USAGE}").into()),
        }
    }
    Ok(options)
}

fn run(args: &[String]) -> Result<bool> {
    let (command, rest) = args.split_first().ok_or(USAGE)?;
    let options = parse(rest)?;
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    match command.as_str() {
        "soak-links" => return soak_links::run(&options, &corpus::lto_prune()?),
        "differ" => return differ::run(&Corpus::tools(root)?, &options),
        "soak" => return soak::run(&Corpus::tools(root)?, &options),
        "builds" => return builds::run(&Corpus::tools(root)?, &options),
        "mutate" => return mutate::run(&Corpus::tools(root)?, &options),
        "kills" => return kills::run(&Corpus::tools(root)?, &options),
        "advisories" => return advisories::run(&Corpus::tools(root)?, &options),
        "files" => return files::run(&Corpus::tools(root)?, &options),
        "reach" => return reach::run(&Corpus::tools(root)?, &options),
        "scale" => return scale::run(&Corpus::tools(root)?, &options),
        "survey" => return survey::run(&Corpus::tools(root)?, &options),
        "recompiled" => return beside::recompiled(&Corpus::tools(root)?, &options),
        "split" => return beside::split(&Corpus::tools(root)?, &options),
        _ => {}
    }
    match command.as_str() {
        "trace" => return trace::run(&Corpus::built(root, &options.only)?, &options),
        "oracle" => return oracle::run(&Corpus::bitcode(root, &options.only)?, &options),
        "lto" => return lto::run_all(&Corpus::bitcode(root, &options.only)?, &options),
        "links" => return links::run(&Corpus::timed(root, &options.only)?, &options),
        "actions" => return actions::run(&Corpus::all(root, &options.only)?, &options),
        "unwind" => return unwind::run(&Corpus::closed(root, &options.only)?, &options),
        "debug" => return debug::run(&Corpus::with_debug(root, &options.only)?, &options),
        "sites" => return sites::run(&Corpus::built(root, &options.only)?, &options),
        "stack" => return stack::run(&Corpus::built(root, &options.only)?, &options),
        _ => {}
    }
    let corpus = Corpus::open(root, &options.only)?;
    match command.as_str() {
        "stops" => stops::run(&corpus, &options),
        "advise" => advise::run(&corpus, &options),
        "folds" => folds::run(&corpus, &options),
        "audit" => audit::run(&corpus, &options),
        "pages" => pages::run(&corpus, &options),
        "examples" => examples::run(&corpus, &options),
        "gcdiff" => gcdiff::run(&corpus, &options),
        "check" => check::run(&corpus, &options),
        _ => Err(format!("unknown command {command}\n{USAGE}").into()),
    }
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
