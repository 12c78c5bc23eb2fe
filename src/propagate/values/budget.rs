//! Analysis budgets: how many objects a points-to set distinguishes, and how many steps a link may take.
//!
//! Of a set over its budget, first the objects of one layout are joined, and then all (`joined_objects`), as in unification-based analysis
//! (Steensgaard). Joining only adds to the solution. It keeps the function addresses and makes the remaining work near-linear.
//!
//! A step is one element read, or one propagation of the overdefined mark along an edge. A new edge counts as several steps, since
//! it occupies memory. Three thresholds lower the precision in turn: sets distinguish no objects, all memory is one object, all
//! values are unknown. The last has the precision of the level `functions`. Steps do not measure time, so a link has the same
//! result every time.

/// How much work a link may cost before something is no longer distinguished.
#[derive(Debug, Clone, Copy)]
pub(super) struct Budget {
    /// The number of objects of memory that a set distinguishes.
    pub(super) objects: usize,
    /// Pairs of a source and a target of a copy for which places are distinguished.
    pub(super) pairs: usize,
    /// The size of a set at which loads and stores through it share one group node.
    pub(super) alike: usize,
    /// The most clones of a function for calls; further calls share one copy.
    pub(super) clones: usize,
    /// The most values of a function that has a clone for external code. This bounds the constraints that are added twice.
    pub(super) unseen_values: u32,
    /// The number of new elements of sets after which unused sets are collected.
    pub(super) room: usize,
    /// Steps that are free for every link, however small it is.
    pub(super) free: usize,
    /// Steps for each constraint after which a set distinguishes no objects, after which all memory is one, and after which
    /// everything is unknown.
    pub(super) steps: [usize; 3],
    /// The same, however many constraints there are.
    pub(super) most: [usize; 3],
}

/// The number of steps that an edge counts for: adding and keeping one costs as much as reading so many elements.
pub(super) const STEPS_OF_AN_EDGE: usize = 8;

/// The budget of a link; the report's `value_flow` has the steps and constraints of each link. Programs of the benchmark with
/// unknown calls take few steps for each constraint. zstd, whose calls are nearly all known, takes about forty.
pub(super) const BUDGET: Budget = Budget {
    objects: 24,
    pairs: 16,
    alike: 8,
    clones: 16,
    unseen_values: 1024,
    room: 1 << 20,
    free: 300_000,
    steps: [400, 500, 1200],
    most: [40_000_000, 50_000_000, 100_000_000],
};

/// The precision that was given up when the budget was exceeded, in increasing order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum GivenUp {
    #[default]
    Nothing,
    /// Objects of memory to which one value may point are not distinguished.
    Objects,
    /// Objects of memory are not distinguished.
    Memory,
    /// Values are not distinguished: every address-taken function escapes.
    Values,
}
