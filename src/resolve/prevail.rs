//! The prevailing definition of each name, given the loaded modules and their order.
//!
//! All linkers link the first group of a COMDAT signature. A strong definition prevails over a common one (the largest), that over the first
//! weak one, and a module's over a DSO's; [`LinkerRules`] has the differences. A difference that was not compared with the linker
//! is a limit, and so is a link that the linker will refuse.

use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};
use summaries::{Limit, LimitRecord, SymbolIdx, Visibility};

use super::link_symbols::{GRAIN, LinkSymbols};
use super::linker_defined::is_linker_defined;
use super::resolution::{
    DsoState, Extraction, GlobalSymbol, LoadedModule, Prevailing, Resolution, link_limit,
};
use super::symbol_table::HashedName;
use super::symtab::{self, Entry};
use super::{bitcode, merging, wild};
use crate::error::lossy;
use crate::ids::{DsoId, Id, IdVec, ModuleId, SymbolId};
use crate::inputs::{FileKind, SequenceItem, SymbolType};
use crate::linker_rules::LinkerRules;

/// The best definition in a module so far.
#[derive(Debug, Clone, Copy)]
struct BestDefinition {
    entry: Entry,
    weak: bool,
    /// Its own name is `name@version` or `name@@version`.
    versioned: bool,
    module: ModuleId,
    symbol: SymbolIdx,
}

/// The facts about a name, over all loaded modules and DSOs.
#[derive(Debug, Clone, Copy, Default)]
struct NameFacts {
    best: Option<BestDefinition>,
    has_common: bool,
    has_weak: bool,
    strong_reference: bool,
    /// The same by native modules only.
    strong_native_reference: bool,
    by_bitcode: bool,
    by_generated_code: bool,
    weak_reference: bool,
    visibility: Visibility,
    /// [`type_bit`] of each type that a file gives it; 0 if no module names it.
    types: u8,
    /// In bytes, of the first data definition in a module and in a library; 0 if unknown.
    data_size: u64,
    dso_data_size: u64,
    dso: Option<DsoId>,
    /// The library's definition overrides a common symbol (`DsoSymbol::overrides_common`).
    dso_overrides_common: bool,
    referenced_by_dso: bool,
    strongly_referenced_by_dso: bool,
}

