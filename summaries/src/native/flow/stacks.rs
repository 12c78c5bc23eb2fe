//! Stack discipline: whether a function returns on the stack of its entry, and which jumps in its frame stay in the function.
//!
//! An exact stack pointer is on the function's own stack. Another one may be in the frame (after an alignment or a move by a number), or
//! on the stack of a coroutine. In that case the return calls the code whose address is at the top of the other stack. So a function is
//! not analysed if it returns, or jumps through a register, with a stack pointer of another origin. Loads from unknown places in the
//! frame are not covered. Compilers keep the function's own stack pointer there, around aligned frames. A program that stores another
//! stack pointer there and returns on it is not detected.

use rustc_hash::FxHashMap;

use super::builder::{ConstraintBuilder, PendingCall, RawConstraint, ValueKey};
use super::state::SlotValue;
use super::unit::FlowResult;
use crate::cfl::adjacency::Adjacency;
use crate::ids::ValueIdx;
use crate::relation::{Callee, Constraint};
use crate::summary::Target;

impl ConstraintBuilder {
    /// The function leaves with this stack pointer.
    pub(super) fn leaves_on(&mut self, rsp: SlotValue) {
        if let SlotValue::Node(node, _) = rsp
            && self.recording
        {
            self.stacks.insert(node);
        }
    }

    /// Whether one of the stacks on which it leaves may be another one.
    pub(super) fn leaves_its_stack(&self) -> bool {
        if self.stacks.is_empty() {
            return false;
        }
        // By value: whether it may come from outside of the frame.
        let mut foreign = vec![false; self.values.len()];
        let mut mark = |value: ValueIdx| {
            if let Some(slot) = foreign.get_mut(value.index()) {
                *slot = true;
            }
        };
        for raw in &self.raw {
            match raw {
                RawConstraint::Plain(Constraint::Address { to, .. } | Constraint::Unknown { to }) => {
                    mark(*to)
                }
                RawConstraint::LoadCell { offset, to, .. } if *offset >= 0 => mark(*to),
                _ => {}
            }
        }
        self.calls.iter().flat_map(|call| &call.results).for_each(|(_, value)| mark(*value));
        self.loaded.iter().for_each(|value| mark(*value));
        for (i, key) in self.values.iter().enumerate() {
            if matches!(key, ValueKey::Parameter(_) | ValueKey::Unknown | ValueKey::Place(..)) {
                mark(ValueIdx::new(i));
            }
        }
        let from = self.sources().reached(self.stacks.iter().map(|value| value.0).collect());
        from.iter().zip(&foreign).any(|(is_reached, is_foreign)| *is_reached && *is_foreign)
    }

    /// The sources of every value: the values assigned to it, those stored where it is loaded from, and the address of that load.
    fn sources(&self) -> Adjacency {
        let mut stored: FxHashMap<i64, Vec<ValueIdx>> = FxHashMap::default();
        for raw in &self.raw {
            if let RawConstraint::StoreCell { from, offset, .. } = raw {
                stored.entry(*offset).or_default().push(*from);
            }
        }
        let mut sources: Vec<(u32, u32)> = Vec::new();
        for raw in &self.raw {
            match raw {
                RawConstraint::Plain(Constraint::Assign { from, to, .. }) => sources.push((to.0, from.0)),
                RawConstraint::Plain(Constraint::Load { from, to, .. }) => sources.push((to.0, from.value.0)),
                RawConstraint::LoadCell { offset, to, .. } => {
                    let stored = stored.get(offset).into_iter().flatten();
                    sources.extend(stored.map(|from| (to.0, from.0)));
                }
                _ => {}
            }
        }
        Adjacency::new(self.values.len(), &sources)
    }

    /// Remove the jumps in a frame to the address of a label, or of a table of labels, which are not calls. `is_label` recognises both.
    ///
    /// # Errors
    /// There is another jump in a frame, and it is unknown where it returns to. It is a guaranteed tail call with stack arguments
    /// (`swiftasynccall`), or assembly.
    pub(super) fn forget_jumps_to_labels(
        &mut self,
        is_label: impl Fn(Target, i64) -> bool,
    ) -> FlowResult<()> {
        if self.calls.iter().all(|call| !call.in_frame) {
            return Ok(());
        }
        let sources = self.sources();
        let mut labels = vec![false; self.values.len()];
        for raw in &self.raw {
            if let RawConstraint::Plain(Constraint::Address { to, target, offset }) = raw
                && let Some(slot) = labels.get_mut(to.index())
            {
                *slot |= is_label(*target, *offset);
            }
        }
        let is_to_label = |call: &PendingCall| match call.callee {
            Callee::Direct { target, offset } => is_label(target, offset),
            Callee::Indirect(value) => {
                let reached = sources.reached(vec![value.0]);
                reached.iter().zip(&labels).any(|(is_reached, is_label)| *is_reached && *is_label)
            }
        };
        match self.calls.iter().find(|call| call.in_frame && !is_to_label(call)) {
            Some(call) => Err(format!("a jump out of the frame at {:#x}", call.offset)),
            None => {
                self.calls.retain(|call| !call.in_frame);
                Ok(())
            }
        }
    }
}
