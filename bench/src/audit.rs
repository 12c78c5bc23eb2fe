//! `bench audit`: whether what `lto-prune audit` says of a linked file adds up, and how long each command takes.
//!
//! Each link is made with a report; `top` must add up to the length of the file in every grouping, and have the sizes of
//! `size -A` section by section; a difference with the report of another level must add up to that of the two files. Each
//! command is run as a user does, and must take less than a second of a processor.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::corpus::{Corpus, Link, find_linker};
use crate::process::run_ok;
use crate::table::{Table, count, publish_good};
use crate::{Options, Result};

const GROUPINGS: [&str; 8] =
    ["symbol", "module", "archive", "section", "category", "namespace", "crate", "generic"];
/// An answer that takes longer is an error.
const LONGEST: Duration = Duration::from_secs(1);

/// The words of each command, in the order of the table; REPORT, OTHER and SYMBOL are replaced.
const COMMANDS: [(&str, &[&str]); 11] = [
    ("top", &["top", "REPORT"]),
    ("dominators", &["dominators", "REPORT"]),
    ("why", &["why", "SYMBOL", "REPORT"]),
    ("paths", &["paths", "main", "SYMBOL", "REPORT"]),
    ("garbage", &["garbage", "REPORT"]),
    ("imports", &["imports", "REPORT"]),
    ("duplicates", &["duplicates", "REPORT"]),
    ("limits", &["limits", "REPORT"]),
    ("calls", &["calls", "REPORT"]),
    ("diff", &["diff", "OTHER", "REPORT"]),
    ("budget", &["budget", "BUDGET", "REPORT"]),
];

struct Audit<'c> {
    pruner: &'c Path,
    dir: &'c Path,
}

impl Audit<'_> {
    fn run(&self, words: &[&str]) -> Result<Vec<u8>> {
        let output = Command::new(self.pruner).arg("audit").args(words).current_dir(self.dir).output()?;
        if !output.status.success() {
            let message = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(format!("audit {}: {message}", words.join(" ")).into());
        }
        Ok(output.stdout)
    }

    fn json(&self, words: &[&str]) -> Result<Value> {
        let mut all = words.to_vec();
        all.insert(1, "--json");
        Ok(serde_json::from_slice(&self.run(&all)?)?)
    }
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}

fn sum(answer: &Value, table: &str, column: &str) -> i64 {
    answer[table].as_array().into_iter().flatten().map(|r| number(&r[column])).sum()
}

/// The lists of `top` add up to the length of the file and agree with `size -A`; the number of sections compared.
fn totals(audit: &Audit<'_>, output: &Path) -> Result<usize> {
    let length = std::fs::metadata(output)?.len() as i64;
    for by in GROUPINGS {
        let found = sum(&audit.json(&["top", "--all", "--by", by, "report.json"])?, "top", "bytes");
        if found != length {
            return Err(format!("top --by={by} adds up to {found}, the file has {length} bytes").into());
        }
    }
    let compared = sections(output, &audit.json(&["top", "--all", "--by", "section", "report.json"])?)?;
    if compared < 10 {
        return Err(format!("size -A names {compared} sections").into());
    }
    Ok(compared)
}

/// The number of sections that have the sizes of `size -A` in an answer of `top --all --by=section`.
pub(crate) fn sections(file: &Path, answer: &Value) -> Result<usize> {
    let size = Command::new("size").arg("-A").arg(file).output()?;
    let mut compared = 0;
    for line in String::from_utf8_lossy(&size.stdout).lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [section, size, address] = words[..] else { continue };
        let (Ok(size), Ok(_)) = (size.parse::<i64>(), address.parse::<u64>()) else { continue };
        let rows = answer["top"].as_array().into_iter().flatten();
        let found: i64 = rows.filter(|r| r["section"] == section).map(|r| number(&r["size"])).sum();
        if found != size {
            return Err(format!("{section} has {size} bytes by size -A, {found} by the audit").into());
        }
        compared += 1;
    }
    Ok(compared)
}

/// What lives is what the graph reaches; the number of edges.
fn graph(report: &Path) -> Result<usize> {
    let report = crate::report::read(report)?;
    let list = |name: &str| -> Vec<usize> {
        let values = report["graph"][name].as_array().into_iter().flatten();
        values.map(|v| v.as_u64().unwrap_or(0) as usize).collect()
    };
    let (start, target, flags) = (list("start"), list("target"), list("flags"));
    let atoms = report["atoms"].as_array().ok_or("the report has no atoms")?;
    let mut reached = vec![false; atoms.len()];
    let roots = report["roots"].as_array().into_iter().flatten();
    let mut work: Vec<usize> = roots.map(|r| number(&r["atom"]) as usize).collect();
    while let Some(atom) = work.pop() {
        if !std::mem::replace(&mut reached[atom], true) {
            let edges = (start[atom]..start[atom + 1]).filter(|e| flags[*e] & 1 != 0);
            work.extend(edges.map(|e| target[e]));
        }
    }
    let wrong =
        atoms.iter().zip(&reached).filter(|(a, reached)| (a["state"] != "dropped") != **reached).count();
    if wrong > 0 {
        return Err(format!("{wrong} atoms live and are not reached, or are reached and don't live").into());
    }
    Ok(target.len())
}