/// Decide for every name which definition prevails, and gather the other facts about it.
pub(super) fn decide<'a>(link_symbols: &LinkSymbols<'a>, extraction: Extraction) -> Resolution<'a> {
    let Extraction { loaded, taken, mentions, referenced: overtaken, looked_for, weak_wraps, limits } =
        extraction;
    let taken = &taken[..];
    let mut resolution = Resolution { dso_mentions: mentions, ..Resolution::default() };
    resolution.limits.extend(limits.into_iter().map(|l| (None, l)));
    let mut modules: Vec<Option<LoadedModule>> = vec![None; link_symbols.modules.len()];
    let discarded = discard_groups(link_symbols, &loaded, &mut modules);
    let mut seen = vec![NameFacts::default(); link_symbols.table.names.len()];
    // Each thread visits all modules for its share of the names, because the facts of a name depend on the order of modules.
    let share = seen.len().div_ceil(rayon::current_num_threads()).max(GRAIN);
    let conflicts = seen.par_chunks_mut(share).enumerate().map(|(number, seen)| {
        let mut conflicts = Vec::new();
        for (position, (&module, discarded)) in loaded.iter().zip(&discarded).enumerate() {
            see_module(link_symbols, (position, module), discarded, (number * share, seen), &mut conflicts);
        }
        conflicts
    });
    let mut conflicts = conflicts.flatten_iter().collect::<Vec<_>>();
    conflicts.sort_unstable();
    for (position, _, id) in conflicts {
        let detail =
            format!("several strong definitions of symbol {}", lossy(link_symbols.table.names[id.index()]));
        resolution.limits.push((Some(loaded[position]), link_limit(Limit::LinkError, detail)));
    }
    for wrapped in weak_wraps {
        let mut named = loaded.iter().flat_map(|module| link_symbols.globals(*module));
        let is_strong =
            named.any(|(id, global)| id == wrapped && global.entry == Entry::Undefined && !global.weak);
        let facts = &mut seen[wrapped.index()];
        (facts.strong_reference, facts.strong_native_reference) = (is_strong, is_strong);
        facts.weak_reference = true;
    }
    see_dsos(link_symbols, taken, &mut seen);
    let late = bitcode::LateExtraction::new(link_symbols, &loaded);
    resolution.limits.extend(late.limits());
    for id in late.symbols(link_symbols) {
        seen[id.index()].by_bitcode = true;
        seen[id.index()].by_generated_code = true;
    }
    (resolution.has_bitcode, resolution.late) = (late.any_bitcode, late.native);
    resolution.late.extend(looked_for);
    resolution.late.sort_unstable();
    resolution.late.dedup();
    let rules = link_symbols.config.rules();
    let each = || seen.par_iter().zip(&link_symbols.table.names).with_min_len(GRAIN);
    let prevails = |best: BestDefinition| merging::definition(link_symbols, best.module, best.symbol);
    let is_omittable = |s: &NameFacts| s.best.and_then(prevails).is_some_and(|g| g.omittable);
    let symbols = each().map(|(s, name)| GlobalSymbol {
        name,
        prevailing: prevailing(link_symbols, taken, name, s, rules),
        visibility: s.visibility,
        referenced_by_dso: s.referenced_by_dso,
        defined_by_dso: s.dso.is_some(),
        versioned: name.contains(&b'@') || s.best.is_some_and(|b| b.versioned),
        strong_reference: s.strong_reference,
        by_bitcode: s.by_bitcode,
        by_generated_code: s.by_generated_code,
        omittable: s.by_bitcode && is_omittable(s),
    });
    resolution.symbols = IdVec::from(symbols.collect::<Vec<_>>());
    let both = || each().zip(resolution.symbols.as_slice());
    let found = both().flat_map_iter(|((s, name), symbol)| symbol_limits(rules, taken, name, s, symbol));
    let found: Vec<LimitRecord> = found.collect();
    // Code made of bitcode refers to a library only as its linker sees it.
    let is_referenced = |s: &NameFacts, symbol: &GlobalSymbol<'_>| match symbol.prevailing {
        Prevailing::Dso(dso) if s.strong_native_reference => Some(dso),
        _ => None,
    };
    let referenced: Vec<DsoId> = both().filter_map(|((s, _), symbol)| is_referenced(s, symbol)).collect();
    resolution.limits.extend(found.into_iter().map(|limit| (None, limit)));
    let mut dsos: Vec<DsoState> = taken.iter().map(|t| DsoState { taken: *t, referenced: false }).collect();
    referenced.into_iter().chain(overtaken).for_each(|dso| dsos[dso.index()].referenced = true);
    let messages = messages(link_symbols, &loaded, taken, &seen).into_iter();
    resolution.limits.extend(messages.map(|detail| (None, link_limit(Limit::LinkerMessage, detail))));
    lazy_unknowns(link_symbols, &modules, &mut resolution);
    resolution.same_source = merging::same_source(link_symbols, &loaded);
    resolution.demanding = merging::demanding(link_symbols, &loaded, &resolution.symbols);
    let ambiguous = unmodelled_names(link_symbols, &loaded).into_iter();
    resolution.limits.extend(ambiguous.map(|detail| (None, link_limit(Limit::AmbiguousResolution, detail))));
    resolution.loaded = loaded;
    resolution.modules = IdVec::from(modules);
    resolution.dsos = IdVec::from(dsos);
    resolution
}

