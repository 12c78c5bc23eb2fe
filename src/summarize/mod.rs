//! The pass summarise: a summary for every loaded module, in parallel, in load order.
//!
//! A precomputed summary is used if it has the granularity of the link's level and its hash fits the linked bytes. It is a file next to
//! the object (`a.o.ltosum`) or archive (in the folder `lib.a.ltosum`), or the object's section `.lto_prune.summary`. Otherwise
//! the cache is asked, and else the front end reads the module. The result depends only on the bytes. Nothing here fails: an
//! unreadable module gets a limit.

pub mod cache;
mod commands;
mod interfaces;
pub mod pack;

use std::io;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use summaries::{
    AtomKind, Granularity, Limit, ModuleSummary, SummaryOptions, extract, format, native, note_in_data,
};

use crate::config::{Config, Level};
use crate::error::{Result, Stage};
use crate::hashing;
use crate::ids::{Id, ModuleId};
use crate::index::LinkInputs;
use crate::inputs::interface::Interface;
use crate::inputs::{FileKind, InputFile, Inputs};
use crate::precomputed;
use crate::resolve::link_limit;
use cache::{Cache, LinkCache, ModuleKey};
pub use commands::{dump_command, summarize_command};

/// The granularity of modules at a level. At `pointers` [`follow`] reads live functions again for value flow.
pub fn granularity(level: Level) -> Granularity {
    match level {
        Level::Sections => Granularity::Sections,
        Level::Functions | Level::Pointers => Granularity::Functions,
    }
}

/// Report precomputed files that are not used.
///
/// # Errors
/// A file is not used, and the link is strict.
pub fn report_refusals(link: LinkInputs<'_>, modules: &[LoadedSummary]) -> Result<()> {
    let LinkInputs { config, inputs, cached, .. } = link;
    let of_interfaces = inputs.files.iter().filter_map(|file| file.refused.clone());
    let refused = of_interfaces.chain(modules.iter().filter_map(|module| module.refused.clone()));
    let refused: Vec<String> = refused.chain(cached.cache.and_then(Cache::refusal)).collect();
    precomputed::report_refusals(config, Stage::Summarise, &refused)
}

/// The origin of a module's summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The front end read the module.
    Extracted,
    Cache,
    /// A file `X.ltosum` next to the object or in the folder of that name next to the archive, or an interface.
    Sidecar,
    /// The section `.lto_prune.summary` in the object itself.
    Section,
}

/// The summary of a loaded module.
#[derive(Debug)]
pub struct LoadedSummary {
    pub module: ModuleId,
    pub summary: ModuleSummary,
    pub origin: Origin,
    /// Its key in the cache; `None` if it was not looked up.
    pub key: Option<ModuleKey>,
    /// The reason why a precomputed summary is not used, if that is worth reporting.
    pub refused: Option<String>,
}

/// The options of a summary that the level and the options of a link ask for.
pub fn options(config: &Config) -> SummaryOptions {
    SummaryOptions {
        granularity: granularity(config.prune.level),
        without_debug: config.drops_debug(),
        without_ends: false,
    }
}

/// Summarise the loaded modules of a link, as its level and options ask.
pub fn of_link(link: LinkInputs<'_>, by_sections: bool) -> Vec<LoadedSummary> {
    let LinkInputs { config, inputs, resolution, cached, .. } = link;
    summarise(inputs, &resolution.loaded, options(config), cached, by_sections)
}

/// Summarise the modules at these positions, ascending, once more, divided as the level of the link asks.
pub fn divide(link: LinkInputs<'_>, modules: &mut [LoadedSummary], positions: &[usize]) {
    let LinkInputs { config, inputs, cached, .. } = link;
    let chosen = modules.par_iter_mut().enumerate().filter(|(at, _)| positions.binary_search(at).is_ok());
    chosen.for_each(|(_, of)| {
        let refused = of.refused.take();
        *of = LoadedSummary {
            refused,
            ..read(inputs.module_bytes(of.module), of.module, options(config), cached)
        };
    });
}

