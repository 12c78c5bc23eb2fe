//! Pass 3, summarise: a summary for every loaded module, in parallel, in load order.
//!
//! A summary that was made ahead of the link is used if it has the granularity of the link's level and its hash fits the
//! bytes that are linked: one beside the object
//! (`a.o.ltosum`), or one in its section `.lto_prune.summary`. Otherwise the cache is asked, and else the front end reads
//! the module. Whichever way it came, a summary says the same: the result depends on the bytes alone. Nothing here fails;
//! what can't be read is a limit in the summary.

pub mod cache;
mod commands;

use std::path::{Path, PathBuf};

use rayon::prelude::*;
use summaries::{Granularity, ModuleSummary, SummaryOptions, extract, format, native};

use crate::config::{Config, Level};
use crate::ids::ModuleId;
use crate::inputs::{FileKind, Inputs};
use crate::resolve::Resolution;
pub use cache::Cache;
pub use commands::{dump_command, summarize_command};

/// How finely the modules are divided at a level. At `pointers` [`follow`] reads again what value flow asks for.
pub fn granularity(level: Level) -> Granularity {
    match level {
        Level::Sections => Granularity::Sections,
        Level::Functions | Level::Pointers => Granularity::Functions,
    }
}

/// Where the summary of a module came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The front end read the module.
    Extracted,
    Cache,
    /// The file `X.ltosum` that lies beside the object.
    Sidecar,
    /// The section `.lto_prune.summary` in the object itself.
    Section,
}

/// The summary of a loaded module.
#[derive(Debug)]
pub struct Summarised {
    pub module: ModuleId,
    pub summary: ModuleSummary,
    pub origin: Origin,
}

/// Summarise the loaded modules of a link, as its level and options ask.
pub fn of_link(config: &Config, inputs: &Inputs, resolution: &Resolution<'_>) -> Vec<Summarised> {
    let asked =
        SummaryOptions { granularity: granularity(config.prune.level), without_debug: config.drops_debug() };
    summarise(inputs, &resolution.loaded, asked, cache_of(config).as_ref())
}

fn cache_of(config: &Config) -> Option<Cache> {
    config.prune.cache.as_ref().map(|dir| Cache::new(dir, cache::DEFAULT_LIMIT))
}

/// Summarise the loaded modules. The result has their order, whatever the number of threads.
pub fn summarise(
    inputs: &Inputs,
    loaded: &[ModuleId],
    asked: impl Into<SummaryOptions>,
    cache: Option<&Cache>,
) -> Vec<Summarised> {
    let asked = asked.into();
    let summarised = loaded
        .par_iter()
        .map(|module| {
            let (summary, origin) = summarise_one(inputs, *module, asked, cache);
            Summarised { module: *module, summary, origin }
        })
        .collect();
    if let Some(cache) = cache {
        cache.trim_when_due();
    }
    summarised
}

/// Summarise the modules once more for value flow, in parallel: those with an atom that lives, and of native ones the live functions.
/// `live` says it of the atoms of the module at a position, in their order. False if the atoms of a module came out differently, so that it
/// was said of others.
pub fn follow(
    config: &Config,
    inputs: &Inputs,
    summarised: &mut [Summarised],
    live: &(dyn Fn(usize) -> Vec<bool> + Sync),
) -> bool {
    let cache = cache_of(config);
    let one = |(position, of): (usize, &mut Summarised)| {
        let live = live(position);
        if live.contains(&true) {
            let before = extent(&of.summary);
            of.summary = follow_one(inputs.module_bytes(of.module), &of.summary, &live, cache.as_ref());
            return extent(&of.summary) == before;
        }
        true
    };
    let fits: Vec<bool> = summarised.par_iter_mut().enumerate().map(one).collect();
    if let Some(cache) = cache {
        cache.trim_when_due();
    }
    !fits.contains(&false)
}

/// Where the atoms of a module are: section, first byte, bytes.
fn extent(summary: &ModuleSummary) -> Vec<(u32, u64, u64)> {
    summary.atoms.iter().map(|a| (a.section, a.offset, a.size)).collect()
}

fn follow_one(bytes: &[u8], known: &ModuleSummary, live: &[bool], cache: Option<&Cache>) -> ModuleSummary {
    let asked = SummaryOptions { granularity: Granularity::Pointers, without_debug: known.without_debug };
    let key = cache.map(|cache| (cache, cache::hash_of_part(&cache::hash(bytes), live)));
    if let Some(summary) = key.and_then(|(cache, key)| cache.get(&key, asked)) {
        return summary;
    }
    let summary = extract::follow(bytes, known, live, &at_once);
    if let Some((cache, key)) = key {
        cache.put(&key, asked, &summary);
    }
    summary
}

/// The pieces of a large module, on whatever threads have nothing else to do.
pub(crate) fn at_once(count: usize, piece: &(dyn Fn(usize) + Sync)) {
    (0..count).into_par_iter().for_each(piece);
}

fn summarise_one(
    inputs: &Inputs,
    module: ModuleId,
    asked: SummaryOptions,
    cache: Option<&Cache>,
) -> (ModuleSummary, Origin) {
    let bytes = inputs.module_bytes(module);
    if let Some(object) = object_file(inputs, module)
        && let Some(summary) = from_sidecar(object, bytes)
        && summary.answers(asked)
    {
        return (summary, Origin::Sidecar);
    }
    if let Some(summary) = from_section(bytes).filter(|s| s.answers(asked)) {
        return (summary, Origin::Section);
    }
    let Some(cache) = cache else {
        return (extract::extract_by(bytes, asked, &at_once), Origin::Extracted);
    };
    let hash = cache::hash(bytes);
    if let Some(summary) = cache.get(&hash, asked) {
        return (summary, Origin::Cache);
    }
    let summary = extract::extract_by(bytes, asked, &at_once);
    cache.put(&hash, asked, &summary);
    (summary, Origin::Extracted)
}

/// The path of a module that is an object file of its own.
fn object_file(inputs: &Inputs, module: ModuleId) -> Option<&Path> {
    let entry = inputs.modules.get(module).filter(|m| m.archive.is_none() && m.kind == FileKind::Object)?;
    inputs.files.get(entry.file).map(|f| f.path.as_path())
}

/// Where the summary of an object file would lie: `.ltosum` behind its whole name.
fn sidecar_path(object: &Path) -> PathBuf {
    let mut path = object.as_os_str().to_owned();
    path.push(".ltosum");
    path.into()
}

/// The summary beside an object, if it is of these very bytes. They are hashed only if there is one.
fn from_sidecar(object: &Path, bytes: &[u8]) -> Option<ModuleSummary> {
    let encoded = std::fs::read(sidecar_path(object)).ok()?;
    let hash = format::input_hash(&encoded).ok()?;
    if hash != cache::hash(bytes) {
        return None;
    }
    format::decode(&encoded).ok().map(|(summary, _)| summary)
}

/// The summary in an object. Its hash is that of the object without the contents of the section, since these can't hold
/// a hash of themselves.
fn from_section(bytes: &[u8]) -> Option<ModuleSummary> {
    let range = native::find_section(bytes, format::SECTION_NAME)?;
    let encoded = bytes.get(range.clone())?;
    let hash = format::input_hash(encoded).ok()?;
    if hash != cache::hash_without(bytes, range) {
        return None;
    }
    format::decode(encoded).ok().map(|(summary, _)| summary)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
