//! Bitcode of three LLVMs, held against what LLVM's own tools say of it.
//!
//! `corpus` makes it: by clang 19 in every form that reaches a linker, by rustc (LLVM 22) and its standard library, by LLVM 14. Where the tools of a version are missing
//! the test fails: there is nothing to hold the reader against.

mod aliases;
mod corpus;
mod dis;
mod dump;
mod flow;
mod flow_rules;
mod hostile;
mod ir;
mod lowered;
mod values;
