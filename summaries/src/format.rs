//! The serialised form of a summary: a `.ltosum` file, a section `.lto_prune.summary`, an entry of the cache.
//!
//! It has a fixed head (magic, schema version, hash of the input, length of the body) and a body in bincode's standard configuration. A summary is
//! only valid for the input with its hash, which the caller computes. Decoding takes any bytes: memory is bounded by a
//! multiple of the input (each element takes at least a byte), and the result has passed [`ModuleSummary::check`].

use bincode::config::{self, Config};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::check::CheckError;
use crate::summary::ModuleSummary;

/// Version of the body: a hash of this crate's sources (`build.rs`), which changes with the types *and* with the results of the front ends.
/// A summary of another version is never used.
pub const SCHEMA_VERSION: u32 = match u32::from_str_radix(env!("CRATE_SOURCES"), 16) {
    Ok(version) => version,
    Err(_) => panic!("the build script gives a number"),
};

pub const MAGIC: [u8; 8] = *b"LTOSUM\r\n";

/// In bytes: magic, version, hash, body length.
pub const HEADER_SIZE: usize = 8 + 4 + 32 + 8;

/// The bytes before the value of [`encode_file`]: magic, version, length.
const FILE_HEADER: usize = 8 + 4 + 8;

/// The name of the section that may hold a summary in the object that it is of.
pub const SECTION_NAME: &[u8] = b".lto_prune.summary";

/// The hash of the input that a summary was made from: blake3.
pub type InputHash = [u8; 32];

/// The reason why bytes are no usable summary.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    #[error("not a file of this kind")]
    Magic,
    #[error("of schema version {0:08x}, not {SCHEMA_VERSION:08x}: another lto-prune made it")]
    Version(u32),
    #[error("it is cut off or has bytes behind its end")]
    Length,
    #[error("the summary is damaged: {0}")]
    Body(#[from] bincode::error::DecodeError),
    #[error("the summary contradicts itself: {0}")]
    Check(#[from] CheckError),
}

/// The limit on sizes that the decoder accepts, in bytes: larger than any summary of an object that a linker takes.
const DECODE_LIMIT: usize = 1 << 32;

fn encoding() -> impl Config {
    config::standard().with_limit::<DECODE_LIMIT>()
}

/// Serialise a summary of the input with this hash.
pub fn encode(summary: &ModuleSummary, hash: InputHash) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_SIZE + summary.names.len() + 16 * summary.references.len());
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&SCHEMA_VERSION.to_le_bytes());
    bytes.extend_from_slice(&hash);
    bytes.extend_from_slice(&[0; 8]);
    if bincode::serde::encode_into_std_write(summary, &mut bytes, encoding()).is_err() {
        // This can't happen. If it does, the head stays with a body that does not decode, which every reader rejects.
        bytes.truncate(HEADER_SIZE);
    }
    let length = (bytes.len() - HEADER_SIZE) as u64;
    if let Some(field) = bytes.get_mut(HEADER_SIZE - 8..HEADER_SIZE) {
        field.copy_from_slice(&length.to_le_bytes());
    }
    bytes
}

/// The hash of the input, without reading the body.
pub fn input_hash(bytes: &[u8]) -> Result<InputHash, FormatError> {
    let rest = bytes.strip_prefix(&MAGIC).ok_or(FormatError::Magic)?;
    let (version, rest) = rest.split_first_chunk::<4>().ok_or(FormatError::Length)?;
    match u32::from_le_bytes(*version) {
        SCHEMA_VERSION => rest.first_chunk::<32>().copied().ok_or(FormatError::Length),
        other => Err(FormatError::Version(other)),
    }
}

/// Read a summary and the hash of its input.
pub fn decode(bytes: &[u8]) -> Result<(ModuleSummary, InputHash), FormatError> {
    let hash = input_hash(bytes)?;
    let body = bytes.get(HEADER_SIZE..).ok_or(FormatError::Length)?;
    let length = bytes.get(HEADER_SIZE - 8..HEADER_SIZE).and_then(|b| b.first_chunk::<8>());
    if length.map(|l| u64::from_le_bytes(*l)) != Some(body.len() as u64) {
        return Err(FormatError::Length);
    }
    let summary: ModuleSummary = decode_value(body)?;
    summary.check()?;
    Ok((summary, hash))
}

