//! The cache of summaries: a folder of files that are named by the hash of what they are of.
//!
//! The key covers the bytes of the module, what was asked (the granularity of its atoms), the schema version and the version of this program, so an entry is never stale.
//! An entry ends with its own hash: what a crash or a full disk left behind is seen, ignored and replaced. Entries
//! appear by rename, so concurrent links see whole ones only. No error of the cache is an error of the link.
//! All hashing of the driver is here (blake3).

use std::fs::{self, File};
use std::io::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use summaries::format::{self, InputHash, SCHEMA_VERSION};
use summaries::{Granularity, ModuleSummary, SummaryOptions};

/// How much the cache may hold, in bytes, unless said otherwise.
pub const DEFAULT_LIMIT: u64 = 1 << 30;

/// An entry that is used is marked so at most this often: the mark is a write.
const TOUCH_INTERVAL: Duration = Duration::from_secs(60 * 60);
/// The folder is looked through at most this often, unless one process alone fills an eighth of it.
const TRIM_INTERVAL: Duration = Duration::from_secs(10 * 60);
/// Name of the file whose time says when the folder was last looked through.
const STAMP: &str = "trimmed";

/// The hash of an input: what a summary in a file is bound to.
pub fn hash(bytes: &[u8]) -> InputHash {
    *blake3::hash(bytes).as_bytes()
}

/// The hash that stands for what is known of an input if only some of its atoms live.
pub(super) fn hash_of_part(input: &InputHash, live: &[bool]) -> InputHash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(input);
    hasher.update(&live.iter().map(|live| u8::from(*live)).collect::<Vec<_>>());
    *hasher.finalize().as_bytes()
}

/// The hash of `bytes` without those in `range`, which lies in them.
pub(super) fn hash_without(bytes: &[u8], range: Range<usize>) -> InputHash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(bytes.get(..range.start).unwrap_or(&[]));
    hasher.update(bytes.get(range.end..).unwrap_or(&[]));
    *hasher.finalize().as_bytes()
}

/// A folder of summaries, shared by any number of processes.
#[derive(Debug)]
pub struct Cache {
    dir: PathBuf,
    /// How many bytes the folder may have before old entries go.
    limit: u64,
    /// Bytes that this process has written since it last looked through the folder.
    written: AtomicU64,
}

impl Cache {
    /// The cache in `dir`, which is made on first use, held below `limit` bytes (see [`DEFAULT_LIMIT`]).
    pub fn new(dir: impl Into<PathBuf>, limit: u64) -> Self {
        Cache { dir: dir.into(), limit, written: AtomicU64::new(0) }
    }

    /// The summary of the input with this [`hash`], if it says what is asked.
    pub fn get(&self, input: &InputHash, asked: impl Into<SummaryOptions>) -> Option<ModuleSummary> {
        let asked = asked.into();
        let path = self.path(input, asked);
        let bytes = fs::read(&path).ok()?;
        let (encoded, seal) = bytes.split_last_chunk::<32>()?;
        if hash(encoded) != *seal {
            return None;
        }
        let (summary, of) = format::decode(encoded).ok()?;
        if of != *input || !summary.answers(asked) {
            return None;
        }
        mark_used(&path);
        Some(summary)
    }

    /// Keep a summary of the input with this [`hash`].
    pub fn put(&self, input: &InputHash, asked: impl Into<SummaryOptions>, summary: &ModuleSummary) {
        let mut bytes = format::encode(summary, *input);
        let seal = hash(&bytes);
        bytes.extend_from_slice(&seal);
        // A cache that can't be written costs time and nothing else.
        if write_entry(&self.path(input, asked), &bytes).is_ok() {
            self.written.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        }
    }

    /// Remove the entries that were not used for longest, if the folder holds too much. Looks only if this process wrote
    /// something, and no process has looked for a while.
    pub fn trim_when_due(&self) {
        let written = self.written.load(Ordering::Relaxed);
        let stamp = self.dir.join(STAMP);
        let recent =
            fs::metadata(&stamp).and_then(|m| m.modified()).is_ok_and(|t| younger_than(t, TRIM_INTERVAL));
        if written == 0 || (recent && written < self.limit / 8) {
            return;
        }
        self.written.store(0, Ordering::Relaxed);
        // Before the work, so that links that end now don't do it too.
        if fs::write(&stamp, b"").is_ok() {
            self.trim();
        }
    }

