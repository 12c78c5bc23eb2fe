//! The pass plan: liveness becomes keep, drop or stub for each atom, per module.
//!
//! Emission applies a plan and decides nothing. A module is modified if something is removed from it, or if the prevailing copy of
//! one of its COMDAT groups lost something. Then its own copy is removed too, because the linker would take it instead.

mod action;
pub mod file;
mod for_linkers;
mod fold;
pub mod limit;
mod linker_gc;

pub use action::{Action, DebugCollection, ModulePlan, Plan, SymbolFlags};
pub use linker_gc::{needs_no_analysis, needs_no_index};

use rayon::prelude::*;
use rustc_hash::FxHashSet;
use summaries::native::{self, AtomFate};
use summaries::{AtomIdx, AtomKind, Definition, Granularity, ModuleKind, ModuleSummary, SymbolIdx};

use crate::config::{Config, DebugOption, Level};
use crate::ids::{AtomId, Id, ModuleId, SymbolId};
use crate::index::{Index, IndexedModule, LinkInputs, has_code_or_data};
use crate::propagate::Liveness;
use crate::resolve::{LoadedModule, Prevailing, Resolution, start_stop_section};

/// The plan of a link, adjusted to its linker and options. Steps that modify modules again come after `leave_to_linker`, which passes all
/// modules through.
pub fn of_link(link: LinkInputs<'_>, index: &Index, liveness: &Liveness) -> Plan {
    let LinkInputs { config, inputs, resolution, summaries, .. } = link;
    let mut plan = plan(index, liveness, resolution, summaries);
    fold::mark_foldable(config, inputs, index, summaries, &mut plan);
    linker_gc::leave_to_linker(link, index, &mut plan);
    for_linkers::remove_empty_fdes(config, inputs, index, summaries, &mut plan);
    remove_unwind(config, index, &mut plan);
    for_linkers::remove_embedded_bitcode(config, summaries, &mut plan);
    collect_debug(config, index, summaries, &mut plan);
    plan.demanded = for_linkers::demanded(index, summaries);
    plan
}

/// Mark the unwind entries that each module loses, and modify the module for them.
fn remove_unwind(config: &Config, index: &Index, plan: &mut Plan) {
    if index.removed_unwind.count == 0 {
        return;
    }
    let modules = plan.modules.par_iter_mut().enumerate();
    modules.filter(|(position, _)| !index.modules[*position].kept_whole).for_each(|(position, module)| {
        let removed = index.removed_unwind.entries.get(index.atoms_of(position)).unwrap_or(&[]);
        let of_kept = |(removed, action): (&bool, &Action)| *removed && *action == Action::Keep;
        if removed.iter().zip(&module.atoms).any(of_kept) {
            module.removes_unwind = removed.to_vec();
            module.writes_debug_frame = !config.drops_debug();
            module.passed_through = false;
        }
    });
}

/// Decide for each atom whether it is kept, dropped or made a stub, by the liveness of the whole link.
pub fn plan(
    index: &Index,
    liveness: &Liveness,
    resolution: &Resolution<'_>,
    summaries: &[&ModuleSummary],
) -> Plan {
    let both = || index.modules.par_iter().zip(summaries);
    let modules: Vec<ModulePlan> =
        both().map(|(this, summary)| of_module(index, liveness, resolution, this, summary)).collect();
    let count = |of: Action| {
        let atoms = modules.par_iter().map(|module| &module.atoms).enumerate();
        let of_module = |(position, atoms): (usize, &Vec<Action>)| {
            let prevail = index.discarded.get(index.atoms_of(position)).unwrap_or(&[]);
            atoms.iter().zip(prevail).filter(|(action, discarded)| **action == of && !**discarded).count()
        };
        atoms.map(of_module).sum()
    };
    let (dropped, stubs) = (count(Action::Drop), count(Action::Stub));
    let mut plan = Plan { modules, dropped, stubs, demanded: Vec::new() };
    modify_copies_of_shrunk_groups(&mut plan, summaries);
    let gone = dropped_definitions(&plan, index, resolution, summaries);
    plan.modules.par_iter_mut().zip(both()).for_each(|(module, (this, summary))| {
        symbols(module, this.module, summary, resolution, &gone);
        // Bitcode that can't be rewritten is passed through; it loses only what the linker discards.
        module.passed_through |= summary.kind == ModuleKind::Bitcode && this.kept_whole;
        // Debug information that no longer fits the code is dropped where the output has none.
        if summary.without_debug && !module.passed_through {
            let debug = summary.atoms.iter().map(|a| a.kind == AtomKind::Debug);
            for (action, _) in module.atoms.iter_mut().zip(debug).filter(|(_, is_debug)| *is_debug) {
                *action = Action::Drop;
            }
        }
    });
    plan
}

