//! `bench stops`: what becomes of code that only mentions of its address reach, and what keeps the rest of it, in bytes.
//!
//! The links are those of `bench sites`: the corpus, the same without exports, and the mains against static libraries; `bench recompiled` has the same rows of
//! the programs of sources. Followed without a budget or a gate, so that a row says what could be had. The last column is what time following takes, in one run.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::corpus::Corpus;
use crate::process::{pass, run_ok};
use crate::report::list;
use crate::table::{Table, count, publish_good};
use crate::trace::{self, TracedLink};
use crate::{Options, Result};

/// What may become of such code, as reports name it, in the order of the columns.
const FATES: [&str; 11] = [
    "dropped",
    "stub",
    "called",
    "kept-whole",
    "unfollowed",
    "not-modelled",
    "unseen-callee",
    "unknown-callee",
    "stored",
    "returned",
    "library",
];

fn measure(corpus: &Corpus, case: &TracedLink) -> Result<Vec<String>> {
    let link = &case.link;
    let scratch = corpus.scratch(&format!("stops/{}-{}", link.program, link.mode))?;
    let file = scratch.join("report.json");
    let mut command = trace::pruned_link(corpus, link, &scratch, &scratch.join("pruned"), "pointers")?;
    run_ok(command.arg(format!("--prune-report={}", file.display())), &scratch)?;
    row(&link.name(), &file, &fs::read_to_string(scratch.join("stderr"))?)
}

/// The row of the link `name` at the level `pointers`, which left a report in `file` and `said` how long its stages took.
///
/// # Errors
/// If the report is of another level, or its parts are not the whole.
pub(crate) fn row(name: &str, file: &Path, said: &str) -> Result<Vec<String>> {
    let report = crate::report::read(file)?;
    let bytes = |name: &str| report["live_code"][name].as_u64().ok_or("the report has no live_code");
    let (live, mentioned) = (bytes("live")?, bytes("by_mentions")?);
    let mut row = vec![name.to_owned(), count(live), count(mentioned)];
    if report["value_flow"].is_null() {
        let nowhere = list(&report, "limits")?.iter().find(|l| l["severity"] == "values");
        let why = nowhere.and_then(|l| l["limit"].as_str()).unwrap_or("nothing to follow");
        row.extend(FATES.map(|_| String::new()));
        row.push(why.to_owned());
        return Ok(row);
    }
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for fate in list(&report["value_flow"], "candidates")? {
        let name = fate["what"].as_str().filter(|name| FATES.contains(name)).ok_or("an unknown fate")?;
        sums.insert(name, fate["bytes"].as_u64().ok_or("no bytes")?);
    }
    if sums.values().sum::<u64>() != mentioned {
        return Err(format!("{name}: the parts are not the whole").into());
    }
    row.extend(FATES.map(|name| count(sums.get(name).copied().unwrap_or(0))));
    row.push(format!("{:.0}", pass(said, "propagate")?));
    Ok(row)
}

/// An empty table for rows of [`row`].
pub(crate) fn table() -> Table {
    let columns = ["link", "live code", "by mentions"].into_iter().chain(FATES);
    Table::new(&columns.chain(["propagate, ms"]).collect::<Vec<_>>())
}

/// The command. True unless a link failed.
pub(crate) fn run(corpus: &Corpus, options: &Options) -> Result<bool> {
    let mut table = table();
    let mut failures = String::new();
    for case in trace::cases(corpus, &options.only, trace::Mains::All)? {
        eprintln!("{}", case.link.name());
        match measure(corpus, &case) {
            Ok(row) => table.row(&row),
            Err(e) => failures.push_str(&format!("{}: {e}\n", case.link.name())),
        }
    }
    let body = format!(
        "Bytes of live code, of these what only mentions of addresses reach (the most that `--prune-level=pointers` can drop), and what becomes of \
         that. Dropped, and stub: gone. Called: a live call whose callees are known leads there. Kept whole: something that is not followed \
         keeps it, or it can be no stub. The others: its address escapes, that is, it goes to code that is not followed: what refers to it is not followed; an instruction is not \
         modelled; a call passes it to a function that is not seen, or to one that may be any; it is stored where anybody may read; an escaped function returns it; \
         a library holds it. Each byte is counted once, by the first way that was found.\n\n{}",
        table.as_str()
    );
    print!("{failures}");
    publish_good(failures.is_empty(), corpus, options, "stops", "What stops called values", &body)
}
