//! `--prune-stats`: three lines on the terminal, or with `full` the table of sizes, every reason and every limit.
//!
//! A reason for kept code, for a link that was not pruned, or for skipped analysis has one action. A number of bytes is exact, or an upper
//! bound, and then "at most". No gain is promised that was not computed.

use summaries::{Limit, Severity};

use super::accounting::{CategoryTotal, LiveCode};
use super::names::{Facts, NotDone};
use super::schema::{LimitReport, Report, UnwindReport};
use crate::config::{Config, Level, OutputKind, Stats};
use crate::gate;
use crate::pruned_link::PruneOutcome;
use crate::terminal::printable;

/// A number with separators: 1234567 is `1,234,567`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// The first names of a list in one line, and how many there are more.
pub fn first_names(names: impl IntoIterator<Item = String>, most: usize) -> (String, usize) {
    let mut names: Vec<String> = names.into_iter().collect();
    let more = names.len().saturating_sub(most);
    names.truncate(most);
    (names.join(", "), more)
}

/// The text of the statistics, with a trailing newline.
pub(super) fn stats(report: &Report, config: &Config, stats: Stats) -> String {
    if !report.analysed {
        let why = report.not_pruned.as_deref().unwrap_or("not analysed");
        return format!("{}  not pruned: {}\n", loaded(report), printable(why));
    }
    let reasons = reasons(report, config);
    match stats {
        Stats::Short => short(report, config, &reasons),
        Stats::Full => full(report, &reasons),
    }
}

/// The loaded bytes, with and without pruning.
fn loaded(report: &Report) -> String {
    let (output, removed) = (report.loaded.output, report.loaded.removed);
    let plain = output.map(|output| if report.pruned { output.saturating_add(removed) } else { output });
    let bytes = match (output, plain) {
        (Some(output), Some(plain)) if removed > 0 => {
            let percent = removed.min(plain) as f64 * 100.0 / plain.max(1) as f64;
            match report.pruned {
                true => format!(
                    "{} bytes loaded, about {} without pruning (-{percent:.1}%)",
                    count(output),
                    count(plain)
                ),
                false => format!(
                    "{} bytes loaded, about {} if pruned (-{percent:.1}%)",
                    count(output),
                    count(plain.saturating_sub(removed))
                ),
            }
        }
        (None, _) if report.linked == "failed" => "the link failed".to_owned(),
        (None, _) if report.linked == "not-run" => "not linked".to_owned(),
        (Some(output), _) if !report.analysed => format!("{} bytes loaded", count(output)),
        (None, _) if !report.analysed => "loaded bytes unknown".to_owned(),
        (Some(output), _) => format!("{} bytes loaded, as many as without pruning", count(output)),
        (None, _) => format!("loaded bytes unknown, about {} less by pruning", count(removed)),
    };
    format!("lto-prune: {}: {bytes}\n", printable(&report.output))
}

fn short(report: &Report, config: &Config, reasons: &[Reason]) -> String {
    let mut reasons = reasons.iter();
    let kept = match (&report.unpruned, reasons.as_slice().first()) {
        (Some(unpruned), _) => format!("not pruned: {}", printable(&unpruned.sentence())),
        (None, Some(reason)) => {
            reasons.next();
            format!("kept: {}", printable(&reason.sentence()))
        }
        (None, None) => {
            let action = audit(config, "top", "lists the largest");
            format!("kept: {} bytes of code, all of them needed; {action}", count(report.live_code.live))
        }
    };
    let unused = report.unwind.as_ref().filter(|unwind| unwind.mode == "keep" && unwind.bytes > 0);
    let more = match (unused, reasons.next()) {
        (Some(unwind), _) => {
            format!(
                "{} bytes of unwind entries that nothing needs; link with --prune-unwind=unused",
                count(unwind.bytes)
            )
        }
        (None, Some(reason)) => printable(&reason.sentence()).into_owned(),
        (None, None) => "no option removes more".to_owned(),
    };
    format!("{}  {kept}\n  more: {more}\n", loaded(report))
}

