//! Pass 10, report: what went, what stayed and why.
//!
//! A pure function of the index, the witnesses, the plan, the sizes and the linked file; it decides nothing. The
//! types here are the serialised form (docs/REPORT_FORMAT.md); [`SCHEMA`] changes when they do.

pub mod accounting;
pub mod calls;
pub mod contents;
mod duplicates;
pub mod graph;
pub mod imports;
mod json;
pub mod live_code;
pub mod log;
mod names;
pub mod remarks;
pub mod table;
pub mod why;

use serde::Serialize;
use summaries::{Definition, ModuleSummary, SymbolIdx, SymbolKind, atom_flags};

use crate::config::Config;
use crate::error::{Error, Result, Stage};
use crate::ids::{AtomId, Id, ModuleId};
use crate::index::{Index, LinkInputs};
use crate::inputs::Inputs;
use crate::inputs::mapped::Mapped;
use crate::plan::{Action, Plan};
use crate::propagate::values::ValueFlow;
use crate::propagate::{Liveness, Witness};
use crate::pruned_link::Pruned;
use crate::resolve::Resolution;
use crate::timing::Timer;
use accounting::Totals;
pub use names::edge_kind_name;
use names::{
    atom_kind_name, binding_name, dialect_name, icf_name, level_name, module_kind_name, severity_name,
    symbol_kind_name,
};

pub const SCHEMA: u32 = 2;

#[derive(Debug, Serialize)]
pub struct Report {
    pub schema: u32,
    pub tool: String,
    pub linker: LinkerReport,
    pub output: String,
    /// It is the level of the analysis.
    pub level: &'static str,
    /// `--prune-level=off`: nothing was to be pruned; the rest says what would have been.
    pub shadow: bool,
    /// Whether the output was linked from pruned objects.
    pub pruned: bool,
    /// The elements are in load order.
    pub modules: Vec<ModuleReport>,
    pub atoms: Vec<AtomReport>,
    pub symbols: Vec<SymbolReport>,
    pub functions: Counts,
    pub live_code: live_code::LiveCode,
    pub totals: Totals,
    pub limits: Vec<LimitReport>,
    /// What is live by itself, ascending by atom.
    pub roots: Vec<graph::RootReport>,
    pub graph: graph::GraphReport,
    /// What is used and defined elsewhere, by symbol.
    pub imports: Vec<imports::ImportReport>,
    /// Atoms with the same contents, in groups: positions in `atoms`.
    pub duplicates: Vec<Vec<u32>>,
    /// The linked file; null if it could not be read.
    pub file: Option<contents::FileReport>,
    /// Counts of value flow, at the level `pointers`.
    pub value_flow: Option<calls::FlowReport>,
    /// Indirect calls of live functions, at the level `pointers`.
    pub call_sites: Vec<calls::CallSiteReport>,
}

#[derive(Debug, Serialize)]
pub struct LinkerReport {
    pub path: String,
    pub dialect: &'static str,
    pub gc_sections: bool,
    /// `none`, `safe` or `all`: whether the linker joins the same code.
    pub icf: &'static str,
}

#[derive(Debug, Serialize)]
pub struct ModuleReport {
    /// It is a path, or the member's name.
    pub name: String,
    pub archive: Option<String>,
    /// `native` or `bitcode`; `opaque` where it is neither.
    pub kind: &'static str,
    /// `pruned`, or `untouched` where nothing goes, or `would-be-pruned` in a shadow report.
    pub status: &'static str,
}

