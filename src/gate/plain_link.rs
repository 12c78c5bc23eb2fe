//! A model of the plain link: the undefined symbol that it reports, and the libraries that it records.
//!
//! With `--gc-sections` the linker sees what lives by its own rules, which count sections of the input
//! ([`Index::plain_live`]), not our atoms. Left out: what it exports ([`PlainOutput`](super::output::PlainOutput)).

use summaries::Visibility;

use crate::config::{Config, Dialect};
use crate::ids::{DsoId, Id, SymbolId};
use crate::index::{Index, LinkInputs};
use crate::propagate::Liveness;
use crate::resolve::{DsoState, GlobalSymbol, Prevailing};

/// What the plain link does that pruning must not change.
#[derive(Debug, Default)]
pub struct PlainLink {
    /// An undefined symbol that the plain linker reports.
    pub undefined: Option<SymbolId>,
    /// By DSO: the plain link refers to it, so that `--as-needed` keeps it.
    pub needed: Vec<bool>,
}

impl PlainLink {
    /// Ask what the plain link sees: everything, or with `--gc-sections` what is live by its rules.
    pub fn new(link: LinkInputs<'_>, index: &Index, ours: &Liveness) -> Self {
        let LinkInputs { config, resolution, summaries, .. } = link;
        let mut plain = PlainLink {
            undefined: None,
            needed: resolution.dsos.iter().map(|d| needed_anyway(config, d)).collect(),
        };
        for &(from, symbol) in &index.external {
            // Only what just dropped atoms refer to depends on the linker's own rules.
            let is_seen =
                || ours.is_live(from) || !config.gc_sections || index.plain_live(summaries)[from.index()];
            let GlobalSymbol { name, prevailing, visibility, .. } = resolution.symbols[symbol];
            // The linker relaxes calls of it away where it links no loader, and then doesn't miss it.
            if name == b"__tls_get_addr" {
                if is_seen() {
                    plain.needed_by(prevailing);
                }
                continue;
            }
            // What is hidden can't come from elsewhere later: an error in a shared library too.
            let is_reported = config.undefined_is_reported || visibility != Visibility::Default;
            let is_undefined = match prevailing {
                Prevailing::Undefined { weak } => !weak,
                Prevailing::Linker => !has_section(link, index, symbol),
                Prevailing::Dso(_) | Prevailing::Module { .. } => false,
            };
            if is_seen() {
                plain.needed_by(prevailing);
                if is_undefined && is_reported {
                    plain.undefined.get_or_insert(symbol);
                }
            }
        }
        plain
    }

    fn needed_by(&mut self, prevailing: Prevailing) {
        if let Prevailing::Dso(dso) = prevailing {
            self.needed[dso.index()] = true;
        }
    }

    /// Whether the plain link records this DSO although it is `--as-needed`.
    pub fn needs(&self, dso: DsoId) -> bool {
        self.needed[dso.index()]
    }
}

/// Whether the plain link has a section that this `__start_X` or `__stop_X` means.
fn has_section(link: LinkInputs<'_>, index: &Index, symbol: SymbolId) -> bool {
    let LinkInputs { config, summaries, .. } = link;
    let start = index.start_stop.partition_point(|(id, _)| *id < symbol);
    let mut sections = index.start_stop.iter().skip(start).take_while(|(id, _)| *id == symbol);
    sections.any(|(_, atom)| !config.gc_sections || index.plain_live(summaries)[atom.index()])
}

/// Whether the plain link records the DSO, whatever is live: GNU ld, mold and wild do so the moment that they take one.
fn needed_anyway(config: &Config, dso: &DsoState) -> bool {
    match config.linker.dialect {
        Dialect::Bfd | Dialect::Mold | Dialect::Wild => dso.taken,
        _ => dso.referenced && !lazy_needed(config),
    }
}

/// lld with `--gc-sections` records a DSO only for references of live sections; all others count symbol tables.
fn lazy_needed(config: &Config) -> bool {
    config.gc_sections && config.linker.dialect == Dialect::Lld
}
