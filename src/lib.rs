//! lto-prune: a driver in front of an x86_64 ELF linker that removes unreachable code and data.
//!
//! [`run`] is the list of the passes. The modules below stand in the order in which a link goes through them.

// The pages are for those who read the code, too.
#![allow(rustdoc::private_intra_doc_links)]

#[macro_use]
pub mod terminal;
pub mod args;
pub mod config;
pub mod linker_rules;
pub mod modes;
pub mod inputs;
pub mod resolve;
pub mod summarize;
pub mod estimate;
pub mod index;
pub mod propagate;
pub mod plan;
pub mod gate;
pub mod emit;
pub mod link;
pub mod pruned_link;
pub mod actions;
pub mod dry_run;
pub mod verify;
pub mod report;
pub mod advise;
pub mod bisect;
pub mod split;
pub mod audit;
mod components;
pub mod compression;
pub mod error;
pub mod hashing;
pub mod ids;
pub mod precomputed;
pub mod messages;
pub mod paths;
mod process_group;
pub mod repro;
pub mod timing;

use std::ffi::OsString;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use summaries::ModuleSummary;

use crate::config::Config;
use crate::error::{Result, Stage};
use crate::estimate::GraphParts;
use crate::gate::{ApplicablePlan, Verdict};
use crate::ids::{AtomId, Id};
use crate::index::{Index, LinkInputs, RootReason};
use crate::modes::Mode;
use crate::plan::limit::PruneCandidates;
use crate::propagate::values::ValueFlow;
use crate::propagate::{Liveness, Propagator};
use crate::pruned_link::PruneOutcome;
use crate::report::{LinkAnswer, LinkerEnd};
use crate::summarize::LoadedSummary;
use crate::summarize::cache::{Cache, LinkCache};
use crate::summarize::pack::Pack;
use crate::timing::Timer;

#[derive(Debug)]
pub enum Outcome {
    /// The output is in its place, and the answer is given.
    Linked,
    /// Nothing was linked: the caller links the originals, and then gives the answer.
    Originals(Box<LinkAnswer>),
    /// Nothing was to be linked: the plans are written.
    Planned,
    /// Nothing is linked: an option would break the program.
    Refused(String),
}

/// Link: pruned if that is safe, and otherwise from the original objects.
pub fn link_main(config: &Config) -> ExitCode {
    let prune = &config.prune;
    if prune.plan_dir.is_some() {
        return plan_main(config);
    }
    if prune.off {
        return dry_run::link(config);
    }
    let answer = if link::workspace::can_publish(config) {
        link::waiting::start(config);
        match run_caught(config) {
            Ok(Outcome::Linked) => return answered(config),
            Ok(Outcome::Planned) => return ExitCode::SUCCESS,
            Ok(Outcome::Originals(answer)) => *answer,
            Ok(Outcome::Refused(why)) => {
                link::waiting::end();
                LinkAnswer::without_analysis(config, &why).give(config, LinkerEnd::NotRun);
                messages::error(config, why);
                return ExitCode::FAILURE;
            }
            Err(error) => LinkAnswer {
                warning: Some(format!("{error}; linking the originals")),
                ..LinkAnswer::without_analysis(config, &error)
            },
        }
    } else {
        let reason = "the output is no regular file";
        let warning = prune.strict.then(|| format!("not pruned: {reason}"));
        LinkAnswer { warning, ..LinkAnswer::without_analysis(config, reason) }
    };
    link_originals(config, answer)
}

/// Link the originals, and give the answer.
fn link_originals(config: &Config, mut answer: LinkAnswer) -> ExitCode {
    let warning = answer.warning.take_if(|_| config.prune.strict && !answer.needs_originals);
    if let Some(warning) = warning {
        link::waiting::end();
        answer.give(config, LinkerEnd::NotRun);
        messages::error(config, warning);
        return ExitCode::FAILURE;
    }
    if !answer.is_awaited() {
        return link::exec_plain(config);
    }
    let status = match link::run_plain(config) {
        Ok(status) => status,
        Err(error) => {
            answer.give(config, LinkerEnd::NotRun);
            messages::error(config, error);
            return ExitCode::FAILURE;
        }
    };
    if !status.success() {
        answer.give(config, LinkerEnd::Failed);
        return link::child::exit_as(status);
    }
    answer.give(config, LinkerEnd::Succeeded);
    match answer.warning {
        Some(warning) if config.prune.strict => {
            link::remove_output(config);
            messages::error(config, warning);
            return ExitCode::FAILURE;
        }
        Some(warning) => messages::warning(config, warning),
        None => {}
    }
    answered(config)
}

