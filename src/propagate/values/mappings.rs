//! Detection of functions that map memory at a chosen address (`summaries::maps_memory`), which turns value flow off.
//!
//! Such memory makes addresses of integers. The front ends check direct calls by name, and code and data that is not analysed. This
//! module checks analysed code that has the function's address. The address is an element like any other. Value flow is off for the
//! link if the address is called through a pointer or escapes. It is also off if the address is that of another definition, if an
//! option renames the function, or if the budget was exceeded. Not covered: functions found by `dlsym`, and external code that
//! calls such a function.

use summaries::Target;

use super::budget::GivenUp;
use super::flow::Flow;
use super::places::ResolvedPlace;
use crate::ids::{AtomId, SymbolId};

/// A call that may map memory at an address that the program chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FixedMapping {
    /// The library function that maps memory at a chosen address.
    pub symbol: SymbolId,
    /// The code that calls it or takes its address; `None` if its address escaped or an option renames it.
    pub by: Option<AtomId>,
}

impl Flow<'_> {
    fn is_mapping(&self, symbol: SymbolId) -> bool {
        summaries::maps_memory(self.places.sources.resolution.symbols[symbol].name)
    }

    fn finds_fixed_mapping(&mut self, symbol: SymbolId, by: Option<AtomId>) {
        self.fixed_mapping.get_or_insert(FixedMapping { symbol, by });
    }

    /// Find functions renamed by `--wrap` and `--defsym`, which the front ends cannot recognise.
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

    /// Record that code takes the address of `target`.
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

    /// A site calls a function of a library. The front end checked direct calls by name. A call by another name needs an option, or
    /// the resolver of an indirect function, whose result escapes.
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

    /// The mapping that turns value flow off, known at the fixpoint.
    pub(super) fn fixed_mapping(&self) -> Option<FixedMapping> {
        self.fixed_mapping.or(self.taken_mapping.filter(|_| self.graph.given_up != GivenUp::Nothing))
    }
}
