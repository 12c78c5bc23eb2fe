//! The files and test results that a build left, and their differences.
//!
//! Programs and shared libraries are compared by their facts, which may differ as rules allow. All other files must be the same byte for byte.
//! Files with times and process numbers are left out by name; the conclusions of `config.log` are compared.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use crate::rules::{self, Difference, RuleCounts};
use crate::{Result, facts, pair, report};

/// All files by path below the folder of the build.
#[derive(Debug, Default)]
pub(super) struct BuildTree {
    /// Facts of each file, and its bytes of `.text`.
    pub(super) linked: BTreeMap<PathBuf, (Vec<String>, u64)>,
    pub(super) others: BTreeMap<PathBuf, u64>,
}

impl BuildTree {
    /// Bytes of `.text` of the linked files below `part`: `inst` for installed files, `tree` for built ones.
    pub(super) fn text(&self, part: &str) -> u64 {
        self.linked.iter().filter(|(path, _)| path.starts_with(part)).map(|(_, (_, text))| text).sum()
    }
}

/// Read `tree` and `inst` below `root`.
pub(super) fn read(root: &Path) -> Result<BuildTree> {
    let mut files = BuildTree::default();
    let mut work = vec![root.join("tree"), root.join("inst")];
    while let Some(folder) = work.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let kind = fs::symlink_metadata(&path)?.file_type();
            if kind.is_dir() {
                work.push(path);
                continue;
            }
            if !kind.is_file() {
                continue;
            }
            let relative = path.strip_prefix(root)?.to_owned();
            let data = fs::read(&path)?;
            if facts::is_linked(&data) {
                files.linked.insert(relative, (facts::of_bytes(&data), report::text_size(&path)?));
            } else if let Some(data) = comparable(&relative, data) {
                let mut hasher = DefaultHasher::new();
                data.hash(&mut hasher);
                files.others.insert(relative, hasher.finish());
            }
        }
    }
    Ok(files)
}

/// Logs and private files of tools, with times and in random order.
const PRIVATE: &str = "autom4te.cache Testing meson-logs meson-private .fingerprint incremental __pycache__ .ninja_deps .ninja_log .rustc_info.json";

/// The bytes of a file that must be the same.
fn comparable(path: &Path, data: Vec<u8>) -> Option<Vec<u8>> {
    let name = path.file_name()?.to_string_lossy();
    if path.iter().any(|part| PRIVATE.split(' ').any(|private| part == private)) {
        return None;
    }
    // CMake writes the dependencies of a target in the order of addresses.
    if name == "Makefile2" {
        let mut lines: Vec<&[u8]> = data.split(|b| *b == b'\n').collect();
        lines.sort_unstable();
        return Some(lines.join(&b'\n'));
    }
    if name == "config.log" {
        let text = String::from_utf8_lossy(&data).into_owned();
        let lines = text.lines().skip_while(|l| *l != "## Cache variables. ##");
        let conclusions = lines.filter(|l| !l.starts_with("configure: exit") && !l.contains("_random"));
        return Some(conclusions.collect::<Vec<_>>().join("\n").into_bytes());
    }
    (!name.ends_with(".log")).then_some(data)
}

/// The differences of two builds in their files.
pub(super) fn differences(plain: &BuildTree, pruned: &BuildTree) -> Vec<String> {
    let mut out = Vec::new();
    for (path, (facts, _)) in &plain.linked {
        let Some((others, _)) = pruned.linked.get(path) else { continue };
        let all = pair::differences(facts, others);
        let difference = Difference::new(&all, facts, &[]);
        let left = rules::unexplained(difference, &mut RuleCounts::new());
        out.extend(left.iter().map(|line| format!("{}: {line}", path.display())));
    }
    let differ =
        plain.others.iter().filter(|(path, hash)| pruned.others.get(*path).is_some_and(|o| o != *hash));
    out.extend(differ.map(|(path, _)| format!("{}: differs", path.display())));
    let [a, b] =
        [plain, pruned].map(|t| t.linked.keys().chain(t.others.keys()).collect::<BTreeSet<&PathBuf>>());
    out.extend(a.symmetric_difference(&b).map(|path| format!("{}: only in one build", path.display())));
    out
}

/// The results of a test suite.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Outcomes {
    /// The lines that have a result, each with a number, since one line may be there more than once.
    pub(super) lines: BTreeSet<(String, usize)>,
    pub(super) passed: u64,
    pub(super) all: u64,
}

/// Marks of a passed test, and of another result, in the lines of Automake, CTest, Meson, cargo, googletest, zsh and redis.
const PASSED: &str = "PASS:|[ok]:| ... ok|: all tests successful.|[       OK ]|   Passed | OK ";
const OTHER: &str = "FAIL:|ERROR:|XPASS:|SKIP:|XFAIL:|[err]:|[exception]:|[ignore]:|[skip]:| ... FAILED| ... ignored|: test failed.|\
                     : test case skipped|***Failed|***Skipped| FAIL | SKIP ";

/// The lines with results, without colours and times.
pub(super) fn outcomes(text: &str) -> Outcomes {
    let mut outcomes = Outcomes::default();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for line in text.lines() {
        let pieces = line.split("\x1b[").enumerate();
        let plain: String = pieces
            .map(|(i, p)| if i == 0 { p } else { p.split_once('m').map_or("", |(_, rest)| rest) })
            .collect();
        let has = |marks: &str| marks.split('|').any(|mark| format!("{} ", plain.trim()).contains(mark));
        let is_passed = has(PASSED) && !has(OTHER);
        if is_passed || has(OTHER) {
            let is_time = |word: &&str| {
                word.contains(|c: char| c.is_ascii_digit()) && !word.contains(char::is_alphabetic)
            };
            let words: Vec<&str> = plain.split_whitespace().filter(|word| !is_time(word)).collect();
            let number = counts.entry(words.join(" ")).or_default();
            *number += 1;
            outcomes.lines.insert((words.join(" "), *number));
            outcomes.passed += u64::from(is_passed);
            outcomes.all += 1;
        }
    }
    outcomes
}

#[cfg(test)]
mod tests {
    #[test]
    fn suites_are_read() {
        let text = "PASS: test_block_header\nFAIL: init.sh (exit status: 1)\nXFAIL: a\n\
             test unit::parse ... ok\ntest slow ... ignored, takes long\ntest result: ok. 2 passed\n\
             1/2 Test #1: cJSON_test .......................   Passed    0.01 sec\n\
             2/2 Test #2: other_test .......................***Failed    0.01 sec\n\
             1/1 fribidi:data / ltr          OK              0.02s\n\
             [\x1b[32mok\x1b[0m]: SET and GET (3 ms)\n\
             ./A01grammar.ztst: all tests successful.\n\
             [       OK ] Arena.Empty (0 ms)\n";
        let outcomes = super::outcomes(text);
        assert_eq!((outcomes.passed, outcomes.all), (7, 11), "{outcomes:?}");
        assert_eq!(super::outcomes(&text.replace("0.01 sec", "7.5 sec")), outcomes);
    }
}
