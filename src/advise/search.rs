//! Greedy search: the experiments alone, then together as long as each one makes the output smaller.

use std::io::IsTerminal as _;

use super::edits::{Edit, shown};
use super::facts::LinkedFacts;
use super::laboratory::{Ended, Laboratory, LinkFailure, LinkMeasure};
use super::variants::Variant;

/// A link that was made, or failed.
#[derive(Debug)]
pub(super) struct LinkTrial {
    pub(super) variant: Variant,
    pub(super) result: Result<LinkMeasure, LinkFailure>,
    /// Differences that other files can see: [`LinkedFacts::differences`].
    pub(super) differences: Vec<String>,
}

impl LinkTrial {
    fn new(variant: Variant, result: Result<LinkMeasure, LinkFailure>, base: &LinkedFacts) -> LinkTrial {
        let differences = result.as_ref().map_or(Vec::new(), |link| link.facts.differences(base));
        LinkTrial { variant, result, differences }
    }

    /// The sizes of an output that may take the place of the link as it is.
    pub(super) fn good(&self) -> Option<(u64, u64)> {
        let link = self.result.as_ref().ok().filter(|link| link.test.is_none())?;
        self.differences.is_empty().then(|| link.facts.size())
    }
}

/// Make the links of all variants, and those of the combinations.
pub(super) fn run(
    laboratory: &Laboratory,
    base: &LinkedFacts,
    variants: Vec<Variant>,
) -> Result<Vec<LinkTrial>, Ended> {
    let mut trials = Vec::new();
    let count = variants.len();
    for (number, variant) in variants.into_iter().enumerate() {
        progress(laboratory, &format!("row {} of {count}", number + 1), &variant.edits);
        let result = laboratory.link(&variant.name, &variant.edits, laboratory.runs())?;
        trials.push(LinkTrial::new(variant, result, base));
    }
    let combined = combine(laboratory, base, &trials)?;
    let mut combinations = Vec::new();
    combinations.push(("combined", combined.clone()));
    let kept: Vec<Edit> = combined.iter().filter(|edit| !edit.is_strip()).cloned().collect();
    if kept.len() < combined.len() {
        combinations.push(("combined-with-symbols", kept));
    }
    for (name, edits) in combinations {
        // One that is a row already was measured.
        if edits.is_empty() || trials.iter().any(|trial| trial.variant.edits == edits) {
            continue;
        }
        progress(laboratory, "a combination", &edits);
        let result = laboratory.link(name, &edits, laboratory.runs())?;
        trials.push(LinkTrial::new(Variant { name: name.to_owned(), edits }, result, base));
    }
    Ok(trials)
}

/// The edits of the rows that saved bytes alone, without those that save none behind the ones before them.
fn combine(laboratory: &Laboratory, base: &LinkedFacts, trials: &[LinkTrial]) -> Result<Vec<Edit>, Ended> {
    let gained = |trial: &&LinkTrial| trial.good().is_some_and(|size| size < base.size());
    let mut candidates: Vec<&LinkTrial> = trials.iter().filter(gained).collect();
    candidates.sort_by_key(|trial| trial.good());
    let mut edits: Vec<Edit> = Vec::new();
    let mut best = base.size();
    for candidate in candidates {
        let new: Vec<Edit> =
            candidate.variant.edits.iter().filter(|edit| !edits.contains(edit)).cloned().collect();
        let is_second_linker = new.iter().any(Edit::is_linker) && edits.iter().any(Edit::is_linker);
        if new.is_empty() || is_second_linker {
            continue;
        }
        let together = [edits.clone(), new].concat();
        let size = match edits.is_empty() {
            // It was measured.
            true => candidate.good(),
            false => {
                progress(laboratory, "together", &together);
                let result = laboratory.link("together", &together, 1)?;
                let variant = Variant { name: String::new(), edits: together.clone() };
                LinkTrial::new(variant, result, base).good()
            }
        };
        if let Some(size) = size.filter(|size| *size < best) {
            best = size;
            edits = together;
        }
    }
    Ok(edits)
}

/// A line on a terminal, since links may take long.
fn progress(laboratory: &Laboratory, what: &str, edits: &[Edit]) {
    if std::io::stderr().is_terminal() {
        eprintln!("advise: {what}: {}", shown(&laboratory.link, edits));
    }
}
