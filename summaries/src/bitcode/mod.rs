//! The bitcode front end: from LLVM bitcode (LLVM 14 to 22) to its summary, without LLVM.
//!
//! Layers, each ignorant of the next: bits ([`cursor`]), blocks and records ([`stream`]), what records mean ([`module`],
//! [`index`], [`symtab`]), the file ([`mod@file`]), what a linker sees ([`symbols`]), the summary ([`lower`]);
//! beside them what functions and initializers are made of ([`ir`]) and what they do with addresses ([`flow`]). Any bytes are read in time and memory linear in their
//! number; bytes that LLVM does not write are an error with a place, records that are not known are limits.

mod abbreviation;
pub mod codes;
pub mod container;
mod cursor;
pub mod error;
pub mod file;
mod flow;
pub mod guid;
pub mod hidden;
pub mod index;
pub mod ir;
pub mod linkage;
mod lower;
pub mod module;
pub mod stream;
pub mod symbols;
pub mod symtab;

use crate::limit::{Limit, LimitRecord};
use crate::parallel::{ParallelMap, in_order};
use crate::summary::{Granularity, ModuleKind, ModuleSummary};

pub use container::{embedded, fat, is_bitcode};
pub use file::read;
pub use flow::LocalValues;
pub use lower::{Numbering, local_values, numbering};

/// Summarise bitcode, raw or wrapped. Total, as every front end is.
pub fn extract_at(bytes: &[u8], granularity: Granularity) -> ModuleSummary {
    extract_by(bytes, granularity, &in_order)
}

/// Whether the summary says of values, symbols and groups what the bitcode says; its functions are not read.
pub(crate) fn agrees(bytes: &[u8], summary: &ModuleSummary) -> bool {
    summary.kind == ModuleKind::Bitcode && file::read(bytes).is_ok_and(|file| lower::agrees(&file, summary))
}

/// [`extract_at`], with what runs the pieces of a large module.
pub(crate) fn extract_by(
    bytes: &[u8],
    granularity: Granularity,
    parallel_map: ParallelMap<'_>,
) -> ModuleSummary {
    match file::read(bytes) {
        Ok(file) => lower::lower(bytes, &file, granularity, parallel_map),
        Err(error) => {
            let mut summary = ModuleSummary::opaque();
            summary.kind = ModuleKind::Bitcode;
            summary.granularity = granularity;
            summary.limits.push(LimitRecord {
                limit: Limit::MalformedObject,
                section: None,
                offset: None,
                bytes: bytes.len() as u64,
                detail: format!("LLVM bitcode: {error}"),
            });
            summary
        }
    }
}
