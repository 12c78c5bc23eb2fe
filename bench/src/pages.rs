//! `bench pages`: whether the page of `lto-prune audit html` is right about its data, and how fast it is, in a browser.
//!
//! Each link is made pruned and plain, and its page of both is opened in Chromium without a screen, where the page checks
//! itself (`#selfcheck`): sums, areas, search, keys, paths, and that it asked for no other file. Then so a report that is made up, of
//! 100,000 symbols. Times are the page's own clock; other load on the machine is in them.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::corpus::{Corpus, Link, find_linker};
use crate::process::run_ok;
use crate::table::{Table, count, publish_good};
use crate::{Options, Result};

/// Symbols of the report that is made up, and its modules and archives.
const SYMBOLS: u64 = 100_000;
const MODULES: u64 = 1_000;
const ARCHIVES: u64 = 40;

/// What the page measures, in the order of the table.
const TIMES: [&str; 6] = ["group", "draw", "zoom", "search", "reveal", "why"];
/// Milliseconds in which it answers, and in which it opens.
const LONGEST: f64 = 1000.0;
const LONGEST_START: f64 = 4000.0;

/// Link `link` at `level` with a report in `folder`.
fn linked(corpus: &Corpus, link: &Link, dir: &Path, folder: &str, level: &str) -> Result<()> {
    let ours = dir.join("ld.lto-prune");
    if !ours.exists() {
        std::os::unix::fs::symlink(&corpus.pruner, &ours)?;
    }
    std::fs::create_dir_all(dir.join(folder))?;
    let mut command = corpus.linker_command(link, &ours, &dir.join(folder).join("out"));
    command.env("LTO_PRUNE_LINKER", find_linker("lld")?).env_remove("LTO_PRUNE_FLAGS");
    command.arg(format!("--prune-level={level}"));
    command.arg(format!("--prune-report={}", dir.join(folder).join("report.json").display()));
    run_ok(&mut command, dir)?;
    Ok(())
}

/// Numbers that look random and are the same each time.
struct KnuthStream(u64);

impl KnuthStream {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end.max(1)
    }
}

/// A report with many symbols: a tree of calls, with more calls across.
fn made_up(sizes: u64) -> Value {
    let mut numbers = KnuthStream(sizes);
    let mangled = |i: u64| {
        let names = [format!("space{}", i % 50), format!("Class{}", i % 1700), format!("function{i}")];
        format!("_ZN{}Ev", names.iter().map(|n| format!("{}{n}", n.len())).collect::<String>())
    };
    let (mut atoms, mut symbols, mut text) = (Vec::new(), Vec::new(), 0);
    let (mut start, mut target) = (vec![0], Vec::new());
    for i in 0..SYMBOLS {
        let size = 16 + numbers.below(40) * numbers.below(40);
        text += size;
        let name = if i == 0 { "main".to_owned() } else { mangled(i) };
        atoms.push(json!({
            "module": i * MODULES / SYMBOLS, "section": format!(".text.{name}"), "section_index": 5, "offset": 0,
            "kind": "code", "size": size, "state": "kept", "discarded": false, "merge": false,
            "linker_live": true, "symbols": [name]
        }));
        symbols.push(json!({ "atom": i, "size": size }));
        let mut calls: Vec<u64> = (i * 3 + 1..=i * 3 + 3).filter(|t| *t < SYMBOLS).collect();
        calls.extend((0..3).map(|_| numbers.below(SYMBOLS)).filter(|t| *t != i));
        calls.sort_unstable();
        calls.dedup();
        target.extend(calls);
        start.push(target.len());
    }
    let edges = target.len();
    let module =
        |m: u64| json!({ "name": format!("file{m}.o"), "archive": format!("lib{}.a", m % ARCHIVES) });
    let part = |name: &str, what: &str, category: &str, bytes: u64| json!({ "name": name, "what": what, "category": category, "address": 0, "size": bytes, "bytes": bytes });
    json!({
        "schema": 2, "output": "made-up", "level": "functions", "pruned": true,
        "linker": { "dialect": "lld", "gc_sections": true, "icf": "none" },
        "modules": (0..MODULES).map(module).collect::<Vec<_>>(), "atoms": atoms, "symbols": symbols, "limits": [],
        "roots": [{ "atom": 0, "reason": "entry", "symbol": "main" }],
        "graph": { "kinds": ["call"], "start": start, "target": target, "kind": vec![0; edges],
            "offset": vec![7; edges], "count": vec![1; edges], "flags": vec![1; edges] },
        "duplicates": [],
        "file": { "size": text + 4096, "parts": [part("ELF header", "header", "headers", 4096),
            part(".text", "section", "text", text)] },
        "value_flow": null
    })
}

