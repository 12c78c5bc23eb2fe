//! Whether the link may be pruned at all: the limits of severity `Link`, from every source, in one place.
//!
//! Any of them means that the originals are linked. That is always right, so in doubt there is a limit. Left out:
//! limits of one module, which the index turned into roots; that lld drops all of it by itself ([`crate::plan`]); and what is found out later,
//! when the linker refuses or a check fails ([`crate::pruned_link`]).

mod applicable_plan;
mod bitcode;
mod difference;
mod dropped;
mod limits;
mod output;
mod plain_link;

pub use applicable_plan::{ApplicablePlan, refused};
pub use bitcode::asked_libraries;
pub use limits::{PlacedLimit, forbids, have_failure, is_failure, sentence, warning};
pub use output::PlainOutput;
pub use plain_link::PlainLink;

use rayon::prelude::*;
use summaries::{Definition, Limit, LimitRecord, ModuleKind, ModuleSummary, Severity, SymbolKind};

use crate::config::OutputKind;
use crate::error::{Error, Stage, lossy};
use crate::ids::ModuleId;
use crate::index::{Index, LinkInputs};
use crate::plan::{ModulePlan, Plan};
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

    /// The message about a failure of ours, which is an error under `--prune-strict`. With `--prune-level=off` the report alone has it.
    pub fn failure(&self, link: LinkInputs<'_>) -> Option<String> {
        let warning = warning(link.inputs, &self.limits).filter(|_| !link.config.prune.off)?;
        Some(Error::new(Stage::Gate, warning).to_string())
    }

    /// The first limit by which the originals are linked.
    pub fn why_nothing(&self, link: LinkInputs<'_>) -> Option<String> {
        let (module, record) = self.limits.iter().find(|(_, l)| l.limit.severity() == Severity::Link)?;
        Some(limits::sentence(link.inputs, *module, record))
    }
}

/// Every limit of a link of which the plan is known.
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
    // All that is global is a root there, and whoever links the output is pruned then.
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

/// What the resolved, propagated link forbids, and all limits of modules, for the report.
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

/// Why values were followed nowhere, where that came out only as they were.
fn of_values(link: LinkInputs<'_>, index: &Index, flow: &ValueFlow) -> Option<PlacedLimit> {
    let LinkInputs { resolution, summaries, .. } = link;
    let found = flow.fixed_mapping?;
    let name = lossy(resolution.symbols[found.symbol].name);
    let Some(by) = found.by else {
        let detail = format!(
            "{name} has another name by an option, or its address escapes: whoever has it may say where"
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
    let detail = format!("function {function}: a call of {name} through a pointer may say where");
    Some((
        Some(index.modules[position].module),
        LimitRecord { section, ..link_limit(Limit::FixedMapping, detail) },
    ))
}

/// A program whose entry no module defines starts wherever the linker puts it, so that nothing is known to be live.
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

/// Modules of bitcode to which the plan can't be applied.
fn unchangeable_bitcode(link: LinkInputs<'_>, plan: &Plan) -> Vec<PlacedLimit> {
    let LinkInputs { inputs, resolution, summaries, .. } = link;
    let touched = resolution.loaded.par_iter().zip(summaries).zip(&plan.modules);
    let touched = touched.filter(|((_, s), plan)| s.kind == ModuleKind::Bitcode && !plan.is_untouched());
    let why = |((module, summary), plan): ((&ModuleId, &&ModuleSummary), &ModulePlan)| {
        let why = crate::emit::bitcode::obstacle(inputs.module_bytes(*module), summary, plan)?;
        Some((
            Some(*module),
            link_limit(Limit::Bitcode, format!("LLVM bitcode that can't be rewritten: {why}")),
        ))
    };
    touched.filter_map(why).collect()
}

/// Whether any module is to be rewritten, so that a pruned link is worth making.
pub fn drops_anything(plan: &Plan) -> bool {
    plan.modules.iter().any(|m| !m.is_untouched())
}
