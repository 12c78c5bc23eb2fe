//! How a link is propagated: by references alone, or with addresses followed besides.
//!
//! Addresses are followed where the gate let functions be summarised for that, and no function is made a stub by an option. Otherwise, and where
//! somebody may map memory at a place of the program's choice, liveness is by references alone, which keeps no less.
//! It may be asked again about the same link with more roots.

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

/// What decides about every propagation of a link.
pub struct Propagator<'s> {
    link: LinkInputs<'s>,
    /// The atoms whose functions were summarised for value flow.
    followed: Option<Liveness>,
    models: Models,
    /// By position and atom: whether a stub may take its place. Of no module where there are no stubs.
    can_stub: Vec<Vec<bool>>,
}

/// Remove the unwind entries that the program does not need, if the user asks for it. The second result is the liveness by references.
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
    /// None, unless a table of models was built in that can't be read.
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

    /// Propagate again, in a graph that has more roots.
    pub fn run_again(&self, index: Index) -> (Index, ValueFlow) {
        let (index, reachable) = remove_unwind(self.link, index);
        let flow = self.run(&index, reachable);
        (index, flow)
    }

    /// What lives, given the roots of the index; `reachable` is what lives by references.
    pub fn run(&self, index: &Index, reachable: Liveness) -> ValueFlow {
        let LinkInputs { config, inputs, resolution, summaries, .. } = self.link;
        let chosen = stub::chosen_stubs(config, index, summaries);
        // What is kept for a reason that came later was not summarised for this.
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
        // A function that is a stub by an option refers to nothing. Its definition holds on to another one of its name.
        let is_chosen = |atom: AtomId| chosen.get(atom.index()) == Some(&true);
        let stays = |from: AtomId, edge: &Edge| !is_chosen(from) || edge.kind == EdgeKind::SameName;
        let mut liveness = if chosen.contains(&true) { reach(index, &|_| true, &stays) } else { reachable };
        liveness.stub = chosen.iter().zip(&liveness.witness).map(|(c, w)| *c && w.is_some()).collect();
        ValueFlow { liveness, fixed_mapping, ..ValueFlow::default() }
    }
}
