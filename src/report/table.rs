//! The short table on the terminal (`--prune-stats`): bytes by category, what went, what limits kept.

use std::collections::BTreeMap;

use super::accounting::CategoryTotal;
use super::schema::Report;
use crate::config::PruneOptions;
use crate::terminal::printable;

/// The text of `--prune-stats`: the output with its state, and the table if the link was analysed.
pub fn stats(report: &Report, prune: &PruneOptions) -> String {
    let is_modified = report.modules.iter().any(|module| module.status != "untouched");
    let state = match (&report.not_pruned, report.pruned) {
        (Some(reason), _) => format!("not pruned: {reason}"),
        (None, true) => "pruned".to_owned(),
        (None, false) if report.shadow && is_modified => "would be pruned".to_owned(),
        (None, false) => "nothing to remove".to_owned(),
    };
    let failed = if report.linked == "failed" { "; the link failed" } else { "" };
    let table = if report.analysed { table(report, prune) } else { String::new() };
    format!("lto-prune: {}: {state}{failed}\n{table}", report.output)
}

/// The table, with a trailing newline. The options say when functions are followed at the level `pointers`.
fn table(report: &Report, prune: &PruneOptions) -> String {
    let (pruned, are_pruned) =
        if report.shadow { ("would be", "would be pruned") } else { ("pruned", "pruned") };
    let totals = &report.totals;
    let mut out = format!("{:<14} {:>12} {:>12} {:>12}\n", "input bytes", "plain", pruned, "difference");
    let mut row = |name, plain, pruned, difference: i64| {
        out += &format!("{name:<14} {plain:>12} {pruned:>12} {:>12}\n", -difference);
    };
    for CategoryTotal { category, plain, pruned, difference } in
        totals.categories.iter().chain(&totals.groups)
    {
        row(*category, *plain, *pruned, *difference);
    }
    row("total", totals.plain, totals.pruned, totals.difference);
    let modules = report.modules.len();
    let touched = report.modules.iter().filter(|m| m.status != "untouched").count();
    let functions = report.functions;
    out += &format!(
        "functions: {} live, {} stubs, {} dead; modules: {modules}, {touched} {are_pruned}\n",
        functions.live, functions.stubs, functions.dead
    );
    out += &report.live_code.lines(report.level);
    if let Some(why) = level_without_effect(report, prune) {
        out += &format!("level {} has no effect beyond the one below it: {why}\n", report.level);
    }
    for limit in &report.limits {
        let bytes = if limit.bytes > 0 { format!(", {} bytes", limit.bytes) } else { String::new() };
        out +=
            &format!("limit {} ({}): {} place(s){bytes}, first: ", limit.limit, limit.severity, limit.count);
        if let Some(module) = &limit.module {
            out += &format!("{}: ", printable(module));
        }
        out += &format!("{}; lifted by {}\n", printable(&limit.detail), limit.lifted_by);
    }
    out
}

/// Why the link is as it would be at the level below, if it is.
fn level_without_effect(report: &Report, prune: &PruneOptions) -> Option<String> {
    match report.level {
        "functions" => {
            // Liveness of whole sections is the same exactly if no section has both.
            let mut states: BTreeMap<(usize, u32), [bool; 2]> = BTreeMap::new();
            for atom in &report.atoms {
                if let Some(section) = atom.section_index {
                    states.entry((atom.module, section)).or_default()[usize::from(atom.live)] = true;
                }
            }
            let is_mixed = states.values().any(|state| *state == [true, true]);
            (!is_mixed).then(|| "no section has both live and dead functions or objects".to_owned())
        }
        "pointers" if report.value_flow.is_none() => {
            let (code, gate) = (report.live_code, prune.gate);
            let values = report.limits.iter().find(|limit| limit.severity == "values");
            Some(match values {
                Some(limit) => format!("see the limit {}", limit.limit),
                None if code.live > prune.budget() => {
                    let live = code.live;
                    format!(
                        "{live} bytes of code live, more than --prune-budget={}; --prune-level=pointers has none",
                        prune.budget()
                    )
                }
                None if code.by_mentions * 100 < code.live * u64::from(gate) || code.by_mentions == 0 => {
                    format!(
                        "mentioned addresses keep {} bytes of code, less than --prune-gate={gate} per cent",
                        code.by_mentions
                    )
                }
                None => {
                    "a module is kept whole of which functions were not followed; see the limits".to_owned()
                }
            })
        }
        "pointers" => {
            let kept = report.atoms.iter().filter(|atom| atom.kind == "code" && atom.live);
            let kept: u64 = kept.map(|atom| atom.size).sum();
            let why = "no less code is kept than references alone reach; lto-prune audit calls says why";
            (kept >= report.live_code.live).then(|| why.to_owned())
        }
        _ => None,
    }
}