/// An atom: a section, at this granularity.
#[derive(Debug, Serialize)]
pub struct AtomReport {
    /// It is a position in `modules`.
    pub module: usize,
    pub section: String,
    /// ELF index of the section; null for a common symbol.
    pub section_index: Option<u32>,
    /// First byte, from the start of the section.
    pub offset: u64,
    /// Position in `atoms` of where the function that it belongs to is entered; null for data, and for code of which the values are
    /// not followed.
    pub function: Option<usize>,
    pub kind: &'static str,
    /// It is a number of bytes.
    pub size: u64,
    pub live: bool,
    /// `kept`, `stub` (only its address is needed) or `dropped`.
    pub state: &'static str,
    /// Another module's COMDAT group stands for it; the linker drops it in any case.
    pub discarded: bool,
    /// The linker joins what is the same in it (`SHF_MERGE`).
    pub merge: bool,
    /// Whether the plain linker's `--gc-sections` would find it live.
    pub linker_live: bool,
    pub symbols: Vec<String>,
    pub witness: Option<WitnessReport>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "by", rename_all = "kebab-case")]
pub enum WitnessReport {
    Root {
        reason: &'static str,
        symbol: Option<String>,
    },
    Reference {
        /// It is a position in `atoms`.
        from: usize,
        kind: String,
        /// In bytes, from the start of the section of `from` (of its `.eh_frame` for `unwind`).
        offset: Option<u64>,
    },
}

/// A symbol that a loaded module defines.
#[derive(Debug, Serialize)]
pub struct SymbolReport {
    pub name: String,
    /// It is a position in `modules`.
    pub module: usize,
    /// It is a position in `atoms`.
    pub atom: usize,
    pub kind: &'static str,
    pub binding: &'static str,
    /// In bytes, from the start of the section; null for a common symbol.
    pub offset: Option<u64>,
    /// It is a number of bytes.
    pub size: u64,
    pub live: bool,
    /// Its definition is the one that the linker takes.
    pub prevails: bool,
}

/// Prevailing functions of the index, as LLVM counts live and dead.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Counts {
    pub live: usize,
    /// Of these only the address is needed; they are neither live nor dead.
    pub stubs: usize,
    pub dead: usize,
}

/// A limit, joined over its places.
#[derive(Debug, Serialize)]
pub struct LimitReport {
    pub limit: &'static str,
    pub severity: &'static str,
    pub count: usize,
    /// In bytes, where that is known.
    pub bytes: u64,
    /// The module of the first such place.
    pub module: Option<String>,
    pub detail: String,
    pub lifted_by: &'static str,
}

/// What the report is made of.
#[derive(Clone, Copy)]
pub struct Facts<'s> {
    pub config: &'s Config,
    pub inputs: &'s Inputs,
    pub resolution: &'s Resolution<'s>,
    /// The elements are in load order.
    pub summaries: &'s [&'s ModuleSummary],
    pub index: &'s Index,
    pub liveness: &'s Liveness,
    /// What value flow found beside it; empty below the level `pointers`.
    pub flow: &'s ValueFlow,
    /// The elements are those of [`crate::index::Index::plain_live`], by atom.
    pub linker_live: &'s [bool],
    pub plan: &'s Plan,
    pub limits: &'s [(Option<ModuleId>, summaries::LimitRecord)],
}

