//! The files for the linker: pruned objects, and archives of them.
//!
//! Copies are in numbered folders and keep their basenames, so file patterns of scripts, `--exclude-libs` and
//! messages still match. [`CopyNames`] restores the originals' paths. Each file is written when it is made, and read
//! again to be verified.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rayon::prelude::*;
use summaries::{ModuleKind, ModuleSummary};

use super::ahead::EmittedAhead;
use super::link_line::{begins_inputs, input_block, member_of};
use super::{ExplicitDebug, archive, bitcode, cached, debug, object};
use crate::args::words;
use crate::config::{Config, Flavor, LineArg};
use crate::error::{Error, Result, Stage, all_or_first_error};
use crate::ids::{DsoId, ModuleId};
use crate::index::LinkInputs;
use crate::inputs::Inputs;
use crate::paths::without_dots;
use crate::plan::{ModulePlan, Plan};
use crate::resolve::Resolution;

/// The result of emission: the pruned objects, and the line that links them.
#[derive(Debug)]
pub struct EmittedLink {
    /// The linker's arguments except the output.
    pub line: Vec<LineWord>,
    pub names: CopyNames,
    /// The files that were written, in the order of the line.
    files: Vec<PathBuf>,
    /// The place of each pruned module, by load position; `None` if it is unmodified.
    objects: Vec<Option<ModulePlace>>,
}

/// The place of a module in the written files.
#[derive(Debug, Clone, Copy)]
struct ModulePlace {
    file: usize,
    offset: u64,
    size: usize,
}

impl EmittedLink {
    /// The pruned module at this load position, from its file; `None` if it is unmodified.
    ///
    /// # Errors
    /// The file can't be read.
    pub fn read(&self, position: usize) -> Result<Option<Vec<u8>>> {
        let Some(ModulePlace { file, offset, size }) = self.objects[position] else { return Ok(None) };
        let path = &self.files[file];
        let mut bytes = vec![0; size];
        let read = File::open(path).and_then(|file| file.read_exact_at(&mut bytes, offset));
        read.map_err(|e| Error::io(Stage::Verify, path, "read", e).in_file(path.display().to_string()))?;
        Ok(Some(bytes))
    }
}

/// The state of a module before it is emitted.
#[derive(Debug)]
pub enum EmissionSource {
    /// The original module, which is not rewritten yet.
    Original,
    /// The object with changed debug sections, or with a new `.debug_frame` or `.debug_addr`.
    Explicit(ExplicitDebug),
    /// The pruned object, from the cache or precomputed.
    Pruned(Vec<u8>),
}

/// A word of the new line.
#[derive(Debug, Clone)]
pub enum LineWord {
    Word(OsString),
    /// The option that names the output, as it was given.
    Output(Vec<OsString>),
}

#[derive(Clone, Copy)]
pub struct EmissionInputs<'s> {
    pub config: &'s Config,
    pub inputs: &'s Inputs,
    pub resolution: &'s Resolution<'s>,
    pub summaries: &'s [&'s ModuleSummary],
    pub plan: &'s Plan,
    /// The result of [`prepare`], in load order.
    pub emission_sources: &'s [EmissionSource],
    /// Whether the plain link records a DSO in DT_NEEDED.
    pub needed: &'s (dyn Fn(DsoId) -> bool + Sync),
    /// The reason why debug entries are kept, by load position. Emission adds to it.
    pub uncollected: &'s Mutex<BTreeMap<usize, String>>,
}

/// The largest number of bytes that [`emit`] writes, if no module grows.
pub fn most_written(sources: EmissionInputs<'_>) -> u64 {
    let EmissionInputs { inputs, resolution, plan, .. } = sources;
    let is_written = |position: usize, module: ModuleId| {
        inputs.modules[module].archive.is_some() || !plan.modules[position].passed_through
    };
    let loaded = resolution.loaded.iter().enumerate().filter(|(i, m)| is_written(*i, **m)).map(|(_, m)| m);
    loaded.chain(&resolution.late).map(|module| inputs.module_bytes(*module).len() as u64).sum()
}

