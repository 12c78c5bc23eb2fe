//! `audit limits` and `audit calls`: code that is kept because it was not understood, and the callees of indirect calls.
//!
//! The cost of a call or a cause is the size of the code that the graph no longer reaches without the edges that exist only for it. This
//! is a lower bound: a callee that another call of the same function may reach, or whose address is taken, counts for none. Calls with
//! unknown callees may call every function whose address escaped, so their cost is one number.

use std::collections::{BTreeMap, BTreeSet};

use crate::audit::args::{ROWS, Request, rows};
use crate::audit::attribute::{place, symbol};
use crate::audit::commands::why::weights;
use crate::audit::demangle::demangle;
use crate::audit::graph::{Graph, ROOT};
use crate::audit::model::Model;
use crate::audit::table::{Answer, Table, count, row};
use crate::report::calls::{CallSiteReport, FlowReport};
use crate::report::graph::{BY_SITE, ESCAPED};
use crate::report::table::first_names;

/// Kinds of roots that exist because of missing knowledge, each with an action.
const ROOTS: [(&str, &str); 8] = [
    ("module-kept", "see the limits of severity module"),
    ("custom-section", "add --gc-sections, and KEEP() in a script for what must stay"),
    ("start-stop-section", "link with ld.lld, or add -z start-stop-gc"),
    (
        "exported",
        "link with a version script or without --export-dynamic, or compile with -fvisibility=hidden",
    ),
    ("retain", "compile without __attribute__((retain))"),
    ("prune-keep", "link with fewer --prune-keep"),
    ("prune-limit", "link without --prune-limit"),
    ("fall-through", "end the assembly before it with a jump or a return"),
];

/// The action for each cause of an unknown call.
const CAUSES: [(&str, &str); 6] = [
    ("not-modelled", "replace assembly that departs from the psABI"),
    ("parameter", "make functions static or hidden that nothing outside of the link calls"),
    ("memory", "link the shared libraries statically that get memory with addresses of functions"),
    ("result", "link the library statically"),
    ("outside", "link the library statically"),
    ("value-flow-budget", "none: the link is too large for the analysis"),
];

/// The nodes that the roots reach, to compute the loss without some edges.
struct Reachable {
    graph: Graph,
    weights: Vec<u64>,
    nodes: Vec<bool>,
}

impl Reachable {
    fn new(model: &Model) -> Self {
        let graph = model.graph();
        let nodes = graph.reached(ROOT, |_, _, _| true);
        Reachable { graph, weights: weights(model), nodes }
    }

    /// Bytes that live only through what `without` takes away (an edge number of the graph), and how many atoms.
    fn only_through(&self, without: impl Fn(u32) -> bool) -> (u64, u64) {
        let after = self.graph.reached(ROOT, |_, _, number| !without(number));
        let gone = self.weights.iter().zip(self.nodes.iter().zip(after)).filter(|(_, (b, a))| **b && !a);
        gone.fold((0, 0), |sum, (weight, _)| (sum.0 + weight, sum.1 + 1))
    }
}

/// Bytes and atoms that are live only because their address escaped.
fn escaped(model: &Model, reachable: &Reachable) -> (u64, u64) {
    reachable.only_through(|n| {
        model.edges.get(n as usize).is_some_and(|e| e.flags & ESCAPED != 0)
            || model.root_of(n).is_some_and(|r| r.reason == "escaped")
    })
}

/// The cost of indirect calls with unknown callees, in lines of text.
fn unknown_calls(flow: &FlowReport, (bytes, atoms): (u64, u64)) -> Vec<String> {
    let mut lines = vec![format!(
        "{} of {} indirect calls may lead anywhere; {} bytes ({} atoms) are live only because their address escaped",
        count(flow.overdefined as u64),
        count(flow.indirect_sites as u64),
        count(bytes),
        count(atoms)
    )];
    if flow.given_up != "nothing" {
        lines.push(format!("value flow took too long, and was not computed for {}", flow.given_up));
    }
    lines
}

