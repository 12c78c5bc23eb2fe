//! Tests of the crate from outside: objects by real compilers, hostile bytes, and the two written forms.
#![allow(clippy::unwrap_used, clippy::panic)]

mod bitcode;
mod cfl;
mod choices;
mod closed;
mod compilers;
mod data;
mod divisible;
mod flow;
mod flow_corners;
mod flow_parts;
mod forms;
mod functions;
mod hostile;
mod native;
mod peculiar;
mod refusals;
mod significance;
mod survey;
