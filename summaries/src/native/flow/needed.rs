//! Dead value elimination: a backward reachability over the constraints of a function.
//!
//! A value is dead if no store, call, escape or result needs it. Dead values are not visible from outside and are not in the summary.
//! Dead stores are kept.

use super::builder::{ConstraintBuilder, RawConstraint, ValueKey};
use crate::cfl::adjacency::Adjacency;
use crate::relation::{Callee, Constraint};

impl ConstraintBuilder {
    /// By value: something depends on it.
    pub(super) fn needed(&self) -> Vec<bool> {
        let mut needed: Vec<u32> = Vec::new();
        let mut sources: Vec<(u32, u32)> = Vec::new();
        for raw in &self.raw {
            match raw {
                RawConstraint::Plain(Constraint::Assign { from, to, .. }) => sources.push((to.0, from.0)),
                RawConstraint::Plain(Constraint::Load { from, to, .. }) => sources.push((to.0, from.value.0)),
                RawConstraint::Plain(Constraint::Store { from, to, .. }) => {
                    needed.extend([from.0, to.value.0])
                }
                RawConstraint::Plain(Constraint::Copy { from, to, .. }) => {
                    needed.extend([from.value.0, to.value.0])
                }
                RawConstraint::Plain(Constraint::Escape { from } | Constraint::EscapeCode { from }) => {
                    needed.push(from.0)
                }
                RawConstraint::StoreCell { from, .. } => needed.push(from.0),
                _ => {}
            }
        }
        for call in &self.calls {
            if let Callee::Indirect(value) = call.callee {
                needed.push(value.0);
            }
            needed.extend(call.actuals.iter().map(|a| a.1.0));
        }
        let results = (0u32..).zip(&self.values).filter(|(_, key)| matches!(key, ValueKey::Result(_)));
        needed.extend(results.map(|(value, _)| value));
        Adjacency::new(self.values.len(), &sources).reached(needed)
    }
}
