//! lto-prune: a driver in front of an x86_64 ELF linker that takes out what the program can't reach.
//!
//! [`run`] is the list of the passes. The modules below stand in the order in which a link goes through them.

pub mod args;
pub mod config;
pub mod modes;
pub mod inputs;
pub mod resolve;
pub mod summarize;
pub mod index;
pub mod propagate;
pub mod plan;
pub mod refusal;
pub mod emit;
pub mod link;
pub mod shadow;
pub mod verify;
pub mod report;
pub mod bisect;
pub mod split;
pub mod audit;
pub mod compression;
pub mod error;
pub mod ids;
pub mod repro;
pub mod timing;

use std::ffi::{OsStr, OsString};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use rayon::prelude::*;
use summaries::{Asked, Limit, LimitRecord, ModuleSummary};

use crate::config::{Config, Dialect, Level};
use crate::error::{Error, Result, Stage};
use crate::ids::{AtomId, Id};
use crate::modes::Mode;
use crate::propagate::values::{self, Sources, ValueFlow};
use crate::propagate::{Liveness, MentionedCode, live};
use crate::refusal::PlainLink;
use crate::report::Report;
use crate::report::accounting::{Totals, sizes};
use crate::timing::Timer;

/// What became of a link.
#[derive(Debug)]
pub enum Outcome {
    /// The output is in its place.
    Linked,
    /// Nothing was linked: the caller links the originals, completes the report if there is one, and says why.
    Originals(Option<Box<Report>>, Option<String>),
    /// Nothing was linked, and it is for the compiler driver's own linker to do: see [`link::system`].
    System,
}

/// Link: pruned where that is safe, and otherwise as if we weren't there.
pub fn link_main(config: &Config) -> ExitCode {
    let prune = &config.prune;
    if prune.off {
        return shadow::link(config);
    }
    if !link::can_publish(config) {
        return link::exec_plain(config);
    }
    let (report, warning) = match run_caught(config) {
        Ok(Outcome::Linked) => return ExitCode::SUCCESS,
        Ok(Outcome::System) => {
            let system = config.linker.system.as_ref();
            return system.map_or_else(|| link::exec_plain(config), |s| link::system::exec(config, s));
        }
        Ok(Outcome::Originals(report, warning)) => (report, warning),
        Err(error) if prune.strict => {
            eprintln!("lto-prune: error: {error}");
            return ExitCode::FAILURE;
        }
        Err(error) => (None, Some(format!("{error}; linking the originals"))),
    };
    if report.is_none() && warning.is_none() {
        return link::exec_plain(config);
    }
    complete(config, link::run_plain(config, warning.as_deref()), report)
}

/// The passes, timed; what went wrong with them, a panic too, is a message.
fn run_caught(config: &Config) -> std::result::Result<Outcome, String> {
    let prune = &config.prune;
    // 0 is as many as there are cores.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(prune.jobs.unwrap_or(0)).build_global();
    pool.map_err(|error| format!("load: no threads to work with: {error}"))?;
    let mut timer = Timer::start();
    let result = catch_unwind(AssertUnwindSafe(|| run(config, &mut timer)));
    timer.clear();
    if prune.time {
        eprint!("{}", timer.table());
    }
    match result {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(_) => Err("internal error (the panic above is a bug of lto-prune)".to_owned()),
    }
}

/// The originals were linked: what the file consists of goes into the report.
fn complete(config: &Config, status: ExitCode, report: Option<Box<Report>>) -> ExitCode {
    let (true, Some(mut report)) = (status == ExitCode::SUCCESS, report) else { return status };
    match report::complete(&mut report, config) {
        Ok(()) => status,
        Err(error) => {
            eprintln!("lto-prune: {}: {error}", if config.prune.strict { "error" } else { "warning" });
            if config.prune.strict { ExitCode::FAILURE } else { status }
        }
    }
}

/// The atoms of which the functions are followed, at the level `pointers`: those that live. `None` where no value is followed.
fn followed(config: &Config, index: &index::Index, summaries: &[&ModuleSummary]) -> Option<Liveness> {
    if config.prune.level != Level::Pointers {
        return None;
    }
    let liveness = live(index);
    if !MentionedCode::of(index, summaries, &liveness).reaches(config.prune.gate) {
        return None;
    }
    // Atoms that are kept up to a limit live besides.
    let all = config.prune.limit.is_some() || config.prune.log.is_some();
    Some(if all { Liveness::of_all(index.atom_count()) } else { liveness })
}