fn full(report: &Report, reasons: &[Reason]) -> String {
    let mut out = loaded(report);
    if let Some(unpruned) = &report.unpruned {
        out += &format!("not pruned: {}\n", printable(&unpruned.sentence()));
    }
    let (pruned, are_pruned) =
        if report.dry_run { ("would be", "would be pruned") } else { ("pruned", "pruned") };
    let totals = &report.totals;
    out += &format!("{:<14} {:>14} {:>14} {:>14}\n", "input bytes", "plain", pruned, "difference");
    let mut row = |name, plain, pruned, difference: i64| {
        let sign = if difference > 0 { "-" } else { "" };
        let difference = format!("{sign}{}", count(difference.unsigned_abs()));
        out += &format!("{name:<14} {:>14} {:>14} {difference:>14}\n", count(plain), count(pruned));
    };
    for CategoryTotal { category, plain, pruned, difference } in
        totals.categories.iter().chain(&totals.groups)
    {
        row(*category, *plain, *pruned, *difference);
    }
    row("total", totals.plain, totals.pruned, totals.difference);
    let number = |n: usize| count(n as u64);
    let touched = report.modules.iter().filter(|m| m.status != "untouched").count();
    let functions = report.functions;
    out += &format!(
        "functions: {} live, {} stubs, {} dead; modules: {}, {} {are_pruned}\n",
        number(functions.live),
        number(functions.stubs),
        number(functions.dead),
        number(report.modules.len()),
        number(touched)
    );
    for reason in reasons {
        out += &format!("kept: {}\n", printable(&reason.sentence()));
    }
    if let Some(UnwindReport { mode, functions, bytes, why, .. }) = &report.unwind {
        let what = if mode == "keep" { "--prune-unwind=unused would remove" } else { "removed" };
        out +=
            &format!("unwind entries: {what} {} bytes of {} functions\n", count(*bytes), count(*functions));
        if let Some(why) = why {
            out += &format!("unwind entries are kept: {}\n", printable(why));
        }
    }
    if let Some(why) = &report.not_analysed {
        out += &format!("addresses were not analysed: {}\n", printable(&why.sentence()));
    }
    for limit in report.limits.iter().filter(|limit| !limit.is_of_start_files()) {
        let places = limit.count - limit.start_files;
        let bytes = limit.bytes - limit.start_file_bytes;
        let bytes = if bytes > 0 { format!(", {} bytes", count(bytes)) } else { String::new() };
        let (limit_name, severity) = (&limit.limit, &limit.severity);
        let plural = if places == 1 { "" } else { "s" };
        out += &format!("limit {limit_name} ({severity}): {} place{plural}{bytes}, first: ", count(places));
        if let Some(module) = &limit.module {
            out += &format!("{}: ", printable(module));
        }
        out += &format!("{}; {}\n", printable(&limit.detail), limit.lifted_by);
    }
    out
}

/// Why the output was linked from the originals; `None` if it was not. `given` is the reason if the link wanted to prune.
pub(super) fn not_pruned(facts: Facts<'_>, outcome: &PruneOutcome, given: Option<&str>) -> Option<NotDone> {
    if outcome.linked {
        return None;
    }
    let forbids = facts.limits.iter().find(|(_, l)| l.limit.severity() == Severity::Link);
    if let Some((module, record)) = forbids {
        let reason = gate::sentence(facts.inputs, *module, record);
        return Some(NotDone::new(reason, action(facts.config, record.limit)));
    }
    if facts.config.prune.off {
        return Some(NotDone::new("--prune-level=off", "link without --prune-level=off"));
    }
    if let Some(reason) = given {
        return Some(NotDone::new(
            reason,
            "report this link, with the file that --prune-repro=FILE.tar writes",
        ));
    }
    let reason = match facts.config.gc_sections {
        true => "the linker's own --gc-sections removes as much",
        false => "nothing can be removed",
    };
    Some(NotDone { reason: reason.to_owned(), action: None })
}

/// The action for a limit in a link with this line.
fn action(config: &Config, limit: Limit) -> &'static str {
    match limit {
        Limit::RelocatableOutput if config.output_kind == OutputKind::Relocatable => {
            "prune the link that takes this output as an input"
        }
        Limit::RelocatableOutput if config.gc_sections => "name a level, such as --prune-level=functions",
        limit => limit.lifted_by(),
    }
}

/// Why the values of addresses were not analysed; `None` if they were.
pub(super) fn not_analysed(report: &Report, config: &Config) -> Option<NotDone> {
    if report.value_flow.is_some() {
        return None;
    }
    let (prune, code) = (&config.prune, report.live_code);
    if prune.level != Level::Pointers {
        let reason = format!("--prune-level={} does not analyse addresses", report.level);
        return Some(NotDone::new(reason, "link with --prune-level=pointers"));
    }
    if code.by_mentions == 0 {
        let reason = "no code is kept only because its address is taken".to_owned();
        return Some(NotDone { reason, action: None });
    }
    if code.live > prune.budget() {
        let reason = format!(
            "{} bytes of live code are more than the {} that --prune-budget allows",
            count(code.live),
            count(prune.budget())
        );
        let action = match prune.budget {
            Some(_) => "link with a larger --prune-budget",
            None => "link with --prune-level=pointers, which takes any size",
        };
        return Some(NotDone::new(reason, action));
    }
    if code.by_mentions.saturating_mul(100) < code.live.saturating_mul(prune.threshold().into()) {
        let reason = format!(
            "only {} of {} bytes of live code are kept because their address is taken, less than --prune-gate={}%",
            count(code.by_mentions),
            count(code.live),
            prune.threshold()
        );
        return Some(NotDone::new(reason, "link with --prune-gate=0"));
    }
    let of_severity = |severity: &str| report.limits.iter().find(|limit| limit.severity == severity);
    let limit = of_severity("values").or_else(|| of_severity("module"));
    Some(match limit {
        Some(limit) => NotDone::new(first_place(limit), &limit.lifted_by),
        None => NotDone { reason: "a function could not be summarised".to_owned(), action: None },
    })
}

