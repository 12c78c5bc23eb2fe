//! The answer: a table of links, with notes below it.

use serde_json::Value;

use super::edits::shown;
use super::laboratory::{Laboratory, LinkFailure, LinkMeasure};
use super::search::LinkTrial;
use crate::audit::table::{Answer, Cell, Format, Table, count};

/// Flags of so many bytes are shown whole on a screen of 80 columns, if sizes have seven digits.
const UNCUT_FLAGS: usize = 35;

/// Rows in the order of the table.
struct AdviceRow<'t> {
    name: &'t str,
    flags: String,
    result: &'t Result<LinkMeasure, LinkFailure>,
    notes: Vec<String>,
    /// Its output may take the place of the link as it is.
    is_good: bool,
}

/// The table of a link and its experiments. On a narrow screen flags may be cut, and are then in a note.
pub(super) fn answer(
    laboratory: &Laboratory,
    linker: &str,
    base: &LinkMeasure,
    trials: &[LinkTrial],
    format: Format,
    is_narrow: bool,
) -> Answer {
    let link = &laboratory.link;
    let size = base.facts.size();
    let is_idle = |trial: &LinkTrial| {
        let is_same = |l: &LinkMeasure| l.facts.size() == size && l.test.is_none();
        trial.differences.is_empty() && trial.result.as_ref().is_ok_and(is_same)
    };
    let as_given = Ok(base.clone());
    let mut rows = vec![AdviceRow {
        name: "as-given",
        flags: String::new(),
        result: &as_given,
        notes: Vec::new(),
        is_good: true,
    }];
    let mut idle = Vec::new();
    for trial in trials {
        let flags = shown(link, &trial.variant.edits);
        // Programs find each link in the rows.
        if is_idle(trial) && format == Format::Table {
            idle.push(flags);
            continue;
        }
        rows.push(AdviceRow {
            name: &trial.variant.name,
            flags,
            result: &trial.result,
            notes: notes(trial, base),
            is_good: trial.good().is_some(),
        });
    }
    rows.sort_by_key(|row| row.result.as_ref().map_or((true, (0, 0)), |link| (false, link.facts.size())));
    let is_better =
        |row: &&AdviceRow<'_>| row.is_good && row.result.as_ref().is_ok_and(|link| link.facts.size() < size);
    let best = rows.iter().find(is_better);
    let mut answer = Answer::default();
    let mut below: Vec<String> = Vec::new();
    answer.tables.push(table(&rows, format, is_narrow, &mut below));
    answer.notes = below;
    if format == Format::Table {
        answer.lines = vec![
            format!("{}, linked by {linker}, smallest first.", link.output_name().display()),
            "loaded: bytes that PT_LOAD segments take from the file; memory: their size in".to_owned(),
            "memory; s: seconds of the link (median); flags: added at the end of the command.".to_owned(),
        ];
        closing(&mut answer, best, base, idle);
    }
    answer.facts.push(("output", Value::from(link.output_name().to_string_lossy())));
    answer.facts.push(("linker", Value::from(linker)));
    answer.facts.push(("runs", Value::from(laboratory.runs())));
    answer.facts.push(("best", best.map_or(Value::Null, |row| Value::from(row.name))));
    answer
}

/// The notes of a row: why it failed, what differs, what is larger.
fn notes(trial: &LinkTrial, base: &LinkMeasure) -> Vec<String> {
    let link = match &trial.result {
        Err(failure) => return vec![format!("fails: {}", failure.line)],
        Ok(link) => link,
    };
    let mut notes: Vec<String> = link.test.iter().map(|why| format!("the test fails: {why}")).collect();
    notes.extend(trial.differences.iter().cloned());
    notes.extend(link.facts.losses(&base.facts));
    let (new, old) = (link.facts.size(), base.facts.size());
    if new > old {
        let larger = if new.0 > old.0 { "larger" } else { "a larger file" };
        notes.push(larger.to_owned());
    }
    notes
}

/// The table. For people a note is a number in it and a line below.
fn table(rows: &[AdviceRow<'_>], format: Format, is_narrow: bool, below: &mut Vec<String>) -> Table {
    let is_for_people = format == Format::Table;
    let columns: &[&'static str] = match is_for_people {
        true => &["loaded", "memory", "file", "s", "flags", "note"],
        false => &["loaded", "memory", "file", "seconds", "flags", "note", "row"],
    };
    let mut table = Table::new("links", "", columns);
    for row in rows {
        let mut cells = match row.result {
            Ok(link) => {
                let facts = &link.facts;
                let sizes = [facts.loaded, facts.memory, facts.file].map(Cell::Number);
                sizes.into_iter().chain([Cell::Seconds(link.time)]).collect()
            }
            Err(_) => vec![Cell::Nothing; 4],
        };
        let cut = (is_narrow && row.flags.len() > UNCUT_FLAGS).then_some(&row.flags);
        let note = cut.into_iter().chain(&row.notes).map(String::as_str).collect::<Vec<_>>().join("; ");
        cells.push(Cell::text(if row.flags.is_empty() && is_for_people { "(as it is)" } else { &row.flags }));
        if !is_for_people {
            cells.extend([Cell::text(note), Cell::text(row.name)]);
        } else if note.is_empty() {
            cells.push(Cell::Nothing);
        } else {
            let known =
                below.iter().position(|line| line.split_once(": ").is_some_and(|(_, text)| text == note));
            let number = known.unwrap_or(below.len()) + 1;
            if known.is_none() {
                below.push(format!("({number}): {note}"));
            }
            cells.push(Cell::text(format!("({number})")));
        }
        table.row(cells);
    }
    table
}

/// The lines for people behind the table.
fn closing(answer: &mut Answer, best: Option<&AdviceRow<'_>>, base: &LinkMeasure, idle: Vec<String>) {
    if !answer.notes.is_empty() {
        answer.notes.push(String::new());
    }
    match best.and_then(|row| Some((row, row.result.as_ref().ok()?))) {
        Some((row, link)) => {
            let saved = |new: u64, old: u64| {
                format!("{:+.1}%", (new as f64 - old as f64) * 100.0 / old.max(1) as f64)
            };
            answer.notes.push(format!(
                "Best: {} of {} loaded bytes ({}), file {}:",
                count(link.facts.loaded),
                count(base.facts.loaded),
                saved(link.facts.loaded, base.facts.loaded),
                saved(link.facts.file, base.facts.file),
            ));
            answer.notes.push(format!("  {}", row.flags));
        }
        None => answer.notes.push("Best: the link as it is.".to_owned()),
    }
    let has_shims = answer.tables.iter().flat_map(|t| &t.rows).flatten();
    if { has_shims }.any(|cell| matches!(cell, Cell::Text(text) if text.contains("SHIMS"))) {
        answer.notes.push("SHIMS is a folder that `lto-prune install-shims SHIMS` makes.".to_owned());
    }
    if !idle.is_empty() {
        answer.notes.push(format!("No gain: {}.", idle.join(", ")));
    }
}
