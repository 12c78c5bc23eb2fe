//! What a run showed: counts for each feature, linker, rule and limit, and the differences that no rule explains.

use std::collections::BTreeMap;

use super::case::DifferCase;
use super::feature::Feature;
use super::pair::{DifferTools, LinkPair};
use super::rules::{RULES, RuleCounts};
use crate::table::{Table, count};

/// Lines of a difference that are printed.
const LINES: usize = 12;

/// A link that differs, made small.
#[derive(Debug, Clone)]
pub(crate) struct Finding {
    seed: u64,
    what: String,
    /// The linker and the features: findings of one cause mostly agree in it.
    group: String,
    lines: Vec<String>,
}

impl Finding {
    pub(crate) fn new(case: &DifferCase, features: &[Feature], lines: Vec<String>) -> Finding {
        let names: Vec<&str> = case.parts.iter().map(|p| features[p.feature].name.as_str()).collect();
        let group = format!("{}: {}", case.linker, names.join(" "));
        let what = format!("{}\n  {}", case.describe(features), case.words(features).join(" "));
        Finding { seed: case.seed, what, group, lines }
    }
}

#[derive(Debug, Default, Clone, Copy)]
struct LinkCounts {
    links: usize,
    failed: usize,
    pruned: usize,
    explained: usize,
    unexplained: usize,
}

impl LinkCounts {
    fn add(&mut self, other: LinkCounts) {
        self.links += other.links;
        self.failed += other.failed;
        self.pruned += other.pruned;
        self.explained += other.explained;
        self.unexplained += other.unexplained;
    }

    fn cells(&self, name: &str) -> Vec<String> {
        let numbers = [self.links, self.failed, self.pruned, self.explained, self.unexplained];
        let mut cells = vec![name.to_owned()];
        cells.extend(numbers.iter().map(|n| count(*n as u64)));
        cells
    }
}

#[derive(Debug, Default)]
pub(crate) struct DifferTally {
    all: LinkCounts,
    features: BTreeMap<String, LinkCounts>,
    linkers: BTreeMap<String, LinkCounts>,
    modes: BTreeMap<String, LinkCounts>,
    rules: RuleCounts,
    reports: usize,
    /// Why links with a report were not pruned: the limits, or that there was nothing to drop.
    fallbacks: BTreeMap<String, usize>,
    pub(crate) findings: Vec<Finding>,
    /// Links that differ only by lines that an earlier finding of the same linker has.
    pub(crate) repeated: usize,
    /// Links that differ when the linker alone does them twice; the lines of that are left out.
    pub(crate) unsteady: usize,
    pub(crate) broken: Vec<String>,
}

fn link_limits(report: &serde_json::Value) -> Vec<String> {
    let limits = report["limits"].as_array().map(Vec::as_slice).unwrap_or_default();
    let of_link = limits.iter().filter(|l| l["severity"] == "link");
    of_link.filter_map(|l| l["limit"].as_str().map(str::to_owned)).collect()
}

impl DifferTally {
    pub(crate) fn add(
        &mut self,
        case: &DifferCase,
        features: &[Feature],
        pair: &LinkPair,
        counts: &RuleCounts,
        left: &[String],
    ) {
        let numbers = LinkCounts {
            links: 1,
            failed: usize::from(!pair.plain.linked),
            pruned: usize::from(pair.is_pruned()),
            explained: counts.values().sum(),
            unexplained: usize::from(!left.is_empty()),
        };
        self.all.add(numbers);
        self.linkers.entry(case.linker.to_owned()).or_default().add(numbers);
        self.modes.entry(case.mode_name().to_owned()).or_default().add(numbers);
        for part in &case.parts {
            self.features.entry(features[part.feature].name.clone()).or_default().add(numbers);
        }
        for (rule, n) in counts {
            *self.rules.entry(rule).or_default() += n;
        }
        if case.report && pair.plain.linked {
            self.reports += 1;
            let reasons = match &pair.report {
                Some(report) if report["pruned"] == true => Vec::new(),
                Some(report) => link_limits(report),
                None => vec!["no report".to_owned()],
            };
            let nothing = reasons.is_empty() && pair.report.as_ref().is_some_and(|r| r["pruned"] != true);
            for reason in reasons.into_iter().chain(nothing.then(|| "nothing to drop".to_owned())) {
                *self.fallbacks.entry(reason).or_default() += 1;
            }
        }
    }

