//! The pack of a link: one entry of the cache with the summaries of its small modules.
//!
//! Finding, opening and checking a file takes longer than dividing a small module. So the small modules of a link share one file, which the
//! next link with this output maps once. Each summary has a key as in an entry of its own, and its own checksum; only those that
//! are used are decoded. The pack is written anew if a module is new. Large modules have entries of their own
//! ([`super::cache`]), which links with other outputs find too.

use std::ops::Range;
use std::path::Path;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use summaries::ModuleSummary;
use summaries::format;

use super::cache::{Cache, CacheKey};
use crate::hashing::{hash, hash_of_parts};
use crate::inputs::mapped::MappedFile;

const MAGIC: [u8; 8] = *b"LTOPCK\r\n";

/// The place of a summary in the pack.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct PackedSummary {
    key: CacheKey,
    /// Its bytes, from the start of the summaries.
    bytes: Range<usize>,
    /// The blake3 hash of those bytes.
    checksum: CacheKey,
}

/// A module of the pack that is written for the next link.
#[derive(Debug, Clone, Copy)]
pub enum Packed<'s> {
    /// The pack already has its summary.
    Found(CacheKey),
    New(CacheKey, &'s ModuleSummary),
}

/// The pack of a link, as an earlier link left it.
#[derive(Debug)]
pub struct Pack {
    key: CacheKey,
    file: MappedFile,
    /// In the order of their keys.
    summaries: Vec<PackedSummary>,
    /// The offset of the first summary in the file, in bytes.
    start: usize,
}

impl Pack {
    /// The pack of links with this output. It is empty if no link left one, or if it is damaged.
    pub fn open(cache: &Cache, output: &Path) -> Self {
        let folder = std::env::current_dir().unwrap_or_default();
        let output = folder.join(output);
        let key = hash_of_parts(&[b"pack", output.as_os_str().as_encoded_bytes()]);
        let read = || {
            let file = cache.open(&key)?;
            let ((checksum, of), start) = format::decode_file::<(CacheKey, Vec<u8>)>(MAGIC, &file).ok()?;
            (hash(&of) == checksum).then_some(())?;
            Some((format::decode_value(&of).ok()?, start, file))
        };
        match read() {
            Some((summaries, start, file)) => Pack { key, file, summaries, start },
            None => Pack { key, file: MappedFile::from_bytes(Vec::new()), summaries: Vec::new(), start: 0 },
        }
    }

    /// The summary with this key, if the pack has it.
    pub fn get(&self, key: &CacheKey) -> Option<ModuleSummary> {
        let (summary, of) = format::decode(self.encoded(key)?).ok()?;
        (of == *key).then_some(summary)
    }

    /// Write the pack anew if a summary of it is new.
    pub fn put(&self, cache: &Cache, modules: &[Packed<'_>]) {
        if !modules.iter().any(|module| matches!(module, Packed::New(..))) {
            return;
        }
        let encode = |module: &Packed<'_>| match module {
            Packed::Found(key) => Some((*key, self.encoded(key)?.to_vec())),
            Packed::New(key, summary) => Some((*key, format::encode(summary, *key))),
        };
        let mut encoded: Vec<(CacheKey, Vec<u8>)> = modules.par_iter().filter_map(encode).collect();
        encoded.sort();
        encoded.dedup();
        let checksums: Vec<CacheKey> = encoded.par_iter().map(|(_, bytes)| hash(bytes)).collect();
        let mut end = 0;
        let summaries = encoded.iter().zip(checksums).map(|((key, bytes), checksum)| {
            let start = end;
            end += bytes.len();
            PackedSummary { key: *key, bytes: start..end, checksum }
        });
        let table = format::encode_value(&summaries.collect::<Vec<_>>());
        let contents: Vec<&[u8]> = encoded.iter().map(|(_, bytes)| bytes.as_slice()).collect();
        cache.write(&self.key, &format::encode_file(MAGIC, &(hash(&table), table), &contents));
    }

    /// The bytes of the summary with this key, unless they are damaged.
    fn encoded(&self, key: &CacheKey) -> Option<&[u8]> {
        let at = self.summaries.binary_search_by(|summary| summary.key.cmp(key)).ok()?;
        let of = self.summaries.get(at)?;
        let bytes = self.file.get(self.start..)?.get(of.bytes.clone())?;
        (hash(bytes) == of.checksum).then_some(bytes)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::cache::tests::summary;
    use super::super::cache::{self, DEFAULT_LIMIT};
    use super::*;
    use summaries::Granularity;

    fn key_of(bytes: &[u8]) -> CacheKey {
        cache::key(&hash(bytes), Granularity::Functions)
    }

    #[test]
    fn summaries_come_back_until_a_byte_of_them_is_another() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::new(dir.path(), DEFAULT_LIMIT);
        let output = Path::new("program");
        let names: [&[u8]; 3] = [b"a", b"b", b"c"];
        let summaries = names.map(summary);
        let keys = names.map(key_of);
        let pack = Pack::open(&cache, output);
        assert!(keys.iter().all(|key| pack.get(key).is_none()));
        pack.put(&cache, &[Packed::New(keys[1], &summaries[1]), Packed::New(keys[0], &summaries[0])]);

        let pack = Pack::open(&cache, output);
        assert_eq!(
            keys.map(|key| pack.get(&key)),
            [Some(summaries[0].clone()), Some(summaries[1].clone()), None]
        );
        // A module that is no longer in the link is removed.
        pack.put(&cache, &[Packed::Found(keys[0]), Packed::New(keys[2], &summaries[2])]);
        let pack = Pack::open(&cache, output);
        assert_eq!(keys.map(|key| pack.get(&key).is_some()), [true, false, true]);
        // Another output has another pack.
        assert!(Pack::open(&cache, Path::new("other")).get(&keys[0]).is_none());

        let mut paths = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
        let path = paths.find(|path| path.file_name().unwrap().len() == 64).unwrap();
        let good = std::fs::read(&path).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            std::fs::write(&path, bad).unwrap();
            let pack = Pack::open(&cache, output);
            for (key, summary) in keys.iter().zip(&summaries) {
                let found = pack.get(key);
                assert!(found.is_none() || found.as_ref() == Some(summary), "byte {at}");
            }
        }
        // The checksum of the whole entry is behind the last summary.
        for length in 0..good.len() - 32 {
            std::fs::write(&path, &good[..length]).unwrap();
            assert!(keys.iter().filter(|key| Pack::open(&cache, output).get(key).is_some()).count() < 2);
        }
    }
}
