//! Symbols of bitcode modules for resolution: the same tables as of an object ([`super::symtab`]).
//!
//! lld reads the symbol table that bitcode carries for linkers, with its COMDATs (`BitcodeFile::parse`). Without a readable table the module
//! has no symbols. A definition has no section, so each COMDAT stands for one section with all symbols of it.
//!
//! Compiled bitcode also refers to run-time routines and to library functions that optimisations insert, and lld loads native members
//! for those. So every such name counts as referred to by bitcode, and so do all names that such members need
//! ([`LateExtraction`]), and names in inline assembly and string attributes ([`summaries::bitcode::hidden`]). If a name is missing in
//! these lists, the pruned link fails and the originals are linked. lld loads bitcode members for run-time routines before it compiles:
//! a link where it may do so has a limit. Other linkers read bitcode through plugins and are not modelled.

use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};
use summaries::bitcode::{self, hidden, symbols};
use summaries::{Limit, LimitRecord};

use super::link_symbols::LinkSymbols;
use super::linker_defined::start_stop_section;
use super::resolution::link_limit;
use super::symbol_table::HashedName;
use super::symtab::{Comdat, Entry, Global, ModuleSymbols};
use crate::args::lto;
use crate::ids::{Id, ModuleId, SymbolId};
use crate::inputs::{FileKind, SymbolType};

/// The section of definitions in no COMDAT, which no group has.
const NO_GROUP: u32 = 0;

/// The symbols; `None` if the bitcode is malformed or has no symbol table of a known version.
pub(super) fn read(data: &[u8]) -> Option<ModuleSymbols<'_>> {
    let file = bitcode::read(data).ok()?;
    let found = symbols::of_file(&file);
    if !found.complete {
        return None;
    }
    let global = |s: &symbols::LinkerSymbol<'_>| match (s.undefined, s.common) {
        (true, _) => Entry::Undefined,
        (_, Some((size, _))) => Entry::Common(size),
        _ => Entry::Section(s.comdat.map_or(NO_GROUP, symbols::group_section)),
    };
    let globals = found.symbols.iter().map(|s| Global {
        name: s.name,
        versioned: s.name.contains(&b'@'),
        entry: global(s),
        weak: s.weak,
        // lld does not use types.
        ty: SymbolType::Untyped,
        size: 0,
        visibility: s.visibility,
        omittable: s.omittable,
        unnamed_addr: s.unnamed_addr,
    });
    let comdats = found.comdats.iter().enumerate().filter(|(_, c)| !c.keeps_all).map(|(i, c)| {
        let section = symbols::group_section(i as u32);
        Comdat { section, signature: HashedName::new(c.name), members: vec![section] }
    });
    Some(ModuleSymbols {
        first_global: symbols::FIRST_GLOBAL as u32,
        globals: globals.collect(),
        comdats: comdats.collect(),
        excluded: None,
        sources: file.modules.iter().map(|m| m.source_file.clone().into()).collect(),
    })
}

/// Mathematical functions that code generation calls by itself, without the suffixes of their types.
#[rustfmt::skip]
const MATHEMATICS: &[&str] = &[
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "copysign", "cos", "cosh", "cospi",
    "erf", "erfc", "exp", "exp10", "exp2", "expm1", "fabs", "fdim", "floor", "fma", "fmax", "fmaximum", "fmaximum_num",
    "fmin", "fminimum", "fminimum_num", "fmod", "frexp", "hypot", "ilogb", "ldexp", "lgamma", "llrint", "llround", "log",
    "log10", "log1p", "log2", "logb", "lrint", "lround", "modf", "nearbyint", "nextafter", "nexttoward", "pow",
    "remainder", "remquo", "rint", "round", "roundeven", "scalbln", "scalbn", "sin", "sincos", "sincospi", "sinh",
    "sinpi", "sqrt", "tan", "tanh", "tgamma", "trunc",
];

