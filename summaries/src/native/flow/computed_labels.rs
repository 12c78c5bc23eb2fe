//! Computed labels: jumps to a label whose address is the sum of another label and a number (`goto *(&&a + distances[i])`).
//!
//! The assembler knows such distances, so no relocation names these labels, and control may fall through to them too. A function with such
//! a jump is not analysed. The jump's value has the address of code of the function, displaced, or was loaded and displaced. The entries of
//! a jump table are displaced too, by the address of the table.

use super::builder::{ConstraintBuilder, RawConstraint};
use super::state::cells;
use crate::cfl::adjacency::Adjacency;
use crate::relation::{Callee, Constraint};
use crate::summary::Target;

/// The memory that an address in a function's code leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OwnPlace {
    Code,
    JumpTable,
    Other,
}

impl ConstraintBuilder {
    /// Whether a jump may lead to a computed label, in a function that has other labels if `has_labels`.
    pub(super) fn jumps_to_computed_labels(
        &self,
        has_labels: bool,
        place: impl Fn(Target, i64) -> OwnPlace,
    ) -> bool {
        let jumps = self.calls.iter().filter(|call| call.jump).filter_map(|call| match call.callee {
            Callee::Indirect(value) => Some(value.0),
            Callee::Direct { .. } => None,
        });
        let jumps: Vec<u32> = jumps.collect();
        if jumps.is_empty() || !has_labels {
            return false;
        }
        // Each value is two nodes: one for its unchanged sources, and one for the displaced ones.
        let mut sources: Vec<(u32, u32)> = Vec::new();
        let mut flow = |from: u32, to: u32, displaces: bool| {
            sources.extend([(2 * to, 2 * from + u32::from(displaces)), (2 * to + 1, 2 * from + 1)]);
        };
        let (mut loaded, mut code, mut tables) = (Vec::new(), Vec::new(), Vec::new());
        let mut stored = Vec::new();
        for raw in &self.raw {
            match *raw {
                RawConstraint::Plain(Constraint::Assign { from, to, offset }) => {
                    flow(from.0, to.0, offset != Some(0));
                }
                RawConstraint::Plain(Constraint::Load { to, .. } | Constraint::Unknown { to }) => {
                    loaded.push(to.0)
                }
                RawConstraint::Plain(Constraint::Address { to, target, offset }) => {
                    match place(target, offset) {
                        OwnPlace::Code => code.push(to.0),
                        OwnPlace::JumpTable => tables.push(to.0),
                        OwnPlace::Other => {}
                    }
                }
                RawConstraint::StoreCell { from, offset, size } => {
                    stored.extend(cells(offset, size).map(|cell| (cell, from.0)));
                }
                _ => {}
            }
        }
        stored.sort_unstable();
        for raw in &self.raw {
            if let RawConstraint::LoadCell { offset, size, to } = *raw {
                for cell in cells(offset, size) {
                    let first = stored.partition_point(|s| s.0 < cell);
                    let stored = stored.get(first..).unwrap_or(&[]).iter().take_while(|s| s.0 == cell);
                    stored.for_each(|s| flow(s.1, to.0, false));
                }
            }
        }
        let sources = Adjacency::new(2 * self.values.len(), &sources);
        jumps.into_iter().any(|jump| {
            let reached = sources.reached(vec![2 * jump]);
            let is_displaced =
                |values: &[u32]| values.iter().any(|v| reached.get(2 * *v as usize + 1) == Some(&true));
            is_displaced(&code) || is_displaced(&loaded) && !is_displaced(&tables)
        })
    }
}
