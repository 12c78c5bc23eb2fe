//! What becomes of a global value of bitcode: the plan's decision, by value and not by atom.
//!
//! Left out: who decides it ([`apply`](super::apply())), and what stands for a dropped value (`values`).

/// What is done with a global value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueFate {
    Keep,
    /// It is gone: a definition, a declaration, an alias, anything. Only what is dropped may refer to it.
    Drop,
    /// A function with a body becomes a stub: it is there, and traps if it is called.
    Stub,
}
