//! Extraction as wild does it, and the limits of its model (libwild/src: resolution.rs, symbol_db.rs).
//!
//! A reference means the first definition on the line: in a file, loaded or not, in a library, or in wild itself. A strong reference loads
//! that file. A reference of other than default visibility skips libraries, for the best definition elsewhere. A file counts once, at its
//! first mention. The prevailing definition among loaded files is decided as by other linkers. wild discards no groups.
//!
//! In wild, members that are not loaded satisfy weak references, and their visibility counts. They aren't on the pruned line.
//! Where that matters there is a limit, and so there is for scripts and options that wild reads differently.

use rustc_hash::FxHashSet;
use summaries::{Limit, LimitRecord, SymbolIdx, Visibility};

use super::link_symbols::LinkSymbols;
use super::linker_defined::entry_symbol;
use super::merging;
use super::mold::{self, MoldFile, Provider};
use super::resolution::{Extraction, Prevailing, Resolution, link_limit};
use super::symtab::{Entry, Global};
use crate::ids::{Id, ModuleId, SymbolId};
use crate::inputs::{DsoSymbol, FileKind, SequenceItem};

/// Names that wild defines before it reads any file (elf.rs, `create_linker_defined_symbols`): a member that defines one
/// too is not loaded for it.
#[rustfmt::skip]
const FIRST: &[&str] = &[
    "_DYNAMIC", "_GLOBAL_OFFSET_TABLE_", "_TLS_MODULE_BASE_", "__bss_start", "__ehdr_start", "__end", "__etext",
    "__executable_start", "__fini_array_end", "__fini_array_start", "__init_array_end", "__init_array_start",
    "__preinit_array_end", "__preinit_array_start", "__rela_iplt_end", "__rela_iplt_start", "__tdata_start", "_edata",
    "_end", "_etext", "edata", "end", "etext",
];

/// The files that define each name, in the order in which wild asks.
struct DefiningFiles<'f> {
    files: &'f [MoldFile],
    /// The first file of the line that defines each symbol.
    first: Vec<Option<usize>>,
    /// The best (rank, file) of those that define each symbol and are no library.
    best: Vec<Option<(Rank, usize)>>,
}

/// Strong, then common by descending size, then weak.
type Rank = (u8, u64);

impl<'f> DefiningFiles<'f> {
    fn new(link_symbols: &LinkSymbols<'_>, files: &'f [MoldFile]) -> Self {
        let count = link_symbols.table.names.len();
        let mut definers = DefiningFiles { files, first: vec![None; count], best: vec![None; count] };
        for (i, file) in files.iter().enumerate() {
            match file.provider {
                Provider::Module(m) => {
                    for (id, global) in link_symbols.globals(m) {
                        let rank = match global.entry {
                            Entry::Undefined => continue,
                            _ if global.weak => (2, 0),
                            Entry::Common(size) => (1, u64::MAX - size),
                            Entry::Section(_) | Entry::Absolute(_) => (0, 0),
                        };
                        definers.first[id.index()].get_or_insert(i);
                        let best = &mut definers.best[id.index()];
                        if best.is_none_or(|b| (rank, i) < b) {
                            *best = Some((rank, i));
                        }
                    }
                }
                Provider::Dso(dso) => {
                    for (id, _) in link_symbols.dso_symbols(dso).filter(|(_, s)| s.defined) {
                        definers.first[id.index()].get_or_insert(i);
                    }
                }
            }
        }
        let first =
            FIRST.iter().copied().chain(link_symbols.config.defsym.iter().map(|defsym| defsym.name.as_str()));
        for id in first.filter_map(|name| link_symbols.table.find(name.as_bytes())) {
            definers.first[id.index()] = None;
        }
        definers
    }

    /// The file that a reference means.
    fn meant(&self, symbol: SymbolId, visibility: Visibility) -> Option<usize> {
        let first = self.first[symbol.index()]?;
        match self.files[first].provider {
            Provider::Dso(_) if visibility != Visibility::Default => {
                self.best[symbol.index()].map(|(_, file)| file)
            }
            _ => Some(first),
        }
    }
}

/// The modules in the link, in the order of the line, and the libraries between them.
pub(super) fn extract(link_symbols: &LinkSymbols<'_>) -> Extraction {
    let files = mold::files(link_symbols);
    let definers = DefiningFiles::new(link_symbols, &files);
    let alive = load(link_symbols, &definers);
    // A library that isn't loaded stays on the line: it makes the output dynamic.
    let mut extraction = mold::extraction(link_symbols, &files, &alive, false);
    extraction.limits = mentioned_again(link_symbols);
    extraction
}

