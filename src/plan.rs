//! The pass plan: liveness becomes keep, drop or stub for each atom, per module.
//!
//! Emission applies a plan and decides nothing. A module is touched only if something goes from it, or if the
//! COMDAT group that stands for one of its own lost something: then its own copy, which the linker would take
//! instead, must go too.

mod action;
mod demanded;
mod empty_fdes;
mod excluded;
pub mod file;
mod fold;
pub mod limit;
mod linker_gc;
pub mod next_sections;

pub use action::{Action, DebugCollection, ModulePlan, Plan};
pub use linker_gc::{needs_no_analysis, needs_no_index};

use rayon::prelude::*;
use rustc_hash::FxHashSet;
use summaries::{AtomKind, Definition, ModuleKind, ModuleSummary, SymbolIdx};

use crate::config::{Config, DebugOption};
use crate::ids::{AtomId, Id, ModuleId, SymbolId};
use crate::index::{Index, IndexedModule, LinkInputs, has_code_or_data};
use crate::propagate::Liveness;
use crate::resolve::{LoadedModule, Prevailing, Resolution, start_stop_section};

/// The plan of a link, with what its linker may fold, and without what the linker removes by itself.
pub fn of_link(link: LinkInputs<'_>, index: &Index, liveness: &Liveness) -> Plan {
    let LinkInputs { config, inputs, resolution, summaries, .. } = link;
    let mut plan = plan(index, liveness, resolution, summaries);
    fold::mark_foldable(config, inputs, index, summaries, &mut plan);
    linker_gc::leave_to_linker(link, index, &mut plan);
    empty_fdes::leave_out(config, inputs, index, summaries, &mut plan);
    remove_unwind(config, index, &mut plan);
    excluded::leave_out(config, summaries, &mut plan);
    collect_debug(config, index, summaries, &mut plan);
    plan.demanded = demanded::of_link(index, summaries);
    plan
}

/// Say of each module which unwind entries it loses, and rewrite it for them.
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
            module.untouched = false;
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
    touch_copies_of_shrunk_groups(&mut plan, summaries);
    let gone = dropped_definitions(&plan, index, resolution, summaries);
    plan.modules.par_iter_mut().zip(both()).for_each(|(module, (this, summary))| {
        symbols(module, this.module, summary, resolution, &gone);
        // What can't be rewritten is passed as it is, and nothing of it went but what the linker discards.
        module.untouched |= summary.kind == ModuleKind::Bitcode && this.kept_whole;
        // What it says of code by numbers no longer fits. It would not be in the output, or nobody wants it there.
        if summary.without_debug && !module.untouched {
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
            module.untouched = false;
            module.debug = Some(DebugCollection::Unreferenced);
        } else if !module.untouched {
            module.debug = Some(DebugCollection::RemovedCode);
        }
    });
}

/// What becomes of the atoms of one module.
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
        untouched: ids.clone().all(|id| index.discarded[id.index()] || action(id) == Action::Keep),
        atoms: ids.map(action).collect(),
        prevails_elsewhere: Vec::new(),
        prevailing_dropped: Vec::new(),
        pin_visibility: Vec::new(),
        pin_mention: Vec::new(),
        discarded_groups: loaded.map_or_else(Vec::new, |m| discarded_groups(summary, m)),
        addresses: None,
        same_source: resolution.same_source.binary_search(&this.module).is_ok(),
        drops_empty_fdes: false,
        removes_unwind: Vec::new(),
        writes_debug_frame: false,
        section_names: Vec::new(),
        debug: None,
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

/// Fill in what emission needs to know of each global symbol of a module.
fn symbols(
    plan: &mut ModulePlan,
    module: ModuleId,
    summary: &ModuleSummary,
    resolution: &Resolution<'_>,
    gone: &[bool],
) {
    let count = summary.symbols.len();
    plan.prevails_elsewhere = vec![false; count];
    plan.prevailing_dropped = vec![false; count];
    plan.pin_visibility = vec![false; count];
    plan.pin_mention = vec![false; count];
    for (i, symbol) in summary.symbols.iter().enumerate() {
        let index = SymbolIdx::new(i);
        let Some(id) = resolution.symbol_id(module, index) else { continue };
        let prevailing = resolution.symbols[id].prevailing;
        let here = prevailing == Prevailing::Module { module, symbol: index };
        plan.prevailing_dropped[i] = gone[id.index()];
        // Of a symbol that is no more a mention would be a demand.
        plan.pin_mention[i] = resolution.symbols[id].by_bitcode && !gone[id.index()]
            || resolution.has_bitcode && start_stop_section(resolution.symbols[id].name).is_some();
        // Visibilities merge over all mentions; of a symbol that is no more there is nothing to merge.
        plan.pin_visibility[i] = !gone[id.index()];
        if symbol.definition != Definition::Undefined {
            plan.prevails_elsewhere[i] = !here;
        } else if gone[id.index()] {
            // No kept allocated section refers to it; what does (debug information) needs a tombstone.
            plan.untouched = false;
        }
    }
}

/// If the group that stands lost atoms, each other copy of it must go from its module.
fn touch_copies_of_shrunk_groups(plan: &mut Plan, summaries: &[&ModuleSummary]) {
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
            module.untouched = false;
        }
    }
}