/// Rewrite the modified modules, and write the files into `dir`. One module is buffered per thread.
pub fn emit(sources: EmissionInputs<'_>, dir: &Path) -> Result<EmittedLink> {
    let mut files = OutputFiles {
        dir,
        flavor: sources.config.linker.flavor,
        names: CopyNames::default(),
        outputs: Vec::new(),
    };
    files.names.prefix = format!("{}/", dir.display());
    let mut block = Some(input_block(sources, &mut files));
    let mut scripts = scripts(sources, &mut files);
    let objects = files.write(sources)?;
    let mut line = Vec::new();
    for arg in &sources.config.line {
        if begins_inputs(sources, arg) {
            // lld searches the folders of a script after it has read the script.
            let first = if sources.config.linker.flavor == Flavor::Lld { scripts.len() } else { 0 };
            line.extend(scripts.drain(..first).flat_map(|(_, words)| words).map(LineWord::Word));
            line.extend(block.take().into_iter().flatten().map(LineWord::Word));
        }
        match arg {
            LineArg::Input(_) | LineArg::State(_) => {}
            LineArg::Script(input, _) => {
                if scripts.first().is_some_and(|(next, _)| next == input) {
                    line.extend(scripts.remove(0).1.into_iter().map(LineWord::Word));
                }
            }
            LineArg::Output(words) => line.push(LineWord::Output(words.clone())),
            // A `--defsym` after the first input is already in the input block.
            LineArg::Defsym(_) if block.is_none() => {}
            LineArg::Defsym(words) | LineArg::Other(words) => {
                line.extend(words.iter().cloned().map(LineWord::Word));
            }
        }
    }
    let written = files.outputs.into_iter().map(|(path, _)| path).collect();
    Ok(EmittedLink { line, names: files.names, files: written, objects })
}

/// The words of each `-T` with its index among the inputs. A copy without inputs replaces a script that names inputs.
fn scripts(sources: EmissionInputs<'_>, files: &mut OutputFiles<'_>) -> Vec<(usize, Vec<OsString>)> {
    let EmissionInputs { config, inputs, .. } = sources;
    let mut words_of = |arg: &LineArg| {
        let LineArg::Script(input, words) = arg else { return None };
        let words = match inputs.without_inputs.get(input) {
            Some((file, text)) => {
                let path = inputs.files[*file].path.to_string_lossy();
                vec!["-T".into(), files.add(&path, FileContent::Script(text.clone()))]
            }
            None => words.clone(),
        };
        Some((*input, words))
    };
    config.line.iter().filter_map(&mut words_of).collect()
}

/// All modules before emission, in load order: from the cache, or with explicit debug information where code is
/// divided. An error means that nothing of the module may be dropped.
pub fn prepare(link: LinkInputs<'_>, plan: &Plan) -> Vec<Result<EmissionSource>> {
    let LinkInputs { config, inputs, resolution, summaries, cached: cache, .. } = link;
    let ahead = EmittedAhead::of_link(config, inputs, resolution, plan);
    let one = |(position, (&module, summary)): (usize, (&ModuleId, &&ModuleSummary))| {
        let plan = &plan.modules[position];
        if plan.passed_through {
            return Ok(EmissionSource::Original);
        }
        let precomputed = ahead.as_ref().and_then(|ahead| ahead.get(inputs, module, summary, plan));
        // An object that an action should have made is not taken from the cache, so that a missing action is noticed.
        let is_awaited = ahead.is_some() && inputs.files[inputs.modules[module].file].interface.is_some();
        let of_cache = || cached::get(cache, position, plan).filter(|_| !is_awaited);
        if let Some(pruned) = precomputed.or_else(of_cache) {
            return Ok(EmissionSource::Pruned(pruned));
        }
        prepare_module(inputs.module_bytes(module), summary, plan)
    };
    resolution.loaded.par_iter().zip(summaries).enumerate().map(one).collect()
}

/// Prepare a module. It gets explicit debug information if its code is divided, or if unwind entries become debug
/// information.
///
/// # Errors
/// Its debug information can't be made explicit. Then nothing of it may be dropped.
pub fn prepare_module(original: &[u8], summary: &ModuleSummary, plan: &ModulePlan) -> Result<EmissionSource> {
    let may_have = summary.kind == ModuleKind::Native
        && (plan.writes_debug_frame || summaries::have_debug_info(&summary.atoms));
    let explicit = match may_have {
        true => object::explicit_debug(original, summary, plan)?,
        false => None,
    };
    Ok(explicit.map_or(EmissionSource::Original, EmissionSource::Explicit))
}

