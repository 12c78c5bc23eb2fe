//! Extraction as mold does it (`resolve_symbols` and `mark_live_objects`, input-files.cc).
//!
//! mold ranks the definitions of all files, and then loads the files to which loaded files refer strongly: the order of files only breaks
//! ties. In lld that order decides, because a member is loaded as soon as a strong reference and its definition have been read.
//!
//! Modules are in the order of the line, members in that of their archive. wild shares the list of files and the marking.

use super::link_symbols::LinkSymbols;
use super::linker_defined::entry_symbol;
use super::resolution::{DsoMention, Extraction};
use super::symtab::Entry;
use crate::ids::{DsoId, Id, ModuleId, SymbolId};
use crate::inputs::SequenceItem;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Provider {
    Module(ModuleId),
    Dso(DsoId),
}

/// One file, in order of priority.
pub(super) struct MoldFile {
    pub(super) provider: Provider,
    pub(super) lazy: bool,
}

/// The rank of a definition, the best first (mold's `get_rank`). A lazy one is in an unloaded member or in a shared library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum DefinitionRank {
    Strong,
    Weak,
    LazyStrong,
    LazyWeak,
    Common,
    LazyCommon,
}

/// The modules in the link, in the order of loading, and the libraries between them.
pub(super) fn extract(link_symbols: &LinkSymbols<'_>) -> Extraction {
    let files = files(link_symbols);
    let best = rank(link_symbols, &files);
    let entry = entry_symbol(link_symbols.config, &link_symbols.inputs.scripts);
    let entry = entry.and_then(|e| link_symbols.table.find(e.as_bytes()));
    let provider = |symbol: SymbolId| best[symbol.index()].map(|(_, file)| file);
    let demanded = link_symbols.demanded().into_iter().chain(entry).filter_map(provider);
    let alive = mark(&files, demanded, |file| {
        strong_references(link_symbols, &files[file], &files, &best)
            .into_iter()
            .filter_map(provider)
            .collect()
    });
    let mut extraction = extraction(link_symbols, &files, &alive, true);
    // A library that provided a definition is marked, even if that of a member prevails once it is loaded.
    for mention in &mut extraction.mentions {
        if let SequenceItem::Dso { dso, .. } = &link_symbols.inputs.sequence[mention.item] {
            mention.taken = extraction.taken[dso.index()];
        }
    }
    extraction
}

/// By file: it is loaded. The files are those that are not lazy, the demanded ones, and transitively those that loaded files load.
pub(super) fn mark(
    files: &[MoldFile],
    demanded: impl Iterator<Item = usize>,
    loads: impl Fn(usize) -> Vec<usize>,
) -> Vec<bool> {
    let mut alive = vec![false; files.len()];
    let mut work: Vec<usize> = (0..files.len()).filter(|file| !files[*file].lazy).chain(demanded).collect();
    while let Some(file) = work.pop() {
        if !std::mem::replace(&mut alive[file], true) {
            work.extend(loads(file));
        }
    }
    alive
}

/// The loaded modules and libraries. A library that is no file of the line is `taken` or not.
pub(super) fn extraction(
    link_symbols: &LinkSymbols<'_>,
    files: &[MoldFile],
    alive: &[bool],
    taken: bool,
) -> Extraction {
    let count = link_symbols.inputs.dsos.len();
    let mut extraction = Extraction { taken: vec![taken; count], ..Extraction::default() };
    let mut first_after: Vec<Option<usize>> = vec![None; count];
    for (file, alive) in files.iter().zip(alive) {
        match file.provider {
            Provider::Module(m) if *alive => extraction.loaded.push(m),
            Provider::Module(_) => {}
            Provider::Dso(dso) => {
                first_after[dso.index()] = Some(extraction.loaded.len());
                extraction.taken[dso.index()] = *alive;
            }
        }
    }
    extraction.mentions = mentions(link_symbols, first_after, extraction.loaded.len());
    extraction
}

/// The libraries on the line, each with the number of modules before it. Repeated mentions come last; they change nothing.
fn mentions(
    link_symbols: &LinkSymbols<'_>,
    mut first_after: Vec<Option<usize>>,
    loaded: usize,
) -> Vec<DsoMention> {
    let mut mentions = Vec::new();
    for (item, what) in link_symbols.inputs.sequence.iter().enumerate() {
        if let SequenceItem::Dso { dso, implicit: false, .. } = what {
            let after = first_after[dso.index()].take().unwrap_or(loaded);
            mentions.push(DsoMention { item, after, taken: true });
        }
    }
    mentions.sort_by_key(|m| m.after);
    mentions
}

