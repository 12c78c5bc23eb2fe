//! Preserved roots: atoms that are live without a reference, each with its reason.
//!
//! The rules are the linker's (lld/ELF/MarkLive.cpp; docs/SOUNDNESS.md lists them with their tests), with two differences. Unwind tables are
//! no roots: an LSDA or personality is kept with the functions that use it. Without `--gc-sections` all sections outside the standard families are
//! roots.

use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};
use summaries::{
    Atom, AtomIdx, AtomKind, Binding, Definition, ModuleKind, ModuleSummary, Symbol, Visibility, atom_flags,
};

use super::{Index, LinkInputs, Root, has_code_or_data, prevailing_atom};
use crate::config::OutputKind;
use crate::ids::{AtomId, Id, ModuleId, SymbolId};
use crate::inputs::glob::Glob;
use crate::inputs::scripts::names::NameMatcher;
use crate::resolve::{GlobalSymbol, Prevailing, entry_symbol, start_stop_section, symbols_of};

macro_rules! root_reasons {
    ($($(#[$doc:meta])* $reason:ident = $name:literal,)*) => {
        /// The reason why an atom is live without a reference.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum RootReason {
            $($(#[$doc])* $reason,)*
        }

        impl RootReason {
            /// The stable name of the reason in reports.
            pub fn name(self) -> &'static str {
                match self { $(RootReason::$reason => $name,)* }
            }
        }
    };
}

root_reasons! {
    Entry = "entry",
    /// `-u`, `--undefined` or `--require-defined` names it on the line.
    Undefined = "undefined-option",
    /// It has the name that `-init` or `-fini` gives, `_init` and `_fini` by default.
    InitFiniSymbol = "init-fini-symbol",
    /// In the dynamic symbol table: `-shared`, `--export-dynamic`, a dynamic list.
    Exported = "exported",
    ReferencedByDso = "referenced-by-dso",
    DefinedByDso = "defined-by-dso",
    /// Named by a linker script or `--defsym`, or by a version script or dynamic list for a linker that demands its names.
    Script = "script-symbol",
    /// A module has it as undefined without a reference to it: linkers export such a symbol as undefined, or report it if nothing
    /// defines it.
    Declared = "declared",
    /// A definition of `STB_GNU_UNIQUE`, which gold exports if its collection keeps it ([`Plan::demanded`](crate::plan::Plan)).
    Unique = "unique",
    /// Named by `--symbol-ordering-file`, `--call-graph-ordering-file` or `--keep-unique`, which require its definition.
    Ordered = "ordered",
    Wrap = "wrap",
    /// Its name carries a version (`.symver`).
    Versioned = "versioned",
    /// Bitcode refers to it, or its compiled code may.
    Bitcode = "bitcode",
    /// Its section is `.init_array` or one like it, which the start-up code calls.
    InitFini = "init-fini-array",
    Note = "note",
    /// Its section is flagged `SHF_GNU_RETAIN`, as for `__attribute__((retain))`.
    Retain = "retain",
    /// `KEEP()` in a linker script names its section.
    Keep = "keep",
    /// Its section's name is of no standard family, and the line has no `--gc-sections`.
    CustomSection = "custom-section",
    /// A C identifier section, for a linker that keeps all of them.
    StartStop = "start-stop-section",
    /// A non-allocated section: kept, but its references keep nothing.
    NonAlloc = "non-alloc",
    /// A section without bytes: removing it gains nothing, and GNU ld ignores an object without sections.
    Empty = "empty",
    /// `--prune-keep` names it by its pattern.
    PruneKeep = "prune-keep",
    /// A limit keeps the whole module.
    ModuleKept = "module-kept",
    /// Kept code may fall through into it from the section before it.
    FallThrough = "fall-through",
    /// `--prune-limit` keeps it, for the search of `bisect`.
    PruneLimit = "prune-limit",
}

/// All roots, sorted by atom and then by reason, in declaration order, without duplicates. An atom has all of its reasons, because it is
/// removed only if all of them end.
pub(super) fn find(
    sources: &LinkInputs<'_>,
    position_of: &FxHashMap<ModuleId, usize>,
    index: &Index,
) -> Vec<Root> {
    let mut roots = of_symbols_and_sections(sources, position_of, index);
    roots.sort_unstable();
    roots.dedup_by_key(|r| (r.atom, r.reason));
    roots
}

/// All roots, once for each symbol that is a reason.
pub(super) fn of_symbols_and_sections(
    sources: &LinkInputs<'_>,
    position_of: &FxHashMap<ModuleId, usize>,
    index: &Index,
) -> Vec<Root> {
    let mut roots = Vec::new();
    let bitcode = BitcodeNames::new(sources);
    for (position, summary) in sources.summaries.iter().enumerate() {
        section_roots(sources, index, position, summary, &bitcode, &mut roots);
    }
    let named = NamedRoots::new(sources, index, position_of);
    let mut reasons = Vec::new();
    for (id, symbol) in sources.resolution.symbols.enumerated() {
        reasons.clear();
        named.reasons(id, symbol, &mut reasons);
        if !reasons.is_empty()
            && let Some(atom) = prevailing_atom(sources, &index.modules, position_of, id)
        {
            roots.extend(reasons.iter().map(|reason| Root { atom, reason: *reason, symbol: Some(id) }));
        }
    }
    kept_by_option(sources, index, &mut roots);
    roots.retain(|r| !index.discarded[r.atom.index()]);
    roots
}

/// Roots because of their section.
fn section_roots(
    sources: &LinkInputs<'_>,
    index: &Index,
    position: usize,
    summary: &ModuleSummary,
    bitcode: &BitcodeNames<'_>,
    roots: &mut Vec<Root>,
) {
    let this = index.modules[position];
    for (i, atom) in summary.atoms.iter().enumerate() {
        let name = summary.name(atom.name);
        let kept = this.kept_whole.then_some(RootReason::ModuleKept);
        let reason = section_reason(sources, this.module, summary, atom, name);
        // Bitcode's own references keep its sections.
        let by_bitcode = summary.kind != ModuleKind::Bitcode && bitcode.names(summary, atom);
        let by_bitcode = by_bitcode.then_some(RootReason::Bitcode);
        let atom = AtomId::new(this.first_atom as usize + i);
        let reasons = reason.into_iter().chain(by_bitcode).chain(kept);
        roots.extend(reasons.map(|reason| Root { atom, reason, symbol: None }));
    }
}

/// Names in bitcode other than its references.
struct BitcodeNames<'s> {
    /// COMDATs: without the native group the linker would take that of bitcode.
    groups: FxHashSet<&'s [u8]>,
    /// Sections whose start or end it names, by `__start_X` and `__stop_X`.
    sections: FxHashSet<&'s [u8]>,
}

impl<'s> BitcodeNames<'s> {
    fn new(sources: &LinkInputs<'s>) -> Self {
        let bitcode = sources.summaries.iter().filter(|s| s.kind == ModuleKind::Bitcode);
        let groups = bitcode.flat_map(|s| s.groups.iter().map(|g| s.symbol_name(g.signature)));
        let mentioned = sources.resolution.symbols.iter().filter(|s| s.by_bitcode);
        let sections = mentioned.filter_map(|s| start_stop_section(s.name));
        BitcodeNames { groups: groups.collect(), sections: sections.collect() }
    }

    fn names(&self, summary: &ModuleSummary, atom: &Atom) -> bool {
        let group = atom.group.and_then(|g| summary.groups.get(g.index()));
        let group = group.is_some_and(|g| self.groups.contains(summary.symbol_name(g.signature)));
        group || self.sections.contains(summary.name(atom.name))
    }
}

fn section_reason(
    sources: &LinkInputs<'_>,
    module: ModuleId,
    summary: &ModuleSummary,
    atom: &Atom,
    name: &[u8],
) -> Option<RootReason> {
    if atom.has(atom_flags::RETAIN) {
        return Some(RootReason::Retain);
    }
    // Metadata is kept only with the section that it is ordered after.
    if atom.link_order.is_some() {
        return None;
    }
    let grouped = atom.has(atom_flags::GROUPED);
    match atom.kind {
        AtomKind::Debug | AtomKind::NonAlloc => {
            let group = atom.group.and_then(|g| summary.groups.get(g.index()));
            let follows_code = group.is_some_and(|g| has_code_or_data(summary, g));
            return (!follows_code).then_some(RootReason::NonAlloc);
        }
        AtomKind::InitFini => return Some(RootReason::InitFini),
        AtomKind::Note if !grouped => return Some(RootReason::Note),
        AtomKind::Common => return None,
        _ => {}
    }
    let file = || sources.inputs.module_name(module).into_bytes();
    // A pattern with a colon names an archive and its member, which our names spell differently.
    let kept = |(files, sections): &(String, Vec<String>)| {
        sections.iter().any(|s| Glob::new(s).matches(name))
            && (files == "*" || files.contains(':') || Glob::new(files).matches(&file()))
    };
    let config = sources.config;
    let scripts = &sources.inputs.scripts;
    // Without --gc-sections a program may enumerate all sections between two symbols of a script with INSERT.
    let all_stay = !config.gc_sections && !scripts.replaces_default && scripts.placed.iter().any(kept);
    if all_stay || scripts.keep.iter().any(kept) {
        return Some(RootReason::Keep);
    }
    if !config.gc_sections && !atom.has(atom_flags::STANDARD_FAMILY) {
        return Some(RootReason::CustomSection);
    }
    if config.rules().keeps_identifiers && atom.has(atom_flags::C_IDENTIFIER) {
        return Some(RootReason::StartStop);
    }
    let is_empty = atom.size == 0 && summary.kind == ModuleKind::Native && atom.section != Atom::NO_SECTION;
    (is_empty && !grouped).then_some(RootReason::Empty)
}

/// Roots because of a symbol's name.
struct NamedRoots<'s> {
    sources: &'s LinkInputs<'s>,
    entry: Option<String>,
    script: FxHashSet<&'s [u8]>,
    lists: NameMatcher,
    /// By symbol: opaque bitcode names it, so that its references are unknown.
    by_opaque_bitcode: Vec<bool>,
    /// By symbol: a linker script or an option declares it ([`RootReason::Declared`]).
    declared: Vec<bool>,
    position_of: &'s FxHashMap<ModuleId, usize>,
}

