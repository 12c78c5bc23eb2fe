//! `audit imports`: what the program uses and others define, by library; `audit why` says what uses one of them, and the cut.
//!
//! Counted are the atoms that live and refer to a symbol, however often they do: a symbol without such an atom is not imported
//! because of our modules. Left out: what the linker and the code that it makes of bitcode ask for by themselves.

use std::collections::BTreeMap;

use crate::audit::args::{ROWS, Request, rows};
use crate::audit::attribute::symbol;
use crate::audit::demangle::demangle;
use crate::audit::model::{Definer, GraphEdge, Model};
use crate::audit::table::{Answer, Cell, Table, count};

/// Symbols, atoms that refer to them.
type ImportCount = (u64, u64);

pub(crate) fn answer(model: &Model<'_>, request: &Request) -> Answer {
    let mut sums: BTreeMap<&str, ImportCount> = BTreeMap::new();
    let mut imports: Vec<(bool, &[GraphEdge], String, &str)> = Vec::new();
    for (import, of_this) in model.used_imports() {
        let sum = sums.entry(import.definer.name()).or_default();
        *sum = (sum.0 + 1, sum.1 + of_this.len() as u64);
        let name = demangle(&import.symbol).into_owned();
        let foreign = !matches!(import.definer, Definer::Library(_));
        imports.push((foreign, of_this, name, import.definer.name()));
    }
    let mut libraries: Vec<(&str, ImportCount)> = sums.into_iter().collect();
    libraries.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.0));
    let mut by_library = Table::new("libraries", "by who defines them", &["symbols", "atoms", "defined by"]);
    for (library, (symbols, atoms)) in &libraries {
        by_library.row(vec![Cell::Number(*symbols), Cell::Number(*atoms), Cell::text(*library)]);
    }
    // What few refer to is the easiest to do without; what no library defines asks for none.
    imports.sort_by(|a, b| (a.0, a.1.len(), &a.2).cmp(&(b.0, b.1.len(), &b.2)));
    let mut table = Table::new(
        "imports",
        "those that the fewest atoms refer to",
        &["atoms", "symbol", "defined by", "from"],
    );
    for (_, edges, name, library) in imports {
        let from = edges.first().and_then(|e| model.atoms.get(e.from as usize));
        let from = from.map(|a| symbol(model, a)).unwrap_or_default();
        table.row(vec![
            Cell::Number(edges.len() as u64),
            Cell::Text(name),
            Cell::text(library),
            Cell::Text(from),
        ]);
    }
    table.limit(rows(request, ROWS));
    let mut answer = Answer::default();
    answer.lines.push(format!(
        "{} refers to {} symbols that no module of the link defines",
        model.report.output,
        count(model.imports.len() as u64)
    ));
    answer.facts =
        vec![("symbols", model.imports.len().into()), ("references", model.import_edges.len().into())];
    answer.tables = vec![table, by_library];
    answer
}
