//! `audit stack`: the worst-case stack of entries of a linked file, the deepest chain of calls, and the causes for which there is no bound.

use std::collections::BTreeMap;
use std::path::Path;

use crate::audit::args::{ROWS, Request, rows};
use crate::audit::elf::StackFile;
use crate::audit::model::Model;
use crate::audit::stack::{FoundCause, StackAssumptions, StackGraph, UnboundedCause};
use crate::audit::table::{Answer, Cell, Table, count, row};
use crate::error::{Error, Result, Stage};
use crate::inputs::mapped::MappedFile;

/// The stack of an entry, for a budget.
#[derive(Debug, Default)]
pub(crate) struct StackLimit {
    /// The bound, or without one the depth of the deepest known chain.
    pub(crate) least: u64,
    /// The first cause for which there is no bound.
    pub(crate) unbounded: Option<String>,
}

/// The program and the libraries that are analysed with it.
struct MappedFiles(Vec<(String, MappedFile)>);

impl MappedFiles {
    /// Map the program of a model and its libraries.
    fn open(model: &Model, program: &Path, request: &Request) -> Result<Self> {
        let mut files = Vec::new();
        for path in std::iter::once(program).chain(request.values("library").map(Path::new)) {
            let file = MappedFile::open(path).map_err(|e| Error::io(Stage::Load, path, "read", e))?;
            files.push((path.display().to_string(), file));
        }
        if let Some((path, data)) = files.first().filter(|_| model.elf.is_none()) {
            model.is_described(data).map_err(|why| Error::new(Stage::Report, why).in_file(path.as_str()))?;
        }
        Ok(MappedFiles(files))
    }

    fn read(&self) -> Result<Vec<StackFile<'_>>> {
        self.0.iter().map(|(path, data)| StackFile::read(path, data)).collect()
    }
}

/// The stack of each entry, by name.
/// An error if the linked file is not the one of the report.
pub(crate) fn limits(
    model: &Model,
    program: &Path,
    entries: &[String],
    request: &Request,
) -> Result<Vec<Option<StackLimit>>> {
    let mapped = MappedFiles::open(model, program, request)?;
    let files = mapped.read()?;
    let file = &files[0];
    let assumptions = assumptions(model, file, request);
    let addresses: Vec<Vec<u64>> = entries.iter().map(|e| file.find(e)).collect();
    let graph = StackGraph::new(&files, &addresses.concat(), &assumptions);
    let worst = |addresses: &Vec<u64>| {
        let nodes = addresses.iter().filter_map(|a| graph.entry(*a));
        nodes
            .map(|(number, node)| StackLimit {
                least: node.least,
                unbounded: graph.causes(number).first().map(|c| in_words(&graph, c)),
            })
            .max_by_key(|l| (l.unbounded.is_some(), l.least))
    };
    Ok(addresses.iter().map(worst).collect())
}

/// The callees of indirect calls by the options and by the report.
fn assumptions(model: &Model, file: &StackFile<'_>, request: &Request) -> StackAssumptions {
    let mut sites: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    let symbol = |atom: u32| Some((model.atom(atom), model.atom(atom).symbols.first()?));
    for site in model.report.call_sites.iter().filter(|s| s.state == "resolved") {
        let Some((atom, name)) = symbol(site.caller) else { continue };
        // Of two functions of one name it is not known which one it is.
        let [address] = file.find(name)[..] else { continue };
        let targets: Option<Vec<String>> = site
            .targets
            .iter()
            .map(|t| symbol(t.atom).map(|(_, name)| name.to_string()).filter(|n| file.find(n).len() == 1))
            .chain(site.externals.iter().map(|name| Some(name.to_string())))
            .collect();
        let at = address.wrapping_add(site.offset.wrapping_sub(atom.offset));
        sites.extend(targets.map(|targets| (at, targets)));
    }
    StackAssumptions { sites, ..request.stack.clone() }
}

/// A chain of functions on one line.
fn chain(graph: &StackGraph<'_, '_>, nodes: &[usize]) -> String {
    nodes.iter().map(|n| graph.name(*n)).collect::<Vec<_>>().join(" > ")
}

/// The place of a cause: a function with the address of the instruction, an import, or a circle.
fn place(graph: &StackGraph<'_, '_>, found: &FoundCause) -> String {
    let name = found.chain.last().map_or("", |n| graph.name(*n));
    match (found.cause, found.address) {
        (UnboundedCause::Recursion, _) => chain(graph, &found.circle),
        (_, Some(address)) => format!("{name} at {address:#x}"),
        (_, None) => name.to_owned(),
    }
}

