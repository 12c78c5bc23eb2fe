//! `audit limits`: what was kept because it was not understood, by cause, each with an action.
//!
//! Three measures. What the report's limits name: the sizes of sections and modules that were left whole, which is not what they
//! cost but the most that they can. What lives only through roots that stand for not knowing (a whole module that is kept, sections
//! of unknown names): what would go without them, by the graph. And by value flow: what lives only because its address
//! escaped, with why calls are not known.

use crate::audit::commands::dominators::weights;
use crate::audit::graph::{Graph, ROOT};
use crate::audit::model::Model;
use crate::audit::read::ReadValueFlow;
use crate::audit::table::{Answer, Cell, Table, count};
use crate::report::graph::ESCAPED;

/// Reasons of roots that stand for missing knowledge, each with an action.
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

/// What each cause of an unknown call asks for.
const CAUSES: [(&str, &str); 6] = [
    ("not-modelled", "replace assembly that departs from the psABI"),
    ("parameter", "make functions static or hidden that nothing outside of the link calls"),
    ("memory", "link the shared libraries statically that get memory with addresses of functions"),
    ("result", "link the library statically"),
    ("outside", "link the library statically"),
    ("value-flow-budget", "none: the link is too large for the analysis"),
];

/// What the roots reach, for asking what they would not reach without some edges.
pub(super) struct Reachable {
    graph: Graph,
    weights: Vec<u64>,
    nodes: Vec<bool>,
}

impl Reachable {
    pub(super) fn new(model: &Model<'_>) -> Self {
        let graph = model.graph();
        let nodes = graph.reached(ROOT, |_, _, _| true);
        Reachable { graph, weights: weights(model), nodes }
    }

    /// Bytes that live only through what `without` takes away (an edge number of the graph), and how many atoms.
    pub(super) fn only_through(&self, without: impl Fn(u32) -> bool) -> (u64, u64) {
        let after = self.graph.reached(ROOT, |_, _, number| !without(number));
        let gone = self.weights.iter().zip(self.nodes.iter().zip(after)).filter(|(_, (b, a))| **b && !a);
        gone.fold((0, 0), |sum, (weight, _)| (sum.0 + weight, sum.1 + 1))
    }
}

/// Bytes and atoms that live only because their address escaped.
pub(super) fn escaped(model: &Model<'_>, reachable: &Reachable) -> (u64, u64) {
    reachable.only_through(|n| {
        model.edges.get(n as usize).is_some_and(|e| e.flags & ESCAPED != 0)
            || model.root_of(n).is_some_and(|r| r.reason == "escaped")
    })
}

/// What indirect calls of unknown callees cost, in lines of text.
pub(super) fn unknown_calls(flow: &ReadValueFlow<'_>, (bytes, atoms): (u64, u64)) -> Vec<String> {
    let mut lines = vec![format!(
        "{} of {} indirect calls may lead anywhere; {} bytes ({} atoms) live only because their address escaped",
        count(flow.overdefined),
        count(flow.indirect_sites),
        count(bytes),
        count(atoms)
    )];
    if flow.given_up != "nothing" {
        lines.push(format!("value flow took too long, and was given up for {}", flow.given_up));
    }
    lines
}

pub(crate) fn answer(model: &Model<'_>) -> Answer {
    let columns = ["limit", "severity", "places", "bytes", "first", "lifted by"];
    let mut limits = Table::new("limits", "what was not understood: bytes of what was left whole", &columns);
    // Users can't change the start files of the compiler.
    let mut sorted: Vec<_> = model.limits.iter().filter(|l| l.count > l.start_files).collect();
    sorted.sort_by_key(|l| std::cmp::Reverse((l.bytes, l.count)));
    for limit in sorted {
        let module = limit.module.as_ref().map(|m| format!("{m}: ")).unwrap_or_default();
        limits.row(vec![
            Cell::text(&*limit.limit),
            Cell::text(&*limit.severity),
            Cell::Number(limit.count.saturating_sub(limit.start_files)),
            match limit.bytes.saturating_sub(limit.start_file_bytes) {
                0 => Cell::Nothing,
                bytes => Cell::Number(bytes),
            },
            Cell::Text(format!("{module}{}", limit.detail)),
            Cell::text(&*limit.lifted_by),
        ]);
    }
    let title = "what lives only through roots that stand for not knowing";
    let mut roots = Table::new("roots", title, &["bytes", "atoms", "roots", "reason", "lifted by"]);
    let reachable = Reachable::new(model);
    for (reason, advice) in ROOTS {
        let count = model.roots.iter().filter(|r| r.reason == reason).count() as u64;
        // An object must have its global symbols.
        let is_object = || model.report.not_pruned.as_ref().is_some_and(|why| why.starts_with("-r ("));
        if count == 0 || reason == "exported" && is_object() {
            continue;
        }
        let (bytes, atoms) = reachable.only_through(|n| model.root_of(n).is_some_and(|r| r.reason == reason));
        if atoms == 0 {
            continue;
        }
        let numbers = [bytes, atoms, count].map(Cell::Number);
        roots.row(numbers.into_iter().chain([Cell::text(reason), Cell::text(advice)]).collect());
    }
    let mut answer = Answer::default();
    let mut calls =
        Table::new("calls", "indirect calls that may lead anywhere", &["calls", "cause", "lifted by"]);
    if let Some(flow) = &model.value_flow {
        let escaped = escaped(model, &reachable);
        answer.lines.extend(unknown_calls(flow, escaped));
        answer.facts.push(("escaped", escaped.0.into()));
        for (cause, number) in flow.by_cause.iter().filter(|c| c.1 > 0) {
            let advice = CAUSES.iter().find(|c| c.0 == cause).map_or("", |c| c.1);
            calls.row(vec![Cell::Number(*number), Cell::text(&**cause), Cell::text(advice)]);
        }
    }
    if limits.rows.is_empty() && roots.rows.is_empty() && calls.rows.is_empty() {
        answer.lines.push("Nothing was kept for want of understanding it.".to_owned());
    }
    answer.tables = vec![limits, roots, calls];
    answer
}
