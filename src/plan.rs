//! Pass 6, plan: liveness becomes keep, drop or stub for each atom, per module.
//!
//! Emission applies a plan and decides nothing. A module is touched only if something goes from it, or if the
//! COMDAT group that stands for one of its own lost something: then its own copy, which the linker would take
//! instead, must go too.

mod fold;
pub mod limit;
mod linker_gc;

use rustc_hash::FxHashSet;
use summaries::native::significance::Significance;
use summaries::{AtomIdx, AtomKind, Definition, ModuleKind, ModuleSummary, SymbolIdx};

use crate::ids::{AtomId, Id, ModuleId};
use crate::index::{Index, LinkInputs, has_code_or_data};
use crate::propagate::Liveness;
use crate::resolve::{LoadedModule, Prevailing, Resolution, start_stop_section};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Keep,
    Drop,
    /// Code of which the address is needed and the body is not: a trap takes its place ([`crate::propagate::can_stub`]).
    Stub,
}

/// The plan of one loaded module.
#[derive(Debug, Clone, Default)]
pub struct ModulePlan {
    /// The elements are indexed by `AtomIdx`.
    pub atoms: Vec<Action>,
    /// By ELF symbol index: the module defines this global symbol, and another definition (in another module, a
    /// DSO or the linker) prevails. If its atom is dropped, what still refers to it becomes a reference to that one.
    pub prevails_elsewhere: Vec<bool>,
    /// By ELF symbol index: the definition of this global symbol that prevails is dropped, so no module defines the
    /// name any more. Empty means "not known": debug information then refers to no definition in another module
    /// that replaces one dropped here.
    pub prevailing_dropped: Vec<bool>,
    /// By ELF symbol index: the non-default visibility of this global symbol must reach the linker although nothing
    /// else of the symbol stays here, because another module keeps a mention of it. Empty means "of all of them".
    pub pin_visibility: Vec<bool>,
    /// By ELF symbol index: bitcode mentions this global symbol, or it stands for a section of it, so that a mention of it here must
    /// stay: what the linker makes of bitcode depends on which of its symbols objects mention. Empty means "of none".
    pub pin_mention: Vec<bool>,
    /// ELF section indices of `SHT_GROUP` sections that another module's group replaces, sorted. All their atoms are dropped.
    pub discarded_groups: Vec<u32>,
    /// The module is passed to the linker as it is, the same bytes.
    pub untouched: bool,
    /// What its address-significance table says, if it gets one ([`fold::mark_foldable`]).
    pub addresses: Option<Significance>,
    /// By `AtomIdx`: the atom is emitted as a section of its own, with this name. Empty means "none of them".
    pub section_names: Vec<Option<Box<[u8]>>>,
}

impl ModulePlan {
    /// Whether the module is passed to the linker as it is, the same bytes.
    pub fn is_untouched(&self) -> bool {
        self.untouched
    }

    /// Whether the linker may give this atom, a function, the address of one like it.
    pub fn is_foldable(&self, atom: AtomIdx) -> bool {
        let keeps = self.atoms.get(atom.index()) == Some(&Action::Keep);
        keeps && self.addresses.as_ref().is_some_and(|a| a.foldable.get(atom.index()) == Some(&true))
    }

    /// The name of the section that this atom is emitted as, if it gets one of its own.
    pub fn section_name(&self, atom: AtomIdx) -> Option<&[u8]> {
        self.section_names.get(atom.index())?.as_deref()
    }

    /// Whether the section of which these are all the atoms is emitted in parts: some stay and others go, one is a stub, one can be
    /// folded without the others, or one gets a section of its own.
    pub fn parts(&self, atoms: std::ops::Range<usize>) -> bool {
        let actions = self.atoms.get(atoms.clone()).unwrap_or(&[]);
        let differs = |action: &Action| Some(action) != actions.first() || *action == Action::Stub;
        let several = atoms.len() > 1;
        let moves = |a: AtomIdx| several && self.is_foldable(a) || self.section_name(a).is_some();
        actions.iter().any(differs) || atoms.map(AtomIdx::new).any(moves)
    }
}

#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// The elements are in load order.
    pub modules: Vec<ModulePlan>,
    /// Dropped atoms, without those of groups that the linker discards anyway.
    pub dropped: usize,
    /// The number of atoms that become stubs.
    pub stubs: usize,
}

/// The plan of a link, with what its linker may fold, and without what the linker removes by itself.
pub fn of_link(link: LinkInputs<'_>, index: &Index, liveness: &Liveness) -> Plan {
    let LinkInputs { config, inputs, resolution, summaries } = link;
    let mut plan = plan(index, liveness, resolution, summaries);
    fold::mark_foldable(config, inputs, index, summaries, &mut plan);
    linker_gc::leave_to_linker(config, index, summaries, &mut plan);
    plan
}

/// Decide for each atom whether it is kept, dropped or made a stub, by the liveness of the whole link.
pub fn plan(
    index: &Index,
    liveness: &Liveness,
    resolution: &Resolution<'_>,
    summaries: &[&ModuleSummary],
) -> Plan {
    let (mut dropped, mut stubs) = (0, 0);
    let mut modules = Vec::with_capacity(summaries.len());
    for (this, summary) in index.modules.iter().zip(summaries) {
        let mut untouched = true;
        let mut atoms = Vec::with_capacity(summary.atoms.len());
        for i in 0..summary.atoms.len() {
            let id = AtomId::new(this.first_atom as usize + i);
            let action = if index.discarded[id.index()] {
                Action::Drop
            } else if liveness.is_stub(id) {
                stubs += 1;
                untouched = false;
                Action::Stub
            } else if liveness.is_live(id) {
                Action::Keep
            } else {
                dropped += 1;
                untouched = false;
                Action::Drop
            };
            atoms.push(action);
        }
        let loaded = resolution.modules[this.module].as_ref();
        modules.push(ModulePlan {
            atoms,
            prevails_elsewhere: Vec::new(),
            prevailing_dropped: Vec::new(),
            pin_visibility: Vec::new(),
            pin_mention: Vec::new(),
            discarded_groups: loaded.map_or_else(Vec::new, |m| discarded_groups(summary, m)),
            untouched,
            addresses: None,
            section_names: Vec::new(),
        });
    }
    let mut plan = Plan { modules, dropped, stubs };
    touch_copies_of_shrunk_groups(&mut plan, summaries);
    let gone = dropped_definitions(&plan, index, resolution, summaries);
    for ((module, this), summary) in plan.modules.iter_mut().zip(&index.modules).zip(summaries) {
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
    }
    plan
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
    let mut gone = vec![false; resolution.symbols.len()];
    for ((module, this), summary) in plan.modules.iter().zip(&index.modules).zip(summaries) {
        for (i, symbol) in summary.symbols.iter().enumerate() {
            let (Definition::Atom(atom) | Definition::Common(atom)) = symbol.definition else { continue };
            let symbol = SymbolIdx::new(i);
            let Some(id) = resolution.symbol_id(this.module, symbol) else { continue };
            let prevails =
                resolution.symbols[id].prevailing == Prevailing::Module { module: this.module, symbol };
            gone[id.index()] |= prevails && module.atoms[atom.index()] == Action::Drop;
        }
    }
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
