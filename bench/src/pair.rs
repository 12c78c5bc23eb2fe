//! A link that is done twice, by the linker alone and with lto-prune in front of it, and the facts of both.
//!
//! Both start from copies of the same folder under the same relative names, so that no message depends on the folder. The folder afterwards
//! is compared too: a file too many is a difference.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::corpus::find_linker;
use crate::facts;
use crate::process::run_ok;

#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) facts: Vec<String>,
    pub(crate) linked: bool,
    bytes: Vec<u8>,
}

impl Side {
    fn add_lines(&mut self, stream: &str, text: &[u8]) {
        let text = String::from_utf8_lossy(text);
        self.facts.extend(text.lines().map(|line| without_temporaries(&format!("{stream}: {line}"))));
    }

    /// Run a program; its end and its output are facts.
    fn run(&mut self, command: &mut Command) -> Result<()> {
        let done = command.output().map_err(|e| format!("{:?}: {e}", command.get_program()))?;
        self.facts.push(format!("run: {}", done.status));
        self.add_lines("run prints", &done.stdout);
        self.add_lines("run prints", &done.stderr);
        Ok(())
    }
}

#[derive(Debug)]
pub(crate) struct LinkPair {
    pub(crate) plain: Side,
    pub(crate) pruned: Side,
}

impl LinkPair {
    /// Whether the pruned link is another file than the plain one.
    pub(crate) fn is_pruned(&self) -> bool {
        self.plain.linked && self.pruned.linked && self.plain.bytes != self.pruned.bytes
    }

    /// The lines that only one side has: `-` the plain link, `+` the pruned one.
    pub(crate) fn differences(&self) -> Vec<String> {
        differences(&self.plain.facts, &self.pruned.facts)
    }
}

/// The lines that one list has more often: `-` the plain one, `+` the pruned one.
pub(crate) fn differences(plain: &[String], pruned: &[String]) -> Vec<String> {
    let mut counts: BTreeMap<&str, i32> = BTreeMap::new();
    plain.iter().for_each(|fact| *counts.entry(fact).or_default() -= 1);
    pruned.iter().for_each(|fact| *counts.entry(fact).or_default() += 1);
    let differ = counts.into_iter().filter(|(_, n)| *n != 0);
    differ.map(|(fact, n)| format!("{}{fact}", if n < 0 { '-' } else { '+' })).collect()
}

/// The tools of all pairs of a run.
#[derive(Debug)]
pub(crate) struct PairTools {
    pub(crate) pruner: PathBuf,
    pub(crate) linkers: Vec<(String, PathBuf)>,
    /// It has a folder for each linker in which `ld` is that linker, and `ours`, in which it is lto-prune.
    shims: PathBuf,
    /// A program that loads a library and calls the functions that are named.
    host: PathBuf,
}

impl PairTools {
    /// The linkers that are installed, or those asked for; the folder `base` gets the shims.
    ///
    /// # Errors
    /// A linker of `--linkers` is missing, or the host does not compile.
    pub(crate) fn new(pruner: &Path, asked: &[String], known: &[&str], base: &Path) -> Result<PairTools> {
        let mut linkers = Vec::new();
        for name in known.iter().filter(|name| asked.is_empty() || asked.iter().any(|a| a == *name)) {
            match find_linker(name) {
                Ok(path) => linkers.push(((*name).to_owned(), path)),
                Err(e) if !asked.is_empty() => return Err(e),
                Err(_) => {}
            }
        }
        let (shims, host) = (base.join("shims"), base.join("host"));
        let _ = fs::remove_dir_all(&shims);
        for (name, path) in &linkers {
            // A script, so that the linker has its own name in messages both ways.
            fs::create_dir_all(shims.join(name))?;
            let script = shims.join(name).join("ld");
            fs::write(&script, format!("#!/bin/sh\nexec {} \"$@\"\n", path.display()))?;
            fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
        }
        crate::corpus::folder_of(&shims.join("ours"), pruner)?;
        fs::write(base.join("host.c"), include_str!("host.c"))?;
        run_ok(Command::new("gcc").arg(base.join("host.c")).arg("-o").arg(&host), base)?;
        Ok(PairTools { pruner: pruner.to_owned(), linkers, shims, host })
    }

    /// The path of a linker by its name.
    pub(crate) fn linker(&self, name: &str) -> Result<&Path> {
        Ok(self.linkers.iter().find(|l| l.0 == name).map(|l| l.1.as_path()).ok_or("no such linker")?)
    }
}

/// A link to be done twice.
#[derive(Debug)]
pub(crate) struct PairedLink<'a> {
    pub(crate) linker: &'a str,
    /// The driver and its words, without a choice of linker.
    pub(crate) line: Vec<String>,
    pub(crate) output: String,
    pub(crate) is_shared: bool,
    /// It is a relocatable output (`-r`), which is linked further.
    pub(crate) is_relocatable: bool,
    /// They are the `LTO_PRUNE_FLAGS` of the pruned link.
    pub(crate) flags: String,
}

