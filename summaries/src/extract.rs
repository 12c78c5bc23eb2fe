//! Recognises what a file is, by its first bytes as linkers do, and calls the front end for it.
//!
//! Anything unknown gives an opaque summary with a limit, so that nothing of the link that holds it is pruned: what such a
//! file refers to is not known. An object with bitcode in it is native: whether the linker takes the bitcode is for the tool to know.

pub use crate::parallel::{ParallelMap, in_order};

use crate::limit::{Limit, LimitRecord, Severity};
use crate::summary::{Granularity, ModuleKind, ModuleSummary, SummaryOptions};
use crate::{bitcode, mapping, native};

/// First bytes of an ELF file.
const ELF: &[u8] = b"\x7fELF";

/// Summarise a module of any kind. Only native objects are divided more finely than by sections. Total, as the front ends are.
pub fn extract(bytes: &[u8], options: impl Into<SummaryOptions>) -> ModuleSummary {
    extract_by(bytes, options, &in_order)
}

/// Summarise a module of which this is the summary at [`Granularity::Functions`] once more, at [`Granularity::Pointers`]. Of native
/// code only the functions in `live` atoms (by atom of that summary) are followed: no code of the others may be reached in the link.
pub fn follow(
    bytes: &[u8],
    known: &ModuleSummary,
    live: &[bool],
    parallel_map: ParallelMap<'_>,
) -> ModuleSummary {
    let options = SummaryOptions { without_debug: known.without_debug, ..Granularity::Pointers.into() };
    let mut summary = match known.kind {
        ModuleKind::Native => native::follow(bytes, options, live, parallel_map),
        ModuleKind::Bitcode | ModuleKind::Opaque => by_kind(bytes, options, parallel_map),
    };
    mapping::count_unseen(&mut summary);
    summary
}

/// Whether a summary of the module agrees with its headers and symbols, so that it names each root which these show. That is checked of
/// a summary which somebody else may have made. One that stops the link agrees with any module.
pub fn agrees(bytes: &[u8], summary: &ModuleSummary) -> bool {
    summary.limits.iter().any(|record| record.limit.severity() == Severity::Link)
        || if bitcode::is_bitcode(bytes) {
            bitcode::agrees(bytes, summary)
        } else {
            native::agrees(bytes, summary)
        }
}

/// [`extract`], with what runs the pieces of a large module. Whatever that does, the summary is the same.
pub fn extract_by(
    bytes: &[u8],
    options: impl Into<SummaryOptions>,
    parallel_map: ParallelMap<'_>,
) -> ModuleSummary {
    let options = options.into();
    let mut summary = by_kind(bytes, options, parallel_map);
    if options.granularity >= Granularity::Pointers {
        mapping::count_unseen(&mut summary);
    }
    summary
}

fn by_kind(bytes: &[u8], options: SummaryOptions, parallel_map: ParallelMap<'_>) -> ModuleSummary {
    if bytes.starts_with(ELF) {
        return native::extract_by(bytes, options, parallel_map);
    }
    if bitcode::is_bitcode(bytes) {
        return bitcode::extract_by(bytes, options.granularity, parallel_map);
    }
    let mut summary = ModuleSummary::opaque();
    summary.granularity = options.granularity;
    summary.limits.push(LimitRecord {
        limit: Limit::UnreadableInput,
        section: None,
        offset: None,
        bytes: bytes.len() as u64,
        detail: "neither an ELF object nor LLVM bitcode".to_owned(),
    });
    summary
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_by_magic() {
        for (bytes, kind, limit) in [
            (&b"BC\xc0\xde\x35\x14"[..], ModuleKind::Bitcode, Limit::MalformedObject),
            (b"\xde\xc0\x17\x0b\0\0", ModuleKind::Bitcode, Limit::MalformedObject),
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
