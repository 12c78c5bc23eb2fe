//! Block copies (`memcpy`) in the constraint graph, as copies between cells of objects.
//!
//! A copy is expanded for each pair of a source and a target object, offset by offset. Beyond the budget of pairs one node holds
//! all that the sources hold, and stores it at unknown offsets of the targets. This only adds to the solution. The module `cells`
//! copies cells that are added later.

use super::graph::{
    CELL, ComplexConstraint, ConstraintGraph, MemoryClass, MemoryCopy, NodeId, OVERDEFINED,
    OverdefinedReason, RangeCopy, SHARED,
};
use super::sets::Element;

impl ConstraintGraph {
    /// Memory is copied from where `from` points to where `to` points.
    pub(super) fn copy(&mut self, from: (NodeId, Option<i64>), to: (NodeId, Option<i64>), size: u32) {
        let number = self.copies.len() as u32;
        self.copies.push(MemoryCopy { from, to, size, at_once: false });
        self.add_use(from.0, ComplexConstraint::CopyFrom(number));
        self.add_use(to.0, ComplexConstraint::CopyTo(number));
    }

    /// The copy of this number, if its pairs of places are distinguished.
    pub(super) fn pairwise(&self, copy: u32) -> Option<MemoryCopy> {
        self.copies.get(copy as usize).copied().filter(|c| !c.at_once)
    }

    /// The places in memory that a node points to, each once.
    pub(super) fn places(&self, node: NodeId) -> Vec<Element> {
        let mut places = self.set(node).to_vec();
        if self.has(self.find(node), OVERDEFINED) {
            places.push(Element::new(SHARED, 0));
        }
        places
    }

    /// Whether a copy has more pairs of places than the budget allows.
    pub(super) fn is_large(&self, copy: &MemoryCopy) -> bool {
        let count = |node| self.set(node).len() + usize::from(self.has(self.find(node), OVERDEFINED));
        count(copy.from.0) * count(copy.to.0) > self.budget.pairs
    }

    /// Stop distinguishing the places of a copy.
    pub(super) fn copy_at_once(&mut self, number: u32) {
        let Some(copy) = self.copies.get_mut(number as usize) else { return };
        copy.at_once = true;
        let (from, to) = (copy.from.0, copy.to.0);
        let between = self.node();
        self.add_use(from, ComplexConstraint::Load { to: between, offset: None, size: 0 });
        self.add_use(to, ComplexConstraint::Store { from: between, offset: None, size: 0 });
    }

    /// Memory at one address is copied to another one.
    pub(super) fn copy_memory(
        &mut self,
        (from, from_offset): (Element, Option<i64>),
        (to, to_offset): (Element, Option<i64>),
        size: u32,
    ) {
        let (from, to) = (self.canonical(from), self.canonical(to));
        let kind = |e: Element| self.objects[e.object() as usize].kind;
        let (source, target) = (from.object(), to.object());
        let (kind_of_source, kind_of_target) = (kind(from), kind(to));
        self.touch(source);
        self.touch(target);
        let object = match (kind_of_source, kind_of_target) {
            (MemoryClass::Memory | MemoryClass::Owned, MemoryClass::Memory | MemoryClass::Owned) => target,
            (MemoryClass::Memory | MemoryClass::Owned, MemoryClass::Foreign | MemoryClass::Raw) => SHARED,
            (MemoryClass::Foreign | MemoryClass::Raw, MemoryClass::Memory | MemoryClass::Owned) => target,
            _ => return,
        };
        let first = self.offset(self.displaced(to, to_offset));
        let unplaced = self.not_below(object, first);
        match kind_of_source {
            MemoryClass::Foreign | MemoryClass::Raw => {
                let cause =
                    if source == SHARED { OverdefinedReason::Memory } else { OverdefinedReason::Outside };
                return self.add_unknown(unplaced, cause);
            }
            MemoryClass::Owned => self.add(unplaced, self.element(source, None)),
            _ => {}
        }
        let Some(start) = self.offset(self.displaced(from, from_offset)) else {
            let whole = self.whole(source);
            return self.include(whole, unplaced, true);
        };
        let shift = first.map(|other| other - start);
        if source == object && shift == Some(0) {
            return;
        }
        // Cells of the one are cells of the other.
        let shift = shift.filter(|shift| shift % CELL == 0 && source != object);
        let end = if size == 0 { i64::MAX } else { start.saturating_add(i64::from(size)) };
        self.ask_above(source, end);
        self.copy_range(
            source,
            RangeCopy { from: start.div_euclid(CELL) * CELL, end, object, shift, unplaced },
        );
        let anywhere = self.anywhere(source);
        self.include(anywhere, unplaced, true);
        if let Some((start, above)) = self.objects[source as usize].above
            && end > start
        {
            self.include(above, unplaced, true);
        }
    }
}
