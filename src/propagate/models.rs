//! Which model a function of a shared library has: by the library's soname and the symbol, never by a bare name.
//!
//! Safe because a symbol is looked up where resolution says that it comes from: a function that the link itself defines, or a
//! library that has no table, has no model and may do anything. Left out: what the loader puts before the library
//! (`LD_PRELOAD`); that is taken to do what the library's own function does.

use rustc_hash::FxHashMap;
use summaries::models::{Library, MemoryIdx, Model, builtin};

use crate::config::{Config, OutputKind};
use crate::error::{Error, Result, Stage};
use crate::ids::SymbolId;
use crate::inputs::Inputs;
use crate::resolve::{Prevailing, Resolution};

/// Libraries that do nothing of their own accord: the loader, vector forms of mathematical functions.
const SILENT: [&str; 2] = ["ld-linux-x86-64.so.2", "libmvec.so.1"];

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

    /// The memory that a function with a model speaks of, or that a variable holds nothing but addresses in.
    pub fn memory(
        &self,
        inputs: &Inputs,
        resolution: &Resolution<'_>,
        symbol: SymbolId,
    ) -> Option<(&str, MemoryIdx)> {
        let name = std::str::from_utf8(resolution.symbols[symbol].name).ok()?;
        let library = self.library(inputs, resolution, symbol)?;
        let function = || library.functions.get(name).map(|m| m.memory);
        Some((&library.soname, library.data.get(name).copied().or_else(function)?))
    }

    /// Whether code runs in the process that is neither in the link nor has a table: that of other libraries, and of
    /// whatever loads what is linked.
    pub fn has_unseen_code(&self, config: &Config, inputs: &Inputs, resolution: &Resolution<'_>) -> bool {
        let is_known = |soname: &Option<String>| {
            soname.as_deref().is_some_and(|s| SILENT.contains(&s) || self.by_soname.contains_key(s))
        };
        let mut taken = inputs.dsos.iter().zip(resolution.dsos.iter()).filter(|(_, state)| state.taken);
        let library = matches!(config.output_kind, OutputKind::Shared | OutputKind::Relocatable);
        library || taken.any(|(dso, _)| !is_known(&dso.soname))
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