/// The status of a link that succeeded. Under `--prune-strict` a missing answer fails it, and leaves no output.
fn answered(config: &Config) -> ExitCode {
    if messages::all_written() || !config.prune.strict {
        return ExitCode::SUCCESS;
    }
    link::remove_output(config);
    ExitCode::FAILURE
}

/// Plan a link and link nothing. Every failure is an error, since another action links.
fn plan_main(config: &Config) -> ExitCode {
    match run_caught(config) {
        Ok(Outcome::Refused(error)) | Err(error) => {
            messages::error(config, error);
            ExitCode::FAILURE
        }
        Ok(_) => ExitCode::SUCCESS,
    }
}

/// The passes, timed. A failure, also a panic, becomes a message.
fn run_caught(config: &Config) -> std::result::Result<Outcome, String> {
    let prune = &config.prune;
    // 0 is as many as there are cores. This thread is one of them: handing it what comes of each pass would wake it each time.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(prune.jobs.unwrap_or(0));
    let pool = pool.use_current_thread().build_global();
    pool.map_err(|error| format!("load: no threads to work with: {error}"))?;
    let mut timer = Timer::start();
    let result = catch_unwind(AssertUnwindSafe(|| run(config, &mut timer)));
    timer.clear();
    if prune.time {
        let text = format!("lto-prune: {}: time of each pass\n{}", config.output.display(), timer.table());
        messages::to_stderr(config, &text);
    }
    match result {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(_) => Err("internal error (the panic above is a bug of lto-prune)".to_owned()),
    }
}

/// The passes of a link, in order.
/// After an error the originals are linked.
pub fn run(config: &Config, timer: &mut Timer) -> Result<Outcome> {
    // The process ends with the link, and the kernel frees tables faster than they free themselves.
    let inputs = ManuallyDrop::new(timer.stage(Stage::Load, || inputs::load(config))?);
    // No file is added to the link after this.
    repro::write_if_asked(config, &inputs)?;
    let resolution = ManuallyDrop::new(timer.stage(Stage::Resolve, || resolve::resolve(&inputs, config)));
    // The modules in the link, their order and every prevailing definition are fixed.
    if timer.stage(Stage::Gate, || plan::needs_no_analysis(config, &inputs, &resolution)) {
        return Ok(Outcome::Originals(Box::default()));
    }
    let cache = Cache::of_link(config);
    let pack = cache.as_ref().map(|cache| Pack::open(cache, &config.output));
    let cached = LinkCache { cache: cache.as_ref(), pack: pack.as_ref(), keys: &[] };
    let link = LinkInputs { config, inputs: &inputs, resolution: &resolution, summaries: &[], cached };
    let worth = timer.stage(Stage::Estimate, || estimate::threshold(config, &inputs, &resolution));
    let summarise = || summarize::of_link(link, worth > 0);
    let mut modules = ManuallyDrop::new(timer.stage(Stage::Summarise, summarise));
    let mut parts = GraphParts::default();
    while let Some(mixed) = timer.stage(Stage::Estimate, || parts.to_divide(link, &mut modules, worth)) {
        timer.stage(Stage::Summarise, || summarize::divide(link, &mut modules, &mixed));
    }
    // A module that can lose enough bytes is divided, or a limit says why it is not.
    let needs_no_index = || plan::needs_no_index(link, &modules) && !gate::have_failure(&modules);
    if worth > 0 && timer.stage(Stage::Gate, needs_no_index) {
        return Ok(Outcome::Originals(Box::default()));
    }
    timer.work(summarize::divided_code(&modules));
    summarize::report_refusals(link, &modules)?;
    let (index, live, followed) = index_modules(link, &mut modules, timer);
    // There is one graph. A module that is kept for a later reason only adds roots.
    let summaries = summaries_of(&modules);
    let keys: Vec<_> = modules.iter().map(|module| module.key).collect();
    let link = LinkInputs { summaries: &summaries, cached: LinkCache { keys: &keys, ..cached }, ..link };
    let propagator = Propagator::new(link, followed)?;
    let flow = timer.stage(Stage::Propagate, || propagator.run(&index, live));
    let (mut index, mut flow, prune_candidates) = plan::limit::apply(link, index, flow, &propagator);
    let mut kept = Vec::new();
    let applicable = loop {
        let plan = timer.stage(Stage::Plan, || plan::of_link(link, &index, &flow.liveness));
        let next = timer.stage(Stage::Plan, || plan::next_sections(link, &index, &plan));
        let prepared = timer.stage(Stage::Emit, || emit::tree::prepare(link, &plan));
        let refused = gate::refused(link, &index, &flow.liveness, &plan, &prepared);
        if refused.is_empty() && next.is_empty() {
            break ApplicablePlan::new(plan, prepared, kept);
        }
        index = index.keeping(refused.iter().map(|(position, _)| *position));
        index = index.with_roots(&next, RootReason::FallThrough);
        kept.extend(refused.into_iter().map(|(_, limit)| limit));
        (index, flow) = timer.stage(Stage::Propagate, || propagator.run_again(index));
    };
    // Each atom is kept, dropped or a stub, and emission can do it.
    let index = ManuallyDrop::new(index);
    decide(link, &index, &flow, &applicable, prune_candidates.as_ref(), timer)
}

