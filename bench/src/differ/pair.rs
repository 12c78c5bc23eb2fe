//! A link done twice, by the linker alone and by lto-prune in front of it, and all that is known of both.
//!
//! Both start from copies of the same folder under the same relative names, so that nothing of a message depends on
//! where it was linked. The folder afterwards is part of what is compared: a file too many is a difference.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::case::{DifferCase, copy_files};
use super::facts;
use super::feature::Feature;
use crate::Result;

#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) facts: Vec<String>,
    pub(crate) linked: bool,
    bytes: Vec<u8>,
}

impl Side {
    /// Link by a `command`, which writes `output` in `folder`, and run that.
    pub(super) fn of_command(command: &mut Command, folder: &Path, output: &str) -> Result<Side> {
        let done = command.output().map_err(|e| format!("{:?}: {e}", command.get_program()))?;
        let mut side = Side {
            facts: vec![format!("link status: {}", done.status)],
            linked: done.status.success(),
            bytes: std::fs::read(folder.join(output)).unwrap_or_default(),
        };
        side.print("stdout", &done.stdout);
        side.print("stderr", &done.stderr);
        side.facts.extend(facts::of_output(&folder.join(output)));
        if side.linked {
            let done =
                Command::new("timeout").args(["-s", "KILL", "10"]).arg(folder.join(output)).output()?;
            side.facts.push(format!("run: {}", done.status));
            side.print("run prints", &done.stdout);
        }
        Ok(side)
    }

    fn print(&mut self, stream: &str, text: &[u8]) {
        let text = String::from_utf8_lossy(text);
        self.facts.extend(text.lines().map(|line| without_temporaries(&format!("{stream}: {line}"))));
    }
}

#[derive(Debug)]
pub(crate) struct LinkPair {
    pub(crate) plain: Side,
    pub(crate) pruned: Side,
    /// The report, where one was asked for and written.
    pub(crate) report: Option<serde_json::Value>,
}

impl LinkPair {
    /// Whether the pruned link is another file than the plain one: then something went.
    pub(crate) fn is_pruned(&self) -> bool {
        self.plain.linked && self.pruned.linked && self.plain.bytes != self.pruned.bytes
    }

    /// What only one side has: `-` the plain link, `+` the pruned one.
    pub(crate) fn differences(&self) -> Vec<String> {
        let mut counts: BTreeMap<&str, i32> = BTreeMap::new();
        for fact in &self.plain.facts {
            *counts.entry(fact).or_default() -= 1;
        }
        for fact in &self.pruned.facts {
            *counts.entry(fact).or_default() += 1;
        }
        let differ = counts.into_iter().filter(|(_, n)| *n != 0);
        differ.map(|(fact, n)| format!("{}{fact}", if n < 0 { '-' } else { '+' })).collect()
    }
}

/// What links need that is the same for all.
#[derive(Debug)]
pub(crate) struct DifferTools {
    pub(crate) pruner: PathBuf,
    pub(crate) linkers: Vec<(&'static str, PathBuf)>,
    pub(crate) cache: PathBuf,
    /// A folder for each linker in which `ld` is that linker, and `ours`, in which it is lto-prune.
    pub(crate) shims: PathBuf,
    pub(crate) host: PathBuf,
}

/// The files of a folder by their path below it, with their contents.
fn listing(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![dir.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path.clone());
            }
            let name = path.strip_prefix(dir).unwrap_or(&path).display().to_string();
            files.insert(name, std::fs::read(&path).unwrap_or_default());
        }
    }
    files
}

/// The words of a shell command that does what `line` with `tools` does.
pub(crate) fn line_for(line: &[String], shim: &Path) -> Vec<String> {
    let mut words = line.to_vec();
    words.insert(1, format!("-B{}", shim.display()));
    words
}

/// Link both ways in `dir/plain` and `dir/pruned`, from the inputs in `dir/inputs`, and run what comes out.
///
/// `control` is that the second link is the plain one too: what differs then differs by itself.
pub(crate) fn link(
    case: &DifferCase,
    features: &[Feature],
    tools: &DifferTools,
    dir: &Path,
    control: bool,
) -> Result<LinkPair> {
    let inputs = dir.join("inputs");
    let line = case.line(features);
    let report = dir.join("report.json");
    let mut sides = Vec::new();
    let second = if control { case.linker } else { "ours" };
    for (name, shim) in [("plain", case.linker), ("pruned", second)] {
        let folder = dir.join(name);
        copy_files(&inputs, &folder)?;
        let words = line_for(&line, &tools.shims.join(shim));
        let mut command = Command::new("timeout");
        // A linker that fills the memory must not end anything else.
        command.args(["-s", "KILL", "100", "prlimit", "--as=8589934592"]).args(&words).current_dir(&folder);
        command.env("LC_ALL", "C").env_remove("LTO_PRUNE_FLAGS");
        if name == "pruned" {
            let path = tools.linkers.iter().find(|l| l.0 == case.linker).map(|l| &l.1);
            command.env("LTO_PRUNE_LINKER", path.ok_or("no such linker")?);
            command.env("LTO_PRUNE_FLAGS", flags(case, &report));
        }
        sides.push(side(case, features, tools, &mut command, &inputs, &folder)?);
    }
    let (Some(mut pruned), Some(mut plain)) = (sides.pop(), sides.pop()) else {
        return Err("no sides".into());
    };
    if plain.linked && pruned.linked {
        run(case, features, tools, dir, &mut plain, &mut pruned)?;
    }
    let report = std::fs::read(&report).ok().and_then(|text| serde_json::from_slice(&text).ok());
    Ok(LinkPair { plain, pruned, report })
}

