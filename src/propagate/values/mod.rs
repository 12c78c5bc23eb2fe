//! Called values: inclusion-based points-to over all live functions, in one fixpoint with liveness.
//!
//! A function lives because live code can call it or because its address escapes, not because its address is mentioned.
//! `graph`, `sets` and `solve` know addresses, cells and inclusion; `places` knows how symbols were resolved; `flow` and
//! `sites` bring the two together. Unknown is an element of every set that unseen code may write, and whatever it stands
//! for escaped. docs/ARCHITECTURE.md says where it stands among the passes.

mod budget;
mod causes;
mod cells;
mod cloning;
mod copies;
mod cycles;
mod edges;
mod effects;
mod escapes;
mod flow;
mod function_clone;
mod give_up;
mod graph;
mod groups;
mod points_to;
mod holding;
mod joined_objects;
mod mappings;
mod origins;
mod library_models;
mod places;
mod process;
mod queue;
mod sets;
mod site;
mod sites;
mod solve;
mod stops;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use summaries::{ModuleSummary, Severity};

use super::liveness::{Liveness, Witness};
use crate::ids::{AtomId, Id, SymbolId};
pub use budget::GivenUp;
use causes::Causes;
pub use graph::{EscapeReason, OverdefinedReason};
pub use mappings::FixedMapping;
use origins::Origins;
pub use places::{FlowInputs, ModelOf};

/// What an indirect call site of a live function calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallTargets {
    /// The atom in which the function that calls is entered.
    pub caller: AtomId,
    /// The instruction: section index in the caller's module, and bytes from its start.
    pub section: u32,
    pub offset: u64,
    /// Sorted: code atoms, with the offset from the start of the section where it is known.
    pub targets: Vec<(AtomId, Option<i64>)>,
    /// Functions of shared libraries that it may call, sorted.
    pub externals: Vec<SymbolId>,
    /// Why it may call anything that escaped, sorted; empty if it is resolved. Then the targets say nothing.
    pub overdefined: Vec<OverdefinedReason>,
    /// Where the first of that began: what happened, and in which atom.
    pub because: Option<(OverdefinedReason, Option<AtomId>)>,
}

/// Counts of the fixpoint, over the functions that live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Functions that live and have a summary.
    pub functions: usize,
    pub indirect_sites: usize,
    /// A finite set that isn't empty.
    pub resolved: usize,
    /// Sites where no function ever arrives, so that they never run.
    pub empty: usize,
    pub overdefined: usize,
    /// Overdefined sites by cause, in the order of [`OverdefinedReason::ALL`]; a site may have several.
    pub by_cause: [usize; OverdefinedReason::ALL.len()],
    /// Code atoms that live code calls directly, or some live site whose callees are known.
    pub called: usize,
    /// Code atoms of which unseen code may have the address.
    pub escaped: usize,
    /// Code atoms whose address live code or data mentions.
    pub mentioned: usize,
    pub stubs: usize,
    pub constraints: usize,
    pub nodes: usize,
    /// The clones of functions, each for one call or for unseen code.
    pub clones: usize,
    /// Memory objects that a budget joined with others.
    pub joined_objects: usize,
    /// The work that was done, in elements of sets looked at.
    pub steps: usize,
    /// What was no longer distinguished because that was too much.
    pub given_up: GivenUp,
}

/// The fixpoint: what lives, and where each indirect call may go.
#[derive(Debug, Clone, Default)]
pub struct ValueFlow {
    pub liveness: Liveness,
    /// The sites by caller, section and offset. Only if that was asked for.
    pub sites: Vec<CallTargets>,
    /// Calls of live functions that were followed: (caller, code atom), sorted. Only if that was asked for.
    pub called: Vec<(AtomId, AtomId)>,
    /// By atom: its address escaped. Only if that was asked for.
    pub escaped: Vec<bool>,
    /// Code atoms whose address escaped, in order, and why. Only if that was asked for.
    pub stops: Vec<(AtomId, EscapeReason)>,
    /// Why values are followed nowhere, although there are some: then all else is empty, or as without them.
    pub fixed_mapping: Option<FixedMapping>,
    /// `None` where values were not followed, or nobody asked.
    pub statistics: Option<Statistics>,
}

/// Targets without those offsets of an atom that its unknown offset covers: which of them came before it is by chance.
fn joined(targets: &BTreeSet<(AtomId, Option<i64>)>) -> Vec<(AtomId, Option<i64>)> {
    let covered = |t: &&(AtomId, Option<i64>)| t.1.is_some() && targets.contains(&(t.0, None));
    targets.iter().filter(|t| !covered(t)).copied().collect()
}

/// Whether values are followed in a link of these modules at all: there is something to follow, and nothing that says that addresses come from elsewhere.
pub fn can_follow(summaries: &[&ModuleSummary]) -> bool {
    let makes_addresses =
        |s: &&ModuleSummary| s.limits.iter().any(|l| l.limit.severity() == Severity::Values);
    summaries.iter().any(|s| !s.functions.is_empty()) && !summaries.iter().any(makes_addresses)
}

/// Propagate from the roots to all that lives, by what is called and what escapes. `explain`: say what is called, and
/// where the unknown came from; the rest does not depend on it.
pub fn flow(sources: FlowInputs<'_>, explain: bool) -> ValueFlow {
    flow_within(sources, explain, budget::BUDGET)
}

