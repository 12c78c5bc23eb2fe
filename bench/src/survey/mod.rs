//! `bench survey`: how much of objects that nobody made for this tool `lto-prune split` divides, and what each limit costs.
//!
//! What is looked at is chosen by rules that know nothing of the outcome: static libraries of Debian's `-dev` packages
//! ([`libraries`]), and units of Debian's source packages in many configurations ([`programs`]). What is divided is what the report
//! of `split --data` says. Each archive is also linked whole by lld, as it was and divided: the two files must be the same, byte by
//! byte, since sections that are all there lie where they lay; but for jumps that were relaxed ([`mod@whole`]).
//!
//! Left out: how well a linker prunes what was divided (the tests and `reach` look at that).

pub(crate) mod libraries;
pub(crate) mod programs;
mod whole;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::corpus::{Corpus, find_linker};
use crate::process::{self, run_ok};
use crate::table::{Table, count, publish};
use crate::{Options, Result};
use whole::Whole;

/// In the order of the tables.
const KINDS: [&str; 3] = ["code", "data", "bss"];

/// The limit of hand-written assembly: no compiler puts such a symbol among its functions.
const ASSEMBLY: &str = "symbol-in-text";

/// Bytes of monolithic sections of one kind.
#[derive(Debug, Default, Clone)]
struct SectionBytes {
    bytes: u64,
    divided: u64,
    /// Bytes that are whole, by limit.
    limits: BTreeMap<String, u64>,
}

impl SectionBytes {
    fn add(&mut self, other: &SectionBytes) {
        self.bytes += other.bytes;
        self.divided += other.divided;
        for (limit, bytes) in &other.limits {
            *self.limits.entry(limit.clone()).or_default() += bytes;
        }
    }

    fn percent(&self) -> String {
        percent(self.divided, self.bytes)
    }

    fn limit(&self, name: &str) -> u64 {
        self.limits.get(name).copied().unwrap_or(0)
    }
}

/// What was found of an archive.
#[derive(Debug, Clone)]
struct SurveyRow {
    name: String,
    /// There is one for each of [`KINDS`].
    sums: [SectionBytes; 3],
    whole: Whole,
    /// Objects of which emission failed, or the check of what was emitted.
    failed: Vec<String>,
}

fn percent(part: u64, whole: u64) -> String {
    match whole {
        0 => "-".to_owned(),
        _ => format!("{:.2}%", part as f64 * 100.0 / whole as f64),
    }
}