impl<'s> NamedRoots<'s> {
    fn new(sources: &'s LinkInputs<'s>, index: &Index, position_of: &'s FxHashMap<ModuleId, usize>) -> Self {
        let scripts = &sources.inputs.scripts;
        let by_defsym = sources
            .config
            .defsym
            .iter()
            .flat_map(|d| std::iter::once(d.name.as_str()).chain(symbols_of(&d.expression)));
        // References of a PROVIDE count only if the linker uses it, and DEFINED() tests only whether a symbol exists. The linker
        // decides both, so that both are kept.
        let provided = scripts.provided.iter().flat_map(|p| p.references.iter().chain([&p.symbol]));
        let by_script = scripts.referenced_symbols.iter().chain(&scripts.tested_symbols).chain(provided);
        let by_split_stack = has_split_stack(sources).then_some(MORESTACK_NON_SPLIT);
        NamedRoots {
            sources,
            entry: entry_symbol(sources.config, scripts),
            script: by_script
                .map(String::as_str)
                .chain(by_defsym)
                .chain(by_split_stack)
                .map(str::as_bytes)
                .collect(),
            lists: scripts.name_matcher(sources.config.linker.flavor, sources.config.undefined_version),
            by_opaque_bitcode: mentioned_by_opaque_bitcode(sources, index),
            declared: declared(sources, index),
            position_of,
        }
    }

