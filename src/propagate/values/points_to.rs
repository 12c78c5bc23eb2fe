//! The points-to set of a node, with what is on its way there: the state of propagation.
//!
//! What was propagated, what arrived first and what came besides are apart, so that each set is propagated once. Left out: what
//! the graph does with it, see `holding`.

use super::sets::SetId;

/// The set of elements that a node holds, and what is on its way there.
#[derive(Default)]
pub(super) struct PointsToSet {
    /// What has been propagated, unless it is to be done again.
    pub(super) set: SetId,
    /// The set that arrived first and has not been propagated yet.
    pub(super) first: SetId,
    pub(super) more: Vec<SetId>,
    /// The edges and uses have not seen all of the set.
    pub(super) again: bool,
}

impl PointsToSet {
    pub(super) fn coming(&self) -> impl Iterator<Item = SetId> {
        std::iter::once(self.first).chain(self.more.iter().copied())
    }

    /// Take all that another one holds, as not propagated yet.
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
