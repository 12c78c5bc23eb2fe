//! Whether the link may be pruned at all: the limits of severity `Link`, from every source, in one place.
//!
//! Any of them means that the originals are linked. That is always right, so in doubt there is a limit. Left out:
//! limits of one module, which the index turned into roots.

mod bitcode;
mod difference;
mod dropped;
mod output;
mod settle;

pub use bitcode::asked_libraries;
use bitcode::of_libraries;
use dropped::{of_discarded, of_named_parts, of_relocations, of_stack, of_start_stop};
pub use output::PlainOutput;
pub use settle::{Settled, settle};

use rayon::prelude::*;
use summaries::{
    Definition, Limit, LimitRecord, ModuleKind, ModuleSummary, Severity, SymbolKind, Visibility,
};

use crate::config::{Config, Dialect, OutputKind};
use crate::emit::ExplicitDebug;
use crate::error::{Error, Result, Stage};
use crate::ids::{DsoId, Id, ModuleId, SymbolId};
use crate::index::{Index, LinkInputs};
use crate::inputs::Inputs;
use crate::plan::{Action, ModulePlan, Plan};
use crate::propagate::Liveness;
use crate::propagate::values::ValueFlow;
use crate::resolve::{DsoState, GlobalSymbol, Prevailing, entry_symbol, link_limit};

/// A limit with the module that it is about.
pub type PlacedLimit = (Option<ModuleId>, LimitRecord);

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

    /// What the user is told of a failure of ours. A link that nobody wanted pruned did not go wrong; its report has the limits.
    ///
    /// # Errors
    /// Under `--prune-strict` that message is the error.
    pub fn warning(&self, link: LinkInputs<'_>) -> Result<Option<String>> {
        let prune = &link.config.prune;
        match warning(link.inputs, &self.limits).filter(|_| !prune.off) {
            Some(warning) if prune.strict => Err(Error::new(Stage::Summarise, warning)),
            warning => Ok(warning),
        }
    }

    /// Whether the compiler driver's own linker must do it, because ours has no plugin for objects of gcc's link-time optimisation.
    pub fn needs_system_linker(&self, config: &Config) -> bool {
        let by_plugin = self.limits.iter().any(|(_, l)| l.limit == Limit::GccLto);
        by_plugin && config.linker.system.is_some() && !config.prune.off
    }
}

/// Every limit of a link of which the plan is known.
pub fn gate(link: LinkInputs<'_>, index: &Index, flow: &ValueFlow, settled: &Settled) -> Verdict {
    let (liveness, plan) = (&flow.liveness, &settled.plan);
    let plain = PlainLink::new(link, index, liveness);
    let mut limits = of_link(link, index, &plain);
    limits.extend(settled.kept.iter().cloned());
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
    if inputs.scripts.has_sections && !config.gc_sections {
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
        let name = crate::report::lossy(resolution.symbols[symbol].name);
        limits.push((None, link_limit(Limit::LinkError, format!("undefined symbol {name}"))));
    }
    limits
}