    fn reasons(&self, id: SymbolId, symbol: &GlobalSymbol<'_>, found: &mut Vec<RootReason>) {
        if !matches!(symbol.prevailing, Prevailing::Module { .. }) {
            return;
        }
        let config = self.sources.config;
        let is = |name: &str| name.as_bytes() == symbol.name;
        let wrapped = |name: &String| {
            let plain = symbol.name.strip_prefix(b"__wrap_").or(symbol.name.strip_prefix(b"__real_"));
            is(name) || plain == Some(name.as_bytes())
        };
        let hidden = is_hidden(symbol.visibility);
        let relocatable = config.output_kind == OutputKind::Relocatable;
        let dynamic = !hidden && !relocatable;
        // GNU ld reports a hidden definition that a library refers to; gold resolves the library's reference to it.
        let hidden_counts = !relocatable && config.rules().sees_hidden;
        // gold exports one from a program if its collection keeps it for another reason ([`Plan::demanded`]).
        let unique = dynamic && self.is_unique_for_gold(symbol);
        let collects = config.gc_sections && config.output_kind != OutputKind::Shared;
        let reasons = [
            (RootReason::Entry, self.entry.as_deref().is_some_and(is)),
            (RootReason::Undefined, config.undefined.iter().any(|n| is(n))),
            (RootReason::InitFiniSymbol, is(&config.init) || is(&config.fini)),
            (RootReason::Wrap, config.wrap.iter().any(wrapped)),
            (
                RootReason::Script,
                self.script.contains(symbol.name) || self.lists.must_be_defined(symbol.name),
            ),
            (RootReason::Declared, self.declared[id.index()]),
            (RootReason::Unique, unique && collects),
            (RootReason::Versioned, symbol.versioned),
            (RootReason::Bitcode, symbol.by_generated_code || self.by_opaque_bitcode[id.index()]),
            (RootReason::ReferencedByDso, (dynamic || hidden_counts) && symbol.referenced_by_dso),
            (RootReason::DefinedByDso, dynamic && symbol.defined_by_dso),
            (
                RootReason::Exported,
                relocatable || dynamic && (self.is_exported(symbol) || unique && !collects),
            ),
        ];
        found.extend(reasons.iter().filter(|r| r.1).map(|r| r.0));
    }

