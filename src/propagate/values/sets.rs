//! Sets of addresses: sorted vectors of packed (object, offset) pairs, joined a batch at a time.
//!
//! An element is 8 bytes: the number of an object above, a code of the offset below, 0 for an offset that isn't known.
//! A set with an object at an unknown offset needs no known offset of it, and one with more than [`MAX_OFFSETS`] offsets
//! of one object holds the unknown one instead: a semilattice of finite height, so a fixpoint doesn't depend on order.

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

/// A set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Set {
    elements: Vec<Element>,
}

impl Set {
    pub(super) fn as_slice(&self) -> &[Element] {
        &self.elements
    }

    pub(super) fn retain(&mut self, keep: impl Fn(Element) -> bool) {
        self.elements.retain(|e| keep(*e));
    }

    /// Whether joining `element` would change nothing.
    pub(super) fn covers(&self, element: Element) -> bool {
        match self.elements.binary_search(&element) {
            Ok(_) => true,
            Err(at) => {
                // The elements of one object lie together, the unknown offset first.
                let start = self.start_of(element, at);
                self.elements.get(start) == Some(&element.anywhere())
            }
        }
    }

    /// Where the elements of the object of `element` start, `at` being where it is or would be.
    fn start_of(&self, element: Element, at: usize) -> usize {
        let same = |e: &&Element| e.object() == element.object();
        at - self.elements[..at].iter().rev().take_while(same).count()
    }

    /// Add an element; what is new goes to `news`, which may be another one that covers it.
    pub(super) fn insert(&mut self, element: Element, news: &mut Vec<Element>) {
        let Err(at) = self.elements.binary_search(&element) else { return };
        let start = self.start_of(element, at);
        if self.elements.get(start) == Some(&element.anywhere()) {
            return;
        }
        let same = |e: &&Element| e.object() == element.object();
        let end = at + self.elements[at..].iter().take_while(same).count();
        if element.code() == 0 || end - start >= MAX_OFFSETS {
            self.elements.splice(start..end, [element.anywhere()]);
            news.push(element.anywhere());
        } else {
            self.elements.insert(at, element);
            news.push(element);
        }
    }

    /// Add many, in any order.
    pub(super) fn join(&mut self, batch: &[Element], news: &mut Vec<Element>) {
        // An insertion moves what is above it: for a large batch into a large set, one pass over both is less.
        if batch.len() < 16 || self.elements.len() < 256 {
            batch.iter().for_each(|e| self.insert(*e, news));
            return;
        }
        let mut fresh: Vec<Element> = batch.iter().copied().filter(|e| !self.covers(*e)).collect();
        if fresh.len() < 16 {
            fresh.iter().for_each(|e| self.insert(*e, news));
            return;
        }
        fresh.sort_unstable();
        fresh.dedup();
        let old = std::mem::take(&mut self.elements);
        let (mut left, mut right) = (old.iter().copied().peekable(), fresh.iter().copied().peekable());
        self.elements.reserve(old.len() + fresh.len());
        let mut group: Vec<(Element, bool)> = Vec::new();
        while let Some(object) = match (left.peek(), right.peek()) {
            (Some(l), Some(r)) => Some(l.min(r).object()),
            (l, r) => l.or(r).map(|e| e.object()),
        } {
            group.clear();
            let mut olds = 0;
            while let Some(e) = left.next_if(|e| e.object() == object) {
                group.push((e, false));
                olds += 1;
            }
            while let Some(e) = right.next_if(|e| e.object() == object) {
                group.push((e, true));
            }
            if group.len() > olds && olds > 0 {
                group.sort_unstable();
            }
            let anywhere = Element::new(object, 0);
            let has_anywhere = group.first().is_some_and(|g| g.0 == anywhere);
            if has_anywhere || group.len() > MAX_OFFSETS {
                self.elements.push(anywhere);
                if group.iter().any(|g| g.1) {
                    news.push(anywhere);
                }
                continue;
            }
            self.elements.extend(group.iter().map(|g| g.0));
            news.extend(group.iter().filter(|g| g.1).map(|g| g.0));
        }
    }
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
                let batch = elements(batch);
                let mut news = Vec::new();
                set.join(&batch, &mut news);
                prop_assert!(batch.iter().all(|e| set.covers(*e)));
                all.extend(batch);
                told.extend(news);
            }
            prop_assert_eq!(set.as_slice(), plain(&all));
            prop_assert_eq!(plain(&told), plain(&all), "a successor that is told the news knows the whole");
        }
    }
}
