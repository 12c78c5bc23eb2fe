//! The options of the installed linkers, as `--help` lists them, that no feature uses.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use super::feature::Feature;
use crate::Result;
use crate::process::output;

/// The options in a help text, without dashes and values; `z NAME` for keywords of `-z`.
fn offered(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for line in text.lines().map(str::trim_start).filter(|line| line.starts_with('-')) {
        // Two blanks or a tab begin the description.
        let head = line.split("  ").next().unwrap_or_default().split('\t').next().unwrap_or_default();
        for word in head.split([',', ' ']).map(str::trim).filter(|word| word.starts_with('-')) {
            let name = word.trim_start_matches('-').split(['=', '[', '<', '(']).next().unwrap_or_default();
            found.extend((!name.is_empty() && name != "z").then(|| name.to_owned()));
        }
        if let Some(rest) = head.strip_prefix("-z ") {
            found.insert(format!("z {}", rest.split([' ', '=', ',']).next().unwrap_or_default()));
        }
    }
    found
}

pub(crate) fn unused(features: &[Feature], linkers: &[(String, PathBuf)]) -> Result<String> {
    // On every line, or drawn for it.
    let mut used: BTreeSet<String> =
        ["o", "gc-sections", "as-needed", "shared", "static", "pie", "r"].map(str::to_owned).into();
    for (_, words) in features.iter().flat_map(|f| &f.words) {
        for (index, word) in words.iter().enumerate().filter(|(_, word)| word.starts_with('-')) {
            let name = word.trim_start_matches('-').split('=').next().unwrap_or_default();
            let value = words.get(index + 1).and_then(|value| value.split('=').next()).unwrap_or_default();
            used.insert(if word == "-z" { format!("z {value}") } else { name.to_owned() });
            // `-lfoo` is `-l`.
            used.extend(name.get(..1).filter(|_| !word.starts_with("--")).map(str::to_owned));
        }
    }
    let mut text = String::new();
    for (name, path) in linkers {
        let offered = offered(&output(Command::new(path).arg("--help"))?);
        let unused: Vec<&str> = offered.difference(&used).map(String::as_str).collect();
        let (n, all) = (unused.len(), offered.len());
        text.push_str(&format!("- {name}: {n} of the {all} that `--help` has: {}\n", unused.join(", ")));
    }
    Ok(text)
}
