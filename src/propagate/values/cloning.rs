//! Context sensitivity by cloning: some calls analyse a copy of their callee, with the values of that call alone.
//!
//! A small function whose result or effect depends on its caller has a clone for each call site, to a depth of [`MAX_DEPTH`] functions.
//! Without clones, all memory that a program allocates through its own function (`xmalloc`) is one object. A setter would store all
//! values in all objects. External code calls further clones, also of large functions, so that its arguments reach no other call. Clones
//! are sound: each run of a function has one caller, and a clone has all constraints of the function. All other calls (from a library, at
//! a label, over the budget) share one copy. A function with a label or an indirect jump has no clone, since control may enter and leave
//! it elsewhere.

use summaries::models::Effect;
use summaries::registers::{RAX, Register};
use summaries::relation::{CallSite, Callee, Constraint, FunctionSummary};
use summaries::{AtomIdx, ValueIdx};

use super::flow::Flow;
use super::function_clone::{Dependence, FunctionClone, MAX_DEPTH};
use super::places::{LinkPlaces, ResolvedPlace};
use crate::ids::{AtomId, Id};
use crate::index::EdgeEffect;

/// The most values of a function that has a clone for a call. An allocation function that checks its result and reports a failure has fewer.
const MAX_VALUES: u32 = u64::BITS;

/// The clones for calls that any link may have. A link with more functions may have as many clones as functions.
pub(super) const MIN_CLONES: usize = 1024;

impl Flow<'_> {
    /// The function or clone that a direct call of `callee` joins. `caller` is the calling function or clone; `looks`: the caller uses
    /// the result.
    pub(super) fn clone_for_call(&mut self, caller: u32, looks: bool, callee: u32, atom: AtomId) -> u32 {
        let depth = self.functions[caller as usize].depth;
        let others = self.functions[callee as usize].others;
        let are_spent = self.call_clones >= self.common.max(MIN_CLONES);
        let is_within = depth <= MAX_DEPTH && others < self.graph.budget.clones && !are_spent;
        let depends = |by: Dependence| by == Dependence::Effect || by == Dependence::Result && looks;
        if !is_within || !depends(self.dependence(callee, MAX_DEPTH - depth.min(MAX_DEPTH))) {
            return self.clone_for_context(caller, callee, atom);
        }
        self.functions[callee as usize].others += 1;
        self.call_clones += 1;
        let for_unseen = self.functions[caller as usize].for_unseen;
        self.add_clone(callee, depth + 1, for_unseen, atom)
    }

    /// The function or clone for a call that has no clone of its own. Clones for external code call other such clones.
    pub(super) fn clone_for_context(&mut self, caller: u32, callee: u32, atom: AtomId) -> u32 {
        match self.functions[caller as usize].for_unseen {
            true => self.clone_for_unseen(callee, atom),
            false => callee,
        }
    }

    /// The function or clone that external code calls.
    pub(super) fn clone_for_unseen(&mut self, function: u32, atom: AtomId) -> u32 {
        if let Some(known) = self.functions[function as usize].unseen_clone {
            return known;
        }
        let summary = self.summary(function);
        let is_small = summary.values <= self.graph.budget.unseen_values;
        let position = self.functions[function as usize].position;
        let is_entry = |part: &AtomIdx| self.entered[self.places.global(position, *part).index()];
        let is_entered = std::iter::once(&summary.atom).chain(&summary.parts).any(is_entry);
        let clone = match is_small && !is_entered && is_left_by_returns(summary) {
            true => self.add_clone(function, 0, true, atom),
            false => function,
        };
        self.functions[function as usize].unseen_clone = Some(clone);
        clone
    }

    /// By atom: it is a root, or code that is not analysed refers to it. Such a function (`main`) has no clone for external code, since
    /// few have other callers. A clone would analyse all its callees twice.
    pub(super) fn entered_atoms(places: &LinkPlaces<'_>) -> Vec<bool> {
        let index = places.sources.index;
        let mut entered = vec![false; places.atoms()];
        index.roots.iter().for_each(|root| entered[root.atom.index()] = true);
        for atom in (0..places.atoms()).map(AtomId::new).filter(|atom| !places.is_dead(*atom)) {
            let escapes = index.edges_of(atom).1.iter().filter(|edge| edge.effect == EdgeEffect::Escape);
            escapes.for_each(|edge| entered[edge.target.index()] = true);
        }
        entered
    }

    fn add_clone(&mut self, function: u32, depth: usize, for_unseen: bool, atom: AtomId) -> u32 {
        let FunctionClone { position, local, .. } = self.functions[function as usize];
        let id = self.functions.len() as u32;
        self.functions.push(FunctionClone { depth, for_unseen, ..FunctionClone::new(position, local) });
        self.pending_stack_arguments.push(Vec::new());
        // The constraints are added later, since clones may call each other.
        self.made.push((id, atom));
        id
    }

    /// Add the constraints of new clones to the graph, and of the clones that they call.
    pub(super) fn activate_made(&mut self) {
        while let Some((function, by)) = self.made.pop() {
            self.activate(function, by);
        }
    }

    /// How a small function depends on the call, through up to `depth` levels of callees.
    fn dependence(&mut self, function: u32, depth: usize) -> Dependence {
        if let Some(known) = self.functions[function as usize].depends[depth] {
            return known;
        }
        let summary = self.summary(function);
        let mut found = Dependence::Nothing;
        if may_be_cloned(summary) {
            let calls = summary.call_sites.iter();
            let dependent: Vec<Dependence> =
                calls.map(|call| self.call_depends(function, call, depth)).collect();
            found = dependence_on_caller(summary, &dependent);
        }
        self.functions[function as usize].depends[depth] = Some(found);
        found
    }

    /// How a direct call depends on its arguments, or on the call site.
    fn call_depends(&mut self, function: u32, call: &CallSite, depth: usize) -> Dependence {
        let Callee::Direct { target, offset } = call.callee else { return Dependence::Nothing };
        match self.places.place(self.functions[function as usize].position, target, offset) {
            (ResolvedPlace::External(symbol), _) => {
                let model = (self.places.sources.models)(symbol);
                let effects = model.iter().flat_map(|model| &model.effects);
                effects.map(dependence_of_effect).max().unwrap_or(Dependence::Nothing)
            }
            (ResolvedPlace::Atom(atom, offset), false) if depth > 0 && self.places.is_entry(atom, offset) => {
                let callee = self.function_of(atom);
                callee.map_or(Dependence::Nothing, |callee| self.dependence(callee, depth - 1))
            }
            _ => Dependence::Nothing,
        }
    }
}

