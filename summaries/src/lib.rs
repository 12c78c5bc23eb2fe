//! Module summaries: what is known of one translation unit without the others.
//!
//! This crate decides what an object *says*: its symbols, its atoms, the references between them and, for
//! each thing that it could not understand, a named [`Limit`]. It is pure: no I/O, no threads, no paths; a
//! front end is a total function from bytes to a [`ModuleSummary`] and never fails.
//!
//! Left out: which definition prevails, what is live, what is emitted. Those need the other modules.

// The pages are for those who read the code, too.
#![allow(rustdoc::private_intra_doc_links)]

pub mod bitcode;
mod byte_string;
pub mod cfl;
pub mod check;
mod exposure;
pub mod extract;
pub mod format;
pub mod ids;
pub mod limit;
mod mapping;
pub mod models;
pub mod native;
mod parallel;
pub mod registers;
pub mod relation;
pub mod summary;
pub mod text;

pub use check::CheckError;
pub use ids::{AtomIdx, GroupIdx, NameRef, SymbolIdx, ValueIdx};
pub use limit::{Limit, LimitRecord, Severity};
pub use mapping::{maps_memory, note_in_data};
pub use summary::*;
