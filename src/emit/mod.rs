//! The pass emit: the plan is applied to the bytes of a module, and archives are written.
//!
//! Emission only carries out the [`ModulePlan`](crate::plan::ModulePlan). A plan that leaves a reference without a
//! definition is an error. Unmodified modules are passed through. [`tree`] writes the files for the linker, and
//! [`link_line`] the words that name them.
//!
//! [`bitcode`] rewrites LLVM bitcode, and [`object::rewrite`] a native module. A native module has a disposition for
//! each section ([`sections`]), symbol ([`symbols`]) and relocation ([`relocations`]), by old index. The new numbers
//! are computed once, just before writing.

pub mod ahead;
pub mod archive;
pub mod bitcode;
pub mod cached;
mod cursor;
mod debug;
mod debug_frame;
mod input;
mod link_line;
pub mod object;
mod parts;
mod relocations;
mod sections;
mod strings;
mod stubs;
mod symbols;
mod tables;
pub mod tree;
#[cfg(test)]
mod tests;
mod unwind;
mod write;

pub use debug::ExplicitDebug;
pub(crate) use stubs::is_stub;
