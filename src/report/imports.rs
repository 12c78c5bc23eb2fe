//! Symbols that modules of the link refer to and none of them defines: the report's `imports`.
//!
//! Only references of live atoms count, as in `graph`. Code generation by the linker may remove references of bitcode, and add
//! others.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use summaries::Target;

use super::names::Facts;
use super::names::FixedWord;
use super::names::{code, edge_kind_name};
use crate::error::lossy;
use crate::ids::{AtomId, Id, SymbolId};
use crate::index::edge_kind;
use crate::resolve::Prevailing;

/// A symbol that is defined elsewhere, with one place of each atom that refers to it, ascending by atom.
#[derive(Debug, Serialize, Deserialize)]
pub struct ImportReport {
    pub symbol: String,
    /// It is `library`, `linker`, or `nothing`.
    pub defined_by: FixedWord,
    /// The name of the library for the loader.
    pub library: Option<String>,
    /// The elements are positions in `atoms`.
    pub from: Vec<u32>,
    /// The elements are positions in the graph's `kinds`.
    pub kind: Vec<u8>,
    /// In bytes, from the start of the section of the source (of its `.eh_frame` for `unwind`).
    pub offset: Vec<i64>,
    /// Places that it stands for; 255 is that or more.
    pub count: Vec<u8>,
}

impl ImportReport {
    /// The name of who defines it, as in `X defines it`. A weak reference that nothing defines is 0.
    pub(crate) fn definer(&self) -> &str {
        match &*self.defined_by {
            "library" => self.library.as_deref().unwrap_or("a library"),
            "linker" => "the linker",
            _ => "nothing",
        }
    }
}

pub(super) fn imports(facts: Facts<'_>) -> Vec<ImportReport> {
    let symbols = &facts.resolution.symbols;
    let mut at: FxHashMap<SymbolId, usize> = FxHashMap::default();
    let mut imports: Vec<ImportReport> = Vec::new();
    for (this, summary) in facts.index.modules.iter().zip(facts.summaries) {
        for r in &summary.references {
            let from = AtomId(this.first_atom + r.from.0);
            let Target::Symbol(symbol) = r.target else { continue };
            if !facts.liveness.is_live(from) || !facts.index.alloc[from.index()] {
                continue;
            }
            let Some(id) = facts.resolution.symbol_id(this.module, symbol) else { continue };
            let (defined_by, library) = match symbols[id].prevailing {
                Prevailing::Module { .. } => continue,
                Prevailing::Dso(dso) => ("library", Some(facts.inputs.dso_name(dso).to_owned())),
                Prevailing::Linker => ("linker", None),
                Prevailing::Undefined { .. } => ("nothing", None),
            };
            let position = *at.entry(id).or_insert_with(|| {
                let symbol = lossy(symbols[id].name);
                let (from, kind, offset, count) = Default::default();
                imports.push(ImportReport {
                    symbol,
                    defined_by: defined_by.into(),
                    library,
                    from,
                    kind,
                    offset,
                    count,
                });
                imports.len() - 1
            });
            let Some(import) = imports.get_mut(position) else { continue };
            match import.count.last_mut() {
                Some(count) if import.from.last() == Some(&from.0) => *count = count.saturating_add(1),
                _ => {
                    import.from.push(from.0);
                    import.kind.push(code(edge_kind_name(edge_kind(r.kind))));
                    import.offset.push(i64::try_from(r.offset).unwrap_or(-1));
                    import.count.push(1);
                }
            }
        }
    }
    imports.sort_by(|a, b| a.symbol.cmp(&b.symbol));
    imports
}
