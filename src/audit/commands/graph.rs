//! `audit graph`: the call graph of the functions that a program keeps, for other tools.
//!
//! Direct edges are references that the link read, so that none is missing. An indirect call leads to its callees by value flow, or to one
//! node that stands for every function whose address is taken. Functions are atoms: those that share a section that was left whole are one
//! node. A reference of a function to itself is not in a report.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::Value;

use crate::audit::args::{ROWS, Request, rows};
use crate::audit::attribute::symbol;
use crate::audit::demangle::demangle;
use crate::audit::model::{Atom, AtomState, Model};
use crate::audit::table::{Answer, DocumentFormat, Format, Table, count, row};
use crate::ids::named;
use crate::report::graph::STRUCTURAL;

named! {
    /// Why one function leads to another, in the order of certainty.
    #[derive(PartialOrd, Ord)]
    enum ReferenceKind {
        /// The relocation or the instruction is a call.
        Call = "call",
        /// Another part of the same function.
        Part = "part",
        /// An indirect call whose callees are known.
        Resolved = "resolved",
        /// The code has the address; it may call it, too.
        Address = "address",
        /// An indirect call whose callees are not known.
        Unresolved = "unresolved",
        /// From the node of unresolved calls to each function that they may call.
        AddressTaken = "address-taken",
    }
}

impl ReferenceKind {
    /// The kind of an edge of a report; `None` for one that is no reference of code.
    fn of(kind: &str) -> Option<ReferenceKind> {
        match kind {
            "call" => Some(ReferenceKind::Call),
            "part" | "label" => Some(ReferenceKind::Part),
            "address" | "data" | "got" | "tls" | "unknown" => Some(ReferenceKind::Address),
            _ => None,
        }
    }

    /// The style of the line in Graphviz.
    fn style(self) -> &'static str {
        match self {
            ReferenceKind::Call | ReferenceKind::Part => "solid",
            ReferenceKind::Resolved => "bold",
            ReferenceKind::Address => "dashed",
            ReferenceKind::Unresolved | ReferenceKind::AddressTaken => "dotted",
        }
    }
}

/// The nodes are atoms, then imports, then the one of unresolved calls.
struct FunctionGraph<'m> {
    model: &'m Model,
    nodes: BTreeSet<u32>,
    /// (source, target, kind) with the number of places.
    edges: BTreeMap<(u32, u32, ReferenceKind), u64>,
}

/// The name of the node that stands for the callees of unresolved calls.
const ANY: &str = "[any function whose address is taken]";

pub(crate) fn answer(model: &Model, request: &Request) -> Answer {
    let graph = FunctionGraph::new(model);
    let mut sums: BTreeMap<ReferenceKind, u64> = BTreeMap::new();
    let columns = ["from", "to", "kind", "places", "from node", "to node"];
    let mut edges = Table::new("edges", "", &columns);
    for ((from, to, kind), places) in &graph.edges {
        *sums.entry(*kind).or_default() += 1;
        edges.row(row![
            graph.name(*from),
            graph.name(*to),
            kind.name(),
            *places,
            format!("n{from}"),
            format!("n{to}"),
        ]);
    }
    let mut nodes = Table::new("nodes", "nodes", &["node", "bytes", "symbol", "what", "in"]);
    for node in &graph.nodes {
        let (what, place) = graph.what(*node);
        nodes.row(row![format!("n{node}"), graph.bytes(*node), graph.name(*node), what, place,]);
    }
    edges.limit(rows(request, ROWS));
    nodes.limit(rows(request, ROWS));
    let kinds: Vec<String> = sums.iter().map(|(kind, n)| format!("{} {}", count(*n), kind.name())).collect();
    let all = (count(graph.nodes.len() as u64), count(graph.edges.len() as u64));
    let line = format!("{}: {} nodes, {} edges: {}", model.report.output, all.0, all.1, kinds.join(", "));
    let unknown = model.report.value_flow.is_none().then(|| {
        "Indirect calls were not analysed and are missing; link with --prune-level=pointers.".to_owned()
    });
    let document = match request.format {
        Format::Document(DocumentFormat::Dot) => graph.dot(),
        Format::Document(DocumentFormat::Folded) => graph.folded(),
        _ => String::new(),
    };
    Answer {
        lines: vec![line],
        notes: unknown.into_iter().collect(),
        facts: vec![("indirect_calls", Value::from(model.report.value_flow.is_some()))],
        tables: vec![edges, nodes],
        document,
        ..Answer::default()
    }
}

