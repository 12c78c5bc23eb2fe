//! Summaries for the thin link against the `^N = gv:` entries that `llvm-dis` writes, and GUIDs with them.

use std::collections::{BTreeMap, BTreeSet};

use summaries::Visibility;
use summaries::bitcode::file::BitcodeFile;
use summaries::bitcode::guid::guid_of;
use summaries::bitcode::index::{Access, EntryKind};

use super::corpus::samples;
use super::values::disassemble;

/// The text in the parentheses behind `key`.
fn group<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    let start = text.find(key)? + key.len();
    let mut depth = 1;
    for (i, c) in text[start..].char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(&text[start..start + i]);
        }
    }
    None
}

fn word(text: &str, key: &str) -> String {
    let Some(at) = text.find(key) else { return String::new() };
    text[at + key.len()..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// Numbers behind `^`, each with the words before it since the last comma.
fn ids(text: &str) -> Vec<(String, u64)> {
    text.split('^')
        .collect::<Vec<_>>()
        .windows(2)
        .map(|pair| {
            let before = pair[0].rsplit([',', '(', ' ']).find(|w| !w.is_empty()).unwrap_or_default();
            let digits: String = pair[1].chars().take_while(char::is_ascii_digit).collect();
            (before.to_owned(), digits.parse().unwrap())
        })
        .collect()
}

/// The text about each GUID of a summary.
fn theirs(text: &str) -> BTreeMap<u64, String> {
    let lines: Vec<&str> = text.lines().filter(|l| l.starts_with('^') && l.contains(" = gv: (")).collect();
    let id = |l: &str| l[1..].split(' ').next().unwrap().parse::<u64>().unwrap();
    // In a comment behind, or in place of a name that isn't known.
    let guid = |l: &str| match word(l, "; guid = ") {
        none if none.is_empty() => word(l, "guid: ").parse::<u64>().unwrap(),
        guid => guid.parse().unwrap(),
    };
    let guids: BTreeMap<u64, u64> = lines.iter().map(|l| (id(l), guid(l))).collect();
    let of = |n: u64| guids[&n];
    let mut all = BTreeMap::new();
    for line in lines.iter().filter(|l| l.contains("summaries: (")) {
        let flags = group(line, "flags: (").unwrap();
        let mut said: Vec<String> =
            ["linkage", "visibility", "notEligibleToImport", "live", "dsoLocal", "canAutoHide"]
                .iter()
                .map(|k| word(flags, &format!("{k}: ")))
                .collect();
        if line.contains("summaries: (function: (") {
            said.insert(0, format!("function {}", word(line, "insts: ")));
            let calls: BTreeSet<u64> =
                group(line, "calls: (").map(ids).unwrap_or_default().iter().map(|(_, n)| of(*n)).collect();
            said.push(format!("calls {calls:?}"));
            let tests = group(line, "typeTests: (").unwrap_or_default();
            let named = |n: &(String, u64)| {
                let head = format!("^{} = typeid: (", n.1);
                let found = text.lines().find(|l| l.starts_with(&head)).unwrap();
                word(found, "; guid = ").parse::<u64>().unwrap()
            };
            let mut guids: BTreeSet<u64> = ids(tests).iter().map(named).collect();
            guids.extend(tests.split(", ").filter_map(|w| w.parse::<u64>().ok()));
            said.push(format!("tests {guids:?}"));
            let calls = group(line, "typeIdInfo: (").map_or(0, |g| g.matches("offset: ").count());
            said.push(format!("virtual {calls}"));
        } else if line.contains("summaries: (variable: (") {
            said.insert(0, "variable".to_owned());
            let slots = group(line, "vTableFuncs: (").unwrap_or_default();
            let slots: BTreeSet<(u64, String)> = ids(slots)
                .iter()
                .zip(slots.split("offset: ").skip(1))
                .map(|((_, n), o)| (of(*n), o.chars().take_while(char::is_ascii_digit).collect()))
                .collect();
            said.push(format!("slots {slots:?}"));
        } else {
            said.insert(0, format!("alias of {}", of(ids(&line[line.find("aliasee: ").unwrap()..])[0].1)));
        }
        let refs: BTreeSet<(u64, String)> = group(line, " refs: (")
            .map(ids)
            .unwrap_or_default()
            .into_iter()
            .map(|(w, n)| (of(n), if ["readonly", "writeonly"].contains(&&*w) { w } else { String::new() }))
            .collect();
        said.push(format!("refs {refs:?}"));
        all.insert(guid(line), said.join(" "));
    }
    all
}

fn ours(file: &BitcodeFile<'_>) -> BTreeMap<u64, String> {
    let module = &file.modules[0];
    let index = module.summary.as_ref().unwrap();
    assert!(index.is_read(), "{:?}", index.unknown);
    let of = |id: u32| match module.values.get(id as usize) {
        Some(v) => guid_of(v.name, v.linkage.is_local(), &module.source_file, file.producer_major()),
        None => index.guids.iter().find(|(i, _)| *i == id).unwrap().1,
    };
    let mut all = BTreeMap::new();
    for entry in &index.entries {
        let flags = entry.flags;
        let visibility = match flags.visibility {
            Visibility::Default => "default",
            Visibility::Protected => "protected",
            Visibility::Hidden | Visibility::Internal => "hidden",
        };
        let bit = |b: bool| u8::from(b).to_string();
        let mut said = vec![
            flags.linkage.word().to_owned(),
            visibility.to_owned(),
            bit(flags.not_eligible_to_import),
            bit(flags.live),
            bit(flags.dso_local),
            bit(flags.can_auto_hide),
        ];
        match &entry.kind {
            EntryKind::Function { instructions, calls, type_tests, virtual_calls, .. } => {
                said.insert(0, format!("function {instructions}"));
                let calls: BTreeSet<u64> = calls.iter().map(|c| of(*c)).collect();
                said.push(format!("calls {calls:?}"));
                said.push(format!("tests {:?}", type_tests.iter().collect::<BTreeSet<_>>()));
                said.push(format!("virtual {}", virtual_calls));
            }
            EntryKind::Variable { slots, .. } => {
                said.insert(0, "variable".to_owned());
                let slots: BTreeSet<_> = slots.iter().map(|(f, o)| (of(*f), o.to_string())).collect();
                said.push(format!("slots {slots:?}"));
            }
            EntryKind::Alias { aliasee } => said.insert(0, format!("alias of {}", of(*aliasee))),
        }
        let access = |a| match a {
            Access::Any => "",
            Access::ReadOnly => "readonly",
            Access::WriteOnly => "writeonly",
        };
        let refs: BTreeSet<_> =
            entry.refs.iter().map(|r| (of(r.value), access(r.access).to_owned())).collect();
        said.push(format!("refs {refs:?}"));
        all.insert(of(entry.value), said.join(" "));
    }
    all
}

#[test]
fn summaries_are_what_llvm_says() {
    let mut compared = 0;
    for sample in samples().iter().filter(|s| s.name != "cxx-split") {
        let file = summaries::bitcode::read(&sample.bytes).unwrap();
        if file.modules[0].summary.is_none() {
            assert!(
                ["c-plain", "14-plain", "rust-bc"].contains(&&*sample.name)
                    || sample.name.starts_with("rust-alloc"),
                "{}",
                sample.name
            );
            continue;
        }
        let Some(text) = disassemble(sample) else { continue };
        let (got, want) = (ours(&file), theirs(&text));
        for (guid, want) in &want {
            assert_eq!(got.get(guid), Some(want), "{}: {guid}", sample.name);
        }
        assert_eq!(got.len(), want.len(), "{}", sample.name);
        compared += got.len();
    }
    assert!(compared > 200, "only {compared} entries were compared");
}

#[test]
fn vtables_and_virtual_calls() {
    // Without them the comparison above would say nothing of them.
    let file = summaries::bitcode::read(&super::corpus::sample("cxx-vtables").bytes).unwrap();
    let index = file.modules[0].summary.as_ref().unwrap();
    let slots = index
        .entries
        .iter()
        .filter(|e| matches!(&e.kind, EntryKind::Variable { slots, .. } if slots.len() > 2));
    assert!(slots.count() >= 2 && index.vtables.len() >= 2);
    let virtual_calls =
        |k: &EntryKind| matches!(k, EntryKind::Function { virtual_calls, .. } if *virtual_calls > 0);
    assert!(index.entries.iter().any(|e| virtual_calls(&e.kind)));
}
