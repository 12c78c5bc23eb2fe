//! The fate of a global value of bitcode.

/// The fate of a global value under the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueFate {
    Keep,
    /// It is dropped. Only dropped values may refer to it.
    Drop,
    /// A function with a body becomes a stub, which traps if it is called.
    Stub,
}
