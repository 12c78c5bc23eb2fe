//! The files that a build left, and which of them differ.
//!
//! Programs and shared libraries are compared by what others see of them ([`faces`]). All else must be the
//! same, byte for byte, as the build had no reason to notice the pruner: objects, archives, what configure scripts and CMake wrote.
//! Left out is what has times, process numbers or other accidents in it, by name; of `config.log` the conclusions are compared.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use super::faces::{self, Face};
use crate::Result;

/// All files by path below the folder of the build.
#[derive(Debug, Default)]
pub(super) struct BuildTree {
    pub(super) linked: BTreeMap<PathBuf, Face>,
    /// The values are hashes of the contents.
    pub(super) others: BTreeMap<PathBuf, u64>,
}

impl BuildTree {
    /// Bytes of `.text` of the linked files below `part`, which is `inst` for what was installed or `tree` for what was built.
    pub(super) fn text(&self, part: &str) -> u64 {
        self.linked.iter().filter(|(path, _)| path.starts_with(part)).map(|(_, face)| face.text).sum()
    }
}

/// Read `tree` and `inst` below `dir`.
pub(super) fn read(dir: &Path) -> Result<BuildTree> {
    let mut files = BuildTree::default();
    for part in ["tree", "inst"] {
        visit(dir, &dir.join(part), &mut files)?;
    }
    Ok(files)
}

fn visit(root: &Path, dir: &Path, files: &mut BuildTree) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let kind = fs::symlink_metadata(&path)?.file_type();
        if kind.is_dir() {
            visit(root, &path, files)?;
        }
        if !kind.is_file() {
            continue;
        }
        let relative = path.strip_prefix(root)?.to_owned();
        let data = fs::read(&path)?;
        if faces::is_linked(&data) {
            let face = faces::read(&data).map_err(|e| format!("{}: {e}", relative.display()))?;
            files.linked.insert(relative, face);
        } else if let Some(data) = comparable(&relative, data) {
            let mut hasher = DefaultHasher::new();
            data.hash(&mut hasher);
            files.others.insert(relative, hasher.finish());
        }
    }
    Ok(())
}

/// Folders of logs, and of what the tools keep for themselves, with times and in random order.
const FOLDERS: [&str; 7] = [
    "autom4te.cache",
    "Testing",
    "meson-logs",
    "meson-private",
    ".fingerprint",
    "incremental",
    "__pycache__",
];

/// Files in which build systems keep times and states for themselves.
const NAMES: [&str; 3] = [".ninja_deps", ".ninja_log", ".rustc_info.json"];

/// What of a file must be the same.
fn comparable(path: &Path, data: Vec<u8>) -> Option<Vec<u8>> {
    let name = path.file_name()?.to_string_lossy();
    if NAMES.contains(&&*name) || path.iter().any(|part| FOLDERS.iter().any(|f| part == *f)) {
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
        let conclusions: Vec<&str> = text
            .lines()
            .skip_while(|l| *l != "## Cache variables. ##")
            .filter(|l| !l.starts_with("configure: exit") && !l.contains("_random"))
            .collect();
        return Some(conclusions.join("\n").into_bytes());
    }
    (!name.ends_with(".log")).then_some(data)
}

/// How two builds differ in their files.
pub(super) fn differences(plain: &BuildTree, pruned: &BuildTree) -> Vec<String> {
    let mut out = Vec::new();
    for (path, face) in &plain.linked {
        match pruned.linked.get(path) {
            Some(other) => out.extend(faces::differences(path, face, other)),
            None => out.push(format!("{}: only in the plain build", path.display())),
        }
    }
    for (path, hash) in &plain.others {
        match pruned.others.get(path) {
            Some(other) if other == hash => {}
            Some(_) => out.push(format!("{}: differs", path.display())),
            None => out.push(format!("{}: only in the plain build", path.display())),
        }
    }
    let new = |path: &&PathBuf| !plain.linked.contains_key(*path) && !plain.others.contains_key(*path);
    for path in pruned.linked.keys().chain(pruned.others.keys()).filter(new) {
        out.push(format!("{}: only in the pruned build", path.display()));
    }
    out
}
