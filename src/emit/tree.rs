//! The pass emit: the files that the linker gets, and the line that names them.
//!
//! The linker is left no choice that pruning could change. Each module in the link is named outright, in the
//! order in which the plain link loads it; members of an archive come as an archive of the same basename under
//! `--whole-archive`, cut into several where members of other files were loaded in between; a DSO that the plain
//! link needs is not left to `--as-needed`, and stands between the modules where it stood. A module from which
//! nothing goes and that is no member is named by its original path. Members that stay out and are looked at follow.
//!
//! Copies lie in numbered folders and keep the basename, so that file patterns of scripts, `--exclude-libs` and
//! messages see the names that they know; [`CopyNames`] turns a copy's path back into the original's.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Component, Path, PathBuf};

use rayon::prelude::*;
use summaries::{ModuleKind, ModuleSummary};

use super::ahead::EmittedAhead;
use super::{ExplicitDebug, archive, bitcode, cached, object};
use crate::config::{Config, Dialect, LineArg};
use crate::error::{Error, Result, Stage};
use crate::ids::{DsoId, FileId, ModuleId};
use crate::index::LinkInputs;
use crate::inputs::{Inputs, SequenceItem};
use crate::plan::{ModulePlan, Plan};
use crate::resolve::Resolution;

/// What a copy's path stands for.
#[derive(Debug, Default)]
pub struct CopyNames {
    /// The folder of the numbered folders, with a trailing slash.
    prefix: String,
    /// By number: the copy's basename and the original's path.
    originals: Vec<(String, String)>,
}

impl CopyNames {
    /// Replace each copy's path by the original's, and its folder by the original's where something else lies in it: lld names what it makes of bitcode so.
    pub fn restore(&self, text: &[u8]) -> Vec<u8> {
        let prefix = self.prefix.as_bytes();
        let mut out = Vec::with_capacity(text.len());
        let mut rest = text;
        while !prefix.is_empty()
            && let Some(at) = find(rest, prefix)
        {
            out.extend_from_slice(&rest[..at]);
            rest = &rest[at..];
            let tail = &rest[prefix.len()..];
            let digits = tail.iter().take_while(|c| c.is_ascii_digit()).count();
            let number = std::str::from_utf8(&tail[..digits]).ok().and_then(|n| n.parse::<usize>().ok());
            let known = number.and_then(|n| self.originals.get(n));
            match known.filter(|_| tail.get(digits) == Some(&b'/')) {
                Some((base, original)) => match tail[digits + 1..].strip_prefix(base.as_bytes()) {
                    Some(behind) => {
                        out.extend_from_slice(original.as_bytes());
                        rest = behind;
                    }
                    None => {
                        out.extend_from_slice(folder(original).as_bytes());
                        rest = &tail[digits + 1..];
                    }
                },
                None => {
                    out.extend_from_slice(prefix);
                    rest = tail;
                }
            }
        }
        out.extend_from_slice(rest);
        out
    }
}

/// The folder of a file, or of an archive, as lld writes it before a name: with a slash, or nothing.
fn folder(original: &str) -> String {
    let archive = original.split_once('(').filter(|_| original.ends_with(')'));
    let file = archive.map_or(original, |(archive, _)| archive);
    let mut path = without_dots(&Path::new(file).with_file_name("_"));
    path.pop();
    path
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|w| w == needle)
}

/// The product of emission: where the pruned objects are, and the line that links them.
#[derive(Debug)]
pub struct Emitted {
    /// Arguments of the linker, but for the output.
    pub line: Vec<LineWord>,
    pub names: CopyNames,
    /// The files that were written, in the order of the line.
    files: Vec<PathBuf>,
    /// By load position, where a pruned module lies. `None`: it is untouched.
    objects: Vec<Option<Place>>,
}

/// Where a module lies in the files that were written.
#[derive(Debug, Clone, Copy)]
struct Place {
    file: usize,
    offset: u64,
    size: usize,
}

impl Emitted {
    /// The pruned module at this load position, as the linker reads it; `None` if it is untouched.
    ///
    /// # Errors
    /// The file can't be read.
    pub fn read(&self, position: usize) -> Result<Option<Vec<u8>>> {
        let Some(Place { file, offset, size }) = self.objects[position] else { return Ok(None) };
        let path = &self.files[file];
        let mut bytes = vec![0; size];
        let read = File::open(path).and_then(|file| file.read_exact_at(&mut bytes, offset));
        read.map_err(|e| Error::io(Stage::Verify, path, "read", e).in_file(path.display().to_string()))?;
        Ok(Some(bytes))
    }
}

