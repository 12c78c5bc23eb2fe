//! VEX documents: OpenVEX 0.2.0 and CycloneDX 1.6, each with one statement about one vulnerability of one product.
//!
//! A statement says `not_affected` only for code that is proved to be absent, and `under_investigation` otherwise. The same question at
//! the same `--timestamp` gives the same bytes.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::args::Environment;
use crate::error::{Error, Result, Stage};
use crate::hashing;

use super::args::Request;
use super::table::DocumentFormat;

/// Seconds from 1970 to the year 10000, whose dates RFC 3339 can't write.
const END_OF_9999: u64 = 253_402_300_800;

/// The claim of a document about a vulnerability.
pub(crate) struct VexStatement {
    /// Whether the code is proved to be absent.
    pub(crate) not_present: bool,
    /// The argument, or the reason why there is no proof.
    pub(crate) text: String,
}

/// The document.
///
/// # Errors
/// The time that was given is malformed.
pub(crate) fn document(
    format: DocumentFormat,
    statement: &VexStatement,
    request: &Request,
    env: &Environment<'_>,
) -> Result<String> {
    let time = timestamp(request.value("timestamp"), env)?;
    let vulnerability = request.value("vulnerability").unwrap_or_default();
    let product = request.value("product").unwrap_or_default();
    let author = request.value("author").unwrap_or("Unknown Author");
    let parts = [vulnerability, product, author, &statement.text, &time];
    let id = urn(&hashing::hash_of_parts(&parts.map(str::as_bytes)));
    let value = match format {
        DocumentFormat::OpenVex => {
            let mut claim = json!({
                "vulnerability": { "name": vulnerability },
                "products": [{ "@id": product }],
                "status": "under_investigation",
                "status_notes": statement.text,
            });
            if statement.not_present {
                claim["status"] = "not_affected".into();
                claim["justification"] = "vulnerable_code_not_present".into();
            }
            json!({
                "@context": "https://openvex.dev/ns/v0.2.0",
                "@id": id,
                "author": author,
                "timestamp": time,
                "version": 1,
                "tooling": tool(),
                "statements": [claim],
            })
        }
        _ => {
            let mut analysis = json!({ "state": "in_triage", "detail": statement.text });
            if statement.not_present {
                analysis = json!({
                    "state": "not_affected",
                    "justification": "code_not_present",
                    "detail": statement.text,
                });
            }
            let mut component = json!({ "type": "application", "bom-ref": product, "name": product });
            if product.starts_with("pkg:") {
                component["purl"] = Value::from(product);
            }
            json!({
                "bomFormat": "CycloneDX",
                "specVersion": "1.6",
                "serialNumber": id,
                "version": 1,
                "metadata": {
                    "timestamp": time,
                    "authors": [{ "name": author }],
                    "tools": { "components": [
                        { "type": "application", "name": "lto-prune", "version": env!("CARGO_PKG_VERSION") },
                    ] },
                    "component": component,
                },
                "vulnerabilities": [{
                    "id": vulnerability,
                    "analysis": analysis,
                    "affects": [{ "ref": product }],
                }],
            })
        }
    };
    let text = serde_json::to_string_pretty(&value).unwrap_or_default();
    Ok(crate::terminal::json(&text).into_owned() + "\n")
}

fn tool() -> String {
    format!("lto-prune {} audit reach", env!("CARGO_PKG_VERSION"))
}

/// A name for the document, made of a hash: a UUID of version 8 (RFC 9562).
fn urn(hash: &[u8; 32]) -> String {
    let mut digits: Vec<char> = hashing::hex(hash).chars().take(32).collect();
    for (at, digit) in [(12, '8'), (16, '8')] {
        if let Some(slot) = digits.get_mut(at) {
            *slot = digit;
        }
    }
    let groups = [(0, 8), (8, 4), (12, 4), (16, 4), (20, 12)];
    let group = |(start, length): (usize, usize)| digits.iter().skip(start).take(length).collect::<String>();
    format!("urn:uuid:{}", groups.map(group).join("-"))
}

/// The time of the document: what was given, else `SOURCE_DATE_EPOCH`, else now.
fn timestamp(given: Option<&str>, env: &Environment<'_>) -> Result<String> {
    let wrong = |message: String| Error::new(Stage::Arguments, message);
    let epoch = env.get("SOURCE_DATE_EPOCH").map(|v| v.to_string_lossy().into_owned());
    let time = match (given, epoch) {
        (Some(time), _) => humantime::parse_rfc3339(time)
            .map_err(|_| wrong(format!("--timestamp is as 2026-01-31T12:00:00Z, not {time}")))?,
        (None, Some(text)) => {
            let seconds = text.parse().ok().filter(|seconds| *seconds < END_OF_9999);
            let seconds = seconds
                .ok_or_else(|| wrong(format!("SOURCE_DATE_EPOCH is a number of seconds, not {text}")))?;
            UNIX_EPOCH + Duration::from_secs(seconds)
        }
        (None, None) => SystemTime::now(),
    };
    Ok(humantime::format_rfc3339_seconds(time).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_has_an_identifier_of_its_own() {
        let id = urn(&[0xff; 32]);
        assert_eq!(id, "urn:uuid:ffffffff-ffff-8fff-8fff-ffffffffffff");
    }
}