/// A file of the tool's own with a value and bytes: the magic, the schema version, the length of the value, the value in the
/// encoding of summaries, the bytes.
pub fn encode_file<T: Serialize>(magic: [u8; 8], value: &T, contents: &[&[u8]]) -> Vec<u8> {
    let value = encode_value(value);
    let mut bytes =
        Vec::with_capacity(FILE_HEADER + value.len() + contents.iter().map(|c| c.len()).sum::<usize>());
    bytes.extend_from_slice(&magic);
    bytes.extend_from_slice(&SCHEMA_VERSION.to_le_bytes());
    bytes.extend_from_slice(&(value.len() as u64).to_le_bytes());
    bytes.extend_from_slice(&value);
    contents.iter().for_each(|part| bytes.extend_from_slice(part));
    bytes
}

/// The value of a file by [`encode_file`], and the offset of the bytes after it.
///
/// # Errors
/// Another magic, another schema version, or a damaged value. The bytes after it are not checked.
pub fn decode_file<T: DeserializeOwned>(magic: [u8; 8], bytes: &[u8]) -> Result<(T, usize), FormatError> {
    let rest = bytes.strip_prefix(&magic).ok_or(FormatError::Magic)?;
    let (version, rest) = rest.split_first_chunk::<4>().ok_or(FormatError::Length)?;
    let version = u32::from_le_bytes(*version);
    if version != SCHEMA_VERSION {
        return Err(FormatError::Version(version));
    }
    let (length, rest) = rest.split_first_chunk::<8>().ok_or(FormatError::Length)?;
    let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| FormatError::Length)?;
    let body = rest.get(..length).ok_or(FormatError::Length)?;
    Ok((decode_value(body)?, FILE_HEADER + length))
}

/// The value of bytes by [`encode_value`], without a rest.
///
/// # Errors
/// The bytes are damaged, or there are more after the value.
pub fn decode_value<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, FormatError> {
    let (value, read) = bincode::serde::decode_from_slice::<T, _>(bytes, encoding())?;
    if read != bytes.len() {
        return Err(FormatError::Length);
    }
    Ok(value)
}

/// A value in the encoding of summaries.
pub fn encode_value<T: Serialize>(value: &T) -> Vec<u8> {
    // An encoder to a vector can't fail for these types; empty bytes would not decode.
    bincode::serde::encode_to_vec(value, encoding()).unwrap_or_default()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn head_and_body() {
        let mut summary = ModuleSummary::opaque();
        summary.push_name(&[0xff, 0, b'x']);
        let bytes = encode(&summary, [7; 32]);
        assert_eq!(decode(&bytes).unwrap(), (summary, [7; 32]));
        assert!(matches!(decode(&bytes[..bytes.len() - 1]), Err(FormatError::Length)));
        assert!(matches!(decode(b"LTOSUN\r\n"), Err(FormatError::Magic)));
        let mut newer = bytes.clone();
        newer[8] ^= 1;
        assert!(matches!(decode(&newer), Err(FormatError::Version(v)) if v == SCHEMA_VERSION ^ 1));
        let mut longer = bytes;
        longer.push(0);
        assert!(matches!(decode(&longer), Err(FormatError::Length)));
    }

    /// A body that claims 2^60 names must be refused before memory is taken for them.
    #[test]
    fn claimed_lengths_are_not_believed() {
        let mut bytes = encode(&ModuleSummary::opaque(), [0; 32]);
        bytes.truncate(HEADER_SIZE + 1);
        bytes.push(253);
        bytes.extend((1u64 << 60).to_le_bytes());
        let body = (bytes.len() - HEADER_SIZE) as u64;
        bytes[HEADER_SIZE - 8..HEADER_SIZE].copy_from_slice(&body.to_le_bytes());
        assert!(matches!(decode(&bytes), Err(FormatError::Body(_))));
    }
}
