//! What several commands read of a report (docs/REPORT_FORMAT.md).

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::Result;

/// The JSON of a report.
///
/// # Errors
/// The file can't be read, or is no JSON.
pub(crate) fn read(path: &Path) -> Result<Value> {
    let text = fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(serde_json::from_slice(&text).map_err(|e| format!("{}: {e}", path.display()))?)
}

/// A list of the report. One that is missing is an error, so that a report of another schema can't pass.
pub(crate) fn list<'v>(value: &'v Value, name: &str) -> Result<&'v Vec<Value>> {
    Ok(value[name].as_array().ok_or_else(|| format!("the report has no {name}"))?)
}

/// The name, the count and the bytes of each limit.
pub(crate) fn limits(report: &Value) -> Vec<(String, u64, u64)> {
    let number = |v: &Value| v.as_u64().unwrap_or(0);
    let limit = |l: &Value| {
        (l["limit"].as_str().unwrap_or("unnamed").to_owned(), number(&l["count"]), number(&l["bytes"]))
    };
    report["limits"].as_array().into_iter().flatten().map(limit).collect()
}
