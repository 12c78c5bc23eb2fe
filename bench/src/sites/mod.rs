//! `bench sites`: what value flow makes of indirect calls: sites resolved, by LLVM's pass and here, functions called and not, bytes
//! of `.text` at each level.
//!
//! Sites are of code that is kept. Those that ran are the tracer's (`bench trace`), on the same link. Left out: times, for which there are
//! `bench links` and `bench stops`.

pub(crate) mod llvm;

use std::collections::BTreeMap;

use crate::corpus::Corpus;
use crate::process::run_ok;
use crate::symbols::text_size;
use crate::table::{Table, count, publish_good};
use crate::trace::report::State;
use crate::trace::{self, TraceOutcome, TracedLink};
use crate::{Options, Result, reach};
use llvm::Llvm;

/// How many of the places where causes began are named for each link.
const ORIGINS: usize = 3;

struct SitesRow {
    name: String,
    /// Whether the C library is in it.
    is_static: bool,
    /// Whether it is a link of the corpus once more, without its exports.
    is_closed: bool,
    outcome: TraceOutcome,
    llvm: Option<Llvm>,
    /// Bytes of `.text` at `sections`, `functions`, `pointers`.
    text: [u64; 3],
}

impl SitesRow {
    fn ratio(&self) -> f64 {
        self.text[2] as f64 / self.text[1] as f64
    }
}

fn measure(corpus: &Corpus, options: &Options, case: &TracedLink) -> Result<SitesRow> {
    let outcome = trace::observe(corpus, case, options.hits)?;
    let link = &case.link;
    let scratch = corpus.scratch(&format!("sites/{}-{}", link.program, link.mode))?;
    let mut text = [0; 3];
    for (level, size) in ["sections", "functions", "pointers"].iter().zip(&mut text) {
        let output = scratch.join(level);
        // The link at `pointers` was made for the trace.
        let output = if *level == "pointers" { trace::scratch(corpus, link).join("pruned") } else { output };
        if !output.exists() {
            run_ok(&mut trace::pruned_link(corpus, link, &scratch, &output, level)?, &scratch)?;
        }
        *size = text_size(&output)?;
    }
    Ok(SitesRow {
        name: link.name(),
        is_static: link.program.starts_with("static"),
        is_closed: link.mode.starts_with(trace::CLOSED),
        outcome,
        llvm: None,
        text,
    })
}

fn percent(part: usize, of: usize) -> String {
    if of == 0 { "n/a".into() } else { format!("{:.1}%", 100.0 * part as f64 / of as f64) }
}

fn sites_table(rows: &[SitesRow]) -> String {
    let mut table = Table::new(&[
        "link",
        "sites",
        "resolved",
        "of all",
        "never called",
        "overdefined",
        "not followed",
        "LLVM: sites",
        "resolved",
        "uncapped",
        "sites that ran",
        "of these resolved",
        "share",
    ]);
    for row in rows {
        let live = row.outcome.live;
        let (ran, resolved) = row.outcome.executed();
        let mut cells = vec![row.name.clone(), count(live.all() as u64), count(live.resolved as u64)];
        cells.push(percent(live.resolved, live.all()));
        cells.extend([live.never, live.overdefined, live.not_followed].map(|n| count(n as u64)));
        cells.extend(match row.llvm {
            Some(l) => [l.sites, l.resolved, l.unlimited].map(|n| count(n as u64)),
            None => ["n/a", "n/a", "n/a"].map(str::to_owned),
        });
        cells.extend([count(ran as u64), count(resolved as u64), percent(resolved, ran)]);
        table.row(&cells);
    }
    table.as_str().to_owned()
}

fn causes_table(rows: &[SitesRow]) -> String {
    let causes = rows.iter().flat_map(|r| r.outcome.report.causes.keys());
    let causes: Vec<&str> =
        causes.map(String::as_str).collect::<std::collections::BTreeSet<_>>().into_iter().collect();
    let columns: Vec<&str> = ["link", "overdefined"].into_iter().chain(causes.iter().copied()).collect();
    let mut table = Table::new(&columns);
    for row in rows {
        let mut cells = vec![row.name.clone(), count(row.outcome.live.overdefined as u64)];
        let number = |cause: &&str| count(row.outcome.report.causes.get(*cause).copied().unwrap_or(0));
        cells.extend(causes.iter().map(number));
        table.row(&cells);
    }
    table.as_str().to_owned()
}

