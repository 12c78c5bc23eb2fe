//! Which values anything depends on, and whether they come from where the caller's registers were put.
//!
//! What the caller left in a register that passes nothing is put into the frame and back into the same register. Conventions that
//! pass more (`preserve_none`, `regcall`) look the same without optimisation, but that it never comes back: then the function is
//! not understood. Left out: what is pushed, for so compilers align the stack, too.

use rustc_hash::FxHashSet;

use super::builder::{ConstraintBuilder, Key, Raw};
use super::memory::Memory;
use super::state::{RegisterState, Val};
use super::unit::{Op, Refusal, Unit};
use super::walker::Walk;
use crate::cfl::components::Adjacency;
use crate::native::decode::effects::{Operand, RegisterId, Transfer};
use crate::relation::{Callee, Constraint};

impl Walk<'_, '_, '_, '_> {
    /// A register is stored; the state is that before it.
    fn puts(&mut self, op: &Op, state: &RegisterState, memory: Memory, from: RegisterId) {
        if let Memory::Frame(offset) = memory
            && self.builder.recording
            && state.get(from) == Val::Saved
        {
            self.builder.left.put.insert((offset, from, (op.atom, op.offset)));
        }
    }

    fn takes(&mut self, op: &Op, memory: Memory, to: RegisterId) {
        if let Memory::Frame(offset) = memory
            && self.builder.recording
        {
            self.builder.left.taken.insert((offset, to, (op.atom, op.offset)));
        }
    }

    /// One operand is moved to the other.
    pub(super) fn moves(
        &mut self,
        at: usize,
        op: &Op,
        state: &RegisterState,
        (to, from): (Operand, Operand),
    ) -> Result<(), Refusal> {
        match (to, from) {
            (Operand::Memory(address), Operand::Register(from)) => {
                let memory = self.address(at, op, state, &address)?;
                self.puts(op, state, memory, from);
            }
            // Nobody saves one in another register, or sets others from what was never set.
            (Operand::Register(to), Operand::Register(from))
                if to != from && matches!(from, 11..=15) && self.is_untouched(state, from) =>
            {
                self.builder.caller_register_used()?;
            }
            (Operand::Register(to), Operand::Memory(address)) => {
                let memory = self.address(at, op, state, &address)?;
                self.takes(op, memory, to);
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether the caller's value is still in the register.
    fn is_untouched(&self, state: &RegisterState, slot: RegisterId) -> bool {
        state.get(slot) == Val::Saved && state.clobbered & 1 << slot == 0
    }

    /// The same of an instruction that is not told apart.
    pub(super) fn moves_all(
        &mut self,
        at: usize,
        op: &Op,
        state: &RegisterState,
        t: &Transfer,
    ) -> Result<(), Refusal> {
        let stores = t.stores.iter().flat_map(|a| t.reads.iter().map(move |r| (*a, *r)));
        for (address, slot) in stores {
            self.moves(at, op, state, (Operand::Memory(address), Operand::Register(slot)))?;
        }
        let loads = t.loads.iter().flat_map(|a| t.writes.iter().map(move |w| (*a, w.0)));
        for (address, slot) in loads {
            self.moves(at, op, state, (Operand::Register(slot), Operand::Memory(address)))?;
        }
        Ok(())
    }
}

impl ConstraintBuilder {
    /// Where the function puts what its caller left in a register, if that never comes back into it.
    pub(super) fn keeps_what_was_left(&self, unit: &Unit) -> Option<u64> {
        // Functions that are not told apart have frames of their own.
        let taken = self.left.taken.iter().map(|(cell, slot, at)| (*cell, *slot, unit.function_at(*at)));
        let taken: FxHashSet<_> = taken.collect();
        // In rax an argument comes back without optimisation, too (`regcall`); who saves it pushes it.
        let comes_back = |cell, slot, at| slot != 0 && taken.contains(&(cell, slot, unit.function_at(at)));
        let kept = self.left.put.iter().filter(|(cell, slot, at)| !comes_back(*cell, *slot, *at));
        kept.map(|(.., at)| at.1).min()
    }

    /// By value: something depends on it.
    pub(super) fn needed(&self) -> Vec<bool> {
        let mut needed: Vec<u32> = Vec::new();
        let mut sources: Vec<(u32, u32)> = Vec::new();
        for raw in &self.raw {
            match raw {
                Raw::Plain(Constraint::Assign { from, to, .. }) => sources.push((to.0, from.0)),
                Raw::Plain(Constraint::Load { from, to, .. }) => sources.push((to.0, from.value.0)),
                Raw::Plain(Constraint::Store { from, to, .. }) => needed.extend([from.0, to.value.0]),
                Raw::Plain(Constraint::Copy { from, to, .. }) => needed.extend([from.value.0, to.value.0]),
                Raw::Plain(Constraint::Escape { from }) => needed.push(from.0),
                Raw::StoreCell { from, .. } => needed.push(from.0),
                _ => {}
            }
        }
        for call in &self.calls {
            if let Callee::Indirect(value) = call.callee {
                needed.push(value.0);
            }
            needed.extend(call.actuals.iter().map(|a| a.1.0));
        }
        let results = (0u32..).zip(&self.values).filter(|(_, key)| matches!(key, Key::Result(_)));
        needed.extend(results.map(|(value, _)| value));
        Adjacency::new(self.values.len(), &sources).reached(needed)
    }
}
