//! Audits of executables, shared libraries, objects and archives without a report.
//!
//! Symbols, unwind entries, relocations and references say which function or object a byte belongs to. Other bytes go by their section. The result
//! is a [`Model`] without the liveness graph that a report has.

mod build;
mod called;
mod coverage;
mod definitions;
mod duplicates;
mod file;
mod owners;
mod pointers;
mod references;
mod rows;
mod stack;
mod tables;
mod units;
mod unwind;

pub(super) use build::{is_auditable, read};
pub(super) use stack::{FunctionTarget, StackFile};
