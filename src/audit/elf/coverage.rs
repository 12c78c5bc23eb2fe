//! An interval map: which bytes belong to which owner. A byte has at most one owner, the first that asked for it.

use std::cmp::Reverse;
use std::ops::Range;

/// A range of places and the number of its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) owner: u32,
}

/// The ranges are in ascending order, and no two of them overlap.
#[derive(Debug, Default)]
pub(super) struct Coverage {
    claims: Vec<Claim>,
}

impl Coverage {
    /// Give the bytes of claims to their owners, except bytes that have an owner already. Of two new claims that overlap, the one that begins first
    /// wins, and of those that begin at one place the longest.
    pub(super) fn add(&mut self, mut new: Vec<Claim>) {
        new.retain(|c| c.start < c.end);
        new.sort_by_key(|c| (c.start, Reverse(c.end)));
        let old = std::mem::take(&mut self.claims);
        let mut merged = Vec::with_capacity(old.len() + new.len());
        let (mut end, mut at) = (0, 0);
        for claim in new {
            let mut start = claim.start.max(end);
            end = end.max(claim.end);
            while old.get(at).is_some_and(|o| o.end <= start) {
                at += 1;
            }
            for taken in old.get(at..).unwrap_or(&[]).iter().take_while(|o| o.start < claim.end) {
                if taken.start > start {
                    merged.push(Claim { start, end: taken.start, ..claim });
                }
                start = start.max(taken.end);
            }
            if start < claim.end {
                merged.push(Claim { start, ..claim });
            }
        }
        merged.extend(old);
        merged.sort_by_key(|c| c.start);
        self.claims = merged;
    }

    pub(super) fn claims(&self) -> &[Claim] {
        &self.claims
    }

    /// The claims in a range of places, cut to it.
    pub(super) fn inside(&self, places: Range<u64>) -> impl Iterator<Item = Claim> + '_ {
        let first = self.claims.partition_point(|c| c.end <= places.start);
        let inside = self.claims.get(first..).unwrap_or(&[]).iter().take_while(move |c| c.start < places.end);
        inside.map(move |c| Claim { start: c.start.max(places.start), end: c.end.min(places.end), ..*c })
    }

    /// The claim that a place is in.
    pub(super) fn at(&self, place: u64) -> Option<Claim> {
        let next = self.claims.partition_point(|c| c.start <= place);
        self.claims.get(next.checked_sub(1)?).copied().filter(|c| place < c.end)
    }

    pub(super) fn owner(&self, place: u64) -> Option<u32> {
        self.at(place).map(|c| c.owner)
    }

    /// The end of the bytes without an owner that begin at a place, at most `end`.
    pub(super) fn free_until(&self, place: u64, end: u64) -> u64 {
        let next = self.claims.partition_point(|c| c.end <= place);
        self.claims.get(next).map_or(end, |c| c.start.clamp(place, end.max(place)))
    }

    /// The parts of a range that have no owner.
    pub(super) fn gaps(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut gaps = Vec::new();
        let mut start = range.start;
        let first = self.claims.partition_point(|c| c.end <= range.start);
        for claim in self.claims.get(first..).unwrap_or(&[]).iter().take_while(|c| c.start < range.end) {
            if claim.start > start {
                gaps.push(start..claim.start);
            }
            start = start.max(claim.end);
        }
        if start < range.end {
            gaps.push(start..range.end);
        }
        gaps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim((start, end, owner): (u64, u64, u32)) -> Claim {
        Claim { start, end, owner }
    }

    #[test]
    fn the_first_has_it() {
        let mut coverage = Coverage::default();
        coverage.add([(10, 20, 1), (10, 15, 2), (18, 25, 3), (30, 30, 4)].map(claim).to_vec());
        assert_eq!(coverage.claims(), [(10, 20, 1), (20, 25, 3)].map(claim));
        coverage.add([(0, 40, 5), (22, 50, 6)].map(claim).to_vec());
        let all = [(0, 10, 5), (10, 20, 1), (20, 25, 3), (25, 40, 5), (40, 50, 6)];
        assert_eq!(coverage.claims(), all.map(claim));
        assert_eq!((coverage.owner(9), coverage.owner(10), coverage.owner(50)), (Some(5), Some(1), None));
    }

    #[test]
    fn gaps_are_what_is_left() {
        let mut coverage = Coverage::default();
        coverage.add([(10, 20, 1), (30, 40, 2)].map(claim).to_vec());
        assert_eq!(coverage.gaps(0..50), [0..10, 20..30, 40..50]);
        assert_eq!(coverage.gaps(15..35), vec![20..30]);
        assert_eq!(coverage.gaps(10..20), vec![]);
        assert_eq!(coverage.gaps(50..60), vec![50..60]);
    }
}
