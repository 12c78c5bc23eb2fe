//! Difference propagation: the points-to set of a node, and the sets that wait to be propagated.
//!
//! The propagated set, the first waiting set and the other waiting sets are separate, so that each set is propagated once. The
//! module `holding` has the operations.

use super::sets::SetId;

/// The set of elements of a node, and the sets that wait to be joined to it.
#[derive(Default)]
pub(super) struct PointsToSet {
    /// The set that was propagated along the edges, unless `again` is set.
    pub(super) set: SetId,
    /// The set that arrived first and has not been propagated yet.
    pub(super) first: SetId,
    pub(super) more: Vec<SetId>,
    /// The set must be propagated again, since some edges or constraints have not seen all of it.
    pub(super) again: bool,
}

impl PointsToSet {
    pub(super) fn coming(&self) -> impl Iterator<Item = SetId> {
        std::iter::once(self.first).chain(self.more.iter().copied())
    }

    /// Add all elements of another set, to be propagated again.
    pub(super) fn absorb(&mut self, other: PointsToSet) {
        self.more.extend([other.set, other.first]);
        self.more.extend(other.more);
        self.again = true;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.set.is_empty() && self.coming().all(SetId::is_empty)
    }

    pub(super) fn sets(&mut self) -> impl Iterator<Item = &mut SetId> {
        [&mut self.set, &mut self.first].into_iter().chain(&mut self.more)
    }
}
