//! Module summaries: the facts about one translation unit, without the others.
//!
//! A front end maps the bytes of an object to its symbols, its atoms, the references between them and a named [`Limit`] for
//! everything that it does not understand. It never fails. The crate does no I/O and starts no thread. Resolution, liveness and
//! emission need the other modules and are elsewhere.

// Readers of the code use the pages too.
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