/// Add the facts of one module about the names of a share, which begins at `first`. Two strong definitions are a conflict: (position
/// of the module, number among its globals, name).
fn see_module(
    link_symbols: &LinkSymbols<'_>,
    (position, module): (usize, ModuleId),
    discarded: &[u32],
    (first, seen): (usize, &mut [NameFacts]),
    conflicts: &mut Vec<(usize, usize, SymbolId)>,
) {
    let Some(symbols) = &link_symbols.modules[module.index()] else { return };
    let rules = link_symbols.config.rules();
    let is_bitcode = link_symbols.inputs.modules[module].kind == FileKind::Bitcode;
    for (i, (id, global)) in link_symbols.linked_globals(module).enumerate() {
        let Some(s) = id.index().checked_sub(first).and_then(|at| seen.get_mut(at)) else { continue };
        s.by_bitcode |= is_bitcode;
        s.visibility = s.visibility.merge(global.visibility);
        s.types |= type_bit(global.ty) | MENTIONED;
        if global.ty == SymbolType::Data && global.entry != Entry::Undefined && s.data_size == 0 {
            s.data_size = global.size;
        }
        let is_discarded = matches!(global.entry, Entry::Section(n) if discarded.binary_search(&n).is_ok());
        if global.entry == Entry::Undefined || is_discarded {
            s.strong_reference |= !global.weak;
            s.strong_native_reference |= !global.weak && !is_bitcode;
            s.weak_reference |= global.weak;
            continue;
        }
        let symbol = SymbolIdx(symbols.first_global + i as u32);
        let versioned = global.versioned;
        let new = BestDefinition { entry: global.entry, weak: global.weak, versioned, module, symbol };
        s.has_common |= matches!(new.entry, Entry::Common(_));
        s.has_weak |= new.weak;
        match prefer(s.best, new, rules) {
            Ok(best) => s.best = Some(best),
            Err(()) if link_symbols.config.allow_multiple_definition => {}
            Err(())
                if !rules.discards_groups
                    && s.best.is_some_and(|old| {
                        wild::in_groups(link_symbols, [(old.module, old.entry), (module, global.entry)])
                    }) => {}
            Err(()) => conflicts.push((position, i, id)),
        }
    }
}

/// The limits of a name: ambiguous rules, and errors of the linker.
fn symbol_limits(
    rules: &LinkerRules,
    taken: &[bool],
    name: &[u8],
    s: &NameFacts,
    symbol: &GlobalSymbol<'_>,
) -> impl Iterator<Item = LimitRecord> {
    let replaces_dso =
        s.dso.is_some() && s.has_weak && (s.has_common || s.visibility == Visibility::Protected);
    let is_weak = symbol.prevailing == (Prevailing::Undefined { weak: true });
    let is_missing =
        matches!(symbol.prevailing, Prevailing::Dso(dso) if s.strong_reference && !taken[dso.index()]);
    let found = [
        (rules.first_file_decides_weak && s.has_common && s.has_weak)
            .then_some((Limit::AmbiguousResolution, "common and weak definitions")),
        (rules.inherits_versions && replaces_dso).then_some((
            Limit::AmbiguousResolution,
            "a weak definition beside that of a library and another",
        )),
        is_missing.then_some((Limit::LinkError, "its library is missing from the command line")),
        (rules.first_file_decides_weak && is_weak && s.strongly_referenced_by_dso)
            .then_some((Limit::AmbiguousResolution, "a weak reference beside that of a library")),
    ];
    let name = lossy(name);
    found.into_iter().flatten().map(move |(limit, why)| link_limit(limit, format!("symbol {name}: {why}")))
}

