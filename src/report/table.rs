//! The short table on the terminal (`--prune-stats`): bytes by category, what went, what limits kept.

use super::Report;

/// The table, with a trailing newline.
pub fn table(report: &Report) -> String {
    let (pruned, are_pruned) =
        if report.shadow { ("would be", "would be pruned") } else { ("pruned", "pruned") };
    let mut out = format!("{:<12} {:>12} {:>12} {:>12}\n", "input bytes", "plain", pruned, "difference");
    for c in &report.totals.categories {
        out += &format!("{:<12} {:>12} {:>12} {:>12}\n", c.category, c.plain, c.pruned, -c.difference);
    }
    let t = &report.totals;
    out += &format!("{:<12} {:>12} {:>12} {:>12}\n", "total", t.plain, t.pruned, -t.difference);
    let modules = report.modules.len();
    let touched = report.modules.iter().filter(|m| m.status != "untouched").count();
    let functions = report.functions;
    out += &format!(
        "functions: {} live, {} stubs, {} dead; modules: {modules}, {touched} {are_pruned}\n",
        functions.live, functions.stubs, functions.dead
    );
    out += &report.live_code.lines(report.level);
    for limit in &report.limits {
        let bytes = if limit.bytes > 0 { format!(", {} bytes", limit.bytes) } else { String::new() };
        out += &format!("limit {}: {} place(s){bytes}, first: ", limit.limit, limit.count);
        if let Some(module) = &limit.module {
            out += &format!("{module}: ");
        }
        out += &format!("{}; lifted by {}\n", limit.detail, limit.lifted_by);
    }
    out
}