/// The module and the detail of the first place of a limit.
fn first_place(limit: &LimitReport) -> String {
    let module = limit.module.as_ref().map(|module| format!("{module}: ")).unwrap_or_default();
    format!("{module}{} ({})", limit.detail, limit.limit)
}

/// A reason that keeps code, with the bytes that it keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reason {
    pub(super) bytes: u64,
    /// Whether the bytes are an upper bound.
    pub(super) at_most: bool,
    /// The word for them is `code` or `data`.
    pub(super) kind: &'static str,
    pub(super) what: String,
    pub(super) action: String,
}

impl Reason {
    pub(super) fn sentence(&self) -> String {
        let at_most = if self.at_most { "at most " } else { "" };
        let Reason { bytes, kind, what, action, .. } = self;
        format!("{at_most}{} bytes of {kind} {what}; {action}", count(*bytes))
    }
}

/// The reasons that keep code or data without need, the largest first.
pub(super) fn reasons(report: &Report, config: &Config) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let mut add = |bytes: u64, at_most: bool, what: String, action: String| {
        if bytes > 0 {
            reasons.push(Reason { bytes, at_most, kind: "code", what, action });
        }
    };
    let LiveCode { by_mentions, start_file_mentions, by_exports, by_limits, .. } = report.live_code;
    let by_exports = if config.output_kind == OutputKind::Relocatable { 0 } else { by_exports };
    add(by_exports, false, "only because the output exports it".to_owned(), of_exports(config).to_owned());
    let shown = || report.limits.iter().filter(|limit| !limit.is_of_start_files());
    if let Some(limit) = shown().filter(|limit| limit.severity == "module").max_by_key(|limit| limit.bytes) {
        let what = format!("only because a module is kept whole: {}", first_place(limit));
        add(by_limits, false, what, limit.lifted_by.clone().into_owned());
    }
    match (&report.not_analysed, &report.value_flow) {
        (Some(NotDone { action: Some(action), .. }), _) => {
            add(
                by_mentions - start_file_mentions,
                true,
                "only because its address is taken".to_owned(),
                action.clone(),
            );
        }
        (_, Some(flow)) => {
            let escaped =
                flow.candidates.iter().filter(|c| !matches!(&*c.what, "dropped" | "stub" | "called"));
            let what = "only because its address escapes".to_owned();
            add(
                escaped.map(|c| c.bytes - c.start_file_bytes).sum(),
                false,
                what,
                audit(config, "calls", "names the places"),
            );
        }
        _ => {}
    }
    for limit in shown().filter(|limit| limit.severity == "section") {
        let bytes = limit.bytes - limit.start_file_bytes;
        let (kind, parts) = match &*limit.limit {
            name if name == Limit::UnprovedData.name() => ("data", "objects"),
            name if name == Limit::UnprovedLsda.name() => ("data", "exception tables"),
            _ => ("code", "functions"),
        };
        let what = format!("because {parts} stay together: {}", first_place(limit));
        let action = limit.lifted_by.clone().into_owned();
        reasons.extend((bytes > 0).then_some(Reason { bytes, at_most: true, kind, what, action }));
    }
    reasons.sort_by_key(|reason| std::cmp::Reverse(reason.bytes));
    reasons
}

/// The command of `lto-prune audit` that tells more of a link.
pub(super) fn audit(config: &Config, command: &str, what: &str) -> String {
    match &config.prune.report {
        Some(path) => format!("lto-prune audit {command} {} {what}", path.display()),
        None => format!("link with --prune-report=FILE, then lto-prune audit {command} FILE {what}"),
    }
}

/// The action for code that lives only because it is exported.
fn of_exports(config: &Config) -> &'static str {
    match config.output_kind {
        OutputKind::Shared => {
            "link with a version script that has local: *, or compile with -fvisibility=hidden"
        }
        _ if config.export_dynamic => "link without -rdynamic (--export-dynamic)",
        _ => "export fewer symbols by --dynamic-list and --export-dynamic-symbol",
    }
}