/// Write every form of the report of a link that was asked for. The result is what is in the JSON, if that was.
///
/// # Errors
/// A file can't be written.
pub fn of_link(
    link: LinkInputs<'_>,
    index: &Index,
    flow: &ValueFlow,
    plan: &Plan,
    limits: &[(Option<ModuleId>, summaries::LimitRecord)],
    pruned: &Pruned,
    timer: &mut Timer,
) -> Result<Option<Box<Report>>> {
    let LinkInputs { config, inputs, resolution, summaries } = link;
    if !config.prune.wants_report() {
        return Ok(None);
    }
    let facts = Facts {
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
    let written = timer.stage(Stage::Report, || write(facts, pruned.totals.clone(), pruned.linked))?;
    Ok(config.prune.report.is_some().then(|| Box::new(written)))
}

/// Write every form of the report that was asked for. The result is what is in the JSON.
///
/// # Errors
/// A file can't be written.
pub fn write(facts: Facts<'_>, totals: Totals, pruned: bool) -> Result<Report> {
    let prune = &facts.config.prune;
    let mut report = report(facts, totals, pruned);
    if prune.report.is_some() {
        let of_graph = || (graph::graph(facts), imports::imports(facts));
        ((report.graph, report.imports), report.duplicates) =
            rayon::join(of_graph, || duplicates::groups(facts));
    }
    // Where the originals are linked that is still to come.
    match pruned {
        true => complete(&mut report, facts.config)?,
        false => write_json(&report, facts.config)?,
    }
    if let Some(path) = &prune.remarks {
        write_file(path, remarks::remarks(&report).as_bytes())?;
    }
    if !prune.why.is_empty() {
        print!("{}", why::why(facts, &prune.why));
    }
    if prune.stats {
        eprint!("{}", table::table(&report, prune));
    }
    Ok(report)
}

/// Add what the linked file consists of, and write the JSON.
///
/// # Errors
/// The report can't be written.
pub fn complete(report: &mut Report, config: &Config) -> Result<()> {
    if config.prune.report.is_some() {
        // An output that is no file of ours to read any more leaves the field empty.
        report.file = Mapped::open(&config.output).ok().map(|data| contents::file(&data));
    }
    write_json(report, config)
}

fn write_json(report: &Report, config: &Config) -> Result<()> {
    let Some(path) = &config.prune.report else { return Ok(()) };
    let failed = |e| Error::new(Stage::Report, format!("cannot write the report: {e}"));
    write_file(path, &json::text(report).map_err(failed)?)
}

fn write_file(path: &std::path::Path, text: &[u8]) -> Result<()> {
    std::fs::write(path, text).map_err(|e| Error::io(Stage::Report, path, "write the report", e))
}

/// Make the report. `totals` are the sizes of plain and emitted modules.
pub fn report(facts: Facts<'_>, totals: Totals, pruned: bool) -> Report {
    let config = facts.config;
    let would_prune = config.prune.off && !crate::refusal::forbids(facts.limits);
    let mut report = Report {
        schema: SCHEMA,
        tool: format!("lto-prune {}", env!("CARGO_PKG_VERSION")),
        linker: LinkerReport {
            path: config.linker.path.display().to_string(),
            dialect: dialect_name(config.linker.dialect),
            gc_sections: config.gc_sections,
            icf: icf_name(config),
        },
        output: config.output.display().to_string(),
        level: level_name(config.prune.level),
        shadow: config.prune.off,
        pruned,
        modules: facts
            .resolution
            .loaded
            .iter()
            .zip(&facts.plan.modules)
            .zip(facts.summaries)
            .map(|((m, plan), summary)| {
                let input = &facts.inputs.modules[*m];
                let status = match (plan.is_untouched(), pruned) {
                    (false, true) => "pruned",
                    (false, false) if would_prune => "would-be-pruned",
                    _ => "untouched",
                };
                let path = |file| facts.inputs.files[file].path.display().to_string();
                let kind = module_kind_name(summary.kind);
                match &input.archive {
                    Some((archive, member)) => {
                        ModuleReport { name: member.clone(), archive: Some(path(*archive)), kind, status }
                    }
                    None => ModuleReport { name: path(input.file), archive: None, kind, status },
                }
            })
            .collect(),
        atoms: Vec::new(),
        symbols: Vec::new(),
        functions: Counts::default(),
        live_code: live_code::LiveCode::of(facts.index, facts.summaries),
        totals,
        limits: limit_reports(facts),
        roots: graph::roots(facts),
        graph: graph::GraphReport::default(),
        imports: Vec::new(),
        duplicates: Vec::new(),
        file: None,
        value_flow: calls::counts(facts),
        call_sites: calls::sites(facts),
    };
    for position in 0..facts.index.modules.len() {
        add_module(facts, position, &mut report);
    }
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
        let prevails = !plan.prevails_elsewhere.get(i).copied().unwrap_or(false);
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
            module: position,
            atom: this.first_atom as usize + atom.index(),
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
        let entered = this.first_atom as usize + function.atom.index();
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
            module: position,
            section: lossy(summary.name(atom.name)),
            section_index: (atom.section != summaries::Atom::NO_SECTION).then_some(atom.section),
            offset: atom.offset,
            function: functions.get(i).copied().flatten(),
            kind: atom_kind_name(atom.kind),
            size: atom.size,
            live: plan.atoms.get(i) == Some(&Action::Keep),
            state: match plan.atoms.get(i) {
                Some(Action::Keep) => "kept",
                Some(Action::Stub) => "stub",
                Some(Action::Drop) | None => "dropped",
            },
            discarded,
            merge: atom.has(atom_flags::MERGE),
            linker_live: facts.linker_live[id.index()],
            symbols,
            witness: facts.liveness.witness[id.index()].and_then(|w| witness_report(facts, w)),
        });
    }
}