pub(crate) fn limits(model: &Model, request: &Request) -> Answer {
    let columns = ["limit", "severity", "places", "bytes", "first", "lifted by"];
    let mut limits =
        Table::new("limits", "code that was not understood: bytes of undivided sections", &columns);
    // Users can't change the start files of the compiler.
    let mut sorted: Vec<_> = model.report.limits.iter().filter(|l| l.count > l.start_files).collect();
    sorted.sort_by_key(|l| std::cmp::Reverse((l.bytes, l.count)));
    for limit in sorted {
        let module = limit.module.as_ref().map(|m| format!("{m}: ")).unwrap_or_default();
        limits.row(row![
            &*limit.limit,
            &*limit.severity,
            limit.count.saturating_sub(limit.start_files),
            Some(limit.bytes.saturating_sub(limit.start_file_bytes)).filter(|bytes| *bytes > 0),
            format!("{module}{}", limit.detail),
            &*limit.lifted_by,
        ]);
    }
    let title = "code that is live only by roots for missing knowledge";
    let mut roots = Table::new("roots", title, &["bytes", "atoms", "roots", "reason", "lifted by"]);
    let reachable = Reachable::new(model);
    for (reason, advice) in ROOTS {
        let count = model.report.roots.iter().filter(|r| r.reason == reason).count() as u64;
        // An object must have its global symbols.
        let is_object = || model.report.not_pruned.as_ref().is_some_and(|why| why.starts_with("-r ("));
        if count == 0 || reason == "exported" && is_object() {
            continue;
        }
        let (bytes, atoms) = reachable.only_through(|n| model.root_of(n).is_some_and(|r| r.reason == reason));
        if atoms == 0 {
            continue;
        }
        roots.row(row![bytes, atoms, count, reason, advice]);
    }
    let mut answer = Answer::default();
    let mut calls =
        Table::new("calls", "indirect calls that may lead anywhere", &["calls", "cause", "lifted by"]);
    if let Some(flow) = &model.report.value_flow {
        let escaped = escaped(model, &reachable);
        answer.lines.extend(unknown_calls(flow, escaped));
        answer.facts.push(("escaped", escaped.0.into()));
        for (cause, number) in flow.by_cause.iter().filter(|c| c.1 > 0) {
            let advice = CAUSES.iter().find(|c| c.0 == cause).map_or("", |c| c.1);
            calls.row(row![*number, &**cause, advice]);
        }
    }
    if limits.rows.is_empty() && roots.rows.is_empty() && calls.rows.is_empty() {
        answer.lines.push("All code was understood.".to_owned());
    }
    for table in [&mut limits, &mut roots, &mut calls] {
        table.limit(rows(request, usize::MAX));
    }
    answer.tables = vec![limits, roots, calls];
    answer
}

const CALL_COLUMNS: [&str; 6] = ["bytes", "atoms", "call", "in", "state", "leads to"];

/// The results for functions that are kept only because their address is taken, in words.
const FATES: [(&str, &str); 11] = [
    ("dropped", "nothing needs it or its address"),
    ("stub", "its address is needed, and nothing calls it"),
    ("called", "a call whose callees are known leads there"),
    ("kept-whole", "a reference that is not analysed, or it can be no stub"),
    ("unfollowed", "code or data that is not analysed has its address"),
    ("not-modelled", "an instruction that is not modelled has its address"),
    ("unseen-callee", "it is passed to a function that is not analysed"),
    ("unknown-callee", "it is passed by a call that may lead anywhere"),
    ("stored", "it is stored where anything may read it"),
    ("returned", "a function with unknown callers returns it"),
    ("library", "a library keeps it"),
];

/// Callees that a row of a table names; of more it says how many.
const NAMED: usize = 4;

