//! GNU ld's search for the shared libraries that shared libraries need.
//!
//! Only GNU ld opens them at link time: they may define undefined symbols of libraries on the line, and refer to symbols of the link.
//! The order is that of `ld/ldelf.c`: -rpath-link, -rpath, `LD_RUN_PATH` (without -rpath), `LD_LIBRARY_PATH`, the library's own
//! `DT_RUNPATH`, `/etc/ld.so.conf`, then the directories of `-l`. A missing library is ignored, as GNU ld only warns of it.
//! Hardware subdirectories, which Debian does not have, are not searched.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use rustc_hash::{FxHashMap, FxHashSet};
use summaries::Limit;

use super::dso::{self, is_known};
use super::files::{Dso, FileKind, InputFile, Inputs, NeededDso, SequenceItem};
use super::search::LibrarySearch;
use super::{glob::Glob, mapped::MappedFile, recognise};
use crate::config::Config;
use crate::ids::DsoId;

/// `/etc/ld.so.conf` may include others; beyond this many it does not end.
const MAX_CONF_FILES: usize = 200;

/// Append the libraries that those in `inputs` need, breadth first, as implicit items. `runpaths` is by `DsoId`.
pub(super) fn append(
    config: &Config,
    search: &LibrarySearch<'_>,
    inputs: &mut Inputs,
    runpaths: &mut Vec<Vec<String>>,
) {
    let mut known: FxHashSet<String> = FxHashSet::default();
    let mut queue: VecDeque<DsoId> = VecDeque::new();
    let mut on_trial: FxHashMap<String, DsoId> = FxHashMap::default();
    for (id, dso) in inputs.dsos.enumerated() {
        let name = own_name(dso.soname.as_deref(), inputs.files.get(dso.file));
        queue.push_back(id);
        let taken = |item: &SequenceItem| matches!(item, SequenceItem::Dso { dso, as_needed: false, .. } if *dso == id);
        if inputs.sequence.iter().any(taken) {
            known.insert(name);
        } else {
            on_trial.insert(name, id);
        }
    }
    let directories = Directories::new(config);
    while let Some(id) = queue.pop_front() {
        let Some(needing) = inputs.dsos.get(id) else { continue };
        let origin = inputs.files.get(needing.file).map(|f| f.path.clone()).unwrap_or_default();
        let runpath = runpaths.get(id.0 as usize).cloned().unwrap_or_default();
        for name in needing.needed.clone() {
            if !known.insert(name.clone()) {
                continue;
            }
            // A library that is on the line only as --as-needed, and may not be taken there.
            if let Some(dso) = on_trial.get(&name) {
                let token = name.clone();
                inputs.sequence.push(SequenceItem::Dso { dso: *dso, as_needed: true, token, implicit: true });
                inputs.origins.push(None);
                continue;
            }
            let Some((path, bytes)) = directories.find(&name, &origin, &runpath, search) else { continue };
            let facts = match dso::parse(&bytes) {
                Ok(facts) => facts,
                Err((_, detail)) => {
                    inputs.refuse(None, Limit::UnreadableInput, format!("{}: {detail}", path.display()));
                    continue;
                }
            };
            let kind = FileKind::SharedLibrary;
            let token = path.to_string_lossy().into_owned();
            let file = inputs.files.push(InputFile::new(path, kind, bytes));
            known.insert(own_name(facts.soname.as_deref(), inputs.files.get(file)));
            runpaths.push(facts.runpath);
            let dso::DsoFacts { soname, needed, stands_in, symbols, .. } = facts;
            let new = Dso { file, soname, needed, stands_in, symbols };
            let dso = inputs.dsos.push(new);
            inputs.sequence.push(SequenceItem::Dso { dso, as_needed: true, token, implicit: true });
            inputs.origins.push(None);
            queue.push_back(dso);
        }
    }
}

/// The libraries that those in `inputs` need, and that these need in turn, without known ones ([`is_known`]).
pub(super) fn needed(
    config: &Config,
    search: &LibrarySearch<'_>,
    inputs: &Inputs,
    runpaths: &[Vec<String>],
) -> Vec<NeededDso> {
    let directories = Directories::new(config);
    let path = |dso: &Dso| inputs.files.get(dso.file).map(|f| f.path.clone()).unwrap_or_default();
    let mut seen: FxHashSet<String> =
        inputs.dsos.enumerated().map(|(id, _)| inputs.dso_name(id).to_owned()).collect();
    let of_line =
        inputs.dsos.iter().zip(runpaths).filter(|(dso, _)| !dso.soname.as_deref().is_some_and(is_known));
    let mut queue: VecDeque<(PathBuf, Vec<String>, Vec<String>)> =
        of_line.map(|(dso, runpath)| (path(dso), runpath.clone(), dso.needed.clone())).collect();
    let mut found = Vec::new();
    while let Some((origin, runpath, names)) = queue.pop_front() {
        for name in names {
            if is_known(&name) || !seen.insert(name.clone()) {
                continue;
            }
            let library = directories.find(&name, &origin, &runpath, search);
            let facts = library.and_then(|(path, bytes)| Some((path, dso::parse(&bytes).ok()?)));
            let stands_in = facts.as_ref().is_some_and(|(_, facts)| facts.stands_in);
            let symbols = facts.map(|(path, facts)| {
                queue.push_back((path, facts.runpath, facts.needed));
                facts.symbols
            });
            found.push(NeededDso { name, stands_in, symbols });
        }
    }
    found
}

