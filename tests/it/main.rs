//! The integration tests: one binary, since each further one would link the whole crate again.
//!
//! Most of it is fixtures (`fixtures/README.md` has the directive language): sources that are linked plainly and
//! pruned, by every compiler, linker and mode that their directives name, and must behave the same. The other
//! modules test what one link can't show: compiler drivers and build systems, determinism, agreement with the
//! linkers' own archive extraction, hostile inputs, interruption, and the invariants of the tree itself.
//!
//! `LTO_PRUNE_BIN` puts another build (a release one, say) under test; `tests/before.sh` one of an earlier commit. A test that fails leaves its directory in
//! place and prints the commands that led there.

#![allow(clippy::unwrap_used, clippy::panic)]

mod actions;
mod adoption;
mod advise;
mod answers;
mod audit;
mod audit_calls;
mod audit_elf;
mod audit_graph;
mod audit_imports;
mod audit_names;
mod audit_page;
mod audit_reach;
mod audit_stack;
mod bisect;
mod bitcode;
mod cache;
mod call_sites;
mod called_values;
mod compare;
mod completions;
mod debug_entries;
mod debuginfo;
mod determinism;
mod drivers;
mod elf;
mod errors;
mod extraction;
mod folding;
mod forge;
mod gate;
mod hostile;
mod hostile_names;
mod reports;
mod linker_gc;
mod messages;
mod models;
mod options;
mod outputs;
mod recipes;
mod remarks;
mod relocatable;
mod rewriting;
mod run;
mod shadow;
mod shims;
mod splitting;
mod statistics;
mod stubs;
mod cycles;
mod tidy;
mod tools;
mod trust;
mod unwind_calls;
mod unwind_debuggers;
mod unwind_entries;
mod unwinding;
mod vtables;
mod worth;
#[allow(dead_code, reason = "bench uses the rest")]
#[path = "../../bench/src/facts.rs"]
mod facts;
#[allow(dead_code, reason = "bench uses the rest")]
#[path = "../../bench/src/texts.rs"]
mod texts;