/// Give each loaded module its [`LoadedModule`], and for each the sorted sections of the groups that are discarded.
fn discard_groups(
    link_symbols: &LinkSymbols<'_>,
    loaded: &[ModuleId],
    modules: &mut [Option<LoadedModule>],
) -> Vec<Vec<u32>> {
    let mut prevailing: FxHashSet<HashedName<'_>> = FxHashSet::default();
    let mut all = Vec::with_capacity(loaded.len());
    for module in loaded {
        let mut discarded = Vec::new();
        let mut state = LoadedModule::default();
        if let Some(symbols) = &link_symbols.modules[module.index()] {
            state.first_global = symbols.first_global;
            state.symbols = link_symbols.linked_ids(*module).to_vec();
            let groups = symbols.comdats.iter().filter(|_| link_symbols.config.rules().discards_groups);
            for group in groups {
                if !prevailing.insert(group.signature) {
                    state.discarded_groups.push(group.section);
                    discarded.extend_from_slice(&group.members);
                }
            }
        }
        state.discarded_groups.sort_unstable();
        discarded.sort_unstable();
        modules[module.index()] = Some(state);
        all.push(discarded);
    }
    all
}

/// The better of two definitions; `Err` if both are strong, which linkers refuse.
fn prefer(
    old: Option<BestDefinition>,
    new: BestDefinition,
    rules: &LinkerRules,
) -> Result<BestDefinition, ()> {
    let Some(old) = old else { return Ok(new) };
    // The lower one prevails.
    let rank = |b: &BestDefinition| match (b.entry, b.weak) {
        (Entry::Common(_), _) if rules.commons_are_last => 3,
        (Entry::Common(_), _) => 1,
        (_, false) => 0,
        (_, true) => 2,
    };
    match (old.entry, new.entry) {
        (Entry::Common(a), Entry::Common(b)) => Ok(if b > a { new } else { old }),
        // The same absolute value twice is no conflict (lld, `reportDuplicate`).
        (Entry::Absolute(a), Entry::Absolute(b)) if a == b => Ok(old),
        _ if rank(&old) == 0 && rank(&new) == 0 => Err(()),
        _ => Ok(if rank(&new) < rank(&old) { new } else { old }),
    }
}

fn see_dsos(link_symbols: &LinkSymbols<'_>, taken: &[bool], seen: &mut [NameFacts]) {
    for item in &link_symbols.inputs.sequence {
        let SequenceItem::Dso { dso, implicit, .. } = item else { continue };
        // GNU ld itself opens the implicit ones, once it has read all others.
        if !taken[dso.index()] && !implicit {
            continue;
        }
        for (id, symbol) in link_symbols.dso_symbols(*dso) {
            let s = &mut seen[id.index()];
            if symbol.defined {
                if s.types & MENTIONED != 0 {
                    s.types |= type_bit(symbol.ty);
                }
                if symbol.ty == SymbolType::Data && s.dso_data_size == 0 {
                    s.dso_data_size = symbol.size;
                }
                if s.dso.is_none() {
                    (s.dso, s.dso_overrides_common) = (Some(*dso), symbol.overrides_common);
                }
            } else {
                s.referenced_by_dso = true;
                s.strongly_referenced_by_dso |= !symbol.weak;
            }
        }
    }
}

fn prevailing(
    link_symbols: &LinkSymbols<'_>,
    taken: &[bool],
    name: &[u8],
    s: &NameFacts,
    rules: &LinkerRules,
) -> Prevailing {
    let config = link_symbols.config;
    let is = |names: &[String]| names.iter().any(|n| n.as_bytes() == name);
    let by_defsym = config.defsym.iter().any(|defsym| defsym.name.as_bytes() == name);
    if by_defsym || is(&link_symbols.inputs.scripts.assigned_symbols) {
        return Prevailing::Linker;
    }
    match (s.best, s.dso) {
        (Some(BestDefinition { entry: Entry::Common(_), .. }), Some(dso))
            if rules.commons_are_last || rules.dso_data_over_common && s.dso_overrides_common =>
        {
            Prevailing::Dso(dso)
        }
        (Some(best), _) => Prevailing::Module { module: best.module, symbol: best.symbol },
        // A reference of non-default visibility must be satisfied within the output.
        (None, Some(dso)) if s.visibility == Visibility::Default => Prevailing::Dso(dso),
        (None, _) if is_linker_defined(name) || is_wrapped(link_symbols, name) => Prevailing::Linker,
        (None, _) => versioned(link_symbols, taken, name)
            .unwrap_or(Prevailing::Undefined { weak: !s.strong_reference && s.weak_reference }),
    }
}

