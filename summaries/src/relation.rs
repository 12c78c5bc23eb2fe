//! The words of value flow: interface values, external relations and attributes, call sites.
//!
//! They are those of LLVM's `AliasAnalysisSummary.h`, extended by what machine code needs (call sites and
//! global memory as interface values). A [`FunctionSummary`] is what an outsider can see of a function once
//! its inner assignments are closed. No front end computes one at section granularity; the types stand here
//! because the serialised form and its text have them.

use serde::{Deserialize, Serialize};

use crate::ids::{AtomIdx, SymbolIdx};
use crate::limit::Limit;

/// What an interface value is the value of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum InterfaceIndex {
    /// The return value: LLVM's index 0.
    Return,
    /// A parameter, from 1.
    Parameter(u32),
    /// A symbol's memory.
    Global(SymbolIdx),
    /// Actual `n` (from 1) of a call site of this function.
    Actual { site: u32, n: u32 },
    /// The result of a call site of this function.
    Result { site: u32 },
}

/// A value that crosses the border of a function, dereferenced `deref_level` times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct InterfaceValue {
    pub index: InterfaceIndex,
    pub deref_level: u32,
}

/// `from` may flow to `to`, displaced by `offset` bytes; `None` is LLVM's `UnknownOffset`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ExternalRelation {
    pub from: InterfaceValue,
    pub to: InterfaceValue,
    pub offset: Option<i64>,
}

/// What is known of where an interface value comes from or goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ExternalAttribute {
    Unknown,
    Global,
    Caller,
    Escaped,
    Argument,
}

/// What a call site calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Callee {
    Direct(SymbolIdx),
    Indirect(InterfaceValue),
}

/// A call in a function; its position in [`FunctionSummary::call_sites`] is its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CallSite {
    /// In bytes, from the start of the atom.
    pub offset: u64,
    pub callee: Callee,
}

/// What an outsider can see of a function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionSummary {
    pub atom: AtomIdx,
    pub relations: Vec<ExternalRelation>,
    pub attributes: Vec<(InterfaceValue, ExternalAttribute)>,
    pub call_sites: Vec<CallSite>,
    pub limits: Vec<Limit>,
}