/// The files of the line, each once.
pub(super) fn files(link_symbols: &LinkSymbols<'_>) -> Vec<MoldFile> {
    let mut files = Vec::new();
    let mut seen_dso = vec![false; link_symbols.inputs.dsos.len()];
    let mut seen_module: Vec<Option<usize>> = vec![None; link_symbols.modules.len()];
    let mut module = |m: ModuleId, lazy: bool, files: &mut Vec<MoldFile>| match seen_module[m.index()] {
        Some(at) => files[at].lazy &= lazy,
        None => {
            seen_module[m.index()] = Some(files.len());
            files.push(MoldFile { provider: Provider::Module(m), lazy });
        }
    };
    for item in &link_symbols.inputs.sequence {
        match item {
            SequenceItem::Object { module: m, lazy, .. } => module(*m, *lazy, &mut files),
            SequenceItem::Archive { modules, whole, .. } => {
                modules.iter().for_each(|m| module(*m, !*whole, &mut files));
            }
            SequenceItem::Dso { dso, as_needed, implicit: false, .. } => {
                if !std::mem::replace(&mut seen_dso[dso.index()], true) {
                    files.push(MoldFile { provider: Provider::Dso(*dso), lazy: *as_needed });
                }
            }
            SequenceItem::Dso { .. } | SequenceItem::GroupStart | SequenceItem::GroupEnd => {}
        }
    }
    files
}

/// The best (rank, file) of each symbol.
fn rank(link_symbols: &LinkSymbols<'_>, files: &[MoldFile]) -> Vec<Option<(DefinitionRank, usize)>> {
    let mut best: Vec<Option<(DefinitionRank, usize)>> = vec![None; link_symbols.table.names.len()];
    let mut offer = |symbol: SymbolId, rank: DefinitionRank, file: usize| {
        let slot = &mut best[symbol.index()];
        if slot.is_none_or(|b| (rank, file) < b) {
            *slot = Some((rank, file));
        }
    };
    for (i, file) in files.iter().enumerate() {
        match file.provider {
            Provider::Module(m) => {
                for (id, g) in link_symbols.globals(m) {
                    let rank = match (g.entry, file.lazy, g.weak) {
                        (Entry::Undefined, ..) => continue,
                        (Entry::Common(_), false, _) => DefinitionRank::Common,
                        (Entry::Common(_), true, _) => DefinitionRank::LazyCommon,
                        (_, false, false) => DefinitionRank::Strong,
                        (_, false, true) => DefinitionRank::Weak,
                        (_, true, false) => DefinitionRank::LazyStrong,
                        (_, true, true) => DefinitionRank::LazyWeak,
                    };
                    offer(id, rank, i);
                }
            }
            Provider::Dso(dso) => {
                for (id, s) in link_symbols.dso_symbols(dso).filter(|(_, s)| s.defined) {
                    offer(id, if s.weak { DefinitionRank::LazyWeak } else { DefinitionRank::LazyStrong }, i);
                }
            }
        }
    }
    // A symbol of `--defsym` loads no file.
    for defsym in &link_symbols.config.defsym {
        if let Some(symbol) = link_symbols.table.find(defsym.name.as_bytes()) {
            best[symbol.index()] = None;
        }
    }
    best
}

/// The symbols through which a loaded file loads others.
fn strong_references(
    link_symbols: &LinkSymbols<'_>,
    file: &MoldFile,
    files: &[MoldFile],
    best: &[Option<(DefinitionRank, usize)>],
) -> Vec<SymbolId> {
    match file.provider {
        Provider::Module(m) => {
            let counts = |(id, g): &(SymbolId, &super::symtab::Global<'_>)| match g.entry {
                Entry::Undefined => !g.weak,
                // A common gives way to a real definition, and so extracts it.
                Entry::Common(_) => best[id.index()].is_some_and(|(rank, _)| rank < DefinitionRank::Common),
                _ => false,
            };
            link_symbols.linked_globals(m).filter(counts).map(|(id, _)| id).collect()
        }
        Provider::Dso(dso) => {
            let is_module = |id: SymbolId| {
                best[id.index()].is_some_and(|(_, f)| matches!(files[f].provider, Provider::Module(_)))
            };
            link_symbols
                .dso_symbols(dso)
                .filter(|(id, s)| !s.defined && is_module(*id))
                .map(|(id, _)| id)
                .collect()
        }
    }
}
