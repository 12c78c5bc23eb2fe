//! Bitcode of three versions of LLVM, compared with LLVM's own tools.
//!
//! `corpus` has bitcode of clang 19 in every form that reaches a linker, of rustc (LLVM 22) and its standard library, and of LLVM 14. A test fails if
//! the tools of a version are missing.

mod aliases;
pub(crate) mod corpus;
mod dis;
mod dump;
mod flow;
mod flow_rules;
mod hostile;
mod ir;
mod lowered;
mod values;
