//! Recognises what a file is, by its first bytes as linkers do, and calls the front end for it.
//!
//! Bitcode and anything unknown gives an opaque summary with a limit, so that nothing of the link that holds it is
//! pruned: what such a file refers to is not known.

use crate::limit::{Limit, LimitRecord};
use crate::native;
use crate::summary::{Granularity, ModuleKind, ModuleSummary};

/// First bytes of an ELF file.
const ELF: &[u8] = b"\x7fELF";
/// First bytes of LLVM bitcode.
const BITCODE: &[u8] = b"BC\xc0\xde";
/// First bytes of LLVM bitcode in its wrapper (`0x0B17C0DE`, little-endian).
const WRAPPED_BITCODE: &[u8] = b"\xde\xc0\x17\x0b";

/// Whether a file begins as LLVM bitcode does, raw or wrapped.
pub fn is_bitcode(bytes: &[u8]) -> bool {
    bytes.starts_with(BITCODE) || bytes.starts_with(WRAPPED_BITCODE)
}

/// Summarise a module of any kind. Only native objects are divided more finely than by sections. Total, as the front ends are.
pub fn extract(bytes: &[u8], granularity: Granularity) -> ModuleSummary {
    if bytes.starts_with(ELF) {
        return native::extract_at(bytes, granularity);
    }
    let (kind, limit, detail) = if is_bitcode(bytes) {
        (ModuleKind::Bitcode, Limit::Bitcode, "LLVM bitcode")
    } else {
        (ModuleKind::Opaque, Limit::UnreadableInput, "neither an ELF object nor LLVM bitcode")
    };
    let mut summary = ModuleSummary::opaque();
    summary.kind = kind;
    summary.granularity = granularity;
    summary.limits.push(LimitRecord {
        limit,
        section: None,
        bytes: bytes.len() as u64,
        detail: detail.to_owned(),
    });
    summary
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_by_magic() {
        for (bytes, kind, limit) in [
            (&b"BC\xc0\xde\x35\x14"[..], ModuleKind::Bitcode, Limit::Bitcode),
            (b"\xde\xc0\x17\x0b\0\0", ModuleKind::Bitcode, Limit::Bitcode),
            (b"", ModuleKind::Opaque, Limit::UnreadableInput),
            (b"int main;", ModuleKind::Opaque, Limit::UnreadableInput),
            (b"\x7fELF", ModuleKind::Opaque, Limit::MalformedObject),
            (b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0", ModuleKind::Opaque, Limit::ForeignObject),
        ] {
            let summary = extract(bytes, Granularity::Sections);
            assert_eq!((summary.kind, summary.limits[0].limit), (kind, limit));
        }
    }
}
