//! Where inputs are: `-l` search and the places of names in scripts, as each linker looks them up.
//!
//! A name that we find elsewhere than the linker does would mean another program, so where two readings differ the
//! answer is none, and the caller records a limit. Left out: opening (only `-l` candidates are peeked into, because
//! GNU linkers and mold pass over those of another machine).

use std::cell::OnceCell;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::archive;
use super::files::{FileKind, InputFile};
use super::interface::{self, Interface};
use super::mapped::MappedFile;
use super::recognise::{is_foreign_elf, recognise};
use super::scripts::ScriptInputs;
use super::scripts::implicit::ScriptCommand;
use crate::config::{Config, Dialect};
use crate::precomputed;

/// The search path of a link.
#[derive(Debug)]
pub(super) struct LibrarySearch<'a> {
    config: &'a Config,
    directories: Vec<PathBuf>,
    /// Of `SEARCH_DIR` in the `-T` scripts of GNU ld, which reads them before any input.
    of_scripts: Vec<PathBuf>,
    /// GNU ld reads its default script, which names folders to search.
    has_default_script: bool,
    defaults: OnceCell<Vec<PathBuf>>,
}

/// What became of a name in a script.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FoundFile {
    At(PathBuf),
    Nowhere,
    /// Linkers differ in where they look first, and there are different files in both places.
    Ambiguous,
}

impl<'a> LibrarySearch<'a> {
    pub(super) fn new(config: &'a Config) -> Self {
        let mut search = LibrarySearch {
            config,
            directories: Vec::new(),
            of_scripts: Vec::new(),
            has_default_script: true,
            defaults: OnceCell::new(),
        };
        for directory in &config.library_paths {
            search.add(directory);
        }
        search
    }

    /// Append a directory, as `-L` or `SEARCH_DIR` do.
    pub(super) fn add(&mut self, directory: &Path) {
        self.directories.push(self.in_sysroot(directory));
    }

    /// Take the folders of a `-T` script of GNU ld, which replaces the default script unless it augments it.
    pub(super) fn add_script(&mut self, script: &ScriptInputs) {
        self.has_default_script &= script.augments;
        for command in script.commands.iter().filter(|_| !self.config.nostdlib) {
            if let ScriptCommand::SearchDir(directory) = command {
                self.of_scripts.push(self.in_sysroot(Path::new(directory)));
            }
        }
    }

    /// Replace a leading `=` or `$SYSROOT` by the sysroot.
    pub(super) fn in_sysroot(&self, path: &Path) -> PathBuf {
        let bytes = path.as_os_str().as_bytes();
        let Some(rest) = bytes.strip_prefix(b"=").or_else(|| bytes.strip_prefix(b"$SYSROOT")) else {
            return path.to_owned();
        };
        let mut whole = self.config.sysroot.clone().unwrap_or_default().into_os_string();
        whole.push(OsStr::from_bytes(rest));
        PathBuf::from(whole)
    }

    /// The directories that GNU ld searches by itself, from its own default script.
    fn defaults(&self) -> &[PathBuf] {
        self.defaults.get_or_init(|| {
            let is_bfd = self.config.linker.dialect == Dialect::Bfd;
            if !is_bfd || self.config.nostdlib || !self.has_default_script {
                return Vec::new();
            }
            let output = Command::new(&self.config.linker.path).arg("--verbose").output();
            let text = output.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
            let quoted = text.split("SEARCH_DIR(").skip(1).filter_map(|t| Some(t.split_once(')')?.0));
            quoted.map(|t| self.in_sysroot(Path::new(t.trim_matches('"')))).collect()
        })
    }

    /// The file that `-l NAME` means, on the line or in a script; `:NAME` is a file name as it is.
    pub(super) fn library(&self, name: &OsStr, static_only: bool, script: Option<&Path>) -> FoundFile {
        let names: Vec<Vec<u8>> = match name.as_bytes().strip_prefix(b":") {
            Some(file) => vec![file.to_vec()],
            None => {
                let with = |suffix: &[u8]| [b"lib", name.as_bytes(), suffix].concat();
                if static_only { vec![with(b".a")] } else { vec![with(b".so"), with(b".a")] }
            }
        };
        if self.config.linker.dialect == Dialect::Wild {
            // A shared library anywhere before an archive; for a script, the folder of the script first.
            let beside = script.and_then(real_folder);
            let directories = beside.iter().chain(&self.directories);
            let found = names.iter().find_map(|n| {
                directories.clone().map(|d| d.join(OsStr::from_bytes(n))).find(|p| self.is_there(p))
            });
            return found.map_or(FoundFile::Nowhere, FoundFile::At);
        }
        if self.config.linker.dialect == Dialect::Gold && name.as_bytes().contains(&b'/') {
            // gold looks a name up in lists of what each directory holds.
            return FoundFile::Nowhere;
        }
        self.first(|d| names.iter().map(|n| d.join(OsStr::from_bytes(n))).find(|p| self.acceptable(p)))
    }

    /// The file in the first folder that has one. Versions of GNU ld differ in whether `-L` comes before `SEARCH_DIR` of a `-T` script.
    fn first(&self, candidate: impl Fn(&Path) -> Option<PathBuf>) -> FoundFile {
        let of_line = self.directories.iter().find_map(|d| candidate(d));
        let of_script = self.of_scripts.iter().find_map(|d| candidate(d));
        match (of_line, of_script) {
            (Some(line), Some(script)) if !same_file(&line, &script) => FoundFile::Ambiguous,
            (Some(found), _) | (None, Some(found)) => FoundFile::At(found),
            (None, None) => {
                let by_default = self.defaults().iter().find_map(|d| candidate(d));
                by_default.map_or(FoundFile::Nowhere, FoundFile::At)
            }
        }
    }

