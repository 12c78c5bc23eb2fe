//! `audit why`, `paths`, `dominators` and `imports`: questions to the graph of references that keep atoms.
//!
//! `why` treats several atoms of one name as one: they are removed if none of them is reached. Its cut keeps the entry, `main` and the
//! symbols of `--keep`. `imports` counts the live atoms that refer to a symbol, not their references.

use std::collections::BTreeMap;

use crate::audit::args::{ROWS, Request, rows};
use crate::audit::attribute::{place, symbol};
use crate::audit::demangle::demangle;
use crate::audit::find::{find, find_or_import, is_main, matching};
use crate::audit::graph::cut::cut;
use crate::audit::graph::dominators::Dominators;
use crate::audit::graph::{Graph, NONE, NumberedEdge, ROOT};
use crate::audit::model::{AtomState, GraphEdge, Model};
use crate::audit::table::{Answer, Cell, Table, count, row};
use crate::error::{Error, Result, Stage};

const COLUMNS: [&str; 6] = ["retained", "%", "own", "atoms", "symbol", "module"];

struct DominatedSizes<'m> {
    model: &'m Model,
    dominators: Dominators,
    bytes: Vec<u64>,
    atoms: Vec<u64>,
}

/// The weight in bytes of each node of [`Model::graph`], without zero-initialised memory.
pub(crate) fn weights(model: &Model) -> Vec<u64> {
    std::iter::once(0).chain(model.atoms.iter().map(|a| model.weight(a))).collect()
}

pub(crate) fn dominators(model: &Model, request: &Request) -> Answer {
    let dominators = Dominators::new(&model.graph());
    let bytes = dominators.retained(&weights(model));
    let atoms = dominators.retained(&vec![1; model.atoms.len() + 1]);
    let found = DominatedSizes { model, dominators, bytes, atoms };
    let table = match request.depth {
        Some(depth) => found.tree(depth, rows(request, 5)),
        None => {
            let mut table = found.list();
            table.limit(rows(request, ROWS));
            table.rest = None;
            table
        }
    };
    let total = count(found.total());
    Answer {
        lines: vec![format!(
            "{}: {total} bytes of input are kept, without zero-initialised memory",
            model.report.output
        )],
        tables: vec![table],
        facts: vec![("kept", found.total().into())],
        ..Answer::default()
    }
}

impl DominatedSizes<'_> {
    fn total(&self) -> u64 {
        self.bytes.first().copied().unwrap_or(0)
    }

    fn at(list: &[u64], node: u32) -> u64 {
        list.get(node as usize).copied().unwrap_or(0)
    }

    fn row(&self, node: u32, indent: usize) -> Option<Vec<Cell>> {
        let atom = self.model.atom(Model::atom_of(node)?);
        let module = self.model.module_name(atom);
        let retained = Self::at(&self.bytes, node);
        let name = "  ".repeat(indent) + &symbol(self.model, atom);
        let (own, atoms) = (self.model.weight(atom), Self::at(&self.atoms, node));
        Some(row![retained, Cell::share(retained as i64, self.total()), own, atoms, name, module])
    }

    fn list(&self) -> Table {
        let mut table = Table::new("dominators", "", &COLUMNS);
        let mut nodes: Vec<u32> = self.dominators.order.iter().copied().filter(|n| *n != ROOT).collect();
        nodes.sort_by_key(|n| (std::cmp::Reverse(Self::at(&self.bytes, *n)), *n));
        nodes.iter().filter_map(|n| self.row(*n, 0)).for_each(|row| table.row(row));
        table
    }

    fn tree(&self, depth: usize, most: Option<usize>) -> Table {
        let mut table = Table::new("dominators", "", &COLUMNS);
        // Children of each node, the one that retains most first.
        let mut by_parent: Vec<(u32, std::cmp::Reverse<u64>, u32)> = Vec::new();
        for (node, parent) in self.dominators.immediate.iter().enumerate().filter(|(_, p)| **p != NONE) {
            by_parent.push((*parent, std::cmp::Reverse(Self::at(&self.bytes, node as u32)), node as u32));
        }
        by_parent.sort_unstable();
        let mut work = vec![(ROOT, 0)];
        while let Some((node, level)) = work.pop() {
            if let Some(row) = self.row(node, level.max(1) - 1) {
                table.row(row);
            }
            if level == depth {
                continue;
            }
            let first = by_parent.partition_point(|c| c.0 < node);
            let children = by_parent.iter().skip(first).take_while(|c| c.0 == node).map(|c| (c.2, level + 1));
            let children: Vec<_> = children.take(most.unwrap_or(usize::MAX)).collect();
            work.extend(children.into_iter().rev());
        }
        table
    }
}

