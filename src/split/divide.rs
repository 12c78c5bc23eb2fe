//! The division of one object: summary, plan, emission and verification.
//!
//! The plan keeps every atom, and gives those of divided sections a section of their own. The result is verified as
//! in a link. If emission or verification fails, the object is divided again without jump tables and data, or else
//! passed through, with the reason.

use summaries::native::extract_by;
use summaries::{Granularity, ModuleSummary, Severity};

use super::options::SplitOptions;
use super::pieces::{self, Pieces};
use super::report::{ObjectReport, SplitOutcome};
use crate::error::Result;
use crate::plan::{Action, ModulePlan};
use crate::summarize::at_once;
use crate::{emit, verify};

/// Divide an object; `None` if it is passed through.
pub(super) fn object(name: &str, bytes: &[u8], options: SplitOptions) -> (Option<Vec<u8>>, ObjectReport) {
    let summary = extract_by(bytes, Granularity::Functions, &at_once);
    if let Some(limit) = summary.limits.iter().find(|l| l.limit.severity() >= Severity::Module) {
        let detail = if limit.detail.is_empty() { limit.limit.lifted_by() } else { &limit.detail };
        let outcome = SplitOutcome::Limited { limit: limit.limit.name(), detail: detail.to_owned() };
        return (None, ObjectReport::new(name, &summary, None, outcome, options));
    }
    let mut failure = None;
    let plain = SplitOptions { data: false };
    for (tables, tried) in [(true, options), (false, plain)] {
        let pieces = pieces::choose(&summary, tables, tried);
        if pieces.iter().all(Option::is_none) {
            break;
        }
        match emit(name, bytes, &summary, &pieces) {
            Ok(divided) => {
                let outcome = failure.map_or(SplitOutcome::Divided, SplitOutcome::DividedLess);
                return (Some(divided), ObjectReport::new(name, &summary, Some(&pieces), outcome, options));
            }
            Err(error) => failure = failure.or(Some(error.to_string())),
        }
    }
    let outcome = failure.map_or(SplitOutcome::AsItWas, SplitOutcome::Failed);
    (None, ObjectReport::new(name, &summary, None, outcome, options))
}

fn emit(name: &str, bytes: &[u8], summary: &ModuleSummary, pieces: &Pieces) -> Result<Vec<u8>> {
    let plan = ModulePlan {
        atoms: vec![Action::Keep; summary.atoms.len()],
        section_names: pieces.clone(),
        ..ModulePlan::default()
    };
    let divided = emit::object::rewrite(bytes, summary, &plan)?;
    verify::object(name, bytes, &divided, &verify::ExpectedObject::new(summary, &plan))?;
    Ok(divided)
}
