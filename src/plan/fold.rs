//! Identical code folding: objects whose compiler wrote no `.llvm_addrsig` table get one.
//!
//! lld's `--icf=safe` folds equal functions if no object says that their addresses are significant. An object without the table
//! counts as listing all symbols that it names. [`mark_foldable`] computes the table: all symbols but functions whose address
//! nothing in the object takes ([`summaries::native::significance`]), and but undefined functions that it only calls. As
//! with clang, an object that takes an address lists the symbol. Data is always listed.
//!
//! Nothing is marked if folding could be observed otherwise. That is so if an option or script names addresses, or if an object's own table
//! leaves out a function without an FDE, which could then stand for one that exceptions pass. Links with bitcode are excluded too, because lld
//! makes their tables. mold 1.10.1 ignores objects without a table as soon as one has it, so that it is excluded.

use rayon::prelude::*;
use summaries::native::significance::{self, Addresses, Significance};
use summaries::{AtomIdx, Definition, ModuleKind, ModuleSummary, Severity};

use super::action::{Action, Plan};
use crate::config::{Config, Icf, Level, OutputKind};
use crate::index::Index;
use crate::inputs::Inputs;

/// A module with more atoms gets no new `.llvm_addrsig`, because each atom would become a section, with relocations and maybe a group,
/// and `st_shndx` ends at 65,279.
const MAX_ATOMS: usize = 20_000;

/// Fill in [`ModulePlan::addresses`](super::action::ModulePlan::addresses) where there is something to fold.
pub(super) fn mark_foldable(
    config: &Config,
    inputs: &Inputs,
    index: &Index,
    summaries: &[&ModuleSummary],
    plan: &mut Plan,
) {
    let named = !config.defsym.is_empty() || !inputs.scripts.assigned_symbols.is_empty();
    if !config.rules().folds_by_addrsig
        || config.icf != Icf::Safe
        || config.prune.level < Level::Functions
        || config.output_kind == OutputKind::Relocatable
        || config.emit_relocs
        || named
        || summaries.iter().any(|s| s.kind == ModuleKind::Bitcode)
    {
        return;
    }
    let found: Vec<Addresses> = (0..plan.modules.len())
        .into_par_iter()
        .map(|i| {
            let (Some(this), Some(plan), Some(summary)) =
                (index.modules.get(i), plan.modules.get(i), summaries.get(i))
            else {
                return Addresses::Unknown;
            };
            let keeps = |atom: AtomIdx| plan.atoms.get(atom.index()) == Some(&Action::Keep);
            significance::addresses(inputs.module_bytes(this.module), summary, &keeps)
        })
        .collect();
    if found.contains(&Addresses::Own { described: false }) {
        return;
    }
    let is_fixed = |i: usize| {
        let module = index.modules.get(i).map(|m| m.module);
        index.limits.iter().any(|(m, l)| *m == module && l.limit.severity() >= Severity::Module)
    };
    for (i, ((module, found), summary)) in plan.modules.iter_mut().zip(found).zip(summaries).enumerate() {
        let Addresses::Found(found) = found else { continue };
        if module.atoms.len() <= MAX_ATOMS && leaves_out(summary, &found) && !is_fixed(i) {
            module.addresses = Some(found);
            module.passed_through = false;
        }
    }
}

/// Whether a table differs from its absence.
fn leaves_out(summary: &ModuleSummary, found: &Significance) -> bool {
    let calls = |(i, symbol): (usize, &summaries::Symbol)| {
        i > 0 && symbol.definition == Definition::Undefined && found.mentioned.get(i) == Some(&false)
    };
    found.foldable.contains(&true) || summary.symbols.iter().enumerate().any(calls)
}
