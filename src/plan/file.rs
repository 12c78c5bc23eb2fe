//! Plan files (`FILE.ltoplan`): what becomes of the modules of one object or archive, so that it can be emitted elsewhere.
//!
//! A plan file has each module from which something goes, with its summary and its plan, and nothing of other files: it changes only where what
//! becomes of this file does, so that a build system emits again what changed and no more. Equal plans are equal bytes.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use summaries::{ModuleSummary, format};

use super::action::ModulePlan;
use crate::error::{Error, Result, Stage};
use crate::hashing::{hash_of_parts, with_checksum, without_checksum};
use crate::summarize::cache::CacheKey;

const MAGIC: [u8; 8] = *b"LTOPLAN\n";
/// What the name of a plan file has behind that of the input.
pub const SUFFIX: &str = ".ltoplan";

/// A module that is to be emitted by its plan.
#[derive(Debug, Serialize, Deserialize)]
pub struct PlannedModule {
    /// Where it is in the file: the first byte, and the one behind the last.
    place: (u64, u64),
    /// The member's name in its archive.
    pub member: Option<String>,
    /// In the form of [`format`](mod@format), with the hash of the module.
    summary: Vec<u8>,
    plan: ModulePlan,
}

impl PlannedModule {
    /// The module at `range` of its file, by its plan.
    pub fn new(range: &Range<usize>, member: Option<String>, summary: Vec<u8>, plan: &ModulePlan) -> Self {
        PlannedModule { place: (range.start as u64, range.end as u64), member, summary, plan: plan.clone() }
    }

    /// Where it is in the file.
    pub fn range(&self) -> Range<usize> {
        let offset = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
        offset(self.place.0)..offset(self.place.1)
    }

    /// What it was planned by: the hash of its bytes, its summary and its plan.
    ///
    /// # Errors
    /// The plan file is damaged.
    pub fn decoded(&self) -> Result<(format::InputHash, ModuleSummary, &ModulePlan)> {
        let bad = |e: format::FormatError| Error::new(Stage::Emit, format!("a damaged plan: {e}"));
        let (summary, hash) = format::decode(&self.summary).map_err(bad)?;
        let fits = |len: usize, wanted: usize| len == 0 || len == wanted;
        let (atoms, symbols) = (summary.atoms.len(), summary.symbols.len());
        let plan = &self.plan;
        let of_symbols =
            [&plan.prevails_elsewhere, &plan.prevailing_dropped, &plan.pin_visibility, &plan.pin_mention];
        if plan.atoms.len() != atoms
            || !fits(plan.section_names.len(), atoms)
            || !fits(plan.removes_unwind.len(), atoms)
            || of_symbols.iter().any(|of| !fits(of.len(), symbols))
        {
            return Err(Error::new(Stage::Emit, "a damaged plan: it is of another module"));
        }
        Ok((hash, summary, plan))
    }

    /// The key by which its emission is known, see [`key()`].
    pub fn key(&self) -> CacheKey {
        key(&self.summary, &self.plan)
    }
}

/// What the emission of a module by its serialised summary and its plan is known by: equal keys are equal bytes. What emits is part of it.
pub fn key(summary: &[u8], plan: &ModulePlan) -> CacheKey {
    let sources = env!("CRATE_SOURCES").as_bytes();
    hash_of_parts(&[b"emitted", sources, summary, &format::encode_value(plan)])
}

/// The bytes of a plan file.
pub fn encode(modules: &[PlannedModule]) -> Vec<u8> {
    with_checksum(format::encode_file(MAGIC, &modules, &[]))
}

/// The modules of a plan file, in the order of the link.
///
/// # Errors
/// It is none of this version.
pub fn decode(bytes: &[u8]) -> Result<Vec<PlannedModule>> {
    let bad = |e: format::FormatError| Error::new(Stage::Emit, e.to_string());
    let bytes = without_checksum(bytes).ok_or_else(|| Error::new(Stage::Emit, "the plan is damaged"))?;
    format::decode_file(MAGIC, bytes).map(|(modules, _)| modules).map_err(bad)
}
