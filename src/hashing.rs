//! Hashes of contents (blake3), the keys of inputs, cache entries and precomputed files.
//!
//! A file of ours ends with the hash of its contents, so that a damaged one is not used. [`crate::precomputed::open`] protects
//! against planted files.

use std::ops::Range;

use summaries::format::InputHash;

/// The hash of an input, to which a summary in a file is bound.
pub fn hash(bytes: &[u8]) -> InputHash {
    *blake3::hash(bytes).as_bytes()
}

/// The hash of `bytes` without those in `range`, which lies in them.
pub fn hash_without(bytes: &[u8], range: Range<usize>) -> InputHash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(bytes.get(..range.start).unwrap_or(&[]));
    hasher.update(bytes.get(range.end..).unwrap_or(&[]));
    *hasher.finalize().as_bytes()
}

/// One hash of several parts, with their lengths.
pub fn hash_of_parts(parts: &[&[u8]]) -> InputHash {
    let mut hasher = blake3::Hasher::new();
    parts.iter().for_each(|part| {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    });
    *hasher.finalize().as_bytes()
}

/// A hash as a name of a file.
pub fn hex(hash: &InputHash) -> String {
    blake3::Hash::from_bytes(*hash).to_hex().to_string()
}

/// The contents with their checksum behind them, which is their hash.
pub fn with_checksum(mut contents: Vec<u8>) -> Vec<u8> {
    let checksum = hash(&contents);
    contents.extend_from_slice(&checksum);
    contents
}

/// The contents without their checksum; `None` if they are damaged.
pub fn without_checksum(bytes: &[u8]) -> Option<&[u8]> {
    let (contents, checksum) = bytes.split_last_chunk::<32>()?;
    (hash(contents) == *checksum).then_some(contents)
}
