//! The bitcode front end: from LLVM bitcode (LLVM 14 to 22) to its summary, without LLVM.
//!
//! The layers are bits ([`cursor`]), blocks and records ([`stream`]), the meaning of records ([`module`], [`index`], [`symtab`]), the
//! file ([`mod@file`]), the linker's view ([`symbols`]), and the summary ([`lower`]). Functions and initializers are read by
//! [`ir`] and analysed by [`flow`]. Time and memory are linear in the number of bytes. Malformed bytes are an error with a position,
//! unknown records are limits.

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

/// Whether the summary has the values, symbols and groups of the bitcode; its functions are not read.
pub(crate) fn agrees(bytes: &[u8], summary: &ModuleSummary) -> bool {
    summary.kind == ModuleKind::Bitcode && file::read(bytes).is_ok_and(|file| lower::agrees(&file, summary))
}

/// [`extract_at`], with an executor for the pieces of a large module.
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
            let record = LimitRecord::new(Limit::MalformedObject, format!("LLVM bitcode: {error}"));
            summary.limits.push(LimitRecord { bytes: bytes.len() as u64, ..record });
            summary
        }
    }
}
