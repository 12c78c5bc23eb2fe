//! Errors of the bitcode reader, with the position.
//!
//! An error means that the bytes are not what LLVM writes, so that the caller has no facts and keeps the module. Unknown
//! records are no error (see [`super::module`]).

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{kind} (at bit {at} of the bitstream)")]
pub struct BitcodeError {
    /// In bits, from the first byte of the bitstream (of its magic).
    pub at: u64,
    pub kind: BitcodeErrorKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BitcodeErrorKind {
    #[error("no bitcode magic")]
    Magic,
    #[error("the wrapper header points outside the file")]
    Wrapper,
    #[error("the bitstream ends early")]
    Truncated,
    #[error("a variable-width number does not fit 64 bits")]
    LongNumber,
    #[error("an abbreviation id of width {0}")]
    AbbreviationWidth(u64),
    #[error("a block that is longer than what encloses it")]
    BlockTooLong,
    #[error("a block that does not end where its header says")]
    BlockEnd,
    #[error("an abbreviation {0} that was not defined")]
    UnknownAbbreviation(u64),
    #[error("an abbreviation that is not well formed")]
    BadAbbreviation,
    #[error("something other than a block at the top level")]
    TopLevel,
    #[error("block information that is not well formed")]
    BadBlockInfo,
    #[error("a record of more than {0} operands")]
    LongRecord(usize),
    #[error("more operands than the bitstream has bits")]
    TooMuchWork,
    #[error("a record of block {block}, code {code}, that is too short")]
    ShortRecord { block: u32, code: u32 },
    #[error("a name outside the string table")]
    Name,
    #[error("epoch {0}, which nobody writes")]
    Epoch(u64),
    #[error("a symbol table that is not well formed")]
    Symtab,
    #[error("a module of version {0}, whose names are elsewhere")]
    ModuleVersion(u64),
    #[error("no module")]
    NoModule,
}

pub type Result<T> = std::result::Result<T, BitcodeError>;