fn in_words(graph: &StackGraph<'_, '_>, found: &FoundCause) -> String {
    format!("{} {}", found.cause.name(), place(graph, found))
}

pub(crate) fn answer(model: &Model, program: &Path, request: &Request) -> Result<Answer> {
    let names: Vec<String> = request.names.iter().map(|n| n.to_string_lossy().into_owned()).collect();
    let mapped = MappedFiles::open(model, program, request)?;
    let files = mapped.read()?;
    let file = &files[0];
    let assumptions = assumptions(model, file, request);
    let shown = program.display().to_string();
    let mut entries: Vec<(u64, &'static str)> = Vec::new();
    for name in &names {
        let found = file.find(name);
        if found.is_empty() {
            return Err(Error::new(Stage::Arguments, format!("{shown} has no function {name}")));
        }
        entries.extend(found.into_iter().map(|address| (address, "asked for")));
    }
    if names.is_empty() {
        entries = file.entries();
    }
    if request.has("address-taken") {
        entries.extend(file.address_taken().into_iter().map(|address| (address, "address taken")));
    }
    let addresses: Vec<u64> = entries.iter().map(|e| e.0).collect();
    let graph = StackGraph::new(&files, &addresses, &assumptions);
    if names.is_empty() {
        entries.extend(graph.starts.iter().map(|(address, what)| (*address, *what)));
    }
    let mut seen = std::collections::BTreeSet::new();
    entries.retain(|e| seen.insert(e.0));
    let mut found: Vec<_> =
        entries.iter().filter_map(|(address, what)| Some((graph.entry(*address)?, *what))).collect();
    // Programs begin with main; of the others, the deepest come first.
    found.sort_by_key(|((number, node), what)| (*what != "main", std::cmp::Reverse(node.least), *number));
    let mut table = Table::new("entries", "", &["bound", "at least", "causes", "entry", "what"]);
    let mut chains = Table::new("chain", "", &["depth", "bytes", "function", "entry"]);
    let mut causes = Table::new("causes", "", &["cause", "of", "chain", "entry"]);
    let detailed = if names.is_empty() { 1 } else { found.len() };
    let mut bounded = 0;
    for (position, ((number, node), what)) in found.iter().enumerate() {
        let why = graph.causes(*number);
        bounded += usize::from(node.is_bounded);
        table.row(row![
            node.is_bounded.then_some(node.least),
            node.least,
            why.len() as u64,
            &node.name,
            *what,
        ]);
        if position >= detailed {
            continue;
        }
        let mut depth = 0u64;
        for link in graph.deepest(*number) {
            depth = depth.saturating_add(link.depth);
            let assumed = if graph.is_assumed(link.node) { " (assumed)" } else { "" };
            chains.row(row![depth, link.depth, format!("{}{assumed}", graph.name(link.node)), &node.name,]);
        }
        for cause in &why {
            causes.row(row![
                cause.cause.name(),
                place(&graph, cause),
                chain(&graph, &cause.chain),
                &node.name,
            ]);
        }
    }
    let mut lines = vec![format!(
        "{shown}: {} of {} entries have a bound",
        count(bounded as u64),
        count(found.len() as u64)
    )];
    if let [((_, node), _)] = &found[..] {
        let least = count(node.least);
        let causes = count(causes.rows.len() as u64);
        lines = vec![match node.is_bounded {
            true => format!("{shown}: {} takes at most {least} bytes of stack", node.name),
            false => format!(
                "{shown}: {} takes at least {least} bytes of stack, and has no bound; causes: {causes}",
                node.name
            ),
        }];
    }
    for table in [&mut table, &mut chains, &mut causes] {
        table.limit(rows(request, ROWS));
        // Depths of different functions have no sum.
        let numbers = table.rest.iter_mut().flatten().filter(|cell| !matches!(cell, Cell::Text(_)));
        numbers.for_each(|cell| *cell = Cell::Nothing);
    }
    let of = match (&found[..], detailed) {
        ([((_, node), _), ..], 1) => format!(" of {}", node.name),
        _ => String::new(),
    };
    chains.title = format!("the deepest known chain{of}");
    causes.title = format!("causes for which there is no bound{of}");
    let disagreements = graph.disagreements as u64;
    let note = format!(
        "{} instructions have another depth in the unwind tables than in the code; the larger one counts.",
        count(disagreements)
    );
    Ok(Answer {
        lines,
        notes: (disagreements > 0).then_some(note).into_iter().collect(),
        facts: vec![("file", shown.into()), ("disagreements", disagreements.into())],
        tables: vec![table, chains, causes],
        ..Answer::default()
    })
}