impl PairedLink<'_> {
    /// Link both ways in `dir/plain` and `dir/pruned`, from the files in `inputs`, and run the outputs.
    ///
    /// With `control` the second link is a plain one too: differences are then those of the linker.
    pub(crate) fn link(
        &self,
        tools: &PairTools,
        dir: &Path,
        inputs: &Path,
        control: bool,
    ) -> Result<LinkPair> {
        let before = listing(inputs);
        let second = if control { self.linker } else { "ours" };
        let [mut plain, mut pruned] = [("plain", self.linker), ("pruned", second)].map(|(name, shim)| {
            let folder = dir.join(name);
            copy_files(inputs, &folder)?;
            let mut command = Command::new("timeout");
            let (driver, words) = self.line.split_first().ok_or("an empty line")?;
            // A linker that fills the memory must not end other processes.
            command.args(["-s", "KILL", "100", "prlimit", "--as=8589934592", driver]);
            command.arg(format!("-B{}", tools.shims.join(shim).display())).args(words).current_dir(&folder);
            command.env("LC_ALL", "C").env_remove("LTO_PRUNE_FLAGS");
            if name == "pruned" {
                command.env("LTO_PRUNE_LINKER", tools.linker(self.linker)?);
                command.env("LTO_PRUNE_FLAGS", &self.flags);
            }
            self.side(tools, &mut command, &before, &folder)
        });
        if let (Ok(plain), Ok(pruned)) = (&mut plain, &mut pruned)
            && plain.linked
            && pruned.linked
        {
            // The functions of the plain library: a missing one of the pruned library shows.
            let names = facts::callable(&dir.join("plain").join(&self.output));
            let names: BTreeSet<String> = names.into_iter().filter(|_| self.is_shared).collect();
            for (name, side) in [("plain", plain), ("pruned", pruned)] {
                self.run(tools, &dir.join(name), side, &names)?;
            }
        }
        Ok(LinkPair { plain: plain?, pruned: pruned? })
    }

    fn side(
        &self,
        tools: &PairTools,
        command: &mut Command,
        before: &BTreeMap<String, Vec<u8>>,
        folder: &Path,
    ) -> Result<Side> {
        let done = command.output().map_err(|e| format!("{:?}: {e}", command.get_program()))?;
        let facts = vec![format!("link status: {}", done.status)];
        let mut side = Side { facts, linked: done.status.success(), bytes: Vec::new() };
        let mut out = done.stdout;
        side.bytes = fs::read(folder.join(&self.output)).unwrap_or_default();
        if let Some(at) = out.windows(4).position(|w| w == b"\x7fELF") {
            // `-o -`: messages may stand before the output.
            side.bytes = out.split_off(at);
            let facts = facts::of_bytes(&side.bytes);
            side.facts.extend(facts.into_iter().map(|f| format!("standard output has {f}")));
        }
        side.add_lines("stdout", &out);
        side.add_lines("stderr", &done.stderr);
        side.facts.extend(facts::of_output(&folder.join(&self.output)));
        if self.is_relocatable {
            let mut hash = DefaultHasher::new();
            side.bytes.hash(&mut hash);
            side.facts.push(format!(
                "relocatable output: {} bytes, hash {:016x}",
                side.bytes.len(),
                hash.finish()
            ));
        }
        let after = listing(folder);
        for (file, contents) in &after {
            if !before.contains_key(file) {
                side.facts.push(format!("new file: {file}"));
                if file.ends_with(".d") {
                    let text = String::from_utf8_lossy(contents);
                    // The order of names and line breaks do not matter.
                    let names: BTreeSet<&str> =
                        text.split_whitespace().filter(|word| *word != "\\").collect();
                    side.facts.extend(names.into_iter().map(|name| format!("dependency file: {name}")));
                }
            } else if before[file] != *contents && *file != self.output {
                side.facts.push(format!("changed file: {file}"));
            }
        }
        side.facts
            .extend(before.keys().filter(|f| !after.contains_key(*f)).map(|f| format!("lost file: {f}")));
        let here = format!("{}/", folder.display());
        // With some options a driver prints the path of its linker.
        let shims = [self.linker, "ours"].map(|name| tools.shims.join(name).display().to_string());
        for fact in &mut side.facts {
            *fact =
                without_temporaries(&fact.replace(&here, "").replace(&shims[0], "B").replace(&shims[1], "B"));
        }
        Ok(side)
    }

    fn run(&self, tools: &PairTools, folder: &Path, side: &mut Side, names: &BTreeSet<String>) -> Result<()> {
        let mut program = format!("./{}", self.output);
        if self.output == "-" {
            program = "./from-stdout".to_owned();
            fs::write(folder.join(&program), &side.bytes)?;
            fs::set_permissions(folder.join(&program), fs::Permissions::from_mode(0o755))?;
        }
        if self.is_relocatable {
            let is_cxx = self.line.first().is_some_and(|driver| driver.contains("++"));
            let mut command = Command::new(if is_cxx { "g++" } else { "gcc" });
            let done = command.args([&program, "-o", "./final"]).current_dir(folder).output()?;
            if !done.status.success() {
                side.facts.push("further link: fails".to_owned());
                return Ok(());
            }
            program = "./final".to_owned();
        }
        let mut command = Command::new("timeout");
        command.args(["-s", "KILL", "10"]);
        match self.is_shared {
            true => command.arg(&tools.host).arg(&program).args(names),
            false => command.arg(&program),
        };
        side.run(command.current_dir(folder).env("LD_LIBRARY_PATH", ".").env("LC_ALL", "C"))
    }
}

/// The files of a folder by their path below it, with their contents.
fn listing(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![dir.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path.clone());
            }
            let name = path.strip_prefix(dir).unwrap_or(&path).display().to_string();
            files.insert(name, fs::read(&path).unwrap_or_default());
        }
    }
    files
}

pub(crate) fn copy_files(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            copy_files(&entry.path(), &to.join(entry.file_name()))?;
        } else {
            fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

/// Replace random names of temporary files (of the driver, of mold, of lto-prune) and the number of a thread of wild that panics.
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
