//! The bit reader of LLVM's bitstream: fixed and variable width numbers, and alignment.
//!
//! Every read is checked against the end of the innermost block, so that a block can't make its reader read beyond it.

use super::error::{BitcodeError, BitcodeErrorKind, Result};

/// A position in a bitstream, with the end that reads may not pass.
#[derive(Debug, Clone)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    /// In bits, from the start of `bytes`.
    at: u64,
    /// It is a number of bits.
    end: u64,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Cursor { bytes, at: 0, end: (bytes.len() as u64).saturating_mul(8) }
    }

    pub(super) fn at(&self) -> u64 {
        self.at
    }

    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// The number of bits before the end.
    pub(super) fn left(&self) -> u64 {
        self.end.saturating_sub(self.at)
    }

    pub(super) fn error(&self, kind: BitcodeErrorKind) -> BitcodeError {
        BitcodeError { at: self.at, kind }
    }

    /// Restrict or widen the readable bits; never beyond the bytes.
    pub(super) fn set_end(&mut self, end: u64) {
        self.end = end.min((self.bytes.len() as u64).saturating_mul(8));
    }

    /// Set the position; reads beyond the end fail.
    pub(super) fn seek(&mut self, at: u64) {
        self.at = at;
    }

    /// A number of `width` bits, at most 64.
    #[inline]
    pub(super) fn fixed(&mut self, width: u32) -> Result<u64> {
        if u64::from(width) > self.left() {
            return Err(self.error(BitcodeErrorKind::Truncated));
        }
        if width == 0 {
            return Ok(0);
        }
        let byte = (self.at / 8) as usize;
        let shift = (self.at % 8) as u32;
        let tail = self.bytes.get(byte..).unwrap_or_default();
        let low = match tail.first_chunk::<8>() {
            Some(word) => u64::from_le_bytes(*word),
            None => tail.iter().rev().fold(0u64, |value, b| value << 8 | u64::from(*b)),
        };
        let mut value = low >> shift;
        if shift + width > 64 {
            // Then shift is at least 1, and the ninth byte is within the end.
            let high = u64::from(tail.get(8).copied().unwrap_or_default());
            value |= high << (64 - shift);
        }
        if width < 64 {
            value &= (1u64 << width) - 1;
        }
        self.at += u64::from(width);
        Ok(value)
    }

    /// A variable-width number in chunks of `width` bits (2 to 32).
    #[inline]
    pub(super) fn vbr(&mut self, width: u32) -> Result<u64> {
        let more = 1u64 << (width - 1);
        let mut value = 0u64;
        let mut shift = 0u32;
        loop {
            let chunk = self.fixed(width)?;
            let bits = chunk & (more - 1);
            if bits != 0 && (shift >= 64 || bits.leading_zeros() < shift) {
                return Err(self.error(BitcodeErrorKind::LongNumber));
            }
            if shift < 64 {
                value |= bits << shift;
            }
            if chunk & more == 0 {
                return Ok(value);
            }
            shift = shift.saturating_add(width - 1);
        }
    }

    /// Advance to the next multiple of 32 bits.
    pub(super) fn align32(&mut self) -> Result<()> {
        let aligned = self.at.next_multiple_of(32);
        if aligned > self.end {
            return Err(self.error(BitcodeErrorKind::Truncated));
        }
        self.at = aligned;
        Ok(())
    }

    /// The next `length` bytes, which begin at a multiple of 32 bits.
    pub(super) fn bytes(&mut self, length: u64) -> Result<&'a [u8]> {
        let bits = length.checked_mul(8).filter(|bits| *bits <= self.left());
        let bits = bits.ok_or_else(|| self.error(BitcodeErrorKind::Truncated))?;
        let start = (self.at / 8) as usize;
        let found = self.bytes.get(start..start + length as usize);
        self.at += bits;
        found.ok_or_else(|| self.error(BitcodeErrorKind::Truncated))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind<T>(result: Result<T>) -> Option<BitcodeErrorKind> {
        result.err().map(|e| e.kind)
    }

    #[test]
    fn numbers_of_every_width_and_place() {
        let bytes: Vec<u8> = (0..64u32).map(|i| (i * 37 + 11) as u8).collect();
        let bit = |at: u64| u64::from(bytes[(at / 8) as usize] >> (at % 8) & 1);
        for start in 0..40u64 {
            for width in 0..=64u32 {
                let mut cursor = Cursor::new(&bytes);
                cursor.seek(start);
                let want = (0..u64::from(width)).fold(0, |v, i| v | bit(start + i) << i);
                assert_eq!(cursor.fixed(width), Ok(want), "{width} bits at {start}");
                assert_eq!(cursor.at(), start + u64::from(width));
            }
        }
    }

    #[test]
    fn ends_are_held() {
        let bytes = [0xffu8; 9];
        let mut cursor = Cursor::new(&bytes);
        cursor.seek(7);
        assert_eq!(cursor.fixed(64), Ok(u64::MAX));
        assert_eq!(kind(cursor.fixed(2)), Some(BitcodeErrorKind::Truncated));
        cursor.seek(0);
        cursor.set_end(10);
        assert_eq!(kind(cursor.fixed(11)), Some(BitcodeErrorKind::Truncated));
        cursor.seek(1);
        assert_eq!(kind(cursor.align32()), Some(BitcodeErrorKind::Truncated));
        assert_eq!(kind(cursor.bytes(2)), Some(BitcodeErrorKind::Truncated));
    }

    #[test]
    fn variable_widths() {
        // 0b1_101, 0b0_001 in chunks of 4: 0b001_101.
        let mut cursor = Cursor::new(&[0b0001_1101]);
        assert_eq!(cursor.vbr(4), Ok(0b1101));
        // Ones without end: too long for 64 bits.
        let mut cursor = Cursor::new(&[0xff; 64]);
        assert_eq!(kind(cursor.vbr(6)), Some(BitcodeErrorKind::LongNumber));
        // u64::MAX in chunks of 6, and one bit more.
        let chunks = |last: u8| {
            let mut bits = Vec::new();
            for i in 0..13u8 {
                let chunk = if i == 12 { last } else { 0b11_1111 };
                bits.extend((0..6).map(|b| chunk >> b & 1));
            }
            bits.chunks(8).map(|c| c.iter().rev().fold(0u8, |v, b| v << 1 | b)).collect::<Vec<u8>>()
        };
        assert_eq!(Cursor::new(&chunks(0b1111)).vbr(6), Ok(u64::MAX));
        assert_eq!(kind(Cursor::new(&chunks(0b1_1111)).vbr(6)), Some(BitcodeErrorKind::LongNumber));
    }
}
