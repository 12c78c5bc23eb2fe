//! The loader: from the words of the line to [`Inputs`].
//!
//! The result does not depend on timing. Files of the line are opened in parallel. Then names are resolved and scripts expanded in the line's
//! order, then archives and shared libraries are parsed in parallel, and ids are given in order. An unreadable input is
//! a limit, so that the linker reports it.

use std::ffi::{OsStr, OsString};
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use rustc_hash::FxHashMap;
use summaries::{Limit, LimitRecord, bitcode};

use super::archive::{self, Archive};
use super::dso::{self, DsoFacts};
use super::files::{Dso, FileKind, InputFile, Inputs, Module, SequenceItem};
use super::recognise::recognise;
use super::scripts::ScriptInputs;
use super::scripts::implicit::{self, ScriptCommand};
use super::search::{FoundFile, LibrarySearch, open};
use super::{implicit_dsos, scripts};
use crate::config::{Config, Flavor, InputArg, InputState};
use crate::error::{Error, Result, Stage};
use crate::ids::{DsoId, FileId, IdVec, ModuleId};

/// Limits on nested scripts and on their inputs.
const MAX_SCRIPT_DEPTH: usize = 16;
const MAX_SCRIPT_INPUTS: usize = 10_000;

/// Open, map and recognise everything on the line.
///
/// # Errors
/// If a link is only planned, an input can't be read and has no interface. Otherwise that is a limit.
pub fn load(config: &Config) -> Result<Inputs> {
    let mut loader = Loader {
        config,
        search: LibrarySearch::new(config),
        by_path: FxHashMap::default(),
        opened: open_in_parallel(config),
        drafts: Vec::new(),
        missing: None,
        script_inputs: 0,
        inputs: Inputs::default(),
        scripts: FxHashMap::default(),
    };
    if config.linker.flavor == Flavor::Bfd {
        loader.scripts_of_gnu_ld();
    }
    for (origin, input) in config.inputs.iter().enumerate() {
        loader.input(origin, input);
    }
    for option in &config.unmodelled {
        loader.inputs.refuse(None, Limit::UnmodelledOption, option.clone());
    }
    if !config.inputs.iter().any(|input| matches!(input, InputArg::Script { .. })) {
        loader.default_scripts();
    }
    scripts::read_all(config, &loader.search, &mut loader.inputs);
    let Loader { search, drafts, mut inputs, missing, .. } = loader;
    if let Some(file) = output_among(config, &inputs) {
        inputs.refuse(Some(file), Limit::LinkError, "the output is an input");
    }
    let parsed = parse_in_parallel(config, &inputs, &drafts);
    let mut runpaths = Builder { config, inputs: &mut inputs, parsed, runpaths: Vec::new() }.build(drafts);
    if config.rules().opens_needed_dsos && !config.static_link {
        implicit_dsos::append(config, &search, &mut inputs, &mut runpaths);
    }
    if config.wants_unwind() && !config.static_link {
        inputs.needed_dsos = implicit_dsos::needed(config, &search, &inputs, &runpaths);
    }
    match missing.filter(|_| config.prune.plan_dir.is_some()) {
        Some(missing) => Err(Error::new(Stage::Load, missing)),
        None => Ok(inputs),
    }
}

/// An input whose file is known, before ids are given.
struct InputDraft {
    origin: usize,
    item: DraftItem,
}

enum DraftItem {
    File { file: FileId, state: InputState, lib: bool, token: String },
    GroupStart,
    GroupEnd,
}

struct Loader<'a> {
    config: &'a Config,
    search: LibrarySearch<'a>,
    by_path: FxHashMap<PathBuf, Option<FileId>>,
    /// The files that threads opened ahead of the loader, by path.
    opened: FxHashMap<PathBuf, io::Result<InputFile>>,
    drafts: Vec<InputDraft>,
    /// The first input that is missing or can't be read.
    missing: Option<String>,
    script_inputs: usize,
    inputs: Inputs,
    /// The `-T` scripts that GNU ld reads before it opens any input, by index into [`Config::inputs`].
    scripts: FxHashMap<usize, (FileId, ScriptInputs)>,
}