/// A line of text: the amount of code that was divided into functions.
pub fn divided_code(modules: &[LoadedSummary]) -> String {
    let code = |of: &LoadedSummary| -> u64 {
        let code = of.summary.atoms.iter().filter(|atom| atom.kind == AtomKind::Code);
        code.map(|atom| atom.size).sum()
    };
    let is_divided = |of: &&LoadedSummary| of.summary.granularity > Granularity::Sections;
    let divided: u64 = modules.iter().filter(is_divided).map(code).sum();
    let all: u64 = modules.iter().map(code).sum();
    format!(
        "divided: {divided} of {all} bytes of code, {} of {} modules",
        modules.iter().filter(is_divided).count(),
        modules.len()
    )
}

/// Summarise the loaded modules: each from its interface or sidecar, from the cache, or by its front end. With `by_sections` native modules
/// are not divided, unless their summary is precomputed. The result is in the order of the modules, for any number of threads.
pub fn summarise(
    inputs: &Inputs,
    loaded: &[ModuleId],
    options: impl Into<SummaryOptions>,
    cached: LinkCache<'_>,
    by_sections: bool,
) -> Vec<LoadedSummary> {
    let options = options.into();
    let sidecars = Sidecars::new(inputs);
    let one = |module: &ModuleId| {
        let (module, bytes) = (*module, inputs.module_bytes(*module));
        let mut refused = None;
        let summary = match find_ahead(inputs, module, options, &sidecars, &mut refused) {
            Some((summary, origin)) => LoadedSummary { module, summary, origin, key: None, refused: None },
            None if by_sections && inputs.modules[module].kind == FileKind::Object => {
                let options =
                    SummaryOptions { granularity: Granularity::Sections, without_ends: true, ..options };
                read(bytes, module, options, LinkCache::default())
            }
            None => read(bytes, module, options, cached),
        };
        LoadedSummary { refused, ..summary }
    };
    loaded.par_iter().map(one).collect()
}

/// Summarise modules again for value flow, in parallel: those with a live atom, and of native ones the live functions. `live` gives the
/// liveness of a module's atoms by its position. False if the atoms of a module are not the same as before, so that the
/// liveness does not fit.
pub fn follow(
    link: LinkInputs<'_>,
    summarised: &mut [LoadedSummary],
    live: &(dyn Fn(usize) -> Vec<bool> + Sync),
) -> bool {
    let LinkInputs { inputs, cached, .. } = link;
    // A module that an interface replaces can't be read again.
    let is_there = |of: &LoadedSummary| {
        interface_of(inputs, of.module)
            .is_none_or(|(interface, is_whole, _)| is_whole || !interface.stands_in)
    };
    if !summarised.iter().enumerate().all(|(position, of)| is_there(of) || !live(position).contains(&true)) {
        return false;
    }
    // Data that rules out value flow does so before a function is read.
    let note = |(position, of): (usize, &mut LoadedSummary)| note_in_data(&mut of.summary, &live(position));
    let noted: Vec<bool> = summarised.par_iter_mut().enumerate().map(note).collect();
    if noted.contains(&true) {
        return true;
    }
    let one = |(position, of): (usize, &mut LoadedSummary)| {
        let live = live(position);
        if live.contains(&true) {
            let before = extent(&of.summary);
            follow_one(inputs.module_bytes(of.module), of, &live, cached.cache);
            return extent(&of.summary) == before;
        }
        true
    };
    let fits: Vec<bool> = summarised.par_iter_mut().enumerate().map(one).collect();
    !fits.contains(&false)
}

/// The places of a module's atoms: section, first byte, bytes.
fn extent(summary: &ModuleSummary) -> Vec<(u32, u64, u64)> {
    summary.atoms.iter().map(|a| (a.section, a.offset, a.size)).collect()
}

