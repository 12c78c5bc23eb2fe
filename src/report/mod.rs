//! The report of a link: dropped and kept atoms, with reasons.
//!
//! A pure function of the index, the witnesses, the plan, the sizes and the linked file; it decides nothing. The
//! types of [`schema`] are the serialised form.

pub mod accounting;
mod answer;
pub mod calls;
pub mod contents;
mod duplicates;
pub mod graph;
mod json;
pub mod log;
mod names;
pub mod remarks;
mod schema;
pub mod table;
pub mod why;

pub use answer::{LinkAnswer, LinkerEnd};
use names::is_start_file;
pub(crate) use names::is_start_file_name;
pub use names::{Facts, FixedWord, NotDone, describe, edge_kind_name};
pub use schema::*;

use rustc_hash::FxHashMap;
use summaries::{Definition, LimitRecord, Severity, SymbolKind, atom_flags};

use crate::config::{Config, UnwindPruning};
use crate::error::lossy;
use crate::ids::{AtomId, Id, ModuleId};
use crate::index::{Index, LinkInputs, RemovedUnwind};
use crate::plan::{Action, Plan, SymbolFlags};
use crate::propagate::values::ValueFlow;
use crate::propagate::{Witness, nounwind};
use crate::pruned_link::PruneOutcome;
use accounting::{LiveCode, LoadedBytes, removed_bytes};
use names::{atom_kind_name, binding_name, module_kind_name, severity_name, symbol_kind_name};

/// The answer of a link from the results of its passes. `not_pruned` says why its originals are linked.
pub fn of_link(
    link: LinkInputs<'_>,
    index: &Index,
    flow: &ValueFlow,
    plan: &Plan,
    limits: &[(Option<ModuleId>, summaries::LimitRecord)],
    pruned: &PruneOutcome,
    not_pruned: Option<String>,
) -> LinkAnswer {
    let LinkInputs { config, inputs, resolution, summaries, .. } = link;
    if !config.wants_report() {
        return LinkAnswer::default();
    }
    let would_be = (config.prune.unwind == UnwindPruning::Keep && config.wants_unwind())
        .then(|| nounwind::removed(link, index, &flow.liveness, UnwindPruning::Unused));
    let removed = (config.prune.unwind != UnwindPruning::Keep).then_some(&index.removed_unwind);
    let facts = Facts {
        unwind: removed.or(would_be.as_ref()),
        config,
        inputs,
        resolution,
        summaries,
        index,
        liveness: &flow.liveness,
        flow,
        linker_live: index.plain_live(summaries),
        plan,
        limits,
    };
    let unpruned = table::not_pruned(facts, pruned, not_pruned.as_deref());
    let not_pruned_action = not_pruned.as_ref().and(unpruned.as_ref()).and_then(|why| why.action.clone());
    let mut report = Report { not_pruned, not_pruned_action, unpruned, ..report(facts, pruned) };
    if config.prune.report.is_some() {
        let of_graph = || (graph::graph(facts), graph::imports(facts));
        ((report.graph, report.imports), report.duplicates) =
            rayon::join(of_graph, || duplicates::groups(facts));
    }
    let asks = &config.prune.why;
    let why = match asks.is_empty() {
        true => String::new(),
        false => format!("{}:\n{}", config.output.display(), why::why(facts, asks, report.unpruned.as_ref())),
    };
    LinkAnswer { report: Some(Box::new(report)), why, ..LinkAnswer::default() }
}

impl Report {
    /// The report of a link that is not analysed.
    pub(crate) fn new(config: &Config) -> Self {
        Report {
            schema: SCHEMA,
            tool: format!("lto-prune {}", env!("CARGO_PKG_VERSION")),
            linker: LinkerReport {
                path: config.linker.path.display().to_string(),
                dialect: config.linker.flavor.name().into(),
                gc_sections: config.gc_sections,
                icf: config.icf.name().into(),
            },
            output: config.output.display().to_string(),
            level: config.prune.level.name().into(),
            dry_run: config.prune.off,
            graph: graph::GraphReport { start: vec![0], ..graph::GraphReport::default() },
            ..Report::default()
        }
    }
}

