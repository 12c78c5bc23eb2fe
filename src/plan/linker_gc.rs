//! Links with nothing to do: the linker's own `--gc-sections` removes all dead code.
//!
//! That is so if each function has a section of its own. Then the originals are linked and nothing is rewritten. The analysis is most of
//! the cost of a link with many objects. It is skipped if headers and symbols show that it could remove next to nothing more.
//! [`Index::plain_live`] models lld's collection; an error in it would only keep code. LLVM removes dead bitcode as the plan
//! does. Other linkers are not modelled as closely.

use rayon::prelude::*;
use summaries::native::divisible::{SectionBytes, section_bytes};
use summaries::{Granularity, ModuleKind, ModuleSummary};

use super::action::{Action, Plan};
use crate::config::{Config, DebugOption, Icf, UnwindPruning};
use crate::estimate;
use crate::index::{Index, LinkInputs};
use crate::inputs::{FileKind, Inputs};
use crate::resolve::Resolution;
use crate::summarize::LoadedSummary;

/// Analysis is skipped if at most one of this many loaded bytes is in a section that may be divided. Code that only these bytes refer
/// to is not counted.
const BYTES_FOR_ONE: u64 = 1_000;

/// Whether the link is the plain one and no option asks what is removed from it: then nothing has to be summarised.
pub fn needs_no_analysis(config: &Config, inputs: &Inputs, resolution: &Resolution<'_>) -> bool {
    !wants_plan(config) && removes_nearly_all(config, inputs, resolution)
}

/// Whether the link is the plain one after the estimate: no module is worth dividing, and the linker removes dead sections. Modules
/// with value flow are divided.
pub fn needs_no_index(link: LinkInputs<'_>, modules: &[LoadedSummary]) -> bool {
    let LinkInputs { config, inputs, resolution, .. } = link;
    let is_undivided = |module: &LoadedSummary| {
        let ModuleSummary { kind, granularity, .. } = &module.summary;
        *kind == ModuleKind::Native && *granularity == Granularity::Sections
    };
    !wants_plan(config)
        && is_for_linker(config)
        && config.icf != Icf::Safe
        && inputs.limits.is_empty()
        && resolution.limits.is_empty()
        && modules.iter().all(is_undivided)
}

/// Whether an option asks for the plan of a link that may be left to the linker.
fn wants_plan(config: &Config) -> bool {
    let prune = &config.prune;
    let tables = prune.unwind != UnwindPruning::Keep || prune.debug == DebugOption::Shrink;
    prune.off || prune.strict || prune.plan_dir.is_some() || config.wants_report() || tables
}

/// Whether the linker removes all dead code but 0.1% of a link of sections, or a few bytes of one of bitcode.
fn removes_nearly_all(config: &Config, inputs: &Inputs, resolution: &Resolution<'_>) -> bool {
    if config.icf == Icf::Safe || wants_objects(config) {
        return false;
    }
    if estimate::is_left_to_llvm(config, inputs, resolution) {
        return true;
    }
    if !is_for_linker(config) {
        return false;
    }
    let of_module = |module| {
        let is_native = inputs.modules[module].kind == FileKind::Object;
        is_native.then(|| section_bytes(inputs.module_bytes(module))).flatten()
    };
    let bytes = resolution.loaded.par_iter().map(|module| of_module(*module));
    let sum = bytes.try_reduce(SectionBytes::default, |a, b| Some(a.plus(b)));
    sum.is_some_and(|sum| {
        config.prune.follows_no_values(sum.code) && sum.divisible.saturating_mul(BYTES_FOR_ONE) <= sum.all
    })
}

fn wants_objects(config: &Config) -> bool {
    let prune = &config.prune;
    prune.emit_dir.is_some() || prune.limit.is_some() || prune.limit_log.is_some()
}

/// Whether the linker's garbage collection is modelled, and no option asks for pruned objects.
fn is_for_linker(config: &Config) -> bool {
    config.lld_collects() && !wants_objects(config)
}

/// Pass every module through if the linker removes all that the plan drops, or nearly all. A report changes nothing of the link.
pub(super) fn leave_to_linker(link: LinkInputs<'_>, index: &Index, plan: &mut Plan) {
    let LinkInputs { config, inputs, resolution, summaries, .. } = link;
    if index.removed_unwind.count > 0 {
        return;
    }
    let nearly_all = || wants_plan(config) && removes_nearly_all(config, inputs, resolution);
    if nearly_all() || is_for_linker(config) && removes_all(index, summaries, plan) {
        plan.modules.iter_mut().for_each(|module| module.passed_through = true);
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
        module.passed_through
            || summary.kind == ModuleKind::Native
                && module.addresses.is_none()
                && module.atoms.iter().enumerate().all(removed)
    })
}
