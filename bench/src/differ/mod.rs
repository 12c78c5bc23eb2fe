//! `bench differ`: a matrix of small links, plain and with lto-prune, differ only as rules allow.
//!
//! A link draws two to four features, a linker, a mode, a compiler, a level. The facts of both sides are compared, and `rules.rs` has the
//! differences that pruning may make. A link that differs is kept with a script.

mod case;
mod feature;
mod options;

use std::collections::BTreeMap;
use std::path::Path;

use self::case::DifferCase;
use self::feature::Feature;
use crate::corpus::Corpus;
use crate::pair::{LinkPair, PairTools};
use crate::process::parallel;
use crate::rules::{self, Difference, RULES, RuleCounts};
use crate::table::{Table, count, publish};
use crate::{Options, Result};

/// Links of one run without `--count`.
const COUNT: u64 = 500;
/// Lines of a difference that are printed.
const LINES: usize = 12;
/// A link that differs is done so often by the linker alone, which may differ by chance: one in some 75 of wild's relocatable outputs with
/// `--gc-sections` does.
const CONTROLS: usize = 200;

/// The lines of a pair that no rule explains. `counts` counts the others.
fn unexplained(
    case: &DifferCase,
    features: &[Feature],
    pair: &LinkPair,
    counts: &mut RuleCounts,
) -> Vec<String> {
    let (all, words) = (pair.differences(), case.words(features));
    let overwrites_input = case.linker == "mold" && words.contains(&case.output(features));
    let mut difference = Difference::new(&all, &pair.plain.facts, &words);
    difference.overwrites_input = overwrites_input;
    let mut left = rules::unexplained(difference, counts);
    if left.iter().any(|line| line[1..].starts_with("link status")) {
        // All other differences follow from it.
        left.retain(|line| {
            ["link status", "stdout", "stderr"].iter().any(|kind| line[1..].starts_with(kind))
        });
    }
    left
}

struct Differ<'a> {
    features: &'a [Feature],
    tools: &'a PairTools,
    base: &'a Path,
}

impl Differ<'_> {
    /// Do one link in `dir`, which is emptied first.
    fn link(&self, case: &DifferCase, dir: &Path, control: bool) -> Result<LinkPair> {
        let _ = std::fs::remove_dir_all(dir);
        let inputs = dir.join("inputs");
        case.build(self.features, &self.base.join("cache"), &inputs)?;
        case.paired(self.features, dir).link(self.tools, dir, &inputs, control)
    }

    /// A script that does both links again, in the folder of `inputs`.
    fn script(&self, case: &DifferCase, lines: &[String]) -> String {
        let linker =
            self.tools.linker(&case.linker).map(|path| path.display().to_string()).unwrap_or_default();
        let line = case.line(self.features);
        let quoted: Vec<String> = line.iter().map(|w| format!("'{w}'")).collect();
        let comments: String = lines.iter().map(|line| format!("# {line}\n")).collect();
        let small = DifferCase { report: false, ..case.clone() };
        format!(
            "#!/bin/sh\n# {}\n{comments}cd \"$(dirname \"$0\")\" && rm -rf again && mkdir again again/plain-ld again/our-ld\n\
             linker=${{LINKER:-{linker}}}\nln -s \"${{LTO_PRUNE:-{}}}\" again/our-ld/ld\n\
             printf '#!/bin/sh\\nexec %s \"$@\"\\n' \"$linker\" >again/plain-ld/ld; chmod +x again/plain-ld/ld\n\
             export LTO_PRUNE_LINKER=$linker LTO_PRUNE_FLAGS='{}'\n\
             for side in plain our; do\n    cp -r inputs again/$side; echo \"== $side\"\n    (cd again/$side; {} -B../$side-ld {}; echo \"status $?\")\ndone\n",
            case.describe(self.features),
            self.tools.pruner.display(),
            small.paired(self.features, Path::new("")).flags,
            quoted[0],
            quoted[1..].join(" ")
        )
    }

    /// One seed: link, compare, and if it differs reduce it and keep it.
    fn run_seed(&self, seed: u64) -> DifferTally {
        let mut tally = DifferTally::default();
        let names: Vec<String> = self.tools.linkers.iter().map(|l| l.0.clone()).collect();
        let case = DifferCase::draw(seed, self.features, &names);
        let dir = self.base.join(format!("try-{seed}"));
        let pair = match self.link(&case, &dir, false) {
            Ok(pair) => pair,
            Err(e) => {
                println!("not tried: seed {seed}: {}: {e}", case.describe(self.features));
                tally.broken += 1;
                return tally;
            }
        };
        let mut counts = RuleCounts::new();
        let mut left = unexplained(&case, self.features, &pair, &mut counts);
        for _ in 0..if left.is_empty() { 0 } else { CONTROLS } {
            if let Ok(control) = self.link(&case, &dir, true) {
                let alone = control.differences();
                left.retain(|line| !alone.iter().any(|other| other[1..] == line[1..]));
                tally.unsteady = tally.unsteady.max(usize::from(!alone.is_empty()));
            }
            if left.is_empty() {
                break;
            }
        }
        tally.add(&case, self.features, &pair, counts, !left.is_empty());
        if !left.is_empty() {
            let kept = self.base.join(seed.to_string());
            let _ = std::fs::remove_dir_all(&kept);
            let _ = std::fs::rename(&dir, &kept);
            let _ = std::fs::write(kept.join("reproduce.sh"), self.script(&case, &left));
            println!("FAILED seed {seed}: {}", case.describe(self.features));
            println!("  {}", case.words(self.features).join(" "));
            left.iter().take(LINES).for_each(|line| println!("    {line}"));
            let line = left.first().map(String::as_str).unwrap_or_default();
            tally.findings.push(format!("seed {seed}, {}: `{line}`", case.describe(self.features)));
        }
        let _ = std::fs::remove_dir_all(&dir);
        tally
    }
}

