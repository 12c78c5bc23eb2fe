//! Propagation of a link: liveness by references, or value flow.
//!
//! Value flow runs if the functions were summarised for it and no option makes a function a stub. Otherwise liveness by references
//! is the result, which keeps no less. It is the result too if code may map memory at a fixed address.

use rayon::prelude::*;

use super::liveness::{Liveness, live, reach};
use super::models::Models;
use super::nounwind;
use super::stub;
use super::values::{self, FlowInputs, ValueFlow};
use crate::config::{Icf, UnwindPruning};
use crate::error::Result;
use crate::ids::{AtomId, Id};
use crate::index::{Edge, EdgeKind, Index, LinkInputs, RemovedUnwind};

/// The inputs that all propagations of a link share.
pub struct Propagator<'s> {
    link: LinkInputs<'s>,
    /// The atoms whose functions were summarised for value flow.
    followed: Option<Liveness>,
    models: Models,
    /// By position and atom: whether a stub may replace it. Empty if the link has no stubs.
    can_stub: Vec<Vec<bool>>,
}

/// Remove the unwind entries that the program does not need, if an option says so. The second result is the liveness by references.
pub fn remove_unwind(link: LinkInputs<'_>, index: Index) -> (Index, Liveness) {
    let mut index = index.without_unwind(RemovedUnwind::default());
    let mut reachable = live(&index);
    let mode = link.config.prune.unwind;
    if mode != UnwindPruning::Keep {
        let removed = nounwind::removed(link, &index, &reachable, mode);
        index = index.without_unwind(removed);
        reachable = live(&index);
    }
    (index, reachable)
}

impl<'s> Propagator<'s> {
    /// A propagator for one link; `followed` are the atoms whose functions were summarised.
    ///
    /// # Errors
    /// The built-in table of models is malformed.
    pub fn new(link: LinkInputs<'s>, followed: Option<Liveness>) -> Result<Self> {
        let (mut models, mut can_stub) = (Models::default(), Vec::new());
        if followed.is_some() {
            models = Models::builtin()?.of_link(link.inputs, link.resolution);
            if link.config.icf != Icf::All {
                can_stub = link.summaries.par_iter().map(|s| stub::can_stub(s)).collect();
            }
        }
        Ok(Propagator { link, followed, models, can_stub })
    }

    /// Propagate again, in a graph with more roots.
    pub fn run_again(&self, index: Index) -> (Index, ValueFlow) {
        let (index, reachable) = remove_unwind(self.link, index);
        let flow = self.run(&index, reachable);
        (index, flow)
    }

    /// The live atoms by the roots of the index; `reachable` is liveness by references.
    pub fn run(&self, index: &Index, reachable: Liveness) -> ValueFlow {
        let LinkInputs { config, inputs, resolution, summaries, .. } = self.link;
        let chosen = stub::chosen_stubs(config, index, summaries);
        // An atom that became a root later was not summarised for value flow.
        let all_followed = self.followed.as_ref().is_some_and(|followed| followed.covers(&reachable));
        let mut fixed_mapping = None;
        if all_followed && chosen.is_empty() && values::can_follow(summaries) {
            let can_stub = |atom: AtomId| {
                let (position, local) = index.locate(atom);
                self.can_stub.get(position).and_then(|can| can.get(local.index())) == Some(&true)
            };
            let sources = FlowInputs {
                config,
                resolution,
                summaries,
                index,
                reachable: &reachable,
                models: &|symbol| self.models.of(inputs, resolution, symbol),
                memory: &|symbol| self.models.memory(inputs, resolution, symbol),
                unseen_code: self.models.has_unseen_code(config, inputs, resolution),
                has_sections: inputs.scripts.has_sections,
                can_stub: &can_stub,
            };
            let flow = values::flow(sources, config.wants_report());
            if flow.fixed_mapping.is_none() {
                return flow;
            }
            fixed_mapping = flow.fixed_mapping;
        }
        // A stub by option refers to nothing. Its definition keeps another one of its name.
        let is_chosen = |atom: AtomId| chosen.get(atom.index()) == Some(&true);
        let stays = |from: AtomId, edge: &Edge| !is_chosen(from) || edge.kind == EdgeKind::SameName;
        let mut liveness = if chosen.contains(&true) { reach(index, &|_| true, &stays) } else { reachable };
        liveness.stub = chosen.iter().zip(&liveness.witness).map(|(c, w)| *c && w.is_some()).collect();
        ValueFlow { liveness, fixed_mapping, ..ValueFlow::default() }
    }
}
