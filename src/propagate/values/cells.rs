//! Field-sensitive memory: objects are divided into cells, and copies of ranges are copies of cells.
//!
//! An object has one cell for each known offset, and one for stores at an unknown offset, which every load reads too. Memory that
//! escaped is not divided: it is one object, whose only node is [`ESCAPED`](super::graph::ESCAPED).

use super::graph::{
    CELL, ConstraintGraph, Event, IS_SHARED, MAX_ACCESS, NodeId, OverdefinedReason, RangeCopy,
};
use super::sets::Element;

impl ConstraintGraph {
    /// The cell at `offset`, a multiple of [`CELL`].
    pub(super) fn cell(&mut self, object: u32, offset: i64) -> NodeId {
        let object = self.object_of(object);
        if self.objects[object as usize].joined {
            return self.anywhere(object);
        }
        let (first, is_new) = self.known_or_new(object, offset);
        if is_new && !self.objects[object as usize].copied.is_empty() {
            self.copy_on(vec![(object, offset, first)]);
        }
        first
    }

    /// The cell at `offset` of a representative whose places are distinguished; true: it is new.
    fn known_or_new(&mut self, object: u32, offset: i64) -> (NodeId, bool) {
        let next = self.nodes.len() as NodeId;
        let of = &mut self.objects[object as usize];
        let cell = *of.cells.entry(offset).or_insert(next);
        if cell != next {
            return (cell, false);
        }
        let whole = of.whole;
        self.node();
        if let Some(whole) = whole {
            self.include(cell, whole, true);
        }
        (cell, true)
    }

    /// Apply the copies of an object to its new cells. The cells that this makes are copied too.
    fn copy_on(&mut self, mut new: Vec<(u32, i64, NodeId)>) {
        while let Some((object, offset, cell)) = new.pop() {
            for at in 0..self.objects[object as usize].copied.len() {
                let copy = self.objects[object as usize].copied.get(at).copied();
                new.extend(copy.and_then(|copy| self.copy_cell(offset, cell, copy)));
            }
        }
    }

    /// Copy one cell of a copy's source. The result is the cell of the target if it is new.
    fn copy_cell(&mut self, offset: i64, cell: NodeId, copy: RangeCopy) -> Option<(u32, i64, NodeId)> {
        if offset < copy.from || offset >= copy.end {
            return None;
        }
        let target = self.object_of(copy.object);
        let place = copy.shift.and_then(|shift| offset.checked_add(shift));
        let place = place.filter(|p| self.offset(self.element(target, Some(*p))).is_some());
        let Some(place) = place else {
            self.include(cell, copy.unplaced, true);
            return None;
        };
        let (to, is_new) = self.known_or_new(target, place);
        self.include(cell, to, true);
        is_new.then_some((target, place, to))
    }

    /// Copy the cells of `source` in the range of `copy`, and those that are added later.
    pub(super) fn copy_range(&mut self, source: u32, copy: RangeCopy) {
        if self.objects[source as usize].copied.contains(&copy) {
            return;
        }
        self.objects[source as usize].copied.push(copy);
        let cells = self.objects[source as usize].cells.range(copy.from..);
        let cells: Vec<(i64, NodeId)> = cells.map(|(o, n)| (*o, *n)).collect();
        let mut new: Vec<(u32, i64, NodeId)> = Vec::new();
        for (offset, cell) in cells {
            new.extend(self.copy_cell(offset, cell, copy));
        }
        self.copy_on(new);
    }

    /// Store a value of 8 bytes at a known place of an object, also if the object was joined or escaped.
    pub(super) fn store_at(&mut self, from: NodeId, object: u32, offset: i64) {
        let place = self.element(object, Some(offset));
        if offset % CELL != 0 || self.offset(place).is_none() {
            return self.store(from, place, Some(0), CELL as u32);
        }
        let cell = self.cell(object, offset);
        self.include(from, cell, true);
    }

    /// The node of stores at unknown offsets.
    pub(super) fn anywhere(&mut self, object: u32) -> NodeId {
        let object = self.object_of(object);
        if let Some(node) = self.objects[object as usize].anywhere {
            return node;
        }
        let node = self.node();
        self.objects[object as usize].anywhere = Some(node);
        if let Some(whole) = self.objects[object as usize].whole {
            self.include(node, whole, true);
        }
        node
    }

    /// The node of stores at an unknown place that is at least `place`.
    pub(super) fn not_below(&mut self, object: u32, place: Option<i64>) -> NodeId {
        match (self.objects[self.object_of(object) as usize].above, place) {
            (Some((start, above)), Some(place)) if place >= start => above,
            _ => self.anywhere(object),
        }
    }

    /// The node of the whole contents of an object, made at the first use. All cells of the object flow into it.
    pub(super) fn whole(&mut self, object: u32) -> NodeId {
        let object = self.object_of(object);
        if let Some(whole) = self.objects[object as usize].whole {
            return whole;
        }
        self.ask_above(object, i64::MAX);
        let whole = self.node();
        let of = &mut self.objects[object as usize];
        of.whole = Some(whole);
        self.parts(object).into_iter().for_each(|part| self.include(part, whole, true));
        whole
    }

    /// Every node of an object but the whole.
    pub(super) fn parts(&self, object: u32) -> Vec<NodeId> {
        let of = &self.objects[object as usize];
        let above = of.above.map(|a| a.1);
        of.cells.values().copied().chain(of.anywhere).chain(above).collect()
    }

    /// Give an object a node for stores at unknown offsets from `offset` on. This must happen once, before any read.
    pub(super) fn divide_above(&mut self, object: u32, offset: i64) -> NodeId {
        let object = self.object_of(object);
        if self.objects[object as usize].joined {
            return self.anywhere(object);
        }
        if let Some((_, node)) = self.objects[object as usize].above {
            return node;
        }
        let node = self.node();
        self.objects[object as usize].above = Some((offset, node));
        node
    }

    /// Record a read of an object at an unknown place below `end`.
    pub(super) fn ask_above(&mut self, object: u32, end: i64) {
        if let Some(of) = self.objects.get_mut(object as usize)
            && of.above.is_some_and(|(start, _)| end > start)
            && !std::mem::replace(&mut of.asked, true)
        {
            self.events.push(Event::AboveRead { object });
        }
    }

    /// Whether nothing reads the upper part of a divided object, so that stores there may be skipped.
    pub(super) fn is_unasked(&self, object: u32) -> bool {
        self.objects.get(object as usize).is_some_and(|of| of.above.is_some() && !of.asked)
    }

    /// The range of the cells that an access overlaps; `None` if it is unknown.
    pub(super) fn overlapped(&self, element: Element, offset: Option<i64>, size: u32) -> Option<(i64, i64)> {
        let place = self.displaced(element, offset);
        let start = self.offset(place).filter(|_| (1..=MAX_ACCESS).contains(&size))?;
        let end = start.checked_add(i64::from(size))?;
        Some((start.div_euclid(CELL) * CELL, end))
    }

    /// Let memory escape: its contents escape, and external code may store anything there.
    pub(super) fn share(&mut self, object: u32) {
        self.ask_above(object, i64::MAX);
        let of = &self.objects[object as usize];
        let whole = of.whole;
        for node in self.parts(object).into_iter().chain(whole) {
            let id = self.find(node);
            self.mark(id, IS_SHARED);
            self.mark_escaping(id);
            self.add_unknown(node, OverdefinedReason::Memory);
        }
    }
}