/// Make the page of the reports in `dir` and have it check itself; the cells of its row.
fn page(corpus: &Corpus, options: &Options, dir: &Path, name: &str) -> Result<Vec<String>> {
    let mut command = Command::new(&corpus.pruner);
    let words = ["audit", "html", "--old=old/report.json", "-o", "page.html", "new/report.json"];
    let made = run_ok(command.args(words).current_dir(dir), dir)?;
    let file = std::fs::canonicalize(dir.join("page.html"))?;
    let mut best: Option<Value> = None;
    for _ in 0..options.runs.clamp(1, 3) {
        let found = opened(dir, &file)?;
        let failures = found["failures"].as_array().ok_or("the page did not check itself")?;
        if !failures.is_empty() {
            return Err(format!("the page is wrong: {failures:?}").into());
        }
        best = Some(match best {
            Some(best) => lesser(best, &found),
            None => found,
        });
    }
    let best = best.ok_or("the page was not opened")?;
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let mut cells = vec![name.to_owned(), count(number(&best["items"])), count(number(&best["atoms"]))];
    cells.push(count(std::fs::metadata(&file)?.len()));
    cells.push(format!("{:.0}", made.cpu.as_secs_f64() * 1e3));
    let loaded = best["loaded"].as_f64().ok_or("the page does not say when it was open")?;
    let answers = TIMES.iter().map(|t| best["times"][t].as_f64().ok_or(format!("the page did not time {t}")));
    let answers = answers.collect::<std::result::Result<Vec<_>, _>>()?;
    if loaded > LONGEST_START || answers.iter().any(|t| *t > LONGEST) {
        return Err(format!("the page opens in {loaded:.0} ms and answers in {answers:?}").into());
    }
    cells.extend([loaded].iter().chain(&answers).map(|t| format!("{t:.0}")));
    Ok(cells)
}

/// The lesser time of two runs, each.
fn lesser(mut one: Value, two: &Value) -> Value {
    let least =
        |a: &Value, b: &Value| json!(a.as_f64().unwrap_or(f64::MAX).min(b.as_f64().unwrap_or(f64::MAX)));
    one["loaded"] = least(&one["loaded"], &two["loaded"]);
    for time in TIMES {
        one["times"][time] = least(&one["times"][time], &two["times"][time]);
    }
    one
}

/// What the page says of itself in a browser.
fn opened(dir: &Path, file: &Path) -> Result<Value> {
    let mut command = Command::new("chromium");
    // As root it has no sandbox of its own.
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1400,1000", "--dump-dom"]);
    command.arg(format!("--user-data-dir={}", dir.join("profile").display()));
    command.arg(format!("file://{}#selfcheck", file.display()));
    run_ok(&mut command, dir)?;
    let text = String::from_utf8_lossy(&std::fs::read(dir.join("stdout"))?).into_owned();
    let inside = text.split_once("<pre id=\"selfcheck\">").and_then(|t| t.1.split_once("</pre>"));
    let inside = inside.ok_or("the page did not check itself")?.0;
    Ok(serde_json::from_str(&inside.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))?)
}

fn measure(corpus: &Corpus, options: &Options, link: &Link) -> Result<Vec<String>> {
    let dir = corpus.scratch(&format!("pages/{}-{}", link.program, link.mode))?;
    linked(corpus, link, &dir, "new", &options.level)?;
    linked(corpus, link, &dir, "old", "off")?;
    page(corpus, options, &dir, &link.name())
}

/// The page of two reports that are made up.
fn measure_made_up(corpus: &Corpus, options: &Options) -> Result<Vec<String>> {
    let dir = corpus.scratch("pages/made-up")?;
    for (folder, seed) in [("old", 1), ("new", 2)] {
        std::fs::create_dir_all(dir.join(folder))?;
        std::fs::write(dir.join(folder).join("report.json"), serde_json::to_vec(&made_up(seed))?)?;
    }
    page(corpus, options, &dir, "made up")
}

/// The command. True if every page is right.
pub(crate) fn run(corpus: &Corpus, options: &Options) -> Result<bool> {
    let mut columns = vec!["page", "lines", "symbols that live", "bytes", "made, ms", "open, ms"];
    let names: Vec<String> = TIMES.iter().map(|t| format!("{t}, ms")).collect();
    columns.extend(names.iter().map(String::as_str));
    let mut table = Table::new(&columns);
    let mut good = table.links(corpus, |link| measure(corpus, options, link));
    eprintln!("made up");
    match measure_made_up(corpus, options) {
        Ok(cells) => table.row(&cells),
        Err(e) => {
            eprintln!("made up: {e}");
            good = false;
        }
    }
    let body = format!(
        "`lto-prune audit html` of each link, plain before and at `--prune-level={}` after, and of two reports of {} symbols that \
         are made up, opened in Chromium without a screen. Each page finds its sums, areas, search, keys and paths right. `made` is \
         processor time of the command; the others are of the page's own clock, least of {} times: until its map is drawn, and the \
         longest of grouping anew, drawing, zooming, searching, showing what was found, and saying what keeps the symbol that \
         retains most.\n\n{}",
        options.level,
        count(SYMBOLS),
        options.runs.clamp(1, 3),
        table.as_str()
    );
    publish_good(good, corpus, options, "pages", "The page of an audit in a browser", &body)
}
