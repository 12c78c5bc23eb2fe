//! Tests of the crate from outside: objects by real compilers, hostile bytes, and the two written forms.
#![allow(clippy::unwrap_used, clippy::panic)]

mod bitcode;
mod cfl;
mod compilers;
mod data;
mod divisible;
mod flow;
mod flow_memory;
mod flow_parts;
mod round_trip;
mod functions;
mod hostile;
mod native;
mod handwritten_objects;
mod refusals;
mod significance;
#[allow(dead_code, reason = "bench uses the rest")]
#[path = "../../../bench/src/texts.rs"]
mod texts;