/// Functions of the C library that an optimisation or code generation calls in place of something else.
#[rustfmt::skip]
const LIBRARY: &[&str] = &[
    "abort", "bcmp", "bcopy", "bzero", "calloc", "exit", "fegetenv", "fegetmode", "fesetenv", "fesetmode", "ffs",
    "ffsl", "ffsll", "fiprintf", "fprintf", "fputc", "fputc_unlocked", "fputs", "fputs_unlocked", "free", "fwrite",
    "fwrite_unlocked", "iprintf", "malloc", "memccpy", "memchr", "memcmp", "memcpy", "memmove", "mempcpy", "memrchr",
    "memset", "printf", "putc", "putchar", "putchar_unlocked", "puts", "realloc", "siprintf", "snprintf", "sprintf",
    "stpcpy", "stpncpy", "strcat", "strchr", "strcmp", "strcpy", "strcspn", "strdup", "strlcat", "strlcpy", "strlen",
    "strncat", "strncmp", "strncpy", "strndup", "strnlen", "strpbrk", "strrchr", "strspn", "strstr", "strtol",
    "vsnprintf", "vsprintf", "wcslen", "wmemset",
];

/// Whether code generation may refer to this name although no module does.
fn is_generated(name: &[u8]) -> bool {
    // Names of the implementation, the unwinder, C++ allocation, and the run times of Objective-C and OpenMP.
    if [&b"__"[..], b"_Unwind_", b"_Zn", b"_Zd", b"_GLOBAL_OFFSET_TABLE_", b"objc_", b"omp_"]
        .iter()
        .any(|p| name.starts_with(p))
    {
        return true;
    }
    let Ok(name) = std::str::from_utf8(name) else { return false };
    let plain =
        |suffix: &str| name.strip_suffix(suffix).is_some_and(|n| MATHEMATICS.binary_search(&n).is_ok());
    LIBRARY.binary_search(&name).is_ok() || ["", "f", "l", "f128", "f16"].into_iter().any(plain)
}

/// The modules and symbols that enter a link with bitcode when it is compiled.
pub(super) struct LateExtraction {
    /// A member of bitcode that is not loaded and defines what code generation may call.
    routine: Option<ModuleId>,
    /// Native members that are not loaded now and may be for generated code, ascending; empty without bitcode.
    pub(super) native: Vec<ModuleId>,
    pub(super) any_bitcode: bool,
    /// Symbols that bitcode names outside of its symbol table, or an option of link-time optimisation in its value.
    hidden: Vec<SymbolId>,
    /// Bitcode whose hidden names can't be read.
    opaque: Option<ModuleId>,
}

impl LateExtraction {
    pub(super) fn new(link_symbols: &LinkSymbols<'_>, loaded: &[ModuleId]) -> Self {
        let is_bitcode = |m: &&ModuleId| link_symbols.inputs.modules[**m].kind == FileKind::Bitcode;
        let bitcode: Vec<ModuleId> = loaded.iter().filter(is_bitcode).copied().collect();
        let any_bitcode = !bitcode.is_empty();
        let loaded: FxHashSet<ModuleId> = loaded.iter().copied().collect();
        let unloaded = || link_symbols.inputs.modules.ids().filter(|m| any_bitcode && !loaded.contains(m));
        let of_kind = |kind| unloaded().filter(move |m| link_symbols.inputs.modules[*m].kind == kind);
        // Other linkers' links are not pruned, and their tables were not read.
        let is_read = |m: &&ModuleId| link_symbols.modules[m.index()].is_some();
        let words: Vec<(ModuleId, Option<Vec<SymbolId>>)> = bitcode
            .par_iter()
            .filter(is_read)
            .map(|m| {
                // Names of enumerated sections matter only if something else refers to them too.
                let walks = |w: &Vec<u8>| start_stop_section(w).is_some();
                let words =
                    hidden::words(link_symbols.inputs.module_bytes(*m)).filter(|w| !w.iter().any(walks));
                (*m, words.map(|w| w.iter().filter_map(|w| link_symbols.table.find(w)).collect()))
            })
            .collect();
        // An option may name a function that LLVM calls.
        let by_option = lto::words(&link_symbols.config.linker_args);
        let by_option: Vec<SymbolId> = by_option.iter().filter_map(|w| link_symbols.table.find(w)).collect();
        let by_option = by_option.into_iter().filter(|_| any_bitcode);
        let defines = |m: &ModuleId| {
            link_symbols.globals(*m).any(|(_, g)| g.entry != Entry::Undefined && is_generated(g.name))
        };
        let mut late = LateExtraction {
            routine: of_kind(FileKind::Bitcode).find(defines),
            native: Vec::new(),
            any_bitcode,
            opaque: words.iter().find(|w| w.1.is_none()).map(|w| w.0),
            hidden: words.into_iter().filter_map(|w| w.1).flatten().chain(by_option).collect(),
        };
        late.native = late.loadable(link_symbols, of_kind(FileKind::Object).collect());
        late
    }

