//! Pruned objects of earlier links: emission is a function of the module, its summary and its plan, so that equal keys mean equal bytes.
//!
//! The key of an object is made of the key of its summary, of its whole plan and of this executable. An entry is written after
//! the object was verified, and what comes from the cache is verified like what was emitted just now. Left out: modules whose summary was
//! not asked for in the cache ([`crate::summarize::cache`]), and those whose summary is in the pack, because they are small.

use std::borrow::Cow;
use std::fs;
use std::os::unix::fs::MetadataExt;

use summaries::format;

use crate::error::Result;
use crate::hashing::hash_of_parts;
use crate::plan::ModulePlan;
use crate::summarize::cache::{CacheKey, LinkCache};

/// What this plan made of the module at a load position in an earlier link.
pub fn get(cached: LinkCache<'_>, position: usize, plan: &ModulePlan) -> Option<Vec<u8>> {
    cached.cache?.read(&key(cached, position, plan)?)
}

/// Forget what an earlier link made of the module at a load position: it is not what this plan asks for.
pub fn forget(cached: LinkCache<'_>, position: usize, plan: &ModulePlan) {
    if let (Some(cache), Some(key)) = (cached.cache, key(cached, position, plan)) {
        cache.forget(&key);
    }
}

/// Keep what this plan made of the module at a load position: what `object` reads, if it is touched at all.
///
/// # Errors
/// What was made can't be read.
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

/// Which file this executable is, and when it came there: other sources make other objects. `None` where that can't be told.
fn executable() -> Option<[u8; 40]> {
    let meta = fs::metadata("/proc/self/exe").ok()?;
    let numbers = [meta.dev(), meta.ino(), meta.size(), meta.ctime() as u64, meta.ctime_nsec() as u64];
    numbers.map(u64::to_le_bytes).concat().try_into().ok()
}