/// Make the report of a link and its outcome.
fn report(facts: Facts<'_>, outcome: &PruneOutcome) -> Report {
    let (config, pruned) = (facts.config, outcome.linked);
    let would_prune = config.prune.off && !crate::gate::forbids(facts.limits);
    let mut report = Report {
        pruned,
        analysed: true,
        modules: facts
            .resolution
            .loaded
            .iter()
            .zip(&facts.plan.modules)
            .zip(facts.summaries)
            .map(|((m, plan), summary)| {
                let input = &facts.inputs.modules[*m];
                let status = match (plan.passed_through, pruned) {
                    (false, true) => "pruned",
                    (false, false) if would_prune => "would-be-pruned",
                    _ => "untouched",
                };
                let path = |file| facts.inputs.files[file].path.display().to_string();
                let kind = module_kind_name(summary.kind).into();
                match &input.archive {
                    Some((archive, member)) => {
                        ModuleReport { name: member.clone(), archive: Some(path(*archive)), kind, status }
                    }
                    None => ModuleReport { name: path(input.file), archive: None, kind, status },
                }
            })
            .collect(),
        live_code: LiveCode::of(facts),
        loaded: LoadedBytes { output: None, removed: removed_bytes(facts, &outcome.totals) },
        totals: outcome.totals.clone(),
        limits: limit_reports(facts),
        unwind: facts.unwind.map(|unwind| unwind_report(config, unwind)),
        roots: graph::roots(facts),
        value_flow: calls::counts(facts),
        call_sites: calls::sites(facts),
        ..Report::new(config)
    };
    for position in 0..facts.index.modules.len() {
        add_module(facts, position, &mut report);
    }
    report.not_analysed = table::not_analysed(&report, config);
    report
}

fn add_module(facts: Facts<'_>, position: usize, report: &mut Report) {
    let this = facts.index.modules[position];
    let summary = facts.summaries[position];
    let plan = &facts.plan.modules[position];
    let mut names: Vec<Vec<String>> = vec![Vec::new(); summary.atoms.len()];
    for (i, symbol) in summary.symbols.iter().enumerate() {
        let (Definition::Atom(atom) | Definition::Common(atom)) = symbol.definition else { continue };
        if matches!(symbol.kind, SymbolKind::Section | SymbolKind::File) || symbol.name.len == 0 {
            continue;
        }
        let name = lossy(summary.name(symbol.name));
        if let Some(names) = names.get_mut(atom.index()) {
            names.push(name.clone());
        }
        let action = plan.atoms.get(atom.index()).copied().unwrap_or(Action::Drop);
        let live = action == Action::Keep;
        let prevails = !plan.symbol(i).has(SymbolFlags::PREVAILS_ELSEWHERE);
        let is_function = matches!(symbol.kind, SymbolKind::Func | SymbolKind::Ifunc);
        if is_function && prevails {
            let counts = &mut report.functions;
            *match action {
                Action::Keep => &mut counts.live,
                Action::Stub => &mut counts.stubs,
                Action::Drop => &mut counts.dead,
            } += 1;
        }
        report.symbols.push(SymbolReport {
            name,
            module: position as u32,
            atom: this.first_atom + atom.0,
            kind: symbol_kind_name(symbol.kind),
            binding: binding_name(symbol.binding),
            offset: matches!(symbol.definition, Definition::Atom(_)).then_some(symbol.value),
            size: symbol.size,
            live,
            prevails,
        });
    }
    let mut functions = vec![None; summary.atoms.len()];
    for function in &summary.functions {
        let entered = this.first_atom + function.atom.0;
        for atom in function.parts.iter().chain([&function.atom]) {
            if let Some(of) = functions.get_mut(atom.index()) {
                *of = Some(entered);
            }
        }
    }
    for (i, (atom, symbols)) in summary.atoms.iter().zip(names).enumerate() {
        let id = AtomId::new(this.first_atom as usize + i);
        let discarded = facts.index.discarded[id.index()];
        report.atoms.push(AtomReport {
            module: position as u32,
            section: lossy(summary.name(atom.name)),
            section_index: (atom.section != summaries::Atom::NO_SECTION).then_some(atom.section),
            offset: atom.offset,
            function: functions.get(i).copied().flatten(),
            kind: atom_kind_name(atom.kind).into(),
            size: atom.size,
            live: plan.atoms.get(i) == Some(&Action::Keep),
            state: match plan.atoms.get(i) {
                Some(Action::Keep) => AtomState::Kept,
                Some(Action::Stub) => AtomState::Stub,
                Some(Action::Drop) | None => AtomState::Dropped,
            },
            discarded,
            merge: atom.has(atom_flags::MERGE),
            linker_live: facts.linker_live[id.index()],
            symbols,
            witness: facts.liveness.witness[id.index()].and_then(|w| witness_report(facts, w)),
        });
    }
}