    /// The members that define names that generated code may refer to, and members that those need.
    fn loadable(&self, link_symbols: &LinkSymbols<'_>, unloaded: Vec<ModuleId>) -> Vec<ModuleId> {
        // These options rename references.
        if !link_symbols.config.wrap.is_empty() {
            return unloaded;
        }
        let (read, mut loadable): (Vec<_>, Vec<_>) =
            unloaded.into_iter().partition(|m| link_symbols.modules[m.index()].is_some());
        let mut definers: FxHashMap<SymbolId, Vec<ModuleId>> = FxHashMap::default();
        for module in read {
            for (id, _) in link_symbols.globals(module).filter(|(_, g)| g.entry != Entry::Undefined) {
                definers.entry(id).or_default().push(module);
            }
        }
        let mut wanted = self.generated(link_symbols);
        let mut taken: FxHashSet<ModuleId> = FxHashSet::default();
        while let Some(symbol) = wanted.pop() {
            for module in definers.remove(&symbol).unwrap_or_default() {
                if taken.insert(module) {
                    loadable.push(module);
                    wanted.extend(undefined(link_symbols, module));
                }
            }
        }
        loadable.sort_unstable();
        loadable
    }

    /// Members of bitcode that lld may load for a run-time routine, and bitcode that was not understood.
    pub(super) fn limits(&self) -> Vec<(Option<ModuleId>, LimitRecord)> {
        [
            (self.routine, "a member of bitcode defines a run-time routine, and may be in the link"),
            (self.opaque, "LLVM bitcode in which names may be that are not seen"),
        ]
        .into_iter()
        .filter(|(module, _)| module.is_some())
        .map(|(module, detail)| (module, link_limit(Limit::Bitcode, detail.to_owned())))
        .collect()
    }

    /// The symbols that the compiled code may refer to.
    fn generated(&self, link_symbols: &LinkSymbols<'_>) -> Vec<SymbolId> {
        let names =
            link_symbols.table.names.iter().enumerate().filter(|(_, n)| self.any_bitcode && is_generated(n));
        names.map(|(i, _)| SymbolId::new(i)).chain(self.hidden.iter().copied()).collect()
    }

    /// The symbols that the compiled code, or a native member that it loads, may refer to.
    pub(super) fn symbols(&self, link_symbols: &LinkSymbols<'_>) -> Vec<SymbolId> {
        let mut symbols: Vec<SymbolId> =
            self.native.iter().flat_map(|m| undefined(link_symbols, *m)).collect();
        symbols.extend(self.generated(link_symbols));
        symbols
    }
}

/// The undefined symbols of a module.
fn undefined<'w>(link_symbols: &'w LinkSymbols<'_>, module: ModuleId) -> impl Iterator<Item = SymbolId> + 'w {
    link_symbols.globals(module).filter(|(_, g)| g.entry == Entry::Undefined).map(|g| g.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_generated_code() {
        assert!(MATHEMATICS.is_sorted() && LIBRARY.is_sorted());
        for name in
            ["memcpy", "__stack_chk_fail", "_Unwind_Resume", "fmodl", "sqrtf128", "_ZdlPvm", "puts", "exp2f"]
        {
            assert!(is_generated(name.as_bytes()), "{name}");
        }
        for name in ["main", "_ZN1SC2Ev", "sqrtx", "my_memcpy", "f"] {
            assert!(!is_generated(name.as_bytes()), "{name}");
        }
    }
}
