//! The text form of a summary: printed by `lto-prune dump`, and written in tests of the index and the solver.
//!
//! There is one entry a line, in table order; indentation means nothing and `;` starts a comment. Entries are referred to by a unique name
//! of the module, or else by number (`#3`):
//!
//! ```text
//! module native
//! symbol ""                                        ; entry 0, the null symbol
//! symbol main global func in [.text.main] size 0x10
//! symbol helper global                             ; undefined
//! group sig comdat section 4                       ; sig is a symbol
//! atom .text.main code section 1 size 0x10 align 16 flags exec,standard
//!   call @0x4 helper -4
//!   address @0x8 [.rodata] +0
//! atom .rodata rodata section 2 size 8 group sig
//! retarget section 2 @0x8 [.text.main]
//! function [.text.main] values 2
//!   param rdi %0
//!   %1 = load %0 +8 size 8
//!   site section 1 @0x4 direct helper +0 actual rdi %1
//! limit unknown-section-type section 9 bytes 24 "what was found"
//! ```
//!
//! For a summary that passes [`ModuleSummary::check`](crate::ModuleSummary::check), `parse(&dump(x))` is `x.with_canonical_names()`.
//! Unused bytes of the table of names are not printed. docs/SUMMARY_FORMAT.md has the grammar.

mod cursor;
mod dump;
mod lex;
mod parse;
mod words;

pub use dump::dump;
pub use parse::{TextError, parse};