    /// Whether the dynamic symbol table has it. A version script can make it local; a pattern that can't be evaluated (for demangled
    /// names) counts as a match.
    fn is_exported(&self, symbol: &GlobalSymbol<'_>) -> bool {
        let config = self.sources.config;
        if self.lists.dynamic_list_names(symbol.name) {
            return true;
        }
        let by_default = config.output_kind == OutputKind::Shared || config.export_dynamic;
        by_default && self.lists.version_exports(symbol.name) && !self.is_of_excluded_library(symbol)
    }

    /// gold exports an `STB_GNU_UNIQUE` definition from any dynamic output (gold/symtab.cc `should_add_dynsym_entry`).
    fn is_unique_for_gold(&self, symbol: &GlobalSymbol<'_>) -> bool {
        let config = self.sources.config;
        if !config.rules().exports_unique || config.no_gnu_unique || config.static_link {
            return false;
        }
        let Prevailing::Module { module, symbol } = symbol.prevailing else { return false };
        let summary = self.position_of.get(&module).and_then(|p| self.sources.summaries.get(*p));
        summary.and_then(|s| s.symbols.get(symbol.index())).is_some_and(|s| s.binding == Binding::Unique)
    }

    /// `--exclude-libs`: definitions of these archives are hidden.
    fn is_of_excluded_library(&self, symbol: &GlobalSymbol<'_>) -> bool {
        let config = self.sources.config;
        let excluded = &config.exclude_libs;
        if config.rules().excludes_in_libraries && config.output_kind != OutputKind::Shared {
            return false;
        }
        let Prevailing::Module { module, .. } = symbol.prevailing else { return false };
        let inputs = self.sources.inputs;
        let input = inputs.modules.get(module);
        let Some((archive, _)) = input.and_then(|m| m.archive.as_ref()) else { return false };
        let base = inputs.files[*archive].path.file_name().unwrap_or_default();
        excluded.iter().any(|name| name == "ALL" || base == name.as_str())
    }
}

/// The function that lld calls instead of `__morestack` in code with a split stack that calls code without one (`InputSection.cpp`,
/// `adjustSplitStackFunctionPrologues`). It must be defined, and no relocation names it.
const MORESTACK_NON_SPLIT: &str = "__morestack_non_split";

/// Whether lld may make code call [`MORESTACK_NON_SPLIT`]: an object of the link has a split stack.
fn has_split_stack(sources: &LinkInputs<'_>) -> bool {
    let marks = |summary: &&ModuleSummary| {
        let mut notes = summary.atoms.iter().filter(|a| !a.kind.is_alloc());
        notes.any(|a| summary.name(a.name) == b".note.GNU-split-stack")
    };
    sources.config.rules().adjusts_split_stacks && sources.summaries.par_iter().any(marks)
}

/// Whether no other file of the process can refer to it.
fn is_hidden(visibility: Visibility) -> bool {
    matches!(visibility, Visibility::Hidden | Visibility::Internal)
}