/// Whether control enters a function only at its entry, and leaves it only by returns and direct calls.
fn is_left_by_returns(summary: &FunctionSummary) -> bool {
    summary.indirect_entry_values.is_empty() && summary.call_sites.iter().all(|call| !call.jump)
}

/// Whether a function may have clones for calls: it is small, and control enters and leaves it as in any call.
pub(super) fn may_be_cloned(summary: &FunctionSummary) -> bool {
    summary.values <= MAX_VALUES && is_left_by_returns(summary)
}

fn dependence_of_effect(effect: &Effect) -> Dependence {
    match effect {
        Effect::Copies { .. } | Effect::Stores { .. } | Effect::Calls { .. } => Dependence::Effect,
        Effect::ReturnsFresh
        | Effect::ReturnsAligned
        | Effect::Returns { .. }
        | Effect::ReturnsContents { .. } => Dependence::Result,
        _ => Dependence::Nothing,
    }
}

/// How a small function depends on its caller; `calls` has the same for each call in it.
pub(super) fn dependence_on_caller(summary: &FunctionSummary, calls: &[Dependence]) -> Dependence {
    let bit = |value: ValueIdx| 1u64 << (value.0 % u64::BITS);
    let sites = || summary.call_sites.iter().zip(calls);
    let passed = summary.parameters.iter().map(|p| p.1).chain(summary.stack_parameters.iter().map(|p| p.1));
    let returned = sites().filter(|(_, by)| **by != Dependence::Nothing);
    let returned = returned.filter_map(|(call, _)| result_of(&call.results));
    // A value of the caller is in memory, as all parameters are without optimisation.
    let mut is_stored = false;
    let mut reached = passed.chain(returned).fold(0, |all, value| all | bit(value));
    loop {
        let before = (reached, is_stored);
        for constraint in &summary.constraints {
            let (is_from, to) = match constraint {
                Constraint::Assign { from, to, .. } => (reached & bit(*from) != 0, bit(*to)),
                Constraint::Load { from, to, .. } => (is_stored || reached & bit(from.value) != 0, bit(*to)),
                Constraint::Store { from, .. } => {
                    is_stored |= reached & bit(*from) != 0;
                    continue;
                }
                _ => continue,
            };
            reached |= if is_from { to } else { 0 };
        }
        if (reached, is_stored) == before {
            break;
        }
    }
    let is_reached = |value: ValueIdx| reached & bit(value) != 0;
    let stores = summary.constraints.iter().any(|constraint| match constraint {
        Constraint::Store { to, .. } | Constraint::Copy { to, .. } => is_reached(to.value),
        _ => false,
    });
    let acts = |(call, by): (&CallSite, &Dependence)| match call.callee {
        Callee::Indirect(value) => is_reached(value),
        Callee::Direct { .. } => {
            *by == Dependence::Effect && call.actuals.iter().any(|actual| is_reached(actual.1))
        }
    };
    if stores || sites().any(acts) {
        Dependence::Effect
    } else if result_of(&summary.results).is_some_and(is_reached) {
        Dependence::Result
    } else {
        Dependence::Nothing
    }
}

fn result_of(results: &[(Register, ValueIdx)]) -> Option<ValueIdx> {
    results.iter().find(|r| r.0 == RAX).map(|r| r.1)
}
