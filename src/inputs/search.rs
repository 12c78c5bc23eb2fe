//! The search for inputs: `-l`, and names in scripts, as each linker looks them up.
//!
//! A file at another place than the linker's would mean another program, so that an ambiguous name is a limit.
//! Only candidates of `-l` are opened here, because GNU linkers and mold skip those of another machine.

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
use crate::config::{Config, Flavor};
use crate::precomputed;

/// The search path of a link.
#[derive(Debug)]
pub(super) struct LibrarySearch<'a> {
    config: &'a Config,
    directories: Vec<PathBuf>,
    /// Folders of `SEARCH_DIR` in the `-T` scripts of GNU ld, which reads them before any input.
    of_scripts: Vec<PathBuf>,
    /// GNU ld reads its default script, which names folders to search.
    has_default_script: bool,
    defaults: OnceCell<Vec<PathBuf>>,
}

/// The result of looking up a name.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FoundFile {
    At(PathBuf),
    Nowhere,
    /// Linkers differ in the order of folders, and there are different files in two of them.
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

    /// Add the folders of a `-T` script of GNU ld, which replaces the default script unless it augments it.
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

    /// The directories of GNU ld's own default script.
    fn defaults(&self) -> &[PathBuf] {
        self.defaults.get_or_init(|| {
            let is_bfd = self.config.linker.flavor == Flavor::Bfd;
            if !is_bfd || self.config.nostdlib || !self.has_default_script {
                return Vec::new();
            }
            let output = Command::new(&self.config.linker.path).arg("--verbose").output();
            let text = output.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
            let quoted = text.split("SEARCH_DIR(").skip(1).filter_map(|t| Some(t.split_once(')')?.0));
            quoted.map(|t| self.in_sysroot(Path::new(t.trim_matches('"')))).collect()
        })
    }

    /// The file that `-l NAME` means, on the line or in a script; `:NAME` is a plain file name.
    pub(super) fn library(&self, name: &OsStr, static_only: bool, script: Option<&Path>) -> FoundFile {
        let names: Vec<Vec<u8>> = match name.as_bytes().strip_prefix(b":") {
            Some(file) => vec![file.to_vec()],
            None => {
                let with = |suffix: &[u8]| [b"lib", name.as_bytes(), suffix].concat();
                if static_only { vec![with(b".a")] } else { vec![with(b".so"), with(b".a")] }
            }
        };
        if self.config.linker.flavor == Flavor::Wild {
            // A shared library in any folder comes before an archive; for a script, its own folder is first.
            let own = script.and_then(real_folder);
            let directories = own.iter().chain(&self.directories);
            let found = names.iter().find_map(|n| {
                directories.clone().map(|d| d.join(OsStr::from_bytes(n))).find(|p| self.is_there(p))
            });
            return found.map_or(FoundFile::Nowhere, FoundFile::At);
        }
        if self.config.linker.flavor == Flavor::Gold && name.as_bytes().contains(&b'/') {
            // gold looks names up in lists of the files of each directory.
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

    /// Whether there is a file at this path or, if a link is only planned, an interface for it.
    fn is_there(&self, path: &Path) -> bool {
        path.exists() || stand_in(self.config, path).is_some()
    }

    fn acceptable(&self, path: &Path) -> bool {
        let is_any = matches!(self.config.linker.flavor, Flavor::Lld | Flavor::Wild);
        self.is_there(path) && (is_any || open(self.config, path).is_ok_and(|file| !is_foreign(&file.bytes)))
    }

    /// The file that `name` in the script at `script` means (not for `-lNAME`). `=` or `$SYSROOT` at the beginning stands for the sysroot.
    ///
    /// A relative name is searched by each linker flavor in its own order:
    /// - wild: the script's folder behind symbolic links, the search path, the working directory.
    /// - lld, gold and mold: the script's folder, the working directory, the search path.
    /// - GNU ld: the working directory, the search path.
    ///
    /// [`FoundFile::Ambiguous`] if the script's folder and the working directory have different files (not for wild), or if two parts of
    /// the search path have ([`Self::first`]).
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
        if self.config.linker.flavor == Flavor::Wild {
            let own = real_folder(script).map(|d| d.join(path)).filter(|p| self.is_there(p));
            return match (own.map_or_else(|| self.on_search_path(path), FoundFile::At), self.is_there(path)) {
                (FoundFile::Nowhere, true) => FoundFile::At(path.to_owned()),
                (found, _) => found,
            };
        }
        let near = script.parent().map(|d| d.join(path)).filter(|p| self.is_there(p));
        let here = Some(path.to_owned()).filter(|p| self.is_there(p));
        match (near, here) {
            (Some(near), Some(here)) if !same_file(&near, &here) => FoundFile::Ambiguous,
            (Some(near), None) if self.config.linker.flavor != Flavor::Bfd => FoundFile::At(near),
            (_, Some(here)) => FoundFile::At(here),
            (_, None) => self.on_search_path(path),
        }
    }

    /// `name` in a directory of the search path.
    pub(super) fn on_search_path(&self, name: &Path) -> FoundFile {
        self.first(|d| Some(d.join(name)).filter(|p| self.is_there(p)))
    }

    /// Every directory in which GNU ld searches for libraries that shared libraries need, after the rpaths.
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

/// The interface that replaces the file at `path` if a link is only planned.
fn stand_in(config: &Config, path: &Path) -> Option<PathBuf> {
    let dir = config.prune.interface_dir.as_ref().filter(|_| config.prune.plan_dir.is_some())?;
    Some(interface::path_of(dir, path, interface::SUFFIX)).filter(|path| path.exists())
}

/// Open a regular file, since the linker could not read a pipe again. If a link is only planned, the interface is read instead of
/// the file.
pub(super) fn open(config: &Config, path: &Path) -> io::Result<InputFile> {
    if let Some(found) = stand_in(config, path)
        && let (interface, Some(bytes)) = Interface::open(&found, path, true)?
    {
        let (path, kind) = (path.to_owned(), recognise(&bytes));
        return Ok(InputFile { path, kind, bytes, interface: Some(interface), refused: None });
    }
    if !path.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let bytes = MappedFile::open(path)?;
    let kind = recognise(&bytes);
    let dir = config.prune.interface_dir.as_ref();
    let made = dir.map(|dir| interface::path_of(dir, path, interface::SUFFIX));
    // An unreadable interface is ignored, because the file itself is here.
    let (interface, refused) = match made.map(|made| Interface::open(&made, path, false)) {
        Some(Ok((interface, _))) => (Some(interface), None),
        Some(Err(error)) => (None, precomputed::refusal(&error)),
        None => (None, None),
    };
    Ok(InputFile { path: path.to_owned(), kind, bytes, interface, refused })
}
