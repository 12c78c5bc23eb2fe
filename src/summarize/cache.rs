//! The cache of summaries and pruned objects: a folder of files that are named by the hash of their inputs.
//!
//! The key of a summary covers the module's bytes, the live atoms if only those are read, the options, the sources of the crate that
//! makes it (the schema version), and the version of lto-prune. That of an object covers the key of its summary, its plan and this
//! executable. So an entry is never stale. An entry ends with its own hash: damaged ones are ignored and replaced. Entries appear by
//! rename, so that concurrent links see only whole ones. No error of the cache is an error of the link. It is written only after
//! the inputs were found unchanged. A folder of another user, or one that others may write to, is not used.
//!
//! Modules are found by bytes, not by path and time, because a file that is written twice within a tick keeps its time; hashing costs little next to
//! dividing. Modules that are read as fast as an entry are not cached (`pays`).

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use rayon::prelude::*;
use summaries::format::{self, InputHash, SCHEMA_VERSION};
use summaries::{Granularity, Limit, LimitRecord, ModuleSummary, SummaryOptions, bitcode, native};

use crate::config::Config;
use crate::hashing::{hash, hash_of_parts, hex, without_checksum};
use crate::inputs::Inputs;
use crate::inputs::mapped::MappedFile;
use crate::precomputed;
use crate::summarize::pack::{Pack, Packed};

/// The prefix of files that are not entries yet.
const TEMPORARY: &str = ".lto-prune-new-";
/// The default size limit of the cache, in bytes.
pub const DEFAULT_LIMIT: u64 = 1 << 30;

/// A used entry gets a new time at most this often, because that is a write.
const TOUCH_INTERVAL: Duration = Duration::from_secs(60 * 60);
/// The folder is trimmed at most this often, unless one process alone fills an eighth of it.
const TRIM_INTERVAL: Duration = Duration::from_secs(10 * 60);
/// A section of code of so many bytes takes longer to divide than an entry takes to find and to read.
const LARGE_SECTION: u64 = 8 << 10;
/// A section of code of so many bytes takes longer to divide than a summary in the pack of the link takes to read.
const PACKED_SECTION: u64 = 1 << 10;
/// LLVM bitcode of so many bytes takes longer to read than an entry takes to find and to read.
const LARGE_BITCODE: usize = 8 << 10;
/// Name of the file whose time is that of the last trim.
const STAMP: &str = "trimmed";

/// The name of an entry: a hash of its inputs.
pub type CacheKey = [u8; 32];

/// The place of a module's summary in the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModuleKey {
    pub key: CacheKey,
    /// It was not found in the cache.
    pub is_new: bool,
    /// It is in the pack of the link, and has no entry of its own.
    pub is_packed: bool,
}

/// The cache of a link, and the keys of its modules' summaries.
#[derive(Debug, Clone, Copy, Default)]
pub struct LinkCache<'c> {
    pub cache: Option<&'c Cache>,
    pub pack: Option<&'c Pack>,
    /// The elements are in load order; `None` for modules that are not looked up.
    pub keys: &'c [Option<ModuleKey>],
}

impl LinkCache<'_> {
    /// The cache for writing; without one if an input changed since it was hashed.
    pub fn if_unchanged(self, inputs: &Inputs) -> Self {
        LinkCache { cache: self.cache.filter(|_| inputs.changed_file().is_none()), ..self }
    }

    /// Store the new ones of these summaries, which are in load order. No link needs to wait for it.
    pub fn put_new(&self, summaries: &[&ModuleSummary]) {
        let Some(cache) = self.cache else { return };
        let summaries: Vec<Cow<'_, ModuleSummary>> =
            summaries.iter().map(|of| without_decisions(of)).collect();
        self.keys.par_iter().zip(&summaries).for_each(|(key, summary)| {
            if let Some(ModuleKey { key, is_new: true, is_packed: false }) = key {
                cache.put(key, summary);
            }
        });
        if let Some(pack) = self.pack {
            let packed = self.keys.iter().zip(&summaries).filter_map(|(key, summary)| match key {
                Some(ModuleKey { key, is_new, is_packed: true }) if *is_new => {
                    Some(Packed::New(*key, summary))
                }
                Some(ModuleKey { key, is_packed: true, .. }) => Some(Packed::Found(*key)),
                _ => None,
            });
            pack.put(cache, &packed.collect::<Vec<_>>());
        }
        cache.trim_when_due();
    }

    /// The key of a module with these bytes, and its summary if an earlier link made one. `None` if the module is not looked up.
    pub fn find(&self, bytes: &[u8], options: SummaryOptions) -> Option<(ModuleKey, Option<ModuleSummary>)> {
        let cache = self.cache?;
        let is_packed = !pays(bytes);
        let pack = self.pack.filter(|_| is_packed && pays_in_pack(bytes));
        if is_packed && pack.is_none() {
            return None;
        }
        let key = key(&hash(bytes), options);
        let found = pack.map_or_else(|| cache.get(&key), |pack| pack.get(&key));
        Some((ModuleKey { key, is_new: found.is_none(), is_packed }, found))
    }
}

