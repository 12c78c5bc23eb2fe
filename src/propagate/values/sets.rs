//! Hash-consed points-to sets (Barbar and Sui, "Hash consed points-to sets"): equal sets have one number, and unions are cached.
//!
//! An element has 8 bytes: the number of an object in the upper half, and a code of the offset in the lower half. Code 0 is an
//! unknown offset, which makes the known offsets of the object redundant. More than [`MAX_OFFSETS`] offsets of one object become
//! the unknown one. So sets are a semilattice of finite height, and the fixpoint does not depend on order.
//!
//! Most values of a link have one of a few sets, by the same unions. The cost depends on the number of different sets. Sets are
//! immutable; a number is valid until collection removes an unused set. The module `joined_objects` has the representatives of
//! objects.

use std::hash::Hasher;

use rustc_hash::{FxHashMap, FxHasher};

/// An object and an offset in it, in one word: the object in the upper half.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Element(u64);

/// The object that stands for all that escaped. Its "offset" is a [`OverdefinedReason`](super::graph::OverdefinedReason).
pub(super) const UNKNOWN_OBJECT: u32 = 0;

/// The most offsets of one object that a set distinguishes.
pub(super) const MAX_OFFSETS: usize = 16;

impl Element {
    /// The element with this offset code; 0 is an unknown offset.
    pub(super) fn new(object: u32, code: u32) -> Self {
        Element(u64::from(object) << 32 | u64::from(code))
    }

    pub(super) fn object(self) -> u32 {
        (self.0 >> 32) as u32
    }

    pub(super) fn code(self) -> u32 {
        self.0 as u32
    }

    /// The element that stands for all that escaped, with any cause.
    pub(super) const OVERDEFINED: Element = Element((UNKNOWN_OBJECT as u64) << 32 | u32::MAX as u64);

    pub(super) fn is_unknown(self) -> bool {
        self.object() == UNKNOWN_OBJECT
    }

    /// The same object at an unknown offset.
    fn anywhere(self) -> Element {
        Element(self.0 & !u64::from(u32::MAX))
    }
}

/// A set: its number in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(super) struct SetId(u32);

impl SetId {
    pub(super) const EMPTY: SetId = SetId(0);

    pub(super) fn is_empty(self) -> bool {
        self == SetId::EMPTY
    }
}

/// Cached facts about a set, some with the epoch in which they were found.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SetFacts {
    /// The epoch, and the set with objects replaced by their representatives.
    pub(super) canonical: (u32, SetId),
    /// The epoch, and the set also without elements that escaped.
    pub(super) unescaped: (u32, SetId),
    /// Every object of the set has escaped already.
    pub(super) escaped: bool,
    /// The number of objects of memory in the set.
    pub(super) distinguished_objects: Option<u32>,
    /// The set of the code addresses in it.
    pub(super) code: Option<SetId>,
}

/// The table of sets, without duplicates.
pub(super) struct SetTable {
    /// The elements of all sets, one set after the other; each sorted.
    elements: Vec<Element>,
    /// By set: the end of its elements, which begin at the end of the previous set.
    ends: Vec<usize>,
    /// The last set with each hash, and for each set the previous one with the same hash.
    known: FxHashMap<u64, SetId>,
    before: Vec<SetId>,
    facts: Vec<SetFacts>,
    unions: FxHashMap<(SetId, SetId), SetId>,
    /// The number of elements read to make sets.
    pub(super) steps: usize,
    /// The number of elements that the last collection kept.
    kept: usize,
    /// A buffer for a set that is being made; it is empty between uses.
    room: Vec<Element>,
}

/// Unions of at most so many sets are made pairwise, since the cache often has the pairs.
const IN_TURN: usize = 8;
impl Default for SetTable {
    fn default() -> Self {
        SetTable {
            elements: Vec::new(),
            // The empty set.
            ends: vec![0],
            known: FxHashMap::default(),
            before: vec![SetId::EMPTY],
            facts: vec![SetFacts::default()],
            unions: FxHashMap::default(),
            steps: 0,
            kept: 0,
            room: Vec::new(),
        }
    }
}

impl SetTable {
    /// The elements of a set, sorted by object and offset.
    pub(super) fn elements(&self, set: SetId) -> &[Element] {
        let at = set.0 as usize;
        let start = at.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        self.ends.get(at).and_then(|end| self.elements.get(start..*end)).unwrap_or(&[])
    }

    pub(super) fn facts(&mut self, set: SetId) -> &mut SetFacts {
        &mut self.facts[set.0 as usize]
    }

    /// The set of these elements, in any order.
    pub(super) fn of(&mut self, elements: impl IntoIterator<Item = Element>) -> SetId {
        let mut room = std::mem::take(&mut self.room);
        room.extend(elements);
        room.sort_unstable();
        room.dedup();
        let set = self.intern(&mut room);
        self.room = room;
        set
    }

    /// The union of two sets, from the cache if possible.
    pub(super) fn union(&mut self, one: SetId, other: SetId) -> SetId {
        if one == other || other.is_empty() {
            return one;
        }
        if one.is_empty() {
            return other;
        }
        let key = (one.min(other), one.max(other));
        if let Some(union) = self.unions.get(&key) {
            return *union;
        }
        let mut room = std::mem::take(&mut self.room);
        merge(self.elements(one), self.elements(other), &mut room);
        let union = self.intern(&mut room);
        self.room = room;
        self.unions.insert(key, union);
        union
    }

