//! `bench sites`: indirect call sites by value flow, functions by the use of their address, and bytes of `.text` at each level.
//!
//! Only sites in code that is kept and analysed are in the report. `closed-` links are the same without `--export-dynamic`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::Value;

use crate::corpus::{Corpus, Link};
use crate::process::run_ok;
use crate::report::{self, list, number, text, text_size};
use crate::table::{Table, count, publish};
use crate::{Options, Result};

/// Names of a `value_flow` object that are columns.
const COUNTS: [&str; 4] = ["mentioned", "escaped", "called", "stubs"];
const CLOSED: &str = "closed-";

struct SitesRow {
    name: String,
    /// Sites by state, and overdefined ones by cause.
    states: BTreeMap<String, u64>,
    causes: BTreeMap<String, u64>,
    /// Bytes of live code, of code that only addresses lead to, then [`COUNTS`].
    counts: [u64; 6],
    /// Bytes of `.text` at `sections`, `functions`, `pointers`.
    text: [u64; 3],
}

impl SitesRow {
    fn ratio(&self) -> f64 {
        self.text[2] as f64 / self.text[1] as f64
    }

    fn state(&self, name: &str) -> u64 {
        self.states.get(name).copied().unwrap_or(0)
    }
}

/// A link that exports symbols for modules that it may load, without that.
fn closed(link: &Link) -> Option<Link> {
    let exports = |word: &String| ["-E", "--export-dynamic"].contains(&word.as_str());
    let mut closed = Link { mode: format!("{CLOSED}{}", link.mode), ..link.clone() };
    closed.linker_args.retain(|word| !exports(word));
    (closed.linker_args.len() < link.linker_args.len()).then_some(closed)
}

fn measure(corpus: &Corpus, link: &Link) -> Result<SitesRow> {
    let scratch = corpus.scratch(&format!("sites/{}-{}", link.program, link.mode))?;
    let file = scratch.join("report.json");
    let mut sizes = [0; 3];
    for (level, size) in ["sections", "functions", "pointers"].iter().zip(&mut sizes) {
        let output = scratch.join(level);
        let mut command = corpus.pruned_command(link, &link.lld()?, &output);
        command.args([
            "--prune-strict",
            "--prune-gate=0",
            "--prune-no-cache",
            &format!("--prune-level={level}"),
        ]);
        run_ok(command.arg(format!("--prune-report={}", file.display())), &scratch)?;
        *size = text_size(&output)?;
    }
    // The last report is of the level `pointers`.
    let report = report::read(&file)?;
    if report["pruned"] != Value::Bool(true) {
        return Err("the originals were linked".into());
    }
    let flow = &report["value_flow"];
    let mut row = SitesRow {
        name: link.name(),
        states: BTreeMap::new(),
        causes: BTreeMap::new(),
        counts: [0; 6],
        text: sizes,
    };
    for site in list(&report, "call_sites")? {
        *row.states.entry(text(site, "state").to_owned()).or_default() += 1;
    }
    for cause in flow["by_cause"].as_array().into_iter().flatten() {
        row.causes.insert(cause[0].as_str().unwrap_or_default().to_owned(), cause[1].as_u64().unwrap_or(0));
    }
    let code = ["live", "by_mentions"].map(|name| number(&report["live_code"], name));
    let counts = code.into_iter().chain(COUNTS.map(|name| number(flow, name)));
    row.counts.iter_mut().zip(counts).for_each(|(cell, n)| *cell = n);
    Ok(row)
}

fn geometric_mean<'r>(rows: impl Iterator<Item = &'r SitesRow>) -> f64 {
    let logarithms: Vec<f64> = rows.map(|r| r.ratio().ln()).collect();
    (logarithms.iter().sum::<f64>() / logarithms.len().max(1) as f64).exp()
}

/// The resolved sites of a link in a table of this command, without separators.
fn resolved_in(table: &str, link: &str) -> u64 {
    let row = table.lines().find_map(|line| line.strip_prefix(&format!("| {link} | ")));
    let cell = row.and_then(|row| row.split(" | ").nth(1));
    cell.and_then(|cell| cell.replace(',', "").parse().ok()).unwrap_or(0)
}

/// The command. True unless a link failed, or resolves fewer sites than in the committed table.
pub(crate) fn run(corpus: &Corpus, options: &Options) -> Result<bool> {
    let committed = fs::read_to_string(corpus.root.join("results/sites.md"))?;
    let mut rows = Vec::new();
    let mut sites = Table::new("link | sites | resolved | of all | never called | overdefined");
    let links: Vec<Link> =
        corpus.links.iter().flat_map(|link| std::iter::once(link.clone()).chain(closed(link))).collect();
    let good = sites.links(&links, |link| {
        let row = measure(corpus, link)?;
        let (all, resolved) = (row.states.values().sum::<u64>(), row.state("resolved"));
        let before = resolved_in(&committed, &row.name);
        if resolved < before && !options.write {
            return Err(format!("{resolved} sites resolved, {before} in the committed table").into());
        }
        let share =
            if all == 0 { "n/a".into() } else { format!("{:.1}%", 100.0 * resolved as f64 / all as f64) };
        let [never, overdefined] = ["never", "overdefined"].map(|state| count(row.state(state)));
        let cells = vec![row.name.clone(), count(all), count(resolved), share, never, overdefined];
        rows.push(row);
        Ok(cells)
    });
    let names: BTreeSet<&String> = rows.iter().flat_map(|r| r.causes.keys()).collect();
    let mut causes =
        Table::new(&format!("link{}", names.iter().map(|n| format!(" | {n}")).collect::<String>()));
    let mut functions = Table::new(
        "link | live code | by address | address taken | escaped | called | stubs | `.text` sections | functions | pointers | pointers / functions",
    );
    for row in &rows {
        let cells = names.iter().map(|name| count(row.causes.get(*name).copied().unwrap_or(0)));
        causes.row(&std::iter::once(row.name.clone()).chain(cells).collect::<Vec<_>>());
        let mut cells = vec![row.name.clone()];
        cells.extend(row.counts.iter().chain(&row.text).copied().map(count));
        cells.push(format!("{:.4}", row.ratio()));
        functions.row(&cells);
    }
    let open = || rows.iter().filter(|r| !r.name.contains(CLOSED));
    let body = format!(
        "Indirect call sites of kept code at `--prune-level=pointers` without a gate, by lld. Resolved: a finite set of targets that is not empty. \
         `closed-`: the same link without `--export-dynamic`.\n\n{}\nOverdefined sites by cause; a site may have several.\n\n{}\n\
         Bytes of live code, and of code that only a function's address leads to, which is the most that the level can save; functions by the use of their \
         address; bytes of `.text` by level.\n\n{}\n`.text` at `pointers` / `functions`, geometric mean: {:.4} over all {} links that are not `closed-`, {:.4} \
         over the static ones.\n",
        sites.as_str(),
        causes.as_str(),
        functions.as_str(),
        geometric_mean(open()),
        open().count(),
        geometric_mean(rows.iter().filter(|r| r.name.starts_with("static"))),
    );
    publish(good, corpus, options, ("sites", "Indirect calls by value flow"), &body)
}