/// What is there of a module before it is emitted.
#[derive(Debug)]
pub enum Prepared {
    /// Emission begins with the module itself.
    Original,
    /// The object with explicit debug information: its code is divided.
    Explicit(ExplicitDebug),
    /// What an earlier link made of it by the same plan.
    Pruned(Vec<u8>),
}

/// A word of the new line.
#[derive(Debug, Clone)]
pub enum LineWord {
    Word(OsString),
    /// The option that names the output, as it was given.
    Output(Vec<OsString>),
}

/// What emission reads: the inputs, what is known of them, and the plan.
#[derive(Clone, Copy)]
pub struct EmissionInputs<'s> {
    pub config: &'s Config,
    pub inputs: &'s Inputs,
    pub resolution: &'s Resolution<'s>,
    /// The elements are in load order, as the plan has the modules.
    pub summaries: &'s [&'s ModuleSummary],
    pub plan: &'s Plan,
    /// What [`prepare`] made, in load order.
    pub prepared: &'s [Prepared],
    /// DSOs on the line that the plain link records in DT_NEEDED.
    pub needed: &'s (dyn Fn(DsoId) -> bool + Sync),
}

/// How many bytes [`emit`] writes at most, if no module grows.
pub fn most_written(sources: EmissionInputs<'_>) -> u64 {
    let EmissionInputs { inputs, resolution, plan, .. } = sources;
    let is_written = |position: usize, module: ModuleId| {
        inputs.modules[module].archive.is_some() || !plan.modules[position].is_untouched()
    };
    let loaded = resolution.loaded.iter().enumerate().filter(|(i, m)| is_written(*i, **m)).map(|(_, m)| m);
    loaded.chain(&resolution.late).map(|module| inputs.module_bytes(*module).len() as u64).sum()
}

/// Rewrite what is touched and write the files into `dir`. No more of what is written is in memory than what the threads are at.
pub fn emit(sources: EmissionInputs<'_>, dir: &Path) -> Result<Emitted> {
    let mut files = Files {
        dir,
        dialect: sources.config.linker.dialect,
        names: CopyNames::default(),
        outputs: Vec::new(),
    };
    files.names.prefix = format!("{}/", dir.display());
    let block = input_block(sources, &mut files);
    let objects = files.write(sources)?;
    let mut line = Vec::new();
    let mut block = Some(block);
    for arg in &sources.config.line {
        match arg {
            LineArg::Input(_) | LineArg::State(_) => {
                line.extend(block.take().into_iter().flatten().map(LineWord::Word));
            }
            LineArg::Output(words) => line.push(LineWord::Output(words.clone())),
            // Among the inputs it is part of the block.
            LineArg::Defsym(_) if block.is_none() => {}
            LineArg::Defsym(words) | LineArg::Other(words) => {
                line.extend(words.iter().cloned().map(LineWord::Word));
            }
        }
    }
    let written = files.outputs.into_iter().map(|(path, _)| path).collect();
    Ok(Emitted { line, names: files.names, files: written, objects })
}

/// All modules before emission, in load order: taken from the cache, or with explicit debug information where code is divided and there is some. The
/// error of a module says why nothing of it may go.
pub fn prepare(link: LinkInputs<'_>, plan: &Plan) -> Vec<Result<Prepared>> {
    let LinkInputs { config, inputs, resolution, summaries, cached: cache, .. } = link;
    let ahead = EmittedAhead::of_link(config, inputs, resolution, plan);
    let one = |(position, (&module, summary)): (usize, (&ModuleId, &&ModuleSummary))| {
        let plan = &plan.modules[position];
        if plan.is_untouched() {
            return Ok(Prepared::Original);
        }
        let ahead = ahead.as_ref().and_then(|ahead| ahead.get(inputs, module, summary, plan));
        if let Some(pruned) = ahead.or_else(|| cached::get(cache, position, plan)) {
            return Ok(Prepared::Pruned(pruned));
        }
        prepare_module(inputs.module_bytes(module), summary, plan)
    };
    resolution.loaded.par_iter().zip(summaries).enumerate().map(one).collect()
}

