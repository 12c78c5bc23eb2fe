//! Which model a function of a shared library has: by the library's soname and the symbol, never by a bare name.
//!
//! Safe because a symbol is looked up where resolution says that it comes from: a function that the link itself defines, or a
//! library that has no table, has no model and may do anything. Libraries allocate by functions that a program may define; where it
//! does, the functions of libraries that allocate or free may do anything. Left out: what the loader puts before the library
//! (`LD_PRELOAD`); that is taken to do what the library's own function does.

use rustc_hash::FxHashMap;
use summaries::models::{Library, MemoryIdx, Model, builtin};

use crate::config::{Config, OutputKind};
use crate::error::{Error, Result, Stage};
use crate::ids::SymbolId;
use crate::inputs::Inputs;
use crate::resolve::{GlobalSymbol, Prevailing, Resolution};

/// Libraries that do nothing of their own accord: the loader, vector forms of mathematical functions.
const SILENT: [&str; 2] = ["ld-linux-x86-64.so.2", "libmvec.so.1"];

/// By which libraries allocate and free memory: of C, and how those of C++ begin.
const ALLOCATION: [&[u8]; 10] = [
    b"malloc",
    b"calloc",
    b"realloc",
    b"reallocarray",
    b"free",
    b"memalign",
    b"aligned_alloc",
    b"posix_memalign",
    b"valloc",
    b"pvalloc",
];
const CXX_ALLOCATION: [&[u8]; 4] = [b"_Znw", b"_Zna", b"_Zdl", b"_Zda"];

/// The library of which nearly all allocates or frees.
const CXX_LIBRARY: &str = "libstdc++.so.6";

/// The tables of models.
#[derive(Debug, Default)]
pub struct Models {
    by_soname: FxHashMap<String, Library>,
    /// The program allocates by functions of its own.
    own_allocation: bool,
}

impl Models {
    /// Those that come with the tool.
    ///
    /// # Errors
    /// None, unless a table was built in that can't be read.
    pub fn builtin() -> Result<Self> {
        let libraries = builtin().map_err(|e| Error::new(Stage::Propagate, e.to_string()))?;
        let by_soname = libraries.into_iter().map(|l| (l.soname.clone(), l)).collect();
        Ok(Models { by_soname, own_allocation: false })
    }

    /// Those of this link.
    #[must_use]
    pub fn of_link(self, resolution: &Resolution<'_>) -> Self {
        let allocates = |name: &[u8]| {
            ALLOCATION.contains(&name) || CXX_ALLOCATION.iter().any(|start| name.starts_with(start))
        };
        // Another library's counts as well as the program's: what has no table may do anything with what it is given.
        let is_own = |symbol: &GlobalSymbol<'_>| matches!(symbol.prevailing, Prevailing::Module { .. });
        let own_allocation = resolution.symbols.iter().any(|s| allocates(s.name) && is_own(s));
        Models { own_allocation, ..self }
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
        let function = || self.of(inputs, resolution, symbol).map(|m| m.memory);
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
        let model = library.functions.get(std::str::from_utf8(resolution.symbols[symbol].name).ok()?)?;
        let calls_own = self.own_allocation && (library.soname == CXX_LIBRARY || model.allocates());
        (!calls_own).then_some(model)
    }
}
