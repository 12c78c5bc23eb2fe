//! Abbreviations: the encodings of a record's operands.
//!
//! As in LLVM's reader (LLVM, "LLVM Bitcode File Format", Abbreviation Records), an array or blob that is not last and elements
//! without a width are errors. So every operand but a literal takes at least one bit, and the caller limits literals.

use super::codes::numbers;
use super::cursor::Cursor;
use super::error::{BitcodeErrorKind, Result};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AbbreviationOperand {
    /// The value is always this and takes no bits.
    Literal(u64),
    /// That many bits, 1 to 64.
    Fixed(u32),
    /// In chunks of that many bits, 2 to 32.
    Vbr(u32),
    /// A length, then elements as the next operand says.
    Array,
    /// Six bits for one of 64 characters.
    Char6,
    /// A length comes first and then the bytes.
    Blob,
}

numbers! {
    /// Encodings of abbreviation operands, numbered as in the bitstream format.
    pub(super) mod encoding: u64 {
        FIXED = 1, VBR = 2, ARRAY = 3, CHAR6 = 4, BLOB = 5,
    }
}

/// A record's operands, code included, at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Abbreviation {
    pub(super) operands: Box<[AbbreviationOperand]>,
}

impl Abbreviation {
    /// Read a definition, after its abbreviation id.
    pub(super) fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let count = cursor.vbr(5)?;
        let mut operands: Vec<AbbreviationOperand> = Vec::new();
        // Each takes bits, so a count that is too large ends with the stream.
        for _ in 0..count {
            operands.push(Self::operand(cursor)?);
        }
        let bad = || cursor.error(BitcodeErrorKind::BadAbbreviation);
        for (i, operand) in operands.iter().enumerate() {
            let left = operands.len() - i - 1;
            let element = operands.get(i + 1);
            match operand {
                AbbreviationOperand::Array => {
                    let scalar = matches!(
                        element,
                        Some(
                            AbbreviationOperand::Fixed(_)
                                | AbbreviationOperand::Vbr(_)
                                | AbbreviationOperand::Char6
                        )
                    );
                    // The first operand is the code: it may not be a list.
                    if left != 1 || !scalar || i == 0 {
                        return Err(bad());
                    }
                }
                AbbreviationOperand::Blob if left != 0 || i == 0 => return Err(bad()),
                _ => {}
            }
        }
        if operands.is_empty() {
            return Err(bad());
        }
        Ok(Abbreviation { operands: operands.into_boxed_slice() })
    }

    fn operand(cursor: &mut Cursor<'_>) -> Result<AbbreviationOperand> {
        if cursor.fixed(1)? == 1 {
            return Ok(AbbreviationOperand::Literal(cursor.vbr(8)?));
        }
        let encoding = cursor.fixed(3)?;
        Ok(match encoding {
            encoding::FIXED | encoding::VBR => {
                let width = cursor.vbr(5)?;
                match (encoding, width) {
                    // LLVM reads a field without bits as the literal 0.
                    (_, 0) => AbbreviationOperand::Literal(0),
                    (encoding::FIXED, 1..=64) => AbbreviationOperand::Fixed(width as u32),
                    (encoding::VBR, 2..=32) => AbbreviationOperand::Vbr(width as u32),
                    _ => return Err(cursor.error(BitcodeErrorKind::BadAbbreviation)),
                }
            }
            encoding::ARRAY => AbbreviationOperand::Array,
            encoding::CHAR6 => AbbreviationOperand::Char6,
            encoding::BLOB => AbbreviationOperand::Blob,
            _ => return Err(cursor.error(BitcodeErrorKind::BadAbbreviation)),
        })
    }
}

pub(super) fn char6(value: u64) -> u64 {
    const CHARACTERS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._";
    u64::from(CHARACTERS.get(value as usize).copied().unwrap_or_default())
}
