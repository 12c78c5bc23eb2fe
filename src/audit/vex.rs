//! VEX documents: OpenVEX 0.2.0 and CycloneDX 1.6, each with one statement about one vulnerability of one product.
//!
//! A statement says `not_affected` only for code that is proved to be absent, and `under_investigation` otherwise. The same question at
//! the same `--timestamp` gives the same bytes.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::args::Environment;
use crate::error::{Error, Result, Stage};
use crate::hashing;

use super::args::ReachOptions;
use super::table::DocumentFormat;

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
    options: &ReachOptions,
    env: &Environment<'_>,
) -> Result<String> {
    let time = timestamp(options.timestamp.as_deref(), env)?;
    let vulnerability = options.vulnerability.as_deref().unwrap_or_default();
    let product = options.product.as_deref().unwrap_or_default();
    let author = options.author.as_deref().unwrap_or("Unknown Author");
    let parts = [vulnerability, product, author, &statement.text, &time];
    let id = urn(&hashing::hash_of_parts(&parts.map(str::as_bytes)));
    let value = match format {
        DocumentFormat::OpenVex => {
            let mut claim = json!({
                "vulnerability": { "name": vulnerability },
                "products": [{ "@id": product }],
                "status": "under_investigation",
            });
            let further: &[(&str, &str)] = match statement.not_present {
                true => &[
                    ("status", "not_affected"),
                    ("justification", "vulnerable_code_not_present"),
                    ("impact_statement", &statement.text),
                ],
                false => &[("status_notes", &statement.text)],
            };
            for (key, text) in further {
                claim[key] = Value::from(*text);
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
    let wrong = |message: String| Err(Error::new(Stage::Arguments, message));
    if let Some(time) = given {
        let shape: String = time.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        return match shape == "0000-00-00T00:00:00Z" {
            true => Ok(time.to_owned()),
            false => wrong(format!("--timestamp is as 2026-01-31T12:00:00Z, not {time}")),
        };
    }
    let epoch = env.get("SOURCE_DATE_EPOCH").map(|v| v.to_string_lossy().into_owned());
    let seconds = match epoch {
        Some(text) => match text.parse::<u64>() {
            Ok(seconds) => seconds,
            Err(_) => return wrong(format!("SOURCE_DATE_EPOCH is a number of seconds, not {text}")),
        },
        None => SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()),
    };
    Ok(rfc3339(seconds.min(253_402_300_799)))
}

/// Seconds since 1970 as RFC 3339 writes them, by Howard Hinnant's `civil_from_days`.
fn rfc3339(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_the_calendar() {
        let cases = [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (253_402_300_799, "9999-12-31T23:59:59Z"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(rfc3339(seconds), expected);
        }
    }

    #[test]
    fn a_document_has_an_identifier_of_its_own() {
        let id = urn(&[0xff; 32]);
        assert_eq!(id, "urn:uuid:ffffffff-ffff-8fff-8fff-ffffffffffff");
    }
}
