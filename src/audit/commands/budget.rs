//! `audit budget`: limits of size from a TOML file, for CI, with SARIF 2.1.0 for code hosts. The status is 1 if a limit is broken.
//!
//! A name of a section, module, archive, symbol, namespace or category may be a pattern; all that match count together. A limit that nothing
//! matches is broken, except for 0; a file with an unknown key is an error. `--ratchet` lowers limits to the present sizes, and raises none.

use std::ops::Range;

use serde_json::json;
use toml::de::{DeTable, DeValue};
use toml::{Spanned, Table as Toml, Value};

use crate::args::size;
use crate::audit::attribute::{AttributedSize, GroupBy, Item, ItemNames, View, items, sums};
use crate::audit::commands::stack::StackLimit;
use crate::audit::find::{find, is_called, is_module};
use crate::audit::model::{Model, ModuleReport};
use crate::audit::table::{Answer, Cell, Table, count, document, row};
use crate::error::{Error, Result, Stage};
use crate::inputs::glob::Glob;

/// The keys of a budget in the order of the answer, each with the grouping of the names in its table.
const KEYS: [(&str, Option<GroupBy>); 9] = [
    ("total", None),
    ("bss", None),
    ("category", Some(GroupBy::Category)),
    ("section", Some(GroupBy::Section)),
    ("module", Some(GroupBy::Module)),
    ("archive", Some(GroupBy::Archive)),
    ("namespace", Some(GroupBy::Namespace)),
    ("symbol", Some(GroupBy::Symbol)),
    ("stack", None),
];

/// The stack of each entry by its name; `None` for one that is not there.
pub(crate) type EntryStacks<'s> = dyn Fn(&[String]) -> Result<Vec<Option<StackLimit>>> + 's;

/// A file of limits, and whether they are to be lowered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BudgetFile<'b> {
    pub(crate) path: &'b str,
    pub(crate) text: &'b str,
    pub(crate) ratchet: bool,
}

#[derive(Debug)]
struct BudgetLimit {
    /// The position of its key in [`KEYS`].
    key: usize,
    /// The name in the table of the key: an entry of the stack, or a pattern; empty for the keys that are no tables.
    name: String,
    most: u64,
    /// The place of its value in the file, in bytes.
    span: Range<usize>,
}

/// The limits, in the order of [`KEYS`] and of their names.
fn limits(path: &str, text: &str) -> Result<Vec<BudgetLimit>> {
    let error = |message: String| Error::new(Stage::Arguments, message).in_file(path);
    let file: Toml = toml::from_str(text).map_err(|e| error(format!("is no budget: {e}")))?;
    let places = DeTable::parse(text).map_err(|e| error(format!("is no budget: {e}")))?;
    let mut found: Vec<BudgetLimit> = Vec::new();
    for (word, value) in &file {
        let known = KEYS.iter().position(|k| k.0 == word);
        let key = known.filter(|k| *k < 2 || value.is_table()).ok_or_else(|| error(unknown(word)))?;
        let of_key = place(places.get_ref(), word);
        let mut add = |name: &str, shown: String, value: &Value, place: Option<&Spanned<DeValue<'_>>>| {
            let most = bytes(value).map_err(|e| error(format!("{shown}: {e}")))?;
            let span = place.map(Spanned::span).unwrap_or_default();
            found.push(BudgetLimit { key, name: name.to_owned(), most, span });
            Ok(())
        };
        match value {
            Value::Table(names) if key >= 2 => {
                for (name, value) in names {
                    let place = of_key.and_then(|p| place(p.get_ref().as_table()?, name));
                    add(name, format!("[{word}] {name}"), value, place)?;
                }
            }
            value => add("", word.clone(), value, of_key)?,
        }
    }
    found.sort_by_key(|limit| limit.key);
    if found.is_empty() {
        return Err(error("has no limit".to_owned()));
    }
    Ok(found)
}

/// The value of a key, with its place in the file.
fn place<'t, 'i>(table: &'t DeTable<'i>, key: &str) -> Option<&'t Spanned<DeValue<'i>>> {
    table.iter().find(|(name, _)| **name.get_ref() == *key).map(|entry| entry.1)
}

