//! Which cells of its frame a function may pass to a callee on the stack.
//!
//! Arguments on the stack lie one behind the other from the stack pointer on (psABI 3.2.3), and what is between them are gaps of
//! alignment; so the cells that are stored to one by one show where they end. But for what is passed by value: a struct
//! is copied there by `memcpy`, by string moves or by a loop through a pointer, and then nothing shows where it ends. So
//! where since the last call anything was written through a pointer that may lead into the frame, all of the frame may be passed.

use super::Module;
use super::builder::{Builder, Raw};
use super::state::{Pending, State, Val};
use super::transfer::Walk;
use super::unit::Refusal;
use crate::cfl::components::Adjacency;
use crate::ids::ValueIdx;
use crate::relation::{Callee, Constraint};

impl Pending {
    /// Whether anything was written through one of these values since the last call.
    pub(super) fn is_through(&self, values: &[bool]) -> bool {
        let is_one = |v: &ValueIdx| values.get(v.index()).copied().unwrap_or(false);
        self.through.any || self.through.items.iter().any(is_one)
    }
}

impl Module<'_, '_> {
    /// Functions that compilers call while arguments of another call may be on the stack already, or to put them there.
    pub(super) fn may_be_inside_arguments(&self, callee: Callee) -> bool {
        let Callee::Direct { target, .. } = callee else { return false };
        let name = self.name(target);
        name.starts_with(b"__") || matches!(name, b"memcpy" | b"memmove" | b"memset")
    }
}

impl Walk<'_, '_, '_, '_> {
    /// Something is written to where a value leads.
    pub(super) fn writes_through(&mut self, state: &mut State, value: Val) -> Result<(), Refusal> {
        if !matches!(value, Val::None | Val::Undefined | Val::Saved) {
            let to = self.builder.node(value)?;
            if !self.builder.is_foreign(to) {
                state.pending.through.insert(to);
            }
        }
        Ok(())
    }
}

impl Builder {
    /// Where the stack arguments of a call end, that begin at `start`: they lie one behind the other, less what an alignment of
    /// up to 64 bytes leaves out, and the first is at the stack pointer, or above the 32 bytes that a caller by Microsoft's convention
    /// leaves to its callee.
    pub(super) fn end_of_arguments(&self, start: i64, may_pass: impl Fn(i64) -> bool) -> i64 {
        let is_argument = |cell: i64| self.touched.contains(&cell) && may_pass(cell);
        let mut end = start;
        if let Some(first) = [start, start + 32].into_iter().find(|cell| is_argument(*cell)) {
            end = first + 8;
            while let Some(next) = (0..8).map(|gap| end + gap * 8).find(|cell| is_argument(*cell)) {
                end = next + 8;
            }
        }
        end
    }

    /// By value: it may be an address in the frame, as far as calls were written through it.
    pub(super) fn may_be_in_frame(&self) -> Vec<bool> {
        let mut may_be = vec![false; self.values.len() + 1];
        if self.calls.iter().all(|call| call.pending.through.is_empty()) {
            return may_be;
        }
        // All memory in which addresses in the frame may be kept is one.
        let memory = ValueIdx::new(self.values.len());
        let mut flows: Vec<(u32, u32)> = Vec::new();
        let mut work = Vec::new();
        for raw in &self.raw {
            let (from, to) = match raw {
                Raw::Plain(Constraint::Frame { to, .. }) => {
                    work.push(*to);
                    continue;
                }
                Raw::Plain(Constraint::Assign { from, to, .. }) => (*from, *to),
                Raw::Plain(Constraint::Load { to, .. }) | Raw::LoadCell { to, .. } => (memory, *to),
                Raw::Plain(Constraint::Store { from, .. }) | Raw::StoreCell { from, .. } => (*from, memory),
                Raw::Plain(_) => continue,
            };
            flows.push((from.0, to.0));
        }
        let flows = Adjacency::new(may_be.len(), &flows);
        while let Some(value) = work.pop() {
            let Some(slot) = may_be.get_mut(value.index()) else { continue };
            if !std::mem::replace(slot, true) {
                work.extend(flows.of(value.0).iter().map(|to| ValueIdx(*to)));
            }
        }
        may_be
    }
}
