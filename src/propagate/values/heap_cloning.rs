//! Heap cloning: wrappers of allocation functions are analysed anew for each call site (a context of one call).
//!
//! Without that all memory of a program that allocates through a function of its own (`xmalloc`, `__rust_alloc`) would be one
//! object. Safe because such a function is small, is left by a return to its caller alone (one that returns elsewhere has no
//! summary, and one that jumps to a value has an indirect call), and because every other way into it, from unseen code, through a pointer, at
//! a label, goes to the clone that all of those share; so do the calls beyond a budget, which a set would not tell apart anyway (`budget`).
//! Left out: functions that get their memory from a value that they call, and larger ones (docs/REJECTED.md).

use summaries::ValueIdx;
use summaries::models::Effect;
use summaries::registers::{RAX, Register};
use summaries::relation::{CallSite, Callee, Constraint, FunctionSummary};

use super::flow::{Flow, FunctionClone, MAX_DEPTH};
use super::places::ResolvedPlace;
use crate::ids::AtomId;

/// Values of a function that has clones, at most: one that checks what it got and reports a failure has no more.
const MAX_VALUES: u32 = 24;

/// Clones that a link may have; a larger one as many as it has functions.
const ALWAYS: usize = 1024;

impl FunctionClone {
    pub(super) fn new(position: usize, local: usize) -> Self {
        FunctionClone { position, local, ..FunctionClone::default() }
    }
}

impl Flow<'_> {
    /// The clone of `callee` that a direct call of its entry joins.
    pub(super) fn heap_clone(&mut self, call: &CallSite, callee: u32, atom: AtomId) -> u32 {
        let is_any = result_of(&call.results).is_some();
        if !is_any || !self.returns_fresh(callee, MAX_DEPTH) {
            return callee;
        }
        let are_spent = self.functions.len() - self.common >= self.common.max(ALWAYS);
        let FunctionClone { position, local, others, .. } = &mut self.functions[callee as usize];
        if *others >= self.graph.budget.heap_clones || are_spent {
            return callee;
        }
        *others += 1;
        let own = FunctionClone::new(*position, *local);
        let id = self.functions.len() as u32;
        self.functions.push(own);
        self.pending_stack_arguments.push(Vec::new());
        // Not at once: they may call each other.
        self.made.push((id, atom));
        id
    }

    /// Bring what clones do into the graph, those that they lead to besides.
    pub(super) fn activate_made(&mut self) {
        while let Some((function, by)) = self.made.pop() {
            self.activate(function, by);
        }
    }

    /// Whether a function is small, and returns what a call in it allocates, which `depth` functions may do for it.
    fn returns_fresh(&mut self, function: u32, depth: usize) -> bool {
        if let Some(known) = self.functions[function as usize].hands_out[depth] {
            return known;
        }
        let summary = self.summary(function);
        let is_plain = |call: &CallSite| matches!(call.callee, Callee::Direct { .. });
        let returned = result_of(&summary.results).filter(|_| {
            summary.values <= MAX_VALUES
                && summary.indirect_entry_values.is_empty()
                && summary.call_sites.iter().all(is_plain)
        });
        let found = returned.is_some_and(|returned| {
            summary.call_sites.iter().any(|call| {
                let result = result_of(&call.results);
                result.is_some_and(|v| flows(summary, v, returned)) && self.allocates(function, call, depth)
            })
        });
        self.functions[function as usize].hands_out[depth] = Some(found);
        found
    }

    fn allocates(&mut self, function: u32, call: &CallSite, depth: usize) -> bool {
        let Callee::Direct { target, offset } = call.callee else { return false };
        match self.places.place(self.functions[function as usize].position, target, offset) {
            (ResolvedPlace::External(symbol), _) => {
                let model = (self.places.sources.models)(symbol);
                model.is_some_and(|m| m.effects.contains(&Effect::ReturnsFresh))
            }
            (ResolvedPlace::Atom(atom, offset), false) if depth > 0 && self.places.is_entry(atom, offset) => {
                self.function_of(atom).is_some_and(|callee| self.returns_fresh(callee, depth - 1))
            }
            _ => false,
        }
    }
}

fn result_of(results: &[(Register, ValueIdx)]) -> Option<ValueIdx> {
    results.iter().find(|r| r.0 == RAX).map(|r| r.1)
}

/// Whether a value of a small function becomes another.
fn flows(summary: &FunctionSummary, from: ValueIdx, to: ValueIdx) -> bool {
    let bit = |value: ValueIdx| 1u32 << (value.0 % u32::BITS);
    let mut reached = bit(from);
    loop {
        let before = reached;
        for constraint in &summary.constraints {
            if let Constraint::Assign { from, to, .. } = constraint
                && reached & bit(*from) != 0
            {
                reached |= bit(*to);
            }
        }
        if reached == before {
            return reached & bit(to) != 0;
        }
    }
}
