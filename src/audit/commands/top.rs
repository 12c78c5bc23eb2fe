//! `audit top`: what the bytes of the linked file are, the largest first. The lines add up to the length of the file.

use crate::audit::args::{ROWS, Request, rows};
use crate::audit::attribute::{AttributedSize, GroupBy, Item, View, items, sums};
use crate::audit::model::Model;
use crate::audit::table::{Answer, Cell, Table, count};
use crate::error::{Error, Result, Stage};

/// The answer.
///
/// # Errors
/// The report says nothing of the linked file.
pub(crate) fn answer(model: &Model<'_>, request: &Request) -> Result<Answer> {
    let view = View::new(&[model], request.has("all"), request.has("bss"));
    let items = items(model, view)?;
    let total = items.iter().map(|i| i.bytes).sum::<i64>();
    if total != view.size(model) as i64 {
        let message = format!("internal error: the lines add up to {total} and not to {}", view.size(model));
        return Err(Error::new(Stage::Report, message).in_file(model.path.clone()));
    }
    let mut table = match request.by {
        GroupBy::Section => sections(model, view),
        by => grouped(model, &sums(model, &items, by, request.depth.unwrap_or(1)), by, total),
    };
    table.limit(rows(request, ROWS));
    let mut notes = Vec::new();
    let whole = model.atoms.iter().filter(|a| !a.shares.is_empty() && a.placed.is_some() && a.kind == "code");
    let (bytes, sections) = whole.fold((0, 0), |(bytes, n), a| (bytes + a.size, n + 1));
    if sections > 0 && !request.has("bss") {
        notes.push(format!(
            "{} bytes of code are in {} sections that were left whole (audit limits says why): their symbols have the sizes that they say.",
            count(bytes),
            count(sections)
        ));
    }
    notes.extend(model.report.unwind().filter(|_| !request.has("bss")));
    let zero: u64 = model.parts.iter().filter(|p| p.category == "bss").map(|p| p.size).sum();
    if model.elf.is_some() {
        notes.push(nobody(model, &items, total));
    }
    let mut answer = Answer { tables: vec![table], notes, ..Answer::default() };
    answer.facts = vec![
        ("output", model.report.output.as_ref().into()),
        ("pruned", model.report.pruned.into()),
        ("size", model.file_size.into()),
        ("loaded", View::Loaded.size(model).into()),
        ("bss", zero.into()),
    ];
    let pruned = if model.report.pruned { String::new() } else { format!(", {}", model.report.not_pruned()) };
    let (linker, level) = (&model.report.linker.dialect, &model.report.level);
    let what = match model.elf {
        Some(kind) => format!("{} ({})", model.report.output, kind.name()),
        None => format!("{} ({linker}, level {level}{pruned})", model.report.output),
    };
    let (size, zero) = (count(model.file_size.unwrap_or(0)), count(zero));
    answer.lines.push(match view {
        View::Zero => format!("{what}: {zero} bytes of zero-initialised memory"),
        View::File => format!("{what}: all {size} bytes of the file; {zero} more of zero-initialised memory (--bss)"),
        View::Loaded => format!(
            "{what}: the {} loaded bytes of the {size} in the file (--all); {zero} more of zero-initialised memory (--bss)",
            count(total.unsigned_abs())
        ),
    });
    Ok(answer)
}

fn grouped(model: &Model<'_>, sums: &[AttributedSize], by: GroupBy, total: i64) -> Table {
    let column = GroupBy::ALL.iter().find(|b| b.1 == by).map_or("namespace", |b| b.0);
    let by_symbol = by == GroupBy::Symbol;
    let mut columns = vec!["bytes", "%"];
    columns.extend(if by_symbol { [column, "module"] } else { ["atoms", column] });
    let mut table = Table::new("top", "", &columns);
    for sum in sums {
        let name = Cell::text(sum.name.clone());
        let module = sum.module.and_then(|m| model.modules.get(m as usize));
        let mut row = vec![Cell::Delta(0), Cell::share(sum.bytes, total.unsigned_abs())];
        row.extend(match by_symbol {
            true => [name, Cell::text(module.map(|m| m.short()).unwrap_or_default())],
            false => [Cell::Number(sum.atoms), name],
        });
        if let Some(bytes) = row.first_mut() {
            *bytes = bytes_of(sum.bytes);
        }
        table.row(row);
    }
    let mut row = vec![bytes_of(total), Cell::share(total, total.unsigned_abs())];
    row.extend(match by_symbol {
        true => [Cell::text("total"), Cell::Nothing],
        false => [Cell::Number(sums.iter().map(|s| s.atoms).sum()), Cell::text("total")],
    });
    table.total = Some(row);
    table
}

/// The parts of the file as `size -A` has its sections, and the rest of the file besides.
fn sections(model: &Model<'_>, view: View) -> Table {
    let total = view.size(model);
    let mut table = Table::new("top", "", &["bytes", "%", "size", "address", "section", "category"]);
    let mut parts: Vec<_> = model.parts.iter().filter(|p| p.what != "padding").collect();
    match view {
        View::Zero => parts.retain(|p| p.category == "bss"),
        View::Loaded => parts.retain(|p| p.loaded),
        View::File => {}
    }
    parts.sort_by(|a, b| b.bytes.cmp(&a.bytes).then(b.size.cmp(&a.size)).then(a.name.cmp(&b.name)));
    let padding: u64 = model.parts.iter().filter(|p| p.what == "padding").map(|p| view.bytes(p)).sum();
    let share = |bytes: u64| Cell::share(bytes as i64, total);
    for part in parts {
        let bytes = view.bytes(part);
        let address =
            if part.address == 0 { Cell::Nothing } else { Cell::Text(format!("{:#x}", part.address)) };
        let (name, category) = (Cell::text(&*part.name), Cell::text(&*part.category));
        table.row(vec![Cell::Number(bytes), share(bytes), Cell::Number(part.size), address, name, category]);
    }
    if padding > 0 {
        let (name, category) = (Cell::text("[padding]"), Cell::text("padding"));
        let row =
            vec![Cell::Number(padding), share(padding), Cell::Number(padding), Cell::Nothing, name, category];
        table.row(row);
    }
    let row = vec![
        Cell::Number(total),
        share(total),
        Cell::Nothing,
        Cell::Nothing,
        Cell::text("total"),
        Cell::Nothing,
    ];
    table.total = Some(row);
    table
}

/// How many of the bytes belong to no symbol and no source file, in a sentence.
fn nobody(model: &Model<'_>, items: &[Item], total: i64) -> String {
    let is_nobodys = |i: &&Item| {
        let atom = i.atom.and_then(|a| model.atoms.get(a as usize));
        atom.is_none_or(|a| a.symbols.is_empty())
    };
    let bytes = items.iter().filter(is_nobodys).map(|i| i.bytes).sum::<i64>().unsigned_abs();
    let share = bytes as f64 * 100.0 / (total.max(1) as f64);
    format!(
        "{} bytes ({share:.1}%) belong to no symbol. Data without one is counted for the first function or object that refers to it.",
        count(bytes)
    )
}

/// Bytes are negative only where the linker took some out.
fn bytes_of(bytes: i64) -> Cell {
    u64::try_from(bytes).map_or(Cell::Delta(bytes), Cell::Number)
}
