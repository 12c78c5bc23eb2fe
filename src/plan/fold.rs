//! Which code the linker may fold: objects whose compiler wrote no `.llvm_addrsig` get one.
//!
//! `--icf=safe` of lld gives functions of the same bytes and relocations one address if no object of the link says that
//! their addresses matter. An object without the table says it of every symbol that it has, also of those that it only
//! calls. [`mark_foldable`] says what such an object's own table would: all symbols but functions whose address nothing in it
//! forms ([`summaries::native::significance`]), and but undefined ones that it only calls. Safe because each object
//! speaks for itself, as with clang's: who forms an address lists the symbol, wherever it is defined, and an object that is
//! passed on without a table lists all. Dynamic symbols and code with an exception table are the linker's own care.
//!
//! Nothing is marked where something else could tell two functions apart: where a line or a script gives names to
//! addresses, and where an object with a table of its own leaves out a function without an FDE, which could stand for one
//! through which exceptions pass. Nor beside bitcode, whose objects the linker makes itself, with tables that we don't see. Left out: mold, which with a table looks at none of the other objects (1.10.1 folds
//! functions that are compared); data, all of which is listed.

use rayon::prelude::*;
use summaries::native::significance::{self, Addresses, Significance};
use summaries::{AtomIdx, Definition, ModuleKind, ModuleSummary, Severity};

use super::action::{Action, Plan};
use crate::config::{Config, Dialect, Icf, Level, OutputKind};
use crate::index::Index;
use crate::inputs::Inputs;

/// A module of more atoms keeps its addresses: each becomes a section, with one for its relocations and maybe a
/// group, and `st_shndx` ends at 65,279.
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
    if config.linker.dialect != Dialect::Lld
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
            module.untouched = false;
        }
    }
}

/// Whether a table says anything that its absence does not.
fn leaves_out(summary: &ModuleSummary, found: &Significance) -> bool {
    let calls = |(i, symbol): (usize, &summaries::Symbol)| {
        i > 0 && symbol.definition == Definition::Undefined && found.mentioned.get(i) == Some(&false)
    };
    found.foldable.contains(&true) || summary.symbols.iter().enumerate().any(calls)
}