fn open_in_parallel(config: &Config) -> FxHashMap<PathBuf, io::Result<InputFile>> {
    let named = config.inputs.iter().filter_map(|input| match input {
        InputArg::File { path, .. } => Some(path),
        _ => None,
    });
    let named: Vec<&OsString> = named.collect();
    named.par_iter().map(|path| (PathBuf::from(path), open(config, Path::new(path)))).collect()
}

impl Inputs {
    pub(super) fn refuse(&mut self, file: Option<FileId>, kind: Limit, detail: impl Into<String>) {
        self.limits.push((file, LimitRecord::new(kind, detail.into())));
    }
}

impl Loader<'_> {
    fn input(&mut self, origin: usize, input: &InputArg) {
        match input {
            InputArg::File { path, state, lib } => {
                let at = LinePlace { origin, state: *state, lib: *lib, depth: 0 };
                self.file(Path::new(path), path.to_string_lossy().into_owned(), at);
            }
            InputArg::Library { name, state, lib } => {
                self.library(name, LinePlace { origin, state: *state, lib: *lib, depth: 0 }, None);
            }
            InputArg::GroupStart => self.drafts.push(InputDraft { origin, item: DraftItem::GroupStart }),
            InputArg::GroupEnd => self.drafts.push(InputDraft { origin, item: DraftItem::GroupEnd }),
            InputArg::Script { path, state, lib } => {
                let read = match self.config.linker.flavor {
                    Flavor::Bfd => self.scripts.remove(&origin),
                    _ => scripts::read_sections(path, &self.search, &mut self.inputs),
                };
                if let Some((file, named)) = read {
                    self.sections(file, named, LinePlace { origin, state: *state, lib: *lib, depth: 0 });
                }
            }
        }
    }

    fn scripts_of_gnu_ld(&mut self) {
        for (origin, input) in self.config.inputs.iter().enumerate() {
            let InputArg::Script { path, .. } = input else { continue };
            if let Some((file, named)) = scripts::read_sections(path, &self.search, &mut self.inputs) {
                self.search.add_script(&named);
                self.inputs.scripts.without_default |= !named.augments;
                self.scripts.insert(origin, (file, named));
            }
        }
    }

    /// Read the script of `-dT`, which the linker reads after the line.
    fn default_scripts(&mut self) {
        for path in &self.config.scripts {
            let Some((file, named)) = scripts::read_sections(path, &self.search, &mut self.inputs) else {
                continue;
            };
            self.inputs.scripts.without_default |= self.config.linker.flavor == Flavor::Bfd;
            if !named.commands.is_empty() {
                self.inputs.refuse(Some(file), Limit::UnmodelledScript, "inputs in a script of -dT");
            }
        }
    }

    /// Insert the inputs that a `-T` script names, at its place.
    fn sections(&mut self, file: FileId, named: ScriptInputs, at: LinePlace) {
        let ScriptInputs { mut commands, without_inputs, .. } = named;
        let is_search = |c: &ScriptCommand| matches!(c, ScriptCommand::SearchDir(_));
        match self.config.linker.flavor {
            // The search has its folders already.
            Flavor::Bfd => commands.retain(|c| !is_search(c)),
            Flavor::Lld | Flavor::Mold => {}
            Flavor::Gold | Flavor::Wild if commands.is_empty() => {}
            Flavor::Gold | Flavor::Wild => {
                return self.inputs.refuse(
                    Some(file),
                    Limit::UnmodelledScript,
                    "inputs in a script of -T, which the linker does not read as others do",
                );
            }
        }
        if let Some(text) = without_inputs {
            self.inputs.without_inputs.insert(at.origin, (file, text));
        }
        let Some(path) = self.inputs.files.get(file).map(|f| f.path.clone()) else { return };
        self.commands(file, &path, commands, at);
    }

    fn library(&mut self, name: &OsStr, at: LinePlace, script: Option<&Path>) {
        match self.search.library(name, at.state.static_only, script) {
            FoundFile::At(path) => self.file(&path, format!("-l{}", name.to_string_lossy()), at),
            FoundFile::Ambiguous => {
                let detail =
                    format!("-l{} is in a folder of -L and in one of SEARCH_DIR", name.to_string_lossy());
                self.inputs.refuse(None, Limit::UnmodelledScript, detail);
            }
            FoundFile::Nowhere => {
                let detail = format!("cannot find -l{}", name.to_string_lossy());
                self.missing.get_or_insert_with(|| detail.clone());
                self.inputs.refuse(None, Limit::UnreadableInput, detail);
            }
        }
    }

    /// The id of the file at `path`, opened at its first mention; `None`, with a limit, if that fails.
    fn file_id(&mut self, path: &Path) -> Option<FileId> {
        if let Some(known) = self.by_path.get(path) {
            return *known;
        }
        let opened = self.opened.remove(path).unwrap_or_else(|| open(self.config, path));
        let id = match opened {
            Ok(file) => Some(self.inputs.files.push(file)),
            Err(error) => {
                let detail = format!("{}: {error}", path.display());
                self.missing.get_or_insert_with(|| detail.clone());
                self.inputs.refuse(None, Limit::UnreadableInput, detail);
                None
            }
        };
        if path.to_str().is_none() {
            // Tokens are text: a rewritten line could not name the file.
            self.inputs.refuse(id, Limit::UnreadableInput, "the file name is not UTF-8");
        }
        self.by_path.insert(path.to_owned(), id);
        id
    }

    fn file(&mut self, path: &Path, token: String, at: LinePlace) {
        let Some(file) = self.file_id(path) else { return };
        let Some(kind) = self.inputs.files.get(file).map(|f| f.kind) else { return };
        if kind == FileKind::Script {
            return self.script(file, path, at);
        }
        // Only a DSO keeps its `-l`, because DT_NEEDED may depend on it. Others are named by their path.
        let token = if kind == FileKind::SharedLibrary { token } else { path.to_string_lossy().into_owned() };
        let item = DraftItem::File { file, state: at.state, lib: at.lib, token };
        self.drafts.push(InputDraft { origin: at.origin, item });
    }

    fn script(&mut self, file: FileId, path: &Path, at: LinePlace) {
        if !self.inputs.opened.contains(&file) {
            self.inputs.opened.push(file);
        }
        if self.inputs.files.get(file).is_some_and(|f| f.bytes.trim_ascii().is_empty()) {
            // lld reads a script without commands, others refuse it.
            return self.inputs.refuse(Some(file), Limit::LinkError, "an empty file");
        }
        let commands =
            self.inputs.files.get(file).map(|f| implicit::parse(&f.bytes)).unwrap_or_else(|| Ok(vec![]));
        let commands = match commands {
            Ok(commands) => commands,
            Err(construct) => return self.inputs.refuse(Some(file), Limit::UnmodelledScript, construct),
        };
        self.commands(file, path, commands, at);
    }

    /// Insert the inputs that the script at `path` names, at its place.
    fn commands(&mut self, file: FileId, path: &Path, commands: Vec<ScriptCommand>, at: LinePlace) {
        self.script_inputs = self.script_inputs.saturating_add(commands.len());
        if at.depth >= MAX_SCRIPT_DEPTH || self.script_inputs > MAX_SCRIPT_INPUTS {
            return self.inputs.refuse(Some(file), Limit::UnmodelledScript, "too many nested scripts");
        }
        for command in commands {
            match command {
                ScriptCommand::GroupStart => {
                    self.drafts.push(InputDraft { origin: at.origin, item: DraftItem::GroupStart })
                }
                ScriptCommand::GroupEnd => {
                    self.drafts.push(InputDraft { origin: at.origin, item: DraftItem::GroupEnd })
                }
                // GNU ld takes it for a part of the adjacent name, lld and mold for a name.
                ScriptCommand::Comma => match self.config.linker.flavor {
                    Flavor::Bfd => {
                        self.inputs.refuse(Some(file), Limit::UnmodelledScript, "a comma between two names");
                    }
                    Flavor::Lld | Flavor::Mold => {
                        self.inputs.refuse(Some(file), Limit::LinkError, "a comma between two names");
                    }
                    Flavor::Gold | Flavor::Wild => {}
                },
                ScriptCommand::SearchDir(directory) => match self.config.linker.flavor {
                    Flavor::Bfd | Flavor::Lld if self.config.nostdlib => {}
                    Flavor::Bfd | Flavor::Lld => self.search.add(Path::new(&directory)),
                    Flavor::Gold | Flavor::Mold | Flavor::Wild => {
                        // gold warns and ignores it, the others stop.
                        self.inputs.refuse(
                            Some(file),
                            Limit::UnmodelledScript,
                            "SEARCH_DIR, which GNU ld and lld alone read in an input",
                        );
                    }
                },
                ScriptCommand::Input { name, as_needed } => {
                    let state = InputState { as_needed: at.state.as_needed || as_needed, ..at.state };
                    let at = LinePlace { state, depth: at.depth + 1, ..at };
                    if let Some(library) = name.strip_prefix("-l") {
                        self.library(OsStr::new(library), at, Some(path));
                        continue;
                    }
                    match self.search.named_in_script(OsStr::new(&name), path) {
                        FoundFile::At(found) => self.file(&found, found.to_string_lossy().into_owned(), at),
                        FoundFile::Nowhere => {
                            self.inputs.refuse(
                                Some(file),
                                Limit::UnreadableInput,
                                format!("cannot find {name}"),
                            );
                        }
                        FoundFile::Ambiguous => {
                            let detail =
                                format!("{name} is in several folders, and linkers differ in their order");
                            self.inputs.refuse(Some(file), Limit::UnmodelledScript, detail);
                        }
                    }
                }
            }
        }
    }
}

