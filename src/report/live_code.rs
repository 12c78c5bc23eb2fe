//! How much code lives for one reason alone.
//!
//! Each number is what reachability keeps less without that reason: without edges that only mention addresses, without exports, without
//! modules that a limit keeps whole. Code that two of them keep is in none of the numbers. Left out: data.

use serde::Serialize;

use super::facts::{Facts, is_start_file};
use crate::ids::{AtomId, Id};
use crate::index::RootReason;
use crate::propagate::{MentionedCode, candidates, code_sizes, live, reach};

/// How many bytes of code live, in all and for one reason alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct LiveCode {
    /// The bytes of code that live by references.
    pub live: u64,
    /// What no call reaches: the most that the level `pointers` can drop.
    pub by_mentions: u64,
    /// The part of it in start files of the compiler, which no option changes.
    pub start_file_mentions: u64,
    /// What lives only because it is exported.
    pub by_exports: u64,
    /// What lives only because a limit keeps its module whole, or a module that refers to it.
    pub by_limits: u64,
}

impl LiveCode {
    pub(super) fn of(facts: Facts<'_>) -> Self {
        let index = facts.index;
        let code = code_sizes(index, facts.summaries);
        let liveness = live(index);
        let mentioned = MentionedCode::of(index, facts.summaries, &liveness);
        let candidates = candidates(index, &code, &liveness);
        let of_start_file = |position: usize| is_start_file(facts, facts.index.modules[position].module);
        let start_files = (0..index.modules.len()).filter(|position| of_start_file(*position));
        let in_start_files = start_files.flat_map(|position| index.atoms_of(position));
        let start_file_mentions =
            in_start_files.filter(|atom| candidates[*atom]).map(|atom| code[atom]).sum();
        let without = |reason: RootReason| {
            let reached = reach(index, &|root| root.reason != reason, &|_, _| true);
            let kept = code.iter().enumerate().filter(|(atom, _)| reached.is_live(AtomId::new(*atom)));
            mentioned.live - kept.map(|(_, size)| size).sum::<u64>()
        };
        LiveCode {
            live: mentioned.live,
            by_mentions: mentioned.candidates,
            start_file_mentions,
            by_exports: without(RootReason::Exported),
            by_limits: without(RootReason::ModuleKept),
        }
    }
}