const PATH: [&str; 3] = ["reference", "place", "to"];
const PATHS: [&str; 4] = ["path", "reference", "place", "to"];

/// A graph with one more node, which is the target of the question.
pub(super) struct QueryGraph<'m> {
    model: &'m Model,
    pub(super) graph: Graph,
    to: u32,
    weights: Vec<u64>,
}

impl<'m> QueryGraph<'m> {
    /// The paths from `from` (empty: from the roots) to `to`. The root also holds the atoms in `stays`.
    pub(super) fn new(model: &'m Model, from: &[u32], to: &[u32], stays: &[u32]) -> Self {
        let whole = model.graph_with_imports();
        let behind = whole.nodes() as u32;
        let mut arcs: Vec<NumberedEdge> = Vec::new();
        for node in 0..behind {
            if node != ROOT || from.is_empty() {
                arcs.extend(whole.out(node).map(|(target, number)| (node, target, number)));
            }
        }
        arcs.extend(from.iter().chain(stays).map(|a| (ROOT, Model::node(*a), NONE)));
        arcs.extend(to.iter().map(|a| (Model::node(*a), behind, NONE)));
        let graph = Graph::new(whole.nodes() + 1, arcs.iter().copied());
        QueryGraph { model, graph, to: behind, weights: weights(model) }
    }

    /// The bytes that are removed with these edges, and the atoms, the largest first.
    fn goes(&self, gone: impl Fn(u32, u32, u32) -> bool) -> (u64, Vec<u32>) {
        let before = self.graph.reached(ROOT, |_, _, _| true);
        let after = self.graph.reached(ROOT, |from, to, number| !gone(from, to, number));
        // Imports have no bytes here.
        let mut nodes: Vec<u32> = (1..=self.model.atoms.len() as u32).collect();
        let at = |list: &[bool], n: u32| list.get(n as usize).copied().unwrap_or(false);
        nodes.retain(|n| at(&before, *n) && !at(&after, *n));
        let weight = |n: &u32| self.weights.get(*n as usize).copied().unwrap_or(0);
        nodes.sort_by_key(|n| (std::cmp::Reverse(weight(n)), *n));
        (nodes.iter().map(weight).sum(), nodes.iter().filter_map(|n| Model::atom_of(*n)).collect())
    }

    fn name(&self, node: u32) -> String {
        let Some(position) = Model::atom_of(node) else { return String::new() };
        match self.model.atoms.get(position as usize) {
            Some(atom) => symbol(self.model, atom),
            None => self.model.import(position).map(|i| demangle(&i.symbol).into_owned()).unwrap_or_default(),
        }
    }

    fn place_of(&self, node: u32) -> String {
        let atom = Model::atom_of(node).and_then(|a| self.model.atoms.get(a as usize));
        atom.map(|a| place(self.model, a, None)).unwrap_or_default()
    }

    /// (what, where, how many places) of an edge.
    fn reference(&self, number: u32) -> (String, String, u64) {
        if number == NONE {
            return ("stays".to_owned(), String::new(), 1);
        }
        if let Some(root) = self.model.root_of(number) {
            let by = root.symbol.as_ref().map(|s| format!(" {s}")).unwrap_or_default();
            return (format!("root: {}", root.reason), by.trim_start().to_owned(), 1);
        }
        let Some(edge) = self.model.edge(number) else { return Default::default() };
        let kind = self.model.kind(edge);
        let from = self.model.atom(edge.from);
        let module = self.model.module_name(from);
        let at = match (u64::try_from(edge.offset), kind) {
            (Ok(offset), "unwind") => format!("{module}:(.eh_frame+{offset:#x})"),
            // In a table that belongs to the code: where that is the report doesn't say.
            (Ok(_), "data") if from.kind == "code" => format!("{module}:(a table of {})", from.section),
            (Ok(offset), _) => place(self.model, from, Some(offset)),
            (Err(_), _) => format!("{module}:({})", from.section),
        };
        (kind.to_owned(), at, edge.count.into())
    }

