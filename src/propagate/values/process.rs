//! The closed-places assumption at its border: what may happen in the process besides what followed code does.
//!
//! Told of the link as a whole: by its options, by the sections that the linker joins, by what live code refers to. Safe because each of
//! these only takes something for granted no longer. Left out: what a library does to memory that it is not given, or asks of the
//! stack, names in assembly of bitcode's functions, and segments in which a linker puts constants beside code.

use rustc_hash::FxHashSet;
use summaries::{Atom, AtomIdx, AtomKind, SymbolIdx, Target, atom_flags};

use super::places::FlowInputs;
use crate::config::Flavor;
use crate::ids::{AtomId, SymbolId};
use crate::resolve::{GlobalSymbol, Prevailing, is_linker_defined};

/// What may happen in the process, as the whole link allows it.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProcessFacts {
    /// Libraries without a table are loaded too, or may be while the program runs, and may define what is undefined and weak.
    pub(super) has_other_libraries: bool,
    /// Somebody may make memory writable that is read-only, or the linker does.
    pub(super) writes_constants: bool,
    /// Memory is executed without anybody having been told where it is: the stack, or all of data.
    pub(super) executes_data: bool,
    /// Somebody may go through all variables, from where the linker says that data begins or ends.
    pub(super) scans_data: bool,
}

/// Where data begins and ends, by names of linkers and of the C runtime. Conservative garbage collectors look for addresses in between.
const BOUNDS_OF_DATA: [&[u8]; 7] =
    [b"__bss_start", b"__data_start", b"_edata", b"_end", b"data_start", b"edata", b"end"];

impl ProcessFacts {
    pub(super) fn new(sources: FlowInputs<'_>) -> Self {
        let config = sources.config;
        let loads =
            |s: &GlobalSymbol<'_>| matches!(bare(s.name), b"dlopen" | b"dlmopen" | b"__libc_dlopen_mode");
        // Or what finds such a function by its name.
        let protects = |s: &GlobalSymbol<'_>| {
            matches!(bare(s.name), b"mprotect" | b"pkey_mprotect" | b"dlsym" | b"dlvsym")
        };
        let bounds = |s: &GlobalSymbol<'_>| {
            let is_bound = BOUNDS_OF_DATA.contains(&s.name);
            // What a script or an option defines may be anywhere.
            let by_linker = s.prevailing == Prevailing::Linker && (is_bound || !is_linker_defined(s.name));
            by_linker || is_bound && s.name.ends_with(b"data_start")
        };
        let is_linked = |s: &GlobalSymbol<'_>| matches!(s.prevailing, Prevailing::Module { .. });
        let protects = refers(sources, protects)
            || sources.resolution.symbols.iter().any(|s| is_linked(s) && protects(s));
        // A section that can be written and executed makes its segment so.
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

/// What is before the version in a name.
fn bare(name: &[u8]) -> &[u8] {
    name.split(|byte| *byte == b'@').next().unwrap_or_default()
}

/// Whether what may live refers to a global symbol of this kind.
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

/// Names of which linkers make one section, with whatever follows behind a dot.
const FAMILIES: [&[u8]; 6] = [b".rodata", b".data.rel.ro", b".data", b".bss", b".lrodata", b".ldata"];

/// The name of the output section that linkers put a section into.
fn family(name: &[u8]) -> &[u8] {
    let is_of = |family: &&[u8]| name.strip_prefix(*family).is_some_and(|rest| rest.starts_with(b"."));
    FAMILIES.into_iter().find(is_of).unwrap_or(name)
}

/// Whether constants and variables have sections of one name: then the linker makes one section of them, which is writable.
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

/// Whether the kernel makes the stack executable for the link: by an option, or for an object whose note (`.note.GNU-stack`) asks for it.
/// Some linkers take an object without a note for one that asks.
fn executes_stack(sources: FlowInputs<'_>) -> bool {
    let config = sources.config;
    let asks_if_silent = matches!(config.linker.flavor, Flavor::Bfd | Flavor::Gold | Flavor::Wild);
    let asks = |s: &&summaries::ModuleSummary| {
        let note = s.atoms.iter().find(|a| s.name(a.name) == b".note.GNU-stack");
        note.map_or(asks_if_silent, |note| note.has(atom_flags::EXEC))
    };
    config.execstack.unwrap_or_else(|| sources.summaries.iter().any(asks))
}
