//! `audit diff`: what two links differ in, by name. The differences add up to that of the files, which is checked.

use crate::audit::args::{ROWS, Request, rows};
use crate::audit::attribute::{AttributedSize, GroupBy, View, items, sums};
use crate::audit::matching::{self, FileMatching};
use crate::audit::model::{AuditedModule, Model};
use crate::audit::table::{Answer, Cell, Table, count};
use crate::error::{Error, Result, Stage};

/// What is of one module or archive in both links is one thing: its number there, by position; see [`matching`].
struct MatchedFiles {
    modules: FileMatching,
    archives: FileMatching,
}

impl MatchedFiles {
    fn new(old: &Model<'_>, new: &Model<'_>) -> MatchedFiles {
        let modules = |model: &Model<'_>| model.modules.iter().map(AuditedModule::full).collect::<Vec<_>>();
        MatchedFiles {
            modules: matching::files(&modules(old), &modules(new)),
            archives: matching::files(&archives(old), &archives(new)),
        }
    }
}

/// The archives of a link, each once, by name.
fn archives(model: &Model<'_>) -> Vec<String> {
    let mut found: Vec<String> =
        model.modules.iter().filter_map(|m| m.archive.as_ref()).map(|a| a.clone().into_owned()).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// A name, the number of the file that it is of, if it is of one, and the bytes.
type NamedBytes = (String, Option<u32>, i64);

/// The sizes by name and file, each once.
fn named(
    model: &Model<'_>,
    files: &MatchedFiles,
    is_old: bool,
    request: &Request,
    view: View,
) -> Result<Vec<NamedBytes>> {
    let items = items(model, view)?;
    let list = sums(model, &items, request.by, request.depth.unwrap_or(1));
    let side =
        |matched: &FileMatching, at: usize| if is_old { &matched.old } else { &matched.new }.get(at).copied();
    let archives = archives(model);
    let of = |sum: &AttributedSize| match request.by {
        GroupBy::Symbol => (sum.name.clone(), sum.module.and_then(|m| side(&files.modules, m as usize))),
        GroupBy::Module => match sum.module.and_then(|m| side(&files.modules, m as usize)) {
            Some(file) => (String::new(), Some(file)),
            None => (sum.name.clone(), None),
        },
        GroupBy::Archive => {
            match archives.binary_search(&sum.name).ok().and_then(|a| side(&files.archives, a)) {
                Some(file) => (String::new(), Some(file)),
                None => (sum.name.clone(), None),
            }
        }
        _ => (sum.name.clone(), None),
    };
    let mut found: Vec<NamedBytes> = Vec::with_capacity(list.len());
    for sum in &list {
        let (name, file) = of(sum);
        found.push((name, file, sum.bytes));
    }
    found.sort_unstable();
    // Of two things of one name the bytes are told together.
    let mut joined: Vec<NamedBytes> = Vec::with_capacity(found.len());
    for (name, file, bytes) in found {
        match joined.last_mut() {
            Some(last) if (&last.0, last.1) == (&name, file) => last.2 += bytes,
            _ => joined.push((name, file, bytes)),
        }
    }
    Ok(joined)
}

/// The answer.
///
/// # Errors
/// A report says nothing of its file, or the differences don't add up.
pub(crate) fn answer(old: &Model<'_>, new: &Model<'_>, request: &Request) -> Result<Answer> {
    let files = MatchedFiles::new(old, new);
    let view = View::new(&[old, new], request.has("all"), request.has("bss"));
    let (before, after) =
        (named(old, &files, true, request, view)?, named(new, &files, false, request, view)?);
    let total = |list: &[NamedBytes]| list.iter().map(|r| r.2).sum::<i64>();
    let (old_total, new_total) = (total(&before), total(&after));
    let mut changes: Vec<(String, String, i64, i64)> = Vec::new();
    let (mut one, mut two) = (before.into_iter().peekable(), after.into_iter().peekable());
    loop {
        let order = match (one.peek(), two.peek()) {
            (Some(a), Some(b)) => (&a.0, a.1).cmp(&(&b.0, b.1)),
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (None, None) => break,
        };
        let left = if order.is_le() { one.next() } else { None };
        let right = if order.is_ge() { two.next() } else { None };
        let bytes = |row: &Option<NamedBytes>| row.as_ref().map_or(0, |r| r.2);
        let (from, to) = (bytes(&left), bytes(&right));
        let Some((name, file, _)) = left.or(right) else { continue };
        let names = if request.by == GroupBy::Archive { &files.archives.names } else { &files.modules.names };
        let file = file.and_then(|f| names.get(f as usize).cloned()).unwrap_or_default();
        changes.push(if name.is_empty() { (file, String::new(), from, to) } else { (name, file, from, to) });
    }
    let difference = new_total - old_total;
    let sum: i64 = changes.iter().map(|c| c.3 - c.2).sum();
    if sum != difference || difference != view.size(new) as i64 - view.size(old) as i64 {
        let message = format!("internal error: the differences add up to {sum} and not to {difference}");
        return Err(Error::new(Stage::Report, message));
    }
    changes.retain(|c| c.2 != c.3);
    changes.sort_by(|a, b| {
        let by = |c: &(String, String, i64, i64)| (c.3 - c.2).unsigned_abs();
        by(b).cmp(&by(a)).then_with(|| (&a.0, &a.1).cmp(&(&b.0, &b.1)))
    });
    Ok(table(&changes, [old_total, new_total], [old, new], request, view))
}

fn table(
    changes: &[(String, String, i64, i64)],
    totals: [i64; 2],
    models: [&Model<'_>; 2],
    request: &Request,
    view: View,
) -> Answer {
    let by_symbol = request.by == GroupBy::Symbol;
    let column = GroupBy::ALL.iter().find(|b| b.1 == request.by).map_or("namespace", |b| b.0);
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
        "{} -> {}: {sign}{} {} ({} -> {})",
        models[0].path,
        models[1].path,
        shown(new - old),
        match view {
            View::Loaded => "loaded bytes",
            View::File => "bytes",
            View::Zero => "bytes of zero-initialised memory",
        },
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
    // If one of the links was not pruned, the difference includes the pruning.
    for model in models
        .iter()
        .filter(|model| !model.report.pruned && (model.report.shadow || model.report.not_pruned.is_some()))
    {
        answer.lines.push(format!("{}: {}", model.path, model.report.not_pruned()));
    }
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
