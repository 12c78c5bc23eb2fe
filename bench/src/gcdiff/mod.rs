//! `bench gcdiff`: at `--prune-level=sections`, lto-prune keeps the sections that `ld.lld --gc-sections` keeps, and each
//! difference has a proved reason.
//!
//! Only allocated sections count. lld prints the sections that it removed (`--print-gc-sections`) and its files (`--trace`). lto-prune's report has
//! an atom for each section, so that the n-th atom of a name in a module is the n-th section of that name.

mod explain;
mod objects;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::corpus::{Corpus, Link};
use crate::process::run_ok;
use crate::report::{self, list, number, text};
use crate::table::{Table, count, publish};
use crate::{Options, Result};
use explain::{SectionFacts, SectionReason};
use objects::{LinkObjects, SectionRef, label};

/// How many sections of an object and name are removed.
type Removed = HashMap<(String, String), usize>;
/// Whether each section is kept, by object and section.
type KeptSections = Vec<Vec<Option<bool>>>;

/// Number and bytes of a set of sections.
#[derive(Debug, Default, Clone, Copy)]
struct SizeSum(u64, u64);

impl SizeSum {
    fn add(&mut self, bytes: u64) {
        *self = SizeSum(self.0 + 1, self.1 + bytes);
    }

    fn cell(self) -> String {
        format!("{} ({})", count(self.0), count(self.1))
    }
}

#[derive(Debug, Default)]
struct GcDifference {
    both_kept: SizeSum,
    both_dropped: SizeSum,
    /// Sections that only lto-prune drops, and that only lto-prune keeps.
    reasons: [BTreeMap<SectionReason, SizeSum>; 2],
    details: Vec<String>,
    errors: Vec<String>,
}

fn of(kept: &KeptSections, (object, section): SectionRef) -> Option<bool> {
    kept.get(object)?.get(section).copied().flatten()
}

/// Link with lld's garbage collection: the objects of the link, and how many sections of each object and name it removed.
fn theirs(corpus: &Corpus, link: &Link, lld: &Path, scratch: &Path) -> Result<(LinkObjects, Removed)> {
    let mut command = corpus.linker_command(link, lld, &scratch.join("lld.out"));
    run_ok(command.args(["--gc-sections", "--print-gc-sections", "--trace"]), scratch)?;
    let (mut removed, mut trace) = (HashMap::new(), Vec::new());
    for line in fs::read_to_string(scratch.join("stdout"))?.lines() {
        match line.strip_prefix("removing unused section ") {
            Some(place) => {
                let place = place.strip_suffix(')').and_then(|place| place.split_once(":("));
                let (file, section) = place.ok_or_else(|| format!("lld printed: {line}"))?;
                *removed.entry((label(&link.dir, file), section.to_owned())).or_default() += 1;
            }
            None => trace.push(line.to_owned()),
        }
    }
    Ok((LinkObjects::read(&link.dir, &trace)?, removed))
}

/// The sections that lld kept. If a file has several of one name and lld removed some, it is unknown which: lld is taken to agree with
/// `ours` as far as the number allows.
fn kept_by_lld(
    objects: &LinkObjects,
    mut removed: Removed,
    ours: &dyn Fn(SectionRef) -> bool,
) -> KeptSections {
    let mut kept: KeptSections = objects.objects.iter().map(|o| vec![Some(true); o.sections.len()]).collect();
    for agreeing in [false, true] {
        for (o, s) in objects.nodes() {
            let (object, section) = (&objects.objects[o], &objects.objects[o].sections[s]);
            if section.discarded {
                kept[o][s] = Some(false);
            } else if kept[o][s] == Some(true) && ours((o, s)) == agreeing {
                let key = (object.label.clone(), section.name.clone());
                if let Some(left) = removed.get_mut(&key).filter(|left| **left > 0) {
                    *left -= 1;
                    kept[o][s] = Some(false);
                }
            }
        }
    }
    kept
}

/// Link with lto-prune at section level: whether each section of `objects` is kept, and the atoms that are no section.
fn ours(
    corpus: &Corpus,
    link: &Link,
    objects: &LinkObjects,
    lld: &Path,
    scratch: &Path,
) -> Result<(KeptSections, Vec<String>)> {
    let report = scratch.join("report.json");
    let mut command = corpus.pruned_command(link, lld, &scratch.join("ours.out"));
    command.args(["--prune-level=sections", "--prune-no-cache", "--prune-strict"]);
    run_ok(command.arg(format!("--prune-report={}", report.display())), scratch)?;
    let report = report::read(&report)?;
    // A link of the originals would agree with anything.
    if report["pruned"] == Value::Bool(false) {
        return Err(format!("nothing was pruned: {}", report["limits"]).into());
    }
    // Objects of one label (members of one name) and modules of that label have the same order. Lists are popped from the back.
    let mut by_label: HashMap<&str, Vec<usize>> = HashMap::new();
    let mut by_name: HashMap<(usize, &str), Vec<usize>> = HashMap::new();
    for (o, object) in objects.objects.iter().enumerate().rev() {
        by_label.entry(&object.label).or_default().push(o);
        for (s, section) in object.sections.iter().enumerate().rev() {
            by_name.entry((o, &section.name)).or_default().push(s);
        }
    }
    let mut object_of = Vec::new();
    for module in list(&report, "modules")? {
        let (name, archive) = (text(module, "name"), text(module, "archive"));
        let is_path = archive.is_empty() || name.ends_with(')');
        let name = if is_path { name.to_owned() } else { format!("{archive}({name})") };
        object_of.push(by_label.get_mut(&*label(&link.dir, &name)).and_then(Vec::pop));
    }
    let mut live: KeptSections = objects.objects.iter().map(|o| vec![None; o.sections.len()]).collect();
    let mut unknown = Vec::new();
    for atom in list(&report, "atoms")? {
        let (module, name) = (number(atom, "module") as usize, text(atom, "section"));
        let alive = atom["live"].as_bool().ok_or("an atom without \"live\"")?;
        let object = object_of.get(module).copied().flatten();
        let section = object.and_then(|o| by_name.get_mut(&(o, name)).and_then(Vec::pop));
        match object.zip(section) {
            Some((o, s)) => live[o][s] = Some(alive),
            None => unknown.push(format!("module {module}:({name})")),
        }
    }
    Ok((live, unknown))
}

