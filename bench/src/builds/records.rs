//! The links of a build, as `record-build-ld.sh` kept them, and whether two builds of a project made the same.
//!
//! Links of both builds are paired by output and by how many links to it came before: a configure script links the same name a
//! hundred times, one after the other. Arguments, status and messages must be the same; lines of lto-prune's own are kept apart. What
//! is temporary has another name each time and counts as one name.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::Result;

/// What became of a link that lto-prune was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fate {
    Pruned,
    /// Nothing could go, so that the originals were linked.
    Nothing,
    /// A limit of the whole link, by name and first detail.
    Limit(String, String),
    /// The originals were linked for another reason: a warning of ours says which.
    Warning(String),
    Refused,
    /// No link, or one that lto-prune leaves to the linker at once: no report was made.
    LeftAlone,
}

#[derive(Debug)]
pub(super) struct RecordedLink {
    pub(super) output: String,
    /// What to compare: arguments, status and messages, with temporary names replaced.
    seen: Vec<String>,
    /// The messages of the link that lto-prune wrote itself.
    pub(super) ours: Vec<String>,
    pub(super) fate: Fate,
}

/// The records of a build by output and number, in the order of time.
pub(super) type Links = BTreeMap<(String, usize), RecordedLink>;

/// The end of what lto-prune prints before the linker's own help.
const OWN_HELP: &str = "All other options are the linker's. ld.lto-prune --help prints its help as well.\n";

pub(super) fn read(dir: &Path) -> Result<Links> {
    let mut records = Vec::new();
    for entry in fs::read_dir(dir)? {
        records.push(entry?.path());
    }
    records.sort();
    let mut links = Links::new();
    for record in records {
        let link = read_one(&record).map_err(|e| format!("{}: {e}", record.display()))?;
        let same = links.range((link.output.clone(), 0)..=(link.output.clone(), usize::MAX)).count();
        links.insert((link.output.clone(), same), link);
    }
    Ok(links)
}

fn read_one(record: &Path) -> Result<RecordedLink> {
    let text = |name: &str| -> Result<String> {
        Ok(String::from_utf8_lossy(&fs::read(record.join(name))?).into_owned())
    };
    let args = text("args")?;
    let folder = text("folder")?;
    let output = match output(&args) {
        Some(output) => Path::new(folder.trim()).join(output).display().to_string(),
        None => "(no output)".to_owned(),
    };
    let status = text("status")?.trim().parse()?;
    let (ours, theirs): (Vec<_>, Vec<_>) =
        text("stderr")?.lines().map(str::to_owned).partition(|l| l.starts_with("lto-prune: "));
    let stdout = text("stdout")?;
    let stdout = stdout.split_once(OWN_HELP).map_or(&*stdout, |(_, linkers)| linkers);
    // Where the linker says its version, lto-prune says its own before that.
    let version = |l: &&str| !l.is_empty() && !l.starts_with("lto-prune ");
    let mut seen: Vec<String> =
        args.lines().map(|arg| format!("argument {}", without_temporary(arg))).collect();
    seen.push(format!("status {status}"));
    seen.extend(stdout.lines().filter(version).map(|line| format!("output {}", without_temporary(line))));
    seen.extend(theirs.iter().map(|line| format!("message {}", without_temporary(line))));
    let report = fs::read(record.join("report.json")).ok();
    let report: Option<Value> = report.map(|r| serde_json::from_slice(&r)).transpose()?;
    let fate = fate(status, report.as_ref(), &ours);
    Ok(RecordedLink { output: without_temporary(&output), seen, ours, fate })
}

fn output(args: &str) -> Option<&str> {
    let mut args = args.lines();
    let mut found = None;
    while let Some(arg) = args.next() {
        match arg.strip_prefix("-o").or_else(|| arg.strip_prefix("--output=")) {
            Some("") => found = args.next(),
            Some(path) => found = Some(path),
            None => {}
        }
    }
    found
}

/// Names that compilers and cargo make up: `cc` and six characters, clang's six after a dash, rustc's folder; CMake's and Meson's folders for probes.
fn without_temporary(text: &str) -> String {
    let mut out = String::new();
    // A path ends at what no path of a build has.
    for piece in text.split_inclusive(|c: char| c.is_whitespace() || "'\"`=,:()<>/".contains(c)) {
        let (name, end) = match piece.char_indices().next_back() {
            Some((at, c)) if c.is_whitespace() || "'\"`=,:()<>/".contains(c) => piece.split_at(at),
            _ => (piece, ""),
        };
        out.push_str(&stable_name(name));
        out.push_str(end);
    }
    out
}

