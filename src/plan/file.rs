//! Plan files (`FILE.ltoplan`): the plans for the modules of one object or archive, so that it can be emitted elsewhere.
//!
//! A plan file has each modified module, with its summary and plan, and nothing of other files. So a build system emits
//! only files whose own plans changed. Equal plans are equal bytes.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use summaries::{ModuleSummary, format};

use super::action::ModulePlan;
use crate::error::{Error, Result, Stage};
use crate::hashing::{hash_of_parts, with_checksum, without_checksum};
use crate::summarize::cache::CacheKey;

const MAGIC: [u8; 8] = *b"LTOPLAN\n";
/// The suffix that makes a plan file's name of its input's.
pub const SUFFIX: &str = ".ltoplan";

/// A module with the plan for its emission.
#[derive(Debug, Serialize, Deserialize)]
pub struct PlannedModule {
    /// Its range in the file: the first byte, and the end.
    place: (u64, u64),
    /// The member's name in its archive.
    pub member: Option<String>,
    /// In the format of [`format`](mod@format), with the hash of the module.
    summary: Vec<u8>,
    plan: ModulePlan,
}

impl PlannedModule {
    /// The module at `range` of its file, by its plan.
    pub fn new(range: &Range<usize>, member: Option<String>, summary: Vec<u8>, plan: &ModulePlan) -> Self {
        PlannedModule { place: (range.start as u64, range.end as u64), member, summary, plan: plan.clone() }
    }

    /// The range of the module in its file.
    pub fn range(&self) -> Range<usize> {
        let offset = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
        offset(self.place.0)..offset(self.place.1)
    }

    /// The basis of its plan: the hash of its bytes, its summary, and the plan.
    ///
    /// # Errors
    /// The plan file is damaged.
    pub fn decoded(&self) -> Result<(format::InputHash, ModuleSummary, &ModulePlan)> {
        let bad = |e: format::FormatError| Error::new(Stage::Emit, format!("a damaged plan: {e}"));
        let (summary, hash) = format::decode(&self.summary).map_err(bad)?;
        let fits = |len: usize, wanted: usize| len == 0 || len == wanted;
        let (atoms, symbols) = (summary.atoms.len(), summary.symbols.len());
        let plan = &self.plan;
        if plan.atoms.len() != atoms
            || !fits(plan.section_names.len(), atoms)
            || !fits(plan.removes_unwind.len(), atoms)
            || !fits(plan.symbols.len(), symbols)
        {
            return Err(Error::new(Stage::Emit, "a damaged plan: it is of another module"));
        }
        Ok((hash, summary, plan))
    }

    /// The cache key of its emission, see [`key()`].
    pub fn key(&self) -> CacheKey {
        key(&self.summary, &self.plan)
    }
}

/// The cache key of a module's emission by its serialised summary and plan: equal keys are equal bytes. The emitter's sources are part of it.
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
/// The file is damaged, or of another version.
pub fn decode(bytes: &[u8]) -> Result<Vec<PlannedModule>> {
    let bad = |e: format::FormatError| Error::new(Stage::Emit, e.to_string());
    let bytes = without_checksum(bytes).ok_or_else(|| Error::new(Stage::Emit, "the plan is damaged"))?;
    format::decode_file(MAGIC, bytes).map(|(modules, _)| modules).map_err(bad)
}