/// The pass gate, and the passes that its verdict asks for. Under `--prune-unwind=drop` an entry that the program needs is an error.
fn decide(
    link: LinkInputs<'_>,
    index: &Index,
    flow: &ValueFlow,
    applicable: &ApplicablePlan,
    prune_candidates: Option<&PruneCandidates>,
    timer: &mut Timer,
) -> Result<Outcome> {
    if let Some(why) = &index.removed_unwind.refused {
        let why = format!("--prune-unwind=drop: {why}; link with --prune-unwind=unused");
        return Ok(Outcome::Refused(why));
    }
    let verdict = timer.stage(Stage::Gate, || gate::gate(link, index, flow, applicable));
    if let Some(dir) = &link.config.prune.plan_dir {
        actions::write_plans(link, &applicable.plan, &verdict, dir)?;
        return Ok(Outcome::Planned);
    }
    report::log::write(link, index, &flow.liveness, prune_candidates, verdict.allows());
    Ok(link_and_answer(link, index, flow, applicable, verdict, timer))
}

/// The passes emit, link and verify, if the verdict allows to prune. The pass report answers the user in any case.
fn link_and_answer(
    link: LinkInputs<'_>,
    index: &Index,
    flow: &ValueFlow,
    applicable: &ApplicablePlan,
    mut verdict: Verdict,
    timer: &mut Timer,
) -> Outcome {
    let config = link.config;
    let failure = verdict.failure(link);
    if !config.prune.off {
        propagate::nounwind::tell(config, &index.removed_unwind);
        for (pattern, is_for_build) in index::unmatched_keeps(link) {
            let text = format!("--prune-keep={pattern} matches no symbol that an input defines");
            // A list for all links of a build names symbols that one link does not have.
            if is_for_build {
                messages::to_log(config, &messages::line(config, "note", text))
            } else {
                messages::warning(config, text)
            }
        }
    }
    let is_stopped = config.prune.strict && failure.is_some();
    let pruned = match is_stopped {
        true => pruned_link::originals(link),
        false => pruned_link::prune(link, index, &flow.liveness, applicable, &verdict, timer),
    };
    // The answer is made of the passes before an error.
    let (pruned, error) =
        pruned.map_or_else(|error| (PruneOutcome::default(), Some(error)), |pruned| (pruned, None));
    verdict.limits.extend(pruned.limits.iter().cloned());
    let refusal = pruned.refusal();
    let mut warning = error.map(|error| format!("{error}; linking the originals"));
    warning = warning.or(refusal.clone()).or(failure.clone());
    let not_pruned = match (pruned.linked, verdict.why_nothing(link)) {
        (true, _) => None,
        (false, Some(reason)) => Some(reason),
        (false, None) if is_stopped => failure,
        (false, None) => warning.clone().filter(|_| warning != failure),
    };
    let mut answer = timer.stage(Stage::Report, || {
        report::of_link(link, index, flow, &applicable.plan, &verdict.limits, &pruned, not_pruned)
    });
    if pruned.linked {
        timer.stage(Stage::Report, || answer.give(config, LinkerEnd::Succeeded));
        warning.iter().for_each(|warning| messages::warning(config, warning));
        return Outcome::Linked;
    }
    let needs_originals = refusal.is_some();
    Outcome::Originals(Box::new(LinkAnswer { warning, needs_originals, ..answer }))
}