    pub(crate) fn join(&mut self, other: DifferTally) {
        self.all.add(other.all);
        for (mine, theirs) in [
            (&mut self.features, other.features),
            (&mut self.linkers, other.linkers),
            (&mut self.modes, other.modes),
        ] {
            for (name, numbers) in theirs {
                mine.entry(name).or_default().add(numbers);
            }
        }
        for (rule, n) in other.rules {
            *self.rules.entry(rule).or_default() += n;
        }
        for (limit, n) in other.fallbacks {
            *self.fallbacks.entry(limit).or_default() += n;
        }
        self.reports += other.reports;
        self.repeated += other.repeated;
        self.unsteady += other.unsteady;
        self.findings.extend(other.findings);
        self.broken.extend(other.broken);
    }

    pub(crate) fn print_findings(&self) {
        for finding in &self.findings {
            println!("seed {}: {}", finding.seed, finding.what);
            for line in finding.lines.iter().take(LINES) {
                println!("    {line}");
            }
            if finding.lines.len() > LINES {
                println!("    and {} more", finding.lines.len() - LINES);
            }
        }
        for text in &self.broken {
            println!("not tried: {text}");
        }
    }

    pub(crate) fn body(&self, features: &[Feature], tools: &DifferTools, first: u64, last: u64) -> String {
        let columns = ["", "links", "fail alone", "pruned", "explained", "unexplained"];
        let names: Vec<&str> = tools.linkers.iter().map(|l| l.0).collect();
        let mut body = format!(
            "`bench differ --seed={first} --count={} --linkers={}`: {} features. A link is pruned if its output is another \
             file than the plain one's. Explained are lines that differ, unexplained links with a line that no rule explains.\n\n",
            last - first,
            names.join(","),
            features.len(),
        );
        let mut table = Table::new(&columns);
        table.row(&self.all.cells("all"));
        for (name, numbers) in self.linkers.iter().chain(&self.modes) {
            table.row(&numbers.cells(name));
        }
        body.push_str(table.as_str());
        let mut table = Table::new(&["rule", "times", "reason"]);
        for rule in RULES {
            let times = self.rules.get(rule.name).copied().unwrap_or(0);
            table.row(&[rule.name.to_owned(), count(times as u64), rule.reason.to_owned()]);
        }
        body.push_str(&format!("\n{}", table.as_str()));
        let mut table = Table::new(&["not pruned because", "links"]);
        for (limit, n) in &self.fallbacks {
            table.row(&[limit.clone(), count(*n as u64)]);
        }
        body.push_str(&format!(
            "\nOf {} links that succeed and have a report (every fourth seed):\n\n{}",
            count(self.reports as u64),
            table.as_str()
        ));
        let mut table = Table::new(&columns);
        for feature in features {
            let numbers = self.features.get(&feature.name).copied().unwrap_or_default();
            table.row(&numbers.cells(&feature.name));
        }
        body.push_str(&format!("\n{}", table.as_str()));
        if !self.findings.is_empty() {
            let mut groups: BTreeMap<&str, Vec<&Finding>> = BTreeMap::new();
            for finding in &self.findings {
                groups.entry(&finding.group).or_default().push(finding);
            }
            body.push_str(&format!(
                "\nUnexplained, made small ({} more links differ by the same lines):\n\n",
                self.repeated
            ));
            for (group, findings) in groups {
                let line = findings[0].lines.first().map(String::as_str).unwrap_or_default();
                let n = findings.len();
                body.push_str(&format!("- {group} ({n}, seed {}): `{line}`\n", findings[0].seed));
            }
        }
        if self.unsteady > 0 {
            body.push_str(&format!(
                "\n{} links differ when the linker alone does them twice.\n",
                self.unsteady
            ));
        }
        if !self.broken.is_empty() {
            body.push_str(&format!("\nNot tried: {}.\n", self.broken.len()));
        }
        body
    }
}