/// Decide which modules lose debugging information entries. A module that can't be rewritten keeps them.
fn collect_debug(config: &Config, index: &Index, summaries: &[&ModuleSummary], plan: &mut Plan) {
    let shrinks = config.prune.debug == DebugOption::Shrink;
    plan.modules.par_iter_mut().zip(&index.modules).zip(summaries).for_each(|((module, this), summary)| {
        let debug = |(atom, action): (&summaries::Atom, &Action)| {
            atom.kind == AtomKind::Debug && *action == Action::Keep
        };
        let has_debug = summary.atoms.iter().zip(&module.atoms).any(debug);
        if summary.kind != ModuleKind::Native || this.kept_whole || !has_debug {
            return;
        }
        if shrinks {
            module.passed_through = false;
            module.debug = Some(DebugCollection::Unreferenced);
        } else if !module.passed_through {
            module.debug = Some(DebugCollection::RemovedCode);
        }
    });
}

/// The actions for the atoms of one module.
fn of_module(
    index: &Index,
    liveness: &Liveness,
    resolution: &Resolution<'_>,
    this: &IndexedModule,
    summary: &ModuleSummary,
) -> ModulePlan {
    let ids = (this.first_atom..).map(AtomId).take(summary.atoms.len());
    let action = |id: AtomId| match () {
        () if index.discarded[id.index()] => Action::Drop,
        () if liveness.is_stub(id) => Action::Stub,
        () if liveness.is_live(id) => Action::Keep,
        () => Action::Drop,
    };
    let loaded = resolution.modules[this.module].as_ref();
    ModulePlan {
        passed_through: ids.clone().all(|id| index.discarded[id.index()] || action(id) == Action::Keep),
        atoms: ids.map(action).collect(),
        discarded_groups: loaded.map_or_else(Vec::new, |m| discarded_groups(summary, m)),
        same_source: resolution.same_source.binary_search(&this.module).is_ok(),
        ..ModulePlan::default()
    }
}

/// The groups of a module that another module's group replaces, without those that are left to the linker.
fn discarded_groups(summary: &ModuleSummary, module: &LoadedModule) -> Vec<u32> {
    let of_link = |g: &&summaries::Group| module.discarded_groups.binary_search(&g.section).is_ok();
    let groups = summary.groups.iter().filter(of_link).filter(|g| has_code_or_data(summary, g));
    let mut sections: Vec<u32> = groups.map(|g| g.section).collect();
    sections.sort_unstable();
    sections
}

/// By global symbol: its prevailing definition is dropped.
fn dropped_definitions(
    plan: &Plan,
    index: &Index,
    resolution: &Resolution<'_>,
    summaries: &[&ModuleSummary],
) -> Vec<bool> {
    let modules = plan.modules.par_iter().zip(&index.modules).zip(summaries);
    let dropped = modules.flat_map_iter(|((module, this), summary)| {
        let symbols = summary.symbols.iter().enumerate();
        symbols.filter_map(move |(i, symbol)| {
            let (Definition::Atom(atom) | Definition::Common(atom)) = symbol.definition else { return None };
            let symbol = SymbolIdx::new(i);
            let id = resolution.symbol_id(this.module, symbol)?;
            let prevailing = Prevailing::Module { module: this.module, symbol };
            let is_gone =
                module.atoms[atom.index()] == Action::Drop && resolution.symbols[id].prevailing == prevailing;
            is_gone.then_some(id)
        })
    });
    let dropped: Vec<SymbolId> = dropped.collect();
    let mut gone = vec![false; resolution.symbols.len()];
    dropped.into_iter().for_each(|id| gone[id.index()] = true);
    gone
}