    fn references(&self, name: &'static str, title: &str, edges: &[NumberedEdge]) -> Table {
        let mut table = Table::new(name, title, &["reference", "place", "places", "from", "to"]);
        for (from, to, number) in edges {
            let (kind, at, places) = self.reference(*number);
            table.row(row![kind, at, places, self.name(*from), self.name(*to)]);
        }
        table
    }

    /// A row for each edge of a path, with `first` before it.
    pub(super) fn steps(&self, path: &[NumberedEdge], table: &mut Table, first: Option<Cell>) {
        for (from, to, edge) in path.iter().filter(|a| a.1 != self.to) {
            let (kind, at, _) = self.reference(*edge);
            let at = if *from == ROOT && at.is_empty() { self.place_of(*to) } else { at };
            let mut row: Vec<Cell> = first.iter().cloned().collect();
            row.extend(row![kind, at, self.name(*to)]);
            table.row(row);
        }
    }
}

/// The answer to `why`.
pub(crate) fn why(model: &Model, name: &str, request: &Request) -> Result<Answer> {
    let found = find_or_import(model, name)?;
    let mut answer = Answer::default();
    // An import has a live reference.
    let is_live = |a: &u32| model.atoms.get(*a as usize).is_none_or(|a| a.state != AtomState::Dropped);
    let targets: Vec<u32> = found.iter().copied().filter(is_live).collect();
    describe(model, &found, &mut answer);
    answer.facts = vec![("symbol", name.into()), ("kept", (!targets.is_empty()).into())];
    if targets.is_empty() {
        // A CSV file needs its header.
        answer.tables.push(Table::new("path", "", &PATH));
        return Ok(answer);
    }
    let keep: Vec<&str> = request.values("keep").collect();
    for pattern in &keep {
        if !matching(model, &[pattern]).contains(&true) {
            let message = format!("--keep={pattern}: no module in the link defines it");
            return Err(Error::new(Stage::Arguments, message).in_file(model.path.clone()));
        }
    }
    let mains = is_main(model).into_iter().zip(matching(model, &keep)).enumerate();
    let stays: Vec<u32> = mains.filter(|(_, k)| k.0 || k.1).map(|(a, _)| a as u32).collect();
    let is_other = |a: &u32| is_live(a) && targets.binary_search(a).is_err();
    let stays: Vec<u32> = stays.into_iter().filter(is_other).collect();
    let question = QueryGraph::new(model, &[], &targets, &stays);
    let is_target = |node: u32| Model::atom_of(node).is_some_and(|a| targets.binary_search(&a).is_ok());
    let mut path = Table::new("path", "a shortest path", &PATH);
    let shortest =
        question.graph.shortest(ROOT, question.to, |_, to, number| to == question.to || number != NONE);
    question.steps(&shortest.unwrap_or_default(), &mut path, None);

    let direct = |from: u32, to: u32, number: u32| is_target(to) && !is_target(from) && number != NONE;
    // The count is without `stays`, as in `dominators`.
    let (bytes, atoms) = QueryGraph::new(model, &[], &targets, &[]).goes(direct);
    let edges = (0..question.to).flat_map(|n| question.graph.out(n).map(move |e| (n, e.0, e.1)));
    let edges: Vec<NumberedEdge> = edges.filter(|a| direct(a.0, a.1, a.2)).collect();
    let holders = edges.len() as u64;
    answer.lines.push(format!(
        "{} hold{} it directly; without {} {} bytes are removed, {}",
        things(holders, "reference"),
        if holders == 1 { "s" } else { "" },
        if holders == 1 { "it" } else { "them" },
        count(bytes),
        things(atoms.len() as u64, "atom")
    ));
    answer.facts.extend([("retained", bytes.into()), ("references", holders.into())]);
    let mut table = question.references("holders", "direct references", &edges);
    table.limit(rows(request, 10));
    answer.tables.extend([path, table]);
    cut_of(&question, request, &mut answer);
    Ok(answer)
}

