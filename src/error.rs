//! Errors of the tool: typed, each with the stage, file, section and symbol that it is about.
//!
//! An error here means "a stage of ours failed"; what follows from it (the originals are linked, or with
//! `--prune-strict` exit status 1) is decided once, in [`crate::link_main`]. A condition that the linker would report
//! itself is no error but a [`Limit`](summaries::Limit): the linker gives its own message.

use rayon::iter::ParallelIterator;
use std::fmt;
use std::path::PathBuf;

use crate::ids::named;
use crate::terminal::printable;

named! {
    /// The passes, by the names that they have in messages, timings and docs/ARCHITECTURE.md.
    pub enum Stage {
        Arguments = "arguments",
        Load = "load",
        Resolve = "resolve",
        Estimate = "estimate",
        Summarise = "summarise",
        Index = "index",
        Propagate = "propagate",
        Plan = "plan",
        Gate = "gate",
        Emit = "emit",
        Link = "link",
        Verify = "verify",
        Report = "report",
    }
}

/// A failure of one of our stages.
#[derive(Debug, thiserror::Error)]
pub struct Error {
    pub stage: Stage,
    /// The file as the user named it, `archive(member)` for a member.
    pub file: Option<String>,
    pub section: Option<String>,
    pub symbol: Option<String>,
    pub message: String,
    #[source]
    pub source: Option<std::io::Error>,
}

/// The result type of the stages of the tool.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of `stage` that is about nothing narrower.
    pub fn new(stage: Stage, message: impl Into<String>) -> Self {
        Error { stage, file: None, section: None, symbol: None, message: message.into(), source: None }
    }

    /// An error of the operating system.
    pub fn io(stage: Stage, path: impl Into<PathBuf>, doing: &str, source: std::io::Error) -> Self {
        let path: PathBuf = path.into();
        Error {
            source: Some(source),
            ..Error::new(stage, format!("cannot {doing}")).in_file(path.display().to_string())
        }
    }

    pub fn in_file(mut self, file: impl Into<String>) -> Self {
        self.file.get_or_insert(file.into());
        self
    }

    pub fn in_section(mut self, section: impl Into<String>) -> Self {
        self.section.get_or_insert(section.into());
        self
    }

    pub fn at_symbol(mut self, symbol: impl Into<String>) -> Self {
        self.symbol.get_or_insert(symbol.into());
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.stage.name())?;
        if let Some(file) = &self.file {
            write!(f, "{file}: ")?;
        }
        if let Some(section) = &self.section {
            write!(f, "section {section}: ")?;
        }
        if let Some(symbol) = &self.symbol {
            write!(f, "symbol {symbol}: ")?;
        }
        f.write_str(&self.message)?;
        match &self.source {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

/// The results in their order, or of several errors the first one in that order. Collecting by rayon into a `Result` would keep the error
/// that a thread comes to first.
pub(crate) fn all_or_first_error<T: Send>(
    results: impl ParallelIterator<Item = Result<T>>,
) -> Result<Vec<T>> {
    results.collect::<Vec<_>>().into_iter().collect()
}

/// A name of a section or a symbol in a message or a report: what is no UTF-8 in it is replaced, and control characters are escaped.
pub(crate) fn lossy(bytes: &[u8]) -> String {
    printable(&String::from_utf8_lossy(bytes)).into_owned()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use rayon::iter::{IntoParallelIterator, ParallelIterator};
    use std::time::Duration;

    #[test]
    fn of_several_errors_it_is_the_first() {
        let one = |number: u32| {
            if number == 3 {
                std::thread::sleep(Duration::from_millis(50));
            }
            let fails = number == 3 || number > 60;
            if fails { Err(Error::new(Stage::Emit, number.to_string())) } else { Ok(number) }
        };
        let threads = rayon::ThreadPoolBuilder::new().num_threads(4).build().unwrap();
        let found = threads.install(|| all_or_first_error((0..64).into_par_iter().map(one)));
        assert_eq!(found.unwrap_err().to_string(), "emit: 3");
        let all = all_or_first_error((0..3).into_par_iter().map(one));
        assert_eq!(all.unwrap(), [0, 1, 2]);
    }
}
