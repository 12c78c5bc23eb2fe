//! Limits with their modules: which of them forbid pruning, and which the user sees.

use summaries::{Limit, LimitRecord, Severity};

use crate::ids::ModuleId;
use crate::inputs::Inputs;
use crate::summarize::LoadedSummary;

/// A limit with the module that it concerns.
pub type PlacedLimit = (Option<ModuleId>, LimitRecord);

/// Whether any of these limits forbids pruning for the whole link.
pub fn forbids(limits: &[PlacedLimit]) -> bool {
    limits.iter().any(|(_, l)| l.limit.severity() == Severity::Link)
}

/// Whether a limit is a failure of the analysis on this input, or a plain fact about the link. The user sees failures, and
/// `--prune-strict` makes them errors.
pub fn is_failure(limit: Limit) -> bool {
    !matches!(
        limit,
        Limit::LinkError
            | Limit::DebugInfo
            | Limit::LinkerMessage
            | Limit::StartStopSection
            | Limit::NamedPart
            | Limit::RelocatableOutput
            | Limit::AmbiguousResolution
            | Limit::NoEntry
            | Limit::Bitcode
            | Limit::OpaqueBitcode
            | Limit::BitcodeLibrary
            | Limit::LibraryNotRecorded
            | Limit::ScriptWithoutGc
            | Limit::ScriptFilePattern
            | Limit::NotWorth
    )
}

/// Whether one of these modules has a failure that [`warning`] prints.
pub fn have_failure(modules: &[LoadedSummary]) -> bool {
    let mut limits = modules.iter().flat_map(|module| &module.summary.limits).map(|record| record.limit);
    limits.any(|limit| limit.severity() >= Severity::Module && is_failure(limit))
}

/// The warning for the most severe failure, if there is one; the first of several equal ones.
pub fn warning(inputs: &Inputs, limits: &[PlacedLimit]) -> Option<String> {
    let of_severity = |severity: Severity| {
        let failure = move |(_, l): &&PlacedLimit| l.limit.severity() == severity && is_failure(l.limit);
        limits.iter().find(failure)
    };
    let whole_link = of_severity(Severity::Link);
    let (module, record) = whole_link.or_else(|| of_severity(Severity::Module))?;
    let consequence = if whole_link.is_some() { "nothing is pruned" } else { "the module is kept whole" };
    Some(format!("{}; {consequence}", sentence(inputs, *module, record)))
}

/// The message for a limit, with its module and place.
pub fn sentence(inputs: &Inputs, module: Option<ModuleId>, record: &LimitRecord) -> String {
    let place = module.map(|m| format!("{}: ", inputs.module_name(m))).unwrap_or_default();
    format!("{place}{} ({})", record.detail, record.limit.name())
}
