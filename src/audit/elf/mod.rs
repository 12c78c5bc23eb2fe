//! Audits of ELF files without a report: each byte of an executable, a shared library, an object or an archive has an owner by
//! symbols, unwind entries, relocations and references, or is named by its section.
//!
//! The answer is a [`Model`] as a report makes one, without a graph of what keeps what.

mod build;
mod coverage;
mod definitions;
mod duplicates;
mod file;
mod owners;
mod pointers;
mod references;
mod tables;
mod units;
mod unwind;

pub(super) use build::{is_auditable, read};