/// Options of ours for a case.
pub(crate) fn flags(case: &DifferCase, report: &Path) -> String {
    let report = if case.report { format!(" --prune-report={}", report.display()) } else { String::new() };
    format!("--prune-level={}{report}", case.level)
}

fn side(
    case: &DifferCase,
    features: &[Feature],
    tools: &DifferTools,
    command: &mut Command,
    inputs: &Path,
    folder: &Path,
) -> Result<Side> {
    let before = listing(inputs);
    let done = command.output().map_err(|e| format!("{:?}: {e}", command.get_program()))?;
    let mut facts = vec![format!("link status: {}", done.status)];
    let mut out = done.stdout;
    let name = case.output(features);
    let mut bytes = std::fs::read(folder.join(&name)).unwrap_or_default();
    if let Some(at) = out.windows(4).position(|w| w == b"\x7fELF") {
        // `-o -`: the output may have messages before it.
        bytes = out.split_off(at);
        facts.extend(facts::of_bytes(&bytes).into_iter().map(|f| format!("standard output has {f}")));
    }
    for (stream, text) in [("stdout", &out), ("stderr", &done.stderr)] {
        let text = String::from_utf8_lossy(text);
        facts.extend(text.lines().map(|line| format!("{stream}: {line}")));
    }
    facts.extend(facts::of_output(&folder.join(&name)));
    if case.mode_name() == "r" {
        facts.push(format!("relocatable output: {}", summary(&bytes)));
    }
    let after = listing(folder);
    for (file, contents) in &after {
        if !before.contains_key(file) {
            facts.push(format!("new file: {file}"));
            if file.ends_with(".d") {
                let text = String::from_utf8_lossy(contents);
                // The order of names, how often one is there, and how lines are broken, say nothing.
                let names: BTreeSet<&str> = text.split_whitespace().filter(|word| *word != "\\").collect();
                facts.extend(names.into_iter().map(|name| format!("dependency file: {name}")));
            }
        } else if before[file] != *contents && *file != name {
            facts.push(format!("changed file: {file}"));
        }
    }
    facts.extend(before.keys().filter(|f| !after.contains_key(*f)).map(|f| format!("lost file: {f}")));
    let here = format!("{}/", folder.display());
    for fact in &mut facts {
        // A driver that is asked for it prints the path of its linker.
        let shims = [case.linker, "ours"].map(|name| tools.shims.join(name).display().to_string());
        *fact = without_temporaries(&fact.replace(&here, "").replace(&shims[0], "B").replace(&shims[1], "B"));
    }
    Ok(Side { facts, linked: done.status.success(), bytes })
}

fn summary(bytes: &[u8]) -> String {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hash = DefaultHasher::new();
    bytes.hash(&mut hash);
    format!("{} bytes, hash {:016x}", bytes.len(), hash.finish())
}

/// Random names of temporary files, made the same: the compiler driver's, mold's, ours; and the number of a thread of wild's that panics.
fn without_temporaries(line: &str) -> String {
    let mut text = line.to_owned();
    if let Some((before, after)) = line.split_once("' (")
        && let Some((_, after)) = after.split_once(") panicked")
    {
        text = format!("{before}' panicked{after}");
    }
    for (prefix, length) in [("/tmp/cc", 6), (".mold-", 6), (".lto-prune-", 6), ("/dev/shm/lto-prune-", 6)] {
        let Some(at) = text.find(prefix) else { continue };
        let end = text.len().min(at + prefix.len() + length);
        if text.is_char_boundary(end) {
            text.replace_range(at + prefix.len()..end, "RANDOM");
        }
    }
    text
}

/// Run both programs; what they do are facts of theirs.
fn run(
    case: &DifferCase,
    features: &[Feature],
    tools: &DifferTools,
    dir: &Path,
    plain: &mut Side,
    pruned: &mut Side,
) -> Result<()> {
    let output = case.output(features);
    let mut names: BTreeSet<String> = BTreeSet::new();
    if case.mode_name() == "shared" {
        // What the plain library exports; what the pruned one lacks of it shows.
        names.extend(facts::callable(&dir.join("plain").join(&output)));
    }
    for (name, side) in [("plain", plain), ("pruned", pruned)] {
        let folder = dir.join(name);
        let mut program = format!("./{output}");
        if output == "-" {
            std::fs::write(folder.join("from-stdout"), &side.bytes)?;
            use std::os::unix::fs::PermissionsExt;
            std::fs::set_permissions(folder.join("from-stdout"), std::fs::Permissions::from_mode(0o755))?;
            program = "./from-stdout".to_owned();
        }
        if case.mode_name() == "r" {
            let driver = if case.line(features)[0].contains("++") { "g++" } else { "gcc" };
            let mut command = Command::new(driver);
            command.args([&program, "-o", "./final"]).current_dir(&folder);
            let done = command.output()?;
            if !done.status.success() {
                side.facts.push("further link: fails".to_owned());
                continue;
            }
            program = "./final".to_owned();
        }
        let mut command = Command::new("timeout");
        command.args(["-s", "KILL", "10"]);
        match case.mode_name() {
            "shared" => command.arg(tools.host.join("host")).arg(&program).args(&names),
            _ => command.arg(&program),
        };
        command.current_dir(&folder).env("LD_LIBRARY_PATH", ".").env("LC_ALL", "C");
        let done = command.output().map_err(|e| format!("{program}: {e}"))?;
        side.facts.push(format!("run: {}", done.status));
        for text in [&done.stdout, &done.stderr] {
            let text = String::from_utf8_lossy(text);
            side.facts.extend(text.lines().map(|line| format!("run prints: {line}")));
        }
    }
    Ok(())
}
