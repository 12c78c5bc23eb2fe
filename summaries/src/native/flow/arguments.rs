//! What of its frame a function may pass to a callee on the stack.
//!
//! Arguments on the stack lie from the stack pointer on (psABI 3.2.3). Where they end nothing shows: compilers write no cell for what
//! is not set or not looked at, and leave gaps for alignment. So any cell above may be one that was written since the last call, or that
//! the function never reads. What is passed by value is copied there by `memcpy`, by string moves or by a loop through a pointer; so where
//! since the last call anything was written through a pointer that may lead into the frame, all of the frame may be passed.
//!
//! Left out: a copy that another function of the program's makes, but for those that compilers call by themselves.

use super::builder::{ConstraintBuilder, RawConstraint};
use super::module::FlowModule;
use super::state::{Pending, RegisterState, SlotValue};
use super::unit::FlowResult;
use super::walker::BlockWalker;
use crate::cfl::components::Adjacency;
use crate::ids::{AtomIdx, ValueIdx};
use crate::relation::{Callee, Constraint};
use crate::summary::{Definition, SymbolKind, Target};

impl Pending {
    /// Whether anything was written through one of these values since the last call.
    pub(super) fn is_through(&self, values: &[bool]) -> bool {
        let is_one = |v: &ValueIdx| values.get(v.index()).copied().unwrap_or(false);
        self.through.any || self.through.items.iter().any(is_one)
    }
}

impl FlowModule<'_, '_> {
    /// Find what compilers call in the module itself: routines, as programs without a C library have them, and pieces that were outlined.
    pub(super) fn find_routines(&mut self) {
        let named = |is: fn(&[u8]) -> bool| {
            let symbols = self.symbols.iter().filter(|s| s.kind != SymbolKind::Section);
            let atoms = symbols.filter(|s| is(self.tables.name(s.name))).filter_map(|s| match s.definition {
                Definition::Atom(atom) => Some(atom),
                _ => None,
            });
            let mut atoms: Vec<AtomIdx> = atoms.collect();
            atoms.sort_unstable();
            atoms
        };
        (self.routines, self.outlined) = (named(is_routine), named(is_outlined));
    }

    /// Whether this is a piece of functions that LLVM has taken out of them: it passes and leaves whatever it likes, in any register.
    pub(super) fn is_outlined(&self, callee: Callee) -> bool {
        match callee {
            Callee::Direct { target: Target::Atom(atom), .. } => self.outlined.binary_search(&atom).is_ok(),
            Callee::Direct { target, .. } => is_outlined(self.name(target)),
            Callee::Indirect(_) => false,
        }
    }

    /// Whether `-pg` calls this in the middle of a prologue: every register survives the call. The name isn't reserved, so that it may be
    /// any function of the program.
    pub(super) fn is_hook(&self, callee: Callee) -> bool {
        matches!(callee, Callee::Direct { target, .. } if self.name(target) == b"mcount")
    }

    /// Whether compilers call this while arguments of another call may be on the stack already, or to put them there.
    pub(super) fn may_be_inside_arguments(&self, callee: Callee) -> bool {
        match callee {
            Callee::Direct { target: Target::Atom(atom), .. } => self.routines.binary_search(&atom).is_ok(),
            Callee::Direct { target, .. } => is_routine(self.name(target)),
            Callee::Indirect(_) => false,
        }
    }
}

/// How LLVM's machine outliner names what it makes.
fn is_outlined(name: &[u8]) -> bool {
    name.starts_with(b"OUTLINED_FUNCTION_")
}

/// Whether compilers call a function of this name by themselves, so that it may come between the arguments of another.
fn is_routine(name: &[u8]) -> bool {
    name.starts_with(b"__") || matches!(name, b"memcpy" | b"memmove" | b"memset")
}

impl BlockWalker<'_, '_, '_, '_> {
    /// Something is written to where a value leads.
    pub(super) fn writes_through(&mut self, state: &mut RegisterState, value: SlotValue) -> FlowResult<()> {
        if !matches!(value, SlotValue::None | SlotValue::Undefined | SlotValue::Saved(_)) {
            let to = self.builder.node(value)?;
            if !self.builder.is_foreign(to) {
                state.pending.through.insert(to);
            }
        }
        Ok(())
    }
}

impl ConstraintBuilder {
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
                RawConstraint::Plain(Constraint::Frame { to, .. }) => {
                    work.push(*to);
                    continue;
                }
                RawConstraint::Plain(Constraint::Assign { from, to, .. }) => (*from, *to),
                RawConstraint::Plain(Constraint::Load { to, .. }) | RawConstraint::LoadCell { to, .. } => {
                    (memory, *to)
                }
                RawConstraint::Plain(Constraint::Store { from, .. })
                | RawConstraint::StoreCell { from, .. } => (*from, memory),
                RawConstraint::Plain(_) => continue,
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
