//! Tests on objects of real compilers: pruned by a small planner, verified, linked and run.

#![allow(clippy::unwrap_used, clippy::panic)]

mod addrsig;
mod elf_format;
mod debug;
mod planner;
mod random;
mod split;
mod stub;
mod tools;
