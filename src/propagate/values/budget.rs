//! The budgets: how many objects a set distinguishes, and how much work a link may be.
//!
//! A set that points to very many objects says little, and every access through it costs as many steps as it has
//! elements. Beyond the budget the objects of the set become one (`joined_objects`): what any of them holds, all of them hold. That is sound
//! (it only adds), keeps what is known of functions, and makes the rest of the work near-linear, as unification does (Steensgaard).
//!
//! Work is counted in steps, not in time: an element that was looked at, an edge along which the mark of an overdefined value
//! was propagated. An edge that is added counts for several, since it stays in memory. A number of steps in proportion to the constraints changes nothing. Beyond it a set distinguishes no objects; beyond more, all memory that has not
//! escaped becomes one object; and should that not be enough, every value becomes unknown and all escapes, which is what
//! the level `functions` knows. Each only adds. Which sets exceed a budget first depends on the order of work, which is fixed: a link gives the same result
//! every time. The report counts what was joined and says what was given up.

/// How much work a link may cost before something is no longer distinguished.
#[derive(Debug, Clone, Copy)]
pub(super) struct Budget {
    /// The number of objects of memory that a set distinguishes.
    pub(super) objects: usize,
    /// Pairs of a source and a target of a copy for which places are distinguished.
    pub(super) pairs: usize,
    /// Elements of a set from which on what is accessed through it is accessed once for all that hold it.
    pub(super) alike: usize,
    /// Clones of a function for calls; what else calls it shares one.
    pub(super) clones: usize,
    /// Values of a function that has a clone for unseen code, at most. This bounds the constraints that are added twice.
    pub(super) unseen_values: u32,
    /// Elements of sets that are made before those that nobody holds are forgotten.
    pub(super) room: usize,
    /// Steps that are free for every link, however small it is.
    pub(super) free: usize,
    /// Steps for each constraint after which a set distinguishes no objects, after which all memory is one, and after which
    /// everything is unknown.
    pub(super) steps: [usize; 3],
    /// The same, however many constraints there are.
    pub(super) most: [usize; 3],
}

/// Steps that an edge of the graph counts for: adding one, and its place in memory, cost about as much as so many looks at elements.
pub(super) const STEPS_OF_AN_EDGE: usize = 8;

/// What links get; `value_flow` of a report has the steps and constraints of one. Where anything may be called, the programs of the
/// bench take few steps for each constraint; zstd, in which nearly all calls are known, takes about forty.
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

/// What was given up because the budget was spent, each more than the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum GivenUp {
    #[default]
    Nothing,
    /// Objects of memory to which one value may point are not distinguished.
    Objects,
    /// Objects of memory are not distinguished.
    Memory,
    /// Values are not distinguished: all that is mentioned escapes.
    Values,
}
