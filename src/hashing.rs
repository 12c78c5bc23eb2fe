//! Hashes of contents (blake3): what inputs, entries of the cache and files made ahead of a link are known by.
//!
//! A file of ours that a link believes ends with the hash of what is before it, so that one that a crash, a full disk or a copy damaged is seen and not
//! used. Against planted files stands [`crate::made_ahead::open`].

use std::ops::Range;

use summaries::format::InputHash;

/// The hash of an input: what a summary in a file is bound to.
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

/// One hash of several parts, each of which is told from the next.
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

/// What [`with_checksum`] was given; `None` if it is not whole.
pub fn without_checksum(bytes: &[u8]) -> Option<&[u8]> {
    let (contents, checksum) = bytes.split_last_chunk::<32>()?;
    (hash(contents) == *checksum).then_some(contents)
}