    /// Bring the folder below three quarters of its limit if it is above it.
    fn trim(&self) {
        let mut entries: Vec<(SystemTime, PathBuf, u64)> = Vec::new();
        for folder in list(&self.dir).into_iter().filter(|p| p.is_dir()) {
            for path in list(&folder) {
                let Ok(meta) = fs::symlink_metadata(&path) else { continue };
                if let (true, Ok(modified)) = (meta.is_file(), meta.modified()) {
                    entries.push((modified, path, meta.len()));
                }
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
            // Another process may have been here first; its gain is ours.
            let _ = fs::remove_file(path);
            total = total.saturating_sub(size);
        }
    }

    /// One folder for each first byte of the key.
    fn path(&self, input: &InputHash, asked: impl Into<SummaryOptions>) -> PathBuf {
        let asked = asked.into();
        let mut hasher = blake3::Hasher::new();
        hasher.update(input);
        let granularity: &[u8] = match asked.granularity {
            Granularity::Sections => b"sections",
            Granularity::Functions => b"functions",
            Granularity::Pointers => b"pointers",
        };
        hasher.update(granularity);
        if asked.without_debug {
            hasher.update(b" without debug");
        }
        hasher.update(&SCHEMA_VERSION.to_le_bytes());
        hasher.update(env!("CARGO_PKG_VERSION").as_bytes());
        let key = hasher.finalize().to_hex();
        let (folder, name) = key.split_at(2);
        self.dir.join(folder).join(name)
    }
}

fn younger_than(time: SystemTime, age: Duration) -> bool {
    // A time in the future (another clock) counts as now.
    SystemTime::now().duration_since(time).map_or(true, |elapsed| elapsed < age)
}

/// Set the time of an entry by which [`Cache::trim`] sorts; access times are often not kept.
fn mark_used(path: &Path) {
    let modified = fs::metadata(path).and_then(|m| m.modified());
    if modified.is_ok_and(|t| younger_than(t, TOUCH_INTERVAL)) {
        return;
    }
    if let Ok(file) = File::options().append(true).open(path) {
        let _ = file.set_modified(SystemTime::now());
    }
}

fn write_entry(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    // Dropped on an error, and then removed; left behind by a kill, it is trimmed like an entry.
    let mut file = tempfile::Builder::new().prefix(".new").tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.persist(path)?;
    Ok(())
}

fn list(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    entries.filter_map(|e| e.ok().map(|e| e.path())).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn summary(name: &[u8]) -> ModuleSummary {
        let mut summary = ModuleSummary::opaque();
        summary.push_name(name);
        summary
    }

    #[test]
    fn an_entry_comes_back_and_a_damaged_one_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::new(dir.path().join("not/yet/there"), DEFAULT_LIMIT);
        let key = hash(b"module");
        assert_eq!(cache.get(&key, Granularity::Sections), None);
        cache.put(&key, Granularity::Sections, &summary(b"x"));
        assert_eq!(cache.get(&key, Granularity::Sections), Some(summary(b"x")));
        assert_eq!(cache.get(&hash(b"other"), Granularity::Sections), None);

        let path = cache.path(&key, Granularity::Sections);
        let good = fs::read(&path).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            fs::write(&path, bad).unwrap();
            assert_eq!(cache.get(&key, Granularity::Sections), None, "byte {at}");
        }
        fs::write(&path, &good[..good.len() / 2]).unwrap();
        assert_eq!(cache.get(&key, Granularity::Sections), None);
        cache.put(&key, Granularity::Sections, &summary(b"y"));
        assert_eq!(cache.get(&key, Granularity::Sections), Some(summary(b"y")));
        // Nor does one granularity stand for the other.
        assert_eq!(cache.get(&key, Granularity::Functions), None);
        let finer = cache.path(&key, Granularity::Functions);
        fs::create_dir_all(finer.parent().unwrap()).unwrap();
        fs::copy(&path, finer).unwrap();
        assert_eq!(cache.get(&key, Granularity::Functions), None);
        // An entry under the name of another is not taken for it.
        let other = hash(b"other");
        fs::create_dir_all(cache.path(&other, Granularity::Sections).parent().unwrap()).unwrap();
        fs::copy(&path, cache.path(&other, Granularity::Sections)).unwrap();
        assert_eq!(cache.get(&other, Granularity::Sections), None);
    }

    #[test]
    fn the_least_recently_used_go() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::new(dir.path(), 10_000);
        let keys: Vec<InputHash> = (0..20u8).map(|i| hash(&[i])).collect();
        let old = SystemTime::now() - Duration::from_secs(100_000);
        for (i, key) in keys.iter().enumerate() {
            cache.put(key, Granularity::Sections, &summary(&[0; 1000]));
            let file = File::options().append(true).open(cache.path(key, Granularity::Sections)).unwrap();
            file.set_modified(old + Duration::from_secs(i as u64)).unwrap();
        }
        // The oldest is used and so becomes the youngest.
        assert!(cache.get(&keys[0], Granularity::Sections).is_some());
        cache.trim_when_due();
        let left: Vec<bool> = keys.iter().map(|k| cache.get(k, Granularity::Sections).is_some()).collect();
        assert!(left[0] && left[19] && !left[1] && !left[10], "{left:?}");
        assert!((4..8).contains(&left.iter().filter(|l| **l).count()), "{left:?}");
        // Just looked through, and little was written since: not again.
        cache.put(&keys[1], Granularity::Sections, &summary(&[0; 100]));
        cache.trim_when_due();
        assert!(cache.written.load(Ordering::Relaxed) > 0);
    }

    #[test]
    fn an_unusable_folder_is_no_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let cache = Cache::new(file.path(), DEFAULT_LIMIT);
        cache.put(&hash(b""), Granularity::Sections, &summary(b""));
        assert_eq!(cache.get(&hash(b""), Granularity::Sections), None);
        cache.trim_when_due();
    }

    #[test]
    fn concurrent_writers_and_readers() {
        let dir = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let cache = Cache::new(dir.path(), 3000);
                    for i in 0..200u8 {
                        let key = hash(&[i % 8]);
                        if let Some(found) = cache.get(&key, Granularity::Sections) {
                            assert_eq!(found, summary(&[i % 8; 700]));
                        }
                        cache.put(&key, Granularity::Sections, &summary(&[i % 8; 700]));
                        cache.trim_when_due();
                    }
                });
            }
        });
    }
}