fn summaries_of(summarised: &[summarize::Summarised]) -> Vec<&ModuleSummary> {
    summarised.iter().map(|s| &s.summary).collect()
}

/// The passes.
pub fn run(config: &Config, timer: &mut Timer) -> Result<Outcome> {
    let inputs = timer.stage(Stage::Load, || inputs::load(config))?;
    // No file is added to the link after this.
    if let Some(path) = &config.prune.repro {
        repro::write(config, &inputs, path)?;
    }
    let resolution = timer.stage(Stage::Resolve, || resolve::resolve(&inputs, config));
    // The modules in the link, their order and every prevailing definition are fixed.
    let cache =
        config.prune.cache.as_ref().map(|dir| summarize::Cache::new(dir, summarize::cache::DEFAULT_LIMIT));
    let granularity = summarize::granularity(config.prune.level);
    let asked = Asked { granularity, without_debug: config.drops_debug() };
    let mut owned = timer
        .stage(Stage::Summarise, || summarize::summarise(&inputs, &resolution.loaded, asked, cache.as_ref()));
    let build = |summaries: &[&ModuleSummary]| index::build(config, &inputs, &resolution, summaries);
    let mut index = timer.stage(Stage::Index, || build(&summaries_of(&owned)));
    let followed = timer.stage(Stage::Propagate, || followed(config, &index, &summaries_of(&owned)));
    if let Some(followed) = &followed {
        let live =
            |position| index.atoms_of(position).map(|atom| followed.is_live(AtomId::new(atom))).collect();
        timer.stage(Stage::Summarise, || summarize::follow(&inputs, &mut owned, &live, cache.as_ref()));
        index = timer.stage(Stage::Index, || build(&summaries_of(&owned)));
    }
    let summaries = summaries_of(&owned);
    // The index is frozen; nothing looks at names or files again until emit.
    let models = match followed {
        Some(_) => propagate::Models::builtin()?.of_link(&inputs, &resolution),
        None => propagate::Models::default(),
    };
    let propagate = |index: &index::Index| {
        let chosen = plan::chosen_stubs(config, index, &summaries);
        let mut fixed_mapping = None;
        let reachable = live(index);
        // What was kept since for another reason was not followed.
        let all_followed = followed.as_ref().is_some_and(|f| f.covers(&reachable));
        if all_followed && chosen.is_empty() && values::can_follow(&summaries) {
            let can: Vec<Vec<bool>> = match plan::may_fold(config) {
                true => Vec::new(),
                false => summaries.par_iter().map(|s| plan::can_stub(s)).collect(),
            };
            let can_stub = |atom: AtomId| {
                let (position, local) = index.locate(atom);
                can.get(position).and_then(|c| c.get(local.index())) == Some(&true)
            };
            let sources = Sources {
                config,
                resolution: &resolution,
                summaries: &summaries,
                index,
                reachable: &reachable,
                models: &|symbol| models.of(&inputs, &resolution, symbol),
                memory: &|symbol| models.memory(&inputs, &resolution, symbol),
                unseen_code: models.has_unseen_code(config, &inputs, &resolution),
                can_stub: &can_stub,
            };
            let flow = values::flow(sources, wants_report(config));
            if flow.fixed_mapping.is_none() {
                return flow;
            }
            fixed_mapping = flow.fixed_mapping;
        }
        // Without a function that was understood every reference keeps its target.
        let muted = index.without_bodies(&chosen);
        let mut liveness = live(muted.as_ref().unwrap_or(index));
        liveness.stub = chosen.iter().zip(&liveness.witness).map(|(c, w)| *c && w.is_some()).collect();
        ValueFlow { liveness, fixed_mapping, ..ValueFlow::default() }
    };
    let mut flow = timer.stage(Stage::Propagate, || propagate(&index));
    let mut limited = None;
    if config.prune.limit.is_some() || config.prune.log.is_some() {
        let names = plan::limit::Names { inputs: &inputs, resolution: &resolution, summaries: &summaries };
        let (wanted, explain) = (config.prune.limit.as_ref(), config.prune.log.is_some());
        limited = Some(plan::limit::limit(wanted, explain, names, &mut index, &mut flow, &propagate));
    }
    let mut undivided = Vec::new();
    let (plan, explicit) = loop {
        let plan = timer.stage(Stage::Plan, || {
            let mut plan = plan::plan(&index, &flow.liveness, &resolution, &summaries);
            plan::mark_foldable(config, &inputs, &index, &summaries, &mut plan);
            plan
        });
        let made =
            timer.stage(Stage::Emit, || emit::tree::explicit_debug(&inputs, &resolution, &summaries, &plan));
        // An object whose debug information can't follow its parts is kept whole, and so is bitcode that needs libraries, which makes another plan.
        let mut refused = refusal::of_debug(&index, &summaries, &plan, &made);
        refused.extend(refusal::of_libraries(
            config,
            &inputs,
            &resolution,
            &index,
            &summaries,
            &flow.liveness,
        ));
        if refused.is_empty() {
            break (plan, made.into_iter().map(|made| made.ok().flatten()).collect::<Vec<_>>());
        }
        refused.iter().for_each(|(position, _)| index.keep_module(*position));
        undivided.extend(refused.into_iter().map(|(_, place)| place));
        flow = timer.stage(Stage::Propagate, || propagate(&index));
    };
    let liveness = &flow.liveness;
    let plain = PlainLink::new(config, &resolution, &index, &summaries, liveness);
    let mut limits = refusal::of_link(config, &inputs, &resolution, &summaries, &index, &plain);
    limits.extend(undivided);
    limits.extend(refusal::of_values(&resolution, &summaries, &index, &flow));
    limits.extend(refusal::unchangeable_bitcode(&inputs, &resolution, &summaries, &plan));
    limits.extend(refusal::of_stack(config, &index, &plan));
    limits.extend(refusal::of_relocations(config, &index, &summaries, liveness));
    limits.extend(refusal::of_discarded(config, &index, &summaries, liveness));
    limits.extend(refusal::of_named_parts(config, &resolution, &index, &summaries));
    limits.extend(refusal::of_start_stop(config, &resolution, &index, &summaries, liveness));
    let prune = &config.prune;
    let needs_plugin = limits.iter().any(|(_, l)| l.limit == Limit::GccLto);
    if needs_plugin && config.linker.system.is_some() && !prune.off {
        return Ok(Outcome::System);
    }
    let allowed = !refusal::forbids(&limits);
    // A link that nobody wanted pruned did not go wrong; the report has the limits.
    let warning = refusal::warning(&inputs, &limits).filter(|_| !prune.off);
    if let (Some(warning), true) = (&warning, prune.strict) {
        return Err(Error::new(Stage::Summarise, warning.clone()));
    }
    if let (Some(path), Some(limited)) = (&prune.log, &limited) {
        let names = plan::limit::Names { inputs: &inputs, resolution: &resolution, summaries: &summaries };
        report::log::append(path, &report::log::line(config, names, &index, liveness, limited, allowed))?;
    }

    let mut totals = Totals::default();
    let mut linked = false;
    let mut refusal = None;
    if allowed && refusal::drops_anything(&plan) {
        let sources = emit::tree::Sources {
            config,
            inputs: &inputs,
            resolution: &resolution,
            summaries: &summaries,
            plan: &plan,
            explicit: &explicit,
            needed: &|dso| plain.needs(dso),
        };
        if prune.off {
            let objects = timer.stage(Stage::Emit, || emit::tree::objects(sources))?;
            timer.stage(Stage::Verify, || verify_emitted(sources, &objects))?;
            totals = account(&inputs, &resolution, &objects);
        } else {
            let mut expected = plain.output(config, &inputs, &resolution, &summaries, &index, &plan);
            let asked = refusal::asked_libraries(&inputs, &resolution, &index, &summaries, &plain, liveness);
            expected.asked = asked.into_iter().map(|dso| inputs.dso_name(dso)).collect();
            let pruned = prune_and_link(sources, &expected, timer)?;
            linked = pruned.is_ok();
            totals = account(&inputs, &resolution, pruned.as_deref().unwrap_or(&[]));
            match pruned {
                Ok(_) => {}
                Err(Refusal::Linker(messages)) => refusal = Some(messages),
                Err(Refusal::Library(limit)) => limits.push((None, limit)),
            }
        }
    } else if wants_report(config) {
        totals = account(&inputs, &resolution, &[]);
    }
    let mut report = None;
    if wants_report(config) {
        let facts = report::Facts {
            config,
            inputs: &inputs,
            resolution: &resolution,
            summaries: &summaries,
            index: &index,
            liveness,
            flow: &flow,
            linker_live: index.plain_live(&summaries),
            plan: &plan,
            limits: &limits,
        };
        let written = timer.stage(Stage::Report, || report::write(facts, totals, linked))?;
        report = config.prune.report.is_some().then(|| Box::new(written));
    }
    if linked {
        warning.iter().for_each(|warning| eprintln!("lto-prune: warning: {warning}"));
        return Ok(Outcome::Linked);
    }
    // That the linker takes the originals is a bug of ours, and the graver thing to say.
    let refused = refusal.map(|messages| {
        let messages = String::from_utf8_lossy(&messages);
        let first = messages.lines().next().unwrap_or("no message");
        format!("link: the linker refused the pruned objects ({first}); the originals were linked")
    });
    Ok(Outcome::Originals(report, refused.or(warning)))
}