/// A summary as the front end made it. The estimate adds a limit to modules that are not worth decoding, which holds only in that link.
fn without_decisions(summary: &ModuleSummary) -> Cow<'_, ModuleSummary> {
    let is_of_link = |record: &LimitRecord| record.limit == Limit::NotWorth;
    if !summary.limits.iter().any(is_of_link) {
        return Cow::Borrowed(summary);
    }
    let mut own = summary.clone();
    own.limits.retain(|record| !is_of_link(record));
    Cow::Owned(own)
}

/// The hash of an input of which only some atoms are live.
pub(super) fn hash_of_part(input: &InputHash, live: &[bool]) -> InputHash {
    hash_of_parts(&[input, &live.iter().map(|live| u8::from(*live)).collect::<Vec<_>>()])
}

/// Whether a module is looked up: LLVM bitcode, whose bodies have to be read, and objects with most of their code in one section. Objects
/// with a section for each function are summarised in the time that hashing takes.
pub(super) fn pays(bytes: &[u8]) -> bool {
    if bitcode::is_bitcode(bytes) {
        return bytes.len() >= LARGE_BITCODE;
    }
    let sizes = native::code_section_sizes(bytes);
    let largest = sizes.iter().copied().max().unwrap_or(0);
    largest >= LARGE_SECTION
        && largest >= sizes.iter().fold(0, |sum: u64, size| sum.saturating_add(*size)) / 2
}

/// Whether an object is looked up in the pack of the link: it has code that takes longer to divide than a summary takes to decode.
fn pays_in_pack(bytes: &[u8]) -> bool {
    !bitcode::is_bitcode(bytes)
        && native::code_section_sizes(bytes).iter().any(|size| *size >= PACKED_SECTION)
}

/// A folder of entries, shared by any number of processes.
#[derive(Debug)]
pub struct Cache {
    dir: PathBuf,
    /// The size in bytes above which old entries are removed.
    limit: u64,
    /// Bytes that this process has written since its last trim.
    written: AtomicU64,
    is_refused: OnceLock<bool>,
}

impl Cache {
    /// The cache that the options of a link ask for.
    pub fn of_link(config: &Config) -> Option<Self> {
        config.prune.cache.as_ref().map(|dir| Cache::new(dir, DEFAULT_LIMIT))
    }

    /// The cache in `dir`, which is made on first use, held below `limit` bytes (see [`DEFAULT_LIMIT`]).
    pub fn new(dir: impl Into<PathBuf>, limit: u64) -> Self {
        Cache { dir: dir.into(), limit, written: AtomicU64::new(0), is_refused: OnceLock::new() }
    }

    /// The summary with this key, if there is one.
    pub fn get(&self, key: &CacheKey) -> Option<ModuleSummary> {
        let (summary, of) = format::decode(&self.read(key)?).ok()?;
        (of == *key).then_some(summary)
    }

    /// Make the entry of a summary.
    pub fn put(&self, key: &CacheKey, summary: &ModuleSummary) {
        self.write(key, &format::encode(summary, *key));
    }

    /// The contents of the entry with this key.
    pub fn read(&self, key: &CacheKey) -> Option<Vec<u8>> {
        without_checksum(&self.open(key)?).map(<[u8]>::to_vec)
    }

    /// The file of the entry with this key: its contents, not yet checked, and their checksum.
    pub fn open(&self, key: &CacheKey) -> Option<MappedFile> {
        if self.is_refused() {
            return None;
        }
        let path = self.path(key);
        let meta = fs::symlink_metadata(&path).ok().filter(fs::Metadata::is_file)?;
        let entry = precomputed::open(&path, None).ok()?;
        mark_used(&path, &meta);
        Some(entry)
    }

    /// Make an entry. An error only costs time.
    pub fn write(&self, key: &CacheKey, contents: &[u8]) {
        if self.write_entry(key, contents).is_ok() {
            self.written.fetch_add(contents.len() as u64, Ordering::Relaxed);
        }
    }

