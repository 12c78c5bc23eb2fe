//! The plan of a link, once no module has to be kept whole for what emission can't do with it.
//!
//! An object whose debug information can't follow its parts is kept whole, and so is bitcode that needs libraries; either makes another plan.
//! It ends because each round keeps a module more.

use summaries::{Limit, LimitRecord};

use super::bitcode::of_libraries;
use super::limits::PlacedLimit;
use crate::emit::tree::{EmissionSource, prepare};
use crate::error::{Error, Result, Stage};
use crate::index::{Index, LinkInputs};
use crate::plan::{self, Action, Plan};
use crate::propagate::Propagator;
use crate::propagate::values::ValueFlow;
use crate::resolve::link_limit;
use crate::timing::Timer;

/// A plan that emission can apply.
#[derive(Debug)]
pub struct ApplicablePlan {
    pub plan: Plan,
    /// By load position: what emission begins with.
    pub emission_sources: Vec<EmissionSource>,
    pub kept: Vec<PlacedLimit>,
}

/// Plan, and keep what can't be emitted as planned, until all can be.
pub fn applicable_plan(
    link: LinkInputs<'_>,
    index: &mut Index,
    flow: &mut ValueFlow,
    propagator: &Propagator<'_>,
    timer: &mut Timer,
) -> ApplicablePlan {
    let mut kept = Vec::new();
    loop {
        let plan = timer.stage(Stage::Plan, || plan::of_link(link, index, &flow.liveness));
        let made = timer.stage(Stage::Emit, || prepare(link, &plan));
        let mut refused = of_debug(link, index, &plan, &made);
        refused.extend(of_libraries(link, index, &flow.liveness));
        if refused.is_empty() {
            let emission_sources =
                made.into_iter().map(|made| made.unwrap_or(EmissionSource::Original)).collect();
            return ApplicablePlan { plan, emission_sources, kept };
        }
        refused.iter().for_each(|(position, _)| index.keep_module(*position));
        kept.extend(refused.into_iter().map(|(_, place)| place));
        *flow = timer.stage(Stage::Propagate, || propagator.run_again(index));
    }
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
