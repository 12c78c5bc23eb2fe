//! The links of a build, as `record-build-ld.sh` kept them, and the differences of two builds.
//!
//! Links are paired by output and by the number of earlier links to it: a configure script links the same name a hundred times. Arguments,
//! status and messages must be the same; lines of lto-prune are kept apart. Temporary names count as one name.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::Result;
use crate::report::text;

#[derive(Debug)]
pub(super) struct RecordedLink {
    output: String,
    /// Arguments, status and messages, with temporary names replaced.
    seen: Vec<String>,
    /// Lines of lto-prune, and its reason if nothing was pruned.
    pub(super) messages: Vec<String>,
    /// `pruned`, `nothing to drop`, `fell back`, `refused`; `no link` if lto-prune made no report.
    pub(super) fate: &'static str,
}

/// The records of a build by output and number, in the order of time.
pub(super) type Links = BTreeMap<(String, usize), RecordedLink>;

/// The end of lto-prune's own help, before that of the linker.
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
    let read = |name: &str| -> Result<String> {
        Ok(String::from_utf8_lossy(&fs::read(record.join(name))?).into_owned())
    };
    let (args, folder) = (read("args")?, read("folder")?);
    let output = output(&args)
        .map_or("(no output)".into(), |o| Path::new(folder.trim()).join(o).display().to_string());
    let status: i32 = read("status")?.trim().parse()?;
    let (mut messages, theirs): (Vec<_>, Vec<_>) =
        read("stderr")?.lines().map(str::to_owned).partition(|l| l.starts_with("lto-prune: "));
    let stdout = read("stdout")?;
    let stdout = stdout.split_once(OWN_HELP).map_or(&*stdout, |(_, linkers)| linkers);
    // lto-prune prints its version before that of the linker.
    let is_theirs = |l: &&str| !l.is_empty() && !l.starts_with("lto-prune ");
    let mut seen: Vec<String> =
        args.lines().map(|arg| format!("argument {}", without_temporary(arg))).collect();
    seen.push(format!("status {status}"));
    seen.extend(stdout.lines().filter(is_theirs).map(|line| format!("output {}", without_temporary(line))));
    seen.extend(theirs.iter().map(|line| format!("message {}", without_temporary(line))));
    let report = fs::read(record.join("report.json")).ok();
    let report: Option<Value> = report.map(|r| serde_json::from_slice(&r)).transpose()?;
    let limits = report.iter().flat_map(|report| report["limits"].as_array().into_iter().flatten());
    let limit = limits.into_iter().find(|l| l["severity"] == "link");
    let fate = match &report {
        _ if status != 0 => "refused",
        Some(report) if report["pruned"] == Value::Bool(true) => "pruned",
        _ if limit.is_some() || !messages.is_empty() => "fell back",
        Some(_) => "nothing to drop",
        None => "no link",
    };
    if let Some(limit) = limit.filter(|_| fate == "fell back") {
        messages.push(format!("{}: {}", text(limit, "limit"), text(limit, "detail")));
    }
    Ok(RecordedLink { output: without_temporary(&output), seen, messages, fate })
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

/// Replace the end of names that compilers, cargo, CMake, Meson and configure scripts make up.
fn without_temporary(text: &str) -> String {
    let mut text = text.to_owned();
    for prefix in ["/cc", "rustc", "TryCompile-", "CMakeScratch-", "cmTC_", "tmp", "lto-prune-", "ztest", "-"]
    {
        let mut from = 0;
        while let Some(at) = text.get(from..).and_then(|rest| rest.find(prefix)) {
            from += at + prefix.len();
            let rest = text.get(from..).unwrap_or_default();
            let length = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            // clang has six characters between a dash and the extension.
            if prefix != "-" || length == 6 && rest.get(6..).is_some_and(|rest| rest.starts_with(".o")) {
                text.replace_range(from..from + length, "*");
            }
        }
    }
    text
}

/// The differences of two builds in their links.
pub(super) fn differences(plain: &Links, pruned: &Links) -> Vec<String> {
    let mut out = Vec::new();
    for ((output, number), link) in plain {
        let name = format!("link {number} of {output}");
        match pruned.get(&(output.clone(), *number)) {
            Some(other) => {
                let lines = crate::pair::differences(&link.seen, &other.seen);
                out.extend(lines.iter().map(|line| format!("{name}: {line}")));
            }
            None => out.push(format!("{name}: only in the plain build")),
        }
    }
    let new = pruned.keys().filter(|k| !plain.contains_key(k));
    out.extend(new.map(|(output, number)| format!("link {number} of {output}: only in the pruned build")));
    out
}
