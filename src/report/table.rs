//! `--prune-stats`: three lines on the terminal; `--prune-stats=full`: the table of sizes, every reason and every limit.

use super::accounting::CategoryTotal;
use super::reasons::{Reason, audit, reasons};
use super::schema::{Report, UnwindReport};
use crate::config::{Config, Stats};
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
        if report.shadow { ("would be", "would be pruned") } else { ("pruned", "pruned") };
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
        let what = if *mode == "keep" { "--prune-unwind=unused would remove" } else { "removed" };
        out +=
            &format!("unwind entries: {what} {} bytes of {} functions\n", count(*bytes), number(*functions));
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
        let (limit_name, severity) = (limit.limit, limit.severity);
        let plural = if places == 1 { "" } else { "s" };
        out += &format!("limit {limit_name} ({severity}): {} place{plural}{bytes}, first: ", number(places));
        if let Some(module) = &limit.module {
            out += &format!("{}: ", printable(module));
        }
        out += &format!("{}; {}\n", printable(&limit.detail), limit.lifted_by);
    }
    out
}
