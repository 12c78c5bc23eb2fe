//! Indirect calls in the report: what each may call, or why that isn't known, and the counts of value flow.
//!
//! A form of what propagation found; it decides nothing.

use serde::Serialize;

use super::facts::{Facts, describe};
use super::stops::{self, StopReport};
use crate::error::lossy;
use crate::ids::Id;
use crate::propagate::values::{CallTargets, GivenUp, OverdefinedReason};

/// An indirect call or jump out of a live function.
#[derive(Debug, Serialize)]
pub struct CallSiteReport {
    /// It is a position in `modules`.
    pub module: usize,
    /// It is a position in `atoms`.
    pub caller: usize,
    /// The instruction: ELF section index, and bytes from the start of the section, in the input object.
    pub section: u32,
    pub offset: u64,
    /// `resolved`, `never` (nothing is ever called there) or `overdefined` (anything that escaped).
    pub state: &'static str,
    /// It is empty if the call is overdefined.
    pub targets: Vec<TargetReport>,
    /// Functions of shared libraries that it may call.
    pub externals: Vec<String>,
    pub causes: Vec<&'static str>,
    /// The first place where that began, in words.
    pub because: Option<String>,
}

#[derive(Debug, Serialize)]
pub struct TargetReport {
    /// It is a position in `atoms`.
    pub atom: usize,
    /// In bytes from the start of the section, where it is known.
    pub offset: Option<i64>,
}

#[derive(Debug, Serialize)]
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
    pub by_cause: Vec<(&'static str, usize)>,
    /// What became of the code that only mentions reach.
    pub candidates: Vec<StopReport>,
    /// Functions and parts of functions that live code calls directly, or a live site whose callees are known.
    pub called: usize,
    /// The number of those whose address escaped.
    pub escaped: usize,
    /// Functions whose address live code or data mentions.
    pub mentioned: usize,
    pub stubs: usize,
    pub constraints: usize,
    pub nodes: usize,
    /// The clones of functions, each for one call or for unseen code.
    #[serde(rename = "instances")]
    pub clones: usize,
    /// Memory objects that a budget joined with others.
    pub joined_objects: usize,
    /// Work of the fixpoint, in elements looked at.
    pub steps: usize,
    /// What was given up because that was too much: `nothing`, `objects`, `memory` or `values`.
    pub given_up: &'static str,
}

pub fn cause_name(cause: OverdefinedReason) -> &'static str {
    match cause {
        OverdefinedReason::FrontEnd => "not-modelled",
        OverdefinedReason::Parameter => "parameter",
        OverdefinedReason::Memory => "memory",
        OverdefinedReason::Result => "result",
        OverdefinedReason::Outside => "outside",
        OverdefinedReason::Budget => "value-flow-budget",
    }
}

pub(super) fn counts(facts: Facts<'_>) -> Option<FlowReport> {
    let counts = facts.flow.statistics?;
    let by_cause =
        OverdefinedReason::ALL.iter().map(|c| (cause_name(*c), counts.by_cause[*c as usize])).collect();
    Some(FlowReport {
        functions: counts.functions,
        indirect_sites: counts.indirect_sites,
        resolved: counts.resolved,
        never: counts.empty,
        overdefined: counts.overdefined,
        by_cause,
        candidates: stops::of(facts),
        called: counts.called,
        escaped: counts.escaped,
        mentioned: counts.mentioned,
        stubs: counts.stubs,
        constraints: counts.constraints,
        nodes: counts.nodes,
        clones: counts.clones,
        joined_objects: counts.joined_objects,
        steps: counts.steps,
        given_up: match counts.given_up {
            GivenUp::Nothing => "nothing",
            GivenUp::Objects => "objects",
            GivenUp::Memory => "memory",
            GivenUp::Values => "values",
        },
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
        caller: site.caller.index(),
        section: site.section,
        offset: site.offset,
        state,
        targets: site.targets.iter().map(|t| TargetReport { atom: t.0.index(), offset: t.1 }).collect(),
        externals: site.externals.iter().map(name).collect(),
        causes: site.overdefined.iter().map(|c| cause_name(*c)).collect(),
        because: site.because.map(|b| because(facts, b)),
    }
}

fn because(facts: Facts<'_>, (cause, atom): (OverdefinedReason, Option<crate::ids::AtomId>)) -> String {
    let place = atom.map(|a| describe(facts, a));
    let place = place.as_deref().unwrap_or("memory of no one function");
    match cause {
        OverdefinedReason::FrontEnd => format!("an instruction of {place} is not modelled"),
        OverdefinedReason::Parameter => {
            format!("a parameter of {place}, which code that isn't followed can call")
        }
        OverdefinedReason::Memory => format!("read through an address that escaped, in {place}"),
        OverdefinedReason::Result => format!("the result of a call of something unknown in {place}"),
        OverdefinedReason::Outside => format!(
            "something that is or may be defined outside of the modules, or code in a section of data, used by {place}"
        ),
        OverdefinedReason::Budget => "the work that a link may be was spent".to_owned(),
    }
}
