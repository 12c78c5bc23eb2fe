//! Numbers of values and types in LLVM's IR, as bitcode counts them.
//!
//! A number says nothing without its module. Left out: what it stands for.

/// The number of a value, within a module or one of its bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueId(pub u32);

/// The number of a type, within a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TypeId(pub u32);
