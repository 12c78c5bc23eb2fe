//! Links in which there is nothing to do: all that goes is what the linker's own `--gc-sections` removes.
//!
//! Objects whose functions have sections of their own are like that. Then the originals are linked: nothing is rewritten, nothing can be
//! wrong, and the link costs the analysis and no more. Which sections the linker removes is a model of lld's ([`Index::plain_live`]);
//! were it wrong, code would stay that we could drop, and nothing else. Left out: other linkers, whose collection is not modelled as closely;
//! links in which only some modules have more to drop, where archives of originals would be as much to write as pruned ones.

use summaries::{ModuleKind, ModuleSummary};

use super::action::{Action, Plan};
use crate::config::{Config, Dialect};
use crate::index::Index;

/// Pass every module to the linker as it is if it removes by itself all that the plan drops.
pub(super) fn leave_to_linker(config: &Config, index: &Index, summaries: &[&ModuleSummary], plan: &mut Plan) {
    let prune = &config.prune;
    let wants_objects = prune.emit_dir.is_some() || prune.limit.is_some() || prune.log.is_some();
    if config.gc_sections
        && config.linker.dialect == Dialect::Lld
        && !wants_objects
        && removes_all(index, summaries, plan)
    {
        plan.modules.iter_mut().for_each(|module| module.untouched = true);
    }
}

fn removes_all(index: &Index, summaries: &[&ModuleSummary], plan: &Plan) -> bool {
    let kept_by_linker = index.plain_live(summaries);
    let mut modules = plan.modules.iter().zip(&index.modules).zip(summaries);
    modules.all(|((module, indexed), summary)| {
        let removed = |(i, action): (usize, &Action)| match action {
            Action::Keep => true,
            Action::Drop => !kept_by_linker[indexed.first_atom as usize + i],
            Action::Stub => false,
        };
        module.is_untouched()
            || summary.kind == ModuleKind::Native
                && module.addresses.is_none()
                && module.atoms.iter().enumerate().all(removed)
    })
}
