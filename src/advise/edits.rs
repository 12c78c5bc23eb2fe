//! Edits of a link command: words to add, words to remove, and their form for a person.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::command::{LinkCommand, LinkWord, base_name};
use crate::args::linker::PREFERS_LLD;
use crate::args::words;
use crate::config::Flavor;

/// A change of the link command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Edit {
    /// lto-prune stands in front of the linker.
    LtoPrune,
    // Another linker links.
    Linker(Flavor, PathBuf),
    // The linker receives these words.
    Words(&'static [&'static str]),
    /// A program no longer exports all of its global symbols.
    NoExportDynamic,
}

impl Edit {
    pub(super) fn is_linker(&self) -> bool {
        matches!(self, Edit::Linker(..))
    }

    /// Whether it is `-s` or `--strip-debug`.
    pub(super) fn is_strip(&self) -> bool {
        matches!(self, Edit::Words(["-s" | "--strip-debug"]))
    }
}

/// A command and its edits, in words.
#[derive(Debug, Default)]
pub(super) struct CommandChange<'c> {
    /// It replaces the linker, where that is called directly.
    pub(super) program: Option<OsString>,
    pub(super) removed: Vec<&'c LinkWord>,
    /// They follow the words of the command.
    pub(super) added: Vec<OsString>,
}

/// The words that make the edits. `shims` is the folder of `install-shims`.
pub(super) fn change<'c>(link: &'c LinkCommand, edits: &[Edit], shims: &OsStr) -> CommandChange<'c> {
    let mut change = CommandChange::default();
    let shim = || Path::new(shims).join(PREFERS_LLD);
    let chosen = edits.iter().find_map(|edit| match edit {
        Edit::Linker(flavor, path) => Some((*flavor, path)),
        _ => None,
    });
    let is_pruned = edits.contains(&Edit::LtoPrune);
    let option = |name: &str, value: &OsStr| OsString::from_vec([name.as_bytes(), value.as_bytes()].concat());
    let direct = chosen.map(|(_, path)| path.as_os_str().to_owned());
    match (link.is_driver, link.ld_path()) {
        (true, None) => {
            change.added.extend(is_pruned.then(|| ["-B".into(), shims.to_owned()]).into_iter().flatten());
            change.added.extend(chosen.iter().flat_map(|(flavor, path)| choice(link, *flavor, path)));
        }
        (true, Some(old)) if is_pruned => {
            change.added.push(option("--ld-path=", shim().as_os_str()));
            change.added.push(option("-Wl,--prune-linker=", &direct.unwrap_or(old.to_owned())));
        }
        (true, Some(_)) => change.added.extend(direct.map(|path| option("--ld-path=", &path))),
        (false, _) if is_pruned => {
            let linker = direct.unwrap_or_else(|| link.linker_or_driver());
            change.added.push(option("--prune-linker=", &linker));
            change.program = Some(shim().into_os_string());
        }
        (false, _) => change.program = direct,
    }
    for edit in edits {
        match edit {
            Edit::Words(words) if link.is_driver && *words != ["-s"] => {
                change.added.push(format!("-Wl,{}", words.join(",")).into());
            }
            Edit::Words(words) => change.added.extend(words.iter().map(OsString::from)),
            Edit::NoExportDynamic => change.removed.extend(exports(link)),
            Edit::LtoPrune | Edit::Linker(..) => {}
        }
    }
    change
}

/// The words that make a program export all of its global symbols.
pub(super) fn exports(link: &LinkCommand) -> impl Iterator<Item = &LinkWord> {
    link.words.iter().filter(|word| match word.is_linker {
        false => word.text == "-rdynamic",
        true => ["-E", "--export-dynamic", "-export-dynamic"].iter().any(|name| word.text == *name),
    })
}

/// The words that make a driver call this linker.
fn choice(link: &LinkCommand, flavor: Flavor, path: &Path) -> Vec<OsString> {
    let is_clang = base_name(&link.linker_or_driver()).contains("clang");
    if flavor == Flavor::Wild && is_clang {
        return vec![OsString::from_vec([b"--ld-path=", path.as_os_str().as_bytes()].concat())];
    }
    let mut out = Vec::new();
    // gcc finds it by this name only; clang looks in its own folder, too.
    let folder = path.parent().filter(|_| flavor == Flavor::Lld && !is_clang);
    if let Some(folder) = folder.filter(|folder| !is_on_path(&folder.join("ld.lld"))) {
        out.extend(["-B".into(), folder.as_os_str().to_owned()]);
    }
    out.push(format!("-fuse-ld={}", flavor.name()).into());
    out
}

fn is_on_path(program: &Path) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| Some(folder.as_path()) == program.parent())
}

/// The edits as a person makes them: words to add at the end of the command, and others said.
pub(super) fn shown(link: &LinkCommand, edits: &[Edit]) -> String {
    let change = change(link, edits, OsStr::new("SHIMS"));
    let plain = |word: &OsStr| words::for_shell(word).to_string_lossy().into_owned();
    let mut parts: Vec<String> = Vec::new();
    if let Some(program) = &change.program {
        parts.push(format!("{} for {}", plain(program), plain(&link.linker_or_driver())));
    }
    let mut removed: Vec<String> = Vec::new();
    for word in &change.removed {
        let text = match word.is_linker && link.is_driver {
            true => format!("-Wl,{}", word.text.display()),
            false => plain(&word.text),
        };
        if !removed.contains(&text) {
            removed.push(text);
        }
    }
    parts.extend(removed.into_iter().map(|word| format!("without {word}")));
    parts.extend(change.added.iter().map(|word| plain(word)));
    parts.join(" ")
}