fn wants_report(config: &Config) -> bool {
    let prune = &config.prune;
    prune.report.is_some() || prune.remarks.is_some() || !prune.why.is_empty() || prune.stats
}

/// The bytes of each module that was pruned.
type Objects = Vec<Option<Vec<u8>>>;

/// Why the originals are linked after all.
enum Refusal {
    /// What the linker said when it refused the pruned objects.
    Linker(Vec<u8>),
    /// The plain link may record a library that this one does not.
    Library(LimitRecord),
}

/// Emit the pruned objects, verify them, and link them.
fn prune_and_link(
    sources: emit::tree::Sources<'_>,
    plain: &refusal::PlainOutput<'_>,
    timer: &mut Timer,
) -> Result<std::result::Result<Objects, Refusal>> {
    let config = sources.config;
    let no_thread = |e| Error::io(Stage::Link, &config.linker.path, "start a thread for", e);
    link::bound::clean_up_on_signals().map_err(no_thread)?;
    let workspace = link::workspace::Workspace::new(config)?;
    let emitted = timer.stage(Stage::Emit, || emit::tree::emit(sources, &workspace.copies))?;
    if let Some(dir) = &config.prune.emit_dir {
        emit::keep::keep(sources, &emitted, &workspace.copies, dir)?;
    }
    // What was emitted is verified while the linker works on it: nothing is published before both are done.
    let (output, verified) = timer.stage(Stage::Link, || {
        std::thread::scope(|scope| {
            let link = || link::link_pruned(config, &emitted, &workspace);
            let link = std::thread::Builder::new().spawn_scoped(scope, link).map_err(no_thread);
            let verified = verify_emitted(sources, &emitted.objects);
            let panicked = |_| Err(Error::new(Stage::Link, "internal error"));
            (link.and_then(|link| link.join().unwrap_or_else(panicked)), verified)
        })
    });
    verified?;
    let output = output?;
    if !output.status.success() {
        return Ok(Err(Refusal::Linker(output.stderr)));
    }
    let facts = timer.stage(Stage::Verify, || verify_output(sources, &workspace, plain))?;
    let is_missing = |name: &&&str| {
        let ends = |needed: &Vec<u8>| {
            needed.strip_suffix(name.as_bytes()).is_some_and(|rest| rest.is_empty() || rest.ends_with(b"/"))
        };
        !facts.needed.iter().any(ends)
    };
    if let Some(name) = plain.asked.iter().find(is_missing) {
        let detail = format!("LLVM bitcode refers to {name}, which the pruned link does not record");
        return Ok(Err(Refusal::Library(resolve::link_limit(Limit::BitcodeLibrary, detail))));
    }
    let opened = opened_paths(config, sources.inputs, sources.resolution);
    let changed = |file: &&inputs::InputFile| !file.bytes.is_unchanged(&file.path);
    if let Some(file) = sources.inputs.files.iter().find(changed) {
        let name = file.path.display().to_string();
        return Err(Error::new(Stage::Link, "the file changed while it was linked").in_file(name));
    }
    link::rewrite_side_outputs(config, &emitted.names, &workspace, Some(&opened))?;
    workspace.publish(config)?;
    link::print_messages(&output, &emitted.names, &workspace, config);
    Ok(Ok(emitted.objects))
}