fn cut_of(question: &QueryGraph<'_>, request: &Request, answer: &mut Answer) {
    let model = question.model;
    let Some(found) = cut(&question.graph, question.to, |_, _, number| model.may_go(number)) else {
        answer.facts.push(("cut", serde_json::Value::Null));
        answer.notes.push("No cut exists: the entry, or the structure of objects, holds it.".to_owned());
        return;
    };
    let mut numbers: Vec<u32> = found.edges.iter().map(|e| e.2).collect();
    numbers.sort_unstable();
    let gone = |_: u32, _: u32, number: u32| numbers.binary_search(&number).is_ok();
    let (bytes, atoms) = question.goes(gone);
    let title = format!(
        "the cut: {} less, and {} bytes are removed, {}",
        things(found.edges.len() as u64, "reference"),
        count(bytes),
        things(atoms.len() as u64, "atom")
    );
    let mut table = question.references("cut", &title, &found.edges);
    table.limit(rows(request, ROWS));
    answer.tables.push(table);
    let mut table = Table::new("goes", "removed with it", &["bytes", "symbol", "module"]);
    for atom in &atoms {
        let atom = model.atom(*atom);
        let module = model.module_name(atom);
        table.row(row![model.weight(atom), symbol(model, atom), module,]);
    }
    table.limit(rows(request, 10));
    answer.tables.push(table);
    let title = "paths that share no reference that can be removed";
    let mut table = Table::new("paths", title, &PATHS);
    for (i, path) in found.paths.iter().enumerate().take(rows(request, 5).unwrap_or(usize::MAX)) {
        question.steps(path, &mut table, Some((i + 1).into()));
    }
    answer.tables.push(table);
    answer.facts.push(("saves", bytes.into()));
    let all: u64 = question.weights.iter().sum();
    if bytes > all / 2 && !request.has("keep") {
        answer.notes.push(format!(
            "The cut takes {} of {} bytes; --keep=PATTERN keeps symbols, and the cut is made after them.",
            count(bytes),
            count(all)
        ));
    }
}

fn things(n: u64, what: &str) -> String {
    format!("{} {what}{}", count(n), if n == 1 { "" } else { "s" })
}

/// A line for each thing of the name.
fn describe(model: &Model, found: &[u32], answer: &mut Answer) {
    const MOST: usize = 5;
    // Kept atoms come first.
    let mut found = found.to_vec();
    found.sort_by_key(|a| model.atoms.get(*a as usize).is_none_or(|a| a.state == AtomState::Dropped));
    for position in found.iter().take(MOST) {
        if let Some(import) = model.import(*position) {
            let line =
                format!("{} is not in the link: {} defines it", demangle(&import.symbol), import.definer());
            answer.lines.push(line);
        }
        let Some(atom) = model.atoms.get(*position as usize) else { continue };
        let collected = model.report.linker.gc_sections && !atom.linker_live;
        let state = match (atom.state, model.report.pruned) {
            (AtomState::Kept, _) => "kept".to_owned(),
            (AtomState::Stub, true) => "a stub: only its address is needed".to_owned(),
            (AtomState::Stub, false) => {
                format!("would be a stub: only its address is needed; {}", model.report.why_not_pruned())
            }
            (AtomState::Dropped, _) if atom.discarded => {
                "discarded: another module has its COMDAT group".to_owned()
            }
            (AtomState::Dropped, false) if collected => {
                "dropped by the linker's --gc-sections: no live atom refers to it".to_owned()
            }
            (AtomState::Dropped, false) => {
                format!("would be dropped: no live atom refers to it; {}", model.report.why_not_pruned())
            }
            (AtomState::Dropped, true) => "dropped: no live atom refers to it".to_owned(),
        };
        let (name, at) = (symbol(model, atom), place(model, atom, None));
        answer.lines.push(match atom.shares.len() {
            0 => format!("{name} in {at}: {} bytes, {state}", count(atom.size)),
            n => format!(
                "{at}: {} bytes, {state}; {} symbols share it, and are kept or removed together (audit limits has the cause)",
                count(atom.size),
                count(n as u64)
            ),
        });
    }
    if found.len() > MOST {
        answer.lines.push(format!(
            "and {} more of the name; asked about together",
            count((found.len() - MOST) as u64)
        ));
    }
}