    fn write_entry(&self, key: &CacheKey, contents: &[u8]) -> std::io::Result<()> {
        if !self.dir.is_dir() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)?;
        }
        if self.is_refused() {
            return Err(std::io::ErrorKind::PermissionDenied.into());
        }
        // On an error it is dropped and so removed; after a kill it is trimmed like an entry.
        let mut file = tempfile::Builder::new().prefix(TEMPORARY).tempfile_in(&self.dir)?;
        file.write_all(contents)?;
        file.write_all(&hash(contents))?;
        file.persist(self.path(key))?;
        Ok(())
    }

    fn is_refused(&self) -> bool {
        *self.is_refused.get_or_init(|| self.refusal().is_some())
    }

    /// Remove the entry with this key.
    pub fn forget(&self, key: &CacheKey) {
        let _ = fs::remove_file(self.path(key));
    }

    /// The reason why an existing folder is not used ([`precomputed::is_trusted`]).
    pub fn refusal(&self) -> Option<String> {
        let meta = fs::metadata(&self.dir).ok().filter(fs::Metadata::is_dir)?;
        precomputed::refusal(&precomputed::is_trusted(&self.dir, &meta, None).err()?)
    }

    /// Remove the least recently used entries if the folder is too large. It is checked only if this process wrote something, and
    /// no process has checked recently.
    pub fn trim_when_due(&self) {
        let written = self.written.load(Ordering::Relaxed);
        let stamp = self.dir.join(STAMP);
        let recent =
            fs::metadata(&stamp).and_then(|m| m.modified()).is_ok_and(|t| younger_than(t, TRIM_INTERVAL));
        if written == 0 || (recent && written < self.limit / 8) {
            return;
        }
        self.written.store(0, Ordering::Relaxed);
        // The stamp comes first, so that links that end now don't trim too.
        if fs::write(&stamp, b"").is_ok() {
            self.trim();
        }
    }

    /// Bring the folder below three quarters of its limit if it is above it.
    fn trim(&self) {
        let mut entries: Vec<(SystemTime, PathBuf, u64)> = Vec::new();
        for entry in fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let is_entry = |name: &[u8]| name.len() == 64 && name.iter().all(u8::is_ascii_hexdigit);
            let Ok(meta) = entry.metadata() else { continue };
            // Other files in the folder are kept.
            let is_ours = is_entry(name.as_encoded_bytes())
                || name.as_encoded_bytes().starts_with(TEMPORARY.as_bytes());
            if !is_ours {
                continue;
            }
            if let (true, Ok(modified)) = (meta.is_file(), meta.modified()) {
                entries.push((modified, entry.path(), meta.len()));
            }
        }
        let mut total: u64 = entries.iter().map(|(_, _, size)| size).sum();
        if total <= self.limit {
            return;
        }
        entries.sort();
        for (_, path, size) in entries {
            if total <= self.limit / 4 * 3 {
                break;
            }
            // Another process may have removed it first.
            let _ = fs::remove_file(path);
            total = total.saturating_sub(size);
        }
    }

    fn path(&self, key: &CacheKey) -> PathBuf {
        self.dir.join(hex(key))
    }
}

/// The key of the summary of an input.
pub(super) fn key(input: &InputHash, options: impl Into<SummaryOptions>) -> CacheKey {
    let options = options.into();
    let granularity: &[u8] = match options.granularity {
        Granularity::Sections => b"sections",
        Granularity::Functions => b"functions",
        Granularity::Pointers => b"pointers",
    };
    let debug: &[u8] = if options.without_debug { b" without debug" } else { b"" };
    let version = [&SCHEMA_VERSION.to_le_bytes(), env!("CARGO_PKG_VERSION").as_bytes()].concat();
    hash_of_parts(&[input, granularity, debug, &version])
}

fn younger_than(time: SystemTime, age: Duration) -> bool {
    // A time in the future is of another clock.
    SystemTime::now().duration_since(time).is_ok_and(|elapsed| elapsed < age)
}

