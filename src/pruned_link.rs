//! The last passes of a pruned link: emit the pruned objects, link them, verify both.
//!
//! The output is published only after the pruned objects agree with their plans, the linker has accepted them, and the output's
//! interface agrees with that of the plain link. After any failure the originals are linked.

use std::borrow::Cow;
use std::sync::Mutex;

use rayon::prelude::*;
use rustc_hash::FxHashSet;
use summaries::{Limit, ModuleKind, ModuleSummary};

use crate::config::{Config, DebugOption, Flavor};
use crate::emit::tree::{EmissionInputs, EmissionSource, pruned_module};
use crate::emit::{self, ahead};
use crate::error::{Error, Result, Stage, all_or_first_error};
use crate::gate::{self, ApplicablePlan, PlacedLimit, PlainOutput, Verdict};
use crate::ids::{FileId, Id, ModuleId};
use crate::index::{Index, LinkInputs};
use crate::inputs::{self, Inputs};
use crate::link::{self, bound, workspace::Workspace};
use crate::messages;
use crate::plan::ModulePlan;
use crate::precomputed;
use crate::propagate::Liveness;
use crate::report::accounting::{Totals, sizes};
use crate::resolve::{self, Resolution};
use crate::timing::Timer;
use crate::verify;

/// The outcome of emission and link.
#[derive(Debug, Default)]
pub struct PruneOutcome {
    /// The output is in its place. Otherwise the originals are for the caller to link.
    pub linked: bool,
    /// The bytes of all modules, before and after.
    pub totals: Totals,
    /// The messages of the linker when it refused the pruned objects.
    pub refused: Option<Vec<u8>>,
    /// Limits found after the gate: a library that only the plain link may record, debug information that is kept.
    pub limits: Vec<PlacedLimit>,
}

impl PruneOutcome {
    /// The warning if the linker refused the pruned objects, and takes the originals: a bug of ours.
    pub fn refusal(&self) -> Option<String> {
        let messages = String::from_utf8_lossy(self.refused.as_ref()?);
        let first = messages.lines().next().unwrap_or("no message");
        Some(format!("link: the linker refused the pruned objects ({first}) and took the originals"))
    }
}

/// Emit, link and verify, if the verdict allows it and the plan drops anything; `--prune-level=off` only emits and verifies.
pub fn prune(
    link: LinkInputs<'_>,
    index: &Index,
    liveness: &Liveness,
    applicable: &ApplicablePlan,
    verdict: &Verdict,
    timer: &mut Timer,
) -> Result<PruneOutcome> {
    let LinkInputs { config, inputs, resolution, summaries, .. } = link;
    if !verdict.allows() || !gate::drops_anything(&applicable.plan) {
        link.cached.if_unchanged(inputs).put_new(summaries);
        return originals(link);
    }
    let plain = &verdict.plain;
    let sources = EmissionInputs {
        config,
        inputs,
        resolution,
        summaries,
        plan: &applicable.plan,
        emission_sources: &applicable.emission_sources,
        needed: &|dso| plain.needs(dso),
        uncollected: &Mutex::default(),
    };
    if config.prune.off {
        let all = 0..resolution.loaded.len();
        let emit =
            || all_or_first_error(all.into_par_iter().map(|position| pruned_module(sources, position)));
        let objects = timer.stage(Stage::Emit, emit)?;
        let pruned = |position: usize| Ok(objects[position].as_deref().map(Cow::Borrowed));
        timer.stage(Stage::Verify, || verify_emitted(link, sources, &pruned))?;
        return Ok(PruneOutcome { totals: account(link, &pruned)?, ..PruneOutcome::default() });
    }
    let mut expected = plain.output(link, index, &applicable.plan);
    let asked = gate::asked_libraries(link, index, plain, liveness);
    expected.asked = asked.into_iter().map(|dso| inputs.dso_name(dso)).collect();
    prune_and_link(link, sources, &expected, timer)
}

/// Nothing is linked, and the originals are the caller's to link.
pub fn originals(link: LinkInputs<'_>) -> Result<PruneOutcome> {
    Ok(PruneOutcome { totals: account(link, &|_| Ok(None))?, ..PruneOutcome::default() })
}

