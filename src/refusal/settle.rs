//! The plan of a link, once no module has to be kept whole for what emission can't do with it.
//!
//! An object whose debug information can't follow its parts is kept whole, and so is bitcode that needs libraries; either makes another plan.
//! It ends because each round keeps a module more.

use super::{PlacedLimit, of_debug, of_libraries};
use crate::emit::{self, ExplicitDebug};
use crate::error::Stage;
use crate::index::{Index, LinkInputs};
use crate::plan::{self, Plan};
use crate::propagate::Propagator;
use crate::propagate::values::ValueFlow;
use crate::timing::Timer;

/// A plan that emission can apply.
#[derive(Debug)]
pub struct Settled {
    pub plan: Plan,
    /// By load position: the object with explicit debug information, where its code is divided.
    pub explicit: Vec<Option<ExplicitDebug>>,
    pub kept: Vec<PlacedLimit>,
}

/// Plan, and keep what can't be emitted as planned, until all can be.
pub fn settle(
    link: LinkInputs<'_>,
    index: &mut Index,
    flow: &mut ValueFlow,
    propagator: &Propagator<'_>,
    timer: &mut Timer,
) -> Settled {
    let mut kept = Vec::new();
    loop {
        let plan = timer.stage(Stage::Plan, || plan::of_link(link, index, &flow.liveness));
        let made = timer.stage(Stage::Emit, || {
            emit::tree::explicit_debug(link.inputs, link.resolution, link.summaries, &plan)
        });
        let mut refused = of_debug(link, index, &plan, &made);
        refused.extend(of_libraries(link, index, &flow.liveness));
        if refused.is_empty() {
            let explicit = made.into_iter().map(|made| made.ok().flatten()).collect();
            return Settled { plan, explicit, kept };
        }
        refused.iter().for_each(|(position, _)| index.keep_module(*position));
        kept.extend(refused.into_iter().map(|(_, place)| place));
        *flow = timer.stage(Stage::Propagate, || propagator.run(index));
    }
}