/// Each pruned object agrees with its plan, and every strong reference has the definition that it had.
fn verify_emitted(sources: emit::tree::Sources<'_>, objects: &[Option<Vec<u8>>]) -> Result<()> {
    let resolution = sources.resolution;
    let facts: Vec<verify::Facts<'_>> = (0..resolution.loaded.len())
        .into_par_iter()
        .map(|position| {
            let module = resolution.loaded[position];
            let name = sources.inputs.module_name(module);
            let original = sources.inputs.module_bytes(module);
            let (summary, plan) = (sources.summaries[position], &sources.plan.modules[position]);
            if sources.inputs.modules[module].kind == inputs::FileKind::Bitcode {
                let Some(pruned) = &objects[position] else {
                    return Ok(verify::bitcode_facts(name, original, None));
                };
                emit::bitcode::with_fates(original, summary, plan, |fate| {
                    verify::bitcode(&name, original, pruned, fate)
                })?;
                return Ok(verify::bitcode_facts(name, original, Some(pruned)));
            }
            let Some(pruned) = &objects[position] else { return verify::facts(&name, original) };
            verify::object(&name, original, pruned, &verify::Expected::new(summary, plan))?;
            verify::facts(&name, pruned)
        })
        .collect::<Result<_>>()?;
    let elsewhere = resolution.names_defined_elsewhere();
    verify::closure_of(&facts, &|name| elsewhere.contains(name), &|_| false)
}

