//! Definitions that gold is asked for by name (`-u`), because its `--gc-sections` would collect what no pruned object refers to any more.
//!
//! gold exports an `STB_GNU_UNIQUE` definition from a program whenever its collection keeps it (gold/symtab.cc
//! `should_add_dynsym_entry`); what referred to it there may be gone, or a stub. Safe because `-u` of a name that is defined keeps that definition
//! and does nothing else. Left out: a difference between gold's collection and lld's, which [`Index::plain_live`] models.

use summaries::ModuleSummary;

use crate::ids::{Id, SymbolId};
use crate::index::{Index, RootReason};

/// The names, in the order of the atoms that they define.
pub(super) fn of_link(index: &Index, summaries: &[&ModuleSummary]) -> Vec<SymbolId> {
    let unique = index.roots.iter().filter(|root| root.reason == RootReason::Unique);
    let kept = unique.filter(|root| index.plain_live(summaries)[root.atom.index()]);
    kept.filter_map(|root| root.symbol).collect()
}