/// The index of the modules, and the liveness by its references. If values are analysed, live functions are summarised, the index is
/// made once more, and the third result is the set of their atoms.
fn index_modules(
    link: LinkInputs<'_>,
    modules: &mut [LoadedSummary],
    timer: &mut Timer,
) -> (Index, Liveness, Option<Liveness>) {
    let (index, live) = index_summaries(link, modules, timer);
    let is_followed = || propagate::is_followed(link.config, &summaries_of(modules), &index, &live);
    if !timer.stage(Stage::Propagate, is_followed) {
        return (index, live, None);
    }
    // A limit keeps other atoms, too.
    let all = link.config.prune.limit.is_some();
    let followed = if all { Liveness::of_all(index.atom_count()) } else { live };
    let of_module =
        |position| index.atoms_of(position).map(|atom| followed.is_live(AtomId::new(atom))).collect();
    let fits = timer.stage(Stage::Summarise, || summarize::follow(link, modules, &of_module));
    let (index, live) = index_summaries(link, modules, timer);
    (index, live, Some(followed).filter(|_| fits))
}

/// The index of the modules, and the liveness by its references.
fn index_summaries(link: LinkInputs<'_>, modules: &[LoadedSummary], timer: &mut Timer) -> (Index, Liveness) {
    let summaries = &summaries_of(modules);
    let link = LinkInputs { summaries, ..link };
    let index = timer.stage(Stage::Index, || index::build(link));
    timer.stage(Stage::Propagate, || propagate::remove_unwind(link, index))
}

fn summaries_of(modules: &[LoadedSummary]) -> Vec<&ModuleSummary> {
    modules.iter().map(|s| &s.summary).collect()
}

/// Run the tool; the result is the exit status.
pub fn main_with_args(args: Vec<OsString>) -> ExitCode {
    if let Some(status) = link::bound::become_linker(&args) {
        return status;
    }
    link::bound::outgrown_files_are_errors();
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
    match mode {
        Mode::Link(config) => Ok(link_main(&config)),
        Mode::LinkerOnly { linker, args } => modes::run_linker_only(&linker, &args),
        Mode::Standalone(words) => modes::run_standalone(&words, env),
        Mode::Rustc(words) => modes::cargo::rustc(&words, env),
        Mode::Command(name, words) => command(name, &words, env),
        Mode::Help(linker) => modes::print_help(linker.as_ref()),
        Mode::Version => Ok(modes::print_version()),
    }
}

fn command(name: &'static str, words: &[OsString], env: &args::Environment<'_>) -> Result<ExitCode> {
    if let Some(status) = modes::print_command_help(name, words) {
        return Ok(status);
    }
    let done = |result: Result<()>| result.map(|()| ExitCode::SUCCESS);
    match name {
        "summarize" => done(summarize::summarize_command(words)),
        "dump" => done(summarize::dump_command(words)),
        "emit" => done(actions::emit_command(words)),
        "advise" => advise::main(words, env),
        "bisect" => bisect::main(words, env),
        "split" => split::run(words),
        "audit" => Ok(audit::run(words, env)),
        _ => modes::run_command(name, words, env),
    }
}
