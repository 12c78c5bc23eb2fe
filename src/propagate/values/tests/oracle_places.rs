//! The oracle's view of a module: places, objects, and the functions that have a copy.

use std::collections::BTreeSet;

use super::{defined, is_code};
use crate::propagate::values::cloning::{dependence_on_caller, may_be_cloned};
use crate::propagate::values::function_clone::Dependence;
use summaries::relation::{Callee, FunctionSummary};
use summaries::{AtomIdx, ModuleSummary, Target};

/// (object, offset); `None` is the unknown.
pub(super) type Address = Option<(OracleObject, Option<i64>)>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum OracleObject {
    Atom(u32),
    Frame(u32),
    External,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum OracleNode {
    Value(usize, u32),
    Cell(OracleObject, i64),
    Anywhere(OracleObject),
    /// Passed on the stack by unseen code.
    Above(OracleObject),
    Escaped,
}

/// The root, and targets of references that no function accounts for.
pub(super) fn entered_from_outside(summary: &ModuleSummary, root: u32) -> BTreeSet<u32> {
    let mut found = BTreeSet::from([root]);
    let mut reachable = BTreeSet::from([root]);
    let mut work = vec![root];
    while let Some(atom) = work.pop() {
        let targets = summary.references_of(AtomIdx(atom)).iter().filter_map(|r| defined(summary, r.target));
        work.extend(targets.filter(|target| reachable.insert(*target)));
    }
    for (atom, of) in (0u32..).zip(&summary.atoms).filter(|(atom, _)| reachable.contains(atom)) {
        let function = summary.functions.iter().find(|f| f.atom.0 == atom);
        for r in summary.references_of(AtomIdx(atom)) {
            let is_accounted = match function {
                Some(function) => function.covered_references.contains(&(of.section, r.offset)),
                None => !is_code(summary, atom),
            };
            found.extend(defined(summary, r.target).filter(|_| !is_accounted));
        }
    }
    found
}

/// Whether unseen code enters a copy: control enters the function at its entry, and leaves it by returns and direct calls.
pub(super) fn has_own_copy(function: &FunctionSummary) -> bool {
    function.indirect_entry_values.is_empty() && function.call_sites.iter().all(|c| !c.jump)
}

/// How a function depends on its caller. The rule is the solver's: it says which calls have copies, and not what copies hold.
pub(super) fn dependence(summary: &ModuleSummary, g: usize, depth: usize) -> Dependence {
    let function = &summary.functions[g];
    if !may_be_cloned(function) {
        return Dependence::Nothing;
    }
    let of_callee = |target: Target| {
        let atom = defined(summary, target)?;
        let callee = summary.functions.iter().position(|f| f.atom.0 == atom)?;
        Some(dependence(summary, callee, depth.checked_sub(1)?))
    };
    let calls = function.call_sites.iter().map(|site| match site.callee {
        Callee::Direct { target, offset: 0 } => of_callee(target).unwrap_or(Dependence::Nothing),
        _ => Dependence::Nothing,
    });
    dependence_on_caller(function, &calls.collect::<Vec<_>>())
}

/// The summary of a function, or of its copy that unseen code enters.
pub(super) fn function_of(summary: &ModuleSummary, f: usize) -> &FunctionSummary {
    &summary.functions[f % summary.functions.len()]
}

/// Whether a load from the object may give any address, and stores to it escape: it is external, or code that was not understood.
pub(super) fn is_foreign(summary: &ModuleSummary, object: OracleObject) -> bool {
    let OracleObject::Atom(atom) = object else { return object == OracleObject::External };
    let is_of = |f: &FunctionSummary| f.atom.0 == atom || f.parts.iter().any(|p| p.0 == atom);
    is_code(summary, atom) && !summary.functions.iter().any(is_of)
}

pub(super) fn address(summary: &ModuleSummary, target: Target, offset: i64) -> Address {
    match defined(summary, target) {
        Some(atom) => Some(bounded(summary, OracleObject::Atom(atom), Some(offset))),
        None => Some((OracleObject::External, Some(0))),
    }
}

/// The node for a store at an unknown place behind `start`. In a frame, stack parameters have one of their own.
pub(super) fn unplaced(object: OracleObject, start: Option<i64>) -> OracleNode {
    match (object, start) {
        (OracleObject::Frame(_), Some(8..)) => OracleNode::Above(object),
        _ => OracleNode::Anywhere(object),
    }
}

/// An offset that leaves its object too far is unknown.
pub(super) fn bounded(
    summary: &ModuleSummary,
    object: OracleObject,
    offset: Option<i64>,
) -> (OracleObject, Option<i64>) {
    let (start, end) = match object {
        OracleObject::Atom(atom) => (0, summary.atoms[atom as usize].size as i64),
        OracleObject::Frame(_) => (-(1 << 18), 1 << 12),
        OracleObject::External => return (object, Some(0)),
    };
    (object, offset.filter(|o| start - 4096 <= *o && *o <= end + 4096))
}
