//! The options of `audit stack` and of limits of stacks in `audit budget`.

use std::ffi::OsString;

use crate::error::{Error, Result, Stage};

/// The facts that a user gives about functions and calls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StackOptions {
    /// Functions whose bound in bytes the user knows.
    pub(crate) bounds: Vec<(String, u64)>,
    /// Functions with a callee of their indirect calls.
    pub(crate) callees: Vec<(String, String)>,
    /// Shared libraries to analyse with the program.
    pub(crate) libraries: Vec<OsString>,
    /// All functions whose address is taken are entries.
    pub(crate) address_taken: bool,
}

impl StackOptions {
    /// Set an option with a value.
    ///
    /// # Errors
    /// The value is no pair of a function and its bound or callee.
    pub(crate) fn set(&mut self, name: &str, value: String) -> Result<()> {
        // Names of operators have the sign, too.
        let pair = value.rsplit_once('=').filter(|(function, _)| !function.is_empty());
        let takes = match (name, pair, pair.and_then(|(_, bytes)| bytes.parse().ok())) {
            ("library", ..) => {
                self.libraries.push(value.into());
                return Ok(());
            }
            ("call", Some((caller, callee)), _) if !callee.is_empty() => {
                self.callees.push((caller.to_owned(), callee.to_owned()));
                return Ok(());
            }
            ("assume", Some((function, _)), Some(bytes)) => {
                self.bounds.push((function.to_owned(), bytes));
                return Ok(());
            }
            ("call", ..) => "CALLER=CALLEE",
            _ => "FUNCTION=BYTES",
        };
        Err(Error::new(Stage::Arguments, format!("--{name} takes {takes}, not {value}")))
    }
}
