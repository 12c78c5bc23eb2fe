//! Addresses that escape by an operation other than a copy.
//!
//! Addresses are analysed through copies and additions. Any other operation exposes some of their bits, from which a program can
//! rebuild an address by control flow. An address of code escapes by each such operation. The address of an object escapes only by operations that
//! select any bit: hashes and differences of such addresses are frequent.

/// The addresses that escape by an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exposure {
    /// The operation copies, compares, or shows a tag.
    Nothing,
    /// The addresses of code among its operands escape.
    Code,
    /// All addresses that its operands hold escape.
    Everything,
}

/// The bits of pointer tags, from which alone no address can be formed.
const TAGS: i64 = 15;
/// The number of highest bits from which alone no address can be formed.
const SIGN_BITS: i64 = 4;
/// The bits of an offset in a page.
const IN_PAGE: i64 = 4095;

impl Exposure {
    /// The exposure by a mask. A mask that clears only low bits copies.
    pub(crate) fn of_mask(mask: i64) -> Exposure {
        match mask {
            0..=TAGS => Exposure::Nothing,
            ..0 if mask.unsigned_abs().is_power_of_two() => Exposure::Nothing,
            16..=IN_PAGE => Exposure::Code,
            _ => Exposure::Everything,
        }
    }

    /// The exposure by setting or flipping the bits of a constant.
    pub(crate) fn of_bits(bits: i64) -> Exposure {
        if (0..=TAGS).contains(&bits) { Exposure::Nothing } else { Exposure::Code }
    }

    /// The exposure by a shift to the right of an operand of this many bits. A shift that keeps only the highest bits shows a sign.
    pub(crate) fn of_shift_right(width: u32, by: i64) -> Exposure {
        let highest = i64::from(width) - SIGN_BITS;
        if width >= 32 && by >= highest { Exposure::Nothing } else { Exposure::Code }
    }

    /// The exposure of an operand of this many bits.
    pub(crate) fn of_width(self, bits: u32) -> Exposure {
        if bits == 64 { self } else { self.min(Exposure::Code) }
    }
}
