//! The fates of bitcode values, and the reasons why bitcode is not rewritten.
//!
//! Everything but [`RewriteError::Refers`] is known from a [`Survey`](super::Survey) before anything is written.

use summaries::bitcode::error::BitcodeError;
use summaries::bitcode::symbols::ValueAt;

/// A reason why a whole file is passed through.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unsupported {
    #[error("{0} is not known")]
    Unknown(String),
    #[error("{0} is not where LLVM writes it")]
    Place(&'static str),
    #[error("it would be too large")]
    Size,
}

/// A reason why a value can't be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    #[error("there is no such value")]
    NoValue,
    #[error("its name or linkage has a meaning to LLVM")]
    Special,
    #[error("it is no function with a body")]
    NoBody,
    #[error("the address of a block of its body is taken")]
    BlockAddress,
    #[error("its compiler is older than LLVM 14")]
    OldProducer,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RewriteError {
    #[error("malformed bitcode: {0}")]
    Malformed(#[from] BitcodeError),
    #[error("bitcode that can't be rewritten: {0}")]
    Unsupported(#[from] Unsupported),
    #[error("value {} of module {} can't be changed: {why}", at.value, at.module)]
    Value { at: ValueAt, why: Obstacle },
    #[error("value {} of module {}, which is kept, refers to value {to}, which is dropped", from.value, from.module)]
    Refers { from: ValueAt, to: u32 },
}

/// The fate of a global value under the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueFate {
    Keep,
    /// It is dropped. Only dropped values may refer to it.
    Drop,
    /// A function with a body becomes a stub, which traps if it is called.
    Stub,
}
