//! The experiments of a link, the search over their combinations, and the answer: a table of links, with notes below it.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::command::LinkCommand;
use super::edits::{Edit, exports, shown};
use super::laboratory::{Ended, Laboratory, LinkFailure, LinkMeasure, LinkedFacts};
use crate::args::{Environment, linker};
use crate::audit::table::{Answer, Cell, Format, Table, count, row};
use crate::config::Flavor;
use crate::error::Result;

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
    let size = base.facts.sizes();
    let is_idle = |trial: &LinkTrial| {
        let is_same = |l: &LinkMeasure| l.facts.sizes() == size && l.test.is_none();
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
    rows.sort_by_key(|row| row.result.as_ref().map_or((true, (0, 0)), |link| (false, link.facts.sizes())));
    let is_better =
        |row: &&AdviceRow<'_>| row.is_good && row.result.as_ref().is_ok_and(|link| link.facts.sizes() < size);
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
    let (new, old) = (link.facts.sizes(), base.facts.sizes());
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
        cells.push(Cell::from(if row.flags.is_empty() && is_for_people {
            "(as it is)"
        } else {
            row.flags.as_str()
        }));
        if !is_for_people {
            cells.extend(row![note, row.name]);
        } else if note.is_empty() {
            cells.push(Cell::Nothing);
        } else {
            let known =
                below.iter().position(|line| line.split_once(": ").is_some_and(|(_, text)| text == note));
            let number = known.unwrap_or(below.len()) + 1;
            if known.is_none() {
                below.push(format!("({number}): {note}"));
            }
            cells.push(format!("({number})").into());
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

/// A link that was made, or failed.
#[derive(Debug)]
pub(super) struct LinkTrial {
    pub(super) variant: Variant,
    pub(super) result: Result<LinkMeasure, LinkFailure>,
    /// Differences that other files can see: [`LinkedFacts::differences`].
    pub(super) differences: Vec<String>,
}

impl LinkTrial {
    fn new(variant: Variant, result: Result<LinkMeasure, LinkFailure>, base: &LinkedFacts) -> LinkTrial {
        let differences = result.as_ref().map_or(Vec::new(), |link| link.facts.differences(base));
        LinkTrial { variant, result, differences }
    }

    /// The sizes of an output that may take the place of the link as it is.
    pub(super) fn good(&self) -> Option<(u64, u64)> {
        let link = self.result.as_ref().ok().filter(|link| link.test.is_none())?;
        self.differences.is_empty().then(|| link.facts.sizes())
    }
}

/// Make the links of all variants, and those of the combinations.
pub(super) fn run(
    laboratory: &Laboratory,
    base: &LinkedFacts,
    variants: Vec<Variant>,
) -> Result<Vec<LinkTrial>, Ended> {
    let mut trials = Vec::new();
    let count = variants.len();
    for (number, variant) in variants.into_iter().enumerate() {
        progress(laboratory, &format!("row {} of {count}", number + 1), &variant.edits);
        let result = laboratory.link(&variant.name, &variant.edits, laboratory.runs())?;
        trials.push(LinkTrial::new(variant, result, base));
    }
    let combined = combine(laboratory, base, &trials)?;
    let mut combinations = Vec::new();
    combinations.push(("combined", combined.clone()));
    let kept: Vec<Edit> = combined.iter().filter(|edit| !edit.is_strip()).cloned().collect();
    if kept.len() < combined.len() {
        combinations.push(("combined-with-symbols", kept));
    }
    for (name, edits) in combinations {
        // One that is a row already was measured.
        if edits.is_empty() || trials.iter().any(|trial| trial.variant.edits == edits) {
            continue;
        }
        progress(laboratory, "a combination", &edits);
        let result = laboratory.link(name, &edits, laboratory.runs())?;
        trials.push(LinkTrial::new(Variant { name: name.to_owned(), edits }, result, base));
    }
    Ok(trials)
}

/// The edits of the rows that saved bytes alone, without those that save none behind the ones before them.
fn combine(laboratory: &Laboratory, base: &LinkedFacts, trials: &[LinkTrial]) -> Result<Vec<Edit>, Ended> {
    let gained = |trial: &&LinkTrial| trial.good().is_some_and(|size| size < base.sizes());
    let mut candidates: Vec<&LinkTrial> = trials.iter().filter(gained).collect();
    candidates.sort_by_key(|trial| trial.good());
    let mut edits: Vec<Edit> = Vec::new();
    let mut best = base.sizes();
    for candidate in candidates {
        let new: Vec<Edit> =
            candidate.variant.edits.iter().filter(|edit| !edits.contains(edit)).cloned().collect();
        let is_second_linker = new.iter().any(Edit::is_linker) && edits.iter().any(Edit::is_linker);
        if new.is_empty() || is_second_linker {
            continue;
        }
        let together = [edits.clone(), new].concat();
        let size = match edits.is_empty() {
            // It was measured.
            true => candidate.good(),
            false => {
                progress(laboratory, "together", &together);
                let result = laboratory.link("together", &together, 1)?;
                let variant = Variant { name: String::new(), edits: together.clone() };
                LinkTrial::new(variant, result, base).good()
            }
        };
        if let Some(size) = size.filter(|size| *size < best) {
            best = size;
            edits = together;
        }
    }
    Ok(edits)
}

/// A line on a terminal, since links may take long.
fn progress(laboratory: &Laboratory, what: &str, edits: &[Edit]) {
    if std::io::stderr().is_terminal() {
        eprintln!("advise: {what}: {}", shown(&laboratory.link, edits));
    }
}

/// A row of the table: its name, which is also that of its folder, and its edits.
#[derive(Debug, Clone)]
pub(super) struct Variant {
    pub(super) name: String,
    pub(super) edits: Vec<Edit>,
}

/// Facts of the link as it is; variants depend on them.
#[derive(Debug)]
pub(super) struct LinkSituation<'a> {
    pub(super) link: &'a LinkCommand,
    pub(super) flavor: Option<Flavor>,
    pub(super) facts: &'a LinkedFacts,
    // lto-prune links it already.
    pub(super) is_pruned: bool,
}

/// Options that every link may take.
const WORDS: &[(&str, &[&str])] = &[
    ("gc-sections", &["--gc-sections"]),
    ("relative-relocs", &["-z", "pack-relative-relocs"]),
    ("hash-style", &["--hash-style=gnu"]),
    ("noseparate-code", &["-z", "noseparate-code"]),
    ("optimize", &["-O2"]),
];
// Options for debug information.
const DEBUG_WORDS: &[(&str, &[&str])] = &[
    ("strip-debug", &["--strip-debug"]),
    ("compress-zstd", &["--compress-debug-sections=zstd"]),
    ("compress-zlib", &["--compress-debug-sections=zlib"]),
];
const PRUNE_WORDS: &[(&str, &[&str])] =
    &[("unwind", &["--prune-unwind=unused"]), ("debug", &["--prune-debug=shrink"])];
const ICF: &[&str] = &["--icf=safe"];

// The experiments for a link.
pub(super) fn variants(situation: &LinkSituation<'_>, env: &Environment<'_>) -> Vec<Variant> {
    let LinkSituation { link, flavor, facts, is_pruned } = *situation;
    let mut out = Vec::new();
    let mut add = |name: &str, edits: Vec<Edit>| out.push(Variant { name: name.to_owned(), edits });
    let is_new = |words: &&(&str, &'static [&'static str])| !link.has(words.1);
    for (name, words) in WORDS.iter().filter(is_new) {
        add(name, vec![Edit::Words(words)]);
    }
    if facts.has_debug {
        for (name, words) in DEBUG_WORDS.iter().filter(is_new) {
            add(name, vec![Edit::Words(words)]);
        }
    }
    if facts.has_symbols {
        add("strip", vec![Edit::Words(&["-s"])]);
    }
    if exports(link).next().is_some() {
        add("no-export-dynamic", vec![Edit::NoExportDynamic]);
    }
    let prune = || if is_pruned { Vec::new() } else { vec![Edit::LtoPrune] };
    if !is_pruned {
        add("lto-prune", prune());
    }
    for (name, words) in
        PRUNE_WORDS.iter().filter(is_new).filter(|(name, _)| *name != "debug" || facts.has_debug)
    {
        add(&format!("lto-prune-{name}"), [prune(), vec![Edit::Words(words)]].concat());
    }
    if flavor.is_some_and(folds) && !link.has(ICF) {
        add("icf", vec![Edit::Words(ICF)]);
    }
    for other in installed(env).into_iter().filter(|other| Some(other.0) != flavor) {
        let name = other.0.name();
        let edit = Edit::Linker(other.0, other.1);
        add(name, vec![edit.clone()]);
        if folds(other.0) && !link.has(ICF) {
            add(&format!("{name}-icf"), vec![edit, Edit::Words(ICF)]);
        }
    }
    out
}

