//! Library models: choice of the model of a library function, by the library's soname and the symbol.
//!
//! Symbol resolution gives the library of a symbol. A function of a library without a table has no model and may do anything. A function
//! that the link defines has its summary, if there is one. If a program or another library replaces an allocation function, all library
//! functions that allocate or free may do anything. A preloaded library (`LD_PRELOAD`) is assumed to behave as the original.

use rustc_hash::{FxHashMap, FxHashSet};
use summaries::models::{Library, MemoryIdx, Model, builtin};

use crate::config::{Config, OutputKind};
use crate::error::{Error, Result, Stage};
use crate::ids::SymbolId;
use crate::inputs::{Dso, Inputs};
use crate::resolve::{Prevailing, Resolution};

/// Libraries that never act on their own: the loader, and vector forms of mathematical functions.
const SILENT: [&str; 2] = ["ld-linux-x86-64.so.2", "libmvec.so.1"];

/// The functions that allocate and free memory for libraries: names for C, and prefixes for C++.
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

/// The library whose functions nearly all allocate or free memory.
const CXX_LIBRARY: &str = "libstdc++.so.6";

/// The models of library functions that come with the tool, by library.
#[derive(Debug, Default)]
pub struct Models {
    by_soname: FxHashMap<String, Library>,
    /// Another definition replaces the allocation functions of C or C++ libraries.
    own_allocation: bool,
    own_cxx_allocation: bool,
    /// The program defines a function that libstdc++ imports from other libraries.
    own_functions: bool,
    /// The libraries with a variable that the program defines instead, by soname.
    own_variables: FxHashSet<String>,
}

impl Models {
    /// The models that come with the tool.
    ///
    /// # Errors
    /// None, unless a table was built in that can't be read.
    pub fn builtin() -> Result<Self> {
        let libraries = builtin().map_err(|e| Error::new(Stage::Propagate, e.to_string()))?;
        let by_soname = libraries.into_iter().map(|l| (l.soname.clone(), l)).collect();
        Ok(Models { by_soname, ..Models::default() })
    }

    /// The models that are valid in this link. Functions that the link or a library without models defines have no model.
    #[must_use]
    pub fn of_link(self, inputs: &Inputs, resolution: &Resolution<'_>) -> Self {
        let own = resolution.symbols.iter().filter(|symbol| match symbol.prevailing {
            Prevailing::Module { .. } | Prevailing::Linker => true,
            Prevailing::Undefined { .. } | Prevailing::Dso(_) => false,
        });
        // The loader binds other libraries to these definitions, also without a reference from this link.
        let is_known = |dso: &Dso| dso.soname.as_deref().is_some_and(|s| self.is_known(s));
        let others = inputs.dsos.iter().filter(|dso| !is_known(dso));
        let theirs = others.flat_map(|dso| &dso.symbols).filter(|symbol| symbol.defined);
        let cxx = inputs.dsos.iter().filter(|dso| dso.soname.as_deref() == Some(CXX_LIBRARY));
        let wanted = cxx.flat_map(|dso| &dso.symbols).filter(|symbol| !symbol.defined && !symbol.weak);
        let wanted: FxHashSet<&[u8]> = wanted.map(|symbol| &*symbol.name).collect();
        let (mut own_allocation, mut own_cxx_allocation, mut own_functions) = (false, false, false);
        let mut own_variables = FxHashSet::default();
        for name in own.map(|s| s.name).chain(theirs.map(|s| &*s.name)) {
            own_allocation |= ALLOCATION.contains(&name);
            own_cxx_allocation |= CXX_ALLOCATION.iter().any(|start| name.starts_with(start));
            own_functions |= wanted.contains(name);
            if let Ok(name) = std::str::from_utf8(name) {
                let of_it = self.by_soname.values().filter(|library| library.data.contains_key(name));
                own_variables.extend(of_it.map(|library| library.soname.clone()));
            }
        }
        Models { own_allocation, own_cxx_allocation, own_functions, own_variables, ..self }
    }

    fn is_known(&self, soname: &str) -> bool {
        SILENT.contains(&soname) || self.by_soname.contains_key(soname)
    }

    /// The memory in a function's model, or of a variable that holds only addresses of that memory.
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

    /// Whether code outside of the link and without a table runs in the process: other libraries, or the program that loads the output.
    pub fn has_unseen_code(&self, config: &Config, inputs: &Inputs, resolution: &Resolution<'_>) -> bool {
        let is_known = |soname: &Option<String>| soname.as_deref().is_some_and(|s| self.is_known(s));
        let mut taken = inputs.dsos.iter().zip(resolution.dsos.iter()).filter(|(_, state)| state.taken);
        let library = matches!(config.output_kind, OutputKind::Shared | OutputKind::Relocatable);
        library || config.audits || taken.any(|(dso, _)| !is_known(&dso.soname))
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
        let calls_own = match library.soname == CXX_LIBRARY {
            true => self.own_allocation || self.own_cxx_allocation || self.own_functions,
            false => self.own_allocation && model.allocates,
        };
        (!calls_own && !self.own_variables.contains(&library.soname)).then_some(model)
    }
}
