//! Unwind entries of no bytes, behind mold: they go from every module of a link in which any module is rewritten.
//!
//! A section without bytes (a basic block that ends in unreachable code, a function of nothing else) starts where the next one does, and
//! each may have an FDE. lld, wild, gold and GNU ld have one order for the two in `.eh_frame_hdr`, or leave one out; mold sorts them in an order
//! that depends on how many entries there are (1.10.1), and libgcc's search ends at the later one. So a program from which
//! other code went may fail to unwind through a function through which the plain one unwinds. Without the empty entries there is no choice.
//! Safe because an FDE of no bytes covers no place of code. Left out: modules that are kept whole because they are not understood.

use rayon::prelude::*;
use summaries::native::eh_frame;
use summaries::{ModuleKind, ModuleSummary, Severity};

use super::action::Plan;
use crate::config::{Config, Dialect, OutputKind};
use crate::index::Index;
use crate::inputs::Inputs;

/// Say of each module whether its empty FDEs go: [`ModulePlan::drops_empty_fdes`](super::action::ModulePlan::drops_empty_fdes).
pub(super) fn leave_out(
    config: &Config,
    inputs: &Inputs,
    index: &Index,
    summaries: &[&ModuleSummary],
    plan: &mut Plan,
) {
    if config.linker.dialect != Dialect::Mold
        || config.output_kind == OutputKind::Relocatable
        || plan.modules.iter().all(|module| module.untouched)
    {
        return;
    }
    let modules = plan.modules.par_iter_mut().zip(&index.modules).zip(summaries);
    modules.filter(|(_, summary)| summary.kind == ModuleKind::Native).for_each(|((module, this), _)| {
        module.drops_empty_fdes = true;
        let is_fixed = index
            .limits
            .iter()
            .any(|(m, l)| *m == Some(this.module) && l.limit.severity() >= Severity::Module);
        if module.untouched && !is_fixed && eh_frame::may_have_empty_fdes(inputs.module_bytes(this.module)) {
            module.untouched = false;
        }
    });
}