/// By file: it is loaded.
fn load(link_symbols: &LinkSymbols<'_>, definers: &DefiningFiles<'_>) -> Vec<bool> {
    let files = definers.files;
    // It looks for the default entry for a shared library too.
    let entry = entry_symbol(link_symbols.config, &link_symbols.inputs.scripts)
        .unwrap_or_else(|| "_start".to_owned());
    let demanded = link_symbols.demanded().into_iter().chain(link_symbols.table.find(entry.as_bytes()));
    let demanded =
        demanded.filter_map(|s| definers.meant(link_symbols.wrapped_reference(s), Visibility::Default));
    mold::mark(files, demanded, |file| {
        let is_dso = |file: usize| matches!(files[file].provider, Provider::Dso(_));
        let strong = references(link_symbols, &files[file]).into_iter().filter(|r| !r.weak);
        let meant = strong.filter_map(|r| definers.meant(r.symbol, r.visibility));
        meant.filter(|meant| !(is_dso(file) && is_dso(*meant))).collect()
    })
}

/// An undefined symbol of a file.
struct Reference {
    symbol: SymbolId,
    weak: bool,
    visibility: Visibility,
}

fn references(link_symbols: &LinkSymbols<'_>, file: &MoldFile) -> Vec<Reference> {
    match file.provider {
        Provider::Module(m) => {
            let undefined = |(_, g): &(SymbolId, &Global<'_>)| g.entry == Entry::Undefined;
            let reference = |(symbol, g): (SymbolId, &Global<'_>)| Reference {
                symbol,
                weak: g.weak,
                visibility: g.visibility,
            };
            link_symbols.linked_globals(m).filter(undefined).map(reference).collect()
        }
        Provider::Dso(dso) => {
            // A reference with a version means a definition of that version, never of a plain name.
            let undefined = link_symbols.dso_symbols(dso).filter(|(_, s)| !s.defined && s.version.is_none());
            let reference = |(symbol, s): (SymbolId, &DsoSymbol)| {
                let symbol = link_symbols.wrapped_reference(symbol);
                Reference { symbol, weak: s.weak, visibility: Visibility::Default }
            };
            undefined.map(reference).collect()
        }
    }
}

/// Files that are named again in another way, or by another path: wild knows a file by its absolute path.
fn mentioned_again(link_symbols: &LinkSymbols<'_>) -> Vec<LimitRecord> {
    type ExtractedNames<'s> = (FxHashSet<(u32, bool, &'s str)>, FxHashSet<u32>);
    let (mut ways, mut files): ExtractedNames<'_> = Default::default();
    let mut limits = Vec::new();
    for item in &link_symbols.inputs.sequence {
        let (file, way, token) = match item {
            SequenceItem::Archive { file, whole, token, .. } => (*file, *whole, token),
            SequenceItem::Dso { dso, as_needed, token, .. } => {
                (link_symbols.inputs.dsos[*dso].file, *as_needed, token)
            }
            _ => continue,
        };
        let id = file.index() as u32;
        if ways.insert((id, way, token)) && !files.insert(id) {
            let path = link_symbols.inputs.files[file].path.display();
            let detail = format!("{path} is named twice, in different ways");
            limits.push(link_limit(Limit::AmbiguousResolution, detail));
        }
    }
    limits
}

/// Whether both definitions are in groups: wild takes the first of these and reports no duplicate.
pub(super) fn in_groups(link_symbols: &LinkSymbols<'_>, definitions: [(ModuleId, Entry); 2]) -> bool {
    let in_group = |(module, entry): &(ModuleId, Entry)| {
        let (Entry::Section(section), Some(m)) = (entry, &link_symbols.modules[module.index()]) else {
            return false;
        };
        m.comdats.iter().any(|c| c.members.contains(section))
    };
    definitions.iter().all(in_group)
}