/// The output is an ELF file of the right kind, and has what the plain one has: libraries, exports, constructors.
fn verify_output(
    sources: emit::tree::Sources<'_>,
    workspace: &link::workspace::Workspace,
    plain: &refusal::PlainOutput<'_>,
) -> Result<verify::OutputFacts> {
    let facts = verify::output(&workspace.temporary_output)?;
    let differs = |what: String| Err(Error::new(Stage::Verify, format!("the pruned output {what}")));
    if sources.config.output_kind == config::OutputKind::Executable && facts.entry == 0 {
        return differs("has no entry".to_owned());
    }
    if let Some(needed) = plain.needed.as_ref().filter(|_| !sources.config.static_link) {
        let same = |(found, wanted): (&Vec<u8>, &Option<&str>)| {
            wanted.is_none_or(|wanted| wanted.as_bytes() == found.as_slice())
        };
        if facts.needed.len() != needed.len() || !facts.needed.iter().zip(needed).all(same) {
            let found: Vec<_> = facts.needed.iter().map(|name| String::from_utf8_lossy(name)).collect();
            let wanted: Vec<_> = needed.iter().map(|name| name.unwrap_or("?")).collect();
            return differs(format!("needs [{}], not [{}]", found.join(" "), wanted.join(" ")));
        }
    }
    if let Some(symbols) = facts.dynamic_symbols()? {
        if let Some(name) = plain.exported.iter().find(|name| symbols.exports(name).is_empty()) {
            return differs(format!("does not export {}", String::from_utf8_lossy(name)));
        }
        for &(name, version, by_default) in &plain.versions {
            let mut exports = symbols.exports(name).iter();
            if !exports.any(|d| d.version == version && d.by_default == by_default) {
                let (name, version) = (String::from_utf8_lossy(name), String::from_utf8_lossy(version));
                let at = if by_default { "@@" } else { "@" };
                return differs(format!("does not export {name}{at}{version}"));
            }
        }
        if let Some(name) = symbols.undefined.iter().find(|name| plain.defined.binary_search(name).is_ok()) {
            return differs(format!("has {} as undefined", String::from_utf8_lossy(name)));
        }
    }
    for (what, size, (least, most)) in
        [("init", facts.init_array, plain.init_array), ("fini", facts.fini_array, plain.fini_array)]
    {
        if let Some(size) = size.filter(|size| !(least..=most).contains(size)) {
            return differs(format!("has {size} bytes of {what} array, not {least} to {most}"));
        }
    }
    let names =
        [("soname", &facts.soname, plain.soname), ("interpreter", &facts.interpreter, plain.interpreter)];
    for (what, found, wanted) in names {
        let Some(wanted) = wanted else { continue };
        if found.as_deref() != wanted.map(OsStr::as_encoded_bytes) {
            let found = found.as_ref().map_or("".into(), |name| String::from_utf8_lossy(name));
            let wanted = wanted.map_or("".into(), OsStr::to_string_lossy);
            return differs(format!("has the {what} [{found}], not [{wanted}]"));
        }
    }
    for (what, found, wanted) in [("DT_INIT", facts.init, plain.init), ("DT_FINI", facts.fini, plain.fini)] {
        match (found, wanted) {
            (Some(found), Some(wanted)) if found != wanted => {
                return differs(format!("has {} {what}", if found { "a" } else { "no" }));
            }
            _ => {}
        }
    }
    match (facts.tls, plain.tls) {
        (false, (true, _)) => return differs("has no thread-local data".to_owned()),
        (true, (_, false)) => return differs("has thread-local data".to_owned()),
        _ => {}
    }
    match (facts.execstack, plain.execstack) {
        (Some(found), Some(wanted)) if found != wanted => {
            differs(format!("has {} executable stack", if found { "an" } else { "no" }))
        }
        _ => Ok(facts),
    }
}

