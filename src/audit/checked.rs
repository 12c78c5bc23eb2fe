//! Validation of a report: its JSON becomes tables, or the one that doesn't fit is named.
//!
//! A report is a file that anybody may have written. Every number that the rest of an audit uses as an index, and every sum
//! that it makes, is checked here once. Left out: whether the report is true.

use std::borrow::Cow;

use crate::report::graph::HOLDS;

use super::model::{Atom, AtomState, AuditedModule, Definer, GraphEdge, Import, Model, ReportHead};
use super::read;

/// Checks that the indices and sums in the tables of a report fit together, so that commands need not; `path` is for messages.
///
/// # Errors
/// Says which table does not fit the others.
pub(super) fn checked<'a>(path: &str, report: read::ReadReport<'a>) -> Result<Model<'a>, String> {
    let atoms = report.atoms.len();
    let is_atom = |a: u32| (a as usize) < atoms;
    if report.atoms.iter().any(|a| a.module as usize >= report.modules.len()) {
        return Err("an atom is of a module that isn't there".to_owned());
    }
    if !report.roots.iter().all(|r| is_atom(r.atom)) {
        return Err("a root is an atom that isn't there".to_owned());
    }
    if !report.duplicates.iter().flatten().all(|a| is_atom(*a)) {
        return Err("a duplicate is an atom that isn't there".to_owned());
    }
    if !report.call_sites.iter().all(|s| is_atom(s.caller) && s.targets.iter().all(|t| is_atom(t.atom))) {
        return Err("an indirect call is of an atom, or to one, that isn't there".to_owned());
    }
    let edges = edges(&report.graph, atoms)?;
    let import_edges = import_edges(&report.imports, atoms)?;
    let (file_size, file_hash, parts) = match report.file {
        Some(file) => (Some(file.size), file.blake3, file.parts),
        None => (None, None, Vec::new()),
    };
    let bytes = sum(parts.iter().map(|p| p.bytes));
    if file_size.is_some() && bytes != file_size {
        return Err("the parts of the linked file don't add up".to_owned());
    }
    // What is added up from here on fits.
    if sum(parts.iter().map(|p| p.size).chain(report.atoms.iter().map(|a| a.size))).is_none() {
        return Err("the sizes are beyond all bounds".to_owned());
    }
    let symbols = report.symbols;
    let module = |m: read::ReadModule<'a>| AuditedModule { name: m.name, archive: m.archive, kind: m.kind };
    let head = ReportHead {
        linker: report.linker,
        output: report.output,
        level: report.level,
        shadow: report.shadow,
        pruned: report.pruned,
        analysed: report.analysed,
        not_pruned: report.not_pruned,
        linked: report.linked,
        not_analysed: report.not_analysed,
        unwind: report.unwind,
    };
    let mut model = Model {
        path: path.to_owned(),
        report: head,
        elf: None,
        modules: report.modules.into_iter().map(module).collect(),
        atoms: report.atoms.into_iter().map(atom).collect(),
        roots: report.roots,
        kinds: report.graph.kinds,
        edges,
        imports: report.imports.into_iter().map(import).collect(),
        import_edges,
        limits: report.limits,
        duplicates: report.duplicates,
        parts,
        file_size,
        file_hash,
        value_flow: report.value_flow,
        call_sites: report.call_sites,
    };
    model.name(&symbols);
    model.place();
    Ok(model)
}

/// The sum, if the numbers that an answer makes of it are ones with a sign.
pub(super) fn sum(mut sizes: impl Iterator<Item = u64>) -> Option<u64> {
    let sum = sizes.try_fold(0u64, u64::checked_add)?;
    i64::try_from(sum).is_ok().then_some(sum)
}

fn atom(a: read::ReadAtom<'_>) -> Atom<'_> {
    let state = match &*a.state {
        "kept" => AtomState::Kept,
        "stub" => AtomState::Stub,
        _ => AtomState::Dropped,
    };
    // Linkers make one note of what all inputs say there.
    let merge = a.merge || a.section == ".note.gnu.property";
    Atom {
        module: a.module,
        section: a.section,
        section_index: a.section_index,
        offset: a.offset,
        size: a.size,
        kind: a.kind,
        state,
        discarded: a.discarded,
        merge,
        linker_live: a.linker_live,
        symbols: a.symbols,
        main: None,
        shares: Vec::new(),
        placed: None,
    }
}

/// The columns that say what an edge is, beside the one of its ends.
type Columns<'t> = (&'t [u32], &'t [u8], &'t [i64], &'t [u8]);

/// The edges of one table: its end that differs, kind, offset and count.
fn rows<'t>(
    (ends, kinds, offsets, counts): Columns<'t>,
    atoms: usize,
) -> Result<impl Iterator<Item = (u32, u8, i64, u8)> + 't, &'static str> {
    if [kinds.len(), offsets.len(), counts.len()].iter().any(|l| *l != ends.len()) {
        return Err("has columns of different lengths");
    }
    if ends.iter().any(|a| *a as usize >= atoms) {
        return Err("has an edge to or from an atom that isn't there");
    }
    let columns = ends.iter().zip(kinds).zip(offsets).zip(counts);
    Ok(columns.map(|(((end, kind), offset), count)| (*end, *kind, *offset, *count)))
}

fn edges(graph: &read::ReadGraph<'_>, atoms: usize) -> Result<Vec<GraphEdge>, String> {
    let table = |what: &str| format!("the graph {what}");
    let rows = rows((&graph.target, &graph.kind, &graph.offset, &graph.count), atoms).map_err(table)?;
    let ascending = graph.start.windows(2).all(|w| w.first() <= w.last());
    let ends = (graph.start.first(), graph.start.last());
    let count = graph.target.len();
    if !ascending || ends != (Some(&0), Some(&(count as u32))) || graph.start.len() != atoms + 1 {
        return Err(table("has a table of rows that doesn't fit"));
    }
    if graph.flags.len() != count {
        return Err(table("has columns of different lengths"));
    }
    let mut edges = Vec::with_capacity(count);
    let mut from = 0u32;
    for (i, ((to, kind, offset, count), flags)) in rows.zip(&graph.flags).enumerate() {
        while graph.start.get(from as usize + 1).is_some_and(|end| *end as usize <= i) {
            from += 1;
        }
        edges.push(GraphEdge { from, to, kind, offset, count, flags: *flags });
    }
    Ok(edges)
}

fn import(i: read::ReadImport<'_>) -> Import<'_> {
    let definer = match (&*i.defined_by, i.library) {
        ("library", name) => Definer::Library(name.unwrap_or(Cow::Borrowed("a library"))),
        ("linker", _) => Definer::Linker,
        _ => Definer::Nobody,
    };
    Import { symbol: i.symbol, definer }
}

fn import_edges(imports: &[read::ReadImport<'_>], atoms: usize) -> Result<Vec<GraphEdge>, String> {
    let mut edges = Vec::new();
    for (i, import) in imports.iter().enumerate() {
        let to = (atoms + i) as u32;
        let rows = rows((&import.from, &import.kind, &import.offset, &import.count), atoms)
            .map_err(|what| format!("the import {} {what}", import.symbol))?;
        edges.extend(rows.map(|(from, kind, offset, count)| GraphEdge {
            from,
            to,
            kind,
            offset,
            count,
            flags: HOLDS,
        }));
    }
    Ok(edges)
}
