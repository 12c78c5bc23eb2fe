//! SARIF 2.1.0: broken limits as results of an analysis, which code hosts show at the lines of the budget.
//!
//! Holds the format alone; `budget` decides which limits are broken.

use serde_json::{Value, json};

/// A broken limit, as a result of the analysis.
pub(crate) struct SarifResult {
    /// It is one of [`RULES`], by its name.
    pub(crate) rule: &'static str,
    /// The name of the limit, which is the same in each run.
    pub(crate) limit: String,
    pub(crate) message: String,
    /// Its line in the file of the budget, from 1.
    pub(crate) line: usize,
}

pub(crate) const OVER: &str = "size-over-limit";
pub(crate) const UNBOUNDED: &str = "stack-without-bound";
pub(crate) const UNMATCHED: &str = "limit-of-nothing";

/// The rules that results name, each with its description.
const RULES: [(&str, &str); 3] = [
    (UNBOUNDED, "The worst case of a stack is not known"),
    (OVER, "A part of the linked file is larger than its limit"),
    (UNMATCHED, "The link has nothing of the name of a limit, so that the limit would hold for ever"),
];

/// The document about the limits of the file at `path`.
pub(crate) fn document(path: &str, results: &[SarifResult]) -> String {
    let rules = RULES.map(|(id, text)| json!({ "id": id, "shortDescription": { "text": text } }));
    let uri = uri(path);
    let result = |found: &SarifResult| {
        json!({
            "ruleId": found.rule,
            "level": "error",
            "message": { "text": found.message },
            "locations": [{ "physicalLocation": {
                "artifactLocation": { "uri": uri },
                "region": { "startLine": found.line },
            } }],
            "partialFingerprints": { "limit/v1": found.limit },
        })
    };
    let document = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": { "name": "lto-prune", "version": env!("CARGO_PKG_VERSION"), "rules": rules } },
            "results": results.iter().map(result).collect::<Vec<Value>>(),
        }],
    });
    let text = serde_json::to_string_pretty(&document).unwrap_or_default();
    crate::terminal::json(&text).into_owned() + "\n"
}

/// A path as a reference of RFC 3986: bytes that it reserves are percent-encoded.
fn uri(path: &str) -> String {
    let path = path.strip_prefix("./").unwrap_or(path);
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            _ => out += &format!("%{byte:02X}"),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn paths_are_references() {
        assert_eq!(super::uri("./ci/size budget.toml"), "ci/size%20budget.toml");
    }
}