/// Emit the pruned objects, verify them, and link them.
fn prune_and_link(
    link: LinkInputs<'_>,
    sources: EmissionInputs<'_>,
    plain: &PlainOutput<'_>,
    timer: &mut Timer,
) -> Result<PruneOutcome> {
    let config = sources.config;
    let no_thread = |e| Error::io(Stage::Link, &config.linker.path, "start a thread for", e);
    not_emitted_ahead(sources)?;
    bound::clean_up_on_signals().map_err(no_thread)?;
    let workspace = Workspace::new(config, emit::tree::most_written(sources))?;
    let emitted = timer.stage(Stage::Emit, || emit::tree::emit(sources, &workspace.copies))?;
    if let Some(dir) = &config.prune.emit_dir {
        emit::tree::keep(sources, &emitted, &workspace.copies, dir)?;
    }
    // Pruned objects are verified while the linker works on them; the output is published after both.
    let read = |position| emitted.read(position).map(|object| object.map(Cow::Owned));
    let (output, verified) = timer.stage(Stage::Link, || {
        std::thread::scope(|scope| {
            let linker = || link::link_pruned(config, &emitted, &workspace);
            let linker = std::thread::Builder::new().spawn_scoped(scope, linker).map_err(no_thread);
            let verified = verify_emitted(link, sources, &read);
            let panicked = |_| Err(Error::new(Stage::Link, "internal error"));
            (linker.and_then(|linker| linker.join().unwrap_or_else(panicked)), verified)
        })
    });
    verified?;
    let output = output?;
    if !output.status.success() {
        // Both streams come as the first one where they are one file.
        let refusal = if output.stderr.is_empty() { output.stdout } else { output.stderr };
        return Ok(PruneOutcome { refused: Some(refusal), ..originals(link)? });
    }
    let facts = timer.stage(Stage::Verify, || verified_output(sources, &workspace, plain))?;
    let is_missing = |name: &&&str| {
        let ends = |needed: &Vec<u8>| {
            needed.strip_suffix(name.as_bytes()).is_some_and(|rest| rest.is_empty() || rest.ends_with(b"/"))
        };
        !facts.needed.iter().any(ends)
    };
    if let Some(name) = plain.asked.iter().find(is_missing) {
        let detail = format!("LLVM bitcode refers to {name}, which the pruned link does not record");
        let limit = resolve::link_limit(Limit::LibraryNotRecorded, detail);
        return Ok(PruneOutcome { limits: vec![(None, limit)], ..originals(link)? });
    }
    if let Some(name) = workspace.other_file(config) {
        let detail = format!("the linker also writes {} next to the output", name.display());
        let limit = resolve::link_limit(Limit::UnmodelledOption, detail);
        return Ok(PruneOutcome { limits: vec![(None, limit)], ..originals(link)? });
    }
    let opened = opened_paths(config, sources.inputs, sources.resolution);
    if let Some(file) = sources.inputs.changed_file() {
        let name = file.path.display().to_string();
        return Err(Error::new(Stage::Link, "the file changed while it was linked").in_file(name));
    }
    link::rewrite_side_outputs(config, &emitted.names, &workspace, Some(&opened))?;
    let totals = account(link, &read)?;
    link::print_messages(&output, &emitted.names, &workspace, config)?;
    workspace.publish(config)?;
    Ok(PruneOutcome { linked: true, totals, limits: uncollected(sources), ..PruneOutcome::default() })
}

/// The modules whose debug information is kept with unused entries. With `--prune-debug=shrink` a note says so.
fn uncollected(sources: EmissionInputs<'_>) -> Vec<PlacedLimit> {
    let EmissionInputs { config, inputs, resolution, uncollected, .. } = sources;
    let Ok(all) = uncollected.lock() else { return Vec::new() };
    if let (Some((position, why)), DebugOption::Shrink) = (all.first_key_value(), config.prune.debug) {
        let name = inputs.module_name(resolution.loaded[*position]);
        let more = if all.len() > 1 { format!(" (and {} more)", all.len() - 1) } else { String::new() };
        messages::note(
            config,
            format_args!("debug information of {name}{more} keeps what nothing refers to: {why}"),
        );
    }
    let limit = |(position, why): (&usize, &String)| {
        (Some(resolution.loaded[*position]), resolve::link_limit(Limit::DebugEntries, why.clone()))
    };
    all.iter().map(limit).collect()
}