pub(crate) fn calls(model: &Model, request: &Request) -> Answer {
    let mut answer = Answer::default();
    let mut table = Table::new("calls", "indirect calls of live code", &CALL_COLUMNS);
    let title = "causes of unknown callees, by the first place";
    let mut stops = Table::new("stops", title, &["calls", "because"]);
    let title = "code kept only because its address is taken, by result";
    let mut fates = Table::new("candidates", title, &["bytes", "atoms", "what", "that is"]);
    let reachable = Reachable::new(model);
    match &model.report.value_flow {
        None => answer.lines.push(match &model.report.not_analysed {
            Some(why) => {
                let action = why.action.as_ref().map(|action| format!("; {action}")).unwrap_or_default();
                format!("{}: addresses were not analysed: {}{action}", model.report.output, why.reason)
            }
            None => format!(
                "{}: addresses were not analysed; link with --prune-level=pointers",
                model.report.output
            ),
        }),
        Some(flow) => {
            answer.lines.extend(unknown_calls(flow, escaped(model, &reachable)));
            let mut candidates: Vec<_> = flow.candidates.iter().collect();
            candidates.sort_by_key(|c| std::cmp::Reverse(c.bytes));
            for found in candidates {
                let words = FATES.iter().find(|fate| fate.0 == found.what).map_or("", |fate| fate.1);
                fates.row(row![found.bytes, found.atoms, &*found.what, words]);
            }
        }
    }
    let mut sites_of: BTreeMap<(u32, u32), usize> = BTreeMap::new();
    for site in &model.report.call_sites {
        for target in callees_of(site) {
            *sites_of.entry((site.caller, target)).or_default() += 1;
        }
    }
    let mut found: Vec<(u64, u64, &CallSiteReport)> = Vec::new();
    let mut because: BTreeMap<&str, u64> = BTreeMap::new();
    for site in &model.report.call_sites {
        let (bytes, atoms) = hanging(model, &reachable, &sites_of, site);
        found.push((bytes, atoms, site));
        if let Some(why) = site.because.as_deref() {
            *because.entry(why).or_default() += 1;
        }
    }
    // Stable: those of one size stay in the order of the link.
    found.sort_by_key(|(bytes, _, _)| std::cmp::Reverse(*bytes));
    for (bytes, atoms, site) in found {
        let caller = model.atom(site.caller);
        let at = match caller.section_index == Some(site.section) {
            true => place(model, caller, Some(site.offset)),
            false => format!("{} [section {}+{:#x}]", place(model, caller, None), site.section, site.offset),
        };
        table.row(row![bytes, atoms, at, symbol(model, caller), &*site.state, callees(model, site)]);
    }
    table.limit(rows(request, ROWS));
    let mut sorted: Vec<(&str, u64)> = because.into_iter().collect();
    sorted.sort_by_key(|(why, calls)| (std::cmp::Reverse(*calls), *why));
    for (why, calls) in sorted {
        stops.row(row![calls, why]);
    }
    stops.limit(rows(request, ROWS));
    answer.facts = vec![("sites", model.report.call_sites.len().into())];
    answer.tables = vec![table, stops, fates];
    answer
}

/// The atoms that a call may call, ascending.
fn callees_of(site: &CallSiteReport) -> BTreeSet<u32> {
    site.targets.iter().map(|t| t.atom).collect()
}

/// Bytes and atoms that live only through a call. `sites_of` has the number of calls from each atom to another.
fn hanging(
    model: &Model,
    reachable: &Reachable,
    sites_of: &BTreeMap<(u32, u32), usize>,
    site: &CallSiteReport,
) -> (u64, u64) {
    let mut own = callees_of(site);
    own.retain(|target| sites_of.get(&(site.caller, *target)) == Some(&1));
    let is_own = |number: u32| {
        let edge = model.edges.get(number as usize);
        edge.is_some_and(|e| e.from == site.caller && e.flags & BY_SITE != 0 && own.contains(&e.to))
    };
    if own.is_empty() { (0, 0) } else { reachable.only_through(is_own) }
}

/// The possible callees of a call, in words.
fn callees(model: &Model, site: &CallSiteReport) -> String {
    if let Some(because) = &site.because {
        return because.clone();
    }
    let own = site.targets.iter().map(|t| symbol(model, model.atom(t.atom)));
    let mut names: Vec<String> = own.chain(site.externals.iter().map(|e| demangle(e).into_owned())).collect();
    // Functions that can't be divided are one atom.
    names.dedup();
    match first_names(names, NAMED) {
        (named, 0) => named,
        (named, more) => format!("{named}, … and {more} more"),
    }
}
