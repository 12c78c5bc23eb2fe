//! `audit budget`: limits of size from a TOML file, for CI. The status is 1 where one is broken.
//!
//! A name of a section, module, archive, symbol, namespace or category may be a pattern; all that match count together, so a limit
//! of what doesn't exist holds. A file with a key that means nothing is an error: a limit that isn't checked is none.

use toml::{Table as Toml, Value};

use crate::audit::attribute::{By, items, sums};
use crate::audit::model::Model;
use crate::audit::table::{Answer, Cell, Table, count};
use crate::error::{Error, Result, Stage};
use crate::inputs::glob::Glob;

/// Tables of the file.
const TABLES: [(&str, By); 6] = [
    ("category", By::Category),
    ("section", By::Section),
    ("module", By::Module),
    ("archive", By::Archive),
    ("namespace", By::Namespace),
    ("symbol", By::Symbol),
];

/// What a limit is of.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Of {
    Total,
    Bss,
    Named(&'static str, By, String),
}

/// The limits, in the order of the tables above and of their names.
fn limits(path: &str, text: &str) -> Result<Vec<(Of, u64)>> {
    let error = |message: String| Error::new(Stage::Arguments, message).in_file(path);
    let file: Toml = toml::from_str(text).map_err(|e| error(format!("is no budget: {e}")))?;
    let mut found = Vec::new();
    for (key, value) in &file {
        match (key.as_str(), value) {
            ("total", value) => {
                found.push((Of::Total, bytes(value).map_err(|e| error(format!("total: {e}")))?))
            }
            ("bss", value) => found.push((Of::Bss, bytes(value).map_err(|e| error(format!("bss: {e}")))?)),
            (key, Value::Table(names)) => {
                let Some((key, by)) = TABLES.iter().find(|t| t.0 == key) else {
                    return Err(error(unknown(key)));
                };
                for (name, value) in names {
                    let most = bytes(value).map_err(|e| error(format!("[{key}] {name}: {e}")))?;
                    found.push((Of::Named(key, *by, name.clone()), most));
                }
            }
            (key, _) => return Err(error(unknown(key))),
        }
    }
    let rank = |of: &Of| match of {
        Of::Total => 0,
        Of::Bss => 1,
        Of::Named(key, ..) => 2 + TABLES.iter().position(|t| t.0 == *key).unwrap_or(0),
    };
    found.sort_by_key(|(of, _)| rank(of));
    if found.is_empty() {
        return Err(error("has no limit".to_owned()));
    }
    Ok(found)
}

fn unknown(key: &str) -> String {
    let all: Vec<String> = TABLES.iter().map(|t| format!("[{}]", t.0)).collect();
    format!("has a key {key}; a budget has total, bss, {}", all.join(", "))
}

/// A size: a number of bytes, or text with a unit.
fn bytes(value: &Value) -> Result<u64, String> {
    let wrong = || {
        let said = match value {
            Value::String(text) => format!("\"{text}\""),
            Value::Integer(n) => n.to_string(),
            other => format!("a {}", other.type_str()),
        };
        format!("{said} is no size: a number of bytes, or \"1.5 MiB\" (k, M, G, KiB, MiB, GiB)")
    };
    let text = match value {
        Value::Integer(n) => return u64::try_from(*n).map_err(|_| wrong()),
        Value::String(text) => text.trim(),
        _ => return Err(wrong()),
    };
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = (text.get(..split).unwrap_or_default(), text.get(split..).unwrap_or_default());
    let unit: u64 = match unit {
        "" | "B" => 1,
        "k" | "kB" => 1000,
        "M" | "MB" => 1_000_000,
        "G" | "GB" => 1_000_000_000,
        "KiB" | "K" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return Err(wrong()),
    };
    let number: String = number.chars().filter(|c| *c != '_' && *c != ' ').collect();
    if let Ok(whole) = number.parse::<u64>() {
        let all = whole.checked_mul(unit).filter(|n| i64::try_from(*n).is_ok());
        return all.ok_or_else(wrong);
    }
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let all = number * unit as f64;
    if (0.0..9e18).contains(&all) { Ok(all as u64) } else { Err(wrong()) }
}

