//! Sections that kept code may go on into, in modules whose code was not read.
//!
//! Code that the estimate left undecoded may leave its section at the end, as hand-written assembly does. Whether it does matters only where the
//! plan drops what linkers place behind it. So only that code is read. The dropped section becomes a root if the code may go on into it.

use rayon::prelude::*;
use summaries::native::{self, AtomFate};
use summaries::{AtomIdx, Granularity, ModuleKind};

use super::{Action, Plan};
use crate::config::Level;
use crate::ids::{AtomId, Id};
use crate::index::{Index, LinkInputs};

/// The atoms that the plan drops although kept code may go on into them.
pub fn of_link(link: LinkInputs<'_>, index: &Index, plan: &Plan) -> Vec<AtomId> {
    let LinkInputs { config, inputs, summaries, .. } = link;
    // The summaries say it, then.
    if config.prune.level == Level::Sections {
        return Vec::new();
    }
    let of_module = |position: usize| {
        let (this, summary, actions) =
            (index.modules[position], summaries[position], &plan.modules[position].atoms);
        let is_undivided = summary.kind == ModuleKind::Native && summary.granularity == Granularity::Sections;
        if !is_undivided || plan.modules[position].is_untouched() {
            return Vec::new();
        }
        let global = |atom: AtomIdx| AtomId(this.first_atom + atom.0);
        let fate = |atom: AtomIdx| match actions.get(atom.index()) {
            _ if index.discarded[global(atom).index()] => AtomFate::Discarded,
            Some(Action::Drop) => AtomFate::Dropped,
            _ => AtomFate::Kept,
        };
        let next = native::next_sections(inputs.module_bytes(this.module), summary, &fate);
        next.into_iter().map(global).collect()
    };
    (0..summaries.len()).into_par_iter().flat_map_iter(of_module).collect()
}
