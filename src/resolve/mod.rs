//! The pass resolve: the loaded members, the prevailing definitions, and the meaning of each symbol, as the linker decides them.
//!
//! After this pass the set of modules, their order and every prevailing definition are fixed.

mod bitcode;
mod linker_defined;
mod lld;
mod merging;
mod mold;
mod prevail;
mod resolution;
mod sequential;
pub mod symbol_table;
mod symtab;
mod wild;
mod link_symbols;

pub(crate) use link_symbols::symbols_of;
pub(crate) use linker_defined::{entry_symbol, is_linker_defined, start_stop_section};
pub(crate) use resolution::link_limit;
pub use resolution::{DsoMention, DsoState, GlobalSymbol, LoadedModule, Prevailing, Resolution};

use crate::config::{Config, Flavor};
use crate::inputs::Inputs;

/// Resolve a link as the linker behind us does.
pub fn resolve<'a>(inputs: &'a Inputs, config: &'a Config) -> Resolution<'a> {
    let link_symbols = link_symbols::LinkSymbols::new(inputs, config);
    let extraction = match config.linker.flavor {
        Flavor::Bfd | Flavor::Gold => sequential::extract(&link_symbols),
        Flavor::Mold => mold::extract(&link_symbols),
        Flavor::Lld => lld::extract(&link_symbols),
        Flavor::Wild => wild::extract(&link_symbols),
    };
    let mut resolution = prevail::decide(&link_symbols, extraction);
    if config.linker.flavor == Flavor::Wild {
        let limits = wild::limits(&link_symbols, &resolution);
        resolution.limits.extend(limits.into_iter().map(|l| (None, l)));
    }
    resolution
}
