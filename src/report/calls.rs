//! Indirect calls in the report: possible callees, or the first cause of imprecision, and the counts of value flow.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::names::{Facts, FixedWord, cause_name, describe, escape_name, given_up_name, is_start_file};
use crate::error::lossy;
use crate::ids::{AtomId, Id};
use crate::propagate::values::{CallTargets, OverdefinedReason};
use crate::propagate::{Witness, candidates, code_sizes, live};

/// An indirect call or jump out of a live function.
#[derive(Debug, Serialize, Deserialize)]
pub struct CallSiteReport {
    /// It is a position in `modules`.
    #[serde(skip_deserializing)]
    pub module: usize,
    /// It is a position in `atoms`.
    pub caller: u32,
    /// The instruction: ELF section index, and bytes from the start of the section, in the input object.
    pub section: u32,
    pub offset: u64,
    /// `resolved`, `never` (nothing is ever called there) or `overdefined` (any function whose address escaped).
    pub state: FixedWord,
    /// It is empty if the call is overdefined.
    pub targets: Vec<TargetReport>,
    /// Functions of shared libraries that it may call.
    pub externals: Vec<String>,
    #[serde(skip_deserializing)]
    pub causes: Vec<&'static str>,
    /// The first cause of imprecision, in words.
    pub because: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct TargetReport {
    /// It is a position in `atoms`.
    pub atom: u32,
    /// In bytes from the start of the section, where it is known.
    #[serde(skip_deserializing)]
    pub offset: Option<i64>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FlowReport {
    /// The number of live functions with a summary.
    pub functions: usize,
    pub indirect_sites: usize,
    /// A finite set that isn't empty.
    pub resolved: usize,
    /// The number of sites that never call anything.
    pub never: usize,
    pub overdefined: usize,
    /// Overdefined sites by cause; a site may have several.
    pub by_cause: Vec<(FixedWord, u64)>,
    /// The results for code that is kept only because its address is taken.
    pub candidates: Vec<StopReport>,
    /// Functions and parts of functions that live code calls, directly or by a site with known callees.
    pub called: usize,
    /// The number of those whose address escaped.
    pub escaped: usize,
    /// Functions whose address is taken by live code or data.
    pub mentioned: usize,
    pub stubs: usize,
    pub constraints: usize,
    pub nodes: usize,
    /// The clones of functions, each for one call or for external code.
    #[serde(rename = "instances")]
    pub clones: usize,
    /// Memory objects that a budget joined with others.
    pub joined_objects: usize,
    /// Work of the fixpoint, in elements looked at.
    pub steps: usize,
    /// The analysis that was given up because it took too long: `nothing`, `objects`, `memory` or `values`.
    pub given_up: FixedWord,
}

pub(super) fn counts(facts: Facts<'_>) -> Option<FlowReport> {
    let counts = facts.flow.statistics?;
    let by_cause = OverdefinedReason::ALL
        .iter()
        .map(|c| (cause_name(*c).into(), counts.by_cause[*c as usize] as u64))
        .collect();
    Some(FlowReport {
        functions: counts.functions,
        indirect_sites: counts.indirect_sites,
        resolved: counts.resolved,
        never: counts.empty,
        overdefined: counts.overdefined,
        by_cause,
        candidates: candidate_reports(facts),
        called: counts.called,
        escaped: counts.escaped,
        mentioned: counts.mentioned,
        stubs: counts.stubs,
        constraints: counts.constraints,
        nodes: counts.nodes,
        clones: counts.clones,
        joined_objects: counts.joined_objects,
        steps: counts.steps,
        given_up: given_up_name(counts.given_up).into(),
    })
}

pub(super) fn sites(facts: Facts<'_>) -> Vec<CallSiteReport> {
    facts.flow.sites.iter().map(|s| site(facts, s)).collect()
}

fn site(facts: Facts<'_>, site: &CallTargets) -> CallSiteReport {
    let state = match site {
        s if !s.overdefined.is_empty() => "overdefined",
        s if s.targets.is_empty() && s.externals.is_empty() => "never",
        _ => "resolved",
    };
    let name = |s: &crate::ids::SymbolId| lossy(facts.resolution.symbols[*s].name);
    CallSiteReport {
        module: facts.index.locate(site.caller).0,
        caller: site.caller.0,
        section: site.section,
        offset: site.offset,
        state: state.into(),
        targets: site.targets.iter().map(|t| TargetReport { atom: t.0.0, offset: t.1 }).collect(),
        externals: site.externals.iter().map(name).collect(),
        causes: site.overdefined.iter().map(|c| cause_name(*c)).collect(),
        because: site.because.map(|b| because(facts, b)),
    }
}

fn because(facts: Facts<'_>, (cause, atom): (OverdefinedReason, Option<AtomId>)) -> String {
    let place = atom.map(|a| describe(facts, a));
    let place = place.as_deref().unwrap_or("memory of no one function");
    match cause {
        OverdefinedReason::FrontEnd => format!("an instruction of {place} is not modelled"),
        OverdefinedReason::Parameter => {
            format!("a parameter of {place}, which external code can call")
        }
        OverdefinedReason::Memory => format!("read through an address that escaped, in {place}"),
        OverdefinedReason::Result => format!("the result of a call with unknown callees in {place}"),
        OverdefinedReason::Outside => {
            format!("an external definition, or code in a section of data, used by {place}")
        }
        OverdefinedReason::Budget => "the analysis took too long".to_owned(),
    }
}

/// Code that is kept only because its address is taken, or would be: the candidates of the level `pointers` with one result.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StopReport {
    /// `dropped` or `stub`; `called` by a direct call or one whose callees are known; a reason why an address escaped (`unfollowed`,
    /// `not-modelled`, `unseen-callee`, `unknown-callee`, `stored`, `returned`, `library`); or `kept-whole`, by a reference that is
    /// not analysed.
    pub what: FixedWord,
    pub atoms: u64,
    /// The bytes of code of all of them.
    pub bytes: u64,
    /// The part of them in start files of the compiler.
    pub start_file_bytes: u64,
}

/// The candidates by result. Each byte is counted once, by the first witness that keeps it.
fn candidate_reports(facts: Facts<'_>) -> Vec<StopReport> {
    let code = code_sizes(facts.index, facts.summaries);
    let mut candidates = candidates(facts.index, &code, &live(facts.index));
    candidates.iter_mut().enumerate().for_each(|(atom, is)| *is &= facts.is_linked(AtomId::new(atom)));
    let mut sums: BTreeMap<&'static str, StopReport> = BTreeMap::new();
    for (position, module) in facts.index.modules.iter().enumerate() {
        let of_start_file = is_start_file(facts, module.module);
        for atom in facts.index.atoms_of(position).filter(|atom| candidates[*atom] && code[*atom] > 0) {
            let what = fate(facts, &candidates, AtomId::new(atom));
            let none = StopReport { what: what.into(), ..StopReport::default() };
            let sum = sums.entry(what).or_insert(none);
            sum.atoms += 1;
            sum.bytes += code[atom];
            sum.start_file_bytes += if of_start_file { code[atom] } else { 0 };
        }
    }
    sums.into_values().collect()
}

/// The result for a candidate, by the first witness in its chain that is no candidate.
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
                return found.and_then(|at| stops.get(at)).map_or("kept-whole", |stop| escape_name(stop.1));
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
