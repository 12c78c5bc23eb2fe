//! `bench oracle`: what LLVM itself says of the same programs, held against what lto-prune says.
//!
//! [`liveness`] asks the index of lld's thin link, [`callees`] the pass that propagates called values. What LLVM proves is never to be missed, and what lto-prune proves beyond it
//! is explained by facts of LLVM's, or is an error.

mod callees;
mod index;
mod liveness;
mod ours;

use std::collections::BTreeMap;

use crate::corpus::{Corpus, Link};
use crate::table::{Table, count, publish};
use crate::{Options, Result};
use liveness::LivenessReason;

/// Names that are printed for each link and reason, without `--verbose`.
const NAMES: usize = 12;

/// The section of the results about liveness, and what is wrong.
fn liveness_section(corpus: &Corpus, options: &Options) -> Result<(String, Vec<String>)> {
    let ours = corpus.shims()?.join("ld.lto-prune");
    let mut table = Table::new(&liveness::COLUMNS);
    let mut extra = Table::new(&["link", "values", "kept by"]);
    let (mut names, mut errors) = (String::new(), Vec::new());
    for link in corpus.links.iter().filter(|l| l.mode == "lto-thin") {
        eprintln!("{}: liveness", link.name());
        let compared = match liveness::compare(corpus, link, &ours) {
            Ok(compared) => compared,
            Err(e) => {
                errors.push(format!("{}: {e}", link.name()));
                continue;
            }
        };
        table.row(&compared.row(link));
        let mut kept: Vec<_> = compared.kept.iter().collect();
        kept.sort_by_key(|(reason, values)| (std::cmp::Reverse(**values), *reason));
        for (reason, values) in kept {
            extra.row(&[link.name(), count(*values as u64), reason.clone()]);
        }
        let mut by_reason: BTreeMap<&LivenessReason, Vec<&str>> = BTreeMap::new();
        for (name, reason) in &compared.dropped {
            by_reason.entry(reason).or_default().push(name);
        }
        for (reason, list) in by_reason {
            let what = match reason {
                LivenessReason::Mentioned => "mentioned, not called",
                LivenessReason::Behind => "behind those",
                LivenessReason::Unexplained(words) => words,
            };
            let shown = if options.verbose { list.len() } else { NAMES.min(list.len()) };
            let more = list.len() - shown;
            let more = if more == 0 { String::new() } else { format!(" and {} more", count(more as u64)) };
            let shown: Vec<String> = list[..shown].iter().map(|n| format!("`{n}`")).collect();
            names.push_str(&format!("- {}, {what}: {}{more}\n", link.name(), shown.join(", ")));
        }
        errors.extend(compared.errors.iter().map(|e| format!("{}: {e}", link.name())));
    }
    let body = format!(
        "## Liveness\n\n\
         Values of bitcode in the combined index of lld's thin link (`--save-temps`), and what is kept of them at `--prune-level=pointers`. By plain \
         references: what the references in the IR, as our reader finds them, reach from lld's own roots; it must be all that lld finds live. \
         Only lld's: live there, and no code is made of it here. Of these something kept mentions the first and nothing calls them; the second are only \
         mentioned by what isn't kept. \
         Only ours: dead in lld's index, and kept.\n\n{}\n\
         What keeps those that only lto-prune keeps.\n\n{}\n\
         What only lld keeps.\n\n{names}\n",
        table.as_str(),
        extra.as_str()
    );
    Ok((body, errors))
}

/// The section about indirect calls, and what is wrong.
fn callees_section(corpus: &Corpus) -> Result<(String, Vec<String>)> {
    let ours = corpus.shims()?.join("ld.lto-prune");
    let mut table = Table::new(&callees::COLUMNS);
    let mut errors = Vec::new();
    // LLVM 19 reads no bitcode of this rustc.
    let one_module = |l: &&Link| l.program != "hexyl" && matches!(l.mode.as_str(), "lto-thin" | "lto-full");
    for link in corpus.links.iter().filter(one_module) {
        eprintln!("{}: callees", link.name());
        match callees::compare(corpus, link, &ours) {
            Ok(compared) => {
                table.row(&compared.row(link));
                errors.extend(compared.errors.iter().map(|e| format!("{}: {e}", link.name())));
            }
            Err(e) => errors.push(format!("{}: {e}", link.name())),
        }
    }
    let body = format!(
        "## Called values\n\n\
         Each program's bitcode as one module in which all but `main` is internal, read by `opt -passes=called-value-propagation` (without a bound on \
         functions a value) and linked through lto-prune at `--prune-level=pointers`. Sites are calls of no function. What LLVM resolves must be resolved here, by functions \
         that are among LLVM's. A site at which nothing is ever called is resolved too.\n\n{}\n",
        table.as_str()
    );
    Ok((body, errors))
}

/// The section about what is wrong: the first of each link, which is the word before the first colon, and how many more there are.
fn wrong(errors: &[String]) -> String {
    let mut section = "\n## What is wrong\n\n".to_owned();
    let link = |error: &str| error.split(':').next().map(str::to_owned);
    for of_link in errors.chunk_by(|a, b| link(a) == link(b)) {
        let shown = NAMES.min(of_link.len());
        of_link.iter().take(shown).for_each(|e| section.push_str(&format!("- {e}\n")));
        if of_link.len() > shown {
            let more = count((of_link.len() - shown) as u64);
            section.push_str(&format!("- {}: {more} more\n", link(&of_link[0]).unwrap_or_default()));
        }
    }
    section
}

/// The command. True if everything is explained; what is not stands in the results.
pub(crate) fn run(corpus: &Corpus, options: &Options) -> Result<bool> {
    let (mut body, mut errors) = liveness_section(corpus, options)?;
    let (calls, more) = callees_section(corpus)?;
    body.push_str(&calls);
    errors.extend(more);
    if !errors.is_empty() {
        body.push_str(&wrong(&errors));
    }
    publish(corpus, options, "oracle", "What LLVM says of the same programs", &body)?;
    Ok(errors.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_counted_by_link() {
        let mut errors: Vec<String> = (0..NAMES + 3).map(|n| format!("a/thin: f, call {n}: gone")).collect();
        errors.push("b/full: g: gone".to_owned());
        let section = wrong(&errors);
        assert!(
            section.ends_with("- a/thin: f, call 11: gone\n- a/thin: 3 more\n- b/full: g: gone\n"),
            "{section}"
        );
    }
}
