//! `audit top`, `diff`, `garbage` and `duplicates`: sizes by name, of kept, changed, dropped and repeated code and data.
//!
//! The lines of `top` add up to the length of the file, and those of `diff` to the difference of the files; both sums are checked. Bytes of
//! `garbage` are those of the input, with zero-initialised memory.

use std::collections::BTreeMap;

use crate::audit::args::{ROWS, Request, rows};
use crate::audit::attribute::{AttributedSize, GroupBy, Item, View, divide, items, sums, symbol};
use crate::audit::matching;
use crate::audit::matching::FileMatching;
use crate::audit::model::{Atom, AtomState, Model, ModuleReport};
use crate::audit::table::{Answer, Cell, Format, Table, count, row};
use crate::error::{Error, Result, Stage};
use crate::report::table::first_names;

/// The answer.
/// An error if the report says nothing of the linked file.
pub(crate) fn top(model: &Model, request: &Request) -> Result<Answer> {
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
            "{} bytes of code are in {} undivided sections (audit limits has the causes): their symbols have the sizes of the symbol table.",
            count(bytes),
            count(sections)
        ));
    }
    notes.extend(model.report.unwind_sentence().filter(|_| !request.has("bss")));
    let zero = model.bss();
    if model.elf.is_some() {
        notes.push(nobody(model, &items, total));
    }
    let mut answer = Answer { tables: vec![table], notes, ..Answer::default() };
    answer.facts = vec![
        ("output", model.report.output.as_str().into()),
        ("pruned", model.report.pruned.into()),
        ("size", model.file_size().into()),
        ("loaded", View::Loaded.size(model).into()),
        ("bss", zero.into()),
    ];
    let pruned =
        if model.report.pruned { String::new() } else { format!(", {}", model.report.why_not_pruned()) };
    let (linker, level) = (&model.report.linker.dialect, &model.report.level);
    let what = match model.elf {
        Some(kind) => format!("{} ({})", model.report.output, kind.name()),
        None => format!("{} ({linker}, level {level}{pruned})", model.report.output),
    };
    let (size, zero) = (count(model.file_size().unwrap_or(0)), count(zero));
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

fn grouped(model: &Model, sums: &[AttributedSize], by: GroupBy, total: i64) -> Table {
    let mut table = Table::new("top", "", &["bytes", "%", "atoms", by.column(), "module"]);
    let share = |bytes: i64| Cell::share(bytes, total.unsigned_abs());
    for sum in sums {
        let module = sum.module(model).map(ModuleReport::short).unwrap_or_default();
        table.row(row![Cell::bytes(sum.bytes), share(sum.bytes), sum.atoms, &sum.name, module]);
    }
    let atoms = sums.iter().map(|s| s.atoms).sum::<u64>();
    table.total = Some(row![Cell::bytes(total), share(total), atoms, "total", Cell::Nothing]);
    table.without(if by == GroupBy::Symbol { "atoms" } else { "module" })
}

/// The sections of the file as in `size -A`, and the other parts of the file.
fn sections(model: &Model, view: View) -> Table {
    let total = view.size(model);
    let mut table = Table::new("top", "", &["bytes", "%", "size", "address", "section", "category"]);
    let mut parts: Vec<_> = model.parts().iter().filter(|p| p.what != "padding").collect();
    match view {
        View::Zero => parts.retain(|p| p.category == "bss"),
        View::Loaded => parts.retain(|p| p.loaded),
        View::File => {}
    }
    parts.sort_by(|a, b| b.bytes.cmp(&a.bytes).then(b.size.cmp(&a.size)).then(a.name.cmp(&b.name)));
    let padding: u64 = model.parts().iter().filter(|p| p.what == "padding").map(|p| view.bytes(p)).sum();
    let share = |bytes: u64| Cell::share(bytes as i64, total);
    for part in parts {
        let bytes = view.bytes(part);
        let address = (part.address != 0).then(|| format!("{:#x}", part.address));
        table.row(row![bytes, share(bytes), part.size, address, &part.name, &*part.category]);
    }
    if padding > 0 {
        table.row(row![padding, share(padding), padding, Cell::Nothing, "[padding]", "padding"]);
    }
    table.total = Some(row![total, share(total), Cell::Nothing, Cell::Nothing, "total", Cell::Nothing]);
    table
}

/// How many of the bytes belong to no symbol and no source file, in a sentence.
fn nobody(model: &Model, items: &[Item], total: i64) -> String {
    let is_nobodys = |i: &&Item| i.atom.is_none_or(|a| model.atom(a).symbols.is_empty());
    let bytes = items.iter().filter(is_nobodys).map(|i| i.bytes).sum::<i64>().unsigned_abs();
    let share = bytes as f64 * 100.0 / (total.max(1) as f64);
    format!(
        "{} bytes ({share:.1}%) belong to no symbol. Data without one is counted for the first function or object that refers to it.",
        count(bytes)
    )
}

