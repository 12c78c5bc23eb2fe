//! The variables that a link sees, as a function, so that a test can bring its own.
//!
//! Nothing else in the analysis reads the environment of the process.

use std::ffi::OsString;

/// The environment, as a function, so that a test can bring its own.
#[derive(Clone, Copy)]
pub struct Environment<'a> {
    lookup: &'a dyn Fn(&str) -> Option<OsString>,
    pub(super) names: fn() -> Vec<String>,
}

impl std::fmt::Debug for Environment<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Environment")
    }
}

impl<'a> Environment<'a> {
    pub fn new(lookup: &'a dyn Fn(&str) -> Option<OsString>) -> Self {
        Environment { lookup, names: Vec::new }
    }

    /// The value of variable `name`, if it is set.
    pub fn get(&self, name: &str) -> Option<OsString> {
        (self.lookup)(name)
    }
}

impl Environment<'static> {
    pub fn process() -> Self {
        let names = || std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned()).collect();
        Environment { lookup: &|name| std::env::var_os(name), names }
    }
}
