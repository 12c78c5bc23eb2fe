//! A plan that emission can apply, or the modules that have to be kept whole because it can't.
//!
//! An object whose debug information can't follow its parts is kept whole, and so is bitcode that needs libraries; either makes another plan.

use summaries::{Limit, LimitRecord};

use super::bitcode::of_libraries;
use super::limits::PlacedLimit;
use crate::emit::tree::EmissionSource;
use crate::error::{Error, Result};
use crate::index::{Index, LinkInputs};
use crate::plan::{Action, Plan};
use crate::propagate::Liveness;
use crate::resolve::link_limit;

/// A plan that emission can apply.
#[derive(Debug)]
pub struct ApplicablePlan {
    pub plan: Plan,
    /// By load position: what emission begins with.
    pub emission_sources: Vec<EmissionSource>,
    pub kept: Vec<PlacedLimit>,
}

impl ApplicablePlan {
    /// The plan for which emission has `prepared` every module. `kept` has the limits of the modules that refused an earlier plan.
    pub fn new(plan: Plan, prepared: Vec<Result<EmissionSource>>, kept: Vec<PlacedLimit>) -> Self {
        let emission_sources =
            prepared.into_iter().map(|source| source.unwrap_or(EmissionSource::Original)).collect();
        ApplicablePlan { plan, emission_sources, kept }
    }
}

/// The modules that can't be emitted as planned, by position, each with the reason.
pub fn refused(
    link: LinkInputs<'_>,
    index: &Index,
    liveness: &Liveness,
    plan: &Plan,
    prepared: &[Result<EmissionSource>],
) -> Vec<(usize, PlacedLimit)> {
    let mut refused = of_debug(link, index, plan, prepared);
    refused.extend(of_libraries(link, index, liveness));
    refused
}

/// Objects whose debug information can't be made explicit, by position, with the bytes of code and data that stay together for it.
fn of_debug(
    link: LinkInputs<'_>,
    index: &Index,
    plan: &Plan,
    made: &[Result<EmissionSource>],
) -> Vec<(usize, PlacedLimit)> {
    let LinkInputs { summaries, .. } = link;
    let errors =
        made.iter().enumerate().filter_map(|(position, made)| Some((position, made.as_ref().err()?)));
    let limit = |(position, error): (usize, &Error)| {
        let dropped = plan.modules[position].atoms.iter().zip(&summaries[position].atoms);
        let dropped = dropped.filter(|(action, atom)| **action != Action::Keep && atom.kind.is_alloc());
        let bytes = dropped.map(|(_, atom)| atom.size).sum();
        let detail = match &error.section {
            Some(section) => format!("section {section}: {}", error.message),
            None => error.message.clone(),
        };
        let limit = LimitRecord { bytes, ..link_limit(Limit::DebugInfo, detail) };
        (position, (Some(index.modules[position].module), limit))
    };
    errors.map(limit).collect()
}
