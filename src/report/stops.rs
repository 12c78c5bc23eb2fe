//! What becomes of code that only mentions of its address reach, the candidates of the level `pointers`: the bytes that go, and what keeps the others.
//!
//! Each candidate that lives hangs on the first one of its chain of witnesses: that is reached by a known call, or its address
//! escaped, or something that is not followed keeps it. Each byte is counted once, by the first witness; another may keep it
//! besides. A form of what propagation found; it decides nothing.

use std::collections::BTreeMap;

use serde::Serialize;

use super::facts::{Facts, is_start_file};
use crate::ids::{AtomId, Id};
use crate::propagate::values::EscapeReason;
use crate::propagate::{Witness, candidates, code_sizes, live};

/// Candidates to which one thing happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct StopReport {
    /// `dropped` or `stub`; `called` by a direct call or one whose callees are known; a reason why an address escaped
    /// (`unfollowed`, `not-modelled`, `unseen-callee`, `unknown-callee`, `stored`, `returned`, `library`); or `kept-whole`, by something that is not followed.
    pub what: &'static str,
    pub atoms: usize,
    /// The bytes of code of all of them.
    pub bytes: u64,
    /// The part of them in start files of the compiler.
    pub start_file_bytes: u64,
}

fn name(reason: EscapeReason) -> &'static str {
    match reason {
        EscapeReason::Unfollowed => "unfollowed",
        EscapeReason::FrontEnd => "not-modelled",
        EscapeReason::CalleeWithoutSummary => "unseen-callee",
        EscapeReason::OverdefinedCallee => "unknown-callee",
        EscapeReason::Stored => "stored",
        EscapeReason::Returned => "returned",
        EscapeReason::Library => "library",
    }
}

pub(super) fn of(facts: Facts<'_>) -> Vec<StopReport> {
    let code = code_sizes(facts.index, facts.summaries);
    let candidates = candidates(facts.index, &code, &live(facts.index));
    let mut sums: BTreeMap<&'static str, StopReport> = BTreeMap::new();
    for (position, module) in facts.index.modules.iter().enumerate() {
        let of_start_file = is_start_file(facts, module.module);
        for atom in facts.index.atoms_of(position).filter(|atom| candidates[*atom] && code[*atom] > 0) {
            let what = fate(facts, &candidates, AtomId::new(atom));
            let none = StopReport { what, atoms: 0, bytes: 0, start_file_bytes: 0 };
            let sum = sums.entry(what).or_insert(none);
            sum.atoms += 1;
            sum.bytes += code[atom];
            sum.start_file_bytes += if of_start_file { code[atom] } else { 0 };
        }
    }
    sums.into_values().collect()
}

/// What became of a candidate, by the first of its witnesses that is none.
fn fate(facts: Facts<'_>, candidates: &[bool], mut atom: AtomId) -> &'static str {
    if facts.liveness.is_stub(atom) {
        return "stub";
    }
    // A chain of witnesses has no circle; no chain is longer than there are atoms.
    for _ in 0..candidates.len() {
        let Some(witness) = facts.liveness.witness[atom.index()] else { return "dropped" };
        let by = match witness {
            Witness::Escaped { .. } => {
                let stops = &facts.flow.stops;
                let found = stops.binary_search_by_key(&atom, |stop| stop.0).ok();
                return found.and_then(|at| stops.get(at)).map_or("kept-whole", |stop| name(stop.1));
            }
            Witness::Root(_) => return "kept-whole",
            Witness::Called { caller } if candidates[caller.index()] => caller,
            Witness::Called { .. } => return "called",
            Witness::Edge(edge) => facts.index.edge_source(edge),
            Witness::Part(by) | Witness::Label(by) => by,
        };
        if !candidates[by.index()] {
            return "kept-whole";
        }
        atom = by;
    }
    "kept-whole"
}