/// Summarise one module for value flow. This takes far longer than reading an entry, so that the cache is asked for every module.
fn follow_one(bytes: &[u8], of: &mut LoadedSummary, live: &[bool], cache: Option<&Cache>) {
    let options = SummaryOptions { without_debug: of.summary.without_debug, ..Granularity::Pointers.into() };
    let Some(cache) = cache else {
        of.summary = extract::follow(bytes, &of.summary, live, &at_once);
        return;
    };
    let key = cache::key(&cache::hash_of_part(&hashing::hash(bytes), live), options);
    let found = cache.get(&key);
    of.key = Some(ModuleKey { key, is_new: found.is_none(), is_packed: false });
    of.summary = found.unwrap_or_else(|| extract::follow(bytes, &of.summary, live, &at_once));
}

/// Run the pieces of a large module, on all idle threads.
pub(crate) fn at_once(count: usize, piece: &(dyn Fn(usize) + Sync)) {
    (0..count).into_par_iter().for_each(piece);
}

/// The precomputed summary of a module, from its interface, its sidecar or its section. `refused` gets the reason if one is not used.
fn find_ahead(
    inputs: &Inputs,
    module: ModuleId,
    options: SummaryOptions,
    sidecars: &Sidecars,
    refused: &mut Option<String>,
) -> Option<(ModuleSummary, Origin)> {
    let bytes = inputs.module_bytes(module);
    let path = &inputs.files.get(inputs.modules.get(module)?.file)?.path;
    let mut agreeing = |found: io::Result<Option<ModuleSummary>>, place: &dyn Fn() -> String| {
        let reason = match found.map(|summary| summary.filter(|summary| summary.answers(options))) {
            Ok(Some(summary)) if extract::agrees(bytes, &summary) => return Some(summary),
            Ok(Some(_)) => Some(format!(
                "{}: not used, since it contradicts the headers of the object; make the summary again",
                place()
            )),
            Ok(None) => None,
            Err(error) => precomputed::refusal(&error),
        };
        *refused = refused.take().or(reason);
        None
    };
    let name = || inputs.module_name(module);
    let of_interface = || format!("{}: its interface", name());
    if let Some(summary) = agreeing(Ok(from_interface(inputs, module, options)), &of_interface) {
        return Some((summary, Origin::Sidecar));
    }
    if let Some(sidecar) = sidecars.path(inputs, module)
        && let Some(summary) =
            agreeing(from_sidecar(&sidecar, path, bytes), &|| sidecar.display().to_string())
    {
        return Some((summary, Origin::Sidecar));
    }
    let of_section = || format!("{}: its section .lto_prune.summary", name());
    agreeing(Ok(from_section(bytes)), &of_section).map(|summary| (summary, Origin::Section))
}

/// The summary of a module from the cache, if that pays, or by its front end.
fn read(bytes: &[u8], module: ModuleId, options: SummaryOptions, cached: LinkCache<'_>) -> LoadedSummary {
    let (key, found) = cached.find(bytes, options).unzip();
    let (summary, origin) = match found.flatten() {
        Some(summary) => (summary, Origin::Cache),
        None => (extract::extract_by(bytes, options, &at_once), Origin::Extracted),
    };
    LoadedSummary { module, summary, origin, key, refused: None }
}

/// The places of precomputed summaries: `X.ltosum` for an object or archive X, which for an archive is a folder with a file for each
/// member, as [`summarize_command`] writes it.
struct Sidecars {
    /// By file: the folder next to an archive, if there is one.
    folders: Vec<Option<PathBuf>>,
}

impl Sidecars {
    fn new(inputs: &Inputs) -> Self {
        let of_file = |file: &InputFile| {
            let is_archive = matches!(file.kind, FileKind::Archive | FileKind::ThinArchive);
            Some(sidecar(&file.path)).filter(|folder| is_archive && folder.is_dir())
        };
        Sidecars { folders: inputs.files.iter().map(of_file).collect() }
    }

    fn path(&self, inputs: &Inputs, module: ModuleId) -> Option<PathBuf> {
        let entry = inputs.modules.get(module)?;
        let Some((archive, member)) = &entry.archive else {
            let is_object = entry.kind == FileKind::Object;
            return inputs.files.get(entry.file).filter(|_| is_object).map(|file| sidecar(&file.path));
        };
        let folder = self.folders.get(archive.index())?.as_ref()?;
        let name = inputs.files.get(*archive)?.path.file_name()?.to_string_lossy();
        Some(folder.join(format!("{}.ltosum", member_name(&name, member))))
    }
}

