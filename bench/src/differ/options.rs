//! Which options of the installed linkers no feature uses: each linker's own `--help` is the checklist.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use super::feature::Feature;
use crate::Result;

/// The options in a help text, without dashes and values; `z NAME` for keywords of `-z`.
fn offered(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for line in text.lines() {
        let trimmed = line.trim_start();
        if !trimmed.starts_with('-') {
            continue;
        }
        // What follows two blanks or a tab is the description.
        let head = trimmed.split("  ").next().unwrap_or_default().split('\t').next().unwrap_or_default();
        for word in head.split([',', ' ']).map(str::trim) {
            let name = word.trim_start_matches('-').split(['=', '[', '<', '(']).next().unwrap_or_default();
            if word.starts_with('-') && !name.is_empty() && name != "z" {
                found.insert(name.to_owned());
            }
        }
        if let Some(rest) = head.strip_prefix("-z ") {
            let name = rest.split([' ', '=', ',']).next().unwrap_or_default();
            found.insert(format!("z {name}"));
        }
    }
    found
}

/// The options that features have on their lines, in the same form.
fn used(features: &[Feature]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (_, words) in features.iter().flat_map(|f| &f.words) {
        for (index, word) in words.iter().enumerate() {
            let Some(word) = word.strip_prefix('-') else { continue };
            if word == "z" {
                let keyword = words.get(index + 1).map(String::as_str).unwrap_or_default();
                found.insert(format!("z {}", keyword.split('=').next().unwrap_or_default()));
                continue;
            }
            let name = word.trim_start_matches('-').split('=').next().unwrap_or_default();
            found.insert(name.to_owned());
            if !word.starts_with('-') && name.len() > 1 {
                // `-lfoo` is `-l`.
                found.insert(name[..1].to_owned());
            }
        }
    }
    // On every line, or drawn for it.
    found.extend(["o", "gc-sections", "as-needed", "shared", "static", "pie", "r"].map(str::to_owned));
    found
}

pub(crate) fn unused(features: &[Feature], linkers: &[(&'static str, PathBuf)]) -> Result<String> {
    let used = used(features);
    let mut text = String::new();
    for (name, path) in linkers {
        let output = Command::new(path).arg("--help").output()?;
        let offered = offered(&String::from_utf8_lossy(&output.stdout));
        let unused: Vec<&str> = offered.iter().filter(|o| !used.contains(*o)).map(String::as_str).collect();
        text.push_str(&format!(
            "- {name}: {} of the {} that `--help` has: {}\n",
            unused.len(),
            offered.len(),
            unused.join(", ")
        ));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_found_in_help_texts() {
        let text =
            "  -a, --all=<x>   all of it\n  -z relro        read-only\nUsage: -x\n  --one, --two[=N]\tboth";
        let found: Vec<String> = offered(text).into_iter().collect();
        assert_eq!(found, ["a", "all", "one", "two", "z relro"]);
    }
}
