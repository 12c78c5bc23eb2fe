//! The pass gate: whether the link may be pruned at all. Any limit of severity `Link`, from any pass, makes it link the originals.
//!
//! Limits of one module are roots in the index already. The plan says whether lld removes all dead code itself ([`crate::plan`]).
//! A refusal by the linker and a failed check come later ([`crate::pruned_link`]).

mod bitcode;
mod dropped;
mod limits;
mod plain_link;

pub use bitcode::asked_libraries;
pub use limits::{PlacedLimit, forbids, have_failure, is_failure, sentence, warning};
pub use plain_link::{PlainLink, PlainOutput};

use rayon::prelude::*;
use summaries::{Definition, Limit, LimitRecord, ModuleKind, ModuleSummary, Severity, SymbolKind};

use crate::config::OutputKind;
use crate::emit::tree::EmissionSource;
use crate::error::{Error, Result, Stage, lossy};
use crate::ids::ModuleId;
use crate::index::{Index, LinkInputs};
use crate::plan::{Action, ModulePlan, Plan};
use crate::propagate::Liveness;
use crate::propagate::values::ValueFlow;
use crate::resolve::{Prevailing, entry_symbol, link_limit};
use dropped::{of_discarded, of_named_parts, of_relocations, of_stack, of_start_stop};

/// Whether a link is pruned, and why not all of it.
#[derive(Debug)]
pub struct Verdict {
    pub plain: PlainLink,
    pub limits: Vec<PlacedLimit>,
}

impl Verdict {
    pub fn allows(&self) -> bool {
        !forbids(&self.limits)
    }

    /// The message about a failure, which is an error under `--prune-strict`. With `--prune-level=off` only the report has it.
    pub fn failure(&self, link: LinkInputs<'_>) -> Option<String> {
        let warning = warning(link.inputs, &self.limits).filter(|_| !link.config.prune.off)?;
        Some(Error::new(Stage::Gate, warning).to_string())
    }

    /// The first limit of severity `Link`, in words.
    pub fn why_nothing(&self, link: LinkInputs<'_>) -> Option<String> {
        let (module, record) = self.limits.iter().find(|(_, l)| l.limit.severity() == Severity::Link)?;
        Some(limits::sentence(link.inputs, *module, record))
    }
}

/// Every limit of a link with a plan.
pub fn gate(link: LinkInputs<'_>, index: &Index, flow: &ValueFlow, applicable: &ApplicablePlan) -> Verdict {
    let (liveness, plan) = (&flow.liveness, &applicable.plan);
    let plain = PlainLink::new(link, index, liveness);
    let mut limits = of_link(link, index, &plain);
    limits.extend(applicable.kept.iter().cloned());
    limits.extend(of_values(link, index, flow));
    limits.extend(unchangeable_bitcode(link, plan));
    limits.extend(of_stack(link, index, plan));
    limits.extend(of_relocations(link, index, liveness));
    limits.extend(of_discarded(link, index, liveness));
    limits.extend(of_named_parts(link, index));
    limits.extend(of_start_stop(link, index, liveness));
    Verdict { plain, limits }
}

pub fn of_options(link: LinkInputs<'_>) -> Vec<PlacedLimit> {
    let LinkInputs { config, inputs, .. } = link;
    let mut limits = Vec::new();
    let mut add = |limit, detail: String| limits.push((None, link_limit(limit, detail)));
    let asked = config.prune.level_explicit && config.gc_sections;
    // With `-r` every global symbol is a root; prune the final link instead.
    if config.output_kind == OutputKind::Relocatable {
        add(Limit::RelocatableOutput, "-r".to_owned());
    }
    if config.emit_relocs && !asked {
        add(Limit::RelocatableOutput, "--emit-relocs".to_owned());
    }
    config.malformed.iter().for_each(|detail| add(Limit::LinkError, detail.clone()));
    config.explaining.iter().for_each(|option| add(Limit::LinkerMessage, option.clone()));
    if inputs.scripts.replaces_default && !config.gc_sections {
        add(Limit::ScriptWithoutGc, "a -T script with SECTIONS".to_owned());
    }
    limits
}

/// The limits of all inputs and passes, for the report.
fn of_link(link: LinkInputs<'_>, index: &Index, plain: &PlainLink) -> Vec<PlacedLimit> {
    let LinkInputs { inputs, resolution, .. } = link;
    let mut limits = of_options(link);
    limits.extend(inputs.limits.iter().map(|(file, record)| {
        let name = file.map(|f| inputs.files[f].path.display().to_string());
        let detail = match name {
            Some(name) => format!("{name}: {}", record.detail),
            None => record.detail.clone(),
        };
        (None, LimitRecord { detail, ..record.clone() })
    }));
    limits.extend(resolution.limits.iter().cloned());
    limits.extend(no_entry(link));
    limits.extend(bitcode::limits(link));
    limits.extend(index.limits.iter().cloned());
    if let Some(symbol) = plain.undefined {
        let name = lossy(resolution.symbols[symbol].name);
        limits.push((None, link_limit(Limit::LinkError, format!("undefined symbol {name}"))));
    }
    limits
}