fn witness_report(facts: Facts<'_>, witness: Witness) -> Option<WitnessReport> {
    match witness {
        Witness::Root(number) => {
            let root = facts.index.roots[number as usize];
            let name = |s| lossy(facts.resolution.symbols[s].name);
            Some(WitnessReport::Root { reason: root.reason.name(), symbol: root.symbol.map(name) })
        }
        Witness::Edge(number) => {
            let edge = facts.index.edges[number as usize];
            let from = facts.index.edge_source(number);
            let (position, _) = facts.index.locate(from);
            let reference = facts.summaries[position].references.get(edge.reference as usize);
            Some(WitnessReport::Reference {
                from: from.index(),
                kind: edge_kind_name(edge.kind).to_owned(),
                offset: reference.map(|r| r.offset),
            })
        }
        Witness::Called { .. } | Witness::Escaped { .. } | Witness::Part(_) | Witness::Label(_) => {
            let kind = graph::followed_kind(witness);
            let from = why::followed(facts, witness).1?;
            Some(WitnessReport::Reference { from: from.index(), kind: kind.to_owned(), offset: None })
        }
    }
}

fn limit_reports(facts: Facts<'_>) -> Vec<LimitReport> {
    let mut reports: Vec<LimitReport> = Vec::new();
    for limit in summaries::Limit::ALL {
        let mut places = facts.limits.iter().filter(|(_, r)| r.limit == *limit);
        let Some((module, first)) = places.next() else { continue };
        let rest: Vec<_> = places.collect();
        reports.push(LimitReport {
            limit: limit.name(),
            severity: severity_name(limit.severity()),
            count: 1 + rest.len(),
            bytes: first.bytes + rest.iter().map(|(_, r)| r.bytes).sum::<u64>(),
            module: module.map(|m| facts.inputs.module_name(m)),
            detail: first.detail.clone(),
            lifted_by: limit.lifted_by(),
        });
    }
    reports
}

/// The name of an atom for a person: its first function or object, else its section, with its module.
pub fn describe(facts: Facts<'_>, atom: AtomId) -> String {
    let (position, local) = facts.index.locate(atom);
    let summary = facts.summaries[position];
    let module = facts.inputs.module_name(facts.resolution.loaded[position]);
    let named = |(i, s): (usize, &summaries::Symbol)| {
        let here = matches!(s.definition, Definition::Atom(a) | Definition::Common(a) if a == local);
        let plain = !matches!(s.kind, SymbolKind::Section | SymbolKind::File) && s.name.len > 0;
        (here && plain).then(|| lossy(summary.symbol_name(SymbolIdx::new(i))))
    };
    let section = lossy(summary.name(summary.atoms[local.index()].name));
    match summary.symbols.iter().enumerate().find_map(named) {
        Some(symbol) => format!("{symbol} ({module}:({section}))"),
        None => format!("{module}:({section})"),
    }
}

pub(crate) fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
