//! Symbol attributes that lld merges over all definitions of a name, the prevailing one and the others.
//!
//! Link-time optimisation takes the most constraining visibility of all definitions. It omits the symbol from `.dynsym`
//! (`canBeOmittedFromSymbolTable`), and ignores its address (`unnamed_addr`), only if all definitions allow it.
//! A definition in bitcode that changes the result is kept with the prevailing one. Size and alignment of common symbols merge
//! too: see [`EdgeKind::SameName`](crate::index::EdgeKind::SameName).

use rayon::prelude::*;
use summaries::SymbolIdx;

use super::link_symbols::LinkSymbols;
use super::resolution::{GlobalSymbol, Prevailing};
use super::symtab::{Entry, Global};
use crate::config::OutputKind;
use crate::ids::{Id, IdVec, ModuleId, SymbolId};
use crate::inputs::FileKind;

/// The entry of a module's symbol table.
pub(super) fn definition<'w>(
    link_symbols: &'w LinkSymbols<'_>,
    module: ModuleId,
    symbol: SymbolIdx,
) -> Option<&'w Global<'w>> {
    let symbols = link_symbols.modules.get(module.index())?.as_ref()?;
    symbols.globals.get(symbol.0.checked_sub(symbols.first_global)? as usize)
}

/// Definitions in bitcode that do not prevail, and constrain an attribute of the symbol more than the prevailing one does.
pub(super) fn demanding(
    link_symbols: &LinkSymbols<'_>,
    loaded: &[ModuleId],
    symbols: &IdVec<SymbolId, GlobalSymbol<'_>>,
) -> Vec<(ModuleId, SymbolIdx)> {
    let config = link_symbols.config;
    let exports = config.output_kind == OutputKind::Shared
        || config.export_dynamic
        || !config.dynamic_lists.is_empty()
        || !config.export_dynamic_symbols.is_empty()
        || !config.export_dynamic_lists.is_empty();
    let is_exported = |id: SymbolId| exports || symbols[id].referenced_by_dso || symbols[id].defined_by_dso;
    let asks_more = |id: SymbolId, copy: &Global<'_>, prevailing: &Global<'_>| {
        let lasts = prevailing.omittable && !copy.omittable || prevailing.unnamed_addr && !copy.unnamed_addr;
        is_exported(id) && lasts || prevailing.visibility.merge(copy.visibility) != prevailing.visibility
    };
    let of_module = |module: &ModuleId| {
        let first = link_symbols.modules[module.index()].as_ref().map_or(0, |m| m.first_global);
        let globals = link_symbols.linked_globals(*module).enumerate();
        let mut demanding = Vec::new();
        for (i, (id, copy)) in globals.filter(|(_, (_, g))| g.entry != Entry::Undefined) {
            let entry = SymbolIdx(first + i as u32);
            let Prevailing::Module { module: other, symbol } = symbols[id].prevailing else { continue };
            if other == *module && symbol == entry {
                continue;
            }
            if definition(link_symbols, other, symbol)
                .is_some_and(|prevailing| asks_more(id, copy, prevailing))
            {
                demanding.push((*module, entry));
            }
        }
        demanding
    };
    let bitcode = loaded.par_iter().filter(|m| link_symbols.inputs.modules[**m].kind == FileKind::Bitcode);
    let mut found: Vec<_> = bitcode.flat_map_iter(of_module).collect();
    found.sort_unstable();
    found
}

/// Modules of bitcode that share the name of their source file with another one of the link.
pub(super) fn same_source(link_symbols: &LinkSymbols<'_>, loaded: &[ModuleId]) -> Vec<ModuleId> {
    let sources = |m: &ModuleId| link_symbols.modules[m.index()].iter().flat_map(|s| &s.sources);
    let mut named: Vec<(&[u8], ModuleId)> =
        loaded.iter().flat_map(|m| sources(m).map(|source| (&**source, *m))).collect();
    named.sort_unstable();
    // The modules of one file have one name.
    named.dedup();
    let shared = named.chunk_by(|a, b| a.0 == b.0).filter(|chunk| chunk.len() > 1);
    let mut modules: Vec<ModuleId> = shared.flatten().map(|n| n.1).collect();
    modules.sort_unstable();
    modules.dedup();
    modules
}
