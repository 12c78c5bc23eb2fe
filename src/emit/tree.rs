//! The files that the linker gets: pruned objects, and archives of them.
//!
//! Copies lie in numbered folders and keep the basename, so that file patterns of scripts, `--exclude-libs` and
//! messages see the names that they know; [`CopyNames`] turns a copy's path back into the original's. Safe because each is written as it is made, and
//! read again from its file to be verified. Left out: the words by which the linker finds them ([`input_block`]).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rayon::prelude::*;
use summaries::{ModuleKind, ModuleSummary};

use super::ahead::EmittedAhead;
use super::copy_names::CopyNames;
use super::link_line::{begins_inputs, input_block, member_of};
use super::{ExplicitDebug, archive, bitcode, cached, debug, object};
use crate::config::{Config, Dialect, LineArg};
use crate::error::{Error, Result, Stage, all_or_first_error};
use crate::ids::{DsoId, ModuleId};
use crate::index::LinkInputs;
use crate::inputs::Inputs;
use crate::paths::without_dots;
use crate::plan::{ModulePlan, Plan};
use crate::resolve::Resolution;

/// The product of emission: where the pruned objects are, and the line that links them.
#[derive(Debug)]
pub struct EmittedLink {
    /// Arguments of the linker, but for the output.
    pub line: Vec<LineWord>,
    pub names: CopyNames,
    /// The files that were written, in the order of the line.
    files: Vec<PathBuf>,
    /// Where each pruned module lies, by load position. `None`: it is untouched.
    objects: Vec<Option<ModulePlace>>,
}

/// Where a module lies in the files that were written.
#[derive(Debug, Clone, Copy)]
struct ModulePlace {
    file: usize,
    offset: u64,
    size: usize,
}

impl EmittedLink {
    /// The pruned module at this load position, as the linker reads it; `None` if it is untouched.
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

/// What is there of a module before it is emitted.
#[derive(Debug)]
pub enum EmissionSource {
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
    pub emission_sources: &'s [EmissionSource],
    /// DSOs on the line that the plain link records in DT_NEEDED.
    pub needed: &'s (dyn Fn(DsoId) -> bool + Sync),
    /// Why entries of debug information stay, by load position. Emission adds to it.
    pub uncollected: &'s Mutex<BTreeMap<usize, String>>,
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
pub fn emit(sources: EmissionInputs<'_>, dir: &Path) -> Result<EmittedLink> {
    let mut files = OutputFiles {
        dir,
        dialect: sources.config.linker.dialect,
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
            // lld searches the folders of a script only after it has read the script.
            let first = if sources.config.linker.dialect == Dialect::Lld { scripts.len() } else { 0 };
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
            // Among the inputs it is part of the block.
            LineArg::Defsym(_) if block.is_none() => {}
            LineArg::Defsym(words) | LineArg::Other(words) => {
                line.extend(words.iter().cloned().map(LineWord::Word));
            }
        }
    }
    let written = files.outputs.into_iter().map(|(path, _)| path).collect();
    Ok(EmittedLink { line, names: files.names, files: written, objects })
}

/// The words of each `-T` with its index among the inputs. A script that names inputs is replaced by a copy that names none.
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

/// All modules before emission, in load order: taken from the cache, or with explicit debug information where code is divided and there is some. The
/// error of a module says why nothing of it may go.
pub fn prepare(link: LinkInputs<'_>, plan: &Plan) -> Vec<Result<EmissionSource>> {
    let LinkInputs { config, inputs, resolution, summaries, cached: cache, .. } = link;
    let ahead = EmittedAhead::of_link(config, inputs, resolution, plan);
    let one = |(position, (&module, summary)): (usize, (&ModuleId, &&ModuleSummary))| {
        let plan = &plan.modules[position];
        if plan.is_untouched() {
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

/// A module before emission: with explicit debug information where its code is divided and there is some, or unwind entries become some.
///
/// # Errors
/// Its debug information can't be made explicit, so that nothing of it may go.
pub fn prepare_module(original: &[u8], summary: &ModuleSummary, plan: &ModulePlan) -> Result<EmissionSource> {
    let may_have = summary.kind == ModuleKind::Native
        && (plan.writes_debug_frame || summaries::have_debug_info(&summary.atoms));
    let explicit = match may_have {
        true => object::explicit_debug(original, summary, plan)?,
        false => None,
    };
    Ok(explicit.map_or(EmissionSource::Original, EmissionSource::Explicit))
}

/// The pruned module at this load position; `None` if it is untouched. It is borrowed if an earlier link made it.
///
/// # Errors
/// It can't be emitted as planned.
pub fn pruned_module(sources: EmissionInputs<'_>, position: usize) -> Result<Option<Cow<'_, [u8]>>> {
    let EmissionInputs { inputs, resolution, summaries, plan, emission_sources, .. } = sources;
    let (module, summary, plan) = (resolution.loaded[position], summaries[position], &plan.modules[position]);
    if plan.is_untouched() {
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

/// One module by its plan, starting from `emission_source`. The second value says why entries of its debug information were kept that should
/// have been removed.
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

/// What a file to be written holds.
pub(super) enum FileContent {
    /// The pruned object at this load position.
    Object(usize),
    /// An archive of the modules at these load positions.
    Archive(std::ops::Range<usize>),
    /// The text of a linker script.
    Script(Vec<u8>),
    /// An archive of members that the plain link has not loaded so far.
    Unloaded(Vec<ModuleId>),
}

/// The files that are to be written, each with its contents.
pub(super) struct OutputFiles<'d> {
    dir: &'d Path,
    dialect: Dialect,
    names: CopyNames,
    outputs: Vec<(PathBuf, FileContent)>,
}

impl OutputFiles<'_> {
    /// A path in a folder of its own, under the basename of `original`.
    pub(super) fn add(&mut self, original: &str, content: FileContent) -> OsString {
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
    fn write(&self, sources: EmissionInputs<'_>) -> Result<Vec<Option<ModulePlace>>> {
        let one = |(file, (path, content)): (usize, &(PathBuf, FileContent))| {
            let failed = |e| Error::io(Stage::Emit, path, "write a pruned copy", e);
            if let Some(folder) = path.parent() {
                // The folder that it is in is not made again: a signal may just have removed it.
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

/// The offsets of the members. Large ones go to the file as they are: there is no copy of the archive in memory.
fn write_archive(path: &Path, members: &[(&str, &[u8])]) -> std::io::Result<Vec<u64>> {
    let mut file = BufWriter::with_capacity(1 << 16, File::create(path)?);
    let offsets = archive::write(&mut file, members)?;
    file.flush()?;
    Ok(offsets)
}
