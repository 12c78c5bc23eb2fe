//! What a project's own test suite says, read from what it prints.
//!
//! Suites of Automake, CTest, Meson, cargo, googletest, zsh, redis and of Perl's harness are known. A line that names a test and its
//! result is an outcome; totals are taken only where no test is named. Of a suite without a known line
//! only the exit status is compared.

use std::collections::BTreeMap;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Outcomes {
    /// How often each `RESULT NAME` was printed.
    pub(super) lines: BTreeMap<String, usize>,
    pub(super) passed: usize,
    pub(super) failed: usize,
    /// They were skipped, or failed as expected.
    pub(super) other: usize,
}

/// Words that begin a line of Automake, of shell harnesses and of redis.
const LEADING: [(&str, TestOutcome); 11] = [
    ("PASS:", TestOutcome::Passed),
    ("FAIL:", TestOutcome::Failed),
    ("ERROR:", TestOutcome::Failed),
    ("XPASS:", TestOutcome::Failed),
    ("SKIP:", TestOutcome::Other),
    ("XFAIL:", TestOutcome::Other),
    ("[ok]:", TestOutcome::Passed),
    ("[err]:", TestOutcome::Failed),
    ("[exception]:", TestOutcome::Failed),
    ("[ignore]:", TestOutcome::Other),
    ("[skip]:", TestOutcome::Other),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TestOutcome {
    Passed,
    Failed,
    Other,
}

impl Outcomes {
    pub(super) fn of(text: &str) -> Outcomes {
        let mut outcomes = Outcomes::default();
        for line in text.lines() {
            let line = without_colours(line);
            if let Some((kind, name)) = named(line.trim()) {
                outcomes.add(kind, name);
            }
        }
        outcomes
    }

    fn add(&mut self, kind: TestOutcome, name: String) {
        let count = match kind {
            TestOutcome::Passed => &mut self.passed,
            TestOutcome::Failed => &mut self.failed,
            TestOutcome::Other => &mut self.other,
        };
        *count += 1;
        *self.lines.entry(format!("{kind:?} {name}")).or_default() += 1;
    }
}

/// Terminals are told colours, which are no part of the result.
fn without_colours(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("\x1b[") {
        out.push_str(before);
        rest = after.split_once('m').map_or("", |(_, after)| after);
    }
    out.push_str(rest);
    out
}

/// The result and name of the test that a line is about.
fn named(line: &str) -> Option<(TestOutcome, String)> {
    for (word, kind) in LEADING {
        if let Some(name) = line.strip_prefix(word) {
            return Some((kind, without_time(name)));
        }
    }
    // cargo: `test NAME ... ok`
    if let Some((name, result)) = line.strip_prefix("test ").and_then(|l| l.rsplit_once(" ... ")) {
        let kind = match result.split([',', ' ']).next()? {
            "ok" => TestOutcome::Passed,
            "FAILED" => TestOutcome::Failed,
            "ignored" => TestOutcome::Other,
            _ => return None,
        };
        return Some((kind, name.to_owned()));
    }
    // zsh: `FILE: all tests successful.` and two ways to fail
    if let Some(name) = line.strip_suffix(": all tests successful.") {
        return Some((TestOutcome::Passed, name.to_owned()));
    }
    if let Some((name, _)) = line.split_once(": test case skipped") {
        return Some((TestOutcome::Other, name.to_owned()));
    }
    if let Some((name, _)) = line.split_once(": test failed.") {
        return Some((TestOutcome::Failed, name.to_owned()));
    }
    // googletest, of a program that is run by itself: `[       OK ] NAME (0 ms)`
    if let Some(name) = line.strip_prefix("[       OK ]") {
        return Some((TestOutcome::Passed, without_time(name)));
    }
    // CTest: ` 1/19 Test  #1: NAME ....   Passed    0.01 sec`
    let (number, rest) = line.split_once(' ')?;
    let (of, all) = number.split_once('/')?;
    of.parse::<u32>().ok()?;
    all.parse::<u32>().ok()?;
    if rest.starts_with("Test ") {
        let (name, result) = rest.split_once(": ").map(|(_, r)| r)?.split_once(" .")?;
        let kind = if result.contains("Passed") {
            TestOutcome::Passed
        } else if result.contains("Skipped") {
            TestOutcome::Other
        } else {
            TestOutcome::Failed
        };
        return Some((kind, name.trim().to_owned()));
    }
    // Meson: `1/5 NAME          OK              0.02s`; the name may have spaces.
    let results = [
        (" OK ", TestOutcome::Passed),
        (" FAIL ", TestOutcome::Failed),
        (" ERROR ", TestOutcome::Failed),
        (" TIMEOUT ", TestOutcome::Failed),
        (" SKIP ", TestOutcome::Other),
        (" EXPECTEDFAIL ", TestOutcome::Other),
    ];
    let (name, kind) = results.iter().find_map(|(word, kind)| Some((rest.split_once(word)?.0, *kind)))?;
    Some((kind, name.trim().to_owned()))
}

/// A name without the time that stands behind it in brackets.
fn without_time(name: &str) -> String {
    let name = name.trim();
    match name.rsplit_once(" (") {
        Some((name, time)) if time.ends_with(" ms)") || time.ends_with("seconds)") => name.to_owned(),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let outcomes = Outcomes::of(text);
        assert_eq!((outcomes.passed, outcomes.failed, outcomes.other), (7, 2, 2), "{outcomes:?}");
        assert_eq!(outcomes.lines.get("Passed SET and GET"), Some(&1));
        assert_eq!(outcomes.lines.get("Passed fribidi:data / ltr"), Some(&1));
        assert_eq!(outcomes.lines.get("Passed Arena.Empty"), Some(&1));
    }
}
