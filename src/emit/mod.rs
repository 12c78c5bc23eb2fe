//! The pass emit: a plan applied to the bytes of a module, and archives written.
//!
//! Emission decides nothing: what goes stands in the [`ModulePlan`](crate::plan::ModulePlan), and a plan that
//! would leave a reference without a definition is an error here, never a guess. A module from which nothing
//! goes is not rewritten at all; its bytes are passed on. [`tree`] writes the files that the linker gets, and [`link_line`] the words that name them.
//!
//! LLVM bitcode is rewritten by [`bitcode`]. [`object::rewrite`] is the list of the steps for one native module. They work on one model: sections by their old
//! index with a disposition each ([`sections`]), symbols by their old index with a disposition each ([`symbols`]), and the
//! relocations that tie them ([`relocations`]); the new numbering is computed once, just before writing.

pub mod ahead;
pub mod archive;
pub mod bitcode;
pub mod cached;
mod copy_names;
mod debug;
mod debug_frame;
mod input;
pub mod keep;
mod link_line;
pub mod object;
mod overlay;
mod parts;
mod relocation_action;
mod relocations;
mod sections;
mod strings;
mod stub_table;
mod stub_code;
mod symbol_table;
mod symbols;
mod tables;
pub mod tree;
#[cfg(test)]
mod tests;
mod unwind;
mod write;

pub use copy_names::CopyNames;
pub use debug::ExplicitDebug;
pub(crate) use stub_code::is_stub;