/// Value flow with another budget than the one for links of this size.
fn flow_within(sources: FlowInputs<'_>, explain: bool, budget: budget::Budget) -> ValueFlow {
    let mut flow = flow::Flow::new(places::LinkPlaces::new(sources), budget);
    flow.graph.explain = explain;
    flow.run();
    if let fixed_mapping @ Some(_) = flow.fixed_mapping() {
        return ValueFlow { fixed_mapping, ..ValueFlow::default() };
    }
    let atoms = (0..flow.places.atoms()).map(AtomId::new);
    let stub: Vec<bool> = atoms.map(|a| flow.is_stub(a)).collect();
    let (sites, statistics) = match explain {
        true => {
            flow.graph.complete();
            let (sites, statistics) = calls(&flow, &stub);
            (sites, Some(statistics))
        }
        false => (Vec::new(), None),
    };
    let mut witness = std::mem::take(&mut flow.witness);
    for (atom, _) in stub.iter().enumerate().filter(|(_, stub)| **stub) {
        witness[atom] = flow.mention[atom].map(Witness::Edge);
    }
    let (mut called, mut escaped, mut stops) = (Vec::new(), Vec::new(), Vec::new());
    if explain {
        stops = stops::stops(&flow);
        let pairs = |s: &site::Site<'_>| s.targets.iter().map(|t| (s.caller, t.0)).collect::<Vec<_>>();
        called = flow.sites.iter().flat_map(pairs).collect();
        called.sort_unstable();
        called.dedup();
        escaped = flow.escaped;
    }
    let graph = flow.graph;
    // It takes a while, and nobody waits for it.
    rayon::spawn(move || drop(graph));
    let liveness = Liveness { witness, stub };
    ValueFlow { liveness, sites, called, escaped, stops, fixed_mapping: None, statistics }
}

/// Join the sites that are one call in several clones of its function, sorted by place.
fn joined_sites(mut sites: Vec<CallTargets>) -> Vec<CallTargets> {
    sites.sort_by_key(|s| (s.caller, s.section, s.offset));
    sites.dedup_by(|other, site| {
        let is_same = (site.caller, site.section, site.offset) == (other.caller, other.section, other.offset);
        if is_same {
            site.targets.append(&mut other.targets);
            site.externals.append(&mut other.externals);
            site.overdefined.append(&mut other.overdefined);
            site.because = site.because.or(other.because);
        }
        is_same
    });
    for site in &mut sites {
        site.overdefined.sort_unstable();
        site.overdefined.dedup();
        if !site.overdefined.is_empty() {
            site.targets.clear();
            site.externals.clear();
        }
        site.targets = joined(&site.targets.iter().copied().collect());
        site.externals.sort_unstable();
        site.externals.dedup();
    }
    sites
}

/// What the indirect call sites of live functions call.
fn calls(flow: &flow::Flow<'_>, stubs: &[bool]) -> (Vec<CallTargets>, Statistics) {
    let mut statistics = Statistics {
        constraints: flow.graph.constraints,
        nodes: flow.graph.nodes.len(),
        clones: flow.functions.len() - flow.common,
        joined_objects: flow.graph.joined_objects,
        steps: flow.graph.work.steps + flow.graph.sets.steps,
        given_up: flow.graph.given_up,
        ..Statistics::default()
    };
    let mut called = flow.called.clone();
    let (origins, causes) = (Origins::new(flow), Causes::new(&flow.graph));
    let spent = (statistics.given_up == GivenUp::Values).then_some((OverdefinedReason::Budget, None));
    let mut sites = Vec::new();
    for site in &flow.sites {
        // What else an unknown callee was before it became unknown is by chance.
        if !site.callee.is_some_and(|node| flow.graph.has(flow.graph.find(node), graph::OVERDEFINED)) {
            site.targets.iter().for_each(|t| called[t.0.index()] = true);
        }
        let summary = flow.summary(site.function);
        let call = site.number.filter(|_| site.indirect).and_then(|n| summary.call_sites.get(n as usize));
        let Some(call) = call else { continue };
        let mut overdefined: Vec<OverdefinedReason> = site.causes.iter().copied().collect();
        overdefined.extend(site.callee.iter().flat_map(|node| causes.of(&flow.graph, *node)));
        sites.push(CallTargets {
            caller: flow.atom_of(site.function, summary.atom),
            section: call.section,
            offset: call.offset,
            targets: site.targets.iter().copied().collect(),
            externals: site.externals.iter().copied().collect(),
            because: if overdefined.is_empty() { None } else { origins.of_site(flow, site).or(spent) },
            overdefined,
        });
    }
    let sites = joined_sites(sites);
    for site in &sites {
        statistics.indirect_sites += 1;
        if !site.overdefined.is_empty() {
            statistics.overdefined += 1;
            site.overdefined.iter().for_each(|c| statistics.by_cause[*c as usize] += 1);
        } else if site.targets.is_empty() && site.externals.is_empty() {
            statistics.empty += 1;
        } else {
            statistics.resolved += 1;
        }
    }
    let code = || {
        let atoms = (0..flow.places.atoms()).map(AtomId::new);
        atoms.filter(|a| flow.places.content(*a) == places::Content::Code)
    };
    statistics.stubs = stubs.iter().filter(|s| **s).count();
    statistics.called = called.iter().filter(|c| **c).count();
    statistics.escaped = code().filter(|a| flow.escaped[a.index()]).count();
    statistics.mentioned = code().filter(|a| flow.mention[a.index()].is_some()).count();
    statistics.functions = flow.functions.iter().take(flow.common).filter(|f| f.active).count();
    (sites, statistics)
}