/// Set the time of an entry, by which [`Cache::trim`] sorts; access times are often not kept.
fn mark_used(path: &Path, meta: &fs::Metadata) {
    if meta.modified().is_ok_and(|t| younger_than(t, TOUCH_INTERVAL)) {
        return;
    }
    if let Ok(file) = File::options().append(true).open(path) {
        let _ = file.set_modified(SystemTime::now());
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(super) mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    pub(in crate::summarize) fn summary(name: &[u8]) -> ModuleSummary {
        let mut summary = ModuleSummary::opaque();
        summary.push_name(name);
        summary
    }

    fn key_of_input(bytes: &[u8]) -> CacheKey {
        key(&hash(bytes), Granularity::Sections)
    }

    #[test]
    fn an_entry_comes_back_and_a_damaged_one_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::new(dir.path().join("not/yet/there"), DEFAULT_LIMIT);
        let key = key_of_input(b"module");
        assert_eq!(cache.get(&key), None);
        cache.put(&key, &summary(b"x"));
        assert_eq!(cache.get(&key), Some(summary(b"x")));
        assert_eq!(cache.get(&key_of_input(b"other")), None);

        let path = cache.path(&key);
        let good = fs::read(&path).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            fs::write(&path, bad).unwrap();
            assert_eq!(cache.get(&key), None, "byte {at}");
        }
        fs::write(&path, &good[..good.len() / 2]).unwrap();
        assert_eq!(cache.get(&key), None);
        cache.put(&key, &summary(b"y"));
        assert_eq!(cache.get(&key), Some(summary(b"y")));
        // An entry under the name of another is refused, and so is one of another granularity.
        for other in [key_of_input(b"other"), super::key(&hash(b"module"), Granularity::Functions)] {
            assert_eq!(cache.get(&other), None);
            fs::copy(&path, cache.path(&other)).unwrap();
            assert_eq!(cache.get(&other), None);
        }
        // A folder that others write to is not read either.
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o1777);
        fs::set_permissions(dir.path(), permissions).unwrap();
        assert_eq!(Cache::new(dir.path(), DEFAULT_LIMIT).get(&key), None);
    }

    #[test]
    fn the_least_recently_used_go() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::new(dir.path(), 10_000);
        let keys: Vec<CacheKey> = (0..20u8).map(|i| key_of_input(&[i])).collect();
        let old = SystemTime::now() - Duration::from_secs(100_000);
        for (i, key) in keys.iter().enumerate() {
            cache.put(key, &summary(&[0; 1000]));
            let file = File::options().append(true).open(cache.path(key)).unwrap();
            file.set_modified(old + Duration::from_secs(i as u64)).unwrap();
        }
        // The oldest is used and so becomes the youngest.
        assert!(cache.get(&keys[0]).is_some());
        // Other files are kept, however old and large they are.
        let other = dir.path().join("thesis.txt");
        fs::write(&other, [0; 20_000]).unwrap();
        File::options().append(true).open(&other).unwrap().set_modified(old).unwrap();
        // The folder is looked through although the clock was wrong when that was done last.
        fs::write(dir.path().join(STAMP), b"").unwrap();
        let future = SystemTime::now() + Duration::from_secs(1_000_000);
        File::options().append(true).open(dir.path().join(STAMP)).unwrap().set_modified(future).unwrap();
        cache.trim_when_due();
        assert!(other.exists());
        let left: Vec<bool> = keys.iter().map(|k| cache.get(k).is_some()).collect();
        assert!(left[0] && left[19] && !left[1] && !left[10], "{left:?}");
        assert!((4..8).contains(&left.iter().filter(|l| **l).count()), "{left:?}");
        // Just looked through, and little was written since: not again.
        cache.put(&keys[1], &summary(&[0; 100]));
        cache.trim_when_due();
        assert!(cache.written.load(Ordering::Relaxed) > 0);
    }

    #[test]
    fn an_unusable_folder_is_no_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let cache = Cache::new(file.path(), DEFAULT_LIMIT);
        cache.put(&key_of_input(b""), &summary(b""));
        assert_eq!(cache.get(&key_of_input(b"")), None);
        cache.trim_when_due();
    }

    #[test]
    fn a_folder_of_others_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let key = key_of_input(b"module");
        for (mode, is_used) in [(0o777, false), (0o775, false), (0o755, true)] {
            fs::set_permissions(dir.path(), fs::Permissions::from_mode(mode)).unwrap();
            Cache::new(dir.path(), DEFAULT_LIMIT).put(&key, &summary(b"x"));
            assert_eq!(Cache::new(dir.path(), DEFAULT_LIMIT).get(&key).is_some(), is_used, "{mode:o}");
        }
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(Cache::new(dir.path(), DEFAULT_LIMIT).get(&key), None);
    }

    #[test]
    fn concurrent_writers_and_readers() {
        let dir = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let cache = Cache::new(dir.path(), 3000);
                    for i in 0..200u8 {
                        let key = key_of_input(&[i % 8]);
                        if let Some(found) = cache.get(&key) {
                            assert_eq!(found, summary(&[i % 8; 700]));
                        }
                        cache.put(&key, &summary(&[i % 8; 700]));
                        cache.trim_when_due();
                    }
                });
            }
        });
    }
}