/// The numbers of the modules and archives of two links, by position; a file of both has one number, see [`matching`].
struct MatchedFiles {
    modules: FileMatching,
    archives: FileMatching,
}

impl MatchedFiles {
    fn new(old: &Model, new: &Model) -> MatchedFiles {
        let modules = |model: &Model| model.report.modules.iter().map(ModuleReport::full).collect::<Vec<_>>();
        MatchedFiles {
            modules: matching::files(&modules(old), &modules(new)),
            archives: matching::files(&archives(old), &archives(new)),
        }
    }
}

/// The archives of a link, each once, by name.
fn archives(model: &Model) -> Vec<String> {
    let mut found: Vec<String> =
        model.report.modules.iter().filter_map(|m| m.archive.as_ref()).cloned().collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// A name, and the number of the file that it is of, if it is of one.
type NameInFile = (String, Option<u32>);

/// The sizes by name and file, each once.
fn named(
    model: &Model,
    files: &MatchedFiles,
    is_old: bool,
    request: &Request,
    view: View,
) -> Result<BTreeMap<NameInFile, i64>> {
    let items = items(model, view)?;
    let list = sums(model, &items, request.by, request.depth.unwrap_or(1));
    let side =
        |matched: &FileMatching, at: usize| if is_old { &matched.old } else { &matched.new }.get(at).copied();
    let archives = archives(model);
    let of = |sum: &AttributedSize| {
        let file = match request.by {
            GroupBy::Symbol | GroupBy::Module => sum.module.and_then(|m| side(&files.modules, m as usize)),
            GroupBy::Archive => archives.binary_search(&sum.name).ok().and_then(|a| side(&files.archives, a)),
            _ => None,
        };
        // The number of a file stands for its name.
        let is_file = request.by != GroupBy::Symbol && file.is_some();
        (if is_file { String::new() } else { sum.name.clone() }, file)
    };
    // The bytes of items with the same name are added.
    let mut found: BTreeMap<NameInFile, i64> = BTreeMap::new();
    for sum in &list {
        *found.entry(of(sum)).or_default() += sum.bytes;
    }
    Ok(found)
}

/// An error if a report says nothing of its file, or the differences don't add up.
pub(crate) fn diff(old: &Model, new: &Model, request: &Request) -> Result<Answer> {
    let files = MatchedFiles::new(old, new);
    let view = View::new(&[old, new], request.has("all"), request.has("bss"));
    let before = named(old, &files, true, request, view)?;
    let after = named(new, &files, false, request, view)?;
    let (old_total, new_total) = (before.values().sum::<i64>(), after.values().sum::<i64>());
    let mut both: BTreeMap<NameInFile, [i64; 2]> = BTreeMap::new();
    for (side, list) in [before, after].into_iter().enumerate() {
        list.into_iter().for_each(|(name, bytes)| both.entry(name).or_default()[side] = bytes);
    }
    let names = if request.by == GroupBy::Archive { &files.archives.names } else { &files.modules.names };
    let mut changes: Vec<(String, String, i64, i64)> = Vec::new();
    for ((name, file), [from, to]) in both {
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
    models: [&Model; 2],
    request: &Request,
    view: View,
) -> Answer {
    let mut table = Table::new("diff", "", &["change", "old", "new", "what", request.by.column(), "module"]);
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
        table.row(row![Cell::Delta(change), Cell::bytes(*from), Cell::bytes(*to), what, name, module]);
    }
    let [old, new] = totals;
    table.total =
        Some(row![Cell::Delta(new - old), Cell::bytes(old), Cell::bytes(new), "", "total", Cell::Nothing]);
    if request.by != GroupBy::Symbol {
        table = table.without("module");
    }
    table.limit(rows(request, ROWS));
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
        .filter(|model| !model.report.pruned && (model.report.dry_run || model.report.not_pruned.is_some()))
    {
        answer.lines.push(format!("{}: {}", model.path, model.report.why_not_pruned()));
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

/// Why something isn't in the program.
const REASONS: [(&str, &str); 6] = [
    ("duplicate", "another module has its COMDAT group; every linker drops it"),
    ("unreachable", "no live atom refers to it; --gc-sections drops it too, if sections are as small"),
    ("unreachable here", "no live atom refers to it; --gc-sections would keep it"),
    ("stub", "only its address is needed: its body was replaced by a trap"),
    ("debug information", "it describes removed code, or the output has no debug information"),
    ("excluded", "no output has it (SHF_EXCLUDE)"),
];

fn reason(atom: &Atom) -> Option<usize> {
    match atom.state {
        AtomState::Kept => None,
        _ if atom.size == 0 => None,
        AtomState::Stub => Some(3),
        AtomState::Dropped if atom.discarded => Some(0),
        AtomState::Dropped if atom.kind == "debug" => Some(4),
        AtomState::Dropped if atom.kind == "non-alloc" && atom.linker_live => Some(5),
        AtomState::Dropped if atom.linker_live => Some(2),
        AtomState::Dropped => Some(1),
    }
}

pub(crate) fn garbage(model: &Model, request: &Request) -> Answer {
    let mut by_reason = [(0u64, 0u64); REASONS.len()];
    let mut items: Vec<Item> = Vec::new();
    for (i, atom) in model.atoms.iter().enumerate() {
        let Some(slot) = reason(atom).and_then(|r| by_reason.get_mut(r)) else { continue };
        slot.0 += atom.size;
        slot.1 += 1;
        // Every linker drops a copy of a COMDAT group.
        if atom.discarded {
            continue;
        }
        divide(atom, i as u32, u32::MAX, atom.size as i64, &mut items);
    }
    let mut reasons = Table::new("reasons", "by reason", &["bytes", "atoms", "reason", "what"]);
    for ((name, what), (bytes, atoms)) in REASONS.iter().zip(by_reason).filter(|r| r.1.1 > 0) {
        reasons.row(row![bytes, atoms, *name, *what]);
    }
    let duplicates = by_reason.first().map_or(0, |r| r.0);
    let total = by_reason.iter().map(|r| r.0).sum::<u64>() - duplicates;
    let mut table = Table::new("garbage", "the largest", &["bytes", "atoms", request.by.column(), "in"]);
    for sum in sums(model, &items, request.by, request.depth.unwrap_or(1)) {
        let module = sum.module(model).map(ModuleReport::short).unwrap_or_default();
        table.row(row![sum.bytes.unsigned_abs(), sum.atoms, sum.name, module]);
    }
    if request.by != GroupBy::Symbol {
        table = table.without("in");
    }
    table.limit(rows(request, ROWS));
    let what = match model.report.pruned {
        true => "were dropped".to_owned(),
        false => format!("would be dropped; {}", model.report.why_not_pruned()),
    };
    let mut answer = Answer::default();
    let more = match duplicates {
        0 => String::new(),
        n => format!("; {} more are copies that no linker takes", count(n)),
    };
    answer.lines.push(format!("{}: {} bytes of input {what}{more}", model.report.output, count(total)));
    answer.facts = vec![
        ("dropped", total.into()),
        ("copies", duplicates.into()),
        ("pruned", model.report.pruned.into()),
    ];
    answer.tables = vec![table, reasons];
    // People read the reasons first.
    answer
        .tables
        .rotate_left(usize::from(request.format == Format::Table || request.format == Format::Markdown));
    answer
}

/// The treatment of copies of an atom by the linker.
fn joined(model: &Model, atom: &Atom) -> &'static str {
    let foldable = matches!(&*atom.kind, "code" | "rodata");
    match &*model.report.linker.icf {
        _ if atom.merge => "merged",
        "all" if foldable => "folded",
        "safe" if foldable => "perhaps folded",
        _ => "",
    }
}

pub(crate) fn duplicates(model: &Model, request: &Request) -> Answer {
    let mut found: Vec<(u64, Vec<u32>)> = Vec::new();
    for group in &model.report.duplicates {
        let placed = |a: &u32| model.atom(*a).placed.is_some();
        let copies: Vec<u32> = group.iter().copied().filter(placed).collect();
        let size = copies.first().map_or(0, |a| model.atom(*a).size);
        if copies.len() > 1 {
            found.push((size.saturating_mul(copies.len() as u64 - 1), copies));
        }
    }
    found.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let columns = ["waste", "copies", "size", "kind", "joined", "symbol", "modules"];
    let mut table = Table::new("duplicates", "", &columns);
    let (mut waste, mut joined_bytes) = (0u64, 0u64);
    for (bytes, copies) in &found {
        let atoms: Vec<&Atom> = copies.iter().map(|a| model.atom(*a)).collect();
        let Some(first) = atoms.first() else { continue };
        let state = joined(model, first);
        let sum = if state.is_empty() { &mut waste } else { &mut joined_bytes };
        *sum = sum.saturating_add(*bytes);
        let mut names: Vec<String> = atoms.iter().map(|a| symbol(model, a)).collect();
        names.dedup();
        let mut modules: Vec<String> = Vec::new();
        for atom in &atoms {
            let module = model.module_name(atom);
            modules.extend((!modules.contains(&module)).then_some(module));
        }
        table.row(row![
            *bytes,
            copies.len() as u64,
            first.size,
            &*first.kind,
            state,
            listed(names),
            listed(modules),
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
fn listed(names: Vec<String>) -> String {
    match first_names(names, 3) {
        (first, 0) => first,
        (first, more) => format!("{first} and {more} more"),
    }
}