/// Each file that the linker has in its dependency file, in order, as it names it there. Members of thin archives are files of their own: mold names
/// them all, gold those that it loads, lld and GNU ld none.
fn opened_paths(
    config: &Config,
    inputs: &inputs::Inputs,
    resolution: &resolve::Resolution<'_>,
) -> Vec<String> {
    if config.linker.dialect == Dialect::Wild {
        return link::wild_dependencies(config, inputs);
    }
    let mut named = vec![true; inputs.files.len()];
    let thin =
        |module: &inputs::Module| module.archive.as_ref().is_some_and(|(archive, _)| *archive != module.file);
    for module in inputs.modules.iter().filter(|module| thin(module)) {
        named[module.file.index()] = config.linker.dialect == Dialect::Mold;
    }
    for module in resolution.loaded.iter().filter(|_| config.linker.dialect == Dialect::Gold) {
        named[inputs.modules[*module].file.index()] = true;
    }
    // lld reads it when the dependency file is written already.
    let late = |file: &inputs::InputFile| {
        config.linker.dialect == Dialect::Lld && config.call_graph_orderings.contains(&file.path)
    };
    let name = |file: &inputs::InputFile| match config.linker.dialect {
        Dialect::Lld | Dialect::Mold => link::without_dots(&file.path),
        Dialect::Bfd | Dialect::Gold | Dialect::Wild => file.path.display().to_string(),
    };
    let named = inputs.files.iter().zip(named).filter(|(file, named)| *named && !late(file));
    let mut opened: Vec<&inputs::InputFile> = named.map(|(file, _)| file).collect();
    if config.linker.dialect == Dialect::Lld {
        // It reads these before all inputs, in this order (`LinkerDriver::readConfigs`).
        let lists = [&config.dynamic_lists[..], &config.export_dynamic_lists].concat();
        let first = [&config.symbol_orderings, &lists, &config.version_scripts];
        opened.sort_by_key(|file| {
            first.iter().position(|paths| paths.contains(&file.path)).unwrap_or(first.len())
        });
    }
    opened.into_iter().map(name).collect()
}

fn account(
    inputs: &inputs::Inputs,
    resolution: &resolve::Resolution<'_>,
    objects: &[Option<Vec<u8>>],
) -> Totals {
    Totals::new(resolution.loaded.iter().enumerate().map(|(i, module)| {
        let before = sizes(inputs.module_bytes(*module));
        let after = objects.get(i).and_then(Option::as_ref).map_or(before, |bytes| sizes(bytes));
        (before, after)
    }))
}

/// Run the tool; the result is the exit status.
pub fn main_with_args(args: Vec<OsString>) -> ExitCode {
    if let Some(status) = link::bound::become_linker(&args) {
        return status;
    }
    let env = args::Environment::process();
    match modes::mode(&args, &env).and_then(|mode| dispatch(mode, &env)) {
        Ok(status) => status,
        Err(error) => {
            eprintln!("lto-prune: error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(mode: Mode, env: &args::Environment<'_>) -> Result<ExitCode> {
    let done = |result: Result<()>| result.map(|()| ExitCode::SUCCESS);
    match mode {
        Mode::Link(config) => Ok(link_main(&config)),
        Mode::LinkerOnly { linker, args } => modes::run_linker_only(&linker, &args),
        Mode::Standalone(words) => modes::run_standalone(&words, env),
        Mode::InstallShims(directory) => modes::run_install_shims(&directory),
        Mode::Summarize(words) => done(summarize::summarize_command(&words)),
        Mode::Dump(file) => done(summarize::dump_command(&[file.into_os_string()])),
        Mode::Bisect(words) => bisect::main(&words, env),
        Mode::Split(words) => split::run(&words),
        Mode::ExplainTrap(words) => modes::run_explain_trap(&words),
        Mode::Audit(words) => audit::run(&words, env),
        Mode::Help(linker) => modes::print_help(linker.as_ref()),
        Mode::Version => Ok(modes::print_version()),
    }
}
