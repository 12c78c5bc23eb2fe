//! Contents of compressed sections (gABI, "Section Compression": `ELFCOMPRESS_ZLIB`, `ELFCOMPRESS_ZSTD`).
//!
//! Decides nothing: emission and verification read the header of such a section each by themselves. A size that the header claims is a
//! bound, so that hostile contents can't grow without one.

use std::io::Read;

/// No contents may become larger than this, in bytes.
const MAX_SIZE: u64 = 1 << 32;

/// The contents, decompressed. `kind` is `ch_type`, `size` is `ch_size`; `None` for a kind that is not known, and for contents that are
/// damaged or of another size.
pub fn decompress(kind: u32, size: u64, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let limit = size.checked_add(1).filter(|_| size <= MAX_SIZE)?;
    match kind {
        1 => flate2::read::ZlibDecoder::new(bytes).take(limit).read_to_end(&mut out).ok()?,
        2 => ruzstd::decoding::StreamingDecoder::new(bytes).ok()?.take(limit).read_to_end(&mut out).ok()?,
        _ => return None,
    };
    (out.len() as u64 == size).then_some(out)
}
