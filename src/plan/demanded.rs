//! Definitions that the linker has to be asked for by name (`-u`), because it would collect what nothing in the pruned objects refers to any more.
//!
//! gold exports an `STB_GNU_UNIQUE` definition from a program whenever its own `--gc-sections` keeps it, whoever refers to it
//! (gold/symtab.cc `should_add_dynsym_entry`). The code that referred to it may be gone, or a stub. Safe because a name that is defined is only
//! kept by that. Left out: what only we take to be kept by gold's collection, for which [`Index::plain_live`] stands.

use rustc_hash::FxHashMap;
use summaries::{Binding, Definition, ModuleSummary};

use crate::config::{Config, Dialect, OutputKind};
use crate::ids::{AtomId, Id, ModuleId, SymbolId};
use crate::index::{Index, RootReason};
use crate::resolve::{Prevailing, Resolution};

/// The names, in the order of the atoms that they define.
pub(super) fn of_link(
    config: &Config,
    index: &Index,
    resolution: &Resolution<'_>,
    summaries: &[&ModuleSummary],
) -> Vec<SymbolId> {
    let is_program = matches!(config.output_kind, OutputKind::Executable | OutputKind::Pie);
    if config.linker.dialect != Dialect::Gold || !config.gc_sections || !is_program {
        return Vec::new();
    }
    let positions: FxHashMap<ModuleId, usize> = index.modules.iter().map(|m| m.module).zip(0..).collect();
    let declared = index.roots.iter().filter(|root| root.reason == RootReason::Declared);
    let symbols = declared.filter_map(|root| root.symbol);
    let is_unique = |symbol: &SymbolId| {
        let symbol = &resolution.symbols[*symbol];
        let Prevailing::Module { module, symbol: local } = symbol.prevailing else { return false };
        let Some(&position) = positions.get(&module) else { return false };
        let found = summaries[position].symbols.get(local.index());
        found.is_some_and(|found| match found.definition {
            Definition::Atom(atom) | Definition::Common(atom) => {
                let atom = AtomId(index.modules[position].first_atom + atom.0);
                found.binding == Binding::Unique && index.plain_live(summaries)[atom.index()]
            }
            _ => false,
        })
    };
    symbols.filter(is_unique).collect()
}
