//! Audits of executables, shared libraries, objects and archives without a report.
//!
//! Symbols, unwind entries, relocations and references tell the owner of a byte, a function or object. Other bytes belong to their section.
//! The result is a [`Model`] without the liveness graph that a report has.

mod build;
mod coverage;
mod definitions;
mod file;
mod owners;
mod pointers;
mod stack;
mod units;
mod unwind;

pub(super) use build::{is_auditable, read};
pub(super) use stack::{FunctionTarget, StackFile};
