//! `audit duplicates`: the same code or data in several places of the program. What the linker joined is distinguished from
//! what takes room twice: constants that it merges by itself, and code that it was asked to fold.

use crate::audit::args::{ROWS, Request, rows};
use crate::audit::attribute::symbol;
use crate::audit::model::{Atom, Model};
use crate::audit::table::{Answer, Cell, Table, count};

/// What the linker does with copies of an atom.
fn joined(model: &Model<'_>, atom: &Atom<'_>) -> &'static str {
    let foldable = matches!(&*atom.kind, "code" | "rodata");
    match &*model.report.linker.icf {
        _ if atom.merge => "merged",
        "all" if foldable => "folded",
        "safe" if foldable => "perhaps folded",
        _ => "",
    }
}

pub(crate) fn answer(model: &Model<'_>, request: &Request) -> Answer {
    let mut found: Vec<(u64, Vec<u32>)> = Vec::new();
    for group in &model.duplicates {
        let placed = |a: &u32| model.atoms.get(*a as usize).is_some_and(|a| a.placed.is_some());
        let copies: Vec<u32> = group.iter().copied().filter(placed).collect();
        let size = copies.first().and_then(|a| model.atoms.get(*a as usize)).map_or(0, |a| a.size);
        if copies.len() > 1 {
            found.push((size.saturating_mul(copies.len() as u64 - 1), copies));
        }
    }
    found.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let columns = ["waste", "copies", "size", "kind", "joined", "symbol", "modules"];
    let mut table = Table::new("duplicates", "", &columns);
    let (mut waste, mut joined_bytes) = (0u64, 0u64);
    for (bytes, copies) in &found {
        let atoms: Vec<&Atom<'_>> = copies.iter().filter_map(|a| model.atoms.get(*a as usize)).collect();
        let Some(first) = atoms.first() else { continue };
        let state = joined(model, first);
        let sum = if state.is_empty() { &mut waste } else { &mut joined_bytes };
        *sum = sum.saturating_add(*bytes);
        let mut names: Vec<String> = atoms.iter().map(|a| symbol(model, a)).collect();
        names.dedup();
        let mut modules: Vec<String> = Vec::new();
        for atom in &atoms {
            let module = model.modules.get(atom.module as usize).map(|m| m.short()).unwrap_or_default();
            modules.extend((!modules.contains(&module)).then_some(module));
        }
        table.row(vec![
            Cell::Number(*bytes),
            Cell::Number(copies.len() as u64),
            Cell::Number(first.size),
            Cell::text(&*first.kind),
            Cell::text(state),
            Cell::Text(listed(&names)),
            Cell::Text(listed(&modules)),
        ]);
    }
    table.limit(rows(request, ROWS));
    Answer {
        lines: vec![format!(
            "{}: {} bytes are copies of others; {} more the linker joins",
            model.report.output,
            count(waste),
            count(joined_bytes)
        )],
        facts: vec![("waste", waste.into()), ("joined", joined_bytes.into())],
        tables: vec![table],
        ..Answer::default()
    }
}

/// The first few of a list.
fn listed(names: &[String]) -> String {
    const MOST: usize = 3;
    let first = names.iter().take(MOST).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > MOST { format!("{first} and {} more", names.len() - MOST) } else { first }
}
