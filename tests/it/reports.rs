//! The JSON report of a link, with the parts that every report has.

use std::path::Path;

use serde_json::Value;

use crate::run::Session;

/// Reads a report, and checks its version and that its three lists exist.
pub(crate) fn report(session: &Session, path: &Path) -> Value {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => session.fail(&format!("{}: {error}", path.display())),
    };
    let report: Value = match serde_json::from_str(&text) {
        Ok(report) => report,
        Err(error) => session.fail(&format!("{}: {error}", path.display())),
    };
    session.check_eq(&report["schema"], &Value::from(2), "report schema");
    for key in ["modules", "atoms", "limits"] {
        session.check(report[key].is_array(), &format!("report has no list {key}"));
    }
    report
}

/// Names of the limits in a report, in its order.
pub(crate) fn limit_names(report: &Value) -> Vec<String> {
    let limits = report["limits"].as_array().into_iter().flatten();
    limits.map(|l| l["limit"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Names of the modules in a report as linkers write them: `archive(member)`.
pub(crate) fn module_names(report: &Value) -> Vec<String> {
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let full = |m: &Value| match m["archive"].as_str() {
        Some(archive) => format!("{archive}({})", text(&m["name"])),
        None => text(&m["name"]),
    };
    report["modules"].as_array().into_iter().flatten().map(full).collect()
}
