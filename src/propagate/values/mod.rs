//! Inclusion-based (Andersen) points-to analysis of function addresses, in one fixpoint with liveness.
//!
//! A function is live if live code can call it or if its address escapes. An address-taken function alone is not live. `graph`,
//! `sets` and `solve` handle addresses, cells and inclusion; `places` has the symbol resolution; `flow` and `sites` combine the
//! two. Every set that external code may write holds the unknown, which stands for all that escaped. docs/ARCHITECTURE.md describes
//! the order of passes.

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

/// The resolved targets of an indirect call site in a live function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallTargets {
    /// The atom of the calling function's entry.
    pub caller: AtomId,
    /// The instruction: section index in the caller's module, and bytes from its start.
    pub section: u32,
    pub offset: u64,
    /// Sorted code atoms, with the offset from the start of the section if it is known.
    pub targets: Vec<(AtomId, Option<i64>)>,
    /// Functions of shared libraries that it may call, sorted.
    pub externals: Vec<SymbolId>,
    /// The reasons why it may call anything that escaped, sorted; empty if it is resolved. If there are any, the targets are
    /// incomplete.
    pub overdefined: Vec<OverdefinedReason>,
    /// The first cause of imprecision, and the atom in which it occurred.
    pub because: Option<(OverdefinedReason, Option<AtomId>)>,
}

/// Counts over the live functions at the fixpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// The number of live functions with a summary.
    pub functions: usize,
    pub indirect_sites: usize,
    /// Sites whose set of targets is finite and not empty.
    pub resolved: usize,
    /// Sites with no target, which never run.
    pub empty: usize,
    pub overdefined: usize,
    /// Overdefined sites by cause, in the order of [`OverdefinedReason::ALL`]; a site may have several.
    pub by_cause: [usize; OverdefinedReason::ALL.len()],
    /// Code atoms that live code calls, directly or at a resolved site.
    pub called: usize,
    /// Code atoms whose address external code may have.
    pub escaped: usize,
    /// Code atoms whose address live code or data takes.
    pub mentioned: usize,
    pub stubs: usize,
    pub constraints: usize,
    pub nodes: usize,
    /// The number of clones, each for one call or for external code.
    pub clones: usize,
    /// Objects of memory that were joined with others over a budget.
    pub joined_objects: usize,
    /// The number of steps, as elements of sets that were read.
    pub steps: usize,
    /// The precision that was given up because the budget was exceeded.
    pub given_up: GivenUp,
}

/// The fixpoint: the live atoms, and the targets of each indirect call.
#[derive(Debug, Clone, Default)]
pub struct ValueFlow {
    pub liveness: Liveness,
    /// The sites by caller, section and offset. Only with `explain`.
    pub sites: Vec<CallTargets>,
    /// The known calls of live functions as (caller, code atom), sorted. Only with `explain`.
    pub called: Vec<(AtomId, AtomId)>,
    /// By atom: its address escaped. Only with `explain`.
    pub escaped: Vec<bool>,
    /// Code atoms whose address escaped, in order, with the reason. Only with `explain`.
    pub stops: Vec<(AtomId, EscapeReason)>,
    /// The mapping that turned value flow off. The other fields are then empty, or are those of liveness by references.
    pub fixed_mapping: Option<FixedMapping>,
    /// `None` if value flow was off, or without `explain`.
    pub statistics: Option<Statistics>,
}

/// The targets without known offsets of an atom that also has the unknown one. Such offsets depend on the order of work.
fn joined(targets: &BTreeSet<(AtomId, Option<i64>)>) -> Vec<(AtomId, Option<i64>)> {
    let covered = |t: &&(AtomId, Option<i64>)| t.1.is_some() && targets.contains(&(t.0, None));
    targets.iter().filter(|t| !covered(t)).copied().collect()
}

/// Whether value flow can run in a link of these modules: there are summaries, and no module makes addresses of integers.
pub fn can_follow(summaries: &[&ModuleSummary]) -> bool {
    let makes_addresses =
        |s: &&ModuleSummary| s.limits.iter().any(|l| l.limit.severity() == Severity::Values);
    summaries.iter().any(|s| !s.functions.is_empty()) && !summaries.iter().any(makes_addresses)
}

/// Propagate from the roots over calls and escapes. With `explain` the result has the call targets and the origins of the unknown;
/// the rest is the same.
pub fn flow(sources: FlowInputs<'_>, explain: bool) -> ValueFlow {
    flow_within(sources, explain, budget::BUDGET)
}

/// Run value flow with a given budget, as tests do.
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
    // The graph is dropped in the background, since that takes long.
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

/// The targets of the indirect call sites in live functions.
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
        // The known targets of an overdefined callee depend on the order of work.
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
