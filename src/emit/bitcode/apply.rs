//! A plan applied to a module of bitcode: what is done with each of its global values.
//!
//! A definition fares as its atom does, an alias as what it leads to. A declaration of what is dropped elsewhere goes too: it would ask the linker
//! for a definition that nobody needs. Safe because value ids are tied to atoms by the very walk that made the summary
//! ([`summaries::bitcode::numbering`]). Left out: whether the plan can be applied is asked before ([`obstacle`]).

use summaries::bitcode::symbols::{self, ValueAt};
use summaries::bitcode::{Numbering, numbering};
use summaries::{AtomIdx, ModuleSummary};

use super::error::RewriteError;
use super::fate::ValueFate;
use super::rewrite;
use super::survey::Survey;
use crate::error::{Error, Result, Stage};
use crate::plan::{self, ModulePlan};

/// The bytes of a module of bitcode with its plan applied.
///
/// # Errors
/// What [`obstacle`] says, and what is kept and refers to what is dropped.
pub fn apply(original: &[u8], summary: &ModuleSummary, plan: &ModulePlan) -> Result<Vec<u8>> {
    let survey = Survey::new(original).map_err(|e| Error::new(Stage::Emit, e.to_string()))?;
    let fates = ValueFates::new(&survey, summary, plan);
    rewrite(&survey, &|at| fates.of(at), plan.same_source).map_err(|e| {
        let error = Error::new(Stage::Emit, e.to_string());
        match e {
            RewriteError::Value { at, .. } | RewriteError::Refers { from: at, .. } => {
                error.at_symbol(name(&survey, at))
            }
            RewriteError::Malformed(_) | RewriteError::Unsupported(_) => error,
        }
    })
}

/// The name of a value, for people.
fn name(survey: &Survey<'_>, at: ValueAt) -> String {
    let module = survey.file().modules.get(at.module as usize);
    let value = module.and_then(|m| m.values.get(at.value as usize));
    String::from_utf8_lossy(value.map_or(&[][..], |v| v.name)).into_owned()
}

/// Call `ask` with the fate of each value of a module of bitcode by a plan, which is what verification expects.
///
/// # Errors
/// What is asked, and bitcode that can't be rewritten.
pub fn with_fates<T>(
    original: &[u8],
    summary: &ModuleSummary,
    plan: &ModulePlan,
    ask: impl Fn(&dyn Fn(ValueAt) -> ValueFate) -> Result<T>,
) -> Result<T> {
    let survey = Survey::new(original).map_err(|e| Error::new(Stage::Emit, e.to_string()))?;
    let fates = ValueFates::new(&survey, summary, plan);
    ask(&|at| fates.of(at))
}

/// Why the plan can't be applied to a module of bitcode, if so.
pub fn obstacle(original: &[u8], summary: &ModuleSummary, plan: &ModulePlan) -> Option<String> {
    let survey = match Survey::new(original) {
        Ok(survey) => survey,
        Err(error) => return Some(error.to_string()),
    };
    let fates = ValueFates::new(&survey, summary, plan);
    for (m, module) in survey.file().modules.iter().enumerate() {
        for v in 0..module.values.len() {
            let at = ValueAt { module: m as u32, value: v as u32 };
            if let Some(why) = survey.forbids(at, fates.of(at)) {
                return Some(format!("{} can't be changed: {why}", name(&survey, at)));
            }
        }
    }
    None
}

/// What is done with each value of the module, by the plan.
struct ValueFates<'s> {
    survey: &'s Survey<'s>,
    numbering: Numbering,
    plan: &'s ModulePlan,
}

impl<'s> ValueFates<'s> {
    fn new(survey: &'s Survey<'s>, summary: &ModuleSummary, plan: &'s ModulePlan) -> Self {
        ValueFates { survey, numbering: numbering(survey.file(), summary.granularity), plan }
    }

    /// What is done with a value.
    fn of(&self, at: ValueAt) -> ValueFate {
        let Some(module) = self.survey.file().modules.get(at.module as usize) else { return ValueFate::Keep };
        let base = symbols::base_object(module, at.value);
        let number = |table: &[Vec<Option<AtomIdx>>], value: u32| {
            table.get(at.module as usize).and_then(|t| t.get(value as usize).copied()).flatten()
        };
        let atom = base.and_then(|base| number(&self.numbering.atoms, base));
        if let Some(atom) = atom {
            return match self.plan.atoms.get(atom.index()) {
                Some(plan::Action::Drop) => ValueFate::Drop,
                // A name of a stub leads to the stub.
                Some(plan::Action::Stub) if base == Some(at.value) => ValueFate::Stub,
                _ => ValueFate::Keep,
            };
        }
        let symbols = self.numbering.symbols.get(at.module as usize);
        let symbol = symbols.and_then(|s| s.get(at.value as usize).copied()).flatten();
        let gone =
            symbol.is_some_and(|s| self.plan.symbol(s.index()).has(plan::SymbolFlags::DEFINITION_DROPPED));
        if gone { ValueFate::Drop } else { ValueFate::Keep }
    }
}