/// `--wrap=foo` makes `__real_foo` mean `foo`, and `foo` mean `__wrap_foo`; all three are roots where they are defined.
fn is_wrapped(link_symbols: &LinkSymbols<'_>, name: &[u8]) -> bool {
    let wrap = &link_symbols.config.wrap;
    let plain = name.strip_prefix(b"__real_").unwrap_or(name);
    wrap.iter().any(|w| w.as_bytes() == plain)
}

/// A reference to `name@version` is satisfied by a DSO's definition of that version.
fn versioned(link_symbols: &LinkSymbols<'_>, taken: &[bool], name: &[u8]) -> Option<Prevailing> {
    name.contains(&b'@').then_some(())?;
    let dsos = link_symbols.inputs.dsos.ids().filter(|d| taken[d.index()]);
    dsos.into_iter().find(|d| link_symbols.defines_version(*d, name)).map(Prevailing::Dso)
}

/// Names for which the linker's resolution is unknown.
fn unmodelled_names(link_symbols: &LinkSymbols<'_>, loaded: &[ModuleId]) -> Vec<String> {
    let mut details = Vec::new();
    let wrap = link_symbols.config.wrap.iter();
    let unresolved = |name: &&String| {
        let find = |n: &str| link_symbols.table.find(n.as_bytes());
        find(name).is_some() && find(&format!("__wrap_{name}")).is_none()
    };
    details.extend(wrap.filter(unresolved).map(|name| format!("--wrap={name} without a __wrap_{name}")));
    if !link_symbols.config.rules().finds_versions {
        let explicit = |id: &SymbolId| link_symbols.table.names[id.index()].contains(&b'@');
        let undefined = |m: &ModuleId| {
            link_symbols.globals(*m).any(|(id, g)| g.entry == Entry::Undefined && explicit(&id))
        };
        let any = !link_symbols.versioned.is_empty() && loaded.iter().any(undefined);
        details.extend(any.then(|| "a reference to a symbol of an explicit version".to_owned()));
    }
    // lld takes it for undefined; for the others it is exported, extracts members, or is an error.
    let excluded = loaded.iter().find_map(|m| link_symbols.modules[m.index()].as_ref()?.excluded);
    details.extend(excluded.map(|name| {
        format!("symbol {} is defined in a section that no output has (SHF_EXCLUDE)", lossy(name))
    }));
    let mut by_name: FxHashMap<&str, DsoId> = FxHashMap::default();
    for (id, dso) in link_symbols.inputs.dsos.enumerated() {
        // Most linkers ignore the second library; that matters only if it has other symbols.
        let first = *by_name.entry(link_symbols.inputs.dso_name(id)).or_insert(id);
        if link_symbols.inputs.dsos[first].symbols != dso.symbols {
            details.push(format!("two libraries of the name {}", link_symbols.inputs.dso_name(id)));
        }
    }
    details
}

/// Set in [`NameFacts::types`] if a module names the symbol.
const MENTIONED: u8 = 8;

fn type_bit(ty: SymbolType) -> u8 {
    match ty {
        SymbolType::Untyped => 0,
        SymbolType::Data => 1,
        SymbolType::Code => 2,
        SymbolType::Tls => 4,
    }
}

/// Whether files disagree about the type or size of a symbol, so that the linker prints a message. Every linker does if only some take
/// it for thread-local.
fn is_mismatch(s: &NameFacts, rules: &LinkerRules) -> bool {
    let has = |ty| s.types & type_bit(ty) != 0;
    let (data, code) = (has(SymbolType::Data), has(SymbolType::Code));
    let sizes = s.data_size != 0 && s.dso_data_size != 0 && s.data_size != s.dso_data_size;
    let replaced = s.has_common && s.best.is_some_and(|best| !matches!(best.entry, Entry::Common(_)));
    has(SymbolType::Tls) && (data || code)
        || rules.warns_of_types && data && code
        || rules.warns_of_sizes && (sizes || replaced && data && code)
}

