//! `bench gcdiff`: at section level, lto-prune keeps what `ld.lld --gc-sections` keeps, and what it drops beyond that is
//! named and explained.
//!
//! Both are asked about the same link. Allocated sections only, each by file and name; COMDAT copies that lost count
//! as dropped. The command fails if anything is missing without a proved reason, or kept without one.

mod explain;
mod lld;
mod objects;
mod ours;

use std::collections::BTreeMap;
use std::path::Path;

use crate::corpus::{Corpus, Link, find_linker};
use crate::table::{Table, count, publish_good};
use crate::{Options, Result};
use explain::{SectionFacts, SectionReason};
use objects::{LinkObjects, SectionRef};

/// Number and bytes of a set of sections.
#[derive(Debug, Default, Clone, Copy)]
struct SizeSum {
    sections: u64,
    bytes: u64,
}

impl SizeSum {
    fn add(&mut self, bytes: u64) {
        self.sections += 1;
        self.bytes += bytes;
    }

    fn cell(self) -> String {
        format!("{} ({})", count(self.sections), count(self.bytes))
    }
}

#[derive(Debug, Default)]
struct GcDifference {
    both_kept: SizeSum,
    both_dropped: SizeSum,
    dropped_by_us: BTreeMap<SectionReason, SizeSum>,
    kept_by_us: BTreeMap<SectionReason, SizeSum>,
    details: Vec<String>,
    errors: Vec<String>,
}

fn place(link_objects: &LinkObjects, node: SectionRef) -> String {
    let (object, section) = (&link_objects.objects[node.0], link_objects.section(node));
    let (name, size) = section.map_or(("", 0), |s| (&*s.name, s.size));
    let file = object.label.rsplit('/').next().unwrap_or(&object.label);
    format!("{file}:({name}), {} bytes", count(size))
}

fn compare(corpus: &Corpus, link: &Link, lld: &Path, ours: &Path) -> Result<GcDifference> {
    let scratch = corpus.scratch(&format!("gcdiff/{}-{}", link.program, link.mode))?;
    let theirs = lld::run(corpus, link, lld, &scratch)?;
    let report = ours::run(corpus, link, lld, ours, &scratch)?;
    let link_objects = &theirs.link_objects;
    let verdicts = ours::verdicts(&link.dir, link_objects, &report)?;

    let mut outcome = GcDifference::default();
    outcome.errors.extend(theirs.unaccounted.iter().map(|s| format!("this tool misread lld: {s}")));
    // Sections that are no atoms are passed on as they are, and so kept, but an allocated one with bytes must be in the report.
    for node in link_objects.nodes() {
        let (object, section) =
            (&link_objects.objects[node.0], &link_objects.objects[node.0].sections[node.1]);
        if verdicts.of(node).is_none() && section.size > 0 && !section.discarded {
            outcome.errors.push(format!("not in the report: {}:({})", object.label, section.name));
        }
    }
    let our_keep = |n: SectionRef| match link_objects.section(n) {
        Some(s) if s.discarded => false,
        _ => verdicts.of(n).unwrap_or(true),
    };
    let their_sections = theirs.sections(&our_keep);
    let their_keep =
        |(o, s): SectionRef| their_sections.get(o).and_then(|v| v.get(s)).copied().unwrap_or(false);
    for node in link_objects.nodes() {
        let size = link_objects.section(node).map_or(0, |s| s.size);
        match (their_keep(node), our_keep(node)) {
            (true, true) => outcome.both_kept.add(size),
            (false, false) => outcome.both_dropped.add(size),
            _ => {}
        }
    }
    let gc_on_line = link.linker_args.iter().any(|a| a == "--gc-sections");
    let comparison = SectionFacts { link_objects, lld: &their_keep, ours: &our_keep, gc_on_line };
    let sides = [
        ("dropped only by lto-prune", comparison.dropped_by_us(), &mut outcome.dropped_by_us),
        ("kept only by lto-prune", comparison.kept_by_us(), &mut outcome.kept_by_us),
    ];
    for (side, nodes, sums) in sides {
        for (node, reason) in nodes {
            sums.entry(reason).or_default().add(link_objects.section(node).map_or(0, |s| s.size));
            let line = format!("{side}: {}: {}", place(link_objects, node), reason.text());
            if reason.is_error() {
                outcome.errors.push(line);
            } else {
                outcome.details.push(line);
            }
        }
    }
    // Commons and atoms of other tables have no section; any other atom must be one of the link's sections.
    let strangers = verdicts.unknown.iter().filter(|u| !u.ends_with(":(COMMON)"));
    outcome.details.extend(strangers.map(|u| format!("atom that is no section of this link: {u}")));
    Ok(outcome)
}

/// The sections on one side only: a total, and the reasons in the cells of the second table.
fn total(sums: &BTreeMap<SectionReason, SizeSum>) -> SizeSum {
    sums.values().fold(SizeSum::default(), |a, b| SizeSum {
        sections: a.sections + b.sections,
        bytes: a.bytes + b.bytes,
    })
}

/// The command. True if every difference is explained.
pub(crate) fn run(corpus: &Corpus, options: &Options) -> Result<bool> {
    let lld = find_linker("lld")?;
    let ours = corpus.shims()?.join("ld.lto-prune");
    let mut table = Table::new(&[
        "link",
        "both keep",
        "both drop",
        "only lto-prune drops",
        "only lto-prune keeps",
        "unexplained",
    ]);
    let mut reasons = Table::new(&["difference", "sections (bytes)"]);
    let mut good = true;
    for link in corpus.links.iter().filter(|l| options.all_modes || l.function_sections()) {
        let outcome = compare(corpus, link, &lld, &ours).map_err(|e| format!("{}: {e}", link.name()))?;
        table.row(&[
            link.name(),
            outcome.both_kept.cell(),
            outcome.both_dropped.cell(),
            total(&outcome.dropped_by_us).cell(),
            total(&outcome.kept_by_us).cell(),
            outcome.errors.len().to_string(),
        ]);
        for (side, sums) in [("dropped", &outcome.dropped_by_us), ("kept", &outcome.kept_by_us)] {
            for (reason, sum) in sums {
                reasons.row(&[format!("{}, {side}: {}", link.name(), reason.text()), sum.cell()]);
            }
        }
        if options.verbose {
            outcome.details.iter().for_each(|d| println!("{}: {d}", link.name()));
        }
        outcome.errors.iter().for_each(|e| eprintln!("{}: {e}", link.name()));
        good &= outcome.errors.is_empty();
    }
    let body = format!(
        "Allocated input sections (bytes) that `ld.lld --gc-sections` and `lto-prune --prune-level=sections` keep.\n\n{}\n\
         What differs, and why:\n\n{}",
        table.as_str(),
        reasons.as_str()
    );
    publish_good(good, corpus, options, "gcdiff", "What is kept, beside lld's garbage collection", &body)
}
