//! The pass verify: what was emitted and what was linked, read again and held against the plan.
//!
//! Decides whether the pruned link may be published. It shares no parser of objects with emission (goblin reads here; of bitcode there is but one reader), so that
//! a misreading there is not repeated here. Of emission it takes nothing but what LLVM bitcode needs: the fate of each value and the text of a stub. It
//! compares each emitted object with its original section by section and relocation by relocation
//! ([`object`]), the emitted objects with each other ([`closure`]), and looks at the output ([`output`]).
//!
//! Safe on any bytes: every table is checked against the file before goblin reads it. Left out: whether
//! the plan itself was right.

mod addresses;
mod bitcode;
mod closure;
mod debug;
mod debug_entries;
mod elf;
mod groups;
mod lsda;
mod object;
mod output;
mod output_frames;
mod pair;
mod part_relocations;
mod parts;
mod relocations;
mod stubs;
mod symbols;
mod unwind;

pub use self::bitcode::{bitcode, bitcode_facts};
pub use self::closure::{NameHash, SymbolFacts, facts, missing, missing_error};
pub use self::object::object;
pub use self::output::{DynamicSymbols, ExportedSymbol, OutputFacts, OutputType, output};
pub use self::pair::ExpectedObject;
pub use self::parts::ExpectedParts;

#[cfg(test)]
mod tests;