/// A size in the form of the number that it replaces: its digits are in groups unless that one's are not.
fn written(size: u64, before: &str) -> String {
    match before.bytes().all(|b| b.is_ascii_digit()) {
        true => size.to_string(),
        false => count(size).replace(',', "_"),
    }
}

fn unknown(key: &str) -> String {
    let all: Vec<String> = KEYS.iter().skip(2).map(|k| format!("[{}]", k.0)).collect();
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
        format!("{said} is no size: a number of bytes, or \"1.5 MiB\" (k, KB, M, G, K, KiB, MiB, GiB)")
    };
    match value {
        Value::Integer(n) => u64::try_from(*n).map_err(|_| wrong()),
        Value::String(text) => size::parse(text).ok_or_else(wrong),
        _ => Err(wrong()),
    }
}

/// The answer, and with `ratchet` the text of the file with limits that are as low as the sizes, if any is lowered.
pub(crate) fn answer(
    model: &Model,
    budget: &BudgetFile<'_>,
    stacks: &EntryStacks<'_>,
) -> Result<(Answer, Option<String>)> {
    let BudgetFile { path, text, ratchet } = *budget;
    let limits = limits(path, text)?;
    let entries: Vec<String> =
        limits.iter().filter(|l| KEYS[l.key].0 == "stack").map(|l| l.name.clone()).collect();
    let mut stacks = if entries.is_empty() { Vec::new() } else { stacks(&entries)? }.into_iter();
    let all = items(model, View::File)?;
    let stripped = model.elf.is_some() && !model.parts().iter().any(|part| part.name == ".symtab");
    let mut table = Table::new("budget", "", &["status", "size", "limit", "left", "of", "name"]);
    let mut nothing = false;
    let mut broken: Vec<SarifResult> = Vec::new();
    let mut lowered: Vec<(Range<usize>, String)> = Vec::new();
    let mut notes: Vec<String> = Vec::new();
    for BudgetLimit { key, name, most, span } in limits {
        let (kind, by) = KEYS[key];
        let mut is_there = true;
        let mut unbounded = None;
        let size = match (kind, by) {
            (_, Some(by)) => {
                let found = named(model, &all, by, &name);
                is_there = found.is_some();
                found.unwrap_or(0)
            }
            ("total", _) => model.file_size().unwrap_or(0) as i64,
            ("bss", _) => model.bss() as i64,
            _ => {
                let found = stacks.next().flatten();
                is_there = found.is_some();
                let found = found.unwrap_or_default();
                unbounded = found.unbounded;
                found.least as i64
            }
        };
        // A function may be in a file without its name.
        let is_nameless = stripped && matches!(by, Some(GroupBy::Symbol | GroupBy::Namespace));
        let left = most as i64 - size;
        let status = match is_there || most == 0 && !is_nameless {
            true if unbounded.is_some() => "UNBOUNDED",
            true if left >= 0 => "ok",
            true => "OVER",
            false => "NOTHING",
        };
        let limit = if name.is_empty() { kind.to_owned() } else { format!("{kind} {name}") };
        nothing |= status == "NOTHING";
        if status != "ok" {
            let (rule, message) = match (is_there, unbounded) {
                (true, Some(why)) => {
                    let least = count(size.unsigned_abs());
                    (UNBOUNDED, format!("{limit} has no bound, and is at least {least} bytes: {why}"))
                }
                (true, None) => {
                    let (over, most) = (count(left.unsigned_abs()), count(most));
                    (
                        OVER,
                        format!(
                            "{limit} is {} bytes, {over} over the limit of {most}",
                            count(size.unsigned_abs())
                        ),
                    )
                }
                (false, _) => (UNMATCHED, format!("{limit}: the link has nothing of the name")),
            };
            let line = text.get(..span.start).unwrap_or_default().matches('\n').count() + 1;
            broken.push(SarifResult { rule, limit, message, line });
        } else if let Ok(size) = u64::try_from(size)
            && ratchet
            && size < most
        {
            let number = written(size, text.get(span.clone()).unwrap_or_default());
            notes.push(format!("{path}: {limit} is lowered from {} to {}", count(most), count(size)));
            lowered.push((span, number));
        }
        table.row(row![status, Cell::bytes(size), most, Cell::Delta(left), kind, name,]);
    }
    let verdict = match broken.len() {
        0 => "within the budget".to_owned(),
        1 => "1 limit is broken".to_owned(),
        n => format!("{} limits are broken", count(n as u64)),
    };
    let not_pruned = (!broken.is_empty() && model.elf.is_none() && !model.report.pruned)
        .then(|| format!("{}: {}", model.report.output, model.report.why_not_pruned()));
    let advice = match stripped {
        true => {
            "NOTHING: nothing has the name, and a file without a symbol table (.symtab) does not say that a symbol is not there."
        }
        false => "NOTHING: the link has nothing of the name. A limit of 0 is for what must not be there.",
    };
    if table.rows.iter().any(|r| r.first() == Some(&"UNBOUNDED".into())) {
        notes.push(
            "UNBOUNDED: the size is the least. lto-prune audit stack FILE ENTRY names the causes.".to_owned(),
        );
    }
    notes.extend(nothing.then(|| advice.to_owned()).into_iter().chain(not_pruned));
    let answer = Answer {
        notes,
        lines: vec![format!("{}: {verdict}", model.report.output)],
        facts: vec![("output", model.report.output.as_str().into()), ("broken", broken.len().into())],
        tables: vec![table],
        failed: !broken.is_empty(),
        document: sarif_document(path, &broken),
    };
    // From the end on, so that the places before stay where they are.
    lowered.sort_by_key(|l| std::cmp::Reverse(l.0.start));
    let mut lower = text.to_owned();
    for (span, number) in lowered.iter().filter(|(span, _)| text.get(span.clone()).is_some()) {
        lower.replace_range(span.clone(), number);
    }
    Ok((answer, (lower != text).then_some(lower)))
}

