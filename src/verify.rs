//! The pass verify: emitted objects and the linked output are read again and compared with the plan.
//!
//! It decides whether the pruned link may be published. Its parser of objects (goblin) is not that of emission, so a
//! misreading there is not repeated here. From emission it takes only the fates of bitcode values and the text of a
//! stub, and both share the reader of bitcode. It compares each emitted object with its original by section and
//! relocation ([`object`]), the emitted objects with each other ([`closure`]), and checks the output ([`output`]).
//!
//! Every table is checked against the file before goblin reads it. The plan itself is taken as right.

mod addresses;
mod bitcode;
mod closure;
mod debug;
mod debug_entries;
mod elf;
mod lsda;
mod object;
mod output;
mod output_frames;
mod pair;
mod part_relocations;
mod parts;
mod relocations;
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