/// The file name of a member's summary. The member's name may be a path, which must not be one here.
fn member_name(archive: &str, member: &str) -> String {
    format!("{archive}({})", member.replace(['/', '\0'], "_"))
}

fn sidecar(file: &Path) -> PathBuf {
    let mut path = file.as_os_str().to_owned();
    path.push(".ltosum");
    path.into()
}

/// The interface of a module's file, whether it has the whole module, and the module's summaries.
fn interface_of(inputs: &Inputs, module: ModuleId) -> Option<(&Interface, bool, Vec<&[u8]>)> {
    let entry = inputs.modules.get(module)?;
    let interface = inputs.files.get(entry.file)?.interface.as_ref()?;
    let (of_module, summaries) = interface.module(&entry.range)?;
    Some((interface, of_module.is_whole, summaries))
}

/// The summary in the interface of a module's file. If the interface replaces the file and has no fitting summary, the result is an opaque
/// one, which keeps everything.
fn from_interface(inputs: &Inputs, module: ModuleId, options: SummaryOptions) -> Option<ModuleSummary> {
    let (interface, is_whole, summaries) = interface_of(inputs, module)?;
    let bytes = inputs.module_bytes(module);
    if !interface.stands_in && !cache::pays(bytes) {
        return None;
    }
    let decoded = |encoded: &&[u8]| {
        let of_module = interface.stands_in || format::input_hash(encoded).ok() == Some(hashing::hash(bytes));
        let mut summary =
            of_module.then(|| format::decode(hashing::without_checksum(encoded)?).ok()).flatten()?.0;
        let answers = summary.answers(options);
        // Without debug information both are the same, and this is how the front end would write it.
        summary.without_debug = options.without_debug;
        answers.then_some(summary)
    };
    let found = summaries.iter().find_map(decoded);
    if found.is_some() || is_whole || !interface.stands_in {
        return found;
    }
    let mut none = ModuleSummary::opaque();
    none.granularity = options.granularity;
    let detail = "its interface has no summary for this --prune-level".to_owned();
    none.limits.push(link_limit(Limit::UnreadableInput, detail));
    Some(none)
}

/// The hash of a module's bytes, or the hash that an interface states for them.
pub fn module_hash(inputs: &Inputs, module: ModuleId) -> format::InputHash {
    let stated = || {
        let (interface, _, summaries) = interface_of(inputs, module)?;
        let first = summaries.first().filter(|_| interface.stands_in)?;
        format::input_hash(first).ok()
    };
    stated().unwrap_or_else(|| hashing::hash(inputs.module_bytes(module)))
}

/// The summary in a file, if its hash is that of `bytes`, which are of `input`. They are hashed only if there is such a file.
///
/// # Errors
/// The file can't be read, or is not trusted.
fn from_sidecar(file: &Path, input: &Path, bytes: &[u8]) -> io::Result<Option<ModuleSummary>> {
    let bytes_ahead = precomputed::open(file, Some(input))?;
    if format::input_hash(&bytes_ahead).ok() != Some(hashing::hash(bytes)) {
        return Ok(None);
    }
    let whole = hashing::without_checksum(&bytes_ahead);
    Ok(whole.and_then(|whole| format::decode(whole).ok()).map(|(summary, _)| summary))
}

/// The summary in an object. Its hash is that of the object without the contents of the section, which can't contain their own hash.
/// So no other section may share these bytes.
fn from_section(bytes: &[u8]) -> Option<ModuleSummary> {
    let range = native::find_section(bytes, format::SECTION_NAME)?;
    if !native::is_of_one_section(bytes, &range) {
        return None;
    }
    let encoded = bytes.get(range.clone())?;
    let hash = format::input_hash(encoded).ok()?;
    if hash != hashing::hash_without(bytes, range) {
        return None;
    }
    format::decode(hashing::without_checksum(encoded)?).ok().map(|(summary, _)| summary)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