/// Why values were followed nowhere, where that came out only as they were.
fn of_values(link: LinkInputs<'_>, index: &Index, flow: &ValueFlow) -> Option<PlacedLimit> {
    let LinkInputs { resolution, summaries, .. } = link;
    let found = flow.fixed_mapping?;
    let name = crate::report::lossy(resolution.symbols[found.symbol].name);
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
    let function = summary.symbols.iter().find(is_own).map(|s| crate::report::lossy(summary.name(s.name)));
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

/// Objects whose debug information can't be made explicit, by position, with the bytes of code and data that stay together for it.
fn of_debug(
    link: LinkInputs<'_>,
    index: &Index,
    plan: &Plan,
    made: &[Result<Option<ExplicitDebug>>],
) -> Vec<(usize, PlacedLimit)> {
    let LinkInputs { summaries, .. } = link;
    let errors =
        made.iter().enumerate().filter_map(|(position, made)| Some((position, made.as_ref().err()?)));
    let limit = |(position, error): (usize, &Error)| {
        let dropped = plan.modules[position].atoms.iter().zip(&summaries[position].atoms);
        let dropped = dropped.filter(|(action, atom)| **action != Action::Keep && atom.kind.is_alloc());
        let bytes = dropped.map(|(_, atom)| atom.size).sum();
        let detail = match &error.section {
            Some(section) => format!("section {section}: {}", error.message),
            None => error.message.clone(),
        };
        let limit = LimitRecord { bytes, ..link_limit(Limit::DebugInfo, detail) };
        (position, (Some(index.modules[position].module), limit))
    };
    errors.map(limit).collect()
}

/// Whether any of these limits means that nothing is pruned.
pub fn forbids(limits: &[PlacedLimit]) -> bool {
    limits.iter().any(|(_, l)| l.limit.severity() == Severity::Link)
}

/// Whether a limit is a failure of ours on this input, which the user hears of (and which `--prune-strict` makes an
/// error), or a plain fact about the link.
pub fn is_failure(limit: Limit) -> bool {
    !matches!(
        limit,
        Limit::LinkError
            | Limit::DebugInfo
            | Limit::LinkerMessage
            | Limit::StartStopSection
            | Limit::NamedPart
            | Limit::RelocatableOutput
            | Limit::AmbiguousResolution
            | Limit::NoEntry
            | Limit::Bitcode
            | Limit::OpaqueBitcode
            | Limit::BitcodeLibrary
            | Limit::GccLto
            | Limit::ScriptWithoutGc
            | Limit::ScriptFilePattern
    )
}

/// What the plain link does that pruning must not change.
#[derive(Debug, Default)]
pub struct PlainLink {
    /// An undefined symbol that the plain linker reports.
    pub undefined: Option<SymbolId>,
    /// By DSO: the plain link refers to it, so that `--as-needed` keeps it.
    pub needed: Vec<bool>,
}

impl PlainLink {
    /// Ask what the plain link sees: everything, or with `--gc-sections` what is live by its rules.
    pub fn new(link: LinkInputs<'_>, index: &Index, ours: &Liveness) -> Self {
        let LinkInputs { config, resolution, summaries, .. } = link;
        let mut plain = PlainLink {
            undefined: None,
            needed: resolution.dsos.iter().map(|d| needed_anyway(config, d)).collect(),
        };
        for &(from, symbol) in &index.external {
            // Only what just dropped atoms refer to depends on the linker's own rules.
            let is_seen =
                || ours.is_live(from) || !config.gc_sections || index.plain_live(summaries)[from.index()];
            let GlobalSymbol { name, prevailing, visibility, .. } = resolution.symbols[symbol];
            // The linker relaxes calls of it away where it links no loader, and then doesn't miss it.
            if name == b"__tls_get_addr" {
                if is_seen() {
                    plain.needed_by(prevailing);
                }
                continue;
            }
            // What is hidden can't come from elsewhere later: an error in a shared library too.
            let is_reported = config.undefined_is_reported || visibility != Visibility::Default;
            let is_undefined = match prevailing {
                Prevailing::Undefined { weak } => !weak,
                Prevailing::Linker => !has_section(link, index, symbol),
                Prevailing::Dso(_) | Prevailing::Module { .. } => false,
            };
            if is_seen() {
                plain.needed_by(prevailing);
                if is_undefined && is_reported {
                    plain.undefined.get_or_insert(symbol);
                }
            }
        }
        plain
    }

    fn needed_by(&mut self, prevailing: Prevailing) {
        if let Prevailing::Dso(dso) = prevailing {
            self.needed[dso.index()] = true;
        }
    }

    /// Whether the plain link records this DSO although it is `--as-needed`.
    pub fn needs(&self, dso: DsoId) -> bool {
        self.needed[dso.index()]
    }
}

/// Whether the plain link has a section that this `__start_X` or `__stop_X` means.
fn has_section(link: LinkInputs<'_>, index: &Index, symbol: SymbolId) -> bool {
    let LinkInputs { config, summaries, .. } = link;
    let start = index.start_stop.partition_point(|(id, _)| *id < symbol);
    let mut sections = index.start_stop.iter().skip(start).take_while(|(id, _)| *id == symbol);
    sections.any(|(_, atom)| !config.gc_sections || index.plain_live(summaries)[atom.index()])
}

/// Whether the plain link records the DSO, whatever is live: GNU ld and wild do so the moment that they take one.
fn needed_anyway(config: &Config, dso: &DsoState) -> bool {
    match config.linker.dialect {
        Dialect::Bfd | Dialect::Wild => dso.taken,
        _ => dso.referenced && !lazy_needed(config),
    }
}

/// lld with `--gc-sections` records a DSO only for references of live sections; all others count symbol tables.
fn lazy_needed(config: &Config) -> bool {
    config.gc_sections && config.linker.dialect == Dialect::Lld
}

/// The warning for a failure of ours, if there is one: the gravest, and of those the first.
pub fn warning(inputs: &Inputs, limits: &[PlacedLimit]) -> Option<String> {
    let of_severity = |severity: Severity| {
        let failure = move |(_, l): &&PlacedLimit| l.limit.severity() == severity && is_failure(l.limit);
        limits.iter().find(failure)
    };
    let whole_link = of_severity(Severity::Link);
    let (module, record) = whole_link.or_else(|| of_severity(Severity::Module))?;
    let place = module.map(|m| format!("{}: ", inputs.module_name(m))).unwrap_or_default();
    let consequence = if whole_link.is_some() { "nothing is pruned" } else { "the module is kept whole" };
    Some(format!("summarise: {place}{} ({}); {consequence}", record.detail, record.limit.name()))
}

/// Atoms that go, for the decision whether a pruned link is worth making.
pub fn drops_anything(plan: &Plan) -> bool {
    plan.modules.iter().any(|m| !m.is_untouched())
}
