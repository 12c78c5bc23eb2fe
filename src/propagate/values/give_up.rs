//! Widening on budget exhaustion: the graph stops distinguishing objects, then memory, then values.
//!
//! Each step only joins objects, or makes values unknown and lets their elements escape, so the solution remains sound. The module
//! `budget` has the thresholds.

use super::budget::{GivenUp, STEPS_OF_AN_EDGE};
use super::graph::{ConstraintGraph, MemoryClass, NodeId};

impl ConstraintGraph {
    /// Whether the steps so far exceed the budget for the constraints so far.
    pub(super) fn is_over_work(&self) -> bool {
        let next = match self.given_up {
            GivenUp::Nothing => 0,
            GivenUp::Objects => 1,
            GivenUp::Memory => 2,
            GivenUp::Values => return false,
        };
        let steps = self.budget.steps[next].saturating_mul(self.constraints).min(self.budget.most[next]);
        let work = self.work.steps + self.sets.steps + STEPS_OF_AN_EDGE * self.edges.len();
        work > self.budget.free.saturating_add(steps)
    }

    /// Give up the next kind of precision: objects, then memory, then values.
    pub(super) fn give_up(&mut self) {
        if self.given_up == GivenUp::Nothing {
            self.given_up = GivenUp::Objects;
            self.budget.objects = self.budget.objects.min(1);
            let is_large = |n: &NodeId| self.set(*n).len() > 1;
            let large: Vec<NodeId> = (0..self.nodes.len() as NodeId).filter(is_large).collect();
            self.over_budget.extend(large);
            return;
        }
        if self.given_up == GivenUp::Objects {
            self.given_up = GivenUp::Memory;
            let is_own = |o: &u32| {
                let of = self.objects.get(*o as usize);
                self.object_of(*o) == *o && of.is_some_and(|o| o.kind == MemoryClass::Memory)
            };
            let own: Vec<u32> = (0..self.objects.len() as u32).filter(is_own).collect();
            self.one_memory = own.first().copied();
            self.join_objects(&own);
            (0..self.nodes.len() as NodeId).for_each(|id| self.renew(id));
            return self.collapse_cycles();
        }
        self.given_up = GivenUp::Values;
        for id in 0..self.nodes.len() as NodeId {
            if self.find(id) == id {
                self.mark_escaping(id);
                self.set_unknown(id);
            }
        }
    }

    /// Join a new object with all memory, if memory is no longer distinguished.
    pub(super) fn joined_from_birth(&mut self, object: u32) {
        if self.given_up >= GivenUp::Memory
            && self.objects.get(object as usize).is_some_and(|o| o.kind == MemoryClass::Memory)
        {
            let keep = *self.one_memory.get_or_insert(object);
            self.objects[object as usize].joined = true;
            self.same[object as usize] = keep;
            self.joined_objects += 1;
            self.epoch += 1;
        }
    }
}