/// A module before emission: with explicit debug information where its code is divided and there is some.
///
/// # Errors
/// Its debug information can't be made explicit, so that nothing of it may go.
pub fn prepare_module(original: &[u8], summary: &ModuleSummary, plan: &ModulePlan) -> Result<Prepared> {
    let may_have = summary.kind == ModuleKind::Native && summaries::have_debug_info(&summary.atoms);
    let explicit = match may_have {
        true => object::explicit_debug(original, summary, plan)?,
        false => None,
    };
    Ok(explicit.map_or(Prepared::Original, Prepared::Explicit))
}

/// The pruned module at this load position; `None` if it is untouched. It is borrowed if an earlier link made it.
///
/// # Errors
/// It can't be emitted as planned.
pub fn pruned_module(sources: EmissionInputs<'_>, position: usize) -> Result<Option<Cow<'_, [u8]>>> {
    let EmissionInputs { inputs, resolution, summaries, plan, prepared, .. } = sources;
    let (module, summary, plan) = (resolution.loaded[position], summaries[position], &plan.modules[position]);
    if plan.is_untouched() {
        return Ok(None);
    }
    if let Prepared::Pruned(object) = &prepared[position] {
        return Ok(Some(Cow::Borrowed(object.as_slice())));
    }
    let rewritten = rewrite_module(inputs.module_bytes(module), summary, plan, &prepared[position]);
    rewritten.map(|object| Some(Cow::Owned(object))).map_err(|e| e.in_file(inputs.module_name(module)))
}

/// One module by its plan; `prepared` is what there is of it already.
///
/// # Errors
/// It can't be emitted as planned.
pub fn rewrite_module(
    original: &[u8],
    summary: &ModuleSummary,
    plan: &ModulePlan,
    prepared: &Prepared,
) -> Result<Vec<u8>> {
    match (prepared, summary.kind) {
        (Prepared::Pruned(object), _) => Ok(object.clone()),
        (_, ModuleKind::Bitcode) => bitcode::apply(original, summary, plan),
        (Prepared::Explicit(explicit), _) => {
            object::rewrite_explicit(original, summary, plan, Some(explicit))
        }
        (Prepared::Original, _) => object::rewrite_explicit(original, summary, plan, None),
    }
}

/// What a file to be written holds.
enum Content {
    /// The pruned object at this load position.
    Object(usize),
    /// An archive of the modules at these load positions.
    Archive(std::ops::Range<usize>),
    /// An archive of members that the plain link has not loaded so far.
    Unloaded(Vec<ModuleId>),
}

/// The files that are to be written, each with its contents.
struct Files<'d> {
    dir: &'d Path,
    dialect: Dialect,
    names: CopyNames,
    outputs: Vec<(PathBuf, Content)>,
}