/// The answer to `paths`.
pub(crate) fn paths(model: &Model, from: &str, to: &str, request: &Request) -> Result<Answer> {
    let (sources, targets) = (find(model, from)?, find_or_import(model, to)?);
    let question = QueryGraph::new(model, &sources, &targets, &[]);
    let mut answer = Answer::default();
    let mut table = Table::new("paths", "", &PATHS);
    let Some(shortest) = question.graph.shortest(ROOT, question.to, |_, _, _| true) else {
        answer.lines.push(format!("{from} does not lead to {to}"));
        answer.tables.push(table);
        return Ok(answer);
    };
    let found = cut(&question.graph, question.to, |_, _, number| number != NONE);
    let mut paths = found.map(|c| c.paths).unwrap_or_default();
    // The flow need not have a shortest path among its own.
    if paths.first().is_none_or(|p| p.len() > shortest.len()) {
        paths.insert(0, shortest);
    }
    let steps =
        |path: &Vec<NumberedEdge>| path.iter().filter(|a| a.0 != ROOT && a.1 != question.to).count() as u64;
    let nearest = paths.first().map(steps).unwrap_or(0);
    answer.lines.push(format!("{from} leads to {to} in {}", things(nearest, "step")));
    for (i, path) in paths.iter().enumerate().take(rows(request, ROWS).unwrap_or(usize::MAX)) {
        question.steps(path.get(1..).unwrap_or(&[]), &mut table, Some((i + 1).into()));
    }
    answer.tables.push(table);
    Ok(answer)
}

/// Symbols, atoms that refer to them.
type ImportCount = (u64, u64);

pub(crate) fn imports(model: &Model, request: &Request) -> Answer {
    let mut sums: BTreeMap<&str, ImportCount> = BTreeMap::new();
    let mut imports: Vec<(bool, &[GraphEdge], String, &str)> = Vec::new();
    for (import, of_this) in model.used_imports() {
        let sum = sums.entry(import.definer()).or_default();
        *sum = (sum.0 + 1, sum.1 + of_this.len() as u64);
        let name = demangle(&import.symbol).into_owned();
        let foreign = import.defined_by != "library";
        imports.push((foreign, of_this, name, import.definer()));
    }
    let mut libraries: Vec<(&str, ImportCount)> = sums.into_iter().collect();
    libraries.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.0));
    let mut by_library = Table::new("libraries", "by who defines them", &["symbols", "atoms", "defined by"]);
    for (library, (symbols, atoms)) in &libraries {
        by_library.row(row![*symbols, *atoms, *library]);
    }
    // Symbols with few references are the easiest to avoid. Other definers come last.
    imports.sort_by(|a, b| (a.0, a.1.len(), &a.2).cmp(&(b.0, b.1.len(), &b.2)));
    let mut table = Table::new(
        "imports",
        "those that the fewest atoms refer to",
        &["atoms", "symbol", "defined by", "from"],
    );
    for (_, edges, name, library) in imports {
        let from = edges.first().map(|e| symbol(model, model.atom(e.from))).unwrap_or_default();
        table.row(row![edges.len() as u64, name, library, from,]);
    }
    table.limit(rows(request, ROWS));
    let mut answer = Answer::default();
    answer.lines.push(format!(
        "{} refers to {} symbols that no module of the link defines",
        model.report.output,
        count(model.report.imports.len() as u64)
    ));
    answer.facts =
        vec![("symbols", model.report.imports.len().into()), ("references", model.import_edges.len().into())];
    answer.tables = vec![table, by_library];
    answer
}
