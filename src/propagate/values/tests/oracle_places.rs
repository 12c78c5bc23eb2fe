//! Places, objects and copied functions of a module, as the oracle defines them.

use std::collections::BTreeSet;

use super::{defined, is_code};
use crate::propagate::values::cloning::{dependence_on_caller, may_be_cloned};
use crate::propagate::values::function_clone::Dependence;
use summaries::relation::{Callee, FunctionSummary};
use summaries::{AtomIdx, ModuleSummary, Target};

/// An address as (object, offset); `None` is the unknown.
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
    /// The stack parameters that external code passes.
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

/// Whether external code enters a copy of the function: control enters it only at its entry, and leaves it only by returns and direct
/// calls.
pub(super) fn has_own_copy(function: &FunctionSummary) -> bool {
    function.indirect_entry_values.is_empty() && function.call_sites.iter().all(|c| !c.jump)
}

/// How a function depends on its caller. The oracle uses the solver's rule to choose the calls with copies, but not to analyse the
/// copies.
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

/// The summary of a function, or of its copy for external code.
pub(super) fn function_of(summary: &ModuleSummary, f: usize) -> &FunctionSummary {
    &summary.functions[f % summary.functions.len()]
}

/// Whether a load from the object may return any address, and stores escape: it is external, or code that was not analysed.
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

/// The node for a store at an unknown offset from `start` on. The stack parameters of a frame have their own node.
pub(super) fn unplaced(object: OracleObject, start: Option<i64>) -> OracleNode {
    match (object, start) {
        (OracleObject::Frame(_), Some(8..)) => OracleNode::Above(object),
        _ => OracleNode::Anywhere(object),
    }
}

/// An address whose offset is too far outside of its object has an unknown offset.
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