/// The pruned module at this load position; `None` if it is unmodified. A cached one is borrowed.
///
/// # Errors
/// It can't be emitted as planned.
pub fn pruned_module(sources: EmissionInputs<'_>, position: usize) -> Result<Option<Cow<'_, [u8]>>> {
    let EmissionInputs { inputs, resolution, summaries, plan, emission_sources, .. } = sources;
    let (module, summary, plan) = (resolution.loaded[position], summaries[position], &plan.modules[position]);
    if plan.passed_through {
        return Ok(None);
    }
    if let EmissionSource::Pruned(object) = &emission_sources[position] {
        return Ok(Some(Cow::Borrowed(object.as_slice())));
    }
    let rewritten = rewrite_module(inputs.module_bytes(module), summary, plan, &emission_sources[position]);
    let (object, uncollected) = rewritten.map_err(|e| e.in_file(inputs.module_name(module)))?;
    if let (Some(why), Ok(mut all)) = (uncollected, sources.uncollected.lock()) {
        let section = why.section.map(|section| format!("section {section}: ")).unwrap_or_default();
        all.insert(position, section + &why.message);
    }
    Ok(Some(Cow::Owned(object)))
}

/// Rewrite one module by its plan. The second value is the reason why entries of its debug information are kept.
///
/// # Errors
/// It can't be emitted as planned.
pub fn rewrite_module(
    original: &[u8],
    summary: &ModuleSummary,
    plan: &ModulePlan,
    emission_source: &EmissionSource,
) -> Result<(Vec<u8>, Option<Error>)> {
    let explicit = match (emission_source, summary.kind) {
        (EmissionSource::Pruned(object), _) => return Ok((object.clone(), None)),
        (_, ModuleKind::Bitcode) => {
            return bitcode::apply(original, summary, plan).map(|object| (object, None));
        }
        (EmissionSource::Explicit(explicit), _) => Some(explicit),
        (EmissionSource::Original, _) => None,
    };
    let object = object::rewrite_explicit(original, summary, plan, explicit)?;
    let collected = plan.debug.map_or(Ok(None), |collection| debug::gc::collect(&object, collection));
    Ok(match collected {
        Ok(smaller) => (smaller.unwrap_or(object), None),
        Err(why) => (object, Some(why)),
    })
}

pub(super) enum FileContent {
    /// The pruned object at this load position.
    Object(usize),
    /// An archive of the modules at these load positions.
    Archive(std::ops::Range<usize>),
    /// The text of a linker script.
    Script(Vec<u8>),
    /// An archive of members that are not loaded.
    Unloaded(Vec<ModuleId>),
}

pub(super) struct OutputFiles<'d> {
    dir: &'d Path,
    flavor: Flavor,
    names: CopyNames,
    outputs: Vec<(PathBuf, FileContent)>,
}

impl OutputFiles<'_> {
    /// A path in a new folder, with the basename of `original`.
    pub(super) fn add(&mut self, original: &str, content: FileContent) -> OsString {
        let base = original.rsplit('/').next().unwrap_or(original).to_owned();
        let folder = self.dir.join(self.names.originals.len().to_string());
        let path = folder.join(&base);
        let named = match self.flavor {
            Flavor::Mold => without_dots(Path::new(original)),
            Flavor::Lld | Flavor::Bfd | Flavor::Gold | Flavor::Wild => original.to_owned(),
        };
        self.names.originals.push((base, named));
        self.outputs.push((path.clone(), content));
        path.into_os_string()
    }

    /// Write all files. Returns the place of each pruned module, by load position.
    fn write(&self, sources: EmissionInputs<'_>) -> Result<Vec<Option<ModulePlace>>> {
        let one = |(file, (path, content)): (usize, &(PathBuf, FileContent))| {
            let failed = |e| Error::io(Stage::Emit, path, "write a pruned copy", e);
            if let Some(folder) = path.parent() {
                // The parent is not created again: a signal may just have removed it.
                std::fs::create_dir(folder).map_err(failed)?;
            }
            match content {
                FileContent::Object(position) => {
                    let object = pruned_module(sources, *position)?.unwrap_or_default();
                    std::fs::write(path, &object).map_err(failed)?;
                    Ok(vec![(*position, ModulePlace { file, offset: 0, size: object.len() })])
                }
                FileContent::Archive(positions) => {
                    let pruned = |position: usize| pruned_module(sources, position);
                    let objects = all_or_first_error(positions.clone().into_par_iter().map(pruned))?;
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
                        Some((positions.start + k, ModulePlace { file, offset, size }))
                    };
                    Ok(offsets.into_iter().enumerate().filter_map(place).collect())
                }
                FileContent::Script(text) => std::fs::write(path, text).map(|()| Vec::new()).map_err(failed),
                FileContent::Unloaded(modules) => {
                    let member = |m: &ModuleId| {
                        let (_, name) = member_of(sources.inputs, *m)?;
                        Some((name, sources.inputs.module_bytes(*m)))
                    };
                    let members: Vec<_> = modules.iter().filter_map(member).collect();
                    write_archive(path, &members).map(|_| Vec::new()).map_err(failed)
                }
            }
        };
        let placed = all_or_first_error(self.outputs.par_iter().enumerate().map(one))?;
        let mut places = vec![None; sources.resolution.loaded.len()];
        placed.into_iter().flatten().for_each(|(position, place)| places[position] = Some(place));
        Ok(places)
    }
}