fn stable_name(name: &str) -> String {
    let (stem, extension) = name.split_once('.').map_or((name, String::new()), |(s, e)| (s, format!(".{e}")));
    let made_up = |s: &str, length: usize| s.len() == length && s.bytes().all(|b| b.is_ascii_alphanumeric());
    // zlib's configure script takes its process number.
    if stem.strip_prefix("ztest").is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit())) {
        return format!("ztest*{extension}");
    }
    for prefix in ["cc", "rustc", "TryCompile-", "CMakeScratch-", "cmTC_", "tmp", "lto-prune-"] {
        let Some(rest) = stem.strip_prefix(prefix) else { continue };
        let length = match prefix {
            "cmTC_" => 5,
            "tmp" => 8,
            _ => 6,
        };
        let tmp = prefix == "tmp" && made_up(&rest.replace('_', "a"), length);
        if made_up(rest, length) || tmp {
            return format!("{prefix}*{extension}");
        }
    }
    match stem.rsplit_once('-') {
        Some((stem, rest)) if made_up(rest, 6) && extension == ".o" => format!("{stem}-*{extension}"),
        _ => name.to_owned(),
    }
}

fn fate(status: i32, report: Option<&Value>, ours: &[String]) -> Fate {
    if status != 0 {
        return Fate::Refused;
    }
    if let Some(report) = report {
        if report["pruned"] == Value::Bool(true) {
            return Fate::Pruned;
        }
        let limits = report["limits"].as_array().map(Vec::as_slice).unwrap_or_default();
        if let Some(limit) = limits.iter().find(|l| l["severity"] == "link") {
            let part = |name: &str| limit[name].as_str().unwrap_or("?").to_owned();
            return Fate::Limit(part("limit"), part("detail"));
        }
    }
    match (ours.first(), report) {
        (Some(warning), _) => Fate::Warning(warning.clone()),
        (None, Some(_)) => Fate::Nothing,
        (None, None) => Fate::LeftAlone,
    }
}

/// How the links of two builds differ.
pub(super) fn differences(plain: &Links, pruned: &Links) -> Vec<String> {
    let mut out = Vec::new();
    for ((output, number), link) in plain {
        let Some(other) = pruned.get(&(output.clone(), *number)) else {
            out.push(format!("link {number} of {output}: only in the plain build"));
            continue;
        };
        for line in link.seen.iter().filter(|l| !other.seen.contains(l)) {
            out.push(format!("link {number} of {output}: only plain: {line}"));
        }
        for line in other.seen.iter().filter(|l| !link.seen.contains(l)) {
            out.push(format!("link {number} of {output}: only pruned: {line}"));
        }
    }
    for (output, number) in pruned.keys().filter(|k| !plain.contains_key(k)) {
        out.push(format!("link {number} of {output}: only in the pruned build"));
    }
    out
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn record(dir: &Path, name: &str, stderr: &str, status: i32) {
        let dir = dir.join(name);
        fs::create_dir_all(&dir).unwrap();
        let args = "-o\nconftest\n/tmp/ccAbCdEf.o\n";
        let parts = [("args", args), ("folder", "/build\n"), ("stdout", ""), ("stderr", stderr)];
        for (part, text) in parts {
            fs::write(dir.join(part), text).unwrap();
        }
        fs::write(dir.join("status"), format!("{status}\n")).unwrap();
    }

    #[test]
    fn what_one_link_says_is_compared_with_what_the_same_one_says() {
        let scratch = std::env::temp_dir().join(format!("bench-records-{}", std::process::id()));
        let (plain, pruned) = (scratch.join("plain"), scratch.join("pruned"));
        record(&plain, "1-aaaaaa", "", 0);
        record(&plain, "2-bbbbbb", "ld: error: undefined symbol: f\n", 1);
        record(&pruned, "7-cccccc", "lto-prune: warning: link: something\n", 0);
        record(&pruned, "8-dddddd", "ld: error: undefined symbol: f\n", 1);
        let (a, b) = (read(&plain).unwrap(), read(&pruned).unwrap());
        assert_eq!(differences(&a, &b), Vec::<String>::new());
        let fates: Vec<&Fate> = b.values().map(|l| &l.fate).collect();
        assert_eq!(fates, [&Fate::Warning("lto-prune: warning: link: something".into()), &Fate::Refused]);
        record(&pruned, "8-dddddd", "", 0);
        let differs = differences(&a, &read(&pruned).unwrap());
        assert_eq!(differs.len(), 3, "{differs:?}");
        record(&pruned, "9-eeeeee", "", 0);
        let differs = differences(&a, &read(&pruned).unwrap());
        assert_eq!(differs.last().unwrap(), "link 2 of /build/conftest: only in the pruned build");
        fs::remove_dir_all(&scratch).unwrap();
    }

    #[test]
    fn temporary_names_are_one() {
        let a = without_temporary("ld: /tmp/ccAb12Cd.o: in main; conftest-0a1b2c.o rustcQwErTy/symbols.o");
        let b = without_temporary("ld: /tmp/ccZZ99xx.o: in main; conftest-ffffff.o rustcAAAAAA/symbols.o");
        assert_eq!(a, b);
        assert_eq!(without_temporary("/usr/lib/crti.o -lfoo"), "/usr/lib/crti.o -lfoo");
        assert_ne!(without_temporary("a/one.o"), without_temporary("a/two.o"));
    }
}
