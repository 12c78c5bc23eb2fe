//! How a search ends otherwise than by finding, and the exit status that says so.
//!
//! Left out: the words for it, see [`text`](super::text).

/// Exit statuses; 1 is a mistake in our own words, as everywhere.
pub mod status {
    /// The exit status if an atom was found.
    pub const FOUND: u8 = 0;
    /// The exit status if COMMAND succeeds with everything dropped.
    pub const NOTHING: u8 = 2;
    /// The exit status if COMMAND fails with nothing dropped.
    pub const FAILS_ANYWAY: u8 = 3;
    /// Runs contradict each other, or do not link again.
    pub const UNSTEADY: u8 = 4;
    /// COMMAND makes no link through this program that drops anything.
    pub const NO_LINK: u8 = 5;
    /// The exit status if COMMAND can't be run.
    pub const CANNOT_RUN: u8 = 127;
}

/// How a search ended otherwise than by finding.
#[derive(Debug)]
pub(super) enum Stop {
    /// An exit status, and what to say on standard error.
    Said(u8, String),
    /// It was ended by a signal to us.
    Signal(i32),
}
