//! `audit diff`: what two links differ in, by name. The differences add up to that of the files, which is checked.

use crate::audit::args::Request;
use crate::audit::attribute::{By, Sum, items, sums};
use crate::audit::model::Model;
use crate::audit::table::{Answer, Cell, Table, count};
use crate::audit::{ROWS, rows};
use crate::error::{Error, Result, Stage};

/// (name, module, bytes), by name. Modules go without folders: two builds may be in two.
fn named(model: &Model<'_>, request: &Request) -> Result<Vec<(String, String, i64)>> {
    let items = items(model, request.bss)?;
    let list = sums(model, &items, request.by, request.depth.unwrap_or(1));
    let short = |sum: &Sum| {
        let module = sum.module.and_then(|m| model.modules.get(m as usize));
        module.map(|m| m.short()).unwrap_or_default()
    };
    let name = |sum: &Sum| match request.by {
        By::Module if sum.module.is_some() => short(sum),
        By::Archive => sum.name.rsplit('/').next().unwrap_or_default().to_owned(),
        _ => sum.name.clone(),
    };
    let of_symbol = |sum: &Sum| if request.by == By::Symbol { short(sum) } else { String::new() };
    let mut found: Vec<_> = list.iter().map(|s| (name(s), of_symbol(s), s.bytes)).collect();
    found.sort_unstable();
    // Of two things of one name the bytes are told together.
    let mut joined: Vec<(String, String, i64)> = Vec::with_capacity(found.len());
    for (name, module, bytes) in found {
        match joined.last_mut() {
            Some(last) if (&last.0, &last.1) == (&name, &module) => last.2 += bytes,
            _ => joined.push((name, module, bytes)),
        }
    }
    Ok(joined)
}

/// The answer.
///
/// # Errors
/// A report says nothing of its file, or the differences don't add up.
pub(crate) fn answer(old: &Model<'_>, new: &Model<'_>, request: &Request) -> Result<Answer> {
    let (before, after) = (named(old, request)?, named(new, request)?);
    let total = |list: &[(String, String, i64)]| list.iter().map(|r| r.2).sum::<i64>();
    let (old_total, new_total) = (total(&before), total(&after));
    let mut changes: Vec<(String, String, i64, i64)> = Vec::new();
    let (mut one, mut two) = (before.into_iter().peekable(), after.into_iter().peekable());
    loop {
        let order = match (one.peek(), two.peek()) {
            (Some(a), Some(b)) => (&a.0, &a.1).cmp(&(&b.0, &b.1)),
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (None, None) => break,
        };
        let left = if order.is_le() { one.next() } else { None };
        let right = if order.is_ge() { two.next() } else { None };
        let bytes = |row: &Option<(String, String, i64)>| row.as_ref().map_or(0, |r| r.2);
        let (from, to) = (bytes(&left), bytes(&right));
        if let Some((name, module, _)) = left.or(right) {
            changes.push((name, module, from, to));
        }
    }
    let difference = new_total - old_total;
    let sum: i64 = changes.iter().map(|c| c.3 - c.2).sum();
    if sum != difference || !request.bss && difference != length(new) - length(old) {
        let message = format!("internal error: the differences add up to {sum} and not to {difference}");
        return Err(Error::new(Stage::Report, message));
    }
    changes.retain(|c| c.2 != c.3);
    changes.sort_by(|a, b| {
        let by = |c: &(String, String, i64, i64)| (c.3 - c.2).unsigned_abs();
        by(b).cmp(&by(a)).then_with(|| (&a.0, &a.1).cmp(&(&b.0, &b.1)))
    });
    Ok(table(&changes, [old_total, new_total], [old, new], request))
}

fn length(model: &Model<'_>) -> i64 {
    model.file_size.unwrap_or(0) as i64
}

fn table(
    changes: &[(String, String, i64, i64)],
    totals: [i64; 2],
    models: [&Model<'_>; 2],
    request: &Request,
) -> Answer {
    let by_symbol = request.by == By::Symbol;
    let column = By::ALL.iter().find(|b| b.1 == request.by).map_or("name", |b| b.0);
    let mut columns = vec!["change", "old", "new", "what", column];
    columns.extend(by_symbol.then_some("module"));
    let mut table = Table::new("diff", "", &columns);
    let number = |n: i64| u64::try_from(n).map_or(Cell::Delta(n), Cell::Number);
    let [mut added, mut removed, mut grown, mut shrunk] = [0i64; 4];
    for (name, module, from, to) in changes {
        let change = to - from;
        let (what, sum) = match (from, to) {
            (0, _) => ("added", &mut added),
            (_, 0) => ("removed", &mut removed),
            _ if change > 0 => ("grown", &mut grown),
            _ => ("shrunk", &mut shrunk),
        };
        *sum += change;
        let mut row =
            vec![Cell::Delta(change), number(*from), number(*to), Cell::text(what), Cell::text(name)];
        row.extend(by_symbol.then(|| Cell::text(module)));
        table.row(row);
    }
    let [old, new] = totals;
    table.limit(rows(request, ROWS));
    let mut total =
        vec![Cell::Delta(new - old), number(old), number(new), Cell::text(""), Cell::text("total")];
    total.extend(by_symbol.then_some(Cell::Nothing));
    table.total = Some(total);
    let shown = |n: i64| count(n.unsigned_abs());
    let sign = if new < old { '-' } else { '+' };
    let signed = |n: i64| format!("{}{}", if n < 0 { "-" } else { "+" }, shown(n));
    let mut answer = Answer::default();
    answer.lines.push(format!(
        "{} -> {}: {sign}{} bytes ({} -> {})",
        models[0].path,
        models[1].path,
        shown(new - old),
        shown(old),
        shown(new)
    ));
    answer.lines.push(format!(
        "added {}, removed {}, grown {}, shrunk {}",
        signed(added),
        signed(removed),
        signed(grown),
        signed(shrunk)
    ));
    answer.facts = vec![
        ("old", old.into()),
        ("new", new.into()),
        ("difference", (new - old).into()),
        ("added", added.into()),
        ("removed", removed.into()),
        ("grown", grown.into()),
        ("shrunk", shrunk.into()),
    ];
    answer.tables.push(table);
    answer
}