impl<'m> FunctionGraph<'m> {
    fn new(model: &'m Model) -> Self {
        let is_function = |at: u32| model.atoms.get(at as usize).is_some_and(is_kept_function);
        let mut graph = FunctionGraph { model, nodes: BTreeSet::new(), edges: BTreeMap::new() };
        graph.nodes = (0..model.atoms.len() as u32).filter(|at| is_function(*at)).collect();
        let mut taken: BTreeSet<u32> = BTreeSet::new();
        for edge in model.edges.iter().chain(&model.import_edges) {
            let Some(kind) = ReferenceKind::of(model.kind(edge)) else { continue };
            let target_is_function = is_function(edge.to) || model.import(edge.to).is_some();
            // The structure of objects takes no address.
            let from_data = !is_function(edge.from);
            if !target_is_function || from_data && edge.flags & STRUCTURAL != 0 {
                continue;
            }
            if kind == ReferenceKind::Address && is_function(edge.to) {
                taken.insert(edge.to);
            }
            if !from_data {
                graph.add(edge.from, edge.to, kind, edge.count.into());
            }
        }
        let external = |reason: &str| matches!(reason, "escaped" | "exported" | "referenced-by-dso");
        let roots = model.report.roots.iter().filter(|r| external(&r.reason) && is_function(r.atom));
        taken.extend(roots.map(|r| r.atom));
        let any = graph.any();
        for site in model.report.call_sites.iter().filter(|s| is_function(s.caller)) {
            if site.state == "overdefined" {
                graph.add(site.caller, any, ReferenceKind::Unresolved, 1);
            }
            let targets: BTreeSet<u32> = site.targets.iter().map(|t| t.atom).collect();
            for target in targets.into_iter().filter(|t| is_function(*t)) {
                graph.add(site.caller, target, ReferenceKind::Resolved, 1);
            }
            for name in &site.externals {
                let imports = (model.atoms.len() as u32..).zip(&model.report.imports);
                if let Some((import, _)) = imports.into_iter().find(|i| i.1.symbol == *name) {
                    graph.add(site.caller, import, ReferenceKind::Resolved, 1);
                }
            }
        }
        if graph.nodes.contains(&any) {
            taken.into_iter().for_each(|to| graph.add(any, to, ReferenceKind::AddressTaken, 1));
        }
        graph
    }

    fn any(&self) -> u32 {
        (self.model.atoms.len() + self.model.report.imports.len()) as u32
    }

    fn add(&mut self, from: u32, to: u32, kind: ReferenceKind, places: u64) {
        self.nodes.extend([from, to]);
        *self.edges.entry((from, to, kind)).or_default() += places;
    }

    fn name(&self, node: u32) -> String {
        match (self.model.atoms.get(node as usize), self.model.import(node)) {
            (Some(atom), _) => symbol(self.model, atom),
            (None, Some(import)) => demangle(&import.symbol).into_owned(),
            (None, None) => ANY.to_owned(),
        }
    }

    /// The kind of a node, and its module or library.
    fn what(&self, node: u32) -> (&'static str, String) {
        match (self.model.atoms.get(node as usize), self.model.import(node)) {
            (Some(atom), _) => ("function", self.model.module_name(atom)),
            (None, Some(import)) => ("import", import.definer().to_owned()),
            (None, None) => ("unknown", String::new()),
        }
    }

    fn bytes(&self, node: u32) -> u64 {
        self.model.atoms.get(node as usize).map_or(0, |atom| atom.size)
    }

    /// The graph in the language of Graphviz.
    fn dot(&self) -> String {
        let mut out = String::from("digraph calls {\n  node [shape=box];\n");
        for node in &self.nodes {
            let name =
                crate::terminal::printable(&self.name(*node)).replace('\\', "\\\\").replace('"', "\\\"");
            let shape = if self.bytes(*node) == 0 { ", style=dashed" } else { "" };
            out += &format!("  n{node} [label=\"{name}\"{shape}];\n");
        }
        for (from, to, kind) in self.edges.keys() {
            out += &format!("  n{from} -> n{to} [label=\"{}\", style={}];\n", kind.name(), kind.style());
        }
        out + "}\n"
    }

    /// A line for each function: a shortest chain that leads to it, and its own bytes, as flame graphs take them.
    fn folded(&self) -> String {
        let mut next: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (from, to, _) in self.edges.keys() {
            next.entry(*from).or_default().push(*to);
        }
        // A function that no root leads to begins a chain.
        let roots = self.model.report.roots.iter().map(|r| r.atom).filter(|a| self.nodes.contains(a));
        let starts = roots.chain(self.nodes.iter().copied());
        let mut before: BTreeMap<u32, Option<u32>> = BTreeMap::new();
        for start in starts {
            let mut work = VecDeque::from([(start, None)]);
            while let Some((node, from)) = work.pop_front() {
                if before.contains_key(&node) {
                    continue;
                }
                before.insert(node, from);
                work.extend(next.get(&node).into_iter().flatten().map(|to| (*to, Some(node))));
            }
        }
        let mut lines: Vec<String> = Vec::new();
        for node in self.nodes.iter().filter(|n| self.bytes(**n) > 0) {
            let mut chain = Vec::new();
            let mut at = Some(*node);
            while let Some(node) = at {
                chain.push(crate::terminal::printable(&self.name(node)).replace(';', ":"));
                at = before.get(&node).copied().flatten();
            }
            chain.reverse();
            lines.push(format!("{} {}\n", chain.join(";"), self.bytes(*node)));
        }
        lines.sort();
        lines.concat()
    }
}

fn is_kept_function(atom: &Atom) -> bool {
    atom.kind == "code" && atom.state == AtomState::Kept && atom.size > 0
}