/// Messages of the linker about symbols of the originals, which it might not print for pruned objects.
fn messages(
    link_symbols: &LinkSymbols<'_>,
    loaded: &[ModuleId],
    taken: &[bool],
    seen: &[NameFacts],
) -> Vec<String> {
    let mut details = Vec::new();
    if link_symbols.config.warn_common && seen.iter().any(|s| s.has_common) {
        details.push("--warn-common, and common symbols".to_owned());
    }
    let rules = link_symbols.config.rules();
    let mismatch = seen.par_iter().with_min_len(GRAIN).position_first(|s| is_mismatch(s, rules));
    let name = mismatch.and_then(|at| link_symbols.table.names.get(at)).map(|name| lossy(name));
    details.extend(name.map(|name| format!("files differ in type or size of symbol {name}")));
    if rules.prints_gnu_warnings {
        let modules = loaded.par_iter().map(|m| link_symbols.inputs.module_bytes(*m));
        let dsos: Vec<DsoId> = link_symbols.inputs.dsos.ids().filter(|dso| taken[dso.index()]).collect();
        let dsos =
            dsos.par_iter().map(|dso| &*link_symbols.inputs.files[link_symbols.inputs.dsos[*dso].file].bytes);
        let warned: Vec<&[u8]> = modules.chain(dsos).flat_map_iter(symtab::warned_symbols).collect();
        let referenced = |name: &&[u8]| {
            let seen = link_symbols.table.find(name).and_then(|id| seen.get(id.index()));
            seen.is_some_and(|s| s.strong_reference || s.weak_reference)
        };
        let detail = |name: &[u8]| format!("a warning about references to {}", String::from_utf8_lossy(name));
        details.extend(warned.into_iter().find(referenced).map(detail));
    }
    details
}

/// Members that may be loaded although their symbols can't be read.
fn lazy_unknowns(
    link_symbols: &LinkSymbols<'_>,
    modules: &[Option<LoadedModule>],
    resolution: &mut Resolution<'_>,
) {
    let wanted = |symbol: SymbolId| {
        matches!(
            resolution.symbols[symbol].prevailing,
            Prevailing::Undefined { weak: false } | Prevailing::Dso(_)
        )
    };
    let mut limits = Vec::new();
    let rules = link_symbols.config.rules();
    for (item, armap) in link_symbols.inputs.sequence.iter().zip(&link_symbols.armaps) {
        let members: &[ModuleId] = match item {
            SequenceItem::Archive { modules, .. } => modules,
            SequenceItem::Object { module, lazy: true, .. } => std::slice::from_ref(module),
            _ => continue,
        };
        for &module in members {
            if modules[module.index()].is_some() || link_symbols.modules[module.index()].is_some() {
                continue;
            }
            let limit = match link_symbols.inputs.modules[module].kind {
                FileKind::Bitcode => Limit::Bitcode,
                FileKind::Object => Limit::MalformedObject,
                // GNU ld and gold go by the archive's symbol table, which does not name it.
                _ if !rules.reads_all_members => continue,
                _ if link_symbols.inputs.modules[module].range.is_empty() && rules.skips_odd_members => {
                    continue;
                }
                _ => {
                    let detail =
                        "an archive member that is no object: the linker has a word to say".to_owned();
                    limits.push((Some(module), link_limit(Limit::LinkError, detail)));
                    continue;
                }
            };
            let named = armap.iter().filter(|(_, m)| *m == module).map(|(s, _)| *s);
            let reads_it = rules.reads_all_members && (limit != Limit::Bitcode || !rules.skips_odd_members);
            if armap.is_empty() || named.into_iter().any(wanted) || reads_it {
                let detail = "an archive member whose symbols can't be read may be in the link".to_owned();
                limits.push((Some(module), link_limit(limit, detail)));
            }
        }
    }
    resolution.limits.append(&mut limits);
}
