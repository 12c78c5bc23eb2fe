//! Bailouts of the analysis of native functions, as limits that name the function.
//!
//! A function is named by the symbol at its start. The severity of a limit says how much code is kept because of it.

use super::module::FlowModule;
use crate::ids::AtomIdx;
use crate::limit::{Limit, LimitRecord};
use crate::summary::{Definition, Symbol, SymbolKind};

impl FlowModule<'_, '_> {
    pub(super) fn give_up(&self, atoms: &[AtomIdx], refusal: &str, limits: &mut Vec<LimitRecord>) {
        self.limit(Limit::NotPsabi, atoms, refusal, limits);
    }

    pub(super) fn limit(
        &self,
        limit: Limit,
        atoms: &[AtomIdx],
        refusal: &str,
        limits: &mut Vec<LimitRecord>,
    ) {
        let sizes = atoms.iter().filter_map(|a| self.atoms.get(a.index()));
        let bytes = sizes.fold(0u64, |sum, a| sum.saturating_add(a.size));
        let Some(first) = atoms.first().and_then(|a| self.atoms.get(a.index())) else { return };
        let at = |s: &&Symbol| {
            matches!(s.definition, Definition::Atom(a) if Some(&a) == atoms.first())
                && s.value == first.offset
                && s.kind != SymbolKind::Section
        };
        let name = self.symbols.iter().find(at).map_or(&[][..], |s| self.tables.name(s.name));
        let detail = format!(
            "function {} in section {}: {refusal}",
            String::from_utf8_lossy(name),
            self.tables.describe(first.section)
        );
        limits.push(LimitRecord { limit, section: Some(first.section), offset: None, bytes, detail });
    }
}
