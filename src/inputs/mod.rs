//! The pass load: the files of the link, opened, mapped, recognised, in the order of the command line.
//!
//! After this pass no file is added to the link. An archive member is a module of its own, identified by path
//! and offset because member names repeat. An unreadable input becomes a limit, and the linker prints the message.

pub mod archive;
pub mod dso;
mod files;
pub mod glob;
mod implicit_dsos;
pub mod interface;
mod load;
pub mod mapped;
pub mod recognise;
pub mod scripts;
mod search;

pub use files::{Dso, DsoSymbol, FileKind, InputFile, Inputs, Module, NeededDso, SequenceItem, SymbolType};
pub use load::load;
