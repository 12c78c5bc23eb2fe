//! The list of experiments: each option that may make the output of a link smaller, as edits of its command.

use std::path::{Path, PathBuf};

use super::command::LinkCommand;
use super::edits::{Edit, exports, linker_name};
use super::facts::LinkedFacts;
use crate::args::{Environment, linker};
use crate::config::Flavor;

/// A row of the table: its name, which is also that of its folder, and its edits.
#[derive(Debug, Clone)]
pub(super) struct Variant {
    pub(super) name: String,
    pub(super) edits: Vec<Edit>,
}

/// Facts of the link as it is; variants depend on them.
#[derive(Debug)]
pub(super) struct LinkSituation<'a> {
    pub(super) link: &'a LinkCommand,
    pub(super) flavor: Option<Flavor>,
    pub(super) facts: &'a LinkedFacts,
    // lto-prune links it already.
    pub(super) is_pruned: bool,
}

/// Options that every link may take.
const WORDS: &[(&str, &[&str])] = &[
    ("gc-sections", &["--gc-sections"]),
    ("relative-relocs", &["-z", "pack-relative-relocs"]),
    ("hash-style", &["--hash-style=gnu"]),
    ("noseparate-code", &["-z", "noseparate-code"]),
    ("optimize", &["-O2"]),
];
// Options for debug information.
const DEBUG_WORDS: &[(&str, &[&str])] = &[
    ("strip-debug", &["--strip-debug"]),
    ("compress-zstd", &["--compress-debug-sections=zstd"]),
    ("compress-zlib", &["--compress-debug-sections=zlib"]),
];
const PRUNE_WORDS: &[(&str, &[&str])] =
    &[("unwind", &["--prune-unwind=unused"]), ("debug", &["--prune-debug=shrink"])];
const ICF: &[&str] = &["--icf=safe"];

// The experiments for a link.
pub(super) fn variants(situation: &LinkSituation<'_>, env: &Environment<'_>) -> Vec<Variant> {
    let LinkSituation { link, flavor, facts, is_pruned } = *situation;
    let mut out = Vec::new();
    let mut add = |name: &str, edits: Vec<Edit>| out.push(Variant { name: name.to_owned(), edits });
    let is_new = |words: &&(&str, &'static [&'static str])| !link.has(words.1);
    for (name, words) in WORDS.iter().filter(is_new) {
        add(name, vec![Edit::Words(words)]);
    }
    if facts.has_debug {
        for (name, words) in DEBUG_WORDS.iter().filter(is_new) {
            add(name, vec![Edit::Words(words)]);
        }
    }
    if facts.has_symbols {
        add("strip", vec![Edit::Words(&["-s"])]);
    }
    if exports(link).next().is_some() {
        add("no-export-dynamic", vec![Edit::NoExportDynamic]);
    }
    let prune = || if is_pruned { Vec::new() } else { vec![Edit::LtoPrune] };
    if !is_pruned {
        add("lto-prune", prune());
    }
    for (name, words) in
        PRUNE_WORDS.iter().filter(is_new).filter(|(name, _)| *name != "debug" || facts.has_debug)
    {
        add(&format!("lto-prune-{name}"), [prune(), vec![Edit::Words(words)]].concat());
    }
    if flavor.is_some_and(folds) && !link.has(ICF) {
        add("icf", vec![Edit::Words(ICF)]);
    }
    for other in installed(env).into_iter().filter(|other| Some(other.0) != flavor) {
        let name = linker_name(other.0);
        let edit = Edit::Linker(other.0, other.1);
        add(name, vec![edit.clone()]);
        if folds(other.0) && !link.has(ICF) {
            add(&format!("{name}-icf"), vec![edit, Edit::Words(ICF)]);
        }
    }
    out
}

// Whether a linker has `--icf=safe`.
fn folds(flavor: Flavor) -> bool {
    matches!(flavor, Flavor::Lld | Flavor::Gold | Flavor::Mold)
}

// The linkers that `PATH` has.
fn installed(env: &Environment<'_>) -> Vec<(Flavor, PathBuf)> {
    let lookup = |name: &str| (name == "PATH").then(|| env.get(name)).flatten();
    let env = Environment::new(&lookup);
    let named = [
        (Flavor::Bfd, Some("bfd")),
        (Flavor::Gold, Some("gold")),
        (Flavor::Lld, None),
        (Flavor::Mold, Some("mold")),
        (Flavor::Wild, Some("wild")),
    ];
    let find = |(flavor, name): (Flavor, Option<&str>)| {
        let found = linker::choose(name.map(Path::new), None, &env).ok()?;
        let path = if flavor == Flavor::Lld { unversioned(found.path) } else { found.path };
        (found.flavor == flavor).then_some((flavor, path))
    };
    named.into_iter().filter_map(find).collect()
}

/// The file `ld.lld` that a link such as `ld.lld-19` leads to, since gcc knows that name alone.
fn unversioned(path: PathBuf) -> PathBuf {
    let mut at = path.clone();
    // A chain of links is short; one without an end has no file.
    for _ in 0..8 {
        if at.file_name().is_some_and(|name| name == "ld.lld") {
            return at
                .parent()
                .and_then(|folder| folder.canonicalize().ok())
                .map_or(path, |f| f.join("ld.lld"));
        }
        let Ok(target) = at.read_link() else { return path };
        at = at.parent().unwrap_or(Path::new("")).join(target);
    }
    path
}