/// By symbol: a native module has it as undefined without a reference to it. Such symbols come from `ld -r -u`, from rustc's list of
/// exports, and from start files (`__stack_chk_fail_local`).
fn declared(sources: &LinkInputs<'_>, index: &Index) -> Vec<bool> {
    let of_module = |(summary, this): (&&ModuleSummary, &super::IndexedModule)| {
        let mut wanted: Vec<bool> =
            summary.symbols.iter().map(|s| s.definition == Definition::Undefined).collect();
        if summary.kind != ModuleKind::Native || !wanted.contains(&true) {
            return Vec::new();
        }
        for reference in &summary.references {
            if let summaries::Target::Symbol(symbol) = reference.target
                && let Some(slot) = wanted.get_mut(symbol.index())
            {
                *slot = false;
            }
        }
        let symbols = wanted.iter().enumerate().filter(|(_, wanted)| **wanted);
        let id = |(i, _)| sources.resolution.symbol_id(this.module, summaries::SymbolIdx::new(i));
        symbols.filter_map(id).collect::<Vec<SymbolId>>()
    };
    let found: Vec<Vec<SymbolId>> = sources.summaries.par_iter().zip(&index.modules).map(of_module).collect();
    let mut declared = vec![false; sources.resolution.symbols.len()];
    found.iter().flatten().for_each(|id| declared[id.index()] = true);
    declared
}

fn mentioned_by_opaque_bitcode(sources: &LinkInputs<'_>, index: &Index) -> Vec<bool> {
    let mut mentioned = vec![false; sources.resolution.symbols.len()];
    for (summary, this) in sources.summaries.iter().zip(&index.modules) {
        if summary.kind == ModuleKind::Bitcode && this.kept_whole {
            let symbols = (0..summary.symbols.len()).map(summaries::SymbolIdx::new);
            for id in symbols.filter_map(|s| sources.resolution.symbol_id(this.module, s)) {
                mentioned[id.index()] = true;
            }
        }
    }
    mentioned
}

/// The patterns of `--prune-keep` that match no definition, each with whether it comes from a file for all links of a build.
pub fn unmatched_keeps<'l>(link: LinkInputs<'l>) -> Vec<(&'l str, bool)> {
    let keep = &link.config.prune.keep;
    let globs: Vec<Glob> = keep.iter().map(|pattern| Glob::new(pattern)).collect();
    let mut matched = vec![false; globs.len()];
    if !globs.is_empty() {
        for summary in link.summaries {
            let is_defined = |symbol: &&Symbol| !matches!(symbol.definition, Definition::Undefined);
            for symbol in summary.symbols.iter().filter(is_defined) {
                let name = summary.name(symbol.name);
                matched.iter_mut().zip(&globs).for_each(|(matched, glob)| *matched |= glob.matches(name));
            }
        }
    }
    let all = keep.iter().zip(matched).enumerate();
    let unmatched = all.filter(|(_, (_, matched))| !matched);
    unmatched.map(|(i, (pattern, _))| (pattern.as_str(), i < link.config.prune.keep_of_file)).collect()
}

/// Roots that options name by the symbol's name alone, including local symbols: `--prune-keep=GLOB`, [`RootReason::Ordered`].
fn kept_by_option(sources: &LinkInputs<'_>, index: &Index, roots: &mut Vec<Root>) {
    let keep: Vec<Glob> = sources.config.prune.keep.iter().map(|k| Glob::new(k)).collect();
    let ordered = &sources.inputs.scripts.ordered_symbols;
    if keep.is_empty() && ordered.is_empty() {
        return;
    }
    for (summary, this) in sources.summaries.iter().zip(&index.modules) {
        for (i, symbol) in summary.symbols.iter().enumerate() {
            let name = summary.name(symbol.name);
            let by_keep = keep.iter().any(|k| k.matches(name)).then_some(RootReason::PruneKeep);
            let by_order = ordered.contains(name).then_some(RootReason::Ordered);
            let symbol = summaries::SymbolIdx::new(i);
            let Some(AtomIdx(atom)) = summary.defining_atom(symbol) else { continue };
            let id: Option<SymbolId> = sources.resolution.symbol_id(this.module, symbol);
            let atom = AtomId(this.first_atom + atom);
            roots.extend(by_keep.into_iter().chain(by_order).map(|reason| Root { atom, reason, symbol: id }));
        }
    }
}