/// Write an archive, and return the offsets of its members. Large ones are not buffered.
fn write_archive(path: &Path, members: &[(&str, &[u8])]) -> std::io::Result<Vec<u64>> {
    let mut file = BufWriter::with_capacity(1 << 16, File::create(path)?);
    let offsets = archive::write(&mut file, members)?;
    file.flush()?;
    Ok(offsets)
}

#[derive(Debug, Default)]
pub struct CopyNames {
    /// The parent of the numbered folders, with a trailing slash.
    prefix: String,
    /// By folder number: the copy's basename, and the original's path.
    originals: Vec<(String, String)>,
}

impl CopyNames {
    /// Replace each copy's path by that of its original. Other paths in its folder get the original's folder, because
    /// lld names native code of bitcode so.
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

/// The folder of a file or archive as lld writes it before a name: with a slash, or empty.
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

/// `--prune-emit=DIR`: keep the pruned objects as a folder, with a script that links them again.
///
/// Copies keep their numbered folders, because basenames may repeat. Unmodified files are named in place. The script
/// writes to its first argument, or to the output of the link.
pub fn keep(sources: EmissionInputs<'_>, emitted: &EmittedLink, copies: &Path, dir: &Path) -> Result<()> {
    let failed = |e| Error::io(Stage::Emit, dir, "keep the pruned objects", e);
    std::fs::create_dir_all(dir).map_err(failed)?;
    for entry in std::fs::read_dir(copies).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if !entry.file_type().map_err(failed)?.is_dir() {
            continue;
        }
        let folder = dir.join(entry.file_name());
        std::fs::create_dir_all(&folder).map_err(failed)?;
        for file in std::fs::read_dir(entry.path()).map_err(failed)? {
            let file = file.map_err(failed)?;
            std::fs::copy(file.path(), folder.join(file.file_name())).map_err(failed)?;
        }
    }
    let script = dir.join("link.sh");
    std::fs::write(&script, text(sources, emitted, copies)).map_err(failed)?;
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).map_err(failed)
}

fn quoted(word: &OsStr) -> Vec<u8> {
    words::for_shell(word).into_vec()
}

fn text(sources: EmissionInputs<'_>, emitted: &EmittedLink, copies: &Path) -> Vec<u8> {
    let mut out =
        b"#!/bin/sh\n# Links the pruned objects again; the output is the first argument, or what it was.\n"
            .to_vec();
    out.extend_from_slice(b"here=$(dirname \"$(readlink -f \"$0\")\")\nexec ");
    out.extend(quoted(sources.config.linker.path.as_os_str()));
    let prefix = [copies.as_os_str().as_bytes(), b"/"].concat();
    for word in &emitted.line {
        // A temporary file of the compiler, which no longer exists when the script runs.
        if matches!(word, LineWord::Word(w) if w.as_bytes().starts_with(b"-plugin-opt=-fresolution=")) {
            continue;
        }
        out.extend_from_slice(b" \\\n  ");
        match word {
            LineWord::Output(_) => {
                out.extend_from_slice(b"-o \"${1:-");
                out.extend(sources.config.output.as_os_str().as_bytes());
                out.extend_from_slice(b"}\"");
            }
            LineWord::Word(word) => match word.as_bytes().strip_prefix(&prefix[..]) {
                Some(rest) => {
                    out.extend_from_slice(b"\"$here\"/");
                    out.extend(quoted(OsStr::from_bytes(rest)));
                }
                None => out.extend(quoted(word)),
            },
        }
    }
    out.push(b'\n');
    out
}
