//! Precomputed pruned objects, which a build action made before the link: an object, or an archive of objects. Each
//! object has its key behind its end.
//!
//! Readers of objects ignore bytes behind the end, so any tool can show these files. A key covers the module, its
//! summary and its plan. An object with the right key is verified like one that was just emitted.

use std::io;
use std::path::Path;

use rayon::prelude::*;
use rustc_hash::FxHashMap;
use summaries::{ModuleSummary, format};

use crate::config::Config;
use crate::hashing::{hash, with_checksum, without_checksum};
use crate::ids::ModuleId;
use crate::inputs::{Inputs, archive, interface, mapped::MappedFile};
use crate::plan::{ModulePlan, Plan, file as plan_file};
use crate::precomputed;
use crate::resolve::Resolution;
use crate::summarize::cache::CacheKey;

/// The last bytes of a precomputed object.
const MARK: [u8; 8] = *b"LTOPRUNE";

/// A pruned object with its key behind its end, and their checksum.
pub fn with_key(mut object: Vec<u8>, key: &CacheKey) -> Vec<u8> {
    object.extend_from_slice(key);
    let mut object = with_checksum(object);
    object.extend_from_slice(&MARK);
    object
}

/// The key and the object, if there is a key.
fn split_key(bytes: &[u8]) -> Option<(CacheKey, &[u8])> {
    let (object, key) = without_checksum(bytes.strip_suffix(&MARK)?)?.split_last_chunk::<32>()?;
    Some((*key, object))
}

/// The precomputed objects of a link.
#[derive(Debug)]
pub struct EmittedAhead {
    objects: FxHashMap<CacheKey, Vec<u8>>,
}

impl EmittedAhead {
    /// Read the precomputed objects of modified modules; `None` if the link has no option for them. Unreadable files
    /// are ignored.
    pub fn of_link(
        config: &Config,
        inputs: &Inputs,
        resolution: &Resolution<'_>,
        plan: &Plan,
    ) -> Option<Self> {
        let dir = config.prune.emitted_dir.as_ref()?;
        let touched = resolution.loaded.iter().zip(&plan.modules).filter(|(_, plan)| !plan.passed_through);
        let mut files: Vec<_> = touched.map(|(module, _)| inputs.modules[*module].file).collect();
        files.sort_unstable();
        files.dedup();
        let of_file = |file| {
            let Ok(bytes) = open(dir, &inputs.files[file].path) else { return Vec::new() };
            let members = archive::parse(&bytes).map(|archive| archive.members);
            let Ok(members) = members else { return split_key(&bytes).map(owned).into_iter().collect() };
            let objects = members.iter().filter_map(|member| split_key(bytes.get(member.data.clone())?));
            objects.map(owned).collect()
        };
        let owned_objects: Vec<Vec<(CacheKey, Vec<u8>)>> = files.into_par_iter().map(of_file).collect();
        Some(EmittedAhead { objects: owned_objects.into_iter().flatten().collect() })
    }

    /// The precomputed object of this module and plan.
    pub fn get(
        &self,
        inputs: &Inputs,
        module: ModuleId,
        summary: &ModuleSummary,
        plan: &ModulePlan,
    ) -> Option<Vec<u8>> {
        let summary = format::encode(summary, hash(inputs.module_bytes(module)));
        self.objects.get(&plan_file::key(&summary, plan)).cloned()
    }
}

/// Open the precomputed file of `input` in `dir`.
///
/// # Errors
/// It can't be read, or it is not trusted.
pub fn open(dir: &Path, input: &Path) -> io::Result<MappedFile> {
    precomputed::open(&interface::path_of(dir, input, ""), Some(input))
}

fn owned((key, object): (CacheKey, &[u8])) -> (CacheKey, Vec<u8>) {
    (key, object.to_vec())
}