    /// The union of any number of sets.
    pub(super) fn union_of(&mut self, sets: &[SetId]) -> SetId {
        let mut sets = sets.to_vec();
        sets.sort_unstable();
        sets.dedup();
        sets.retain(|s| !s.is_empty());
        match *sets {
            [] => SetId::EMPTY,
            [one] => one,
            _ if sets.len() <= IN_TURN => {
                sets.iter().fold(SetId::EMPTY, |union, set| self.union(union, *set))
            }
            _ => {
                let mut room = std::mem::take(&mut self.room);
                sets.iter().for_each(|s| room.extend_from_slice(self.elements(*s)));
                room.sort_unstable();
                room.dedup();
                let union = self.intern(&mut room);
                self.room = room;
                union
            }
        }
    }

    /// The number of the set of these elements, which are sorted and different. The list is empty afterwards.
    fn intern(&mut self, elements: &mut Vec<Element>) -> SetId {
        self.steps += elements.len();
        shorten(elements);
        if elements.is_empty() {
            return SetId::EMPTY;
        }
        let mut hasher = FxHasher::default();
        elements.iter().for_each(|e| hasher.write_u64(e.0));
        let hash = hasher.finish();
        let mut at = self.known.get(&hash).copied().unwrap_or_default();
        while !at.is_empty() && self.elements(at) != elements.as_slice() {
            at = self.before.get(at.0 as usize).copied().unwrap_or_default();
        }
        if at.is_empty() {
            at = SetId(self.ends.len() as u32);
            self.elements.extend_from_slice(elements);
            self.ends.push(self.elements.len());
            self.before.push(self.known.insert(hash, at).unwrap_or_default());
            self.facts.push(SetFacts::default());
        }
        elements.clear();
        at
    }

    /// Whether the table has more than twice the elements of the last collection, plus `room`.
    pub(super) fn is_large(&self, room: usize) -> bool {
        self.elements.len() > self.kept.saturating_mul(2).saturating_add(room)
    }

    /// Keep only the sets in `held`, and replace each by its new number.
    pub(super) fn collect<'h>(&mut self, held: impl Iterator<Item = &'h mut SetId>) {
        let old = std::mem::take(self);
        self.steps = old.steps;
        let mut moved: FxHashMap<SetId, SetId> = FxHashMap::default();
        for set in held {
            *set = *moved.entry(*set).or_insert_with(|| {
                let mut elements = old.elements(*set).to_vec();
                self.intern(&mut elements)
            });
        }
        self.kept = self.elements.len();
    }
}

/// Merge two sorted lists into one without duplicates.
fn merge(mut one: &[Element], mut other: &[Element], merged: &mut Vec<Element>) {
    merged.reserve(one.len() + other.len());
    while let ([left, one_rest @ ..], [right, other_rest @ ..]) = (one, other) {
        merged.push(*left.min(right));
        if left <= right {
            one = one_rest;
        }
        if right <= left {
            other = other_rest;
        }
    }
    merged.extend_from_slice(one);
    merged.extend_from_slice(other);
}

/// Replace the offsets of an object by the unknown one, if it makes them redundant.
fn shorten(elements: &mut Vec<Element>) {
    let (mut at, mut kept) = (0, 0);
    while let Some(first) = elements.get(at).copied() {
        let same = |e: &&Element| e.object() == first.object();
        let count = elements.get(at..).map_or(0, |rest| rest.iter().take_while(same).count());
        if first.code() == 0 || count > MAX_OFFSETS {
            elements[kept] = first.anywhere();
            kept += 1;
        } else {
            elements.copy_within(at..at + count, kept);
            kept += count;
        }
        at += count;
    }
    elements.truncate(kept);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn elements(of: &[(u32, u32)]) -> Vec<Element> {
        of.iter().map(|(o, c)| Element::new(*o, *c)).collect()
    }

    /// The expected elements of a set, by definition.
    fn plain(of: &[Element]) -> Vec<Element> {
        let mut all = of.to_vec();
        all.sort_unstable();
        all.dedup();
        let many = |o: u32| {
            let own: Vec<_> = all.iter().filter(|e| e.object() == o).collect();
            own.len() > MAX_OFFSETS || own.iter().any(|e| e.code() == 0)
        };
        let mut joined: Vec<Element> =
            all.iter().map(|e| if many(e.object()) { e.anywhere() } else { *e }).collect();
        joined.dedup();
        joined
    }

    proptest! {
        #[test]
        fn unions_are_those_of_the_definition(
            batches in prop::collection::vec(prop::collection::vec((0u32..40, 0u32..30), 0..400), 0..6),
        ) {
            let mut sets = SetTable::default();
            let batches: Vec<_> = batches.iter().map(|b| elements(b)).collect();
            let made: Vec<SetId> = batches.iter().map(|b| sets.of(b.iter().copied())).collect();
            let expected = plain(&batches.concat());
            let at_once = sets.union_of(&made);
            prop_assert_eq!(sets.elements(at_once), expected.as_slice());
            let in_turn = made.iter().rev().fold(SetId::EMPTY, |a, b| sets.union(*b, a));
            prop_assert_eq!(in_turn, at_once, "the same set has one number");
            let mut held: Vec<SetId> = made.iter().copied().chain([at_once, SetId::EMPTY]).collect();
            sets.collect(held.iter_mut());
            for (set, batch) in held.iter().zip(&batches) {
                prop_assert_eq!(sets.elements(*set), plain(batch));
            }
            prop_assert_eq!(sets.union_of(&held), held[made.len()]);
            prop_assert!(held[made.len() + 1].is_empty());
        }
    }
}
