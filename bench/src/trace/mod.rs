//! `bench trace`: dynamic truth. What programs call through pointers as they run, held against what `--prune-level=pointers`
//! says they can.
//!
//! The program that runs is the plain link, so that nothing that was pruned can hide a call; the report is of the pruned link of the
//! same objects by the same linker. Each program does what its functional check has it do.

mod compare;
mod layout;
mod library_functions;
mod program;
pub(crate) mod report;
mod tracer;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod layout_tests;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use iced_x86::FlowControl;

use crate::corpus::{Corpus, Link, find_linker};
use crate::process::run_ok;
use crate::table::{Table, count, publish_good};
use crate::{Options, Result, reach};
use compare::{Executed, Seen, SiteComparison};
use layout::Layout;
use program::TracedProgram;
use report::{State, TraceReport};
pub(crate) use tracer::Run;
use tracer::{CallTarget, Trace};

/// A link, and how its program is run: by a check script, or alone.
#[derive(Debug)]
pub(crate) struct TracedLink {
    pub(crate) link: Link,
    script: Option<PathBuf>,
}

#[derive(Debug)]
pub(crate) struct TraceOutcome {
    pub(crate) report: TraceReport,
    pub(crate) live: Live,
    comparison: SiteComparison,
    trace: Trace,
    /// What ran and lies in no section that is known, by address and function.
    unplaced: Vec<String>,
    uncovered: u64,
    /// Sections of code of the plain program without a place.
    unknown_sections: usize,
    /// Sites with so many hits that they were taken out.
    taken_out: usize,
}

/// Indirect call sites in code that is kept, by what is known of them.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Live {
    pub(crate) resolved: usize,
    pub(crate) never: usize,
    pub(crate) overdefined: usize,
    /// Calls in functions whose values are not followed: they are in no report.
    pub(crate) not_followed: usize,
}

impl Live {
    pub(crate) fn all(&self) -> usize {
        self.resolved + self.never + self.overdefined + self.not_followed
    }
}

impl TraceOutcome {
    /// Sites that ran, and of these the resolved ones.
    pub(crate) fn executed(&self) -> (usize, usize) {
        (self.comparison.executed, self.comparison.resolved)
    }

    /// Exit status of what was run.
    pub(crate) fn status(&self) -> i32 {
        self.trace.status
    }

