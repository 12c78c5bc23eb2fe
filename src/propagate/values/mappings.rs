//! What becomes of the address of a function that maps memory where it is told to (`summaries::maps_memory`).
//!
//! The front ends look at each call of such a function that they know, and at data and code that is not followed; followed code that
//! has the address is told here. Safe because the address is an element like others: it is called through a pointer, or it escapes, or
//! nothing ever comes of it, and with either of the first two values are followed nowhere in the link. So they are where the address is not
//! that of a shared library's function, or has another name by an option, or where the fixpoint was too much work to tell. Left out: what code that
//! nobody sees does with a function that it finds by itself, and functions that are found by `dlsym`.

use summaries::Target;

use super::budget::GivenUp;
use super::flow::Flow;
use super::places::ResolvedPlace;
use crate::ids::{AtomId, SymbolId};

/// Why a program may make addresses of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FixedMapping {
    /// The function of a library that maps memory where it is told.
    pub symbol: SymbolId,
    /// The code that calls it or takes its address; `None` where its address escaped, or it has another name by an option.
    pub by: Option<AtomId>,
}

impl Flow<'_> {
    fn is_mapping(&self, symbol: SymbolId) -> bool {
        summaries::maps_memory(self.places.sources.resolution.symbols[symbol].name)
    }

    fn finds_fixed_mapping(&mut self, symbol: SymbolId, by: Option<AtomId>) {
        self.fixed_mapping.get_or_insert(FixedMapping { symbol, by });
    }

    /// Find the names that `--wrap` and `--defsym` give such a function, which say nothing to the front ends.
    pub(super) fn find_renamed(&mut self) {
        let config = self.places.sources.config;
        let words = |text: &str| {
            let split = text.split(|c: char| !c.is_ascii_alphanumeric() && !"_$.@".contains(c));
            split.into_iter().any(|word| summaries::maps_memory(word.as_bytes()))
        };
        let renamed = config.wrap.iter().any(|w| words(w))
            || config.defsym.iter().any(|defsym| words(&defsym.expression));
        let symbols = &self.places.sources.resolution.symbols;
        if renamed
            && let Some((symbol, _)) = symbols.enumerated().find(|(_, s)| summaries::maps_memory(s.name))
        {
            self.finds_fixed_mapping(symbol, None);
        }
    }

    /// Code has the address of `target`.
    pub(super) fn takes(
        &mut self,
        position: usize,
        target: Target,
        place: (ResolvedPlace, bool),
        by: AtomId,
    ) {
        let Target::Symbol(symbol) = target else { return };
        let module = self.places.sources.index.modules[position].module;
        let Some(symbol) = self.places.sources.resolution.symbol_id(module, symbol) else { return };
        if self.is_mapping(symbol) {
            self.taken_mapping = Some(FixedMapping { symbol, by: Some(by) });
            if !matches!(place, (ResolvedPlace::External(_), false)) {
                self.finds_fixed_mapping(symbol, Some(by));
            }
        }
    }

    /// A site calls a function of a library. What calls it by its name the front end has seen; by another name only options make
    /// it known, and the resolver of an indirect function, whose result escapes.
    pub(super) fn calls_external(&mut self, site: u32, symbol: SymbolId) {
        let this = &self.sites[site as usize];
        if (this.indirect || this.number.is_none()) && self.is_mapping(symbol) {
            self.finds_fixed_mapping(symbol, Some(this.caller));
        }
    }

    /// The address of a library's function escaped.
    pub(super) fn external_escapes(&mut self, symbol: SymbolId) {
        if self.is_mapping(symbol) {
            self.finds_fixed_mapping(symbol, None);
        }
    }

    /// What turns value flow off in the link, once all of it is followed.
    pub(super) fn fixed_mapping(&self) -> Option<FixedMapping> {
        self.fixed_mapping.or(self.taken_mapping.filter(|_| self.graph.given_up != GivenUp::Nothing))
    }
}
