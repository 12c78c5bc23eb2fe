//! Sets of addresses: sorted vectors of packed (object, offset) pairs, joined a batch at a time.
//!
//! An element is 8 bytes: the number of an object above, a code of the offset below, 0 for an offset that isn't known.
//! A set with an object at an unknown offset needs no known offset of it, and one with more than [`MAX_OFFSETS`] offsets
//! of one object holds the unknown one instead: a semilattice of finite height, so a fixpoint doesn't depend on order.

use std::rc::Rc;

/// (object, offset).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Element(u64);

/// The object that stands for whatever escaped; its "offset" is a [`Cause`](super::graph::Cause).
pub(super) const UNKNOWN_OBJECT: u32 = 0;

/// How many offsets of one object a set tells apart.
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

    /// Whatever escaped, for whatever cause.
    pub(super) const UNKNOWN: Element = Element((UNKNOWN_OBJECT as u64) << 32 | u32::MAX as u64);

    pub(super) fn is_unknown(self) -> bool {
        self.object() == UNKNOWN_OBJECT
    }

    /// The object at an unknown offset.
    fn anywhere(self) -> Element {
        Element(self.0 & !u64::from(u32::MAX))
    }
}

/// A set. Equal sets may share their elements until one of them grows.
#[derive(Debug, Clone, Default)]
pub(super) struct Set {
    /// Sorted; `None` is the empty set.
    elements: Option<Rc<Vec<Element>>>,
}

impl Set {
    pub(super) fn as_slice(&self) -> &[Element] {
        self.elements.as_ref().map_or(&[], |e| e.as_slice())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.as_slice().is_empty()
    }

    /// Whether the two are known to be equal because they share their elements.
    pub(super) fn shares(&self, other: &Set) -> bool {
        self.elements.as_ref().zip(other.elements.as_ref()).is_some_and(|(a, b)| Rc::ptr_eq(a, b))
    }

    pub(super) fn retain(&mut self, keep: impl Fn(Element) -> bool) {
        if !self.as_slice().iter().all(|e| keep(*e)) {
            self.own().retain(|e| keep(*e));
        }
    }

    fn own(&mut self) -> &mut Vec<Element> {
        Rc::make_mut(self.elements.get_or_insert_default())
    }

    /// Whether an element that would lie at `at` is covered by its object at an unknown offset, which lies alone.
    fn is_covered(&self, element: Element, at: usize) -> bool {
        at.checked_sub(1).and_then(|before| self.as_slice().get(before)) == Some(&element.anywhere())
    }

    /// Add an element; what is new goes to `news`, which may be another one that covers it.
    fn insert(&mut self, element: Element, news: &mut Vec<Element>) {
        let Err(at) = self.as_slice().binary_search(&element) else { return };
        if self.is_covered(element, at) {
            return;
        }
        let elements = self.own();
        let same = |e: &&Element| e.object() == element.object();
        let own = |part: &[Element]| part.iter().take_while(same).count();
        let start = at - elements[..at].iter().rev().take_while(same).count();
        let end = at + own(&elements[at..]);
        if element.code() == 0 || end - start >= MAX_OFFSETS {
            elements.splice(start..end, [element.anywhere()]);
            news.push(element.anywhere());
        } else {
            elements.insert(at, element);
            news.push(element);
        }
    }

    /// Add many, sorted; what is new goes to `news`. `fresh` is room, and empty before.
    pub(super) fn join(&mut self, batch: &[Element], news: &mut Vec<Element>, fresh: &mut Vec<Element>) {
        self.missing(batch, fresh);
        // An insertion moves what is above it: of many, one pass over both is less.
        if fresh.len() <= 2 || fresh.len() * 16 < self.as_slice().len() {
            fresh.drain(..).for_each(|e| self.insert(e, news));
            return;
        }
        let old = std::mem::take(self);
        let mut joined = Vec::with_capacity(old.as_slice().len() + fresh.len());
        let (mut left, mut right) = (old.as_slice(), fresh.as_slice());
        while let Some(object) = match (left.first(), right.first()) {
            (Some(l), Some(r)) => Some(l.min(r).object()),
            (l, r) => l.or(r).map(|e| e.object()),
        } {
            let (own, more) = split(left, object);
            let (new, others) = split(right, object);
            (left, right) = (more, others);
            let anywhere = Element::new(object, 0);
            if own.first() == Some(&anywhere) || new.is_empty() {
                joined.extend_from_slice(own);
            } else if new.first() == Some(&anywhere) || own.len() + new.len() > MAX_OFFSETS {
                joined.push(anywhere);
                news.push(anywhere);
            } else {
                let start = joined.len();
                joined.extend_from_slice(own);
                joined.extend_from_slice(new);
                if let Some(group) = joined.get_mut(start..)
                    && !own.is_empty()
                {
                    group.sort_unstable();
                }
                news.extend_from_slice(new);
            }
        }
        self.elements = Some(Rc::new(joined));
        fresh.clear();
    }

    /// Those of a sorted batch that the set doesn't cover, without duplicates.
    fn missing(&self, batch: &[Element], fresh: &mut Vec<Element>) {
        let elements = self.as_slice();
        if elements == batch {
            return;
        }
        let mut at = 0;
        let mut last = None;
        for element in batch {
            if last.replace(*element) == Some(*element) {
                continue;
            }
            // Twice as far each time, then between the last two.
            let mut step = 1;
            while elements.get(at + step).is_some_and(|e| e < element) {
                at += step;
                step *= 2;
            }
            let end = (at + step).min(elements.len());
            at += elements.get(at..end).map_or(0, |part| part.partition_point(|e| e < element));
            if elements.get(at) != Some(element) && !self.is_covered(*element, at) {
                fresh.push(*element);
            }
        }
    }
}

/// The elements of an object, and those after them.
fn split(elements: &[Element], object: u32) -> (&[Element], &[Element]) {
    elements.split_at(elements.iter().take_while(|e| e.object() == object).count())
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
        fn joins_are_those_of_the_definition(
            batches in prop::collection::vec(prop::collection::vec((0u32..40, 0u32..30), 0..400), 0..6),
        ) {
            let mut set = Set::default();
            let (mut all, mut told) = (Vec::new(), Vec::new());
            for batch in &batches {
                let mut batch = elements(batch);
                batch.sort_unstable();
                let (mut news, mut missing) = (Vec::new(), Vec::new());
                set.join(&batch, &mut news, &mut Vec::new());
                set.missing(&batch, &mut missing);
                prop_assert_eq!(missing, []);
                all.extend(batch);
                told.extend(news);
            }
            prop_assert_eq!(set.as_slice(), plain(&all));
            prop_assert_eq!(plain(&told), plain(&all), "a successor that is told the news knows the whole");
        }
    }
}
