//! Which model a function of a shared library has: by the library's soname and the symbol, never by a bare name.
//!
//! Safe because a symbol is looked up where resolution says that it comes from: a function that the link itself defines, or a
//! library that has no table, has no model and may do anything. Left out: what the loader puts before the library
//! (`LD_PRELOAD`); that is taken to do what the library's own function does.

use rustc_hash::FxHashMap;
use summaries::models::{Library, Model, builtin};

use crate::error::{Error, Result, Stage};
use crate::ids::SymbolId;
use crate::inputs::Inputs;
use crate::resolve::{Prevailing, Resolution};

/// The tables of models.
#[derive(Debug, Default)]
pub struct Models {
    by_soname: FxHashMap<String, Library>,
}

impl Models {
    /// Those that come with the tool.
    ///
    /// # Errors
    /// None, unless a table was built in that can't be read.
    pub fn builtin() -> Result<Self> {
        let libraries = builtin().map_err(|e| Error::new(Stage::Propagate, e.to_string()))?;
        Ok(Models { by_soname: libraries.into_iter().map(|l| (l.soname.clone(), l)).collect() })
    }

    /// Whether the variable that prevails holds nothing but addresses in memory that its library owns.
    pub fn owned(&self, inputs: &Inputs, resolution: &Resolution<'_>, symbol: SymbolId) -> bool {
        let name = std::str::from_utf8(resolution.symbols[symbol].name);
        self.library(inputs, resolution, symbol).is_some_and(|l| name.is_ok_and(|name| l.data.contains(name)))
    }

    /// The library that defines a symbol, if it has a table.
    fn library(&self, inputs: &Inputs, resolution: &Resolution<'_>, symbol: SymbolId) -> Option<&Library> {
        let Prevailing::Dso(dso) = resolution.symbols[symbol].prevailing else { return None };
        self.by_soname.get(inputs.dsos[dso].soname.as_deref()?)
    }

    /// The model of the function that prevails.
    pub fn of(&self, inputs: &Inputs, resolution: &Resolution<'_>, symbol: SymbolId) -> Option<&Model> {
        let library = self.library(inputs, resolution, symbol)?;
        library.functions.get(std::str::from_utf8(resolution.symbols[symbol].name).ok()?)
    }
}
