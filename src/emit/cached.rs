//! The cache of pruned objects. Emission depends only on the module, its summary and its plan, so equal keys mean
//! equal bytes.
//!
//! The key of an object has the key of its summary, the whole plan, and the identity of this executable. An object is
//! cached after it was verified, and verified again when it is used. Modules without a cached summary
//! ([`crate::summarize::cache`]) and small modules, whose summary is in the pack, are not cached.

use std::borrow::Cow;
use std::fs;
use std::os::unix::fs::MetadataExt;

use summaries::format;

use crate::error::Result;
use crate::hashing::hash_of_parts;
use crate::plan::ModulePlan;
use crate::summarize::cache::{CacheKey, LinkCache};

/// The cached object of the module at a load position under this plan.
pub fn get(cached: LinkCache<'_>, position: usize, plan: &ModulePlan) -> Option<Vec<u8>> {
    cached.cache?.read(&key(cached, position, plan)?)
}

/// Remove the cached object of the module at a load position.
pub fn forget(cached: LinkCache<'_>, position: usize, plan: &ModulePlan) {
    if let (Some(cache), Some(key)) = (cached.cache, key(cached, position, plan)) {
        cache.forget(&key);
    }
}

/// Cache the object of the module at a load position, unless it is unmodified. `object` reads it.
///
/// # Errors
/// The object can't be read.
pub fn put<'s>(
    cached: LinkCache<'_>,
    position: usize,
    plan: &ModulePlan,
    object: &dyn Fn() -> Result<Option<Cow<'s, [u8]>>>,
) -> Result<()> {
    if let (Some(cache), Some(key)) = (cached.cache, key(cached, position, plan))
        && let Some(object) = object()?
    {
        cache.write(&key, &object);
    }
    Ok(())
}

fn key(cached: LinkCache<'_>, position: usize, plan: &ModulePlan) -> Option<CacheKey> {
    let summary = cached.keys.get(position)?.as_ref().filter(|key| !key.is_packed)?;
    Some(hash_of_parts(&[&summary.key, &executable()?, &format::encode_value(plan)]))
}

/// The identity of this executable, as other sources may make other objects; `None` if it is unknown.
fn executable() -> Option<[u8; 40]> {
    let meta = fs::metadata("/proc/self/exe").ok()?;
    let numbers = [meta.dev(), meta.ino(), meta.size(), meta.ctime() as u64, meta.ctime_nsec() as u64];
    numbers.map(u64::to_le_bytes).concat().try_into().ok()
}