    /// What ran and can't, a line each.
    pub(crate) fn misses(&self, name: &str) -> String {
        let mut out = String::new();
        for miss in &self.comparison.misses {
            let place = format!("section {} + {:#x}", miss.place.section, miss.place.offset);
            let (what, caller, site, target) = (miss.what, &miss.caller, miss.site, &miss.target);
            out.push_str(&format!("{name}: {what}: {caller} at {site:#x} ({place}) called {target}\n"));
        }
        out
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mains {
    /// Programs that hold the C and C++ libraries themselves.
    Static,
    All,
}

/// Modes of links that export nothing begin so.
pub(crate) const CLOSED: &str = "closed-";

/// A link that exports everything for modules that may be loaded (lua's), without that: what calls the program is known then, as it is
/// to LLVM's pass where all but `main` is internal.
fn closed(link: &Link) -> Option<Link> {
    let exports = |word: &String| ["-E", "--export-dynamic", "-Wl,-E"].contains(&word.as_str());
    if !link.linker_args.iter().any(exports) {
        return None;
    }
    let mut link = Link { mode: format!("{CLOSED}{}", link.mode), ..link.clone() };
    link.linker_args.retain(|word| !exports(word));
    link.driver.retain(|word| !exports(word));
    Some(link)
}

/// The links of the corpus, those that export everything once more without that, and the mains that `only` names, or all if it is empty.
///
/// # Errors
/// If a main doesn't compile, or nothing is left.
pub(crate) fn cases(corpus: &Corpus, only: &[String], mains: Mains) -> Result<Vec<TracedLink>> {
    let script = |link: &Link| Some(corpus.root.join("check").join(&link.program).with_extension("sh"));
    let both = corpus.links.iter().flat_map(|link| std::iter::once(link.clone()).chain(closed(link)));
    let mut cases: Vec<TracedLink> = both.map(|link| TracedLink { script: script(&link), link }).collect();
    for name in reach::names(corpus)? {
        let wanted = mains == Mains::All || name.starts_with("static");
        // A main may have the name of a program.
        let program = corpus.links.iter().any(|l| l.program == name);
        let asked = only.contains(&format!("{name}/{}", reach::MODE)) || (only.contains(&name) && !program);
        if wanted && (asked || only.is_empty()) {
            let link = reach::record_link(corpus, &name, &corpus.scratch(&format!("mains/{name}"))?)?;
            cases.push(TracedLink { link, script: None });
        }
    }
    if cases.is_empty() { Err("no such program".into()) } else { Ok(cases) }
}

fn folder(link: &Link) -> String {
    format!("trace/{}-{}", link.program, link.mode)
}

/// Where [`observe`] leaves its files; the pruned program is `pruned`.
pub(crate) fn scratch(corpus: &Corpus, link: &Link) -> PathBuf {
    corpus.root.join("work/run").join(folder(link))
}

/// The command of a strict link at a level, with lld behind and the times of its stages on standard error.
///
/// # Errors
/// If the command's name can't be made in `scratch`, or there is no lld.
pub(crate) fn pruned_link(
    corpus: &Corpus,
    link: &Link,
    scratch: &Path,
    output: &Path,
    level: &str,
) -> Result<Command> {
    // Under this name it takes a linker's arguments.
    let ours = scratch.join("ld.lto-prune");
    if !ours.exists() {
        symlink(&corpus.pruner, &ours)?;
    }
    let mut command = corpus.linker_command(link, &ours, output);
    command
        .env("LTO_PRUNE_LINKER", find_linker("lld")?)
        .env_remove("LTO_PRUNE_FLAGS")
        .args(["--prune-strict", "--prune-time", "--prune-gate=0"])
        .arg(format!("--prune-level={level}"));
    Ok(command)
}

/// Link plain and pruned, trace the plain program, and compare.
pub(crate) fn observe(corpus: &Corpus, case: &TracedLink, limit: u64) -> Result<TraceOutcome> {
    let link = &case.link;
    let scratch = corpus.scratch(&folder(link))?;
    let (plain, map, json) = (scratch.join("plain"), scratch.join("map"), scratch.join("report.json"));
    let lld = find_linker("lld")?;
    let mut command = corpus.linker_command(link, &lld, &plain);
    run_ok(command.arg(format!("-Map={}", map.display())), &scratch)
        .map_err(|e| format!("plain link: {e}"))?;
    let mut command = pruned_link(corpus, link, &scratch, &scratch.join("pruned"), "pointers")?;
    command.arg(format!("--prune-report={}", json.display()));
    run_ok(&mut command, &scratch).map_err(|e| format!("pruned link: {e}"))?;

    let binary = plain.as_os_str();
    let args: Vec<&OsStr> = match &case.script {
        Some(script) => vec![OsStr::new("sh"), script.as_os_str(), binary],
        None => vec![binary],
    };
    let run = scratch.join("run");
    fs::create_dir(&run)?;
    let (stdout, stderr) = (scratch.join("transcript"), scratch.join("errors"));
    let run = Run { args: &args, dir: &run, stdout: &stdout, stderr: &stderr, limit };
    let outcome = hold(&ComparedFiles { plain: &plain, map: &map, report: &json, dir: &link.dir }, &run)?;
    if outcome.trace.status != 0 {
        let errors = String::from_utf8_lossy(&fs::read(stderr)?).into_owned();
        let status = outcome.trace.status;
        return Err(format!("the traced program fails its check, status {status}\n{errors}").into());
    }
    Ok(outcome)
}

/// What a comparison is made of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ComparedFiles<'a> {
    pub(crate) plain: &'a Path,
    /// lld wrote it for the plain link.
    pub(crate) map: &'a Path,
    /// It is that of the pruned link.
    pub(crate) report: &'a Path,
    pub(crate) dir: &'a Path,
}

/// Trace a run of a plain program and hold it against the report of the pruned link.
///
/// # Errors
/// If a file is missing or of another form, or the program can't be traced.
pub(crate) fn hold(files: &ComparedFiles<'_>, run: &Run<'_>) -> Result<TraceOutcome> {
    let report = TraceReport::read(files.report)?;
    let program = TracedProgram::read(files.plain)?;
    let layout = Layout::read(files.plain, files.map, files.dir, &report)?;
    let trace = tracer::trace(&program, run)?;
    let comparison = compare::compare(&report, &executed(&program, &layout, &report, &trace));
    Ok(TraceOutcome {
        live: live(&program, &layout, &report),
        unplaced: comparison.unplaced.iter().map(|a| named(&program, *a)).collect(),
        uncovered: program.uncovered,
        unknown_sections: layout.unknown.len(),
        taken_out: trace.sites.values().filter(|o| o.hits >= run.limit).count(),
        comparison,
        trace,
        report,
    })
}

fn named(program: &TracedProgram, address: u64) -> String {
    format!("{address:#x} in {}", program.function(address).unwrap_or("no function"))
}

/// What ran, in places of the inputs.
fn executed(program: &TracedProgram, layout: &Layout, report: &TraceReport, trace: &Trace) -> Vec<Executed> {
    let mut out = Vec::new();
    for (&address, observed) in &trace.sites {
        let seen = |target: &CallTarget| match target {
            CallTarget::Inside(at) if program.resolvers.contains(at) => Seen::Resolver,
            CallTarget::Inside(at) => Seen::Inside(layout.place_of(*at), *at),
            CallTarget::Library(names) => Seen::Library(names.clone()),
        };
        let place = layout.place_of(address);
        let caller = place.and_then(|p| report.atoms.get(report.atom_at(p)?));
        out.push(Executed {
            address,
            place,
            mentions: caller.map(|c| layout.mentions(c.place, c.size)).unwrap_or_default(),
            jump: is_jump(program, address),
            targets: observed.targets.keys().map(seen).collect(),
        });
    }
    out
}

fn is_jump(program: &TracedProgram, site: u64) -> bool {
    program.sites.get(&site).is_some_and(|i| i.flow_control() == FlowControl::IndirectBranch)
}

/// Count the sites of what is kept.
fn live(program: &TracedProgram, layout: &Layout, report: &TraceReport) -> Live {
    let mut live = Live::default();
    for claim in report.claims.values() {
        *match claim.state {
            State::Resolved => &mut live.resolved,
            State::Never => &mut live.never,
            State::Overdefined => &mut live.overdefined,
        } += 1;
    }
    for &site in program.sites.keys().filter(|s| !is_jump(program, **s)) {
        let Some(place) = layout.place_of(site) else { continue };
        let Some(atom) = report.atom_at(place).and_then(|a| report.atoms.get(a)) else { continue };
        let unseen = atom.function.is_none() && !report.claims.contains_key(&place);
        live.not_followed += usize::from(atom.state == "kept" && unseen);
    }
    live
}

/// The command. True if nothing ran that the analysis excludes.
pub(crate) fn run(corpus: &Corpus, options: &Options) -> Result<bool> {
    let mut table = Table::new(&[
        "program",
        "runs",
        "hits",
        "sites seen",
        "resolved",
        "overdefined",
        "not followed",
        "direct",
        "tables",
        "pairs",
        "taken out",
        "lost",
        "no place",
        "misses",
    ]);
    let mut failures = String::new();
    for case in cases(corpus, &options.only, Mains::Static)? {
        let name = case.link.name();
        eprintln!("{name}");
        let outcome = match observe(corpus, &case, options.hits) {
            Ok(outcome) => outcome,
            Err(e) => {
                failures.push_str(&format!("{name}: {e}\n"));
                continue;
            }
        };
        let c = &outcome.comparison;
        let hits: u64 = outcome.trace.sites.values().map(|o| o.hits).sum();
        let mut cells = vec![name.clone(), outcome.trace.processes.to_string(), count(hits)];
        let numbers = [
            c.executed,
            c.resolved,
            c.overdefined,
            c.not_followed,
            c.direct,
            c.tables,
            c.pairs,
            outcome.taken_out,
        ];
        cells.extend(numbers.map(|n| count(n as u64)));
        cells.push(count(outcome.trace.lost));
        cells.push(count(c.unplaced.len() as u64));
        cells.push(count(c.misses.len() as u64));
        table.row(&cells);
        if options.verbose {
            println!(
                "{name}: {} bytes of code in no function, {} sections without a place, no place: {}",
                outcome.uncovered,
                outcome.unknown_sections,
                outcome.unplaced.join(", ")
            );
        }
        failures.push_str(&outcome.misses(&name));
    }
    let body = format!(
        "Indirect calls and jumps of the plain programs as they ran their functional checks, and what \
         `--prune-level=pointers` says of these sites. A site is taken out after {} hits. Pairs: of site and target, each \
         held against the report.\n\n{}",
        count(options.hits),
        table.as_str()
    );
    print!("{failures}");
    publish_good(failures.is_empty(), corpus, options, "trace", "What ran is in what was proved", &body)
}
