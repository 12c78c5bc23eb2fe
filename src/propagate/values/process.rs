//! Whole-process assumptions: the effects on memory that code outside of the analysed functions may have.
//!
//! The facts come from the options, from the sections that the linker joins, and from the references of live code. Each fact only
//! withdraws an assumption. Not covered:
//! - libraries that change memory they were not passed, or that need an executable stack,
//! - assembly that names functions of bitcode,
//! - linkers that place constants in an executable segment.

use rustc_hash::FxHashSet;
use summaries::{Atom, AtomIdx, AtomKind, SymbolIdx, Target, atom_flags};

use super::places::FlowInputs;
use crate::config::Flavor;
use crate::ids::{AtomId, SymbolId};
use crate::resolve::{GlobalSymbol, Prevailing, is_linker_defined};

/// The facts about the process that the whole link determines.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProcessFacts {
    /// Libraries without a table may be loaded, also at run time. They may define undefined weak symbols.
    pub(super) has_other_libraries: bool,
    /// The program or the linker may make read-only memory writable.
    pub(super) writes_constants: bool,
    /// Memory may be executed although its address did not escape: the stack, or all data.
    pub(super) executes_data: bool,
    /// The program may scan all variables, from a linker symbol at the start or end of data.
    pub(super) scans_data: bool,
}

/// The symbols of linkers and of the C runtime at the bounds of data. Conservative garbage collectors scan the memory between them.
const BOUNDS_OF_DATA: [&[u8]; 7] =
    [b"__bss_start", b"__data_start", b"_edata", b"_end", b"data_start", b"edata", b"end"];

impl ProcessFacts {
    pub(super) fn new(sources: FlowInputs<'_>) -> Self {
        let config = sources.config;
        let loads =
            |s: &GlobalSymbol<'_>| matches!(bare(s.name), b"dlopen" | b"dlmopen" | b"__libc_dlopen_mode");
        // `dlsym` can find such a function by its name.
        let protects = |s: &GlobalSymbol<'_>| {
            matches!(bare(s.name), b"mprotect" | b"pkey_mprotect" | b"dlsym" | b"dlvsym")
        };
        let bounds = |s: &GlobalSymbol<'_>| {
            let is_bound = BOUNDS_OF_DATA.contains(&s.name);
            // The value of a symbol that a script or an option defines is unknown.
            let by_linker = s.prevailing == Prevailing::Linker && (is_bound || !is_linker_defined(s.name));
            by_linker || is_bound && s.name.ends_with(b"data_start")
        };
        let is_linked = |s: &GlobalSymbol<'_>| matches!(s.prevailing, Prevailing::Module { .. });
        let protects = refers(sources, protects)
            || sources.resolution.symbols.iter().any(|s| is_linked(s) && protects(s));
        // A section that is writable and executable makes its segment writable and executable.
        let is_both = |a: &Atom| a.kind.is_alloc() && a.has(atom_flags::WRITE) && a.has(atom_flags::EXEC);
        let is_mixed = config.omagic
            || sources.has_sections
            || sources.summaries.iter().any(|s| s.atoms.iter().any(is_both));
        ProcessFacts {
            has_other_libraries: sources.unseen_code || refers(sources, loads),
            writes_constants: protects || is_mixed || joins_constants_with_variables(sources),
            executes_data: protects || is_mixed || executes_stack(sources),
            scans_data: refers(sources, bounds),
        }
    }
}

/// The part of a symbol name before the version.
fn bare(name: &[u8]) -> &[u8] {
    name.split(|byte| *byte == b'@').next().unwrap_or_default()
}

/// Whether an atom that may be live refers to such a global symbol.
fn refers(sources: FlowInputs<'_>, is_wanted: impl Fn(&GlobalSymbol<'_>) -> bool) -> bool {
    let FlowInputs { index, resolution, .. } = sources;
    let wanted: Vec<SymbolId> =
        resolution.symbols.enumerated().filter(|(_, s)| is_wanted(s)).map(|(id, _)| id).collect();
    if wanted.is_empty() {
        return false;
    }
    sources.summaries.iter().zip(&index.modules).any(|(summary, of)| {
        let is_named = |symbol: &SymbolIdx| {
            resolution.symbol_id(of.module, *symbol).is_some_and(|id| wanted.binary_search(&id).is_ok())
        };
        let all = (0..summary.symbols.len()).map(SymbolIdx::new);
        let named: Vec<SymbolIdx> = all.filter(is_named).collect();
        let is_reachable = |atom: AtomIdx| sources.reachable.is_live(AtomId(of.first_atom + atom.0));
        let refers =
            |target: Target| matches!(target, Target::Symbol(symbol) if named.binary_search(&symbol).is_ok());
        !named.is_empty() && summary.references.iter().any(|r| refers(r.target) && is_reachable(r.from))
    })
}

/// Prefixes of section names: linkers join all sections with one prefix and any suffix after a dot.
const FAMILIES: [&[u8]; 6] = [b".rodata", b".data.rel.ro", b".data", b".bss", b".lrodata", b".ldata"];

/// The name of the output section for an input section.
fn family(name: &[u8]) -> &[u8] {
    let is_of = |family: &&[u8]| name.strip_prefix(*family).is_some_and(|rest| rest.starts_with(b"."));
    FAMILIES.into_iter().find(is_of).unwrap_or(name)
}

/// Whether constants and variables have the same output section, which is then writable.
fn joins_constants_with_variables(sources: FlowInputs<'_>) -> bool {
    let of_data = |constant: bool| {
        let all = sources.summaries.iter().flat_map(|s| s.atoms.iter().map(move |a| (*s, a)));
        let is_wanted = move |(_, a): &(_, &Atom)| {
            a.kind.is_alloc()
                && a.has(atom_flags::WRITE) != constant
                && (a.kind == AtomKind::ReadOnlyData) | !constant
        };
        all.filter(is_wanted).map(move |(s, a)| family(s.name(a.name))).collect::<FxHashSet<_>>()
    };
    !of_data(true).is_disjoint(&of_data(false))
}

/// Whether the kernel makes the stack executable: by an option, or by the note (`.note.GNU-stack`) of an object. Some linkers do so
/// for an object without a note.
fn executes_stack(sources: FlowInputs<'_>) -> bool {
    let config = sources.config;
    let asks_if_silent = matches!(config.linker.flavor, Flavor::Bfd | Flavor::Gold | Flavor::Wild);
    let asks = |s: &&summaries::ModuleSummary| {
        let note = s.atoms.iter().find(|a| s.name(a.name) == b".note.GNU-stack");
        note.map_or(asks_if_silent, |note| note.has(atom_flags::EXEC))
    };
    config.execstack.unwrap_or_else(|| sources.summaries.iter().any(asks))
}