    pub(super) fn open(&self, path: &Path) -> io::Result<InputFile> {
        open(self.config, path)
    }

    /// Whether there is something by this name: a file, or where a link is only planned what stands for one.
    fn is_there(&self, path: &Path) -> bool {
        path.exists() || stand_in(self.config, path).is_some()
    }

    fn acceptable(&self, path: &Path) -> bool {
        if !self.is_there(path) {
            return false;
        }
        match self.config.linker.dialect {
            Dialect::Lld | Dialect::Wild => true,
            Dialect::Bfd | Dialect::Gold | Dialect::Mold => {
                open(self.config, path).is_ok_and(|file| !is_foreign(&file.bytes))
            }
        }
    }

    /// The file that `name` in the script at `script` means (not for `-lNAME`).
    pub(super) fn named_in_script(&self, name: &OsStr, script: &Path) -> FoundFile {
        let path = Path::new(name);
        let at = |path: PathBuf| if self.is_there(&path) { FoundFile::At(path) } else { FoundFile::Nowhere };
        if matches!(name.as_bytes().first(), Some(b'=' | b'$')) {
            return at(self.in_sysroot(path));
        }
        if path.is_absolute() {
            // A script inside the sysroot means the sysroot by `/`.
            if let Some(root) = self.config.sysroot.as_deref().filter(|root| is_under(script, root)) {
                let mut inside = root.as_os_str().to_owned();
                inside.push(name);
                let inside = PathBuf::from(inside);
                if self.is_there(&inside) {
                    return FoundFile::At(inside);
                }
            }
            return at(path.to_owned());
        }
        if self.config.linker.dialect == Dialect::Wild {
            let beside = real_folder(script).map(|d| d.join(path)).filter(|p| self.is_there(p));
            return match (
                beside.map_or_else(|| self.on_search_path(path), FoundFile::At),
                self.is_there(path),
            ) {
                (FoundFile::Nowhere, true) => FoundFile::At(path.to_owned()),
                (found, _) => found,
            };
        }
        // lld, gold and mold look beside the script first, GNU ld in the working directory.
        let beside = script.parent().map(|d| d.join(path)).filter(|p| self.is_there(p));
        let here = Some(path.to_owned()).filter(|p| self.is_there(p));
        match (beside, here) {
            (Some(beside), Some(here)) if !same_file(&beside, &here) => FoundFile::Ambiguous,
            (Some(beside), None) => match self.config.linker.dialect {
                // GNU ld finds it only if the directory is on the search path too.
                Dialect::Bfd => self.on_search_path(path),
                _ => FoundFile::At(beside),
            },
            (_, Some(here)) => FoundFile::At(here),
            (None, None) => self.on_search_path(path),
        }
    }

    /// `name` in a directory of the search path.
    pub(super) fn on_search_path(&self, name: &Path) -> FoundFile {
        self.first(|d| Some(d.join(name)).filter(|p| self.is_there(p)))
    }

    /// Every directory in which GNU ld looks for libraries that shared libraries need, after the rpaths.
    pub(super) fn all_directories(&self) -> impl Iterator<Item = &Path> {
        self.directories.iter().chain(&self.of_scripts).chain(self.defaults()).map(PathBuf::as_path)
    }
}

/// The folder of a script, behind symbolic links.
fn real_folder(script: &Path) -> Option<PathBuf> {
    Some(script.canonicalize().ok()?.parent()?.to_owned())
}

/// Whether a library is of another machine: an ELF file itself, or the first ELF member of an archive.
fn is_foreign(bytes: &[u8]) -> bool {
    if recognise(bytes) != FileKind::Archive {
        return is_foreign_elf(bytes);
    }
    let members = archive::parse(bytes).map(|a| a.members).unwrap_or_default();
    let mut elf =
        members.iter().filter_map(|m| bytes.get(m.data.clone())).filter(|b| b.starts_with(b"\x7fELF"));
    elf.next().is_some_and(is_foreign_elf)
}

fn is_under(path: &Path, root: &Path) -> bool {
    match (path.canonicalize(), root.canonicalize()) {
        (Ok(path), Ok(root)) => path.starts_with(root),
        _ => false,
    }
}

fn same_file(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

/// What stands for the file at `path` where a link is only planned.
fn stand_in(config: &Config, path: &Path) -> Option<PathBuf> {
    let dir = config.prune.interface_dir.as_ref().filter(|_| config.prune.plan_dir.is_some())?;
    Some(interface::path_of(dir, path, interface::SUFFIX)).filter(|path| path.exists())
}

/// Open a file for good: only a regular one, since what we read of a pipe the linker could not read again. Where a link is only planned, what has an
/// interface is not read itself.
pub(super) fn open(config: &Config, path: &Path) -> io::Result<InputFile> {
    if let Some(found) = stand_in(config, path)
        && let (interface, Some(bytes)) = Interface::open(&found, path, true)?
    {
        let kind = recognise(&bytes);
        return Ok(InputFile {
            path: path.to_owned(),
            kind,
            bytes,
            interface: Some(interface),
            refused: None,
        });
    }
    if !path.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let bytes = MappedFile::open(path)?;
    let kind = recognise(&bytes);
    let made =
        config.prune.interface_dir.as_ref().map(|dir| interface::path_of(dir, path, interface::SUFFIX));
    // One that can't be read is none: the file itself is here.
    let (interface, refused) = match made.map(|made| Interface::open(&made, path, false)) {
        Some(Ok((interface, _))) => (Some(interface), None),
        Some(Err(error)) => (None, precomputed::refusal(&error)),
        None => (None, None),
    };
    Ok(InputFile { path: path.to_owned(), kind, bytes, interface, refused })
}