/// Where overdefined sites' first cause began: the most frequent of each link.
fn origins_table(rows: &[SitesRow]) -> String {
    let mut table = Table::new(&["link", "sites", "the first cause"]);
    for row in rows {
        let mut origins: BTreeMap<&str, usize> = BTreeMap::new();
        let overdefined = row.outcome.report.claims.values().filter(|c| c.state == State::Overdefined);
        for claim in overdefined {
            *origins.entry(claim.because.as_deref().unwrap_or("not said")).or_default() += 1;
        }
        let mut origins: Vec<(&str, usize)> = origins.into_iter().collect();
        origins.sort_by_key(|(origin, sites)| (std::cmp::Reverse(*sites), *origin));
        for (origin, sites) in origins.into_iter().take(ORIGINS) {
            table.row(&[row.name.clone(), count(sites as u64), origin.to_owned()]);
        }
    }
    table.as_str().to_owned()
}

fn functions_table(rows: &[SitesRow]) -> String {
    let mut table = Table::new(&[
        "link",
        "live code",
        "by mentions",
        "in stubs",
        "mentioned",
        "escaped",
        "called",
        "stubs",
        "`.text` sections",
        "functions",
        "pointers",
        "pointers / functions",
        "joined objects",
    ]);
    for row in rows {
        let number = |name: &str| row.outcome.report.counts.get(name).map_or("n/a".into(), |n| count(*n));
        let mut cells = vec![row.name.clone()];
        cells.extend(["code live", "code by_mentions", "code stubs"].map(number));
        cells.extend(["mentioned", "escaped", "called", "stubs"].map(number));
        cells.extend(row.text.map(count));
        cells.push(format!("{:.4}", row.ratio()));
        cells.push(number("joined_objects"));
        table.row(&cells);
    }
    table.as_str().to_owned()
}

/// The geometric mean of the ratios of `.text`.
fn geometric_mean<'r>(rows: impl Iterator<Item = &'r SitesRow>) -> String {
    let logarithms: Vec<f64> = rows.map(|r| r.ratio().ln()).collect();
    if logarithms.is_empty() {
        return "n/a".into();
    }
    format!("{:.4}", (logarithms.iter().sum::<f64>() / logarithms.len() as f64).exp())
}

/// The command. True unless a link failed, or something ran that the analysis excludes.
pub(crate) fn run(corpus: &Corpus, options: &Options) -> Result<bool> {
    let mut rows = Vec::new();
    let mut llvm: BTreeMap<String, Option<Llvm>> = BTreeMap::new();
    let mut failures = String::new();
    for case in trace::cases(corpus, &options.only, trace::Mains::All)? {
        eprintln!("{}", case.link.name());
        match measure(corpus, options, &case) {
            Ok(mut row) => {
                failures.push_str(&row.outcome.misses(&row.name));
                let program = &case.link.program;
                if case.link.mode != reach::MODE {
                    if !llvm.contains_key(program) {
                        llvm.insert(program.clone(), llvm::resolve(corpus, program)?);
                    }
                    row.llvm = llvm.get(program).copied().flatten();
                }
                rows.push(row);
            }
            Err(e) => failures.push_str(&format!("{}: {e}\n", case.link.name())),
        }
    }
    let open = || rows.iter().filter(|r| !r.is_closed);
    let body = format!(
        "Indirect call sites of the code that is kept at `--prune-level=pointers`, lld behind. Resolved: a finite set that \
         isn't empty. Not followed: calls in functions whose values are not followed. LLVM: the same sources as one module, \
         `{}`, calls with `!callees` of all indirect calls, with at most four functions a value and uncapped. Sites that \
         ran: as traced (`bench trace`), outside of what nobody follows too. `closed-`: the same without `--export-dynamic`, so that nobody \
         else calls it, as LLVM's pass has it in every row.\n\n{}\n\
         Overdefined sites by cause; a site may have several.\n\n{}\n\
         The {ORIGINS} places at which the first cause of most sites began.\n\n{}\n\
         Bytes of code that references reach, those of them that only mentions of addresses reach, which is the most that can be gained, and those that \
         became stubs; functions by what is done with their address, bytes of `.text` by level.\n\n{}\n\
         `.text` at `pointers` / `functions`, geometric mean: {} over all {} links that are not `closed-`, {} over the static ones.\n",
        llvm::PASSES,
        sites_table(&rows),
        causes_table(&rows),
        origins_table(&rows),
        functions_table(&rows),
        geometric_mean(open()),
        open().count(),
        geometric_mean(rows.iter().filter(|r| r.is_static)),
    );
    print!("{failures}");
    publish_good(failures.is_empty(), corpus, options, "sites", "Indirect calls by value flow", &body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares() {
        assert_eq!((percent(1, 4), percent(0, 0)), ("25.0%".to_owned(), "n/a".to_owned()));
    }
}