/// The form of a witness in the report. Every edge that keeps an atom is a reference, also a call, an escape or a label.
fn witness_report(facts: Facts<'_>, witness: Witness) -> Option<WitnessReport> {
    match witness {
        Witness::Root(number) => {
            let root = facts.index.roots[number as usize];
            let name = |s| lossy(facts.resolution.symbols[s].name);
            Some(WitnessReport::Root { reason: root.reason.name(), symbol: root.symbol.map(name) })
        }
        _ => {
            let graph::EdgeSource::Atom(from, kind) = graph::source(facts, witness) else { return None };
            let reference = match witness {
                Witness::Edge(number) => {
                    let summary = facts.summaries[facts.index.locate(from).0];
                    summary.references.get(facts.index.edges[number as usize].reference as usize)
                }
                _ => None,
            };
            Some(WitnessReport::Reference {
                from: from.index(),
                kind: kind.to_owned(),
                offset: reference.map(|r| r.offset),
            })
        }
    }
}

fn unwind_report(config: &Config, unwind: &RemovedUnwind) -> UnwindReport {
    let RemovedUnwind { count, bytes, needed, kept, .. } = unwind;
    UnwindReport {
        mode: config.prune.unwind.name().into(),
        functions: *count as u64,
        bytes: *bytes,
        kept: needed.len() as u64,
        why: kept.clone(),
    }
}

fn limit_reports(facts: Facts<'_>) -> Vec<LimitReport> {
    let loaded = facts.index.modules.iter().enumerate();
    let position_of: FxHashMap<ModuleId, usize> = loaded.map(|(i, module)| (module.module, i)).collect();
    // Only the kept bytes of an undivided section count.
    let kept = |module: Option<ModuleId>, record: &LimitRecord| {
        let position = module.and_then(|module| position_of.get(&module));
        let (Some(position), Some(section), Severity::Section) =
            (position, record.section, record.limit.severity())
        else {
            return record.bytes;
        };
        let atoms = facts.summaries[*position].atoms.iter().zip(&facts.plan.modules[*position].atoms);
        let own = atoms.filter(|(atom, action)| {
            let is_part = record.offset.is_none_or(|offset| offset == atom.offset);
            atom.section == section && is_part && **action == Action::Keep
        });
        record.bytes.min(own.map(|(atom, _)| atom.size).sum())
    };
    let mut reports: Vec<LimitReport> = Vec::new();
    for limit in summaries::Limit::ALL {
        let mut report: Option<LimitReport> = None;
        for (module, record) in facts.limits.iter().filter(|(_, record)| record.limit == *limit) {
            let is_start_file = module.is_some_and(|module| is_start_file(facts, module));
            let report = report.get_or_insert_with(|| LimitReport {
                limit: limit.name().into(),
                severity: severity_name(limit.severity()).into(),
                count: 0,
                bytes: 0,
                start_files: 0,
                start_file_bytes: 0,
                module: None,
                detail: String::new(),
                lifted_by: limit.lifted_by().into(),
            });
            // The first place is one that the user can change, if there is any.
            if report.count == 0 || !is_start_file && report.is_of_start_files() {
                report.module = module.map(|m| facts.inputs.module_name(m));
                report.detail.clone_from(&record.detail);
            }
            let bytes = kept(*module, record);
            report.count += 1;
            report.bytes += bytes;
            if is_start_file {
                report.start_files += 1;
                report.start_file_bytes += bytes;
            }
        }
        reports.extend(report);
    }
    reports
}