/// FNV-1a: an order that nobody chose.
pub(crate) fn hash(name: &str) -> u64 {
    name.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

fn sum(value: &Value) -> SectionBytes {
    let number = |key: &str| value[key].as_u64().unwrap_or(0);
    let limits = value["whole"].as_object().into_iter().flatten();
    SectionBytes {
        bytes: number("bytes"),
        divided: number("divided"),
        limits: limits.map(|(name, bytes)| (name.clone(), bytes.as_u64().unwrap_or(0))).collect(),
    }
}

/// Divide an archive and link it whole both ways, in `scratch`.
fn look(corpus: &Corpus, name: &str, archive: &Path, scratch: &Path) -> Result<SurveyRow> {
    let (plain, divided) = (scratch.join("plain"), scratch.join("divided"));
    for dir in [&plain, &divided] {
        fs::create_dir_all(dir)?;
        for file in ["whole.a", "out"] {
            let _ = fs::remove_file(dir.join(file));
        }
    }
    fs::copy(archive, plain.join("whole.a"))?;
    let report = scratch.join("report.json");
    let mut split = Command::new("nice");
    split.arg(&corpus.pruner).args(["split", "--data"]).arg(archive).arg("-o").arg(divided.join("whole.a"));
    run_ok(split.arg(format!("--report={}", report.display())), scratch)?;
    let report = crate::report::read(&report)?;
    let lld = find_linker("lld")?;
    let link = |dir: &Path| -> Result<Option<Vec<u8>>> {
        let mut command = Command::new("nice");
        command.arg(&lld).current_dir(dir).args([
            "--entry=0",
            "--unresolved-symbols=ignore-all",
            "--noinhibit-exec",
            "--allow-multiple-definition",
            "--build-id=none",
            "--strip-all",
            "--threads=1",
            "--whole-archive",
            "whole.a",
            "-o",
            "out",
        ]);
        process::run(&mut command, &scratch.join("link.out"), &scratch.join("link.err"))?;
        Ok(fs::read(dir.join("out")).ok())
    };
    let whole = whole::compare(link(&plain)?.as_deref(), link(&divided)?.as_deref());
    let objects = report["files"][0]["objects"].as_array().into_iter().flatten();
    let failed = objects.filter_map(|o| {
        let trouble = o["trouble"].as_str()?;
        let internal = ["emit:", "verify:"].iter().any(|stage| trouble.contains(stage));
        internal.then(|| format!("{}: {trouble}", o["name"].as_str().unwrap_or_default()))
    });
    let failed = failed.map(|text| text.replace(&archive.display().to_string(), name)).collect();
    let sums = KINDS.map(|kind| sum(&report["sums"][kind]));
    Ok(SurveyRow { name: name.to_owned(), sums, whole, failed })
}

/// Sums, limits, whole links and failures of all rows.
fn summary(rows: &[SurveyRow], body: &mut String) {
    let mut table = Table::new(&["", "monolithic bytes", "divided", "share"]);
    let mut limits =
        Table::new(&["limit", "of", "bytes", "share", "in archives", "most of it in", "bytes there"]);
    for (i, kind) in KINDS.iter().enumerate() {
        let mut total = SectionBytes::default();
        rows.iter().for_each(|row| total.add(&row.sums[i]));
        table.row(&[(*kind).to_owned(), count(total.bytes), count(total.divided), total.percent()]);
        if *kind == "code" && total.limit(ASSEMBLY) > 0 {
            let compiled = total.bytes - total.limit(ASSEMBLY);
            let cells = ["code without hand-written assembly", &count(compiled), &count(total.divided)];
            let mut cells = cells.map(str::to_owned).to_vec();
            cells.push(percent(total.divided, compiled));
            table.row(&cells);
        }
        let mut sorted: Vec<(&String, u64)> =
            total.limits.iter().map(|(name, bytes)| (name, *bytes)).collect();
        sorted.sort_by_key(|(name, bytes)| (std::cmp::Reverse(*bytes), *name));
        for (name, bytes) in sorted {
            let having = rows.iter().filter(|row| row.sums[i].limit(name) > 0);
            let worst =
                having.clone().max_by_key(|row| (row.sums[i].limit(name), std::cmp::Reverse(&row.name)));
            limits.row(&[
                name.clone(),
                (*kind).to_owned(),
                count(bytes),
                percent(bytes, total.bytes),
                having.count().to_string(),
                worst.map_or_else(String::new, |row| row.name.clone()),
                count(worst.map_or(0, |row| row.sums[i].limit(name))),
            ]);
        }
    }
    body.push_str(table.as_str());
    body.push_str("\nWhat is left whole, by limit:\n\n");
    body.push_str(limits.as_str());
    let of = |whole: Whole| rows.iter().filter(|row| row.whole == whole).count();
    let (differs, unlinked) = (of(Whole::Differs), of(Whole::Unlinked));
    let relaxed: Vec<usize> = rows
        .iter()
        .filter_map(|row| match row.whole {
            Whole::Same { relaxed } if relaxed > 0 => Some(relaxed),
            _ => None,
        })
        .collect();
    body.push_str(&format!(
        "\nLinked whole by lld, as it was and divided: {} of {} give the same file, {differs} differ, {unlinked} link neither way. \
         {} of the same have relaxed jumps, {} in sum.\n",
        rows.len() - differs - unlinked,
        rows.len(),
        relaxed.len(),
        relaxed.iter().sum::<usize>()
    ));
    for row in rows.iter().filter(|row| row.whole == Whole::Differs) {
        body.push_str(&format!("\n- DIFFERS: {}\n", row.name));
    }
    let failed: Vec<&String> = rows.iter().flat_map(|row| &row.failed).collect();
    body.push_str(&format!("Objects of which emission or the check of it failed: {}.\n", failed.len()));
    failed.iter().for_each(|text| body.push_str(&format!("\n- {text}\n")));
}

/// A row for each archive of which something is whole, most bytes of code first.
fn each(rows: &[SurveyRow], body: &mut String) {
    let mut table =
        Table::new(&["archive", "code", "divided", "data", "divided", "limits of code", "whole link"]);
    let mut sorted: Vec<&SurveyRow> =
        rows.iter().filter(|row| row.sums[0].divided < row.sums[0].bytes).collect();
    sorted.sort_by_key(|row| (std::cmp::Reverse(row.sums[0].bytes - row.sums[0].divided), row.name.clone()));
    for row in &sorted {
        let limits: Vec<String> =
            row.sums[0].limits.iter().map(|(name, bytes)| format!("{name} {}", count(*bytes))).collect();
        let whole = match row.whole {
            Whole::Same { .. } => "same",
            Whole::Differs => "DIFFERS",
            Whole::Unlinked => "none",
        };
        table.row(&[
            row.name.clone(),
            count(row.sums[0].bytes),
            row.sums[0].percent(),
            count(row.sums[1].bytes),
            row.sums[1].percent(),
            limits.join(", "),
            whole.to_owned(),
        ]);
    }
    body.push_str(&format!(
        "\nThe {} archives of which some code is whole; of the other {} all is divided, or nothing is to be:\n\n",
        sorted.len(),
        rows.len() - sorted.len()
    ));
    body.push_str(table.as_str());
}

/// The command. True unless a whole link differs.
pub(crate) fn run(corpus: &Corpus, options: &Options) -> Result<bool> {
    let all = options.only.is_empty();
    let asked = |what: &str| all || options.only.iter().any(|only| only == what);
    let mut body = String::new();
    let mut good = true;
    if asked("libraries") {
        let rows = libraries::rows(corpus, options)?;
        body.push_str(&format!("## Debian's static libraries\n\n{}\n\n", libraries::RULE));
        summary(&rows, &mut body);
        each(&rows, &mut body);
        good &= rows.iter().all(|row| row.whole != Whole::Differs);
    }
    if asked("programs") {
        let rows = programs::rows(corpus, options)?;
        body.push_str(&format!("\n## Units of Debian's source packages\n\n{}\n\n", programs::RULE));
        summary(&rows, &mut body);
        programs::by_configuration(&rows, &mut body);
        good &= rows.iter().all(|row| row.whole != Whole::Differs);
    }
    publish(corpus, options, "survey", "What is divided of objects that nobody made for it", &body)?;
    Ok(good)
}
