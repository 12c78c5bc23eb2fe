//! The entry of the front ends: a file is recognised by its first bytes, as linkers do it.
//!
//! An unknown file gets an opaque summary with a limit, so that its link is not pruned. An object with embedded bitcode is native,
//! because only the tool knows whether the linker takes the bitcode.

pub use crate::parallel::{ParallelMap, in_order};

use crate::limit::{Limit, LimitRecord, Severity};
use crate::summary::{Granularity, ModuleKind, ModuleSummary, SummaryOptions};
use crate::{bitcode, mapping, native};

/// First bytes of an ELF file.
const ELF: &[u8] = b"\x7fELF";

/// Summarise a module of any kind, without failure. Only native objects are divided more finely than by sections.
pub fn extract(bytes: &[u8], options: impl Into<SummaryOptions>) -> ModuleSummary {
    extract_by(bytes, options, &in_order)
}

/// Summarise a module again for value flow, given its summary at [`Granularity::Functions`]. Only the native functions in `live` atoms
/// (by atom of that summary) are analysed; the others must be unreachable in the link.
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

/// Whether a summary agrees with the module's headers and symbols, so that it has all roots that these show. It is asked of precomputed
/// summaries. A summary with a limit of the whole link agrees with any module.
pub fn agrees(bytes: &[u8], summary: &ModuleSummary) -> bool {
    summary.limits.iter().any(|record| record.limit.severity() == Severity::Link)
        || if bitcode::is_bitcode(bytes) {
            bitcode::agrees(bytes, summary)
        } else {
            native::agrees(bytes, summary)
        }
}

/// [`extract`], with an executor for the pieces of a large module. The summary does not depend on it.
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
    let detail = "neither an ELF object nor LLVM bitcode".to_owned();
    let bytes = bytes.len() as u64;
    summary.limits.push(LimitRecord { bytes, ..LimitRecord::new(Limit::UnreadableInput, detail) });
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