/// The position of an input on the line, and the state of options there.
#[derive(Clone, Copy)]
struct LinePlace {
    origin: usize,
    state: InputState,
    lib: bool,
    depth: usize,
}

/// The result of parsing a file in parallel.
enum ParsedFile {
    Archive(Archive, Vec<ThinMember>),
    Dso(DsoFacts),
    Failed(Limit, String),
}

/// The own file of a thin archive's member.
struct ThinMember {
    path: PathBuf,
    opened: io::Result<InputFile>,
}

fn parse_in_parallel(
    config: &Config,
    inputs: &Inputs,
    drafts: &[InputDraft],
) -> FxHashMap<FileId, ParsedFile> {
    let mut files: Vec<FileId> = drafts
        .iter()
        .filter_map(|d| if let DraftItem::File { file, .. } = &d.item { Some(*file) } else { None })
        .collect();
    files.sort_unstable();
    files.dedup();
    files.par_iter().filter_map(|id| Some((*id, parse(config, inputs.files.get(*id)?)?))).collect()
}

fn parse(config: &Config, file: &InputFile) -> Option<ParsedFile> {
    match file.kind {
        FileKind::Archive | FileKind::ThinArchive => Some(match archive::parse(&file.bytes) {
            Ok(archive) => {
                let thin = if archive.thin { open_members(config, &file.path, &archive) } else { Vec::new() };
                ParsedFile::Archive(archive, thin)
            }
            Err(detail) => ParsedFile::Failed(Limit::MalformedObject, detail),
        }),
        FileKind::SharedLibrary => Some(match dso::parse(&file.bytes) {
            Ok(facts) => ParsedFile::Dso(facts),
            Err((limit, detail)) => ParsedFile::Failed(limit, detail),
        }),
        _ => None,
    }
}