fn compare(corpus: &Corpus, link: &Link) -> Result<GcDifference> {
    let scratch = corpus.scratch(&format!("gcdiff/{}-{}", link.program, link.mode))?;
    let lld = link.lld()?;
    let (objects, removed) = theirs(corpus, link, &lld, &scratch)?;
    let (live, unknown) = ours(corpus, link, &objects, &lld, &scratch)?;
    let size = |node: SectionRef| objects.section(node).map_or(0, |s| s.size);
    let place = |node: SectionRef| {
        let object = &objects.objects[node.0];
        let file = object.label.rsplit('/').next().unwrap_or(&object.label);
        format!("{file}:({}), {} bytes", object.sections[node.1].name, count(size(node)))
    };
    let mut outcome = GcDifference::default();
    let is_discarded = |node: SectionRef| objects.section(node).is_some_and(|s| s.discarded);
    // A section without an atom is kept, but one with bytes must be in the report.
    let missing = objects.nodes().filter(|n| of(&live, *n).is_none() && size(*n) > 0 && !is_discarded(*n));
    outcome.errors.extend(missing.map(|node| format!("not in the report: {}", place(node))));
    let our_keep = |node: SectionRef| !is_discarded(node) && of(&live, node).unwrap_or(true);
    let kept = kept_by_lld(&objects, removed, &our_keep);
    let their_keep = |node: SectionRef| of(&kept, node) == Some(true);
    for node in objects.nodes() {
        match (their_keep(node), our_keep(node)) {
            (true, true) => outcome.both_kept.add(size(node)),
            (false, false) => outcome.both_dropped.add(size(node)),
            _ => {}
        }
    }
    let gc_on_line = link.linker_args.iter().any(|a| a == "--gc-sections");
    let facts = SectionFacts { link_objects: &objects, lld: &their_keep, ours: &our_keep, gc_on_line };
    for ((side, nodes), sums) in [("dropped", facts.dropped_by_us()), ("kept", facts.kept_by_us())]
        .into_iter()
        .zip(&mut outcome.reasons)
    {
        for (node, reason) in nodes {
            sums.entry(reason).or_default().add(size(node));
            let list = if explain::is_error(reason) { &mut outcome.errors } else { &mut outcome.details };
            list.push(format!("{side} only by lto-prune: {}: {reason}", place(node)));
        }
    }
    // Commons have no section; any other atom must be one of the link's sections.
    let strangers = unknown.iter().filter(|u| !u.ends_with(":(COMMON)"));
    outcome.details.extend(strangers.map(|u| format!("atom that is no section of this link: {u}")));
    Ok(outcome)
}

/// The command. True if every difference is explained.
pub(crate) fn run(corpus: &Corpus, options: &Options) -> Result<bool> {
    let mut table = Table::new(
        "link | both keep | both drop | only lto-prune drops | only lto-prune keeps | unexplained",
    );
    let mut reasons = Table::new("difference | sections (bytes)");
    let mut errors = 0;
    let links = corpus.links.iter().filter(|l| options.all_modes || l.function_sections());
    let good = table.links(links, |link| {
        let outcome = compare(corpus, link)?;
        for (side, sums) in ["dropped", "kept"].iter().zip(&outcome.reasons) {
            for (reason, sum) in sums {
                reasons.row(&[format!("{}, {side}: {reason}", link.name()), sum.cell()]);
            }
        }
        if options.verbose {
            outcome.details.iter().for_each(|d| println!("{}: {d}", link.name()));
        }
        outcome.errors.iter().for_each(|e| eprintln!("FAILED {}: {e}", link.name()));
        errors += outcome.errors.len();
        let totals = outcome
            .reasons
            .map(|sums| sums.values().fold(SizeSum::default(), |a, b| SizeSum(a.0 + b.0, a.1 + b.1)).cell());
        let mut cells = vec![link.name(), outcome.both_kept.cell(), outcome.both_dropped.cell()];
        cells.extend(totals);
        cells.push(outcome.errors.len().to_string());
        Ok(cells)
    });
    let body = format!(
        "Allocated input sections (bytes) that `ld.lld --gc-sections` and `lto-prune --prune-level=sections` keep.\n\n{}\nDifferences and their reasons:\n\n{}",
        table.as_str(),
        reasons.as_str()
    );
    publish(
        good && errors == 0,
        corpus,
        options,
        ("gcdiff", "Kept sections, compared with lld's garbage collection"),
        &body,
    )
}