/// The texts of a module that a pattern may match: each end of its path, with its archive and without.
fn ends(module: &ModuleReport) -> Vec<String> {
    let ends = |path: &str| -> Vec<String> {
        let behind = path.match_indices('/').filter_map(|(at, _)| path.get(at + 1..));
        std::iter::once(path).chain(behind).map(str::to_owned).collect()
    };
    let mut all = ends(&module.full());
    all.extend(ends(&module.name));
    all
}

/// The bytes of items that have a name or match a pattern; `None` if nothing does.
fn named(model: &Model, items: &[Item], by: GroupBy, name: &str) -> Option<i64> {
    let glob = Glob::new(name);
    if by == GroupBy::Symbol {
        let atoms = find(model, name).ok()?;
        let of = |i: &&Item| i.atom.is_some_and(|a| atoms.binary_search(&a).is_ok());
        let shown = ItemNames::new(model, by, 1);
        let is_shared = |i: &Item| i.atom.is_some_and(|a| !model.atom(a).shares.is_empty());
        // If several symbols share an atom, only the share with the name counts.
        let has_name = |i: &Item| {
            let linker_name = i.symbol.zip(i.atom).and_then(|(s, a)| model.atom(a).symbols.get(s));
            linker_name
                .is_some_and(|n| n == name || is_called(&shown.of(i), name) || glob.matches(n.as_bytes()))
        };
        let found = items.iter().filter(of).filter(|i| !is_shared(i) || has_name(i));
        return Some(found.map(|i| i.bytes).sum());
    }
    // A namespace is as deep as it is written.
    let depth = if by == GroupBy::Namespace { name.split("::").count() } else { 1 };
    let all = sums(model, items, by, depth);
    let module = |s: &AttributedSize| s.module(model).filter(|_| by == GroupBy::Module);
    let literally = |s: &&AttributedSize| s.name == name || module(s).is_some_and(|m| is_module(m, name));
    let by_pattern = |s: &&AttributedSize| {
        let matches = |s: &str| glob.matches(s.as_bytes());
        matches(&s.name) || module(s).is_some_and(|m| ends(m).iter().any(|e| matches(e)))
    };
    let bytes =
        |found: Vec<&AttributedSize>| (!found.is_empty()).then(|| found.iter().map(|s| s.bytes).sum());
    bytes(all.iter().filter(literally).collect()).or_else(|| bytes(all.iter().filter(by_pattern).collect()))
}