/// The name of a library in `DT_NEEDED` of others.
fn own_name(soname: Option<&str>, file: Option<&InputFile>) -> String {
    let base = || file?.path.file_name().map(|n| n.to_string_lossy().into_owned());
    soname.map(str::to_owned).or_else(base).unwrap_or_default()
}

struct Directories {
    before_runpath: Vec<PathBuf>,
    conf: Vec<PathBuf>,
}

impl Directories {
    fn new(config: &Config) -> Self {
        let split = |paths: &[PathBuf]| paths.iter().flat_map(std::env::split_paths).collect::<Vec<_>>();
        let variable = |name| std::env::var_os(name).map(PathBuf::from).into_iter().collect::<Vec<_>>();
        let mut before_runpath = split(&config.rpath_link);
        before_runpath.extend(split(&config.rpath));
        if config.rpath.is_empty() {
            before_runpath.extend(split(&variable("LD_RUN_PATH")));
        }
        before_runpath.extend(split(&variable("LD_LIBRARY_PATH")));
        let root = config.sysroot.clone().unwrap_or_default();
        Directories { before_runpath, conf: ld_so_conf(&root) }
    }

    fn find(
        &self,
        name: &str,
        needing: &Path,
        runpath: &[String],
        search: &LibrarySearch<'_>,
    ) -> Option<(PathBuf, MappedFile)> {
        if name.contains('/') {
            return usable(Path::new(name));
        }
        let origin = needing.parent().unwrap_or(Path::new(".")).display().to_string();
        let own = runpath
            .iter()
            .map(|d| PathBuf::from(d.replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin)));
        let first = self.before_runpath.iter().cloned().chain(own).chain(self.conf.iter().cloned());
        let all = first.chain(search.all_directories().map(Path::to_owned));
        all.filter(|d| !d.as_os_str().is_empty()).find_map(|d| usable(&d.join(name)))
    }
}

/// The file, if it is a shared library of our machine.
fn usable(path: &Path) -> Option<(PathBuf, MappedFile)> {
    let bytes = MappedFile::open(path).ok()?;
    let ours = recognise::recognise(&bytes) == FileKind::SharedLibrary && !recognise::is_foreign_elf(&bytes);
    ours.then(|| (path.to_owned(), bytes))
}

/// The directories of `/etc/ld.so.conf` and of the files that it includes, below `root`.
fn ld_so_conf(root: &Path) -> Vec<PathBuf> {
    let mut directories = Vec::new();
    let root_of_conf = if has(root) { root } else { Path::new("/") };
    let mut files: VecDeque<PathBuf> = VecDeque::from([root_of_conf.join("etc/ld.so.conf")]);
    let mut read = 0;
    while let Some(file) = files.pop_front() {
        read += 1;
        if read > MAX_CONF_FILES {
            break;
        }
        for line in std::fs::read_to_string(&file).unwrap_or_default().lines() {
            let line = line.split('#').next().unwrap_or_default().trim();
            match line.strip_prefix("include") {
                Some(pattern) if pattern.starts_with([' ', '\t']) => {
                    // Included directories belong at the include. Files in use have one include, so that appending is the same.
                    files.extend(matching(pattern.trim(), file.parent()));
                }
                _ if line.is_empty() || line.starts_with("hwcap") => {}
                _ => {
                    directories.push(root.join(line.strip_prefix('/').filter(|_| has(root)).unwrap_or(line)))
                }
            }
        }
    }
    directories
}

fn has(root: &Path) -> bool {
    !root.as_os_str().is_empty()
}

/// Files that a pattern with wildcards in its last component names, sorted as glob(3) sorts.
fn matching(pattern: &str, relative_to: Option<&Path>) -> Vec<PathBuf> {
    let pattern = relative_to.unwrap_or(Path::new("/")).join(pattern);
    let (Some(directory), Some(name)) = (pattern.parent(), pattern.file_name()) else { return Vec::new() };
    let glob = Glob::new(&name.to_string_lossy());
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> =
        entries.filter(|e| glob.matches(e.file_name().as_encoded_bytes())).map(|e| e.path()).collect();
    found.sort();
    found
}