/// With `--prune-emitted`, say if something of a file with an interface is to be emitted here that should have been
/// there: then an action was not run, or with other inputs.
fn not_emitted_ahead(sources: EmissionInputs<'_>) -> Result<()> {
    let EmissionInputs { config, inputs, resolution, plan, emission_sources, .. } = sources;
    let Some(dir) = &config.prune.emitted_dir else { return Ok(()) };
    if inputs.files.iter().all(|file| file.interface.is_none()) {
        let message = "emit: no file of this link has an interface, so that none is looked for in";
        messages::warning(config, format_args!("{message} {}", dir.display()));
    }
    let has_interface =
        |at: usize| inputs.files[inputs.modules[resolution.loaded[at]].file].interface.is_some();
    let is_missing = |at: &usize| {
        !plan.modules[*at].passed_through && !matches!(emission_sources[*at], EmissionSource::Pruned(_))
    };
    let mut missing: Vec<usize> = (0..plan.modules.len()).filter(is_missing).collect();
    let mut files: Vec<_> = missing.iter().map(|at| inputs.modules[resolution.loaded[*at]].file).collect();
    files.dedup();
    let refused = |file: &FileId| precomputed::refusal(&ahead::open(dir, &inputs.files[*file].path).err()?);
    precomputed::report_refusals(config, Stage::Emit, &files.iter().filter_map(refused).collect::<Vec<_>>())?;
    missing.retain(|at| has_interface(*at));
    let Some(first) = missing.first() else { return Ok(()) };
    let count = missing.len();
    let message = format!(
        "{count} pruned object{} that this link needs {} not in {}, and emitted in the link: the action was not run, or with other inputs; the first",
        if count == 1 { "" } else { "s" },
        if count == 1 { "is" } else { "are" },
        dir.display()
    );
    let error = Error::new(Stage::Emit, message).in_file(inputs.module_name(resolution.loaded[*first]));
    if config.prune.strict {
        return Err(error);
    }
    messages::warning(config, error);
    Ok(())
}

/// The pruned module at a load position, `None` if it is passed through.
type PrunedModules<'f, 's> = &'f (dyn Fn(usize) -> Result<Option<Cow<'s, [u8]>>> + Sync);

/// Each pruned object agrees with its plan, and every reference of an allocated section still has a definition. Objects that do, and are new, go into the cache.
fn verify_emitted(
    link: LinkInputs<'_>,
    sources: EmissionInputs<'_>,
    pruned: PrunedModules<'_, '_>,
) -> Result<()> {
    let EmissionInputs { inputs, resolution, plan, emission_sources, .. } = sources;
    let is_new = |position: usize| !matches!(emission_sources[position], EmissionSource::Pruned(_));
    let verified = |position: usize| {
        let facts = verify_module(sources, position, pruned(position)?.as_deref());
        if facts.is_err() && !is_new(position) {
            emit::cached::forget(link.cached, position, &plan.modules[position]);
        }
        facts
    };
    let positions = || (0..resolution.loaded.len()).into_par_iter();
    let facts: Vec<verify::SymbolFacts> = all_or_first_error(positions().map(verified))?;
    let cached = link.cached.if_unchanged(inputs);
    let put =
        |position: usize| emit::cached::put(cached, position, &plan.modules[position], &|| pruned(position));
    // Another link tells again why debug information stays.
    let is_done = |position: &usize| {
        is_new(*position) && sources.uncollected.lock().is_ok_and(|all| !all.contains_key(position))
    };
    all_or_first_error(positions().filter(is_done).map(put))?;
    cached.put_new(link.summaries);
    let elsewhere: FxHashSet<_> = resolution.names_needing_no_module().map(verify::NameHash::of).collect();
    let Some((position, name)) = verify::missing(&facts, &|name| elsewhere.contains(&name)) else {
        return Ok(());
    };
    let module = resolution.loaded[position];
    let object = pruned(position)?;
    let object = object.as_deref().unwrap_or_else(|| inputs.module_bytes(module));
    Err(verify::missing_error(&inputs.module_name(module), object, name))
}

