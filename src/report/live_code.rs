//! Why so little goes: how much code lives for one reason alone, with what to do about each.
//!
//! Each number is what reachability keeps less without that reason: without edges that only mention addresses, without exports, without
//! modules that a limit keeps whole. Code that two of them keep is in none of the numbers. Left out: data.

use serde::Serialize;
use summaries::ModuleSummary;

use crate::ids::{AtomId, Id};
use crate::index::{Index, RootReason};
use crate::propagate::{MentionedCode, code_sizes, live, reach};

/// How many bytes of code live, in all and for one reason alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct LiveCode {
    /// The bytes of code that live by references.
    pub live: u64,
    /// What no call reaches: the most that the level `pointers` can drop.
    pub by_mentions: u64,
    /// What lives only because it is exported.
    pub by_exports: u64,
    /// What lives only because a limit keeps its module whole, or a module that refers to it.
    pub by_limits: u64,
}

impl LiveCode {
    pub(super) fn of(index: &Index, summaries: &[&ModuleSummary]) -> Self {
        let code = code_sizes(index, summaries);
        let mentioned = MentionedCode::of(index, summaries, &live(index));
        let without = |reason: RootReason| {
            let reached = reach(index, &|root| root.reason != reason, &|_, _| true);
            let kept = code.iter().enumerate().filter(|(atom, _)| reached.is_live(AtomId::new(*atom)));
            mentioned.live - kept.map(|(_, size)| size).sum::<u64>()
        };
        LiveCode {
            live: mentioned.live,
            by_mentions: mentioned.candidates,
            by_exports: without(RootReason::Exported),
            by_limits: without(RootReason::ModuleKept),
        }
    }

    /// A line for each reason that keeps code, for a link at the level of this name.
    pub(super) fn lines(&self, level: &str) -> String {
        let of_mentions = match level {
            "pointers" => "lto-prune audit calls says what stops the analysis of each call",
            _ => "--prune-level=pointers may drop some of it",
        };
        let reasons = [
            (
                "exports",
                self.by_exports,
                "link without -rdynamic or -E, or with a version script that has local: *",
            ),
            ("mentions of its address", self.by_mentions, of_mentions),
            ("limits", self.by_limits, "each limit says what lifts it"),
        ];
        let kept = reasons.iter().filter(|(_, bytes, _)| *bytes > 0);
        let line = |(reason, bytes, advice): &(&str, u64, &str)| {
            format!("code kept only by {reason}: {bytes} of {} bytes; {advice}\n", self.live)
        };
        kept.map(line).collect()
    }
}