// Whether a linker has `--icf=safe`.
fn folds(flavor: Flavor) -> bool {
    matches!(flavor, Flavor::Lld | Flavor::Gold | Flavor::Mold)
}

// The linkers that `PATH` has.
fn installed(env: &Environment<'_>) -> Vec<(Flavor, PathBuf)> {
    let lookup = |name: &str| (name == "PATH").then(|| env.get(name)).flatten();
    let env = Environment::new(&lookup);
    let named = [
        (Flavor::Bfd, Some("bfd")),
        (Flavor::Gold, Some("gold")),
        (Flavor::Lld, None),
        (Flavor::Mold, Some("mold")),
        (Flavor::Wild, Some("wild")),
    ];
    let find = |(flavor, name): (Flavor, Option<&str>)| {
        let found = linker::choose(name.map(Path::new), None, &env).ok()?;
        let path = if flavor == Flavor::Lld { unversioned(found.path) } else { found.path };
        (found.flavor == flavor).then_some((flavor, path))
    };
    named.into_iter().filter_map(find).collect()
}

/// The file `ld.lld` that a link such as `ld.lld-19` leads to, since gcc knows that name alone.
fn unversioned(path: PathBuf) -> PathBuf {
    let mut at = path.clone();
    // A chain of links is short; one without an end has no file.
    for _ in 0..8 {
        if at.file_name().is_some_and(|name| name == "ld.lld") {
            return at
                .parent()
                .and_then(|folder| folder.canonicalize().ok())
                .map_or(path, |f| f.join("ld.lld"));
        }
        let Ok(target) = at.read_link() else { return path };
        at = at.parent().unwrap_or(Path::new("")).join(target);
    }
    path
}
