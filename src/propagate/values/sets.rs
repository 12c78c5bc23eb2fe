//! Sets of addresses, each kept once: a set is a number, equal sets have the same one, and a union is looked up before it is made.
//!
//! An element is 8 bytes: the number of an object above, a code of the offset below, 0 for an offset that isn't known.
//! A set with an object at an unknown offset needs no known offset of it, and one with more than [`MAX_OFFSETS`] offsets
//! of one object holds the unknown one instead: a semilattice of finite height, so a fixpoint doesn't depend on order.
//!
//! Most values of a link end with one of a few sets, by way of the same unions: making each once (Barbar and Sui, "Hash consed
//! points-to sets") costs what the different sets hold, and not what all values hold. Safe because a set never changes: a number means the same
//! until it is collected, and only what no node holds is. Left out: what an object is and which of them are one, see `budget`.

use std::hash::Hasher;

use rustc_hash::{FxHashMap, FxHasher};

/// An object and an offset in it, in one word: the object in the upper half.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Element(u64);

/// The object that stands for whatever escaped; its "offset" is a [`OverdefinedReason`](super::graph::OverdefinedReason).
pub(super) const UNKNOWN_OBJECT: u32 = 0;

/// How many offsets of one object a set distinguishes.
pub(super) const MAX_OFFSETS: usize = 16;

impl Element {
    /// `code` 0 is an unknown offset.
    pub(super) fn new(object: u32, code: u32) -> Self {
        Element(u64::from(object) << 32 | u64::from(code))
    }

    pub(super) fn object(self) -> u32 {
        (self.0 >> 32) as u32
    }

    pub(super) fn code(self) -> u32 {
        self.0 as u32
    }

    /// The element that stands for whatever escaped, for whatever cause.
    pub(super) const OVERDEFINED: Element = Element((UNKNOWN_OBJECT as u64) << 32 | u32::MAX as u64);

    pub(super) fn is_unknown(self) -> bool {
        self.object() == UNKNOWN_OBJECT
    }

    /// The object at an unknown offset.
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

/// What is known of a set, each with when that was found.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SetFacts {
    /// The set with objects replaced by their representatives, and the epoch of that.
    pub(super) canonical: (u32, SetId),
    /// The same with the epoch in which it was made, without what has escaped.
    pub(super) unescaped: (u32, SetId),
    /// Every object of the set has escaped, so that nothing is left to tell.
    pub(super) escaped: bool,
    /// How many objects of memory it distinguishes.
    pub(super) distinguished_objects: Option<u32>,
    /// The addresses of code in it.
    pub(super) code: Option<SetId>,
}

/// The table of sets, each of which is there once.
pub(super) struct SetTable {
    /// The elements of all sets, one set after the other; each sorted.
    elements: Vec<Element>,
    /// By set: the end of its elements, which begin where those of the one before end.
    ends: Vec<usize>,
    /// The last set with each hash, and for each set the one before with the same hash.
    known: FxHashMap<u64, SetId>,
    before: Vec<SetId>,
    facts: Vec<SetFacts>,
    unions: FxHashMap<(SetId, SetId), SetId>,
    /// Elements that were looked at to make sets.
    pub(super) steps: usize,
    /// Elements that were kept after the last collection.
    kept: usize,
    /// Room for a result that is being made; it is empty between uses.
    room: Vec<Element>,
}

/// Up to so many sets are joined in turn: the same ones often come together.
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

    /// The set of these, in any order.
    pub(super) fn of(&mut self, elements: impl IntoIterator<Item = Element>) -> SetId {
        let mut room = std::mem::take(&mut self.room);
        room.extend(elements);
        room.sort_unstable();
        room.dedup();
        let set = self.intern(&mut room);
        self.room = room;
        set
    }

    /// The set of what either of the two holds.
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

    /// The set of what any of these sets holds.
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

    /// The number of the set of these, which are sorted and different, and are gone afterwards.
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

    /// Whether more than `room` and twice as much was made as is known to be held.
    pub(super) fn is_large(&self, room: usize) -> bool {
        self.elements.len() > self.kept.saturating_mul(2).saturating_add(room)
    }

    /// A table of those sets alone that `held` gives, and each of them by its new number.
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

/// What two sorted lists hold, sorted and without duplicates.
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

/// Replace the offsets of an object by the unknown one where a set needs no others.
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

    /// What a set must hold, from its definition.
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