impl Files<'_> {
    /// A path in a folder of its own, under the basename of `original`.
    fn add(&mut self, original: &str, content: Content) -> OsString {
        let base = original.rsplit('/').next().unwrap_or(original).to_owned();
        let folder = self.dir.join(self.names.originals.len().to_string());
        let path = folder.join(&base);
        let named = match self.dialect {
            Dialect::Mold => without_dots(Path::new(original)),
            Dialect::Lld | Dialect::Bfd | Dialect::Gold | Dialect::Wild => original.to_owned(),
        };
        self.names.originals.push((base, named));
        self.outputs.push((path.clone(), content));
        path.into_os_string()
    }

    /// Write all files: where each pruned module came to lie, by load position.
    fn write(&self, sources: EmissionInputs<'_>) -> Result<Vec<Option<Place>>> {
        let one = |(file, (path, content)): (usize, &(PathBuf, Content))| {
            let failed = |e| Error::io(Stage::Emit, path, "write a pruned copy", e);
            if let Some(folder) = path.parent() {
                // The folder that it is in is not made again: a signal may just have removed it.
                std::fs::create_dir(folder).map_err(failed)?;
            }
            match content {
                Content::Object(position) => {
                    let object = pruned_module(sources, *position)?.unwrap_or_default();
                    std::fs::write(path, &object).map_err(failed)?;
                    Ok(vec![(*position, Place { file, offset: 0, size: object.len() })])
                }
                Content::Archive(positions) => {
                    let pruned = |position: usize| pruned_module(sources, position);
                    let objects: Vec<_> =
                        positions.clone().into_par_iter().map(pruned).collect::<Result<_>>()?;
                    let member = |k: usize| {
                        let module = sources.resolution.loaded[positions.start + k];
                        let original = || sources.inputs.module_bytes(module);
                        Some((
                            member_of(sources.inputs, module)?.1,
                            objects[k].as_deref().unwrap_or_else(original),
                        ))
                    };
                    let members: Vec<_> = (0..objects.len()).filter_map(member).collect();
                    let offsets = write_archive(path, &members).map_err(failed)?;
                    let place = |(k, offset): (usize, u64)| {
                        let size = objects[k].as_ref()?.len();
                        Some((positions.start + k, Place { file, offset, size }))
                    };
                    Ok(offsets.into_iter().enumerate().filter_map(place).collect())
                }
                Content::Unloaded(modules) => {
                    let member = |m: &ModuleId| {
                        let (_, name) = member_of(sources.inputs, *m)?;
                        Some((name, sources.inputs.module_bytes(*m)))
                    };
                    let members: Vec<_> = modules.iter().filter_map(member).collect();
                    write_archive(path, &members).map(|_| Vec::new()).map_err(failed)
                }
            }
        };
        let placed: Vec<Vec<(usize, Place)>> =
            self.outputs.par_iter().enumerate().map(one).collect::<Result<_>>()?;
        let mut places = vec![None; sources.resolution.loaded.len()];
        placed.into_iter().flatten().for_each(|(position, place)| places[position] = Some(place));
        Ok(places)
    }
}

/// The offsets of the members. Large ones go to the file as they are: there is no copy of the archive in memory.
fn write_archive(path: &Path, members: &[(&str, &[u8])]) -> std::io::Result<Vec<u64>> {
    let mut file = BufWriter::with_capacity(1 << 16, File::create(path)?);
    let offsets = archive::write(&mut file, members)?;
    file.flush()?;
    Ok(offsets)
}

/// The words that stand for all inputs.
fn input_block(sources: EmissionInputs<'_>, files: &mut Files<'_>) -> Vec<OsString> {
    let EmissionInputs { inputs, resolution, plan, .. } = sources;
    let mut words: Vec<OsString> = Vec::new();
    let loaded = &resolution.loaded;
    let defined = defined_among_inputs(sources.config);
    let mut libraries = Libraries { sources, seen: Vec::new(), next: 0, defined: defined.as_slice() };
    let mut i = 0;
    while i < loaded.len() {
        libraries.add(i, &mut words);
        let module = &inputs.modules[loaded[i]];
        let Some((archive, _)) = &module.archive else {
            words.push(match plan.modules[i].is_untouched() {
                false => files.add(&inputs.files[module.file].path.to_string_lossy(), Content::Object(i)),
                true => inputs.files[module.file].path.clone().into_os_string(),
            });
            i += 1;
            continue;
        };
        let same = |m: &ModuleId| member_of(inputs, *m).is_some_and(|(a, _)| a == *archive);
        let room = libraries.until_next(i).unwrap_or(usize::MAX);
        let run = loaded[i..].iter().take_while(|m| same(m)).count().min(room);
        words.push("--whole-archive".into());
        words.push(files.add(&inputs.files[*archive].path.to_string_lossy(), Content::Archive(i..i + run)));
        words.push("--no-whole-archive".into());
        i += run;
    }
    libraries.add(usize::MAX, &mut words);
    words.extend(libraries.defined.iter().flat_map(|(_, words)| *words).cloned());
    unloaded(sources, files, &mut words);
    for symbol in &sources.plan.demanded {
        words.extend(["-u".into(), OsStr::from_bytes(resolution.symbols[*symbol].name).to_owned()]);
    }
    words
}