/// The answer.
///
/// # Errors
/// The file is no budget, or the report says nothing of the linked file.
pub(crate) fn answer(model: &Model<'_>, path: &str, text: &str) -> Result<Answer> {
    let limits = limits(path, text)?;
    let all = items(model, false)?;
    let zero: u64 = model.parts.iter().filter(|p| p.category == "bss").map(|p| p.size).sum();
    let mut table = Table::new("budget", "", &["status", "size", "limit", "left", "of", "name"]);
    let mut broken = 0;
    for (of, most) in limits {
        let (size, kind, name) = match &of {
            Of::Total => (model.file_size.unwrap_or(0) as i64, "total", ""),
            Of::Bss => (zero as i64, "bss", ""),
            Of::Named(kind, by, name) => {
                let glob = Glob::new(name);
                let matches = |s: &str| glob.matches(s.as_bytes());
                let found = sums(model, &all, *by, 1);
                let short = |m: Option<u32>| {
                    let module = m.filter(|_| *by == By::Module).and_then(|m| model.modules.get(m as usize));
                    module.map(|m| m.short())
                };
                let found =
                    found.iter().filter(|s| matches(&s.name) || short(s.module).is_some_and(|s| matches(&s)));
                (found.map(|s| s.bytes).sum(), *kind, name.as_str())
            }
        };
        let left = most as i64 - size;
        broken += u64::from(left < 0);
        table.row(vec![
            Cell::text(if left < 0 { "OVER" } else { "ok" }),
            u64::try_from(size).map_or(Cell::Delta(size), Cell::Number),
            Cell::Number(most),
            Cell::Delta(left),
            Cell::text(kind),
            Cell::text(name),
        ]);
    }
    let verdict = match broken {
        0 => "within the budget".to_owned(),
        1 => "1 limit is broken".to_owned(),
        n => format!("{} limits are broken", count(n)),
    };
    Ok(Answer {
        lines: vec![format!("{}: {verdict}", model.report.output)],
        facts: vec![("output", model.report.output.as_ref().into()), ("broken", broken.into())],
        tables: vec![table],
        failed: broken > 0,
        ..Answer::default()
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let read = |text: &str| bytes(&Value::String(text.to_owned())).ok();
        let cases = [
            ("12", Some(12)),
            ("1_500 B", Some(1500)),
            ("2k", Some(2000)),
            ("1.5 MiB", Some(3 << 19)),
            ("3 MiB", Some(3 << 20)),
            ("1 GB", Some(1_000_000_000)),
            ("-1", None),
            ("many", None),
            ("1 mile", None),
            ("1e30", None),
            ("99999999999999999 GiB", None),
            ("18446744073709551615", None),
        ];
        for (text, expected) in cases {
            assert_eq!(read(text), expected, "{text}");
        }
        assert_eq!(bytes(&Value::Integer(-1)).ok(), None);
        assert_eq!(bytes(&Value::Float(1.0)).ok(), None);
    }

    #[test]
    fn files() {
        let found =
            limits("b", "bss = 1\ntotal = \"1 k\"\n[symbol]\nx = 2\n[section]\n\".text\" = 3\n").unwrap();
        let named = |key, by, name: &str| Of::Named(key, by, name.to_owned());
        let expected = [
            (Of::Total, 1000),
            (Of::Bss, 1),
            (named("section", By::Section, ".text"), 3),
            (named("symbol", By::Symbol, "x"), 2),
        ];
        assert_eq!(found, expected);
        let says = |text: &str, what: &str| {
            let message = limits("b.toml", text).unwrap_err().to_string();
            assert!(message.contains(what) && message.contains("b.toml"), "{message}");
        };
        says("totl = 1", "has a key totl");
        says("[sections]\na = 1", "has a key sections");
        says("total = \"x\"", "total: \"x\" is no size");
        says("[symbol]\nx = true", "[symbol] x: a boolean is no size");
        says("total = ", "is no budget");
        says("", "has no limit");
    }
}