/// Links, links that fail alone, pruned links, explained lines, links with an unexplained line.
type LinkCounts = [usize; 5];

#[derive(Debug, Default)]
struct DifferTally {
    /// By linker, mode and feature; `all` is the sum.
    counts: BTreeMap<String, LinkCounts>,
    rules: RuleCounts,
    findings: Vec<String>,
    /// Links that differ if the linker alone does them twice; those lines are left out.
    unsteady: usize,
    broken: usize,
}

impl DifferTally {
    fn add(
        &mut self,
        case: &DifferCase,
        features: &[Feature],
        pair: &LinkPair,
        rules: RuleCounts,
        differs: bool,
    ) {
        let explained = rules.values().sum();
        let numbers = [
            1,
            usize::from(!pair.plain.linked),
            usize::from(pair.is_pruned()),
            explained,
            usize::from(differs),
        ];
        let names = ["all", &case.linker, case.mode_name()].map(|name| format!("*{name}*"));
        self.counts.extend(names.map(|name| (name, numbers)));
        self.counts.extend(case.parts.iter().map(|part| (features[part.feature].name.clone(), numbers)));
        self.rules = rules;
    }

    fn join(&mut self, other: DifferTally) {
        for (name, numbers) in other.counts {
            let sums = self.counts.entry(name).or_default();
            sums.iter_mut().zip(numbers).for_each(|(sum, n)| *sum += n);
        }
        other.rules.into_iter().for_each(|(rule, n)| *self.rules.entry(rule).or_default() += n);
        self.unsteady += other.unsteady;
        self.broken += other.broken;
        self.findings.extend(other.findings);
    }

    fn body(&self) -> String {
        let mut table = Table::new(" | links | fail alone | pruned | explained | unexplained");
        for (name, numbers) in &self.counts {
            let cells = numbers.iter().map(|n| count(*n as u64));
            table.row(&std::iter::once(name.clone()).chain(cells).collect::<Vec<_>>());
        }
        let mut rules = Table::new("rule | times | reason");
        for (name, reason, _) in RULES {
            let times = self.rules.get(name).copied().unwrap_or(0);
            rules.row(&[(*name).to_owned(), count(times as u64), (*reason).to_owned()]);
        }
        let findings: String = self.findings.iter().map(|finding| format!("\n- {finding}\n")).collect();
        format!(
            "{}\n{}\n{} links differ if the linker alone does them twice; {} were not tried. Unexplained: {}.\n{findings}",
            table.as_str(),
            rules.as_str(),
            self.unsteady,
            self.broken,
            self.findings.len()
        )
    }
}

/// The command. True if rules explain every difference.
pub(crate) fn run(corpus: &Corpus, options: &Options) -> Result<bool> {
    let mut features = feature::all()?;
    let base = corpus.root.join("work/differ");
    std::fs::create_dir_all(base.join("cache"))?;
    let known = ["lld", "rust-lld", "mold", "bfd", "gold", "wild"];
    let tools = PairTools::new(&corpus.pruner, &options.linkers, &known, &base)?;
    if options.list_options {
        let body = format!(
            "Options that no feature of `bench differ` has: of other machines and systems, of link-time optimisation, and options with nothing to compare.\n\n{}",
            options::unused(&features, &tools.linkers)?
        );
        return publish(true, corpus, options, ("options", "Options that no link compares"), &body);
    }
    features.retain(|f| options.only.is_empty() || options.only.contains(&f.name));
    let (first, links) = (options.seed, options.count.unwrap_or(COUNT));
    let differ = Differ { features: &features, tools: &tools, base: &base };
    let mut total = DifferTally::default();
    for tally in parallel(options.jobs, links as usize, |number| differ.run_seed(first + number as u64)) {
        total.join(tally);
    }
    let good = total.findings.is_empty() && total.broken == 0;
    let names: Vec<&str> = tools.linkers.iter().map(|l| l.0.as_str()).collect();
    let body = format!(
        "`bench differ --seed={first} --count={links} --linkers={}`: {} features. A link is pruned if its output is another file than the plain \
         one's. Explained are lines that differ, unexplained links with a line that no rule explains.\n\n{}",
        names.join(","),
        features.len(),
        total.body()
    );
    publish(good, corpus, options, ("differ", "Small links of every kind, plain and pruned"), &body)
}
