//! Reaching stores to the frame: the cells that a call may pass as stack arguments.
//!
//! Stack arguments start at the stack pointer (psABI 3.2.3). Nothing shows where they end: compilers do not write cells for undefined or
//! unused arguments, and leave gaps for alignment. A cell above the stack pointer may be an argument if it was written since the last call
//! or is never read. `memcpy`, string moves or a loop through a pointer copy an argument that is passed by value. If a store since the
//! last call may go through a pointer into the frame, the call may pass the whole frame. A callee that makes such a copy has the arguments
//! of `memcpy` under any name, or is a function that compilers call implicitly.

use super::builder::{ConstraintBuilder, RawConstraint};
use super::module::FlowModule;
use super::state::{Pending, SlotValue, StackEvent};
use super::unit::FlowResult;
use super::walk::Walk;
use rustc_hash::FxHashSet;

use crate::cfl::adjacency::Adjacency;
use crate::ids::{AtomIdx, ValueIdx};
use crate::relation::{Callee, Constraint};
use crate::summary::{Definition, SymbolKind, Target};

/// The maximum number of blocks that a search for arguments visits.
const MOST_BLOCKS: usize = 256;

impl ConstraintBuilder {
    /// An event in a block, once the states are final.
    pub(super) fn note(&mut self, block: usize, event: StackEvent) {
        if self.recording {
            if self.events.len() <= block {
                self.events.resize(block + 1, Vec::new());
            }
            self.events[block].push(event);
        }
    }

    pub(super) fn events_of(&self, block: usize) -> &[StackEvent] {
        self.events.get(block).map_or(&[], |events| events)
    }

    /// The possible writes since the last call, on the paths to the event of this number in the block.
    pub(super) fn pending(&self, (block, before): (usize, usize), predecessors: &[Vec<u32>]) -> Pending {
        let mut found = Pending::default();
        let mut seen = FxHashSet::default();
        let mut work = vec![self.events_of(block).get(..before).unwrap_or(&[])];
        let mut blocks = vec![block];
        while let (Some(events), Some(block)) = (work.pop(), blocks.pop()) {
            let mut is_called = false;
            for event in events.iter().rev() {
                match event {
                    StackEvent::Cell(cell) => _ = found.cells.insert(*cell),
                    StackEvent::Through(value) => _ = found.through.insert(*value),
                    StackEvent::Call(false) => {
                        is_called = true;
                        break;
                    }
                    StackEvent::Call(true) => {}
                }
            }
            let before = predecessors.get(block).filter(|_| !is_called);
            for block in before.into_iter().flatten().map(|block| *block as usize) {
                if seen.insert(block) {
                    work.push(self.events_of(block));
                    blocks.push(block);
                }
            }
            found.any |= seen.len() > MOST_BLOCKS;
            if found.any {
                break;
            }
        }
        found
    }
}

impl FlowModule<'_, '_> {
    /// Find the module's own functions that compilers call implicitly: library routines of programs without a C library, and outlined
    /// code.
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

    /// Whether LLVM's outliner made this function. Such a function may take arguments and leave results in any register.
    pub(super) fn is_outlined(&self, callee: Callee) -> bool {
        match callee {
            Callee::Direct { target: Target::Atom(atom), .. } => self.outlined.binary_search(&atom).is_ok(),
            Callee::Direct { target, .. } => is_outlined(self.name(target)),
            Callee::Indirect(_) => false,
        }
    }

    /// Whether `-pg` calls this in the middle of a prologue; the call preserves every register. The name isn't reserved, so it may be any
    /// function of the program.
    pub(super) fn is_hook(&self, callee: Callee) -> bool {
        matches!(callee, Callee::Direct { target, .. } if self.name(target) == b"mcount")
    }

    /// Whether compilers call this between the stores of another call's stack arguments, or in order to make these stores.
    pub(super) fn may_be_inside_arguments(&self, callee: Callee) -> bool {
        match callee {
            Callee::Direct { target: Target::Atom(atom), .. } => self.routines.binary_search(&atom).is_ok(),
            Callee::Direct { target, .. } => is_routine(self.name(target)),
            Callee::Indirect(_) => false,
        }
    }
}

/// Whether LLVM's machine outliner gives such names to its functions.
fn is_outlined(name: &[u8]) -> bool {
    name.starts_with(b"OUTLINED_FUNCTION_")
}

/// Whether compilers call a function of this name implicitly, so that the call may come between the arguments of another call.
fn is_routine(name: &[u8]) -> bool {
    name.starts_with(b"__") || matches!(name, b"memcpy" | b"memmove" | b"memset")
}

impl Walk<'_, '_, '_, '_> {
    /// Record a store through a pointer that the value may hold.
    pub(super) fn writes_through(&mut self, value: SlotValue) -> FlowResult<()> {
        let is_address = !matches!(value, SlotValue::None | SlotValue::Undefined | SlotValue::Saved(_));
        if self.builder.recording && is_address {
            let to = self.builder.node(value)?;
            if !self.builder.is_foreign(to) {
                self.builder.note(self.block, StackEvent::Through(to));
            }
        }
        Ok(())
    }
}

impl ConstraintBuilder {
    /// By value: whether it may be an address in the frame, by the flow through assignments, loads and stores; all other constraints are
    /// ignored.
    pub(super) fn may_be_in_frame(&self) -> Vec<bool> {
        let mut may_be = vec![false; self.values.len() + 1];
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
