//! The plan of a module of bitcode, by global value.
//!
//! A definition has the fate of its atom, and an alias that of its aliasee. A declaration is dropped if its
//! definition is dropped elsewhere, so that the linker looks for no definition. The numbering that made the summary
//! ties value ids to atoms ([`summaries::bitcode::numbering`]). [`obstacle`] says before whether the plan can be
//! applied.

use summaries::bitcode::symbols::{self, ValueAt};
use summaries::bitcode::{Numbering, numbering};
use summaries::{AtomIdx, ModuleSummary};

use super::error::{RewriteError, ValueFate};
use super::rewrite;
use super::survey::Survey;
use crate::error::{Error, Result, Stage};
use crate::plan::{self, ModulePlan};

/// The bytes of a module of bitcode with its plan applied.
///
/// # Errors
/// The plan has an [`obstacle`], or a kept value refers to a dropped one.
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

/// Call `check` with the fates of a module's values.
///
/// # Errors
/// The bitcode can't be rewritten, or `check` fails.
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

/// The reason why the plan can't be applied to a module of bitcode.
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

/// The fates of a module's values.
struct ValueFates<'s> {
    survey: &'s Survey<'s>,
    numbering: Numbering,
    plan: &'s ModulePlan,
}

impl<'s> ValueFates<'s> {
    fn new(survey: &'s Survey<'s>, summary: &ModuleSummary, plan: &'s ModulePlan) -> Self {
        ValueFates { survey, numbering: numbering(survey.file(), summary.granularity), plan }
    }

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
                // An alias of a stub leads to the stub.
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