fn open_members(config: &Config, archive_path: &Path, archive: &Archive) -> Vec<ThinMember> {
    let directory = archive_path.parent().unwrap_or(Path::new(""));
    let open_member = |member: &archive::Member| {
        let path = directory.join(&member.name);
        let opened = open(config, &path);
        ThinMember { path, opened }
    };
    archive.members.par_iter().map(open_member).collect()
}

/// The input that is the same file as the output: linkers treat that differently.
fn output_among(config: &Config, inputs: &Inputs) -> Option<FileId> {
    let output = config.output.metadata().ok()?;
    let same = |file: &InputFile| {
        file.bytes.len() as u64 == output.len()
            && file.path.metadata().is_ok_and(|m| (m.dev(), m.ino()) == (output.dev(), output.ino()))
    };
    inputs.files.enumerated().find(|(_, file)| same(file)).map(|(id, _)| id)
}

/// Gives ids, in the order of the line.
struct Builder<'a> {
    config: &'a Config,
    inputs: &'a mut Inputs,
    parsed: FxHashMap<FileId, ParsedFile>,
    /// By `DsoId`: the folders in which the libraries that it needs are searched.
    runpaths: Vec<Vec<String>>,
}

/// The result of building a file, for its further mentions.
#[derive(Clone)]
enum LoadedFile {
    Object(ModuleId),
    Archive(Vec<ModuleId>, Option<Vec<(Box<[u8]>, ModuleId)>>),
    Dso(DsoId),
    Nothing,
}