/// Set the flags that emission needs of each global symbol of a module.
fn symbols(
    plan: &mut ModulePlan,
    module: ModuleId,
    summary: &ModuleSummary,
    resolution: &Resolution<'_>,
    gone: &[bool],
) {
    plan.symbols = vec![SymbolFlags::default(); summary.symbols.len()];
    for (i, (symbol, flags)) in summary.symbols.iter().zip(&mut plan.symbols).enumerate() {
        let index = SymbolIdx::new(i);
        let Some(id) = resolution.symbol_id(module, index) else { continue };
        let (global, is_gone) = (&resolution.symbols[id], gone[id.index()]);
        flags.set(SymbolFlags::DEFINITION_DROPPED, is_gone);
        flags.set(SymbolFlags::DEFINITION_KEPT, !is_gone);
        // An undefined symbol for a dropped definition would be a required reference.
        let is_seen = global.by_bitcode && !is_gone
            || resolution.has_bitcode && start_stop_section(global.name).is_some();
        flags.set(SymbolFlags::SEEN_BY_BITCODE, is_seen);
        if symbol.definition != Definition::Undefined {
            let is_own = global.prevailing == Prevailing::Module { module, symbol: index };
            flags.set(SymbolFlags::PREVAILS_ELSEWHERE, !is_own);
        } else if is_gone {
            // Only debug information still refers to it, and needs a tombstone.
            plan.passed_through = false;
        }
    }
}

/// If the prevailing group lost atoms, each other copy of it is removed from its module.
fn modify_copies_of_shrunk_groups(plan: &mut Plan, summaries: &[&ModuleSummary]) {
    let mut shrunk: FxHashSet<&[u8]> = FxHashSet::default();
    for (module, summary) in plan.modules.iter().zip(summaries) {
        for group in &summary.groups {
            let stands = module.discarded_groups.binary_search(&group.section).is_err();
            let lost = group.members.iter().any(|m| module.atoms[m.index()] != Action::Keep);
            if group.comdat && stands && lost {
                shrunk.insert(summary.symbol_name(group.signature));
            }
        }
    }
    for (module, summary) in plan.modules.iter_mut().zip(summaries) {
        let copies = |g: &&summaries::Group| module.discarded_groups.binary_search(&g.section).is_ok();
        if summary.groups.iter().filter(copies).any(|g| shrunk.contains(summary.symbol_name(g.signature))) {
            module.passed_through = false;
        }
    }
}

/// The atoms that the plan drops although kept code may fall through into them, in modules whose code was not read.
///
/// Hand-written assembly may run on past the end of its section. That matters only if the plan drops the section that linkers place
/// next, so only that code is decoded. The dropped section becomes a root if control may reach it.
pub fn next_sections(link: LinkInputs<'_>, index: &Index, plan: &Plan) -> Vec<AtomId> {
    let LinkInputs { config, inputs, summaries, .. } = link;
    // At this level the summaries have those edges.
    if config.prune.level == Level::Sections {
        return Vec::new();
    }
    let of_module = |position: usize| {
        let (this, summary, module) =
            (&index.modules[position], summaries[position], &plan.modules[position]);
        let is_undivided = summary.kind == ModuleKind::Native && summary.granularity == Granularity::Sections;
        if !is_undivided || module.passed_through {
            return Vec::new();
        }
        let global = |atom: AtomIdx| AtomId(this.first_atom + atom.0);
        let fate = |atom: AtomIdx| match module.atoms.get(atom.index()) {
            _ if index.discarded[global(atom).index()] => AtomFate::Discarded,
            Some(Action::Drop) => AtomFate::Dropped,
            _ => AtomFate::Kept,
        };
        let next = native::next_sections(inputs.module_bytes(this.module), summary, &fate);
        next.into_iter().map(global).collect()
    };
    (0..summaries.len()).into_par_iter().flat_map_iter(of_module).collect()
}