/// The least processor time of a command in several runs: it has one thread, so that is what it takes on a machine that does
/// nothing else. It must be less than [`LONGEST`].
fn time(audit: &Audit<'_>, words: &[&str], runs: usize) -> Result<Duration> {
    let mut least = Duration::MAX;
    for _ in 0..runs.max(1) {
        let mut command = Command::new(audit.pruner);
        least = least.min(run_ok(command.arg("audit").args(words).current_dir(audit.dir), audit.dir)?.cpu);
    }
    if least > LONGEST {
        return Err(format!("audit {} takes {least:?}", words.join(" ")).into());
    }
    Ok(least)
}

fn measure(corpus: &Corpus, options: &Options, link: &Link) -> Result<Vec<String>> {
    let dir = corpus.scratch(&format!("audit/{}-{}", link.program, link.mode))?;
    let (lld, ours) = (find_linker("lld")?, dir.join("ld.lto-prune"));
    std::os::unix::fs::symlink(&corpus.pruner, &ours)?;
    // The same name, so that a link differs from the other in its level alone.
    let linked = |level: &str, folder: &str| -> Result<()> {
        std::fs::create_dir_all(dir.join(folder))?;
        let mut command = corpus.linker_command(link, &ours, &dir.join(folder).join("out"));
        command.env("LTO_PRUNE_LINKER", &lld).env_remove("LTO_PRUNE_FLAGS");
        command.arg(format!("--prune-level={level}"));
        command.arg(format!("--prune-report={}", dir.join(folder).join("report.json").display()));
        run_ok(&mut command, &dir)?;
        Ok(())
    };
    linked(&options.level, "new")?;
    linked("off", "old")?;
    let mut compared = 0;
    for folder in ["old", "new"] {
        let dir = dir.join(folder);
        let audit = Audit { pruner: &corpus.pruner, dir: &dir };
        compared = totals(&audit, &dir.join("out"))?;
    }
    let edges = graph(&dir.join("new/report.json"))?;
    let audit = Audit { pruner: &corpus.pruner, dir: &dir };
    let length =
        |folder: &str| -> Result<i64> { Ok(std::fs::metadata(dir.join(folder).join("out"))?.len() as i64) };
    let difference =
        sum(&audit.json(&["diff", "--all", "old/report.json", "new/report.json"])?, "diff", "change");
    if difference != length("new")? - length("old")? {
        return Err(format!("diff adds up to {difference}").into());
    }
    std::fs::write(dir.join("budget.toml"), format!("total = {}\n", length("new")?))?;
    // The function that is hardest to explain: of those that much is held by, the one with most references.
    let symbol = hub(&dir.join("new/report.json"))?;
    let mut cells = vec![
        link.name(),
        count(length("new")? as u64),
        count(std::fs::metadata(dir.join("new/report.json"))?.len()),
        count(edges as u64),
        compared.to_string(),
    ];
    for (_, words) in COMMANDS {
        let replaced: Vec<&str> = words
            .iter()
            .map(|w| match *w {
                "REPORT" => "new/report.json",
                "OTHER" => "old/report.json",
                "BUDGET" => "budget.toml",
                "SYMBOL" => &symbol,
                other => other,
            })
            .collect();
        cells.push(format!("{:.0}", time(&audit, &replaced, options.runs)?.as_secs_f64() * 1e3));
    }
    Ok(cells)
}

/// A symbol of the atom that most edges lead to.
fn hub(report: &Path) -> Result<String> {
    let report = crate::report::read(report)?;
    let atoms = report["atoms"].as_array().ok_or("the report has no atoms")?;
    let mut held = vec![0usize; atoms.len()];
    for target in report["graph"]["target"].as_array().into_iter().flatten() {
        held[number(target) as usize] += 1;
    }
    let named = (0..atoms.len()).filter(|a| atoms[*a]["symbols"][0].as_str().is_some_and(|s| !s.is_empty()));
    let most = named.max_by_key(|a| held[*a]).ok_or("no atom has a symbol")?;
    Ok(atoms[most]["symbols"][0].as_str().unwrap_or_default().to_owned())
}

/// The command. True if every number agrees.
pub(crate) fn run(corpus: &Corpus, options: &Options) -> Result<bool> {
    let mut columns = vec!["link", "file", "report", "edges", "sections as by `size -A`"];
    let names: Vec<String> = COMMANDS.iter().map(|c| format!("{}, ms", c.0)).collect();
    columns.extend(names.iter().map(String::as_str));
    let mut table = Table::new(&columns);
    let good = table.links(corpus, |link| measure(corpus, options, link));
    let body = format!(
        "Of each link, pruned at `--prune-level={}` and plain: `audit top` adds up to the length of the file in {} groupings, its \
         sections have the sizes of `size -A`, what lives is what the report's graph reaches, and `audit diff` of plain and pruned \
         adds up. Times are processor time of whole commands, which have one thread (least of {}), `why` and `paths` of what most references \
         lead to; none may take a second.\n\n{}",
        options.level,
        GROUPINGS.len(),
        options.runs,
        table.as_str()
    );
    publish_good(good, corpus, options, "audit", "What audits say, and how fast", &body)
}
