//! Whether a function leaves on the stack that it was entered on.
//!
//! Where the stack pointer is known exactly it is. Else it may be somewhere in the frame (it was aligned, or moved by a number), or on the
//! stack of a coroutine: what is at the top of that one is called, by nobody who is seen. So a function is not understood that returns, or
//! jumps through a register, with a stack pointer that may come from anything but its own, kept in its frame or not.
//!
//! Left out: what is loaded from a place in the frame that isn't known exactly. Compilers keep their own stack pointer there (around
//! frames that are aligned); a program that puts another one there and takes it back to return on it is not seen.

use rustc_hash::FxHashMap;

use super::builder::{ConstraintBuilder, Key, Raw};
use super::state::Val;
use crate::cfl::components::Adjacency;
use crate::ids::ValueIdx;
use crate::relation::Constraint;

impl ConstraintBuilder {
    /// The function leaves with this stack pointer.
    pub(super) fn leaves_on(&mut self, rsp: Val) {
        if let Val::Node(node, _) = rsp
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
        let mut stored: FxHashMap<i64, Vec<ValueIdx>> = FxHashMap::default();
        for raw in &self.raw {
            if let Raw::StoreCell { from, offset, .. } = raw {
                stored.entry(*offset).or_default().push(*from);
            }
        }
        let mut sources: Vec<(u32, u32)> = Vec::new();
        // By value: it comes from elsewhere.
        let mut foreign = vec![false; self.values.len()];
        let mut mark = |value: ValueIdx| {
            if let Some(slot) = foreign.get_mut(value.index()) {
                *slot = true;
            }
        };
        for raw in &self.raw {
            match raw {
                Raw::Plain(Constraint::Assign { from, to, .. }) => sources.push((to.0, from.0)),
                Raw::Plain(Constraint::Address { to, .. } | Constraint::Unknown { to }) => mark(*to),
                Raw::LoadCell { offset, to, .. } => {
                    let stored = stored.get(offset).into_iter().flatten();
                    sources.extend(stored.map(|from| (to.0, from.0)));
                    if *offset >= 0 {
                        mark(*to);
                    }
                }
                _ => {}
            }
        }
        self.calls.iter().flat_map(|call| &call.results).for_each(|(_, value)| mark(*value));
        self.loaded.iter().for_each(|value| mark(*value));
        for (i, key) in self.values.iter().enumerate() {
            if matches!(key, Key::Parameter(_) | Key::Unknown | Key::Place(..)) {
                mark(ValueIdx::new(i));
            }
        }
        let sources = Adjacency::new(self.values.len(), &sources);
        let mut seen = vec![false; self.values.len()];
        let mut work: Vec<ValueIdx> = self.stacks.iter().copied().collect();
        while let Some(value) = work.pop() {
            if foreign.get(value.index()) == Some(&true) {
                return true;
            }
            if let Some(slot) = seen.get_mut(value.index())
                && !std::mem::replace(slot, true)
            {
                work.extend(sources.of(value.0).iter().map(|from| ValueIdx(*from)));
            }
        }
        false
    }
}