/// One module agrees with its plan: what its symbols are then. `pruned` is the rewritten object.
fn verify_module(
    sources: EmissionInputs<'_>,
    position: usize,
    pruned: Option<&[u8]>,
) -> Result<verify::SymbolFacts> {
    let module = sources.resolution.loaded[position];
    let name = sources.inputs.module_name(module);
    let original = sources.inputs.module_bytes(module);
    let (summary, plan) = (sources.summaries[position], &sources.plan.modules[position]);
    if let Some(pruned) = pruned {
        verify_rewritten(&name, original, pruned, summary, plan)?;
    }
    if sources.inputs.modules[module].kind == inputs::FileKind::Bitcode {
        return Ok(verify::bitcode_facts(original, pruned));
    }
    verify::facts(&name, pruned.unwrap_or(original))
}

/// A module that was rewritten agrees with its plan.
/// The error names the section and the symbol.
pub fn verify_rewritten(
    name: &str,
    original: &[u8],
    pruned: &[u8],
    summary: &ModuleSummary,
    plan: &ModulePlan,
) -> Result<()> {
    if summary.kind == ModuleKind::Bitcode {
        return emit::bitcode::with_fates(original, summary, plan, |fate| {
            verify::bitcode(name, original, pruned, fate)
        });
    }
    verify::object(name, original, pruned, &verify::ExpectedObject::new(summary, plan))
}

/// The output, compared with the expected plain output.
fn verified_output(
    sources: EmissionInputs<'_>,
    workspace: &Workspace,
    plain: &PlainOutput<'_>,
) -> Result<verify::OutputFacts> {
    let facts = verify::output(&workspace.temporary_output)?;
    match plain.difference(sources.config, &facts)? {
        Some(what) => Err(Error::new(Stage::Verify, format!("the pruned output {what}"))),
        None => Ok(facts),
    }
}

/// Each file that the linker has in its dependency file, in order, as it names it there. Members of thin archives are files of their own: mold names
/// them all, gold those that it loads, lld and GNU ld none.
fn opened_paths(config: &Config, inputs: &Inputs, resolution: &Resolution<'_>) -> Vec<String> {
    if config.linker.flavor == Flavor::Wild {
        return link::wild_dependencies(config, inputs);
    }
    let mut named = vec![true; inputs.files.len()];
    let thin =
        |module: &inputs::Module| module.archive.as_ref().is_some_and(|(archive, _)| *archive != module.file);
    for module in inputs.modules.iter().filter(|module| thin(module)) {
        named[module.file.index()] = config.linker.flavor == Flavor::Mold;
    }
    for module in resolution.loaded.iter().filter(|_| config.linker.flavor == Flavor::Gold) {
        named[inputs.modules[*module].file.index()] = true;
    }
    // lld reads it when the dependency file is written already.
    let late = |file: &inputs::InputFile| {
        config.linker.flavor == Flavor::Lld && config.call_graph_orderings.contains(&file.path)
    };
    let name = |file: &inputs::InputFile| match config.linker.flavor {
        Flavor::Lld | Flavor::Mold => crate::paths::without_dots(&file.path),
        Flavor::Bfd | Flavor::Gold | Flavor::Wild => file.path.display().to_string(),
    };
    let named = inputs.files.iter().zip(named).filter(|(file, named)| *named && !late(file));
    let mut opened: Vec<&inputs::InputFile> = named.map(|(file, _)| file).collect();
    if config.linker.flavor == Flavor::Lld {
        // It reads these before all inputs, in this order (`LinkerDriver::readConfigs`).
        let lists = [&config.dynamic_lists[..], &config.export_dynamic_lists].concat();
        let first = [&config.symbol_orderings, &lists, &config.version_scripts];
        opened.sort_by_key(|file| {
            first.iter().position(|paths| paths.contains(&file.path)).unwrap_or(first.len())
        });
    }
    opened.into_iter().map(name).collect()
}

/// The bytes of all modules in the link, before and after; those without pruned bytes stay as they are. Nothing without a report.
fn account(link: LinkInputs<'_>, pruned: PrunedModules<'_, '_>) -> Result<Totals> {
    if !link.config.wants_report() {
        return Ok(Totals::default());
    }
    let of_module = |(position, module): (usize, &ModuleId)| {
        let before = sizes(link.inputs.module_bytes(*module));
        Ok((before, pruned(position)?.map_or(before, |bytes| sizes(&bytes))))
    };
    let all = all_or_first_error(link.resolution.loaded.par_iter().enumerate().map(of_module))?;
    Ok(Totals::new(all.into_iter()))
}