/// The reason why value flow was given up for the whole link.
fn of_values(link: LinkInputs<'_>, index: &Index, flow: &ValueFlow) -> Option<PlacedLimit> {
    let LinkInputs { resolution, summaries, .. } = link;
    let found = flow.fixed_mapping?;
    let name = lossy(resolution.symbols[found.symbol].name);
    let Some(by) = found.by else {
        let detail = format!(
            "{name} is renamed by an option, or its address escapes: an unknown caller may choose the place"
        );
        return Some((None, link_limit(Limit::FixedMapping, detail)));
    };
    let (position, local) = index.locate(by);
    let summary = summaries[position];
    let section = summary.atoms.get(local.index()).map(|a| a.section);
    let is_own = |s: &&summaries::Symbol| {
        matches!(s.definition, Definition::Atom(atom) if atom == local) && s.kind == SymbolKind::Func
    };
    let function = summary.symbols.iter().find(is_own).map(|s| lossy(summary.name(s.name)));
    let function = function.unwrap_or_else(|| "without a name".into());
    let detail = format!("function {function}: a call of {name} through a pointer may choose the place");
    Some((
        Some(index.modules[position].module),
        LimitRecord { section, ..link_limit(Limit::FixedMapping, detail) },
    ))
}

/// A program whose entry no module defines starts at an address that the linker chooses, so that the live code is unknown.
fn no_entry(link: LinkInputs<'_>) -> Option<PlacedLimit> {
    let LinkInputs { config, inputs, resolution, .. } = link;
    if matches!(config.output_kind, OutputKind::Shared | OutputKind::Relocatable) {
        return None;
    }
    let entry = entry_symbol(config, &inputs.scripts).unwrap_or_default();
    let is_entry = |s: &&crate::resolve::GlobalSymbol<'_>| s.name == entry.as_bytes();
    let symbol = resolution.symbols.iter().find(is_entry);
    let defined = symbol.is_some_and(|s| matches!(s.prevailing, Prevailing::Module { .. }));
    (!defined)
        .then(|| (None, link_limit(Limit::NoEntry, format!("no module defines the entry symbol `{entry}`"))))
}

/// Modules of bitcode that can't be rewritten by the plan.
fn unchangeable_bitcode(link: LinkInputs<'_>, plan: &Plan) -> Vec<PlacedLimit> {
    let LinkInputs { inputs, resolution, summaries, .. } = link;
    let modified = resolution.loaded.par_iter().zip(summaries).zip(&plan.modules);
    let modified = modified.filter(|((_, s), plan)| s.kind == ModuleKind::Bitcode && !plan.passed_through);
    let why = |((module, summary), plan): ((&ModuleId, &&ModuleSummary), &ModulePlan)| {
        let why = crate::emit::bitcode::obstacle(inputs.module_bytes(*module), summary, plan)?;
        Some((
            Some(*module),
            link_limit(Limit::Bitcode, format!("LLVM bitcode that can't be rewritten: {why}")),
        ))
    };
    modified.filter_map(why).collect()
}

/// Whether any module is modified, so that a pruned link is worth making.
pub fn drops_anything(plan: &Plan) -> bool {
    plan.modules.iter().any(|m| !m.passed_through)
}

/// A plan that emission can apply.
#[derive(Debug)]
pub struct ApplicablePlan {
    pub plan: Plan,
    /// By load position: the prepared input of emission.
    pub emission_sources: Vec<EmissionSource>,
    pub kept: Vec<PlacedLimit>,
}

impl ApplicablePlan {
    /// The plan for which emission has `prepared` every module. `kept` has the limits of the modules that refused an earlier plan.
    pub fn new(plan: Plan, prepared: Vec<Result<EmissionSource>>, kept: Vec<PlacedLimit>) -> Self {
        let emission_sources =
            prepared.into_iter().map(|source| source.unwrap_or(EmissionSource::Original)).collect();
        ApplicablePlan { plan, emission_sources, kept }
    }
}

/// The modules that can't be emitted as planned, by position, each with the reason. They are kept whole by another plan.
///
/// These are objects whose debug information can't be split, and bitcode that needs libraries.
pub fn refused(
    link: LinkInputs<'_>,
    index: &Index,
    liveness: &Liveness,
    plan: &Plan,
    prepared: &[Result<EmissionSource>],
) -> Vec<(usize, PlacedLimit)> {
    let errors = prepared.iter().enumerate();
    let errors = errors.filter_map(|(position, prepared)| Some((position, prepared.as_ref().err()?)));
    let of_debug = errors.map(|(position, error)| {
        let dropped = plan.modules[position].atoms.iter().zip(&link.summaries[position].atoms);
        let dropped = dropped.filter(|(action, atom)| **action != Action::Keep && atom.kind.is_alloc());
        // The bytes of code and data that are kept for it.
        let bytes = dropped.map(|(_, atom)| atom.size).sum();
        let detail = match &error.section {
            Some(section) => format!("section {section}: {}", error.message),
            None => error.message.clone(),
        };
        let limit = LimitRecord { bytes, ..link_limit(Limit::DebugInfo, detail) };
        (position, (Some(index.modules[position].module), limit))
    });
    let mut refused: Vec<_> = of_debug.collect();
    refused.extend(bitcode::of_libraries(link, index, liveness));
    refused
}
