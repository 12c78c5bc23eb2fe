//! Delta debugging by bisection (`lto-prune bisect [OPTIONS] -- COMMAND...`): which dropped atom makes COMMAND fail.
//!
//! COMMAND links and tests. It runs again and again with `LTO_PRUNE_FLAGS` in its environment, by which each link learns how
//! much it may drop (`--prune-limit`) and says what it is (`--prune-limit-log`). It must succeed with nothing dropped and fail with
//! all; then the search is over links, in the order of that run, and over the atoms of one, in the order of [`crate::plan::limit`].
//!
//! The result is what was seen, twice each: the run that drops the first N atoms fails, and the one that drops N - 1 succeeds. A
//! link is known by what it could lose ([`crate::config::LinkId`]), so that neither the order of a parallel build nor names
//! of temporary files matter; one that was not seen at first drops nothing.
//!
//! Left out: telling one reason of failing from another, and a second culprit (`--prune-keep` the first, and search again).

mod options;
mod outcome;
mod process;
mod search;
mod text;

pub use outcome::status;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use crate::args::{Environment, help};
use crate::error::Result;
use crate::terminal;
use outcome::Stop;

/// Do what the words ask for.
///
/// # Errors
/// A mistake in the options, or no place for temporary files.
pub fn main(words: &[OsString], env: &Environment<'_>) -> Result<ExitCode> {
    let Some(options) = options::parse(words)? else {
        // A closed pipe is the reader's business.
        let _ = std::io::stdout().write_all(help::text("bisect").as_bytes());
        return Ok(ExitCode::SUCCESS);
    };
    let runner = process::Runner::new(options, env)?;
    let mut search = search::BisectSearch::new(runner);
    let ended = search.run();
    // The folder of temporary files goes before a signal ends us.
    drop(search);
    Ok(match ended {
        Ok(found) => {
            let _ = std::io::stdout().write_all(terminal::lines(&found).as_bytes());
            ExitCode::from(status::FOUND)
        }
        Err(Stop::Said(status, text)) => {
            eprint!("{text}");
            ExitCode::from(status)
        }
        Err(Stop::Signal(signal)) => {
            let _ = signal_hook::low_level::emulate_default_handler(signal);
            ExitCode::FAILURE
        }
    })
}