impl Builder<'_> {
    fn build(mut self, drafts: Vec<InputDraft>) -> Vec<Vec<String>> {
        let mut built: IdVec<FileId, Option<LoadedFile>> = IdVec::from(vec![None; self.inputs.files.len()]);
        for InputDraft { origin, item } in drafts {
            let item = match item {
                DraftItem::GroupStart => SequenceItem::GroupStart,
                DraftItem::GroupEnd => SequenceItem::GroupEnd,
                DraftItem::File { file, state, lib, token } => {
                    let what = match built[file].clone() {
                        Some(earlier) => self.again(earlier, state, lib),
                        None => self.construct(file),
                    };
                    built[file].get_or_insert_with(|| what.clone());
                    match self.item(what, file, state, lib, token) {
                        Some(item) => item,
                        None => continue,
                    }
                }
            };
            self.inputs.sequence.push(item);
            self.inputs.origins.push(Some(origin));
        }
        self.runpaths
    }

    /// The result for a further mention of a file. Linkers load a file as often as the line says, and each copy is a module.
    /// A lazy member is loaded once, so that all lazy mentions share their modules. mold reads an archive only at its first mention,
    /// and wild reads any file once.
    fn again(&mut self, earlier: LoadedFile, state: InputState, lib: bool) -> LoadedFile {
        match earlier {
            LoadedFile::Archive(..) if self.config.rules().reads_archives_once => LoadedFile::Nothing,
            earlier if self.config.rules().reads_files_once => earlier,
            LoadedFile::Archive(modules, armap) if state.whole_archive => {
                let copies: Vec<ModuleId> = modules.iter().map(|m| self.copy(*m)).collect();
                // All members are loaded, so nothing is looked up in the symbol table of the archive.
                LoadedFile::Archive(copies, armap.map(|_| Vec::new()))
            }
            LoadedFile::Object(module) if !lib => LoadedFile::Object(self.copy(module)),
            earlier => earlier,
        }
    }

    fn copy(&mut self, module: ModuleId) -> ModuleId {
        let copy = self.inputs.modules[module].clone();
        self.inputs.modules.push(copy)
    }

    fn item(
        &mut self,
        what: LoadedFile,
        file: FileId,
        state: InputState,
        lib: bool,
        token: String,
    ) -> Option<SequenceItem> {
        match what {
            LoadedFile::Object(module) => Some(SequenceItem::Object { module, lazy: lib, token }),
            LoadedFile::Archive(modules, armap) => {
                Some(SequenceItem::Archive { file, modules, armap, whole: state.whole_archive, token })
            }
            LoadedFile::Dso(dso) => {
                if state.static_only && self.config.rules().refuses_static_dsos {
                    let detail = "attempted static link of a shared library";
                    self.inputs.refuse(Some(file), Limit::LinkError, detail);
                }
                Some(SequenceItem::Dso { dso, as_needed: state.as_needed, token, implicit: false })
            }
            LoadedFile::Nothing => None,
        }
    }

    fn construct(&mut self, file: FileId) -> LoadedFile {
        let (kind, size) = match self.inputs.files.get(file) {
            Some(f) => (f.kind, f.bytes.len()),
            None => return LoadedFile::Nothing,
        };
        match (kind, self.parsed.remove(&file)) {
            (FileKind::Object | FileKind::Bitcode, _) => {
                let (range, kind) = self.as_linked(file, 0..size, kind);
                LoadedFile::Object(self.inputs.modules.push(Module { file, archive: None, range, kind }))
            }
            (_, Some(ParsedFile::Archive(archive, thin))) => {
                let rules = self.config.rules();
                if archive.has_bsd_form && rules.refuses_bsd_archives {
                    let detail = "an archive in BSD's form, whose symbol table the linker does not find";
                    self.inputs.refuse(Some(file), Limit::LinkError, detail);
                }
                // gold refuses such a member when it loads it, and on the pruned line it has a slash.
                if let Some(at) = archive.without_slash.filter(|_| rules.refuses_names_without_slash) {
                    let detail = format!("member header at offset {at}: its name has no end");
                    self.inputs.refuse(Some(file), Limit::LinkError, detail);
                }
                self.archive(file, archive, thin)
            }
            (_, Some(ParsedFile::Dso(facts))) => {
                let DsoFacts { soname, needed, runpath, is_program, stands_in, symbols } = facts;
                if is_program && self.config.rules().refuses_programs {
                    self.inputs.refuse(Some(file), Limit::LinkError, "a program among the inputs");
                }
                self.runpaths.push(runpath);
                LoadedFile::Dso(self.inputs.dsos.push(Dso { file, soname, needed, stands_in, symbols }))
            }
            (_, Some(ParsedFile::Failed(limit, detail))) => {
                self.inputs.refuse(Some(file), limit, detail);
                LoadedFile::Nothing
            }
            _ => {
                self.inputs.refuse(Some(file), Limit::UnreadableInput, "not a file that a linker reads");
                LoadedFile::Nothing
            }
        }
    }

    /// The part of an object that the linker reads: with `--fat-lto-objects` the bitcode in it, if there is some.
    fn as_linked(&self, file: FileId, range: Range<usize>, kind: FileKind) -> (Range<usize>, FileKind) {
        let object = || self.inputs.files.get(file)?.bytes.get(range.clone());
        let bitcode = (self.config.fat_lto_objects && kind == FileKind::Object)
            .then(|| bitcode::fat(object()?))
            .flatten();
        match bitcode {
            Some(found) => {
                let at = |place: usize| range.start.saturating_add(place);
                (at(found.start)..at(found.end), FileKind::Bitcode)
            }
            None => (range, kind),
        }
    }

    fn archive(&mut self, file: FileId, archive: Archive, thin: Vec<ThinMember>) -> LoadedFile {
        let mut modules = Vec::with_capacity(archive.members.len());
        let mut thin = thin.into_iter();
        for member in archive.members {
            let (in_file, range, kind) = if archive.thin {
                let Some(ThinMember { path, opened }) = thin.next() else { continue };
                match opened {
                    Ok(file) => {
                        let (size, kind) = (file.bytes.len(), file.kind);
                        (self.inputs.files.push(file), 0..size, kind)
                    }
                    Err(error) => {
                        let detail = format!("member {}: {error}", path.display());
                        self.inputs.refuse(Some(file), Limit::UnreadableInput, detail);
                        // An empty module in its place keeps the symbol table's indices valid.
                        (file, 0..0, FileKind::Unknown)
                    }
                }
            } else {
                let bytes = self.inputs.files.get(file).and_then(|f| f.bytes.get(member.data.clone()));
                (file, member.data.clone(), recognise(bytes.unwrap_or_default()))
            };
            if matches!(kind, FileKind::Archive | FileKind::ThinArchive) {
                let detail = format!("archive in an archive: {}", member.name);
                self.inputs.refuse(Some(file), Limit::UnreadableInput, detail);
            }
            let (range, kind) = self.as_linked(in_file, range, kind);
            let module = Module { file: in_file, archive: Some((file, member.name)), range, kind };
            modules.push(self.inputs.modules.push(module));
        }
        let module_of = |index: usize| modules.get(index).copied();
        // lld and wild look at the members themselves.
        let reads_index = self.config.rules().reads_armap;
        let name = |at: Range<usize>| Some(self.inputs.files.get(file)?.bytes.get(at)?.into());
        let entry = |(at, index): (Range<usize>, usize)| Some((name(at)?, module_of(index)?));
        let armap = archive.symbols.map(|symbols| match reads_index {
            true => symbols.into_iter().filter_map(entry).collect(),
            false => Vec::new(),
        });
        LoadedFile::Archive(modules, armap)
    }
}

#[cfg(test)]
mod tests;