/// A broken limit, as a result of the analysis.
struct SarifResult {
    /// It is one of [`RULES`], by its name.
    rule: &'static str,
    /// The name of the limit, which is the same in each run.
    limit: String,
    message: String,
    /// Its line in the file of the budget, from 1.
    line: usize,
}

const OVER: &str = "size-over-limit";
const UNBOUNDED: &str = "stack-without-bound";
const UNMATCHED: &str = "limit-of-nothing";

/// The rules that results name, each with its description.
const RULES: [(&str, &str); 3] = [
    (UNBOUNDED, "The worst case of a stack is not known"),
    (OVER, "A part of the linked file is larger than its limit"),
    (UNMATCHED, "The link has nothing of the name of a limit, so that the limit would hold for ever"),
];

/// The document about the limits of the file at `path`.
fn sarif_document(path: &str, results: &[SarifResult]) -> String {
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
    document(&json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": { "name": "lto-prune", "version": env!("CARGO_PKG_VERSION"), "rules": rules } },
            "results": results.iter().map(result).collect::<Vec<serde_json::Value>>(),
        }],
    }))
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
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_may_say_any_end_of_a_module() {
        let member = ModuleReport {
            archive: Some("lib/libx.a".into()),
            name: "outelf.o".into(),
            ..ModuleReport::default()
        };
        let object = ModuleReport { name: "out/asm/nasm.o".into(), ..ModuleReport::default() };
        let matches = |module, pattern| ends(module).iter().any(|e| Glob::new(pattern).matches(e.as_bytes()));
        for pattern in ["out*.o", "libx.a(out*.o)", "lib/*", "*outelf*"] {
            assert!(matches(&member, pattern), "{pattern}");
        }
        for pattern in ["n*.o", "asm/n*", "out/*"] {
            assert!(matches(&object, pattern), "{pattern}");
        }
        assert!(!matches(&member, "elf.o") && !matches(&object, "sm/*"));
    }

    #[test]
    fn sizes() {
        assert_eq!(bytes(&Value::String("1.5 MiB".to_owned())).ok(), Some(3 << 19));
        assert_eq!(bytes(&Value::String("1 mile".to_owned())).ok(), None);
        assert_eq!(bytes(&Value::Integer(-1)).ok(), None);
        assert_eq!(bytes(&Value::Float(1.0)).ok(), None);
    }

    #[test]
    fn numbers_keep_their_form() {
        assert_eq!(written(893_856, "900000"), "893856");
        assert_eq!(written(893_856, "900_000"), "893_856");
        assert_eq!(written(893_856, "\"900 KiB\""), "893_856");
    }

    #[test]
    fn files() {
        let found: Vec<(&str, String, u64)> =
            limits("b", "bss = 1\ntotal = \"1 k\"\n[symbol]\nx = 2\n[section]\n\".text\" = 3\n")
                .unwrap()
                .into_iter()
                .map(|limit| (KEYS[limit.key].0, limit.name, limit.most))
                .collect();
        let expected = [("total", "", 1000), ("bss", "", 1), ("section", ".text", 3), ("symbol", "x", 2)];
        assert_eq!(found, expected.map(|(key, name, most)| (key, name.to_owned(), most)));
        let says = |text: &str, what: &str| {
            let message = limits("b.toml", text).unwrap_err().to_string();
            assert!(message.contains(what) && message.contains("b.toml"), "{message}");
        };
        says("totl = 1", "has a key totl");
        says("[sections]\na = 1", "has a key sections");
        says("total = \"x\"", "total: \"x\" is no size");
        says("[symbol]\nx = true", "[symbol] x: a boolean is no size");
        says("total = ", "is no budget");
        says("[stack]\nmain = -1", "[stack] main: -1 is no size");
        says("", "has no limit");
    }

    #[test]
    fn paths_are_references() {
        assert_eq!(uri("./ci/size budget.toml"), "ci/size%20budget.toml");
    }
}