/// Name the members that the plain link does not load and looks at: native ones when it makes code of bitcode, which it may load for that
/// code, and those that define a name that the linker looks for.
///
/// Behind everything else and without those that are loaded they give what they give in the plain link: of what is undefined
/// there, nothing is defined by one of them, or it would be loaded; and a library's definition comes before theirs wherever it stands.
fn unloaded(sources: EmissionInputs<'_>, files: &mut Files<'_>, words: &mut Vec<OsString>) {
    let EmissionInputs { inputs, resolution, .. } = sources;
    let late = |m: &ModuleId| resolution.late.binary_search(m).is_ok();
    let mut named: Vec<FileId> = Vec::new();
    for item in &inputs.sequence {
        match item {
            SequenceItem::Archive { file, modules, .. } if !named.contains(file) => {
                named.push(*file);
                let members: Vec<ModuleId> = modules.iter().copied().filter(late).collect();
                if !members.is_empty() {
                    let path = inputs.files[*file].path.to_string_lossy();
                    words.push(files.add(&path, Content::Unloaded(members)));
                }
            }
            SequenceItem::Object { module, lazy: true, .. } if late(module) => {
                let path = inputs.files[inputs.modules[*module].file].path.clone().into_os_string();
                words.extend(["--start-lib".into(), path, "--end-lib".into()]);
            }
            _ => {}
        }
    }
}

/// Each `--defsym` that stands behind an input, with the number of inputs before it.
fn defined_among_inputs(config: &Config) -> Vec<(usize, &[OsString])> {
    let mut before = 0;
    let mut begun = false;
    let mut defined = Vec::new();
    for arg in &config.line {
        match arg {
            LineArg::Input(_) => before += 1,
            LineArg::Defsym(words) if begun => defined.push((before, words.as_slice())),
            _ => {}
        }
        begun |= matches!(arg, LineArg::Input(_) | LineArg::State(_));
    }
    defined
}

/// Names the shared libraries, each where the plain link reads it.
struct Libraries<'s> {
    sources: EmissionInputs<'s>,
    seen: Vec<DsoId>,
    /// The `--defsym` that aren't named yet: each comes before the first library that it is before in the plain link. Which
    /// modules are loaded is decided, so its place among those says nothing any more.
    defined: &'s [(usize, &'s [OsString])],
    /// The first mention that isn't named yet.
    next: usize,
}

impl Libraries<'_> {
    /// How many modules come before the next one, `loaded` of them being named.
    fn until_next(&self, loaded: usize) -> Option<usize> {
        self.sources.resolution.dso_mentions.get(self.next).map(|m| m.after.saturating_sub(loaded))
    }

    /// Name those that come before module number `loaded`.
    fn add(&mut self, loaded: usize, words: &mut Vec<OsString>) {
        let EmissionInputs { inputs, resolution, needed, .. } = self.sources;
        while let Some(mention) = resolution.dso_mentions.get(self.next).filter(|m| m.after <= loaded) {
            self.next += 1;
            let input = inputs.origins.get(mention.item).copied().flatten();
            while let [(before, of), rest @ ..] = self.defined
                && input.is_none_or(|input| *before <= input)
            {
                words.extend(of.iter().cloned());
                self.defined = rest;
            }
            let Some(SequenceItem::Dso { dso, as_needed, token, .. }) = inputs.sequence.get(mention.item)
            else {
                continue;
            };
            // The first mention counts; a later one can only take back an earlier --as-needed.
            let again = self.seen.contains(dso);
            // What GNU ld forgot here it may open in the end for another library, by its path on the line. Of such a
            // one we know that no module needs it.
            let opened = mention.taken || is_implicit(inputs, *dso);
            if again && *as_needed || !opened {
                continue;
            }
            let forced = !*as_needed || mention.taken && needed(*dso);
            if mention.taken {
                self.seen.push(*dso);
            }
            words.push(if forced { "--no-as-needed" } else { "--as-needed" }.into());
            words.push("-Bdynamic".into());
            words.push(token.into());
        }
    }
}

/// Whether GNU ld opens the library for the sake of another one.
fn is_implicit(inputs: &Inputs, wanted: DsoId) -> bool {
    let implicit =
        |item: &SequenceItem| matches!(item, SequenceItem::Dso { dso, implicit: true, .. } if *dso == wanted);
    inputs.sequence.iter().any(implicit)
}

fn member_of(inputs: &Inputs, module: ModuleId) -> Option<(FileId, &str)> {
    inputs.modules[module].archive.as_ref().map(|(archive, name)| (*archive, name.as_str()))
}

/// A path without `.` and `..`, by its text alone, as lld and mold write it.
pub fn without_dots(path: &Path) -> String {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if matches!(out.components().next_back(), Some(Component::Normal(_))) => {
                out.pop();
            }
            part => out.push(part),
        }
    }
    out.display().to_string()
}
