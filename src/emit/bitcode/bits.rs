//! A writer of LLVM's bitstream: numbers of fixed and variable width, blocks, unabbreviated records, and copied bits.
//!
//! Numbers are little-endian in words of 32 bits, as in LLVM's `BitstreamWriter`.

use summaries::bitcode::codes::abbreviation as id;

#[derive(Debug, Default)]
pub(super) struct Bits {
    bytes: Vec<u8>,
    /// The bits of an incomplete byte, the first lowest.
    rest: u64,
    /// The number of these bits, less than 8.
    filled: u32,
}

/// An open block, with the place of its length in bytes.
#[derive(Debug)]
#[must_use]
pub(super) struct OpenBlock {
    length_at: usize,
    width: u32,
}

impl OpenBlock {
    /// The width of abbreviation ids in the block, in bits.
    pub(super) fn width(&self) -> u32 {
        self.width
    }
}

impl Bits {
    pub(super) fn at(&self) -> u64 {
        self.bytes.len() as u64 * 8 + u64::from(self.filled)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bits of the incomplete byte behind [`Bits::bytes`], and above them their number.
    pub(super) fn rest(&self) -> u64 {
        self.rest | u64::from(self.filled) << 8
    }

    /// The lowest `width` bits (at most 56) of `value`.
    fn few(&mut self, value: u64, width: u32) {
        self.rest |= (value & ((1u64 << width) - 1)) << self.filled;
        self.filled += width;
        while self.filled >= 8 {
            self.bytes.push(self.rest as u8);
            self.rest >>= 8;
            self.filled -= 8;
        }
    }

    /// A number of `width` bits, at most 64.
    pub(super) fn fixed(&mut self, value: u64, width: u32) {
        self.few(value, width.min(32));
        if width > 32 {
            self.few(value >> 32, width - 32);
        }
    }

    /// A number in chunks of `width` bits (2 to 32).
    pub(super) fn vbr(&mut self, mut value: u64, width: u32) {
        let more = 1u64 << (width - 1);
        while value >= more {
            self.fixed(value & (more - 1) | more, width);
            value >>= width - 1;
        }
        self.fixed(value, width);
    }

    /// Zeros up to a multiple of 32 bits.
    pub(super) fn align32(&mut self) {
        while !self.at().is_multiple_of(32) {
            self.few(0, 1);
        }
    }

    /// Copy the bits `from..to` of `source`. Bits behind its end are zeros.
    pub(super) fn copy(&mut self, source: &[u8], from: u64, to: u64) {
        let mut at = from;
        if at.is_multiple_of(8) && self.filled == 0 {
            let whole = source.get((at / 8) as usize..(to / 8) as usize).unwrap_or_default();
            self.bytes.extend_from_slice(whole);
            at += whole.len() as u64 * 8;
        }
        while at < to {
            let width = (to - at).min(8 - at % 8) as u32;
            let byte = source.get((at / 8) as usize).copied().unwrap_or_default();
            self.few(u64::from(byte) >> (at % 8), width);
            at += u64::from(width);
        }
    }

    /// Begin a block. The abbreviation ids of the outer block have `outer` bits, and its own `width`.
    pub(super) fn enter(&mut self, outer: u32, block: u32, width: u32) -> OpenBlock {
        self.fixed(id::ENTER_SUBBLOCK, outer);
        self.vbr(u64::from(block), 8);
        self.vbr(u64::from(width), 4);
        self.align32();
        let length_at = self.bytes.len();
        self.fixed(0, 32);
        OpenBlock { length_at, width }
    }

    /// End a block; `false` if it is too long.
    #[must_use]
    pub(super) fn leave(&mut self, open: &OpenBlock) -> bool {
        self.fixed(id::END_BLOCK, open.width);
        self.align32();
        self.set_length(open)
    }

    /// Write the length of a block that ends here; `false` if it is too long.
    #[must_use]
    pub(super) fn set_length(&mut self, open: &OpenBlock) -> bool {
        let words = (self.bytes.len() - open.length_at - 4) / 4;
        u32::try_from(words).is_ok_and(|words| self.patch(open.length_at as u64 * 8, words))
    }

    /// A record without an abbreviation, in a block whose abbreviation ids have `width` bits.
    pub(super) fn record(&mut self, width: u32, code: u32, operands: &[u64]) {
        self.fixed(id::UNABBREVIATED, width);
        self.vbr(u64::from(code), 6);
        self.vbr(operands.len() as u64, 6);
        for operand in operands {
            self.vbr(*operand, 6);
        }
    }

    /// Write `word` over the 32 bits at `at`, all in complete bytes; `false` if there are too few.
    #[must_use]
    pub(super) fn patch(&mut self, at: u64, word: u32) -> bool {
        let start = (at / 8) as usize;
        let shift = at % 8;
        let length = if shift == 0 { 4 } else { 5 };
        let Some(field) = self.bytes.get_mut(start..start + length) else { return false };
        let mask = u64::from(u32::MAX) << shift;
        let old = field.iter().rev().fold(0u64, |v, b| v << 8 | u64::from(*b));
        let new = old & !mask | u64::from(word) << shift;
        for (byte, value) in field.iter_mut().zip(new.to_le_bytes()) {
            *byte = value;
        }
        true
    }

    /// The output, padded with zeros to a multiple of 32 bits.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.align32();
        self.bytes
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use summaries::bitcode::stream::{Event, Stream};

    #[test]
    fn what_is_written_is_read() {
        let numbers = [0, 1, 31, 32, 33, 1 << 31, u64::from(u32::MAX), u64::MAX];
        for shift in 0..9 {
            let mut bits = Bits::default();
            bits.fixed(0xdec0_4342, 32);
            let outer = bits.enter(2, 8, 3 + shift);
            bits.record(3 + shift, 70, &numbers);
            let inner = bits.enter(3 + shift, 300, 5);
            bits.record(5, 1, &[shift.into()]);
            assert!(bits.leave(&inner) && bits.leave(&outer));
            let bytes = bits.finish();
            let mut stream = Stream::new(&bytes).unwrap();
            assert_eq!(stream.next().unwrap(), Event::Enter(8));
            assert_eq!(stream.next().unwrap(), Event::Record(70));
            assert_eq!(stream.operands(), numbers);
            assert_eq!(stream.next().unwrap(), Event::Enter(300));
            assert_eq!(stream.next().unwrap(), Event::Record(1));
            assert_eq!(stream.operands(), [u64::from(shift)]);
            assert_eq!(
                [stream.next(), stream.next(), stream.next()].map(Result::unwrap),
                [Event::Leave, Event::Leave, Event::End]
            );
        }
    }

    #[test]
    fn copies_and_patches_at_every_place() {
        let source: Vec<u8> = (0..40u8).map(|i| i.wrapping_mul(37) ^ 0x5a).collect();
        let bit = |bytes: &[u8], at: u64| bytes[(at / 8) as usize] >> (at % 8) & 1;
        for before in 0..9 {
            for from in 0..9 {
                let mut bits = Bits::default();
                bits.fixed(0, before);
                bits.copy(&source, from, from + 211);
                assert_eq!(bits.at(), u64::from(before) + 211);
                assert!(bits.patch(u64::from(before) + 40, 0x9abc_def1));
                let out = bits.finish();
                for i in 0..211 {
                    let want = match i {
                        40..72 => (0x9abc_def1u32 >> (i - 40) & 1) as u8,
                        _ => bit(&source, from + i),
                    };
                    assert_eq!(bit(&out, u64::from(before) + i), want, "{before} {from} {i}");
                }
            }
        }
    }
}