/// Symbols for which the pruned link, without members that are not loaded, could resolve differently from the plain one.
pub(super) fn limits(link_symbols: &LinkSymbols<'_>, resolution: &Resolution<'_>) -> Vec<LimitRecord> {
    let mut details = Vec::new();
    let files = mold::files(link_symbols);
    let definers = DefiningFiles::new(link_symbols, &files);
    let is_loaded = |file: &MoldFile| match file.provider {
        Provider::Module(m) => resolution.modules[m].is_some(),
        Provider::Dso(dso) => resolution.dsos[dso].taken,
    };
    let name = |id: SymbolId| String::from_utf8_lossy(link_symbols.table.names[id.index()]);
    let prevailing = |id: SymbolId| resolution.symbols[id].prevailing;
    for file in &files {
        if is_loaded(file) {
            for reference in references(link_symbols, file) {
                let id = reference.symbol;
                let Some(meant) = definers.meant(id, reference.visibility) else { continue };
                let defined = matches!(prevailing(id), Prevailing::Module { .. } | Prevailing::Dso(_));
                if reference.weak && defined && !is_loaded(&files[meant]) {
                    details.push(format!(
                        "symbol {}: a weak reference means a file that isn't loaded",
                        name(id)
                    ));
                }
            }
        }
        let Provider::Module(m) = file.provider else { continue };
        for (id, global) in link_symbols.globals(m) {
            let Prevailing::Module { module, symbol } = prevailing(id) else { continue };
            let is_default = global.visibility == Visibility::Default;
            let hides = global.entry != Entry::Undefined && !is_loaded(file);
            if !is_default && hides && resolution.symbols[id].visibility == Visibility::Default {
                details.push(format!("symbol {}: hidden by a file that isn't loaded", name(id)));
            }
            let first = definers.first[id.index()].map(|f| files[f].provider);
            if !is_default
                && is_loaded(file)
                && first != Some(Provider::Module(module))
                && own_visibility(link_symbols, module, symbol) == Visibility::Default
            {
                details.push(format!("symbol {}: another visibility for another definition", name(id)));
            }
            if !is_loaded(file) && global.name.contains(&b'@') && global.entry != Entry::Undefined {
                details.push(format!("symbol {}: a version in a file that isn't loaded", name(id)));
            }
        }
    }
    details.extend(of_options(link_symbols, resolution));
    details.into_iter().map(|detail| link_limit(Limit::AmbiguousResolution, detail)).collect()
}

fn own_visibility(link_symbols: &LinkSymbols<'_>, module: ModuleId, symbol: SymbolIdx) -> Visibility {
    merging::definition(link_symbols, module, symbol).map_or(Visibility::Default, |global| global.visibility)
}

/// Names and scripts that wild treats differently from other linkers.
fn of_options(link_symbols: &LinkSymbols<'_>, resolution: &Resolution<'_>) -> Vec<String> {
    let mut details = Vec::new();
    let config = link_symbols.config;
    let is_defined = |name: &str| {
        let Some(wanted) = link_symbols.table.find(name.as_bytes()) else { return false };
        let defines = |(id, g): (SymbolId, &Global<'_>)| id == wanted && g.entry != Entry::Undefined;
        link_symbols.inputs.modules.ids().any(|m| link_symbols.globals(m).any(defines))
    };
    let assigned =
        config.defsym.iter().map(|defsym| &defsym.name).chain(&link_symbols.inputs.scripts.assigned_symbols);
    // A definition in a file prevails over it.
    details
        .extend(assigned.filter(|n| is_defined(n)).map(|n| format!("{n} is defined by a file and assigned")));
    for name in &config.wrap {
        let find = |prefix: &str| link_symbols.table.find(format!("{prefix}{name}").as_bytes());
        let by_loaded = |id: SymbolId| matches!(resolution.symbols[id].prevailing, Prevailing::Module { .. });
        let is_mentioned = find("").or(find("__real_")).is_some();
        if is_mentioned && !find("__wrap_").is_some_and(by_loaded) || is_defined(&format!("__real_{name}")) {
            details.push(format!("--wrap={name} without a __wrap_{name}, or with a __real_{name}"));
        }
    }
    // wild knows the member of a thin archive by its own name, and a file between --start-lib and --end-lib by that of the file. On the
    // pruned line the first is in an archive, and the second isn't.
    let by_own_name = |item: &SequenceItem| match item {
        SequenceItem::Object { lazy, .. } => *lazy,
        SequenceItem::Archive { file, .. } => link_symbols.inputs.files[*file].kind == FileKind::ThinArchive,
        _ => false,
    };
    if !config.exclude_libs.is_empty() && link_symbols.inputs.sequence.iter().any(by_own_name) {
        details.push("--exclude-libs beside a thin archive or --start-lib".to_owned());
    }
    // Only the last one of each kind counts.
    let lists = config.dynamic_lists.len() + config.export_dynamic_lists.len();
    if config.version_scripts.len() > 1 || lists > 1 {
        details.push("several version scripts or lists of symbols".to_owned());
    }
    details
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_are_sorted() {
        assert!(super::FIRST.is_sorted());
    }
}
